//! Compares runs: do they differ, by how much, at which quantile and with which confidence?
//!
//! # Model
//! Each run is compared with the first, experiment by experiment, reads and writes apart: median, 90th, 99th
//! and 99.9th percentile, and the mean. Runs are compared, not device models: state, temperature and other
//! load are part of the ratio.
//!
//! # Method
//! 1. Each figure gets an interval that holds for dependent IOs (`level`).
//! 2. If the repetitions of a run scatter more than their IOs explain, its intervals widen. Three repetitions
//!    of one experiment do not show that; those of all experiments together do.
//! 3. Two figures give a ratio with its interval and its p-value (`ratio`).
//! 4. One correction (Holm) covers all p-values of the comparison.
//!
//! # Invariants
//! - If runs do not differ, at most one comparison in twenty reports a difference (`cargo xtask
//!   compare-score` measures it).
//! - Experiments that only some of the runs have are listed, and never left out silently.

mod level;
mod ratio;
mod unseen;

use flashlab_base::Mode;
use serde::Serialize;

use crate::findings::{Characteristics, Regime};

use level::{RepetitionVariance, repetition_variance};
pub use level::{Responses, Statistic, TransferTotals};
use ratio::{CONFIDENCE, Pair, holm};
pub use ratio::{FALSE_DIFFERENCE_P, Ratio, RatioVerdict};

/// The resolution of a distribution: the number of quantiles for each factor of ten towards the tail.
const QUANTILES_PER_DECADE: usize = 20;

/// Which experiment response times are of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExperimentKey {
    /// The micro-benchmark, or `baseline`.
    pub micro_benchmark: String,
    /// The parameter that varies, for example `IOSize`; empty for a baseline.
    pub parameter: String,
    /// `SR`, `RR`, `SW`, `RW`, or a mix as `SR/RW`.
    pub pattern: String,
    /// The regime of its writes; null if the device has one regime, or nothing is written.
    pub regime: Option<Regime>,
    /// The parameter's value.
    pub value: f64,
    /// The value as a text.
    pub label: String,
    /// Of the experiment's reads, or of its writes.
    pub mode: Mode,
}

impl ExperimentKey {
    /// Whether response times of both can be compared. A device with one regime is always in what lasts.
    pub(crate) fn is_same(&self, other: &ExperimentKey) -> bool {
        let lasting = |regime: Option<Regime>| regime.unwrap_or(Regime::Sustained);
        let same_regime = lasting(self.regime) == lasting(other.regime);
        same_regime && *other == ExperimentKey { regime: other.regime, ..self.clone() }
    }

    /// `RW`, or `RW.burst`.
    pub fn name(&self) -> String {
        Regime::experiment_name(self.regime, &self.pattern)
    }
}

/// What distinguishes runs of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunDetails {
    /// The run's folder, as it was given.
    pub folder: String,
    /// When it started, RFC 3339, UTC.
    pub started: String,
    /// The state of the device at its start, as in [`Method::state`](crate::findings::Method::state).
    pub state: String,
    /// The run's warnings that may change a verdict.
    pub warnings: Vec<String>,
}

/// A run, for comparing it.
#[derive(Clone, Debug)]
pub struct ComparedRun {
    /// Its device.
    pub device: String,
    /// Its folder, date and state.
    pub details: RunDetails,
    /// Its columns of Table 3.
    pub characteristics: Characteristics,
    /// Its response times.
    pub experiments: Vec<(ExperimentKey, Responses)>,
}

/// Runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The devices, in the order given. The others are compared with the first.
    pub devices: Vec<String>,
    /// The folder, date and state of each run, in the same order.
    pub runs: Vec<RunDetails>,
    /// The columns of Table 3.
    pub characteristics: Vec<FigureRow>,
    /// The experiments that the first run and at least one other have.
    pub experiments: Vec<ExperimentRow>,
    /// The experiments that are not in all runs.
    pub missing: Vec<MissingRow>,
    /// How many tests were corrected together.
    pub tests: usize,
}

/// One column of Table 3.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureRow {
    /// The column's name.
    pub name: String,
    /// Its value for each run; null where not measured.
    pub values: Vec<Option<f64>>,
    /// Each value relative to the first run's; null where either is missing or the first is 0.
    pub ratios: Vec<Option<f64>>,
}

/// One experiment in all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExperimentRow {
    /// Which.
    #[serde(flatten)]
    pub key: ExperimentKey,
    /// The regime of each run's writes: a device with two is compared with one that has one, in what lasts.
    pub regimes: Vec<Option<Regime>>,
    /// The number of IOs of each run; null if it has none.
    pub ios: Vec<Option<u64>>,
    /// The distribution of each run's response times, for a plot.
    pub distributions: Vec<Option<Vec<QuantilePoint>>>,
    /// Each run against the first, with a ratio for each statistic; null for the first itself and if not
    /// measured.
    pub ratios: Vec<Option<Vec<StatisticRatio>>>,
}

/// A point of a distribution function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QuantilePoint {
    /// The share of response times that are at most this long.
    pub share: f64,
    /// The response time.
    pub response_ns: f64,
}

/// One statistic's ratio.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatisticRatio {
    /// Which.
    pub statistic: Statistic,
    /// The ratio, its interval and its verdict.
    #[serde(flatten)]
    pub ratio: Ratio,
}

/// An experiment that some runs lack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissingRow {
    /// Which.
    #[serde(flatten)]
    pub key: ExperimentKey,
    /// The runs that have it, by their index in the list of devices.
    pub runs: Vec<usize>,
}

/// Compares each of `runs` with the first.
pub fn compare(runs: &[ComparedRun]) -> Comparison {
    let repetition_variances: Vec<Vec<RepetitionVariance>> = runs.iter().map(repetition_variances).collect();
    let (mut experiments, mut missing) = (Vec::new(), Vec::new());
    for key in keys(runs) {
        let found: Vec<Option<&Responses>> = runs.iter().map(|run| run.find(key)).collect();
        if found.iter().any(Option::is_none) {
            let has = (0..runs.len()).filter(|&run| found[run].is_some()).collect();
            missing.push(MissingRow { key: key.clone(), runs: has });
        }
        if found[0].is_some() && found.iter().flatten().count() > 1 {
            experiments.push((key, found));
        }
    }
    let pairs: Vec<Vec<Option<Vec<Pair>>>> = experiments
        .iter()
        .map(|(_, found)| {
            let of = |run: usize| {
                Some(pairs_of(
                    (found[0]?, &repetition_variances[0]),
                    (found[run]?, &repetition_variances[run]),
                ))
            };
            (0..runs.len()).map(|run| of(run).filter(|_| run > 0)).collect()
        })
        .collect();
    let p_values: Vec<f64> = pairs.iter().flatten().flatten().flatten().map(Pair::p).collect();
    let tests = p_values.len();
    let mut corrected = holm(&p_values).into_iter();
    let mut ratios = |pairs: Vec<Pair>| -> Vec<StatisticRatio> {
        let ratio = |(statistic, pair): (Statistic, Pair)| {
            let p = corrected.next().expect("each pair has a p-value, in this order");
            StatisticRatio { statistic, ratio: pair.ratio(p, tests) }
        };
        Statistic::ALL.into_iter().zip(pairs).map(ratio).collect()
    };
    let mut rows = Vec::new();
    for ((key, found), pairs) in experiments.into_iter().zip(pairs) {
        let regimes: Vec<Option<Regime>> =
            runs.iter().map(|run| run.key(key).and_then(|key| key.regime)).collect();
        rows.push(ExperimentRow {
            key: ExperimentKey { regime: regimes.iter().copied().flatten().next(), ..key.clone() },
            regimes,
            ios: found.iter().map(|found| found.map(|found| found.count() as u64)).collect(),
            distributions: found.iter().map(|found| found.map(distribution)).collect(),
            ratios: pairs.into_iter().map(|pairs| pairs.map(&mut ratios)).collect(),
        });
    }
    Comparison {
        devices: runs.iter().map(|run| run.device.clone()).collect(),
        runs: runs.iter().map(|run| run.details.clone()).collect(),
        characteristics: figures(runs),
        experiments: rows,
        missing,
        tests,
    }
}

impl Comparison {
    /// A run by its folder and its device: two runs of one device have one name, and their folders have two.
    pub fn run_in_words(&self, run: usize) -> String {
        let device = self.devices.get(run).map_or("", String::as_str);
        match self.runs.get(run).map_or("", |details| details.folder.as_str()) {
            "" => device.to_owned(),
            folder => format!("{folder} ({device})"),
        }
    }

    /// What restricts the meaning of the ratios, each a sentence: the state of the device in each run, and its warnings.
    pub fn doubts(&self) -> Vec<String> {
        let of = |(run, details): (usize, &RunDetails)| {
            let name = self.run_in_words(run);
            let state = match details.state.as_str() {
                "none" => format!("{name}: the device was measured as it was found"),
                state => format!("{name}: the state of the device was {state}"),
            };
            let warnings = details.warnings.iter().map(|warning| format!("{name}: {warning}"));
            std::iter::once(state).chain(warnings).collect::<Vec<_>>()
        };
        self.runs.iter().enumerate().flat_map(of).collect()
    }
}

/// A figure with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The upper end; `None` if too few IOs lie beyond the quantile.
    pub high: Option<f64>,
    /// The number of IOs from which it is known.
    pub ios: u64,
}

impl ComparedRun {
    /// The response time of each experiment, in nanoseconds, in the order of `experiments`.
    pub fn response_estimates(&self, statistic: Statistic) -> Vec<Estimate> {
        let levels = || self.experiments.iter().map(|(_, responses)| responses.level(statistic));
        let variance = repetition_variances(self)[statistic as usize];
        levels()
            .map(|level| {
                let interval = level.interval(CONFIDENCE, variance);
                let high = interval.high.exp();
                Estimate {
                    value: level.value_ns,
                    low: interval.low.exp(),
                    high: high.is_finite().then_some(high),
                    ios: level.count() as u64,
                }
            })
            .collect()
    }

    /// The rate of each experiment per second, in the order of `experiments`; `amount` chooses IOs or bytes.
    /// `None` if no time passed.
    ///
    /// With a fixed number of IOs in flight, throughput is that number divided by the mean response time
    /// (Little's law). So its relative interval is that of the mean, inverted.
    pub fn throughput_estimates(&self, amount: impl Fn(TransferTotals) -> u64) -> Vec<Option<Estimate>> {
        let means = self.response_estimates(Statistic::Mean).into_iter();
        let with_means = means.zip(&self.experiments);
        with_means
            .map(|(mean, (_, responses))| {
                let throughput = responses.throughput()?;
                let seconds = throughput.duration_ns as f64 / 1e9;
                if seconds <= 0.0 || mean.low <= 0.0 {
                    return None;
                }
                let value = amount(throughput) as f64 / seconds;
                let low = mean.high.map_or(0.0, |high| value * mean.value / high);
                Some(Estimate { value, low, high: Some(value * mean.value / mean.low), ios: mean.ios })
            })
            .collect()
    }

    fn find(&self, key: &ExperimentKey) -> Option<&Responses> {
        self.experiments.iter().find(|(other, _)| other.is_same(key)).map(|(_, responses)| responses)
    }

    fn key(&self, key: &ExperimentKey) -> Option<&ExperimentKey> {
        self.experiments.iter().map(|(other, _)| other).find(|other| other.is_same(key))
    }
}

/// All experiments, in the order of the first run that has them.
fn keys(runs: &[ComparedRun]) -> Vec<&ExperimentKey> {
    let mut keys: Vec<&ExperimentKey> = Vec::new();
    for (key, _) in runs.iter().flat_map(|run| &run.experiments) {
        if !keys.iter().any(|known| known.is_same(key)) {
            keys.push(key);
        }
    }
    keys
}

/// For each statistic, the variance of the levels of the run's repetitions.
fn repetition_variances(run: &ComparedRun) -> Vec<RepetitionVariance> {
    let levels = |statistic| run.experiments.iter().map(move |(_, responses)| responses.level(statistic));
    let mut less_extreme = RepetitionVariance::default();
    let of = |statistic: Statistic| {
        let own = repetition_variance(levels(statistic));
        if statistic.probability().is_none() {
            return own;
        }
        less_extreme = own.or_of_less_extreme(less_extreme);
        less_extreme
    };
    Statistic::ALL.into_iter().map(of).collect()
}

/// A pair for each statistic, from response times and the variances of repetitions' levels.
fn pairs_of<'a>(
    first: (&'a Responses, &[RepetitionVariance]),
    other: (&'a Responses, &[RepetitionVariance]),
) -> Vec<Pair<'a>> {
    let level = |(responses, repetition_variances): (&'a Responses, &[RepetitionVariance]), index: usize| {
        (responses.level(Statistic::ALL[index]), repetition_variances[index])
    };
    (0..Statistic::ALL.len()).map(|index| Pair::new(level(first, index), level(other, index))).collect()
}

/// How much longer `other` takes than `first`, for each of [`Statistic::ALL`]. Their p-values are corrected together. The runs' repetitions
/// have no variance in common, as those of a whole comparison have: each counts with its own.
pub fn ratios(first: &Responses, other: &Responses) -> Vec<Ratio> {
    let apart = [RepetitionVariance::default(); Statistic::ALL.len()];
    let pairs = pairs_of((first, &apart), (other, &apart));
    let p: Vec<f64> = pairs.iter().map(Pair::p).collect();
    pairs.iter().zip(holm(&p)).map(|(pair, p)| pair.ratio(p, pairs.len())).collect()
}

/// Quantiles that are as dense in the tail as in the middle, up to the largest value.
fn distribution(responses: &Responses) -> Vec<QuantilePoint> {
    let decades = (responses.count() as f64).log10();
    let steps = (decades * QUANTILES_PER_DECADE as f64).ceil() as usize;
    let point = |share: f64| QuantilePoint { share, response_ns: responses.quantile_ns(share) };
    let lower = (1..QUANTILES_PER_DECADE).map(|step| 0.5 * step as f64 / QUANTILES_PER_DECADE as f64);
    let upper = (0..=steps).map(|step| 1.0 - 0.5 * 10f64.powf(-(step as f64) / QUANTILES_PER_DECADE as f64));
    lower.chain(upper).chain([1.0]).map(point).collect()
}

/// The columns of Table 3 with their names in `uflip_table3.csv`.
fn columns(characteristics: &Characteristics) -> [(&'static str, Option<f64>); 13] {
    let c = characteristics;
    [
        ("capacity_gb", c.capacity_gb),
        ("sr_ms", c.sr_ms),
        ("rr_ms", c.rr_ms),
        ("sw_ms", c.sw_ms),
        ("rw_ms", c.rw_ms),
        ("pause_rw_ms", c.pause_rw_ms),
        ("locality_mb", c.locality_mb),
        ("locality_ratio", c.locality_ratio),
        ("partitions", c.partitions.map(f64::from)),
        ("partition_ratio", c.partition_ratio),
        ("reverse_ratio", c.reverse_ratio),
        ("in_place_ratio", c.in_place_ratio),
        ("large_incr_vs_rw", c.large_incr_vs_rw),
    ]
}

fn figures(runs: &[ComparedRun]) -> Vec<FigureRow> {
    let table: Vec<_> = runs.iter().map(|run| columns(&run.characteristics)).collect();
    let Some(first) = table.first() else { return Vec::new() };
    (0..first.len())
        .map(|i| {
            let values: Vec<Option<f64>> = table.iter().map(|columns| columns[i].1).collect();
            let base = values[0].filter(|&value| value != 0.0);
            let ratios = values.iter().map(|value| Some((*value)? / base?)).collect();
            FigureRow { name: first[i].0.to_owned(), values, ratios }
        })
        .collect()
}

#[cfg(test)]
mod tests;
