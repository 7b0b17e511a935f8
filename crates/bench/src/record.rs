//! The record of a finished run: what its samples do not contain.

use std::fmt;

use flashlab_analysis::findings::{Regime, RunEnd};
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
        /// Whether the whole target was covered.
        complete: bool,
    },
    /// Random writes to a part of the target, repeated until the device is steady.
    SteadyRound {
        /// From 1.
        round: u32,
        /// Bytes of the round that were written before its timed part.
        conditioned_bytes: u64,
    },
    /// A long run of a baseline pattern (section 4.2).
    Baseline {
        /// `SR`, `RR`, `SW` or `RW`.
        pattern: String,
    },
    /// Random writes until the device is in its sustained regime. They are in no figure.
    LeadIn,
    /// Random writes after an idle time that followed a lead-in: how much of the stages came back.
    Recovery {
        /// The idle time before the run.
        idle_ns: u64,
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
        /// The regime of its writes; null if the device has one, or nothing is written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        regime: Option<Regime>,
        /// The parameter's value, in its unit.
        value: f64,
        /// As a person writes it.
        label: String,
        /// From 1.
        repetition: u32,
    },
}

impl fmt::Display for Purpose {
    /// A few words, as in a list of runs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Purpose::State { state, .. } => write!(f, "state {state}"),
            Purpose::SteadyRound { round, .. } => write!(f, "steady state, round {round}"),
            Purpose::Baseline { pattern } => write!(f, "baseline {pattern}"),
            Purpose::LeadIn => write!(f, "lead-in"),
            Purpose::Recovery { idle_ns } => {
                write!(f, "recovery after {} s of idle time", *idle_ns as f64 / 1e9)
            }
            Purpose::LingeringBefore => write!(f, "lingering, reads before the writes"),
            Purpose::LingeringWrites => write!(f, "lingering, writes"),
            Purpose::LingeringAfter => write!(f, "lingering, reads after the writes"),
            Purpose::Point { plan, experiment, regime, label, repetition, .. } => {
                write!(f, "{plan} {experiment} {label}")?;
                if let Some(regime) = regime {
                    write!(f, ", {}", regime.name())?;
                }
                write!(f, ", repetition {repetition}")
            }
        }
    }
}

impl Purpose {
    /// Whether the run enforces a state. Its samples are in no figure of the device's patterns.
    pub fn is_state(&self) -> bool {
        matches!(self, Purpose::State { .. } | Purpose::SteadyRound { .. })
    }

    /// As text, from which the seed of the run follows. Both regimes of a repetition have the same addresses.
    pub(crate) fn seed_label(&self) -> String {
        let mut purpose = self.clone();
        if let Purpose::Point { regime, .. } = &mut purpose {
            *regime = None;
        }
        serde_json::to_string(&purpose).expect("a purpose is made of texts and numbers")
    }

    /// Whether both purposes are the same. How much of the target a state covered does not matter. Nor does
    /// the rounding of a value that was written to a file.
    pub fn is_same(&self, other: &Purpose) -> bool {
        match (self, other) {
            (Purpose::State { state: a, .. }, Purpose::State { state: b, .. }) => a == b,
            (
                Purpose::Point { plan, experiment, regime, label, repetition, value: _ },
                Purpose::Point { plan: p, experiment: e, regime: g, label: l, repetition: r, value: _ },
            ) => (plan, experiment, regime, label, repetition) == (p, e, g, l, r),
            _ => self == other,
        }
    }
}

/// One finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its number, as in the names of the samples' files; ascending in time.
    pub run: u32,
    /// What it was for.
    pub purpose: Purpose,
    /// The seed from which its random addresses follow.
    pub seed: Seed,
    /// The pattern, as TOML.
    pub pattern: String,
    /// IOs of each process that no figure counts.
    pub io_ignore: u64,
    /// IOs of each process that the start-up phase requires to ignore. It is larger than `io_ignore` if time
    /// or space was short.
    pub io_ignore_wanted: u64,
    /// The period with which batches of IOs were aligned; 1 if none is known.
    pub period_ios: u64,
    /// Why it ended. Null if it was interrupted or the device failed; the run then does not count.
    pub ended: Option<RunEnd>,
    /// Whether the lead-in before a sustained run ended in the sustained regime; null for other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regime_shown: Option<bool>,
    /// Whether the run settled in its own pattern: the transient at its begin is in `io_ignore`. Null if it did not have to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
    /// The pause before the run.
    pub pause_ns: u64,
    /// The device's time at the begin.
    pub begin_ns: u64,
    /// The device's time at the end.
    pub end_ns: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes that the device programmed into its flash during the run; null if it does not count them.
    #[serde(default)]
    pub media_written_bytes: Option<u64>,
    /// The size of the flash blocks that the device erased during the run; null if that is not known. Only simulated
    /// flash knows it.
    #[serde(default)]
    pub media_erased_bytes: Option<u64>,
    /// Bytes that other programs read or wrote on the underlying device; null if not known.
    pub other_traffic_bytes: Option<u64>,
    /// How long measuring threads waited for a CPU; null if not known.
    pub processor_wait_ns: Option<u64>,
    /// How often heat slowed a CPU down; null if not known.
    pub thermal_throttles: Option<u64>,
    /// IOs that failed.
    pub failed_ios: u64,
    /// A message about the first of them.
    pub first_failure: Option<String>,
    /// How often measuring waited until samples were written; 0 in virtual time, and for a state.
    pub recording_stalls: u64,
}

impl RunRecord {
    /// Whether its writes did not settle, or not in the regime that it was meant for.
    pub fn is_undecided(&self) -> bool {
        self.regime_shown == Some(false) || self.settled == Some(false)
    }
}
