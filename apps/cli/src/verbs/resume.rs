//! `flashlab resume`: continues an interrupted run of any verb with the same settings and on the same device.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use flashlab_analysis::ExpectationKind;
use flashlab_base::Identity;
use flashlab_bench::{BenchManifest, Settings};
use flashlab_samples::{FolderKind, RunFolder};

use crate::arguments::{ConsentOptions, EngineOptions, InferencePrintOptions};
use crate::exit::Usage;
use crate::inference::ongoing::OngoingInference;
use crate::inference::settings::DEPTH;
use crate::inference::show;
use crate::measurement::{self, Measurement};
use crate::scratch;
use crate::selection::Selection;
use crate::target::{self, Candidate, Opened, Opening};

/// Resume an interrupted run of bench, run or infer as it was begun
#[derive(Args)]
pub struct Resume {
    /// The run's folder
    run: PathBuf,
    /// Keep the scratch file
    #[arg(long)]
    keep_file: bool,
    #[command(flatten)]
    consent: ConsentOptions,
    #[command(flatten)]
    print: InferencePrintOptions,
}

impl Resume {
    /// Does what is left of the run.
    pub fn run(self) -> Result<()> {
        let manifest = RunFolder::any_manifest(&self.run)?;
        match manifest.kind {
            FolderKind::Inference => return self.inference(),
            FolderKind::Bench => {}
            kind => {
                let (run, command) = (self.run.display(), manifest.command.join(" "));
                let again = match kind {
                    FolderKind::Sweep => {
                        format!("run its command again with its folder as --output to continue: {command}")
                    }
                    FolderKind::WearOut => {
                        format!("show one of its rounds: flashlab report {run}/round-000")
                    }
                    _ => format!("run its command again with another --output: {command}"),
                };
                bail!(Usage(format!("{run} is {}, which cannot be resumed: {again}", kind.name())));
            }
        }
        if self.print.advise {
            bail!(Usage(format!(
                "--advise is for runs of flashlab infer, and {} is none",
                self.run.display()
            )));
        }
        self.measurement()
    }

    fn measurement(&self) -> Result<()> {
        let (folder, manifest, plans) = flashlab_bench::open_run_to_resume(&self.run)?;
        let selection = Selection { texts: manifest.plans.clone(), plans };
        self.print.print.expectations.check_names(&selection.experiments(&manifest.settings))?;
        // What is whole is not measured again; of a damaged run, finished or not, what is lost is.
        if manifest.finished.is_some()
            && let Ok(rebuilt) = flashlab_bench::rebuild(folder.path())
        {
            tell!("nothing is left to measure: the run is finished");
            return measurement::write_report(&folder, &rebuilt, &self.print.print);
        }
        let opening = Opening::as_before(&manifest.identity, selection.depth());
        if manifest.settings.target == Settings::SCRATCH {
            return self.measurement_on_scratch(folder, manifest, opening);
        }
        let target = target::parsed(&manifest.settings.target)?;
        let candidate = Candidate::find(&target, selection.writes(&manifest.settings), &self.consent)?;
        check_same(&self.run, &target.to_string(), &manifest.identity, &candidate.identity())?;
        let mut opened = candidate.open(opening)?;
        let mut measurement = Measurement::resumed(folder, manifest)?;
        if target.is_simulated() {
            measurement.begin_anew()?;
        }
        measurement.measure(&mut opened.device, &self.print.print)
    }

    /// The measured scratch file is gone. Another one in the same directory is on the same disk.
    fn measurement_on_scratch(
        &self,
        folder: RunFolder,
        manifest: BenchManifest,
        opening: Opening,
    ) -> Result<()> {
        let (size, seed) = (manifest.settings.target_size, manifest.settings.seed);
        let (scratch, name) = scratch::recreate(&manifest.identity, size, seed)?;
        let Opened { mut device, .. } = scratch::open(&scratch, opening)?;
        check_same(folder.path(), &name, &manifest.identity, &device.as_mut().identity())?;
        let mut measurement = Measurement::resumed(folder, manifest)?;
        measurement.prepared(scratch.size())?;
        let measured = measurement.measure(&mut device, &self.print.print);
        scratch::end(scratch, self.keep_file)?;
        measured
    }

    fn inference(&self) -> Result<()> {
        self.print.print.expectations.check(ExpectationKind::Inference)?;
        let mut inference = OngoingInference::resumed(&self.run)?;
        let settings = inference.settings().clone();
        let is_scratch = settings.target == Settings::SCRATCH;
        if is_scratch && !inference.is_done() {
            return self.inference_on_scratch(inference);
        }
        if !is_scratch {
            let target = target::parsed(&settings.target)?;
            let candidate = Candidate::find(&target, settings.write_budget.is_some(), &self.consent)?;
            let size = target.is_simulated().then_some(settings.target_size);
            let candidate = candidate.resized(size)?;
            check_same(&self.run, &settings.target, inference.identity(), &candidate.identity())?;
            if !inference.is_done() {
                if target.is_simulated() {
                    inference.forget_writes(false);
                }
                inference.announce_resumption();
                let mut opened = candidate.open(Opening::new(EngineOptions::default(), DEPTH)?)?;
                return inference.infer(&mut opened.device, &self.print);
            }
        }
        inference.finish()?;
        tell!("nothing is left to infer: all parameters are known");
        show::show(&self.run, None, &self.print)
    }

    /// The probed scratch file is gone. Another one in the same directory is on the same disk.
    fn inference_on_scratch(&self, mut inference: OngoingInference) -> Result<()> {
        let settings = inference.settings().clone();
        let (scratch, name) = scratch::recreate(inference.identity(), settings.target_size, settings.seed)?;
        let mut opened = scratch::open(&scratch, Opening::new(EngineOptions::default(), DEPTH)?)?;
        check_same(&self.run, &name, inference.identity(), &opened.device.as_mut().identity())?;
        // A new file has to be filled before findings from writes can be found again.
        if inference.writes_left() >= settings.target_size {
            inference.forget_writes(true);
        }
        inference.announce_resumption();
        let inferred = inference.infer(&mut opened.device, &self.print);
        scratch::end(scratch, self.keep_file)?;
        inferred
    }
}

/// Refuses to mix two devices, or two files, in one run.
fn check_same(run: &Path, name: &str, before: &Identity, now: &Identity) -> Result<()> {
    let distinct = |identity: &Identity| {
        let Identity { model, serial, capacity, backing_device, .. } = identity.clone();
        (model, serial, capacity, backing_device)
    };
    // A run of an older flashlab has recorded neither its file nor its profile.
    let differs = |of: fn(&Identity) -> &Option<String>| {
        of(before).is_some() && of(now).is_some() && of(before) != of(now)
    };
    if distinct(before) == distinct(now) && differs(|identity| &identity.profile_fingerprint) {
        let run = run.display();
        bail!(Usage(format!(
            "the profile of {name} was changed since {run} was begun on it, and its runs would be those of two devices: put the profile \
             back, or begin a new run"
        )));
    }
    let is_another_file = differs(|identity| &identity.file);
    if is_another_file || distinct(before) != distinct(now) {
        let about = |identity: &Identity| {
            let known = [&identity.model, &identity.serial, &identity.backing_device, &identity.file];
            let known: Vec<&str> = known.into_iter().flatten().map(String::as_str).collect();
            format!("{} {}", known.join(" "), identity.capacity).trim().to_owned()
        };
        let kind = if is_another_file { "file" } else { "device" };
        bail!(Usage(format!(
            "{name} is now another {kind} ({}) than {} was begun on ({}): put that one back, or begin a new run",
            about(now),
            run.display(),
            about(before)
        )));
    }
    Ok(())
}
