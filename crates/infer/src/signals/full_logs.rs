//! How many logs all blocks share, from the places of the stalls among single pages.
//!
//! # Model
//! From the first page that waits for a log to be reclaimed on, one waits each time that as many pages are written as a log takes:
//! to the page, on one die. Before it all logs were filled, so that their number is that of the pages before it by those of a
//! log, without the pages that a buffer takes and the logs whose merges were deferred. That this is a whole number is a test of
//! what is known of both. Where several logs are reclaimed at once, they look like one: `infer` distinguishes them.
//!
//! # Invariants
//! - what is found was seen three times, as many pages apart.

use super::likelihood::{gain_of_two, running};
use super::statistics::{quantile, upper_median};
use crate::priors;

/// Rows of pages that a log takes at least.
pub const LOG_ROWS_LEAST: usize = 14;
/// This many stalls have to be equally far apart; more where others are elsewhere, and the share of all that may be there.
const SEEN: usize = 3;
/// The number of equally distant stalls that is enough where other stalls lie between them.
pub const MANY: usize = 7;
const ELSEWHERE: f64 = 0.34;
/// Stalls that are tried as the first one, and those behind it as the second one.
const TRIED: usize = 8;
/// This many writes that take longer than the first ones have to wait.
const WAITING: usize = 16;
/// The flash takes a buffer's pages while others come: at most this many times what it holds are written before one waits.
const FREE_MOST: usize = 3;
/// What lies before the first stall is a whole number of logs up to this share of one.
const WHOLE: f64 = 0.06;
/// The least log-likelihood ratio of a rise of the cost to none, beyond the logarithm of the number of places tried.
const RISE_GAIN: f64 = 10.0;
/// The quantile of the costs that a rise is measured by: slower writes are outliers.
const USUAL: f64 = 0.9;
/// The least rise of that quantile, as a share of its value before the rise.
const RISE_LEAST: f64 = 0.03;
/// The number of equally frequent kinds of costs whose shares are compared before and behind a rise.
const KINDS: usize = 8;
/// The fewest writes before a rise, and behind it.
const BESIDE: usize = 16;
/// Costs this many times the usual one, or as small a part of it, are outliers.
const OUTLIER: f64 = 4.0;
/// By this many pages a stall may be early or late.
pub const SLACK: usize = 1;

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

/// Stalls that are equally far apart.
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
        upper_median(&costs[*at..(*at + WAITING).min(costs.len())])
            > OUTLIER.sqrt() * upper_median(&costs[..*at])
    };
    let from = (WAITING / 2..costs.len().saturating_sub(WAITING)).find(waits)?;
    // Half of those that were looked at may still be cheap.
    let usual = upper_median(&costs[..from]);
    (from..costs.len()).find(|&at| {
        costs[at] > OUTLIER.sqrt() * usual
            && costs.get(at + 1).is_none_or(|&next| next > OUTLIER.sqrt() * usual)
    })
}

/// The write from which on the host waits for those before it, behind a buffer of this many pages.
pub fn waited_from(costs: &[f64], buffered: usize) -> usize {
    let begin = (buffered * 9 / 8).min(costs.len());
    let at_first = upper_median(&costs[..begin / 2]);
    let waits = |from: &usize| {
        upper_median(&costs[*from..(*from + WAITING).min(costs.len())]) > OUTLIER.sqrt() * at_first
    };
    match buffered {
        0 => 0,
        _ => (begin..costs.len().min(FREE_MOST * begin))
            .find(waits)
            .map_or(begin, |from| (from + WAITING).min(costs.len())),
    }
}

/// Whether a stall is a whole number of periods from the first one.
pub fn is_on_grid(stall: usize, first: usize, period: usize) -> bool {
    off_grid(stall, first, period) <= SLACK
}

/// The logs that were full before the first stall, if `deferred` merges are deferred and a buffer holds one of the numbers `buffered` of pages.
pub fn logs_of(regular: &Regular, deferred: usize, buffered: &[usize]) -> Option<Shared> {
    let Regular { first, period, .. } = *regular;
    let slack = f64::max(WHOLE, 2.5 / period as f64);
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
    for (index, &first) in stalls.iter().enumerate().take(TRIED) {
        for &second in stalls[index + 1..].iter().take(TRIED) {
            let period = second - first;
            let is_one = |place: usize| stalls.iter().any(|&stall| stall.abs_diff(place) <= SLACK);
            let in_a_row = (2..).take_while(|&times| is_one(first + times * period)).take(MANY).count() + 2;
            let hits: Vec<usize> =
                stalls.iter().copied().filter(|&stall| is_on_grid(stall, first, period)).collect();
            let others = stalls.len() - hits.len();
            // What collects pages may be so regular for a while.
            let enough = in_a_row >= if others == 0 { SEEN } else { MANY };
            let is_better = best.is_none_or(|(most, _)| hits.len() > most);
            if period >= LOG_ROWS_LEAST * row
                && enough
                && others as f64 <= ELSEWHERE * hits.len() as f64
                && is_better
            {
                // Some may have been made needless by what was written in order.
                best = Some((hits.len(), Regular { first: hits[0], period, level, in_a_row }));
            }
        }
    }
    best.map(|(_, regular)| regular)
}

/// The write from which on the usual cost is higher, a whole number of periods before `end`: where costs are shared out among
/// some kinds of them otherwise before it than behind it, and slow ones are slower there. The usual cost of all need not rise where
/// pages of a row cost differently.
pub fn rise(costs: &[f64], end: usize, period: usize) -> Option<usize> {
    let bounds: Vec<f64> = (1..KINDS).map(|kind| quantile(costs, kind as f64 / KINDS as f64)).collect();
    let kind = |cost: &f64| bounds.iter().filter(|&bound| cost > bound).count();
    let (all, before) = (costs.len(), running::<KINDS>(costs.iter().map(kind)));
    let gain = |at: usize| gain_of_two(&before[at], &before[all], at, all) - (KINDS - 1) as f64;
    let expensive = |costs: &[f64]| quantile(costs, USUAL);
    let rises = |at: usize| expensive(&costs[at..]) > (1.0 + RISE_LEAST) * expensive(&costs[..at]);
    let inside = |at: &usize| *at >= BESIDE && at + BESIDE <= all;
    let places = (1..).map_while(|periods| end.checked_sub(periods * period)).filter(inside);
    let places: Vec<usize> = places.collect();
    let best = places.iter().map(|&at| (at, gain(at))).max_by(|a, b| a.1.total_cmp(&b.1));
    let least = RISE_GAIN + (places.len().max(1) as f64).ln();
    best.filter(|&(at, gain)| gain >= least && rises(at)).map(|(at, _)| at)
}

/// How far two places are from being whole periods apart.
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
