//! `flashlab sim run`: runs a trace or a plan on a simulated device, in virtual time.

// The comments on options are help texts, in which [ ] marks what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use flashlab_base::{Seed, SimulatedTarget};

use crate::arguments::{self, CapacityOption, TableOptions};
use crate::class_runner::ClassRunner;
use crate::exit::Usage;
use crate::selection::Selection;
use crate::target::{OpenDevice, Simulation};
use crate::trace_replay::{ReplayOptions, TraceReplay};

/// Replay a trace, or run a plan, in virtual time
#[derive(Args)]
pub struct SimRun {
    /// NAME[@STATE] or ./profile.toml[@STATE], with or without sim:
    target: SimulatedTarget,
    /// The trace: of fio, blkparse, MSR Cambridge or MQSim, gzip or not; or the samples of a run, a
    /// folder or a file
    #[arg(long, value_name = "FILE", required_unless_present = "plan", conflicts_with = "plan")]
    trace: Option<PathBuf>,
    /// A plan's file, or the name of one that comes with flashlab
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["format", "source", "speed", "as_fast_as_possible", "fit"])]
    plan: Option<String>,
    #[command(flatten)]
    replay: ReplayOptions,
    #[command(flatten)]
    capacity: CapacityOption,
    /// Record each IO as a sample into this new folder
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The seed of everything random in a plan
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = arguments::seed)]
    seed: Seed,
    #[command(flatten)]
    table: TableOptions,
}

enum Work<'a> {
    Trace(TraceReplay<'a>),
    Plan(Selection),
}

impl SimRun {
    /// Runs the trace or the plan, and prints its IOs by class.
    pub fn run(self) -> Result<()> {
        let work = match (&self.trace, &self.plan) {
            (Some(file), _) => Work::Trace(TraceReplay::read(file, &self.replay)?),
            (None, Some(plan)) => Work::Plan(Selection::named(plan)?),
            (None, None) => bail!(Usage("give --trace FILE or --plan PLAN".to_owned())),
        };
        let mut simulation = Simulation::new(&self.target)?;
        if let Some(size) = self.capacity.capacity {
            simulation = simulation.resized(size)?;
        }
        let mut device = OpenDevice::Simulated(Box::new(simulation.device()?));
        if device.as_flash().is_some() && self.target.state.is_none() {
            tell!(
                "the flash is new: reads of what was never written take it no time; flashlab sim precondition fills a \
                 device"
            );
        }
        let target = self.target.to_string();
        let runner = ClassRunner::new(
            &mut device,
            target.clone(),
            "none needed: simulated",
            self.output.as_deref(),
            "flashlab sim run",
        )?;
        let document = runner.document(|runner| match work {
            Work::Trace(replay) => {
                let (facts, run) = replay.run(runner, &target, None, "a --capacity as large")?;
                Ok((Some(facts), vec![run]))
            }
            Work::Plan(selection) => Ok((None, runner.run_plans(&selection, self.seed)?)),
        })?;
        document.print(self.table)
    }
}
