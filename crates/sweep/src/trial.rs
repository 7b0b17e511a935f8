//! One row of a design space: a simulated experiment and its result.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use flashlab_analysis::{ClassRow, Classes};
use flashlab_base::{Bytes, Nanos, Operation, Seed};
use flashlab_device::Device;
use flashlab_plan::Plan;
use flashlab_sim::flash::Counts;
use flashlab_sim::{Profile, SimulatedDevice};

use crate::SweepError;
use crate::precondition::FilledState;
use crate::run::{NoRecorder, run_plans};
use crate::state_cache::{StateCache, restored};

/// A simulated experiment.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The device, with all overrides.
    pub profile: Profile,
    /// The state that it is brought to first; `None` for a new device.
    pub state: Option<FilledState>,
    /// The plan whose runs follow each other on the device. Their counted IOs are one result.
    pub workload: Plan,
    /// Everything random follows from it: the state and the IOs.
    pub seed: Seed,
}

/// What the device did while it ran the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialResult {
    /// Pages programmed for each page that the host wrote; `None` without flash or writes.
    pub write_amplification: Option<f64>,
    /// Reads and writes, if there were any.
    pub modes: [Option<ModeResult>; 2],
    /// IOs that failed.
    pub failed_ios: u64,
    /// The time of the counted IOs on the device's clock.
    pub simulated: Nanos,
    /// The energy that the flash took, in joules.
    pub energy_j: Option<f64>,
    /// Erases of blocks.
    pub block_erases: Option<u64>,
    /// The mean erases of a block since the device was made.
    pub block_erases_mean: Option<f64>,
    /// The most erases of a block since the device was made.
    pub block_erases_max: Option<u32>,
    /// How long the computation took, in seconds. It is no property of the experiment.
    pub wall_s: f64,
}

/// The reads, or the writes, of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModeResult {
    /// How many.
    pub count: u64,
    /// IOs a second.
    pub iops: f64,
    /// Million bytes a second.
    pub mb_per_s: f64,
    /// The mean response time.
    pub mean_ns: f64,
    /// Percentiles of the response times: 50, 95, 99, 99.9.
    pub percentiles_ns: [u64; 4],
    /// The longest response time.
    pub max_ns: u64,
}

/// Computes a trial. `memory` is what the device may take; it is not checked if it is not known.
///
/// # Errors
/// When the device, its state or the workload is impossible, or the caller interrupts it.
pub fn evaluate_trial(
    trial: &Trial,
    states: &StateCache,
    memory: Option<Bytes>,
    interrupt: &AtomicBool,
) -> Result<TrialResult, SweepError> {
    let began = Instant::now();
    let Trial { profile, state, workload, seed } = trial;
    if let Some(memory) = memory {
        profile.fits_memory(memory)?;
    }
    let has_state = profile.flash.is_some();
    let mut device = match state {
        Some(state) if has_state => {
            let saved = states.state(profile, *state, *seed, interrupt)?;
            SimulatedDevice::Flash(Box::new(restored(profile, &saved)?))
        }
        _ => profile.device()?,
    };
    let before = device.as_flash().map(|flash| flash.flash().counts().clone()).unwrap_or_default();
    let plans = std::slice::from_ref(workload);
    let runs = run_plans(&mut device, plans, *seed, &mut NoRecorder, interrupt)?;
    if let Some(refusal) = device.health().and_then(|health| health.refusal()) {
        return Err(SweepError::Failed(format!("sim:{} {refusal}", profile.name)));
    }
    let mut classes = Classes::default();
    runs.iter().for_each(|run| classes.merge(&run.classes));
    let simulated = runs.iter().map(|run| run.duration).fold(Nanos::ZERO, |sum, time| sum + time);
    Ok(result(&device, &before, &classes, simulated, began))
}

fn result(
    device: &SimulatedDevice,
    before: &Counts,
    classes: &Classes,
    simulated: Nanos,
    began: Instant,
) -> TrialResult {
    let table = classes.table(simulated);
    let of = |operation: Operation| {
        let row = table.rows.iter().find(|row| row.operation == operation && row.locality.is_none());
        row.map(ModeResult::of)
    };
    let flash = device.as_flash().map(|flash| flash.statistics_since(before));
    let erases = |flash: &flashlab_sim::Statistics| {
        flash.operations.iter().map(|operations| operations.blocks_erased).sum::<u64>()
    };
    TrialResult {
        write_amplification: flash.as_ref().and_then(|flash| flash.write_amplification),
        modes: [of(Operation::Read), of(Operation::Write)],
        failed_ios: table.failed_ios,
        simulated,
        energy_j: flash.as_ref().map(|flash| flash.energy_j),
        block_erases: flash.as_ref().map(erases),
        block_erases_mean: flash.as_ref().map(|flash| flash.block_erases_mean),
        block_erases_max: flash.as_ref().map(|flash| flash.block_erases_max),
        wall_s: began.elapsed().as_secs_f64(),
    }
}

impl ModeResult {
    fn of(row: &ClassRow) -> ModeResult {
        let response = &row.response;
        ModeResult {
            count: response.count,
            iops: row.ios_per_s,
            mb_per_s: row.bytes_per_s * 1e-6,
            mean_ns: response.mean_ns,
            percentiles_ns: [response.p50_ns, row.response_ns_p95, response.p99_ns, response.p999_ns],
            max_ns: response.max_ns,
        }
    }
}
