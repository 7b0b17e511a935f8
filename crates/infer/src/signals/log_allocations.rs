//! How much lies between two log-block allocations, from single writes at descending offsets in equal steps.
//!
//! # Model
//! If each block of addresses has a log block of its own, and all log blocks are in use, the first write to a block allocates a log block
//! and has another one merged; those that follow in the same block are fast. So the cost is a function of the position in the block,
//! whether merges are deferred or not: once as many are deferred as can be, each allocation has one done.
//!
//! # Method
//! 1. The costs are folded by each possible block size. The likeliest is the one whose positions explain most of the differences of the
//!    logarithms, less what as many positions explain by chance (Schwarz, Annals of Statistics 6(2), 1978).
//! 2. A step that is longer than a block passes some by, and looks like a longer block. So a block size counts only if two different
//!    steps show it, with one slow stretch in it.

use flashlab_base::Bytes;

use super::rounding::roundest;
use super::statistics::{mean, upper_median};

/// This part of the writes of a step, the first ones, does not count: deferred work is done, and log blocks are filled.
const SETTLING: usize = 4;
/// A step shows blocks of at least this number of steps: it passes some of the shorter ones by.
const STEPS_LEAST: f64 = 3.9;
/// A step shows blocks that are passed this often, and of which the device has [`BLOCKS_LEAST`].
const PASSED: f64 = 5.8;
const BLOCKS_LEAST: f64 = 4.0;
/// How finely sizes are tried.
const FINE: f64 = 0.004;
/// How much likelier a size has to be than none, by all steps, as a log-likelihood ratio.
const GAIN_LEAST: f64 = 22.0;
/// The same by each step that shows it.
pub const GAIN_OF_STEP: f64 = 7.0;
/// The number of steps that have to show it.
const SHOWN_BY: usize = 2;
/// Of this number of writes at a position one may be an outlier.
const OUTLIER_OF: usize = 4;
/// Positions are slow or fast above and below these parts of the range.
const SLOW: f64 = 0.65;
const FAST: f64 = 0.35;
/// A shorter block is believed instead of one that long steps may look like, if it has this part of its likelihood ratio.
const SHORTER_GAIN: f64 = 0.3;
/// Of sizes that differ by less than this, and are less likely by no more than `AS_GOOD`, the roundest is taken.
pub const AGREES: f64 = 0.03;
const AS_GOOD: f64 = 0.15;
/// The scatter of costs in any case, as a logarithm.
const SCATTER: f64 = 0.07;

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
        let is_shown = gains.last().is_some_and(|&last| last >= GAIN_OF_STEP);
        let by = gains.iter().filter(|&&gain| gain >= GAIN_OF_STEP).count();
        if is_shown && by >= SHOWN_BY { gains.iter().sum::<f64>() } else { 0.0 }
    };
    let mut unit = (STEPS_LEAST * steps.last()?.size).max(shortest);
    let longest = steps.iter().map(|step| step.longest).fold(0.0, f64::max);
    let mut tried = Vec::new();
    while unit <= longest {
        tried.push((unit, gain(unit)));
        unit *= 1.0 + FINE;
    }
    let mut below = f64::INFINITY;
    let (mut best, mut gained) = (0.0, 0.0);
    // Steps that are all longer than a block look like longer ones.
    loop {
        let least = GAIN_LEAST.max(SHORTER_GAIN * gained);
        let of = tried.iter().filter(|&&(unit, gain)| unit < below && gain >= least);
        let Some(&likeliest) = of.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        (best, gained) = likeliest;
        let showing = steps.iter().filter(|step| step.gain(best) >= GAIN_OF_STEP);
        below = showing.map(|step| step.size).fold(f64::INFINITY, f64::min);
    }
    // Whole blocks are round.
    let near = (1.0 - AGREES) * best..(1.0 + AGREES) * best;
    let as_good = |round: f64| near.contains(&round) && gain(round) >= (1.0 - AS_GOOD) * gained;
    let rounded = roundest(best, as_good);
    (gained >= GAIN_LEAST).then_some((rounded, gained))
}

impl SteppedWrites {
    /// The writes of a step of `size` bytes on a device of `capacity` bytes: address and cost of each.
    pub fn new(size: Bytes, costs: &[(f64, f64)], capacity: Bytes) -> SteppedWrites {
        let settled = &costs[costs.len() / SETTLING..];
        let times = settled.iter().map(|&(_, cost)| cost.max(1.0).ln());
        let addresses = settled.iter().map(|&(address, _)| address);
        let size = size.0 as f64;
        SteppedWrites {
            size,
            longest: (settled.len() as f64 * size / PASSED).min(capacity.0 as f64 / BLOCKS_LEAST),
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
        let mut places = vec![Vec::new(); (unit / self.size).ceil() as usize + 1];
        for &(address, time) in &self.costs {
            places[((address % unit) / self.size) as usize].push(time);
        }
        // Of each place the farthest one may be an outlier; fewer would not show it.
        places.retain(|place| place.len() >= OUTLIER_OF);
        for place in &mut places {
            let middle = upper_median(place);
            place.sort_by(|a, b| (a - middle).abs().total_cmp(&(b - middle).abs()));
            place.pop();
        }
        let means: Vec<f64> = places.iter().map(|place| mean(place)).collect();
        if stretches(&means) != 1 {
            return 0.0;
        }
        let squares = |place: &[f64], mean: f64| place.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        let all = places.concat();
        let (count, used) = (all.len() as f64, means.len() as f64);
        let least = count * SCATTER * SCATTER;
        let without = squares(&all, mean(&all)) + least;
        let within =
            places.iter().zip(&means).map(|(place, &mean)| squares(place, mean)).sum::<f64>() + least;
        (count / 2.0 * (without / within).ln() - (used - 1.0) / 2.0 * count.ln()).max(0.0)
    }
}

/// How many stretches of places are slow, around the end: more than one in several units, and in one that long steps feign.
fn stretches(means: &[f64]) -> usize {
    let (low, high) =
        means.iter().fold((f64::MAX, f64::MIN), |(low, high), &mean| (low.min(mean), high.max(mean)));
    let part = |mean: &&f64| (**mean - low) / (high - low).max(f64::MIN_POSITIVE);
    let clear: Vec<bool> = means
        .iter()
        .filter(|mean| !(FAST..SLOW).contains(&part(mean)))
        .map(|mean| part(&mean) >= SLOW)
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
