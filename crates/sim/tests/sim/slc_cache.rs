//! The SLC cache: the cost of folding, counted by hand; the cliff when it is full; nothing is lost.

use std::collections::BTreeSet;
use std::fmt::Debug;

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_sim::flash::{Cause, Flash, FlashGeometry, LogicalPage, Timing, Untimed};
use flashlab_sim::layer::{
    DemandMap, DemandMapOptions, Layer, LogBlocks, LogBlocksOptions, PageMap, PageMapOptions, Pages,
    SlcCache, SlcCacheOptions,
};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::arrays::resources;

fn pages(first: u32, count: u32) -> Pages {
    Pages { first: LogicalPage(first), count }
}

fn page_map(geometry: &FlashGeometry, logical_pages: u32) -> PageMap {
    PageMap::new(geometry, &PageMapOptions { logical_pages, ..PageMapOptions::default() }).unwrap()
}

/// One die, blocks of four pages, of which two are fast; 16 logical pages.
fn small(options: &SlcCacheOptions) -> (Flash<Untimed>, SlcCache<PageMap>) {
    with_slc_blocks(2, options)
}

fn with_slc_blocks(fast: u32, options: &SlcCacheOptions) -> (Flash<Untimed>, SlcCache<PageMap>) {
    let geometry = FlashGeometry::new(Bytes::kib(4), 4, 1, 12, 1, 1).unwrap().with_slc_blocks(fast).unwrap();
    let layer = SlcCache::new(&geometry, page_map(&geometry, 16), options).unwrap();
    (Flash::new(geometry, Untimed).with_ledger(16), layer)
}

fn write(flash: &mut Flash<Untimed>, layer: &mut SlcCache<PageMap>, all: &[u32]) {
    for &page in all {
        layer.write(flash, pages(page, 1), 0, Nanos::ZERO).unwrap();
    }
}

/// Pages read and programmed, and blocks erased, to fold.
fn folded(flash: &Flash<Untimed>) -> (u64, u64, u64) {
    let counts = flash.counts();
    (counts.pages_read(Cause::Fold), counts.pages_programmed(Cause::Fold), counts.blocks_erased(Cause::Fold))
}

#[test]
fn a_full_region_folds_its_oldest_block() {
    let (mut flash, mut layer) = small(&SlcCacheOptions::default());
    write(&mut flash, &mut layer, &[0, 1, 2, 3, 9, 5, 6, 7]);
    assert_eq!(folded(&flash), (0, 0, 0));
    assert!(!layer.behind().holds(LogicalPage(0)));
    // Pages 0 to 3 move, page 4 takes their block. With the first page of four goes the first of 9, 5, 6, 7.
    write(&mut flash, &mut layer, &[4]);
    assert_eq!(folded(&flash), (5, 5, 1));
    assert!(layer.behind().holds(LogicalPage(3)) && layer.behind().holds(LogicalPage(9)));
    assert!(!layer.behind().holds(LogicalPage(5)));
    // Page 0 is overwritten in the region, so the layer behind forgets it. 5 goes with 6 and 7 behind it.
    write(&mut flash, &mut layer, &[0, 10, 11]);
    assert!(!layer.behind().holds(LogicalPage(0)));
    assert_eq!(folded(&flash), (8, 8, 1));
    // The block of 9, 5, 6, 7 is empty and erased. 4, 0, 10, 11 is the oldest one now, and 4 goes.
    write(&mut flash, &mut layer, &[12]);
    assert_eq!(folded(&flash), (9, 9, 2));
    assert_eq!(flash.counts().pages_programmed(Cause::Host), 13);
}

#[test]
fn what_was_overwritten_or_trimmed_is_dropped() {
    let (mut flash, mut layer) = small(&SlcCacheOptions::default());
    write(&mut flash, &mut layer, &[0, 1, 0, 1, 0, 1, 2, 3]);
    layer.trim(&mut flash, pages(0, 1));
    assert!(!layer.holds(LogicalPage(0)));
    write(&mut flash, &mut layer, &[4]);
    // The second block has 1, 2 and 3 left, and 4 follows them, but in the next block of four.
    assert_eq!(folded(&flash), (3, 3, 1));
    write(&mut flash, &mut layer, &[5, 6, 7]);
    assert_eq!(folded(&flash), (3, 3, 1));
    // The second block is empty and erased, and 4 to 7 go with the first page after them.
    write(&mut flash, &mut layer, &[8]);
    assert_eq!(folded(&flash), (7, 7, 2));
}

#[test]
fn sequential_data_may_go_past_the_region() {
    let (mut flash, mut layer) = small(&SlcCacheOptions { bypass_from: Some(3), ..Default::default() });
    // 8 and 9 go to the region, the run of 8 to 10 is long enough: 10 goes past it, and so do 11 and 12.
    write(&mut flash, &mut layer, &[8, 9, 10, 11, 12, 3]);
    let past: Vec<u32> = (0..16).filter(|&page| layer.behind().holds(LogicalPage(page))).collect();
    assert_eq!(past, [10, 11, 12]);
    // What goes past replaces what the region has.
    layer.write(&mut flash, pages(7, 4), 0, Nanos::ZERO).unwrap();
    let past: Vec<u32> = (0..16).filter(|&page| layer.behind().holds(LogicalPage(page))).collect();
    assert_eq!(past, [7, 8, 9, 10, 11, 12]);
    layer.read(&mut flash, pages(0, 16), Nanos::ZERO);
    assert_eq!(flash.counts().pages_read(Cause::Host), 7);
}

#[test]
fn a_rest_makes_as_many_free_blocks_as_it_is_told() {
    for (idle_reclaim_blocks, expected, folds) in [(u32::MAX, 3, 12), (2, 2, 8), (0, 0, 0)] {
        let options = SlcCacheOptions { idle_reclaim_blocks, ..Default::default() };
        let (mut flash, mut layer) = with_slc_blocks(4, &options);
        // Three full blocks, and a page in the fourth.
        write(&mut flash, &mut layer, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14]);
        layer.idle(&mut flash, Nanos::ZERO, Nanos::from_secs(1));
        assert_eq!(
            (layer.free_blocks(), folded(&flash).1),
            (expected, folds),
            "refill {idle_reclaim_blocks}"
        );
    }
}

/// 64 pages of 4 KiB in a block, four dies, 32 fast blocks of 2048 pages.
fn large() -> (Flash<impl Timing>, SlcCache<PageMap>) {
    let geometry = FlashGeometry::new(Bytes::kib(4), 64, 1, 256, 4, 4).unwrap().with_slc_blocks(32).unwrap();
    let behind = page_map(&geometry, 10_000);
    let layer = SlcCache::new(&geometry, behind, &SlcCacheOptions::default()).unwrap();
    (Flash::new(geometry, resources(&geometry)), layer)
}

#[test]
fn sustained_writes_fall_off_a_cliff_and_a_pause_brings_the_speed_back() {
    let (mut flash, mut layer) = large();
    let (mut now, mut next) = (Nanos::ZERO, 0);
    let mut microseconds_a_page =
        |flash: &mut _, layer: &mut SlcCache<PageMap>, now: &mut Nanos, count: u32| {
            let start = *now;
            for _ in 0..count / 16 {
                *now = layer.write(flash, pages(next, 16), 0, *now).unwrap();
                next = (next + 16) % 9984;
            }
            now.since(start).0 as f64 / 1e3 / f64::from(count)
        };
    let fresh = microseconds_a_page(&mut flash, &mut layer, &mut now, 1024);
    microseconds_a_page(&mut flash, &mut layer, &mut now, 2048);
    let full = microseconds_a_page(&mut flash, &mut layer, &mut now, 2048);
    let pause = now + Nanos::from_secs(10);
    layer.idle(&mut flash, now, pause);
    now = pause;
    let after_idle = microseconds_a_page(&mut flash, &mut layer, &mut now, 1024);
    // A program of 100 us and a transfer of 10 us on four dies, or those of the slow cells, a read and an erase as well.
    assert_eq!(fresh, 27.5);
    assert!((4.0 * fresh..12.0 * fresh).contains(&full), "{full} us a page when the region is full");
    assert_eq!(after_idle, fresh);
}

fn random_load<L: Layer, T: Timing>(
    flash: &mut Flash<T>,
    layer: &mut SlcCache<L>,
    seed: u64,
    has_idle_times: bool,
) {
    let (mut random, mut model) = (Prng::new(Seed(seed)), BTreeSet::new());
    let (mut now, mut next) = (Nanos::ZERO, 0);
    for _ in 0..10_000 {
        let count = 1 + random.below(24) as u32 / 4;
        let first = random.below(u64::from(layer.pages() + 1 - count)) as u32;
        let first = if random.below(2) == 0 && next + count <= layer.pages() { next } else { first };
        match random.below(100) {
            0..65 => {
                now = layer.write(flash, pages(first, count), 0, now).unwrap();
                model.extend(first..first + count);
                next = first + count;
            }
            65..90 => now = layer.read(flash, pages(first, count), now),
            90..97 => {
                layer.trim(flash, pages(first, count));
                model.retain(|page| !(first..first + count).contains(page));
            }
            97..99 if has_idle_times => {
                let until = now + Nanos::from_millis(random.below(50));
                layer.idle(flash, now, until);
                now = until;
            }
            _ => layer.power_cut(),
        }
    }
    for page in 0..layer.pages() {
        assert_eq!(layer.holds(LogicalPage(page)), model.contains(&page), "page {page}, seed {seed}");
        layer.read(flash, pages(page, 1), now);
    }
}

/// In front of any layer: all reads are right, with idle times too, and times change nothing.
fn nothing_is_lost<L: Layer + Clone + Debug + PartialEq + Serialize + DeserializeOwned>(
    geometry: FlashGeometry,
    ledger: u32,
    behind: L,
) {
    for (seed, bypass_from) in [(1, None), (2, Some(12))] {
        let options = SlcCacheOptions { bypass_from, ..Default::default() };
        let fresh = SlcCache::new(&geometry, behind.clone(), &options).unwrap();
        let (mut layer, mut other) = (fresh.clone(), fresh.clone());
        let mut untimed = Flash::new(geometry, Untimed).with_ledger(ledger);
        random_load(&mut untimed, &mut layer, seed, false);
        assert!(untimed.counts().pages_programmed(Cause::Fold) > 1000);
        let mut timed = Flash::new(geometry, resources(&geometry)).with_ledger(ledger);
        random_load(&mut timed, &mut other, seed, false);
        assert!(layer == other, "seed {seed}: times changed the layer");
        assert_eq!((untimed.blocks(), untimed.counts()), (timed.blocks(), timed.counts()), "seed {seed}");

        let mut loaded: SlcCache<L> = serde_json::from_slice(&serde_json::to_vec(&layer).unwrap()).unwrap();
        assert_eq!(loaded.complete(&options, &untimed, |_| Ok(())), Ok(()), "seed {seed}");
        assert!(loaded == layer, "seed {seed}: saved and loaded");
        let small = geometry.with_slc_blocks(geometry.slc_blocks() - 1).unwrap();
        let other = loaded.complete(&options, &Flash::new(small, Untimed), |_| Ok(()));
        assert_eq!(other, Err("the SLC cache is that of another device".to_owned()), "seed {seed}");
        let damaged = loaded.complete(&options, &untimed, |_| Err("no".to_owned()));
        assert_eq!(damaged, Err("no".to_owned()), "seed {seed}: the layer behind is damaged");

        let mut idling = fresh;
        let mut timed = Flash::new(geometry, resources(&geometry)).with_ledger(ledger);
        random_load(&mut timed, &mut idling, seed, true);
    }
}

#[test]
fn nothing_is_lost_in_front_of_any_layer() {
    for (dies, planes, fast) in [(1, 1, 3), (4, 2, 16), (4, 1, 2)] {
        let geometry = FlashGeometry::new(Bytes::kib(4), 16, planes, 128, dies, dies.min(2)).unwrap();
        let geometry = geometry.with_slc_blocks(fast).unwrap();
        nothing_is_lost(geometry, 1000, page_map(&geometry, 1000));
        let page_map = PageMapOptions { logical_pages: 1000, ..PageMapOptions::default() };
        let options = DemandMapOptions { page_map, cached_entries: 64, entry_bytes: 64 };
        let ledger = 1000 + options.map_pages(&geometry).unwrap();
        nothing_is_lost(geometry, ledger, DemandMap::new(&geometry, &options).unwrap());
        let options = LogBlocksOptions { logical_pages: 1024, ..LogBlocksOptions::default() };
        nothing_is_lost(geometry, 1024, LogBlocks::new(&geometry, &options).unwrap());
    }
}

#[test]
fn an_array_without_slc_blocks_has_no_slc_cache() {
    let geometry = FlashGeometry::new(Bytes::kib(4), 4, 1, 10, 1, 1).unwrap();
    let behind = page_map(&geometry, 16);
    let error = SlcCache::new(&geometry, behind, &SlcCacheOptions::default()).unwrap_err().to_string();
    insta::assert_snapshot!(error, @"`slc_blocks` is 0; it may be at least 1 that is not bad from the factory, for an SLC cache");
}
