//! Finds the erase block of a block map: a random write costs more, the deeper it lies in its block.
//!
//! # Model
//! A block map that takes the pages of a block in order copies the pages before the written one. So the copied amount
//! is the position in the block: a sawtooth over the addresses, whose teeth are the erase block of all dies. No other
//! layer has one: log blocks copy all pages alike, and a page map copies what it collects. Merges of other blocks are
//! noise.
//!
//! # Method
//! 1. The ranks of the costs are correlated with the position in a block, for all possible block sizes.
//! 2. The addresses are random, so that a size correlates with others only as far as their sawteeth do: by a half for
//!    the double and the half.
//! 3. Behind a write buffer a write waits for one that came earlier. The delay is the number of writes that did not
//!    wait after idle time, or twice that, as half of a buffer may be for pages on their path to the flash.
//!
//! # Invariants
//! - The correlation is positive, and likelier than by chance for all sizes and delays that were tried.
//! - Buffered writes that did not wait do not count.

use std::collections::BTreeSet;

use super::rounding::roundest;
use super::statistics::upper_median;
use crate::thresholds;

/// The range of the addresses contains at least this number of the longest block that is tried. Unit: blocks.
/// Source: tuned. Too many: large blocks are not tried; too few: any slope over the addresses is a block.
pub const UNITS_LEAST: u64 = 4;
/// The fewest writes that are left once each is paired with the write that waits for it. Unit: writes.
/// Source: choice. Too many: deep write buffers leave nothing; too few: ranks correlate by chance.
const PAIRS_LEAST: usize = 64;
/// From one block size that is tried to the next, no address moves by more than this part of a block. Unit:
/// share. Source: tuned. Too large: the right size is stepped over; too small: the search takes longer, and
/// more sizes fit by chance.
const STEP_OF_TOOTH: f64 = 0.12;
/// Delays next to an expected one that are tried as well. Unit: writes. Source: choice. Too many: more delays
/// fit by chance; too few: the write that is waited for is missed.
const DELAY_SLACK: usize = 4;
/// A write waits if it takes this share of what the last writes take. Unit: share. Source: tuned. Too high:
/// the first waiting write is found too late, and the delay is too long; too low: an outlier of buffered
/// writes counts as waiting.
const WAITING_SHARE: f64 = 0.2;
/// A write counts if it takes this many times what the buffered writes before it take. Unit: ratio. Source:
/// tuned. Too high: short merges are left out; too low: buffered writes count, which show no merge.
const WAITING_RATIO: f64 = 3.0;
/// A rounder block size may be less likely by this log-likelihood ratio. Unit: natural logarithm, so 20 to 1.
/// Source: tuned. Too high: a round size replaces the right one; too low: noise moves the size by a page.
const ROUNDER_LOSS: f64 = 3.0;

/// A unit that the costs show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depths {
    /// The unit, in bytes.
    pub unit: f64,
    /// How much likelier than none it is, as a log-likelihood ratio.
    pub gain: f64,
    /// How much likelier than its half and its double.
    pub beyond: f64,
    /// How many writes later one is waited for.
    pub delay: usize,
}

/// Single random writes.
pub struct DepthTrace {
    /// The address of each write, in bytes.
    pub addresses: Vec<f64>,
    /// The response time of each write, in nanoseconds.
    pub costs: Vec<f64>,
    /// What units are multiples of.
    pub grain: f64,
    /// Where the addresses lie.
    pub window: f64,
    /// The most pages that a buffer may hold; none without one.
    pub buffered: Option<usize>,
}

impl DepthTrace {
    /// The likeliest unit that is not shorter than `shortest`.
    pub fn unit(&self, shortest: f64) -> Option<Depths> {
        let (units, delays) = (self.units(shortest), self.delays());
        let tries = (units.len() * delays.len()).max(1) as f64;
        let mut best: Option<(Depths, Ranked)> = None;
        for delay in delays {
            let ranked = Ranked::new(self.waited(delay).collect());
            let likeliest = units.iter().map(|&unit| (unit, ranked.gain(unit)));
            let Some((unit, gain)) = likeliest.max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
            if best.as_ref().is_none_or(|(best, _)| gain > best.gain) {
                best = Some((Depths { unit, gain, beyond: 0.0, delay }, ranked));
            }
        }
        let (found, ranked) = best?;
        let gain = found.gain - tries.ln();
        let beyond = found.gain - ranked.gain(found.unit / 2.0).max(ranked.gain(2.0 * found.unit));
        (gain >= thresholds::PERIOD_GAIN).then(|| Depths {
            unit: ranked.roundest(&found),
            gain,
            beyond,
            ..found
        })
    }

    /// Address and cost of the writes that were waited for this many writes later; of all where none waits for another one.
    pub fn waited(&self, delay: usize) -> impl Iterator<Item = (f64, f64)> {
        let least =
            self.buffered.map_or(0.0, |_| WAITING_RATIO * upper_median(&self.costs[..self.begin().max(1)]));
        let pairs = self.addresses.iter().zip(self.costs.iter().skip(delay));
        pairs.map(|(&address, &cost)| (address, cost)).filter(move |&(_, cost)| cost >= least)
    }

    /// The first write that waits.
    fn begin(&self) -> usize {
        let late = upper_median(&self.costs[self.costs.len() / 2..]);
        self.costs.iter().position(|&cost| cost >= WAITING_SHARE * late).unwrap_or(0)
    }

    /// How many writes before a write the one may be that it waits for.
    fn delays(&self) -> Vec<usize> {
        let Some(buffered) = self.buffered else { return vec![0] };
        let begin = self.begin();
        let near = |at: usize| at.saturating_sub(DELAY_SLACK)..=at + DELAY_SLACK;
        let all = [0, begin, 2 * begin, buffered, 2 * buffered].into_iter().flat_map(near);
        let all: BTreeSet<usize> = all.filter(|delay| delay + PAIRS_LEAST <= self.costs.len()).collect();
        all.into_iter().collect()
    }

    /// All units that are tried.
    fn units(&self, shortest: f64) -> Vec<f64> {
        let mut units = Vec::new();
        let mut unit = (shortest / self.grain).ceil().max(1.0) * self.grain;
        while unit <= self.window / UNITS_LEAST as f64 {
            units.push(unit);
            let step = STEP_OF_TOOTH * unit * unit / self.window;
            unit += (step / self.grain).floor().max(1.0) * self.grain;
        }
        units
    }
}

/// Addresses, and the ranks of what they cost, from -1 to 1.
struct Ranked(Vec<(f64, f64)>);

impl Ranked {
    fn new(mut costs: Vec<(f64, f64)>) -> Ranked {
        costs.sort_by(|a, b| a.1.total_cmp(&b.1));
        let count = costs.len() as f64;
        for (rank, cost) in costs.iter_mut().enumerate() {
            cost.1 = (2 * rank + 1) as f64 / count - 1.0;
        }
        Ranked(costs)
    }

    /// How much likelier the ranks are if they rise with the place in a unit, as a log-likelihood ratio.
    fn gain(&self, unit: f64) -> f64 {
        let (mut x, mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0, 0.0);
        for &(address, rank) in &self.0 {
            let turns = address / unit;
            let place = turns - turns.floor();
            (x, xx, xy, yy) = (x + place, xx + place * place, xy + place * rank, yy + rank * rank);
        }
        let count = self.0.len() as f64;
        let spread = (xx - x * x / count) * yy;
        if self.0.len() < PAIRS_LEAST || xy <= 0.0 || spread <= 0.0 {
            return 0.0;
        }
        // The mean of the ranks is 0.
        -count / 2.0 * (1.0 - (xy * xy / spread).min(0.999_999)).ln()
    }

    /// The roundest of the units that are hardly less likely than one.
    fn roundest(&self, found: &Depths) -> f64 {
        roundest(found.unit, |round| self.gain(round) >= found.gain - ROUNDER_LOSS)
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    const PAGE: f64 = 4096.0;

    /// Writes that copy what lies before them in their unit, and half as often all of it; what a buffer of `buffered` pages
    /// takes is waited for as many writes later.
    fn trace(seed: u64, unit: f64, buffered: usize) -> DepthTrace {
        let mut random = Prng::new(Seed(seed));
        let window = 2048.0 * 64.0 * PAGE;
        let addresses: Vec<f64> =
            (0..300 + buffered).map(|_| (random.unit() * window / PAGE).floor() * PAGE).collect();
        let cost = |at: usize, random: &mut Prng| {
            let deep = if unit > 0.0 { addresses[at] % unit / unit } else { 0.5 };
            let other = if random.unit() < 0.5 { random.unit() } else { 0.0 };
            let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
            (0.2 + deep + other) * 20e6 * (0.95 + 0.1 * random.unit()) * outlier
        };
        let free = vec![50e3; buffered].into_iter();
        let costs = free.chain((0..300).map(|at| cost(at, &mut random))).collect();
        DepthTrace {
            addresses: addresses.clone(),
            costs,
            grain: PAGE,
            window,
            buffered: (buffered > 0).then_some(buffered),
        }
    }

    #[test]
    fn the_unit_is_told_to_the_page_also_behind_a_buffer() {
        for (seed, unit) in [64, 96, 256, 640, 4096].into_iter().enumerate() {
            for buffered in [0, 23, 200] {
                let found =
                    trace(seed as u64, unit as f64 * PAGE, buffered).unit(16.0 * PAGE).expect("a unit");
                assert_eq!((found.unit, found.delay), (unit as f64 * PAGE, buffered));
                assert!(
                    found.beyond > found.gain / 2.0 && found.beyond > thresholds::PERIOD_GAIN,
                    "{found:?}"
                );
            }
        }
    }

    #[test]
    fn merges_that_copy_alike_have_none() {
        for seed in 0..6 {
            assert_eq!(trace(seed, 0.0, 23 * (seed as usize % 2)).unit(16.0 * PAGE), None, "{seed}");
        }
    }

    #[test]
    fn nothing_tells_nothing() {
        let empty =
            DepthTrace { addresses: vec![], costs: vec![], grain: PAGE, window: 0.0, buffered: Some(9) };
        assert_eq!(empty.unit(PAGE), None);
    }
}
