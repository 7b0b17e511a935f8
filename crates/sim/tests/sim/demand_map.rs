//! DFTL: what a map that is kept on the flash costs, counted by hand, and that it is right.

use std::collections::BTreeSet;

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_sim::flash::{Cause, Flash, FlashGeometry, LogicalPage, Timing, Untimed};
use flashlab_sim::layer::{DemandMap, DemandMapOptions, Exhausted, Layer, PageMapOptions, Pages};

use crate::arrays::resources;

/// One die; blocks of four pages; four entries on a map page.
fn small(blocks: u32, cached_entries: u32) -> (Flash<Untimed>, DemandMap) {
    let geometry = FlashGeometry::new(Bytes(512), 4, 1, blocks, 1, 1).unwrap();
    let page_map = PageMapOptions { logical_pages: 8, ..PageMapOptions::default() };
    let options = DemandMapOptions { page_map, cached_entries, entry_bytes: 128 };
    let layer = DemandMap::new(&geometry, &options).unwrap();
    (Flash::new(geometry, Untimed).with_ledger(8 + options.map_pages(&geometry).unwrap()), layer)
}

fn page(first: u32) -> Pages {
    Pages { first: LogicalPage(first), count: 1 }
}

fn write<T: Timing>(flash: &mut Flash<T>, layer: &mut DemandMap, pages: &[u32]) {
    for &first in pages {
        layer.write(flash, page(first), 0, Nanos::ZERO).unwrap();
    }
}

#[test]
fn misses_read_map_pages_and_dirty_entries_write_them() {
    let (mut flash, mut layer) = small(8, 2);
    // Two entries are cached. The map's pages are not read before they were written: no cost.
    write(&mut flash, &mut layer, &[0, 1]);
    // 0 goes and is dirty: map page 0 is programmed, with 1, which stays. Map 0 read, 1 programmed.
    write(&mut flash, &mut layer, &[4]);
    // 1 goes and is clean. Map page 0 is read. Map 1 read, 1 programmed.
    write(&mut flash, &mut layer, &[0]);
    // 4 goes and is dirty: map page 1 is programmed; page 0 is read. Map 2 read, 2 programmed.
    layer.read(&mut flash, page(1), Nanos::ZERO);
    // A hit.
    write(&mut flash, &mut layer, &[1]);
    // 0 goes and is dirty: map page 0 is read and programmed; page 1 is read. Map 4 read, 3 programmed.
    layer.read(&mut flash, page(4), Nanos::ZERO);
    let counts = flash.counts();
    assert_eq!((counts.pages_programmed(Cause::Host), counts.pages_read(Cause::Host)), (5, 2));
    assert_eq!((counts.pages_programmed(Cause::Map), counts.pages_read(Cause::Map)), (3, 4));
    assert_eq!(counts.erases(), 0);
}

#[test]
fn a_request_reads_each_map_page_once() {
    let (mut flash, mut layer) = small(8, 8);
    write(&mut flash, &mut layer, &[0, 1, 2, 3, 4, 5, 6, 7]);
    layer.power_cut();
    // Nothing was written of the map, so nothing is read; then both map pages go, dirty, one after the other.
    let all = Pages { first: LogicalPage(0), count: 8 };
    layer.write(&mut flash, all, 0, Nanos::ZERO).unwrap();
    assert_eq!(flash.counts().pages_read(Cause::Map), 0);
    let (mut flash, mut layer) = small(12, 4);
    // The entries 4 to 7 evict 0 to 3: map page 0 is programmed once for all four.
    layer.write(&mut flash, all, 0, Nanos::ZERO).unwrap();
    assert_eq!(flash.counts().pages_programmed(Cause::Map), 1);
    // Map page 1 is programmed for 4 to 7, map page 0 is read; then 4 to 7, which are clean, are evicted.
    layer.read(&mut flash, all, Nanos::ZERO);
    assert_eq!(flash.counts().pages_programmed(Cause::Map), 2);
    assert_eq!(flash.counts().pages_read(Cause::Map), 2);
}

#[test]
fn collecting_changes_cached_entries_for_nothing_and_writes_the_others_once() {
    // Blocks A to F. After the writes their valid pages are A 3, B 7, C 2 4, D 6 1, E 5 0, and F is free.
    let load = [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 4, 5, 6, 0, 1, 5, 0, 5, 0];
    // A is collected: 3 moves to F, where 6 goes too. The entry of 3 is cached: the map costs nothing.
    let (mut flash, mut layer) = small(6, 8);
    write(&mut flash, &mut layer, &load);
    assert_eq!(flash.counts().erases(), 0);
    write(&mut flash, &mut layer, &[6]);
    let counts = flash.counts();
    assert_eq!((counts.pages_programmed(Cause::Reclaim), counts.blocks_erased(Cause::Reclaim)), (1, 1));
    assert_eq!((counts.pages_programmed(Cause::Map), counts.pages_read(Cause::Map)), (0, 0));

    // Without the cache 3's map page is written, which takes another block: B is collected, 7 moves, and its map page is
    // written as well. Neither was written before, so neither is read.
    let (mut flash, mut layer) = small(6, 8);
    write(&mut flash, &mut layer, &load);
    layer.power_cut();
    write(&mut flash, &mut layer, &[6]);
    let counts = flash.counts();
    assert_eq!((counts.pages_programmed(Cause::Reclaim), counts.pages_read(Cause::Reclaim)), (2, 2));
    assert_eq!(counts.blocks_erased(Cause::Reclaim), 2);
    assert_eq!((counts.pages_programmed(Cause::Map), counts.pages_read(Cause::Map)), (2, 0));
    assert_eq!(counts.pages_programmed(Cause::Host), 21);
}

fn random_load<T: Timing>(flash: &mut Flash<T>, layer: &mut DemandMap, seed: u64) -> Result<(), Exhausted> {
    let (mut random, mut model) = (Prng::new(Seed(seed)), BTreeSet::new());
    let mut now = Nanos::ZERO;
    let logical = u64::from(layer.pages());
    for _ in 0..20_000 {
        let count = 1 + random.below(8);
        let first = random.below(logical + 1 - count) as u32;
        let pages = Pages { first: LogicalPage(first), count: count as u32 };
        match random.below(100) {
            0..60 => {
                now = layer.write(flash, pages, random.below(2) as u16, now)?;
                model.extend(pages.each());
            }
            60..90 => now = layer.read(flash, pages, now),
            90..99 => {
                layer.trim(flash, pages);
                model.retain(|page| page.0 < first || page.0 >= first + count as u32);
            }
            _ => layer.power_cut(),
        }
    }
    for page in (0..layer.pages()).map(LogicalPage) {
        assert_eq!(layer.holds(page), model.contains(&page), "page {page:?}, seed {seed}");
        layer.read(flash, Pages { first: page, count: 1 }, now);
    }
    Ok(())
}

#[test]
fn every_read_is_right_and_times_change_nothing() {
    for (seed, dies, cached_entries) in [(1, 1, 1), (2, 2, 16), (3, 4, 100), (4, 4, 5000)] {
        let geometry = FlashGeometry::new(Bytes(512), 16, 2, 96, dies, dies.min(2)).unwrap();
        let page_map = PageMapOptions { logical_pages: 1000, streams: 2, ..PageMapOptions::default() };
        let options = DemandMapOptions { page_map, cached_entries, entry_bytes: 8 };
        let all = 1000 + options.map_pages(&geometry).unwrap();
        let mut untimed = Flash::new(geometry, Untimed).with_ledger(all);
        let mut layer = DemandMap::new(&geometry, &options).unwrap();
        random_load(&mut untimed, &mut layer, seed).unwrap();
        assert!(untimed.counts().blocks_erased(Cause::Map) > 0 || cached_entries == 5000, "seed {seed}");

        let mut timed = Flash::new(geometry, resources(&geometry)).with_ledger(all);
        let mut other = DemandMap::new(&geometry, &options).unwrap();
        random_load(&mut timed, &mut other, seed).unwrap();
        assert_eq!((layer, untimed.blocks(), untimed.counts()), (other, timed.blocks(), timed.counts()));
    }
}

#[test]
fn impossible_options_are_refused() {
    let geometry = FlashGeometry::new(Bytes(512), 4, 1, 5, 1, 1).unwrap();
    let error = |change: fn(&mut DemandMapOptions)| {
        let page_map = PageMapOptions { logical_pages: 8, ..PageMapOptions::default() };
        let mut options = DemandMapOptions { page_map, cached_entries: 2, entry_bytes: 128 };
        change(&mut options);
        options.check(&geometry).unwrap_err().to_string()
    };
    insta::assert_snapshot!(error(|options| options.cached_entries = 0), @"`cached_entries` is 0; it may be at least 1");
    insta::assert_snapshot!(error(|options| options.entry_bytes = 513), @"`entry_bytes` is 513; it may be 1 to a page, 512");
    insta::assert_snapshot!(error(|_| ()), @"`logical_pages` is 10; it may be up to 8: die 0 of 1 has 5 blocks of 4 pages, of which 2 are open and 1 in reserve");
}
