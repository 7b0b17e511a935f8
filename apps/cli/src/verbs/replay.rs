//! `flashlab replay`: replays a trace on a real device, or on a served one, in real time.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use flashlab_base::{Bytes, Target};
use flashlab_report::shell_word;

use crate::arguments::{self, ConsentOptions, EngineOptions, TableOptions};
use crate::class_runner::ClassRunner;
use crate::exit::Usage;
use crate::target::{Candidate, Opening};
use crate::trace_replay::{DEPTH, ReplayOptions, TraceReplay};

/// Replay a trace on a real device, in real time
#[derive(Args)]
pub struct Replay {
    /// The trace: of fio, blkparse, MSR Cambridge or MQSim, gzip or not; or the samples of a run, a folder or a file
    trace: PathBuf,
    /// A block device or a regular file; a served disk is one of them
    target: Target,
    #[command(flatten)]
    replay: ReplayOptions,
    /// The part of TARGET that is used, from its start; all of it if not given
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, allow_negative_numbers = true)]
    size: Option<Bytes>,
    #[command(flatten)]
    consent: ConsentOptions,
    /// Record each IO as a sample into this new folder
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    table: TableOptions,
}

impl Replay {
    /// Replays the trace, and prints its IOs by class.
    pub fn run(self) -> Result<()> {
        if self.target.is_simulated() {
            let (target, trace) = (self.target.to_string(), self.trace.display().to_string());
            bail!(Usage(format!(
                "{target} has no real time: replay in virtual time with: flashlab sim run {} --trace {}; or serve it, and \
                 give the path of the disk",
                shell_word(&target),
                shell_word(&trace)
            )));
        }
        let replay = TraceReplay::read(&self.trace, &self.replay)?;
        let candidate = Candidate::find(&self.target, replay.writes(), &self.consent)?;
        let depth = self.replay.depth.unwrap_or(DEPTH);
        let mut opened = candidate.open(Opening::new(EngineOptions::default(), depth)?)?;
        opened.warnings.iter().for_each(|(_, message)| tell!("{message}"));
        let target = self.target.to_string();
        let runner = ClassRunner::new(
            &mut opened.device,
            target.clone(),
            &opened.consent,
            self.output.as_deref(),
            "flashlab replay",
        )?;
        let document = runner.document(|runner| {
            let (facts, run) = replay.run(runner, &target, self.size, "a larger device")?;
            Ok((Some(facts), vec![run]))
        })?;
        document.print(self.table)
    }
}
