//! Steady write amplification under uniform random writes of single pages, against the formulas of
//! `../shared/reference/waf_theory.csv` (Desnoyers 2012, 2014; Van Houdt 2013), which is carried here with its figures.
//!
//! The formulas hold for many blocks and one open block. Only usable blocks count: a block stays in reserve.

use flashlab_base::Nanos;
use flashlab_base::{Bytes, Prng, Seed};
use flashlab_sim::flash::{Flash, Geometry, LogicalPage, Untimed};
use flashlab_sim::layer::{Layer, PageMap, PageMapOptions, Pages, Policy, Striping};

const BLOCKS: u32 = 8192;

fn options(logical_pages: u32, policy: Policy) -> PageMapOptions {
    PageMapOptions {
        logical_pages,
        policy,
        striping: Striping::WriteOrder,
        streams: 1,
        shares: None,
        collect_apart: false,
        low_watermark: 1,
        high_watermark: 1,
        wear_spread: None,
        seed: Seed(7),
    }
}

/// Pages programmed for each page written, in the steady state.
fn write_amplification(policy: Policy, pages_per_block: u32, alpha: f64) -> f64 {
    let geometry = Geometry::new(Bytes::kib(4), pages_per_block, 1, BLOCKS, 1, 1).unwrap();
    let usable = f64::from(BLOCKS - 1) * f64::from(pages_per_block);
    let logical = (alpha * usable).round() as u32;
    let mut flash = Flash::new(geometry, Untimed);
    let mut layer = PageMap::new(&geometry, &options(logical, policy)).unwrap();
    let mut random = Prng::new(Seed(42));
    let all = Pages { first: LogicalPage(0), count: logical };
    layer.write(&mut flash, all, 0, Nanos::ZERO).unwrap();
    let mut write = |flash: &mut Flash<Untimed>, count: u64| {
        for _ in 0..count {
            let page = LogicalPage(random.below(u64::from(logical)) as u32);
            layer.write(flash, Pages { first: page, count: 1 }, 0, Nanos::ZERO).unwrap();
        }
    };
    write(&mut flash, 4 * u64::from(logical));
    let before = flash.counts().clone();
    write(&mut flash, 4 * u64::from(logical));
    flash.counts().since(&before).write_amplification().unwrap()
}

#[test]
#[ignore]
fn probe() {
    for (policy, b, alpha, expected) in [
        (Policy::Fifo, 64, 0.8, 2.6927),
        (Policy::Fifo, 64, 0.95, 10.1724),
        (Policy::Greedy, 64, 0.8, 2.5993),
        (Policy::Greedy, 32, 0.5, 1.2233),
        (Policy::Greedy, 256, 0.8, 2.6684),
        (Policy::Greedy, 64, 0.95, 8.8501),
        (Policy::Greedy, 128, 0.935, 7.4344),
        (Policy::Choices(2), 64, 0.8, 3.5330),
        (Policy::Choices(10), 64, 0.9, 5.0002),
        (Policy::Choices(1), 64, 0.8, 5.0),
    ] {
        let start = std::time::Instant::now();
        let got = write_amplification(policy, b, alpha);
        println!(
            "{policy:?} b={b} alpha={alpha}: {got:.4} / {expected} = {:.4}  {:?}",
            got / expected,
            start.elapsed()
        );
    }
}
