//! How much flash there is beyond the capacity: from when on the overwritten device makes room.
//!
//! # Model
//! After the whole device was written in order, every page of data is in its place and the space beyond is free. The device
//! is overwritten in order ([`super::overwriting`]). Where every page may lie anywhere, each write takes of the free space; the
//! first erase comes when it is used up, and what was written until then is that space, less what is always kept free.
//! (Published drives: what is filled in and what is written until the onset add up to the same within 0.8 %, whatever the
//! fill.) It is seen twice: as the place from which on room is made once in each unit; and as the place from which on there are
//! more stalls ([`super::onset`]), as a device may choose blocks with no regard to their order, and copy what is valid in
//! them. The first is more exact, the second one less often wrong: it decides where it is clear and they are apart.
//!
//! If room is made from the beginning on, units are replaced as a whole, and logs of them are looked for ([`super::logs`]).
//!
//! What all of this means depends on the translation layer, which is not known yet: it is supposed here, and concluded
//! later ([`super::physical`]).
//!
//! # Invariants
//! - what was written over since the device was filled, and before, was written to the free space as well.

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style, UnitSeen};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use super::figures::{mean, over_bytes};
use super::logs::{Logs, logs};
use super::media::counted;
use super::onset::Onset;
use super::overwriting::{Overwriting, begin, overwrite};
use super::patterns::{ios, responses};
use super::physical;
use crate::group::Group;
use crate::halt::Halt;
use crate::session::Session;

pub(crate) const GROUP: Group = Group {
    name: "spare-space",
    about: "the filled device overwritten in order: nothing is erased until the space beyond the capacity is used up",
    parameters: &[],
    supposes: Some(Parameter::PhysicalCapacity),
    write_share: 0.11,
    probe,
};

/// Writes that are left for a look at logs.
const LOGS_LEAST: u64 = 512;
/// How sure the number of logs is.
const LOGS_FULL: f64 = 0.8;
/// What is overwritten before a cycle from the beginning on is believed, as a share of the device: some of the largest blocks.
const ENOUGH: f64 = 0.13;
/// The share of the device that is left to the groups behind, where overwriting in order shows nothing.
const LEFT: f64 = 0.06;
/// How sure the first stall of a cycle that foretold itself is, of the physical capacity and of the space beyond the capacity:
/// where there are more stalls from there on as well, or not clearly.
const SEEN_TWICE: [f64; 2] = [0.85, 0.7];
const SEEN_ONCE: [f64; 2] = [0.75, 0.6];
/// How sure a place with more stalls behind it is: so much likelier than none in nats, or less.
const CLEAR: f64 = 12.0;
const MORE_STALLS: [f64; 2] = [0.8, 0.65];
const SPARE_MORE_STALLS: f64 = 0.5;
/// How sure it is that space beyond the capacity does not put off merges that are seen from the first writes on.
const MERGES: f64 = 0.9;
/// The size of the writes, where no larger mapped unit is known.
pub(super) const IO_SIZE: Bytes = Bytes::kib(16);
/// Sequential writes for a comparison, at the most: they take of the space, too.
const REFERENCE: u64 = 128;
/// The error up to which the physical capacity is told, and the space beyond the capacity.
const PHYSICAL_ERROR: f64 = 0.03;
const SPARE_ERROR: f64 = 0.1;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    // Blocks that can be erased at once are not, as long as there are others.
    let before = session.written_since_fill()? + session.written_in_place();
    if session.media_written().is_some() {
        return counted(session);
    }
    let part = |share: f64| Bytes((session.capacity().0 as f64 * share) as u64);
    let (enough, kept) = (part(ENOUGH), part(LEFT));
    let most = session.writes_left();
    let usual = Bytes(most.0.saturating_sub(kept.0));
    let mut overwriting = begin(session);
    overwrite(session, &mut overwriting, enough.min(usual), most)?;
    let early = overwriting.unit();
    if count_logs(session, &overwriting)? {
        return Ok(());
    }
    let left = Bytes(session.writes_left().0.saturating_sub(kept.0));
    let (usual, most) = (overwriting.written() + left, overwriting.written() + session.writes_left());
    if early.is_none_or(|unit| unit.onset.is_none()) {
        overwrite(session, &mut overwriting, usual, most)?;
    }
    let seen = overwriting.unit();
    overwriting.tell(session);
    if let Some(UnitSeen { size: unit, onset: Some(onset), .. }) = seen {
        // Where blocks are copied, it may be the logs that are full for the first time.
        let size = IO_SIZE.max(session.block());
        if overwriting.copies() && session.writes_left() >= size * LOGS_LEAST {
            let sequential = reference(session, size, REFERENCE)?;
            if let Logs::Merged(costs) = logs(session, unit, sequential)? {
                session.saw_unit(seen.map(|seen| UnitSeen { onset: None, ..seen }));
                merged(session, size, &costs, sequential);
                return Ok(());
            }
        }
        // A cycle may be seen late, or another one be taken for it.
        let apart = |at: usize| (overwriting.size.0 * at as u64).abs_diff(onset.0) > unit.0 / 2;
        let clear = overwriting.more_stalls().filter(|stalls| stalls.gain >= CLEAR);
        match clear {
            Some(stalls) if apart(stalls.at) => suppose_more_stalls(session, &overwriting, stalls, before),
            _ => {
                let sure = if clear.is_some() { SEEN_TWICE } else { SEEN_ONCE };
                suppose_in_order(session, &overwriting, before + onset, sure);
            }
        }
        return Ok(());
    }
    if seen.map(|seen| seen.size) != early.map(|early| early.size) && count_logs(session, &overwriting)? {
        return Ok(());
    }
    match overwriting.more_stalls() {
        Some(onset) => suppose_more_stalls(session, &overwriting, onset, before),
        None => undecided(session, &overwriting),
    }
    if seen.is_some() {
        session.wrote_in_place(overwriting.written());
    }
    Ok(())
}

/// Looks for logs of whole units, where these are replaced from the beginning on, if no buffer makes it seem so; whether that
/// tells all.
fn count_logs(session: &mut Session<'_, '_>, overwriting: &Overwriting) -> Result<bool, Halt> {
    let Some(UnitSeen { size: unit, onset: None, .. }) = overwriting.unit() else { return Ok(false) };
    overwriting.tell(session);
    let size = IO_SIZE.max(session.block());
    let sequential = reference(session, size, REFERENCE)?;
    match logs(session, unit, sequential)? {
        Logs::Merged(costs) => {
            session.wrote_in_place(overwriting.written());
            merged(session, size, &costs, sequential);
        }
        Logs::Shared { logs, first, period, costs } => {
            session.wrote_in_place(overwriting.written());
            session.saw_logs(logs);
            suppose_logs(session, unit, (logs, first, period), &costs, sequential);
        }
        Logs::Unclear => return Ok(false),
    }
    Ok(true)
}

/// Where the device makes room in order for the first time, to the block.
fn suppose_in_order(session: &mut Session<'_, '_>, overwriting: &Overwriting, spare: Bytes, sure: [f64; 2]) {
    let evidence = format!(
        "overwritten in order, the device makes room for the first time after {spare}, and from then on once in each {}",
        overwriting.unit().map_or(Bytes::ZERO, |unit| unit.size),
    );
    let picture = overwriting.picture().mark(spare.0 as f64, "room is made for the first time");
    suppose_space(session, spare.0 as f64, sure.map(Some), &evidence, &picture);
}

/// From where on there are more stalls.
fn suppose_more_stalls(
    session: &mut Session<'_, '_>,
    overwriting: &Overwriting,
    onset: Onset,
    before: Bytes,
) {
    let Onset { at, gain, before: share, after } = onset;
    let spare = before + overwriting.size * at as u64;
    let evidence = format!(
        "overwritten in order, the device makes one IO in {:.0} wait for an erase or longer until {spare} are written, and one \
         in {:.0} from there on, which is likelier than no change by {gain:.0} nats",
        1.0 / share.max(1e-6),
        1.0 / after.max(1e-6),
    );
    let picture = overwriting.picture().mark(spare.0 as f64, "more stalls");
    let physical = MORE_STALLS[usize::from(gain < CLEAR)];
    suppose_space(session, spare.0 as f64, [Some(physical), Some(SPARE_MORE_STALLS)], &evidence, &picture);
}

/// Supposes the space beyond the capacity: how sure the physical capacity is, and that space; `None` where it is not told.
pub(super) fn suppose_space(
    session: &mut Session<'_, '_>,
    spare: f64,
    sure: [Option<f64>; 2],
    evidence: &str,
    picture: &Picture,
) {
    let capacity = session.capacity().0 as f64;
    for (&parameter, sure) in physical::GROUP.parameters.iter().zip(sure) {
        let finding = match sure {
            Some(sure) => {
                Finding::found(parameter, physical::value(parameter, capacity, spare), sure, evidence)
            }
            None => Finding::undetermined(parameter, evidence),
        };
        session.suppose(finding.with(picture.clone()));
    }
}

/// How sure both are that are known so well: within `error` of `spare`.
pub(super) fn sure_within(capacity: Bytes, spare: f64, error: f64, sure: f64) -> [Option<f64>; 2] {
    let physical = error / (capacity.0 as f64 + spare) <= PHYSICAL_ERROR;
    [physical, error / spare <= SPARE_ERROR].map(|known| known.then_some(sure))
}

/// Logs that all blocks share are full: they are whole units.
fn suppose_logs(
    session: &mut Session<'_, '_>,
    unit: Bytes,
    (logs, first, period): (u32, usize, usize),
    costs: &[f64],
    sequential: f64,
) {
    let spare = unit * u64::from(logs);
    let evidence = format!(
        "of pages written in the middle of units of {unit}, the {first}-th is the first to empty a log, and each \
         {period}-th after it: {logs} logs"
    );
    let size = IO_SIZE.max(session.block());
    let picture = picture(size, costs, sequential).mark(first as f64 * size.0 as f64, "logs are full");
    suppose_space(session, spare.0 as f64, [Some(LOGS_FULL); 2], &evidence, &picture);
}

/// The mean cost of sequential writes: of a few of the same size, without the first ones, and at least what the fill took
/// for as many bytes, as a buffer may take a few.
fn reference(session: &mut Session<'_, '_>, size: Bytes, count: u64) -> Result<f64, Halt> {
    let count = count.min(REFERENCE);
    let pattern = ios(Mode::Write, Location::Sequential, size, count);
    let costs = responses(&session.run("sequential-writes", &pattern)?);
    Ok(mean(&costs[costs.len() / 2..]).max(session.fill_cost() * size.0 as f64))
}

fn picture(size: Bytes, costs: &[f64], sequential: f64) -> Picture {
    let points = over_bytes(size, costs);
    let end = points.last().map_or(0.0, |point| point.0);
    Picture::new(
        "Writes in the middle of units after the device was filled, means of stretches: the cost rises where logs are full.",
        Axis::linear("written", "bytes"),
        Axis::linear("response time", "ns"),
    )
    .draw("writes in the middle", Style::Line, points)
    .draw("sequential writes", Style::Line, vec![(0.0, sequential), (end, sequential)])
}

/// Each write in the middle of a unit costs a merge.
fn merged(session: &mut Session<'_, '_>, size: Bytes, costs: &[f64], sequential: f64) {
    let evidence = format!(
        "writes of {size} in the middle of units cost {}, from the first ones on, {:.0} times what sequential ones cost: \
         space beyond the capacity does not put anything off",
        Nanos(mean(costs) as u64),
        mean(costs) / sequential,
    );
    for &parameter in physical::GROUP.parameters {
        let finding = Finding::not_identifiable(parameter, MERGES, evidence.clone());
        session.suppose(finding.with(picture(size, costs, sequential)));
    }
}

/// Neither of the two signs.
fn undecided(session: &mut Session<'_, '_>, overwriting: &Overwriting) {
    let evidence = format!(
        "{} overwritten in order: there is no place from which on room is made, or there are more stalls",
        overwriting.written(),
    );
    for &parameter in physical::GROUP.parameters {
        session.suppose(Finding::undetermined(parameter, evidence.clone()).with(overwriting.picture()));
    }
}
