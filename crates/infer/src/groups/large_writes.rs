//! What a write costs beyond its bytes, and from which size on larger ones bring nothing.
//!
//! # Model
//! A sequential write of n bytes takes T = A + nB (El Maghraoui et al., section 4). Throughput grows with the size as
//! long as A counts, or dies are left without work; where doubling brings less than 2.5 % it is saturated (Ajwani et
//! al., appendix A). On a line that is where A is a fortieth of T, so that the line tells it better than the doublings do.
//! Smaller writes tell A as those of the definition do, as long as all lie on one line by a test of their deviations.
//!
//! All sizes together are one sequence of writes, large ones first in each turn so that all are aligned: the last part of
//! filling the device, where no room has to be made and nothing is merged. A write buffer stays full; what it takes first does not
//! count.
//!
//! # Invariants
//! - the device is written in order to its end, whatever is seen;
//! - what doubling brings decides where it is clear; the line only where it is not.

use flashlab_analysis::decide::level::centre;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::decide::weighted_line::{Point, WeightedLine, weighted_line};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Location, Time};

use super::figures::median;
use super::fill;
use super::writes::{times, writes};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "large-writes",
    about: "sequential writes of doubling size: what each costs beyond its bytes, and where larger brings nothing",
    parameters: &[Parameter::WriteCostPerIo, Parameter::WriteSaturationSize],
    write_share: 0.075,
    probe,
};

/// The part of the device that is left for this, and the most.
const PART: u64 = 4;
const MOST: Bytes = Bytes::mib(256);
/// Whole pages, nearly always: the smallest writes.
const WHOLE_PAGES: Bytes = Bytes::kib(16);
/// The sizes that define A, of which the largest may be left out.
const LINE_FROM: Bytes = Bytes::kib(64);
const LARGEST: [Bytes; 3] = [Bytes::mib(1), Bytes::kib(512), Bytes::kib(256)];
/// The fewest writes of the largest size.
const TURNS: u64 = 8;
/// The smallest size of which is asked from when on it saturates.
const SMALLEST: u64 = 4096;
/// Throughput has to grow by this much.
const GROWTH: f64 = 1.025;
/// The pause after a write, as a share of what it takes.
const PAUSE: f64 = 0.2;
/// With this chance, sizes that lie on a line are not taken to.
const NO_LINE: f64 = 0.03;
/// A is exact if the interval's half width is so much of it.
const EXACT: f64 = 0.03;

/// Writes of one size.
struct Curve {
    size: Bytes,
    times: Vec<f64>,
    /// The median of its last run.
    usual: f64,
}

/// What is left at the device's end when it is filled.
pub(super) fn reserved(session: &Session<'_, '_>) -> Bytes {
    let largest = LARGEST[0];
    Bytes(session.capacity().0 / PART).min(MOST).round_down(largest) + Bytes(session.capacity().0 % largest.0)
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let curves = fill_the_rest(session);
    // Whatever happened, it is written to its end if it can be.
    let smallest = fill::io_size(session.capacity(), session.block());
    let rest = session.capacity() - session.filled_until();
    fill::sequential_writes(session, "fill", smallest, session.filled_until(), rest)?;
    session.filled(rest);
    let curves = curves?;
    let points: Vec<Point> = curves.iter().filter_map(point).collect();
    let line = longest_line(&points);
    let picture = picture(&curves);
    session.conclude(cost(&points, line).with(picture.clone()));
    session.conclude(saturation(&points, line).with(picture));
    Ok(())
}

/// Writes turns of all sizes, as much of each.
fn fill_the_rest(session: &mut Session<'_, '_>) -> Result<Vec<Curve>, Halt> {
    let smallest = WHOLE_PAGES.max(session.block());
    let end = session.capacity();
    let rest = end - session.filled_until();
    let sizes = |largest: Bytes| {
        let sizes = (0..).map(move |double| Bytes(smallest.0 << double));
        sizes.take_while(move |&size| size <= largest).collect::<Vec<_>>()
    };
    let turn = |largest: Bytes| largest * sizes(largest).len() as u64;
    let Some(largest) = LARGEST.into_iter().find(|&largest| turn(largest) * (TURNS + 1) <= rest) else {
        return Err(Halt::Misfit("it has no room for large writes".to_owned()));
    };
    let mut curves: Vec<Curve> =
        sizes(largest).into_iter().map(|size| Curve { size, times: Vec::new(), usual: 0.0 }).collect();
    // A rested device takes the first writes into its buffer. One without ends each write before the next one comes, if
    // there is a pause.
    let buffer = session.known().bytes(Parameter::WriteBufferSize);
    let pause = if buffer == Some(Bytes::ZERO) { PAUSE } else { 0.0 };
    let settled =
        session.filled_until() + (buffer.unwrap_or_default() * 2).max(turn(largest)).min(Bytes(rest.0 / 2));
    if !session.filled_until().is_multiple_of(largest) {
        return Err(Halt::Failed("the device was filled to an odd place".to_owned()));
    }
    while session.filled_until() + turn(largest) <= end {
        for curve in curves.iter_mut().rev() {
            let (at, count) = (session.filled_until(), largest.0 / curve.size.0);
            let mut pattern = writes(Location::Sequential, curve.size, count, at, largest);
            if pause * curve.usual > 0.0 {
                pattern.first.time = Time::Pause { pause: Nanos((pause * curve.usual) as u64) };
            }
            let costs = times(session, "sequential-writes", &pattern)?;
            session.filled(largest);
            curve.usual = median(&costs);
            if at >= settled {
                curve.times.extend(costs);
            }
        }
    }
    Ok(curves)
}

fn point(curve: &Curve) -> Option<Point> {
    let time = centre(&curve.times, 0.95)?;
    let error = ((time.high - time.low) / 4.0).max(1e-6 * time.estimate);
    (time.estimate > 0.0).then_some(Point { x: curve.size.0 as f64, y: time.estimate, error })
}

/// The line through as many of the largest sizes as lie on one, and its smallest size.
fn longest_line(points: &[Point]) -> Option<(f64, WeightedLine)> {
    let first = points.iter().position(|point| point.x >= LINE_FROM.0 as f64)?;
    let line = |from: usize| {
        let line = weighted_line(&points[from..], |point| point.error)?;
        (line.chance > NO_LINE && line.slope > 0.0).then_some((points[from].x, line))
    };
    (0..=first).find_map(line)
}

fn cost(points: &[Point], line: Option<(f64, WeightedLine)>) -> Finding {
    let parameter = Parameter::WriteCostPerIo;
    // Where they lie on no line, A is that of the definition, which has to have all its sizes.
    let whole = points.last().is_some_and(|point| point.x == LARGEST[0].0 as f64);
    let is_line = line.is_some();
    let defined = || {
        let from = points.iter().position(|point| point.x >= LINE_FROM.0 as f64)?;
        Some((points[from].x, weighted_line(&points[from..], |point| point.y)?))
    };
    let Some((from, line)) = line.or_else(defined) else {
        return Finding::undetermined(parameter, "the medians of sequential writes lie on no line");
    };
    let Interval { estimate, low, high } = line.intercept;
    let evidence = format!(
        "the line through the medians of sequential writes of {} to {} begins at {:.1} us (95 %: {:.1} to {:.1} us)",
        Bytes(from as u64),
        Bytes(points[points.len() - 1].x as u64),
        estimate / 1e3,
        low / 1e3,
        high / 1e3
    );
    let half = (high - low) / 2.0 / estimate;
    // The half width is of two standard errors: the chance that it is within 3 %.
    let confidence = match half / EXACT {
        _ if estimate <= 0.0 => 0.0,
        exact if exact <= 1.0 => 0.85,
        exact if exact <= 1.5 => 0.75,
        exact if exact <= 2.0 => 0.65,
        exact if exact <= 2.8 => 0.5,
        _ => 0.0,
    };
    if confidence == 0.0 {
        return Finding::undetermined(parameter, evidence);
    }
    let most = if is_line || whole { 1.0 } else { 0.5 };
    Finding::found(parameter, Nanos(estimate as u64), f64::min(confidence, most), evidence)
}

/// By how much the throughput grows from one size to its double, with 99 %.
fn growth(small: &Point, large: &Point) -> Interval {
    let estimate = large.x / small.x * small.y / large.y;
    let half = 2.6 * estimate * (small.error / small.y).hypot(large.error / large.y);
    Interval { estimate, low: estimate - half, high: estimate + half }
}

/// The size, a power of two, from which doubling brings less on a line with this intercept.
fn saturated_on(intercept: f64, slope: f64) -> u64 {
    // 2 (A + nB) / (A + 2nB) < g where n > A (2 - g) / (2B (g - 1)).
    let least = intercept.max(0.0) * (2.0 - GROWTH) / (2.0 * slope * (GROWTH - 1.0));
    (least.ceil() as u64).max(SMALLEST).next_power_of_two()
}

fn saturation(points: &[Point], line: Option<(f64, WeightedLine)>) -> Finding {
    let parameter = Parameter::WriteSaturationSize;
    let growths: Vec<Interval> = points.windows(2).map(|pair| growth(&pair[0], &pair[1])).collect();
    let words: Vec<String> =
        growths.iter().map(|growth| format!("{:+.1}", (growth.estimate - 1.0) * 100.0)).collect();
    let evidence = format!(
        "doubling the size, from {} on, brings {} % of throughput",
        Bytes(points.first().map_or(0, |point| point.x as u64)),
        words.join(", ")
    );
    let least = growths.iter().position(|growth| growth.low < GROWTH).unwrap_or(growths.len());
    // A size from which more is lost than that was disturbed.
    if let Some(growth) = growths.get(least)
        && least > 0
        && growth.high < GROWTH
        && growth.high > 2.0 - GROWTH
    {
        return Finding::found(parameter, Bytes(points[least].x as u64), 0.9, evidence);
    }
    let Some((from, line)) = line else {
        let first = growths.iter().position(|growth| growth.estimate < GROWTH);
        let size = match first {
            None => return Finding::undetermined(parameter, evidence),
            // Two writes of a size against one of twice as much tell A, and smaller ones were not made.
            Some(0) => {
                let slope = (points[1].y - points[0].y) / (points[1].x - points[0].x);
                saturated_on(points[0].y - slope * points[0].x, slope)
            }
            Some(index) => points[index].x as u64,
        };
        return Finding::found(parameter, Bytes(size), 0.5, evidence);
    };
    let size = saturated_on(line.intercept.estimate, line.slope);
    let evidence = format!(
        "{evidence}; on the line from {} on, {:.1} us and {:.1} ns for each KiB, it saturates from {} on",
        Bytes(from as u64),
        line.intercept.estimate / 1e3,
        line.slope * 1024.0,
        Bytes(size)
    );
    let sure = [line.intercept.low, line.intercept.high].iter().all(|&a| saturated_on(a, line.slope) == size);
    // The line has to agree with what was seen to grow, and says less of writes that are smaller than all of them.
    if least < growths.len() && points[least].x > size as f64 {
        return Finding::undetermined(parameter, evidence);
    }
    let confidence = if sure && size as f64 >= from { 0.85 } else { 0.6 };
    Finding::found(parameter, Bytes(size), confidence, evidence)
}

fn picture(curves: &[Curve]) -> Picture {
    let points = curves.iter().map(|curve| (curve.size.0 as f64, median(&curve.times).max(1.0))).collect();
    Picture::new(
        "Median response time of sequential writes over their size.",
        Axis::logarithmic("IOSize", "bytes"),
        Axis::logarithmic("response time", "ns"),
    )
    .draw("sequential writes", Style::Line, points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_saturates_where_doubling_brings_too_little() {
        let brings = |n: f64| 2.0 * (1000.0 + n * 0.5) / (1000.0 + 2.0 * n * 0.5);
        let size = saturated_on(1000.0, 0.5) as f64;
        assert!(brings(size) < GROWTH && brings(size / 2.0) >= GROWTH, "{size}");
        assert_eq!(saturated_on(-5.0, 0.5), SMALLEST);
    }

    #[test]
    fn growth_is_of_throughput() {
        let point = |x, y| Point { x, y, error: 1e-6 };
        let estimate = |small, large| growth(&small, &large).estimate;
        assert!((estimate(point(4096.0, 10.0), point(8192.0, 10.0)) - 2.0).abs() < 1e-9);
        assert!((estimate(point(4096.0, 10.0), point(8192.0, 20.0)) - 1.0).abs() < 1e-9);
    }
}
