//! `flashlab sim`: the zoo, profiles, saved states; traces and plans in virtual time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use flashlab_base::{Bytes, ProfileName, Seed};
use flashlab_device::{Device, Operation};
use flashlab_plan::{Plan, Space};
use flashlab_sim::flash_device::Statistics;
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice, zoo};
use serde::Serialize;

use crate::arguments::{self, JsonOption};
use crate::exit::Usage;
use crate::target::{new_device, profile_named};
use crate::verbs::sim_run::SimRun;
use crate::{flash_statistics, output};

/// List and show the simulated devices, save their states, run traces and plans in virtual time
#[derive(Args)]
pub struct Sim {
    #[command(subcommand)]
    action: SimAction,
}

#[derive(Subcommand)]
enum SimAction {
    /// List the zoo
    List(JsonOption),
    /// Print a device's profile, with its source and its fit
    Show {
        /// Its name, or a profile's file
        name: ProfileName,
        #[command(flatten)]
        json: JsonOption,
    },
    /// Bring a device into a state at speed and save it, to be used as sim:NAME@STATE
    Precondition {
        /// Its name, or a profile's file
        name: ProfileName,
        /// The state: random writes of random size, or sequential ones
        #[arg(long, default_value = "random")]
        state: FilledState,
        /// How many times the capacity is written
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        times: u32,
        /// The file that the state is written to
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
        /// The seed of everything random
        #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = arguments::seed)]
        seed: Seed,
        #[command(flatten)]
        json: JsonOption,
    },
    Run(SimRun),
}

/// A state that a device can be brought into.
#[derive(Clone, Copy, ValueEnum)]
enum FilledState {
    Random,
    Sequential,
}

impl Sim {
    /// Does what the action says.
    pub fn run(self) -> Result<()> {
        match self.action {
            SimAction::List(json) if json.json => output::json(&zoo()),
            SimAction::List(_) => output::text(&list(&zoo())),
            SimAction::Show { name, json } => {
                let profile = profile_named(&name)?;
                if json.json { output::json(&profile) } else { output::text(&profile.to_toml()) }
            }
            SimAction::Precondition { name, state, times, output, seed, json } => {
                let saved = precondition(&name, state, times, &output, seed)?;
                if json.json { output::json(&saved) } else { output::text(&saved.text()) }
            }
            SimAction::Run(run) => run.run(),
        }
    }
}

fn list(profiles: &[Profile]) -> String {
    let width = profiles.iter().map(|profile| profile.name.len()).max().unwrap_or(0) + 4;
    let line = |profile: &Profile| {
        let name = format!("sim:{}", profile.name);
        let capacity = profile.capacity.to_string();
        format!("{name:<width$} {capacity:>10}  {:<16}  {}\n", profile.kind(), profile.title)
    };
    profiles.iter().map(line).collect()
}

/// A state that was saved.
#[derive(Serialize)]
struct Saved {
    target: String,
    file_bytes: u64,
    written_bytes: u64,
    took_s: f64,
    device: Statistics,
}

impl Saved {
    fn text(&self) -> String {
        let Saved { target, file_bytes, written_bytes, took_s, device } = self;
        let (size, written) = (Bytes(*file_bytes), Bytes(*written_bytes));
        let wear = flash_statistics::wear(device);
        format!("{target}: {written} written in {took_s:.1} s, a state of {size}\n{wear}\n")
    }
}

fn precondition(
    name: &ProfileName,
    state: FilledState,
    times: u32,
    file: &Path,
    seed: Seed,
) -> Result<Saved> {
    let profile = profile_named(name)?;
    let began = Instant::now();
    let SimulatedDevice::Flash(mut device) = new_device(&profile)? else {
        bail!(Usage(format!("sim:{name} is a {}, which has no state to save", profile.kind())));
    };
    if profile.is_zoned() && (times > 1 || matches!(state, FilledState::Random)) {
        bail!(Usage(format!(
            "sim:{name} has zones, which are written once and in order until they are reset: --state sequential, once"
        )));
    }
    let written = fill(&mut device, state, times, seed)?;
    if let Some(reason) = device.exhausted() {
        bail!("sim:{name} can only be read from now on: {reason}");
    }
    let bytes = device.save();
    fs::write(file, &bytes).with_context(|| format!("cannot write the state to {}", file.display()))?;
    Ok(Saved {
        target: format!("sim:{name}@{}", file.display()),
        file_bytes: bytes.len() as u64,
        written_bytes: written.0,
        took_s: began.elapsed().as_secs_f64(),
        device: device.statistics(),
    })
}

/// Writes the capacity `times` times with the IOs of uFLIP's state (section 4.1); returns how much that was.
fn fill(device: &mut FlashDevice, state: FilledState, times: u32, seed: Seed) -> Result<Bytes> {
    let plan = match state {
        FilledState::Random => "random-state",
        FilledState::Sequential => "sequential-state",
    };
    let mut plan = Plan::builtin(plan).expect("the states are shipped");
    let geometry = device.geometry();
    let space = Space { capacity: geometry.capacity, block: geometry.block };
    let placed = plan.experiments.remove(0).pattern.place(space, seed)?;
    let wanted = Bytes(geometry.capacity.0.saturating_mul(times.into()));
    let mut written = Bytes::ZERO;
    let mut ios = placed.ios(0).map_while(|io| {
        let more = written < wanted;
        written += io.size;
        more.then_some((Operation::Write, io.offset, io.size))
    });
    // A device without this capability has no state: its throughput model depends on nothing that was written.
    let Some(conditioning) = device.conditioning() else { return Ok(wanted) };
    let conditioned = conditioning.condition(&mut ios);
    let refusal = device.health().and_then(|health| health.refusal());
    if let (Err(error), Some(reason)) = (conditioned, refusal) {
        return Err(error).with_context(|| format!("{} {reason}", device.identity().target));
    }
    conditioned?;
    Ok(wanted)
}
