//! Bursts of writes behind what was filled, and what their times show.

use flashlab_base::{Bytes, Nanos};
use flashlab_plan::Location;

use crate::probes::figures::{mean, median, medians, quantile};
use crate::probes::writes::{costs_of, writes};
use crate::halt::Halt;
use crate::priors;
use crate::session::Session;

/// The size of small reads and writes.
pub(crate) const SMALL: Bytes = Bytes::kib(4);

/// What bursts of one length showed.
pub(crate) struct Bursts {
    /// The size of the writes.
    pub(crate) size: Bytes,
    /// The medians of the response times, write by write.
    pub(crate) costs: Vec<f64>,
    /// The same, added up.
    pub(crate) done: Vec<f64>,
    /// What a write takes in the sustained part.
    pub(crate) sustained: f64,
    /// The response time of a write that the buffer takes at once.
    pub(crate) come_in: f64,
}

impl Bursts {
    pub(crate) fn of(size: Bytes, runs: &[Vec<f64>]) -> Bursts {
        let costs = medians(runs);
        let done: Vec<f64> = costs
            .iter()
            .scan(0.0, |sum, cost| {
                *sum += cost;
                Some(*sum)
            })
            .collect();
        // The first may wait already, in a small buffer.
        let come_in = quantile(&costs[..4], 0.25);
        let mut bursts = Bursts { size, sustained: mean(&costs[costs.len() / 2..]), costs, done, come_in };
        // From a wait to a wait, where there are several.
        if let Some((first, last)) = bursts.late_waits() {
            bursts.sustained = (bursts.done[last] - bursts.done[first]) / (last - first) as f64;
        }
        bursts
    }

    /// Whether a write waits.
    pub(crate) fn waits(&self, index: usize) -> bool {
        self.costs[index] > WAITS * self.come_in
    }

    /// How many writes pass before the first wait; none waits: `None`.
    pub(crate) fn before_waiting(&self) -> Option<usize> {
        (0..self.costs.len()).find(|&index| self.waits(index))
    }

    /// Whether most of the burst came after the first wait.
    pub(crate) fn is_sustained(&self) -> bool {
        self.before_waiting().is_some_and(|before| SUSTAINED * (before + 1) <= self.costs.len())
    }

    /// By how many writes the sustained part is ahead of one without a buffer.
    pub(crate) fn lead(&self) -> f64 {
        let ahead = |index: usize| (index + 1) as f64 - self.done[index] / self.sustained;
        median(&(self.costs.len() / 2..self.costs.len()).map(ahead).collect::<Vec<_>>())
    }

    /// The first and the last wait in the second half, if there are several.
    pub(crate) fn late_waits(&self) -> Option<(usize, usize)> {
        let waits: Vec<usize> =
            (self.costs.len() / 2..self.costs.len()).filter(|&index| self.waits(index)).collect();
        (waits.len() >= 3).then(|| (waits[0], waits[waits.len() - 1]))
    }
}

/// The idle time after a burst that took `cost` nanoseconds.
pub(crate) fn rest_for(cost: f64) -> Nanos {
    priors::PROGRAMMED.max(Nanos(cost as u64) * REST_FACTOR)
}

/// `count` writes of `size` behind what was written, as a part of filling the device: what they took.
pub(crate) fn write_behind(
    session: &mut Session<'_, '_>,
    name: &str,
    size: Bytes,
    count: u64,
) -> Result<Vec<f64>, Halt> {
    let (place, length) = (session.fill().until, size * count);
    if place + length > session.capacity() {
        return Err(Halt::Misfit(format!("it has no space for bursts of {length}")));
    }
    let costs = costs_of(session, name, &writes(Location::Sequential, size, count, place, length))?;
    session.filled(length);
    Ok(costs)
}

/// One write behind what was written: what it took.
pub(crate) fn write_one(session: &mut Session<'_, '_>, name: &str, size: Bytes) -> Result<f64, Halt> {
    Ok(write_behind(session, name, size, 1)?.first().copied().unwrap_or(0.0))
}

/// The idle time after a burst, as a multiple of the burst's time.
const REST_FACTOR: u64 = 3;

/// A burst is long enough if it has this many times the writes before the first wait.
pub(crate) const SUSTAINED: usize = 4;

/// A write waits if its response time is more than this many times that of the first ones.
pub(crate) const WAITS: f64 = 1.25;
