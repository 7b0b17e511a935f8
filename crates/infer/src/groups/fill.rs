//! The device is written once, one address after the other, but for a rest that the next group writes: the state from which
//! other groups start. On the way it shows a region of fast cells (an SLC cache).
//!
//! # Model
//! Writes go to the fast region while there is room, and cost what fast cells cost. Then room has to be made for
//! each write, and it costs more: the mean cost rises once, after as much as the region holds. When the host rests
//! the device makes room again, all of it or a part. So after a rest the costs begin as low as in the beginning, and
//! rise to the same level as before; what was written till then is the refill.
//!
//! A write buffer does the same on a small scale. But what it takes does not wait for any flash, and costs less than a
//! read; a rise from such costs is not told from one at the end of a fast region behind a buffer.
//!
//! A rise alone is no proof: a device with little erased space left has one, too. It does not come down by resting.
//!
//! # Invariants
//! - what the write buffer's bursts have written from the beginning on is not written again: nothing is overwritten;
//! - requests are small, as large ones may go past a fast region;
//! - nothing rests while the device is filled.

use flashlab_analysis::decide::level::level;
use flashlab_analysis::decide::ranks::{Interval, mann_whitney};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use super::figures::{mean, over_bytes, windows};
use super::large_writes;
use super::patterns::{ios, responses};
use super::steps::{Lump, Step, lump, lump_distance, rise};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "fill",
    about: "the whole device written sequentially once: the state for other probes, and the end of a fast region",
    parameters: &[Parameter::FastRegionSize, Parameter::FastRegionRefill],
    write_share: 0.4625,
    probe,
};

/// The smallest writes.
const IO_SIZE: Bytes = Bytes::kib(32);
/// About so many at the most.
const IOS_MOST: u64 = 1 << 20;
/// Writes of one run.
const IOS_OF_A_RUN: u64 = 1 << 17;
/// A smaller rise is no end of a fast region.
const RISE_LEAST: f64 = 1.1;
/// What a write buffer may take of the fill's beginning, at least, in writes.
const EVEN_LEAST: usize = 64;
/// Reads for a comparison.
const READS: u64 = 64;
/// How long the device rests before it is filled, and before it is looked at what that has made free.
const REST: Nanos = Nanos::from_secs(60);
/// No device has memory for a larger part of its capacity.
const MEMORY_MOST: f64 = 0.02;
/// Pieces of the distance between two lumps, after each of which it is looked whether the region is full.
const PIECES: usize = 8;
/// A rest that makes less than this part free makes nothing free,
const REFILL_LEAST: f64 = 0.1;
/// as one that makes no more free than lumps may be apart by chance, in their mean distances,
const DISTANCES_LEAST: f64 = 2.5;
/// and one that makes more than this part free makes all of it free.
const WHOLE: f64 = 0.93;
/// Fewer writes do not show that there is no region.
const WRITES_LEAST: usize = 512;
/// Windows in which a cheaper beginning would be seen, and the p from which there may be one.
const EVEN_WINDOWS: usize = 128;
const EVEN_P: f64 = 0.01;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let capacity = session.capacity();
    let begin = session.filled_until();
    // The rest shows what large writes cost.
    let end = capacity - large_writes::reserved(session);
    let length = end - begin.min(end);
    if session.writes_left() < length {
        return Err(Halt::Budget { needed: length, left: session.writes_left() });
    }
    let size = io_size(capacity, session.block());
    session.rest(REST)?;
    let was_begun = session.begin_to_fill();
    let mut costs = Vec::with_capacity((length.0 / size.0) as usize);
    // What was interrupted goes on where it was.
    while session.filled_until() < end.round_down(session.block()) {
        let part = (size * IOS_OF_A_RUN).min(end - session.filled_until());
        costs.extend(sequential_writes(session, "fill", size, session.filled_until(), part)?);
        session.filled(part);
    }
    if !costs.is_empty() {
        session.fill_took(mean(&costs[costs.len() / 2..]) / size.0 as f64);
    }
    if was_begun {
        return Err(Halt::Failed(
            "filling the device was interrupted, and how its cost rises cannot be seen".to_owned(),
        ));
    }
    let reads = ios(Mode::Read, Location::Random, size, READS);
    let read = level(&responses(&session.run("reads", &reads)?), 0.95).map_or(f64::INFINITY, |read| read.low);
    let (memory, step) = end_of_region(&costs, read);
    let Some(step) = step else {
        conclude_none(session, size, &costs[memory..]);
        return Ok(());
    };
    let full = Full::after(&costs, step.place.estimate as usize);
    let again = refilled(session, size, &full)?;
    conclude(session, size, &costs, &full, step, begin, again);
    Ok(())
}

/// Where the costs rise for good, and so many writes before it are not looked at: what rises early and from less than a
/// read takes is a write buffer that is full.
fn end_of_region(costs: &[f64], read: f64) -> (usize, Option<Step>) {
    let mut from = 0;
    loop {
        let step = rise(&costs[from..]).filter(|step| step.ratio() > RISE_LEAST);
        let moved = |place: f64| place + from as f64;
        let step = step.map(|step| {
            let Interval { estimate, low, high } = step.place;
            Step { place: Interval { estimate: moved(estimate), low: moved(low), high: moved(high) }, ..step }
        });
        let early =
            |step: &Step| step.place.estimate < MEMORY_MOST * costs.len() as f64 && step.before < 1.1 * read;
        match step.filter(early) {
            Some(step) => from = (2 * step.place.estimate as usize).max(EVEN_LEAST),
            None => return (from, step),
        }
    }
}

/// What writes cost when the region is full.
struct Full {
    lump: Lump,
    /// Writes from one lump to the next.
    distance: usize,
    /// Until where they are looked for.
    most: usize,
}

impl Full {
    fn after(costs: &[f64], place: usize) -> Full {
        let lump = lump(&costs[place..]);
        let distance = lump_distance(&costs[place..]).max(PIECES);
        Full { lump, distance, most: place + place / 4 + 2 * distance }
    }
}

/// What a rest makes free.
struct Refill {
    /// Writes after the rest until the region is full again.
    writes: usize,
    /// Writes before the rest to the blocks that are begun, which are not emptied.
    begun: usize,
}

/// What a rest makes free; `None` if the region is not full again.
fn refilled(session: &mut Session<'_, '_>, size: Bytes, full: &Full) -> Result<Option<Refill>, Halt> {
    let (before, written) = until_full(session, size, full, Bytes::ZERO, 4 * full.distance)?;
    session.rest(REST)?;
    // Elsewhere: what is overwritten in the region makes room in it.
    let most = full.most.min((session.writes_left().0 / size.0) as usize);
    let (again, _) = until_full(session, size, full, size * written as u64, most)?;
    let begun = before.map_or(0, |lump| (written - lump) % full.distance);
    Ok(again.map(|writes| Refill { writes, begun }))
}

/// Writes sequentially from `begin` on until there are lumps; how many writes were before the first one, if there is
/// one, and how many there were. It ends with little of a new block begun.
fn until_full(
    session: &mut Session<'_, '_>,
    size: Bytes,
    full: &Full,
    begin: Bytes,
    most: usize,
) -> Result<(Option<usize>, usize), Halt> {
    let piece = full.distance / PIECES;
    let (mut written, mut last): (usize, Option<usize>) = (0, None);
    while written + piece <= most {
        let place = begin + size * written as u64;
        let costs = sequential_writes(session, "after-a-rest", size, place, size * piece as u64)?;
        if let Some(index) = costs.iter().position(|&cost| full.lump.is(cost)) {
            // One lump alone may be an outlier.
            let near = |last: usize| written + index - last <= 2 * full.distance;
            match last.filter(|&last| near(last)) {
                Some(last) => return Ok((Some(last), written + piece)),
                None => last = Some(written + index),
            }
        }
        written += piece;
    }
    Ok((None, written))
}

/// The size of the writes that fill a device.
pub(super) fn io_size(capacity: Bytes, block: Bytes) -> Bytes {
    let least = Bytes((capacity.0 / IOS_MOST).next_power_of_two());
    IO_SIZE.max(least).max(block)
}

/// Writes `length` from `begin` on, the last bytes too; the response times.
pub(super) fn sequential_writes(
    session: &mut Session<'_, '_>,
    name: &str,
    size: Bytes,
    begin: Bytes,
    length: Bytes,
) -> Result<Vec<f64>, Halt> {
    let mut costs = Vec::with_capacity((length.0 / size.0) as usize);
    let (mut offset, end) = (begin, begin + length);
    while end - offset >= size {
        let part = (size * IOS_OF_A_RUN).min((end - offset).round_down(size));
        let pattern = ios(Mode::Write, Location::Sequential, size, part.0 / size.0).on_target(offset, part);
        costs.extend(responses(&session.run(name, &pattern)?));
        offset += part;
    }
    let rest = (end - offset).round_down(session.block());
    if rest > Bytes::ZERO {
        let pattern = ios(Mode::Write, Location::Sequential, rest, 1).on_target(offset, rest);
        session.run(name, &pattern)?;
    }
    Ok(costs)
}

fn picture(size: Bytes, costs: &[f64]) -> Picture {
    Picture::new(
        "Sequential writes, means of stretches: the cost rises where a fast region is full.",
        Axis::linear("written", "bytes"),
        Axis::linear("response time", "ns"),
    )
    .draw("filling the device", Style::Line, over_bytes(size, costs))
}

/// Whether no beginning is cheaper than the rest: where lumps are too rare to show a rise, windows show that there may be
/// one.
fn even(costs: &[f64]) -> bool {
    let windows = windows(costs, costs.len().div_ceil(EVEN_WINDOWS));
    let beginnings = (1..=5).map(|halvings| windows.len() >> halvings).filter(|&length| length >= 2);
    let cheaper = |length: usize| {
        let (first, others) = windows.split_at(length);
        mean(others) > RISE_LEAST * mean(first) && mann_whitney(first, others).p_below < EVEN_P
    };
    !beginnings.into_iter().any(cheaper)
}

fn conclude_none(session: &mut Session<'_, '_>, size: Bytes, costs: &[f64]) {
    let (first, last) = costs.split_at(costs.len() / 2);
    let evidence = format!(
        "{} written sequentially in pieces of {size}: the mean cost never rises, {} in the first half and {} in the second",
        size * costs.len() as u64,
        Nanos(mean(first) as u64),
        Nanos(mean(last) as u64),
    );
    if costs.len() < WRITES_LEAST || !even(costs) {
        session
            .conclude(Finding::undetermined(Parameter::FastRegionSize, evidence).with(picture(size, costs)));
        return;
    }
    let found = Finding::found(Parameter::FastRegionSize, Bytes::ZERO, 0.9, evidence);
    session.conclude(found.with(picture(size, costs)));
    session.conclude(Finding::not_identifiable(
        Parameter::FastRegionRefill,
        0.9,
        "there is no fast region that could be refilled",
    ));
}

fn conclude(
    session: &mut Session<'_, '_>,
    size: Bytes,
    costs: &[f64],
    full: &Full,
    step: Step,
    begin: Bytes,
    again: Option<Refill>,
) {
    let picture = picture(size, costs).mark(step.place.estimate * size.0 as f64, "full");
    let first = format!(
        "sequential writes of {size} cost {} until {} (between {} and {}) were written, and {} from there on",
        Nanos(step.before as u64),
        size * step.place.estimate as u64,
        size * step.place.low as u64,
        size * step.place.high as u64,
        Nanos(step.after as u64),
    );
    let undetermined = |session: &mut Session<'_, '_>, evidence: String| {
        for &parameter in GROUP.parameters {
            session.conclude(Finding::undetermined(parameter, evidence.clone()).with(picture.clone()));
        }
    };
    let place = step.place.estimate;
    let Some(again) = again else {
        if step.place.estimate < MEMORY_MOST * costs.len() as f64 {
            conclude_none(session, size, costs);
            return;
        }
        undetermined(session, format!("{first}; after a rest of {REST} there is no such rise"));
        return;
    };
    // What the write buffer takes is not in the region yet.
    let buffer = session.known().number(Parameter::WriteBufferSize).unwrap_or(0.0);
    let bytes = |ios: f64| ios * size.0 as f64 - buffer;
    // Without what was left of the blocks that were begun.
    let refill = bytes((again.writes + again.begun) as f64 - full.distance as f64).max(0.0);
    let by_chance = full.distance as f64 * DISTANCES_LEAST;
    if (again.writes as f64) < by_chance.max(REFILL_LEAST * (place + begin.0 as f64 / size.0 as f64)) {
        let evidence = format!("{first}; a rest of {REST} makes nothing of that cheap again: it is no cache");
        let none = "there is no fast region that could be refilled";
        session.conclude(Finding::found(Parameter::FastRegionSize, Bytes::ZERO, 0.9, evidence).with(picture));
        session.conclude(Finding::not_identifiable(Parameter::FastRegionRefill, 0.9, none));
        return;
    }
    // What is refilled wholly is free but for the blocks that were begun. Else what was written before the fill is still
    // in it.
    let all = bytes((again.writes + again.begun) as f64);
    let wholly = all > WHOLE * bytes(place);
    let (region, refill) = if wholly { (all, all) } else { (bytes(place) + begin.0 as f64, refill) };
    let evidence = format!("{first}; after a rest they are cheap again for {}", Bytes(refill as u64));
    let found = |parameter, value: f64| Finding::found(parameter, Bytes(value as u64), 0.8, evidence.clone());
    session.conclude(found(Parameter::FastRegionSize, region).with(picture.clone()));
    session.conclude(found(Parameter::FastRegionRefill, refill).with(picture));
}
