//! The page that is read, and how many of them one operation of the flash brings, from reads across boundaries.
//!
//! # Model
//! As `flashlab_analysis::decide::boundaries`, made to be seen on any device. A read of two blocks across the boundary
//! of a page needs two pages; two reads beside it need one each. One read at a time shows that only where both pages
//! are on one die: on two dies they are read at once. With several in flight it is the dies' time that counts: so
//! where the stripe over the dies is known, the reads have the same place in each stripe (all on one die or two), and
//! are compared with reads before and after the boundary in turn, which use the same dies. Across two rows that is
//! twice the work; across two pages of a row (planes) one transfer more.
//!
//! # Probes
//! 1. Boundaries of 2^k: the page is the smallest that costs something, and all larger ones do.
//! 2. Again elsewhere: the page's boundary costs something, half of it does not, within 3 % of that.
//! 3. The boundaries of 1, 2, 3 ... pages: every `planes`-th costs more than the others.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;

use super::dies::Dies;
use super::reads::{Walk, compare, compare_each, in_turn, median, room, times};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const READ_PAGES: Group = Group {
    name: "read-pages",
    about: "small reads across boundaries, beside reads before and after them: pages, and planes read at once",
    parameters: &[Parameter::ReadPageSize, Parameter::PlanesReadAtOnce],
    write_share: 0.0,
    probe,
};

/// The largest boundary that is looked at.
const BOUNDARY_MAX: Bytes = Bytes::kib(64);
/// What lying across must cost, at least, relative to a read beside it.
const COST_MIN: f64 = 1.012;
/// What half a page's boundary may cost, relative to the page's: less than any transfer.
const HALF_MAX: f64 = 0.04;
/// Boundaries of so many pages are looked at for planes.
const PAGES_MAX: u64 = 16;
/// The share of the time for reading that they may take.
const TIME_SHARE: f64 = 0.12;
/// Costs that differ by less than this share are the same: less than the array's part in a read.
const SAME: f64 = 0.07;
/// Pages, or stripes, after which rows of 1, 2, 3, 4 and 6 pages begin together.
const ROWS: u64 = 12;

/// Where boundaries are looked at, and how.
#[derive(Clone, Copy)]
struct Places {
    /// From one boundary to the next.
    slot: Bytes,
    /// Where the first slot begins.
    base: Bytes,
    depth: u32,
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let stripe = session.known().bytes(Parameter::StripeSize);
    let one_die = session.known().count(Parameter::ParallelUnits) == Some(1);
    let aligned = BOUNDARY_MAX * 2;
    let (slot, depth) = match stripe.and_then(|stripe| Dies::stride(session, stripe)) {
        Some(stride) => (stride, Dies::depth(session)),
        None => (aligned, 1),
    };
    if room(session).0 < slot.0 * 16 {
        return Err(Halt::Misfit("it has too few places to compare".to_owned()));
    }
    let places = Places { slot, base: Bytes::ZERO, depth };
    let mut costs: Vec<(Bytes, Interval)> = Vec::new();
    let mut boundary = session.block() * 2;
    while boundary <= BOUNDARY_MAX && boundary.0 * 2 <= slot.0 {
        costs.push((boundary, cost(session, places, boundary, 8)?));
        boundary = boundary * 2;
    }
    let picture = Picture::new(
        "How much longer small reads take across boundaries than beside them.",
        Axis::logarithmic("boundary", "bytes"),
        Axis::linear("across, relative to beside", "ratio"),
    );
    let points = costs.iter().map(|(boundary, cost)| (boundary.0 as f64, cost.estimate)).collect();
    let picture = picture.draw("across / beside", Style::Line, points);
    let first = costs.iter().position(|(_, cost)| cost.low > COST_MIN);
    let in_words = |costs: &[(Bytes, Interval)]| {
        let words = costs.iter().map(|(boundary, cost)| format!("{boundary}: {:.2}", cost.estimate));
        words.collect::<Vec<_>>().join(", ")
    };
    let figures = format!("reads across boundaries, relative to beside them: {}", in_words(&costs));
    let Some(first) =
        first.filter(|&first| first > 0 && costs[first..].iter().all(|(_, c)| c.low > COST_MIN))
    else {
        session.conclude(Finding::undetermined(Parameter::ReadPageSize, figures).with(picture));
        return Ok(());
    };
    let page = costs[first].0;
    let Some(confidence) = verify(session, places, page)? else {
        let evidence = format!("{figures}; elsewhere it is not the same");
        session.conclude(Finding::undetermined(Parameter::ReadPageSize, evidence).with(picture));
        return Ok(());
    };
    // Without the stripe, and with more than one die, a boundary may be hidden.
    let sure = stripe.is_some() || one_die;
    let confidence = if sure { confidence } else { confidence.min(0.8) };
    let picture = picture.mark(page.0 as f64, "page");
    session.conclude(Finding::found(Parameter::ReadPageSize, page, confidence, figures).with(picture));
    let slot = stripe.filter(|_| !one_die).unwrap_or(page) * ROWS;
    if !sure || room(session).0 < slot.0 * 8 {
        let evidence = "it is not known, or the device is too small to see, which pages lie on one die";
        session.conclude(Finding::undetermined(Parameter::PlanesReadAtOnce, evidence));
        return Ok(());
    }
    planes(session, Places { slot, ..places }, page, confidence)
}

/// What reads across the slots' boundaries at `boundary` take, relative to reads beside them.
fn cost(
    session: &mut Session<'_, '_>,
    places: Places,
    boundary: Bytes,
    rounds: usize,
) -> Result<Interval, Halt> {
    let block = session.block();
    let at = places.base + boundary;
    let count = 24 + u64::from(places.depth);
    let slots = room(session).0.saturating_sub(at.0 + 2 * block.0) / places.slot.0;
    let length = places.slot * slots.max(1);
    let walk = |offset: Bytes| {
        let walk = Walk { offset, slot: places.slot, size: block * 2 };
        walk.random(length, count, places.depth)
    };
    let patterns = [in_turn(walk(at - block * 2), walk(at)), walk(at - block)];
    let figures = match places.depth {
        1 => compare_each(session, "across-boundaries", &patterns, rounds)?,
        _ => compare(session, "across-boundaries", &patterns, rounds)?,
    };
    Ok(times(&figures[0], &figures[1]))
}

/// Whether it is the page elsewhere as well, with how much confidence.
fn verify(session: &mut Session<'_, '_>, places: Places, page: Bytes) -> Result<Option<f64>, Halt> {
    let third = Bytes(room(session).0 / 3 / places.slot.0 * places.slot.0);
    let places = Places { base: third, ..places };
    let whole = cost(session, places, page, 12)?;
    if whole.low <= COST_MIN {
        return Ok(None);
    }
    let limit = 1.0 + HALF_MAX * (whole.estimate - 1.0);
    let mut confidence = None;
    for rounds in [16, 48, 120] {
        let half = cost(session, places, Bytes(page.0 / 2), rounds)?;
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

/// Every how many pages lying across costs more.
fn planes(session: &mut Session<'_, '_>, places: Places, page: Bytes, confidence: f64) -> Result<(), Halt> {
    let most = PAGES_MAX.min(places.slot.0 / page.0 - 1);
    let begin = session.time_left();
    cost(session, places, page, 8)?;
    let once = begin.since(session.time_left()).0.max(1);
    let rounds = (begin.0 as f64 * TIME_SHARE / (most * once) as f64 * 8.0) as usize;
    let mut costs: Vec<(u64, f64)> = Vec::new();
    for pages in 1..=most {
        costs.push((pages, cost(session, places, page * pages, rounds.clamp(8, 64))?.estimate - 1.0));
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
    let chunk = session.known().bytes(Parameter::ChunkSize);
    let (finding, planes) = match row(&costs) {
        Some(planes) => {
            // Where a row seems to be a chunk, it may be smaller: going on to another die is no cheaper than a row.
            let hidden = chunk.is_some_and(|chunk| chunk <= page * planes);
            let confidence = if hidden { confidence.min(0.75) } else { confidence };
            (Finding::found(Parameter::PlanesReadAtOnce, planes, confidence, figures), planes)
        }
        None => (Finding::undetermined(Parameter::PlanesReadAtOnce, figures), 0),
    };
    let picture = if planes > 1 { picture.mark(planes as f64, "row") } else { picture };
    session.conclude(finding.with(picture));
    Ok(())
}

/// The number of pages of which every multiple costs clearly more than everything between; 1 where all cost the same.
fn row(costs: &[(u64, f64)]) -> Option<u64> {
    let figures: Vec<f64> = costs.iter().map(|&(_, cost)| cost).collect();
    let (least, most) = figures.iter().fold((f64::MAX, 0.0_f64), |(l, h), &cost| (l.min(cost), h.max(cost)));
    let middle = median(&figures);
    if figures.len() >= 8 && most - least < SAME * middle {
        return Some(1);
    }
    (2..=figures.len() as u64 / 2).find(|planes| {
        let (row, within): (Vec<_>, Vec<_>) = costs.iter().partition(|(pages, _)| pages % planes == 0);
        let low = |costs: &[(u64, f64)]| costs.iter().map(|cost| cost.1).fold(f64::MAX, f64::min);
        let high = |costs: &[(u64, f64)]| costs.iter().map(|cost| cost.1).fold(0.0, f64::max);
        let gap = low(&row) - high(&within);
        gap > 1.5 * (high(&row) - low(&row)).max(high(&within) - low(&within)) && gap > SAME * high(&row)
    })
}
