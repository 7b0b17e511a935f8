//! How much flash there is beyond the capacity: when collection begins.
//!
//! # Model
//! First the device is overwritten in order ([`super::overwriting`]): if room is made once in each unit from some place on,
//! what was written until then is the space beyond the capacity. If it is made from the beginning on, units are replaced
//! as a whole, and logs of them are looked for ([`super::logs`]). If nothing of this is seen, random writes tell.
//!
//! After the whole device was written sequentially, every page of data is in its place and the space beyond is free.
//! Each random write takes a page of it and leaves an invalid one, scattered, so that no block becomes wholly
//! invalid. Writes cost the same until the free space is used up. From then on each block that is to be written to
//! has to be collected first: its valid pages, all but about the share `x` that was overwritten, are moved. The mean
//! cost rises at once by a lot: a collection brings a share of little more than `x` of a block (the best of many
//! blocks of `b` pages, `x` and two or three deviations of a binomial), so that for one page `1 / x` and less are
//! written (Desnoyers, ACM TOS 10(2), 2014, before the steady state). What was written until then is the space that
//! the device has beyond its capacity, less what it always keeps free. (Published drives: what is filled in and what is
//! written until the onset add up to the same within 0.8 %, whatever the fill.)
//!
//! Work that a device puts off until it rests makes a rise, too, but after a rest as much is cheap again. Used-up
//! space stays used up. So the rise has to outlast a rest; if it does not, what follows it is looked at.
//!
//! Collection comes in lumps: a block's worth of writes is as cheap as before. Where each random write costs a merge from
//! the beginning, or from when each log block has its data block, there is no such space to be seen.
//!
//! # Invariants
//! - a rise that is too small for a collection at this share is none: a map that is written back makes one, too;
//! - the writes are as large as a mapped unit can be, and small against a block;
//! - what was written since the fill by others is in the uncertainty.

use flashlab_analysis::decide::level::level;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style, UnitSeen};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use super::figures::{mean, over_bytes};
use super::logs::{Logs, logs};
use super::media::counted;
use super::overwriting::{Overwriting, begin, overwrite};
use super::patterns::{ios, responses};
use super::steps::{Step, rise};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "spare-space",
    about: "random writes after a sequential fill: they are cheap until the space beyond the capacity is used up",
    parameters: &[Parameter::PhysicalCapacity, Parameter::OverProvisioning],
    write_share: 0.11,
    probe,
};

/// Writes that are left for a look at logs.
const LOGS_LEAST: u64 = 512;
/// How sure the number of logs is.
const LOGS_FULL: f64 = 0.8;
/// What is overwritten before a cycle from the beginning on is believed, as a share of the device: some of the largest blocks.
const ENOUGH: f64 = 0.13;
/// The share of the device that is kept for writes anywhere, where overwriting in order shows nothing.
const RANDOM_PART: f64 = 0.06;
/// How sure the first stall of a cycle that foretold itself is.
const IN_ORDER: f64 = 0.8;
const SPARE_IN_ORDER: f64 = 0.6;
/// The size of the writes, where no larger mapped unit is known.
pub(super) const IO_SIZE: Bytes = Bytes::kib(16);
/// A part of the capacity, after each of which the costs are looked at.
const PARTS: u64 = 128;
/// Parts after which merges from the beginning are taken for all that there is.
const PARTS_OF_MERGES: usize = 5;
/// Sequential writes for a comparison, at the most: they take of the space, too.
const REFERENCE: u64 = 128;
/// Random writes that cost so many times as much as sequential ones are merged.
const MERGED: f64 = 8.0;
/// Where this share of random writes costs so many times what sequential ones cost, it is merges.
const DEAR: f64 = 3.0;
const DEAR_SHARE: f64 = 0.3;
/// How long the device rests to see whether that brings the low costs back.
const REST: Nanos = Nanos::from_secs(60);
/// After a rise the costs stay high for at least this share of what came before.
const CONFIRMED: f64 = 0.06;
/// The part of what a host's write costs that moving as much costs at least.
const COPY_LEAST: f64 = 0.15;
/// A part of the capacity that logs of single data blocks take, and spare space does not.
const LITTLE: f64 = 0.02;
/// The error up to which the physical capacity is told, and the space beyond the capacity.
const PHYSICAL_ERROR: f64 = 0.03;
const SPARE_ERROR: f64 = 0.1;
/// The fewest pages of a block.
const BLOCK_PAGES_LEAST: f64 = 32.0;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    // Blocks that can be erased at once are not, as long as there are others.
    let before = session.written_since_fill()? + session.written_in_place();
    if session.media_written().is_some() {
        return counted(session);
    }
    let part = |share: f64| Bytes((session.capacity().0 as f64 * share) as u64);
    let (enough, kept) = (part(ENOUGH), part(RANDOM_PART));
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
                return merged(session, size, &costs, sequential);
            }
        }
        conclude_onset(session, &overwriting, before + onset);
        return Ok(());
    }
    if seen.map(|seen| seen.size) != early.map(|early| early.size) && count_logs(session, &overwriting)? {
        return Ok(());
    }
    if seen.is_some() {
        session.wrote_in_place(overwriting.written());
    }
    random_writes(session)
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
            merged(session, size, &costs, sequential)?;
        }
        Logs::Shared { logs, first, period, costs } => {
            session.wrote_in_place(overwriting.written());
            session.saw_logs(logs);
            conclude_logs(session, unit, (logs, first, period), &costs, sequential);
        }
        Logs::Unclear => return Ok(false),
    }
    Ok(true)
}

/// Where collection begins in order, to the block.
fn conclude_onset(session: &mut Session<'_, '_>, overwriting: &Overwriting, spare: Bytes) {
    let evidence = format!(
        "overwritten in order, the device makes room for the first time after {spare}, and from then on once in each {}",
        overwriting.unit().map_or(Bytes::ZERO, |unit| unit.size),
    );
    let picture = overwriting.picture().mark(spare.0 as f64, "room is made for the first time");
    let sure = [Some(IN_ORDER), Some(SPARE_IN_ORDER)];
    conclude_space(session, spare.0 as f64, sure, &evidence, &picture);
}

/// Concludes the space beyond the capacity: how sure the physical capacity is, and that space; `None` where it is not told.
pub(super) fn conclude_space(
    session: &mut Session<'_, '_>,
    spare: f64,
    [physical, share]: [Option<f64>; 2],
    evidence: &str,
    picture: &Picture,
) {
    let capacity = session.capacity().0 as f64;
    for (parameter, value, sure) in [
        (Parameter::PhysicalCapacity, capacity + spare, physical),
        (Parameter::OverProvisioning, spare / capacity, share),
    ] {
        let finding = match sure {
            Some(sure) => Finding::found(parameter, value, sure, evidence),
            None => Finding::undetermined(parameter, evidence),
        };
        session.conclude(finding.with(picture.clone()));
    }
}

/// How sure both are that are known so well: within `error` of `spare`.
pub(super) fn sure_within(capacity: Bytes, spare: f64, error: f64, sure: f64) -> [Option<f64>; 2] {
    let physical = error / (capacity.0 as f64 + spare) <= PHYSICAL_ERROR;
    [physical, error / spare <= SPARE_ERROR].map(|known| known.then_some(sure))
}

/// Writes anywhere, until they are expensive.
fn random_writes(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let count = (session.capacity().0 / PARTS / size.0).max(16);
    let sequential = reference(session, size, count)?;
    let before = session.written_since_fill()?;
    let mut costs: Vec<f64> = Vec::new();
    let pattern = ios(Mode::Write, Location::Random, size, count);
    let mut found = None;
    // Writes before those that are looked at: a start-up phase.
    let mut earlier = 0;
    loop {
        if session.writes_left() < size * count || session.time_left() == Nanos::ZERO {
            break;
        }
        costs.extend(responses(&session.run("random-writes", &pattern)?));
        found = rise(&costs).filter(|step| is_collection(step, size, session.capacity()));
        let confirmed = |step: &Step| costs.len() as f64 >= step.place.high * (1.0 + CONFIRMED) + 32.0;
        if let Some(step) = found.take().filter(confirmed) {
            let risen = &costs[step.place.estimate as usize..];
            let little = bytes(step.place.estimate, size) < LITTLE * session.capacity().0 as f64;
            if little && between(&step, median(risen)) > 0.5 {
                return merged(session, size, risen, sequential);
            }
            let again = after_rest(session, &step, size)?;
            if between(&step, mean(&again)) > 0.5 {
                found = Some(step);
                break;
            }
            // The rest brought it back: put-off work, no space.
            earlier += costs.len();
            costs = again;
        }
        let count = count as usize;
        // The second part: the first may be put off.
        let early = costs.get(count..2 * count).unwrap_or(&[]);
        if costs.len() / count == PARTS_OF_MERGES && mean(early) > MERGED * sequential {
            // Most writes cost a merge; or there are lumps whose beginning was not seen.
            if median(early) > MERGED.sqrt() * sequential {
                return merged(session, size, &costs, sequential);
            }
            if rise(&costs).is_none() {
                break;
            }
        }
    }
    // Logs that all blocks share are emptied for few of the writes.
    let dear = costs.iter().filter(|&&cost| cost > DEAR * sequential).count() as f64;
    if found.is_none() && mean(&costs) > MERGED * sequential && dear > DEAR_SHARE * costs.len() as f64 {
        return merged(session, size, &costs, sequential);
    }
    match found {
        Some(step) => conclude(session, size, &costs, sequential, step, before + size * earlier as u64),
        None => undecided(session, size, &costs, sequential),
    }
    Ok(())
}

/// Logs that all blocks share are full: they are whole units.
fn conclude_logs(
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
    let picture = picture(size, costs, sequential).mark(bytes(first as f64, size), "logs are full");
    conclude_space(session, spare.0 as f64, [Some(LOGS_FULL); 2], &evidence, &picture);
}

fn median(costs: &[f64]) -> f64 {
    level(costs, 0.9).map_or(0.0, |level| level.estimate)
}

/// Random writes after a rest, fewer than there were before the rise.
fn after_rest(session: &mut Session<'_, '_>, step: &Step, size: Bytes) -> Result<Vec<f64>, Halt> {
    session.rest(REST)?;
    let most = session.writes_left().0 / size.0;
    let count = ((step.place.estimate / 2.0) as u64).clamp(8, 512).min(most);
    Ok(responses(&session.run("after-a-rest", &ios(Mode::Write, Location::Random, size, count))?))
}

fn bytes(ios: f64, size: Bytes) -> f64 {
    ios * size.0 as f64
}

/// How far a cost lies from that before the rise to that after it, on logarithms.
fn between(step: &Step, cost: f64) -> f64 {
    (cost / step.before).ln() / step.ratio().ln()
}

/// The mean cost of sequential writes: of a few of the same size, without the first ones, and at least what the fill took
/// for as many bytes, as a buffer may take a few.
fn reference(session: &mut Session<'_, '_>, size: Bytes, count: u64) -> Result<f64, Halt> {
    let count = count.min(REFERENCE);
    let pattern = ios(Mode::Write, Location::Sequential, size, count);
    let costs = responses(&session.run("sequential-writes", &pattern)?);
    Ok(mean(&costs[costs.len() / 2..]).max(session.fill_cost() * size.0 as f64))
}

/// Whether a rise is as high as collecting blocks makes it, when this share of the device was overwritten.
fn is_collection(step: &Step, size: Bytes, capacity: Bytes) -> bool {
    let share = step.place.estimate * size.0 as f64 / capacity.0 as f64;
    let deviation = (share * (1.0 - share).max(0.0) / BLOCK_PAGES_LEAST).sqrt();
    let most_gained = (share + 2.5 * deviation).min(1.0);
    let moved = 1.0 / most_gained - 1.0;
    step.ratio() >= 1.0 + COPY_LEAST * moved && step.ratio() > 1.1
}

fn picture(size: Bytes, costs: &[f64], sequential: f64) -> Picture {
    let points = over_bytes(size, costs);
    let end = points.last().map_or(0.0, |point| point.0);
    Picture::new(
        "Random writes after the device was filled, means of stretches: the cost rises where collection begins.",
        Axis::linear("written since the fill", "bytes"),
        Axis::linear("response time", "ns"),
    )
    .draw("random writes", Style::Line, points)
    .draw("sequential writes", Style::Line, vec![(0.0, sequential), (end, sequential)])
}

fn conclude(
    session: &mut Session<'_, '_>,
    size: Bytes,
    costs: &[f64],
    sequential: f64,
    step: Step,
    before: Bytes,
) {
    let bytes = |ios: f64| bytes(ios, size);
    // Blocks that others wrote over as a whole are collected for nothing, or count as written.
    let uncertain = before.0 as f64 / 2.0;
    let spare = bytes(step.place.estimate) + uncertain;
    let (low, high) = (bytes(step.place.low), bytes(step.place.high) + 2.0 * uncertain);
    let error = (high - spare).max(spare - low);
    let evidence = format!(
        "random writes of {size} cost {} until {} (between {} and {}) were written after the fill, and {} from there \
         on; sequential ones {}",
        Nanos(step.before as u64),
        Bytes(spare as u64),
        Bytes(low as u64),
        Bytes(high as u64),
        Nanos(step.after as u64),
        Nanos(sequential as u64),
    );
    let picture = picture(size, costs, sequential).mark(bytes(step.place.estimate), "collection begins");
    // Before it, random writes of whole mapped units cost what sequential ones do.
    let whole_units = step.before < 1.3 * sequential;
    // How well each is known is what decides whether it is told; but how sure it is depends on the space beyond the
    // capacity alone, as the capacity is no finding.
    let sure = if whole_units && error / spare <= 0.03 { 0.9 } else { 0.7 };
    let sure = sure_within(session.capacity(), spare, error, sure);
    conclude_space(session, spare, sure, &evidence, &picture);
}

/// Each random write costs a merge.
fn merged(session: &mut Session<'_, '_>, size: Bytes, costs: &[f64], sequential: f64) -> Result<(), Halt> {
    let evidence = format!(
        "random writes of {size} cost {}, almost from the first ones on, {:.0} times what sequential ones cost: space beyond \
         the capacity does not put anything off",
        Nanos(mean(costs) as u64),
        mean(costs) / sequential,
    );
    for parameter in GROUP.parameters {
        let finding = Finding::not_identifiable(*parameter, 0.9, evidence.clone());
        session.conclude(finding.with(picture(size, costs, sequential)));
    }
    Ok(())
}

fn undecided(session: &mut Session<'_, '_>, size: Bytes, costs: &[f64], sequential: f64) {
    let evidence = format!(
        "random writes of {size} cost {} on average over {} after the fill, without a rise as collection makes one; \
         sequential ones {}",
        Nanos(mean(costs) as u64),
        size * costs.len() as u64,
        Nanos(sequential as u64),
    );
    for parameter in GROUP.parameters {
        let finding = Finding::undetermined(*parameter, evidence.clone());
        session.conclude(finding.with(picture(size, costs, sequential)));
    }
}
