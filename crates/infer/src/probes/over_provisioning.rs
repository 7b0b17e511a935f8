//! Finds the over-provisioning: how much is overwritten before garbage collection begins.
//!
//! # Model
//! After a sequential fill, each page of data is in its place, and the over-provisioned blocks are free. On a page
//! map each write takes a page of a free block. The first erase comes when none is left. So the amount written until
//! then is the over-provisioning, less what the device always keeps free. Published drives: the capacity and the
//! amount written until the onset add up to the same within 0.8 %.
//!
//! The onset is seen twice: garbage collection begins to run once per erase block, and stalls become more frequent
//! ([`onset`](crate::signals::onset)). The first is more exact and decides; the second one confirms it.
//!
//! # Method
//! 1. If the device counts what it writes to its flash, that counter shows the onset (`media`).
//! 2. Otherwise the device is overwritten sequentially ([`overwriting`]).
//! 3. If collection runs from the first write on, or pages of different dies are slow, blocks may be replaced as a
//!    whole. Then single pages fill shared log blocks ([`single_pages`]), which are the over-provisioning.
//! 4. What this means depends on the translation layer, which is not known yet. So the findings are provisional,
//!    until [`super::physical_capacity`] concludes them.
//!
//! # Invariants
//! - Everything that was overwritten since the fill, also by earlier probes, was written to free blocks and counts.
//! - Single pages that all went to one die used up free blocks of this die only: the answer may be off by as much for
//!   each other die.

mod media;
mod overwriting;
mod overwritten;
mod single_pages;

use crate::signals::full_logs::Shared;
use crate::signals::onset::Onset;
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::Parameter;
use flashlab_base::Bytes;

use crate::answers::slc_cache;
use crate::answers::space::{SPACE, hand_in_space, known_within};
use crate::checkpoint::ReclaimUnit;
use crate::halt::Halt;
use crate::patterns::writes::{Buffer, buffer, dies, planes};
use crate::probe::Probe;
use crate::rule::{LIKELY_LEAST, Rule};
use crate::session::Session;
use crate::thresholds;
use crate::words::{duration, times};
use media::counted;
use overwriting::{Overwriting, begin, overwrite};
use single_pages::{Logs, SinglePages};

pub(crate) const PROBE: Probe = Probe {
    name: "over-provisioning",
    about: "the filled device is overwritten sequentially: after how much does garbage collection begin?",
    parameters: &slc_cache::REGION,
    hands_in: &SPACE,
    write_share: 0.11,
};

/// The rules of the number of logs, where nothing was in them before, and where something was; and of their size.
const LOGS_FULL: Rule = Rule::strong("full logs");
const LOGS_FULL_EARLY: Rule = Rule::likely("full logs, not empty before");
const UNIT_OF_LOGS: Rule = Rule::strong("unit of full logs");
/// The rules of both where a buffer may have taken some of the pages, and elsewhere: several logs that are reclaimed in a batch look
/// like a larger one. No device of the calibration has them.
const BUFFERED: Rule = Rule::weak("buffered pages");
const ONE_BY_ONE: Rule = Rule::likely("logs reclaimed together");
/// The share of the device that single pages take before it is overwritten. Unit: share. Source: choice. Too
/// high: the over-provisioning of one die is used up; too low: large log blocks are not filled.
const FIRST_SHARE: f64 = 0.12;
/// The share of the write budget that single pages take. Unit: share. Source: choice. Too high: overwriting
/// has none; too low: large log blocks are not filled.
const PAGES_PART: f64 = 0.85;
/// The share of the device that is overwritten before a cycle from the first write on is believed: some of
/// the largest blocks. Unit: share. Source: tuned. Too high: the budget is used up; too low: the cycle of a
/// write buffer is an erase block.
const CYCLE_SHARE: f64 = 0.13;
/// The first stall of a cycle that predicted itself, where there are more stalls from there on as well, or not clearly.
const SEEN_TWICE: Rule = Rule::likely("collection and stalls");
const SEEN_ONCE: Rule = Rule::likely("collection");
/// The rule that over-provisioned space does not deferred merges that are seen from the first writes on.
const MERGES: Rule = Rule::strong("merges from the first write");
pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    slc_cache::conclude_provisional(session);
    if session.media_written().is_some() {
        return counted(session);
    }
    session.look_through();
    let [enough, few] =
        [CYCLE_SHARE, FIRST_SHARE].map(|share| Bytes((session.capacity().0 as f64 * share) as u64));
    let mut pages = SinglePages::new(session);
    let mut logs_seen = Logs::Unclear;
    if !session.known().is_likely_to_map_pages() {
        logs_seen = look(session, &mut pages, few)?;
        if hand_in_logs(session, &pages, logs_seen)? {
            return Ok(());
        }
    }
    let (mut overwriting, mut before) = overwrite_first(session, enough, pages.as_ref())?;
    let early = overwriting.unit();
    // On a page map, what repeats from the first write on are multi-plane pages. Single pages would use up
    // the free blocks of one die.
    if !session.known().is_likely_to_map_pages()
        && logs_seen == Logs::Unclear
        && early.is_some_and(|unit| unit.onset.is_none())
    {
        logs_seen = look(session, &mut pages, session.capacity())?;
        before.and(overwriting.written(), pages.as_ref());
    }
    if logs_seen != Logs::Unclear {
        overwriting.hand_in(session);
        session.set_reclaim_unit(overwriting.unit().map(|unit| ReclaimUnit { onset: None, ..unit }));
        session.wrote_in_place(overwriting.written());
        hand_in_logs(session, &pages, logs_seen)?;
        return Ok(());
    }
    if early.is_none_or(|unit| unit.onset.is_none()) {
        overwrite(session, &mut overwriting, None)?;
    }
    let seen = overwriting.unit();
    overwriting.hand_in(session);
    if let Some(unit @ ReclaimUnit { onset: Some(onset), .. }) = seen {
        return collection(session, &overwriting, &mut pages, (unit, onset), &before);
    }
    if let more @ Logs::Shared(_) = look(session, &mut pages, session.capacity())? {
        hand_in_logs(session, &pages, more)?;
    } else {
        undecided(session, &overwriting);
    }
    if seen.is_some() {
        session.wrote_in_place(overwriting.written());
    }
    Ok(())
}

/// Overwrites a first part of the device in order.
fn overwrite_first(
    session: &mut Session<'_, '_>,
    enough: Bytes,
    pages: Option<&SinglePages>,
) -> Result<(Overwriting, Before), Halt> {
    // Blocks that can be erased at once are not, as long as there are others.
    let before = Before::new(session.written_since_fill()? + session.written_in_place(), pages);
    let mut overwriting = begin(session);
    overwrite(session, &mut overwriting, Some(enough))?;
    Ok((overwriting, before))
}

/// Hands in what the first collection means, which came after `onset`.
fn collection(
    session: &mut Session<'_, '_>,
    overwriting: &Overwriting,
    pages: &mut Option<SinglePages>,
    (seen, onset): (ReclaimUnit, Bytes),
    before: &Before,
) -> Result<(), Halt> {
    // Where blocks are copied, it may be the logs that are full for the first time.
    if overwriting.trace.copies() && look(session, pages, Bytes::ZERO)? == Logs::Merged {
        overwriting.hand_in(session);
        session.set_reclaim_unit(Some(ReclaimUnit { onset: None, ..seen }));
        hand_in_logs(session, pages, Logs::Merged)?;
        return Ok(());
    }
    // A cycle may be seen late, or another one be taken for it: more stalls from the same place on confirm it.
    let place = onset.0 / overwriting.size.0;
    let slack = |stalls: &Onset| (seen.size.0 / 2 / overwriting.size.0).max(stalls.within as u64);
    let is_near = |stalls: &Onset| place.abs_diff(stalls.at as u64) <= slack(stalls);
    match clear_stalls(overwriting) {
        Some(stalls) if is_near(&stalls) => {
            hand_in_in_order(session, overwriting, before.used(onset), SEEN_TWICE)
        }
        _ => hand_in_in_order(session, overwriting, before.used(onset), SEEN_ONCE),
    }
    Ok(())
}

/// What was used of the flash since the fill before the device was overwritten in order, and after a first part of that.
struct Before {
    first: Bytes,
    /// The single pages of it.
    pages: Bytes,
    part: Bytes,
    between: Bytes,
}

impl Before {
    /// This much was written, with these single pages.
    fn new(written: Bytes, pages: Option<&SinglePages>) -> Before {
        let idle_times = pages.map_or(Bytes::ZERO, SinglePages::unwritten_parts);
        Before { first: written + idle_times, pages: taken(pages), part: Bytes::ZERO, between: Bytes::ZERO }
    }

    /// After this much in order more single pages followed.
    fn and(&mut self, part: Bytes, pages: Option<&SinglePages>) {
        self.part = part;
        self.between = Bytes(taken(pages).0.saturating_sub(self.pages.0));
    }

    /// All that was used when this much was in order, and the single pages of it.
    fn used(&self, in_order: Bytes) -> (Bytes, Bytes) {
        let between = if in_order > self.part { self.between } else { Bytes::ZERO };
        (self.first + in_order + between, self.pages + between)
    }
}

/// What single pages took of the flash.
fn taken(pages: Option<&SinglePages>) -> Bytes {
    pages.map_or(Bytes::ZERO, |pages| pages.written() + pages.unwritten_parts())
}

/// What single pages show by the time that `most` was written.
fn look(session: &mut Session<'_, '_>, pages: &mut Option<SinglePages>, most: Bytes) -> Result<Logs, Halt> {
    let Some(pages) = pages else { return Ok(Logs::Unclear) };
    let more = pages.written() + Bytes((session.writes_left().0 as f64 * PAGES_PART) as u64);
    pages.look(session, most, more)
}

/// Hands in what logs mean that single pages showed; whether they showed any.
fn hand_in_logs(
    session: &mut Session<'_, '_>,
    pages: &Option<SinglePages>,
    logs_seen: Logs,
) -> Result<bool, Halt> {
    let Some(pages) = pages else { return Ok(false) };
    match logs_seen {
        Logs::Unclear => return Ok(false),
        Logs::Merged => merged(session, pages),
        Logs::Shared(shared) => {
            hand_in_shared(session, pages, &shared);
        }
    }
    Ok(true)
}

/// Where the device reclaims blocks in order for the first time, to the block.
fn hand_in_in_order(
    session: &mut Session<'_, '_>,
    overwriting: &Overwriting,
    (spare, pages): (Bytes, Bytes),
    rule: Rule,
) {
    let evidence = format!(
        "When the filled device is overwritten sequentially, garbage collection begins after {spare}. From there on it runs once per \
         {}.",
        session.reclaim_unit().map_or(Bytes::ZERO, |unit| unit.size),
    );
    let picture = overwriting.picture().mark(spare.0 as f64, "garbage collection begins");
    let rules = known_within(session.capacity(), spare.0 as f64, more_of_pages(session, pages), rule);
    hand_in_space(session, spare.0 as f64, rules, &evidence, &picture);
}

/// The additional amount that single pages may have used: as much of each die, if all went to one die. If the
/// page is doubtful, it may also be a multi-plane page.
fn more_of_pages(session: &Session<'_, '_>, taken: Bytes) -> f64 {
    let is_known = session.known().confidence(Parameter::ReadPageSize) >= LIKELY_LEAST;
    let rows = if is_known { 1 } else { planes(session) };
    (taken * (dies(session) * rows - 1)).0 as f64
}

/// The place from which on there are clearly more stalls.
fn clear_stalls(overwriting: &Overwriting) -> Option<Onset> {
    overwriting.trace.more_stalls().filter(|stalls| stalls.gain >= thresholds::CLEAR_GAIN)
}

/// Logs that all blocks share are full: they are whole units.
fn hand_in_shared(session: &mut Session<'_, '_>, pages: &SinglePages, shared: &Shared) {
    let Shared { logs, first, period, whole, .. } = *shared;
    let (size, unit) = (pages.size, pages.unit(shared));
    let spare = unit * u64::from(logs);
    let evidence = format!(
        "Of single pages of {size} in different blocks of one die, page {first} is the first that waits until a log block is \
         reclaimed, and then every {period} pages one. There are {logs} log blocks, if the device reclaims one at a time."
    );
    let picture = pages.picture().mark(first as f64 * size.0 as f64, "log blocks are full");
    // What a buffer of which nothing is known took is among the pages.
    let most = if buffer(session) == Buffer::Unknown { BUFFERED } else { ONE_BY_ONE };
    let basis = if whole { LOGS_FULL } else { LOGS_FULL_EARLY }.min(most);
    session.set_reclaim_unit(Some(ReclaimUnit::of_logs(unit, logs)));
    // The pages of one die were counted: of how many dies they are, is as clear as the dies are.
    let dies = session.known().premise(Parameter::ParallelUnits);
    let of_unit = UNIT_OF_LOGS.min(dies).min(most);
    let of_unit = Rule::found(Parameter::EraseBlockSize, unit, of_unit, evidence.clone());
    session.hand_in(of_unit.with(picture.clone()));
    let of_logs = Rule::found(Parameter::OpenBlocks, u64::from(logs), basis, evidence.clone());
    session.hand_in(of_logs.with(picture.clone()));
    hand_in_space(session, spare.0 as f64, [Some(basis.min(dies)); 2], &evidence, &picture);
}

/// Each single page costs a merge.
fn merged(session: &mut Session<'_, '_>, pages: &SinglePages) {
    let late = upper_median(&pages.costs[pages.costs.len() / 2..]);
    let evidence = format!(
        "Single pages of {} in different blocks of one die take {} each, {} the time that filling the device took for the same amount: \
         over-provisioning defers none of the merges.",
        pages.size,
        duration(late),
        times(late / (session.fill_nanos_per_byte() * pages.size.0 as f64).max(1.0)),
    );
    for parameter in SPACE {
        let finding = Rule::not_identifiable(parameter, MERGES, evidence.clone());
        session.hand_in(finding.with(pages.picture()));
    }
}

/// Neither of the two signs.
fn undecided(session: &mut Session<'_, '_>, overwriting: &Overwriting) {
    let evidence = format!(
        "After sequential overwriting of {} there is still no point from which garbage collection runs or more IOs wait.",
        overwriting.written(),
    );
    hand_in_space(session, 0.0, [None; 2], &evidence, &overwriting.picture());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_pages_between_count_only_for_what_was_overwritten_behind_them() {
        let mut before = Before::new(Bytes(10), None);
        assert_eq!(before.used(Bytes(5)), (Bytes(15), Bytes::ZERO));
        (before.part, before.between) = (Bytes(4), Bytes(100));
        assert_eq!(before.used(Bytes(3)), (Bytes(13), Bytes::ZERO));
        assert_eq!(before.used(Bytes(5)), (Bytes(115), Bytes(100)));
    }
}
