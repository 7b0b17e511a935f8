//! What a page map does besides mapping: it refreshes data, distinguishes hot pages from cold ones, refuses impossible options,
//! and takes little memory.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_sim::flash::{Cause, Counts, Flash, FlashGeometry, LogicalPage, Resources, Timing, Untimed};
use flashlab_sim::layer::{Layer, PageMap, PageMapOptions, Pages, VictimPolicy};

use crate::arrays::resources;

fn pages(first: u32, count: u32) -> Pages {
    Pages { first: LogicalPage(first), count }
}

/// One die of 16 blocks of 16 pages; the first 32 of 100 logical pages were written in order, at the time 0.
fn two_blocks(change: impl FnOnce(&mut PageMapOptions)) -> (Flash<Resources>, PageMap) {
    let geometry = FlashGeometry::new(Bytes::kib(4), 16, 1, 16, 1, 1).unwrap();
    let mut options = PageMapOptions { logical_pages: 100, ..PageMapOptions::default() };
    change(&mut options);
    let mut flash = Flash::new(geometry, resources(&geometry)).with_ledger(100);
    let mut layer = PageMap::new(&geometry, &options).unwrap();
    layer.write(&mut flash, pages(0, 32), 0, Nanos::ZERO).unwrap();
    (flash, layer)
}

/// Pages read and programmed, and blocks erased, to refresh.
fn refreshed(counts: &Counts) -> (u64, u64, u64) {
    let cause = Cause::Refresh;
    (counts.pages_read(cause), counts.pages_programmed(cause), counts.blocks_erased(cause))
}

#[test]
fn a_block_that_is_read_too_often_is_refreshed() {
    let (mut flash, mut layer) = two_blocks(|options| options.refresh_reads = Some(100));
    let read = |flash: &mut Flash<Resources>, layer: &mut PageMap, times| {
        for _ in 0..times {
            layer.read(flash, pages(3, 1), Nanos::ZERO);
        }
    };
    read(&mut flash, &mut layer, 99);
    assert_eq!(refreshed(flash.counts()), (0, 0, 0));
    // The sixteen pages of its block fill another one.
    read(&mut flash, &mut layer, 1);
    assert_eq!(refreshed(flash.counts()), (16, 16, 1));
    // That one counts as open until the next block is begun.
    read(&mut flash, &mut layer, 150);
    assert_eq!(refreshed(flash.counts()), (16, 16, 1));
    layer.write(&mut flash, pages(50, 1), 0, Nanos::ZERO).unwrap();
    read(&mut flash, &mut layer, 1);
    assert_eq!(refreshed(flash.counts()), (32, 32, 2));
    layer.read(&mut flash, pages(0, 100), Nanos::ZERO);
}

#[test]
fn reads_refresh_nothing_unless_asked() {
    let (mut flash, mut layer) = two_blocks(|_| ());
    for _ in 0..10_000 {
        layer.read(&mut flash, pages(3, 1), Nanos::ZERO);
    }
    layer.idle(&mut flash, Nanos::from_secs(1_000_000), Nanos::from_secs(2_000_000));
    assert_eq!(flash.counts().programs(), 32);
}

#[test]
fn old_data_is_written_again_while_the_host_rests() {
    let hour = Nanos::from_secs(3600);
    let (mut flash, mut layer) = two_blocks(|options| options.retention = Some(hour));
    let just_before = Nanos(hour.0 - 1);
    layer.idle(&mut flash, Nanos::from_secs(1), just_before);
    assert_eq!(refreshed(flash.counts()), (0, 0, 0));
    // Moving a block takes 16 reads of 50 us, 16 programs of 500 us, transfers and an erase: more than 1 ms.
    layer.idle(&mut flash, hour, hour + Nanos::from_millis(1));
    assert_eq!(refreshed(flash.counts()), (16, 16, 1));
    // The second block was begun 8 ms after the first one.
    layer.idle(&mut flash, hour + Nanos::from_millis(20), hour + hour);
    assert_eq!(refreshed(flash.counts()), (32, 32, 2));
    // Both are fresh again, for an hour.
    layer.idle(&mut flash, Nanos::from_secs(7000), Nanos::from_secs(7100));
    assert_eq!(refreshed(flash.counts()), (32, 32, 2));
    layer.idle(&mut flash, Nanos::from_secs(8000), Nanos::from_secs(8100));
    assert_eq!(refreshed(flash.counts()), (64, 64, 4));
    layer.read(&mut flash, pages(0, 100), Nanos::ZERO);
}

/// Random writes and reads, four in five to a fifth of the pages; then reads everything.
fn random_load<T: Timing>(flash: &mut Flash<T>, layer: &mut PageMap, seed: u64) {
    let mut random = Prng::new(Seed(seed));
    let fifth = u64::from(layer.pages() / 5);
    let mut now = Nanos::ZERO;
    for _ in 0..20_000 {
        let first = match random.below(5) {
            0 => fifth + random.below(4 * fifth),
            _ => random.below(fifth),
        };
        let run = pages(first as u32, 1 + random.below(u64::from(layer.pages()) - first).min(6) as u32);
        now = match random.below(3) {
            0 => layer.write(flash, run, 0, now).unwrap(),
            _ => layer.read(flash, run, now),
        };
    }
    layer.read(flash, pages(0, layer.pages()), now);
}

#[test]
fn with_everything_at_once_every_read_is_right_and_times_change_nothing() {
    for (seed, policy) in [
        (1, VictimPolicy::Greedy),
        (2, VictimPolicy::Fifo),
        (3, VictimPolicy::CostBenefit),
        (4, VictimPolicy::Choices(3)),
    ] {
        let geometry = FlashGeometry::new(Bytes::kib(4), 16, 2, 96, 3, 2).unwrap();
        let options = PageMapOptions {
            logical_pages: 1000,
            policy,
            hot_within: Some(300),
            collect_apart: true,
            wear_spread: Some(8),
            refresh_reads: Some(40),
            ..PageMapOptions::default()
        };
        let mut untimed = Flash::new(geometry, Untimed).with_ledger(1000);
        let mut layer = PageMap::new(&geometry, &options).unwrap();
        random_load(&mut untimed, &mut layer, seed);
        for cause in [Cause::Reclaim, Cause::Refresh, Cause::WearLevelling] {
            // The other policies collect every block repeatedly, which levels the wear by itself.
            let levelled = policy != VictimPolicy::Greedy && cause == Cause::WearLevelling;
            assert!(levelled || untimed.counts().blocks_erased(cause) > 10, "{cause:?}, {policy:?}");
        }
        let mut timed = Flash::new(geometry, resources(&geometry)).with_ledger(1000);
        let mut other = PageMap::new(&geometry, &options).unwrap();
        random_load(&mut timed, &mut other, seed);
        assert!(layer == other, "seed {seed}: times changed the layer");
        assert_eq!((untimed.blocks(), untimed.counts()), (timed.blocks(), timed.counts()), "seed {seed}");
    }
}

/// Write amplification under 80/20 of a map over one die of 64-page blocks, alpha 0.9.
fn hot_and_cold(policy: VictimPolicy, hot_within: Option<u32>) -> f64 {
    let geometry = FlashGeometry::new(Bytes::kib(4), 64, 1, 2048, 1, 1).unwrap();
    let logical = (0.9 * 2047.0 * 64.0) as u32;
    let options = PageMapOptions { logical_pages: logical, policy, hot_within, ..PageMapOptions::default() };
    let mut flash = Flash::new(geometry, Untimed);
    let mut layer = PageMap::new(&geometry, &options).unwrap();
    layer.write(&mut flash, pages(0, logical), 0, Nanos::ZERO).unwrap();
    let mut random = Prng::new(Seed(11));
    let hot = u64::from(logical / 5);
    let mut write = |flash: &mut Flash<Untimed>, count: u32| {
        for _ in 0..count {
            let page = match random.below(5) {
                0 => hot + random.below(u64::from(logical) - hot),
                _ => random.below(hot),
            };
            layer.write(flash, pages(page as u32, 1), 0, Nanos::ZERO).unwrap();
        }
    };
    write(&mut flash, 8 * logical);
    let before = flash.counts().clone();
    write(&mut flash, 8 * logical);
    flash.counts().since(&before).write_amplification().unwrap()
}

#[test]
fn hot_pages_in_a_stream_of_their_own_cost_less() {
    // A hot page is rewritten after a quarter of the logical pages on average, a cold one after four times as many.
    let within = Some((0.9 * 2047.0 * 64.0) as u32);
    let [mixed, apart] = [None, within].map(|within| hot_and_cold(VictimPolicy::CostBenefit, within));
    // Greedy takes hot and cold blocks at the same number of valid pages, so that it gains little.
    let [greedy_mixed, greedy_apart] =
        [None, within].map(|within| hot_and_cold(VictimPolicy::Greedy, within));
    let message = format!(
        "write amplification under 80/20, alpha 0.9, in one stream and with hot pages in a stream of their own: cost-benefit {mixed:.3} \
         and {apart:.3}, greedy {greedy_mixed:.3} and {greedy_apart:.3}"
    );
    println!("{message}");
    assert!(apart < 0.85 * mixed && apart < 0.9 * greedy_mixed && greedy_apart < greedy_mixed, "{message}");
}

#[test]
fn a_page_map_takes_less_than_nine_bytes_a_page() {
    let geometry = FlashGeometry::new(Bytes::kib(4), 256, 1, 4096, 4, 4).unwrap();
    for policy in
        [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::CostBenefit, VictimPolicy::Choices(4)]
    {
        let options =
            PageMapOptions { logical_pages: 4080 * 256 - 8192, policy, ..PageMapOptions::default() };
        let mut flash = Flash::new(geometry, Untimed);
        let mut layer = PageMap::new(&geometry, &options).unwrap();
        layer.write(&mut flash, pages(0, layer.pages()), 0, Nanos::ZERO).unwrap();
        let bytes = layer.memory().0 as f64 / f64::from(geometry.pages());
        println!("{policy:?}: {bytes:.3} bytes for each physical page");
        assert!((8.0..9.0).contains(&bytes), "{policy:?}: {bytes} bytes for each physical page");
    }
}

#[test]
fn impossible_options_are_refused() {
    let geometry = FlashGeometry::new(Bytes::kib(4), 16, 1, 64, 2, 2).unwrap();
    let error = |change: fn(&mut PageMapOptions)| {
        let mut options = PageMapOptions { logical_pages: 800, ..PageMapOptions::default() };
        change(&mut options);
        PageMap::new(&geometry, &options).unwrap_err().to_string()
    };
    insta::assert_snapshot!(error(|options| options.logical_pages = 1000), @"`logical_pages` is 1000; it may be up to 960: die 0 of 2 has 32 blocks of 16 pages, of which 1 are open and 1 in reserve");
    insta::assert_snapshot!(error(|options| options.high_watermark = 6), @"`high_watermark` is 6; it may be up to 3, as die 0 has 5 blocks to spare");
    insta::assert_snapshot!(error(|options| options.shares = Some(vec![0.5, 0.5])), @"`shares` is 2; it may be 1, a positive number for each stream, with a sum of at most 1: it is 1");
    insta::assert_snapshot!(error(|options| options.shares = Some(vec![1.5])), @"`shares` is 1; it may be 1, a positive number for each stream, with a sum of at most 1: it is 1.5");
}
