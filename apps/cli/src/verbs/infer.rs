//! `flashlab infer`: probes a device for its hidden parameters.

// The comments on options are help texts, in which [ ] marks what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use flashlab_analysis::ExpectationKind;
use flashlab_base::{Bytes, SimulatedTarget, Target};
use flashlab_bench::Settings as BenchSettings;
use flashlab_report::shell_word;

use crate::arguments::{self, ConsentOptions, EngineOptions, InferencePrintOptions, ScratchOptions};
use crate::exit::Usage;
use crate::inference::ongoing::OngoingInference;
use crate::inference::replay::replay;
use crate::inference::settings::{DEPTH, ProbeOptions};
use crate::interrupt::interrupt;
use crate::progress::Bar;
use crate::target::{self, Candidate, Opening};
use crate::{run_folder, scratch, unwritten};

/// Infer the hidden parameters of a device, each with evidence and confidence
#[derive(Args)]
pub struct Infer {
    /// A block device, a regular file, sim:NAME[@STATE] or sim:./profile.toml[@STATE]; a scratch file if not given
    target: Option<Target>,
    #[command(flatten)]
    scratch: ScratchOptions,
    /// Size of the scratch file; 1GiB if not given
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, allow_negative_numbers = true)]
    size: Option<Bytes>,
    /// The capacity of a simulated device, instead of its profile's
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, allow_negative_numbers = true, conflicts_with = "size", requires = "target")]
    capacity: Option<Bytes>,
    /// Write to the target, too; simulated devices are written to without it
    #[arg(long, conflicts_with = "read_only")]
    write: bool,
    /// Answer the probes from the samples of an earlier inference, with its settings, instead of a device
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = [
            "target", "size", "capacity", "write", "read_only", "write_budget", "only", "time_limit", "seed", "directory", "keep_file",
            "destroy_data_on", "overwrite_file"
        ]
    )]
    replay: Option<PathBuf>,
    /// Only read, a simulated device too
    #[arg(long, conflicts_with = "write_budget")]
    read_only: bool,
    #[command(flatten)]
    consent: ConsentOptions,
    #[command(flatten)]
    probe: ProbeOptions,
    /// The folder for the results; flashlab-runs/TIME-TARGET if not given
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    print: InferencePrintOptions,
}

impl Infer {
    /// Probes the target, or a scratch file.
    pub fn run(self) -> Result<()> {
        let is_simulated = self.target.as_ref().is_some_and(Target::is_simulated);
        if self.consent.is_given() && (!self.write || is_simulated) {
            bail!(Usage(
                "consent is given, but nothing of yours would be written to: add --write, or leave out the consent"
                    .into()
            ));
        }
        self.print.print.expectations.check(ExpectationKind::Inference)?;
        if let Some(run) = &self.replay {
            return replay(run, self.output.as_deref(), &self.print);
        }
        match &self.target {
            Some(Target::Path(path)) if Path::new(path).is_dir() => {
                let print = if self.print.advise { " --advise" } else { "" };
                bail!(Usage(format!(
                    "{path} is a folder: show a run with: flashlab report {0}{print}; or name a device to infer",
                    shell_word(path)
                )))
            }
            Some(target) => self.infer_existing(target),
            None => self.infer_scratch(),
        }
    }

    fn infer_existing(&self, target: &Target) -> Result<()> {
        run_folder::check_output(self.output.as_deref())?;
        let is_simulated = target.is_simulated();
        // Of a simulated device both options mean its capacity.
        let capacity = self.capacity.or(self.size);
        if capacity.is_some() && !is_simulated {
            bail!(Usage(
                "--size is for scratch files, and --capacity for simulated devices: a device is inferred as a whole"
                    .into()
            ));
        }
        let writes = self.write || (is_simulated && !self.read_only);
        if self.probe.write_budget.is_some() && !writes {
            bail!(Usage("--write-budget, but nothing would be written: add --write".into()));
        }
        let candidate = Candidate::find(target, writes, &self.consent)?.resized(capacity)?;
        let identity = candidate.identity();
        target::check_medium(target, &identity)?;
        let name = target::absolute(target)?.to_string();
        let settings = self.probe.settings(name, target::whole_blocks(&identity), writes)?;
        // A simulated device needs no consent, and errors of its state are reported first.
        if !is_simulated {
            settings.announce(&target.to_string(), &identity, "");
        }
        let mut opened = candidate.open(Opening::new(EngineOptions::default(), DEPTH)?)?;
        if is_simulated {
            settings.announce(&target.to_string(), &identity, "");
        }
        if !writes {
            let remedy = match target {
                Target::Simulated(SimulatedTarget { profile, .. }) => format!(
                    "leave out --read-only, or infer a state: flashlab sim precondition {profile} --output FILE; flashlab \
                     infer sim:{profile}@FILE --read-only"
                ),
                Target::Path(_) => "write to it first, or infer it with --write".to_owned(),
            };
            unwritten::warn(&mut opened, target, settings.target_size, self.probe.seed, &remedy)?;
        }
        let inference = OngoingInference::begin(&mut opened, settings, self.output.as_deref())?;
        inference.infer(&mut opened.device, &self.print)
    }

    fn infer_scratch(&self) -> Result<()> {
        run_folder::check_output(self.output.as_deref())?;
        self.consent.check_unneeded()?;
        let directory = scratch::directory(self.scratch.directory.as_deref())?;
        let size = self.size.unwrap_or(scratch::SIZE).round_up(scratch::UNIT);
        flashlab_host::check_room(&directory, size)?;
        let settings = self.probe.settings(BenchSettings::SCRATCH.to_owned(), size, self.write)?;
        scratch::announce(size, &directory, self.scratch.keep_file);
        settings.announce("it", &scratch::identity(size), "");
        let interrupt = interrupt()?;
        let scratch = scratch::make(&directory, size, self.probe.seed, &interrupt, &Bar::new())?;
        let mut opened = scratch::open(&scratch, Opening::new(EngineOptions::default(), DEPTH)?)?;
        let inference = OngoingInference::begin(&mut opened, settings, self.output.as_deref())?;
        let inferred = inference.infer(&mut opened.device, &self.print);
        scratch::end(scratch, self.scratch.keep_file)?;
        inferred
    }
}
