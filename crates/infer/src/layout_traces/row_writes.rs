//! Writes of one page and more during the fill, from which `likely` finds planes and dies that reads do not show.
//!
//! # Model
//! As in [`programs`](crate::flash_layout). Behind a write buffer no write waits for a program, but a flush does. So
//! a write is complete when its flush is. Overwriting waits for merges or garbage collection, so these writes are a
//! part of the fill.
//!
//! # Invariants
//! - Writes are whole pages, sequential, aligned to their own size, and across the boundaries of all smaller sizes.
//! - There are several rounds of all sizes.
//! - The device is idle between writes. A write buffer is empty before a write, and large enough for it, if its size
//!   is known.

use crate::flash_layout::TimedRun;
use crate::signals::sizes::PAUSE_SHARE;
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

/// The most writes of a size in a round. Unit: writes. Source: choice. Too many: the fill has no space for
/// other probes; too few: slow and fast pages are not both seen.
const WRITES_OF_SIZE: u64 = 16;
/// The writes of a size write at most this part of the largest write. Unit: part. Source: choice. Too small:
/// small writes take all of the space; too large: large sizes have one write.
const SIZE_PART: u64 = 2;
/// The pages of writes that are aligned to nothing. Twice a chunk less a page has a whole chunk and parts of
/// two others: on one die they are programmed one after the other, on two at the same time. Unit: pages.
/// Source: derivation: 2^n - 1. Too many: the fill has no space for other probes; too few: chunks of that
/// size are not distinguished.
const ODD_PAGES: [u64; 5] = [3, 5, 7, 15, 31];
/// The most such writes of a size in a round. Unit: writes. Source: choice. Too many: the fill has no space
/// for other probes; too few: their median is one chunk's.
const ODD_WRITES: u64 = 8;
/// The fewest and the most rounds over all sizes. Unit: rounds. Source: choice. Too many: the fill has no
/// space for other probes; too few: drift decides.
const ROUNDS: (u64, u64) = (2, 4);
/// The rounds take at most this part of the addresses that are not filled yet. Unit: part. Source: choice.
/// Too small: later probes of the fill have no space; too large: small devices show no dies.
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
        let aligned =
            aligned.map(move |size| (size, (largest.0 / SIZE_PART / size.0).clamp(1, WRITES_OF_SIZE)));
        let odd = ODD_PAGES.map(|pages| page * pages).into_iter().filter(move |&size| size <= largest);
        let all = aligned.chain(odd.map(move |size| (size, (largest.0 / size.0).min(ODD_WRITES))));
        // What a buffer does not hold waits for what it held before. Where it is not known yet the layout has to explain that.
        all.filter(move |&(size, _)| buffer.is_none_or(|buffer| buffer == Bytes::ZERO || size <= buffer))
    };
    let turn = |largest: Bytes| sizes(largest).map(|(size, count)| size.0 * count).sum::<u64>();
    let has_room = |&largest: &Bytes| (1..=room.0 / ROUNDS.0).contains(&turn(largest));
    let Some(largest) = filling::LARGE_SIZES.into_iter().find(has_room) else { return Ok(Vec::new()) };
    let turns = (room.0 / turn(largest)).clamp(ROUNDS.0, ROUNDS.1);
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
    *pause = Nanos((PAUSE_SHARE * upper_median(&responses(&samples))) as u64);
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
