//! `cargo xtask compare-score`: judges `flashlab compare` on synthetic pairs of runs whose truth is
//! known.
//!
//! # Model
//! - A pair is two runs with three repetitions each: of eight experiments, or in a quarter of the pairs of one.
//! - The response times of an experiment are lognormal, bimodal, heavy-tailed, autocorrelated or drifting, or one IO in 1,000
//!   waits for a merge and takes 100 times as long. Where experiments with merges do not differ, their sample sizes are lopsided:
//!   3 x 100 IOs, which normally show no merge, against 3 x 20,000.
//! - In experiments with odd repetitions, one repetition of five has a tail three times as long from the 90th percentile on. Such
//!   experiments never differ: the truth is that of infinitely many repetitions.
//! - In half of the pairs each repetition has a different level (a standard deviation of 2 %).
//! - Half of the pairs do not differ. In the others one experiment differs: with 400 IOs per repetition, its
//!   response times are 1.3 times as long. With 5,000 IOs, those above the 95th percentile are 1.5 times as
//!   long.
//!
//! # What is counted
//! - False positives: the share of pairs without a difference for which any difference is reported.
//! - Power: the share of differences that are reported, for the median (1.3, 400 IOs) and for p99 (1.5, 5,000
//!   IOs). The lower of the two counts.
//! - Coverage: the share of 95 % intervals with two ends that contain the true ratio, of all statistics together, and of
//!   quantiles and means apart. Intervals of means are wider by design, because they bound slow IOs that were not seen:
//!   nearly all of them have to contain it.

use std::collections::BTreeMap;

use clap::Args;
use flashlab_analysis::findings::Characteristics;
use flashlab_analysis::{
    ComparedRun, ExperimentKey, RatioVerdict, Responses, RunDetails, Statistic, compare,
};
use flashlab_base::{Prng, Seed};

/// Judges `flashlab compare` on synthetic pairs of runs whose truth is known.
#[derive(Args)]
pub struct CompareScore {
    /// How many pairs of runs
    #[arg(long, default_value_t = 200)]
    pairs: u64,
    /// The seed of the first pair; the next ones have the seeds after it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The score as JSON
    #[arg(long)]
    json: bool,
}

const EXPERIMENTS: usize = 8;
const REPETITIONS: usize = 3;
/// The standard deviation of repetitions' levels, in the half of the pairs that have it.
const REPETITION_DEVIATION: f64 = 0.02;
/// The number of values from which the true mean and quantiles are computed.
const TRUTH_VALUES: usize = 1_000_000;
/// In how many repetitions, because some shapes differ between them.
const TRUTH_REPETITIONS: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Lognormal,
    Bimodal,
    HeavyTail,
    Autocorrelated,
    Drift,
    RareMerges,
    OddRepetitions,
}

const SHAPES: [Shape; 7] = [
    Shape::Lognormal,
    Shape::Bimodal,
    Shape::HeavyTail,
    Shape::Autocorrelated,
    Shape::Drift,
    Shape::RareMerges,
    Shape::OddRepetitions,
];
/// The share of odd repetitions, the quantile from which they differ as a multiple of the median, and how much longer they are.
const ODD: (f64, f64, f64) = (0.2, 1.3, 3.0);
/// The IOs of a repetition, of experiments with rare merges that do not differ.
const LOPSIDED: [usize; 2] = [100, 20_000];

/// How the other device differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    None,
    /// All response times are 1.3 times as long.
    Level,
    /// Those above the 95th percentile are 1.5 times as long.
    Tail,
}

const LEVEL_FACTOR: f64 = 1.3;
const TAIL_FACTOR: f64 = 1.5;

/// Standard normal (Box and Muller).
fn normal(prng: &mut Prng) -> f64 {
    (2.0 * prng.exponential()).sqrt() * (std::f64::consts::TAU * prng.unit()).cos()
}

impl Shape {
    /// Response times in microseconds, with a median of about 100.
    fn repetition(self, ios: usize, prng: &mut Prng) -> Vec<f64> {
        let mut state = normal(prng);
        let is_odd = self == Shape::OddRepetitions && prng.unit() < ODD.0;
        let mut next = |io: usize| match self {
            Shape::Lognormal => (0.5 * normal(prng)).exp(),
            Shape::Bimodal => (0.2 * normal(prng)).exp() * if prng.unit() < 0.1 { 5.0 } else { 1.0 },
            Shape::HeavyTail => 0.5 + 0.5 * (prng.exponential() / 2.5).exp(),
            Shape::Autocorrelated => {
                state = 0.7 * state + (1.0f64 - 0.49).sqrt() * normal(prng);
                (0.5 * state).exp()
            }
            Shape::RareMerges => (0.1 * normal(prng)).exp() * if prng.unit() < 0.001 { 100.0 } else { 1.0 },
            Shape::OddRepetitions => {
                let value = (0.2 * normal(prng)).exp();
                if is_odd && value > ODD.1 { value * ODD.2 } else { value }
            }
            Shape::Drift => (0.3 * normal(prng)).exp() * (1.0 + 0.3 * io as f64 / ios as f64),
        };
        (0..ios).map(|io| 100.0 * next(io)).collect()
    }
}

/// What is true of each shape.
struct Truth {
    /// The response time above which the tail is longer.
    p95_us: BTreeMap<Shape, f64>,
    /// The ratio of the means if the tail is longer.
    tail_mean_ratio: BTreeMap<Shape, f64>,
}

impl Truth {
    fn new() -> Truth {
        let mut truth = Truth { p95_us: BTreeMap::new(), tail_mean_ratio: BTreeMap::new() };
        for shape in SHAPES {
            let mut prng = Prng::new(Seed(95));
            let repetitions = (0..TRUTH_REPETITIONS)
                .flat_map(|_| shape.repetition(TRUTH_VALUES / TRUTH_REPETITIONS, &mut prng));
            let mut values: Vec<f64> = repetitions.collect();
            values.sort_by(f64::total_cmp);
            let sum: f64 = values.iter().sum();
            let tail: f64 = values[TRUTH_VALUES * 95 / 100..].iter().sum();
            truth.p95_us.insert(shape, values[TRUTH_VALUES * 95 / 100]);
            truth.tail_mean_ratio.insert(shape, 1.0 + (TAIL_FACTOR - 1.0) * tail / sum);
        }
        truth
    }

    fn ratio(&self, shape: Shape, change: Change, statistic: Statistic) -> f64 {
        match (change, statistic) {
            (Change::None, _) | (Change::Tail, Statistic::P50 | Statistic::P90) => 1.0,
            (Change::Level, _) => LEVEL_FACTOR,
            (Change::Tail, Statistic::P99 | Statistic::P999) => TAIL_FACTOR,
            (Change::Tail, Statistic::Mean) => self.tail_mean_ratio[&shape],
        }
    }

    fn responses(
        &self,
        shape: Shape,
        change: Change,
        ios: usize,
        deviation: f64,
        prng: &mut Prng,
    ) -> Responses {
        let repetition = |_| {
            let level = (deviation * normal(prng)).exp();
            let changed = |value: f64| match change {
                Change::None => value,
                Change::Level => value * LEVEL_FACTOR,
                Change::Tail if value > self.p95_us[&shape] => value * TAIL_FACTOR,
                Change::Tail => value,
            };
            let values = shape.repetition(ios, prng).into_iter();
            values.map(|value| (changed(value) * level * 1000.0).round() as u64).collect()
        };
        let repetitions: Vec<Vec<u64>> = (0..REPETITIONS).map(repetition).collect();
        Responses::new(&repetitions).expect("there are IOs")
    }
}

/// Hits of tries.
#[derive(Clone, Copy, Default)]
struct Share {
    hits: u64,
    of: u64,
}

impl Share {
    fn count(&mut self, is_hit: bool) {
        self.hits += u64::from(is_hit);
        self.of += 1;
    }

    fn value(self) -> f64 {
        if self.of == 0 { f64::NAN } else { self.hits as f64 / self.of as f64 }
    }
}

#[derive(Default)]
struct Score {
    false_positives: Share,
    power: BTreeMap<Change, Share>,
    coverage: BTreeMap<(Shape, usize, Statistic), Share>,
}

impl Score {
    fn coverage(&self, is_wanted: impl Fn(Statistic) -> bool) -> Share {
        let wanted = self.coverage.iter().filter(|((_, _, statistic), _)| is_wanted(*statistic));
        wanted
            .map(|(_, share)| share)
            .fold(Share::default(), |sum, share| Share { hits: sum.hits + share.hits, of: sum.of + share.of })
    }

    fn power(&self) -> f64 {
        self.power.values().map(|share| share.value()).fold(f64::NAN, f64::min)
    }

    fn judge(&mut self, truth: &Truth, seed: u64) {
        let mut prng = Prng::new(Seed(seed));
        let (is_changed, is_long) = (seed % 2 == 1, seed / 2 % 2 == 1);
        let deviation = if seed / 4 % 2 == 1 { REPETITION_DEVIATION } else { 0.0 };
        let (ios, kind) = if is_long { (5000, Change::Tail) } else { (400, Change::Level) };
        let experiments = if seed / 8 % 4 == 3 { 1 } else { EXPERIMENTS };
        let place = prng.below(experiments as u64) as usize;
        let chosen: Vec<(Shape, Change)> = (0..experiments)
            .map(|index| {
                let change = if is_changed && index == place { kind } else { Change::None };
                // The last shape is that of odd repetitions.
                let shapes = if change == Change::None { SHAPES.len() } else { SHAPES.len() - 1 };
                (SHAPES[prng.below(shapes as u64) as usize], change)
            })
            .collect();
        // Half of the pairs have the larger sample first.
        let is_swapped = prng.below(2) == 1;
        let mut run = |is_other: bool| ComparedRun {
            device: if is_other { "other" } else { "first" }.to_owned(),
            details: RunDetails::default(),
            characteristics: Characteristics::default(),
            experiments: chosen
                .iter()
                .enumerate()
                .map(|(index, &(shape, change))| {
                    let is_lopsided = shape == Shape::RareMerges && change == Change::None;
                    let ios = if is_lopsided { LOPSIDED[usize::from(is_other != is_swapped)] } else { ios };
                    let change = if is_other { change } else { Change::None };
                    (key(index), truth.responses(shape, change, ios, deviation, &mut prng))
                })
                .collect(),
        };
        let comparison = compare(&[run(false), run(true)]);
        let mut is_any_reported = false;
        for (row, &(shape, change)) in comparison.experiments.iter().zip(&chosen) {
            for found in row.ratios[1].iter().flatten() {
                let true_ratio = truth.ratio(shape, change, found.statistic);
                let is_reported = matches!(found.ratio.verdict, RatioVerdict::Faster | RatioVerdict::Slower);
                is_any_reported |= is_reported;
                if let Some(high) = found.ratio.high {
                    let share = self.coverage.entry((shape, ios, found.statistic)).or_default();
                    share.count(found.ratio.low <= true_ratio && true_ratio <= high);
                }
                let wanted = match change {
                    Change::None => None,
                    Change::Level => Some(Statistic::P50),
                    Change::Tail => Some(Statistic::P99),
                };
                if wanted == Some(found.statistic) {
                    let is_right = found.ratio.verdict == RatioVerdict::Slower;
                    self.power.entry(change).or_default().count(is_right);
                }
            }
        }
        if !is_changed {
            self.false_positives.count(is_any_reported);
        }
    }
}

const WHY_MEANS_ARE_WIDER: &str =
    "intervals of means are wider than 95 % by design: they bound slow IOs that so few IOs cannot have shown";

fn is_quantile(statistic: Statistic) -> bool {
    statistic.probability().is_some()
}

fn key(index: usize) -> ExperimentKey {
    ExperimentKey {
        micro_benchmark: "synthetic".to_owned(),
        parameter: "experiment".to_owned(),
        pattern: "RW".to_owned(),
        regime: None,
        value: index as f64,
        label: index.to_string(),
        mode: flashlab_base::Mode::Write,
    }
}

/// Runs the judge and prints its score.
pub fn compare_score(arguments: &CompareScore) {
    let truth = Truth::new();
    let mut score = Score::default();
    (arguments.seed..).take(arguments.pairs as usize).for_each(|seed| score.judge(&truth, seed));
    if arguments.json {
        let rounded = |value: f64| (value * 1e4).round() / 1e4;
        let document = serde_json::json!({
            "false_positive_rate": rounded(score.false_positives.value()),
            "power": rounded(score.power()),
            "coverage": rounded(score.coverage(|_| true).value()),
            "coverage_of_quantiles": rounded(score.coverage(is_quantile).value()),
            "coverage_of_means": rounded(score.coverage(|statistic| !is_quantile(statistic)).value()),
            "note": WHY_MEANS_ARE_WIDER,
        });
        println!("{document}");
        return;
    }
    print(&score);
}

fn print(score: &Score) {
    let percent = |share: Share| format!("{:.1} % of {}", 100.0 * share.value(), share.of);
    println!("pairs without a difference in which one was reported: {}", percent(score.false_positives));
    for (change, share) in &score.power {
        let what = match change {
            Change::Level => "1.3 x in the median, 3 x 400 IOs",
            Change::None | Change::Tail => "1.5 x in p99, 3 x 5,000 IOs",
        };
        println!("differences of {what} that were reported: {}", percent(*share));
    }
    println!("95 % intervals that contain the true ratio: {}", percent(score.coverage(|_| true)));
    println!("  of quantiles: {}", percent(score.coverage(is_quantile)));
    let of_means = score.coverage(|statistic| !is_quantile(statistic));
    println!("  of means: {}; {WHY_MEANS_ARE_WIDER}", percent(of_means));
    for ((shape, ios, statistic), share) in &score.coverage {
        println!("  {shape:?}, 3 x {ios} IOs, {}: {}", statistic.name(), percent(*share));
    }
}
