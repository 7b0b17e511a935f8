//! Counts the fast IOs at the beginning of several runs, if only a part of the later IOs is slow.
//!
//! # Model
//! A device defers work while it has space for it, and does it from then on, but not with each IO. So an IO is slow
//! with one probability before that place and with a larger one behind it, equal in all runs. One run may have too
//! few slow IOs, or an outlier before the place. But the place is the same in all runs, as each begins after idle
//! time.
//!
//! # Method
//! 1. All runs together show the limit of slow IOs and the two probabilities, by the largest log-likelihood ratio to
//!    one probability.
//! 2. Each run then shows its own place, the likeliest one between these probabilities.
//!
//! # Invariants
//! - All runs but one show the same place: periodic stalls begin elsewhere in each run.
//! - Slow IOs are rare before the place, compared with behind it.

use super::likelihood::gain_of_two;
use super::statistics::{quantile, upper_median};
use crate::thresholds;

/// The quantiles of all costs that are tried as the limit between fast and slow IOs. Unit: share. Source:
/// choice. Too many: one of them fits by chance; too few: the limit lies among the fast IOs.
const LIMIT_QUANTILES: [f64; 13] =
    [0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998];
/// The fewest IOs of a fast beginning. One run does not distinguish fewer than eight from chance, but all
/// runs together do. Unit: IOs. Source: tuned. Too high: short beginnings are not seen; too low: the first IO
/// after idle time is a beginning.
const FAST_LEAST: usize = 4;
/// The greatest share of a run that is fast. Unit: share. Source: choice. Too high: few slow IOs are left to
/// show the end; too low: longer runs are necessary.
const FAST_SHARE_MOST: f64 = 0.75;
/// The share of slow IOs behind the fast beginning, as a multiple of the share in it. Unit: ratio. Source:
/// tuned. Too high: beginnings with outliers are not seen; too low: a chance difference is a beginning.
const SLOW_RATIO: f64 = 4.0;

/// A place from which on IOs are slow more often.
#[derive(Clone, Copy)]
struct Rise {
    /// In log-likelihood ratios, of all runs together.
    gain: f64,
    place: usize,
    /// Slow IOs cost more than this.
    limit: f64,
    /// The shares of slow IOs before the place, and behind it.
    shares: [f64; 2],
}

/// The IOs of a fast beginning, the median of the runs; `None` if they show none, or not the same.
pub fn fast_beginning(runs: &[Vec<f64>]) -> Option<usize> {
    let count = runs.iter().map(Vec::len).min()?;
    let runs: Vec<&[f64]> = runs.iter().map(|run| &run[..count]).collect();
    let all = runs.concat();
    let by_gain = |one: &Rise, other: &Rise| one.gain.total_cmp(&other.gain);
    let rough =
        LIMIT_QUANTILES.iter().filter_map(|&share| rise(&runs, quantile(&all, share))).max_by(by_gain)?;
    // Half-way between both kinds, by factor, may be a better limit.
    let before = runs.iter().flat_map(|run| &run[..rough.place]).copied();
    let fast: Vec<f64> = before.filter(|&cost| cost <= rough.limit).collect();
    let fine = rise(&runs, (quantile(&fast, thresholds::USUAL_QUANTILE) * rough.limit).sqrt());
    let rise = fine.into_iter().chain([rough]).max_by(by_gain)?;
    let places: Vec<(f64, f64)> = runs.iter().map(|run| place(run, &rise)).collect();
    let same = |one: f64| {
        places.iter().filter(|&&(other, _)| (one - other).abs() <= (thresholds::RIGHT * one).max(1.0)).count()
    };
    let agree = places.iter().any(|&(place, _)| same(place) + 1 >= places.len());
    let shown = places.iter().all(|&(_, gain)| gain >= thresholds::CHANGE_GAIN);
    let figures: Vec<f64> = places.iter().map(|&(place, _)| place).collect();
    (agree && shown).then(|| upper_median(&figures) as usize)
}

/// The likeliest place at which a slow IO makes them more frequent, in all runs together.
fn rise(runs: &[&[f64]], limit: f64) -> Option<Rise> {
    let count = runs.first()?.len();
    let slow_counts: Vec<usize> =
        (0..count).map(|index| runs.iter().filter(|run| run[index] > limit).count()).collect();
    let (all, total) = (runs.len() * count, slow_counts.iter().sum::<usize>() as f64);
    let mut until = 0;
    let mut best: Option<Rise> = None;
    for place in 1..=last(count).min(count.saturating_sub(1)) {
        until += slow_counts[place - 1];
        if place < FAST_LEAST || slow_counts[place] == 0 {
            continue;
        }
        let (slow, before) = (until as f64, runs.len() * place);
        let gain = gain_of_two(&[slow, before as f64 - slow], &[total, all as f64 - total], before, all);
        // Half an IO cannot be distinguished from none, and from all.
        let parts = [(slow, before as f64), (total - slow, (all - before) as f64)];
        let shares = parts.map(|(slow, all)| (slow / all).clamp(0.5 / all, 1.0 - 0.5 / all));
        if shares[1] >= SLOW_RATIO * shares[0] && best.is_none_or(|best| gain > best.gain) {
            best = Some(Rise { gain, place, limit, shares });
        }
    }
    best
}

/// The last place that is looked at in a run of `count` IOs.
fn last(count: usize) -> usize {
    (count as f64 * FAST_SHARE_MOST) as usize
}

/// The likeliest place of a run, and how much likelier it is than none.
fn place(run: &[f64], rise: &Rise) -> (f64, f64) {
    let [before, after] = rise.shares;
    let (slow, fast) = ((before / after).ln(), ((1.0 - before) / (1.0 - after)).ln());
    let (mut gain, mut best) = (0.0, (0.0, 0.0));
    for (index, &cost) in run[..last(run.len())].iter().enumerate() {
        if cost > rise.limit && gain > best.1 {
            best = (index as f64, gain);
        }
        gain += if cost > rise.limit { slow } else { fast };
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_base::{Prng, Seed};

    /// Runs of this many IOs, of which one in `one_in` is slow from a place on that each run has.
    fn runs(places: [usize; 4], one_in: u64, seed: u64) -> Vec<Vec<f64>> {
        let mut random = Prng::new(Seed(seed));
        let mut cost = |slow: bool| {
            let usual = 100.0 + random.below(10) as f64;
            let outlier = random.below(100) == 0;
            if slow && random.below(one_in) == 0 {
                30.0 * usual
            } else if outlier {
                10.0 * usual
            } else {
                usual
            }
        };
        places.map(|place| (0..1000).map(|index| cost(index >= place)).collect()).to_vec()
    }

    #[test]
    fn a_beginning_that_all_runs_share_is_found() {
        let found: Vec<usize> = (0..50).filter_map(|seed| fast_beginning(&runs([200; 4], 2, seed))).collect();
        assert!(found.len() >= 45, "{}", found.len());
        assert!(found.iter().all(|found| (198..=206).contains(found)), "{found:?}");
    }

    #[test]
    fn a_beginning_of_a_few_ios_is_found_where_nearly_all_are_slow_after_it() {
        for seed in 0..50 {
            assert_eq!(fast_beginning(&runs([6; 4], 1, seed)), Some(6), "{seed}");
            assert_eq!(fast_beginning(&runs([3; 4], 1, seed)), None, "{seed}");
            assert_eq!(fast_beginning(&runs([6; 4], 4, seed)), None, "{seed}");
        }
    }

    #[test]
    fn what_begins_elsewhere_in_each_run_or_nowhere_is_none() {
        for seed in 0..50 {
            assert_eq!(fast_beginning(&runs([100, 250, 400, 300], 3, seed)), None, "{seed}");
            assert_eq!(fast_beginning(&runs([0; 4], 3, seed)), None, "{seed}");
            assert_eq!(fast_beginning(&runs([1000; 4], 3, seed)), None, "{seed}");
        }
        assert_eq!(fast_beginning(&[]), None);
        assert_eq!(fast_beginning(&[vec![], vec![1.0]]), None);
        assert_eq!(fast_beginning(&[vec![1.0; 100]]), None);
    }
}
