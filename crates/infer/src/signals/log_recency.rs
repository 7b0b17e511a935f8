//! The number of log blocks of a die, from how long ago a block was written to.
//!
//! # Model
//! A layer with log blocks of one data block each is a cache of blocks: a write to a block that has a log block is fast, and any other one
//! allocates a log block, and has another one merged. So the number of most recently written blocks that are fast is the number of log
//! blocks (Mattson et al., IBM Systems Journal 9(2), 1970, section 4: distances on a stack).
//!
//! # Method
//! 1. Each number of log blocks and either order of eviction says of each write whether it costs a merge.
//! 2. Costs are slow or fast, and one in 25 is the other one for reasons of its own: that gives each number its likelihood.
//! 3. Behind a write buffer a write waits for one that came as many writes earlier as the buffer holds: this number is one more unknown.
//!
//! # Invariants
//! - A write that takes much longer than any merge gave the device time for what it had deferred: the writes after it say nothing until
//!   one is slow again.

use super::statistics::upper_median;
use flashlab_analysis::inference::{Axis, Picture, Style};

/// Slow writes take this part of what merges take at least.
const SLOW: f64 = 1.0 / 3.0;
/// Merges take this many times what other writes take at least.
const CONTRAST: f64 = 4.0;
/// The shortest idle time, as a multiple of a merge.
const IDLE_OF_MERGE: f64 = 4.0;
/// ln of the odds that a write costs what it should.
const RIGHT: f64 = 3.2;
/// This number of the writes that fill a buffer behind the others are looked at, which are fast.
const BEHIND: usize = 12;

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
    pub places: Vec<Option<u64>>,
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
        self.places[self.begin.min(self.places.len())..].iter().flatten().count()
    }

    /// What is slow: merges are by far the longest, and more of them are seen than places.
    fn expensive(&self) -> f64 {
        let late = &self.costs[self.begin.min(self.costs.len())..];
        let mut costs = late.to_vec();
        costs.sort_by(|a, b| b.total_cmp(a));
        costs.truncate((self.looked_at() / 2).max(1));
        upper_median(&costs) * SLOW
    }

    /// How many times as long as the others slow writes take.
    pub fn contrast(&self) -> f64 {
        let expensive = self.expensive();
        let late = self.costs[self.begin.min(self.costs.len())..].iter().copied();
        let (long, short): (Vec<f64>, Vec<f64>) = late.partition(|&cost| cost >= expensive);
        upper_median(&long) / upper_median(&short).max(1.0)
    }

    /// The writes behind one that took much longer than a merge, until one is slow again: what was deferred, or was in a buffer, was done
    /// meanwhile.
    fn silent(&self, expensive: &[bool]) -> Vec<bool> {
        let long: Vec<f64> = self
            .costs
            .iter()
            .zip(expensive)
            .filter(|&(_, &expensive)| expensive)
            .map(|(&cost, _)| cost)
            .collect();
        let (rest, mut rested) = (upper_median(&long) * IDLE_OF_MERGE, false);
        let write = |(&cost, &expensive): (&f64, &bool)| {
            let silent = rested && !expensive;
            rested = cost > rest || silent;
            silent
        };
        self.costs.iter().zip(expensive).map(write).collect()
    }

    /// By the number of logs: the logarithm of its likelihood, but for a constant. The first one is that of writes that are all
    /// alike. `None` if no writes are slow.
    pub fn log_likelihoods(&self, most: u64) -> Option<Vec<f64>> {
        let expensive: Vec<bool> = {
            let least = self.expensive();
            self.costs.iter().map(|&cost| cost >= least).collect()
        };
        let silent = self.silent(&expensive);
        let (seen, all) = (self.looked_at(), self.places.len());
        if seen == 0 || self.contrast() < CONTRAST {
            return None;
        }
        let wrong = |merges: &[bool]| {
            let is_of_place = |at: &usize| self.places[*at].is_some();
            let last = (self.begin..all).rfind(is_of_place).map_or(all, |last| last + 1);
            let at: Vec<usize> =
                (self.begin..last).filter(is_of_place).chain(last..all.min(last + BEHIND)).collect();
            let of_shift = |shift: usize| {
                let differs = |&&at: &&usize| match expensive.get(at + shift) {
                    Some(&expensive) => expensive != merges[at] && !silent[at + shift],
                    None => true,
                };
                at.iter().filter(differs).count()
            };
            (0..=self.latest).map(of_shift).min().unwrap_or(seen)
        };
        // With fewer logs than places more writes are slow than places.
        let none = vec![false; all];
        let of_places: Vec<bool> = self.places.iter().map(Option::is_some).collect();
        let count = expensive[self.begin.min(all)..].iter().filter(|expensive| **expensive).count() as u64;
        let alike = wrong(if count < most { &none } else { &of_places });
        let of_logs = |logs: u64| {
            let of_evicted = |evicted| wrong(&self.merges(logs as usize, evicted));
            of_evicted(Evicted::OpenedFirst).min(of_evicted(Evicted::UsedFirst))
        };
        let wrong = std::iter::once(alike).chain((1..most).map(of_logs));
        Some(wrong.map(|wrong| -(wrong as f64) * RIGHT).collect())
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
        self.places.iter().map(&mut opens).collect()
    }

    /// The share of the writes that do not cost what they should with this number of log blocks.
    pub fn wrong_share(&self, log_likelihoods: &[f64], logs: usize) -> f64 {
        -log_likelihoods[logs] / RIGHT / (self.looked_at() as f64).max(1.0)
    }

    /// What each write cost over how many other places were written to since the last write to its own; behind a buffer, what the
    /// write cost that waited for it, as `logs` open ones say.
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
        let since: Vec<(usize, usize)> = self.places.iter().enumerate().filter_map(&mut since).collect();
        let expensive = self.expensive();
        let shifted = |shift: usize| {
            let cost = move |&(at, others): &(usize, usize)| Some((others, *self.costs.get(at + shift)?));
            since.iter().filter_map(cost)
        };
        let wrong = |shift: usize| {
            shifted(shift).filter(|&(others, cost)| (cost >= expensive) != (others >= logs)).count()
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
