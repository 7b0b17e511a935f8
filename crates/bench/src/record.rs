//! What a finished run was: the part of the manifest that the samples cannot tell.

use flashlab_analysis::findings::RunEnd;
use flashlab_base::Seed;
use serde::{Deserialize, Serialize};

/// What a run was for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Purpose {
    /// Enforcing the device's state (uFLIP section 4.1).
    State {
        /// The state's name.
        state: String,
        /// Whether all of the target was covered.
        complete: bool,
    },
    /// Random writes of a part of the target, until the device is steady.
    SteadyRound {
        /// From 1.
        round: u32,
        /// Bytes of the round that were written before, without their time.
        conditioned_bytes: u64,
    },
    /// A long run of a baseline pattern (section 4.2).
    Baseline {
        /// `SR`, `RR`, `SW` or `RW`.
        pattern: String,
    },
    /// Sequential reads before the random writes (section 4.3).
    LingeringBefore,
    /// The random writes.
    LingeringWrites,
    /// Sequential reads after them.
    LingeringAfter,
    /// One repetition at one value of a plan's experiment.
    Point {
        /// The plan's name.
        plan: String,
        /// The experiment's name.
        experiment: String,
        /// The parameter's value, in its unit.
        value: f64,
        /// As a person writes it.
        label: String,
        /// From 1.
        repetition: u32,
    },
}

impl Purpose {
    /// Whether it brings the device into a state: no figure of the device's patterns counts its samples.
    pub fn is_state(&self) -> bool {
        matches!(self, Purpose::State { .. } | Purpose::SteadyRound { .. })
    }

    /// Whether both are for the same: how much of the target a state covered, and the rounding of a
    /// value that went through a file, are no difference.
    pub fn is_same(&self, other: &Purpose) -> bool {
        match (self, other) {
            (Purpose::State { state: a, .. }, Purpose::State { state: b, .. }) => a == b,
            (
                Purpose::Point { plan, experiment, label, repetition, value: _ },
                Purpose::Point { plan: p, experiment: e, label: l, repetition: r, value: _ },
            ) => (plan, experiment, label, repetition) == (p, e, l, r),
            _ => self == other,
        }
    }
}

/// One finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its number, as in the samples' file names; ascending in time.
    pub run: u32,
    /// What it was for.
    pub purpose: Purpose,
    /// The seed that its pattern was placed with.
    pub seed: Seed,
    /// The pattern, as TOML.
    pub pattern: String,
    /// IOs of each process that no figure counts.
    pub io_ignore: u64,
    /// IOs of each process that the start-up phase asks to leave out: more than `io_ignore` where there
    /// was no time or no room for them.
    pub io_ignore_wanted: u64,
    /// The period that batches of IOs were aligned with; 1 where none is known.
    pub period_ios: u64,
    /// Why it ended; null when it was interrupted or the device failed, and it counts for nothing.
    pub ended: Option<RunEnd>,
    /// The pause that was kept before it.
    pub pause_ns: u64,
    /// The device's time when it began.
    pub begin_ns: u64,
    /// The device's time when it ended.
    pub end_ns: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes that the device programmed into its flash meanwhile; null where it does not count them.
    #[serde(default)]
    pub media_written_bytes: Option<u64>,
    /// Bytes that something else read or wrote on the device beneath; null where it is not known.
    pub other_traffic_bytes: Option<u64>,
    /// How long measuring threads waited for a processor; null where it is not known.
    pub processor_wait_ns: Option<u64>,
    /// How often heat slowed a processor down; null where it is not known.
    pub thermal_throttles: Option<u64>,
    /// IOs that failed.
    pub failed_ios: u64,
    /// The first of them, for people.
    pub first_failure: Option<String>,
    /// How often measuring waited for the recording to be written; 0 in virtual time, and of a state.
    pub recording_stalls: u64,
}
