//! The memory that takes writes before they are on the flash, and when it is emptied.
//!
//! # Model
//! After a rest a buffer is empty: writes cost what the command and the link take, until it is full; from then on each
//! write waits until earlier ones are on the flash. Sequential writes of whole pages show it best, as no translation
//! layer has much to do for them. In the sustained part the `n`-th write is done at `t(n) = (n - lead) T`: the
//! *lead* is by how many writes the device is ahead of one without a buffer. It is the buffer, less what the flash
//! does not take in from the first moment on: with `D` dies that program in turns, and a write that takes `a` to come
//! in, the buffer holds `lead + (D - 1) / 2 + (D + 1) / 2 a / T` writes. (In the sustained part dies take writes one
//! after the other, `a` apart, once in `D T`; the line goes through the middle of each such bunch. With one die this is
//! exact.) A write waits once in a bunch, so the share of writes that wait is `1 / D`.
//!
//! Outliers do not disturb the lead: while the host waits for one the flash goes on, and later writes wait less.
//!
//! A device without a buffer has no lead, and its writes take longer than reads, as programming does. One whose flash
//! is faster than its link has no lead either, but its writes take no longer than reads: its buffer never fills, and
//! nothing can be seen of it.
//!
//! What is read back after a rest tells when the buffer is emptied: pages that are still in it come faster than others.
//!
//! # Invariants
//! - bursts go one behind the other from the device's beginning on, as a part of filling it: nothing is overwritten,
//!   neither in the buffer nor on the flash;
//! - before each burst the device rests longer than it would take to write all of the last one.

use flashlab_analysis::decide::level::level;
use flashlab_analysis::decide::ranks::{Interval, mann_whitney, ratio};
use flashlab_analysis::decide::separation::separate;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;
use flashlab_samples::Sample;

use super::patterns::{ios, responses};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "write-buffer",
    about: "bursts of sequential writes after rests, and what is read back after them: the write buffer",
    parameters: &[Parameter::WriteBufferSize, Parameter::WriteBufferFlush],
    write_share: 0.1,
    probe,
};

/// The size of the writes.
const IO_SIZE: Bytes = Bytes::kib(16);
/// Writes of the shortest burst.
const BURST_LEAST: u64 = 16;
/// Bursts of each length.
const REPETITIONS: u64 = 8;
/// A rest is so many times as long as the burst before it,
const REST_FACTOR: u64 = 3;
/// and at least this long.
const REST_LEAST: Nanos = Nanos::from_millis(200);
/// A burst is long enough if it is so many times as long as its lead.
const SUSTAINED: f64 = 2.5;
/// Reads for a comparison.
const READS: u64 = 24;

/// What bursts of one length showed.
struct Bursts {
    /// Writes of each.
    length: u64,
    /// By how many writes they were ahead of the sustained rate at their end.
    lead: Interval,
    /// What a write takes in the sustained part.
    sustained: f64,
    /// Response times by position, all bursts together.
    first: Vec<f64>,
    /// Response times of the last half.
    last: Vec<f64>,
    /// Completion times of the burst in the middle, for the picture.
    line: Vec<(f64, f64)>,
}

impl Bursts {
    /// Whether the writes are taken as fast to the end, and faster than reads: a buffer that is not full.
    fn only_come_in(&self, reads: &Reads) -> bool {
        let first = level(&self.first, 0.9).map_or(0.0, |level| level.estimate);
        self.sustained < 1.15 * first
            && ratio(&self.first, &reads.older, 0.99).is_some_and(|ratio| ratio.high < 1.0)
    }

    /// Whether writes are answered before they are on the flash: after a rest they take less than the others, or than
    /// reads.
    fn shows_a_buffer(&self, reads: &Reads) -> bool {
        let less = |than: &[f64]| ratio(&self.first, than, 0.99).is_some_and(|ratio| ratio.high < 0.9);
        self.lead.low >= 1.0 || less(&[self.sustained; 8]) || less(&reads.older)
    }
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let mut length = BURST_LEAST;
    let mut bursts = run_bursts(session, size, length)?;
    let reads = compare_reads(session, size)?;
    // Until more than half of a burst is sustained; where writes are faster than the flash they have not begun to wait.
    while (bursts.lead.high * SUSTAINED > length as f64 || bursts.only_come_in(&reads))
        && session.writes_left() >= size * (length * 4 * REPETITIONS)
    {
        length *= 4;
        bursts = run_bursts(session, size, length)?;
    }
    decide(session, size, &bursts, &reads);
    Ok(())
}

/// Where the next burst goes: behind what was written, as a part of filling the device.
fn next_place(session: &mut Session<'_, '_>, length: Bytes) -> Result<Bytes, Halt> {
    let place = session.filled_until();
    if place + length > session.capacity() {
        return Err(Halt::Misfit(format!("bursts of {length} have no place")));
    }
    Ok(place)
}

fn run_bursts(session: &mut Session<'_, '_>, size: Bytes, length: u64) -> Result<Bursts, Halt> {
    let mut rest = REST_LEAST;
    let mut runs: Vec<Vec<Sample>> = Vec::new();
    for _ in 0..REPETITIONS {
        let place = next_place(session, size * length)?;
        session.rest(rest)?;
        let pattern = ios(Mode::Write, Location::Sequential, size, length).on_target(place, size * length);
        let samples = session.run("burst", &pattern)?;
        session.filled(size * length);
        rest = REST_LEAST.max(Nanos(done(&samples, samples.len() - 1) as u64 * REST_FACTOR));
        runs.push(samples);
    }
    let half = length as usize / 2;
    let last = length as usize - 1;
    let mut rates: Vec<f64> =
        runs.iter().map(|run| (done(run, last) - done(run, half)) / (last - half) as f64).collect();
    rates.sort_by(f64::total_cmp);
    let sustained = rates[rates.len() / 2].max(1.0);
    let leads: Vec<f64> = runs.iter().map(|run| length as f64 - done(run, last) / sustained).collect();
    let none = Interval { estimate: 0.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
    let middle = &runs[runs.len() / 2];
    Ok(Bursts {
        length,
        lead: level(&leads, 0.99).unwrap_or(none),
        sustained,
        first: runs.iter().map(|run| run[0].response().0 as f64).collect(),
        last: runs.iter().flat_map(|run| responses(&run[half..])).collect(),
        line: (0..=last).map(|index| ((index + 1) as f64 * size.0 as f64, done(middle, index))).collect(),
    })
}

/// When a write of a burst was done, since the burst began.
fn done(samples: &[Sample], index: usize) -> f64 {
    samples[index].completed.since(samples[0].submitted).0 as f64
}

/// Reads of what was just written and rested, and of what was written long before.
struct Reads {
    recent: Vec<f64>,
    older: Vec<f64>,
}

fn compare_reads(session: &mut Session<'_, '_>, size: Bytes) -> Result<Reads, Halt> {
    let mut reads = Reads { recent: Vec::new(), older: Vec::new() };
    // One short piece each time: it has to fit into the buffer.
    let piece = size * 2;
    while (reads.recent.len() as u64) < READS && session.writes_left() >= piece {
        let recent = next_place(session, piece)?;
        session.run("piece", &ios(Mode::Write, Location::Sequential, size, 2).on_target(recent, piece))?;
        session.filled(piece);
        session.rest(REST_LEAST)?;
        let before = Bytes(recent.0.saturating_sub(piece.0 * 64));
        let read = |place: Bytes| ios(Mode::Read, Location::Sequential, size, 1).on_target(place, size);
        reads.older.extend(responses(&session.run("read-what-is-older", &read(before))?));
        reads.recent.extend(responses(&session.run("read-what-is-recent", &read(recent))?));
    }
    Ok(reads)
}

fn decide(session: &mut Session<'_, '_>, size: Bytes, bursts: &Bursts, reads: &Reads) {
    let picture = Picture::new(
        "One burst after a rest: where the line bends, writes begin to wait for the flash.",
        Axis::linear("written", "bytes"),
        Axis::linear("time since the burst began", "ns"),
    )
    .draw("writes done", Style::Line, bursts.line.clone());
    let median = |values: &[f64]| level(values, 0.9).map_or(0.0, |level| level.estimate);
    let come_in = median(&bursts.first);
    let read = median(&reads.older);
    let lead = bursts.lead;
    let figures = format!(
        "after a rest a write of {size} takes {}, in the sustained part of {} writes {}; at their end they are {:.1} writes \
         ahead ({:.1} to {:.1}); a read takes {}",
        Nanos(come_in as u64),
        bursts.length,
        Nanos(bursts.sustained as u64),
        lead.estimate,
        lead.low,
        lead.high,
        Nanos(read as u64),
    );
    if !bursts.shows_a_buffer(reads) {
        let waits =
            |times: f64| ratio(&bursts.first, &reads.older, 0.99).is_some_and(|ratio| ratio.low > times);
        let sure = if waits(1.3) { 0.9 } else { 0.8 };
        conclude_none(session, figures, picture, (lead.high < 1.0 && waits(1.1)).then_some(sure));
        return;
    }
    let come_in_only = ratio(&bursts.first, &reads.older, 0.99).is_some_and(|ratio| ratio.high < 1.0);
    if !come_in_only {
        // Writes that wait for the flash may still be cheap at first, where work is put off.
        let evidence = format!("{figures}: the first writes are cheaper, but not as if memory took them");
        for &parameter in GROUP.parameters {
            session.conclude(Finding::undetermined(parameter, evidence.clone()).with(picture.clone()));
        }
        return;
    }
    let flush = flush(reads);
    if lead.low < 1.0 || lead.high * SUSTAINED > bursts.length as f64 {
        session.conclude(Finding::undetermined(Parameter::WriteBufferSize, figures).with(picture));
    } else if flush.value == Some("when-full".into()) {
        let evidence = format!("{figures}; what it holds before it is emptied was not measured");
        session.conclude(Finding::undetermined(Parameter::WriteBufferSize, evidence).with(picture));
    } else {
        conclude_size(session, size, bursts, come_in, figures, picture);
    }
    session.conclude(flush);
}

/// There is no buffer, with this confidence; or it cannot be seen.
fn conclude_none(session: &mut Session<'_, '_>, figures: String, picture: Picture, sure: Option<f64>) {
    let (size, flush) = if let Some(sure) = sure {
        let evidence = format!("{figures}: no write is answered before it is on the flash");
        (
            Finding::found(Parameter::WriteBufferSize, Bytes::ZERO, sure, evidence),
            Finding::not_identifiable(Parameter::WriteBufferFlush, sure, "there is no write buffer"),
        )
    } else {
        let evidence = format!("{figures}: a buffer that never fills looks like none");
        (
            Finding::undetermined(Parameter::WriteBufferSize, evidence.clone()),
            Finding::undetermined(Parameter::WriteBufferFlush, evidence),
        )
    };
    session.conclude(size.with(picture));
    session.conclude(flush);
}

fn conclude_size(
    session: &mut Session<'_, '_>,
    size: Bytes,
    bursts: &Bursts,
    come_in: f64,
    figures: String,
    picture: Picture,
) {
    let share = separate(&bursts.last).filter(|two| two.p() < 1e-3).map_or(1.0, |two| two.share);
    let dies = (1.0 / share).round().max(1.0);
    let in_writes = |lead: f64| lead + (dies - 1.0) / 2.0 + (dies + 1.0) / 2.0 * come_in / bursts.sustained;
    let (low, high) = (in_writes(bursts.lead.low), in_writes(bursts.lead.high));
    let held = in_writes(bursts.lead.estimate);
    // Half a bunch is what the dies may differ by from the model.
    let error = (high - held).max(held - low) + (dies - 1.0) / 2.0;
    let bytes = Bytes((held * size.0 as f64).round() as u64);
    let evidence = format!("{figures}; one write of {dies:.0} waits");
    let relative = error / held;
    let finding = if relative <= 0.03 {
        Finding::found(Parameter::WriteBufferSize, bytes, 0.9, evidence)
    } else {
        Finding::undetermined(
            Parameter::WriteBufferSize,
            format!("{evidence}: about {bytes}, known to {:.0} % only", 100.0 * relative),
        )
    };
    session.conclude(finding.with(picture.mark(bytes.0 as f64, "what the buffer holds")));
}

/// When the buffer is emptied.
fn flush(reads: &Reads) -> Finding {
    let median = |values: &[f64]| Nanos(level(values, 0.9).map_or(0.0, |level| level.estimate) as u64);
    let evidence = format!(
        "{} after a rest, reads of what was written last take {}, and of what was written before {}",
        REST_LEAST,
        median(&reads.recent),
        median(&reads.older),
    );
    let compared = ratio(&reads.recent, &reads.older, 0.99);
    let faster = mann_whitney(&reads.recent, &reads.older).p_below;
    match compared {
        Some(ratio) if ratio.high < 0.9 && faster < 1e-4 => {
            Finding::found(Parameter::WriteBufferFlush, "when-full", 0.95, evidence)
        }
        Some(ratio) if ratio.low > 0.93 => {
            Finding::found(Parameter::WriteBufferFlush, "immediately", 0.95, evidence)
        }
        _ => Finding::undetermined(Parameter::WriteBufferFlush, evidence),
    }
}
