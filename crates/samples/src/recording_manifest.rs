//! The manifest of a recording: IOs of a trace, a plan or other programs, without the methodology of a bench
//! run.

use flashlab_base::Identity;
use serde::{Deserialize, Serialize};

use crate::manifest::{FolderKind, Manifest};

/// The settings in the manifest of a recording, in place of those of a bench run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingSettings {
    /// The target of the IOs, as the user named it.
    pub target: String,
    /// The command that recorded them, for example `flashlab serve`.
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
        Manifest { command, started, ..Manifest::new(FolderKind::Recording, settings, identity, consent) }
    }
}
