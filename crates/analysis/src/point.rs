//! Repetitions of a run gathered into a point, and the warning when they disagree (uFLIP
//! section 5.1: three runs each, differences typically within 5 %).

use crate::findings::{ExperimentFindings, MicroBenchmark, Point, RunSummary, Warning};

/// Repetitions further apart than this share of their mean are warned of (uFLIP section 5.1).
pub const SPREAD_LIMIT: f64 = 0.05;

/// A point from the repetitions of one run. The varying parameter has the value `value`, in the
/// micro-benchmark's unit, and `label` as a text. The mean is that of the repetitions' means, so that each
/// counts the same, however long it was. Runs without IOs do not count.
pub fn point(value: f64, label: impl Into<String>, runs: Vec<RunSummary>) -> Point {
    let means: Vec<f64> =
        runs.iter().filter(|run| run.response.count > 0).map(|run| run.response.mean_ns).collect();
    let response_ns_mean = mean(&means).unwrap_or(0.0);
    Point { value, label: label.into(), response_ns_mean, spread: spread(&means), runs }
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
