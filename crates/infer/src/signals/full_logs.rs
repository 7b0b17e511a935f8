//! Counts the log blocks that all data blocks share, from the positions of stalls among single pages.
//!
//! # Model
//! All pages go to one die. When its log blocks are full, one page waits until a log block is reclaimed. Another one
//! waits each time that a log block is full again. So the pages between two stalls are those of a log block. The
//! pages before the first stall, divided by these, are the number of log blocks. The pages in a write buffer and the
//! log blocks with deferred merges are subtracted before. If the result is a whole number, it confirms both.
//!
//! Several log blocks that are reclaimed in one batch look like one large log block.
//!
//! # Invariants
//! - At least three stalls are at equal distances.

use super::likelihood::{gain_of_two, running};
use super::statistics::{quantile, upper_median};
use crate::priors;
use crate::thresholds;

/// The fewest multi-plane pages that a log block takes, a little below [`crate::priors::ROWS_LEAST`]. Unit:
/// multi-plane pages. Source: tuned. Too high: small log blocks are not found; too low: the round of the dies
/// counts as log blocks.
pub const LOG_ROWS_LEAST: usize = 14;
/// The fewest stalls at equal distances, where no other stalls are. Unit: stalls. Source: derivation: two
/// distances have to agree. Too many: large log blocks need more writes than the budget has; too few: any two
/// stalls are log blocks.
const STALLS_LEAST: usize = 3;
/// The number of stalls at equal distances that is enough where other stalls lie between them. Unit: stalls.
/// Source: tuned. Too high: other stalls hide the log blocks; too low: garbage collection that is regular for
/// a while counts as log blocks.
pub const STALLS_CLEAR: usize = 7;
/// The other stalls, as a share of those at equal distances. Unit: share. Source: tuned. Too high: stalls by
/// chance have a regular part; too low: a few outliers hide the log blocks.
const OTHERS_SHARE: f64 = 0.34;
/// The stalls that are tried as the first one, and those behind it that are tried as the second one. Unit:
/// stalls. Source: choice. Too many: the search takes longer; too few: outliers before the first stall hide
/// it.
const STALLS_TRIED: usize = 8;
/// The writes in a row whose median has to be longer before the host counts as waiting. Unit: writes. Source:
/// choice. Too many: the end of a small write buffer is seen late; too few: a few outliers are the end of a
/// buffer.
const WAITING_WRITES: usize = 16;
/// A write buffer takes at most this many times its size before a write waits, as the flash programs pages
/// meanwhile. Unit: ratio. Source: tuned. Too high: other slow writes are the end of the buffer; too low: a
/// buffer before fast flash has no end.
const BUFFER_MULTIPLE: usize = 3;
/// The pages before the first stall are a whole number of log blocks up to this part of one. Unit: share.
/// Source: tuned. Too high: a wrong number of log blocks is confirmed; too low: right ones are not.
const WHOLE_SLACK: f64 = 0.06;
/// The least rise of the usual cost, as a share of its value before. Unit: share. Source: tuned. Too high:
/// merges that cost little are not seen; too low: drift is a rise.
const RISE_LEAST: f64 = 0.03;
/// The equally frequent kinds of costs whose shares are compared before and behind a rise. Unit: kinds.
/// Source: choice. Too many: each kind has few writes; too few: a change of slow pages only is not seen.
const COST_KINDS: usize = 8;
/// The fewest writes before a rise, and behind it. Unit: writes. Source: choice. Too many: an early rise is
/// missed; too few: the first writes are a rise.
const WRITES_BESIDE: usize = 16;
/// A cost this many times the usual one, or as small a part of it, is an outlier. Its square root separates
/// buffered writes from waiting ones. Unit: ratio. Source: tuned. Too high: waiting writes count as buffered;
/// too low: slow pages count as waiting.
const OUTLIER_RATIO: f64 = 4.0;
/// The pages by which a stall may be early or late, as a multi-plane page completes with its last write.
/// Unit: pages. Source: derivation: a page at one end of the log block. Too high: stalls by chance count; too
/// low: regular stalls seem irregular.
pub const STALL_SLACK: usize = 1;

/// Logs that all blocks share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// How many a die has.
    pub logs: u32,
    /// The page that waits for the first one to be reclaimed, and how many pages a log takes.
    pub first: usize,
    /// The pages that a log takes.
    pub period: usize,
    /// Whether the logs hold exactly what was written before the first one was reclaimed.
    pub whole: bool,
    /// For how many logs emptying was deferred, if that is known.
    pub deferred: Option<usize>,
}

/// Stalls at equal distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regular {
    /// The first of them.
    pub first: usize,
    /// The writes from one to the next.
    pub period: usize,
    /// Their level.
    pub level: f64,
    /// How many follow each other, each a period behind the last one.
    pub in_a_row: usize,
}

/// The first of the writes that take longer than those before it, which a buffer took.
pub fn waits_at(costs: &[f64]) -> Option<usize> {
    let waits = |at: &usize| {
        upper_median(&costs[*at..(*at + WAITING_WRITES).min(costs.len())])
            > OUTLIER_RATIO.sqrt() * upper_median(&costs[..*at])
    };
    let from = (WAITING_WRITES / 2..costs.len().saturating_sub(WAITING_WRITES)).find(waits)?;
    // Half of those that were looked at may still be cheap.
    let usual = upper_median(&costs[..from]);
    (from..costs.len()).find(|&at| {
        costs[at] > OUTLIER_RATIO.sqrt() * usual
            && costs.get(at + 1).is_none_or(|&next| next > OUTLIER_RATIO.sqrt() * usual)
    })
}

/// The write from which on the host waits for those before it, behind a buffer of this many pages.
pub fn waited_from(costs: &[f64], buffered: usize) -> usize {
    let begin = (buffered * 9 / 8).min(costs.len());
    let at_first = upper_median(&costs[..begin / 2]);
    let waits = |from: &usize| {
        upper_median(&costs[*from..(*from + WAITING_WRITES).min(costs.len())])
            > OUTLIER_RATIO.sqrt() * at_first
    };
    match buffered {
        0 => 0,
        _ => (begin..costs.len().min(BUFFER_MULTIPLE * begin))
            .find(waits)
            .map_or(begin, |from| (from + WAITING_WRITES).min(costs.len())),
    }
}

/// Whether a stall is a whole number of periods from the first one.
pub fn is_on_grid(stall: usize, first: usize, period: usize) -> bool {
    off_grid(stall, first, period) <= STALL_SLACK
}

/// The logs that were full before the first stall, if `deferred` merges are deferred and a buffer holds one of the numbers `buffered` of pages.
pub fn logs_of(regular: &Regular, deferred: usize, buffered: &[usize]) -> Option<Shared> {
    let Regular { first, period, .. } = *regular;
    let slack = f64::max(WHOLE_SLACK, 2.5 / period as f64);
    let of = |buffered: &usize| {
        let logs = (first as f64 - *buffered as f64) / period as f64 - deferred as f64;
        let count = logs.round();
        (1.0..=priors::LOGS_MOST).contains(&count).then_some((count - logs, count))
    };
    let counts: Vec<(f64, f64)> = buffered.iter().filter_map(of).collect();
    let &(missing, count) = counts.iter().min_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
    let others = counts.iter().any(|other| other.1 != count && other.0.abs() <= slack);
    let whole = missing.abs() <= slack && !others;
    Some(Shared { logs: count as u32, first, period, whole, deferred: Some(deferred) })
}

/// The stalls that are equally far apart, by this many pages of a row or more; some others may be among them.
pub fn regular(stalls: &[usize], level: f64, row: usize) -> Option<Regular> {
    let mut best: Option<(usize, Regular)> = None;
    for (index, &first) in stalls.iter().enumerate().take(STALLS_TRIED) {
        for &second in stalls[index + 1..].iter().take(STALLS_TRIED) {
            let period = second - first;
            let is_one = |place: usize| stalls.iter().any(|&stall| stall.abs_diff(place) <= STALL_SLACK);
            let in_a_row =
                (2..).take_while(|&times| is_one(first + times * period)).take(STALLS_CLEAR).count() + 2;
            let hits: Vec<usize> =
                stalls.iter().copied().filter(|&stall| is_on_grid(stall, first, period)).collect();
            let others = stalls.len() - hits.len();
            // What collects pages may be so regular for a while.
            let enough = in_a_row >= if others == 0 { STALLS_LEAST } else { STALLS_CLEAR };
            let is_better = best.is_none_or(|(most, _)| hits.len() > most);
            if period >= LOG_ROWS_LEAST * row
                && enough
                && others as f64 <= OTHERS_SHARE * hits.len() as f64
                && is_better
            {
                // Some may have been made needless by what was written in order.
                best = Some((hits.len(), Regular { first: hits[0], period, level, in_a_row }));
            }
        }
    }
    best.map(|(_, regular)| regular)
}

/// The write from which on the usual cost is higher, a whole number of periods before `end`. The shares of the
/// kinds of costs differ before and behind it, and slow writes are slower behind it. The median need not rise
/// where the pages of a multi-plane page cost differently.
pub fn rise(costs: &[f64], end: usize, period: usize) -> Option<usize> {
    let bounds: Vec<f64> =
        (1..COST_KINDS).map(|kind| quantile(costs, kind as f64 / COST_KINDS as f64)).collect();
    let kind = |cost: &f64| bounds.iter().filter(|&bound| cost > bound).count();
    let (all, before) = (costs.len(), running::<COST_KINDS>(costs.iter().map(kind)));
    let gain = |at: usize| gain_of_two(&before[at], &before[all], at, all) - (COST_KINDS - 1) as f64;
    let usual_cost = |costs: &[f64]| quantile(costs, thresholds::USUAL_QUANTILE);
    let rises = |at: usize| usual_cost(&costs[at..]) > (1.0 + RISE_LEAST) * usual_cost(&costs[..at]);
    let inside = |at: &usize| *at >= WRITES_BESIDE && at + WRITES_BESIDE <= all;
    let places = (1..).map_while(|periods| end.checked_sub(periods * period)).filter(inside);
    let places: Vec<usize> = places.collect();
    let best = places.iter().map(|&at| (at, gain(at))).max_by(|a, b| a.1.total_cmp(&b.1));
    let least = thresholds::CHANGE_GAIN + (places.len().max(1) as f64).ln();
    best.filter(|&(at, gain)| gain >= least && rises(at)).map(|(at, _)| at)
}

/// How far the distance of two writes is from whole periods.
fn off_grid(one: usize, other: usize, period: usize) -> usize {
    let apart = one.abs_diff(other) % period;
    apart.min(period - apart)
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    #[test]
    fn what_is_deferred_makes_writes_a_little_more_expensive() {
        for seed in 0..20 {
            let mut random = Prng::new(Seed(seed));
            let mut write = |share: f64| {
                let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
                1e6 * share * (0.95 + 0.1 * random.unit()) * outlier
            };
            let deferred: Vec<f64> = (0..500).map(|at| write(if at < 52 { 1.0 } else { 1.1 })).collect();
            assert_eq!(rise(&deferred, 500, 32), Some(52));
            let far: Vec<f64> = (0..500).map(|at| write(if at < 404 { 1.0 } else { 11.0 })).collect();
            assert_eq!(rise(&far, 500, 32), Some(404));
            let even: Vec<f64> = (0..500).map(|_| write(1.0)).collect();
            assert_eq!(rise(&even, 500, 32), None);
            assert!(rise(&deferred, 500, 1).is_some_and(|at| at.abs_diff(52) <= 2), "{seed}");
            assert_eq!(rise(&even, 500, 1), None);
        }
    }

    #[test]
    fn a_buffer_of_which_nothing_is_known_shows_when_one_waits() {
        for (seed, held) in [9, 40, 168].into_iter().enumerate() {
            let mut random = Prng::new(Seed(seed as u64));
            let mut write = |at: usize| {
                let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
                (if at < held { 75.0 } else { 300.0 }) * (0.95 + 0.1 * random.unit()) * outlier
            };
            let costs: Vec<f64> = (0..300).map(&mut write).collect();
            assert!(waits_at(&costs).is_some_and(|at| at.abs_diff(held) <= 2), "{held}");
            let even: Vec<f64> = (0..300).map(|at| write(at + held)).collect();
            assert_eq!(waits_at(&even), None);
        }
    }

    #[test]
    fn logs_are_counted_from_the_first_one_that_is_reclaimed() {
        for (seed, (logs, period, buffered)) in
            [(1, 16, 0), (4, 64, 0), (11, 96, 352), (16, 128, 9)].into_iter().enumerate()
        {
            let mut random = Prng::new(Seed(seed as u64));
            let mut write = |index: usize| {
                let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
                let empties = index >= logs * period + buffered && (index - buffered).is_multiple_of(period);
                1e6 * (0.95 + 0.1 * random.unit()) * outlier * if empties { 60.0 } else { 1.0 }
            };
            let costs: Vec<f64> = (0..(logs + 3) * period + buffered).map(&mut write).collect();
            let stalls: Vec<usize> = (0..costs.len()).filter(|&index| costs[index] > 18e6).collect();
            let found =
                regular(&stalls, 1.0, 1).and_then(|regular| logs_of(&regular, 0, &[buffered / 2, buffered]));
            assert_eq!(
                found.map(|found| (found.logs as usize, found.period, found.whole)),
                Some((logs, period, true))
            );
            assert_eq!(regular(&stalls[..2], 1.0, 1), None);
        }
    }
}
