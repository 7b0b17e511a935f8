//! The number of log blocks of a die, from how long ago a block was written to.
//!
//! # Model
//! A layer with log blocks of one data block each is a cache of blocks: a write to a block that has a log block is
//! fast, and any other one allocates a log block, and has another one merged. So the number of most recently written
//! blocks that are fast is the number of log blocks (Mattson et al., IBM Systems Journal 9(2), 1970, section 4:
//! distances on a stack).
//!
//! # Method
//! 1. Each number of log blocks and either order of eviction says of each write whether it costs a merge.
//! 2. Costs are slow or fast, and one in 25 is the other one for reasons of its own: that gives each number its
//!    likelihood.
//! 3. Behind a write buffer a write waits for one that came as many writes earlier as the buffer holds: this number
//!    is one more unknown.
//!
//! # Invariants
//! - A write that takes much longer than any merge gave the device time for what it had deferred: the writes after it
//!   say nothing until one is slow again.

use super::statistics::upper_median;
use flashlab_analysis::inference::{Axis, Picture, Style};

/// A write is slow if it takes at least this share of the usual merge. Unit: share. Source: tuned. Too high:
/// short merges count as fast; too low: outliers count as merges.
const SLOW_SHARE: f64 = 1.0 / 3.0;
/// Merges take at least this many times what other writes take, or there are none. Unit: ratio. Source:
/// tuned. Too high: merges of few pages are not seen; too low: slow pages count as merges.
const CONTRAST_LEAST: f64 = 4.0;
/// A write that takes this many times a merge gave the device idle time for its backlog. Unit: ratio. Source:
/// tuned. Too high: writes after idle time count against the right number; too low: merges are left out.
const IDLE_RATIO: f64 = 4.0;
/// The log odds that a write costs what the model says: one write in 25 is an outlier. Unit: natural
/// logarithm. Source: derivation: ln 24. Too high: one outlier refutes the right number; too low:
/// neighbouring numbers are equally likely.
const EXPECTED_LOG_ODDS: f64 = 3.2;
/// The writes behind the last one whose costs count: they fill the write buffer, and are fast. Unit: writes.
/// Source: choice. Too many: their outliers count; too few: numbers that predict merges at the end are not
/// refuted.
const BEHIND_LAST: usize = 12;

/// Which log block is evicted.
#[derive(Clone, Copy)]
enum Evicted {
    /// The one that was allocated first.
    OpenedFirst,
    /// The one that was used the longest ago.
    UsedFirst,
}

/// What writes cost, one after the other.
#[derive(Default)]
pub struct RecencyTrace {
    /// The place of each; `None`: elsewhere, to fill a buffer.
    pub blocks: Vec<Option<u64>>,
    /// The cost of each, in nanoseconds.
    pub costs: Vec<f64>,
    /// The first one that is looked at.
    pub begin: usize,
    /// How many may lie between a write and the one that waits for it.
    pub latest: usize,
}

/// The likeliest number of logs, and by how many log-likelihood ratios; 0 logs: all writes are alike.
pub fn likeliest_logs(log_likelihoods: &[f64]) -> Option<(usize, f64)> {
    let best =
        (0..log_likelihoods.len()).max_by(|&a, &b| log_likelihoods[a].total_cmp(&log_likelihoods[b]))?;
    let second = (0..log_likelihoods.len())
        .filter(|&logs| logs != best)
        .map(|logs| log_likelihoods[logs])
        .fold(f64::MIN, f64::max);
    (log_likelihoods[best] - second > 0.0).then_some((best, log_likelihoods[best] - second))
}

impl RecencyTrace {
    /// The writes that are looked at: not those that fill a buffer.
    pub fn looked_at(&self) -> usize {
        self.blocks[self.begin.min(self.blocks.len())..].iter().flatten().count()
    }

    /// The cost of a slow write. Merges are by far the longest, and there are more of them than blocks.
    fn slow(&self) -> f64 {
        let late = &self.costs[self.begin.min(self.costs.len())..];
        let mut costs = late.to_vec();
        costs.sort_by(|a, b| b.total_cmp(a));
        costs.truncate((self.looked_at() / 2).max(1));
        upper_median(&costs) * SLOW_SHARE
    }

    /// How many times as long as the others slow writes take.
    pub fn contrast(&self) -> f64 {
        let slow = self.slow();
        let late = self.costs[self.begin.min(self.costs.len())..].iter().copied();
        let (long, short): (Vec<f64>, Vec<f64>) = late.partition(|&cost| cost >= slow);
        upper_median(&long) / upper_median(&short).max(1.0)
    }

    /// The writes behind one that took much longer than a merge, until one is slow again. During that write
    /// the device completed its backlog and wrote its buffer.
    fn silent(&self, slow: &[bool]) -> Vec<bool> {
        let long: Vec<f64> =
            self.costs.iter().zip(slow).filter(|&(_, &slow)| slow).map(|(&cost, _)| cost).collect();
        let (rest, mut was_idle) = (upper_median(&long) * IDLE_RATIO, false);
        let write = |(&cost, &slow): (&f64, &bool)| {
            let silent = was_idle && !slow;
            was_idle = cost > rest || silent;
            silent
        };
        self.costs.iter().zip(slow).map(write).collect()
    }

    /// By the number of logs: the logarithm of its likelihood, but for a constant. The first one is that of writes that are all
    /// alike. `None` if no writes are slow.
    pub fn log_likelihoods(&self, most: u64) -> Option<Vec<f64>> {
        let slow: Vec<bool> = {
            let least = self.slow();
            self.costs.iter().map(|&cost| cost >= least).collect()
        };
        let silent = self.silent(&slow);
        let (seen, all) = (self.looked_at(), self.blocks.len());
        if seen == 0 || self.contrast() < CONTRAST_LEAST {
            return None;
        }
        let wrong = |merges: &[bool]| {
            let is_of_place = |at: &usize| self.blocks[*at].is_some();
            let last = (self.begin..all).rfind(is_of_place).map_or(all, |last| last + 1);
            let at: Vec<usize> =
                (self.begin..last).filter(is_of_place).chain(last..all.min(last + BEHIND_LAST)).collect();
            let of_shift = |shift: usize| {
                let differs = |&&at: &&usize| match slow.get(at + shift) {
                    Some(&slow) => slow != merges[at] && !silent[at + shift],
                    None => true,
                };
                at.iter().filter(differs).count()
            };
            (0..=self.latest).map(of_shift).min().unwrap_or(seen)
        };
        // With fewer log blocks than blocks, there are more slow writes than blocks.
        let none = vec![false; all];
        let of_places: Vec<bool> = self.blocks.iter().map(Option::is_some).collect();
        let count = slow[self.begin.min(all)..].iter().filter(|slow| **slow).count() as u64;
        let alike = wrong(if count < most { &none } else { &of_places });
        let of_logs = |logs: u64| {
            let of_evicted = |evicted| wrong(&self.merges(logs as usize, evicted));
            of_evicted(Evicted::OpenedFirst).min(of_evicted(Evicted::UsedFirst))
        };
        let wrong = std::iter::once(alike).chain((1..most).map(of_logs));
        Some(wrong.map(|wrong| -(wrong as f64) * EXPECTED_LOG_ODDS).collect())
    }

    /// Which writes open a log, if there are this many.
    fn merges(&self, logs: usize, evicted: Evicted) -> Vec<bool> {
        let mut open: Vec<Option<u64>> = Vec::new();
        let mut opens = |place: &Option<u64>| {
            let has_log = open.iter().position(|other| other == place);
            match (has_log, evicted) {
                (Some(index), Evicted::UsedFirst) => open[index..].rotate_left(1),
                (Some(_), Evicted::OpenedFirst) => {}
                (None, _) => {
                    if open.len() == logs {
                        open.remove(0);
                    }
                    open.push(*place);
                }
            }
            has_log.is_none() && place.is_some()
        };
        self.blocks.iter().map(&mut opens).collect()
    }

    /// The share of the writes that do not cost what they should with this number of log blocks.
    pub fn wrong_share(&self, log_likelihoods: &[f64], logs: usize) -> f64 {
        -log_likelihoods[logs] / EXPECTED_LOG_ODDS / (self.looked_at() as f64).max(1.0)
    }

    /// The cost of each write over the number of other blocks that were written to since the last write to
    /// its own. Behind a buffer, it is the cost of the write that waited for it, as `logs` open blocks
    /// predict.
    pub fn picture(&self, logs: usize) -> Picture {
        let mut last: Vec<u64> = Vec::new();
        let mut since = |(at, place): (usize, &Option<u64>)| {
            let place = (*place)?;
            let found = last.iter().position(|&other| other == place);
            let others = found.map(|index| {
                last.remove(index);
                last.len() - index
            });
            last.push(place);
            others.filter(|_| at >= self.begin).map(|others| (at, others))
        };
        let since: Vec<(usize, usize)> = self.blocks.iter().enumerate().filter_map(&mut since).collect();
        let slow = self.slow();
        let shifted = |shift: usize| {
            let cost = move |&(at, others): &(usize, usize)| Some((others, *self.costs.get(at + shift)?));
            since.iter().filter_map(cost)
        };
        let wrong = |shift: usize| {
            shifted(shift).filter(|&(others, cost)| (cost >= slow) != (others >= logs)).count()
        };
        let shift = (0..=self.latest).min_by_key(|&shift| wrong(shift)).unwrap_or(0);
        Picture::new(
            "Single pages in different blocks of one die: a write is fast if fewer other blocks were written to since the last write \
             to its own than the device has log blocks.",
            Axis::linear("other blocks written to since", ""),
            Axis::logarithmic("response time", "ns"),
        )
        .draw("writes", Style::Dots, shifted(shift).map(|(others, cost)| (others as f64, cost)).collect())
        .mark(logs as f64 - 0.5, format!("{logs} open"))
    }
}

#[cfg(test)]
mod tests;
