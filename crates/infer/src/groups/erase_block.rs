//! The erase block: how much is written from one merge or erase to the next.
//!
//! # Model
//! Whatever a device's translation layer does, it gives out its flash in units, and at the end of a unit has something
//! to do that takes long: it erases the block that was replaced, merges a log block with its data block, or
//! collects a block to have a free one. In a sequential pattern this comes once in each unit (Sun and Zhang, section
//! 3.4); with several dies of which each fills a block at the same time, once for each of them within a few
//! writes, and the period of all is what they hold together.
//!
//! The same page written again and again fills units as well. If pages lie where they are put (page maps), these are
//! the same units; if each block of addresses has its own log block, only the one die that has the page is filled, so that
//! the period is a whole part of the other: the dies' number. The two periods come from different places
//! and patterns, and each can be wrong in a way of its own (a map that is written now and then, a buffer that is
//! emptied by parts): only together they are sure.
//!
//! Small writes to one die leave the others the time to do their work unseen: if they show nothing, larger ones may.
//!
//! Where blocks are merged there is a third witness: writing a whole unit again and again replaces it, which costs an
//! erase; writing its first half again and again makes the device copy the other half each time. A multiple of the
//! unit does not cost more in halves, and a part of it is as expensive as its half.
//!
//! # Invariants
//! - a period counts only if it foretells the stalls of writes that were done after it was found.

use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Location, Pattern};

use super::stalls::{Stalls, WRITES_MOST, stalls};
use super::writes::{median, place, times, unit, writes};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "erase-block",
    about: "small writes in sequence, of one page again and again, and of whole and half units: how often one is expensive",
    parameters: &[Parameter::EraseBlockSize, Parameter::MappingGranularity],
    write_share: 0.07,
    probe,
};

/// Writes that are looked at first; then half as many more, and so on.
const FIRST: u64 = 1024;
/// So many periods have to foretell themselves, and in this share of them it has to be right.
const FORETOLD: usize = 2;
const RIGHT: f64 = 0.8;
/// Sizes of the writes in sequence, at least a page each.
const SIZES: [Bytes; 3] = [Bytes::kib(16), Bytes::kib(64), Bytes::kib(256)];
/// Which share of the group's budget and time one pattern may use.
const PART: f64 = 0.24;
/// More dies than this do not fill their blocks at the same time.
const DIES_MOST: u64 = 64;
/// Times that a unit is written whole and in halves.
const REWRITES: u64 = 6;
/// Halves cost at least this much more, and whole units at most this much more than in sequence.
const HALVES_COST: f64 = 1.4;
const WHOLE_COSTS: f64 = 1.25;

/// Writes of one size, and the periods that foretold themselves.
struct Seen {
    size: Bytes,
    costs: Vec<f64>,
    periods: Vec<Stalls>,
}

impl Seen {
    /// The periods in bytes.
    fn spans(&self) -> impl Iterator<Item = Bytes> {
        self.periods.iter().map(|stalls| self.size * stalls.period as u64)
    }
}

/// A unit and who speaks for it.
struct Candidate {
    unit: Bytes,
    /// The period of one page written again and again, which agrees.
    in_place: Option<Bytes>,
    /// Whether it comes from the writes in sequence.
    in_sequence: bool,
    /// Whether it was told from its half and its double, where that can be.
    rewritten: Option<bool>,
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let page = unit(session);
    let family = session.known().word(Parameter::TranslationFamily).map(str::to_owned);
    let budget = Bytes((session.writes_left().0 as f64 * PART) as u64);
    let time = Nanos((session.time_left().0 as f64 * PART) as u64);
    // Where each write that does not continue costs a merge, the same page again and again has no period.
    let in_place = if family.as_deref() == Some("block") {
        None
    } else {
        let spot = place(session, 0.77, Bytes::mib(1)) + page * 3;
        let again = |_, count| writes(Location::Sequential, page, count, spot, page);
        Some(grow(session, "in-place", page, (budget, time), again)?)
    };
    let mut sequences = Vec::new();
    let mut candidate = None;
    for size in SIZES.map(|size| size.max(page)) {
        let origin = place(session, 0.125, Bytes::mib(1));
        let sequence =
            |begin, count| writes(Location::Sequential, size, count, origin + size * begin, size * count);
        let budget = budget.min(Bytes((session.capacity() - origin).0 / 2));
        // Without the other pattern there is more for this one.
        let budget = if in_place.is_none() { Bytes(budget.0 * 3 / 2) } else { budget };
        sequences.push(grow(session, "in-sequence", size, (budget, time), sequence)?);
        candidate = decide(session, &sequences, in_place.as_ref());
        if candidate.as_ref().is_some_and(|candidate| candidate.in_sequence && candidate.in_place.is_some()) {
            break;
        }
    }
    if let Some(candidate) = &mut candidate
        && matches!(family.as_deref(), Some("block" | "log-block" | "shared log-block"))
    {
        candidate.rewritten = rewrite(session, candidate.unit)?;
    }
    conclude(session, candidate, &sequences, in_place.as_ref());
    conclude_granularity(session, family.as_deref());
    Ok(())
}

/// Runs a pattern, longer and longer, until its stalls have a period that foretells the next ones.
fn grow(
    session: &mut Session<'_, '_>,
    name: &str,
    size: Bytes,
    (budget, time): (Bytes, Nanos),
    pattern: impl Fn(u64, u64) -> Pattern,
) -> Result<Seen, Halt> {
    let mut seen = Seen { size, costs: Vec::new(), periods: Vec::new() };
    let most = (budget.0 / size.0).min(WRITES_MOST as u64);
    let begin = session.time_left();
    while (seen.costs.len() as u64) < most && begin.since(session.time_left()) < time {
        let known = seen.costs.len() as u64;
        let count = FIRST.min(most.div_ceil(2)).max(known / 2).min(most - known);
        let costs = times(session, name, &pattern(known, count))?;
        let foretells = |period: &Stalls| {
            let (share, periods) = period.confirmed(&costs, known as usize);
            share >= RIGHT && periods >= FORETOLD
        };
        let confirmed: Vec<Stalls> = seen.periods.iter().copied().filter(foretells).collect();
        seen.costs.extend(&costs);
        let all = stalls(&seen.costs);
        let is_confirmed = |period: &Stalls| confirmed.iter().any(|sure| sure.period == period.period);
        if all.iter().any(is_confirmed) {
            seen.periods = all.into_iter().filter(is_confirmed).collect();
            return Ok(seen);
        }
        seen.periods = all;
    }
    seen.periods.clear();
    Ok(seen)
}

/// The unit that most speaks for.
fn decide(session: &Session<'_, '_>, sequences: &[Seen], in_place: Option<&Seen>) -> Option<Candidate> {
    let one = in_place.and_then(|seen| seen.spans().next());
    let agrees = |all: &Bytes, one: &Bytes| all.0.is_multiple_of(one.0) && all.0 / one.0 <= DIES_MOST;
    let spans = || sequences.iter().flat_map(Seen::spans);
    let candidate =
        |unit, in_place, in_sequence| Some(Candidate { unit, in_place, in_sequence, rewritten: None });
    match one {
        Some(one) => match spans().find(|all| agrees(all, &one)) {
            Some(all) => candidate(all, Some(one), true),
            None => {
                let dies = session.known().count(Parameter::ParallelUnits);
                candidate(one * dies.unwrap_or(1), Some(one), false)
            }
        },
        None => spans().next().and_then(|all| candidate(all, None, true)),
    }
}

/// Whether a whole unit can be replaced for what it costs in sequence, and half of it cannot; none where there is not
/// enough budget for it.
fn rewrite(session: &mut Session<'_, '_>, span: Bytes) -> Result<Option<bool>, Halt> {
    let half = Bytes(span.0 / 2);
    let needed = span * (3 * REWRITES + 2);
    if !half.0.is_multiple_of(session.block().0)
        || needed > session.writes_left()
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
        let fresh = writes(
            Location::Sequential,
            span,
            count,
            origin + span * (1 + round * count).min(4),
            span * count,
        );
        sequence.extend(times(session, "whole-in-sequence", &fresh)?);
        // The first of each clears away what was there.
        whole.extend_from_slice(&times(session, "whole-again", &again(span, count + 1))?[1..]);
        let pairs = times(session, "half-again", &again(half, 2 * count + 2))?;
        halves.extend(pairs[2..].chunks_exact(2).map(|pair| pair[0] + pair[1]));
    }
    let dearer = mann_whitney(&halves, &whole).p_above <= 0.02;
    let halves_cost = median(&halves) / median(&whole).max(1.0);
    let whole_costs = median(&whole) / median(&sequence).max(1.0);
    Ok(Some(dearer && halves_cost >= HALVES_COST && whole_costs <= WHOLE_COSTS))
}

fn picture(sequences: &[Seen], in_place: Option<&Seen>) -> Picture {
    let points = |seen: &Seen| {
        let stride = seen.costs.len().div_ceil(4096).max(1);
        let slowest = |(i, part): (usize, &[f64])| {
            ((i * stride) as f64 * seen.size.0 as f64, part.iter().copied().fold(1.0, f64::max))
        };
        seen.costs.chunks(stride).enumerate().map(slowest).collect::<Vec<_>>()
    };
    let empty = Picture::new(
        "Equal writes: at the end of each unit one of them is expensive. Of neighbours the slowest is shown.",
        Axis::linear("written", "bytes"),
        Axis::logarithmic("response time", "ns"),
    );
    let picture = sequences.iter().fold(empty, |picture, seen| {
        picture.draw(&format!("in sequence, {}", seen.size), Style::Dots, points(seen))
    });
    match in_place {
        Some(seen) => picture.draw("one page again and again", Style::Dots, points(seen)),
        None => picture,
    }
}

fn conclude(
    session: &mut Session<'_, '_>,
    candidate: Option<Candidate>,
    sequences: &[Seen],
    in_place: Option<&Seen>,
) {
    let parameter = Parameter::EraseBlockSize;
    let picture = picture(sequences, in_place);
    let Some(candidate) = candidate else {
        let writes: usize = sequences.iter().chain(in_place).map(|seen| seen.costs.len()).sum();
        let evidence =
            format!("the expensive ones of {writes} writes in sequence and in one place have no period");
        session.conclude(Finding::undetermined(parameter, evidence).with(picture));
        return;
    };
    let Candidate { unit: span, in_place, in_sequence, rewritten } = candidate;
    let mut evidence = Vec::new();
    if in_sequence {
        evidence.push(format!("writes in sequence are expensive each {span}"));
    }
    if let Some(one) = in_place {
        evidence.push(format!("one page written again and again is each {one}"));
    }
    match rewritten {
        Some(true) => {
            evidence.push("replacing such a unit is cheap, and replacing its half is not".to_owned())
        }
        Some(false) => {
            evidence.push("but it is not a unit that is replaced as a whole and not in halves".to_owned());
        }
        None => {}
    }
    let confidence = match (in_sequence, in_place, rewritten) {
        (true, Some(_), Some(true)) => 0.99,
        // With one die the two are the same; with several the number of dies is only seen in one way.
        (true, Some(one), None) if one == span => 0.96,
        (true, Some(_), None) => 0.9,
        (true, None, Some(true)) => 0.95,
        // Nobody says how many dies there are.
        (false, Some(_), Some(true)) => 0.6,
        (true, Some(_), Some(false)) => 0.7,
        (true, None, None) => 0.7,
        _ => 0.0,
    };
    let evidence = evidence.join("; ");
    let finding = if confidence > 0.0 {
        Finding::found(parameter, span, confidence, evidence)
    } else {
        Finding::undetermined(parameter, evidence)
    };
    session.conclude(finding.with(picture.mark(span.0 as f64, "unit")));
}

/// What can be placed by itself follows from the family: the page, or what is merged.
fn conclude_granularity(session: &mut Session<'_, '_>, family: Option<&str>) {
    let from = match family {
        Some("page" | "demand-cached page") => Parameter::WritePageSize,
        Some(_) => Parameter::EraseBlockSize,
        None => {
            let reason = "it follows from the translation layer's family, which is not known";
            session.conclude(Finding::undetermined(Parameter::MappingGranularity, reason));
            return;
        }
    };
    let confidence =
        |parameter| session.inference().get(parameter).map_or(0.0, |finding: &Finding| finding.confidence);
    let sure = confidence(from).min(confidence(Parameter::TranslationFamily));
    let finding = match (session.known().bytes(from), family) {
        (Some(size), Some(family)) => {
            let evidence = format!("of a translation layer of the family '{family}', it is {from}");
            Finding::found(Parameter::MappingGranularity, size, sure, evidence)
        }
        _ => Finding::undetermined(Parameter::MappingGranularity, format!("{from} is not known")),
    };
    session.conclude(finding);
}
