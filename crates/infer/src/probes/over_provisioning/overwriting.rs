//! Overwrites the filled device sequentially: how often does it reclaim blocks, and from which write on?
//!
//! # Model
//! Sequential overwriting makes whole blocks invalid, in their order. So garbage collection has nothing to relocate:
//! it erases a block, or replaces a whole one.
//! - On a page map the first erase comes when the over-provisioning is used up. From then on there is one for each
//!   block of each die.
//! - Where blocks are replaced as a whole, there is one at the end of each block, from the first one on.
//!
//! Dies that fill their blocks at the same time erase them at the same time. So the stalls come in clusters, once per
//! erase block of all dies ([`crate::signals::cycles`]).
//!
//! # Method
//! 1. A write is a superpage, or a part of it by a power of two: then a block is a whole number of writes. Smaller
//!    writes meet more erases.
//! 2. Behind a write buffer no write waits for an erase. If a flush does, each write is flushed. Otherwise a random
//!    read follows each write, and waits if its die erases.
//! 3. The search for a cycle is repeated as writes are added. If superpages are known, the stalls at all positions of
//!    a block decide (`unit_rows`), before a cycle that is much less likely.
//!
//! # Invariants
//! - A cycle counts only if it predicts the stalls of writes that came after it was found.
//! - Slow pages and write buffers also have cycles, from the first write on. So nothing shorter than sixteen
//!   multi-plane pages of each die is an erase block.

use crate::priors;
use crate::signals::overwritten::{Overwritten, PredictedCycle};
use crate::signals::pictures::slowest;
use flashlab_analysis::inference::{Axis, Picture, Style};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::{Location, Pattern};

use crate::halt::Halt;
use crate::patterns::writes::page_to_write;
use crate::patterns::{in_turn, ios, responses, with_reads};
use crate::priors::SMALL_IO;
use crate::session::Session;

/// The most writes over the whole device. Unit: writes. Source: choice. Too many: recordings are large; too
/// few: the place is coarse.
const IOS_MOST: u64 = 1 << 16;
/// The share of the device that later probes may still write where overwriting shows nothing. Unit: share.
/// Source: choice. Too high: garbage collection does not begin; too low: later probes cannot write.
const LEFT_SHARE: f64 = 0.06;
/// The writes before the first search for a cycle, as a share of the device. Unit: share. Source: choice. Too
/// high: the budget is used up; too low: the search takes longer.
const FIRST_SHARE: f64 = 0.016;
/// The most of them. Unit: writes. Source: choice. Too many: the budget is used up; too few: large blocks
/// show nothing.
const FIRST_MOST: usize = 1024;
/// The writes between two searches, as a share of those before. Unit: share. Source: choice. Too high: the
/// budget is used up; too low: the search takes longer.
const GROWTH: f64 = 0.2;
/// A cycle that begins behind this share of the device does not begin with the first write. Unit: share.
/// Source: tuned. Too high: little over-provisioning is not seen; too low: full log blocks count as
/// over-provisioning.
const LATE_SHARE: f64 = 0.03;

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
    let row = session.known().superpage_size();
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

/// Continues overwriting until a cycle that begins later predicts itself, or until `enough` is overwritten and
/// a reserve is left for later probes. It writes more if such a cycle may show soon. Few stalls count as a
/// cycle only if no more writes will follow (`enough` is none).
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
    let kept = Bytes((capacity.0 as f64 * LEFT_SHARE) as u64);
    let usual = found.written() + Bytes(left.0.saturating_sub(kept.0));
    let (until, most) = (enough.map_or(usual, |enough| enough.min(usual)), found.written() + left);
    let writes = |bytes: Bytes| (bytes.0.min(capacity.0) / size.0) as usize;
    let of_device = |share: f64| writes(Bytes((capacity.0 as f64 * share) as u64));
    let (until, most) = (writes(until), writes(most));
    let shortest =
        session.known().superpage_size().map_or(0, |row| (row * priors::ROWS_LEAST).0 / size.0) as usize;
    let mut candidates: Vec<PredictedCycle> = Vec::new();
    loop {
        let known = found.trace.both.len();
        let soon = candidates.iter().any(|seen| seen.onset.is_some());
        let most = if soon { most } else { until };
        if known >= most {
            found.trace.look_for_late(shortest, of_device(LATE_SHARE), enough.is_none());
            return Ok(());
        }
        let longest = candidates.iter().map(|seen| seen.cycle.period + seen.cycle.width).max().unwrap_or(0);
        let first = of_device(FIRST_SHARE).clamp(64, FIRST_MOST);
        let count = first.max((known as f64 * GROWTH) as usize).max(longest).min(most - known);
        match write_on(session, found, count) {
            Err(Halt::Time | Halt::Budget { .. }) if known > 0 => {
                found.trace.look_for_late(shortest, of_device(LATE_SHARE), enough.is_none());
                return Ok(());
            }
            other => other?,
        }
        found.trace.confirm(&candidates, known, shortest);
        if found.trace.seen.is_some_and(|seen| seen.onset.is_some()) {
            return Ok(());
        }
        candidates = found.trace.candidates(shortest, of_device(LATE_SHARE));
    }
}

/// Writes `count` more, each followed by a flush or a random read.
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
    let read = found.row.unwrap_or(SMALL_IO).round_up(session.block());
    let mut reads = ios(Mode::Read, Location::Random, read, count);
    reads.first.target_size = Some(capacity.round_down(read));
    let writes = Pattern { io_count: Some(2 * count), ..writes };
    for (write, both) in with_reads(&session.run_as_it_is("overwriting", &in_turn(writes, reads))?) {
        found.trace.writes.push(write.response().0 as f64);
        found.trace.both.push(both);
    }
    Ok(())
}
