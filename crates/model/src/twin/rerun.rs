//! Serves a measured run's requests once more, on a simulated device and in virtual time.
//!
//! # Model
//! A simulated device's state depends on the requests and not on their times. So the state that a benchmark begins with is
//! made once for a structure, without times, and taken over for each candidate that differs in times only.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use flashlab_base::Sample;
use flashlab_device::Device;
use flashlab_engine::{Control, Observer, run};
use flashlab_plan::Space;
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice};

use super::measured::MeasuredRun;
use crate::ModelError;

/// A device in the state that the first measurement found; `None` inside for a device without a state.
pub struct ConditionedDevice {
    device: Option<Box<FlashDevice>>,
    space: Space,
}

impl ConditionedDevice {
    /// The device that a profile describes, after the runs that bring it into its state.
    ///
    /// # Errors
    /// When the profile's parts do not fit together, or the device refuses the writes.
    pub fn new(
        profile: &Profile,
        space: Space,
        states: &[&MeasuredRun],
    ) -> Result<ConditionedDevice, ModelError> {
        let mut device = built(profile)?;
        for state in states {
            condition(&mut device, space, state)?;
        }
        let device = match device {
            SimulatedDevice::Flash(device) => Some(device),
            _ => None,
        };
        Ok(ConditionedDevice { device, space })
    }

    /// The response times of these runs on the device with the times of `profile`: of each run and process those that figures count.
    ///
    /// # Errors
    /// When the profile has another structure, or the device refuses a run.
    pub fn serve(&self, profile: &Profile, runs: &[&MeasuredRun]) -> Result<Vec<Vec<Vec<u64>>>, ModelError> {
        let mut device = match &self.device {
            Some(conditioned) => {
                let retimed = conditioned.with_times_of(profile);
                let other = || ModelError::Input("the candidate has another structure".to_owned());
                SimulatedDevice::Flash(Box::new(retimed.ok_or_else(other)?))
            }
            None => built(profile)?,
        };
        runs.iter().map(|run| served(&mut device, self.space, run)).collect()
    }
}

fn built(profile: &Profile) -> Result<SimulatedDevice, ModelError> {
    profile.device().map_err(|error| ModelError::Input(error.to_string()))
}

fn served(
    device: &mut dyn Device,
    space: Space,
    measured: &MeasuredRun,
) -> Result<Vec<Vec<u64>>, ModelError> {
    let later = device.now() + measured.pause;
    device.wait(later);
    if measured.purpose.is_state() {
        condition(device, space, measured)?;
        return Ok(Vec::new());
    }
    let mut pattern = measured.pattern.clone();
    pattern.io_count = measured.ios.iter().copied().max();
    // A run that its time limit ended may have fewer IOs than are ignored. `Counted` ignores them here.
    pattern.io_ignore = 0;
    let placed = pattern.place(space, measured.seed)?;
    let counted =
        |&ios: &u64| Counted { io_ignore: measured.io_ignore, responses: Vec::with_capacity(ios as usize) };
    let mut observers: Vec<Counted> = measured.ios.iter().map(counted).collect();
    let interrupt = AtomicBool::new(false);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 0 };
    let wrong = |error: &dyn std::fmt::Display| ModelError::Input(format!("the candidate fails: {error}"));
    let outcome = run(device, &placed, &mut observers, &control).map_err(|error| wrong(&error))?;
    if let Some(failure) = outcome.first_failure {
        return Err(wrong(&failure));
    }
    Ok(observers.into_iter().map(|observer| observer.responses).collect())
}

/// The writes of a state, without their time.
fn condition(device: &mut dyn Device, space: Space, measured: &MeasuredRun) -> Result<(), ModelError> {
    let placed = measured.pattern.place(space, measured.seed)?;
    let mut written = 0;
    let mut ios = placed.ios(0).map_while(|io| {
        let more = written < measured.written.0;
        written += io.size.0;
        more.then(|| (io.mode.into(), io.offset, io.size))
    });
    // A device without a state needs none.
    let Some(conditioning) = device.conditioning() else { return Ok(()) };
    let conditioned = conditioning.condition(&mut ios);
    conditioned.map_err(|error| ModelError::Input(format!("the candidate fails in its state: {error}")))
}

/// Keeps the response times that count, in the order of their positions.
struct Counted {
    io_ignore: u64,
    responses: Vec<u64>,
}

impl Observer for Counted {
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        if sample.position >= self.io_ignore {
            self.responses.push(sample.response().0.max(1));
        }
        ControlFlow::Continue(())
    }
}
