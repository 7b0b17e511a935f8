//! Finds the write page: the only size of writes that is faster than its half (Ajwani et al., section 3.3.4).
//!
//! # Model
//! A write of part of a page makes the device read the rest and write all of it. So the time of aligned sequential
//! writes rises with the size, and falls at one size only: the page. A block map merges for each part, so that the
//! time falls further.
//!
//! If each request costs a merge, the copied amount also falls with the size, and most where a chunk is replaced as a
//! whole. So writes that take as long as merges show no page. A write buffer that is not flushed joins parts that
//! follow each other: then nothing falls.
//!
//! # Method
//! 1. Writes of all sizes alternate, each on fresh pages.
//! 2. The deepest decrease is confirmed in another region.
//! 3. Without one, the page is that of reads.
//!
//! # Invariants
//! - The decrease is the only one, or far deeper than the others.

use crate::priors;
use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::filling::io_size;
use crate::patterns::writes::{
    Buffer, RANDOM_TARGET, buffer, costs_of, dies, filled_on_die, flushed, place, planes, writes,
};
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::thresholds;
use crate::words::duration;

pub(crate) const PROBE: Probe = Probe {
    name: "write-page",
    about: "aligned sequential writes of doubling size: the page is the size that takes less time than its half",
    parameters: &[Parameter::WritePageSize],
    hands_in: &[],
    write_share: 0.03,
};

/// The largest page that is tried. Source: ONFI 4.2: 16 KiB, and twice that. Too large: the probe writes
/// more; too small: large pages are not found.
const PAGE_MOST: Bytes = Bytes::kib(32);
/// The rounds over all sizes. Unit: rounds. Source: choice. Too many: the budget is used up; too few: drift
/// decides.
const ALTERNATIONS: u64 = 4;
/// The most writes of a size in a round. Unit: writes. Source: choice. Too many: the budget is used up; too
/// few: merges hide the page.
const WRITES_OF_ROUND: u64 = 64;
/// The share of the budget for the search, and of the rest for the confirmation. Unit: share. Source: choice.
/// Too high: nothing is left to confirm the page; too low: the search shows nothing.
const BUDGET_SHARE: f64 = 0.4;
/// The p of a decrease that is tested again elsewhere. Unit: probability. Source: choice. Too high: chance is
/// tested again; too low: pages behind a slow link are not.
const FALL_CHANCE: f64 = 0.05;
/// The least ratio of the time of half a page to that of a page. Unit: ratio. Source: tuned. Too high: pages
/// behind a slow link are not found; too low: drift is a page.
const FALL_RATIO: f64 = 1.01;
/// Other decreases are at most this share of the deepest one, as logarithms: merges scatter. Unit: share.
/// Source: tuned. Too high: a chunk is a page; too low: merges hide the page.
const OTHER_FALLS: f64 = 0.3;
/// The rule that the write page is the read page, if writes do not show it. The page is the unit of both, but a
/// controller may join several.
const READ_PAGE: Rule = Rule::likely("read page");

/// Aligned writes of one size.
struct Timed {
    size: Bytes,
    times: Vec<f64>,
}

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    session.look_through();
    if session.block() * 2 > PAGE_MOST {
        return Ok(());
    }
    let seen = alternate(session, doubling(session), 0.43)?;
    let again = match deepest(&seen) {
        Some(at) => {
            let sizes = vec![seen[at - 1].size, seen[at].size];
            let again = alternate(session, sizes, 0.71)?;
            let fell = matches!(&again[..], [part, whole] if falls(part, whole, thresholds::FALSE_ALARM));
            (fell || falls(&seen[at - 1], &seen[at], thresholds::FALSE_ALARM)).then_some((at, fell))
        }
        _ => None,
    };
    conclude_page(session, &seen, again);
    Ok(())
}

/// The sizes that a page may have, and the half of the smallest: the block by powers of two.
fn doubling(session: &Session<'_, '_>) -> Vec<Bytes> {
    let sizes = (0..).map(|double| session.block() * (1 << double));
    sizes.take_while(|&size| size <= PAGE_MOST).collect()
}

/// Writes of these sizes alternating, each sequentially through fresh pages from the share `part` of the device on.
fn alternate(session: &mut Session<'_, '_>, sizes: Vec<Bytes>, part: f64) -> Result<Vec<Timed>, Halt> {
    let budget = (session.writes_left().0 as f64 * BUDGET_SHARE) as u64;
    let all: u64 = sizes.iter().map(|size| size.0).sum();
    let count = (budget / all.max(1) / ALTERNATIONS).min(WRITES_OF_ROUND);
    let mut at = place(session, part, RANDOM_TARGET);
    let mut seen: Vec<Timed> = sizes.into_iter().map(|size| Timed { size, times: Vec::new() }).collect();
    if count < WRITES_OF_ROUND / 16 {
        return Ok(seen);
    }
    for _ in 0..ALTERNATIONS {
        for timed in &mut seen {
            let length = timed.size * count;
            let pattern = writes(Location::Sequential, timed.size, count, at, length);
            timed.times.extend(costs_of(session, "in-sequence", &pattern)?);
            at = (at + length).round_up(PAGE_MOST);
        }
    }
    Ok(seen)
}

/// Whether whole pages take less than their halves.
fn falls(part: &Timed, whole: &Timed, p: f64) -> bool {
    mann_whitney(&per_part(part), &whole.times).p_above <= p && ratio(part, whole) >= FALL_RATIO
}

/// What a part takes in each whole page: its two parts may take different times, as where only the second one costs a merge.
fn per_part(part: &Timed) -> Vec<f64> {
    part.times.chunks_exact(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect()
}

/// The size at which the time falls, if it does so at no other size, or far less.
fn deepest(seen: &[Timed]) -> Option<usize> {
    let mut falls: Vec<(f64, usize)> = (1..seen.len())
        .filter(|&at| falls(&seen[at - 1], &seen[at], FALL_CHANCE))
        .map(|at| (ratio(&seen[at - 1], &seen[at]).ln(), at))
        .collect();
    falls.sort_by(|a, b| b.0.total_cmp(&a.0));
    match falls[..] {
        [(_, at)] => Some(at),
        [(most, at), (next, _), ..] if next <= OTHER_FALLS * most => Some(at),
        _ => None,
    }
}

/// Whether a write takes as long as a merge, and far longer than filling the device took for the same amount.
/// Then the copied amount falls with the size, as where a chunk is replaced as a whole.
fn is_merge(session: &Session<'_, '_>, timed: &Timed) -> bool {
    let took = upper_median(&timed.times);
    let (known, all) = (session.known(), dies(session));
    // Filling waited for each write: it kept no more dies busy than one write has chunks.
    let chunk = known.bytes(Parameter::ChunkSize).filter(|_| buffer(session) == Buffer::None);
    let chunks = chunk.map(|chunk| io_size(session.capacity(), session.block()).0.div_ceil(chunk.0.max(1)));
    let busy = chunks.map_or(all, |chunks| all.min(chunks)) as f64 / all as f64;
    // Of its own planes a write of several pages keeps as many busy.
    let page = known.bytes(Parameter::ReadPageSize).unwrap_or(timed.size);
    let pages = planes(session).min(timed.size.0 / page.0.max(1)).max(1) as f64;
    let filled = filled_on_die(session, timed.size) * busy / pages;
    took >= priors::MERGE_LEAST && took >= priors::MERGE_OF_FILL * filled.max(flushed(session))
}

fn ratio(part: &Timed, whole: &Timed) -> f64 {
    upper_median(&per_part(part)) / upper_median(&whole.times).max(1.0)
}

fn picture(seen: &[Timed]) -> Picture {
    let points = seen.iter().map(|timed| (timed.size.0 as f64, upper_median(&timed.times).max(1.0)));
    Picture::new(
        "Sequential writes: the time falls at the size from which the device does not have to read first.",
        Axis::logarithmic("IOSize", "bytes"),
        Axis::logarithmic("median response time", "ns"),
    )
    .draw("aligned", Style::Line, points.collect())
}

/// `fall`: of which size the time falls, and whether it did again.
fn conclude_page(session: &mut Session<'_, '_>, seen: &[Timed], fall: Option<(usize, bool)>) {
    let parameter = Parameter::WritePageSize;
    let picture = picture(seen);
    let read = session.known().bytes(Parameter::ReadPageSize);
    let figures: Vec<String> = seen
        .iter()
        .map(|timed| format!("{} in {}", timed.size, duration(upper_median(&timed.times))))
        .collect();
    let figures = figures.join(", ");
    let merges = fall.is_some_and(|(at, _)| is_merge(session, &seen[at]));
    let seen_to_fall = fall.filter(|_| read.is_none() || !merges).map(|(at, again)| {
        let (part, whole) = (&seen[at - 1], &seen[at]);
        let evidence = format!(
            "Sequential writes of {} take {:.3} x the time of writes of {}: smaller writes make the device read first. No other size \
             shows this.",
            part.size,
            ratio(part, whole),
            whole.size
        );
        (whole.size, again, evidence)
    });
    let finding = match (seen_to_fall, read) {
        // No less than a page is read, and what is written in less than that costs more for another reason.
        (Some((page, true, evidence)), read) if read.is_none_or(|read| read <= page) => {
            let basis = if read.is_none_or(|read| read == page) {
                Rule::strong("falls twice, as read")
            } else {
                Rule::strong("falls twice")
            };
            Rule::found(parameter, page, basis, format!("{evidence} A second region shows the same."))
        }
        (Some((page, false, evidence)), read) if read.is_none_or(|read| read == page) => {
            Rule::found(parameter, page, Rule::likely("falls once"), evidence)
        }
        (_, Some(page)) => {
            let evidence = format!(
                "The device reads pages of {page}, and flash is written in the same pages. Writes themselves do not show it: no size \
                 clearly takes less time than its half, because a write buffer, merges or garbage collection hide it."
            );
            let basis = READ_PAGE.min(session.known().premise(Parameter::ReadPageSize));
            Rule::found(parameter, page, basis, evidence)
        }
        (_, None) if seen.iter().all(|timed| timed.times.is_empty()) => {
            let evidence =
                "The write budget is too small to alternate between writes of all sizes (--write-budget).";
            Finding::undetermined(parameter, evidence)
        }
        (_, None) => {
            let evidence = format!(
                "No size of writes takes less time than its half: pages are not larger than the device's blocks, or a write buffer, \
                 merges or garbage collection hide them. Measured: {figures}."
            );
            Finding::undetermined(parameter, evidence)
        }
    };
    let page = finding.number();
    let picture = match page {
        Some(page) => picture.mark(page, "page"),
        None => picture,
    };
    session.conclude(finding.with(picture));
}
