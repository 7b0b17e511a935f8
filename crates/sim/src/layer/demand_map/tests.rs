//! After every request, what the map pages say and what the cache corrects is the whole map.

use flashlab_base::{Bytes, Prng, Seed};

use super::*;
use crate::flash::Untimed;
use crate::layer::page_map::{PageMapOptions, Striping, VictimPolicy};

impl DemandMap {
    pub(super) fn note_on_flash(&mut self, pages: Pages) {
        for page in pages.each() {
            self.on_flash[page.index()] = self.pages.place(page);
        }
    }

    fn assert_map_is_known(&self) {
        for page in (0..self.host_pages).map(LogicalPage) {
            let stale = self.stale[self.map_page(page).index()];
            if !self.cache.is_dirty(page) && !stale && !self.is_superseded(page) {
                assert_eq!(self.on_flash[page.index()], self.pages.place(page), "the entry of page {page}");
            }
            assert!(!self.cache.is_dirty(page) || self.cache.contains(page), "page {page}");
        }
    }
}

#[test]
fn an_entry_is_on_the_flash_or_dirty_in_the_cache() {
    for (seed, cached_entries) in [(1, 1), (2, 7), (3, 40), (4, 1000)] {
        let geometry = FlashGeometry::new(Bytes(512), 8, 1, 64, 2, 2).unwrap();
        let page_map = PageMapOptions { logical_pages: 300, ..PageMapOptions::default() };
        let options = DemandMapOptions { page_map, cached_entries, entry_bytes: 64 };
        let mut flash = Flash::new(geometry, Untimed);
        let mut layer = DemandMap::new(&geometry, &options).unwrap();
        let mut random = Prng::new(Seed(seed));
        for _ in 0..5000 {
            let count = 1 + random.below(6) as u32;
            let first = LogicalPage(random.below(u64::from(301 - count)) as u32);
            let pages = Pages { first, count };
            match random.below(100) {
                0..70 => {
                    layer.write(&mut flash, pages, 0, Nanos::ZERO).unwrap();
                    assert!(layer.queue.is_empty(), "seed {seed}: map pages are queued after a write");
                }
                70..90 => {
                    layer.read(&mut flash, pages, Nanos::ZERO);
                }
                90..95 => layer.trim(&mut flash, pages),
                95..99 => layer.supersede(&mut flash, pages),
                _ => layer.power_cut(),
            }
            layer.assert_map_is_known();
        }
        assert!(flash.counts().erases() > 100, "seed {seed}: nothing was collected");
    }
}

/// A page whose newer version lies in an SLC cache takes no map page. When the newer one is trimmed, the map says that both are gone.
#[test]
fn a_superseded_page_takes_no_map_page_until_it_is_trimmed() {
    let geometry = FlashGeometry::new(Bytes(512), 8, 1, 64, 2, 2).unwrap();
    let page_map = PageMapOptions { logical_pages: 300, ..PageMapOptions::default() };
    let options = DemandMapOptions { page_map, cached_entries: 8, entry_bytes: 64 };
    let mut flash = Flash::new(geometry, Untimed);
    let mut layer = DemandMap::new(&geometry, &options).unwrap();
    for first in (0..300).step_by(4).map(LogicalPage) {
        layer.write(&mut flash, Pages { first, count: 4 }, 0, Nanos::ZERO).unwrap();
    }
    let map_pages = |flash: &Flash<Untimed>| flash.counts().pages_programmed(Cause::Map);
    let before = map_pages(&flash);
    layer.supersede(&mut flash, Pages { first: LogicalPage(0), count: 1 });
    assert!(!layer.holds(LogicalPage(0)));
    layer.idle(&mut flash, Nanos::ZERO, Nanos::ZERO);
    assert_eq!(map_pages(&flash), before);
    layer.trim(&mut flash, Pages { first: LogicalPage(0), count: 1 });
    layer.idle(&mut flash, Nanos::ZERO, Nanos::ZERO);
    assert_eq!(map_pages(&flash), before + 1);
    layer.assert_map_is_known();
    assert!(!layer.is_superseded(LogicalPage(0)));
}

#[test]
fn what_would_move_data_for_ever_is_refused() {
    let geometry = FlashGeometry::new(Bytes::kib(8), 16, 1, 16 * 150, 16, 8).unwrap();
    let check = |policy, logical_pages| {
        let page_map = PageMapOptions { logical_pages, policy, ..PageMapOptions::default() };
        DemandMapOptions { page_map, cached_entries: 3912, entry_bytes: 8 }.check(&geometry)
    };
    // This one ended in random writes, after 45 391 of them.
    let refused = check(VictimPolicy::Choices(4), 35_726).unwrap_err();
    assert_eq!(refused.key, "cached_entries");
    assert!(refused.legal.contains("0.0 % of the blocks to spare on the fullest die"), "{}", refused.legal);
    assert!(check(VictimPolicy::Fifo, 35_726).is_err());
    check(VictimPolicy::Greedy, 35_726).unwrap();
    check(VictimPolicy::Choices(4), 28_000).unwrap();
}

/// Eight dies with 4 blocks to spare on average. In write order the fullest die has none of them at times: this device moved data
/// for ever after some 20,000 random writes, although the average die gains blocks.
#[test]
fn the_fullest_die_counts_in_write_order() {
    let geometry = FlashGeometry::new(Bytes::kib(16), 16, 1, 8 * 54, 8, 1).unwrap();
    let check = |striping| {
        let policy = VictimPolicy::Choices(4);
        let page_map = PageMapOptions { logical_pages: 5917, policy, striping, ..PageMapOptions::default() };
        DemandMapOptions { page_map, cached_entries: 1040, entry_bytes: 4 }.check(&geometry)
    };
    check(Striping::Static).unwrap();
    assert_eq!(check(Striping::WriteOrder).unwrap_err().key, "cached_entries");
}
