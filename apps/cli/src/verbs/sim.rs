//! `flashlab sim`: the zoo, profiles and saved states, and traces and plans in virtual time.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use flashlab_analysis::findings::SteadyState;
use flashlab_base::{Bytes, ProfileName, Seed};
use flashlab_sim::flash_device::Statistics;
use flashlab_sim::{Profile, SimulatedDevice, zoo};
use flashlab_sweep::FilledState;
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
        state: Option<StateChoice>,
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
enum StateChoice {
    /// Written from end to end, then randomly until the write amplification is steady
    Steady,
    /// Random writes of random size
    Random,
    /// Written from end to end
    Sequential,
}

impl From<StateChoice> for FilledState {
    fn from(choice: StateChoice) -> FilledState {
        match choice {
            StateChoice::Steady => FilledState::Steady,
            StateChoice::Random => FilledState::Random,
            StateChoice::Sequential => FilledState::Sequential,
        }
    }
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
    choice: Option<StateChoice>,
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
    let usual = match times {
        Some(_) if !profile.is_zoned() => FilledState::Random,
        _ => FilledState::usual(&profile),
    };
    let state = choice.map_or(usual, FilledState::from);
    let never = AtomicBool::new(false);
    let filled = flashlab_sweep::precondition(&mut device, &profile, state, times, seed, &never)?;
    let bytes = device.save_described(Some(&filled.described));
    files::write_output(file, files::Output::State, &bytes)?;
    Ok(Saved {
        target: format!("sim:{name}@{}", file.display()),
        file_bytes: bytes.len() as u64,
        written_bytes: filled.written.0,
        took_s: began.elapsed().as_secs_f64(),
        steady: filled.steady,
        device: device.statistics(),
    })
}
