//! Steady write amplification under random writes of single pages, against theory.
//!
//! The figures are those of `reference/waf_theory.csv` and `waf_theory_hot_cold.csv`, computed from
//! - FIFO, uniform and with a rate for each page: Desnoyers 2012 and 2014; Xiang and Kurkoski 2011 (arXiv 1110.4245);
//! - greedy and d-choices: the mean field of Van Houdt 2013; greedy is d without bound.
//!
//! The formulas hold for many blocks. Only usable blocks count: one stays in reserve for the collector.

use std::sync::Mutex;

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_sim::flash::{Flash, FlashGeometry, LogicalPage, Untimed};
use flashlab_sim::layer::{Layer, PageMap, PageMapOptions, Pages, VictimPolicy};

/// The simulator may differ from theory by this share.
const TOLERANCE: f64 = 0.01;

const ALPHAS: [f64; 9] = [0.50, 0.60, 0.70, 0.75, 0.80, 0.85, 0.90, 0.935, 0.95];
const FIFO: [f64; 9] = [1.2550, 1.4798, 1.8762, 2.2007, 2.6927, 3.5187, 5.1787, 7.8666, 10.1724];
const GREEDY_32: [f64; 9] = [1.2233, 1.4324, 1.7930, 2.0843, 2.5136, 3.2017, 4.5082, 6.3740, 7.8233];
const GREEDY_64: [f64; 9] = [1.2389, 1.4550, 1.8333, 2.1396, 2.5993, 3.3536, 4.8213, 7.0460, 8.8501];
const GREEDY_128: [f64; 9] = [1.2469, 1.4674, 1.8544, 2.1696, 2.6449, 3.4344, 4.9922, 7.4344, 9.4605];
const GREEDY_256: [f64; 9] = [1.2509, 1.4736, 1.8652, 2.1851, 2.6684, 3.4759, 5.0832, 7.6438, 9.7979];
const CHOICES_1: [f64; 9] = [2.0, 2.5, 3.333, 4.0, 5.0, 6.667, 10.00, 15.38, 20.00];
const CHOICES_2: [f64; 9] = [1.5262, 1.8555, 2.4132, 2.8613, 3.5330, 4.6475, 6.8516, 10.3405, 13.2662];
const CHOICES_4: [f64; 9] = [1.3378, 1.5947, 2.0370, 2.3942, 2.9298, 3.8160, 5.5541, 8.2607, 10.4869];
const CHOICES_10: [f64; 9] = [1.2612, 1.4867, 1.8796, 2.1980, 2.6754, 3.4636, 5.0002, 7.3652, 9.2842];

/// Alpha, the share of the writes that go to hot pages, the share of pages that are hot; one FIFO frontier, and two
/// collected apart with the best split of the over-provisioning.
const HOT_COLD: [(f64, f64, f64, f64, f64); 6] = [
    (0.8, 0.80, 0.20, 3.0345, 1.9975),
    (0.8, 0.90, 0.10, 3.5329, 1.4810),
    (0.8, 0.95, 0.05, 4.0745, 1.2010),
    (0.9, 0.80, 0.20, 5.5378, 3.5712),
    (0.9, 0.90, 0.10, 6.1676, 2.3356),
    (0.9, 0.95, 0.05, 7.0733, 1.6117),
];

/// An array of one die and a load of random writes.
struct Load {
    policy: VictimPolicy,
    pages_per_block: u32,
    blocks: u32,
    alpha: f64,
    /// The share of the writes that go to hot pages, and of the pages that are hot.
    hot: (f64, f64),
    /// The share of the blocks for cold and for hot pages, which are then streams collected apart.
    shares: Option<[f64; 2]>,
}

impl Load {
    fn uniform(policy: VictimPolicy, pages_per_block: u32, blocks: u32, alpha: f64) -> Load {
        Load { policy, pages_per_block, blocks, alpha, hot: (1.0, 1.0), shares: None }
    }

    /// Pages programmed for each page written, in the steady state.
    fn write_amplification(&self) -> f64 {
        let geometry = FlashGeometry::new(Bytes::kib(4), self.pages_per_block, 1, self.blocks, 1, 1).unwrap();
        let usable = f64::from(self.blocks - 1) * f64::from(self.pages_per_block);
        let logical = (self.alpha * usable).round() as u32;
        let options = PageMapOptions {
            logical_pages: logical,
            policy: self.policy,
            streams: if self.shares.is_some() { 2 } else { 1 },
            shares: self.shares.map(|shares| shares.to_vec()),
            seed: Seed(7),
            ..PageMapOptions::default()
        };
        let mut flash = Flash::new(geometry, Untimed);
        let mut layer = PageMap::new(&geometry, &options).unwrap();
        let hot_pages = (self.hot.1 * f64::from(logical)).round() as u32;
        let (hot, cold) = ((0, hot_pages, 1), (hot_pages, logical - hot_pages, 0));
        for (first, count, stream) in [hot, cold].into_iter().filter(|(_, count, _)| *count > 0) {
            layer.write(&mut flash, Pages { first: LogicalPage(first), count }, stream, Nanos::ZERO).unwrap();
        }
        let mut random = Prng::new(Seed(42));
        let mut write = |flash: &mut Flash<Untimed>, count: u64| {
            for _ in 0..count {
                let (first, count, stream) = if random.unit() < self.hot.0 { hot } else { cold };
                let page = LogicalPage(first + random.below(u64::from(count)) as u32);
                layer.write(flash, Pages { first: page, count: 1 }, stream, Nanos::ZERO).unwrap();
            }
        };
        // Cold pages, and blocks that chance passes over, take longer to forget that they were written in order.
        let rounds = match self.policy {
            _ if self.hot.0 < 1.0 => 12,
            VictimPolicy::Choices(_) => 6,
            _ => 3,
        };
        write(&mut flash, rounds * u64::from(logical));
        let before = flash.counts().clone();
        write(&mut flash, rounds * u64::from(logical));
        flash.counts().since(&before).write_amplification().unwrap()
    }
}

/// Runs the loads on two threads; fails with all that do not agree with theory.
fn agree(cells: Vec<(Load, f64)>) {
    let (work, wrong) = (Mutex::new(cells.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some((load, theory)) = work.lock().unwrap().next() else { break };
                    let got = load.write_amplification();
                    if (got / theory - 1.0).abs() > TOLERANCE {
                        let Load { policy, pages_per_block, alpha, hot, .. } = load;
                        wrong.lock().unwrap().push(format!(
                            "{policy:?}, {pages_per_block} pages in a block, alpha {alpha}, hot {hot:?}: {got:.4}, by theory {theory:.4}"
                        ));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn column(policy: VictimPolicy, pages_per_block: u32, figures: [f64; 9]) -> Vec<(Load, f64)> {
    let blocks = (1 << 18) / pages_per_block;
    let cell = |(&alpha, &theory)| (Load::uniform(policy, pages_per_block, blocks, alpha), theory);
    ALPHAS.iter().zip(&figures).map(cell).collect()
}

#[test]
fn fifo() {
    agree(column(VictimPolicy::Fifo, 64, FIFO));
}

#[test]
fn greedy_at_four_block_sizes() {
    let columns = [(32, GREEDY_32), (64, GREEDY_64), (128, GREEDY_128), (256, GREEDY_256)];
    agree(columns.into_iter().flat_map(|(b, figures)| column(VictimPolicy::Greedy, b, figures)).collect());
}

#[test]
fn the_best_of_d_random_blocks() {
    let columns = [(1, CHOICES_1), (2, CHOICES_2), (4, CHOICES_4), (10, CHOICES_10)];
    agree(
        columns.into_iter().flat_map(|(d, figures)| column(VictimPolicy::Choices(d), 64, figures)).collect(),
    );
}

#[test]
fn hot_and_cold_data_in_one_frontier() {
    let cell = |&(alpha, writes, pages, theory, _): &(f64, f64, f64, f64, f64)| {
        let load = Load::uniform(VictimPolicy::Fifo, 64, 4096, alpha);
        (Load { hot: (writes, pages), ..load }, theory)
    };
    agree(HOT_COLD.iter().map(cell).collect());
}

#[test]
fn hot_and_cold_data_collected_apart_with_the_best_split() {
    let cell = |&(alpha, writes, pages, _, theory): &(f64, f64, f64, f64, f64)| {
        let (hot_share, optimum) = best_split(alpha, writes, pages);
        assert!((optimum - theory).abs() < 1e-4, "alpha {alpha}, {writes}: {optimum} for {theory}");
        let load = Load::uniform(VictimPolicy::Fifo, 64, 8192, alpha);
        (Load { hot: (writes, pages), shares: Some([1.0 - hot_share, hot_share]), ..load }, theory)
    };
    agree(HOT_COLD.iter().map(cell).collect());
}

/// The share of the blocks for hot pages at which two FIFO pools program least, and how much that is.
fn best_split(alpha: f64, writes: f64, pages: f64) -> (f64, f64) {
    let total = |hot_share: f64| {
        writes * fifo_formula(alpha * pages / hot_share)
            + (1.0 - writes) * fifo_formula(alpha * (1.0 - pages) / (1.0 - hot_share))
    };
    // Golden section: the sum has one minimum between the splits that leave a pool without over-provisioning.
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (alpha * pages + 1e-9, 1.0 - alpha * (1.0 - pages) - 1e-9);
    while high - low > 1e-9 {
        let (left, right) = (high - ratio * (high - low), low + ratio * (high - low));
        if total(left) < total(right) { high = right } else { low = left }
    }
    (low, total(low))
}

/// A = x / (x + W0(-x e^-x)) with x = 1 / alpha; W0 is in (-1, 0) there, and found by halving.
fn fifo_formula(alpha: f64) -> f64 {
    let x = 1.0 / alpha;
    let target = -x * (-x).exp();
    let (mut low, mut high) = (-1.0f64, 0.0f64);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if middle * middle.exp() < target { low = middle } else { high = middle }
    }
    x / (x + low)
}

/// Prints how long the writes of the geometry take: `--ignored --nocapture`.
#[test]
#[ignore = "prints times"]
fn speed() {
    for (pages_per_block, blocks) in [(64, 8192), (256, 8192)] {
        let load = Load::uniform(VictimPolicy::Greedy, pages_per_block, blocks, 0.8);
        let start = std::time::Instant::now();
        let amplification = load.write_amplification();
        let writes = 7.0 * 0.8 * f64::from(pages_per_block * (blocks - 1));
        let ns = start.elapsed().as_nanos() as f64 / writes;
        println!(
            "{pages_per_block} pages in a block: {ns:.1} ns a write, write amplification {amplification:.3}"
        );
    }
}
