//! How much a write buffer takes in one go, from single writes of growing size.
//!
//! # Model
//! A write that the empty buffer holds wholly is answered when it has passed the link. One that is larger waits until there is
//! room for the rest of it, which is when the flash has programmed what came first: where the flash is slower than the link its
//! time jumps. The largest write before the jump is the buffer, which is halved in on.
//!
//! Pages that are written in part may go another way, and do not make a write wait: the buffer is what was found in whole pages,
//! when they are known.
//!
//! # Invariants
//! - before each write the device is idle longer than it would take to write all of the last one;
//! - all goes one behind the other from the device's beginning on, as a part of filling it.

use flashlab_analysis::signals::figures::median;
use flashlab_base::Bytes;

use super::bursts::{idle_after, write_one};
use crate::halt::Halt;
use crate::session::Session;
use crate::words::duration;

/// The largest page: what all sizes are multiples of at first.
const WHOLE: Bytes = Bytes::kib(16);
/// The smallest that is looked at, and the largest.
const LEAST: Bytes = WHOLE;
const MOST: Bytes = Bytes::mib(24);
/// From one size to the next.
const GROWTH: f64 = 1.25;
/// A time that is more than so many times what the link takes has jumped.
const JUMP: f64 = 1.13;
/// Times that a jump is looked at again, and that a size is written to find its place.
const AGAIN: usize = 3;
const TIMES: usize = 3;
/// The place of a jump is known if it is known so exactly.
const EXACT: f64 = 0.01;
/// Smaller parts of [`WHOLE`] are of interest where the whole is more than this of the buffer.
const PARTS: f64 = 0.02;

/// A jump: what is taken at once, and the evidence.
pub(super) struct Jump {
    pub(super) size: Bytes,
    pub(super) evidence: String,
    /// Sizes and times, for the picture.
    pub(super) curve: Vec<(f64, f64)>,
}

/// Looks for the jump; `None` where there is none up to what may be written.
pub(super) fn jump(session: &mut Session<'_, '_>) -> Result<Option<Jump>, Halt> {
    let whole = WHOLE.max(session.block());
    let mut sizes = Sizes { curve: Vec::new() };
    let mut low = LEAST.max(whole);
    sizes.median(session, low, TIMES)?;
    let (high, low) = loop {
        let next = Bytes((low.0 as f64 * GROWTH) as u64).round_up(whole).max(low + whole);
        // What is left has to do for finding the place.
        if next > MOST || session.writes_left() < next * 12 {
            return Ok(None);
        }
        let time = sizes.median(session, next, 1)?;
        if time > JUMP * sizes.expected(next) {
            let before = sizes.median(session, low, AGAIN)?;
            let time = sizes.median(session, next, AGAIN)?;
            if time > JUMP * before * ratio(next, low) {
                break (next, low);
            }
        }
        low = next;
    };
    let (mut low, mut high) = (low, high);
    // Between what the link would take and what was seen, in the middle of the two.
    let limit = {
        let (link, jumped) = (sizes.of(low) / low.0 as f64, sizes.of(high) / high.0 as f64);
        (link * jumped).sqrt()
    };
    let jumps = |time: f64, size: Bytes| time / size.0 as f64 > limit;
    while high.0 - low.0 > whole.0.max((EXACT * low.0 as f64) as u64) {
        let middle = Bytes((low.0 + high.0) / 2).round_down(whole);
        if middle <= low || session.writes_left() < middle * (TIMES as u64 + 2) {
            break;
        }
        let time = sizes.median(session, middle, TIMES)?;
        if jumps(time, middle) { high = middle } else { low = middle }
    }
    let mut unit = whole;
    while unit.0 > 4096.max(session.block().0) && unit.0 as f64 > PARTS * low.0 as f64 {
        let half = Bytes(unit.0 / 2);
        let middle = low + half;
        if session.writes_left() < (middle + unit) * (2 * TIMES as u64) {
            break;
        }
        let time = sizes.median(session, middle, TIMES)?;
        if jumps(time, middle) {
            high = middle
        } else {
            low = middle
        }
        unit = half;
    }
    let evidence = format!(
        "After idle time a single write of {low} takes {} per KiB, and one of {high} {} per KiB: the larger one does not fit in the \
         buffer.",
        duration(sizes.of(low) / low.0 as f64 * 1024.0),
        duration(sizes.of(high) / high.0 as f64 * 1024.0)
    );
    sizes.curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(Some(Jump { size: low, evidence, curve: sizes.curve }))
}

fn ratio(one: Bytes, other: Bytes) -> f64 {
    one.0 as f64 / other.0 as f64
}

/// What single writes took, by size.
struct Sizes {
    curve: Vec<(f64, f64)>,
}

impl Sizes {
    /// Writes a size after idle times; the median of its times.
    fn median(&mut self, session: &mut Session<'_, '_>, size: Bytes, times: usize) -> Result<f64, Halt> {
        for _ in 0..times {
            align(session)?;
            let time = write(session, size, "single-write")?;
            self.curve.push((size.0 as f64, time));
        }
        Ok(self.of(size))
    }

    /// The median of all times of a size.
    fn of(&self, size: Bytes) -> f64 {
        let all: Vec<f64> =
            self.curve.iter().filter(|(x, _)| *x == size.0 as f64).map(|(_, time)| *time).collect();
        // Of few the lower one: what disturbs makes them longer.
        if all.len() == 2 { all[0].min(all[1]) } else { median(&all) }
    }

    /// What the link takes for a size, by the sizes before it: in proportion to them at the most.
    fn expected(&self, size: Bytes) -> f64 {
        let before = self.curve.iter().filter(|(x, _)| *x < size.0 as f64);
        let last: Vec<f64> = before.rev().take(5).map(|(x, time)| time / x).collect();
        median(&last) * size.0 as f64
    }
}

/// Fills the page that was begun.
fn align(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let end = session.fill().until;
    let rest = end.round_up(WHOLE.max(session.block())) - end;
    if rest > Bytes::ZERO {
        write(session, rest, "shift")?;
    }
    Ok(())
}

/// A single write behind all others, and idle time after it; what it took.
fn write(session: &mut Session<'_, '_>, size: Bytes, name: &str) -> Result<f64, Halt> {
    let cost = write_one(session, name, size)?;
    session.idle(idle_after(cost))?;
    Ok(cost)
}
