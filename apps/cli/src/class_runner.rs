//! Runs a trace or a plan on an open device, classifies its IOs, and records them if requested.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use flashlab_analysis::Classes;
use flashlab_base::{Nanos, Seed};
use flashlab_device::Geometry;
use flashlab_engine::{Control, Pace, RunOutcome, StopReason};
use flashlab_plan::{Choice, Space};
use flashlab_samples::{Lane, RecordedRun, Recording, RecordingSettings, RunFolder};
use flashlab_trace::Trace;

use crate::class_document::{ClassDocument, ClassifiedRun, TraceFacts};
use crate::class_observer::{ClassObserver, ClassifiedProcess, Upcoming};
use crate::interrupt::interrupt;
use crate::recordings;
use crate::selection::Selection;
use crate::target::OpenDevice;

/// The time of a pattern without io_count and duration.
const ENDLESS_PATTERN_TIME: Nanos = Nanos::from_secs(10);
/// How many IOs may fail before a run is aborted.
const FAILURES_ALLOWED: u64 = 1000;

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
        let lane = self.recorder.start("trace", 1)?.pop().flatten();
        let mut observer = ClassObserver::new(trace.ios.iter().map(Upcoming::from), 0, lane);
        let control = control(&self.interrupt, None);
        let outcome =
            flashlab_engine::replay(self.device.as_mut(), &trace.ios, pace, &mut observer, &control)?;
        let ClassifiedProcess { classes, lane, .. } = observer.finish();
        self.recorder.finish(lane.into_iter().collect())?;
        finished("trace".to_owned(), &classes, Nanos::ZERO, &outcome)
    }

    /// Runs each experiment of the plans at each of its values, one after the other.
    pub fn run_plans(&mut self, selection: &Selection, seed: Seed) -> Result<Vec<ClassifiedRun>> {
        let geometry = self.geometry();
        let space = Space { capacity: geometry.capacity, block: geometry.block };
        let mut runs = Vec::new();
        for (plan, experiment) in selection
            .plans
            .iter()
            .flat_map(|plan| plan.experiments.iter().map(move |experiment| (plan, experiment)))
        {
            for (value, pattern) in experiment.runs(Choice::Full) {
                let placed = pattern.place(space, seed)?;
                let has_end = pattern.io_count.is_some() || pattern.duration.is_some();
                let names = [plan.name.as_str(), &experiment.name, &value.label];
                let name = names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" ");
                let lanes = self.recorder.start(&name, placed.processes())?;
                let mut observers: Vec<_> = lanes
                    .into_iter()
                    .enumerate()
                    .map(|(process, lane)| {
                        ClassObserver::new(
                            placed.ios(process as u32).map(Upcoming::from),
                            pattern.io_ignore,
                            lane,
                        )
                    })
                    .collect();
                let control = control(&self.interrupt, (!has_end).then_some(ENDLESS_PATTERN_TIME));
                let outcome = flashlab_engine::run(self.device.as_mut(), &placed, &mut observers, &control)?;
                let (mut classes, mut counted_from, mut lanes) = (Classes::default(), Nanos::MAX, Vec::new());
                for observer in observers {
                    let seen = observer.finish();
                    classes.merge(&seen.classes);
                    counted_from = counted_from.min(seen.counted_from.unwrap_or(Nanos::MAX));
                    lanes.extend(seen.lane);
                }
                self.recorder.finish(lanes)?;
                runs.push(finished(name, &classes, counted_from, &outcome)?);
            }
        }
        Ok(runs)
    }

    /// Runs `work`, and returns what it and the flash did.
    pub fn document(
        mut self,
        work: impl FnOnce(&mut ClassRunner<'a>) -> Result<(Option<TraceFacts>, Vec<ClassifiedRun>)>,
    ) -> Result<ClassDocument> {
        let counts = self.device.as_flash().map(|device| device.flash().counts().clone());
        let (trace, runs) = work(&mut self)?;
        if let Some((folder, _)) = &self.recorder.recording {
            folder.finish::<RecordingSettings>()?;
        }
        let flash = self.device.as_flash();
        let statistics = flash.map(|device| device.statistics_since(&counts.unwrap_or_default()));
        let capacity = self.geometry().capacity.0;
        Ok(ClassDocument::new(self.target, capacity, trace, runs, statistics))
    }
}

impl Recorder {
    /// The lanes of the next run.
    fn start(&mut self, name: &str, processes: u32) -> Result<Vec<Option<Lane>>> {
        self.runs += 1;
        match &mut self.recording {
            Some((folder, recording)) => {
                folder.add_run(&RecordedRun { run: self.runs, name: name.to_owned() })?;
                Ok(recording.start_run(self.runs, processes)?.into_iter().map(Some).collect())
            }
            None => Ok((0..processes).map(|_| None).collect()),
        }
    }

    fn finish(&mut self, lanes: Vec<Lane>) -> Result<()> {
        if let Some((_, recording)) = &mut self.recording {
            recording.finish_run(lanes)?;
        }
        Ok(())
    }
}

fn control(interrupt: &AtomicBool, time_limit: Option<Nanos>) -> Control<'_> {
    Control { interrupt, time_limit, failures_allowed: FAILURES_ALLOWED }
}

/// The result of a finished run: its classes, with rates over the time from `counted_from` to its end.
fn finished(
    name: String,
    classes: &Classes,
    counted_from: Nanos,
    outcome: &RunOutcome,
) -> Result<ClassifiedRun> {
    if outcome.ended == StopReason::Interrupted {
        bail!("interrupted after {} IOs", outcome.ios);
    }
    if outcome.ended == StopReason::ObserverSatisfied {
        bail!("the samples cannot be written any more: is the disk full?");
    }
    let table = classes.table(outcome.end.since(outcome.begin.max(counted_from)));
    let first_failure = outcome.first_failure.map(|failure| failure.to_string());
    Ok(ClassifiedRun { name, table, first_failure })
}
