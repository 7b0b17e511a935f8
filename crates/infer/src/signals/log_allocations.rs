//! How much lies between two log-block allocations, from single writes at descending offsets in equal steps.
//!
//! # Model
//! If each block of addresses has a log block of its own, and all log blocks are in use, the first write to a block
//! allocates a log block and has another one merged; those that follow in the same block are fast. So the cost is a
//! function of the position in the block, whether merges are deferred or not: once as many are deferred as can be,
//! each allocation has one done.
//!
//! # Method
//! 1. The costs are folded by each possible block size. The likeliest is the one whose positions explain most of the
//!    differences of the logarithms, less what as many positions explain by chance (Schwarz, Annals of Statistics
//!    6(2), 1978).
//! 2. A step that is longer than a block passes some by, and looks like a longer block. So a block size counts only
//!    if two different steps show it, with one slow stretch in it.

use std::ops::Range;

use flashlab_base::Bytes;

use super::rounding::roundest;
use super::statistics::{mean, upper_median};
use crate::thresholds;

/// One in this number of the writes of a step, the first ones, does not count: log blocks are allocated and
/// the backlog is merged. Unit: writes. Source: tuned. Too small: few writes are left to count; too large:
/// the backlog counts as the cost of an allocation.
const SETTLING_PART: usize = 4;
/// The fewest steps in a block that a step shows. Unit: steps. Source: tuned, just below four. Too high: the
/// shortest step shows small blocks only; too low: positions in the block are too coarse to be compared.
const STEPS_LEAST: f64 = 3.9;
/// The fewest blocks that the writes of a step pass. Unit: blocks. Source: tuned, just below six. Too high:
/// large blocks are not tried; too low: few blocks fit by chance.
const BLOCKS_PASSED: f64 = 5.8;
/// The fewest blocks of a device. Unit: blocks. Source: derivation: fewer blocks leave no address for a
/// merge. Too high: large blocks on small devices are not tried; too low: the halves of a device count as
/// blocks.
const BLOCKS_OF_DEVICE: f64 = 4.0;
/// The ratio by which block sizes that are tried differ, less one. Unit: share. Source: choice, an eighth of
/// [`AGREES`]. Too large: the right size is stepped over; too small: the search takes longer.
const SIZE_STEP: f64 = 0.004;
/// The steps that have to show the same block size. Unit: steps. Source: derivation: one step alone may pass
/// blocks by. Too many: large blocks stay undetermined; too few: a long step makes a multiple an answer.
const STEPS_SHOWING: usize = 2;
/// Of at least this number of writes at one position, the farthest one is dropped as an outlier. Unit:
/// writes. Source: choice. Too many: positions with few writes do not count; too few: half of the evidence is
/// dropped.
const OUTLIER_PART: usize = 4;
/// Positions whose mean lies in this part of the range of all means are neither slow nor fast. Unit: share. Source: tuned. Too large: few
/// positions are left; too small: noise breaks a slow stretch into two.
const BETWEEN: Range<f64> = 0.35..0.65;
/// A shorter block is taken if it has this share of the log-likelihood ratio of a longer one: long steps look
/// like longer blocks. Unit: share. Source: tuned. Too high: a multiple is reported; too low: a part that
/// fits by chance is reported.
const SHORTER_GAIN: f64 = 0.3;
/// Block sizes that differ by less than this are the same. Unit: share. Source: [`crate::thresholds::RIGHT`]. Too
/// high: a round size of another block is taken; too low: noise decides between equal sizes.
pub const AGREES: f64 = thresholds::RIGHT;
/// The share of the log-likelihood ratio that a rounder block size may lack. Unit: share. Source: tuned. Too
/// high: a round size replaces the right one; too low: noise moves the size by a step.
const ROUNDER_LOSS: f64 = 0.15;
/// The floor of the scatter of costs: the standard deviation of their logarithms. Unit: natural logarithm.
/// Source: tuned: jitter of 5 % and the rounding of clocks. Too high: weak contrasts show nothing; too low:
/// devices without noise make any size likely.
const SCATTER_LEAST: f64 = 0.07;

/// The writes of one step.
pub struct SteppedWrites {
    /// The step in bytes.
    pub size: f64,
    /// The longest block that it shows.
    longest: f64,
    /// Address and logarithm of the cost.
    pub costs: Vec<(f64, f64)>,
}

/// The likeliest block size by all steps, no shorter than `shortest`, and its log-likelihood ratio to none.
pub fn likeliest_block(steps: &[SteppedWrites], shortest: f64) -> Option<(f64, f64)> {
    let gain = |unit: f64| {
        let of_steps = steps.iter().filter(|step| step.shows(unit)).map(|step| step.gain(unit));
        let gains: Vec<f64> = of_steps.collect();
        // The smallest step passes the fewest blocks by.
        let is_shown = gains.last().is_some_and(|&last| last >= thresholds::PART_GAIN);
        let by = gains.iter().filter(|&&gain| gain >= thresholds::PART_GAIN).count();
        if is_shown && by >= STEPS_SHOWING { gains.iter().sum::<f64>() } else { 0.0 }
    };
    let mut unit = (STEPS_LEAST * steps.last()?.size).max(shortest);
    let longest = steps.iter().map(|step| step.longest).fold(0.0, f64::max);
    let mut tried = Vec::new();
    while unit <= longest {
        tried.push((unit, gain(unit)));
        unit *= 1.0 + SIZE_STEP;
    }
    let mut below = f64::INFINITY;
    let (mut best, mut gained) = (0.0, 0.0);
    // Steps that are all longer than a block look like longer ones.
    loop {
        let least = thresholds::POSITIONS_GAIN.max(SHORTER_GAIN * gained);
        let of = tried.iter().filter(|&&(unit, gain)| unit < below && gain >= least);
        let Some(&likeliest) = of.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        (best, gained) = likeliest;
        let showing = steps.iter().filter(|step| step.gain(best) >= thresholds::PART_GAIN);
        below = showing.map(|step| step.size).fold(f64::INFINITY, f64::min);
    }
    // Whole blocks are round.
    let near = (1.0 - AGREES) * best..(1.0 + AGREES) * best;
    let as_good = |round: f64| near.contains(&round) && gain(round) >= (1.0 - ROUNDER_LOSS) * gained;
    let rounded = roundest(best, as_good);
    (gained >= thresholds::POSITIONS_GAIN).then_some((rounded, gained))
}

impl SteppedWrites {
    /// The writes of a step of `size` bytes on a device of `capacity` bytes: address and cost of each.
    pub fn new(size: Bytes, costs: &[(f64, f64)], capacity: Bytes) -> SteppedWrites {
        let settled = &costs[costs.len() / SETTLING_PART..];
        let times = settled.iter().map(|&(_, cost)| cost.max(1.0).ln());
        let addresses = settled.iter().map(|&(address, _)| address);
        let size = size.0 as f64;
        SteppedWrites {
            size,
            longest: (settled.len() as f64 * size / BLOCKS_PASSED).min(capacity.0 as f64 / BLOCKS_OF_DEVICE),
            costs: addresses.zip(times).collect(),
        }
    }

    /// Whether it shows blocks of this size.
    pub fn shows(&self, unit: f64) -> bool {
        (STEPS_LEAST * self.size..self.longest).contains(&unit)
    }

    /// The log-likelihood ratio of costs that depend on the position in a block; 0 if the step does not show blocks of this size.
    pub fn gain(&self, unit: f64) -> f64 {
        if !self.shows(unit) {
            return 0.0;
        }
        let mut positions = vec![Vec::new(); (unit / self.size).ceil() as usize + 1];
        for &(address, time) in &self.costs {
            positions[((address % unit) / self.size) as usize].push(time);
        }
        // Of each place the farthest one may be an outlier; fewer would not show it.
        positions.retain(|place| place.len() >= OUTLIER_PART);
        for place in &mut positions {
            let middle = upper_median(place);
            place.sort_by(|a, b| (a - middle).abs().total_cmp(&(b - middle).abs()));
            place.pop();
        }
        let means: Vec<f64> = positions.iter().map(|place| mean(place)).collect();
        if stretches(&means) != 1 {
            return 0.0;
        }
        let squares = |place: &[f64], mean: f64| place.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        let all = positions.concat();
        let (count, used) = (all.len() as f64, means.len() as f64);
        let least = count * SCATTER_LEAST * SCATTER_LEAST;
        let without = squares(&all, mean(&all)) + least;
        let within =
            positions.iter().zip(&means).map(|(place, &mean)| squares(place, mean)).sum::<f64>() + least;
        (count / 2.0 * (without / within).ln() - (used - 1.0) / 2.0 * count.ln()).max(0.0)
    }
}

/// The stretches of slow positions, around the end. There are several in a multiple of the block, and in one that long steps feign.
fn stretches(means: &[f64]) -> usize {
    let (low, high) =
        means.iter().fold((f64::MAX, f64::MIN), |(low, high), &mean| (low.min(mean), high.max(mean)));
    let part = |mean: &&f64| (**mean - low) / (high - low).max(f64::MIN_POSITIVE);
    let clear: Vec<bool> = means
        .iter()
        .filter(|mean| !BETWEEN.contains(&part(mean)))
        .map(|mean| part(&mean) >= BETWEEN.end)
        .collect();
    (0..clear.len()).filter(|&at| clear[at] && !clear[(at + 1) % clear.len()]).count()
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Writes down the addresses, the first of each unit a merge.
    fn costs(seed: u64, step: u64, unit: u64, merge: f64) -> Vec<(f64, f64)> {
        let mut random = Prng::new(Seed(seed));
        let mut last = u64::MAX;
        let write = |i: u64| {
            let address = (200 - i) * step;
            let opens = address / unit != last;
            last = address / unit;
            let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
            (address as f64, (1.0 + 0.1 * random.unit()) * outlier * if opens { merge } else { 1.0 })
        };
        (0..128).map(write).collect()
    }

    fn found(seed: u64, unit: u64, merge: f64) -> Option<(f64, f64)> {
        let step =
            |step: u64| SteppedWrites::new(Bytes(step), &costs(seed, step, unit, merge), Bytes::gib(4));
        likeliest_block(&[3 << 19, 3 << 18, 3 << 17].map(step), 0.0)
    }

    #[test]
    fn the_unit_is_found_and_no_multiple_of_it() {
        for (seed, unit) in [4 << 20, 6 << 20, 9 << 19, 12 << 20].into_iter().enumerate() {
            let (found, _) = found(seed as u64, unit, 20.0).unwrap();
            assert!((found / unit as f64 - 1.0).abs() < AGREES, "{unit}: {found}");
        }
    }

    #[test]
    fn costs_that_are_alike_have_none() {
        assert!((0..20).all(|seed| found(seed, 4 << 20, 1.0).is_none()));
    }
}
