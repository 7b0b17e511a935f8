//! How many logs are reclaimed in batches, where all blocks share them.
//!
//! # Model
//! Where several logs are reclaimed in batches, a page waits only once they are all full again: what is written from one such page to
//! the next is what all of them take. What a single one takes is the unit in which blocks are replaced: written in order from its beginning to
//! its end a log becomes the data block, and of one that is written to a part only the rest is copied behind it (switch and partial
//! merge; FAST, Lee et al., ACM TECS 6(3), 2007). So what may be a unit is written repeatedly, and so is its first half. Half of a
//! unit makes the device copy as much as is written; half of several units makes it copy nothing, or half of one of them. And
//! what is only a part of a unit costs more than in order when it is written again as a whole, too.
//!
//! Where merges are deferred, copying is not paid for by what causes it, and nothing follows.
//!
//! # Invariants
//! - a number is told only if the unit is seen; the largest unit that it may be is looked at first;
//! - the first of each kind of writes, which clears away what was there, does not count.

use flashlab_analysis::signals::figures::median;
use flashlab_analysis::signals::full_logs::LOG_ROWS_LEAST;
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::writes::{costs_of, place, planes, writes};
use crate::session::Session;

/// How often each is written.
const TIMES: u64 = 4;
/// One in so many of the bytes that may be written yet is enough for it.
const PART: u64 = 4;
/// Halves of a unit take so many times what they take in order at least: more than those of three units, of which a third as much
/// is copied as is written.
const HALVES_COST: f64 = 1.7;
/// Whole units take so many times what they take in order at most. If what is written were a part of a unit, whose rest is
/// copied each time, halves of it would take less than [`HALVES_COST`] yet.
const WHOLE_COSTS: f64 = 1.15;

/// How many logs take `span` together, of `pages` pages on each die; `None` where no unit is seen.
pub(super) fn batch_size(
    session: &mut Session<'_, '_>,
    span: Bytes,
    pages: usize,
) -> Result<Option<usize>, Halt> {
    let most = pages / (LOG_ROWS_LEAST * planes(session) as usize);
    for logs in (1..=most).filter(|&logs| pages.is_multiple_of(logs)) {
        if is_unit(session, span, Bytes(span.0 / logs as u64))? {
            return Ok(Some(logs));
        }
    }
    Ok(None)
}

/// Whether this part of `span` is replaced as a whole, and its half is not; not if that is not affordable.
fn is_unit(session: &mut Session<'_, '_>, span: Bytes, unit: Bytes) -> Result<bool, Halt> {
    let half = Bytes(unit.0 / 2);
    let needed = unit * (3 * TIMES);
    if !half.0.is_multiple_of(session.block().0)
        || needed > Bytes(session.writes_left().0 / PART)
        || (span + unit * TIMES) * 2 > session.capacity()
    {
        return Ok(false);
    }
    let origin = place(session, 0.45, span);
    let halves = |count, offset, length| writes(Location::Sequential, half, count, offset, length);
    let pairs =
        |costs: &[f64]| median(&costs[2..].chunks_exact(2).map(|pair| pair[0] + pair[1]).collect::<Vec<_>>());
    let fresh = halves(2 * TIMES, origin + span, unit * TIMES);
    let in_order = pairs(&costs_of(session, "units-in-order", &fresh)?).max(1.0);
    let first_half = costs_of(session, "half-again", &halves(TIMES, origin, half))?;
    if 2.0 * median(&first_half[1..]) < HALVES_COST * in_order {
        return Ok(false);
    }
    let whole = costs_of(session, "whole-again", &halves(2 * TIMES, origin, unit))?;
    Ok(pairs(&whole) <= WHOLE_COSTS * in_order)
}
