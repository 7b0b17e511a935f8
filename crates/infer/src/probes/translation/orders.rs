//! Whether what is slow are merges, and whether blocks take their pages in any order.
//!
//! # Model
//! Two patterns of which a device with several logs of one block each takes both for what pages cost:
//!
//! - two places far apart alternating, each of which goes on in order. Of the families that merge only what has one open block pays
//!   for it; so it shows what going from one place to another costs on any device, be it for a jump or for another segment group. What
//!   is slow far apart and no faster here may be nothing but that;
//! - a few pages of one block and die downwards, none next to the one before, repeatedly: a log takes pages in any order,
//!   but what takes only pages that continue it, or adjoin what it holds, merges for nearly each. One page repeatedly may
//!   cost it an erase only.
//!
//! The block of the second pattern begins with the device, as a block certainly does; elsewhere the pages may belong to two.
//!
//! # Invariants
//! - nothing is concluded behind a write buffer, which puts pages in order.

use crate::priors;
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::Parameter;
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::halt::{Halt, if_affordable};
use crate::patterns::writes::{apart, page_to_write, place, writes};
use crate::patterns::{in_turn, responses};
use crate::session::Session;

/// Writes of each pattern.
const WRITES: u64 = 96;
/// The first writes of a pattern do not count: they allocate log blocks.
const ALLOCATING: usize = 24;
/// Pages of a block, and how far apart they are: within blocks of sixteen pages.
const PAGES: u64 = 4;
const GAP: u64 = 2;

/// What the patterns cost.
pub(super) struct Orders {
    /// Two places alternating, and a block's pages downwards, relative to pages in sequence.
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
        let tail = |costs: Vec<f64>| upper_median(&costs[ALLOCATING.min(costs.len())..]) / base;
        Ok::<_, Halt>(samples.map(|samples| tail(responses(&samples))))
    };
    let begin = place(session, 0.23, Bytes::mib(1));
    // In another segment group, as most places are.
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
            let pattern = writes(down, page, WRITES, place(session, part, Bytes::mib(1)), gap * PAGES);
            let Some(cost) = usual(session, "downwards", apart(pattern, gap))? else { return Ok(None) };
            cheapest = cheapest.min(cost);
        }
        downwards = Some(cheapest);
    }
    Ok(Some(Orders { turns, downwards, base }))
}

/// How far apart pages of one block and die are that do not adjoin; none where the dies are not known.
fn gap(session: &Session<'_, '_>, page: Bytes) -> Option<Bytes> {
    let stripe = session.known().whole_stripe(page)?;
    let dies = session.known().count(Parameter::ParallelUnits)?.max(1);
    match stripe.0 / dies / page.0 {
        _ if dies == 1 => Some(page * GAP),
        0 | 1 => Some(stripe * GAP),
        pages if pages >= PAGES * GAP => Some(page * GAP),
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

    /// Whether what is so slow far apart, relative to pages in sequence, may be going there only.
    pub(super) fn is_going(&self, expensive: f64) -> bool {
        self.turns > priors::NO_MERGE_RATIO && self.turns * priors::NO_MERGE_RATIO > expensive
    }

    /// What was seen.
    pub(super) fn evidence(&self) -> String {
        let down = |cost| format!(", and a few pages of one block in descending order {cost:.1} x");
        let downwards = self.downwards.map_or(String::new(), down);
        format!("Writes that alternate between two regions take {:.1} x{downwards}.", self.turns)
    }
}
