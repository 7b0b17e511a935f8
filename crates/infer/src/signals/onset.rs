//! Finds the beginning of garbage collection from stalls that need not be regular.
//!
//! # Model
//! On a page map nothing is erased until the over-provisioning is used up. From then on there are erases, and copies
//! if the device does not pick the emptiest blocks. So an IO is a stall of some length with a set of probabilities
//! before the beginning, and with another set, higher in sum, behind it. Stalls shorter than an erase do not count:
//! programs, and map writes.
//!
//! # Method
//! 1. The beginning is where two sets of probabilities have the largest log-likelihood ratio to one. The additional
//!    probabilities are charged (Akaike, IEEE TAC 19(6), 1974).
//! 2. Stalls come in bunches, as dies erase together. So the ratio is divided by their variance relative to Poisson
//!    numbers.
//! 3. Frequent short stalls hide a few long ones. So stalls from each length on are also examined alone, and the
//!    likeliest place is taken.
//!
//! # Invariants
//! - No period and no time is assumed, except that no erase is shorter than the first of [`STALL_LENGTHS`].
//! - The same costs give the same place.

use super::likelihood::{gain_of_two, running};
use super::statistics::{mean, upper_median};

/// The kinds of stalls: by how much longer than the usual IO they take, from an erase to merges of several
/// blocks. Unit: ns. Source: Grupp et al., MICRO 2009, for the first: 1.5 ms, some of which may be over. The
/// others are a choice, at factors of 1.8 to 2.3. Too high: fast erases do not count; too low: programs count
/// as erases.
const STALL_LENGTHS: [f64; 8] = [1.2e6, 2.2e6, 4e6, 7e6, 13e6, 30e6, 70e6, 160e6];
/// The kinds of IOs: no stall, and one for each of [`STALL_LENGTHS`]. Unit: kinds. Source: derivation. Too
/// few: an index is out of range; too many: an empty kind costs likelihood.
const KINDS: usize = STALL_LENGTHS.len() + 1;
/// The stalls behind the beginning of garbage collection, as a multiple of those before it. Unit: ratio.
/// Source: tuned. Too high: devices with many other stalls have no beginning; too low: a chance difference is
/// one.
const RATE_RATIO: f64 = 1.25;
/// The least log-likelihood ratio of a beginning to none, after the correction for the scatter of the counts.
/// Unit: natural logarithm, so 400 to 1. Source: tuned. Too high: the beginning is found late; too low: the
/// best of all places by chance is one.
const ONSET_GAIN: f64 = 6.0;
/// What a look at long stalls alone costs in log-likelihood ratio: eight of them are tried. Unit: natural
/// logarithm. Source: derivation: about ln 8. Too high: a few long stalls are not seen; too low: chance
/// chooses the length.
const LENGTHS_PENALTY: f64 = 2.0;
/// Places that are less likely by no more than this belong to the interval. Unit: natural logarithm. Source:
/// derivation: half of the square of two standard deviations, so 95 %. Too high: the interval is too wide to
/// report; too low: the true place is outside it.
const INTERVAL_LOSS: f64 = 2.0;
/// The windows in which stalls are counted to see how much they scatter. Unit: windows. Source: choice. Too
/// many: most of them are empty; too few: the scatter is not known.
const SCATTER_WINDOWS: usize = 256;
/// The places in each window at which a beginning is tried. Unit: places. Source: choice. Too many: the
/// search takes longer; too few: the best place is missed.
const PLACES_OF_WINDOW: usize = 4;
/// One in this number of the IOs lies on each side of the beginning at least. Unit: IOs. Source: choice. Too
/// small: an early beginning is missed; too large: a few IOs decide.
const SIDE_PART: usize = 100;
/// The fewest IOs on each side of the beginning. Unit: IOs. Source: choice. Too many: short runs have no
/// beginning; too few: one stall is a beginning.
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
    let kinds: Vec<usize> = costs
        .iter()
        .map(|cost| STALL_LENGTHS.iter().filter(|&length| cost - usual > *length).count())
        .collect();
    let from_length = |shorter: usize| {
        let kinds: Vec<usize> = kinds.iter().map(|kind| kind.saturating_sub(shorter)).collect();
        let less = if shorter > 0 { LENGTHS_PENALTY } else { 0.0 };
        onset_of_kinds(&kinds, KINDS - shorter).map(|found| Onset { gain: found.gain - less, ..found })
    };
    let likeliest = (0..STALL_LENGTHS.len()).filter_map(from_length).max_by(|a, b| a.gain.total_cmp(&b.gain));
    likeliest.filter(|found| found.gain >= ONSET_GAIN)
}

/// The likeliest place of IOs of this many kinds.
fn onset_of_kinds(kinds: &[usize], count: usize) -> Option<Onset> {
    let before = running::<KINDS>(kinds.iter().copied());
    let (all, width) = (kinds.len(), kinds.len().div_ceil(SCATTER_WINDOWS).max(1));
    let side = (all / SIDE_PART).max(SIDE_LEAST);
    let gain = |at: usize| gain(before.get(at)?, before.last()?, at, all);
    let gains = |positions: &mut dyn Iterator<Item = usize>| {
        let inside = positions.filter(|&at| at >= side && at + side <= all);
        inside.filter_map(|at| Some((at, gain(at)?))).collect::<Vec<_>>()
    };
    let best = |gains: &[(usize, f64)]| gains.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let everywhere = gains(&mut (0..all).step_by((width / PLACES_OF_WINDOW).max(1)));
    let (near, _) = best(&everywhere)?;
    let (place, most) = best(&gains(&mut (near.saturating_sub(width)..near + width)))?;
    let stalls = |at: usize| before.get(at).map_or(0.0, |counts| counts[1..].iter().sum::<f64>());
    let scatter = scatter(kinds, place, width);
    let gain = (most - (count as f64 - 1.0)) / scatter;
    let at = (place..all).find(|&index| kinds[index] > 0)?;
    let as_likely = everywhere.iter().filter(|(_, gain)| (most - gain) / scatter <= INTERVAL_LOSS);
    let within = as_likely.map(|&(place, _)| place.abs_diff(at)).max().unwrap_or(0);
    let (share, after) =
        (stalls(place) / place as f64, (stalls(all) - stalls(place)) / (all - place).max(1) as f64);
    Some(Onset { at, within, gain, before: share, after })
}

/// How much likelier two sets of probabilities are than one, if the second one has more stalls.
fn gain(before: &Counts, whole: &Counts, at: usize, all: usize) -> Option<f64> {
    let (n, m) = (at as f64, (all - at) as f64);
    let stalls = |counts: &Counts| counts[1..].iter().sum::<f64>();
    let rises = (stalls(whole) - stalls(before)) / m > RATE_RATIO * stalls(before) / n;
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
