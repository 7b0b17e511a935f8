//! Brings a simulated flash device into a state without computing response times.
//!
//! # Method
//! 1. Sequential: the capacity is written from end to end (uFLIP section 4.1).
//! 2. Random: random writes of random size.
//! 3. Steady: as sequential, then rounds of random writes until the write amplification is steady, or until the limit of `bench`.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_analysis::findings::{SteadyRound, SteadyState};
use flashlab_analysis::steady_state;
use flashlab_base::{Bytes, SavedState, Seed};
use flashlab_bench::{CAPACITIES_MOST, MediaCounters, ROUNDS_PER_CAPACITY, State};
use flashlab_device::{Device, Operation};
use flashlab_plan::{Plan, Space};
use flashlab_sim::flash::Cause;
use flashlab_sim::{FlashDevice, Profile};

use crate::SweepError;

/// A state that a device can be brought into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilledState {
    /// Written from end to end, then randomly until the write amplification is steady.
    Steady,
    /// Random writes of random size.
    Random,
    /// Written from end to end.
    Sequential,
}

impl FilledState {
    /// The state that a device of this profile usually has: zones can only be written in order.
    pub fn usual(profile: &Profile) -> FilledState {
        if profile.is_zoned() { FilledState::Sequential } else { FilledState::Steady }
    }
}

impl FromStr for FilledState {
    type Err = SweepError;

    fn from_str(text: &str) -> Result<FilledState, SweepError> {
        match text {
            "steady" => Ok(FilledState::Steady),
            "random" => Ok(FilledState::Random),
            "sequential" => Ok(FilledState::Sequential),
            _ => Err(SweepError::Input(format!(
                "there is no state `{text}`: a device is brought to steady, random or sequential"
            ))),
        }
    }
}

/// The result of preconditioning.
#[derive(Clone, Debug)]
pub struct Preconditioned {
    /// Bytes that were written.
    pub written: Bytes,
    /// Whether the device is steady; only for [`FilledState::Steady`].
    pub steady: Option<SteadyState>,
    /// What a measurement in this state says of it.
    pub described: SavedState,
}

/// Brings a new device of this profile into a state. `times` is how many times the capacity is written; the steady state decides that
/// itself.
///
/// # Errors
/// When the device cannot have the state, or takes no more writes; when the caller interrupts it.
pub fn precondition(
    device: &mut FlashDevice,
    profile: &Profile,
    state: FilledState,
    times: Option<u32>,
    seed: Seed,
    interrupt: &AtomicBool,
) -> Result<Preconditioned, SweepError> {
    let name = &profile.name;
    if state == FilledState::Steady && times.is_some() {
        return Err(SweepError::Input(
            "--times is for --state random and sequential: the steady state ends by itself".to_owned(),
        ));
    }
    let times = times.unwrap_or(1);
    if profile.is_zoned() && (times > 1 || state != FilledState::Sequential) {
        return Err(SweepError::Input(format!(
            "sim:{name} has zones, which are written once and in order until they are reset: --state sequential, once"
        )));
    }
    let capacity = device.geometry().capacity;
    let mut fill = Fill { device, seed, interrupt };
    let (written, steady) = match state {
        FilledState::Steady => {
            let filled = fill.write("sequential-state", capacity, seed)?;
            let steady = fill.until_steady()?;
            (filled + Bytes(steady.written_bytes), Some(steady))
        }
        FilledState::Random => (fill.write("random-state", capacity * u64::from(times), seed)?, None),
        FilledState::Sequential => (fill.write("sequential-state", capacity * u64::from(times), seed)?, None),
    };
    if let Some(reason) = device.exhausted() {
        return Err(SweepError::Failed(format!("sim:{name} can only be read from now on: {reason}")));
    }
    let described = match &steady {
        Some(steady) => SavedState {
            state: steady.name().to_owned(),
            confidence: steady.confidence,
            evidence: steady.evidence.clone(),
        },
        None => SavedState {
            state: match state {
                FilledState::Sequential => State::Sequential.to_string(),
                _ => State::Random.to_string(),
            },
            confidence: None,
            evidence: format!("{written} of {capacity} written"),
        },
    };
    Ok(Preconditioned { written, steady, described })
}

/// A device that is being written.
struct Fill<'a> {
    device: &'a mut FlashDevice,
    seed: Seed,
    interrupt: &'a AtomicBool,
}

impl Fill<'_> {
    /// Rounds of random writes until the write amplification is steady, or until the limit of `bench` is written.
    fn until_steady(&mut self) -> Result<SteadyState, SweepError> {
        let geometry = self.device.geometry();
        let capacity = geometry.capacity;
        let size = Bytes(capacity.0 / ROUNDS_PER_CAPACITY).max(geometry.block);
        let mut state = SteadyState::default();
        for round in 0..u64::from(CAPACITIES_MOST) * ROUNDS_PER_CAPACITY {
            let (before, media_before) = (programs(self.device), MediaCounters::of(self.device));
            let written = self.write("random-state", size, self.seed.derive("steady", round))?;
            let (after, media) = (programs(self.device), MediaCounters::of(self.device).since(media_before));
            let [all, of_host] = [after[0] - before[0], after[1] - before[1]];
            let mut rounds = state.rounds;
            rounds.push(SteadyRound {
                written_bytes: written.0,
                write_amplification: (of_host > 0).then(|| all as f64 / of_host as f64),
                programmed_bytes: media.programmed,
                erased_bytes: media.erased,
                ..SteadyRound::default()
            });
            state = steady_state(rounds, capacity.0);
            if state.is_steady {
                break;
            }
        }
        Ok(state)
    }

    /// Writes at least `size` with the IOs of one of uFLIP's states (section 4.1). Returns the bytes written.
    fn write(&mut self, plan: &str, size: Bytes, seed: Seed) -> Result<Bytes, SweepError> {
        let mut plan = Plan::builtin(plan).expect("the states are shipped");
        let geometry = self.device.geometry();
        let space = Space { capacity: geometry.capacity, block: geometry.block };
        let placed = plan.experiments.remove(0).pattern.place(space, seed)?;
        let (mut written, mut count, mut interrupted) = (Bytes::ZERO, 0, false);
        let mut ios = placed.ios(0).map_while(|io| {
            interrupted = self.interrupt.load(Ordering::Relaxed);
            let more = written < size && !interrupted;
            written += if more { io.size } else { Bytes::ZERO };
            count += u64::from(more);
            more.then_some((Operation::Write, io.offset, io.size))
        });
        // A device without this capability has no state: its throughput model does not depend on earlier writes.
        let Some(conditioning) = self.device.conditioning() else { return Ok(size) };
        let conditioned = conditioning.condition(&mut ios);
        if interrupted {
            return Err(SweepError::Interrupted { ios: count });
        }
        let refusal = self.device.health().and_then(|health| health.refusal());
        if let Err(error) = conditioned {
            let target = self.device.identity().target;
            return Err(SweepError::Failed(match refusal {
                Some(reason) => format!("{target} {reason}: {error}"),
                None => error.to_string(),
            }));
        }
        Ok(written)
    }
}

/// The pages that the device programmed: all of them, and those for the host.
fn programs(device: &FlashDevice) -> [u64; 2] {
    let operations = device.statistics().operations;
    let of_host = operations.iter().filter(|operations| operations.cause == Cause::Host);
    [
        operations.iter().map(|operations| operations.pages_programmed).sum(),
        of_host.map(|operations| operations.pages_programmed).sum(),
    ]
}
