//! The uFLIP methodology: from a Device to findings (uFLIP section 4, on the benchmark of section 3).
//!
//! # Model
//! 1. [`bench()`] brings the device into a state.
//! 2. It measures the lingering effect.
//! 3. It runs long baselines, to find start-up phase and period.
//! 4. It makes the [`Schedule`] of the micro-benchmarks and runs it.
//! 5. [`rebuild()`] computes the findings from the files.
//!
//! # Invariants
//! - Nothing is printed. A [`Progress`] gets the messages.
//! - Findings are computed from the run's folder alone: rebuilding gives the same findings.
//! - A run that the folder contains with all of its samples is not measured again. To resume is to start with
//!   such a folder.

mod area;
mod compared;
mod conduct;
mod error;
mod estimate;
mod examine;
mod length;
mod manifest;
mod media;
mod observe;
mod overhead;
mod plain;
mod plausible;
mod progress;
mod rebuild;
mod record;
mod regimes;
mod schedule;
mod settings;
mod shares;
mod shown;
mod step;
mod store;
mod until_shown;
mod warnings;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use flashlab_base::{Bytes, Identity};
use flashlab_device::Device;
use flashlab_plan::{Choice, Pattern, Plan};
use flashlab_samples::{Recording, RunFolder};

pub use compared::compared_run;
pub use conduct::Enforcing;
pub use error::BenchError;
pub use manifest::BenchManifest;
pub use media::MediaCounters;
pub use overhead::Overhead;
pub use progress::{Progress, Silent};
pub use rebuild::{open_run, open_run_to_resume, rebuild};
pub use record::{Purpose, RunRecord};
pub use schedule::{expected_written, most_written};
pub use settings::{CAPACITIES_MOST, ROUNDS_PER_CAPACITY, Settings, State, Thoroughness};
pub use step::{Schedule, Step};
pub use store::{check_records, records};
pub use warnings::doubts;

use settings::MOST_REPETITIONS;

/// Measures `device` and writes samples and records to `folder`, which may already contain a part of them.
///
/// # Errors
/// [`BenchError`] says why it ended early. The folder keeps what was measured until then.
pub fn bench(
    device: &mut dyn Device,
    folder: &RunFolder,
    manifest: &BenchManifest,
    interrupt: &AtomicBool,
    progress: &dyn Progress,
) -> Result<(), BenchError> {
    bench_part(device, folder, manifest, interrupt, progress, Enforcing::BeforeTheFirstRun)?;
    Ok(folder.finish::<Settings>()?)
}

/// As [`bench()`], as one part of a measurement: the folder stays unfinished. The manifest may have more plans than the part before
/// had.
///
/// # Errors
/// As [`bench()`].
pub fn bench_part(
    device: &mut dyn Device,
    folder: &RunFolder,
    manifest: &BenchManifest,
    interrupt: &AtomicBool,
    progress: &dyn Progress,
    enforcing: Enforcing,
) -> Result<(), BenchError> {
    let settings = &manifest.settings;
    let plans = manifest::plans(folder.path(), manifest)?;
    check_target(&device.identity(), settings)?;
    check_runs(&plans, settings)?;
    check_queues(device, &plans, settings)?;
    let mut store = store::Store::open(folder.clone(), device.virtual_time().is_some())?;
    let unfinished = BenchManifest { finished: None, ..manifest.clone() };
    folder.write_manifest(&unfinished)?;
    for run in store.withdraw_damaged()? {
        progress.step(&format!("run {run} is measured again: its samples are missing or damaged"));
    }
    let mut conduct = conduct::Conduct::new(device, &mut store, &unfinished, interrupt, progress, enforcing);
    if settings.methodology { conduct.uflip(&plans) } else { conduct.plain(&plans) }
}

/// Measures the overhead on this machine: the engine's loop, the recording into `folder`, and the statistics.
/// The samples are removed afterwards.
///
/// # Errors
/// When the recording fails.
pub fn overhead(folder: &RunFolder) -> Result<Overhead, BenchError> {
    let recording = RefCell::new(Recording::start(folder));
    let measured = overhead::measure(
        |run| {
            let mut lanes = recording.borrow_mut().start_run(run, 1)?;
            let precise = observe::UntilPrecise::new(0, u64::MAX, 1, 0.0);
            Ok((store::Record(lanes.swap_remove(0)), precise))
        },
        |(record, _)| Ok(recording.borrow_mut().finish_run(vec![record.0]).map(drop)?),
    );
    for round in 0..overhead::ROUNDS {
        folder.remove_samples(round)?;
    }
    measured
}

/// Checks whether the target is suitable for the measurement. [`bench()`] checks as well; checking first
/// leaves no folder behind.
///
/// # Errors
/// [`BenchError::Target`] if it is too small.
pub fn check_target(identity: &Identity, settings: &Settings) -> Result<(), BenchError> {
    let Identity { target, capacity, .. } = identity;
    if settings.target_size > *capacity {
        let wanted = settings.target_size;
        return Err(BenchError::Target(format!("{target} has {capacity}; the measurement needs {wanted}")));
    }
    if settings.methodology && settings.target_size < LEAST_TARGET {
        return Err(BenchError::Target(format!(
            "{} of {target} are too little for the methodology: it needs {LEAST_TARGET} or more",
            settings.target_size
        )));
    }
    if settings.repetitions == 0 || settings.repetitions > MOST_REPETITIONS {
        let repetitions = settings.repetitions;
        return Err(BenchError::Target(format!(
            "{repetitions} repetitions: each run may be repeated 1 to {MOST_REPETITIONS} times"
        )));
    }
    Ok(())
}

/// Checks whether the number of runs is acceptable.
///
/// # Errors
/// [`BenchError::Target`] if the plans have too many values.
pub fn check_runs(plans: &[Plan], settings: &Settings) -> Result<(), BenchError> {
    let values = plans.iter().flat_map(|plan| &plan.experiments).map(|experiment| {
        experiment.vary.as_ref().map_or(1, |vary| match settings.choice() {
            Choice::Quick => vary.quick_values.len(),
            Choice::Full => vary.values.len(),
        })
    });
    let runs = values.sum::<usize>() as u64 * u64::from(settings.repetitions);
    if runs > MOST_RUNS {
        return Err(BenchError::Target(format!(
            "the plan has {runs} runs: at most {MOST_RUNS} can be done at once; take fewer values or repetitions"
        )));
    }
    Ok(())
}

/// Checks whether the device accepts as many IOs in flight as the plans need.
///
/// # Errors
/// [`BenchError::Engine`] if a pattern has more IOs in flight.
pub fn check_queues(device: &mut dyn Device, plans: &[Plan], settings: &Settings) -> Result<(), BenchError> {
    let experiments = plans.iter().flat_map(|plan| &plan.experiments);
    let patterns = experiments.flat_map(|experiment| experiment.runs(settings.choice()));
    let queues: BTreeMap<(u32, u32), Pattern> =
        patterns.map(|(_, pattern)| ((pattern.parallel_degree, pattern.queue_depth), pattern)).collect();
    Ok(queues.values().try_for_each(|pattern| flashlab_engine::check(device, pattern))?)
}

/// More runs than any user would wait for, and few enough to keep in memory.
const MOST_RUNS: u64 = 100_000;

/// With a smaller target, a baseline's sequential writes would wrap around immediately.
const LEAST_TARGET: Bytes = Bytes::mib(16);
