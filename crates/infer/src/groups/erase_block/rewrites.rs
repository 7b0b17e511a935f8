//! Whether a unit is replaced as a whole.
//!
//! # Model
//! Where blocks are merged, writing a whole unit again and again replaces it, which costs an erase; writing its first half
//! again and again makes the device copy the other half each time. A multiple of the unit does not cost more in halves,
//! and a part of it is as expensive as its half.
//!
//! # Invariants
//! - whole units and halves alternate, and the first of each, which clears away what was there, does not count.

use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::groups::figures::median;
use crate::groups::writes::{costs_of, place, writes};
use crate::halt::Halt;
use crate::session::Session;

/// Times that a unit is written whole and in halves.
const REWRITES: u64 = 6;
/// Halves cost at least this much more, and whole units at most this much more than in sequence.
const HALVES_COST: f64 = 1.4;
const WHOLE_COSTS: f64 = 1.25;

/// Whether a whole unit can be replaced for what it costs in sequence, and half of it cannot; none where there is not
/// enough budget for it.
pub(super) fn rewrite(session: &mut Session<'_, '_>, span: Bytes) -> Result<Option<bool>, Halt> {
    let half = Bytes(span.0 / 2);
    let needed = span * (3 * REWRITES + 2);
    if !half.0.is_multiple_of(session.block().0)
        || needed > Bytes(session.writes_left().0 / 2)
        || span * 8 > session.capacity()
    {
        return Ok(None);
    }
    let origin = place(session, 0.45, span);
    let again = |size, count| writes(Location::Sequential, size, count, origin, size);
    let mut sequence = Vec::new();
    let (mut whole, mut halves) = (Vec::new(), Vec::new());
    for round in 0..2 {
        let count = REWRITES / 2;
        let fresh = origin + span * (1 + round * count);
        let fresh = writes(Location::Sequential, span, count, fresh, span * count);
        sequence.extend(costs_of(session, "whole-in-sequence", &fresh)?);
        // The first of each clears away what was there.
        whole.extend_from_slice(&costs_of(session, "whole-again", &again(span, count + 1))?[1..]);
        let pairs = costs_of(session, "half-again", &again(half, 2 * count + 2))?;
        halves.extend(pairs[2..].chunks_exact(2).map(|pair| pair[0] + pair[1]));
    }
    let dearer = mann_whitney(&halves, &whole).p_above <= 0.02;
    let halves_cost = median(&halves) / median(&whole).max(1.0);
    let whole_costs = median(&whole) / median(&sequence).max(1.0);
    Ok(Some(dearer && halves_cost >= HALVES_COST && whole_costs <= WHOLE_COSTS))
}
