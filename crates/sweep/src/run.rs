//! Runs plans and traces on a device, and counts their IOs by class.

use std::sync::atomic::AtomicBool;

use flashlab_analysis::Classes;
use flashlab_base::{Nanos, Sample, Seed};
use flashlab_device::Device;
use flashlab_engine::{Control, Pace, RunOutcome, StopReason};
use flashlab_plan::{Choice, Plan, Space};
use flashlab_trace::Trace;

use crate::SweepError;
use crate::class_observer::{ClassObserver, ClassifiedProcess, SampleLane, Upcoming};

/// The time of a pattern without io_count and duration.
const ENDLESS_PATTERN_TIME: Nanos = Nanos::from_secs(10);
/// How many IOs may fail before a run is aborted.
const FAILURES_ALLOWED: u64 = 1000;

/// Keeps the samples of runs.
pub trait RunRecorder {
    /// Keeps the samples of one process.
    type Lane: SampleLane;

    /// The lanes of the next run, one for each process; `None` for one whose samples are not kept.
    ///
    /// # Errors
    /// When samples cannot be kept.
    fn start(&mut self, name: &str, processes: u32) -> Result<Vec<Option<Self::Lane>>, SweepError>;

    /// Takes the lanes of a finished run.
    ///
    /// # Errors
    /// When samples cannot be kept.
    fn finish(&mut self, lanes: Vec<Self::Lane>) -> Result<(), SweepError>;
}

/// Keeps no samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecorder;

impl RunRecorder for NoRecorder {
    type Lane = Vec<Sample>;

    fn start(&mut self, _: &str, processes: u32) -> Result<Vec<Option<Vec<Sample>>>, SweepError> {
        Ok((0..processes).map(|_| None).collect())
    }

    fn finish(&mut self, _: Vec<Vec<Sample>>) -> Result<(), SweepError> {
        Ok(())
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct SimulatedRun {
    /// The plan, the experiment and its value; or `trace`.
    pub name: String,
    /// Its counted IOs by class.
    pub classes: Classes,
    /// From the first counted IO to the end of the run.
    pub duration: Nanos,
    /// The first IO that failed.
    pub first_failure: Option<String>,
}

/// Replays a trace that fits the device.
///
/// # Errors
/// When the device accepts fewer IOs in flight, the caller interrupts it, or samples cannot be kept.
pub fn replay<R: RunRecorder>(
    device: &mut (dyn Device + '_),
    trace: &Trace,
    pace: Pace,
    recorder: &mut R,
    interrupt: &AtomicBool,
) -> Result<SimulatedRun, SweepError> {
    let lane = recorder.start("trace", 1)?.pop().flatten();
    let mut observer = ClassObserver::new(trace.ios.iter().map(Upcoming::from), 0, lane);
    let outcome =
        flashlab_engine::replay(device, &trace.ios, pace, &mut observer, &control(interrupt, None))?;
    let ClassifiedProcess { classes, lane, .. } = observer.finish();
    recorder.finish(lane.into_iter().collect())?;
    finished("trace".to_owned(), classes, Nanos::ZERO, &outcome)
}

/// Runs each experiment of the plans at each of its values, one after the other.
///
/// # Errors
/// When a pattern does not fit the device, the caller interrupts it, or samples cannot be kept.
pub fn run_plans<R: RunRecorder>(
    device: &mut (dyn Device + '_),
    plans: &[Plan],
    seed: Seed,
    recorder: &mut R,
    interrupt: &AtomicBool,
) -> Result<Vec<SimulatedRun>, SweepError> {
    let geometry = device.geometry();
    let space = Space { capacity: geometry.capacity, block: geometry.block };
    let mut runs = Vec::new();
    let experiments =
        plans.iter().flat_map(|plan| plan.experiments.iter().map(move |experiment| (plan, experiment)));
    for (plan, experiment) in experiments {
        for (value, pattern) in experiment.runs(Choice::Full) {
            let placed = pattern.place(space, seed)?;
            let has_end = pattern.io_count.is_some() || pattern.duration.is_some();
            let names = [plan.name.as_str(), &experiment.name, &value.label];
            let name = names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" ");
            let lanes = recorder.start(&name, placed.processes())?;
            let mut observers: Vec<_> = lanes
                .into_iter()
                .enumerate()
                .map(|(process, lane)| {
                    let upcoming = placed.ios(process as u32).map(Upcoming::from);
                    ClassObserver::new(upcoming, pattern.io_ignore, lane)
                })
                .collect();
            let control = control(interrupt, (!has_end).then_some(ENDLESS_PATTERN_TIME));
            let outcome = flashlab_engine::run(device, &placed, &mut observers, &control)?;
            let (mut classes, mut counted_from, mut lanes) = (Classes::default(), Nanos::MAX, Vec::new());
            for observer in observers {
                let seen = observer.finish();
                classes.merge(&seen.classes);
                counted_from = counted_from.min(seen.counted_from.unwrap_or(Nanos::MAX));
                lanes.extend(seen.lane);
            }
            recorder.finish(lanes)?;
            runs.push(finished(name, classes, counted_from, &outcome)?);
        }
    }
    Ok(runs)
}

fn control(interrupt: &AtomicBool, time_limit: Option<Nanos>) -> Control<'_> {
    Control { interrupt, time_limit, failures_allowed: FAILURES_ALLOWED }
}

/// The result of a finished run, whose rates are over the time from `counted_from` to its end.
fn finished(
    name: String,
    classes: Classes,
    counted_from: Nanos,
    outcome: &RunOutcome,
) -> Result<SimulatedRun, SweepError> {
    match outcome.ended {
        StopReason::Interrupted => return Err(SweepError::Interrupted { ios: outcome.ios }),
        StopReason::ObserverSatisfied => {
            let message = "the samples cannot be written any more: is the disk full?";
            return Err(SweepError::Failed(message.to_owned()));
        }
        StopReason::PatternDone | StopReason::TimeUsed | StopReason::DeviceFailed => {}
    }
    let duration = outcome.end.since(outcome.begin.max(counted_from));
    let first_failure = outcome.first_failure.map(|failure| failure.to_string());
    Ok(SimulatedRun { name, classes, duration, first_failure })
}
