//! What a read costs beyond its bytes, and from which size on larger ones bring nothing.
//!
//! # Model
//! Ajwani et al., appendix A: the size of sequential IOs is doubled until the throughput grows by less than 2.5 %.
//! El Maghraoui et al., section 4: T = A + nB, fitted here to sequential reads of 64 KiB to 1 MiB by least squares of the
//! relative deviations. Both go by median response times.
//!
//! A is what T64 leaves when 64 KiB of B are taken from it, often a small part. Where smaller reads lie on the same line,
//! as a test of the deviations says, they tell A better.
//!
//! # Probes
//! All sizes are read in turns, each time from another place on, until every doubling is on one side of 2.5 % with
//! 99 % and A is exact enough, or the time is used up. A pause after each read lets the device end what belongs to it; none
//! where it reads ahead, which is what sequential reads gain by. A device that is read only may hold no data, which is read
//! without the flash: then nothing is sure.

use flashlab_analysis::decide::level::centre;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::decide::weighted_line::{Point, weighted_line};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::{Location, Time};

use super::figures::median;
use super::patterns::{ios, responses};
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
/// The fewest and the most reads of a size in a turn, and about so much of a large one.
const TURN_READS: (u64, u64) = (7, 48);
const LARGE_TURN: Bytes = Bytes::mib(8);
/// The most that is read in all.
const ALL_BYTES: Bytes = Bytes::gib(8);
/// The share of the time for reading that it may take: no group that only reads follows.
const TIME_SHARE: f64 = 0.97;
/// The pause after a read, as a share of what it takes.
const PAUSE: f64 = 0.2;
/// With this chance, sizes that lie on a line are not taken to.
const NO_LINE: f64 = 0.2;
/// A is exact enough if the interval's half width is so much of it, and of no use if it is more than this.
const EXACT: f64 = 0.02;
const NEAR: f64 = 0.15;
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
    let alone = session.known().bytes(Parameter::ReadAheadSize) == Some(Bytes::ZERO);
    let mut curves = first_look(session)?;
    if curves.len() < 3 {
        return Err(Halt::Misfit("it has no room for large reads".to_owned()));
    }
    curves.iter_mut().for_each(|curve| curve.times.truncate(if alone { 1 } else { usize::MAX }));
    let (mut wanted, mut longest, mut read_bytes) =
        (vec![Wanted::ForLine; curves.len()], Nanos::ZERO, Bytes::ZERO);
    for turn in 1_u64.. {
        let before = session.time_left();
        for (curve, &wanted) in curves.iter_mut().zip(&wanted).filter(|(_, wanted)| **wanted != Wanted::No) {
            let count = wanted.reads(curve.size);
            match read(session, curve, (turn, count), if alone { PAUSE } else { 0.0 }) {
                Ok(length) => read_bytes += length,
                // What was read until then says what it says.
                Err(Halt::Time) => break,
                Err(halt) => return Err(halt),
            }
        }
        longest = longest.max(before.since(session.time_left()));
        let used = begin.since(session.time_left());
        // Looked at some times until there are twice as many: that takes as long as a turn.
        if turn >= 4 && turn.is_multiple_of(turn.div_ceil(8).next_power_of_two()) {
            wanted = still_wanted(&curves, alone, (limit.0 as f64 / used.0.max(1) as f64).max(1.0));
        }
        let done = wanted.iter().all(|&wanted| wanted == Wanted::No);
        if done || used + longest > limit || read_bytes > ALL_BYTES {
            break;
        }
    }
    conclude(session, &curves, alone);
    Ok(())
}

/// Whether a size has to be read again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    No,
    /// For the line: A hangs on the sizes from which it starts, and they cost little.
    ForLine,
    /// For a doubling that may bring 2.5 % or not.
    ForGrowth,
}

impl Wanted {
    fn reads(self, size: Bytes) -> u64 {
        match self {
            Wanted::ForGrowth => (LARGE_TURN.0 / size.0).clamp(TURN_READS.0, TURN_READS.1),
            _ if size <= LINE_FROM => TURN_READS.1,
            _ => TURN_READS.0,
        }
    }
}

/// Reads of doubling size, until doubling them has brought nothing twice, and the line has all its sizes.
fn first_look(session: &mut Session<'_, '_>) -> Result<Vec<Curve>, Halt> {
    let mut curves: Vec<Curve> = Vec::new();
    let mut size = Bytes::kib(4).max(session.block());
    while size <= SIZE_MAX && size.0 * 8 <= session.capacity().0 {
        let mut curve = Curve { size, times: Vec::new() };
        read(session, &mut curve, (0, Wanted::ForLine.reads(size)), 0.0)?;
        curves.push(curve);
        let grows = |pair: &[Curve]| growth(&pair[0], &pair[1]).estimate >= GROWTH;
        if size > LINE_TO && !curves.windows(2).rev().take(2).any(grows) {
            break;
        }
        size = size * 2;
    }
    Ok(curves)
}

/// A turn's reads, without the first one, which does not follow another; how much was read.
fn read(
    session: &mut Session<'_, '_>,
    curve: &mut Curve,
    (turn, count): (u64, u64),
    pause: f64,
) -> Result<Bytes, Halt> {
    let capacity = session.capacity();
    let count = count.min(capacity.0 / curve.size.0 / 2);
    let length = curve.size * count;
    let offset = length * (turn * 7 % (capacity.0 / length.0).max(1));
    let mut pattern = ios(Mode::Read, Location::Sequential, curve.size, count);
    pattern.first.target_offset = offset;
    if pause > 0.0 {
        pattern.first.time = Time::Pause { pause: Nanos((pause * median(&curve.times)) as u64) };
    }
    curve.times.extend(responses(&session.run("sequential-reads", &pattern)?).split_off(1));
    Ok(length)
}

/// The sizes that have to be read again: those of doublings up to saturation that are not clear, and those of the line
/// unless A is exact, or will not be when `times` as many reads were done.
fn still_wanted(curves: &[Curve], alone: bool, times: f64) -> Vec<Wanted> {
    let growths: Vec<Interval> = curves.windows(2).map(|pair| growth(&pair[0], &pair[1])).collect();
    let until = growths.iter().position(|growth| growth.high < GROWTH).unwrap_or(growths.len());
    let is_open = |index: usize| {
        growths[..until].get(index).is_some_and(|growth| growth.low < GROWTH && growth.high > GROWTH)
    };
    let half_width = cost(curves, alone).map_or(f64::INFINITY, |cost| cost.relative_half_width());
    let for_line = (EXACT..NEAR * times.sqrt()).contains(&half_width);
    let wanted = |(index, curve): (usize, &Curve)| {
        if is_open(index) || (index > 0 && is_open(index - 1)) {
            Wanted::ForGrowth
        } else if for_line && curve.size <= LINE_TO {
            Wanted::ForLine
        } else {
            Wanted::No
        }
    };
    curves.iter().enumerate().map(wanted).collect()
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

/// By how much the throughput grows from one size to its double, with the interval that holds it with 99 %.
fn growth(small: &Curve, large: &Curve) -> Interval {
    let estimate = 2.0 * median(&small.times) / median(&large.times).max(1.0);
    let Some((small, large)) = point(small).zip(point(large)) else {
        return Interval { estimate, low: 0.0, high: f64::INFINITY };
    };
    let estimate = 2.0 * small.y / large.y;
    let half = 2.6 * estimate * (small.error / small.y).hypot(large.error / large.y);
    Interval { estimate, low: estimate - half, high: estimate + half }
}

/// A of the line through the sizes of the definition, and through smaller ones as far as they are on it, with the interval
/// that holds it with 95 %; `alone`: they are not answered from what was read ahead.
fn cost(curves: &[Curve], alone: bool) -> Option<Interval> {
    let points = curves.iter().filter(|curve| curve.size <= LINE_TO);
    let points: Vec<Point> = points.map(point).collect::<Option<_>>()?;
    let first = points.iter().position(|point| point.x >= LINE_FROM.0 as f64)?;
    let relative = weighted_line(&points[first..], |point| point.y)?;
    let by_error = |from: usize| weighted_line(&points[from..], |point| point.error);
    let on_line = |&from: &usize| by_error(from).is_some_and(|line| alone && line.chance > NO_LINE);
    let longer = (0..first).find(on_line);
    Some(longer.and_then(by_error).unwrap_or(relative).intercept)
}

/// The median time of reads of a size.
fn point(curve: &Curve) -> Option<Point> {
    let time = centre(&curve.times, 0.95)?;
    let error = ((time.high - time.low) / 4.0).max(1e-6 * time.estimate);
    (time.estimate > 0.0).then_some(Point { x: curve.size.0 as f64, y: time.estimate, error })
}

fn conclude(session: &mut Session<'_, '_>, curves: &[Curve], alone: bool) {
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
    let Some(cost) = cost(curves, alone) else { return };
    let evidence = format!(
        "the line through the median times of reads of {LINE_FROM} to {LINE_TO} begins at {:.0} ns (95 %: {:.0} to {:.0} ns)",
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
        // More often right than wrong.
        errors if errors >= 0.7 => 0.5,
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
