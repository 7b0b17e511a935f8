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

use flashlab_analysis::decide::distances::{self, power_at};
use flashlab_analysis::inference::{Axis, Picture, Style};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::Pattern;
use flashlab_samples::Sample;

use super::dies::{Dies, Place};
use super::figures::median;
use super::ground::{Ground, Piece};
use super::read_pages::{Places, cost};
use super::reads::{Walk, compare, room, times};
use crate::session::{Halt, Session};

/// The most random reads.
const READS_MAX: u64 = 8_000;
/// The stripe may be so many times the period that is found, which is as many dies as share a channel.
pub(crate) const PARTS: [u64; 6] = [1, 2, 3, 4, 6, 8];
/// Of a stripe whose chunks were all told apart, and found again elsewhere.
const CONFIDENCE: f64 = 0.98;
/// The share of the time for reading that they may take.
const TIME_SHARE: f64 = 0.03;
/// The share that looking on all grounds may take, and the share of what is left that verifying on one may take, before another try.
const SEARCH_SHARE: f64 = 0.5;
const GROUND_SHARE: f64 = 0.12;

/// The stripe over the dies, on the first ground and with the first piece that show one, or why none does.
pub(crate) fn stripe(
    session: &mut Session<'_, '_>,
    page: Option<Bytes>,
) -> Result<Result<Stripe, String>, Halt> {
    let mut why = "no distance of two random reads in flight makes them wait more than another".to_owned();
    let least = Nanos((session.time_left().0 as f64 * (1.0 - SEARCH_SHARE)) as u64);
    for ground in Ground::all(session) {
        for piece in Piece::all(session, page) {
            if session.time_left() < least {
                return Ok(Err(why));
            }
            match stripe_on(session, ground, piece)? {
                Ok(stripe) => return Ok(Ok(stripe)),
                Err(Some(evidence)) => why = evidence,
                Err(None) => {}
            }
        }
    }
    Ok(Err(why))
}

/// The stripe on a ground.
fn stripe_on(
    session: &mut Session<'_, '_>,
    ground: Ground,
    piece: Piece,
) -> Result<Result<Stripe, Option<String>>, Halt> {
    let unit = piece.unit;
    let base = ground.begin(unit);
    let range = Bytes(room(session).0.saturating_sub(base.0)).min(ground.range).round_down(unit);
    let walk = Walk { offset: base + piece.offset, slot: unit, size: piece.size };
    let length = Bytes(range.0.saturating_sub(2 * unit.0));
    if length < unit * 64 {
        return Ok(Err(None));
    }
    if ground.places < u64::MAX {
        session.run("map", &walk.pattern(length, length.0 / unit.0, 1))?;
    }
    let first = session.run("random-reads", &walk.random(length, 64, 1))?;
    let latency = median(&first.iter().map(|sample| sample.response().0 as f64).collect::<Vec<_>>());
    let affordable = session.time_left().0 as f64 * TIME_SHARE / latency.max(1.0);
    let count = (affordable as u64).min(READS_MAX);
    let together = pairs(&session.run("two-random-reads", &walk.random(length, count, 2))?, unit);
    let Some(found) = distances::period(&together) else { return Ok(Err(None)) };
    let alone = pairs(&session.run("random-reads", &walk.random(length, count, 1))?, unit);
    let power_alone = power_at(&alone, found.period);
    if power_alone > 0.2 * found.power {
        return Ok(Err(Some(format!(
            "response times of random reads have a period of {} in their distance, with one in flight as well: it is no \
             conflict of dies",
            unit * found.period
        ))));
    }
    // Chunks that share a channel may hide the stripe behind a part of it.
    let mut why = None;
    let least = Nanos((session.time_left().0 as f64 * (1.0 - GROUND_SHARE)) as u64);
    for parts in PARTS {
        if session.time_left() < least {
            break;
        }
        let period = found.period * parts;
        match verified(session, ground, piece, period)? {
            Ok(mut answer) => {
                answer.picture = folded(&together, period, unit).mark(answer.chunk.0 as f64, "chunk");
                return Ok(Ok(answer));
            }
            Err(Unverified { is_nothing: true, evidence }) if parts == 1 => return Ok(Err(Some(evidence))),
            Err(Unverified { evidence, .. }) => why = why.or(Some(evidence)),
        }
    }
    Ok(Err(why))
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
pub(crate) struct Stripe {
    pub(crate) width: Bytes,
    pub(crate) chunk: Bytes,
    pub(crate) dies: u64,
    /// Where it was found, and by which reads.
    pub(crate) ground: Ground,
    pub(crate) confidence: f64,
    pub(crate) evidence: String,
    pub(crate) picture: Picture,
}

/// Why a stripe was not verified.
struct Unverified {
    /// Reads at multiples of it do not even wait: multiples of it are not worth a look.
    is_nothing: bool,
    evidence: String,
}

impl Unverified {
    fn nothing(evidence: String) -> Unverified {
        Unverified { is_nothing: true, evidence }
    }

    fn something(evidence: String) -> Unverified {
        Unverified { is_nothing: false, evidence }
    }
}

/// The stripe near `period` units, with its chunks, or why there is none.
fn verified(
    session: &mut Session<'_, '_>,
    ground: Ground,
    piece: Piece,
    period: u64,
) -> Result<Result<Stripe, Unverified>, Halt> {
    let Some(width) = widest_wait(session, ground, piece, period)? else {
        return Ok(Err(Unverified::nothing(
            "the device is too small for reads that lie a stripe apart".to_owned(),
        )));
    };
    let mut confidence = waits_more(session, ground, piece, width)?;
    if confidence.is_none() {
        confidence = waits_more(session, ground.elsewhere(session), piece, width)?;
    }
    let Some(confidence) = confidence else {
        return Ok(Err(Unverified::something(format!(
            "reads at multiples of {width} wait for each other, at multiples of those more"
        ))));
    };
    let Some(dies) = Dies::new(session, ground, piece, width)? else {
        return Ok(Err(Unverified::nothing(format!(
            "reads at stride {width} wait no more than reads at half of it"
        ))));
    };
    let Some(Place { begin, chunk }) = dies.chunk(session, Bytes::ZERO)? else {
        return Ok(Err(Unverified::something(format!(
            "the stripe seems to be {width}, but its chunks have no clear ends"
        ))));
    };
    if piece.size > session.block() && chunk <= piece.unit && !is_two_pages(session, piece)? {
        return Ok(Err(Unverified::something(format!(
            "a stripe of {width} whose chunks are two pages, or one"
        ))));
    }
    let count = (width.0 as f64 / chunk.0 as f64).round() as u64;
    let whole = count >= 2 && chunk * count == width;
    if !whole || !dies.all_apart(session, begin, chunk, count)? {
        return Ok(Err(Unverified::something(format!(
            "a stripe of {width} with chunks of {chunk} is no round of dies"
        ))));
    }
    if !dies.elsewhere(session).is_chunk(session, begin, chunk)? {
        return Ok(Err(Unverified::something(format!(
            "chunks of {chunk} and stripes of {width} at one place, but not half the device away"
        ))));
    }
    let evidence = format!(
        "reads {width} apart wait for each other, those half of it apart take {:.2} times as long; the place where \
         waiting ends comes every {chunk}, and all {count} chunks of a stripe wait for themselves only",
        dies.contrast()
    );
    let picture = Picture::new("", Axis::linear("", ""), Axis::linear("", ""));
    Ok(Ok(Stripe { width, chunk, dies: count, ground, confidence, evidence, picture }))
}

/// The width near `period` units at which reads in flight wait for each other most, at random multiples of it: over
/// those a small error adds up.
fn widest_wait(
    session: &mut Session<'_, '_>,
    ground: Ground,
    piece: Piece,
    period: u64,
) -> Result<Option<Bytes>, Halt> {
    let around = (period / 16).clamp(1, 3);
    let mut best: Option<(f64, Bytes)> = None;
    for units in period.saturating_sub(around).max(2)..=period + around {
        let width = piece.unit * units;
        let Some(slot) = ground.stride(session, width) else { continue };
        let pattern = multiples(session, ground, piece, slot);
        ground.warm(session, std::slice::from_ref(&pattern))?;
        let figures = compare(session, "strides", &[pattern], 5)?;
        let wait = median(&figures[0]);
        if best.is_none_or(|(most, _)| wait > most) {
            best = Some((wait, width));
        }
    }
    Ok(best.map(|(_, width)| width))
}

/// Whether the two pages of a piece are on one die, and the next ones on another: one read at a time takes longer across the
/// boundary within it than across the next one.
fn is_two_pages(session: &mut Session<'_, '_>, piece: Piece) -> Result<bool, Halt> {
    let places = Places { slot: piece.unit * 2, ground: Ground::WHOLE, depth: 1, beside: 2 };
    let within = cost(session, places, Bytes(piece.unit.0 / 2), 24)?.relative;
    let beyond = cost(session, places, piece.unit, 24)?.relative;
    Ok(within.low > beyond.high)
}

/// Reads at random multiples of `slot`.
fn multiples(session: &Session<'_, '_>, ground: Ground, piece: Piece, slot: Bytes) -> Pattern {
    let walk = Walk { offset: piece.offset, slot, size: piece.size };
    ground.random(session, walk, 2 * Dies::READS, Dies::depth(session))
}

/// Whether a stripe may be as wide as this, with how much confidence. None: reads at multiples of it wait for one
/// channel only, and longer at further multiples, where they are on one die.
fn waits_more(
    session: &mut Session<'_, '_>,
    ground: Ground,
    piece: Piece,
    width: Bytes,
) -> Result<Option<f64>, Halt> {
    let Some(once) = ground.stride(session, width) else { return Ok(None) };
    let mut most = 1;
    for parts in PARTS.into_iter().skip(1) {
        let Some(slot) = ground.stride(session, width * parts) else { break };
        // As many places of both: those that are read again may be in a buffer.
        let places = ground.slots(session, slot, slot * 2);
        let patterns = [once, slot].map(|slot| multiples(session, Ground { places, ..ground }, piece, slot));
        ground.warm(session, &patterns)?;
        let figures = compare(session, "strides", &patterns, 12)?;
        if times(&figures[0], &figures[1]).low > 1.01 {
            return Ok(None);
        }
        most = parts;
    }
    Ok(Some(if most >= 4 { CONFIDENCE } else { 0.9 }))
}
