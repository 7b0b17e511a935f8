//! The page that is read, and how many of them one operation of the flash brings, from reads across boundaries.
//!
//! # Model
//! As `flashlab_analysis::decide::boundaries`, made to be seen on any device. A read of two blocks across the boundary
//! of a page needs two pages; two reads beside it need one each. Of two pages of a row (planes) the second costs its
//! transfer; in the next row of the same die it costs the array's time as well; on another die nothing, or its transfer
//! where the channel is the same. One read at a time does not show pages on different dies; where the
//! stripe over the dies is known, several are kept in flight that have the same place in each stripe: then it is
//! the dies' time that counts.
//!
//! # Probes
//! 1. Boundaries of 2^k: the page is the smallest that costs something. Elsewhere as well, and half of it does not, within
//!    3 % of that.
//! 2. The boundaries of 1, 2, 3 ... pages within a die: every `planes`-th costs more than the others. Where all cost the
//!    same, they are all rows if they cost what another read of the die does, and none is if they cost less.

use flashlab_analysis::decide::ranks::{Interval, mann_whitney};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;

use super::figures::median;
use super::ground::Ground;
use super::reads::{Walk, compare, compare_each, in_turn, times};
use crate::session::{Halt, Session};

/// The largest boundary that is looked at for a page.
const BOUNDARY_MAX: Bytes = Bytes::kib(64);
/// A block of so much may be a page.
const BLOCK_COARSE: Bytes = Bytes::kib(2);
/// What lying across must cost, at least, relative to a read beside it.
const COST_MIN: f64 = 1.012;
/// What half a page's boundary may cost, relative to the page's: less than any transfer.
const HALF_MAX: f64 = 0.04;
/// Boundaries of so many pages are looked at for planes.
const PAGES_MAX: u64 = 16;
/// The share of the time for reading that they may take.
const TIME_SHARE: f64 = 0.08;
/// Costs that differ by less than this share are the same: less than the array's part in a read.
const SAME: f64 = 0.08;
/// Costs that scatter less than this are of one kind.
const ALIKE: f64 = 0.25;
/// Of rows that are seen: in cache mode an operation of several rows looks like one.
const ROWS_SURE: f64 = 0.93;
/// The chance that every so many pages seem to cost more; also where all of them do.
const ALPHA: f64 = 0.002;
const ALPHA_APART: f64 = 0.04;
/// More planes than this are rather rows that cannot be seen, as when they are read while the last one is transferred.
const PLANES_USUAL: u64 = 4;
/// Pages after which rows of 1, 2, 3, 4, 6, 8 and 12 pages begin together.
const ROWS: u64 = 24;

/// Where boundaries are looked at, and how.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    /// From one boundary to the next.
    pub(crate) slot: Bytes,
    pub(crate) ground: Ground,
    pub(crate) depth: u32,
    /// Reads beside a boundary are of so many blocks: two, or one where a page is a block.
    pub(crate) beside: u64,
}

/// How reads across boundaries compare with reads beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Relative to those beside.
    pub(crate) relative: Interval,
    /// What a read beside takes, in nanoseconds.
    pub(crate) beside: f64,
}

impl Cost {
    /// What lying across takes more, in nanoseconds.
    pub(crate) fn nanos(&self) -> f64 {
        (self.relative.estimate - 1.0) * self.beside
    }
}

/// A page that was found.
pub(crate) struct Page {
    pub(crate) size: Bytes,
    pub(crate) finding: Finding,
}

/// The page, or what was seen instead.
pub(crate) fn page(session: &mut Session<'_, '_>, places: Places) -> Result<Result<Page, Finding>, Halt> {
    let mut costs: Vec<(Bytes, Interval)> = Vec::new();
    let mut boundary = session.block();
    while boundary <= BOUNDARY_MAX && boundary.0 * 2 <= places.slot.0 {
        let cost = if boundary == session.block() {
            within_block(session, places)?
        } else {
            cost(session, places, boundary, 8)?.relative
        };
        costs.push((boundary, cost));
        boundary = boundary * 2;
    }
    let picture = Picture::new(
        "How much longer small reads take across boundaries than beside them.",
        Axis::logarithmic("boundary", "bytes"),
        Axis::linear("across, relative to beside", "ratio"),
    );
    let points = costs.iter().map(|(boundary, cost)| (boundary.0 as f64, cost.estimate)).collect();
    let picture = picture.draw("across / beside", Style::Line, points);
    let words: Vec<String> =
        costs.iter().map(|(boundary, cost)| format!("{boundary}: {:.2}", cost.estimate)).collect();
    let figures = format!("reads across boundaries, relative to beside them: {}", words.join(", "));
    let undetermined = |evidence: String| Finding::undetermined(Parameter::ReadPageSize, evidence);
    let first = costs.iter().position(|(_, cost)| cost.low > COST_MIN);
    let Some(first) = first else { return Ok(Err(undetermined(figures).with(picture))) };
    let size = costs[first].0;
    // Of reads of two blocks each needs two pages where a page is a block: what is seen may be rows.
    if places.depth == 1 && size <= session.block() * 2 && session.block() >= BLOCK_COARSE {
        return Ok(Err(undetermined(figures).with(picture)));
    }
    let Some(confidence) = verify(session, places, size)? else {
        return Ok(Err(undetermined(format!("{figures}; elsewhere it is not the same")).with(picture)));
    };
    let picture = picture.mark(size.0 as f64, "page");
    let finding = Finding::found(Parameter::ReadPageSize, size, confidence, figures).with(picture);
    Ok(Ok(Page { size, finding }))
}

/// What reads of two blocks take beside reads of the first one, where the link does not count, which is where several on
/// one die are in flight.
fn within_block(session: &mut Session<'_, '_>, places: Places) -> Result<Interval, Halt> {
    if places.depth == 1 {
        return Ok(Interval { estimate: 1.0, low: 1.0, high: 1.0 });
    }
    let count = 24 + u64::from(places.depth);
    let [one, two] = [1, 2].map(|blocks| {
        let walk = Walk { offset: Bytes::ZERO, slot: places.slot, size: session.block() * blocks };
        places.ground.random(session, walk, count, places.depth)
    });
    let patterns = [one, two];
    places.ground.warm(session, &patterns)?;
    let figures = compare(session, "one-and-two-blocks", &patterns, 12)?;
    Ok(times(&figures[0], &figures[1]))
}

/// What reads across the slots' boundaries at `boundary` take, beside reads before and after them in turn.
pub(crate) fn cost(
    session: &mut Session<'_, '_>,
    places: Places,
    boundary: Bytes,
    rounds: usize,
) -> Result<Cost, Halt> {
    let block = session.block();
    let count = 24 + u64::from(places.depth);
    if places.ground.slots(session, places.slot, boundary + block * 2) < 8 {
        return Err(Halt::Misfit("it has too few places to compare".to_owned()));
    }
    let beside = block * places.beside;
    let walk = |offset: Bytes, size: Bytes| {
        let walk = Walk { offset, slot: places.slot, size };
        places.ground.random(session, walk, count, places.depth)
    };
    let patterns =
        [in_turn(walk(boundary - beside, beside), walk(boundary, beside)), walk(boundary - block, block * 2)];
    places.ground.warm(session, &patterns)?;
    let figures = match places.depth {
        1 => compare_each(session, "across-boundaries", &patterns, rounds)?,
        _ => compare(session, "across-boundaries", &patterns, rounds)?,
    };
    let beside = median(&figures[0]) / f64::from(places.depth);
    Ok(Cost { relative: times(&figures[0], &figures[1]), beside })
}

/// Whether it is the page elsewhere as well, with how much confidence.
fn verify(session: &mut Session<'_, '_>, places: Places, page: Bytes) -> Result<Option<f64>, Halt> {
    if page <= session.block() {
        return Ok(Some(0.9));
    }
    let places = Places { ground: places.ground.elsewhere(session), ..places };
    let whole = cost(session, places, page, 12)?.relative;
    if whole.low <= COST_MIN {
        return Ok(None);
    }
    let limit = 1.0 + HALF_MAX * (whole.estimate - 1.0);
    let mut confidence = None;
    if page.0 / 2 <= session.block().0 {
        return Ok(Some(0.9));
    }
    for rounds in [16, 48, 120] {
        let half = cost(session, places, Bytes(page.0 / 2), rounds)?.relative;
        if half.low > 1.0 + 2.5 * HALF_MAX * (whole.estimate - 1.0) {
            return Ok(None);
        }
        // Nothing, as far as can be seen; surely less than a transfer only where that can be told from it.
        confidence = Some(if half.high < limit { 0.98 } else { 0.85 });
        if half.high < limit {
            break;
        }
    }
    Ok(confidence)
}

/// What lies on one die, where planes are looked for.
#[derive(Clone, Copy)]
pub(crate) enum OnDie {
    /// Everything.
    All,
    /// So many bytes, and the next ones on another.
    Chunk(Bytes),
}

/// Every how many pages lying across costs more, within a die.
pub(crate) fn planes(
    session: &mut Session<'_, '_>,
    places: Places,
    page: Bytes,
    dies: OnDie,
) -> Result<Finding, Halt> {
    let (most, places) = match dies {
        OnDie::All => (PAGES_MAX, Places { slot: page * ROWS, ..places }),
        OnDie::Chunk(chunk) => ((chunk.0 / page.0).clamp(1, PAGES_MAX + 1) - 1, places),
    };
    if most == 0 {
        let evidence = "a chunk is one page: what one operation of the flash brings more is on another die";
        return Ok(Finding::found(Parameter::PlanesReadAtOnce, 1u64, 0.9, evidence));
    }
    let begin = session.time_left();
    let first = cost(session, places, page, 8)?;
    let once = begin.since(session.time_left()).0.max(1);
    let rounds = (begin.0 as f64 * TIME_SHARE / (most * once) as f64 * 8.0) as usize;
    let mut costs: Vec<(u64, f64)> = Vec::new();
    for pages in 1..=most {
        let cost = cost(session, places, page * pages, rounds.clamp(8, 64))?;
        costs.push((pages, cost.relative.estimate - 1.0));
    }
    let picture = Picture::new(
        "How much longer small reads take across boundaries of pages than beside them.",
        Axis::linear("pages", ""),
        Axis::linear("across, relative to beside", "ratio"),
    );
    let points = costs.iter().map(|&(pages, cost)| (pages as f64, 1.0 + cost)).collect();
    let picture = picture.draw("across / beside", Style::Dots, points);
    let words: Vec<String> = costs.iter().map(|(_, cost)| format!("{:.2}", 1.0 + cost)).collect();
    let figures =
        format!("reads across the boundary of 1, 2, 3 ... pages, relative to beside it: {}", words.join(" "));
    let found = match (row(&costs), dies) {
        (Some(planes), _) => (planes <= PLANES_USUAL).then_some((planes, ROWS_SURE)),
        (None, OnDie::All) if are_alike(&costs) => Some((1, 0.7)),
        (None, OnDie::Chunk(chunk)) if are_alike(&costs) => {
            let planes = chunk.0 / page.0;
            let is_row = planes <= PLANES_USUAL && is_row(session, places, page, chunk, first)?;
            Some(if is_row { (planes, 0.8) } else { (1, 0.85) })
        }
        _ => None,
    };
    Ok(match found {
        Some((planes, confidence)) => {
            let picture = if planes > 1 { picture.mark(planes as f64, "row") } else { picture };
            Finding::found(Parameter::PlanesReadAtOnce, planes, confidence, figures).with(picture)
        }
        None => Finding::undetermined(Parameter::PlanesReadAtOnce, figures).with(picture),
    })
}

/// Whether the costs differ by less than any time of the array, as far as can be seen.
fn are_alike(costs: &[(u64, f64)]) -> bool {
    let (least, most) = ends(&costs.iter().map(|&(_, cost)| cost).collect::<Vec<_>>());
    least > 0.0 && most - least < ALIKE * (most + least) / 2.0
}

/// The number of pages of which every multiple costs clearly more than everything between. Where another operation
/// begins at some of these, they may cost still more.
fn row(costs: &[(u64, f64)]) -> Option<u64> {
    let parts = |planes: u64| -> (Vec<f64>, Vec<f64>) {
        let (row, within): (Vec<_>, Vec<_>) = costs.iter().partition(|(pages, _)| pages % planes == 0);
        let figures = |part: Vec<&(u64, f64)>| part.into_iter().map(|&(_, cost)| cost).collect();
        (figures(row), figures(within))
    };
    let is_gap = |&planes: &u64| {
        let (row, within) = parts(planes);
        let (least, most) = ends(&within);
        let (row_least, row_most) = ends(&row);
        let gap = row_least - most;
        gap > 1.5 * (most - least) && gap > SAME * row_most
    };
    // Where figures scatter more: their ranks.
    let is_higher = |&planes: &u64| {
        let (row, within) = parts(planes);
        let p = mann_whitney(&row, &within).p_above;
        let apart = ends(&row).0 > ends(&within).1;
        median(&row) > (1.0 + SAME) * median(&within) && (p < ALPHA || apart && p < ALPHA_APART)
    };
    let all = 2..=costs.len() as u64;
    all.clone().find(is_gap).or_else(|| all.clone().find(is_higher))
}

/// The least and the most.
fn ends(costs: &[f64]) -> (f64, f64) {
    costs.iter().fold((f64::MAX, 0.0_f64), |(least, most), &cost| (least.min(cost), most.max(cost)))
}

/// Of boundaries that all cost the same: whether they are within one row. `first` is what one of them costs.
fn is_row(
    session: &mut Session<'_, '_>,
    places: Places,
    page: Bytes,
    chunk: Bytes,
    first: Cost,
) -> Result<bool, Halt> {
    let alone = cost(session, Places { depth: 1, ..places }, page, 64)?;
    let slot = Bytes(places.slot.0.max(chunk.0 * 2) / (chunk.0 * 2) * chunk.0 * 2);
    let next = cost(session, Places { depth: 1, slot, ..places }, chunk, 64)?;
    // The next chunk is on another die: that costs a transfer where the channel is the same.
    if next.nanos() > 0.1 * alone.nanos() {
        return Ok(alone.nanos() < (1.0 + SAME) * next.nanos());
    }
    if places.depth == 1 {
        return Ok(alone.nanos() < 0.45 * alone.beside);
    }
    // What a die takes for both pages is twice what another row costs, and more than twice a transfer.
    let both = first.beside * first.relative.estimate;
    Ok(both > (1.0 + SAME / 3.0) * 2.0 * alone.nanos())
}
