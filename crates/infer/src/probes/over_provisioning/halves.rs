//! The filled device overwritten by halves: each second row of pages of all dies, so that garbage collection means to copy.
//!
//! # Model
//! What is overwritten in order becomes invalid block by block, so that garbage collection costs an erase only, which a write buffer
//! hides. Where each second row is overwritten instead, half of each block stays valid: from where the over-provisioned
//! capacity is used up, each block that is erased has half of its rows copied first, which takes longer than what any
//! buffer holds. How much space is used up is told by what was written, wherever it went.
//!
//! A block of which half is copied reclaims blocks for half a block, so that the device comes to it twice in each unit that is
//! written. Where rows that are copied go to open blocks of their own, a block is free again only when two were
//! reclaimed, at once: then it is once in each unit. Which of them it is is not seen; so only devices are overwritten by halves that
//! have so few rows that blocks have fewer than two times the fewest rows: what comes back sooner than a block of the fewest
//! rows ends is half a unit, and what does not is a unit. These are also the devices of which so few units can be
//! overwritten in order that erases tell nothing.
//!
//! # Invariants
//! - dies share rows: so that no die has only valid blocks.

use flashlab_analysis::inference::Parameter;
use flashlab_analysis::priors;
use flashlab_analysis::signals::copied::{WINDOWS_MIN, few_copied};
use flashlab_analysis::signals::cycles::Cycle;
use flashlab_analysis::signals::figures::{mean, median};
use flashlab_analysis::signals::row_cycles::CYCLES_MOST;
use flashlab_analysis::signals::unit_rows::may_be_block;
use flashlab_base::Bytes;

use super::overwriting::{Overwriting, PredictedCycle, begin};
use crate::checkpoint::ReclaimUnit;
use crate::rule::Rule;
use crate::session::Session;

/// Blocks of each die, at least, where blocks do not have the fewest rows.
const BLOCKS_LEAST: u64 = 24;
/// The rules of the unit of which the half comes back, and of the unit itself.
const CLEAR_RULE: Rule = Rule::likely("every second row");
const APART: Rule = Rule::likely("every second row, whole block");
/// Writes are slow that take so many times what filling the device took, on average, of which none counts for more than so
/// many usual ones.
const SLOW: f64 = 2.5;
const OUTLIER: f64 = 4.0;

/// Nothing is overwritten yet: by halves, if pages are likely to lie anywhere, rows are few, and there is no SLC cache, which
/// takes what is written first; else in order.
pub(super) fn begin_usual(session: &Session<'_, '_>) -> Overwriting {
    let in_order = begin(session);
    let known = session.known();
    let by_halves = known.is_likely_to_map_pages() && !known.has_slc_cache();
    if by_halves { by_halves_if_few(session, in_order) } else { in_order }
}

/// Each second row of pages of all dies, if the rows are known and few. Blocks that are copied show behind a buffer as well, and what
/// is shorter is hidden by it, as maps that are written back.
fn by_halves_if_few(session: &Session<'_, '_>, in_order: Overwriting) -> Overwriting {
    let is_few = |row: &Bytes| {
        row.0.is_multiple_of(session.block().0)
            && session.capacity().0 / row.0 < BLOCKS_LEAST * 2 * priors::ROWS_LEAST
    };
    match in_order.row.filter(is_few) {
        Some(row) => Overwriting { size: row, one_in: 2, through: false, ..in_order },
        None => in_order,
    }
}

impl Overwriting {
    /// Whether it takes much longer than it took to fill the device: rows that are left out are copied at once, so that blocks
    /// are replaced and no blocks are collected from some place on.
    pub(super) fn is_slow(&self, nanos_per_byte: f64) -> bool {
        let usual = median(&self.writes);
        let cut: Vec<f64> = self.writes.iter().map(|cost| cost.min(OUTLIER * usual)).collect();
        mean(&cut) > SLOW * nanos_per_byte * self.size.0 as f64
    }

    /// Blocks that are copied, or erased, that few stalls tell. In order these are whole blocks.
    pub(super) fn look_for_few(&mut self, shortest: usize, later: usize) {
        let longest = self.both.len() / WINDOWS_MIN;
        let fits = |&period: &usize| self.one_in > 1 || may_be_block(period);
        let periods: Vec<usize> = (shortest.max(2)..=longest).filter(fits).collect();
        let seen = |cycle: Cycle| PredictedCycle {
            windows: (cycle.length - cycle.phase) / cycle.period.max(1),
            ..PredictedCycle::unconfirmed(cycle, [None; CYCLES_MOST], false, Some(cycle.phase))
        };
        // In order, where units are replaced, the first one may be before any stall.
        let begins =
            |cycle: &Cycle| cycle.phase >= if self.one_in > 1 { shortest } else { cycle.period.max(later) };
        self.seen = few_copied(&self.both, &periods).filter(begins).map(seen).or(self.seen);
    }

    /// Whether a unit was seen by halves, which is twice what comes back, or the same.
    pub(super) fn is_doubtful(&self) -> bool {
        self.one_in > 1 && self.unit().is_some_and(|unit| unit.onset.is_some())
    }

    /// Hands in the unit that was seen by halves.
    pub(super) fn tell_unit_of_halves(&self, session: &mut Session<'_, '_>) {
        let (Some(seen), Some(row)) = (self.unit(), self.row) else { return };
        let comes_back = Bytes(seen.size.0 / self.one_in);
        let apart = comes_back >= row * priors::ROWS_LEAST;
        let (size, meant) = if apart {
            (comes_back, "which is a whole block")
        } else {
            (seen.size, "which is half of a block")
        };
        session.fill_mut().unit = Some(ReclaimUnit { size, ..seen });
        let evidence = format!(
            "Overwriting every second multi-plane page of all dies makes the device copy a block once per {comes_back}, {meant}. This \
             begins after {} and was predicted {} times.",
            seen.onset.unwrap_or_default(),
            seen.predictions,
        );
        let basis = if apart { APART } else { CLEAR_RULE };
        let finding = Rule::found(Parameter::EraseBlockSize, size, basis, evidence);
        session.hand_in(finding.with(self.picture_of_unit(&seen)));
    }
}
