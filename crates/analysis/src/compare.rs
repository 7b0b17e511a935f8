//! Devices or runs side by side: what differs, and what only seems to.
//!
//! Each run is compared with the first, point by point and baseline by baseline. Model: a
//! repetition's mean is the point's true mean times an error, independent between repetitions, so
//! that the logarithms of the means are compared with Welch's t-test. With three repetitions their
//! scatter is itself badly known, and by luck may come out far too small; it is never taken for
//! less than what the runs know of their own precision. Hundreds of tests are made at once, hence
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
    /// of the comparison; null where either has fewer than two repetitions, which cannot tell.
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
    runs: &'a [RunSummary],
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
    let baselines = findings.baselines.iter().map(|baseline| Measured {
        micro_benchmark: "baseline",
        pattern: &baseline.pattern,
        label: "",
        value: 0.0,
        response_ns_mean: baseline.run.response.mean_ns,
        runs: std::slice::from_ref(&baseline.run),
    });
    let points = findings.micro_benchmarks.iter().flat_map(|micro| {
        micro.experiments.iter().flat_map(move |experiment| {
            experiment.points.iter().map(move |point: &Point| Measured {
                micro_benchmark: &micro.name,
                pattern: &experiment.pattern,
                label: &point.label,
                value: point.value,
                response_ns_mean: point.response_ns_mean,
                runs: &point.runs,
            })
        })
    });
    baselines.chain(points).filter(|point| point.response_ns_mean > 0.0).collect()
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
            p: welch_p(first.runs, point.runs),
            shown: false,
        }));
    }
    Some(row)
}

/// The logarithms of the repetitions' means, as their mean, its squared standard error and its
/// degrees of freedom.
fn log_mean(runs: &[RunSummary]) -> Option<(f64, f64, f64)> {
    let measured: Vec<&RunSummary> = runs.iter().filter(|run| run.response.mean_ns > 0.0).collect();
    if measured.len() < 2 {
        return None;
    }
    let n = measured.len() as f64;
    let logs: Vec<f64> = measured.iter().map(|run| run.response.mean_ns.ln()).collect();
    let level = mean(&logs)?;
    let between = logs.iter().map(|log| (log - level).powi(2)).sum::<f64>() / (n - 1.0);
    // Of the logarithm, the standard error is the relative one.
    let within: Vec<f64> =
        measured.iter().filter_map(|run| run.precision).map(|p| (p / quantile_95(30.0)).powi(2)).collect();
    Some((level, between.max(mean(&within).unwrap_or(0.0)) / n, n - 1.0))
}

/// Welch's t-test; none where either has fewer than two repetitions.
fn welch_p(first: &[RunSummary], other: &[RunSummary]) -> Option<f64> {
    let ((level_a, error_a, degrees_a), (level_b, error_b, degrees_b)) = (log_mean(first)?, log_mean(other)?);
    let error = error_a + error_b;
    if level_a == level_b {
        return Some(1.0);
    }
    if error == 0.0 {
        // Deterministic devices, which differ.
        return Some(0.0);
    }
    let degrees = error * error / (error_a * error_a / degrees_a + error_b * error_b / degrees_b);
    Some(two_sided_p((level_a - level_b) / error.sqrt(), degrees))
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
