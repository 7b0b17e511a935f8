//! uFLIP's seven design hints (section 5.3), each decided for the device at hand.
//!
//! A hint is decided by one figure: a ratio of measured costs, compared with the limit from which
//! on a designer should care. The figure's uncertainty is counted: where it reaches across the
//! limit, the measurement does not support a verdict, just as where nothing was measured.

use flashlab_base::{Bytes, Nanos};

use crate::characteristics::{locality, partitioning};
use crate::curve::{baseline, baseline_ns, curve, io_size, ios_per_s, largest, patterns, uncertainty};
use crate::findings::{Baseline, Hint, MicroBenchmark, Point, Verdict};

/// Larger IOs pay when a byte costs this many times less in them.
const GRANULARITY_GAIN: f64 = 1.5;
/// A misaligned IO is slow when it costs this many times an aligned one.
const MISALIGNMENT: f64 = 1.1;
/// Random writes are expensive when they cost this many times sequential writes.
const RANDOM_EXPENSIVE: f64 = 2.0;
/// Mixing hurts when it costs this many times the baselines, weighted.
const MIX_PENALTY: f64 = 1.2;
/// Concurrency or pauses help when they raise the throughput this many times.
const SCHEDULING_GAIN: f64 = 1.1;

const PAPER: [&str; 7] = [
    "Flash devices do incur latency: larger IOs are generally beneficial, even for reads.",
    "Block size should (currently) be 32 KB.",
    "Blocks should be aligned to flash pages.",
    "Random writes should be limited to a focused area.",
    "Sequential writes should be limited to a few partitions.",
    "Combining a limited number of patterns is acceptable.",
    "Neither concurrent nor delayed IOs improve the performance.",
];

/// A hint's verdict, advice and evidence.
type Decision = (Verdict, String, String);

/// Decides the seven hints, in their order.
pub fn hints(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Vec<Hint> {
    let decisions = [
        larger_ios(micro_benchmarks),
        block_size(micro_benchmarks),
        alignment(micro_benchmarks),
        focused_area(baselines, micro_benchmarks),
        few_partitions(micro_benchmarks),
        mixing(baselines, micro_benchmarks),
        scheduling(baselines, micro_benchmarks),
    ];
    (1..)
        .zip(PAPER)
        .zip(decisions)
        .map(|((number, paper), (verdict, advice, evidence))| Hint {
            number,
            paper: paper.to_owned(),
            verdict,
            advice,
            evidence,
        })
        .collect()
}

fn not_measured(what: &str) -> Decision {
    let advice = format!("Nothing can be advised: run the {what}.");
    (Verdict::NotSupportedByThisMeasurement, advice, format!("The {what} was not measured."))
}

fn cannot_tell(evidence: String) -> Decision {
    let advice = "Nothing can be advised: the effect is within the uncertainty; measure longer.".to_owned();
    (Verdict::NotSupportedByThisMeasurement, advice, evidence)
}

/// Whether `ratio`, uncertain by the relative `noise`, is over `limit`; none where it may be either.
fn exceeds(ratio: f64, noise: f64, limit: f64) -> Option<bool> {
    if ratio > limit * (1.0 + noise) {
        Some(true)
    } else if ratio * (1.0 + noise) <= limit {
        Some(false)
    } else {
        None
    }
}

/// The uncertainty of a ratio of two points.
fn both(a: &Point, b: &Point) -> f64 {
    uncertainty(a).hypot(uncertainty(b))
}

fn choose(
    verdict: Option<bool>,
    evidence: String,
    yes: (Verdict, String),
    no: (Verdict, String),
) -> Decision {
    match verdict {
        Some(true) => (yes.0, yes.1, evidence),
        Some(false) => (no.0, no.1, evidence),
        None => cannot_tell(evidence),
    }
}

/// Each pattern's curve over `parameter`.
fn curves<'a>(micro_benchmarks: &'a [MicroBenchmark], parameter: &str) -> Vec<(&'a str, Vec<&'a Point>)> {
    let names = patterns(micro_benchmarks, parameter);
    names.into_iter().map(|name| (name, curve(micro_benchmarks, parameter, name))).collect()
}

fn size(point: &Point) -> Bytes {
    Bytes(point.value as u64)
}

fn time(ns: f64) -> Nanos {
    Nanos(ns.round() as u64)
}

/// Hint 1, by what a byte costs in the smallest and in the largest IOs: the median over patterns.
fn larger_ios(micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let curves = curves(micro_benchmarks, "IOSize");
    let mut gains: Vec<(f64, f64, String)> = Vec::new();
    for (pattern, points) in &curves {
        let (Some(small), Some(large)) = (points.first(), points.last()) else { continue };
        if small.value <= 0.0 || large.value < 4.0 * small.value {
            continue;
        }
        let gain = (small.response_ns_mean / small.value) / (large.response_ns_mean / large.value);
        let fixed =
            latency_floor(points).map(|ns| format!(", of which {} fixed", time(ns))).unwrap_or_default();
        let (from, to) = (size(small), size(large));
        let text = format!(
            "{pattern} moves {gain:.1} times the bytes a second at {to} as at {from} ({} an IO{fixed})",
            time(small.response_ns_mean)
        );
        gains.push((gain, both(small, large), text));
    }
    gains.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The median, the lower of the middle two.
    let Some((gain, noise, evidence)) = gains.get(gains.len().saturating_sub(1) / 2).cloned() else {
        return not_measured("granularity micro-benchmark");
    };
    choose(
        exceeds(gain, noise, GRANULARITY_GAIN),
        format!("{evidence}, the median of {} patterns.", gains.len()),
        (Verdict::Holds, "Batch small IOs into larger ones, reads as well.".to_owned()),
        (
            Verdict::DoesNotHold,
            "Small IOs waste nothing here: use the size that the data asks for.".to_owned(),
        ),
    )
}

/// The fixed cost A of T = A + n B, in nanoseconds, by least squares of the relative errors.
fn latency_floor(points: &[&Point]) -> Option<f64> {
    let (mut s0, mut s1, mut s2, mut t0, mut t1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for point in points {
        let weight = point.response_ns_mean.powi(-2);
        s0 += weight;
        s1 += weight * point.value;
        s2 += weight * point.value * point.value;
        t0 += weight * point.response_ns_mean;
        t1 += weight * point.value * point.response_ns_mean;
    }
    let determinant = s0 * s2 - s1 * s1;
    let fixed = (t0 * s2 - t1 * s1) / determinant;
    (points.len() > 2 && fixed.is_finite() && fixed > 0.0).then_some(fixed)
}

/// Hint 2, by the size of most power: throughput over response time (Kleinrock 1979), where
/// doubling the size ceases to buy more throughput than it costs in waiting. The median over
/// patterns.
fn block_size(micro_benchmarks: &[MicroBenchmark]) -> Decision {
    const PAPER_SIZE: f64 = 32768.0;
    let curves: Vec<_> = curves(micro_benchmarks, "IOSize")
        .into_iter()
        .filter(|(_, points)| {
            points.first().is_some_and(|p| p.value < PAPER_SIZE)
                && points.last().is_some_and(|p| p.value > PAPER_SIZE)
        })
        .collect();
    let power = |point: &&Point| point.value / point.response_ns_mean.powi(2);
    let best: Vec<&Point> = curves
        .iter()
        .filter_map(|(_, points)| points.iter().copied().max_by(|a, b| power(a).total_cmp(&power(b))))
        .collect();
    if best.is_empty() {
        return not_measured("granularity micro-benchmark with IOSizes under and over 32 KiB");
    }
    let mut sizes: Vec<f64> = best.iter().map(|point| point.value).collect();
    sizes.sort_by(f64::total_cmp);
    let knee = sizes[(sizes.len() - 1) / 2];
    let each = curves.iter().zip(&best).map(|((pattern, _), point)| format!("{pattern} {}", size(point)));
    let evidence = format!(
        "Most throughput for the waiting (bytes a second over response time): {}.",
        each.collect::<Vec<_>>().join(", ")
    );
    let holds = (PAPER_SIZE / 2.0..=PAPER_SIZE * 2.0).contains(&knee);
    let verdict = if holds { Verdict::Holds } else { Verdict::DoesNotHold };
    (verdict, format!("Use blocks of {}.", Bytes(knee as u64)), evidence)
}

/// Hint 3, by the worst cost of a shifted IO relative to an aligned one.
fn alignment(micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let mut worst: Option<(f64, f64, String, Bytes)> = None;
    for (pattern, points) in curves(micro_benchmarks, "IOShift") {
        let Some((aligned, shifted)) = aligned_and_shifted(&points) else { continue };
        let costliest = shifted
            .iter()
            .max_by(|a, b| a.response_ns_mean.total_cmp(&b.response_ns_mean))
            .expect("there is a shifted point");
        let penalty = costliest.response_ns_mean / aligned.response_ns_mean;
        if worst.as_ref().is_some_and(|worst| worst.0 >= penalty) {
            continue;
        }
        let evidence = format!(
            "{pattern} costs {} shifted by {} and {} aligned: {penalty:.2} times.",
            time(costliest.response_ns_mean),
            size(costliest),
            time(aligned.response_ns_mean)
        );
        worst = Some((penalty, both(aligned, costliest), evidence, alignment_unit(aligned, &shifted)));
    }
    let Some((penalty, noise, evidence, unit)) = worst else {
        return not_measured("alignment micro-benchmark");
    };
    choose(
        exceeds(penalty, noise, MISALIGNMENT),
        evidence,
        (Verdict::Holds, format!("Align IOs to {unit}.")),
        (Verdict::DoesNotHold, "Alignment to the device's logical block is enough.".to_owned()),
    )
}

/// The aligned point, whose IOShift is 0 or the IOSize itself, which is the largest; and the rest.
fn aligned_and_shifted<'a>(points: &[&'a Point]) -> Option<(&'a Point, Vec<&'a Point>)> {
    let aligned = *points.iter().find(|point| point.value == 0.0).or(points.last())?;
    let largest_is_aligned = points.last()?.value == io_size(aligned)?;
    if aligned.value != 0.0 && !largest_is_aligned {
        return None;
    }
    let io_size = io_size(aligned)?;
    let shifted: Vec<&Point> =
        points.iter().copied().filter(|p| p.value > 0.0 && p.value < io_size).collect();
    (!shifted.is_empty()).then_some((aligned, shifted))
}

/// The smallest measured shift whose multiples all cost about as little as aligned IOs; the IOSize
/// where there is none.
fn alignment_unit(aligned: &Point, shifted: &[&Point]) -> Bytes {
    let cheap = |point: &Point| point.response_ns_mean <= MISALIGNMENT * aligned.response_ns_mean;
    shifted
        .iter()
        .find(|unit| shifted.iter().all(|p| p.value % unit.value != 0.0 || cheap(p)))
        .map(|unit| size(unit))
        .unwrap_or(Bytes(io_size(aligned).unwrap_or(0.0) as u64))
}

/// Hint 4, by the locality area (uFLIP section 5.2) and what random writes cost outside it.
fn focused_area(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let Some(locality) = locality(baselines, micro_benchmarks) else {
        return not_measured("locality micro-benchmark");
    };
    let (Some(random), Some(sequential)) = (baseline(baselines, "RW"), baseline(baselines, "SW")) else {
        return not_measured("baseline of random and sequential writes");
    };
    let penalty = random.run.response.mean_ns / sequential.run.response.mean_ns;
    let noise = baseline_noise(random).hypot(baseline_noise(sequential));
    let area = Bytes(locality.area_bytes as u64);
    let evidence = if locality.area_bytes > 0.0 {
        format!(
            "Random writes cost {penalty:.1} times sequential writes, within {area} at most {:.1} times{}.",
            locality.ratio,
            if locality.degrades { "" } else { " (no limit was seen up to there)" }
        )
    } else {
        format!("Random writes cost {penalty:.1} times sequential writes, and no less in any area measured.")
    };
    let focus = if locality.area_bytes > 0.0 {
        (Verdict::Holds, format!("Keep random writes within {area} at a time."))
    } else {
        (Verdict::DoesNotHold, "Avoid random writes: a focused area makes them no cheaper.".to_owned())
    };
    choose(
        exceeds(penalty, noise, RANDOM_EXPENSIVE),
        evidence,
        focus,
        (Verdict::DoesNotHold, "Random writes need no focused area.".to_owned()),
    )
}

fn baseline_noise(baseline: &Baseline) -> f64 {
    baseline.run.precision.unwrap_or(0.25)
}

/// Hint 5, by the knee over Partitions (uFLIP section 5.2).
fn few_partitions(micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let points = curve(micro_benchmarks, "Partitions", "SW");
    let Some(found) = partitioning(micro_benchmarks).filter(|_| points.len() > 1) else {
        return not_measured("partitioning micro-benchmark with a single partition and more");
    };
    let single = points[0].response_ns_mean;
    let beyond: Vec<f64> = points
        .iter()
        .filter(|point| point.value > f64::from(found.partitions))
        .map(|point| point.response_ns_mean / single)
        .collect();
    let n = found.partitions;
    if !found.degrades {
        let evidence =
            format!("Up to {n} partitions, the most measured, cost at most {:.1} times one.", found.ratio);
        return (Verdict::DoesNotHold, format!("Write {n} partitions at once if that helps."), evidence);
    }
    let evidence = format!(
        "Up to {n} partitions cost at most {:.1} times one, more up to {:.1} times.",
        found.ratio,
        largest(&beyond)
    );
    (Verdict::Holds, format!("Write at most {n} sequential partitions at once."), evidence)
}

/// Hint 6, by the worst cost of a mix relative to its baselines, weighted by Ratio.
fn mixing(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Decision {
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
                    "The costliest mix, {pattern} at {}, takes {}, {penalty:.2} times its baselines.",
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
        (Verdict::DoesNotHold, "Keep patterns apart in time.".to_owned()),
        (Verdict::Holds, "Patterns may be combined freely, two at a time.".to_owned()),
    )
}

/// Hint 7, by what ParallelDegree and Pause do to the IOs a second.
fn scheduling(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Decision {
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
        return (Verdict::DoesNotHold, helping.join(" "), evidence);
    }
    match (parallel.is_some() && pause.is_some(), verdicts.iter().all(|v| *v == Some(false))) {
        (false, _) if measured.is_empty() => not_measured("parallelism and the pause micro-benchmark"),
        (false, _) => {
            let (verdict, advice, missing) = not_measured("parallelism or the pause micro-benchmark");
            (verdict, advice, format!("{evidence} {missing}"))
        }
        (true, false) => cannot_tell(evidence),
        (true, true) => (Verdict::Holds, "Submit IOs one at a time and without pauses.".to_owned(), evidence),
    }
}

/// The most that a way of scheduling raises the IOs a second.
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
                    advice: format!("Keep {} IOs in flight for {pattern}.", point.label),
                });
            }
        }
    }
    best
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

#[cfg(test)]
mod tests;
