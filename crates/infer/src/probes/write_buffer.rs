//! The memory that takes writes before they are on the flash, and when it is reclaimed: what is seen of it while the device is
//! filled.
//!
//! # Model
//! Whether there is a buffer, and when it is reclaimed, tells what was just written when it is read back (`landing`).
//!
//! A buffer that is reclaimed in batches takes a write that it holds wholly at the link's speed, and lets a larger one wait
//! ([`single_writes`]). Where no single write shows that, a burst of small ones may: after idle time they cost what the
//! command and the link take, until the buffer is full; from then on each waits for earlier ones. The buffer is a queue in
//! front of some dies: a page leaves it when it is programmed, and a page comes in when there is room. When the `n`-th write is
//! done follows from the buffer, the pages that a die programs at once, and the number of dies, as what they do together is the
//! sustained rate. Of all that are possible the queue is taken whose writes are done when those of the burst are
//! (`queue`). Medians of bursts that are all alike have next to no noise.
//!
//! A buffer that is reclaimed when it is full still holds what was written last (`held`).
//!
//! Where the flash is faster than the link a buffer never fills in this way. All is looked at again when pages are known
//! ([`super::buffered_writes`]).
//!
//! # Invariants
//! - writes go one behind the other from the device's beginning on, as a part of filling it: nothing is overwritten,
//!   neither in the buffer nor on the flash;
//! - before each burst the device is idle longer than it would take to write all of the last one.

mod bursts;
mod held;
mod landing;
mod single_writes;

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::priors;
use flashlab_analysis::signals::bursts::{Bursts, SMALL, SUSTAINED, WAITS};
use flashlab_analysis::signals::figures::{median, quantile};
use flashlab_analysis::signals::queue::queue;
use flashlab_base::Bytes;

use crate::halt::Halt;
use crate::patterns::flushes;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;
use bursts::{idle_after, write_behind};
use held::held;
use landing::{Landed, Landing, landing};
use single_writes::jump;

pub(crate) const PROBE: Probe = Probe {
    name: "write-buffer",
    about: "bursts of sequential writes after idle time, read back at once: is there a write buffer, and how large is it?",
    parameters: &[],
    hands_in: &[Parameter::WriteBufferSize, Parameter::WriteBufferFlush],
    write_share: 0.1,
};

/// The size of the writes.
const IO_SIZE: Bytes = Bytes::kib(16);
/// A buffer that only flushes show, with a size by bursts.
const FLUSH_AND_BURSTS: Rule = Rule::likely("bursts and flushes");
/// Writes of the shortest burst, and of the longest.
const BURST_LEAST: u64 = 32;
const BURST_MOST: u64 = 8192;
/// Bursts of each length.
const REPETITIONS: u64 = 5;
/// Bursts of more writes are not done with small ones, too.
const SMALL_FOR: usize = 512;
/// A queue fits if its writes are done at the same time as the burst's, but for this part of [`IO_SIZE`] on average.
const FITS: f64 = 0.25;
/// Small writes are taken if they take so many times as long in the sustained part.
const CONTRAST: f64 = 1.5;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let landed = landing(session)?;
    match landed.landing {
        Landing::Before => match flush_waits(session)? {
            None => conclude_none(session, &landed),
            Some(flushed) => {
                let (found, picture) = by_bursts(session)?;
                let told = format!(
                    "Reading back does not show it, but a write with a flush takes {}, and without {}: the flush waits for a write \
                     buffer.",
                    duration(flushed),
                    duration(median(&landed.writes))
                );
                let evidence = format!("{} {told}", landed.evidence);
                let found = found.map(|(size, _, why)| (size, FLUSH_AND_BURSTS, format!("{why} {told}")));
                conclude(session, &Landed { evidence, ..landed }, found, picture);
            }
        },
        Landing::Late => {
            let slow = (quantile(&landed.rested, 0.25) * median(&landed.older)).sqrt();
            let size = IO_SIZE.max(session.block());
            let bursts = run_bursts(session, size, BURST_LEAST)?;
            let guess = size * bursts.before_waiting().unwrap_or(8) as u64;
            let held = held(session, slow, guess)?;
            conclude(session, &landed, held_in_words(held), picture_of(&bursts));
        }
        Landing::Behind => match jump(session)? {
            Some(jump) => {
                let picture = Picture::new(
                    "Single writes after idle time: the part that does not fit in the buffer waits for the flash.",
                    Axis::linear("size of the write", "bytes"),
                    Axis::linear("response time", "ns"),
                );
                let picture = picture.draw("single writes", Style::Dots, jump.curve);
                conclude(
                    session,
                    &landed,
                    Ok((jump.size, Rule::strong("single writes"), jump.evidence)),
                    picture,
                );
            }
            None => {
                let (found, picture) = by_bursts(session)?;
                conclude(session, &landed, found, picture);
            }
        },
    }
    Ok(())
}

/// What a write with a flush takes, if the flush waits for a buffer that reading back does not show: one that answers reads of
/// what it holds. A file system's flush waits for its journal.
fn flush_waits(session: &mut Session<'_, '_>) -> Result<Option<f64>, Halt> {
    let is_file = session.inference().identity.file_system.is_some();
    if is_file || session.writes_left() < flushes::written(session) {
        return Ok(None);
    }
    flushes::flushed_nanos(session)
}

/// The size, its rule, and why; or why it is not known.
type Size = Result<(Bytes, Rule, String), String>;

fn held_in_words(held: Option<Bytes>) -> Size {
    held.map(|held| (held, Rule::likely("read back"), format!("Of data that was just written, the last {held} at most is read back faster: the write buffer holds it.")))
        .ok_or("Just-written data is read back faster, but the amount differs from try to try: the size of the write buffer does not show.".to_owned())
}

/// The size by a queue that fits bursts of writes.
fn by_bursts(session: &mut Session<'_, '_>) -> Result<(Size, Picture), Halt> {
    let size = IO_SIZE.max(session.block());
    let bursts = run_bursts(session, size, BURST_LEAST)?;
    let mut bursts = until_sustained(session, bursts)?;
    // Small writes show a small buffer more exactly, if it fills at all with them.
    let small = SMALL.max(session.block());
    if bursts.is_sustained() && bursts.costs.len() <= SMALL_FOR {
        let length = bursts.costs.len() as u64 * (size.0 / small.0);
        if session.writes_left() >= small * (length * REPETITIONS) {
            let finer = run_bursts(session, small, length)?;
            let finer = until_sustained(session, finer)?;
            if finer.is_sustained() && finer.sustained > CONTRAST * finer.come_in {
                bursts = finer;
            }
        }
    }
    let waits = match bursts.before_waiting() {
        Some(before) => format!("The first {before} writes do not wait."),
        None => "No write waits.".to_owned(),
    };
    let figures = format!(
        "After idle time a write of {} takes {} at first, and {} later in a burst of {} writes. {waits}",
        bursts.size,
        duration(bursts.come_in),
        duration(bursts.sustained),
        bursts.costs.len(),
    );
    let found = if bursts.is_sustained() {
        held_as_a_queue(&bursts)
    } else {
        Err("The burst is too short to fill the buffer.".to_owned())
    };
    let bytes = |writes: f64| Bytes((writes * bursts.size.0 as f64).round() as u64);
    let found = match found {
        Ok((writes, why)) => Ok((bytes(writes), Rule::likely("bursts"), format!("{figures} {why}"))),
        Err(why) => Err(format!("{figures} {why}")),
    };
    Ok((found, picture_of(&bursts)))
}

/// Longer bursts, until most of one comes after the first wait.
fn until_sustained(session: &mut Session<'_, '_>, mut bursts: Bursts) -> Result<Bursts, Halt> {
    while !bursts.is_sustained() {
        let length = match bursts.before_waiting() {
            Some(before) => SUSTAINED * (before + 2),
            None => 4 * bursts.costs.len(),
        } as u64;
        if length > BURST_MOST || session.writes_left() < bursts.size * (length * REPETITIONS) {
            break;
        }
        bursts = run_bursts(session, bursts.size, length)?;
    }
    Ok(bursts)
}

fn run_bursts(session: &mut Session<'_, '_>, size: Bytes, length: u64) -> Result<Bursts, Halt> {
    let mut rest = priors::PROGRAMMED;
    let mut runs: Vec<Vec<f64>> = Vec::new();
    for _ in 0..REPETITIONS {
        session.idle(rest)?;
        let costs = write_behind(session, "burst", size, length)?;
        rest = idle_after(costs.iter().sum());
        runs.push(costs);
    }
    Ok(Bursts::of(size, &runs))
}

fn picture_of(bursts: &Bursts) -> Picture {
    let line = |(index, &done): (usize, &f64)| ((index + 1) as f64 * bursts.size.0 as f64, done);
    Picture::new(
        "A burst after idle time: where the line bends, writes begin to wait for the flash.",
        Axis::linear("written", "bytes"),
        Axis::linear("time since the burst began", "ns"),
    )
    .draw("writes done", Style::Line, bursts.done.iter().enumerate().map(line).collect())
}

/// Concludes what is known of a buffer that there is.
fn conclude(session: &mut Session<'_, '_>, landed: &Landed, size: Size, picture: Picture) {
    let (size_is, flush_is) = (Parameter::WriteBufferSize, Parameter::WriteBufferFlush);
    session.hand_in(match size {
        Ok((size, rule, why)) => Rule::found(size_is, size, rule, why)
            .with(picture.mark(size.0 as f64, "size of the write buffer")),
        Err(why) => Finding::undetermined(size_is, why).with(picture),
    });
    let policy = if landed.landing == Landing::Late { "when-full" } else { "immediately" };
    let flush = Rule::found(flush_is, policy, Rule::strong("landing"), landed.evidence.clone());
    session.hand_in(flush.with(landed.picture.clone()));
}

/// Concludes that there is none.
fn conclude_none(session: &mut Session<'_, '_>, landed: &Landed) {
    let (writes, reads) = (median(&landed.writes), median(&landed.reads));
    let evidence = format!(
        "{} A write of {IO_SIZE} takes {} and a read {}.",
        landed.evidence,
        duration(writes),
        duration(reads)
    );
    // Where a write takes hardly more than a read, what was written before may be in a buffer as well.
    let basis = if writes - reads >= priors::PROGRAM_LEAST.0 as f64 {
        Rule::strong("writes wait for the program")
    } else {
        Rule::likely("writes hardly slower than reads")
    };
    let evidence =
        format!("{evidence} No write is answered before it is on the flash: there is no write buffer.");
    let none = Rule::found(Parameter::WriteBufferSize, Bytes::ZERO, basis, evidence);
    session.hand_in(none.with(landed.picture.clone()));
    let no_policy = Rule::not_identifiable(Parameter::WriteBufferFlush, basis, "There is no write buffer.");
    session.hand_in(no_policy);
}

/// The buffer of the queue that fits, in writes.
fn held_as_a_queue(bursts: &Bursts) -> Result<(f64, String), String> {
    if bursts.sustained < WAITS * bursts.come_in {
        return Err("The buffer hardly fills.".to_owned());
    }
    let before = bursts.before_waiting().unwrap_or(0);
    let queue = queue(bursts, bursts.lead(), before)
        .ok_or("No model of a buffer in front of dies fits these times.")?;
    let why = format!(
        "A model with a buffer of {:.1} writes in front of {} dies fits these times; the error is {:.2} of a write.",
        queue.buffer, queue.dies, queue.off
    );
    let off = queue.off * bursts.size.0 as f64 / IO_SIZE.0 as f64;
    if off <= FITS { Ok((queue.buffer, why)) } else { Err(why) }
}
