//! What the times of bursts of equal writes show: how many writes a buffer takes before one waits.

use flashlab_base::Bytes;

use super::figures::{mean, median, medians, quantile};

/// The size of small reads and writes.
pub const SMALL: Bytes = Bytes::kib(4);

/// A burst is long enough if it has this many times the writes before the first wait.
pub const SUSTAINED: usize = 4;

/// A write waits if its response time is more than this many times that of the first ones.
pub const WAITS: f64 = 1.25;

/// What bursts of one length showed.
pub struct Bursts {
    /// The size of the writes.
    pub size: Bytes,
    /// The medians of the response times, write by write.
    pub costs: Vec<f64>,
    /// The same, added up.
    pub done: Vec<f64>,
    /// What a write takes in the sustained part.
    pub sustained: f64,
    /// The response time of a write that the buffer takes at once.
    pub come_in: f64,
}

impl Bursts {
    /// What bursts of equal length showed; each has the response times in nanoseconds, write by write.
    pub fn of(size: Bytes, runs: &[Vec<f64>]) -> Bursts {
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
    pub fn waits(&self, index: usize) -> bool {
        self.costs[index] > WAITS * self.come_in
    }

    /// How many writes pass before the first wait; none waits: `None`.
    pub fn before_waiting(&self) -> Option<usize> {
        (0..self.costs.len()).find(|&index| self.waits(index))
    }

    /// Whether most of the burst came after the first wait.
    pub fn is_sustained(&self) -> bool {
        self.before_waiting().is_some_and(|before| SUSTAINED * (before + 1) <= self.costs.len())
    }

    /// By how many writes the sustained part is ahead of one without a buffer.
    pub fn lead(&self) -> f64 {
        let ahead = |index: usize| (index + 1) as f64 - self.done[index] / self.sustained;
        median(&(self.costs.len() / 2..self.costs.len()).map(ahead).collect::<Vec<_>>())
    }

    /// The first and the last wait in the second half, if there are several.
    pub fn late_waits(&self) -> Option<(usize, usize)> {
        let waits: Vec<usize> =
            (self.costs.len() / 2..self.costs.len()).filter(|&index| self.waits(index)).collect();
        (waits.len() >= 3).then(|| (waits[0], waits[waits.len() - 1]))
    }
}
