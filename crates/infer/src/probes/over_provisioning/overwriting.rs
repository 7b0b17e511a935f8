//! The filled device written once more from its beginning on: how often it has to reclaim blocks, and from when on.
//!
//! # Model
//! What was written in order becomes invalid in order: block by block, wholly. So nothing has to be moved, and what is left
//! of garbage collection is the erase, or the merge that replaces a whole block:
//! - where every page may lie anywhere, the first erase comes when the over-provisioned space is used up, to the block;
//!   from then on there is one for each block of each die;
//! - where blocks are replaced, it comes at the end of each from the beginning on.
//!
//! Dies that fill their blocks together erase them together, so that these stalls come in groups ([`crate::signals::cycles`]), once
//! for each erase block by its definition. So that this is a whole number of writes, a write is a row of pages of every die, as
//! far as these are known, or a part of it by a power of two, in whole pages. The smaller it is, the more of them meet a die that
//! erases. Where the row is known, the number of rows shows in all stalls from where blocks are collected on (`unit_rows`),
//! and goes before a cycle that is much less likely.
//!
//! Behind a buffer nobody waits for an erase; but a flush does. So where one shows what a buffer holds each write is a row and is flushed,
//! and what both take is looked at. Elsewhere, who reads waits as well, if he reads from that die: each write is followed by
//! a read of a row anywhere, and what both take is looked at, and what the writes take.
//!
//! Fast and slow rows, and buffers that are reclaimed in pieces make cycles as well, from the beginning on. They are shorter
//! than a block of sixteen rows on each die, as far as rows and dies are known. So nothing shorter is an erase block.
//!
//! # Invariants
//! - a cycle counts only if it predicts the stalls of writes that were done after it was found.

use crate::priors;
use crate::signals::overwritten::{Overwritten, PredictedCycle};
use crate::signals::pictures::slowest;
use flashlab_analysis::inference::{Axis, Picture, Style};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::{Location, Pattern};

use crate::halt::Halt;
use crate::patterns::writes::page_to_write;
use crate::patterns::{in_turn, ios, responses, with_reads};
use crate::session::Session;

/// The most writes on the whole device.
const IOS_MOST: u64 = 1 << 16;
/// The reads between them, where no row of pages of all dies is known.
const READ_SIZE: Bytes = Bytes::kib(4);
/// The share of the device that is left to the groups behind, where overwriting shows nothing.
const LEFT: f64 = 0.06;
/// Writes that are looked at first, as a share of the device and at the most, and how many more there are each time.
const FIRST: f64 = 0.016;
const FIRST_MOST: usize = 1024;
const GROWTH: f64 = 0.2;
/// The share of the device from which on a cycle that begins is no cycle from the beginning on.
const LATER: f64 = 0.03;

/// The device while it is overwritten.
pub(super) struct Overwriting {
    /// What is written each time.
    pub size: Bytes,
    /// Whether each write is flushed, so that it takes what a buffer hides.
    pub through: bool,
    /// A row of pages of all dies, if it is known.
    pub row: Option<Bytes>,
    /// What each IO took, and what that showed.
    pub trace: Overwritten,
}

impl Overwriting {
    /// How much was written.
    pub(super) fn written(&self) -> Bytes {
        self.size * self.trace.both.len() as u64
    }

    pub(super) fn picture(&self) -> Picture {
        Picture::new(
            format!(
                "The filled device, overwritten sequentially, {}. Of neighbouring IOs the slowest is shown.",
                self.behind()
            ),
            Axis::linear("overwritten", "bytes"),
            Axis::logarithmic(self.both_named(), "ns"),
        )
        .draw(self.both_named(), Style::Dots, slowest(self.size, &self.trace.both))
    }

    /// What is done behind each write.
    pub(super) fn behind(&self) -> &'static str {
        if self.through { "each write followed by a flush" } else { "each write followed by a random read" }
    }

    /// What is looked at.
    pub(super) fn both_named(&self) -> &'static str {
        if self.through { "write and flush" } else { "write and read" }
    }
}

/// Nothing is overwritten yet.
pub(super) fn begin(session: &Session<'_, '_>) -> Overwriting {
    let through = session.looks_through();
    let (capacity, block) = (session.capacity(), session.block());
    let row = session.known().row_of_all_dies();
    let of_rows = row.unwrap_or(priors::WHOLE_PAGES).round_up(block);
    let least = Bytes(capacity.0 / IOS_MOST).max(priors::WHOLE_PAGES).max(block);
    let mut size = of_rows * (capacity.0 / IOS_MOST).div_ceil(of_rows.0).next_power_of_two();
    while !through && size >= least * 2 && size.0.is_multiple_of(2 * page_to_write(session).0) {
        size = Bytes(size.0 / 2);
    }
    let writes_of_row = row.map(|row| row.0 as f64 / size.0 as f64);
    let trace = Overwritten { writes_of_row, ..Overwritten::default() };
    Overwriting { size, through, row, trace }
}

/// Overwrites the device from where it was on until a cycle that begins later predicts itself, or until `enough` is overwritten and
/// something is left to others; more than that if there may be such a cycle soon. In order only at the last, when no more will
/// follow (`enough` is none), few stalls may show one.
pub(super) fn overwrite(
    session: &mut Session<'_, '_>,
    found: &mut Overwriting,
    enough: Option<Bytes>,
) -> Result<(), Halt> {
    look_for_cycle(session, found, enough)?;
    found.trace.look_at_rows(session.known().is_likely_to_map_pages());
    Ok(())
}

fn look_for_cycle(
    session: &mut Session<'_, '_>,
    found: &mut Overwriting,
    enough: Option<Bytes>,
) -> Result<(), Halt> {
    let size = found.size;
    let capacity = session.capacity();
    let left = session.writes_left();
    let kept = Bytes((capacity.0 as f64 * LEFT) as u64);
    let usual = found.written() + Bytes(left.0.saturating_sub(kept.0));
    let (until, most) = (enough.map_or(usual, |enough| enough.min(usual)), found.written() + left);
    let writes = |bytes: Bytes| (bytes.0.min(capacity.0) / size.0) as usize;
    let of_device = |share: f64| writes(Bytes((capacity.0 as f64 * share) as u64));
    let (until, most) = (writes(until), writes(most));
    let shortest =
        session.known().row_of_all_dies().map_or(0, |row| (row * priors::ROWS_LEAST).0 / size.0) as usize;
    let mut candidates: Vec<PredictedCycle> = Vec::new();
    loop {
        let known = found.trace.both.len();
        let soon = candidates.iter().any(|seen| seen.onset.is_some());
        let most = if soon { most } else { until };
        if known >= most {
            found.trace.look_for_late(shortest, of_device(LATER), enough.is_none());
            return Ok(());
        }
        let longest = candidates.iter().map(|seen| seen.cycle.period + seen.cycle.width).max().unwrap_or(0);
        let first = of_device(FIRST).clamp(64, FIRST_MOST);
        let count = first.max((known as f64 * GROWTH) as usize).max(longest).min(most - known);
        match write_on(session, found, count) {
            Err(Halt::Time | Halt::Budget { .. }) if known > 0 => {
                found.trace.look_for_late(shortest, of_device(LATER), enough.is_none());
                return Ok(());
            }
            other => other?,
        }
        found.trace.confirm(&candidates, known, shortest);
        if found.trace.seen.is_some_and(|seen| seen.onset.is_some()) {
            return Ok(());
        }
        candidates = found.trace.candidates(shortest, of_device(LATER));
    }
}

/// Writes `count` more, each with a flush or a read anywhere behind it.
fn write_on(session: &mut Session<'_, '_>, found: &mut Overwriting, count: usize) -> Result<(), Halt> {
    let (capacity, count) = (session.capacity(), count as u64);
    let size = found.size;
    let writes = ios(Mode::Write, Location::Sequential, size, count)
        .on_target(size * found.trace.both.len() as u64, size * count);
    if found.through {
        let samples = session.run("overwriting", &writes)?;
        let took = responses(&samples);
        found.trace.writes.extend(&took);
        found.trace.both.extend(took);
        return Ok(());
    }
    let read = found.row.unwrap_or(READ_SIZE).round_up(session.block());
    let mut reads = ios(Mode::Read, Location::Random, read, count);
    reads.first.target_size = Some(capacity.round_down(read));
    let writes = Pattern { io_count: Some(2 * count), ..writes };
    for (write, both) in with_reads(&session.run_as_it_is("overwriting", &in_turn(writes, reads))?) {
        found.trace.writes.push(write.response().0 as f64);
        found.trace.both.push(both);
    }
    Ok(())
}
