//! Counts the superpages of an erase block, from the stalls of an overwritten device, by a model of all stalls.
//!
//! # Model
//! An erase block of all dies is a whole number of superpages, at least sixteen. So the writes since the beginning of
//! garbage collection are divided into blocks of each such size, and those into positions of one superpage. Each
//! position stalls with a probability of its own, the same in each block. Its prior is a beta distribution around the
//! usual rate, so that its stalls are a beta-binomial number.
//!
//! Stalls count by kinds: of writes and of the reads between them, by their length. A kind that is not more frequent
//! than before garbage collection is left out: slow pages, and map writes. A multiple of the block has more positions
//! with fewer visits, and a part of it mixes positions that differ: both are less likely. Dies that erase one after
//! the other need no rule of their own.
//!
//! # Invariants
//! - What repeats within fewer superpages than a block has is no block, and does not count for its multiples.

use std::ops::RangeInclusive;

use statrs::function::gamma::ln_gamma;

use super::statistics::upper_median;
use crate::priors;
use crate::thresholds;

/// Rows that a block has at least, and at most.
const ROWS_LEAST: usize = priors::ROWS_LEAST as usize;
const ROWS_MOST: usize = priors::ROWS_MOST as usize;
/// Blocks of more multi-plane pages than this have an even number of them. Unit: multi-plane pages. Source:
/// tuned. Too high: odd numbers win by noise; too low: blocks of few odd pages are not tried.
const EVEN_FROM: usize = 64;
/// Blocks of more multi-plane pages than this have a multiple of eight. Unit: multi-plane pages. Source:
/// tuned. Too high: neighbours of the right number win by noise; too low: 172 pages of TLC are not tried.
const EIGHTS_FROM: usize = 256;
/// The fewest blocks that the writes have to contain. Unit: blocks. Source: tuned. Too high: large blocks are
/// not tried; too low: any two stalls show a block.
const BLOCKS_LEAST: f64 = 2.5;
/// The fewest writes in a block. Unit: writes. Source: tuned. Too high: large writes show no block; too low:
/// all writes lie at the same position.
const WRITES_LEAST: f64 = 3.0;
/// The kinds of stalls: by how much longer than the usual IO they take. No erase takes less than the first,
/// [`crate::priors::ERASE_LEAST`]. Unit: ns. Source: the first as there; the others are a choice, at factors
/// of 1.6 to 2.2. Too high: fast erases do not count; too low: programs count as erases.
const STALL_LENGTHS: [f64; 8] = [0.9e6, 1.5e6, 2.5e6, 4e6, 6.5e6, 11e6, 18e6, 40e6];
/// The stalls of a kind that counts. Unit: stalls. Source: choice. Too few: three stalls by chance have a period; too
/// many: slow pages count as stalls, and the search takes longer.
const STALLS: RangeInclusive<usize> = 3..=600;
/// The stalls of a kind since garbage collection began, as a multiple of those before. Unit: ratio. Source:
/// tuned. Too high: kinds that rise little are left out; too low: slow pages and map writes count.
const RATE_RATIO: f64 = 1.5;
/// The visits that the usual rate of stalls is worth at each position, in the beta prior. Unit: visits.
/// Source: choice: one visit. Too high: few blocks show nothing; too low: single stalls outweigh the usual
/// rate.
const PRIOR_VISITS: f64 = 1.0;
/// The most factors of two in the number of pages that count. Unit: factors of two. Source: derivation:
/// [`crate::priors::ROWS_LEAST`] has four. Too high: powers of two win against the right number; too low: neighbours
/// win by noise.
const ROUNDNESS_MOST: u32 = 4;
/// The least log-likelihood ratio of a block to none: all sizes and kinds were tried. Unit: natural
/// logarithm. Source: tuned. Too high: few blocks show nothing; too low: noise is a block.
const BLOCK_GAIN: f64 = 20.0;

/// A unit of this many rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitOfRows {
    /// The number of multi-plane pages of all dies in a unit.
    pub rows: usize,
    /// The first write of its first unit, as far as it is known: that from which on more of them stall, or of the cycle.
    pub from: usize,
    /// How much likelier than none it is, as a log-likelihood ratio.
    pub gain: f64,
    /// Whether a unit of as many writes as was asked about is less likely, and its log-likelihood ratio.
    pub lead: f64,
}

/// The likeliest block of writes and the reads between them, from one of `beginnings` on. A superpage is `row`
/// writes. Also by how much it is likelier than a block of `other` writes.
pub fn unit_of_rows(
    costs: &[&[f64]],
    row: f64,
    beginnings: &[usize],
    other: Option<usize>,
) -> Option<UnitOfRows> {
    let likeliest = |&from: &usize| Stalls::new(costs, from, row).likeliest(from, other);
    let found = beginnings.iter().filter_map(likeliest).max_by(|a, b| a.gain.total_cmp(&b.gain));
    found.filter(|found| found.gain >= BLOCK_GAIN)
}

/// Whether a block may have this many rows.
pub fn may_be_block(rows: usize) -> bool {
    let even = rows <= EVEN_FROM || rows.is_multiple_of(2);
    let eights = rows <= EIGHTS_FROM || rows.is_multiple_of(8);
    rows >= ROWS_LEAST && even && eights
}

/// The stalls from a write on.
struct Stalls {
    /// Those of each kind.
    kinds: Vec<Vec<usize>>,
    /// How many writes there are from there on.
    writes: f64,
    row: f64,
}

impl Stalls {
    fn new(costs: &[&[f64]], from: usize, row: f64) -> Stalls {
        let all = costs.iter().map(|costs| costs.len()).min().unwrap_or(0);
        let from = from.min(all);
        let of = |costs: &[f64], kind: usize| {
            let usual = upper_median(costs);
            let next = STALL_LENGTHS.get(kind + 1).copied().unwrap_or(f64::INFINITY);
            let is_one = |&at: &usize| costs[at] > usual + STALL_LENGTHS[kind] && costs[at] <= usual + next;
            let before = (0..from).filter(is_one).count();
            let stalls: Vec<usize> = (from..all).filter(is_one).collect();
            let rises = (stalls.len() * from) as f64 >= RATE_RATIO * (before * (all - from)) as f64;
            (rises && STALLS.contains(&stalls.len())).then_some(stalls)
        };
        let kinds =
            costs.iter().flat_map(|costs| (0..STALL_LENGTHS.len()).filter_map(move |kind| of(costs, kind)));
        Stalls { kinds: kinds.collect(), writes: (all - from) as f64, row }
    }

    fn likeliest(&self, from: usize, other: Option<usize>) -> Option<UnitOfRows> {
        let longest = ((self.writes / BLOCKS_LEAST / self.row) as usize).min(ROWS_MOST);
        // What comes back sooner than a block ends.
        let of_kind = |kind: &Vec<usize>| (0..ROWS_LEAST).map(|rows| self.gain_of(kind, rows)).collect();
        let sooner: Vec<Vec<f64>> = self.kinds.iter().map(of_kind).collect();
        let gain = |rows: usize| {
            let of_kind = |(kind, sooner): (&Vec<usize>, &Vec<f64>)| {
                let parts = (1..ROWS_LEAST).filter(|part| rows.is_multiple_of(*part));
                let part = parts.map(|part| sooner[part]).fold(0.0, f64::max);
                (self.gain_of(kind, rows) - part).max(0.0)
            };
            let round = thresholds::ROUNDER_GAIN * f64::from(rows.trailing_zeros().min(ROUNDNESS_MOST));
            // The longer, the more sizes there are.
            let less = (rows as f64 / ROWS_LEAST as f64).ln();
            self.kinds.iter().zip(&sooner).map(of_kind).sum::<f64>() + round - less
        };
        let is_block = |&rows: &usize| may_be_block(rows) && rows as f64 * self.row >= WRITES_LEAST;
        let tried = (ROWS_LEAST..=longest).filter(is_block).map(|rows| (rows, gain(rows)));
        let (rows, gained) = tried.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let other = other.map_or(0.0, |writes| gain(((writes as f64 / self.row).round() as usize).max(1)));
        Some(UnitOfRows { rows, from, gain: gained, lead: gained - other })
    }

    /// The log-likelihood ratio of the stalls of a kind, if each position of a block of this many
    /// superpages has a probability of its own.
    fn gain_of(&self, kind: &[usize], rows: usize) -> f64 {
        if rows == 0 {
            return 0.0;
        }
        let (period, width) = (rows as f64 * self.row, self.row.max(1.0));
        let positions = (period / width).ceil().max(1.0);
        let visits = self.writes / period;
        let place = |&stall: &usize| {
            let unit = (stall as f64 / period).floor();
            (((stall as f64 - unit * period) / width).floor().min(positions - 1.0) as usize, unit as usize)
        };
        let mut hits: Vec<(usize, usize)> = kind.iter().map(place).collect();
        hits.sort_unstable();
        hits.dedup();
        let (all, count) = (visits * positions, hits.len() as f64);
        let share = (count / all).clamp(1e-6, 0.9);
        let (hit, miss) = (share * PRIOR_VISITS, (1.0 - share) * PRIOR_VISITS);
        let of_place = |hits: f64| {
            let visits = visits.max(hits);
            ln_rise(hit, hits) + ln_rise(miss, visits - hits) - ln_rise(PRIOR_VISITS, visits)
        };
        let stalled: Vec<f64> = hits.chunk_by(|a, b| a.0 == b.0).map(|place| place.len() as f64).collect();
        let told = stalled.iter().map(|&hits| of_place(hits)).sum::<f64>()
            + (positions - stalled.len() as f64) * of_place(0.0);
        told - count * share.ln() - (all - count) * (1.0 - share).ln()
    }
}

/// The logarithm of a (a + 1) ... (a + n - 1), also between whole numbers.
fn ln_rise(a: f64, n: f64) -> f64 {
    ln_gamma(a + n) - ln_gamma(a)
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Writes of which some are outliers; from `onset` on there is an erase at two places of each unit, more often at one.
    fn costs(seed: u64, count: usize, unit: usize, onset: usize) -> Vec<f64> {
        let mut random = Prng::new(Seed(seed));
        let mut one = |at: usize| {
            let erases = at >= onset
                && match at % unit {
                    0 => random.unit() < 0.8,
                    half if half == unit / 2 - 2 => random.unit() < 0.4,
                    _ => false,
                };
            let outlier = if random.unit() < 0.01 { 25.0 } else { 1.0 };
            0.3e6 * (1.0 + 0.1 * random.unit()) * outlier + if erases { 3e6 } else { 0.0 }
        };
        (0..count).map(&mut one).collect()
    }

    #[test]
    fn dies_that_are_not_in_step_do_not_feign_a_half_of_the_unit() {
        for (seed, rows) in [48, 64, 96, 256].into_iter().enumerate() {
            let (unit, onset) = (2 * rows, 6 * rows);
            let costs = costs(seed as u64, 70 * rows, unit, onset);
            let found = unit_of_rows(&[&costs], 2.0, &[onset], Some(unit / 2)).expect("there is a unit");
            assert_eq!(found.rows, rows, "{found:?}");
            assert!(found.lead > 3.0, "{found:?}");
        }
    }

    #[test]
    fn without_a_unit_none_is_found() {
        assert!((0..40).all(|seed| {
            unit_of_rows(&[&costs(seed, 3000, usize::MAX, usize::MAX)], 2.0, &[1500], None).is_none()
        }));
    }
}
