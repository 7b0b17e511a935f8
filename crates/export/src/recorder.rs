//! The samples of what a live disk serves, in the folder of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flashlab_samples::{MANIFEST_VERSION, Manifest, Recording, RunFolder, SamplesError};
use serde::Serialize;

use crate::live::LiveDisk;

/// Records every read and write of a disk until it is ended.
pub struct Recorder {
    recording: Recording,
    disk: Arc<LiveDisk>,
}

/// Where samples go, and what the manifest says of them.
#[derive(Clone, Debug)]
pub struct RecordTo {
    /// The folder, which must not be there.
    pub folder: PathBuf,
    /// The command line.
    pub command: Vec<String>,
    /// The time now, RFC 3339, UTC.
    pub started: String,
}

/// What a manifest says of a run that is not flashlab's own.
#[derive(Serialize)]
struct Settings {
    target: String,
    recorded_by: &'static str,
}

impl Recorder {
    /// Makes the folder and begins.
    ///
    /// # Errors
    /// When the folder is there already, or cannot be made.
    pub fn start(to: &RecordTo, disk: Arc<LiveDisk>) -> Result<Recorder, SamplesError> {
        let identity = disk.identity().clone();
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            flashlab: env!("CARGO_PKG_VERSION").to_owned(),
            command: to.command.clone(),
            started: to.started.clone(),
            consent: "none needed: a simulated device".to_owned(),
            settings: Settings { target: identity.target.clone(), recorded_by: "flashlab serve" },
            identity,
            plans: Vec::new(),
            prepared_bytes: 0,
            warnings: Vec::new(),
            overhead_ns_per_io: None,
            clock_ns_per_reading: None,
        };
        let folder = RunFolder::create(Path::new(&to.folder), &manifest)?;
        let mut recording = Recording::start(&folder.samples());
        let lanes = recording.start_run(0, 1)?;
        disk.record(lanes.into_iter().next());
        Ok(Recorder { recording, disk })
    }

    /// Ends the recording: all samples are in closed files.
    ///
    /// # Errors
    /// When a file could not be written.
    pub fn end(mut self) -> Result<(), SamplesError> {
        let lanes = self.disk.record(None).into_iter().collect();
        self.recording.finish_run(lanes).map(drop)
    }
}
