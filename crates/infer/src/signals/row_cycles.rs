//! Cycles of rows of pages, which are shorter than a block: fast and slow rows, buffers that are reclaimed in pieces.
//!
//! # Model
//! They come from the beginning on, each of them with more stalls than there are erases. What they explain is taken away, so
//! that the longer cycles are seen.

use super::cycles::{Cycle, cycles, level};
use super::statistics::upper_median;

/// Cycles that are taken away.
pub const CYCLES_MOST: usize = 2;

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
pub fn cycles_of_blocks(costs: &[f64], shortest: usize) -> (Vec<Cycle>, [Option<Rows>; CYCLES_MOST]) {
    let (mut rows, usual) = ([None; CYCLES_MOST], upper_median(costs));
    let mut left = costs.to_vec();
    for at in 0..=CYCLES_MOST {
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
