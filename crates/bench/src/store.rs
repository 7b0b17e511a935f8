//! Stores the runs of a bench run: the folder, the recording thread, and the finished runs.

use std::collections::BTreeMap;

use flashlab_analysis::findings::Warning;
use flashlab_base::{Activity, Sample};
use flashlab_engine::Observer;
use flashlab_samples::{Lane, Recording, RunFolder, SamplesError, SegmentIndex};

use crate::error::BenchError;
use crate::examine::{Source, each_of};
use crate::manifest::BenchManifest;
use crate::plausible;
use crate::record::{Purpose, RunRecord};

/// The runs of a bench run, on disk.
pub(crate) struct Store {
    folder: RunFolder,
    recording: Recording,
    records: Vec<RunRecord>,
    next_run: u32,
}

impl Store {
    /// Goes on in this folder, with a device in virtual or in wall time.
    pub fn open(folder: RunFolder, in_virtual_time: bool) -> Result<Store, BenchError> {
        let records = records(&folder)?;
        let last = records.iter().map(|record| record.run).max().max(folder.last_run());
        let recording = match in_virtual_time {
            true => Recording::start_virtual(&folder),
            false => Recording::start(&folder),
        };
        Ok(Store { folder, recording, records, next_run: last.map_or(1, |last| last + 1) })
    }

    /// Sets damaged files aside. Marks finished runs as unfinished if their samples are missing or damaged, so that they are measured
    /// again. Returns their numbers. The samples of a state are not checked, because no figure counts them.
    pub fn withdraw_damaged(&mut self) -> Result<Vec<u32>, BenchError> {
        self.folder.set_aside()?;
        let counts = |record: &RunRecord| record.ended.is_some() && !record.purpose.is_state();
        let mut given_up = Vec::new();
        for index in 0..self.records.len() {
            let record = &self.records[index];
            if !counts(record) {
                continue;
            }
            match each_of(self, record, |_| {}) {
                Ok(()) => continue,
                Err(BenchError::Damaged { .. } | BenchError::Samples(SamplesError::Format { .. })) => {}
                // A file that cannot be read now may still be complete.
                Err(error) => return Err(error),
            }
            let record = RunRecord { ended: None, ..record.clone() };
            self.folder.add_run(&record)?;
            given_up.push(record.run);
            self.records[index] = record;
        }
        Ok(given_up)
    }

    /// All runs that were begun, in their order.
    pub fn records(&self) -> &[RunRecord] {
        &self.records
    }

    /// Whether a run with this purpose completed.
    pub fn has(&self, purpose: &Purpose) -> bool {
        self.finished(purpose).next().is_some()
    }

    /// The completed runs with this purpose.
    pub fn finished(&self, purpose: &Purpose) -> impl Iterator<Item = &RunRecord> {
        self.records.iter().filter(move |record| record.ended.is_some() && record.purpose.is_same(purpose))
    }

    /// Begins the next run and returns its number and a lane for each process.
    pub fn start_run(&mut self, processes: u32) -> Result<(u32, Vec<Lane>), BenchError> {
        let run = self.next_run;
        let lanes = self.recording.start_run(run, processes)?;
        self.next_run += 1;
        Ok((run, lanes))
    }

    /// Ends the run; its samples can be read from now on. Returns how often measuring waited until samples
    /// were written.
    pub fn finish_run(&mut self, lanes: Vec<Lane>) -> Result<u64, BenchError> {
        Ok(self.recording.finish_run(lanes)?)
    }

    /// Adds the runs that the schedule left out to the manifest. They depend on the device, so they cannot be
    /// computed from the files.
    pub fn note_left_out(&self, manifest: &BenchManifest, left_out: &[Warning]) -> Result<(), BenchError> {
        let mut noted = manifest.clone();
        noted.warnings.retain(|(kind, _)| left_out.iter().all(|warning| warning.kind != *kind));
        noted.warnings.extend(left_out.iter().map(|warning| (warning.kind.clone(), warning.message.clone())));
        if noted != *manifest {
            self.folder.write_manifest(&noted)?;
        }
        Ok(())
    }

    /// Notes when the device worked on its own account.
    pub fn add_activity(&self, activity: &[Activity]) -> Result<(), BenchError> {
        Ok(self.folder.add_activity(activity)?)
    }

    /// Notes what the run was.
    pub fn add(&mut self, record: RunRecord) -> Result<(), BenchError> {
        self.folder.add_run(&record)?;
        self.records.push(record);
        Ok(())
    }
}

/// Checks that the records in the folder are possible.
///
/// # Errors
/// [`BenchError::Damaged`] if they are not.
pub fn check_records(folder: &RunFolder) -> Result<(), BenchError> {
    records(folder).map(drop)
}

/// All runs that were begun, in their order. If a run has several lines, the last one counts: a line with
/// `ended` null withdraws a run whose samples are damaged.
///
/// # Errors
/// When the records cannot be read, or cannot be true.
pub fn records(folder: &RunFolder) -> Result<Vec<RunRecord>, BenchError> {
    let mut records: Vec<RunRecord> = Vec::new();
    let mut places = BTreeMap::new();
    for record in folder.runs::<RunRecord>()? {
        let place = *places.entry(record.run).or_insert(records.len());
        match records.get_mut(place) {
            Some(earlier) => *earlier = record,
            None => records.push(record),
        }
    }
    plausible::records(folder.path(), &records)?;
    Ok(records)
}

impl Source for Store {
    fn each(&self, run: u32, see: &mut dyn FnMut(&Sample)) -> Result<(), BenchError> {
        Ok(self.folder.each_sample(run, see)?)
    }
}

impl Source for SegmentIndex {
    fn each(&self, run: u32, see: &mut dyn FnMut(&Sample)) -> Result<(), BenchError> {
        Ok(self.each_sample(run, see)?)
    }
}

/// A lane as an observer. The recording ends a run whose samples cannot be written any more.
pub(crate) struct Record(pub Lane);

impl Observer for Record {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> std::ops::ControlFlow<()> {
        self.0.record(sample)
    }
}
