//! `flashlab sweep`: runs a plan on a simulated device with several values of its keys, on all cores.
//!
//! # Model
//! Each combination of the values is a separate profile, stored next to its run. So every run can be
//! repeated, reported and compared. The runs share nothing: neither their order nor the number of cores
//! changes a figure.
//!
//! A sweep that was interrupted is continued by the same command with the same folder: finished points are kept, others run again.
//!
//! A shard is a sweep of its own, with every Nth combination. `merge` makes one table of all shards.

// The comments on options are help texts, in which [ ] marks what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

mod merge;
mod result;
mod shard;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use flashlab_base::{Identity, ProfileName, Seed, SimulatedTarget, Target};
use flashlab_bench::{BenchManifest, Settings, Silent, Thoroughness};
use flashlab_report::SweepPoint;
use flashlab_samples::seal::PROFILE;
use flashlab_samples::{FolderKind, Manifest, RunFolder};
use flashlab_sim::Profile;
use flashlab_sweep::{Setting, override_key};

use crate::arguments::{self, CapacityOption, TableOptions};
use crate::exit::Usage;
use crate::files;
use crate::interrupt::interrupt;
use crate::run_folder::{self, Content};
use crate::selection::Selection;
use crate::target::{self, OpenDevice, new_device};
use crate::verbs::bench::StateChoice;
use crate::verbs::sweep::result::{Sample, SweepSettings, UNNEEDED, finish, measured_point, point_folder};
use crate::verbs::sweep::shard::Shard;

/// Run a plan on a simulated device with other values of its profile's keys, on all cores
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Sweep {
    #[command(subcommand)]
    action: Option<SweepAction>,
    #[command(flatten)]
    asked: AskedSweep,
}

#[derive(Subcommand)]
enum SweepAction {
    /// Make one table and one page of all shards of a sweep
    Merge(merge::Merge),
}

impl Sweep {
    /// Runs all combinations, or merges shards.
    pub fn run(self) -> Result<()> {
        match self.action {
            Some(SweepAction::Merge(merge)) => merge.run(),
            None => self.asked.run(),
        }
    }
}

#[derive(Args)]
pub struct AskedSweep {
    /// sim:NAME or sim:./profile.toml
    #[arg(required = true)]
    target: Option<Target>,
    /// A key of the profile and its values, as flash.over_provisioning=0.07,0.15,0.28; with more than one --set, all
    /// combinations
    #[arg(long = "set", required = true, value_name = "KEY=VALUE,...")]
    sets: Vec<Setting>,
    /// A plan's file, or the name of one that comes with flashlab (see flashlab plan list)
    #[arg(long, required = true)]
    plan: Option<String>,
    /// Take the plan's quick_values instead of all its values
    #[arg(long)]
    quick: bool,
    /// The state that each device is brought to first
    #[arg(long, value_enum, default_value_t = StateChoice::Steady)]
    state: StateChoice,
    #[command(flatten)]
    capacity: CapacityOption,
    /// How many times each experiment is measured
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// The seed of everything random
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = arguments::seed)]
    seed: Seed,
    /// Take so many combinations of a large space: as sobol 200, spread evenly, or random 200. The seed decides which
    #[arg(long, num_args = 2, value_names = ["METHOD", "N"], allow_negative_numbers = true)]
    sample: Option<Vec<String>>,
    /// Run this part of the combinations alone, as 3/64 for the third of 64 (Slurm's job arrays, indexed jobs of Kubernetes). Its folder is
    /// in that of --output; flashlab sweep merge makes one table of all parts
    #[arg(long, value_name = "PART/PARTS", requires = "output")]
    shard: Option<Shard>,
    /// The sweep's folder; flashlab-runs/TIME-TARGET if not given
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    table: TableOptions,
}

/// One combination of values, ready to run.
struct Point {
    values: Vec<String>,
    profile: Profile,
    /// The folder of its run, in the folder of the sweep.
    folder: String,
}

impl AskedSweep {
    /// Runs all combinations, writes the page and prints the table.
    fn run(self) -> Result<()> {
        let output = match (&self.output, self.shard) {
            (Some(all), Some(shard)) => Some(all.join(shard.folder())),
            (output, _) => output.clone(),
        };
        let begun = output.as_deref().filter(|path| RunFolder::any_manifest(path).is_ok());
        if begun.is_none() {
            run_folder::check_output(output.as_deref())?;
        }
        let (Some(target), Some(plan)) = (&self.target, &self.plan) else {
            bail!(Usage("give a simulated device, as sim:tlc-sata, and --plan".to_owned()))
        };
        let Target::Simulated(SimulatedTarget { profile: name, state: None }) = target else {
            bail!(Usage(format!(
                "{target} is not swept: give a simulated device without a saved state, as sim:tlc-sata"
            )))
        };
        let profile = target::profile_named(name)?;
        let thoroughness = if self.quick { Thoroughness::Quick } else { Thoroughness::Full };
        let settings = |profile: &Profile| Settings {
            methodology: false,
            state: self.state.into(),
            seed: self.seed,
            repetitions: self.repetitions,
            target: target.to_string(),
            target_size: profile.capacity,
            ..Settings::new(thoroughness)
        };
        let sweep = SweepSettings {
            run: settings(&profile),
            profile: self.varied(&profile)?,
            sets: self.sets.clone(),
            sample: self.sample.as_deref().map(Sample::parse).transpose()?,
            shard: self.shard,
        };
        let points = points(&sweep)?;
        let selection = Selection::named(plan)?;
        for point in &points {
            selection.check(&settings(&point.profile), &point.profile.identity())?;
        }
        let manifest = Manifest {
            plans: selection.texts.clone(),
            ..run_folder::manifest(FolderKind::Sweep, sweep, profile.identity(), UNNEEDED.to_owned())
        };
        let folder = match begun {
            Some(path) => continued(path, &manifest)?,
            None => {
                run_folder::create(output.as_deref(), &manifest, &target.to_string(), Content::Documents)?
            }
        };
        tell!(
            "{} runs{} of {plan} on {target}, of which up to {} at a time",
            points.len(),
            self.shard.map_or(String::new(), |shard| format!(" (part {shard})")),
            cores()
        );
        let rows = self.run_all(&folder, &points, &selection.texts, &settings)?;
        let document = manifest.settings.document(&profile.name, &manifest.plans, rows)?;
        finish(&folder, &document, &self.table)
    }

    /// The profile whose keys are varied, as TOML.
    fn varied(&self, profile: &Profile) -> Result<String> {
        Ok(match self.capacity.capacity {
            Some(size) => profile.resized(size)?.to_toml(),
            None => profile.to_toml(),
        })
    }

    /// Runs all points, as many at a time as there are cores, and returns their rows in the order of the points.
    fn run_all(
        &self,
        folder: &RunFolder,
        points: &[Point],
        plans: &[String],
        settings: &(impl Fn(&Profile) -> Settings + Sync),
    ) -> Result<Vec<SweepPoint>> {
        let interrupt = interrupt()?;
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let done: Mutex<Vec<(usize, Result<SweepPoint>)>> = Mutex::default();
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(point) = points.get(index) else { return };
                if failed.load(Ordering::Relaxed) || interrupt.load(Ordering::Relaxed) {
                    return;
                }
                let result = run_point(folder, point, plans, settings(&point.profile), &interrupt);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                done.push((index, result));
                tell!("{} of {} are done: {}", done.len(), points.len(), self.in_words(&point.values));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..cores().min(points.len()) {
                scope.spawn(work);
            }
        });
        let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        done.sort_by_key(|(index, _)| *index);
        let rows = done.into_iter().map(|(_, result)| result).collect::<Result<Vec<_>>>()?;
        if rows.len() < points.len() {
            let folder = folder.path().display();
            return Err(anyhow!(
                "interrupted; what was run is in {folder}; to continue, run the command again with --output {folder}"
            ));
        }
        Ok(rows)
    }

    fn in_words(&self, values: &[String]) -> String {
        let pairs = self.sets.iter().zip(values).map(|(set, value)| format!("{} = {value}", set.key));
        pairs.collect::<Vec<_>>().join(", ")
    }
}

/// Every combination of the sweep, or of its shard. The values of the last key change first.
fn points(sweep: &SweepSettings) -> Result<Vec<Point>> {
    let grid = sweep.grid()?;
    let point = |index: u64| {
        let values = grid.combination(index);
        let mut table: toml::Table = toml::from_str(&sweep.profile).context("a profile is TOML")?;
        for (set, value) in grid.settings().iter().zip(&values) {
            override_key(&mut table, &set.key, value)?;
        }
        let pairs = grid.settings().iter().zip(&values).map(|(set, value)| format!("{}={value}", set.key));
        let name = pairs.collect::<Vec<_>>().join(" ");
        let profile = Profile::parse(&toml::to_string(&table)?, &format!("--set {name}"))?;
        Ok(Point { values, profile, folder: point_folder(index) })
    };
    Shard::indices(sweep.shard, &grid)?.map(point).collect()
}

/// Measures a combination, or keeps its run if it is finished.
fn run_point(
    folder: &RunFolder,
    point: &Point,
    plans: &[String],
    settings: Settings,
    interrupt: &AtomicBool,
) -> Result<SweepPoint> {
    let path = folder.path().join(&point.folder);
    let file = folder.path().join(format!("{}.toml", point.folder));
    folder.write_text(&format!("{}.toml", point.folder), &PROFILE.sealed(&point.profile.to_toml()))?;
    let named = ProfileName::File(file.display().to_string());
    let named = Target::Simulated(SimulatedTarget { profile: named, state: None });
    let name = target::absolute(&named)?.to_string();
    let mut device = OpenDevice::Simulated(Box::new(new_device(&point.profile)?));
    let identity = Identity { target: name.clone(), ..point.profile.identity() };
    let settings = Settings { target: name, ..settings };
    let manifest = BenchManifest {
        plans: plans.to_vec(),
        ..run_folder::manifest(FolderKind::Bench, settings, identity, UNNEEDED.to_owned())
    };
    let run = match finished_point(&path, &manifest) {
        Some(run) => run,
        None => {
            // A part of a point that was interrupted: a new device measures it from the start.
            if path.symlink_metadata().is_ok() {
                fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
            let run = RunFolder::create(&path, &manifest)?;
            flashlab_bench::bench(device.as_mut(), &run, &manifest, interrupt, &Silent)?;
            run
        }
    };
    let (findings, traces) = flashlab_bench::rebuild(&path)?;
    run.write_json("summary.json", &findings)?;
    run.write_json("traces.json", &traces)?;
    files::write_output(
        &path.join("report.html"),
        files::Output::Page,
        flashlab_report::html(&findings, &traces),
    )?;
    Ok(measured_point(point.values.clone(), point.folder.clone(), findings))
}

/// Opens the folder of a sweep that was interrupted, if it is the same sweep.
fn continued(path: &Path, manifest: &Manifest<SweepSettings>) -> Result<RunFolder> {
    let (mut folder, before) = RunFolder::open::<SweepSettings>(path, &[FolderKind::Sweep])?;
    if before.finished.is_some() {
        bail!(RunFolder::name_taken(path));
    }
    let is_same = (&before.settings, &before.plans, &before.flashlab)
        == (&manifest.settings, &manifest.plans, &manifest.flashlab);
    if !is_same {
        bail!(Usage(format!(
            "{} is unfinished, and of another sweep: it was begun with `{}` by flashlab {}; give another --output",
            path.display(),
            before.command.join(" "),
            before.flashlab
        )));
    }
    folder.lock()?;
    run_folder::set_aside(&folder)?;
    tell!("continuing the sweep in {}: its finished points are kept", path.display());
    Ok(folder)
}

/// The run of a point that is finished and whole, and was made with the same settings.
fn finished_point(path: &Path, manifest: &BenchManifest) -> Option<RunFolder> {
    let (run, before) = RunFolder::open::<Settings>(path, &[FolderKind::Bench]).ok()?;
    let is_same = (&before.settings, &before.plans) == (&manifest.settings, &manifest.plans);
    (is_same && before.finished.is_some()).then_some(run)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
