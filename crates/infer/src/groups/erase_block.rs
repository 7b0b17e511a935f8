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
//! An erase is short, and dies that wait for the link do it unseen; merges are long. So where blocks of addresses are merged
//! with logs of their own, the logs' openings tell the unit ([`super::translation::openings`]).
//!
//! Where blocks are merged there is another witness: whether a unit is replaced as a whole ([`rewrites`]).
//!
//! # Invariants
//! - a period counts only if it foretells the stalls of writes that were done after it was found.

mod rewrites;

use flashlab_analysis::inference::{Axis, Family, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Location, Pattern};

use super::figures::{folded, slowest};
use super::stalls::{Stalls, WRITES_MOST, stalls};
use super::writes::{costs_of, page_to_write, place, writes};
use crate::halt::Halt;
use crate::priors;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use rewrites::rewrite;

pub(crate) const PROBE: Probe = Probe {
    name: "erase-block",
    about: "small sequential writes, rewrites of one page, and rewrites of whole and half blocks: how often is a write slow?",
    parameters: &[Parameter::EraseBlockSize, Parameter::MappingGranularity],
    supposes: &[],
    write_share: 0.01,
};

/// Writes that are looked at first; then half as many more, and so on.
const FIRST: u64 = 1024;
/// So many periods have to foretell themselves, and in this share of them it has to be right.
const FORETOLD: usize = 1;
const RIGHT: f64 = 0.7;
/// This part of the writes, the first ones, is not looked at.
const SETTLING: usize = 4;
/// The share of the budget for single pages in sequence, and blocks of this many pages are as large as they get.
const PAGES_PART: f64 = 0.8;
const LONGEST: u64 = 1 << 18;
/// Which share of the group's budget and time one page again and again may use, where it comes first.
const IN_PLACE_PART: f64 = 0.6;
/// Two periods are whole multiples of each other within this.
const AGREES: f64 = 0.02;
/// How sure a unit is of which one die after the other may be merged.
const ONE_DIE_EACH: Rule = Rule::weak("one die after the other");
/// How sure a unit is that comes back from the first writes on, though pages may lie anywhere.
const FROM_THE_BEGINNING: Rule = Rule::weak("from the first write");

/// Writes of one size, and the periods that foretold themselves.
struct PeriodicWrites {
    /// What lies between a write and the next.
    size: Bytes,
    costs: Vec<f64>,
    periods: Vec<Stalls>,
}

impl PeriodicWrites {
    /// The periods in bytes of addresses.
    fn spans(&self) -> impl Iterator<Item = Bytes> {
        self.periods.iter().map(|stalls| self.size * stalls.period as u64)
    }
}

/// All that was looked at.
struct Witnesses {
    in_sequence: PeriodicWrites,
    in_place: PeriodicWrites,
    /// Whether pages are moved when blocks are collected.
    moves_pages: bool,
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

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    session.look_through();
    let family = session.known().family();
    let pages = family.is_some_and(Family::maps_pages);
    // Where every page may lie anywhere, room is made when the space is used up. What comes back before is a buffer that is
    // emptied, or a fast region, whose blocks are as large.
    let later = session.fill().unit.is_some_and(|unit| unit.onset.is_some());
    let known = session.known();
    let hidden = known.word(Parameter::WriteBufferFlush) == Some("when-full") && !session.looks_through();
    let emptied = !hidden && known.has_slc_cache();
    let supposed = session.supposed(Parameter::EraseBlockSize);
    if let Some(supposed) = supposed.clone().filter(|_| later || emptied || !pages) {
        session.conclude(supposed);
        conclude_granularity(session, family);
        return Ok(());
    }
    let (in_sequence, in_place) = if pages {
        (pages_in_sequence(session)?, in_place(session, 0.9)?)
    } else {
        let in_place = in_place(session, IN_PLACE_PART)?;
        (pages_in_sequence(session)?, in_place)
    };
    let seen = Witnesses { in_sequence, in_place, moves_pages: pages };
    let mut candidate = seen.decide(session);
    if let Some(candidate) = &mut candidate
        && family.is_some_and(|family| !family.maps_pages())
    {
        candidate.rewritten = rewrite(session, candidate.unit)?;
    }
    match supposed.filter(|_| candidate.is_none()) {
        Some(supposed) => {
            session.conclude(FROM_THE_BEGINNING.limits(supposed));
        }
        None => conclude(session, candidate, &seen),
    }
    conclude_granularity(session, family);
    Ok(())
}

/// What a share of the group's budget and time is.
fn part(session: &mut Session<'_, '_>, share: f64) -> (Bytes, Nanos) {
    let of = |whole: u64| (whole as f64 * share) as u64;
    (Bytes(of(session.writes_left().0)), Nanos(of(session.time_left().0)))
}

/// One page again and again.
fn in_place(session: &mut Session<'_, '_>, share: f64) -> Result<PeriodicWrites, Halt> {
    let page = page_to_write(session);
    let spot = place(session, 0.77, Bytes::mib(1)) + page * 3;
    let again = |_, count| writes(Location::Sequential, page, count, spot, page);
    let limits = part(session, share);
    grow(session, "in-place", page, limits, again)
}

/// Fresh places in sequence, page by page. What is replaced was written in sequence as well, and lies together: behind the
/// first blocks those that are replaced hold nothing else, and need not be copied.
fn pages_in_sequence(session: &mut Session<'_, '_>) -> Result<PeriodicWrites, Halt> {
    let page = page_to_write(session);
    // Large blocks take many small writes.
    let factor = (session.capacity().0 / page.0 / LONGEST).next_power_of_two();
    let size = page * factor;
    let origin = place(session, 0.125, Bytes::mib(1));
    let (budget, time) = part(session, PAGES_PART);
    let budget = budget.min(Bytes(session.capacity().0.saturating_sub((origin + size).0)));
    let sequence =
        |begin, count| writes(Location::Sequential, size, count, origin + size * begin, size * count);
    grow(session, "in-sequence", size, (budget, time), sequence)
}

/// Runs a pattern, longer and longer, until its stalls have a period that foretells the next ones.
fn grow(
    session: &mut Session<'_, '_>,
    name: &str,
    size: Bytes,
    (budget, time): (Bytes, Nanos),
    pattern: impl Fn(u64, u64) -> Pattern,
) -> Result<PeriodicWrites, Halt> {
    let mut seen = PeriodicWrites { size, costs: Vec::new(), periods: Vec::new() };
    let most = (budget.0 / size.0).min(WRITES_MOST as u64);
    let begin = session.time_left();
    while (seen.costs.len() as u64) < most && begin.since(session.time_left()) < time {
        let known = seen.costs.len() as u64;
        let count = FIRST.min(most.div_ceil(2)).max(known / 2).min(most - known);
        let costs = costs_of(session, name, &pattern(known, count))?;
        // In the beginning what was there before is cleared away.
        let settled = |all: &[f64]| all.len() / SETTLING;
        let begun = known as usize - settled(&seen.costs);
        let foretells = |period: &Stalls| {
            let (share, periods) = period.confirmed(&costs, begun);
            share >= RIGHT && periods >= FORETOLD
        };
        let confirmed: Vec<Stalls> = seen.periods.iter().copied().filter(foretells).collect();
        if !confirmed.is_empty() {
            seen.periods = confirmed;
            seen.costs.extend(costs);
            return Ok(seen);
        }
        seen.costs.extend(costs);
        seen.periods = stalls(&seen.costs[settled(&seen.costs)..]);
    }
    seen.periods.clear();
    Ok(seen)
}

impl Witnesses {
    /// The unit that most speaks for.
    fn decide(&self, session: &Session<'_, '_>) -> Option<Candidate> {
        let candidate =
            |unit, in_place, in_sequence| Some(Candidate { unit, in_place, in_sequence, rewritten: None });
        // What comes back sooner is a row of pages, or a turn of the dies.
        let least = page_to_write(session) * priors::ROWS_LEAST;
        let one = self.in_place.spans().find(|&span| span >= least);
        // Collecting takes a few pages of a block, so that it fills a little early.
        let agrees = |all: &Bytes, one: &Bytes| {
            let dies = all.0 as f64 / one.0 as f64;
            (dies / dies.round().max(1.0) - 1.0).abs() <= AGREES && dies < priors::DIES_MOST as f64
        };
        let spans = || self.in_sequence.spans().filter(|&span| span >= least);
        let dies = session.known().count(Parameter::ParallelUnits);
        match (one, dies) {
            // With a page map one page may be on one die or on all of them in turns.
            (Some(one), Some(dies)) if self.moves_pages => {
                let all = spans().find(|all| agrees(all, &one))?;
                let ratio = (all.0 as f64 / one.0 as f64).round() as u64;
                (ratio == 1 || ratio == dies).then_some(())?;
                candidate(all, Some(one), true)
            }
            (Some(one), Some(dies)) => {
                let all = spans().find(|all| agrees(all, &(one * dies)) && *all < one * (dies * 2));
                candidate(all.unwrap_or(one * dies), Some(one), all.is_some())
            }
            (Some(one), None) => {
                let all = spans().find(|all| agrees(all, &one))?;
                candidate(all, Some(one), true)
            }
            // Collecting comes in periods as well, when it has to move what is still needed.
            (None, _) if self.moves_pages => None,
            (None, _) => spans().next().and_then(|all| candidate(all, None, true)),
        }
    }
}

fn picture(all: &Witnesses, unit: Option<Bytes>) -> Picture {
    const CAPTION: &str = "Equal writes: at the end of each erase block one of them is slow. Of neighbouring writes the slowest is shown.";
    let in_sequence = format!("sequential, {}", all.in_sequence.size);
    let kinds = [(in_sequence.as_str(), &all.in_sequence), ("one page, repeatedly", &all.in_place)]
        .map(|(name, seen)| (name, slowest(seen.size, &seen.costs)));
    let cost = "response time";
    let empty = || Picture::new(CAPTION, Axis::linear("written", "bytes"), Axis::logarithmic(cost, "ns"));
    match unit {
        Some(unit) => folded(CAPTION, cost, unit, &kinds),
        None => {
            kinds.into_iter().fold(empty(), |picture, (name, points)| picture.draw(name, Style::Dots, points))
        }
    }
}

fn conclude(session: &mut Session<'_, '_>, candidate: Option<Candidate>, seen: &Witnesses) {
    let parameter = Parameter::EraseBlockSize;
    let picture = picture(seen, candidate.as_ref().map(|candidate| candidate.unit));
    let Some(candidate) = candidate else {
        let told = |seen: &PeriodicWrites| {
            let spans: Vec<String> = seen.spans().map(|span| span.to_string()).collect();
            let period =
                if spans.is_empty() { "no period".to_owned() } else { format!("every {}", spans.join(", ")) };
            format!("{} writes of {}: {period}", seen.costs.len(), seen.size)
        };
        let evidence = format!(
            "Slow writes do not come back at a distance that shows an erase block, or that shows how many dies share it. Sequential: \
             {}. One page repeatedly: {}.",
            told(&seen.in_sequence),
            told(&seen.in_place)
        );
        session.conclude(Finding::undetermined(parameter, evidence).with(picture));
        return;
    };
    let Candidate { unit, in_place, in_sequence, rewritten } = candidate;
    let span = priors::whole_block(unit, page_to_write(session));
    let mut evidence = Vec::new();
    if in_sequence {
        evidence.push(format!("Of sequential writes one is slow every {span}."));
    }
    if let Some(one) = in_place {
        evidence.push(format!("Of rewrites of one page one is slow every {one}."));
    }
    match rewritten {
        Some(true) => {
            evidence.push("Rewriting such a block as a whole is fast, and rewriting half of it is slow: it is an erase block.".to_owned())
        }
        Some(false) => {
            evidence.push("But rewriting half of it costs no more than rewriting it as a whole, which speaks against an erase block.".to_owned());
        }
        None => {}
    }
    let dies = session.known().count(Parameter::ParallelUnits);
    let rule = match (in_sequence, in_place, rewritten) {
        (true, Some(_), Some(true)) => Some(Rule::strong("sequence, place and rewriting")),
        // With one die the two are the same; with several the number of dies is only seen in one way.
        (true, Some(one), None) if one == span => Some(Rule::strong("sequence and place, equal")),
        (true, Some(_), None) => Some(Rule::strong("sequence and place")),
        (true, None, Some(true)) => Some(Rule::strong("sequence and rewriting")),
        // The number of dies was found by reading.
        (false, Some(_), Some(true)) => Some(Rule::strong("place and rewriting")),
        (false, Some(_), _) => Some(Rule::likely("place")),
        (true, Some(_), Some(false)) => Some(Rule::likely("sequence and place, against rewriting")),
        (true, None, None) => Some(Rule::likely("sequence")),
        (true, None, Some(false)) if dies == Some(1) => Some(Rule::weak("sequence, against rewriting")),
        _ => None,
    };
    // Dies may be merged one after the other, each of them once in a unit.
    let (span, rule) = match dies.filter(|_| rule.is_none() && in_sequence) {
        Some(dies) if !seen.moves_pages => {
            evidence.push(format!(
                "The {dies} dies may be merged one after the other, each of them once per erase block."
            ));
            (span * dies, Some(ONE_DIE_EACH))
        }
        _ => (span, rule),
    };
    let evidence = evidence.join(" ");
    // Which patterns say what follows from the family.
    let family = session.known().premise(Parameter::TranslationFamily);
    let finding = match rule {
        Some(rule) => Rule::found(parameter, span, rule.min(family), evidence),
        None => Finding::undetermined(parameter, evidence),
    };
    session.conclude(finding.with(picture));
}

/// What can be placed by itself follows from the family: the page, or what is merged.
fn conclude_granularity(session: &mut Session<'_, '_>, family: Option<Family>) {
    let from = match family {
        Some(family) if family.maps_pages() => Parameter::WritePageSize,
        Some(_) => Parameter::EraseBlockSize,
        None => {
            let reason =
                "The mapping granularity follows from the family of the translation layer, which is unknown.";
            session.conclude(Finding::undetermined(Parameter::MappingGranularity, reason));
            return;
        }
    };
    let known = session.known();
    let sure = Rule::strong("follows from the family")
        .min(known.premise(from))
        .min(known.premise(Parameter::TranslationFamily));
    let finding = match (session.known().bytes(from), family) {
        (Some(size), Some(family)) => {
            let evidence = format!(
                "A translation layer of the family '{family}' maps units of one {}.",
                from.title().to_lowercase()
            );
            Rule::found(Parameter::MappingGranularity, size, sure, evidence)
        }
        _ => Finding::undetermined(
            Parameter::MappingGranularity,
            format!(
                "The mapping granularity of this family is the {}, which is unknown.",
                from.title().to_lowercase()
            ),
        ),
    };
    let picture = session.inference().get(from).and_then(|finding| finding.picture.clone());
    session.conclude(finding.seen_in(picture));
}
