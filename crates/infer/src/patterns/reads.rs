//! Reads at regular offsets, and the comparison of two kinds of them.
//!
//! # Model
//! A [`Walk`] reads at the start of each slot, so that all its reads have the same offset modulo the slot. Two
//! alternating walks show how their offsets depend on each other: one read at a time shows the cost of switching,
//! several in flight show whether they wait for each other.
//!
//! # Invariants
//! - Compared patterns run alternately (A B A B ...), so that drift and state do not decide.
//! - Each run gives one value: reads in flight together depend on each other, and runs do not.

use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::level::level;
use flashlab_analysis::decide::ranks::{Interval, ratio};
use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Mode, Sample};
use flashlab_plan::{Location, Pattern};

use crate::halt::Halt;
use crate::patterns::ios;
use crate::session::Session;

/// Reads of `size`, one at the start of each slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Walk {
    /// Where the first slot starts.
    pub(crate) offset: Bytes,
    /// How far slots are apart.
    pub(crate) slot: Bytes,
    /// The size of a read.
    pub(crate) size: Bytes,
}

impl Walk {
    /// The walk over `length` bytes, in order, repeatedly, `count` reads with `depth` in flight.
    pub(crate) fn pattern(self, length: Bytes, count: u64, depth: u32) -> Pattern {
        let mut pattern = ios(Mode::Read, Location::Sequential, self.size, count);
        pattern.first.slot_size = Some(self.slot.max(self.size));
        pattern.first.target_offset = self.offset;
        pattern.first.target_size = Some(length);
        pattern.queue_depth = depth;
        pattern
    }

    /// The same reads at random slots.
    pub(crate) fn random(self, length: Bytes, count: u64, depth: u32) -> Pattern {
        let mut pattern = self.pattern(length, count, depth);
        pattern.first.location = Location::Random;
        pattern
    }
}

/// How much, from the start of the device on, can be read at random without going from one segment group to another.
pub(crate) fn room(session: &Session<'_, '_>) -> Bytes {
    let span = session.known().bytes(Parameter::SegmentGroupSpan);
    span.unwrap_or(Bytes(u64::MAX)).max(session.block()).min(session.capacity()).round_down(session.block())
}

/// Response times in nanoseconds, in the order in which the reads were submitted, without those of the first `skip`.
pub(crate) fn in_order(samples: &[Sample], skip: usize) -> Vec<f64> {
    let mut samples: Vec<&Sample> = samples.iter().collect();
    samples.sort_by_key(|sample| sample.position);
    samples.iter().skip(skip).map(|sample| sample.response().0 as f64).collect()
}

/// Runs the patterns alternating, `rounds` times, and gives the median response time of each run, by pattern. What was
/// in flight when a run began does not count.
pub(crate) fn compare(
    session: &mut Session<'_, '_>,
    name: &str,
    patterns: &[Pattern],
    rounds: usize,
) -> Result<Vec<Vec<f64>>, Halt> {
    let mut medians = vec![Vec::with_capacity(rounds); patterns.len()];
    for _ in 0..rounds {
        for (pattern, medians) in patterns.iter().zip(&mut medians) {
            let samples = session.run(name, pattern)?;
            medians.push(upper_median(&in_order(&samples, pattern.queue_depth as usize)));
        }
    }
    Ok(medians)
}

/// As [`compare`] for reads one at a time, which are independent: all response times, by pattern.
pub(crate) fn compare_each(
    session: &mut Session<'_, '_>,
    name: &str,
    patterns: &[Pattern],
    rounds: usize,
) -> Result<Vec<Vec<f64>>, Halt> {
    let mut times = vec![Vec::new(); patterns.len()];
    for _ in 0..rounds {
        for (pattern, times) in patterns.iter().zip(&mut times) {
            times.extend(in_order(&session.run(name, pattern)?, 0));
        }
    }
    Ok(times)
}

/// How many times as long the second sample's figures are as the first's, with the interval that holds it with 99 %.
/// Figures that are all equal leave no doubt, few that are not all.
pub(crate) fn how_many_times(first: &[f64], second: &[f64]) -> Interval {
    let estimate = upper_median(second) / upper_median(first).max(1.0);
    let wide = Interval { estimate, low: 0.0, high: f64::INFINITY };
    ratio(second, first, 0.99).filter(|_| level(first, 0.5).is_some()).unwrap_or(wide)
}
