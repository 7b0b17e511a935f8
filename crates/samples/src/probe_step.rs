//! The steps of an inference: the lines of its `runs.jsonl`.
//!
//! # Model
//! An inference runs probes, one after the other. A probe runs patterns, and between them waits, flushes, or reads a counter
//! of the device. Each of these is a step, with everything that the probe learned from it: the samples of a run have the rest.
//! So an inference can be replayed from its folder.
//!
//! # Invariants
//! - The first line is [`ProbeStep::Device`]. A probe's steps are between its [`ProbeStep::Begin`] and its [`ProbeStep::End`].
//! - Times are those of the device's clock.

use flashlab_base::{Bytes, Nanos, Operation, Seed};
use serde::{Deserialize, Serialize};

/// The version of these lines.
pub const PROBE_STEPS_VERSION: u32 = 1;

/// A line of an inference's `runs.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum ProbeStep {
    /// What the device accepts.
    Device {
        /// [`PROBE_STEPS_VERSION`].
        version: u32,
        /// Its size.
        capacity_bytes: u64,
        /// The smallest IO.
        block_bytes: u64,
        /// The most IOs in flight.
        depth: u32,
    },
    /// A probe begins.
    Begin {
        /// Its name.
        probe: String,
        /// When.
        now_ns: u64,
        /// What earlier probes, and interrupted attempts of this one, wrote to the device, as `infer` counts it. Earlier versions did
        /// not record it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writes_before: Option<serde_json::Value>,
    },
    /// A pattern was run.
    Run(ProbeRun),
    /// The device was idle.
    Idle {
        /// How long, as the probe asked.
        time_ns: u64,
        /// Until when.
        now_ns: u64,
    },
    /// The device was flushed.
    Flush {
        /// How long that took; null if the device refused it.
        took_ns: Option<u64>,
        /// When it was done.
        now_ns: u64,
    },
    /// The device's counter of bytes programmed to flash was read.
    MediaWritten {
        /// Its value; null if the device has none.
        bytes: Option<u64>,
    },
    /// The device does not take a pattern.
    Misfit {
        /// The pattern's name.
        experiment: String,
        /// Why.
        reason: String,
    },
    /// A probe ended.
    End {
        /// Its name.
        probe: String,
        /// Whether it came to its end. If not, its answers do not count.
        is_complete: bool,
    },
}

/// A pattern that a probe ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRun {
    /// The number of the run, as in its samples.
    pub run: u32,
    /// The experiment in the probe's plan that has its pattern.
    pub experiment: String,
    /// The seed of its random offsets.
    pub seed: Seed,
    /// Why it ended.
    pub ended: ProbeRunEnd,
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The clock when the next step could begin.
    pub now_ns: u64,
    /// The first IO that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<FailedIo>,
    /// Why the device is gone, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
    /// Why the device refuses writes, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Bytes that any program moved on the device meanwhile; null if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_traffic_bytes: Option<u64>,
    /// How long the measuring thread waited for a CPU; null if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_wait_ns: Option<u64>,
    /// How often heat slowed a CPU or the device down; null if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thermal_throttles: Option<u64>,
}

/// Why a probe's run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeRunEnd {
    /// Every IO was done.
    #[default]
    PatternDone,
    /// The probe's time was over.
    TimeUsed,
    /// The user interrupted it.
    Interrupted,
    /// Too many IOs failed, or the device is gone.
    DeviceFailed,
}

/// An IO that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedIo {
    /// The operation.
    pub operation: Operation,
    /// Where.
    pub offset_bytes: u64,
    /// How long.
    pub size_bytes: u64,
    /// The operating system's error number.
    pub errno: i32,
}

impl FailedIo {
    /// Where it was.
    pub fn offset(&self) -> Bytes {
        Bytes(self.offset_bytes)
    }

    /// How long it was.
    pub fn size(&self) -> Bytes {
        Bytes(self.size_bytes)
    }
}

impl ProbeRun {
    /// When it began and ended.
    pub fn span(&self) -> (Nanos, Nanos) {
        (Nanos(self.begin_ns), Nanos(self.end_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_short_and_reads_back() {
        let run =
            ProbeRun { run: 7, experiment: "pages".to_owned(), end_ns: 9, now_ns: 9, ..ProbeRun::default() };
        let line = serde_json::to_string(&ProbeStep::Run(run.clone())).unwrap();
        assert_eq!(
            line,
            r#"{"step":"run","run":7,"experiment":"pages","seed":0,"ended":"pattern_done","begin_ns":0,"end_ns":9,"now_ns":9}"#
        );
        assert_eq!(serde_json::from_str::<ProbeStep>(&line).unwrap(), ProbeStep::Run(run));
    }
}
