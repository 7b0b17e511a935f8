//! How many rows of pages of all dies a unit has: from when an overwritten device stalls, by a model of all stalls at once.
//!
//! # Model
//! A unit is a whole number of rows of pages of all dies, from sixteen on. So the writes from where blocks are collected on are
//! cut into units of each such size, and those into places of one row. Each place has a probability of its own to stall, the same
//! one in each unit, of which nothing is known before but what is usual: it has a beta distribution, so that what its
//! stalls are likely by is a beta-binomial number. Stalls count by kinds: of writes and of the reads between them, by how long they
//! take. Kinds that say nothing of a size count for nothing, and those that are no more often than before blocks were collected are left
//! out: rows that are slower than others, and maps that are written back.
//!
//! A multiple of the unit learns the same of more places, from fewer visits, and a part of it mixes places that differ: both are
//! less likely. Dies that erase one after the other need no rule of their own.
//!
//! # Invariants
//! - what comes back within fewer rows than a block has is no unit, and what it explains does not count for its multiples.

use statrs::function::gamma::ln_gamma;

use super::statistics::upper_median;
use crate::priors;

/// Rows that a block has at least, and at most.
const ROWS_LEAST: usize = priors::ROWS_LEAST as usize;
const ROWS_MOST: usize = priors::ROWS_MOST as usize;
/// Blocks of more rows than these have a number of them that can be divided by two, or by eight.
const EVEN_FROM: usize = 64;
const EIGHTS_FROM: usize = 256;
/// Units that have to be seen, and writes of one.
const UNITS_LEAST: f64 = 2.5;
const WRITES_LEAST: f64 = 3.0;
/// Kinds of stalls begin at these times beyond the usual one, in nanoseconds: no erase takes less than the first.
const KINDS: [f64; 8] = [0.9e6, 1.5e6, 2.5e6, 4e6, 6.5e6, 11e6, 18e6, 40e6];
/// The fewest and the most stalls of a kind, and how many times as often they are as before.
const STALLS_LEAST: usize = 3;
const STALLS_MOST: usize = 600;
const RISE: f64 = 1.5;
/// What is usual counts as much as this many visits of a place.
const USUAL: f64 = 1.0;
/// Each factor of two in the number of rows adds this to the log-likelihood ratio of the unit.
const ROUNDER: f64 = 1.5;
/// The most factors of two that count.
const ROUNDNESS_MOST: u32 = 4;
/// How much likelier than none a unit is, as a log-likelihood ratio, to be found.
const GAIN_LEAST: f64 = 20.0;

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

/// The likeliest unit of writes and the reads between them, from one of `beginnings` on, where a row of all dies is `row`
/// writes; and how much likelier it is than a unit of `other` writes.
pub fn unit_of_rows(
    costs: &[&[f64]],
    row: f64,
    beginnings: &[usize],
    other: Option<usize>,
) -> Option<UnitOfRows> {
    let likeliest = |&from: &usize| Stalls::new(costs, from, row).likeliest(from, other);
    let found = beginnings.iter().filter_map(likeliest).max_by(|a, b| a.gain.total_cmp(&b.gain));
    found.filter(|found| found.gain >= GAIN_LEAST)
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
            let next = KINDS.get(kind + 1).copied().unwrap_or(f64::INFINITY);
            let is_one = |&at: &usize| costs[at] > usual + KINDS[kind] && costs[at] <= usual + next;
            let before = (0..from).filter(is_one).count();
            let stalls: Vec<usize> = (from..all).filter(is_one).collect();
            let rises = (stalls.len() * from) as f64 >= RISE * (before * (all - from)) as f64;
            (rises && (STALLS_LEAST..=STALLS_MOST).contains(&stalls.len())).then_some(stalls)
        };
        let kinds = costs.iter().flat_map(|costs| (0..KINDS.len()).filter_map(move |kind| of(costs, kind)));
        Stalls { kinds: kinds.collect(), writes: (all - from) as f64, row }
    }

    fn likeliest(&self, from: usize, other: Option<usize>) -> Option<UnitOfRows> {
        let longest = ((self.writes / UNITS_LEAST / self.row) as usize).min(ROWS_MOST);
        // What comes back sooner than a block ends.
        let of_kind = |kind: &Vec<usize>| (0..ROWS_LEAST).map(|rows| self.gain_of(kind, rows)).collect();
        let sooner: Vec<Vec<f64>> = self.kinds.iter().map(of_kind).collect();
        let gain = |rows: usize| {
            let of_kind = |(kind, sooner): (&Vec<usize>, &Vec<f64>)| {
                let parts = (1..ROWS_LEAST).filter(|part| rows.is_multiple_of(*part));
                let part = parts.map(|part| sooner[part]).fold(0.0, f64::max);
                (self.gain_of(kind, rows) - part).max(0.0)
            };
            let round = ROUNDER * f64::from(rows.trailing_zeros().min(ROUNDNESS_MOST));
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

    /// How much likelier the stalls of a kind are, as a log-likelihood ratio, if each place of a unit of this many rows has a probability of
    /// its own.
    fn gain_of(&self, kind: &[usize], rows: usize) -> f64 {
        if rows == 0 {
            return 0.0;
        }
        let (period, width) = (rows as f64 * self.row, self.row.max(1.0));
        let places = (period / width).ceil().max(1.0);
        let visits = self.writes / period;
        let place = |&stall: &usize| {
            let unit = (stall as f64 / period).floor();
            (((stall as f64 - unit * period) / width).floor().min(places - 1.0) as usize, unit as usize)
        };
        let mut hits: Vec<(usize, usize)> = kind.iter().map(place).collect();
        hits.sort_unstable();
        hits.dedup();
        let (all, count) = (visits * places, hits.len() as f64);
        let share = (count / all).clamp(1e-6, 0.9);
        let (hit, miss) = (share * USUAL, (1.0 - share) * USUAL);
        let of_place = |hits: f64| {
            let visits = visits.max(hits);
            ln_rise(hit, hits) + ln_rise(miss, visits - hits) - ln_rise(USUAL, visits)
        };
        let stalled: Vec<f64> = hits.chunk_by(|a, b| a.0 == b.0).map(|place| place.len() as f64).collect();
        let told = stalled.iter().map(|&hits| of_place(hits)).sum::<f64>()
            + (places - stalled.len() as f64) * of_place(0.0);
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
