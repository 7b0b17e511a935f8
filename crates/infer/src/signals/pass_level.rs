//! Compares the cost of sequential writes after a burst with their cost before it: how many of them are slower?
//!
//! # Model
//! The writes are passes over the same addresses. Each stretch of a pass is compared with the stretch at the same
//! addresses before the burst, so that latency spikes which belong to addresses cancel out. The passes before the
//! burst show what happens by chance: each of them is compared with the others in the same way.
//!
//! # Method
//! 1. The ratios of the passes before the burst are appended to those after it. Writes are slowed down until the
//!    ranks of this series fall.
//! 2. The slow stretches also have to cost more than any equally long series before the burst: neighbouring stretches
//!    depend on each other.
//! 3. The exact write is where the sum of all costs above the middle of the two levels is largest.
//!
//! # Invariants
//! - A latency spike that is also an outlier counts as one spike.

use flashlab_analysis::decide::change::{Direction, change};
use flashlab_analysis::decide::level::trimmed_mean;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::student::upper_p;

use super::statistics::{mean, windows};
use super::steps::{SPIKE_CAP, spike};
use crate::thresholds;

/// The most stretches of a pass, each of which gives one mean. A pass of fewer writes has one stretch for
/// each write. Unit: stretches. Source: choice. Too many: the means of short stretches scatter; too few: rank
/// tests of so few values show nothing.
pub const STRETCHES: usize = 16;
/// Sequential writes are slowed down if they cost this many times as much as before the burst. Unit: ratio.
/// Source: tuned. Too high: weak effects of a burst are not reported; too low: drift of the host is reported
/// as an effect.
pub const SLOWED_RATIO: f64 = 1.1;
/// The floor of a ratio before its logarithm is taken. Unit: ratio. Source: choice. Too high: fast stretches
/// look alike; too low: one stretch of zero cost outweighs all others.
const RATIO_LEAST: f64 = 1e-3;

/// What writes cost in passes over the same addresses.
#[derive(Clone, Debug)]
pub struct PassLevel {
    /// What each write costs on average.
    costs: Vec<f64>,
    /// No write counts for more.
    most: f64,
    /// What stretches cost on average in each of the passes, relative to the others.
    usual: Vec<f64>,
}

impl PassLevel {
    /// That of some passes, which are equally long: two at least.
    pub fn new(passes: &[Vec<f64>]) -> PassLevel {
        let spike = spike(&passes.concat());
        let most = if spike.excess > 0.0 { spike.usual + SPIKE_CAP * spike.excess } else { f64::INFINITY };
        let over = |passes: &[&Vec<f64>]| -> Vec<f64> {
            let cost =
                |index: usize| passes.iter().map(|pass: &&Vec<f64>| pass[index].min(most)).sum::<f64>();
            (0..passes[0].len()).map(|index| cost(index) / passes.len() as f64).collect()
        };
        let of_others = |one: usize| {
            let others: Vec<_> =
                (0..passes.len()).filter(|&other| other != one).map(|other| &passes[other]).collect();
            PassLevel { costs: over(&others), most, usual: Vec::new() }.relative(&passes[one])
        };
        let usual = (0..passes.len()).flat_map(of_others).collect();
        PassLevel { costs: over(&passes.iter().collect::<Vec<_>>()), most, usual }
    }

    /// The mean cost.
    pub fn mean(&self) -> f64 {
        mean(&self.costs)
    }

    /// Writes of a pass.
    pub fn writes(&self) -> usize {
        self.costs.len()
    }

    /// Writes of a stretch.
    pub fn width(&self) -> usize {
        (self.costs.len() / STRETCHES).max(1)
    }

    /// What each write of some passes costs more than usual, relative to the mean.
    fn more(&self, after: &[f64]) -> Vec<f64> {
        let mean = self.mean().max(1.0);
        after
            .iter()
            .zip(self.costs.iter().cycle())
            .map(|(after, before)| (after.min(self.most) - before) / mean)
            .collect()
    }

    /// How many times as much as before the stretches of some passes cost.
    fn relative(&self, after: &[f64]) -> Vec<f64> {
        windows(&self.more(after), self.width()).into_iter().map(|more| 1.0 + more).collect()
    }

    /// How many times as much as before the writes of some passes cost, with 95 %.
    pub fn times(&self, after: &[f64]) -> Interval {
        let times = self.relative(after);
        let unknown = Interval { estimate: mean(&times), low: f64::NEG_INFINITY, high: f64::INFINITY };
        trimmed_mean(&times, 0.0, 0.95).map_or(unknown, |found| Interval { estimate: mean(&times), ..found })
    }

    /// How many of the first writes of some passes are slowed down; 0: none.
    pub fn slowed(&self, after: &[f64]) -> usize {
        let times = self.relative(after);
        let (mut slowed, mut stretches) = (0, 0);
        // What is better than before may still be worse than usual.
        while let Some(more) = self.slowed_stretches(&times[stretches..]) {
            slowed = self.placed(after, stretches * self.width(), (stretches + more) * self.width());
            stretches = slowed.div_ceil(self.width()).max(stretches + 1);
        }
        if slowed == 0 && self.is_slowed_at_first(&times) {
            self.placed(after, 0, self.width())
        } else {
            slowed
        }
    }

    /// How many of the first stretches cost more until the last change, if they do.
    fn slowed_stretches(&self, times: &[f64]) -> Option<usize> {
        let series: Vec<f64> = times.iter().chain(&self.usual).map(|times| times.max(RATIO_LEAST)).collect();
        let found = change(&series, Direction::Down)
            .filter(|found| found.p <= thresholds::FALSE_ALARM_WITH_EFFECT)?;
        let slowed = found.index.min(times.len());
        let level = mean(&times[..slowed]);
        // Of fewer than three nothing is said of how they scatter.
        let least = trimmed_mean(&times[..slowed], 0.0, 0.95).map_or(level, |level| level.low);
        (least >= SLOWED_RATIO && level > self.most_by_chance(slowed)).then_some(slowed)
    }

    /// Whether the first stretch alone costs more: ranks of a single one say little.
    fn is_slowed_at_first(&self, times: &[f64]) -> bool {
        let (middle, all) = (mean(&self.usual), self.usual.len() as f64);
        let squares: f64 = self.usual.iter().map(|times| (times - middle).powi(2)).sum();
        let deviation = (squares / (all - 1.0).max(1.0)).sqrt().max(f64::MIN_POSITIVE);
        let first = times.first().copied().unwrap_or(0.0);
        first >= SLOWED_RATIO
            && upper_p((first - middle) / deviation, all - 1.0) <= thresholds::FALSE_ALARM_OF_SPIKES
    }

    /// Whether a pass is faster than before by more than half of what counts as slowed down. Most of its
    /// stretches have to be, and not only one that happens to have no spikes.
    pub fn is_cheaper(&self, pass: &[f64]) -> bool {
        let series: Vec<f64> =
            self.relative(pass).iter().chain(&self.usual).map(|times| times.max(RATIO_LEAST)).collect();
        self.times(pass).high < 1.0 / SLOWED_RATIO.sqrt()
            && change(&series, Direction::Up)
                .is_some_and(|found| found.p <= thresholds::FALSE_ALARM_WITH_EFFECT)
    }

    /// Whether writes are slowed down to the end, if the first `slowed` are. Less than a quarter of a pass
    /// is left, which is too little to show an end.
    pub fn is_slowed_to_the_end(&self, slowed: usize, writes: usize) -> bool {
        slowed + self.costs.len() / 4 > writes
    }

    /// The highest mean cost of `stretches` stretches in a row in the passes before.
    fn most_by_chance(&self, stretches: usize) -> f64 {
        self.usual.windows(stretches.clamp(1, self.usual.len())).map(mean).fold(0.0, f64::max)
    }

    /// The exact place behind `from`, which is about `at`.
    fn placed(&self, after: &[f64], from: usize, at: usize) -> usize {
        let more = self.more(after);
        let mut place = at;
        // The levels depend on the place, and the place on the levels.
        for _ in 0..3 {
            let middle = (mean(&more[from..place]) + mean(&more[place..])) / 2.0;
            let (mut sum, mut largest) = (0.0, f64::NEG_INFINITY);
            for (index, more) in more.iter().enumerate().skip(from) {
                sum += more - middle;
                if sum > largest {
                    (largest, place) = (sum, index + 1);
                }
            }
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// A pass with jitter and outliers, of which one write in sixteen costs twenty times as much, anywhere.
    fn pass(random: &mut Prng) -> Vec<f64> {
        let mut cost = |_| {
            let jitter = 1.0 + 0.1 * random.unit();
            let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
            jitter * outlier * if random.unit() < 1.0 / 16.0 { 20.0 } else { 1.0 }
        };
        (0..640).map(&mut cost).collect()
    }

    fn passes(random: &mut Prng, count: usize) -> Vec<Vec<f64>> {
        (0..count).map(|_| pass(random)).collect()
    }

    #[test]
    fn spikes_and_outliers_are_no_slowdown() {
        let mut random = Prng::new(Seed(1));
        let alarms = (0..300).filter(|_| {
            let level = PassLevel::new(&passes(&mut random, 3));
            level.slowed(&passes(&mut random, 3).concat()) > 0
        });
        assert!(alarms.count() <= 1);
    }

    #[test]
    fn writes_that_come_back_in_the_middle_of_a_pass_are_slowed_down_until_then() {
        let mut random = Prng::new(Seed(2));
        for until in [200, 640, 900] {
            let level = PassLevel::new(&passes(&mut random, 3));
            let mut after = passes(&mut random, 3).concat();
            after[..until].iter_mut().for_each(|cost| *cost += 4.0);
            let slowed = level.slowed(&after);
            assert!(slowed.abs_diff(until) <= 12, "{slowed}, not {until}");
            assert!(!level.is_slowed_to_the_end(slowed, after.len()));
        }
    }

    #[test]
    fn writes_that_become_better_by_and_by_are_slowed_down_until_they_are_as_usual() {
        let mut random = Prng::new(Seed(4));
        let level = PassLevel::new(&passes(&mut random, 3));
        let mut after = passes(&mut random, 3).concat();
        after[..300].iter_mut().for_each(|cost| *cost += 40.0);
        after[300..900].iter_mut().for_each(|cost| *cost += 2.0);
        let slowed = level.slowed(&after);
        assert!(slowed.abs_diff(900) <= 24, "{slowed}");
    }

    #[test]
    fn a_pass_that_happens_to_have_few_spikes_is_not_cheaper() {
        let mut random = Prng::new(Seed(5));
        let alarms =
            (0..300).filter(|_| PassLevel::new(&passes(&mut random, 3)).is_cheaper(&pass(&mut random)));
        assert!(alarms.count() <= 3);
        let cheaper: Vec<f64> = pass(&mut random).iter().map(|cost| cost * 0.4).collect();
        assert!(PassLevel::new(&passes(&mut random, 3)).is_cheaper(&cheaper));
    }

    #[test]
    fn writes_that_do_not_come_back_are_slowed_down_to_the_end() {
        let mut random = Prng::new(Seed(3));
        let level = PassLevel::new(&passes(&mut random, 3));
        let mut after = passes(&mut random, 3).concat();
        after.iter_mut().for_each(|cost| *cost += 4.0);
        assert!(level.is_slowed_to_the_end(level.slowed(&after), after.len()));
    }
}
