//! From the folder of a run to the figures that models are fitted to.
//!
//! # Method
//! 1. The runs are those of `bench` and `run`, or the patterns that the probes of an inference ran.
//! 2. A finished run counts if its pattern is one that the models know: sequential or random IOs of one size, one after
//!    the other or with a queue, alone or mixed. Of a plan that varies something else than the size, the depth or the mix
//!    only those runs count that have none of it.
//! 3. Of a device with two regimes, a run is a burst or sustained, as in the findings of the run: those that did not settle do not count.
//! 4. IOIgnore and the start-up phase ([`phases`]) are left out where enough IOs remain behind them.
//! 5. The reads and the writes of a run have a point each: the median of their response times, their mean, and their rates.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use flashlab_analysis::findings::Regime;
use flashlab_analysis::phases;
use flashlab_base::{Bytes, Mode, Sample};
use flashlab_bench::{Purpose, RunRecord};
use flashlab_infer::{RecordedProbeRun, RecordedStep, Recording};
use flashlab_plan::{Basic, IoSize, Location, ModeRule, Pattern, PatternParameter, Plan, Time};
use flashlab_samples::{FolderKind, ProbeRun, ProbeRunEnd, RunFolder};
use flashlab_sim::profile::ThroughputClass;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::distances::{DistanceBin, distance_bins};

/// A start-up phase is left out if at least this many IOs remain: fewer have no trustworthy median.
const IOS_LEAST: usize = 8;

/// How the names of plans of fills begin: of those that are fitted, and of those that are checked.
pub(crate) const FILL_PLAN: &str = "model-fill";
pub(crate) const CHECK_FILL_PLAN: &str = "check-fill";

/// The same of plans of distances.
pub(crate) const SEEK_PLAN: &str = "model-seek";
pub(crate) const CHECK_SEEK_PLAN: &str = "check-seek";

fn is_seek_plan(name: &str) -> bool {
    name.starts_with(SEEK_PLAN) || name.starts_with(CHECK_SEEK_PLAN)
}

fn is_fill_plan(name: &str) -> bool {
    name.starts_with(FILL_PLAN) || name.starts_with(CHECK_FILL_PLAN)
}

/// What was done in a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The class of the IOs that are looked at.
    pub class: ThroughputClass,
    /// Their size.
    pub size: Bytes,
    /// How many IOs of the run are in flight.
    pub depth: u32,
    /// The share of the run's IOs that write, from 0 to 1.
    pub write_share: f64,
    /// Where the part of the device begins that they go to.
    pub target_offset: Bytes,
    /// Its size; `None` for up to the end.
    pub target_size: Option<Bytes>,
    /// The data on the device, where the run is one of several fills; `None` for a device in the state of the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<Bytes>,
    /// The distance from the request before, where the point is of requests with about this distance; `None` of all requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<Bytes>,
}

impl Workload {
    /// Whether only one kind of IO is done, one after the other, in the device's state: what the throughput model is fitted to.
    pub fn is_plain(&self) -> bool {
        self.depth == 1 && self.is_alone()
    }

    /// Whether only one kind of IO is done, in the device's state, at any distance.
    pub fn is_alone(&self) -> bool {
        self.filled.is_none()
            && self.distance.is_none()
            && (self.write_share == 0.0 || self.write_share == 1.0)
    }
}

/// The reads or the writes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunPoint {
    /// The run's number.
    pub run: u32,
    /// What was done.
    pub workload: Workload,
    /// The regime of the run's writes; `None` if the device has one, nothing was written, or it was not looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regime: Option<Regime>,
    /// How many IOs the figures are of.
    pub ios: usize,
    /// IOs that were left out, as the start-up phase.
    pub ignored: usize,
    /// The median response time.
    pub p50_ns: f64,
    /// The 95th percentile.
    pub p95_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
    /// The mean response time.
    pub mean_ns: f64,
    /// IOs of this kind a second, over the run's time.
    pub ios_per_s: f64,
    /// Bytes that flash programmed for each byte that the run wrote, where the device counts that.
    pub write_amplification: Option<f64>,
    /// Whether something beside the run changed its figures: other traffic on the disk, or a throttled CPU.
    pub is_disturbed: bool,
}

impl RunPoint {
    /// Bytes a second, over the run's time.
    pub fn bytes_per_s(&self) -> f64 {
        self.ios_per_s * self.workload.size.0 as f64
    }
}

/// Quantiles of response times.
pub(crate) struct Quantiles {
    pub p50_ns: f64,
    pub p95_ns: f64,
    pub p99_ns: f64,
}

impl Quantiles {
    /// Those of at least one response time, which are sorted for it.
    pub fn of(times: &mut [u64]) -> Option<Quantiles> {
        times.sort_unstable();
        let count = times.len();
        let last = count.checked_sub(1)?;
        let rank = |per_cent: usize| times[(count * per_cent).div_ceil(100).clamp(1, count) - 1] as f64;
        let p50_ns = (times[last / 2] + times[count / 2]) as f64 / 2.0;
        Some(Quantiles { p50_ns, p95_ns: rank(95), p99_ns: rank(99) })
    }
}

/// The points of the run in this folder, finished or not.
///
/// # Errors
/// When the folder holds no run, or its files are damaged.
pub fn run_points(path: &Path) -> Result<Vec<RunPoint>, ModelError> {
    run_points_after(path, 0)
}

/// Those of the runs after this one.
///
/// # Errors
/// As [`run_points`].
pub fn run_points_after(path: &Path, run: u32) -> Result<Vec<RunPoint>, ModelError> {
    if let Some(points) = inference_points(path, run)? {
        return Ok(points);
    }
    let (folder, manifest, plans) = flashlab_bench::open_run(path)?;
    let segments = folder.segment_index();
    // A fit measures itself: each of its runs begins in the device's state, and none has a regime of its own.
    let parts = if manifest.kind == FolderKind::Bench { Some(parts_of_runs(path)?) } else { None };
    let mut points = Vec::new();
    for record in flashlab_bench::records(&folder)? {
        if record.run <= run || record.ended.is_none() || !varies_what_models_know(&record.purpose, &plans) {
            continue;
        }
        let plan = Plan::parse(&record.pattern, &format!("{}: run {}", path.display(), record.run))?;
        let pattern = plan.experiments.into_iter().next().map(|experiment| experiment.pattern);
        let Some(pattern) = pattern else { continue };
        if workloads(&pattern).is_empty() {
            continue;
        }
        let mut samples: Vec<Sample> = Vec::new();
        segments.each_sample(record.run, |sample| samples.push(*sample))?;
        let is_filled = matches!(&record.purpose, Purpose::Point { plan, .. } if is_fill_plan(plan));
        if matches!(&record.purpose, Purpose::Point { plan, .. } if is_seek_plan(plan)) {
            points.extend(points_by_distance(&samples, &RunFacts::of(&record), &pattern));
            continue;
        }
        let whole = vec![(None, record.io_ignore..u64::MAX)];
        let parts = match &parts {
            None => whole,
            Some(parts) => parts.get(&record.run).cloned().unwrap_or_default(),
        };
        for (regime, positions) in parts {
            // With a queue, or with reads between them, a burst is no model's.
            if regime == Some(Regime::Burst) && (workloads(&pattern).len(), in_flight(&pattern)) != (1, 1) {
                continue;
            }
            let facts = RunFacts { positions, regime, ..RunFacts::of(&record) };
            let found = points_of(&samples, &facts, &pattern).into_iter().map(|mut point| {
                point.workload.filled = point.workload.target_size.filter(|_| is_filled);
                point
            });
            points.extend(found);
        }
    }
    Ok(points)
}

/// A part of a run: its regime, and the positions of its IOs that count.
type RunPart = (Option<Regime>, Range<u64>);

/// The parts of each run that figures count, from the findings of the run.
fn parts_of_runs(path: &Path) -> Result<BTreeMap<u32, Vec<RunPart>>, ModelError> {
    let (findings, _) = flashlab_bench::rebuild(path)?;
    let mut parts: BTreeMap<u32, Vec<RunPart>> = BTreeMap::new();
    for baseline in &findings.baselines {
        let lasting = findings.lasting_regime(&baseline.pattern);
        let ignored = if lasting.is_some() { baseline.run.io_ignore } else { 0 };
        parts.entry(baseline.run.run).or_default().push((lasting, ignored..u64::MAX));
    }
    for experiment in findings.micro_benchmarks.iter().flat_map(|micro| &micro.experiments) {
        for run in experiment.points.iter().flat_map(|point| &point.runs) {
            parts.entry(run.run).or_default().push((experiment.regime, run.counted_positions()));
        }
    }
    Ok(parts)
}

/// The requests of a pattern that are in flight at once.
fn in_flight(pattern: &Pattern) -> u32 {
    pattern.queue_depth * pattern.parallel_degree
}

/// The points of a recorded inference; `None` if the folder is of another kind. Its shortest runs are left out: their medians say
/// little.
fn inference_points(path: &Path, after: u32) -> Result<Option<Vec<RunPoint>>, ModelError> {
    if RunFolder::any_manifest(path)?.kind != FolderKind::Inference {
        return Ok(None);
    }
    let (folder, _) = RunFolder::open::<IgnoredAny>(path, &[FolderKind::Inference])?;
    let recording = Recording::open(&folder).map_err(|error| ModelError::Input(error.to_string()))?;
    let mut points = Vec::new();
    for probe in recording.probes() {
        let steps = recording.steps_of(probe).map_err(|error| ModelError::Input(error.to_string()))?;
        for step in steps.into_iter().flatten() {
            let RecordedStep::Run(RecordedProbeRun { run, pattern, samples }) = step else { continue };
            let is_long = samples.len() >= IOS_LEAST;
            if run.run > after && run.ended == ProbeRunEnd::PatternDone && is_long {
                let facts = RunFacts::of_probe(&run, &samples);
                points.extend(points_of(&samples, &facts, &pattern));
            }
        }
    }
    points.sort_by_key(|point| point.run);
    Ok(Some(points))
}

/// What the samples of a run do not show.
struct RunFacts {
    run: u32,
    positions: Range<u64>,
    regime: Option<Regime>,
    write_amplification: Option<f64>,
    is_disturbed: bool,
}

impl RunFacts {
    fn of(record: &RunRecord) -> RunFacts {
        let write_amplification = record
            .media_written_bytes
            .filter(|_| record.written_bytes > 0)
            .map(|media| media as f64 / record.written_bytes as f64);
        let own = record.read_bytes.saturating_add(record.written_bytes);
        let is_disturbed = is_disturbed(own, record.other_traffic_bytes, record.thermal_throttles);
        let positions = record.io_ignore..u64::MAX;
        RunFacts { run: record.run, positions, regime: None, write_amplification, is_disturbed }
    }

    fn of_probe(run: &ProbeRun, samples: &[Sample]) -> RunFacts {
        let own: u64 = samples.iter().map(|sample| sample.size.0).sum();
        let others = run.device_traffic_bytes.map(|all| all.saturating_sub(own));
        let is_disturbed = is_disturbed(own, others, run.thermal_throttles);
        RunFacts {
            run: run.run,
            positions: 0..u64::MAX,
            regime: None,
            write_amplification: None,
            is_disturbed,
        }
    }
}

fn varies_what_models_know(purpose: &Purpose, plans: &[Plan]) -> bool {
    match purpose {
        Purpose::Baseline { .. } => true,
        Purpose::Point { plan, experiment, .. } => {
            let plan = plans.iter().find(|known| known.name == *plan);
            let experiment =
                plan.and_then(|plan| plan.experiments.iter().find(|known| known.name == *experiment));
            experiment.is_some_and(|experiment| {
                experiment.vary.as_ref().is_none_or(|vary| {
                    matches!(
                        vary.parameter,
                        PatternParameter::IoSize
                            | PatternParameter::QueueDepth
                            | PatternParameter::ParallelDegree
                            | PatternParameter::WriteProbability
                            | PatternParameter::Ratio
                            | PatternParameter::TargetOffset
                    )
                })
            })
        }
        _ => false,
    }
}

/// The class of a basic pattern's reads or writes; none if it is not one that the models know.
fn class_of(basic: &Basic, mode: Mode) -> Option<ThroughputClass> {
    if basic.time != Time::Consecutive || basic.io_shift != Bytes::ZERO || basic.slot_size.is_some() {
        return None;
    }
    Some(match (basic.location, mode) {
        (Location::Sequential, Mode::Read) => ThroughputClass::SequentialRead,
        (Location::Sequential, Mode::Write) => ThroughputClass::SequentialWrite,
        (Location::Random | Location::Permutation, Mode::Read) => ThroughputClass::RandomRead,
        (Location::Random | Location::Permutation, Mode::Write) => ThroughputClass::RandomWrite,
        _ => return None,
    })
}

/// The workloads of a pattern: one, or two of a mix. Empty if there is one that the models do not know.
fn workloads(pattern: &Pattern) -> Vec<Workload> {
    let depth = in_flight(pattern);
    let workload = |basic: &Basic, mode, write_share| {
        let IoSize::Fixed(size) = basic.io_size else { return None };
        let class = class_of(basic, mode)?;
        let (target_offset, target_size) = (basic.target_offset, basic.target_size);
        Some(Workload {
            class,
            size,
            depth,
            write_share,
            target_offset,
            target_size,
            filled: None,
            distance: None,
        })
    };
    let found: Vec<Option<Workload>> = match (&pattern.mix, pattern.first.mode) {
        (None, ModeRule::Always(Mode::Read)) => vec![workload(&pattern.first, Mode::Read, 0.0)],
        (None, ModeRule::Always(Mode::Write)) => vec![workload(&pattern.first, Mode::Write, 1.0)],
        (None, ModeRule::WriteProbability(share)) => {
            [Mode::Read, Mode::Write].map(|mode| workload(&pattern.first, mode, share)).into()
        }
        (Some(mix), ModeRule::Always(first)) => {
            let ModeRule::Always(second) = mix.second.mode else { return Vec::new() };
            if first == second {
                return Vec::new();
            }
            let of_first = f64::from(mix.ratio) / (f64::from(mix.ratio) + 1.0);
            let share = if first == Mode::Write { of_first } else { 1.0 - of_first };
            vec![workload(&pattern.first, first, share), workload(&mix.second, second, share)]
        }
        (Some(_), ModeRule::WriteProbability(_)) => return Vec::new(),
    };
    if pattern.write_through {
        return Vec::new();
    }
    found.into_iter().collect::<Option<_>>().unwrap_or_default()
}

/// The samples that count, in the order of their submission.
fn counted(samples: &[Sample], facts: &RunFacts) -> Vec<Sample> {
    let counts = |sample: &&Sample| sample.errno == 0 && facts.positions.contains(&sample.position);
    let mut samples: Vec<Sample> = samples.iter().filter(counts).copied().collect();
    samples.sort_by_key(|sample| (sample.submitted, sample.process, sample.position));
    samples
}

/// The point of these response times, of IOs that took `seconds` in all. `None` if there are none.
fn point(times: &mut [u64], facts: &RunFacts, workload: Workload, seconds: f64) -> Option<RunPoint> {
    let quantiles = Quantiles::of(times).filter(|_| seconds > 0.0)?;
    let count = times.len();
    Some(RunPoint {
        run: facts.run,
        workload,
        regime: facts.regime,
        ios: count,
        ignored: 0,
        p50_ns: quantiles.p50_ns,
        p95_ns: quantiles.p95_ns,
        p99_ns: quantiles.p99_ns,
        mean_ns: times.iter().map(|&ns| ns as f64).sum::<f64>() / count as f64,
        ios_per_s: count as f64 / seconds,
        write_amplification: None,
        is_disturbed: facts.is_disturbed,
    })
}

fn points_of(samples: &[Sample], facts: &RunFacts, pattern: &Pattern) -> Vec<RunPoint> {
    let (workloads, samples) = (workloads(pattern), counted(samples, facts));
    let all: Vec<u64> = samples.iter().map(|sample| sample.response().0).collect();
    let startup = if workloads.len() == 1 { phases(&all).startup_ios as usize } else { 0 };
    let ignored = if samples.len() >= startup + IOS_LEAST { startup } else { 0 };
    let counted = &samples[ignored..];
    let begin = counted.first().map_or(0, |sample| sample.submitted.0);
    let end = counted.iter().map(|sample| sample.completed.0).max().unwrap_or(begin);
    let seconds = (end - begin) as f64 / 1e9;
    let points = workloads.into_iter().filter_map(|workload| {
        let mode = if workload.class.writes() { Mode::Write } else { Mode::Read };
        let of_mode = counted.iter().filter(|sample| sample.mode == mode);
        let mut times: Vec<u64> = of_mode.map(|sample| sample.response().0).collect();
        let of_writes = mode == Mode::Write && facts.regime != Some(Regime::Burst);
        let write_amplification = facts.write_amplification.filter(|_| of_writes);
        let point = point(&mut times, facts, workload, seconds)?;
        Some(RunPoint { ignored, write_amplification, ..point })
    });
    points.collect()
}

/// The points of a run of distances, one for each bin of them.
fn points_by_distance(samples: &[Sample], facts: &RunFacts, pattern: &Pattern) -> Vec<RunPoint> {
    let [workload] = workloads(pattern)[..] else { return Vec::new() };
    let of_bin = |mut bin: DistanceBin| {
        let seconds = bin.times.iter().map(|&ns| ns as f64).sum::<f64>() / 1e9;
        let workload = Workload { distance: Some(bin.distance), ..workload };
        point(&mut bin.times, facts, workload, seconds)
    };
    distance_bins(&counted(samples, facts)).into_iter().filter_map(of_bin).collect()
}

/// Whether something else was measured, too, by the rule that marks runs of `bench`.
fn is_disturbed(own: u64, others: Option<u64>, thermal_throttles: Option<u64>) -> bool {
    let interferes = others.is_some_and(|others| {
        flashlab_analysis::disturbance::interference(Bytes(others), Bytes(own)).is_some()
    });
    interferes || thermal_throttles.is_some_and(|throttles| throttles > 0)
}
