//! Distinguishes a merge from a seek, and a block map from log blocks, by the order of the writes.
//!
//! # Model
//! A device with several log blocks takes both patterns of this probe at the cost of a page:
//!
//! - Writes alternate between two regions, sequentially in each. Only a device with a single open block merges for
//!   them. So they show what switching regions costs any device: a jump, or another segment group. Writes to
//!   different regions that cost no more are no merges.
//! - A few pages of one block and die are rewritten in descending order, and no page adjoins the one before. A log
//!   block takes pages in any order. A device that only takes the next page of a block merges for nearly each of
//!   them.
//!
//! The second pattern uses the first block of the device: elsewhere, the pages might belong to two blocks.
//!
//! # Invariants
//! - Behind a write buffer nothing is concluded: it brings pages into order.

use crate::priors;
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::Parameter;
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::halt::{Halt, if_affordable};
use crate::patterns::writes::{apart, page_to_write, place, writes};
use crate::patterns::{in_turn, responses};
use crate::session::Session;

/// The writes of each pattern. Unit: writes. Source: choice. Too many: the budget is used up; too few:
/// log-block allocations decide.
const WRITES: u64 = 96;
/// The first writes of a pattern, which allocate log blocks and do not count. Unit: writes. Source:
/// [`priors::MERGES_DEFERRED`]. Too many: few writes count; too few: allocations count.
const ALLOCATING_WRITES: usize = 24;
/// The pages of one block that are written in descending order. Unit: pages. Source: derivation: with the
/// gap, within a block of 16 pages. Too many: they lie in two blocks; too few: each has a log block.
const PAGES_OF_BLOCK: u64 = 4;
/// The distance of these pages: none adjoins another one. Unit: pages. Source: derivation: the least that is
/// no neighbour. Too large: they lie in two blocks; too small: a block map takes them in order.
const PAGE_GAP: u64 = 2;

/// What the patterns cost.
pub(super) struct Orders {
    /// Two regions alternating, and a block's pages in descending order, relative to sequential pages.
    pub(super) turns: f64,
    downwards: Option<f64>,
    base: f64,
}

/// Writes both patterns; none where they are not affordable.
pub(super) fn orders(session: &mut Session<'_, '_>, base: f64) -> Result<Option<Orders>, Halt> {
    let page = page_to_write(session);
    if if_affordable(session.idle(priors::BACKLOG_DONE))?.is_none() {
        return Ok(None);
    }
    let usual = |session: &mut Session<'_, '_>, name, pattern| {
        let samples = if_affordable(session.run(name, &pattern))?;
        let tail = |costs: Vec<f64>| upper_median(&costs[ALLOCATING_WRITES.min(costs.len())..]) / base;
        Ok::<_, Halt>(samples.map(|samples| tail(responses(&samples))))
    };
    let begin = place(session, 0.23, Bytes::mib(1));
    // In another segment group, as most offsets are.
    let span = session.known().bytes(Parameter::SegmentGroupSpan);
    let other = span.map_or(place(session, 0.67, Bytes::mib(1)), |span| begin + span.round_up(page));
    if other.max(begin) + page * WRITES > session.capacity() {
        return Ok(None);
    }
    let ordered = |at, count| writes(Location::Sequential, page, count, at, page * WRITES);
    let turns = in_turn(ordered(begin, WRITES), ordered(other, WRITES / 2));
    let Some(turns) = usual(session, "two-in-turns", turns)? else { return Ok(None) };
    let mut downwards = None;
    if let Some(gap) = gap(session, page) {
        let mut cheapest = f64::INFINITY;
        for part in [0.0, 0.53] {
            let down = Location::Ordered { incr: -1 };
            let pattern =
                writes(down, page, WRITES, place(session, part, Bytes::mib(1)), gap * PAGES_OF_BLOCK);
            let Some(cost) = usual(session, "downwards", apart(pattern, gap))? else { return Ok(None) };
            cheapest = cheapest.min(cost);
        }
        downwards = Some(cheapest);
    }
    Ok(Some(Orders { turns, downwards, base }))
}

/// The distance of pages of one block and die that do not adjoin; none if the dies are not known.
fn gap(session: &Session<'_, '_>, page: Bytes) -> Option<Bytes> {
    let stripe = session.known().whole_stripe(page)?;
    let dies = session.known().count(Parameter::ParallelUnits)?.max(1);
    match stripe.0 / dies / page.0 {
        _ if dies == 1 => Some(page * PAGE_GAP),
        0 | 1 => Some(stripe * PAGE_GAP),
        pages if pages >= PAGES_OF_BLOCK * PAGE_GAP => Some(page * PAGE_GAP),
        _ => Some(stripe),
    }
}

impl Orders {
    /// Whether pages of one block have to be in order: against the order they cost a merge, and one of them repeatedly does not.
    pub(super) fn need_order(&self, in_place: f64) -> bool {
        self.downwards.is_some_and(|downwards| {
            downwards * self.base >= priors::MERGE_LEAST
                && downwards >= priors::MERGE_RATIO * in_place.max(1.0)
        })
    }

    /// Whether writes in different regions, this slow relative to sequential ones, may be seeks and no merges.
    pub(super) fn is_seek(&self, apart_cost: f64) -> bool {
        self.turns > priors::NO_MERGE_RATIO && self.turns * priors::NO_MERGE_RATIO > apart_cost
    }

    /// What was seen.
    pub(super) fn evidence(&self) -> String {
        let down = |cost| format!(", and a few pages of one block in descending order {cost:.1} x");
        let downwards = self.downwards.map_or(String::new(), down);
        format!("Writes that alternate between two regions take {:.1} x{downwards}.", self.turns)
    }
}
