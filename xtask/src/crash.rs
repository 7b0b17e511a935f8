//! `cargo xtask crash`: explores crash states of volumes (see `flashlab_repair::crash`).

use std::num::NonZeroUsize;
use std::thread;

use anyhow::ensure;
use clap::Args;
use flashlab_base::Seed;
use flashlab_repair::SeededBug;
use flashlab_repair::crash::{CrashReport, explore, explore_every_fault};

/// Cuts the power of a volume of `flashlab repair` in many states and checks what is recovered.
#[derive(Args)]
pub struct Crash {
    /// How many crash states, at least; the last scenario is finished
    #[arg(long, default_value_t = 1_000_000)]
    states: u64,
    /// The seed of the first scenario; the next ones have the seeds after it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Damages what recovery trusts at the ends of this number of scenarios, in place of exploring crash states: each bit, byte and
    /// block, alone and in pairs
    #[arg(long, value_name = "SCENARIOS")]
    every_fault: Option<u64>,
    /// Tries one in this number of those bits, bytes and pairs
    #[arg(long, default_value_t = 1, requires = "every_fault")]
    one_in: u64,
    /// How many threads; all CPUs if not given
    #[arg(long)]
    threads: Option<usize>,
    /// With a seeded bug, which has to be found; needs the feature canary
    #[cfg(feature = "canary")]
    #[arg(long)]
    bug: Option<SeededBug>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

impl Crash {
    #[cfg(feature = "canary")]
    fn bug(&self) -> Option<SeededBug> {
        self.bug
    }

    #[cfg(not(feature = "canary"))]
    fn bug(&self) -> Option<SeededBug> {
        None
    }
}

/// Explores, prints and fails if a promise was broken.
pub fn crash(arguments: &Crash) -> anyhow::Result<()> {
    let threads =
        arguments.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get));
    let (seed, bug) = (Seed(arguments.seed), arguments.bug());
    let report = match arguments.every_fault {
        Some(scenarios) => explore_every_fault(scenarios, seed, threads, arguments.one_in, bug),
        None => explore(arguments.states, seed, threads, bug),
    };
    if arguments.json {
        println!("{}", json(&report));
    } else {
        println!(
            "{} crash states ({} of them damaged, of which {} were refused) of {} scenarios with {} IOs, {} packed segments, {} images of the \
             map, {} resized volumes and {} IOs that failed: {} violations",
            report.states,
            report.damaged,
            report.refused,
            report.scenarios,
            report.ios,
            report.packed_segments,
            report.images,
            report.resizes,
            report.errors,
            report.violations.len()
        );
    }
    for violation in &report.violations {
        let flashlab_repair::crash::CrashViolation { seed, io, state, what } = violation;
        eprintln!("seed {seed}, behind IO {io}: {what}\n    {state}");
        match arguments.every_fault {
            Some(_) => eprintln!(
                "    replay: cargo xtask crash --every-fault 1 --one-in {} --seed {seed}",
                arguments.one_in
            ),
            None => eprintln!("    replay: cargo xtask crash --states 1 --seed {seed}"),
        }
    }
    ensure!(report.violations.is_empty(), "{} crash states break a promise", report.violations.len());
    Ok(())
}

fn json(report: &CrashReport) -> serde_json::Value {
    serde_json::json!({
        "states": report.states,
        "violations": report.violations.len(),
        "damaged_states": report.damaged,
        "refused_states": report.refused,
        "scenarios": report.scenarios,
        "ios": report.ios,
        "resizes": report.resizes,
        "failed_ios": report.errors,
        "packed_segments": report.packed_segments,
        "images": report.images,
    })
}
