//! Blocks wear out, are bad from the factory, are levelled; reads are tried again.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_sim::flash::{Cause, EraseBlock, Flash, FlashGeometry, LogicalPage, Reliability, Untimed};
use flashlab_sim::layer::{Exhausted, Layer, PageMap, PageMapOptions, Pages, SlcCache, SlcCacheOptions};

use crate::arrays::resources;

fn page(first: u32) -> Pages {
    Pages { first: LogicalPage(first), count: 1 }
}

/// 16 pages in a block, two dies of 32 blocks; 600 of 1024 pages are logical.
fn geometry() -> FlashGeometry {
    FlashGeometry::new(Bytes::kib(4), 16, 1, 64, 2, 2).unwrap()
}

const LOGICAL: u32 = 600;

/// Writes all pages, then random ones of the first tenth until `count` are done or one is refused: the others are cold.
fn write_hot_and_cold<L: Layer>(
    flash: &mut Flash<Untimed>,
    layer: &mut L,
    count: u64,
    seed: u64,
) -> Result<(), (u64, Exhausted)> {
    let mut random = Prng::new(Seed(seed));
    for page_number in 0..layer.pages() {
        layer.write(flash, page(page_number), 0, Nanos::ZERO).map_err(|error| (0, error))?;
    }
    let hot = u64::from(layer.pages() / 10);
    for done in 0..count {
        let number = random.below(hot) as u32;
        layer.write(flash, page(number), 0, Nanos::ZERO).map_err(|error| (done, error))?;
    }
    Ok(())
}

/// How far the erases of the blocks lie apart.
fn spread(flash: &Flash<Untimed>) -> (u32, u32) {
    let erases = || flash.blocks().iter().map(|block| block.erases);
    (erases().min().unwrap(), erases().max().unwrap())
}

fn worn_by(options: &PageMapOptions) -> (u32, u32) {
    let geometry = geometry();
    let mut flash = Flash::new(geometry, Untimed).with_ledger(LOGICAL);
    let mut layer = PageMap::new(&geometry, options).unwrap();
    write_hot_and_cold(&mut flash, &mut layer, 200_000, 3).unwrap();
    spread(&flash)
}

#[test]
fn wear_levelling_brings_the_erases_together() {
    let none = PageMapOptions {
        logical_pages: LOGICAL,
        collect_apart: true,
        level_free_blocks: false,
        ..PageMapOptions::default()
    };
    let dynamic = PageMapOptions { level_free_blocks: true, ..none.clone() };
    let both = PageMapOptions { wear_spread: Some(20), ..dynamic.clone() };
    let spread = |(least, most): (u32, u32)| most - least;
    let (none, dynamic, both) = (worn_by(&none), worn_by(&dynamic), worn_by(&both));
    println!(
        "erases of the least and most worn block: {none:?} unlevelled, {dynamic:?} free blocks levelled, {both:?} data moved as well"
    );
    assert!(spread(dynamic) < spread(none), "{dynamic:?} with levelled free blocks, {none:?} without");
    assert!(spread(both) < spread(dynamic) / 3, "{both:?} with static levelling, {dynamic:?} without");
    // A block that lags by more than 20 moves when the next block of its die has an even ten of erases.
    assert!(spread(both) <= 40, "{both:?}");
}

#[test]
fn levelling_counts_what_it_moves() {
    let geometry = geometry();
    let options =
        PageMapOptions { logical_pages: LOGICAL, wear_spread: Some(20), ..PageMapOptions::default() };
    let mut flash = Flash::new(geometry, Untimed).with_ledger(LOGICAL);
    let mut layer = PageMap::new(&geometry, &options).unwrap();
    write_hot_and_cold(&mut flash, &mut layer, 50_000, 3).unwrap();
    let counts = flash.counts();
    let moved = counts.pages_programmed(Cause::WearLevelling);
    assert!(moved > 0);
    assert_eq!(moved, counts.pages_read(Cause::WearLevelling));
    assert!(counts.blocks_erased(Cause::WearLevelling) * 16 >= moved);
}

#[test]
fn bad_blocks_are_never_used() {
    let geometry = geometry();
    let reliability =
        Reliability { factory_bad_per_million: 100_000, seed: Seed(4), ..Reliability::default() };
    let bad: Vec<EraseBlock> =
        (0..64).map(EraseBlock).filter(|&block| reliability.factory_bad(block)).collect();
    assert!((3..12).contains(&bad.len()), "{bad:?}");
    let options = PageMapOptions {
        logical_pages: LOGICAL,
        reliability: Some(reliability),
        ..PageMapOptions::default()
    };
    let mut flash = Flash::new(geometry, Untimed).with_ledger(LOGICAL).with_reliability(reliability);
    let mut layer = PageMap::new(&geometry, &options).unwrap();
    write_hot_and_cold(&mut flash, &mut layer, 20_000, 1).unwrap();
    for (block, state) in (0..).map(EraseBlock).zip(flash.blocks()) {
        assert_eq!(state.erases == 0 && state.written == 0, bad.contains(&block), "block {block}");
    }
}

#[test]
fn a_device_that_has_no_spare_block_left_can_only_be_read() {
    let geometry = geometry();
    let reliability =
        Reliability { endurance: 100, endurance_spread_percent: 20, seed: Seed(1), ..Reliability::default() };
    let options = PageMapOptions {
        logical_pages: LOGICAL,
        reliability: Some(reliability),
        wear_spread: Some(10),
        ..PageMapOptions::default()
    };
    for seed in 0..20 {
        let mut flash = Flash::new(geometry, Untimed).with_ledger(LOGICAL).with_reliability(reliability);
        let mut layer = PageMap::new(&geometry, &options).unwrap();
        let (written, error) = write_hot_and_cold(&mut flash, &mut layer, 10_000_000, seed).unwrap_err();
        let message = error.to_string();
        assert!(message.ends_with("have failed that the device can only be read"), "{message}");
        // 64 blocks of 16 pages, 100 times, and not less than a quarter of that for the host.
        assert!((25_000..102_400).contains(&written), "{written} pages were written, seed {seed}");
        let failed: Vec<EraseBlock> = (0..64).map(EraseBlock).filter(|&block| flash.failed(block)).collect();
        assert!(
            failed.iter().all(|&block| flash.block(block).erases == reliability.cycles(block, false) + 1)
        );
        // A die has 32 blocks; it needs 19 for its data, one open and four in reserve: nine failures are too many.
        let on_die = |die: u32| failed.iter().filter(|&block| block.0 % 2 == die).count();
        assert_eq!(on_die(0).max(on_die(1)), 9, "seed {seed}");
        for number in 0..LOGICAL {
            assert!(layer.holds(LogicalPage(number)));
            layer.read(&mut flash, page(number), Nanos::ZERO);
            assert!(layer.write(&mut flash, page(number), 0, Nanos::ZERO).is_err());
        }
        layer.idle(&mut flash, Nanos::ZERO, Nanos::from_secs(1000));
        layer.read(&mut flash, Pages { first: LogicalPage(0), count: LOGICAL }, Nanos::ZERO);
    }
}

#[test]
fn an_slc_cache_whose_blocks_have_failed_is_bypassed() {
    let geometry = geometry().with_slc_blocks(4).unwrap();
    let reliability = Reliability { slc_endurance: 5, ..Reliability::default() };
    let behind = PageMapOptions {
        logical_pages: LOGICAL,
        reliability: Some(reliability),
        ..PageMapOptions::default()
    };
    let behind = PageMap::new(&geometry, &behind).unwrap();
    let mut layer = SlcCache::new(&geometry, behind, &SlcCacheOptions::default()).unwrap();
    let mut flash = Flash::new(geometry, Untimed).with_ledger(LOGICAL).with_reliability(reliability);
    write_hot_and_cold(&mut flash, &mut layer, 3000, 1).unwrap();
    assert_eq!(flash.counts().blocks_erased(Cause::Fold), 4 * 6);
    layer.read(&mut flash, Pages { first: LogicalPage(0), count: LOGICAL }, Nanos::ZERO);
}

#[test]
fn worn_flash_needs_read_retries() {
    let geometry = geometry();
    let reliability =
        Reliability { retries_worn_per_million: 1_000_000, seed: Seed(9), ..Reliability::default() };
    let options = PageMapOptions { logical_pages: LOGICAL, ..PageMapOptions::default() };
    let read_all = |erases: u32| {
        let mut flash = Flash::new(geometry, resources(&geometry)).with_reliability(reliability);
        let mut layer = PageMap::new(&geometry, &options).unwrap();
        for block in (0..64).map(EraseBlock) {
            for _ in 0..erases {
                flash.erase(block, Cause::Host, Nanos::ZERO);
            }
        }
        let all = Pages { first: LogicalPage(0), count: LOGICAL };
        let start = layer.write(&mut flash, all, 0, Nanos::from_secs(100)).unwrap();
        let mut now = start;
        for number in 0..LOGICAL {
            now = layer.read(&mut flash, page(number), now);
        }
        (flash.counts().read_retries, now.since(start))
    };
    let one = Nanos::from_micros(60);
    assert_eq!(read_all(0), (0, one * u64::from(LOGICAL)));
    for erases in [1500, 3000] {
        let (retries, time) = read_all(erases);
        assert_eq!(time, one * (u64::from(LOGICAL) + retries));
        let expected = f64::from(LOGICAL) * f64::from(erases) / 3000.0;
        assert!((retries as f64 / expected - 1.0).abs() < 0.15, "{retries} for {expected} after {erases}");
    }
}
