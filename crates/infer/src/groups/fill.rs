//! The whole device is written once, one address after the other: the state from which other groups start. On the
//! way it shows a region of fast cells (an SLC cache).
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
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use super::patterns::{ios, responses};
use super::steps::{Step, mean, rise, windows};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "fill",
    about: "the whole device written sequentially once: the state for other probes, and the end of a fast region",
    parameters: &[Parameter::FastRegionSize, Parameter::FastRegionRefill],
    write_share: 0.475,
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
/// Fewer writes than this have no mean to speak of.
const EVEN_LEAST: usize = 64;
/// Reads for a comparison.
const READS: u64 = 64;
/// How long the device rests before it is filled, and before it is looked at what that has made free.
const REST: Nanos = Nanos::from_secs(60);
/// How far beyond the fast region's size is written after the rest.
const BEYOND: f64 = 3.0;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let capacity = session.capacity();
    let length = capacity - session.filled_until();
    if session.writes_left() < length {
        return Err(Halt::Budget { needed: length, left: session.writes_left() });
    }
    let size = io_size(capacity, session.block());
    session.rest(REST)?;
    let was_begun = session.begin_to_fill();
    let mut costs = Vec::with_capacity((length.0 / size.0) as usize);
    // What was interrupted goes on where it was.
    while session.filled_until() < capacity.round_down(session.block()) {
        let part = (size * IOS_OF_A_RUN).min(capacity - session.filled_until());
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
    let Some(step) = rise(&costs).filter(|step| step.ratio() > RISE_LEAST) else {
        conclude_none(session, size, &costs);
        return Ok(());
    };
    let reads = ios(Mode::Read, Location::Random, size, READS);
    let read = level(&responses(&session.run("reads", &reads)?), 0.95).map_or(f64::INFINITY, |read| read.low);
    if step.before < 1.1 * read {
        conclude_buffered(session, size, &costs, step, read);
        return Ok(());
    }
    let fast = size.0 as f64 * step.place.estimate;
    let again = Bytes((fast * BEYOND) as u64).min(session.writes_left()).min(capacity);
    session.rest(REST)?;
    let after_rest = sequential_writes(session, "after-a-rest", size, Bytes::ZERO, again)?;
    conclude(session, size, &costs, step, &after_rest);
    Ok(())
}

/// The size of the writes that fill a device.
fn io_size(capacity: Bytes, block: Bytes) -> Bytes {
    let least = Bytes((capacity.0 / IOS_MOST).next_power_of_two());
    IO_SIZE.max(least).max(block)
}

/// Writes `length` from `begin` on, the last bytes too; the response times.
fn sequential_writes(
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
    .draw("filling the device", Style::Line, points(size, costs))
}

/// Means of stretches over what was written till then.
fn points(size: Bytes, costs: &[f64]) -> Vec<(f64, f64)> {
    let width = costs.len().div_ceil(256).max(1);
    let place = |index: usize| ((index * width) as f64 + width as f64 / 2.0) * size.0 as f64;
    windows(costs, width).into_iter().enumerate().map(|(index, cost)| (place(index), cost)).collect()
}

/// Whether no beginning, down to a thousandth, is cheaper than the rest: where lumps are too rare to show a rise, the
/// means show that there may be one.
fn even(costs: &[f64]) -> bool {
    let beginnings = (1..=10).map(|halvings| costs.len() >> halvings).filter(|&length| length >= EVEN_LEAST);
    let cheaper = |length: usize| mean(&costs[length..]) > RISE_LEAST * mean(&costs[..length]);
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
    if !even(costs) {
        session
            .conclude(Finding::undetermined(Parameter::FastRegionSize, evidence).with(picture(size, costs)));
        return;
    }
    let found = Finding::found(Parameter::FastRegionSize, Bytes::ZERO, 0.97, evidence);
    session.conclude(found.with(picture(size, costs)));
    session.conclude(Finding::not_identifiable(
        Parameter::FastRegionRefill,
        0.97,
        "there is no fast region that could be refilled",
    ));
}

/// The cheap writes did not even wait for fast cells: what is full may be a write buffer.
fn conclude_buffered(session: &mut Session<'_, '_>, size: Bytes, costs: &[f64], step: Step, read: f64) {
    let evidence = format!(
        "sequential writes of {size} cost {} until {} were written, and {} from there on; a read takes {}, so that a \
         write buffer may have taken them",
        Nanos(step.before as u64),
        size * step.place.estimate as u64,
        Nanos(step.after as u64),
        Nanos(read as u64),
    );
    for &parameter in GROUP.parameters {
        session.conclude(Finding::undetermined(parameter, evidence.clone()).with(picture(size, costs)));
    }
}

fn conclude(session: &mut Session<'_, '_>, size: Bytes, costs: &[f64], step: Step, after_rest: &[f64]) {
    let bytes = |ios: f64| Bytes((ios * size.0 as f64) as u64);
    let first = format!(
        "sequential writes of {size} cost {} until {} (between {} and {}) were written, and {} from there on",
        Nanos(step.before as u64),
        bytes(step.place.estimate),
        bytes(step.place.low),
        bytes(step.place.high),
        Nanos(step.after as u64),
    );
    // How far from the low level to the high one, on logarithms: 0 is low.
    let between = |cost: f64| (cost / step.before).ln() / step.ratio().ln();
    let picture = picture(size, costs)
        .draw("after a rest", Style::Line, points(size, after_rest))
        .mark(step.place.estimate * size.0 as f64, "full");
    let again = rise(after_rest).filter(|again| between(again.before) < 0.3 && between(again.after) > 0.7);
    let Some(again) = again else {
        let evidence = format!(
            "{first}; but after a rest of {REST} they do not begin low and rise again: they cost {} there",
            Nanos(mean(after_rest) as u64)
        );
        session.conclude(Finding::undetermined(Parameter::FastRegionSize, evidence.clone()).with(picture));
        session.conclude(Finding::undetermined(Parameter::FastRegionRefill, evidence));
        return;
    };
    let refill = bytes(again.place.estimate);
    let evidence = format!(
        "{first}; after a rest of {REST} they were cheap again for {refill}, and rose to {}",
        Nanos(again.after as u64)
    );
    let confidence = |place: &Step| if place.place.relative_half_width() <= 0.03 { 0.9 } else { 0.8 };
    let found = Finding::found(
        Parameter::FastRegionSize,
        bytes(step.place.estimate),
        confidence(&step),
        evidence.clone(),
    );
    session.conclude(found.with(picture.clone()));
    let found = Finding::found(Parameter::FastRegionRefill, refill, confidence(&again), evidence);
    session.conclude(found.with(picture.mark(again.place.estimate * size.0 as f64, "full again")));
}
