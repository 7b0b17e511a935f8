//! A response-time curve over the parameter of a micro-benchmark, and its knee.
//!
//! Invariant: a curve contains only points that were measured, in ascending order of the parameter.

use flashlab_base::median;

use crate::findings::{Baseline, MicroBenchmark, Point, Regime};
use crate::point::mean;

/// Beyond a knee, response times are more than this many times those of the plateau before it.
pub(crate) const DEGRADATION: f64 = 2.0;
/// The relative half width of points for which neither the repetitions nor a confidence interval give one.
const UNKNOWN_PRECISION: f64 = 0.25;

/// The points of the experiment that varies `parameter` (a uFLIP name) of `pattern`, without bursts.
pub(crate) fn curve<'a>(
    micro_benchmarks: &'a [MicroBenchmark],
    parameter: &str,
    pattern: &str,
) -> Vec<&'a Point> {
    let mut points: Vec<&Point> = micro_benchmarks
        .iter()
        .filter(|micro| micro.parameter == parameter)
        .flat_map(|micro| &micro.experiments)
        .filter(|experiment| experiment.pattern == pattern && experiment.regime != Some(Regime::Burst))
        .flat_map(|experiment| &experiment.points)
        .filter(|point| point.response_ns_mean > 0.0)
        .collect();
    points.sort_by(|a, b| a.value.total_cmp(&b.value));
    points
}

/// The patterns in which `parameter` was varied, in the order of the findings. Bursts are left out: no figure divides one regime by
/// the other.
pub(crate) fn patterns<'a>(micro_benchmarks: &'a [MicroBenchmark], parameter: &str) -> Vec<&'a str> {
    let micros = micro_benchmarks.iter().filter(|micro| micro.parameter == parameter);
    let experiments = micros.flat_map(|micro| &micro.experiments);
    let lasting = experiments.filter(|experiment| experiment.regime != Some(Regime::Burst));
    lasting.map(|experiment| experiment.pattern.as_str()).collect()
}

/// The baseline of `pattern`, if it was measured.
pub(crate) fn baseline<'a>(baselines: &'a [Baseline], pattern: &str) -> Option<&'a Baseline> {
    baselines.iter().find(|baseline| baseline.pattern == pattern && baseline.run.response.mean_ns > 0.0)
}

/// The mean response time of a baseline in nanoseconds.
pub(crate) fn baseline_ns(baselines: &[Baseline], pattern: &str) -> Option<f64> {
    baseline(baselines, pattern).map(|baseline| baseline.run.response.mean_ns)
}

/// The bytes of each IO of a point.
pub(crate) fn io_size(point: &Point) -> Option<f64> {
    let run = point.runs.iter().find(|run| run.ios_per_s > 0.0)?;
    Some((run.throughput_bytes_per_s / run.ios_per_s).round())
}

/// IOs a second, the mean of the repetitions.
pub(crate) fn ios_per_s(point: &Point) -> Option<f64> {
    mean(&point.runs.iter().map(|run| run.ios_per_s).collect::<Vec<_>>()).filter(|&rate| rate > 0.0)
}

/// The relative uncertainty of the point's mean. It is the larger of two values: the repetitions' spread (a
/// little less than the half width of the 95 % interval of three repetitions), and the precision of the runs
/// themselves.
pub(crate) fn uncertainty(point: &Point) -> f64 {
    let within = point
        .runs
        .iter()
        .filter_map(|run| run.precision)
        .fold(None, |worst: Option<f64>, p| Some(worst.map_or(p, |worst| worst.max(p))));
    match (point.spread, within) {
        (None, None) => UNKNOWN_PRECISION,
        (spread, within) => spread.unwrap_or(0.0).max(within.unwrap_or(0.0)),
    }
}

/// The number of `costs` before the first significant and lasting slowdown. There a cost is over
/// [`DEGRADATION`] times the median of the earlier ones, and so is the median of it and all that follow. All
/// of them if nothing slows down.
pub(crate) fn plateau(costs: &[f64]) -> usize {
    (1..costs.len())
        .find(|&i| {
            let limit = DEGRADATION * median(&costs[..i]).unwrap_or_default();
            costs[i] > limit && median(&costs[i..]).unwrap_or_default() > limit
        })
        .unwrap_or(costs.len())
}

/// The largest; 0 of nothing.
pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plateau_ends_before_the_first_lasting_degradation() {
        for (costs, expected) in [
            (vec![], 0),
            (vec![1.0], 1),
            (vec![1.0, 1.1, 0.9, 1.0], 4),
            (vec![1.0, 1.1, 5.0, 16.0], 2),
            // A single slow point is no knee.
            (vec![1.0, 9.0, 1.0, 1.1, 1.0], 5),
            // The level of the plateau does not matter (uFLIP's Kingston accepts 20).
            (vec![20.0, 19.0, 20.0, 150.0, 150.0], 3),
            (vec![1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0], 4),
            // Costs that fall never degrade.
            (vec![40.0, 20.0, 10.0, 5.0], 4),
        ] {
            assert_eq!(plateau(&costs), expected, "{costs:?}");
        }
    }
}
