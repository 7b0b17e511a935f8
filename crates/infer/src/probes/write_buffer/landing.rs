//! Finds out when a write reaches the flash: before it is answered, directly after, or when the buffer is full.
//!
//! # Model
//! A die that programs cannot read. So the data is read back at once, and after idle time:
//!
//! - If the write waited for the flash, its die is idle: both reads take the same.
//! - If a buffer writes at once, the die programs when the write is answered: the read at once waits for it.
//! - If a buffer writes when it is full, the page is still in it: both reads are faster than those of older data.
//!
//! # Invariants
//! - All writes are sequential from the beginning of the device on, as a part of filling it, and each offset is read
//!   once.
//! - A read at once counts only if its write took longer than most. By noise the host may receive an answer early,
//!   and would then wait for the write itself.

use std::ops::RangeInclusive;

use crate::priors;
use crate::signals::pictures::ranked;
use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::Picture;
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::{Location, Pattern};

use crate::halt::Halt;
use crate::patterns::writes::{costs_of, writes};
use crate::patterns::{ios, responses};
use crate::priors::SMALL_IO;
use crate::session::Session;
use crate::thresholds;
use crate::words::duration;

/// The sizes of the writes: a page, and a multi-plane page of four planes. Source: ONFI 4.2: 16 KiB. Too
/// large: the blank space is used up; too small: parts of pages stay in the buffer.
pub(super) const SIZES: [Bytes; 2] = [Bytes::kib(16), Bytes::kib(64)];
/// The idle time after writes, as a multiple of their response time. Unit: ratio. Source: tuned. Too high:
/// the probe takes longer; too low: the die is still busy.
const IDLE_FACTOR: u64 = 3;
/// The trials of each size: the fewest that decide, and as many as there is blank space for. Unit: trials.
/// Source: choice. Too many: the blank space is used up; too few: rank tests show nothing.
const TRIALS: RangeInclusive<usize> = 16..=40;
/// A read that waits for its die takes longer by at least this share of the read or the write. Unit: share.
/// Source: tuned. Too high: short programs are not seen; too low: drift is a program.
const WAIT_SHARE: f64 = 0.03;
/// A read that the buffer answers takes at most this share of one from the flash. Unit: share. Source: tuned.
/// Too high: drift is a buffer; too low: buffers behind a slow link are not seen.
const BUFFERED_SHARE: f64 = 0.92;
/// The largest write buffer that is expected; nor is it more than a fiftieth of the device. Source: choice.
/// Too large: the blank space is used up; too small: older data is still in the buffer.
const BUFFER_MOST: Bytes = Bytes::mib(32);

/// When a write lands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Landing {
    /// Before it is answered.
    Before,
    /// At once, behind the answer.
    Behind,
    /// When there is need.
    Late,
}

/// What was seen.
pub(super) struct Landed {
    pub(super) landing: Landing,
    pub(super) evidence: String,
    pub(super) picture: Picture,
    /// Writes of the smaller of the sizes after idle time, and reads of as much.
    pub(super) writes: Vec<f64>,
    pub(super) reads: Vec<f64>,
}

/// Reads back what was written.
pub(super) fn landing(session: &mut Session<'_, '_>) -> Result<Landed, Halt> {
    let mut seen = Trials::acquire(session)?;
    if seen.landing() == Landing::Before {
        // All of it may still be in the buffer.
        seen.older = displaced(session)?;
    }
    Ok(seen.landed())
}

/// Reads of what was just written, and what they are compared with.
#[derive(Default)]
struct Trials {
    sizes: [Bytes; 2],
    /// By size: what each write took, and the read right after it.
    at_once: [Vec<(f64, f64)>; 2],
    rested: Vec<f64>,
    older: Vec<f64>,
    writes: Vec<f64>,
    reads: Vec<f64>,
}

impl Trials {
    fn acquire(session: &mut Session<'_, '_>) -> Result<Trials, Halt> {
        let (block, small) = (session.block(), SMALL_IO.max(session.block()));
        let sizes = SIZES.map(|size| size.max(block));
        let mut seen = Trials { sizes, ..Trials::default() };
        'all: for _ in 0..*TRIALS.end() {
            for (index, size) in sizes.into_iter().enumerate() {
                if session.writes_left() < size * 2 {
                    break 'all;
                }
                // The last page of a piece is the last to leave.
                let last = |place: Bytes| read(place + size - small, small);
                let place = session.filled_until();
                let cost = write_one(session, "piece", size)?;
                let now = responses(&session.run("read-at-once", &last(place))?);
                seen.at_once[index].extend(now.first().map(|&now| (cost, now)));
                let place = session.filled_until();
                write_one(session, "piece", size)?;
                session.idle(idle_after(cost))?;
                seen.rested.extend(responses(&session.run("read-after-a-rest", &last(place))?));
                // Each place once: what was read may be in a buffer, too; and after a read as near as in the case before.
                let old = Bytes(place.0 / 4).round_down(small);
                session.run("go-to-what-is-older", &read(old.max(size) - size, small))?;
                seen.older
                    .extend(responses(&session.run("read-what-is-older", &read(old.max(size), small))?));
                if index == 0 {
                    seen.writes.push(cost);
                    let old = Bytes(place.0 / 2).round_down(size);
                    seen.reads.extend(responses(&session.run("read-what-is-older", &read(old, size))?));
                }
            }
        }
        if seen.rested.len() < 2 * TRIALS.start() {
            return Err(Halt::Lacks(
                "the write budget is too small to see when writes reach the flash (--write-budget)"
                    .to_owned(),
            ));
        }
        Ok(seen)
    }

    /// When a write lands.
    fn landing(&self) -> Landing {
        let Trials { at_once, rested, older, .. } = self;
        let is_behind = at_once.iter().any(|seen| {
            let usual = upper_median(&seen.iter().map(|&(write, _)| write).collect::<Vec<_>>());
            let reads = no_sooner(seen);
            let later = upper_median(&reads) - upper_median(rested);
            mann_whitney(&reads, rested).p_above < thresholds::FALSE_ALARM
                && later > WAIT_SHARE * upper_median(rested).max(usual)
        });
        let is_late = || {
            mann_whitney(rested, older).p_below < thresholds::FALSE_ALARM
                && upper_median(rested) < BUFFERED_SHARE * upper_median(older)
        };
        match is_behind {
            true => Landing::Behind,
            false if is_late() => Landing::Late,
            false => Landing::Before,
        }
    }

    /// The same with its evidence.
    fn landed(self) -> Landed {
        let landing = self.landing();
        let Trials { sizes, at_once, rested, older, writes, reads } = self;
        let at_once = at_once.map(|seen| no_sooner(&seen));
        let names = sizes.map(|size| format!("at once, after a write of {size}"));
        let kinds = names.iter().map(String::as_str).zip(at_once.each_ref().map(Vec::as_slice));
        let others = [("after idle time", rested.as_slice()), ("older data", &older)];
        let picture = ranked(
            format!(
                "Reads of data that was just written, after writes of {} and of {}. If the device answers a write before the data \
                 is on the flash, the read waits for it or comes from memory.",
                sizes[0], sizes[1]
            ),
            "reads",
            kinds.chain(others),
        );
        let [first, second] = at_once.map(|seen| duration(upper_median(&seen)));
        let evidence = format!(
            "Reading back data right after the write takes {first} for writes of {} and {second} for writes of {}; after idle time \
             it takes {}, and reading older data takes {}.",
            sizes[0],
            sizes[1],
            duration(upper_median(&rested)),
            duration(upper_median(&older)),
        );
        Landed { landing, evidence, picture, writes, reads }
    }
}

/// Reads of the first writes, after more was written than a buffer holds.
fn displaced(session: &mut Session<'_, '_>) -> Result<Vec<f64>, Halt> {
    let (size, small) = (Bytes::kib(128).max(session.block()), SMALL_IO.max(session.block()));
    let end = session.filled_until();
    let more = BUFFER_MOST.min(Bytes(session.capacity().0 / 50)).min(session.writes_left()).0 / size.0;
    if more > 0 {
        write_behind(session, "more", size, more)?;
        session.idle(idle_after(0.0))?;
    }
    // In pairs, of which the first only goes there.
    let apart = Bytes(end.0 / (*TRIALS.end() as u64 * 8)).round_down(small).max(small * 2);
    let mut reads = Vec::new();
    for index in 0..*TRIALS.end() as u64 {
        let place = apart * index;
        if place + apart + small > end {
            break;
        }
        session.run("go-to-what-was-first", &read(place + Bytes(apart.0 / 2).round_down(small), small))?;
        reads.extend(responses(&session.run("read-what-was-first", &read(place, small))?));
    }
    Ok(reads)
}

/// Reads behind the quarter of the writes that took longest: however many kinds of writes there are, none of these was
/// answered early.
fn no_sooner(seen: &[(f64, f64)]) -> Vec<f64> {
    let mut seen = seen.to_vec();
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    seen[seen.len() * 3 / 4..].iter().map(|&(_, read)| read).collect()
}

/// The idle time after writes that took `cost` nanoseconds.
fn idle_after(cost: f64) -> Nanos {
    priors::PROGRAMMED.max(Nanos(cost as u64) * IDLE_FACTOR)
}

/// `count` writes of `size` behind what was written, as a part of filling the device: what they took.
fn write_behind(
    session: &mut Session<'_, '_>,
    name: &str,
    size: Bytes,
    count: u64,
) -> Result<Vec<f64>, Halt> {
    let (place, length) = (session.filled_until(), size * count);
    if place + length > session.capacity() {
        return Err(Halt::Misfit(format!("it has no space for sequential writes of {length}")));
    }
    let costs = costs_of(session, name, &writes(Location::Sequential, size, count, place, length))?;
    session.filled(length);
    Ok(costs)
}

/// One write behind what was written: what it took.
fn write_one(session: &mut Session<'_, '_>, name: &str, size: Bytes) -> Result<f64, Halt> {
    Ok(write_behind(session, name, size, 1)?.first().copied().unwrap_or(0.0))
}

fn read(place: Bytes, size: Bytes) -> Pattern {
    ios(Mode::Read, Location::Sequential, size, 1).on_target(place, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_behind_writes_that_were_answered_early_do_not_count() {
        let seen: Vec<(f64, f64)> = (0..11).map(|i| (95.0 + f64::from(i), f64::from(i))).rev().collect();
        assert_eq!(no_sooner(&seen), [8.0, 9.0, 10.0]);
        assert_eq!(no_sooner(&[]), [] as [f64; 0]);
    }

    /// Reads that take these times, with a little scatter.
    fn trials(at_once: f64, rested: f64, older: f64) -> Trials {
        let about =
            |level: f64| (0..40).map(|i| level * (1.0 + 0.001 * f64::from(i % 7))).collect::<Vec<_>>();
        let pairs = || about(at_once).into_iter().map(|read| (200e3, read)).collect();
        Trials {
            sizes: SIZES,
            at_once: [pairs(), pairs()],
            rested: about(rested),
            older: about(older),
            writes: about(200e3),
            reads: about(older),
        }
    }

    #[test]
    fn reads_that_wait_for_the_program_come_behind_the_answer() {
        assert_eq!(trials(800e3, 100e3, 100e3).landed().landing, Landing::Behind);
        assert_eq!(trials(30e3, 30e3, 100e3).landing(), Landing::Late);
        assert_eq!(trials(100e3, 100e3, 100e3).landing(), Landing::Before);
    }
}
