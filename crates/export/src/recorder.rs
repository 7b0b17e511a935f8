//! Records the IOs of a live disk as samples, in the folder of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flashlab_samples::{Manifest, RecordedRun, Recording, RecordingSettings, RunFolder, SamplesError};

use crate::live::LiveDisk;

/// Records every read and write of a disk until it is ended.
pub struct Recorder {
    folder: RunFolder,
    recording: Recording,
    disk: Arc<LiveDisk>,
}

/// Where samples are written, and what the manifest says about them.
#[derive(Clone, Debug)]
pub struct RecordingDestination {
    /// The folder, which must not exist.
    pub folder: PathBuf,
    /// The command line.
    pub command: Vec<String>,
    /// The time now, RFC 3339, UTC.
    pub started: String,
}

impl Recorder {
    /// Makes the folder and starts recording.
    ///
    /// # Errors
    /// When the folder exists, or cannot be made.
    pub fn start(to: &RecordingDestination, disk: Arc<LiveDisk>) -> Result<Recorder, SamplesError> {
        let identity = disk.identity().clone();
        let settings =
            RecordingSettings { target: identity.target.clone(), recorded_by: "flashlab serve".to_owned() };
        let consent = "none needed: a simulated device";
        let (command, started) = (to.command.clone(), to.started.clone());
        let manifest = Manifest::of_recording(identity, consent, settings, command, started);
        let folder = RunFolder::create(Path::new(&to.folder), &manifest)?;
        let mut recording = Recording::start(&folder);
        folder.add_run(&RecordedRun { run: 0, name: "served".to_owned() })?;
        let lanes = recording.start_run(0, 1)?;
        disk.record(lanes.into_iter().next());
        Ok(Recorder { folder, recording, disk })
    }

    /// Stops recording and closes the files. The folder is finished then.
    ///
    /// # Errors
    /// When a file could not be written.
    pub fn end(mut self) -> Result<(), SamplesError> {
        let lanes = self.disk.record(None).into_iter().collect();
        self.recording.finish_run(lanes)?;
        self.folder.finish::<RecordingSettings>()
    }
}
