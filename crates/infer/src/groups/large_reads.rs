//! What a read costs beyond its bytes, and from which size on larger ones bring nothing.
//!
//! # Model
//! Ajwani et al., appendix A: the size of sequential IOs is doubled until the throughput grows by less than 2.5 %.
//! El Maghraoui et al., section 4: T = A + nB, fitted here to sequential reads of 64 KiB to 1 MiB by least squares of the
//! relative deviations. Both go by median response times.
//!
//! # Probes
//! All sizes are read in turns, each time from another place on, until every doubling is on one side of 2.5 % with
//! 99 % and A is exact enough, or the time is used up. A device that is read only may hold no data, which is read
//! without the flash: then nothing is sure.

use flashlab_analysis::decide::level::level;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use super::patterns::{ios, responses};
use super::reads::median;
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const LARGE_READS: Group = Group {
    name: "large-reads",
    about: "sequential reads of doubling size: what each costs beyond its bytes, and where larger brings nothing",
    parameters: &[Parameter::ReadCostPerIo, Parameter::ReadSaturationSize],
    write_share: 0.0,
    probe,
};

/// The throughput has to grow by this much.
const GROWTH: f64 = 1.025;
/// The line is fitted to reads of these sizes, and doublings between.
const LINE_FROM: Bytes = Bytes::kib(64);
const LINE_TO: Bytes = Bytes::mib(1);
/// The largest size.
const SIZE_MAX: Bytes = Bytes::mib(16);
/// About so much of each size is read in a turn.
const TURN_BYTES: Bytes = Bytes::mib(4);
/// The most turns.
const TURNS_MAX: u64 = 129;
/// The share of the time for reading that it may take.
const TIME_SHARE: f64 = 0.2;
/// The confidence of answers on a device that may hold no data.
const UNSURE: f64 = 0.9;

/// Reads of one size.
struct Curve {
    size: Bytes,
    times: Vec<f64>,
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let begin = session.time_left();
    let limit = Nanos((begin.0 as f64 * TIME_SHARE) as u64);
    let mut curves = first_look(session)?;
    if curves.len() < 3 {
        return Err(Halt::Misfit("it has no room for large reads".to_owned()));
    }
    for turn in 1..TURNS_MAX {
        for curve in &mut curves {
            read(session, curve, turn)?;
        }
        // Looked at rarely: that takes as long as a turn.
        if turn >= 4 && turn.is_power_of_two() && saturation(&curves).is_some_and(|(_, sure)| sure) {
            let exact = |cost: Interval| cost.relative_half_width() < 0.022;
            if cost(&curves).is_some_and(exact) {
                break;
            }
        }
        // The next turn takes as long as one did on average.
        let used = begin.since(session.time_left());
        if used.0 / (turn + 1) * (turn + 2) > limit.0 {
            break;
        }
    }
    conclude(session, &curves);
    Ok(())
}

/// Reads of doubling size, until doubling them has brought nothing twice, and the line has all its sizes.
fn first_look(session: &mut Session<'_, '_>) -> Result<Vec<Curve>, Halt> {
    let mut curves: Vec<Curve> = Vec::new();
    let mut size = Bytes::kib(4).max(session.block());
    while size <= SIZE_MAX && size.0 * 8 <= session.capacity().0 {
        let mut curve = Curve { size, times: Vec::new() };
        read(session, &mut curve, 0)?;
        curves.push(curve);
        let grows = |pair: &[Curve]| growth(&pair[0], &pair[1]).estimate >= GROWTH;
        if size > LINE_TO && !curves.windows(2).rev().take(2).any(grows) {
            break;
        }
        size = size * 2;
    }
    Ok(curves)
}

/// A turn's reads, without the first one: it does not follow another.
fn read(session: &mut Session<'_, '_>, curve: &mut Curve, turn: u64) -> Result<(), Halt> {
    let capacity = session.capacity();
    let count = (TURN_BYTES.0 / curve.size.0).clamp(4, 48).min(capacity.0 / curve.size.0 / 2);
    let length = curve.size * count;
    let offset = length * (turn * 7 % (capacity.0 / length.0).max(1));
    let mut pattern = ios(Mode::Read, Location::Sequential, curve.size, count);
    pattern.first.target_offset = offset;
    curve.times.extend(responses(&session.run("sequential-reads", &pattern)?).split_off(1));
    Ok(())
}

/// The first size from which doubling brings less, and whether it and all others are clear.
fn saturation(curves: &[Curve]) -> Option<(usize, bool)> {
    let mut sure = true;
    let growths: Vec<Interval> = curves.windows(2).map(|pair| growth(&pair[0], &pair[1])).collect();
    for (index, growth) in growths.iter().enumerate() {
        sure &= !(growth.low..growth.high).contains(&GROWTH);
        if growth.estimate < GROWTH {
            // Where it grows again, or falls, the size is not all that counts.
            let steady = |growth: &Interval| (2.0 - GROWTH..GROWTH).contains(&growth.estimate);
            return Some((index, sure && growths[index..].iter().all(steady)));
        }
    }
    None
}

/// By how much the throughput grows from one size to its double: the ratio of medians, between those of the ends of
/// their intervals.
fn growth(small: &Curve, large: &Curve) -> Interval {
    let estimate = 2.0 * median(&small.times) / median(&large.times).max(1.0);
    match (level(&small.times, 0.95), level(&large.times, 0.95)) {
        (Some(small), Some(large)) => Interval {
            estimate,
            low: 2.0 * small.low / large.high.max(1.0),
            high: 2.0 * small.high / large.low.max(1.0),
        },
        _ => Interval { estimate, low: 0.0, high: f64::INFINITY },
    }
}

/// A of the line, with the interval that holds it with 95 %.
fn cost(curves: &[Curve]) -> Option<Interval> {
    let points: Vec<(f64, f64, f64)> = curves
        .iter()
        .filter(|curve| (LINE_FROM..=LINE_TO).contains(&curve.size))
        .map(|curve| {
            let time = median(&curve.times);
            let error =
                level(&curve.times, 0.95).map_or(f64::INFINITY, |level| (level.high - level.low) / 2.0);
            (curve.size.0 as f64, time, error)
        })
        .collect();
    if points.len() < 3 || points.iter().any(|&(_, time, _)| time <= 0.0) {
        return None;
    }
    // Least squares with weights 1 / time^2; A is a weighted sum of the times, and so is its error.
    let sum = |of: &dyn Fn(f64) -> f64| points.iter().map(|&(n, time, _)| of(n) / (time * time)).sum::<f64>();
    let (s, sn, snn) = (sum(&|_| 1.0), sum(&|n| n), sum(&|n| n * n));
    let determinant = s * snn - sn * sn;
    let share = |n: f64, time: f64| (snn - sn * n) / (determinant * time * time);
    let estimate = points.iter().map(|&(n, time, _)| share(n, time) * time).sum::<f64>();
    let error = points.iter().map(|&(n, time, error)| (share(n, time) * error).powi(2)).sum::<f64>().sqrt();
    Some(Interval { estimate, low: estimate - error, high: estimate + error })
}

fn conclude(session: &mut Session<'_, '_>, curves: &[Curve]) {
    let most = if session.holds_data() { 0.97 } else { UNSURE };
    let points = curves.iter().map(|curve| (curve.size.0 as f64, median(&curve.times))).collect();
    let picture = Picture::new(
        "Median response time of sequential reads over their size.",
        Axis::logarithmic("IOSize", "bytes"),
        Axis::logarithmic("response time", "ns"),
    );
    let picture = picture.draw("sequential reads", Style::Line, points);
    if let Some((index, sure)) = saturation(curves) {
        let [small, large] = [&curves[index], &curves[index + 1]];
        let size = small.size;
        let percent = (growth(small, large).estimate - 1.0) * 100.0;
        let mut evidence = format!("doubling {size} brings {percent:.1} % of throughput");
        if let Some(before) = index.checked_sub(1) {
            let percent = (growth(&curves[before], small).estimate - 1.0) * 100.0;
            evidence += &format!(", doubling half of it {percent:.1} %");
        }
        let confidence = if sure { most } else { 0.7 };
        let finding = Finding::found(Parameter::ReadSaturationSize, size, confidence, evidence);
        session.conclude(finding.with(picture.clone().mark(size.0 as f64, "saturated")));
    } else {
        let evidence = format!("the throughput grows up to reads of {}", curves[curves.len() - 1].size);
        session
            .conclude(Finding::undetermined(Parameter::ReadSaturationSize, evidence).with(picture.clone()));
    }
    let Some(cost) = cost(curves) else { return };
    let evidence = format!(
        "a line through the median times of reads of {LINE_FROM} to {LINE_TO} begins at {:.0} ns (95 %: {:.0} to {:.0} ns)",
        cost.estimate, cost.low, cost.high
    );
    // Right is within 3 %: how many of the interval's half widths, of two standard errors each, that is.
    let errors = 0.03 * cost.estimate / ((cost.high - cost.low) / 4.0).max(f64::MIN_POSITIVE);
    let confidence = match errors {
        _ if cost.low <= 0.0 => 0.0,
        // A curve that is no line may be sampled unevenly, which the interval does not know.
        errors if errors >= 2.6 => UNSURE,
        errors if errors >= 2.0 => 0.85,
        errors if errors >= 1.0 => 0.7,
        _ => 0.0,
    };
    let finding = if confidence > 0.0 {
        let value = Nanos(cost.estimate.max(0.0) as u64);
        Finding::found(Parameter::ReadCostPerIo, value, confidence, evidence)
    } else {
        Finding::undetermined(Parameter::ReadCostPerIo, evidence)
    };
    session.conclude(finding.with(picture));
}
