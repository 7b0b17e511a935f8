//! What an inference needs to be resumed, and its findings: the checkpoint, which is written next to the public
//! document.
//!
//! # Invariants
//! - A checkpoint with values that no inference writes is refused before they are used ([`Checkpoint::check`]).
//! - Up to version 4 of `inference.json` the checkpoint was a part of it, with the same names: it can be read from
//!   there.

use std::ops::{Deref, DerefMut};

use flashlab_analysis::inference::{Finding, Inference, TimedIo, check_findings};
use flashlab_base::{Bytes, Identity, Nanos};
use serde::{Deserialize, Serialize};

use crate::virtual_disk::of_a_host;

/// The version of the file of a [`Checkpoint`]. Unit: version. Source: derivation: the first one. Too high:
/// files of this program are refused; too low: files of another format are misread.
pub const CHECKPOINT_VERSION: u32 = 1;
/// The largest number in the file. Unit: any. Source: derivation: JSON numbers are exact up to 2^53. Too
/// high: a number is rounded when it is read; too low: large devices cannot be resumed.
const NUMBER_MOST: u64 = (1 << 53) - 1;
/// The largest reclaim unit. Unit: bytes. Source: derivation: far more than any erase block. Too high:
/// products overflow; too low: arrays cannot be resumed.
const UNIT_MOST: u64 = 1 << 40;
/// The most log blocks. Unit: log blocks. Source: derivation: far more than any device has. Too high:
/// products overflow; too low: large devices cannot be resumed.
const LOGS_COUNT_MOST: u32 = 1 << 20;
/// The longest time of a write. Unit: ns per byte. Source: derivation: a second for a byte. Too high: damaged
/// files make probes wait; too low: slow devices cannot be resumed.
const NANOS_PER_BYTE_MOST: f64 = 1e9;
/// The most writes that are kept from filling the device. Unit: writes. Source: derivation: more than
/// `row_writes` makes. Too many: damaged files fill the memory; too few: an inference cannot be resumed.
const WRITES_MOST: usize = 1 << 16;

/// What is known of a device: the document, and what only a resumed inference needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The findings.
    pub document: Inference,
    /// The rest.
    pub checkpoint: Checkpoint,
}

impl Known {
    /// Refuses values that no inference writes.
    ///
    /// # Errors
    /// What is wrong, and where, in a clause.
    pub fn check(&self) -> Result<(), String> {
        self.document.check()?;
        self.checkpoint.check(self.document.capacity)
    }

    /// Nothing.
    pub fn begun(target: &str, identity: Identity, capacity: Bytes) -> Known {
        let not_flash = of_a_host(&identity);
        let document = Inference { not_flash, ..Inference::begun(target, identity, capacity) };
        Known { document, checkpoint: Checkpoint::default() }
    }
}

/// It reads as its document.
impl Deref for Known {
    type Target = Inference;

    fn deref(&self) -> &Inference {
        &self.document
    }
}

impl DerefMut for Known {
    fn deref_mut(&mut self) -> &mut Inference {
        &mut self.document
    }
}

/// The state of an inference between two probes, as the file `checkpoint.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// [`CHECKPOINT_VERSION`].
    pub version: u32,
    /// Evidence that probes handed in, for the owners of the answers.
    #[serde(default)]
    pub provisional: Vec<Finding>,
    /// How far the device was filled.
    pub fill: Fill,
    /// The time of the finished probes that only read.
    #[serde(default)]
    pub reading_used: Nanos,
    /// Some of the writes that filled the device, run by run, until a later probe has used them to find pages
    /// and dies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub row_writes: Vec<Vec<TimedIo>>,
}

impl Default for Checkpoint {
    fn default() -> Checkpoint {
        Checkpoint {
            version: CHECKPOINT_VERSION,
            provisional: Vec::new(),
            fill: Fill::default(),
            reading_used: Nanos::ZERO,
            row_writes: Vec::new(),
        }
    }
}

/// What was written to a device before a probe began, also by interrupted attempts of it. It is recorded, so that a replay begins the
/// probe in the same state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WritesBefore {
    pub(crate) written: Bytes,
    pub(crate) filled: Bytes,
    pub(crate) fill: Fill,
    /// What was written since the last answer.
    pub(crate) unanswered: Bytes,
}

impl WritesBefore {
    /// What a recording has; an error for what no inference of a device of this size writes.
    pub(crate) fn of(recorded: &serde_json::Value, capacity: Bytes) -> Result<WritesBefore, String> {
        let writes =
            WritesBefore::deserialize(recorded).map_err(|error| format!("writes_before: {error}"))?;
        at_most("written", writes.written.0, NUMBER_MOST)?;
        at_most("unanswered", writes.unanswered.0, writes.written.0)?;
        at_most("filled", writes.filled.0, capacity.0)?;
        writes.fill.check(capacity)?;
        Ok(writes)
    }
}

/// How far a device was written sequentially from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fill {
    /// The bytes written in all before the first write to this device. They can have gone to an earlier
    /// scratch file in its place.
    #[serde(default)]
    pub begun_at: Bytes,
    /// The end of what was filled.
    pub until: Bytes,
    /// The bytes written in all when the fill reached the end of the device, plus what was written in place
    /// since then.
    pub whole_at: Option<Bytes>,
    /// The time of the last writes of the fill, in nanoseconds per byte; 0 if unknown.
    pub nanos_per_byte: f64,
    /// How many of the bytes written since then went repeatedly to a few addresses.
    #[serde(default)]
    pub in_place: Bytes,
    /// Whether the fill of the whole device has begun.
    pub was_begun: bool,
    /// The time of a write of a few KiB followed by a flush, in nanoseconds, if the flush waits for the write
    /// buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushed_nanos: Option<f64>,
    /// The unit in which the device reclaims space, as sequential overwriting shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<ReclaimUnit>,
}

/// The unit in which a device reclaims space.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReclaimUnit {
    /// How large it is.
    pub size: Bytes,
    /// How many bytes were overwritten before the first garbage collection; `None` if it came with the first
    /// writes.
    pub onset: Option<Bytes>,
    /// How many times this unit predicted a garbage collection.
    pub predictions: u32,
    /// How many of these predictions were correct.
    pub correct: u32,
    /// The number of logs of this size that all addresses share, if it was seen.
    pub logs: Option<u32>,
}

impl ReclaimUnit {
    /// A unit of shared logs that appeared with the first writes and predicted nothing.
    pub fn of_logs(size: Bytes, logs: u32) -> ReclaimUnit {
        ReclaimUnit { size, onset: None, predictions: 0, correct: 0, logs: Some(logs) }
    }
}

impl Checkpoint {
    /// Refuses a version that this program does not know, and values that no inference of a device of this size writes.
    ///
    /// # Errors
    /// What is wrong, and where, in a clause.
    pub fn check(&self, capacity: Bytes) -> Result<(), String> {
        if self.version != CHECKPOINT_VERSION {
            let version = self.version;
            return Err(format!(
                "has version {version}, and this program reads version {CHECKPOINT_VERSION}"
            ));
        }
        check_findings(&self.provisional, capacity)?;
        at_most("reading_used", self.reading_used.0, NUMBER_MOST)?;
        self.fill.check(capacity)?;
        if self.row_writes.iter().map(Vec::len).sum::<usize>() > WRITES_MOST {
            return Err(format!("row_writes holds more than {WRITES_MOST} writes: the file is damaged"));
        }
        self.row_writes.iter().flatten().try_for_each(|write| check_write(write, capacity))
    }
}

impl Fill {
    fn check(&self, capacity: Bytes) -> Result<(), String> {
        let Fill { begun_at, until, whole_at, in_place, unit, .. } = *self;
        at_most("fill.until", until.0, capacity.0)?;
        at_most("fill.begun_at", begun_at.0, NUMBER_MOST)?;
        at_most("fill.whole_at", whole_at.unwrap_or_default().0, NUMBER_MOST)?;
        at_most("fill.in_place", in_place.0, NUMBER_MOST)?;
        number("fill.nanos_per_byte", self.nanos_per_byte, NANOS_PER_BYTE_MOST)?;
        number("fill.flushed_nanos", self.flushed_nanos.unwrap_or_default(), NUMBER_MOST as f64)?;
        let Some(ReclaimUnit { size, onset, logs, .. }) = unit else { return Ok(()) };
        let most = UNIT_MOST.min(capacity.0.saturating_mul(2).clamp(64 << 20, NUMBER_MOST));
        if size == Bytes::ZERO {
            return Err("fill.unit.size is 0: the file is damaged".to_owned());
        }
        at_most("fill.unit.size", size.0, most)?;
        at_most("fill.unit.onset", onset.unwrap_or_default().0, NUMBER_MOST)?;
        at_most("fill.unit.logs", logs.unwrap_or_default().into(), LOGS_COUNT_MOST.into())
    }
}

fn check_write(write: &TimedIo, capacity: Bytes) -> Result<(), String> {
    number("at of a write in row_writes", write.at, NUMBER_MOST as f64)?;
    number("nanos of a write in row_writes", write.nanos, NUMBER_MOST as f64)?;
    if write.size == 0 {
        return Err("size of a write in row_writes is 0: the file is damaged".to_owned());
    }
    at_most("end of a write in row_writes", write.offset.saturating_add(write.size), capacity.0)
}

fn at_most(what: &str, number: u64, most: u64) -> Result<(), String> {
    if number <= most { Ok(()) } else { Err(beyond(what, number, most)) }
}

fn number(what: &str, number: f64, most: f64) -> Result<(), String> {
    if (0.0..=most).contains(&number) { Ok(()) } else { Err(beyond(what, number, most)) }
}

fn beyond(what: &str, number: impl std::fmt::Display, most: impl std::fmt::Display) -> String {
    format!("{what} is {number}, and can be 0 to {most} on this device: the file is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Checkpoint)) -> String {
        let mut checkpoint = Checkpoint::default();
        change(&mut checkpoint);
        checkpoint.check(Bytes::gib(1)).unwrap_err()
    }

    #[test]
    fn what_no_inference_writes_is_refused() {
        assert_eq!(Checkpoint::default().check(Bytes::gib(1)), Ok(()));
        let beyond = refused(|checkpoint| checkpoint.fill.until = Bytes::gib(1) + Bytes(1));
        assert!(beyond.starts_with("fill.until is 1073741825, and can be 0 to 1073741824"), "{beyond}");
        let huge = Bytes(1 << 53);
        assert!(refused(|checkpoint| checkpoint.fill.begun_at = huge).contains("begun_at"));
        assert!(refused(|checkpoint| checkpoint.fill.nanos_per_byte = -1.0).contains("nanos_per_byte"));
        let unit = |size, logs| Some(ReclaimUnit::of_logs(size, logs));
        assert!(refused(|checkpoint| checkpoint.fill.unit = unit(Bytes::ZERO, 1)).contains("unit.size"));
        assert!(refused(|checkpoint| checkpoint.fill.unit = unit(Bytes::mib(1), u32::MAX)).contains("logs"));
        let write = TimedIo::new(0.0, 1.0, 1 << 30, 4096);
        assert!(refused(|checkpoint| checkpoint.row_writes = vec![vec![write]]).contains("end of a write"));
        assert!(
            refused(|checkpoint| checkpoint.version = 2).contains("has version 2, and this program reads")
        );
    }
}
