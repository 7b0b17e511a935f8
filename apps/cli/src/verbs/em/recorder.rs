//! Records the IOs of an experiment as samples: one run for each phase, one process for each device.

use std::path::Path;

use anyhow::Result;
use flashlab_base::{Identity, Sample};
use flashlab_em::{IoObserver, IoRecord};
use flashlab_samples::{Lane, RecordedRun, Recording, RunFolder, SamplesError};

use crate::recordings;

/// The recording of an experiment.
pub struct Recorder {
    folder: RunFolder,
    recording: Recording,
    lanes: Vec<(Lane, u64)>,
    devices: u32,
    runs: u32,
    failure: Option<SamplesError>,
    is_full: bool,
}

impl Recorder {
    /// A recording in the folder `output`, or in one of its own.
    pub fn begin(
        output: Option<&Path>,
        identity: Identity,
        consent: &str,
        target: &str,
        command: &str,
        devices: u32,
    ) -> Result<Recorder> {
        let folder = recordings::create(output, identity, consent, target, command)?;
        let recording = Recording::start(&folder);
        Ok(Recorder { folder, recording, lanes: Vec::new(), devices, runs: 0, failure: None, is_full: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder, when all samples are written.
    ///
    /// # Errors
    /// When some could not be written.
    pub fn finish(mut self) -> Result<RunFolder> {
        self.end_run();
        match self.failure {
            Some(error) => Err(error.into()),
            None if self.is_full => {
                anyhow::bail!("the samples cannot be written any more: is the disk full?")
            }
            None => Ok(self.folder),
        }
    }

    fn end_run(&mut self) {
        let lanes = std::mem::take(&mut self.lanes).into_iter().map(|(lane, _)| lane).collect::<Vec<_>>();
        if !lanes.is_empty()
            && let Err(error) = self.recording.finish_run(lanes)
        {
            self.failure.get_or_insert(error);
        }
    }

    fn begin_run(&mut self, name: &str) -> Result<(), SamplesError> {
        self.runs += 1;
        self.folder.add_run(&RecordedRun { run: self.runs, name: name.to_owned() })?;
        let lanes = self.recording.start_run(self.runs, self.devices)?;
        self.lanes = lanes.into_iter().map(|lane| (lane, 0)).collect();
        Ok(())
    }
}

impl IoObserver for Recorder {
    fn phase(&mut self, name: &str) {
        self.end_run();
        if let Err(error) = self.begin_run(name) {
            self.failure.get_or_insert(error);
        }
    }

    fn io(&mut self, record: &IoRecord) {
        let Some(mode) = record.operation.mode() else { return };
        let Some((lane, position)) = self.lanes.get_mut(record.device) else { return };
        let sample = Sample {
            position: *position,
            process: record.device as u32,
            mode,
            offset: record.offset,
            size: record.size,
            intended: record.submitted,
            submitted: record.submitted,
            completed: record.completed,
            errno: record.result.map_or_else(|error| error.errno, |()| 0),
        };
        *position += 1;
        self.is_full |= lane.record(&sample).is_break();
    }
}
