//! Runs a trace or a plan on an open device, classifies its IOs, and records them if requested.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use flashlab_base::Seed;
use flashlab_device::Geometry;
use flashlab_engine::Pace;
use flashlab_samples::{Lane, RecordedRun, Recording, RecordingSettings, RunFolder};
use flashlab_sweep::{RunRecorder, SimulatedRun, SweepError};
use flashlab_trace::Trace;

use crate::class_document::{ClassDocument, ClassifiedRun, TraceFacts};
use crate::interrupt::interrupt;
use crate::recordings;
use crate::selection::Selection;
use crate::target::OpenDevice;

/// Times of each kind in which the device worked on its own account that a recording has, at most.
const ACTIVITY_MOST: usize = 500;

pub struct ClassRunner<'a> {
    device: &'a mut OpenDevice,
    target: String,
    recorder: Recorder,
    interrupt: Arc<AtomicBool>,
}

/// Where samples go, if they are kept.
#[derive(Default)]
struct Recorder {
    recording: Option<(RunFolder, Recording)>,
    runs: u32,
}

impl<'a> ClassRunner<'a> {
    /// A runner that records into the new folder `output`, if there is one. `recorded_by` is the command.
    pub fn new(
        device: &'a mut OpenDevice,
        target: String,
        consent: &str,
        output: Option<&Path>,
        recorded_by: &str,
    ) -> Result<ClassRunner<'a>> {
        let recorder = match output {
            Some(path) => {
                let identity = device.as_mut().identity();
                let folder = recordings::create(Some(path), identity, consent, &target, recorded_by)?;
                let recording = Recording::start(&folder);
                Recorder { recording: Some((folder, recording)), runs: 0 }
            }
            None => Recorder::default(),
        };
        Ok(ClassRunner { device, target, recorder, interrupt: interrupt()? })
    }

    pub fn geometry(&mut self) -> Geometry {
        self.device.as_mut().geometry()
    }

    /// Replays a trace that fits the device.
    pub fn replay(&mut self, trace: &Trace, pace: Pace) -> Result<ClassifiedRun> {
        let device = self.device.as_mut();
        let run = flashlab_sweep::replay(device, trace, pace, &mut self.recorder, &self.interrupt)?;
        Ok(run.into())
    }

    /// Runs each experiment of the plans at each of its values, one after the other.
    pub fn run_plans(&mut self, selection: &Selection, seed: Seed) -> Result<Vec<ClassifiedRun>> {
        let (device, plans) = (self.device.as_mut(), &selection.plans);
        let runs = flashlab_sweep::run_plans(device, plans, seed, &mut self.recorder, &self.interrupt)?;
        Ok(runs.into_iter().map(ClassifiedRun::from).collect())
    }

    /// Runs `work`, and returns what it and the flash did.
    pub fn document(
        mut self,
        work: impl FnOnce(&mut ClassRunner<'a>) -> Result<(Option<TraceFacts>, Vec<ClassifiedRun>)>,
    ) -> Result<ClassDocument> {
        let counts = self.device.as_flash().map(|device| device.flash().counts().clone());
        if self.recorder.recording.is_some()
            && let Some(telemetry) = self.device.as_mut().telemetry()
        {
            telemetry.note_activity();
        }
        let (trace, runs) = work(&mut self)?;
        if let Some((folder, _)) = &self.recorder.recording {
            let telemetry = self.device.as_mut().telemetry();
            let activity = telemetry.map_or(Vec::new(), |telemetry| telemetry.take_activity(ACTIVITY_MOST));
            folder.add_activity(&activity)?;
            folder.finish::<RecordingSettings>()?;
        }
        let flash = self.device.as_flash();
        let statistics = flash.map(|device| device.statistics_since(&counts.unwrap_or_default()));
        let capacity = self.geometry().capacity.0;
        Ok(ClassDocument::new(self.target, capacity, trace, runs, statistics))
    }
}

impl RunRecorder for Recorder {
    type Lane = Lane;

    /// The lanes of the next run.
    fn start(&mut self, name: &str, processes: u32) -> Result<Vec<Option<Lane>>, SweepError> {
        self.runs += 1;
        match &mut self.recording {
            Some((folder, recording)) => {
                folder.add_run(&RecordedRun { run: self.runs, name: name.to_owned() })?;
                Ok(recording.start_run(self.runs, processes)?.into_iter().map(Some).collect())
            }
            None => Ok((0..processes).map(|_| None).collect()),
        }
    }

    fn finish(&mut self, lanes: Vec<Lane>) -> Result<(), SweepError> {
        if let Some((_, recording)) = &mut self.recording {
            recording.finish_run(lanes)?;
        }
        Ok(())
    }
}

impl From<SimulatedRun> for ClassifiedRun {
    fn from(run: SimulatedRun) -> ClassifiedRun {
        let SimulatedRun { name, classes, duration, first_failure } = run;
        ClassifiedRun { name, table: classes.table(duration), first_failure }
    }
}
