//! Removes short cycles from costs, so that the longer cycles of erase blocks show.
//!
//! # Model
//! Slow pages, and write buffers that flush in batches, have cycles shorter than a block. These begin with the first
//! write, and have more stalls than there are erases.
//!
//! # Invariants
//! - The stalls of a longer cycle stay, if they take much longer.

use super::cycles::{Cycle, cycles, level};
use super::statistics::upper_median;

/// The most short cycles that are removed before blocks are looked for: slow pages, and a write buffer. Unit:
/// cycles. Source: derivation: these two causes. Too high: the cycle of a block is removed; too low: a short
/// cycle hides the block.
pub const SHORT_CYCLES_MOST: usize = 2;

/// A cycle that is too short for an erase block, and what its stalls and other writes take.
#[derive(Clone, Copy)]
pub struct Rows {
    cycle: Cycle,
    level: f64,
    usual: f64,
}

/// Costs without these cycles.
pub fn without(rows: &[Option<Rows>], costs: &[f64], begin: usize) -> Vec<f64> {
    rows.iter()
        .flatten()
        .fold(costs.to_vec(), |costs, rows| rows.cycle.without(&costs, begin, rows.usual, rows.level))
}

/// The cycles of costs that are long enough, the likeliest first; with those that are not, as long as they are likelier.
pub fn cycles_of_blocks(costs: &[f64], shortest: usize) -> (Vec<Cycle>, [Option<Rows>; SHORT_CYCLES_MOST]) {
    let (mut rows, usual) = ([None; SHORT_CYCLES_MOST], upper_median(costs));
    let mut left = costs.to_vec();
    for at in 0..=SHORT_CYCLES_MOST {
        let mut found = cycles(&left);
        let shorter = found.first().copied().filter(|cycle| cycle.period < shortest);
        match (shorter, rows.get_mut(at)) {
            (Some(cycle), Some(row)) => {
                *row = Some(Rows { cycle, level: level(&cycle, &left), usual });
                left = without(&rows[at..=at], &left, 0);
            }
            _ => {
                found.retain(|cycle| cycle.period >= shortest);
                return (found, rows);
            }
        }
    }
    (Vec::new(), rows)
}
