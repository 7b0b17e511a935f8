//! The whole device is written once, one address after the other: the state from which other groups start. On the
//! way it shows a region of fast cells (an SLC cache).
//!
//! # Model
//! Writes go to the fast region while there is room, and cost what fast cells cost. Then room has to be made for
//! each write, and it costs more: the mean cost rises once, after as much as the region holds. When the host rests
//! the device makes room again, all of it or a part. So after a rest the costs begin as low as in the beginning, and
//! rise to the same level as before; what was written till then is the refill.
//!
//! A rise alone is no proof: a device with little erased space left has one, too. It does not come down by resting.
//!
//! # Invariants
//! - requests are small, as large ones may go past a fast region;
//! - nothing rests while the device is filled.

use flashlab_analysis::decide::ranks::ratio;
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
    write_share: 0.505,
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
/// How long the device rests before it is filled, and before it is looked at what that has made free.
const REST: Nanos = Nanos::from_secs(60);
/// How far beyond the fast region's size is written after the rest.
const BEYOND: f64 = 1.5;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let capacity = session.capacity();
    if session.writes_left() < capacity {
        return Err(Halt::Budget { needed: capacity, left: session.writes_left() });
    }
    let size = io_size(capacity, session.block());
    session.rest(REST)?;
    let costs = sequential_writes(session, "fill", size, capacity)?;
    session.filled();
    let Some(step) = rise(&costs).filter(|step| step.ratio() > RISE_LEAST) else {
        conclude_none(session, size, &costs);
        return Ok(());
    };
    let fast = size.0 as f64 * step.place.estimate;
    let again = Bytes((fast * BEYOND) as u64).min(session.writes_left()).min(capacity);
    session.rest(REST)?;
    let after_rest = sequential_writes(session, "after-a-rest", size, again)?;
    conclude(session, size, &costs, step, &after_rest);
    Ok(())
}

/// The size of the writes that fill a device.
fn io_size(capacity: Bytes, block: Bytes) -> Bytes {
    let least = Bytes((capacity.0 / IOS_MOST).next_power_of_two());
    IO_SIZE.max(least).max(block)
}

/// Writes `length` from the device's beginning on, its last bytes too; the response times.
fn sequential_writes(
    session: &mut Session<'_, '_>,
    name: &str,
    size: Bytes,
    length: Bytes,
) -> Result<Vec<f64>, Halt> {
    let mut costs = Vec::with_capacity((length.0 / size.0) as usize);
    let mut offset = Bytes::ZERO;
    while length - offset >= size {
        let part = (size * IOS_OF_A_RUN).min((length - offset).round_down(size));
        let pattern = ios(Mode::Write, Location::Sequential, size, part.0 / size.0).on_target(offset, part);
        costs.extend(responses(&session.run(name, &pattern)?));
        offset += part;
    }
    let rest = (length - offset).round_down(session.block());
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

fn conclude_none(session: &mut Session<'_, '_>, size: Bytes, costs: &[f64]) {
    let (first, last) = costs.split_at(costs.len() / 2);
    let evidence = format!(
        "{} written sequentially in pieces of {size}: the mean cost never rises, {} in the first half and {} in the second",
        session.capacity(),
        Nanos(mean(first) as u64),
        Nanos(mean(last) as u64),
    );
    // Costs that scatter too much to show a rise say nothing.
    let width = costs.len().div_ceil(256).max(1);
    let (first, last) = (windows(first, width), windows(last, width));
    let alike = ratio(&last, &first, 0.99).is_some_and(|ratio| ratio.low > 0.9 && ratio.high < 1.1);
    if !alike {
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
    let confidence = |place: &Step| if place.place.relative_half_width() <= 0.03 { 0.96 } else { 0.8 };
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
