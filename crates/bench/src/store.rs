//! Where a bench run keeps its runs: the folder, the recording thread, and what is finished.

use flashlab_analysis::findings::Warning;
use flashlab_engine::Observer;
use flashlab_samples::{Lane, Recording, RunFolder, Sample};

use crate::examine::Source;
use crate::record::{Purpose, RunRecord};
use crate::{BenchError, Manifest};

/// The runs of a bench run, on disk.
pub(crate) struct Store {
    folder: RunFolder,
    recording: Recording,
    records: Vec<RunRecord>,
    next_run: u32,
}

impl Store {
    /// Goes on in this folder.
    pub fn open(folder: RunFolder) -> Result<Store, BenchError> {
        let records: Vec<RunRecord> = folder.runs()?;
        let last = records.iter().map(|record| record.run).max().max(folder.last_run()?);
        let recording = Recording::start(&folder.samples());
        Ok(Store { folder, recording, records, next_run: last.map_or(1, |last| last + 1) })
    }

    /// Every run that was begun, in their order.
    pub fn records(&self) -> &[RunRecord] {
        &self.records
    }

    /// Whether a run for this purpose came to its end.
    pub fn has(&self, purpose: &Purpose) -> bool {
        self.finished(purpose).next().is_some()
    }

    /// The runs for this purpose that came to their end.
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

    /// Ends it; its samples can be read from now on. Returns how often measuring waited for them.
    pub fn finish_run(&mut self, lanes: Vec<Lane>) -> Result<u64, BenchError> {
        Ok(self.recording.finish_run(lanes)?)
    }

    /// Notes in the manifest what the schedule left out: only who knows the device can tell.
    pub fn note_left_out(&self, manifest: &Manifest, left_out: &[Warning]) -> Result<(), BenchError> {
        let mut noted = manifest.clone();
        noted.warnings.retain(|(kind, _)| left_out.iter().all(|warning| warning.kind != *kind));
        noted.warnings.extend(left_out.iter().map(|warning| (warning.kind.clone(), warning.message.clone())));
        if noted != *manifest {
            self.folder.write_json("manifest.json", &noted)?;
        }
        Ok(())
    }

    /// Notes what the run was.
    pub fn add(&mut self, record: RunRecord) -> Result<(), BenchError> {
        self.folder.add_run(&record)?;
        self.records.push(record);
        Ok(())
    }
}

impl Source for Store {
    fn each(&self, run: u32, see: &mut dyn FnMut(&Sample)) -> Result<(), BenchError> {
        self.folder.each(run, see)
    }
}

impl Source for RunFolder {
    fn each(&self, run: u32, see: &mut dyn FnMut(&Sample)) -> Result<(), BenchError> {
        Ok(self.each_sample(run, see)?)
    }
}

/// A lane as an observer: the recording ends a run whose samples cannot be written any more.
pub(crate) struct Record(pub Lane);

impl Observer for Record {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> std::ops::ControlFlow<()> {
        self.0.record(sample)
    }
}
