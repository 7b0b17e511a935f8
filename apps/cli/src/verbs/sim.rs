//! `flashlab sim`: the zoo, profiles and saved states, and traces and plans in virtual time.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use flashlab_analysis::findings::{SteadyRound, SteadyState};
use flashlab_analysis::steady_state;
use flashlab_base::{Bytes, ProfileName, SavedState, Seed};
use flashlab_bench::{CAPACITIES_MOST, MediaCounters, ROUNDS_PER_CAPACITY, State};
use flashlab_device::{Device, Operation};
use flashlab_plan::{Plan, Space};
use flashlab_sim::flash_device::Statistics;
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice, zoo};
use serde::Serialize;

use crate::arguments::{self, JsonOption, TableOptions};
use crate::exit::Usage;
use crate::target::{new_device, profile_named};
use crate::verbs::sim_run::SimRun;
use crate::{csv_table, files, flash_statistics, output};

/// List and show the simulated devices, save their states, run traces and plans in virtual time
#[derive(Args)]
pub struct Sim {
    #[command(subcommand)]
    action: SimAction,
}

#[derive(Subcommand)]
enum SimAction {
    /// List the zoo
    List(TableOptions),
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
        /// The state; steady if not given, sequential for a device with zones
        #[arg(long, value_enum)]
        state: Option<FilledState>,
        /// As --state steady
        #[arg(long, conflicts_with_all = ["state", "times"])]
        until_steady: bool,
        /// How many times the capacity is written, with --state random (1 if not given) or sequential
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        times: Option<u32>,
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
    /// Written from end to end, then randomly until the write amplification is steady
    Steady,
    /// Random writes of random size
    Random,
    /// Written from end to end
    Sequential,
}

impl Sim {
    /// Does what the action says.
    pub fn run(self) -> Result<()> {
        match self.action {
            SimAction::List(table) if table.json => output::json(&zoo()),
            SimAction::List(table) if table.csv => csv_table::print(&zoo()),
            SimAction::List(_) => output::text(&list(&zoo())),
            SimAction::Show { name, json } => {
                let profile = profile_named(&name)?;
                if json.json { output::json(&profile) } else { output::text(&profile.to_toml()) }
            }
            SimAction::Precondition { name, state, until_steady: _, times, output, seed, json } => {
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
    /// Whether the device is steady; only for the state steady.
    steady: Option<SteadyState>,
    device: Statistics,
}

impl Saved {
    fn text(&self) -> String {
        let Saved { target, file_bytes, written_bytes, took_s, steady, device } = self;
        let (size, written) = (Bytes(*file_bytes), Bytes(*written_bytes));
        let wear = flash_statistics::wear(device);
        let steady = steady.as_ref().map_or(String::new(), |steady| {
            let is = if steady.is_steady { "steady" } else { "not known to be steady" };
            let confidence = steady.confidence.map(flashlab_report::units::percent);
            let confidence =
                confidence.map_or(String::new(), |confidence| format!(" (confidence {confidence})"));
            format!("{is}{confidence}: {}\n", steady.evidence)
        });
        format!("{target}: {written} written in {took_s:.1} s, a state of {size}\n{steady}{wear}\n")
    }
}

fn precondition(
    name: &ProfileName,
    state: Option<FilledState>,
    times: Option<u32>,
    file: &Path,
    seed: Seed,
) -> Result<Saved> {
    files::check_output(file, files::Output::State)?;
    let profile = profile_named(name)?;
    let began = Instant::now();
    let SimulatedDevice::Flash(mut device) = new_device(&profile)? else {
        bail!(Usage(format!("sim:{name} is a {}, which has no state to save", profile.kind())));
    };
    // The number of writes is only given for states that do not decide it themselves.
    let usual = match (profile.is_zoned(), times) {
        (true, _) => FilledState::Sequential,
        (false, Some(_)) => FilledState::Random,
        (false, None) => FilledState::Steady,
    };
    let state = state.unwrap_or(usual);
    if matches!(state, FilledState::Steady) && times.is_some() {
        bail!(Usage(
            "--times is for --state random and sequential: the steady state ends by itself".to_owned()
        ));
    }
    let times = times.unwrap_or(1);
    if profile.is_zoned() && (times > 1 || !matches!(state, FilledState::Sequential)) {
        bail!(Usage(format!(
            "sim:{name} has zones, which are written once and in order until they are reset: --state sequential, once"
        )));
    }
    let capacity = device.geometry().capacity;
    let (written, steady) = match state {
        FilledState::Steady => {
            let filled = fill(&mut device, "sequential-state", capacity, seed)?;
            let steady = write_until_steady(&mut device, seed)?;
            (filled + Bytes(steady.written_bytes), Some(steady))
        }
        FilledState::Random => (fill(&mut device, "random-state", capacity * u64::from(times), seed)?, None),
        FilledState::Sequential => {
            (fill(&mut device, "sequential-state", capacity * u64::from(times), seed)?, None)
        }
    };
    if let Some(reason) = device.exhausted() {
        bail!("sim:{name} can only be read from now on: {reason}");
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
    let bytes = device.save_described(Some(&described));
    files::write_output(file, files::Output::State, &bytes)?;
    Ok(Saved {
        target: format!("sim:{name}@{}", file.display()),
        file_bytes: bytes.len() as u64,
        written_bytes: written.0,
        took_s: began.elapsed().as_secs_f64(),
        steady,
        device: device.statistics(),
    })
}

/// Rounds of random writes until the write amplification is steady, or until the limit of `bench` is written.
fn write_until_steady(device: &mut FlashDevice, seed: Seed) -> Result<SteadyState> {
    let capacity = device.geometry().capacity;
    let size = Bytes(capacity.0 / ROUNDS_PER_CAPACITY).max(device.geometry().block);
    let mut state = SteadyState::default();
    for round in 0..u64::from(CAPACITIES_MOST) * ROUNDS_PER_CAPACITY {
        let (before, media_before) = (programs(device), MediaCounters::of(device));
        let written = fill(device, "random-state", size, seed.derive("steady", round))?;
        let (after, media) = (programs(device), MediaCounters::of(device).since(media_before));
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

/// The pages that the device programmed: all of them, and those for the host.
fn programs(device: &FlashDevice) -> [u64; 2] {
    let operations = device.statistics().operations;
    let of_host = operations.iter().filter(|operations| operations.cause == flashlab_sim::flash::Cause::Host);
    [
        operations.iter().map(|operations| operations.pages_programmed).sum(),
        of_host.map(|operations| operations.pages_programmed).sum(),
    ]
}

/// Writes at least `size` with the IOs of one of uFLIP's states (section 4.1). Returns the bytes written.
fn fill(device: &mut FlashDevice, plan: &str, size: Bytes, seed: Seed) -> Result<Bytes> {
    let mut plan = Plan::builtin(plan).expect("the states are shipped");
    let geometry = device.geometry();
    let space = Space { capacity: geometry.capacity, block: geometry.block };
    let placed = plan.experiments.remove(0).pattern.place(space, seed)?;
    let mut written = Bytes::ZERO;
    let mut ios = placed.ios(0).map_while(|io| {
        let more = written < size;
        written += if more { io.size } else { Bytes::ZERO };
        more.then_some((Operation::Write, io.offset, io.size))
    });
    // A device without this capability has no state: its throughput model does not depend on earlier writes.
    let Some(conditioning) = device.conditioning() else { return Ok(size) };
    let conditioned = conditioning.condition(&mut ios);
    let refusal = device.health().and_then(|health| health.refusal());
    if let (Err(error), Some(reason)) = (conditioned, refusal) {
        return Err(error).with_context(|| format!("{} {reason}", device.identity().target));
    }
    conditioned?;
    Ok(written)
}
