//! The folder of a recording: IOs that a trace, a plan or other programs made, without the methodology of a bench run.

use flashlab_base::Identity;
use serde::{Deserialize, Serialize};

use crate::folder::{MANIFEST_VERSION, Manifest};

/// What the manifest of a recording has in the place of a bench run's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingSettings {
    /// What took the IOs, as it was named.
    pub target: String,
    /// The command that recorded them, as `flashlab serve`.
    pub recorded_by: String,
}

/// A line of a recording's `runs.jsonl`, written when the run begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRun {
    /// Its number, as in the samples' file names.
    pub run: u32,
    /// What it was, for people.
    pub name: String,
}

impl Manifest<RecordingSettings> {
    /// The manifest of a recording that the command line `command` began at `started` (RFC 3339, UTC).
    pub fn of_recording(
        identity: Identity,
        consent: &str,
        settings: RecordingSettings,
        command: Vec<String>,
        started: String,
    ) -> Manifest<RecordingSettings> {
        Manifest {
            version: MANIFEST_VERSION,
            flashlab: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            started,
            identity,
            consent: consent.to_owned(),
            settings,
            plans: Vec::new(),
            prepared_bytes: 0,
            warnings: Vec::new(),
            overhead_ns_per_io: None,
            clock_ns_per_reading: None,
        }
    }
}
