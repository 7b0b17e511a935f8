//! Finds stalls that are periodic from some write on: the cycle and its beginning at the same time.
//!
//! # Model
//! Until the over-provisioning is used up, stalls come by chance. From then on, their rate depends on the position in
//! an erase block. Only a few blocks may be seen. Dies that fill their blocks at the same time may erase them one
//! after the other, so that the stalls fill a part of the block. So the block is divided into equal positions with a
//! Poisson rate each.
//!
//! # Method
//! 1. For all beginnings and periods, the likelihood with a rate for each position is compared with that of one rate
//!    for all.
//! 2. The number of rates is charged (Schwarz, Annals of Statistics 6(2), 1978).
//! 3. The window is the dense positions around the densest one.
//!
//! # Invariants
//! - Several whole periods are seen, and each of them shows the cycle.
//! - Of periods that explain equally much the shortest is taken: its multiples explain as much.

use super::cycles::{Cycle, OUTLIER_OF_LEVEL};
use super::likelihood::log_likelihood;
use super::statistics::{quantile, slow};
use crate::thresholds;

/// The positions into which a period is divided while periods are tried. Unit: positions. Source: choice. Too
/// many: each has few stalls; too few: the stalls of neighbouring positions are mixed.
const POSITIONS: usize = 8;
/// The positions into which the period that was found is divided. Unit: positions. Source: choice. Too many:
/// the dense ones are broken by chance; too few: the window is wider than the stalls.
const POSITIONS_FINE: usize = 16;
/// One more than the beginnings that are tried, at equal distances over the writes. Unit: beginnings. Source:
/// choice. Too many: the search takes longer; too few: writes before the cycle hide it.
const BEGINNINGS: usize = 7;
/// A part of a period that has this share of its log-likelihood ratio is the period. Unit: share. Source:
/// tuned. Too high: a multiple is reported; too low: a part that fits by chance is reported.
const MULTIPLE_SHARE: f64 = 0.85;
/// The stalls at a dense position, as a multiple of those at the usual one. Unit: ratio. Source: tuned. Too
/// high: the window is narrower than the stalls; too low: it is most of the period.
const DENSE_RATIO: f64 = 2.0;
/// The most stalls: each period that is tried counts all of them. Unit: stalls. Source: choice. Too many: the
/// search takes seconds; too few: levels with many stalls are not tried.
const STALLS_MOST: usize = 1200;
/// The quantiles of the slow writes above which they count as stalls. Each is tried. Unit: share. Source:
/// choice. Too many: one of them fits by chance; too few: erases are hidden among shorter stalls.
const LEVEL_QUANTILES: [f64; 7] = [0.0, 0.3, 0.45, 0.6, 0.75, 0.85, 0.93];

/// A cycle that begins after the first of the writes, of at least `shortest` writes.
pub fn late_cycle(costs: &[f64], shortest: usize) -> Option<Cycle> {
    let mut best: Option<Cycle> = None;
    let (least, slow) = slow(costs);
    let lows = LEVEL_QUANTILES.map(|share| if share == 0.0 { least } else { quantile(&slow, share) });
    for (low, high) in lows.into_iter().flat_map(|low| [(low, f64::INFINITY), (low, OUTLIER_OF_LEVEL * low)])
    {
        let stalls: Vec<usize> =
            (0..costs.len()).filter(|&at| costs[at] > low && costs[at] <= high).collect();
        if stalls.len() < POSITIONS || stalls.len() > STALLS_MOST {
            continue;
        }
        for beginning in 1..BEGINNINGS {
            let from = costs.len() * beginning / (BEGINNINGS + 1);
            let fold =
                Fold { stalls: &stalls[stalls.partition_point(|&at| at < from)..], from, end: costs.len() };
            let found =
                fold.likeliest(shortest).filter(|cycle| best.is_none_or(|best| cycle.gain > best.gain));
            best = found.map(|cycle| Cycle { low, high, ..cycle }).or(best);
        }
    }
    best
}

/// Stalls from a write on.
struct Fold<'a> {
    stalls: &'a [usize],
    from: usize,
    end: usize,
}

impl Fold<'_> {
    fn likeliest(&self, shortest: usize) -> Option<Cycle> {
        let length = self.end - self.from;
        let longest = length / thresholds::PERIODS_LEAST;
        if self.stalls.len() < POSITIONS || longest <= shortest {
            return None;
        }
        let (mut best, mut gained, mut period) = (0.0, 0.0, shortest.max(POSITIONS) as f64);
        while period <= longest as f64 {
            let gain = self.gain(period, POSITIONS);
            if gain > gained {
                (best, gained) = (period, gain);
            }
            // A change that moves the last stall by half a place.
            period += (period * period / (2 * POSITIONS * length) as f64).max(0.5);
        }
        if gained < thresholds::POSITIONS_GAIN {
            return None;
        }
        let parts = (2..=thresholds::MULTIPLES_MOST).rev().map(|parts| best / parts as f64);
        let part = parts
            .filter(|&part| part >= shortest as f64)
            .map(|part| self.near(part))
            .find(|&(_, gain)| gain >= MULTIPLE_SHARE * gained);
        let (period, gain) = part.unwrap_or_else(|| self.near(best));
        let period = period.round() as usize;
        self.dense(period).map(|cycle| Cycle { gain, ..cycle })
    }

    /// The likeliest period near one, and its gain.
    fn near(&self, period: f64) -> (f64, f64) {
        let step = (period * period / (4 * POSITIONS_FINE * (self.end - self.from)) as f64).max(0.25);
        let tried =
            (-16..=16).map(|change| period + f64::from(change) * step).filter(|&period| period >= 2.0);
        let gains = tried.map(|period| (period, self.gain(period, POSITIONS)));
        let likeliest = gains.max_by(|a, b| a.1.total_cmp(&b.1));
        likeliest.unwrap_or((period, 0.0))
    }

    fn counts(&self, period: f64, positions: usize) -> Vec<f64> {
        let mut counts = vec![0.0; positions];
        for &stall in self.stalls {
            let place = (stall as f64 / period).fract() * positions as f64;
            counts[(place as usize).min(positions - 1)] += 1.0;
        }
        counts
    }

    /// How much likelier the stalls are with a rate for each place.
    fn gain(&self, period: f64, positions: usize) -> f64 {
        let counts = self.counts(period, positions);
        let all = self.stalls.len() as f64;
        let usual = all / positions as f64;
        let of = |&count: &f64| log_likelihood(count, usual);
        counts.iter().map(of).sum::<f64>() - (positions - 1) as f64 / 2.0 * all.max(2.0).ln()
    }

    /// The cycle of the dense positions, if each period but one in four has more stalls there than by chance.
    fn dense(&self, period: usize) -> Option<Cycle> {
        let counts = self.counts(period as f64, POSITIONS_FINE);
        let usual = self.stalls.len() as f64 / POSITIONS_FINE as f64;
        let first = (0..POSITIONS_FINE).max_by(|&a, &b| counts[a].total_cmp(&counts[b]))?;
        let at = |place: usize| counts[place % POSITIONS_FINE];
        let dense = |place: usize| at(place) >= DENSE_RATIO * usual || at(place) >= at(first) / 2.0;
        let before = (1..POSITIONS_FINE / 2).take_while(|back| dense(first + POSITIONS_FINE - back)).count();
        let behind = (1..POSITIONS_FINE / 2).take_while(|on| dense(first + on)).count();
        let begin = (first + POSITIONS_FINE - before) % POSITIONS_FINE;
        let phase = begin * period / POSITIONS_FINE;
        let width = ((before + behind + 1) * period).div_ceil(POSITIONS_FINE).min(period);
        let (from, length, high) = (self.from, self.end - self.from, f64::INFINITY);
        let cycle = Cycle { period, phase, width, from, length, gain: 0.0, low: 0.0, high };
        let periods = length / period;
        let stalled = |index: usize| {
            let begin = self.from + index * period;
            let of_period = self.stalls.iter().filter(|&&stall| (begin..begin + period).contains(&stall));
            let (inside, all) = of_period.fold((0.0, 0.0), |(inside, all), &stall| {
                (inside + f64::from(u8::from(cycle.covers(stall))), all + 1.0)
            });
            inside > all * width as f64 / period as f64
        };
        let stalled = (0..periods).filter(|&index| stalled(index)).count();
        (periods >= thresholds::PERIODS_LEAST && 4 * stalled >= 3 * periods).then_some(cycle)
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Costs of which some are stalls; from `onset` on more of them, in a third of each period.
    fn costs(seed: u64, count: usize, period: usize, onset: usize) -> Vec<f64> {
        let mut random = Prng::new(Seed(seed));
        let one = |at: usize| {
            let in_place = at >= onset && at % period < period / 3;
            let stalls = random.unit() < if in_place { 0.4 } else { 0.02 };
            (1.0 + 0.1 * random.unit()) * if stalls { 10.0 } else { 1.0 }
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn few_periods_are_enough() {
        for (seed, period) in [192, 256, 500].into_iter().enumerate() {
            let onset = 14 * period;
            let found = late_cycle(&costs(seed as u64, 20 * period, period, onset), 32).unwrap();
            assert!(found.period.abs_diff(period) * 50 <= period, "{period}: {found:?}");
        }
    }

    #[test]
    fn without_a_cycle_none_is_found() {
        assert!((0..40).all(|seed| late_cycle(&costs(seed, 4000, 200, usize::MAX), 32).is_none()));
    }
}
