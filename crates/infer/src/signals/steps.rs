//! Finds the IO from which on the mean cost rises, although single IOs show little of it.
//!
//! # Model
//! Deferred work is done in latency spikes: most IOs cost the same as before, and one in many costs tens of times as
//! much. So the mean over windows of IOs rises. Latency spikes are the IOs that make up half of the total cost above
//! the usual one, with the IOs that wait behind them. The variance of spikes is their size times their mean, which
//! shows their size.
//!
//! # Method
//! 1. Beginnings of the series, from all of it down to a 64th, are divided into 32 to 256 windows. A rank test finds
//!    a rise; its p is corrected for all of these looks.
//! 2. The place is where the sum of all costs above the middle of the two means is lowest. The sum varies by the size
//!    of a spike: places where it is higher by not much more than that belong to the interval.
//! 3. If windows show nothing, the spikes may: a first distance that is much longer than regular ones, or too few
//!    random spikes in the first part.
//!
//! # Invariants
//! - The place is only as exact as its interval says.
//! - A latency spike that is also an outlier counts as one spike.

use flashlab_analysis::decide::change::{Direction, change};
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::student::upper_p;

use super::likelihood::log_likelihood;
use super::statistics::{deviation, mean, upper_median, windows};
use crate::thresholds;

/// The looks at a run: all of it, and beginnings of which each is half as long as the one before. Unit:
/// looks. Source: choice. Too many: the correction for the looks hides weak rises; too few: an early rise is
/// hidden by the long rest of the run.
const LOOKS: u32 = 7;
/// The numbers of windows into which each look divides the IOs. Unit: windows. Source: choice. Too many: rare
/// latency spikes leave most windows empty; too few: the rank test has too few values.
const WINDOW_COUNTS: [usize; 4] = [256, 128, 64, 32];

/// The rise may be where the sum is higher by this many latency spikes. Unit: latency spikes. Source:
/// derivation: three distances between random spikes are 95 %. Too high: the interval is too wide to report;
/// too low: the true place is outside it.
const SPIKES_OF_DOUBT: f64 = 1.5;
/// The fewest latency spikes whose distances are compared with the first one. Unit: latency spikes. Source:
/// choice. Too many: few spikes show no rise; too few: their scatter is not known.
const SPIKES_LEAST: usize = 4;
/// The floor of the scatter of distances, as a share of their median. Unit: share. Source: tuned. Too high:
/// short gaps in the beginning are not seen; too low: equal distances make any longer one significant.
const SCATTER_LEAST: f64 = 0.1;
/// The most scatter of regular distances, as a share of their median. Unit: share. Source: tuned. Too high:
/// random spikes count as regular; too low: jitter hides regular ones.
const SCATTER_MOST: f64 = 0.3;
/// An IO that takes this many times the usual time waits for something. Unit: ratio. Source: tuned. Too high:
/// short waits are not part of a spike; too low: jitter joins spikes that have nothing in common.
const SLOW_RATIO: f64 = 2.0;
/// No IO counts for more than this many latency spikes. Unit: ratio. Source: tuned. Too high: an outlier is a
/// rise; too low: real latency spikes are cut.
pub const SPIKE_CAP: f64 = 2.0;

/// A rise of the mean cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostRise {
    /// The first IO that is more expensive, counted from 0, and where it may be instead.
    pub place: Interval,
    /// The mean cost before it.
    pub before: f64,
    /// The mean cost after it.
    pub after: f64,
}

impl CostRise {
    /// How many times the cost before the cost after is.
    pub fn ratio(&self) -> f64 {
        self.after / self.before
    }
}

/// The most likely rise of the costs, if there is one.
pub fn rise(costs: &[f64]) -> Option<CostRise> {
    let spike = spike(costs);
    // A spike that is an outlier as well counts as a spike.
    let clipped: Vec<f64> =
        costs.iter().map(|cost| cost.min(spike.usual + SPIKE_CAP * spike.excess)).collect();
    by_windows(&clipped).or_else(|| {
        let spikes: Vec<usize> = spike.places(costs).collect();
        by_distances(&clipped, &spikes).or_else(|| by_rate(&clipped, &spikes))
    })
}

/// What a spike is among the costs.
#[derive(Clone, Copy, Debug)]
pub struct Spike {
    /// What most IOs cost.
    pub usual: f64,
    /// Half of all that costs exceed that is in IOs which exceed it by this much.
    pub excess: f64,
}

impl Spike {
    /// Whether an IO of this cost is one.
    pub fn is(self, cost: f64) -> bool {
        self.excess > 0.0 && cost - self.usual >= self.excess / 2.0
    }

    /// Where they are.
    fn places(self, costs: &[f64]) -> impl Iterator<Item = usize> {
        (0..costs.len()).filter(move |&index| self.is(costs[index]))
    }
}

/// What the spikes are: those few that make up half of what is more than usual.
pub fn spike(costs: &[f64]) -> Spike {
    spike_worth(costs, f64::INFINITY)
}

/// What the spikes are: those few that make up half of what is more than usual, or half of `worth`, if that is less. IOs
/// that follow a slow one may wait for it, and are the same spike, which takes as long as its slowest IO.
pub fn spike_worth(costs: &[f64], worth: f64) -> Spike {
    let usual = upper_median(costs);
    let stalls = costs.chunk_by(|one, other| (*one > SLOW_RATIO * usual) == (*other > SLOW_RATIO * usual));
    let worth_of = |stall: &[f64]| {
        let excess = || stall.iter().map(|cost| (cost - usual).max(0.0));
        (excess().sum::<f64>(), excess().fold(0.0, f64::max))
    };
    let mut stalls: Vec<(f64, f64)> =
        stalls.filter(|stall| stall[0] > SLOW_RATIO * usual).map(worth_of).collect();
    stalls.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut sum, half) = (0.0, stalls.iter().map(|stall| stall.0).sum::<f64>().min(worth) / 2.0);
    let at_half = stalls.iter().find(|stall| {
        sum += stall.0;
        sum >= half
    });
    Spike { usual, excess: at_half.map_or(0.0, |stall| stall.1) }
}

/// The rise at the spike before which there are the fewest, for what lies before it.
fn by_rate(costs: &[f64], spikes: &[usize]) -> Option<CostRise> {
    let all = spikes.len() as f64;
    // Hoeffding's bound on so few spikes in that share of the IOs, if each is at a random position.
    let term = |count: f64, share: f64| log_likelihood(count, all * share);
    let p = |before: usize| {
        let share = spikes[before] as f64 / costs.len() as f64;
        let few = before as f64;
        if few >= all * share { 1.0 } else { (-term(few, share) - term(all - few, 1.0 - share)).exp() }
    };
    let best = (0..spikes.len() / 2).min_by(|&a, &b| p(a).total_cmp(&p(b)))?;
    let p = p(best) * all;
    (p <= thresholds::FALSE_ALARM_WITH_EFFECT).then(|| placed(costs, spikes[best]))
}

/// The first spikes of those that are close together.
fn groups(spikes: &[usize], ios: usize) -> Vec<usize> {
    let apart = ios as f64 / spikes.len().max(1) as f64 / 2.0;
    let mut groups: Vec<usize> = Vec::new();
    let mut last = None;
    for &spike in spikes {
        if last.is_none_or(|last| (spike - last) as f64 >= apart) {
            groups.push(spike);
        }
        last = Some(spike);
    }
    groups
}

/// From one group of these spikes to the next, typically; all IOs where there are no two.
pub fn spike_distance(costs: &[f64], spike: Spike) -> usize {
    let groups = groups(&spike.places(costs).collect::<Vec<_>>(), costs.len());
    let distances: Vec<f64> = groups.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    if distances.is_empty() { costs.len() } else { upper_median(&distances) as usize }
}

/// The rise at the end of the longest distance without spikes in the beginning, if the distances after it are regular.
fn by_distances(costs: &[f64], spikes: &[usize]) -> Option<CostRise> {
    let groups = groups(spikes, costs.len());
    let distance = |index: usize| groups[index] - if index == 0 { 0 } else { groups[index - 1] };
    let first = (0..groups.len() / 4).max_by_key(|&index| (distance(index), usize::MAX - index))?;
    let distances: Vec<f64> = (first + 1..groups.len()).map(|index| distance(index) as f64).collect();
    let typical = upper_median(&distances);
    let scatter = deviation(&distances, typical);
    // Between two others one may have been missed.
    let usual = if first == 0 { typical } else { 2.0 * typical };
    let deviations = (distance(first) as f64 - usual) / scatter.max(SCATTER_LEAST * typical);
    let regular = distances.len() >= SPIKES_LEAST && scatter <= SCATTER_MOST * typical;
    let is_longer = upper_p(deviations, distances.len() as f64 - 1.0) <= thresholds::FALSE_ALARM_OF_SPIKES;
    let at = groups[first];
    let step = || CostRise {
        place: Interval {
            estimate: at as f64,
            low: at as f64 - typical.min(at as f64),
            high: at as f64 + 1.0,
        },
        before: mean(&costs[..at]),
        after: mean(&costs[at..]),
    };
    (regular && is_longer).then(step).filter(|step| step.after > step.before)
}

fn by_windows(costs: &[f64]) -> Option<CostRise> {
    let beginnings = (0..LOOKS).map(|halvings| costs.len() >> halvings);
    let looks = beginnings.flat_map(|length| WINDOW_COUNTS.map(|windows| (length, windows)));
    let look = |(length, count): (usize, usize)| {
        let width = length.div_ceil(count);
        let found = (length >= count).then(|| change(&windows(&costs[..length], width), Direction::Up))??;
        Some((found.p, found.index * width, length))
    };
    let (p, at, length) = looks.filter_map(look).min_by(|a, b| a.0.total_cmp(&b.0))?;
    let p = p * (LOOKS as usize * WINDOW_COUNTS.len()) as f64;
    // As much after the rise as before it, and not less than the look that showed it.
    let span = length.max(2 * at).min(costs.len());
    (p <= thresholds::FALSE_ALARM).then(|| placed(&costs[..span], at))
}

/// For each place the sum of what the costs before it exceed `middle`.
fn sums_before(costs: &[f64], middle: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut next = |cost: &f64| {
        let before = sum;
        sum += cost - middle;
        before
    };
    costs.iter().map(&mut next).collect()
}

/// The rise with its exact place, which is about `at`.
fn placed(costs: &[f64], at: usize) -> CostRise {
    let mut place = at.clamp(1, costs.len() - 1);
    let mut sums = Vec::new();
    // The means depend on the place, and the place on the means.
    for _ in 0..3 {
        let middle = (mean(&costs[..place]) + mean(&costs[place..])) / 2.0;
        sums = sums_before(costs, middle);
        let lowest = (1..costs.len()).min_by(|&a, &b| f64::total_cmp(&sums[a], &sums[b]));
        place = lowest.unwrap_or(place);
    }
    let (before, after) = (mean(&costs[..place]), mean(&costs[place..]));
    let variance = mean(&costs[place..].iter().map(|cost| (cost - after).powi(2)).collect::<Vec<_>>());
    let spike = variance / (after - before).max(f64::MIN_POSITIVE);
    let possible = |at: &usize| sums[*at] <= sums[place] + SPIKES_OF_DOUBT * spike;
    let low = (1..=place).find(possible).unwrap_or(place);
    let high = (place..costs.len()).rev().find(possible).unwrap_or(place);
    let place = Interval { estimate: place as f64, low: low as f64, high: high as f64 + 1.0 };
    CostRise { place, before, after }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Cheap costs with jitter and outliers; from `rise` on every twelfth or so costs fifty times as much.
    fn costs(seed: u64, count: usize, rise: usize) -> Vec<f64> {
        let mut random = Prng::new(Seed(seed));
        let one = |i: usize| {
            let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
            let spike = if i >= rise && random.unit() < 1.0 / 12.0 { 50.0 } else { 1.0 };
            (1.0 + 0.1 * random.unit()) * f64::max(outlier, spike)
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn the_place_of_a_rise_is_within_its_interval_and_within_two_per_cent() {
        let (mut held, mut close) = (0, 0);
        for seed in 0..100 {
            let truth = [700, 3000, 20_000][seed as usize % 3];
            let found = rise(&costs(seed, 26_000, truth)).unwrap();
            assert!(found.ratio() > 3.0, "{found:?}");
            held += u32::from(found.place.holds(truth as f64));
            close +=
                u32::from((found.place.estimate / truth as f64 - 1.0).abs() < 0.02 + 36.0 / truth as f64);
        }
        assert!(held >= 90 && close >= 90, "{held}, {close} of 100");
    }

    #[test]
    fn without_a_rise_none_is_found() {
        assert!((0..200).all(|seed| rise(&costs(seed, 5000, usize::MAX)).is_none()));
    }
}
