//! Stalls that come back: from the costs of equal writes, how many writes lie between two merges or erases.
//!
//! # Model
//! Most writes of a series cost the same; at one place of each period one is expensive. Expensive writes may come at
//! other places too, as outliers or for other reasons, but not at the same place of each period: with a share `q`
//! of expensive writes, `h` of `n` periods have one at a given place by chance with a probability of at most
//! exp(-n KL(h / n, q)) (Hoeffding, JASA 58(301), 1963). That is corrected for all places of all periods.
//!
//! Of a period all multiples show it too, and none of its parts in each of theirs. So it is the smallest that is
//! complete. Stalls of several kinds may lie over each other, as merges over erases: they differ in what they take, so
//! that it is looked for among all expensive writes, and then among the most expensive ones only.
//!
//! # Invariants
//! - a place counts only where nearly all periods have a stall there;
//! - the same costs give the same periods.

use super::figures::{divergence, expensive, median, quantile};

/// Fewer periods than this are none.
const PERIODS_MIN: usize = 4;
/// This share of the periods has the stall.
const COMPLETE: f64 = 0.75;
/// p of all places of all periods together.
const LN_P: f64 = -9.2;
/// More writes than this are not looked at.
pub(crate) const WRITES_MOST: usize = 1 << 16;
/// The most that is looked at for one threshold: stalls times periods.
const WORK: usize = 20_000_000;

/// Stalls at the same place of each period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stalls {
    /// Writes from one to the next.
    pub period: usize,
    /// The place of the first.
    pub phase: usize,
    /// How many periods have one.
    pub hits: usize,
    /// Of how many.
    pub periods: usize,
    /// Their median, in the unit of the costs.
    pub level: f64,
    /// Costs above it count as stalls.
    pub threshold: f64,
}

impl Stalls {
    /// The share of the periods that have their stall in other costs, of which the first is the `begin`-th of the
    /// series; and how many periods these are.
    pub(crate) fn confirmed(&self, costs: &[f64], begin: usize) -> (f64, usize) {
        let first = (self.phase + self.period - begin % self.period) % self.period;
        let places: Vec<f64> = costs.iter().copied().skip(first).step_by(self.period).collect();
        let hits = places.iter().filter(|&&cost| cost > self.threshold).count();
        (hits as f64 / places.len().max(1) as f64, places.len())
    }
}

/// The periods of stalls, from those of all stalls to those of the most expensive ones; no period twice.
pub(crate) fn stalls(costs: &[f64]) -> Vec<Stalls> {
    let costs = &costs[..costs.len().min(WRITES_MOST)];
    let (least, expensive) = expensive(costs);
    let thresholds =
        [least, quantile(&expensive, 0.5), quantile(&expensive, 0.8), quantile(&expensive, 0.95)];
    let mut found: Vec<Stalls> = Vec::new();
    for threshold in thresholds {
        if let Some(stalls) = smallest_period(costs, threshold)
            && found.iter().all(|known| known.period != stalls.period)
        {
            found.push(stalls);
        }
    }
    found
}

/// The smallest period that has a stall above `threshold` at the same place nearly always.
fn smallest_period(costs: &[f64], threshold: f64) -> Option<Stalls> {
    let places: Vec<usize> = (0..costs.len()).filter(|&place| costs[place] > threshold).collect();
    let share = places.len() as f64 / costs.len() as f64;
    // Among many stalls long periods would be of many stalls each, which nothing makes.
    let longest = (costs.len() / PERIODS_MIN).min(WORK / places.len().max(1));
    if places.len() < PERIODS_MIN || share > 0.5 {
        return None;
    }
    let tried = (longest as f64).powi(2) / 2.0;
    let mut hits_at = vec![0u32; longest + 1];
    (2..=longest).find_map(|period| {
        hits_at[..period].fill(0);
        places.iter().for_each(|place| hits_at[place % period] += 1);
        let phase = (0..period).max_by_key(|&phase| hits_at[phase])?;
        let (hits, periods) = (hits_at[phase] as usize, (costs.len() - phase).div_ceil(period));
        let complete = hits as f64 / periods as f64;
        if complete < COMPLETE || complete <= share {
            return None;
        }
        let ln_p = tried.ln() - periods as f64 * divergence(complete, share);
        let stalled: Vec<f64> =
            costs.iter().copied().skip(phase).step_by(period).filter(|&cost| cost > threshold).collect();
        let level = median(&stalled);
        (ln_p <= LN_P).then_some(Stalls { period, phase, hits, periods, level, threshold })
    })
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Writes with jitter and outliers; every `period`-th takes ten times as much, and each `longer`-th a hundred times.
    fn series(seed: u64, count: usize, period: usize, longer: usize) -> Vec<f64> {
        let mut random = Prng::new(Seed(seed));
        let mut cost = |i: usize| {
            let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
            let stall = match () {
                () if i % longer == 5 => 100.0,
                () if i % period == 5 => 10.0,
                () => 1.0,
            };
            (1.0 + 0.1 * random.unit()) * f64::max(outlier, stall)
        };
        (0..count).map(&mut cost).collect()
    }

    #[test]
    fn the_period_is_found_and_neither_its_multiples_nor_its_parts() {
        for (seed, period) in [64, 96, 127, 320, 1000].into_iter().enumerate() {
            let costs = series(seed as u64, 12 * period, period, usize::MAX);
            let found = stalls(&costs);
            assert_eq!(found.iter().map(|s| (s.period, s.phase)).collect::<Vec<_>>(), [(period, 5)]);
            let fresh = series(100 + seed as u64, 20 * period, period, usize::MAX);
            assert_eq!(found[0].confirmed(&fresh[7 * period + 11..], 7 * period + 11), (1.0, 12));
        }
    }

    #[test]
    fn merges_over_erases_are_two_periods() {
        let periods: Vec<usize> = stalls(&series(1, 6400, 64, 256)).iter().map(|s| s.period).collect();
        assert_eq!(periods, [64, 256]);
    }

    #[test]
    fn without_a_period_none_is_found() {
        let random = |seed| stalls(&series(seed, 3000, usize::MAX, usize::MAX));
        assert!((0..60).all(|seed| random(seed).is_empty()));
    }
}
