//! `flashlab sim run`: a trace or a plan on a device, in its own time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, anyhow, bail};
use flashlab_analysis::{ClassTable, Classes};
use flashlab_base::{Bytes, Nanos, Operation, ParseTargetError, SimulatedTarget};
use flashlab_device::Geometry;
use flashlab_engine::{Control, Ended, Outcome, Pace, replay};
use flashlab_plan::{Choice, Space};
use flashlab_report::{class_table, shell_word};
use flashlab_samples::{Lane, RecordedRun, Recording, RunFolder};
use flashlab_sim::flash_device::Statistics;
use flashlab_trace::{Fit, Fitted, Misfit, Trace};
use serde::Serialize;

use crate::args::{SimRun, Target, TraceFit};
use crate::exit::Usage;
use crate::selection::Selection;
use crate::target::{Candidate, OpenDevice, Opening, Simulation};
use crate::watch::{Upcoming, Watch};
use crate::{flash_statistics, output, recordings, session, traces};

/// The version of the JSON document.
const VERSION: u32 = 1;
/// How many IOs are in flight where nobody says how many.
const DEPTH: u32 = 32;
/// How long a pattern without an end of its own is run.
const PLAIN_TIME: Nanos = Nanos::from_secs(10);
/// So many IOs may fail before a replay is given up.
const FAILURES_ALLOWED: u64 = 1000;

/// What a replay was and what came of it.
#[derive(Serialize)]
struct Document {
    version: u32,
    target: String,
    capacity_bytes: u64,
    trace: Option<TraceFacts>,
    runs: Vec<Run>,
    /// What the flash did; null for a device that is no simulated flash.
    device: Option<Statistics>,
}

#[derive(Serialize)]
struct TraceFacts {
    file: String,
    ios: usize,
    sources: Vec<String>,
    /// IOs that were widened to whole blocks of the device.
    widened_ios: u64,
    /// IOs that were moved into the device.
    moved_ios: u64,
}

#[derive(Serialize)]
struct Run {
    name: String,
    #[serde(flatten)]
    table: ClassTable,
    first_failure: Option<String>,
}

/// `flashlab sim run`.
pub fn run(arguments: &SimRun) -> Result<()> {
    let job = match (&arguments.trace, &arguments.plan) {
        (Some(file), _) => Job::Trace(read(file, arguments)?),
        (None, Some(plan)) => Job::Plan(Selection::named(plan)?),
        (None, None) => bail!(Usage("give --trace FILE or --plan PLAN".to_owned())),
    };
    let mut device = open(arguments, &job)?;
    if device.as_flash().is_some() && simulated(&arguments.target)?.state.is_none() {
        tell!(
            "the flash is new: reading what was never written takes it no time; sim precondition fills one"
        );
    }
    let geometry = device.as_mut().geometry();
    let counts = device.as_flash().map(|device| device.flash().counts().clone());
    let recorder = Recorder::new(arguments, &mut device)?;
    let mut runner = Runner { device: &mut device, recorder, interrupt: session::interrupt()? };
    let (trace, runs) = match job {
        Job::Trace(trace) => {
            let (facts, run) = runner.trace(trace, geometry, arguments)?;
            (Some(facts), vec![run])
        }
        Job::Plan(selection) => (None, runner.plan(&selection, geometry, arguments)?),
    };
    let device = device.as_flash().map(|device| device.statistics_since(&counts.unwrap_or_default()));
    let target = arguments.target.clone();
    let document =
        Document { version: VERSION, target, capacity_bytes: geometry.capacity.0, trace, runs, device };
    if arguments.json.json {
        output::json(&document)?
    } else {
        output::text(&document.text())?
    }
    document.failure().map_or(Ok(()), Err)
}

enum Job {
    Trace(Trace),
    Plan(Selection),
}

impl Job {
    fn writes(&self) -> bool {
        match self {
            Job::Trace(trace) => {
                trace.ios.iter().any(|io| matches!(io.operation, Operation::Write | Operation::Discard))
            }
            Job::Plan(_) => true,
        }
    }
}

fn read(file: &Path, arguments: &SimRun) -> Result<Trace> {
    let trace = traces::read(file, arguments.format)?;
    let Some(name) = &arguments.source else { return Ok(trace) };
    let sources = some_of(&trace.sources);
    trace.of_source(name).ok_or_else(|| {
        Usage(format!("--source {name}: {} has no IO of it; its sources are {sources}", file.display()))
            .into()
    })
}

/// Names for people: the first of them where there are many.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}

fn simulated(name: &str) -> Result<SimulatedTarget> {
    Ok(name.parse().map_err(|error: ParseTargetError| Usage(error.to_string()))?)
}

/// The device: a simulated one, or with --live a real one by the rules of `flashlab bench`.
fn open(arguments: &SimRun, job: &Job) -> Result<OpenDevice> {
    let name = &arguments.target;
    if !arguments.live {
        let mut simulation = Simulation::new(&simulated(name)?)?;
        if let Some(size) = arguments.size {
            simulation = simulation.resized(size)?;
        }
        return Ok(OpenDevice::Simulated(Box::new(simulation.device()?)));
    }
    if crate::target::parsed(name)?.is_simulated() {
        bail!(Usage(format!(
            "{name} has no real time: leave --live away, or serve it and give the path of the disk"
        )));
    }
    let target = Target {
        target: Some(name.clone()),
        directory: None,
        size: arguments.size,
        keep_file: false,
        destroy_data_on: arguments.destroy_data_on.clone(),
        overwrite_file: arguments.overwrite_file,
        engine: None,
        buffered: false,
    };
    let candidate = Candidate::find(name, job.writes(), &target)?;
    let opened = candidate.open(Opening::new(&target, arguments.depth.unwrap_or(DEPTH))?)?;
    opened.warnings.iter().for_each(|(_, message)| tell!("{message}"));
    Ok(opened.device)
}

/// Where samples go, if they are kept.
#[derive(Default)]
struct Recorder {
    recording: Option<(RunFolder, Recording)>,
    runs: u32,
}

impl Recorder {
    fn new(arguments: &SimRun, device: &mut OpenDevice) -> Result<Recorder> {
        let Some(path) = &arguments.record else { return Ok(Recorder::default()) };
        let consent = if arguments.live { "given on the command line" } else { "none needed: simulated" };
        let folder = recordings::create(path, device.as_mut().identity(), consent, &arguments.target)?;
        let recording = Recording::start(&folder.samples());
        Ok(Recorder { recording: Some((folder, recording)), runs: 0 })
    }

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

struct Runner<'a> {
    device: &'a mut OpenDevice,
    recorder: Recorder,
    interrupt: Arc<AtomicBool>,
}

impl Runner<'_> {
    fn trace(
        &mut self,
        mut trace: Trace,
        geometry: Geometry,
        arguments: &SimRun,
    ) -> Result<(TraceFacts, Run)> {
        let file = arguments.trace.as_deref().unwrap_or(Path::new("")).display().to_string();
        let used = match arguments.size {
            Some(size) if size > geometry.capacity => {
                let capacity = geometry.capacity;
                bail!(Usage(format!("--size {}: {} has {capacity} only", size.exact(), arguments.target)));
            }
            Some(size) => size,
            None => geometry.capacity,
        };
        let fit = match arguments.fit {
            None => Fit::Exact,
            Some(TraceFit::Wrap) => Fit::Wrap,
            Some(TraceFit::Scale) => Fit::Scale,
        };
        let fitted =
            trace.fit(used, geometry.block, fit).map_err(|misfit| misfits(&file, &misfit, arguments))?;
        let pace = if arguments.as_fast_as_possible {
            Pace::AsFastAsPossible { depth: arguments.depth.unwrap_or(DEPTH.min(geometry.depth)) }
        } else {
            Pace::Recorded { speed: arguments.speed }
        };
        announce(&trace, &fitted, pace, arguments);
        let lane = self.recorder.start("trace", 1)?.pop().flatten();
        let mut watch = Watch::new(trace.ios.iter().map(Upcoming::from), lane);
        let control = control(&self.interrupt, None);
        let outcome = replay(self.device.as_mut(), &trace.ios, pace, &mut watch, &control)?;
        let (classes, lane) = watch.finish();
        self.recorder.finish(lane.into_iter().collect())?;
        let (ios, Fitted { widened, moved }) = (trace.ios.len(), fitted);
        let run = finished("trace".to_owned(), &classes, &outcome)?;
        Ok((TraceFacts { file, ios, sources: trace.sources, widened_ios: widened, moved_ios: moved }, run))
    }

    /// Each experiment of a plan at each of its values, one after the other.
    fn plan(&mut self, selection: &Selection, geometry: Geometry, arguments: &SimRun) -> Result<Vec<Run>> {
        let space = Space { capacity: geometry.capacity, block: geometry.block };
        let mut runs = Vec::new();
        for (plan, experiment) in selection
            .plans
            .iter()
            .flat_map(|plan| plan.experiments.iter().map(move |experiment| (plan, experiment)))
        {
            for (value, pattern) in experiment.runs(Choice::Full) {
                let placed = pattern.place(space, arguments.seed)?;
                let has_end = pattern.io_count.is_some() || pattern.duration.is_some();
                let names = [plan.name.as_str(), &experiment.name, &value.label];
                let name = names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" ");
                let lanes = self.recorder.start(&name, placed.processes())?;
                let mut watches: Vec<_> = lanes
                    .into_iter()
                    .enumerate()
                    .map(|(process, lane)| Watch::new(placed.ios(process as u32).map(Upcoming::from), lane))
                    .collect();
                let control = control(&self.interrupt, (!has_end).then_some(PLAIN_TIME));
                let outcome = flashlab_engine::run(self.device.as_mut(), &placed, &mut watches, &control)?;
                let (mut classes, mut lanes) = (Classes::default(), Vec::new());
                for watch in watches {
                    let (seen, lane) = watch.finish();
                    classes.merge(&seen);
                    lanes.extend(lane);
                }
                self.recorder.finish(lanes)?;
                runs.push(finished(name, &classes, &outcome)?);
            }
        }
        Ok(runs)
    }
}

/// What is known of a run when it has ended.
fn finished(name: String, classes: &Classes, outcome: &Outcome) -> Result<Run> {
    if outcome.ended == Ended::Interrupted {
        bail!("interrupted after {} IOs", outcome.ios);
    }
    if outcome.ended == Ended::ObserverSatisfied {
        bail!("the samples cannot be written any more: is the disk full?");
    }
    let table = classes.table(outcome.end.since(outcome.begin));
    Ok(Run { name, table, first_failure: outcome.first_failure.map(|failure| failure.to_string()) })
}

fn misfits(file: &str, misfit: &Misfit, arguments: &SimRun) -> anyhow::Error {
    let line = misfit.io.line;
    let advice = match arguments.live {
        _ if misfit.io.size > misfit.capacity => "take a larger device",
        true => "give --fit wrap or --fit scale, or a larger device",
        false => "give --fit wrap or --fit scale, or a --size as large",
    };
    Usage(format!("{file}:{line}: {misfit}; {advice}")).into()
}

/// Says what will be done before it is.
fn announce(trace: &Trace, fitted: &Fitted, pace: Pace, arguments: &SimRun) {
    let sum = |operation: Operation| {
        let sizes = trace.ios.iter().filter(|io| io.operation == operation).map(|io| io.size.0);
        Bytes(sizes.fold(0, u64::saturating_add))
    };
    let pace = match pace {
        Pace::Recorded { speed: 1.0 } => "as they arrived".to_owned(),
        Pace::Recorded { speed } => format!("arriving {speed} times as fast"),
        Pace::AsFastAsPossible { depth } => format!("{depth} in flight"),
    };
    let (ios, target) = (trace.ios.len(), shell_word(&arguments.target));
    let (read, written) = (sum(Operation::Read), sum(Operation::Write));
    tell!("{ios} IOs, {pace}, on {target}: {read} to read, {written} to write");
    if trace.sources.len() > 1 && arguments.source.is_none() {
        let sources = some_of(&trace.sources);
        tell!("its {} sources share the device (--source takes one of them): {sources}", trace.sources.len());
    }
    if fitted.widened > 0 {
        tell!(
            "IOs that began or ended within a block of the device, and were widened to whole ones: {}",
            fitted.widened
        );
    }
    if fitted.moved > 0 {
        tell!("IOs that were moved into the device: {}", fitted.moved);
    }
}

impl Document {
    fn text(&self) -> String {
        let mut text = String::new();
        for run in &self.runs {
            let table = &run.table;
            let (time, queue) = (Nanos(table.duration_ns), table.queue_mean);
            text += &format!(
                "{}: {time}, {queue:.2} IOs asked for and not done, {:.2} of them in the device\n",
                run.name, table.device_queue_mean
            );
            text += &class_table(table);
            text.push('\n');
        }
        if let Some(device) = &self.device {
            text += &flash_statistics::text(device);
        }
        text
    }

    /// The error of a replay in which IOs failed.
    fn failure(&self) -> Option<anyhow::Error> {
        let failed: u64 = self.runs.iter().map(|run| run.table.failed_ios).sum();
        let first = self.runs.iter().find_map(|run| run.first_failure.as_deref())?;
        Some(anyhow!("{failed} IOs failed on {}, the first: {first}", self.target))
    }
}
