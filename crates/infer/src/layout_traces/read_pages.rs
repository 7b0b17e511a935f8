//! The page that is read, from reads across boundaries, one at a time.
//!
//! # Model
//! A read of two blocks across the boundary
//! of a page needs two pages; two reads beside it need one each. Of two pages of a row (planes) the second costs its
//! transfer; in the next row of the same die it costs the array's time as well; on another die nothing, or its transfer
//! where the channel is the same. So pages that all lie on different dies are not seen here.
//!
//! # Method
//! Boundaries of 2^k: the page is the smallest that costs something. Elsewhere as well, and half of it does not, within
//! 3 % of that.

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

/// The largest boundary that is looked at for a page.
const BOUNDARY_MAX: Bytes = Bytes::kib(64);
/// A block of this much may be a page.
const BLOCK_COARSE: Bytes = Bytes::kib(2);
/// What lying across must cost, at least, relative to a read beside it.
const COST_MIN: f64 = 1.012;
/// What half a page's boundary may cost, relative to the page's: less than any transfer.
const HALF_MAX: f64 = 0.04;
/// How far boundaries are apart, so that there are enough of them.
const SLOT: Range<Bytes> = Bytes::kib(32)..Bytes::kib(128);
const PLACES: u64 = 32;
/// The fewest that are compared.
const PLACES_MIN: u64 = 8;
/// The part of the device that is read, as far as going there costs nothing.
const RANGE: Bytes = Bytes::mib(64);

/// Where boundaries are looked at.
#[derive(Clone, Copy)]
struct Places {
    base: Bytes,
    /// From one boundary to the next.
    slot: Bytes,
}

/// What crossing boundaries of powers of two costs.
struct Ladder {
    places: Places,
    costs: Vec<(Bytes, Interval)>,
}

impl Ladder {
    /// The smallest boundary that costs something.
    fn first(&self) -> Option<usize> {
        self.costs.iter().position(|(_, cost)| cost.low > COST_MIN)
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
    let Ladder { places, costs } = ladder;
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
    let Some(rule) = verify(session, places, size)? else {
        return Ok(Err(
            undetermined(format!("{figures} In another region it is not the same.")).with(picture)
        ));
    };
    let picture = picture.mark(size.0 as f64, "page");
    let finding = Rule::found(Parameter::ReadPageSize, size, rule, figures).with(picture);
    let ratios = costs.iter().skip(1).map(|&(boundary, cost)| (boundary.0, cost)).collect();
    let crossings = Crossings { block: session.block().0, page: size.0, slot: places.slot.0, ratios };
    Ok(Ok(Page { size, finding, crossings }))
}

/// What crossing boundaries of powers of two costs.
fn ladder(session: &mut Session<'_, '_>) -> Result<Ladder, Halt> {
    let slot = Bytes(room(session).0 / PLACES).max(SLOT.start).min(SLOT.end);
    let places = Places { base: Bytes::ZERO, slot: Bytes(slot.0.next_power_of_two()) };
    // No read is smaller than a block.
    let mut costs = vec![(session.block(), Interval { estimate: 1.0, low: 1.0, high: 1.0 })];
    let mut boundary = session.block() * 2;
    while boundary <= BOUNDARY_MAX && boundary.0 * 2 <= places.slot.0 {
        costs.push((boundary, cost(session, places, boundary, 8)?));
        boundary = boundary * 2;
    }
    Ok(Ladder { places, costs })
}

/// What reads across the slots' boundaries at `boundary` take, relative to reads before and after them in turn.
fn cost(
    session: &mut Session<'_, '_>,
    places: Places,
    boundary: Bytes,
    rounds: usize,
) -> Result<Interval, Halt> {
    let block = session.block();
    let slots = |room: Bytes| {
        let left = room.0.saturating_sub((places.base + boundary + block * 2).0);
        left.min(RANGE.0) / places.slot.0
    };
    let (room, filled) = (room(session), session.filled_until());
    // While the device is filled, what holds no data yet shows nothing, but where next to nothing could be filled.
    let count = Some(slots(filled.min(room))).filter(|&count| count >= PLACES_MIN).unwrap_or(slots(room));
    if count < PLACES_MIN {
        return Err(Halt::Misfit("it has too few offsets to compare".to_owned()));
    }
    let walk = |offset: Bytes| {
        let walk = Walk { offset: places.base + offset, slot: places.slot, size: block * 2 };
        walk.random(places.slot * count, 25, 1)
    };
    let patterns = [in_turn(walk(boundary - block * 2), walk(boundary)), walk(boundary - block)];
    let figures = compare_each(session, "across-boundaries", &patterns, rounds)?;
    Ok(how_many_times(&figures[0], &figures[1]))
}

/// Whether it is the page elsewhere as well, by which rule.
fn verify(session: &mut Session<'_, '_>, places: Places, page: Bytes) -> Result<Option<Rule>, Halt> {
    if page <= session.block() {
        return Ok(Some(Rule::strong("boundary of one block")));
    }
    let base = Bytes(room(session).0 / 16).round_down(places.slot);
    let places = Places { base, ..places };
    let whole = cost(session, places, page, 12)?;
    if whole.low <= COST_MIN {
        return Ok(None);
    }
    let limit = 1.0 + HALF_MAX * (whole.estimate - 1.0);
    let mut rule = None;
    let half = Bytes(page.0 / 2);
    if half < session.block() * 2 || !half.0.is_multiple_of(session.block().0) {
        return Ok(Some(Rule::strong("boundary, no half")));
    }
    for rounds in [16, 48, 120] {
        let half = cost(session, places, half, rounds)?;
        if half.low > 1.0 + 2.5 * HALF_MAX * (whole.estimate - 1.0) {
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
