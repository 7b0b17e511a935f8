//! Hints 6 and 7: mixed patterns, and IOs that are submitted concurrently or with pauses.

use super::decision::{
    Decision, baseline_noise, both, cannot_tell, choose, curves, exceeds, not_measured, time,
};
use crate::curve::{baseline, baseline_ns, ios_per_s, uncertainty};
use crate::findings::{Baseline, HintVerdict, MicroBenchmark, Point};

/// Mixing is slow if it takes this many times as long as the weighted baselines.
const MIX_PENALTY: f64 = 1.2;
/// Concurrency or pauses help if they increase the throughput by this factor.
const SCHEDULING_GAIN: f64 = 1.1;
/// Doubling the queue depth or the size of IOs is useless from where throughput grows by less than this factor (Ajwani et
/// al., appendix A). It is the rule of hint 7, of `useful_queue_depth` and of saturation sizes, so that `bench` and `infer` give
/// the same advice.
pub const DOUBLING_GAIN: f64 = 1.025;

/// Hint 6, from the slowest mix relative to its baselines, weighted by Ratio.
pub(super) fn mixing(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let mut worst: Option<(f64, f64, String)> = None;
    for (pattern, points) in curves(micro_benchmarks, "Ratio") {
        let parts = pattern
            .split_once('/')
            .and_then(|(a, b)| Some((baseline(baselines, a)?, baseline(baselines, b)?)));
        let Some((a, b)) = parts else { continue };
        for point in points {
            // Ratio IOs of the first pattern to one of the second (uFLIP Table 1).
            let weighted =
                (point.value * a.run.response.mean_ns + b.run.response.mean_ns) / (point.value + 1.0);
            let penalty = point.response_ns_mean / weighted;
            if worst.as_ref().is_none_or(|worst| penalty > worst.0) {
                let noise = uncertainty(point).hypot(baseline_noise(a).max(baseline_noise(b)));
                let evidence = format!(
                    "The slowest mix, {pattern} at {}, takes {}, {penalty:.2} times its baselines.",
                    point.label,
                    time(point.response_ns_mean)
                );
                worst = Some((penalty, noise, evidence));
            }
        }
    }
    let Some((penalty, noise, evidence)) = worst else {
        return not_measured("mix micro-benchmark with its baselines");
    };
    choose(
        exceeds(penalty, noise, MIX_PENALTY),
        evidence,
        (HintVerdict::DoesNotHold, "Keep patterns apart in time.".to_owned()),
        (HintVerdict::Holds, "Patterns may be combined freely, two at a time.".to_owned()),
    )
}

/// Hint 7, from the effect of ParallelDegree and Pause on IOs per second.
pub(super) fn scheduling(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let parallel = best_parallel(micro_benchmarks);
    let pause = best_pause(baselines, micro_benchmarks);
    let measured: Vec<&Gain> = parallel.iter().chain(&pause).collect();
    let evidence = measured.iter().map(|gain| gain.evidence.as_str()).collect::<Vec<_>>().join(" ");
    let verdicts: Vec<Option<bool>> =
        measured.iter().map(|gain| exceeds(gain.factor, gain.noise, SCHEDULING_GAIN)).collect();
    let helping: Vec<&str> = measured
        .iter()
        .zip(&verdicts)
        .filter(|(_, verdict)| **verdict == Some(true))
        .map(|(gain, _)| gain.advice.as_str())
        .collect();
    if !helping.is_empty() {
        return (HintVerdict::DoesNotHold, helping.join(" "), evidence);
    }
    match (parallel.is_some() && pause.is_some(), verdicts.iter().all(|v| *v == Some(false))) {
        (false, _) if measured.is_empty() => not_measured("parallelism and the pause micro-benchmark"),
        (false, _) => {
            let (verdict, advice, missing) = not_measured("parallelism or the pause micro-benchmark");
            (verdict, advice, format!("{evidence} {missing}"))
        }
        (true, false) => cannot_tell(evidence),
        (true, true) => {
            (HintVerdict::Holds, "Submit IOs one at a time and without pauses.".to_owned(), evidence)
        }
    }
}

/// The largest gain in IOs per second of a way of scheduling.
struct Gain {
    factor: f64,
    noise: f64,
    evidence: String,
    advice: String,
}

fn best_parallel(micro_benchmarks: &[MicroBenchmark]) -> Option<Gain> {
    let mut best: Option<Gain> = None;
    for (pattern, points) in curves(micro_benchmarks, "ParallelDegree") {
        let Some(single) = points.first().filter(|point| point.value == 1.0) else { continue };
        for point in &points[1..] {
            let (Some(rate), Some(alone)) = (ios_per_s(point), ios_per_s(single)) else { continue };
            let factor = rate / alone;
            if best.as_ref().is_none_or(|best| factor > best.factor) {
                best = Some(Gain {
                    factor,
                    noise: both(single, point),
                    evidence: format!(
                        "ParallelDegree {} gives {factor:.2} times the IOs a second of a single process \
                         ({pattern}, the best case).",
                        point.label
                    ),
                    advice: match enough(&points, point) {
                        one if one.value <= 1.0 => format!("Send one IO at a time for {pattern}."),
                        some => format!("Keep {} IOs in flight for {pattern}.", some.label),
                    },
                });
            }
        }
    }
    best
}

/// The smallest ParallelDegree from which each doubling up to `best` adds less than [`DOUBLING_GAIN`] on average.
fn enough<'a>(points: &[&'a Point], best: &'a Point) -> &'a Point {
    let is_enough = |point: &&&Point| {
        let (Some(rate), Some(most)) = (ios_per_s(point), ios_per_s(best)) else { return false };
        most / rate < DOUBLING_GAIN.powf((best.value / point.value).log2())
    };
    points.iter().filter(|point| point.value < best.value).find(is_enough).copied().unwrap_or(best)
}

fn best_pause(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Option<Gain> {
    let mut best: Option<Gain> = None;
    for (pattern, points) in curves(micro_benchmarks, "Pause") {
        let Some(baseline) = baseline(baselines, pattern) else { continue };
        let alone = baseline_ns(baselines, pattern)?;
        for point in points.iter().filter(|point| point.value > 0.0) {
            let factor = alone / (point.response_ns_mean + point.value);
            if best.as_ref().is_none_or(|best| factor > best.factor) {
                best = Some(Gain {
                    factor,
                    noise: uncertainty(point).hypot(baseline_noise(baseline)),
                    evidence: format!(
                        "With pauses of {} the same work takes {:.2} times as long ({pattern}, the best case).",
                        point.label,
                        1.0 / factor
                    ),
                    advice: format!("Pause {} between IOs of {pattern}.", point.label),
                });
            }
        }
    }
    best
}
