//! How long merges take, and when: on one die, by hand; on several, where they overlap unless all fall on one.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_sim::flash::{Background, Die, Flash, FlashGeometry, LogicalPage, Resources};
use flashlab_sim::layer::{Layer, LogBlocks, LogBlocksOptions, Pages};

use crate::arrays;

struct Bench {
    flash: Flash<Resources>,
    layer: LogBlocks,
}

impl Bench {
    /// A layer whose pages are all written, in order.
    fn new(geometry: FlashGeometry, options: &LogBlocksOptions, background: Option<Background>) -> Bench {
        let flash = Flash::new(geometry, Resources::new(&geometry, arrays::times(), background));
        let mut bench = Bench { flash, layer: LogBlocks::new(&geometry, options).unwrap() };
        bench.write(0, options.logical_pages, Nanos::ZERO);
        bench
    }

    fn write(&mut self, first: u32, count: u32, at: Nanos) -> Nanos {
        let pages = Pages { first: LogicalPage(first), count };
        self.layer.write(&mut self.flash, pages, 0, at).unwrap()
    }
}

const SECOND: Nanos = Nanos(1_000_000_000);

#[test]
fn a_merge_that_waits_is_as_much_work_on_a_channel_that_others_use() {
    let background =
        Background { idle_after: SECOND, slice: Nanos::ZERO, read_slice: Nanos::ZERO, max_backlog: 2 };
    // Four dies on one channel.
    let geometry = FlashGeometry::new(Bytes::kib(4), 4, 1, 64, 4, 1).unwrap();
    let options = LogBlocksOptions { logical_pages: 128, logs: 4, ..LogBlocksOptions::default() };
    let mut bench = Bench::new(geometry, &options, Some(background));
    let merge = Nanos::from_micros(4 * 570 + 2 * 2000);
    let mut random = Prng::new(Seed(1));
    for _ in 0..2000 {
        // All at the same time, so that the channel is always in use.
        bench.write(random.below(128) as u32, 1, SECOND);
        for die in 0..4 {
            assert!(
                bench.flash.timing().backlog(Die(die)) <= merge * 2,
                "{}",
                bench.flash.timing().backlog(Die(die))
            );
        }
    }
}

#[test]
fn a_deferred_merge_is_done_while_the_die_is_idle() {
    let background = Background {
        idle_after: Nanos::from_micros(100),
        slice: Nanos::ZERO,
        read_slice: Nanos::ZERO,
        max_backlog: 1,
    };
    for background in [None, Some(background)] {
        let geometry = FlashGeometry::new(Bytes::kib(4), 4, 1, 4, 1, 1).unwrap();
        let options = LogBlocksOptions { logical_pages: 8, logs: 1, ..LogBlocksOptions::default() };
        let mut bench = Bench::new(geometry, &options, background);
        // A page to its log: 10 us over the channel, 500 us to program.
        let write = Nanos::from_micros(510);
        assert_eq!(bench.write(1, 1, SECOND), SECOND + write);
        // The other block needs the log. The merge copies four pages, each 50 us to read, 500 us to program and twice 10 us
        // over the channel, and erases two blocks of 2000 us.
        let merge = Nanos::from_micros(4 * 570 + 2 * 2000);
        let end = bench.write(5, 1, SECOND * 2);
        if background.is_none() {
            assert_eq!(end, SECOND * 2 + merge + write);
            continue;
        }
        // The merge is deferred. The die's idle second before it does not count.
        assert_eq!(end, SECOND * 2 + write);
        assert_eq!(bench.flash.timing().backlog(Die(0)), merge);
        // A second later it is done, and another one is deferred. Only one may be, so the next write waits for it.
        assert_eq!(bench.write(1, 1, SECOND * 3), SECOND * 3 + write);
        assert_eq!(bench.flash.timing().backlog(Die(0)), merge);
        let soon = SECOND * 3 + write;
        assert_eq!(bench.write(5, 1, soon), soon + merge + write);
    }
}

/// How long a write of one page takes in the mean when each begins as the one before it ends, on four dies, with blocks
/// of 64 pages as stripes. `block` chooses the logical block of the write with this number.
fn mean_write(mut block: impl FnMut(u32) -> u32) -> f64 {
    let background =
        Background { idle_after: Nanos::ZERO, slice: Nanos::ZERO, read_slice: Nanos::ZERO, max_backlog: 1 };
    let geometry = FlashGeometry::new(Bytes::kib(4), 64, 1, 4 * 128, 4, 4).unwrap();
    let options = LogBlocksOptions {
        logical_pages: 400 * 64,
        stripe_pages: 64,
        logs: 4,
        ..LogBlocksOptions::default()
    };
    let mut bench = Bench::new(geometry, &options, Some(background));
    let mut now = bench.flash.timing().all_free();
    let mut run = |writes| {
        let begun = now;
        for i in writes {
            now = bench.write(block(i) * 64 + 1, 1, now);
        }
        now.since(begun)
    };
    run(0..500);
    run(500..2500).as_millis_f64() / 2000.0
}

#[test]
fn addresses_that_fall_on_one_die_lose_the_overlap_of_merges() {
    // uFLIP, Table 3, large increments: up to four times the cost of random writes.
    let mut random = Prng::new(Seed(5));
    let all_dies_alternating = mean_write(|i| (i * 5) % 400);
    let at_random = mean_write(|_| random.below(400) as u32);
    let one_die = mean_write(|i| (i * 20) % 400);
    // 64 pages are copied and two blocks erased, as above.
    let merge = (64 * 570 + 2 * 2000) as f64 / 1000.0;
    let cost = one_die / merge;
    assert!((0.98..1.05).contains(&cost), "a write on one die takes {one_die} ms, a merge {merge} ms");
    let overlap = one_die / all_dies_alternating;
    assert!(
        (3.8..4.2).contains(&overlap),
        "{one_die} ms on one die, {all_dies_alternating} ms on four alternating"
    );
    let large_increment = one_die / at_random;
    assert!((1.8..4.0).contains(&large_increment), "{one_die} ms on one die, {at_random} ms at random");
}
