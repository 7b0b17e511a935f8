//! Writes of one page and more while the device is filled, from which `likely` shows how pages lie on dies where reads
//! cannot.
//!
//! # Model
//! As in `programs`. Behind a write buffer no write waits for a program; but a flush does, and so a write is done when what
//! it left in the buffer is flushed. What is overwritten waits for merges, or for room; so these writes are a part of filling
//! the device.
//!
//! # Invariants
//! - writes are whole pages one behind the other, aligned to their own size, and across the boundaries of all;
//! - there are several turns of all sizes;
//! - the device is idle between writes; a buffer is empty when one comes, and holds all of it where its size is known.

use crate::flash_layout::TimedRun;
use crate::signals::sizes::PAUSE;
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Location, Pattern, Time};

use super::traces::run;
use crate::halt::Halt;
use crate::patterns::filling;
use crate::patterns::responses;
use crate::patterns::writes::writes;
use crate::session::Session;

/// The largest writes, the first for which there is room.
const LARGEST: [Bytes; 3] = [Bytes::mib(1), Bytes::kib(512), Bytes::kib(256)];
/// Writes of a size in a turn, and the part of the largest that they write at most.
const WRITES: u64 = 16;
const PART: u64 = 2;
/// Pages of those that are aligned to nothing, and how many they are in a turn at most. Of twice a chunk less a page nearly all
/// have a whole chunk and parts of those beside it: these are programmed one after the other if they are on one die, and
/// at once on two, while the link brings little.
const ODD: [u64; 5] = [3, 5, 7, 15, 31];
const ODD_WRITES: u64 = 8;
/// Turns, and the part of what is left of the device that they take at most.
const TURNS: (u64, u64) = (2, 4);
const PART_OF_REST: u64 = 3;

/// Writes whole pages from where the device was filled to, and goes on to a multiple of `align`; none where they would show
/// nothing.
pub(crate) fn row_writes(
    session: &mut Session<'_, '_>,
    page: Option<Bytes>,
    align: Bytes,
) -> Result<Vec<TimedRun>, Halt> {
    let buffer = session.known().bytes(Parameter::WriteBufferSize);
    let Some(page) = page else { return Ok(Vec::new()) };
    let room = Bytes((session.capacity() - session.filled_until()).0 / PART_OF_REST);
    let sizes = |largest: Bytes| {
        let sizes = (0..).map(move |halvings| Bytes(largest.0 >> halvings));
        let aligned = sizes.take_while(|&size| size >= page && size > Bytes::ZERO);
        let aligned = aligned.map(move |size| (size, (largest.0 / PART / size.0).clamp(1, WRITES)));
        let odd = ODD.map(|pages| page * pages).into_iter().filter(move |&size| size <= largest);
        let all = aligned.chain(odd.map(move |size| (size, (largest.0 / size.0).min(ODD_WRITES))));
        // What a buffer does not hold waits for what it held before. Where it is not known yet the layout has to explain that.
        all.filter(move |&(size, _)| buffer.is_none_or(|buffer| buffer == Bytes::ZERO || size <= buffer))
    };
    let turn = |largest: Bytes| sizes(largest).map(|(size, count)| size.0 * count).sum::<u64>();
    let has_room = |&largest: &Bytes| (1..=room.0 / TURNS.0).contains(&turn(largest));
    let Some(largest) = LARGEST.into_iter().find(has_room) else { return Ok(Vec::new()) };
    let turns = (room.0 / turn(largest)).clamp(TURNS.0, TURNS.1);
    let mut runs = Vec::new();
    let mut pause = Nanos::ZERO;
    for _ in 0..turns {
        filling::fill_up(session, largest)?;
        // The largest come first: so all of them are aligned.
        for (size, count) in sizes(largest) {
            let run = match buffer {
                Some(Bytes::ZERO) => with_pauses(session, size, count, &mut pause)?,
                _ => with_flushes(session, size, count)?,
            };
            runs.push(run);
        }
    }
    filling::fill_up(session, align)?;
    Ok(runs)
}

/// Writes after pauses, which are as long as the writes before them.
fn with_pauses(
    session: &mut Session<'_, '_>,
    size: Bytes,
    count: u64,
    pause: &mut Nanos,
) -> Result<TimedRun, Halt> {
    let (at, length) = (session.filled_until(), size * count);
    let mut pattern = writes(Location::Sequential, size, count, at, length);
    if *pause > Nanos::ZERO {
        session.idle(*pause)?;
        pattern.first.time = Time::Pause { pause: *pause };
    }
    let samples = session.run("rows", &pattern)?;
    session.filled(length);
    *pause = Nanos((PAUSE * upper_median(&responses(&samples))) as u64);
    Ok(run(&samples))
}

/// Writes to an empty buffer, which are done when it is empty again; none where the device refuses to flush it, or fails.
fn with_flushes(session: &mut Session<'_, '_>, size: Bytes, count: u64) -> Result<TimedRun, Halt> {
    let (at, length) = (session.filled_until(), size * count);
    let pattern = writes(Location::Sequential, size, count, at, length);
    let write_through = session.flush()?.is_some();
    let samples = session.run("rows", &Pattern { write_through, ..pattern })?;
    session.filled(length);
    let is_flushed = write_through && samples.iter().all(|sample| sample.errno == 0);
    Ok(if is_flushed { run(&samples) } else { TimedRun::new() })
}
