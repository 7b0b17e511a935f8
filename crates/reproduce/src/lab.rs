//! What every reproduction uses: devices of the zoo, patterns on them, the benchmark, and all CPUs.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use flashlab_analysis::findings::{Baseline, Findings, Traces};
use flashlab_base::{Bytes, Nanos, Sample, Seed};
use flashlab_bench::{BenchManifest, Settings, Silent, bench, rebuild};
use flashlab_device::{Device, Geometry, Operation};
use flashlab_engine::Control;
use flashlab_plan::{Pattern, Plan, Space};
use flashlab_samples::{FolderKind, Manifest, RunFolder};
use flashlab_sim::{Profile, SimulatedDevice};
use thiserror::Error;

/// Why a table could not be measured.
#[derive(Debug, Error)]
#[error("{device}: {what}")]
#[non_exhaustive]
pub struct ReproduceError {
    /// The device.
    device: String,
    /// What happened.
    what: String,
}

impl ReproduceError {
    pub(crate) fn new(device: &str, what: impl fmt::Display) -> ReproduceError {
        ReproduceError { device: device.to_owned(), what: what.to_string() }
    }
}

/// A result that names the device.
pub(crate) type Result<T> = std::result::Result<T, ReproduceError>;

/// The profile of this name in the zoo.
pub(crate) fn profile(name: &str) -> Result<Profile> {
    let found = flashlab_sim::zoo().into_iter().find(|profile| profile.name == name);
    found.ok_or_else(|| ReproduceError::new(name, "the zoo has no such device"))
}

/// The new device with this name.
pub(crate) fn device(name: &str) -> Result<SimulatedDevice> {
    profile(name)?.device().map_err(|error| ReproduceError::new(name, error))
}

/// The seed of the experiment with this number; with the reproduction's seed 1 it is the number itself. The
/// seeds of two reproductions are so far apart that no two experiments have the same IOs.
pub(crate) fn numbered(seed: Seed, number: u64) -> Seed {
    let apart = seed.0.wrapping_sub(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Seed(number.wrapping_add(apart))
}

/// Brings a device into the state after these IOs, without computing their times.
pub(crate) fn condition(
    device: &mut dyn Device,
    ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>,
) -> Result<()> {
    let name = device.identity().target;
    let conditioning =
        device.conditioning().ok_or_else(|| ReproduceError::new(&name, "it serves no IOs without times"))?;
    conditioning.condition(ios).map_err(|error| ReproduceError::new(&name, error))
}

/// Runs a pattern on a device. Returns the samples of all processes, process by process.
pub(crate) fn run(device: &mut dyn Device, pattern: &Pattern, seed: Seed) -> Result<Vec<Sample>> {
    let name = device.identity().target;
    let wrong = |error: &dyn fmt::Display| ReproduceError::new(&name, error);
    let Geometry { capacity, block, .. } = device.geometry();
    let placed = pattern.place(Space { capacity, block }, seed).map_err(|error| wrong(&error))?;
    let mut samples = vec![Vec::<Sample>::new(); placed.processes() as usize];
    let interrupt = AtomicBool::new(false);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 0 };
    let outcome =
        flashlab_engine::run(device, &placed, &mut samples, &control).map_err(|error| wrong(&error))?;
    match outcome.first_failure {
        Some(failure) => Err(wrong(&failure)),
        None => Ok(samples.concat()),
    }
}

/// The mean; 0 of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The mean response time of samples, in microseconds.
pub(crate) fn mean_us(samples: &[Sample]) -> f64 {
    mean(&samples.iter().map(|sample| sample.response().0 as f64).collect::<Vec<f64>>()) / 1e3
}

/// From the first submission to the last completion.
pub(crate) fn elapsed(samples: &[Sample]) -> Nanos {
    let begin = samples.iter().map(|sample| sample.submitted).min().unwrap_or_default();
    let end = samples.iter().map(|sample| sample.completed).max().unwrap_or_default();
    end.since(begin)
}

/// The bytes of these IOs divided by the time that they took together.
pub(crate) fn bytes_per_s(samples: &[Sample]) -> f64 {
    samples.iter().map(|sample| sample.size.0).sum::<u64>() as f64 / elapsed(samples).as_secs_f64()
}

/// The shipped plan of this name.
pub(crate) fn plan(name: &str) -> Plan {
    Plan::builtin(name).expect("a test asks for every shipped plan that a reproduction uses")
}

/// A run of the benchmark.
pub(crate) struct Run {
    /// What it found.
    pub(crate) findings: Findings,
    /// Its single IOs for plots, thinned out.
    pub(crate) traces: Traces,
    folder: RunFolder,
    _directory: tempfile::TempDir,
}

impl Run {
    /// The first response times of a baseline's run, in nanoseconds.
    pub(crate) fn responses(&self, baseline: &Baseline, most: u64) -> Result<Vec<u64>> {
        let mut responses = Vec::new();
        let see = |sample: &Sample| {
            if sample.position < most {
                responses.push((sample.position, sample.response().0));
            }
        };
        let read = self.folder.each_sample(baseline.run.run, see);
        read.map_err(|error| ReproduceError::new(&self.findings.characteristics.device, error))?;
        responses.sort_unstable();
        Ok(responses.into_iter().map(|(_, response)| response).collect())
    }
}

/// Measures a device of the zoo as `flashlab bench` does, with these plans.
pub(crate) fn benchmark(name: &str, plans: &[Plan], settings: Settings) -> Result<Run> {
    let profile = profile(name)?;
    let wrong = |error: &dyn fmt::Display| ReproduceError::new(name, error);
    let texts = plans.iter().map(Plan::to_toml).collect();
    let manifest = BenchManifest {
        plans: texts,
        ..Manifest::new(
            FolderKind::Bench,
            Settings { target: format!("sim:{name}"), ..settings },
            profile.identity(),
            "none needed: simulated",
        )
    };
    let directory = tempfile::tempdir().map_err(|error| wrong(&error))?;
    let path = directory.path().join("run");
    let folder = RunFolder::create(&path, &manifest).map_err(|error| wrong(&error))?;
    let mut device = profile.device().map_err(|error| wrong(&error))?;
    let interrupt = AtomicBool::new(false);
    bench(&mut device, &folder, &manifest, &interrupt, &Silent).map_err(|error| wrong(&error))?;
    let (findings, traces) = rebuild(&path).map_err(|error| wrong(&error))?;
    Ok(Run { findings, traces, folder, _directory: directory })
}

/// Calls `work` for each item on all CPUs. Returns the results in the order of the items, or the first error.
pub(crate) fn on_all_processors<I: Sync, R: Send>(
    items: &[I],
    work: impl Fn(&I) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let results: Vec<Mutex<Option<Result<R>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((item, result)) = {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    items.get(i).zip(results.get(i))
                } {
                    *result.lock().expect("no holder panics") = Some(work(item));
                }
            });
        }
    });
    let taken = results.into_iter().map(|result| result.into_inner().expect("no holder panics"));
    taken.map(|result| result.expect("every item was taken")).collect()
}
