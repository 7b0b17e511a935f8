//! The write page (Ajwani et al., section 3.3.4).
//!
//! # Model
//! Flash is written by the page. A write that covers a part of a page makes the device read the rest of it and write
//! all of it, so that it takes longer than a write of the whole page: of aligned writes in sequence, each of which comes to
//! a place of its own, the time rises with the size, and falls at one size only, which is the page. (Reading takes longer
//! than a half of a page on the link.) On a block-mapped device a page that is written in parts costs a merge for each,
//! and it falls the more.
//!
//! Where each request costs a merge, what is copied falls with the size as well, and falls most where a chunk is replaced as
//! a whole. So a fall of writes that take as long as merges shows no page.
//!
//! A write buffer that cannot be flushed part by part puts parts together that follow one another: then there is no fall, and only
//! the page that is read is known.
//!
//! # Invariants
//! - all sizes alternate, each in fresh places;
//! - the fall is the only one, and is confirmed at another place.

use crate::priors;
use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::filling::io_size;
use crate::patterns::writes::{
    Buffer, buffer, costs_of, dies, filled_on_die, flushed, place, planes, writes,
};
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;

pub(crate) const PROBE: Probe = Probe {
    name: "write-page",
    about: "aligned sequential writes of doubling size: the page is the size that takes less time than its half",
    parameters: &[Parameter::WritePageSize],
    hands_in: &[],
    write_share: 0.03,
};

/// The largest size that is tried.
const LARGEST: Bytes = Bytes::kib(32);
/// Where random writes go.
const TARGET: Bytes = Bytes::mib(1);
/// Times that the sizes alternate, and the most writes of each in a turn.
const ALTERNATIONS: u64 = 4;
const IN_ALTERNATION: u64 = 64;
/// The share of the budget for looking, and of the rest for the confirmation.
const PART: f64 = 0.4;
/// p of a fall, of one that is looked at again, and the least fall. Others may be a part of it: merges scatter.
const P: f64 = 1e-4;
const P_LIKELY: f64 = 0.05;
const FALL: f64 = 1.01;
const OTHERS: f64 = 0.3;
/// The rule that flash is written by the pages that are read from it, where writes do not show: the page is the
/// unit of both, but a controller may put several together.
const READ_PAGE: Rule = Rule::likely("read page");

/// Aligned writes of one size.
struct Timed {
    size: Bytes,
    times: Vec<f64>,
}

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    session.look_through();
    if session.block() * 2 > LARGEST {
        return Ok(());
    }
    let seen = alternate(session, doubling(session), 0.43)?;
    let again = match deepest(&seen) {
        Some(at) => {
            let sizes = vec![seen[at - 1].size, seen[at].size];
            let again = alternate(session, sizes, 0.71)?;
            let fell = matches!(&again[..], [part, whole] if falls(part, whole, P));
            (fell || falls(&seen[at - 1], &seen[at], P)).then_some((at, fell))
        }
        _ => None,
    };
    conclude_page(session, &seen, again);
    Ok(())
}

/// The sizes that a page may have, and the half of the smallest: the block by powers of two.
fn doubling(session: &Session<'_, '_>) -> Vec<Bytes> {
    let sizes = (0..).map(|double| session.block() * (1 << double));
    sizes.take_while(|&size| size <= LARGEST).collect()
}

/// Writes of these sizes alternating, each in sequence through fresh places from the share `part` of the device on.
fn alternate(session: &mut Session<'_, '_>, sizes: Vec<Bytes>, part: f64) -> Result<Vec<Timed>, Halt> {
    let budget = (session.writes_left().0 as f64 * PART) as u64;
    let all: u64 = sizes.iter().map(|size| size.0).sum();
    let count = (budget / all.max(1) / ALTERNATIONS).min(IN_ALTERNATION);
    let mut at = place(session, part, TARGET);
    let mut seen: Vec<Timed> = sizes.into_iter().map(|size| Timed { size, times: Vec::new() }).collect();
    if count < IN_ALTERNATION / 16 {
        return Ok(seen);
    }
    for _ in 0..ALTERNATIONS {
        for timed in &mut seen {
            let length = timed.size * count;
            let pattern = writes(Location::Sequential, timed.size, count, at, length);
            timed.times.extend(costs_of(session, "in-sequence", &pattern)?);
            at = (at + length).round_up(LARGEST);
        }
    }
    Ok(seen)
}

/// Whether whole pages take less than their halves.
fn falls(part: &Timed, whole: &Timed, p: f64) -> bool {
    mann_whitney(&per_part(part), &whole.times).p_above <= p && ratio(part, whole) >= FALL
}

/// What a part takes in each whole page: its two parts may take different times, as where only the second one costs a merge.
fn per_part(part: &Timed) -> Vec<f64> {
    part.times.chunks_exact(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect()
}

/// Where the time falls, if it does so at one size only, or there far more than anywhere else.
fn deepest(seen: &[Timed]) -> Option<usize> {
    let mut falls: Vec<(f64, usize)> = (1..seen.len())
        .filter(|&at| falls(&seen[at - 1], &seen[at], P_LIKELY))
        .map(|at| (ratio(&seen[at - 1], &seen[at]).ln(), at))
        .collect();
    falls.sort_by(|a, b| b.0.total_cmp(&a.0));
    match falls[..] {
        [(_, at)] => Some(at),
        [(most, at), (next, _), ..] if next <= OTHERS * most => Some(at),
        _ => None,
    }
}

/// Whether a write takes what a merge does, and far more than filling the device took for as much: then what falls is what is copied,
/// as of a chunk that is replaced as a whole where each request costs a merge.
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
