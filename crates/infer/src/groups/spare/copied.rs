//! From when on, and how often, a device copies blocks, or erases them: from few stalls, by a model of all of them at once.
//!
//! # Model
//! Equal writes stall by chance, with a small probability. From the first block on there is a window of writes once in
//! each period, as wide as the dies are apart, with another probability to stall, of which nothing is known. Of all
//! beginnings, periods and widths the likeliest is taken, with the probabilities integrated out (beta-binomial numbers), by how much
//! likelier it is than stalls by chance only, and less what so many of them are likelier by chance.
//!
//! # Invariants
//! - a cycle begins with a stall, and several of its windows are seen;
//! - the same costs give the same cycle.

use std::iter::successors;

use statrs::function::beta::ln_beta;

use crate::groups::cycles::{ALIKE, Cycle, FAR_ABOVE};
use crate::groups::figures::median;

/// Stalls take so many times longer than the usual write, and no erase takes less than this; what takes far longer may be none of them.
const LEVELS: [f64; 6] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0];
const ERASE_LEAST: f64 = 0.9e6;
/// More stalls and periods have cycles that foretell themselves.
const TRIED_MOST: usize = 1 << 18;
/// Windows that have to be seen, and the widest, as a part of a period.
pub(super) const WINDOWS_MIN: usize = 2;
const WIDTHS: [usize; 7] = [1, 2, 3, 4, 6, 8, 12];
const WIDEST_PART: usize = 2;
/// What is known of stalls by chance before: half a stall in so many writes.
const BY_CHANCE: [f64; 2] = [0.5, 25.0];
/// How much likelier it is than stalls by chance, in nats.
const GAIN_LEAST: f64 = 3.0;

/// The likeliest cycle of one of these periods, the shortest one first, that begins after the first of them, if few stalls tell one.
pub(super) fn few_copied(costs: &[f64], periods: &[usize]) -> Option<Cycle> {
    let usual = median(costs);
    let lows = LEVELS.map(|level| usual + (level * usual).max(ERASE_LEAST));
    let between = lows.into_iter().flat_map(|low| [(low, f64::INFINITY), (low, FAR_ABOVE * low)]);
    let found = between
        .filter_map(|(low, high)| likeliest(costs, low, high, periods))
        .max_by(|a, b| a.gain.total_cmp(&b.gain));
    found.filter(|cycle| cycle.gain >= GAIN_LEAST).map(|cycle| with_earlier(cycle, costs))
}

/// The cycle from the first of its windows on that have a stall like those behind it: one may be a little longer than the most that
/// tells them from others.
fn with_earlier(cycle: Cycle, costs: &[f64]) -> Cycle {
    let of_window = |begin: usize| &costs[begin..(begin + cycle.width).min(costs.len())];
    let near =
        |begin: usize| &costs[begin.saturating_sub(cycle.width)..(begin + 2 * cycle.width).min(costs.len())];
    let windows = (cycle.phase..costs.len()).step_by(cycle.period).flat_map(of_window).copied();
    let usual = median(&windows.filter(|&cost| cycle.is_stall(cost)).collect::<Vec<_>>());
    let is_like = |&cost: &f64| cost > cycle.low && (usual / ALIKE..usual * ALIKE).contains(&cost);
    let earlier =
        |&begin: &usize| begin.checked_sub(cycle.period).filter(|&begin| near(begin).iter().any(is_like));
    Cycle { phase: successors(Some(cycle.phase), earlier).last().unwrap_or(cycle.phase), ..cycle }
}

fn likeliest(costs: &[f64], low: f64, high: f64, periods: &[usize]) -> Option<Cycle> {
    let (all, shortest) = (costs.len(), *periods.first()?);
    let stalls: Vec<usize> = (0..all).filter(|&at| costs[at] > low && costs[at] <= high).collect();
    if stalls.len() < WINDOWS_MIN || stalls.len() * periods.len() > TRIED_MOST {
        return None;
    }
    let before: Vec<usize> = (0..=all).map(|at| stalls.partition_point(|&stall| stall < at)).collect();
    let by_chance = |hits: usize, of: usize| {
        let [a, b] = BY_CHANCE;
        ln_beta(a + hits as f64, b + (of - hits) as f64) - ln_beta(a, b)
    };
    let unknown = |hits: usize, of: usize| ln_beta(1.0 + hits as f64, 1.0 + (of - hits) as f64);
    let none = by_chance(stalls.len(), all).max(unknown(stalls.len(), all));
    let tried = (all * periods.len() * WIDTHS.len()) as f64;
    let mut best: Option<Cycle> = None;
    // What begins with the first writes is no beginning.
    for &at in stalls.iter().filter(|&&at| at >= shortest) {
        for &period in periods.iter().take_while(|&&period| period <= (all - at) / WINDOWS_MIN) {
            for width in WIDTHS.into_iter().filter(|width| width * WIDEST_PART <= period) {
                let (mut inside, mut hits) = (0, 0);
                for begin in (at..all).step_by(period) {
                    let end = (begin + width).min(all);
                    inside += end - begin;
                    hits += before[end] - before[begin];
                }
                let outside = by_chance(stalls.len() - hits, all - inside);
                let gain = unknown(hits, inside) + outside - none - tried.ln();
                if best.is_none_or(|best| gain > best.gain) {
                    best = Some(Cycle { period, phase: at, width, from: 0, length: all, gain, low, high });
                }
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Writes of some milliseconds, of which one in a hundred takes ten times as long; from `onset` on two of each `period` as well.
    fn costs(seed: u64, count: usize, onset: usize, period: usize) -> Vec<f64> {
        let mut random = Prng::new(Seed(seed));
        let one = |at: usize| {
            let copies = at >= onset && (at - onset) % period < 2;
            let outlier = random.unit() < 0.01;
            3e6 * (1.0 + 0.1 * random.unit()) * if copies || outlier { 9.0 } else { 1.0 }
        };
        (0..count).map(one).collect()
    }

    fn all(shortest: usize, writes: usize) -> Vec<usize> {
        (shortest..=writes / WINDOWS_MIN).collect()
    }

    #[test]
    fn three_copied_blocks_are_enough() {
        for seed in 0..20 {
            let found = few_copied(&costs(seed, 43, 21, 8), &all(8, 43)).unwrap();
            assert_eq!((found.phase, found.period), (21, 8), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn few_blocks_that_are_erased_among_many_writes_are_enough() {
        for (seed, period) in (0..20).zip([32, 48, 64, 96].into_iter().cycle()) {
            let onset = 7 * period + 5;
            let costs = costs(seed, 14 * period, onset, period);
            let found = few_copied(&costs, &all(16, costs.len())).unwrap();
            assert_eq!((found.phase, found.period), (onset, period), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn stalls_by_chance_are_no_copied_blocks() {
        let found =
            (0..200).filter(|&seed| few_copied(&costs(seed, 300, usize::MAX, 8), &all(8, 300)).is_some());
        assert!(found.count() <= 4);
        assert_eq!(few_copied(&[], &[8]), None);
    }
}
