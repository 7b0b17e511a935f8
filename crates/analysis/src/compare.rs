//! Devices or runs side by side: what differs, and what only seems to.
//!
//! Each run is compared with the first, point by point and baseline by baseline. Model: a
//! repetition's mean is the point's true mean times an error, independent between repetitions, so
//! that the logarithms of the means are compared with Welch's t-test. With three repetitions their
//! scatter is itself badly known, and by luck may come out far too small; it is never taken for
//! less than what the runs know of their own precision. What was run once, as the baselines, is
//! taken to scatter between repetitions as much as nine tenths of the points do that were repeated
//! in the same session. Hundreds of tests are made at once, hence
//! the p-values are adjusted (Benjamini and Hochberg 1995) so that of the differences shown at
//! most one in twenty is expected to be false, and where nothing differs at all, nothing at all is
//! shown nineteen times out of twenty.
//!
//! What is compared is two runs, not two device models: whatever changed between them (state,
//! temperature, other load) is part of the difference.

use serde::Serialize;

use crate::findings::{Characteristics, Findings, Point, RunSummary};
use crate::point::mean;
use crate::student::{quantile_95, two_sided_p};

/// Adjusted p-values below this show a difference.
pub const DIFFERENCE_P: f64 = 0.05;
/// A session with fewer repeated points than this does not tell how much repetitions scatter.
const REPEATED_MIN: usize = 10;
/// The degrees of freedom of a session's variance: as many as those points.
const SESSION_DEGREES: f64 = REPEATED_MIN as f64;

/// Runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The devices, in the order given; the first is what the others are compared with.
    pub devices: Vec<String>,
    /// The columns of Table 3.
    pub characteristics: Vec<FigureRow>,
    /// The baselines and the points that the first run and at least one other have.
    pub points: Vec<PointRow>,
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

/// One point, or one baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointRow {
    /// The micro-benchmark, or `baseline`.
    pub micro_benchmark: String,
    /// `SR`, `RR`, `SW`, `RW` or a mix.
    pub pattern: String,
    /// The varying parameter as a person writes it.
    pub label: String,
    /// Mean response time for each run; null where not measured.
    pub response_ns_mean: Vec<Option<f64>>,
    /// Each run against the first; null for the first itself and where not measured.
    pub differences: Vec<Option<Difference>>,
}

/// One run's point against the first run's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// This mean response time over the first run's.
    pub ratio: f64,
    /// The probability that runs without a difference differ as much, adjusted for all the tests
    /// of the comparison; null where either was run once in a session without repetitions.
    pub p: Option<f64>,
    /// Whether a difference is shown: `p` is below [`DIFFERENCE_P`].
    pub shown: bool,
}

impl Difference {
    /// `1.52 times (p = 0.003)`, or `no difference shown`.
    pub fn describe(&self) -> String {
        match self.p {
            Some(p) if self.shown => format!("{:.2} times (p = {p:.1e})", self.ratio),
            Some(_) => "no difference shown".to_owned(),
            None => "no difference shown (too few repetitions)".to_owned(),
        }
    }
}

/// A point with its runs, to be found in the other findings.
struct Measured<'a> {
    micro_benchmark: &'a str,
    pattern: &'a str,
    label: &'a str,
    value: f64,
    response_ns_mean: f64,
    /// The logarithm of the mean; none where nothing tells how uncertain it is.
    estimate: Option<Estimate>,
}

/// A mean of logarithms with its uncertainty.
#[derive(Clone, Copy)]
struct Estimate {
    level: f64,
    squared_error: f64,
    degrees: f64,
}

impl Measured<'_> {
    fn is_of(&self, other: &Measured) -> bool {
        self.micro_benchmark == other.micro_benchmark
            && self.pattern == other.pattern
            && self.value == other.value
    }
}

/// Compares each of `findings` with the first.
pub fn compare(findings: &[&Findings]) -> Comparison {
    let measured: Vec<Vec<Measured>> = findings.iter().map(|findings| all_points(findings)).collect();
    let mut points: Vec<PointRow> = match measured.split_first() {
        Some((first, others)) => first.iter().filter_map(|point| row(point, others)).collect(),
        None => Vec::new(),
    };
    adjust(&mut points);
    Comparison {
        devices: findings.iter().map(|findings| findings.characteristics.device.clone()).collect(),
        characteristics: figures(findings),
        points,
    }
}

/// The baselines and all points of the micro-benchmarks.
fn all_points(findings: &Findings) -> Vec<Measured<'_>> {
    let session = session_variance(findings);
    let baselines = findings.baselines.iter().map(|baseline| Measured {
        micro_benchmark: "baseline",
        pattern: &baseline.pattern,
        label: "",
        value: 0.0,
        response_ns_mean: baseline.run.response.mean_ns,
        estimate: estimate(std::slice::from_ref(&baseline.run), session),
    });
    let points = findings.micro_benchmarks.iter().flat_map(|micro| {
        micro.experiments.iter().flat_map(move |experiment| {
            experiment.points.iter().map(move |point: &Point| Measured {
                micro_benchmark: &micro.name,
                pattern: &experiment.pattern,
                label: &point.label,
                value: point.value,
                response_ns_mean: point.response_ns_mean,
                estimate: estimate(&point.runs, session),
            })
        })
    });
    baselines.chain(points).filter(|point| point.response_ns_mean > 0.0).collect()
}

/// The variance between repetitions that nine tenths of the repeated points do not exceed; none
/// where too few points were repeated.
fn session_variance(findings: &Findings) -> Option<f64> {
    let points = findings.micro_benchmarks.iter().flat_map(|micro| &micro.experiments);
    let mut variances: Vec<f64> = points
        .flat_map(|experiment| &experiment.points)
        .filter_map(|point| variance(&logarithms(&point.runs)))
        .collect();
    variances.sort_by(f64::total_cmp);
    (variances.len() >= REPEATED_MIN).then(|| variances[variances.len() * 9 / 10])
}

/// The logarithms of the repetitions' means.
fn logarithms(runs: &[RunSummary]) -> Vec<f64> {
    runs.iter().map(|run| run.response.mean_ns).filter(|&ns| ns > 0.0).map(f64::ln).collect()
}

/// The sample variance; none of fewer than two.
fn variance(values: &[f64]) -> Option<f64> {
    let level = mean(values)?;
    let squares = values.iter().map(|value| (value - level).powi(2)).sum::<f64>();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// The first run's point beside the others'; none where no other has it.
fn row(first: &Measured, others: &[Vec<Measured>]) -> Option<PointRow> {
    let found: Vec<Option<&Measured>> =
        others.iter().map(|points| points.iter().find(|point| point.is_of(first))).collect();
    if found.iter().all(Option::is_none) {
        return None;
    }
    let mut row = PointRow {
        micro_benchmark: first.micro_benchmark.to_owned(),
        pattern: first.pattern.to_owned(),
        label: first.label.to_owned(),
        response_ns_mean: vec![Some(first.response_ns_mean)],
        differences: vec![None],
    };
    for point in found {
        row.response_ns_mean.push(point.map(|point| point.response_ns_mean));
        row.differences.push(point.map(|point| Difference {
            ratio: point.response_ns_mean / first.response_ns_mean,
            p: welch_p(first.estimate, point.estimate),
            shown: false,
        }));
    }
    Some(row)
}

/// The level of a point's repetitions; of a single one with the variance of its `session`.
fn estimate(runs: &[RunSummary], session: Option<f64>) -> Option<Estimate> {
    let logs = logarithms(runs);
    let (between, degrees) = match variance(&logs) {
        Some(variance) => (variance, (logs.len() - 1) as f64),
        None => (session?, SESSION_DEGREES),
    };
    // Of a logarithm, the standard error is the relative one of the value.
    let within: Vec<f64> =
        runs.iter().filter_map(|run| run.precision).map(|p| (p / quantile_95(30.0)).powi(2)).collect();
    let variance = between.max(mean(&within).unwrap_or(0.0));
    Some(Estimate { level: mean(&logs)?, squared_error: variance / logs.len() as f64, degrees })
}

/// Welch's t-test; none where the uncertainty of either is not known.
fn welch_p(first: Option<Estimate>, other: Option<Estimate>) -> Option<f64> {
    let (a, b) = (first?, other?);
    let error = a.squared_error + b.squared_error;
    if a.level == b.level {
        return Some(1.0);
    }
    if error == 0.0 {
        // Deterministic devices, which differ.
        return Some(0.0);
    }
    let degrees = error * error / (a.squared_error.powi(2) / a.degrees + b.squared_error.powi(2) / b.degrees);
    Some(two_sided_p((a.level - b.level) / error.sqrt(), degrees))
}

/// Replaces the p-values by Benjamini and Hochberg's and decides which differences are shown.
fn adjust(points: &mut [PointRow]) {
    let mut tested: Vec<&mut Difference> = points
        .iter_mut()
        .flat_map(|row| row.differences.iter_mut().flatten())
        .filter(|difference| difference.p.is_some())
        .collect();
    let raw = |difference: &Difference| difference.p.unwrap_or(1.0);
    tested.sort_by(|a, b| raw(b).total_cmp(&raw(a)));
    let total = tested.len();
    let mut least = 1.0_f64;
    for (i, difference) in tested.into_iter().enumerate() {
        least = least.min(raw(difference) * total as f64 / (total - i) as f64);
        difference.p = Some(least);
        difference.shown = least < DIFFERENCE_P;
    }
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

fn figures(findings: &[&Findings]) -> Vec<FigureRow> {
    let table: Vec<_> = findings.iter().map(|findings| columns(&findings.characteristics)).collect();
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
