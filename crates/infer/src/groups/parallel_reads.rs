//! Dies: how many, how wide a stripe over them is and how much of it lies on each, by reads that wait for each other.
//!
//! # Model
//! A die does one read at a time; two in flight on the same die wait for each other, on different dies they do not, as
//! far as the controller is fast enough to hand out the second. What is written in order lies in stripes: a chunk
//! of consecutive bytes on the first die, the next on the second, and after the last die it begins again
//! (Chen, Lee and Zhang, HPCA 2011: chunk, interleaving degree; static mapping or write order).
//!
//! # Probes
//! 1. Random reads, two in flight: each response time with the distance to the other read in flight. Conflicts
//!    are periodic in the distance with the stripe. The same with one in flight must not have that period: that would
//!    be a cost of going from place to place.
//! 2. Reads at multiples of the stripe, several in flight, all wait for one die; with others half a stripe further they
//!    are on two. These two levels say what "same die" means. The stripe is the width near the period found at which reads wait
//!    most.
//! 3. The next boundaries of chunks, by bisection. The stripe must be a whole number of chunks, and each of
//!    these on another die. Then the same in another part of the device.
//! 4. Without a period there may be one die: reads that lie across two pages then take as much longer with several in
//!    flight as they do one at a time. On two dies or more it would be half of that at most.

use flashlab_analysis::decide::distances::{self, power_at};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;

use super::dies::{Dies, Place};
use super::reads::{Walk, compare, compare_each, in_turn, median, room, times};
use crate::group::Group;
use crate::session::{Halt, Session};
use flashlab_samples::Sample;

pub(crate) const PARALLEL_READS: Group = Group {
    name: "parallel-reads",
    about: "concurrent reads that wait for each other: the stripe over the dies, the chunk on each, their number",
    parameters: &[Parameter::StripeSize, Parameter::ChunkSize, Parameter::ParallelUnits],
    write_share: 0.0,
    probe,
};

/// Chunks are multiples of this, or of the device's block.
const UNIT: Bytes = Bytes::kib(2);
/// Random reads are spread over so much.
const RANGE: Bytes = Bytes::mib(64);
/// The most random reads.
const READS_MAX: u64 = 12_000;
/// The stripe may be so many times the period that is found.
const PARTS_MAX: u64 = 4;
/// Of a stripe whose chunks were all told apart, and found again elsewhere.
const CONFIDENCE: f64 = 0.98;
/// The share of the time for reading that they may take.
const TIME_SHARE: f64 = 0.08;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    if session.depth() < 2 {
        return Err(Halt::Misfit("it takes one IO at a time".to_owned()));
    }
    let unit = UNIT.max(session.block());
    let range = room(session).min(RANGE).round_down(unit);
    let walk = Walk { offset: Bytes::ZERO, slot: unit, size: session.block() };
    let first = session.run("random-reads", &walk.random(range, 64, 1))?;
    let latency = median(&first.iter().map(|sample| sample.response().0 as f64).collect::<Vec<_>>());
    let affordable = session.time_left().0 as f64 * TIME_SHARE / latency.max(1.0);
    let count = (affordable as u64).min(READS_MAX);
    let together = pairs(&session.run("two-random-reads", &walk.random(range, count, 2))?, unit);
    let Some(found) = distances::period(&together) else {
        return one_die(
            session,
            "no distance of two random reads in flight makes them wait more than another",
        );
    };
    let alone = pairs(&session.run("random-reads", &walk.random(range, count, 1))?, unit);
    let power_alone = power_at(&alone, found.period);
    if power_alone > 0.2 * found.power {
        let evidence = format!(
            "response times of random reads have a period of {} in their distance, with one in flight as well: it is no \
             conflict of dies",
            unit * found.period
        );
        return leave(session, &evidence);
    }
    // Chunks that share a channel may hide the stripe behind a part of it.
    let mut why = String::new();
    for parts in 1..=PARTS_MAX {
        let period = found.period * parts;
        match stripe(session, unit, period)? {
            Ok(answer) => {
                conclude(session, &answer, folded(&together, period, unit));
                return Ok(());
            }
            Err(evidence) if why.is_empty() => why = evidence,
            Err(_) => {}
        }
    }
    leave(session, &why)
}

/// Each response time with the distance to the read before it, which with two in flight is the other one.
fn pairs(samples: &[Sample], unit: Bytes) -> Vec<(i64, f64)> {
    let mut samples: Vec<&Sample> = samples.iter().collect();
    samples.sort_by_key(|sample| (sample.submitted, sample.position));
    // The read in flight when this one was submitted is the one submitted before that has not been completed.
    let mut last: Vec<&Sample> = Vec::new();
    let mut pairs = Vec::with_capacity(samples.len());
    for sample in samples {
        let other = last.iter().rev().find(|other| other.completed > sample.submitted).or(last.last());
        if let Some(other) = other {
            let distance = sample.offset.0 as i64 - other.offset.0 as i64;
            pairs.push((distance / unit.0 as i64, sample.response().0 as f64));
        }
        last.push(sample);
        if last.len() > 2 {
            last.remove(0);
        }
    }
    pairs
}

/// Response times over the distance modulo the period.
fn folded(pairs: &[(i64, f64)], period: u64, unit: Bytes) -> Picture {
    let mut bins = vec![Vec::new(); period.min(128) as usize];
    for &(distance, time) in pairs {
        let place = distance.rem_euclid(period as i64) as u64 * bins.len() as u64 / period;
        bins[place as usize].push(time);
    }
    let width = (unit * period).0 as f64 / bins.len() as f64;
    let points = bins.iter().enumerate().filter(|(_, times)| !times.is_empty());
    let points = points.map(|(i, times)| (i as f64 * width, median(times))).collect();
    Picture::new(
        "Response time of random reads, two in flight, over the distance of the two modulo the stripe: on the same die \
         they wait for each other.",
        Axis::linear("distance modulo the stripe", "bytes"),
        Axis::linear("median response time", "ns"),
    )
    .draw("random reads", Style::Line, points)
}

/// A stripe that was verified.
struct Stripe {
    width: Bytes,
    chunk: Bytes,
    dies: u64,
    confidence: f64,
    evidence: String,
}

/// The stripe near `period` units, with its chunks, or why there is none.
fn stripe(session: &mut Session<'_, '_>, unit: Bytes, period: u64) -> Result<Result<Stripe, String>, Halt> {
    let Some(width) = widest_wait(session, unit, period)? else {
        return Ok(Err("the device is too small for reads that lie a stripe apart".to_owned()));
    };
    let Some(most) = waits_more(session, width)? else {
        return Ok(Err(format!(
            "reads at multiples of {width} wait for each other, at multiples of those more"
        )));
    };
    let Some(mut dies) = Dies::new(session, width, unit)? else {
        return Ok(Err(format!("reads at stride {width} wait no more than reads at half of it")));
    };
    let Some(Place { begin, chunk }) = dies.chunk(session, Bytes::ZERO)? else {
        return Ok(Err(format!("the stripe seems to be {width}, but its chunks have no clear ends")));
    };
    let count = (width.0 as f64 / chunk.0 as f64).round() as u64;
    let whole = count >= 2 && chunk * count == width;
    if !whole || !dies.all_apart(session, begin, chunk, count)? {
        return Ok(Err(format!("a stripe of {width} with chunks of {chunk} is no round of dies")));
    }
    let middle = Bytes(room(session).0 / 2 / width.0 * width.0);
    if !dies.same_elsewhere(session, middle + begin, chunk)? {
        return Ok(Err(format!(
            "chunks of {chunk} and stripes of {width} at the start, but not in the middle"
        )));
    }
    let evidence = format!(
        "reads {width} apart wait for each other, those half of it apart take {:.2} times as long; the place where \
         waiting ends comes every {chunk}, and all {count} chunks of a stripe wait for themselves only",
        dies.contrast()
    );
    Ok(Ok(Stripe { width, chunk, dies: count, confidence: most, evidence }))
}

fn conclude(session: &mut Session<'_, '_>, stripe: &Stripe, picture: Picture) {
    let Stripe { width, chunk, dies, confidence, evidence } = stripe;
    let picture = picture.mark(chunk.0 as f64, "chunk");
    for finding in [
        Finding::found(Parameter::StripeSize, *width, *confidence, evidence),
        Finding::found(Parameter::ChunkSize, *chunk, *confidence, evidence),
        Finding::found(Parameter::ParallelUnits, *dies, *confidence, evidence),
    ] {
        session.conclude(finding.with(picture.clone()));
    }
}

/// The width near `period` units at which reads in flight wait for each other most, at random multiples of it: over
/// those a small error adds up.
fn widest_wait(session: &mut Session<'_, '_>, unit: Bytes, period: u64) -> Result<Option<Bytes>, Halt> {
    let around = (period / 16).clamp(1, 3);
    let mut best: Option<(f64, Bytes)> = None;
    for units in period.saturating_sub(around).max(2)..=period + around {
        let width = unit * units;
        let Some(slot) = Dies::stride(session, width) else { continue };
        let walk = Walk { offset: Bytes::ZERO, slot, size: session.block() };
        let pattern = walk.random(room(session), 2 * Dies::READS, Dies::depth(session));
        let figures = compare(session, "strides", &[pattern], 3)?;
        let wait = median(&figures[0]);
        if best.is_none_or(|(most, _)| wait > most) {
            best = Some((wait, width));
        }
    }
    Ok(best.map(|(_, width)| width))
}

/// Whether a stripe may be as wide as this, with how much confidence. None: reads at multiples of it wait for one
/// channel only, and longer at further multiples, where they are on one die.
fn waits_more(session: &mut Session<'_, '_>, width: Bytes) -> Result<Option<f64>, Halt> {
    let depth = Dies::depth(session);
    let widths = (1..=PARTS_MAX).map_while(|parts| Dies::stride(session, width * parts));
    let patterns: Vec<_> = widths
        .map(|slot| {
            let walk = Walk { offset: Bytes::ZERO, slot, size: session.block() };
            walk.random(room(session), 2 * Dies::READS, depth)
        })
        .collect();
    let figures = compare(session, "strides", &patterns, 12)?;
    let longer = figures.iter().skip(1).any(|more| times(&figures[0], more).low > 1.01);
    let confidence = if figures.len() as u64 == PARTS_MAX { CONFIDENCE } else { 0.9 };
    Ok((!longer).then_some(confidence))
}

/// Whether all reads go to one die, where their distances do not matter.
fn one_die(session: &mut Session<'_, '_>, why: &str) -> Result<(), Halt> {
    let (block, boundary) = (session.block(), Bytes::kib(64));
    let size = block * 2;
    let slot = boundary * 2;
    if room(session).0 < slot.0 * 32 {
        return leave(session, why);
    }
    let walk = |offset: Bytes| Walk { offset, slot, size };
    let length = room(session) - slot;
    let depth = Dies::depth(session);
    let patterns = |depth: u32| {
        let across = walk(boundary - block).random(length, 24 + u64::from(depth), depth);
        let before = walk(boundary - size).random(length, 24 + u64::from(depth), depth);
        let after = walk(boundary).random(length, 24 + u64::from(depth), depth);
        [across, in_turn(before, after)]
    };
    let alone = compare_each(session, "across-pages", &patterns(1), 8)?;
    let together = compare(session, "across-pages", &patterns(depth), 8)?;
    let (cost_alone, cost_together) = (times(&alone[1], &alone[0]), times(&together[1], &together[0]));
    let alone_ns = median(&alone[0]) - median(&alone[1]);
    let together_ns = (median(&together[0]) - median(&together[1])) / f64::from(depth);
    let share = together_ns / alone_ns;
    let figures = format!(
        "{why}; a read across two pages takes {alone_ns:.0} ns more one at a time, and {together_ns:.0} ns more of the \
         device's time with {depth} in flight"
    );
    if cost_alone.low < 1.05 || cost_together.low < 1.05 {
        return leave(session, &figures);
    }
    if (0.85..1.2).contains(&share) {
        session.conclude(Finding::found(Parameter::ParallelUnits, 1u64, 0.96, figures.clone()));
        for parameter in [Parameter::ChunkSize, Parameter::StripeSize] {
            session.conclude(Finding::not_identifiable(parameter, 0.96, "there is one die"));
        }
        return Ok(());
    }
    leave(session, &figures)
}

fn leave(session: &mut Session<'_, '_>, evidence: &str) -> Result<(), Halt> {
    for &parameter in PARALLEL_READS.parameters {
        session.conclude(Finding::undetermined(parameter, evidence));
    }
    Ok(())
}
