//! Finds the read page from reads across boundaries, one at a time.
//!
//! # Model
//! A read of two blocks across a page boundary needs two pages; the same read beside the boundary needs one. The
//! second page of the same multi-plane page costs its transfer. In the next one of the same die it costs sensing as
//! well. On another die it costs nothing, or its transfer on a shared channel. So pages that all lie on different
//! dies do not show.
//!
//! # Method
//! 1. Boundaries of 2^k bytes: the page is the smallest one that costs something.
//! 2. In another region the page costs the same, and half of it costs nothing, up to a few per cent.
//!
//! # Invariants
//! - If a page may be one block, nothing is concluded: each read of two blocks needs two pages.

use std::ops::Range;

use crate::flash_layout::Crossings;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;

use crate::halt::Halt;
use crate::patterns::in_turn;
use crate::patterns::reads::{Walk, compare_each, how_many_times, room};
use crate::rule::Rule;
use crate::session::Session;
use crate::words::times;

/// The largest boundary that may be a page. Source: choice: four times the largest page of ONFI 4.2. Too
/// large: boundaries of chunks count as pages; too small: large pages are not found.
const BOUNDARY_MAX: Bytes = Bytes::kib(64);
/// The smallest IO from which on a page may be one IO, so that each read across needs two pages. Source: ONFI
/// 4.2: pages are 2 KiB or more. Too small: pages of one IO count as found; too large: they stay
/// undetermined.
const BLOCK_COARSE: Bytes = Bytes::kib(2);
/// A read across a page boundary takes at least this many times a read beside it. Unit: ratio. Source: tuned.
/// Too high: pages behind a slow link are not found; too low: drift is a page.
const CROSSING_LEAST: f64 = 1.012;
/// What the boundary of half a page may cost, as a share of what the page's costs: less than a transfer.
/// Unit: share. Source: tuned. Too high: half of the page is missed; too low: noise refutes the page.
const HALF_COST_MOST: f64 = 0.04;
/// The distance between boundaries that are compared: short enough that there are [`PLACES`] of them on small
/// devices. Source: choice. Too large: few boundaries fit; too small: neighbouring boundaries are in one
/// read-ahead.
const SLOTS: Range<Bytes> = Bytes::kib(32)..Bytes::kib(128);
/// The boundaries that are compared, where the device has them. Unit: boundaries. Source: choice. Too many:
/// slots are small; too few: one slow page decides.
const PLACES: u64 = 32;
/// The fewest boundaries that are compared. Unit: boundaries. Source: choice. Too many: small devices have no
/// page; too few: one slow page decides.
const PLACES_MIN: u64 = 8;
/// The part of the device that is read: switching between segment groups must not cost anything. Source:
/// choice. Too large: a map that does not fit in memory is read; too small: a read cache answers.
const RANGE_MOST: Bytes = Bytes::mib(64);

/// Where boundaries are looked at.
#[derive(Clone, Copy)]
struct Boundaries {
    base: Bytes,
    /// From one boundary to the next.
    slot: Bytes,
}

/// What crossing boundaries of powers of two costs.
struct Ladder {
    boundaries: Boundaries,
    costs: Vec<(Bytes, Interval)>,
}

impl Ladder {
    /// The smallest boundary that costs something.
    fn first(&self) -> Option<usize> {
        self.costs.iter().position(|(_, cost)| cost.low > CROSSING_LEAST)
    }
}

/// A page that was found.
pub(crate) struct Page {
    pub(crate) size: Bytes,
    pub(crate) finding: Finding,
    /// What a layout has to explain as well.
    pub(crate) crossings: Crossings,
}

/// The page, or what was seen instead.
pub(crate) fn page(session: &mut Session<'_, '_>) -> Result<Result<Page, Finding>, Halt> {
    let ladder = ladder(session)?;
    let first = ladder.first();
    let Ladder { boundaries, costs } = ladder;
    let picture = Picture::new(
        "Time of small reads across a boundary relative to reads beside it: pages end where it rises.",
        Axis::logarithmic("boundary", "bytes"),
        Axis::linear("across, relative to beside", "ratio"),
    );
    let points = costs.iter().map(|(boundary, cost)| (boundary.0 as f64, cost.estimate)).collect();
    let picture = picture.draw("across / beside", Style::Line, points);
    let words: Vec<String> =
        costs.iter().map(|(boundary, cost)| format!("{} at {boundary}", times(cost.estimate))).collect();
    let figures = format!(
        "Small reads across a page boundary take longer than beside it. Measured at multiples of each size: {}.",
        words.join(", ")
    );
    let undetermined = |evidence: String| Finding::undetermined(Parameter::ReadPageSize, evidence);
    let Some(first) = first else { return Ok(Err(undetermined(figures).with(picture))) };
    let size = costs[first].0;
    // Of reads of two blocks each needs two pages where a page is a block: what is seen may be rows.
    if size <= session.block() * 2 && session.block() >= BLOCK_COARSE {
        return Ok(Err(undetermined(figures).with(picture)));
    }
    let Some(rule) = verify(session, boundaries, size)? else {
        return Ok(Err(
            undetermined(format!("{figures} In another region it is not the same.")).with(picture)
        ));
    };
    let picture = picture.mark(size.0 as f64, "page");
    let finding = Rule::found(Parameter::ReadPageSize, size, rule, figures).with(picture);
    let ratios = costs.iter().skip(1).map(|&(boundary, cost)| (boundary.0, cost)).collect();
    let crossings = Crossings { block: session.block().0, page: size.0, slot: boundaries.slot.0, ratios };
    Ok(Ok(Page { size, finding, crossings }))
}

/// What crossing boundaries of powers of two costs.
fn ladder(session: &mut Session<'_, '_>) -> Result<Ladder, Halt> {
    let slot = Bytes(room(session).0 / PLACES).max(SLOTS.start).min(SLOTS.end);
    let boundaries = Boundaries { base: Bytes::ZERO, slot: Bytes(slot.0.next_power_of_two()) };
    // No read is smaller than a block.
    let mut costs = vec![(session.block(), Interval { estimate: 1.0, low: 1.0, high: 1.0 })];
    let mut boundary = session.block() * 2;
    while boundary <= BOUNDARY_MAX && boundary.0 * 2 <= boundaries.slot.0 {
        costs.push((boundary, cost(session, boundaries, boundary, 8)?));
        boundary = boundary * 2;
    }
    Ok(Ladder { boundaries, costs })
}

/// What reads across the slots' boundaries at `boundary` take, relative to reads before and after them in turn.
fn cost(
    session: &mut Session<'_, '_>,
    boundaries: Boundaries,
    boundary: Bytes,
    rounds: usize,
) -> Result<Interval, Halt> {
    let block = session.block();
    let slots = |room: Bytes| {
        let left = room.0.saturating_sub((boundaries.base + boundary + block * 2).0);
        left.min(RANGE_MOST.0) / boundaries.slot.0
    };
    let (room, filled) = (room(session), session.filled_until());
    // While the device is filled, what holds no data yet shows nothing, but where next to nothing could be filled.
    let count = Some(slots(filled.min(room))).filter(|&count| count >= PLACES_MIN).unwrap_or(slots(room));
    if count < PLACES_MIN {
        return Err(Halt::Misfit("it has too few offsets to compare".to_owned()));
    }
    let walk = |offset: Bytes| {
        let walk = Walk { offset: boundaries.base + offset, slot: boundaries.slot, size: block * 2 };
        walk.random(boundaries.slot * count, 25, 1)
    };
    let patterns = [in_turn(walk(boundary - block * 2), walk(boundary)), walk(boundary - block)];
    let figures = compare_each(session, "across-boundaries", &patterns, rounds)?;
    Ok(how_many_times(&figures[0], &figures[1]))
}

/// Whether it is the page elsewhere as well, by which rule.
fn verify(session: &mut Session<'_, '_>, boundaries: Boundaries, page: Bytes) -> Result<Option<Rule>, Halt> {
    if page <= session.block() {
        return Ok(Some(Rule::strong("boundary of one block")));
    }
    let base = Bytes(room(session).0 / 16).round_down(boundaries.slot);
    let boundaries = Boundaries { base, ..boundaries };
    let whole = cost(session, boundaries, page, 12)?;
    if whole.low <= CROSSING_LEAST {
        return Ok(None);
    }
    let limit = 1.0 + HALF_COST_MOST * (whole.estimate - 1.0);
    let mut rule = None;
    let half = Bytes(page.0 / 2);
    if half < session.block() * 2 || !half.0.is_multiple_of(session.block().0) {
        return Ok(Some(Rule::strong("boundary, no half")));
    }
    for rounds in [16, 48, 120] {
        let half = cost(session, boundaries, half, rounds)?;
        if half.low > 1.0 + 2.5 * HALF_COST_MOST * (whole.estimate - 1.0) {
            return Ok(None);
        }
        // Nothing, as far as can be seen; clearly less than a transfer only where that can be distinguished from it.
        rule = Some(if half.high < limit {
            Rule::strong("boundary, half costs nothing")
        } else {
            Rule::likely("boundary, half unclear")
        });
        if half.high < limit {
            break;
        }
    }
    Ok(rule)
}
