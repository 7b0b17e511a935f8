//! What a write costs beyond its bytes, and from which size on larger ones bring nothing.
//!
//! # Model
//! As in `sizes`. All sizes together are one sequence of writes, as much of each in a run as the largest has: the last part of
//! filling the device, where no room has to be made and nothing is merged. Once all sizes were written some times, the next
//! run is of the size that has had the smallest part of the time that it is worth.
//!
//! A write buffer stays full; what it takes first does not count. Without one a pause after each write lets the device end it.
//!
//! # Invariants
//! - the device is written in order to its end, whatever is seen;
//! - what doubling brings decides where it is clear; the line only where it is not.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::decide::weighted_line::{Point, WeightedLine};
use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Location, Time};

use super::figures::median;
use super::fill;
use super::row_writes::row_writes;
use super::sizes::{Curve, Fit, GROWTH, PAUSE, cost, fit, growth, picture};
use super::writes::{times, writes};
use crate::group::Group;
use crate::halt::Halt;
use crate::session::Session;

pub(crate) const GROUP: Group = Group {
    name: "large-writes",
    about: "sequential writes of doubling size: what each costs beyond its bytes, and where larger brings nothing",
    parameters: &[Parameter::WriteCostPerIo, Parameter::WriteSaturationSize],
    supposes: &[],
    write_share: 0.075,
    probe,
};

/// The part of the device that is left for this, and the most.
const PART: u64 = 3;
const MOST: Bytes = Bytes::mib(512);
/// Whole pages, nearly always: the smallest writes.
const WHOLE_PAGES: Bytes = Bytes::kib(16);
/// The largest writes, and smaller ones where there is no room for them.
const LARGEST: [Bytes; 3] = [Bytes::mib(1), Bytes::kib(512), Bytes::kib(256)];
/// Writes of a size before it is looked at.
const LOOK_WRITES: usize = 6;
/// As much as so many of the largest writes is room.
const ROOM: u64 = 24;
/// Of so many runs one more is done before it is looked again what the next ones are to be.
const STEADY: u64 = 16;
/// Whether smaller writes lie on the line as well, so many tell.
const SMALLER_WRITES: u64 = 32;
/// The smallest size of which is asked from when on it saturates.
const SMALLEST: Bytes = Bytes::kib(4);

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
    let points: Vec<Point> = curves.iter().map_while(Curve::point).collect();
    let fit = fit(&points, true);
    let picture = picture("sequential writes", &curves);
    let cost = cost(Parameter::WriteCostPerIo, "sequential writes", &points, fit);
    session.conclude(cost.with(picture.clone()));
    let line = fit.filter(|fit| fit.is_line).map(|Fit { from, line, .. }| (points[from].x, line));
    session.conclude(saturation(&points, line).with(picture));
    Ok(())
}

/// The rest of the device, while it is written.
struct Rest {
    /// The bytes of a run.
    largest: Bytes,
    /// After each write, as a share of what it takes.
    pause: f64,
    /// From here on writes count.
    settled: Bytes,
    curves: Vec<Curve>,
    /// What each size had of the time.
    spent: Vec<f64>,
}

/// Writes all sizes in runs, as much in each.
fn fill_the_rest(session: &mut Session<'_, '_>) -> Result<Vec<Curve>, Halt> {
    let smallest = WHOLE_PAGES.max(session.block());
    let (begin, end) = (session.filled_until(), session.capacity());
    let room = |&largest: &Bytes| largest * ROOM <= end - begin && largest >= smallest;
    let Some(largest) = LARGEST.into_iter().find(room) else {
        return Err(Halt::Misfit("it has no room for large writes".to_owned()));
    };
    if !begin.is_multiple_of(largest) {
        return Err(Halt::Failed("the device was filled to an odd place".to_owned()));
    }
    let rows = row_writes(session, largest)?;
    session.keep_row_writes(rows);
    let begin = session.filled_until();
    let sizes = (0..).map(|double| Bytes(smallest.0 << double)).take_while(|&size| size <= largest);
    let curves: Vec<Curve> = sizes.map(Curve::new).collect();
    // A rested device takes the first writes into its buffer. One without ends each write before the next one comes, if
    // there is a pause.
    let buffer = session.known().bytes(Parameter::WriteBufferSize);
    let unsettled = (buffer.unwrap_or_default() * 2).max(largest * 2).min(Bytes((end - begin).0 / 3));
    let mut rest = Rest {
        largest,
        pause: if buffer == Some(Bytes::ZERO) { PAUSE } else { 0.0 },
        settled: begin + unsettled,
        spent: vec![0.0; curves.len()],
        curves,
    };
    let mut runs = 0;
    while session.filled_until() + largest <= end {
        let Some(fit) = rest.fit() else {
            rest.run(session, rest.fewest())?;
            continue;
        };
        let half = Bytes(rest.curves[0].size.0 / 2);
        if fit.from == 0 && half >= SMALLEST.max(session.block()) {
            rest.try_smaller(session, half)?;
            continue;
        }
        let shares = fit.shares(&rest.points());
        // What is of use changes slowly.
        for _ in 0..1 + runs / STEADY {
            if session.filled_until() + largest <= end {
                rest.run(session, rest.poorest(&shares))?;
                runs += 1;
            }
        }
    }
    Ok(rest.curves)
}

impl Rest {
    fn points(&self) -> Vec<Point> {
        self.curves.iter().map_while(Curve::point).collect()
    }

    /// The line, once all sizes were written some times.
    fn fit(&self) -> Option<Fit> {
        let is_seen = self.curves.iter().all(|curve| curve.times.len() >= LOOK_WRITES);
        is_seen.then(|| fit(&self.points(), true)).flatten()
    }

    /// The largest of the sizes that were written too few times, or else the one with the fewest.
    fn fewest(&self) -> usize {
        let few = self.curves.iter().rposition(|curve| curve.times.len() < LOOK_WRITES);
        let fewest = (0..self.curves.len()).min_by_key(|&index| self.curves[index].times.len());
        few.or(fewest).unwrap_or_default()
    }

    /// The size that has had the smallest part of the time that it is worth.
    fn poorest(&self, shares: &[f64]) -> usize {
        let parts = shares.iter().zip(&self.spent).map(|(share, spent)| spent / share.max(1e-9));
        parts.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(index, _)| index)
    }

    /// A run of a size.
    fn run(&mut self, session: &mut Session<'_, '_>, index: usize) -> Result<(), Halt> {
        let count = self.largest.0 / self.curves[index].size.0;
        self.write(session, index, count)
    }

    /// Some writes that are smaller than all before; parts of pages may cost much, and so they are few. What is left of a run
    /// is written by larger ones.
    fn try_smaller(&mut self, session: &mut Session<'_, '_>, size: Bytes) -> Result<(), Halt> {
        self.curves.insert(0, Curve::new(size));
        self.spent.insert(0, 0.0);
        let end = session.filled_until() + self.largest;
        self.write(session, 0, SMALLER_WRITES)?;
        for index in 0..self.curves.len() {
            let size = self.curves[index].size;
            if size >= self.curves[0].size * SMALLER_WRITES && session.filled_until() + size <= end {
                self.write(session, index, 1)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, session: &mut Session<'_, '_>, index: usize, count: u64) -> Result<(), Halt> {
        let (at, curve) = (session.filled_until(), &mut self.curves[index]);
        let length = curve.size * count;
        let mut pattern = writes(Location::Sequential, curve.size, count, at, length);
        let pause = Nanos((self.pause * median(&curve.times)) as u64);
        if pause > Nanos::ZERO {
            session.rest(pause)?;
            pattern.first.time = Time::Pause { pause };
        }
        let costs = times(session, "sequential-writes", &pattern)?;
        session.filled(length);
        if at >= self.settled {
            self.spent[index] += costs.iter().sum::<f64>();
            curve.times.extend(costs);
        }
        Ok(())
    }
}

/// The size, a power of two, from which doubling brings less on a line with this intercept.
fn saturated_on(intercept: f64, slope: f64) -> u64 {
    // 2 (A + nB) / (A + 2nB) < g where n > A (2 - g) / (2B (g - 1)).
    let least = intercept.max(0.0) * (2.0 - GROWTH) / (2.0 * slope * (GROWTH - 1.0));
    (least.ceil() as u64).max(SMALLEST.0).next_power_of_two()
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
    // What was seen to grow counts more than the line, which says less of writes that are smaller than its own.
    if let Some(growth) = growths.get(least).filter(|_| points[least].x > size as f64) {
        return match growth.estimate < GROWTH {
            true => Finding::found(parameter, Bytes(points[least].x as u64), 0.6, evidence),
            false => Finding::undetermined(parameter, evidence),
        };
    }
    let confidence = if sure && size as f64 >= from { 0.85 } else { 0.6 };
    Finding::found(parameter, Bytes(size), confidence, evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_saturates_where_doubling_brings_too_little() {
        let brings = |n: f64| 2.0 * (1000.0 + n * 0.5) / (1000.0 + 2.0 * n * 0.5);
        let size = saturated_on(1000.0, 0.5) as f64;
        assert!(brings(size) < GROWTH && brings(size / 2.0) >= GROWTH, "{size}");
        assert_eq!(saturated_on(-5.0, 0.5), SMALLEST.0);
    }
}
