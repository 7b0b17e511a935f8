//! A cycle of stalls: its windows, and how well it predicts the stalls of other costs.

use crate::signals::likelihood::divergence;

/// A write that takes this many times a stall of the cycle has another cause. Unit: ratio. Source: tuned. Too
/// high: the stalls of a longer cycle are removed with the shorter one; too low: the shorter cycle stays.
const ANOTHER_RATIO: f64 = 1.4;

/// Periodic stalls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cycle {
    /// Writes from one window to the next.
    pub period: usize,
    /// The first write of a window, counted from the first write of all.
    pub phase: usize,
    /// Writes of a window.
    pub width: usize,
    /// The first write that was looked at.
    pub from: usize,
    /// How many writes that were.
    pub length: usize,
    /// How much likelier it is than none, as a log-likelihood ratio.
    pub gain: f64,
    /// Costs between these count as stalls.
    pub low: f64,
    /// The upper end of these costs.
    pub high: f64,
}

impl Cycle {
    /// Whether a write of this cost is a stall of the cycle.
    pub fn is_stall(&self, cost: f64) -> bool {
        cost > self.low && cost <= self.high
    }

    /// Costs, of which the first is the `begin`-th of the series, without the stalls in its windows but for those that are
    /// much more expensive. They are replaced by `usual`, and `level` is their cost.
    pub fn without(&self, costs: &[f64], begin: usize, usual: f64, level: f64) -> Vec<f64> {
        let left = |(index, &cost): (usize, &f64)| {
            if self.covers(begin + index) && cost <= ANOTHER_RATIO * level { cost.min(usual) } else { cost }
        };
        costs.iter().enumerate().map(left).collect()
    }

    /// The place of a write in its period, counted from the beginning of a window.
    fn place(&self, index: usize) -> usize {
        (index + self.period - self.phase % self.period) % self.period
    }

    /// Whether a write is in a window.
    pub fn covers(&self, index: usize) -> bool {
        self.place(index) < self.width
    }

    /// Whether it predicts the stalls of other costs, of which the first is the `begin`-th of the series.
    /// Returns how many windows should have stalls, how many have, and the log-likelihood ratio to chance.
    pub fn predicts(&self, costs: &[f64], begin: usize) -> (usize, usize, f64) {
        let (mut windows, mut stalled, mut hit, mut inside, mut stalls) = (0, 0, false, 0, 0);
        let mut hits = 0;
        for (index, &cost) in costs.iter().enumerate() {
            let is_stall = self.is_stall(cost);
            stalls += usize::from(is_stall);
            if self.covers(begin + index) {
                inside += 1;
                hits += usize::from(is_stall);
                hit |= is_stall;
                // Only whole windows count.
                if self.place(begin + index) == self.width - 1 {
                    windows += 1;
                    stalled += usize::from(hit);
                    hit = false;
                }
            }
        }
        (windows, stalled, gain(hits, inside as f64, stalls, costs.len()))
    }

    /// The first write of a window.
    pub(super) fn begin_of(&self, window: usize) -> usize {
        self.phase % self.period + window * self.period
    }

    /// What the writes of each window cost.
    pub(super) fn windows<'a>(&self, costs: &'a [f64]) -> impl Iterator<Item = &'a [f64]> {
        let width = self.width;
        let begins = (self.begin_of(0)..costs.len()).step_by(self.period);
        begins.map(move |begin| &costs[begin..(begin + width).min(costs.len())])
    }
}

/// The log-likelihood ratio of a rule to chance, if `hits` of `stalls` stalls among `all` writes are in
/// `inside` of these writes. 0 if they are fewer than by chance.
pub(super) fn gain(hits: usize, inside: f64, stalls: usize, all: usize) -> f64 {
    let (all, hits, stalls) = (all as f64, hits as f64, stalls as f64);
    let inside = inside.max(hits).max(1.0);
    let outside = (all - inside).max(stalls - hits).max(1.0);
    let share = stalls / all.max(1.0);
    if stalls == 0.0 || share >= 1.0 || hits / inside <= share {
        return 0.0;
    }
    inside * divergence(hits / inside, share) + outside * divergence((stalls - hits) / outside, share)
}
