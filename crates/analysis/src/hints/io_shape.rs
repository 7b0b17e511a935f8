//! Hints 1 to 3: how large an IO should be, and where it should start.

use flashlab_base::Bytes;

use super::decision::{Decision, both, choose, curves, exceeds, not_measured, size, time};
use crate::curve::io_size;
use crate::findings::{HintVerdict, MicroBenchmark, Point};

/// Larger IOs pay if a byte takes this many times less time in them.
const GRANULARITY_GAIN: f64 = 1.5;
/// A misaligned IO is slow if it takes this many times as long as an aligned one.
const MISALIGNMENT: f64 = 1.1;

/// Hint 1, from the time per byte in the smallest and in the largest IOs: the median over patterns.
pub(super) fn larger_ios(micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let curves = curves(micro_benchmarks, "IOSize");
    let mut gains: Vec<(f64, f64, String)> = Vec::new();
    for (pattern, points) in &curves {
        let (Some(small), Some(large)) = (points.first(), points.last()) else { continue };
        if small.value <= 0.0 || large.value < 4.0 * small.value {
            continue;
        }
        let gain = (small.response_ns_mean / small.value) / (large.response_ns_mean / large.value);
        let fixed =
            // If the line is higher than its first point, it shows no fixed cost.
            latency_floor(points).filter(|&ns| ns < small.response_ns_mean).map(|ns| format!(", of which {} fixed", time(ns))).unwrap_or_default();
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
        (HintVerdict::Holds, "Batch small IOs into larger ones, reads as well.".to_owned()),
        (
            HintVerdict::DoesNotHold,
            "Small IOs are as efficient as large ones: use the size of the data.".to_owned(),
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

/// Hint 2, from the size with the most power: throughput divided by response time (Kleinrock 1979). From
/// there on, doubling the size adds more response time than throughput. The median over patterns.
pub(super) fn block_size(micro_benchmarks: &[MicroBenchmark]) -> Decision {
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
    let evidence =
        format!("Best ratio of throughput to response time: {}.", each.collect::<Vec<_>>().join(", "));
    let holds = (PAPER_SIZE / 2.0..=PAPER_SIZE * 2.0).contains(&knee);
    let verdict = if holds { HintVerdict::Holds } else { HintVerdict::DoesNotHold };
    (verdict, format!("Use blocks of {}.", Bytes(knee as u64)), evidence)
}

/// Hint 3, from the slowest shifted IO relative to an aligned one.
pub(super) fn alignment(micro_benchmarks: &[MicroBenchmark]) -> Decision {
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
        (HintVerdict::Holds, format!("Align IOs to {unit}.")),
        (HintVerdict::DoesNotHold, "Alignment to the device's logical block is enough.".to_owned()),
    )
}

/// The aligned point, and the shifted ones. The IOShift of the aligned point is 0 or the IOSize itself, which
/// is the largest.
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

/// The smallest measured shift whose multiples are all about as fast as aligned IOs; the IOSize if there is
/// none.
fn alignment_unit(aligned: &Point, shifted: &[&Point]) -> Bytes {
    let cheap = |point: &Point| point.response_ns_mean <= MISALIGNMENT * aligned.response_ns_mean;
    shifted
        .iter()
        .find(|unit| shifted.iter().all(|p| p.value % unit.value != 0.0 || cheap(p)))
        .map(|unit| size(unit))
        .unwrap_or(Bytes(io_size(aligned).unwrap_or(0.0) as u64))
}
