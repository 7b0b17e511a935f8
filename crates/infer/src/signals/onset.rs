//! From when on a device collects blocks, seen from stalls that need not be regular.
//!
//! # Model
//! Where every page may lie anywhere nothing has to be erased until the over-provisioned space is used up; from then
//! on there are erases, and where the device does not pick the emptiest blocks, copies. So an IO is a stall of one length
//! or another with some probabilities before that place, and with other ones, higher in sum, behind it. Stalls count by
//! their length from that of the shortest erase on (`LENGTHS`), which leaves out programs, and writing back a map. The place
//! is where two sets of probabilities are likelier than one with the largest log-likelihood ratio, less what the additional ones are likelier
//! by chance (Akaike, IEEE TAC 19(6), 1974). Stalls come in bunches, as dies erase together: the gain is divided by how
//! many times as much their counts scatter as Poisson numbers do.
//!
//! Where many short stalls come all the time, as reads wait for programs, or a map is written back, a few long ones more are not
//! seen in their sum. So stalls from each of the lengths on are looked at alone as well, and the likeliest place is taken.
//!
//! # Invariants
//! - nothing of a period, or of how long anything takes, is assumed but that no erase is shorter;
//! - the same costs give the same place.

use super::likelihood::{gain_of_two, running};
use super::statistics::{mean, upper_median};

/// How much longer than usual stalls are, in nanoseconds: no erase takes less than the first.
const LENGTHS: [f64; 8] = [1.2e6, 2.2e6, 4e6, 7e6, 13e6, 30e6, 70e6, 160e6];
const KINDS: usize = LENGTHS.len() + 1;
/// There are this many more stalls behind the place at least.
const RISE: f64 = 1.25;
/// How much likelier it is than none, as a log-likelihood ratio: more than the best of all places is by chance; and how much more if it has been looked
/// for among stalls of several lengths.
const GAIN_LEAST: f64 = 6.0;
const GAIN_OF_LENGTHS: f64 = 2.0;
/// Places that are less likely by no more than this, as a log-likelihood ratio, may be the one.
const AS_LIKELY: f64 = 2.0;
/// Windows in which stalls are counted for how they scatter, and places that are looked at in each.
const WINDOWS: usize = 256;
const PLACES: usize = 4;
/// The part of the IOs, and the fewest, on either side of the place.
const SIDE: usize = 100;
const SIDE_LEAST: usize = 8;

/// A place from which on there are more stalls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Onset {
    /// The first stall behind it, counted from the first IO.
    pub at: usize,
    /// It may be this many IOs from it.
    pub within: usize,
    /// How much likelier it is than none, as a log-likelihood ratio.
    pub gain: f64,
    /// The share of stalls before it, and behind it.
    pub before: f64,
    /// The share of stalls behind it.
    pub after: f64,
}

/// How many IOs are of each kind: no stall, and the lengths of stalls.
type Counts = [f64; KINDS];

/// The likeliest place from which on equal IOs have more stalls, if there is one.
pub fn onset(costs: &[f64]) -> Option<Onset> {
    let usual = upper_median(costs);
    let kinds: Vec<usize> =
        costs.iter().map(|cost| LENGTHS.iter().filter(|&length| cost - usual > *length).count()).collect();
    let from_length = |shorter: usize| {
        let kinds: Vec<usize> = kinds.iter().map(|kind| kind.saturating_sub(shorter)).collect();
        let less = if shorter > 0 { GAIN_OF_LENGTHS } else { 0.0 };
        onset_of_kinds(&kinds, KINDS - shorter).map(|found| Onset { gain: found.gain - less, ..found })
    };
    let likeliest = (0..LENGTHS.len()).filter_map(from_length).max_by(|a, b| a.gain.total_cmp(&b.gain));
    likeliest.filter(|found| found.gain >= GAIN_LEAST)
}

/// The likeliest place of IOs of this many kinds.
fn onset_of_kinds(kinds: &[usize], count: usize) -> Option<Onset> {
    let before = running::<KINDS>(kinds.iter().copied());
    let (all, width) = (kinds.len(), kinds.len().div_ceil(WINDOWS).max(1));
    let side = (all / SIDE).max(SIDE_LEAST);
    let gain = |at: usize| gain(before.get(at)?, before.last()?, at, all);
    let gains = |places: &mut dyn Iterator<Item = usize>| {
        let inside = places.filter(|&at| at >= side && at + side <= all);
        inside.filter_map(|at| Some((at, gain(at)?))).collect::<Vec<_>>()
    };
    let best = |gains: &[(usize, f64)]| gains.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let everywhere = gains(&mut (0..all).step_by((width / PLACES).max(1)));
    let (near, _) = best(&everywhere)?;
    let (place, most) = best(&gains(&mut (near.saturating_sub(width)..near + width)))?;
    let stalls = |at: usize| before.get(at).map_or(0.0, |counts| counts[1..].iter().sum::<f64>());
    let scatter = scatter(kinds, place, width);
    let gain = (most - (count as f64 - 1.0)) / scatter;
    let at = (place..all).find(|&index| kinds[index] > 0)?;
    let as_likely = everywhere.iter().filter(|(_, gain)| (most - gain) / scatter <= AS_LIKELY);
    let within = as_likely.map(|&(place, _)| place.abs_diff(at)).max().unwrap_or(0);
    let (share, after) =
        (stalls(place) / place as f64, (stalls(all) - stalls(place)) / (all - place).max(1) as f64);
    Some(Onset { at, within, gain, before: share, after })
}

/// How much likelier two sets of probabilities are than one, if the second one has more stalls.
fn gain(before: &Counts, whole: &Counts, at: usize, all: usize) -> Option<f64> {
    let (n, m) = (at as f64, (all - at) as f64);
    let stalls = |counts: &Counts| counts[1..].iter().sum::<f64>();
    let rises = (stalls(whole) - stalls(before)) / m > RISE * stalls(before) / n;
    rises.then(|| gain_of_two(before, whole, at, all))
}

/// How many times as much as Poisson numbers the stalls of windows before and behind a place scatter; at least 1.
fn scatter(kinds: &[usize], place: usize, width: usize) -> f64 {
    let squares = |kinds: &[usize]| {
        let counts: Vec<f64> = kinds
            .chunks_exact(width)
            .map(|window| window.iter().filter(|&&kind| kind > 0).count() as f64)
            .collect();
        let mean = mean(&counts);
        let sum: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
        (sum / mean.max(0.05), counts.len().saturating_sub(1) as f64)
    };
    let (before, after) = kinds.split_at(place.min(kinds.len()));
    let ((one, of_one), (other, of_other)) = (squares(before), squares(after));
    ((one + other) / (of_one + of_other).max(1.0)).max(1.0)
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Costs of half a millisecond with jitter and outliers of ten times; from `from` on one in thirty takes 2 to 6 ms more.
    fn costs(seed: u64, count: usize, from: usize) -> Vec<f64> {
        let mut random = Prng::new(Seed(seed));
        let one = |index: usize| {
            let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
            let stall =
                if index >= from && random.unit() < 1.0 / 30.0 { 4e6 * (0.5 + random.unit()) } else { 0.0 };
            5e5 * (1.0 + 0.1 * random.unit()) * outlier + stall
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn the_place_from_which_on_there_are_stalls_is_found() {
        for seed in 0..20 {
            let from = [1500, 4000, 6500][seed as usize % 3];
            let found = onset(&costs(seed, 9000, from)).unwrap();
            assert!(found.at.abs_diff(from) < 300, "{found:?}, not {from}");
            assert!(found.after > 1.3 * found.before, "{found:?}");
        }
    }

    #[test]
    fn stalls_that_are_longer_than_outliers_tell_the_place() {
        let mut random = Prng::new(Seed(1));
        let mut one = |index: usize| {
            let outlier = if random.unit() < 0.03 { 45e6 } else { 0.0 };
            let copies = if index >= 2000 && random.unit() < 0.02 { 250e6 } else { 0.0 };
            5e6 * (1.0 + 0.1 * random.unit()) + outlier + copies
        };
        let found = onset(&(0..3200).map(&mut one).collect::<Vec<_>>()).unwrap();
        assert!(found.at.abs_diff(2000) < 400, "{found:?}");
    }

    #[test]
    fn a_few_long_stalls_are_seen_among_many_short_ones() {
        let is_near = |seed: &u64| {
            let mut random = Prng::new(Seed(*seed));
            let mut one = |index: usize| {
                let program = if random.unit() < 0.05 { 5e6 * random.unit() } else { 0.0 };
                let copies = if index >= 3400 && random.unit() < 0.01 { 190e6 } else { 0.0 };
                1e5 * (1.0 + 0.1 * random.unit()) + program + copies
            };
            let found = onset(&(0..7200).map(&mut one).collect::<Vec<_>>()).unwrap();
            found.within < 600 && found.at.abs_diff(3400) <= found.within
        };
        assert!((0..20).filter(is_near).count() >= 14);
    }

    #[test]
    fn where_nothing_changes_none_is_found() {
        let found = (0..200).filter(|&seed| onset(&costs(seed, 5000, usize::MAX)).is_some()).count();
        assert!(found <= 2, "{found} of 200");
        assert_eq!(onset(&[]), None);
        assert_eq!(onset(&[1.0; 12]), None);
        // Always as many as before.
        assert!((0..50).all(|seed| onset(&costs(seed, 5000, 0)).is_none()));
    }
}
