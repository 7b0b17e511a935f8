//! The host's CPU time for a random write of one page, by translation layer, with times computed:
//! `cargo run --release -p flashlab-sim --example layer_speed`.
//!
//! 1 GiB of 4 KiB pages in blocks of 64 on 4 dies, written once in order and then at random until the layer is in its
//! steady state. The best of many short rounds counts, since other programs may run.

use std::time::Instant;

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_sim::flash::{CellTimes, Flash, FlashGeometry, LogicalPage, PageTimes, Resources, Times};
use flashlab_sim::layer::{
    Layer, LogBlocks, LogBlocksOptions, LogOrder, PageMap, PageMapOptions, Pages, SharedLogs,
    SharedLogsOptions,
};

const DIES: u32 = 4;
const BLOCKS: u32 = 4096;
const LOGICAL_PAGES: u32 = 3500 * 64;
const WRITES: u32 = 5_000;

fn main() {
    println!("layer                            ns a write   pages copied a write   ns a page");
    let log_blocks = |name: &str, logs, order| {
        let options =
            LogBlocksOptions { logical_pages: LOGICAL_PAGES, logs, order, ..LogBlocksOptions::default() };
        measure(name, 64, |geometry| LogBlocks::new(geometry, &options).expect("legal options"));
    };
    log_blocks("BAST, 8 logs a die", 8, LogOrder::Any);
    log_blocks("BAST, 64 logs a die", 64, LogOrder::Any);
    log_blocks("block map, 4 logs a die", 4, LogOrder::Next);
    log_blocks("block map without logs", 0, LogOrder::Next);
    let chunks = LogBlocksOptions {
        logical_pages: LOGICAL_PAGES,
        stripe_pages: 128,
        logs: 1,
        order: LogOrder::Next,
        ..LogBlocksOptions::default()
    };
    measure("chunk map, 512 KiB", 128, |geometry| LogBlocks::new(geometry, &chunks).expect("legal options"));
    let shared = SharedLogsOptions { logical_pages: LOGICAL_PAGES, logs: 32, ..SharedLogsOptions::default() };
    measure("FAST, 32 logs a die", 64, |geometry| SharedLogs::new(geometry, &shared).expect("legal options"));
    let map = PageMapOptions { logical_pages: LOGICAL_PAGES, ..PageMapOptions::default() };
    measure("page map, greedy", 64, |geometry| PageMap::new(geometry, &map).expect("legal options"));
}

fn measure<L: Layer>(name: &str, pages_per_block: u32, layer: impl Fn(&FlashGeometry) -> L) {
    let blocks = BLOCKS * 64 / pages_per_block;
    let geometry =
        FlashGeometry::new(Bytes::kib(4), pages_per_block, 1, blocks, DIES, DIES).expect("a legal array");
    let mut layer = layer(&geometry);
    let mut flash = Flash::new(geometry, Resources::new(&geometry, times(), None));
    let mut random = Prng::new(Seed(1));
    let all = Pages { first: LogicalPage(0), count: LOGICAL_PAGES };
    let mut now = layer.write(&mut flash, all, 0, Nanos::ZERO).expect("room for all pages");
    let mut round = || {
        let (begun, before) = (Instant::now(), flash.counts().programs());
        for _ in 0..WRITES {
            let first = LogicalPage(random.below(LOGICAL_PAGES.into()) as u32);
            let pages = Pages { first, count: 1 };
            now = layer.write(&mut flash, pages, 0, now).expect("room for a page");
        }
        let programs = flash.counts().programs() - before;
        (begun.elapsed().as_nanos() as f64 / f64::from(WRITES), programs as f64 / f64::from(WRITES))
    };
    for _ in 0..200 {
        round();
    }
    let (nanos, programs) = (0..100).map(|_| round()).min_by(|a, b| a.0.total_cmp(&b.0)).expect("a round");
    println!("{name:<32} {nanos:>10.0} {:>22.2} {:>11.1}", programs - 1.0, nanos / programs);
}

fn times() -> Times {
    let micros = |micros: u64| Nanos(1000 * micros);
    let cells = CellTimes {
        read: PageTimes::new(&[micros(50)]),
        program: PageTimes::new(&[micros(500)]),
        erase: micros(2000),
    };
    Times { command: micros(1), transfer: micros(40), cells, slc_cells: cells, ..Times::default() }
}
