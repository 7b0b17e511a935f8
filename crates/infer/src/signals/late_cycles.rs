//! Stalls that are periodic from some write on: the cycle and its beginning at once, from all writes.
//!
//! # Model
//! Before the over-provisioned space is used up, stalls come by chance; from then on their rate depends on the place
//! in a unit. Few units may be left to be seen, and their stalls may lie anywhere in a part of the unit, as dies that fill their blocks
//! together erase them one after the other. So a unit is cut into equal places, and of all beginnings and periods the one
//! is taken for which stalls as Poisson numbers, with a rate for each place, are likeliest compared with one rate for all, less what so
//! many rates explain by chance (Schwarz, Annals of Statistics 6(2), 1978).
//!
//! # Invariants
//! - several whole periods are seen, and each of them shows it;
//! - of periods that explain as much the shortest is taken: its multiples do so as well.

use super::cycles::{Cycle, FAR_ABOVE};
use super::likelihood::log_likelihood;
use super::statistics::{expensive, quantile};

/// Places of a period, when periods are looked for, and in the end.
const PLACES: usize = 8;
const FINE_PLACES: usize = 16;
/// The first writes that may begin it, as parts of all.
const BEGINNINGS: usize = 7;
/// Periods that have to be seen.
const PERIODS_MIN: usize = 3;
/// How much likelier than one rate it is, as a log-likelihood ratio.
const GAIN_LEAST: f64 = 22.0;
/// A part of a period that explains this much of what it does is the period.
const PART_GAIN: f64 = 0.85;
const PARTS_MOST: usize = 16;
/// The share of the stalls of a period in the densest places; the fewest there have to be more than by chance, in each period.
const DENSE: f64 = 2.0;
/// More stalls than this are not looked at.
const STALLS_MOST: usize = 1200;
/// Stalls are what is above these shares of the expensive writes.
const LEVELS: [f64; 7] = [0.0, 0.3, 0.45, 0.6, 0.75, 0.85, 0.93];

/// A cycle that begins after the first of the writes, of at least `shortest` writes.
pub fn late_cycle(costs: &[f64], shortest: usize) -> Option<Cycle> {
    let mut best: Option<Cycle> = None;
    let (least, expensive) = expensive(costs);
    let lows = LEVELS.map(|share| if share == 0.0 { least } else { quantile(&expensive, share) });
    for (low, high) in lows.into_iter().flat_map(|low| [(low, f64::INFINITY), (low, FAR_ABOVE * low)]) {
        let stalls: Vec<usize> =
            (0..costs.len()).filter(|&at| costs[at] > low && costs[at] <= high).collect();
        if stalls.len() < PLACES || stalls.len() > STALLS_MOST {
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
        let longest = length / PERIODS_MIN;
        if self.stalls.len() < PLACES || longest <= shortest {
            return None;
        }
        let (mut best, mut gained, mut period) = (0.0, 0.0, shortest.max(PLACES) as f64);
        while period <= longest as f64 {
            let gain = self.gain(period, PLACES);
            if gain > gained {
                (best, gained) = (period, gain);
            }
            // A change that moves the last stall by half a place.
            period += (period * period / (2 * PLACES * length) as f64).max(0.5);
        }
        if gained < GAIN_LEAST {
            return None;
        }
        let parts = (2..=PARTS_MOST).rev().map(|parts| best / parts as f64);
        let part = parts
            .filter(|&part| part >= shortest as f64)
            .map(|part| self.near(part))
            .find(|&(_, gain)| gain >= PART_GAIN * gained);
        let (period, gain) = part.unwrap_or_else(|| self.near(best));
        let period = period.round() as usize;
        self.dense(period).map(|cycle| Cycle { gain, ..cycle })
    }

    /// The likeliest period near one, and its gain.
    fn near(&self, period: f64) -> (f64, f64) {
        let step = (period * period / (4 * FINE_PLACES * (self.end - self.from)) as f64).max(0.25);
        let tried =
            (-16..=16).map(|change| period + f64::from(change) * step).filter(|&period| period >= 2.0);
        let gains = tried.map(|period| (period, self.gain(period, PLACES)));
        let likeliest = gains.max_by(|a, b| a.1.total_cmp(&b.1));
        likeliest.unwrap_or((period, 0.0))
    }

    fn counts(&self, period: f64, places: usize) -> Vec<f64> {
        let mut counts = vec![0.0; places];
        for &stall in self.stalls {
            let place = (stall as f64 / period).fract() * places as f64;
            counts[(place as usize).min(places - 1)] += 1.0;
        }
        counts
    }

    /// How much likelier the stalls are with a rate for each place.
    fn gain(&self, period: f64, places: usize) -> f64 {
        let counts = self.counts(period, places);
        let all = self.stalls.len() as f64;
        let usual = all / places as f64;
        let of = |&count: &f64| log_likelihood(count, usual);
        counts.iter().map(of).sum::<f64>() - (places - 1) as f64 / 2.0 * all.max(2.0).ln()
    }

    /// The cycle of the places that are dense, if each period but one in four has more stalls there than by chance.
    fn dense(&self, period: usize) -> Option<Cycle> {
        let counts = self.counts(period as f64, FINE_PLACES);
        let usual = self.stalls.len() as f64 / FINE_PLACES as f64;
        let first = (0..FINE_PLACES).max_by(|&a, &b| counts[a].total_cmp(&counts[b]))?;
        let at = |place: usize| counts[place % FINE_PLACES];
        let dense = |place: usize| at(place) >= DENSE * usual || at(place) >= at(first) / 2.0;
        let before = (1..FINE_PLACES / 2).take_while(|back| dense(first + FINE_PLACES - back)).count();
        let behind = (1..FINE_PLACES / 2).take_while(|on| dense(first + on)).count();
        let begin = (first + FINE_PLACES - before) % FINE_PLACES;
        let phase = begin * period / FINE_PLACES;
        let width = ((before + behind + 1) * period).div_ceil(FINE_PLACES).min(period);
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
        (periods >= PERIODS_MIN && 4 * stalled >= 3 * periods).then_some(cycle)
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
