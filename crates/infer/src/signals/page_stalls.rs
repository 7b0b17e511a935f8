//! Finds regular stalls among single pages that are written to one die: log blocks that are reclaimed.
//!
//! # Model
//! When the log blocks that all data blocks share are full, one page waits until a log block is reclaimed. All data
//! blocks with pages in it are merged before. The same happens again once per log block. Such a stall takes as long
//! as copying several blocks, and longer than any garbage collection that reclaims blocks for the pages of one log
//! block.
//!
//! # Invariants
//! - A stall counts only if it is one of several at equal distances.

use std::iter::successors;

use super::full_logs::{Regular, STALL_SLACK, STALLS_CLEAR, is_on_grid, logs_of, regular};
use super::statistics::{mean, quantile, upper_median};
use crate::thresholds;

/// The wait for a log block to be reclaimed, as a multiple of the usual write: at least a block of
/// [`crate::priors::ROWS_LEAST`] pages is copied. Unit: ratio. Source: derivation: 16
/// pages and an erase, which takes 2 to 3 programs. Too high: log blocks of few pages are not seen; too low:
/// outliers of one write count as reclaimed log blocks.
const RECLAIM_RATIO: f64 = 18.0;
/// Multiples of `RECLAIM_RATIO` from which on a write counts as a stall. Each is tried, as other stalls may
/// be as long as the shortest of these. Unit: ratio. Source: choice. Too few: the stalls of large log blocks
/// are hidden among shorter ones; too many: one of them fits by chance.
pub const RECLAIM_LEVELS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];
/// A stall takes as long as copying this many blocks: garbage collection copies fewer for one write. Unit:
/// blocks. Source: tuned. Too high: log blocks with few data blocks are not found; too low: garbage
/// collection counts as reclaimed log blocks.
const COPIED_BLOCKS: f64 = 6.0;
/// The first stalls may be shorter than most by this factor, as the first log blocks hold pages of few data
/// blocks. Unit: ratio. Source: tuned. Too high: an outlier becomes the first stall; too low: the first stall
/// is missed, and the number of log blocks is too high.
const FIRST_SHORTER: f64 = 16.0;
/// Behind a write buffer, a stall may be early or late by this part of a log block. Unit: share. Source:
/// tuned. Too high: other stalls count; too low: the first stalls are missed.
const BUFFERED_SLACK: f64 = 0.03;

/// What single pages on one die cost, one after the other.
pub struct PageStalls<'a> {
    /// The response times in nanoseconds.
    pub costs: &'a [f64],
    /// What a page takes on its die at most, if a write buffer may hide it.
    pub buffered: Option<f64>,
    /// The pages that a die programs at once.
    pub planes: usize,
}

impl PageStalls<'_> {
    /// The writes that took this many times what reclaiming a log block takes at least.
    pub fn stalls(&self, level: f64) -> Vec<usize> {
        // Of a row that takes several pages the last one may wait for all.
        let usual = &self.costs[self.costs.len() / 2..];
        let most = quantile(usual, thresholds::USUAL_QUANTILE);
        let usual: Vec<f64> = usual.iter().copied().filter(|&cost| cost <= most).collect();
        let least = level * RECLAIM_RATIO * upper_median(self.costs).max(mean(&usual));
        (0..self.costs.len()).filter(|&index| self.costs[index] > least).collect()
    }

    /// More than garbage collection takes for the pages of a window. The cost of a page comes from the
    /// faster writes, which contain no deferred work. Behind a buffer one write waits for many. There it is
    /// the mean of the writes that are no stalls, or the cost of filling the device.
    fn copied(&self, found: &Regular) -> f64 {
        let page = match self.buffered {
            None => {
                let mut before = self.costs[..found.first].to_vec();
                before.sort_by(f64::total_cmp);
                before.truncate(before.len().div_ceil(2));
                mean(&before)
            }
            Some(page) => {
                let others = (0..self.costs.len()).filter(|&at| !is_on_grid(at, found.first, found.period));
                mean(&others.map(|at| self.costs[at]).collect::<Vec<_>>()).min(page)
            }
        };
        COPIED_BLOCKS * page * found.period as f64 / self.planes as f64
    }

    /// Regular stalls, if most of them or the first one take as long as copying several log blocks. They
    /// also have to begin behind whole log blocks, or continue for long. A buffer holds one of these
    /// numbers of pages.
    pub fn regular(&self, buffered_pages: impl Fn(&Regular) -> Vec<usize>) -> Option<Regular> {
        let of_level = |level: &f64| {
            let found = regular(&self.stalls(*level), *level, self.planes)?;
            let on_grid = |level: f64| {
                let stalls = self.stalls(level).into_iter();
                stalls.filter(|&stall| is_on_grid(stall, found.first, found.period)).collect::<Vec<_>>()
            };
            let stalled: Vec<f64> = on_grid(*level).iter().map(|&stall| self.costs[stall]).collect();
            let longest = upper_median(&stalled).max(stalled.first().copied().unwrap_or(0.0));
            let copied = self.copied(&found);
            // The first ones may be shorter.
            let is_one = |stall: &usize| FIRST_SHORTER * self.costs[*stall] >= longest;
            let stalls = on_grid((level / FIRST_SHORTER).max(1.0));
            let first = stalls.into_iter().find(is_one).unwrap_or(found.first);
            let found = Regular { first: self.before(*level, first, found.period), ..found };
            let logs = logs_of(&found, 0, &buffered_pages(&found));
            let clear = found.in_a_row >= STALLS_CLEAR || logs.is_some_and(|logs| logs.whole);
            (clear && longest >= copied).then_some(found)
        };
        RECLAIM_LEVELS.iter().find_map(of_level)
    }

    /// The first of stalls that are a period apart up to this one: behind a buffer they may be a little early or late.
    fn before(&self, level: f64, first: usize, period: usize) -> usize {
        let late = if self.buffered.is_some() { BUFFERED_SLACK * period as f64 } else { 0.0 };
        let slack = STALL_SLACK + late as usize;
        let stalls = self.stalls((level / FIRST_SHORTER).max(1.0));
        let earlier = |first: &usize| {
            let place = first.checked_sub(period)?;
            let is_slow = |stall: &usize| FIRST_SHORTER * self.costs[*stall] > self.costs[*first];
            stalls.iter().copied().find(|stall| stall.abs_diff(place) <= slack && is_slow(stall))
        };
        successors(Some(first), earlier).last().unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Single pages, of which one in `period` waits, from the `first` on, this many times as long as a page takes.
    fn costs(first: usize, period: usize, wait: f64) -> Vec<f64> {
        let page = |at: usize| 1e6 * (1.0 + 0.01 * (at * 7 % 11) as f64);
        let waits = |at: usize| at >= first && (at - first).is_multiple_of(period);
        (0..first + 4 * period).map(|at| page(at) * if waits(at) { wait } else { 1.0 }).collect()
    }

    fn found(costs: &[f64], buffered: Option<f64>) -> Option<(usize, usize)> {
        let stalls = PageStalls { costs, buffered, planes: 1 };
        stalls.regular(|_| vec![0]).map(|regular| (regular.first, regular.period))
    }

    #[test]
    fn log_blocks_that_are_reclaimed_are_regular_stalls() {
        assert_eq!(found(&costs(192, 64, 2000.0), None), Some((192, 64)));
        assert_eq!(found(&costs(192, 64, 2000.0), Some(1e6)), Some((192, 64)));
    }

    #[test]
    fn collection_takes_less_than_log_blocks() {
        // A block of 64 pages is copied, and no more.
        assert_eq!(found(&costs(192, 64, 100.0), None), None);
        assert_eq!(found(&costs(192, 64, 1.0), None), None);
    }
}
