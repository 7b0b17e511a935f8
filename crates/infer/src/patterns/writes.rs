//! Writes and their cost, as the probes that write share them.
//!
//! # Model
//! A write costs its pages; some writes also pay for the merge or collection of a block. So the median is the cost of
//! the usual write. Behind a write buffer no write shows its own cost. There the pace counts, the time from one
//! completion to the next, once the buffer is full.
//!
//! # Invariants
//! - Patterns of this module write to the target that their caller names, and nowhere else.

use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Mode, Sample};
use flashlab_plan::{Content, Location, Pattern};

use crate::halt::Halt;
use crate::patterns::{ios, responses};
use crate::rule::FIRM;
use crate::session::Session;

/// The largest write buffer that is expected where its size is not known. Source: choice. Too large: probes
/// write more than they need; too small: a larger buffer hides what they look for.
const BUFFER_MOST: Bytes = Bytes::mib(16);

/// Random writes of single pages go to a target of this size. Source: Ajwani et al., section 3.3.4. Too large: a map that is
/// not in memory is read; too small: a write buffer holds all of it.
pub(crate) const RANDOM_TARGET: Bytes = Bytes::mib(1);

/// The slow pages in sequential writes, as a multiple of the usual ones. Unit: ratio. Source: tuned. Too
/// high: merges count as slow pages; too low: slow pages count as merges.
const SLOW_PAGE_RATIO: f64 = 2.0;

/// The writes of a stretch whose pace is measured. Unit: writes. Source: choice. Too many: a merge in each
/// stretch hides the pace; too few: writes that complete together have none.
const STRETCH_WRITES: usize = 16;
/// The groups of writes that complete together in a stretch, at least. Unit: groups. Source: derivation:
/// within one group no time passes. Too many: a merge in each stretch hides the pace; too few: the pace is
/// that of one group.
const GROUPS_OF_STRETCH: usize = 2;

/// `count` writes of `size` within a target of `length` bytes from `offset` on.
pub(crate) fn writes(location: Location, size: Bytes, count: u64, offset: Bytes, length: Bytes) -> Pattern {
    ios(Mode::Write, location, size, count).on_target(offset, length)
}

/// The pattern with another content.
pub(crate) fn with_content(mut pattern: Pattern, content: Content) -> Pattern {
    pattern.first.content = content;
    pattern
}

/// The pattern with all its IOs moved.
pub(crate) fn shifted(mut pattern: Pattern, shift: Bytes) -> Pattern {
    pattern.first.io_shift = shift;
    pattern
}

/// The pattern with slots that are wider than its IOs.
pub(crate) fn apart(mut pattern: Pattern, slot: Bytes) -> Pattern {
    pattern.first.slot_size = Some(slot);
    pattern
}

/// Runs a pattern; the response times in nanoseconds, in order.
pub(crate) fn costs_of(
    session: &mut Session<'_, '_>,
    name: &str,
    pattern: &Pattern,
) -> Result<Vec<f64>, Halt> {
    Ok(responses(&session.run(name, pattern)?))
}

/// The size of single-page writes: the write page if it is known, else the read page. Without either it is 16
/// KiB, which are whole pages of nearly all flash.
pub(crate) fn page_to_write(session: &Session<'_, '_>) -> Bytes {
    let known = session.known();
    let page = known.bytes(Parameter::WritePageSize).or(known.bytes(Parameter::ReadPageSize));
    page.unwrap_or(Bytes::kib(16)).max(session.block())
}

/// The factors by which there may be more dies than known, the largest first. A device that takes one IO at a
/// time hardly shows its dies. Offsets that are this many stripes apart lie on one die all the same.
pub(crate) fn dies_in_doubt(session: &Session<'_, '_>) -> Vec<u64> {
    if session.known().confidence(Parameter::ParallelUnits) >= FIRM { vec![1] } else { vec![4, 2, 1] }
}

/// The dies, or one where they are not known.
pub(crate) fn dies(session: &Session<'_, '_>) -> u64 {
    session.known().count(Parameter::ParallelUnits).unwrap_or(1).max(1)
}

/// Pages of a row.
pub(crate) fn planes(session: &Session<'_, '_>) -> u64 {
    session.known().count(Parameter::PlanesReadAtOnce).unwrap_or(1).max(1)
}

/// The longest that a page takes on its die, in nanoseconds: what filling the device took for the same amount,
/// times the dies and planes that were busy. Where writes are flushed, it includes the flush.
pub(crate) fn page_on_die(session: &Session<'_, '_>, page: Bytes) -> f64 {
    filled_on_die(session, page).max(flushed(session))
}

/// The same without what a flush takes.
pub(crate) fn filled_on_die(session: &Session<'_, '_>, page: Bytes) -> f64 {
    session.fill_nanos_per_byte() * page.0 as f64 * (dies(session) * planes(session)) as f64
}

/// What a small write takes with the flush behind it, in nanoseconds, if writes are flushed; else 0.
pub(crate) fn flushed(session: &Session<'_, '_>) -> f64 {
    session.flushed_nanos().filter(|_| session.looks_through()).unwrap_or(0.0)
}

/// What a page takes on its die at most, where it is known what one takes in sequence, `alone`, behind no buffer.
pub(crate) fn page_takes(session: &Session<'_, '_>, page: Bytes, alone: Option<f64>) -> f64 {
    let filling = page_on_die(session, page);
    alone.map_or(filling, |alone| filling.min(SLOW_PAGE_RATIO * alone)).max(1.0)
}

/// What is known of the write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// Writes wait for the flash.
    None,
    /// It holds this much.
    Holds(Bytes),
    /// Nobody knows.
    Unknown,
}

/// What of a write buffer is between writes and what they cost: nothing where each of them is flushed.
pub(crate) fn buffer(session: &Session<'_, '_>) -> Buffer {
    if session.looks_through() { Buffer::None } else { known_buffer(session) }
}

/// What is known of the write buffer.
pub(crate) fn known_buffer(session: &Session<'_, '_>) -> Buffer {
    match session.known().bytes(Parameter::WriteBufferSize) {
        Some(Bytes::ZERO) => Buffer::None,
        Some(size) => Buffer::Holds(size),
        None => Buffer::Unknown,
    }
}

impl Buffer {
    /// The most that it holds: controllers have memory in proportion to their flash, and not much of it.
    pub(crate) fn most(self, session: &Session<'_, '_>) -> Bytes {
        match self {
            Buffer::None => Bytes::ZERO,
            Buffer::Holds(size) => Bytes(size.0 * 5 / 4),
            Buffer::Unknown => Bytes(session.capacity().0 / 100).min(BUFFER_MOST),
        }
    }
}

/// A multiple of `unit` at the share `part` of the device. Where a page is an odd multiple of a power of two,
/// so is the offset.
pub(crate) fn place(session: &Session<'_, '_>, part: f64, unit: Bytes) -> Bytes {
    let page = page_to_write(session).0.max(1);
    let odd = if unit.0.is_multiple_of(page) { 1 } else { page >> page.trailing_zeros() };
    let unit = unit * odd;
    Bytes((session.capacity().0 as f64 * part) as u64).round_down(unit)
}

/// The time from one completion to the next among the last `count` IOs. It is the median over stretches,
/// because some writes pay for the collection of a block.
pub(crate) fn pace(samples: &[Sample], count: u64) -> f64 {
    pace_of_groups(samples, count, 1)
}

/// As [`pace`], for IOs of which `together` may complete at once, as a flush answers all that wait for it. A
/// stretch is longer than several such groups: within one no time passes.
pub(crate) fn pace_of_groups(samples: &[Sample], count: u64, together: u32) -> f64 {
    let late = &samples[samples.len().saturating_sub(count as usize + 1)..];
    let length =
        STRETCH_WRITES.max(GROUPS_OF_STRETCH * together as usize).min(late.len().saturating_sub(1)).max(1);
    let stretches = late.windows(length + 1).step_by(length);
    let took = |stretch: &[Sample]| stretch[length].completed.since(stretch[0].completed).0 as f64;
    upper_median(&stretches.map(|stretch| took(stretch) / length as f64).collect::<Vec<_>>()).max(1.0)
}
