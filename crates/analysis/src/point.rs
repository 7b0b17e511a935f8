//! Repetitions of a run gathered into a point, and the warning when they disagree (uFLIP
//! section 5.1: three runs each, differences typically within 5 %).

use crate::findings::{ExperimentFindings, MicroBenchmark, Point, RunSummary, Warning};
use crate::student::quantile_95;

/// Repetitions further apart than this share of their mean are warned of (uFLIP section 5.1).
pub const SPREAD_LIMIT: f64 = 0.05;

/// A point from the repetitions of one run. The varying parameter has the value `value`, in the
/// micro-benchmark's unit, and `label` as a text. The mean is that of the repetitions' means, so that each
/// counts the same, however long it was. Runs without IOs do not count.
pub fn point(value: f64, label: impl Into<String>, runs: Vec<RunSummary>) -> Point {
    let means: Vec<f64> =
        runs.iter().filter(|run| run.response.count > 0).map(|run| run.response.mean_ns).collect();
    let response_ns_mean = mean(&means).unwrap_or(0.0);
    let precision = precision(&means, &runs);
    Point { value, label: label.into(), response_ns_mean, spread: spread(&means), precision, runs }
}

/// The relative half width of the 95 % interval of the mean: that of the repetitions' scatter (Student's t), because each saw another part of the
/// device's state, or that of the runs' own intervals if it is wider. Repetitions that agree to the nanosecond say nothing.
fn precision(means: &[f64], runs: &[RunSummary]) -> Option<f64> {
    let count = means.len() as f64;
    let level = mean(means).filter(|&level| level > 0.0)?;
    let squares: f64 = means.iter().map(|mean| (mean - level).powi(2)).sum();
    let between = (means.len() > 1 && squares > 0.0)
        .then(|| quantile_95(count - 1.0) * (squares / (count - 1.0) / count).sqrt() / level);
    between.into_iter().chain(within(runs)).reduce(f64::max)
}

/// The relative half width from the intervals of the runs; `None` if one has none.
pub(crate) fn within(runs: &[RunSummary]) -> Option<f64> {
    let widths: Option<Vec<f64>> = runs.iter().map(|run| run.precision).collect();
    let widths = widths.filter(|widths| !widths.is_empty())?;
    Some(widths.iter().map(|width| width * width).sum::<f64>().sqrt() / widths.len() as f64)
}

/// The arithmetic mean; none of nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// (largest - smallest) / mean; `None` for fewer than two values or a mean of 0.
fn spread(means: &[f64]) -> Option<f64> {
    let mean = mean(means).filter(|&mean| means.len() > 1 && mean > 0.0)?;
    let (smallest, largest) =
        means.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &m| (low.min(m), high.max(m)));
    Some((largest - smallest) / mean)
}

/// A warning for each point whose repetitions differ by more than [`SPREAD_LIMIT`]. A simulated device has no
/// other load.
pub fn spread_warnings(micro_benchmarks: &[MicroBenchmark], is_simulated: bool) -> Vec<Warning> {
    let remedy = match is_simulated {
        true => "its state differs from one to the next: give each run more time",
        false => "look for other load on the machine, or give each run more time",
    };
    let mut warnings = Vec::new();
    for micro in micro_benchmarks {
        for experiment in &micro.experiments {
            warnings.extend(
                experiment.points.iter().filter_map(|p| spread_warning(micro, experiment, p, remedy)),
            );
        }
    }
    warnings
}

fn spread_warning(
    micro: &MicroBenchmark,
    experiment: &ExperimentFindings,
    point: &Point,
    remedy: &str,
) -> Option<Warning> {
    let spread = point.spread.filter(|&spread| spread > SPREAD_LIMIT)?;
    let place = match micro.parameter.as_str() {
        "" => String::new(),
        parameter => format!(" at {parameter} = {}", point.label),
    };
    Some(Warning {
        kind: "spread".to_owned(),
        run: point.runs.first().map(|run| run.run),
        message: format!(
            "{}, {}{place}: the {} repetitions lie {:.0} % of their mean apart (over {:.0} %); \
             {remedy}",
            micro.name,
            experiment.name(),
            point.runs.len(),
            spread * 100.0,
            SPREAD_LIMIT * 100.0,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::run;

    #[test]
    fn a_point_has_the_mean_and_the_spread_of_its_repetitions() {
        let got = point(32768.0, "32KiB", vec![run(90.0), run(100.0), run(110.0)]);
        assert_eq!(got.response_ns_mean, 100.0);
        assert!((got.spread.unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(point(1.0, "1", vec![run(5.0)]).spread, None);
        // Student's t of two degrees, 4.303, times 10 / sqrt(3).
        assert!((got.precision.unwrap() - 0.2484).abs() < 1e-4, "{:?}", got.precision);
        let mut equal = vec![run(5.0), run(5.0)];
        equal.iter_mut().for_each(|run| run.precision = None);
        assert_eq!(point(1.0, "1", equal).precision, None, "nothing is known of the next one");
        let mut wide = vec![run(99.0), run(100.0), run(101.0)];
        wide.iter_mut().for_each(|run| run.precision = Some(0.3));
        let found = point(1.0, "1", wide).precision.unwrap();
        assert!((found - 0.3 / 3f64.sqrt()).abs() < 1e-9, "{found}");
        assert_eq!(point(1.0, "1", vec![]).response_ns_mean, 0.0);
    }

    #[test]
    fn only_a_spread_over_five_percent_is_warned_of() {
        let micro = |means: [f64; 3]| MicroBenchmark {
            name: "order".to_owned(),
            parameter: "Incr".to_owned(),
            unit: String::new(),
            experiments: vec![ExperimentFindings {
                pattern: "SW".to_owned(),
                regime: None,
                regime_evidence: String::new(),
                points: vec![point(-1.0, "-1", means.map(run).to_vec())],
            }],
        };
        assert_eq!(spread_warnings(&[micro([100.0, 102.0, 104.9])], false), []);
        let warnings = spread_warnings(&[micro([100.0, 100.0, 106.0])], false);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].message.starts_with("order, SW at Incr = -1: the 3 repetitions lie 6 %"));
        let mut single = micro([100.0, 100.0, 106.0]);
        single.parameter.clear();
        assert!(
            spread_warnings(&[single.clone()], false)[0]
                .message
                .starts_with("order, SW: the 3 repetitions lie 6 %")
        );
        assert!(!spread_warnings(&[single], true)[0].message.contains("other load"));
    }
}
