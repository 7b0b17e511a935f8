//! Finds the period in which a device erases or copies blocks, from few stalls, by a model of all of them.
//!
//! # Model
//! Writes stall by chance with a small probability. From the first block on there is a window in each period, as wide
//! as the dies are apart, whose writes stall with another, unknown probability.
//!
//! # Method
//! 1. Beginnings, periods and widths are tried, and the probabilities are integrated out (beta-binomial numbers).
//! 2. The log-likelihood ratio to stalls by chance is reduced by the logarithm of the number of cycles that were
//!    tried.
//!
//! # Invariants
//! - A cycle begins with a stall, and several of its windows are seen.
//! - The same costs give the same cycle.

use std::iter::successors;

use statrs::function::beta::ln_beta;

use super::cycles::{Cycle, OUTLIER_OF_LEVEL};
use super::statistics::upper_median;
use crate::priors;

/// The lengths of stalls that are tried, as multiples of the usual write beyond it. No erase takes less than
/// [`crate::priors::ERASE_LEAST`]. Unit: ratio. Source: choice: doublings. Too many: one of them fits by chance; too
/// few: erases are mixed with other stalls.
const STALL_RATIOS: [f64; 6] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0];
/// The most windows that are tried: with more stalls, a cycle predicts itself. Unit: windows. Source: choice.
/// Too many: the search takes seconds; too few: runs with few stalls are skipped.
const TRIED_MOST: usize = 1 << 22;
/// The fewest windows with stalls. Unit: windows. Source: derivation: one distance between two of them. Too
/// many: large blocks need more writes than the budget has; too few: one stall is a cycle.
pub const WINDOWS_LEAST: usize = 2;
/// The widths of windows that are tried: the dies erase within so many writes of each other. Unit: writes.
/// Source: choice: factors of 1.3 to 2. Too many: one of them fits by chance; too few: the erases of many
/// dies do not fit.
const WINDOW_WIDTHS: [usize; 7] = [1, 2, 3, 4, 6, 8, 12];
/// The widest window is this part of a period. Unit: part. Source: choice. Too small: any stall is in a
/// window; too large: small blocks of many dies do not fit.
const WINDOW_PART: usize = 2;
/// The beta prior of stalls by chance: half a stall in 25 writes. Unit: writes. Source: Jeffreys' half; the
/// 25 is tuned. Too high: cycles seem likelier than they are; too low: stalls by chance explain every cycle.
const CHANCE_PRIOR: [f64; 2] = [0.5, 25.0];
/// The least log-likelihood ratio to stalls by chance, once the number of cycles that were tried is
/// subtracted. Unit: natural logarithm, so 20 to 1. Source: tuned. Too high: few stalls show nothing; too
/// low: stalls by chance are a cycle.
const CYCLE_GAIN: f64 = 3.0;

/// The likeliest cycle of one of these periods, the shortest one first, that begins after the first of them, if few stalls show one.
pub fn few_copied(costs: &[f64], periods: &[usize]) -> Option<Cycle> {
    let usual = upper_median(costs);
    let lows = STALL_RATIOS.map(|level| usual + (level * usual).max(priors::ERASE_LEAST));
    let between = lows.into_iter().flat_map(|low| [(low, f64::INFINITY), (low, OUTLIER_OF_LEVEL * low)]);
    let found = between
        .filter_map(|(low, high)| Stalls::new(costs, low, high).likeliest(periods))
        .max_by(|a, b| a.gain.total_cmp(&b.gain));
    found.filter(|cycle| cycle.gain >= CYCLE_GAIN).map(|cycle| with_earlier(cycle, costs))
}

/// The cycle from its first window on. An earlier window may have a stall that is longer than those which
/// distinguish the cycle.
fn with_earlier(cycle: Cycle, costs: &[f64]) -> Cycle {
    let stalls = Stalls::new(costs, cycle.low, f64::INFINITY);
    let earlier = successors(Some(cycle.phase), |phase| phase.checked_sub(cycle.period));
    let gains = earlier.map(|phase| (phase, stalls.gain(phase, cycle.period, cycle.width)));
    let likeliest = gains.max_by(|a, b| a.1.total_cmp(&b.1));
    Cycle { phase: likeliest.map_or(cycle.phase, |(phase, _)| phase), ..cycle }
}

/// The writes whose costs are between two.
struct Stalls {
    low: f64,
    high: f64,
    positions: Vec<usize>,
    /// How many there are before each write, and before the end.
    before: Vec<usize>,
}

impl Stalls {
    fn new(costs: &[f64], low: f64, high: f64) -> Stalls {
        let positions: Vec<usize> =
            (0..costs.len()).filter(|&at| costs[at] > low && costs[at] <= high).collect();
        let before = (0..=costs.len()).map(|at| positions.partition_point(|&stall| stall < at)).collect();
        Stalls { low, high, positions, before }
    }

    /// How many writes there are.
    fn all(&self) -> usize {
        self.before.len() - 1
    }

    /// How much likelier than stalls by chance only windows are, `width` writes in each period from a phase on, as a log-likelihood ratio.
    fn gain(&self, phase: usize, period: usize, width: usize) -> f64 {
        let (all, stalls) = (self.all(), self.positions.len());
        let by_chance = |hits: usize, of: usize| {
            let [a, b] = CHANCE_PRIOR;
            ln_beta(a + hits as f64, b + (of - hits) as f64) - ln_beta(a, b)
        };
        let unknown = |hits: usize, of: usize| ln_beta(1.0 + hits as f64, 1.0 + (of - hits) as f64);
        let (mut inside, mut hits) = (0, 0);
        for begin in (phase..all).step_by(period) {
            let end = (begin + width).min(all);
            inside += end - begin;
            hits += self.before[end] - self.before[begin];
        }
        let none = by_chance(stalls, all).max(unknown(stalls, all));
        unknown(hits, inside) + by_chance(stalls - hits, all - inside) - none
    }

    fn likeliest(&self, periods: &[usize]) -> Option<Cycle> {
        let (all, shortest) = (self.all(), *periods.first()?);
        let windows: usize = periods.iter().map(|period| all / period).sum();
        if self.positions.len() < WINDOWS_LEAST || self.positions.len() * windows > TRIED_MOST {
            return None;
        }
        let levels = 2 * STALL_RATIOS.len();
        let tried = ((all * periods.len() * WINDOW_WIDTHS.len() * levels) as f64).ln();
        let mut best: Option<Cycle> = None;
        // What begins with the first writes is no beginning.
        for &phase in self.positions.iter().filter(|&&at| at >= shortest) {
            for &period in periods.iter().take_while(|&&period| period <= (all - phase) / WINDOWS_LEAST) {
                for width in WINDOW_WIDTHS.into_iter().filter(|width| width * WINDOW_PART <= period) {
                    let gain = self.gain(phase, period, width) - tried;
                    if best.is_none_or(|best| gain > best.gain) {
                        let (low, high) = (self.low, self.high);
                        best = Some(Cycle { period, phase, width, from: 0, length: all, gain, low, high });
                    }
                }
            }
        }
        best
    }
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
        (shortest..=writes / WINDOWS_LEAST).collect()
    }

    #[test]
    fn three_copied_blocks_are_enough() {
        for seed in 0..20 {
            let found = few_copied(&costs(seed, 43, 21, 8), &all(8, 43)).unwrap();
            assert_eq!((found.phase, found.period), (21, 8), "seed {seed}: {found:?}");
        }
    }

    /// Writes of which one in two hundred takes far longer; from `onset` on one of each `period` waits for an erase of a millisecond, the
    /// first time for a longer one.
    fn erased(seed: u64, count: usize, onset: usize, period: usize) -> Vec<f64> {
        let mut random = Prng::new(Seed(seed));
        let one = |at: usize| {
            let usual = 0.3e6 * (1.0 + 0.1 * random.unit());
            let outlier = if random.unit() < 0.005 { 25e6 } else { 0.0 };
            let erase = if at == onset { 9e6 } else { 1.1e6 };
            usual + outlier + if at >= onset && (at - onset).is_multiple_of(period) { erase } else { 0.0 }
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn few_blocks_that_are_erased_among_many_writes_are_enough() {
        let is_right = |(seed, period): &(u64, usize)| {
            let onset = 7 * period + 5;
            let costs = erased(*seed, 14 * period, onset, *period);
            let found = few_copied(&costs, &all(16, costs.len()));
            found.is_some_and(|found| (found.phase, found.period) == (onset, *period))
        };
        // Now and then an outlier is where an earlier window would be.
        let right = (0..40).zip([32, 48, 64, 96].into_iter().cycle()).filter(is_right).count();
        assert!(right >= 38, "{right} of 40");
    }

    #[test]
    fn stalls_by_chance_are_no_copied_blocks() {
        let found =
            (0..200).filter(|&seed| few_copied(&costs(seed, 300, usize::MAX, 8), &all(8, 300)).is_some());
        assert!(found.count() <= 4);
        assert_eq!(few_copied(&[], &[8]), None);
    }
}
