//! The filled device overwritten by halves: each second row of pages of all dies, so that garbage collection means to copy.
//!
//! # Model
//! What is overwritten in order becomes invalid block by block, so that garbage collection costs an erase only, which a write buffer
//! hides. Where each second row is overwritten instead, half of each block stays valid: from where the over-provisioned
//! capacity is used up, each block that is erased has half of its rows copied first, which takes longer than what any
//! buffer holds. How much space is used up shows in what was written, wherever it went.
//!
//! A block of which half is copied reclaims blocks for half a block, so that the device comes to it twice in each unit that is
//! written. Where rows that are copied go to open blocks of their own, a block is free again only when two were
//! reclaimed, at once: then it is once in each unit. Which of them it is is not seen; so only devices are overwritten by halves that
//! have so few rows that blocks have fewer than two times the fewest rows: what comes back sooner than a block of the fewest
//! rows ends is half a unit, and what does not is a unit. These are also the devices of which so few units can be
//! overwritten in order that erases show nothing.
//!
//! # Invariants
//! - dies share rows: so that no die has only valid blocks.

use flashlab_analysis::inference::Parameter;
use flashlab_analysis::priors;
use flashlab_analysis::signals::overwritten::Overwritten;
use flashlab_base::Bytes;

use super::overwriting::{Overwriting, begin};
use crate::answers::erase_block::{self, Signal};
use crate::checkpoint::ReclaimUnit;
use crate::rule::Rule;
use crate::session::Session;

/// Blocks of each die, at least, where blocks do not have the fewest rows.
const BLOCKS_LEAST: u64 = 24;
/// The rules of the unit of which the half comes back, and of the unit itself.
const CLEAR_RULE: Rule = Rule::likely("every second row");
const APART: Rule = Rule::likely("every second row, whole block");
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
        Some(row) => {
            let trace = Overwritten { one_in: 2, writes_of_row: Some(1.0), ..in_order.trace };
            Overwriting { size: row, through: false, trace, ..in_order }
        }
        None => in_order,
    }
}

impl Overwriting {
    /// Whether a unit was seen by halves, which is twice what comes back, or the same.
    pub(super) fn is_doubtful(&self) -> bool {
        self.trace.one_in > 1 && self.unit().is_some_and(|unit| unit.onset.is_some())
    }

    /// Hands in the unit that was seen by halves.
    pub(super) fn hand_in_unit_of_halves(&self, session: &mut Session<'_, '_>) {
        let (Some(seen), Some(row)) = (self.unit(), self.row) else { return };
        let comes_back = Bytes(seen.size.0 / self.trace.one_in);
        let apart = comes_back >= row * priors::ROWS_LEAST;
        let (size, meant) = if apart {
            (comes_back, "which is a whole block")
        } else {
            (seen.size, "which is half of a block")
        };
        session.set_reclaim_unit(Some(ReclaimUnit { size, ..seen }));
        let evidence = format!(
            "Overwriting every second multi-plane page of all dies makes the device copy a block once per {comes_back}, {meant}. This \
             begins after {} and was predicted {} times.",
            seen.onset.unwrap_or_default(),
            seen.predictions,
        );
        let basis = if apart { APART } else { CLEAR_RULE };
        let finding = Rule::found(Parameter::EraseBlockSize, size, basis, evidence);
        let finding = finding.with(self.picture_of_unit(&seen));
        erase_block::hand_in(session, Signal::Overwriting, finding);
    }
}
