//! `flashlab sweep`: runs a plan on a simulated device with several values of its keys, on all cores.
//!
//! # Model
//! Each combination of the values is a separate profile, stored next to its run. So every run can be
//! repeated, reported and compared. The runs share nothing: neither their order nor the number of cores
//! changes a figure.
//!
//! A sweep that was interrupted is continued by the same command with the same folder: finished points are kept, others run again.

// The comments on options are help texts, in which [ ] marks what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use flashlab_base::{Identity, ProfileName, Seed, SimulatedTarget, Target};
use flashlab_bench::{BenchManifest, Settings, Silent, Thoroughness};
use flashlab_report::{Sweep as SweepDocument, SweepPoint};
use flashlab_samples::seal::PROFILE;
use flashlab_samples::{FolderKind, Manifest, RunFolder};
use flashlab_sim::Profile;
use flashlab_sweep::{Grid, Setting, override_key};
use serde::{Deserialize, Serialize};

use crate::arguments::{self, CapacityOption, TableOptions};
use crate::exit::Usage;
use crate::interrupt::interrupt;
use crate::run_folder::{self, Content};
use crate::selection::Selection;
use crate::target::{self, OpenDevice, new_device};
use crate::verbs::bench::StateChoice;
use crate::{csv_table, files, output};

/// More combinations than a table can usefully show.
const MOST_POINTS: u64 = 1000;
const DOCUMENT: &str = "sweep.json";
const PAGE: &str = "sweep.html";

/// Run a plan on a simulated device with other values of its profile's keys, on all cores
#[derive(Args)]
pub struct Sweep {
    /// sim:NAME or sim:./profile.toml
    target: Target,
    /// A key of the profile and its values, as flash.over_provisioning=0.07,0.15,0.28; with more than one --set, all
    /// combinations
    #[arg(long = "set", required = true, value_name = "KEY=VALUE,...")]
    sets: Vec<Setting>,
    /// A plan's file, or the name of one that comes with flashlab (see flashlab plan list)
    #[arg(long)]
    plan: String,
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
    /// The sweep's folder; flashlab-runs/TIME-TARGET if not given
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    table: TableOptions,
}

/// What a sweep is: only one with the same is continued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SweepSettings {
    /// Those of each run; the target and its size are those of the profile that is varied.
    run: Settings,
    /// The profile that is varied, as TOML.
    profile: String,
    /// The keys and their values.
    sets: Vec<Setting>,
}

/// One combination of values, ready to run.
struct Point {
    values: Vec<String>,
    profile: Profile,
    /// The folder of its run, in the folder of the sweep.
    folder: String,
}

/// A row of the CSV table.
#[derive(Serialize)]
struct CsvRow<'a> {
    #[serde(flatten)]
    values: serde_json::Map<String, serde_json::Value>,
    /// The state that the device had.
    state: &'a str,
    #[serde(flatten)]
    row: &'a flashlab_report::RunRow,
}

impl Sweep {
    /// Runs all combinations, writes the page and prints the table.
    pub fn run(self) -> Result<()> {
        let begun = self.output.as_deref().filter(|path| RunFolder::any_manifest(path).is_ok());
        if begun.is_none() {
            run_folder::check_output(self.output.as_deref())?;
        }
        let Target::Simulated(SimulatedTarget { profile: name, state: None }) = &self.target else {
            bail!(Usage(format!(
                "{} is not swept: give a simulated device without a saved state, as sim:tlc-sata",
                self.target
            )))
        };
        let profile = target::profile_named(name)?;
        let points = self.points(&profile)?;
        let thoroughness = if self.quick { Thoroughness::Quick } else { Thoroughness::Full };
        let settings = |profile: &Profile| Settings {
            methodology: false,
            state: self.state.into(),
            seed: self.seed,
            repetitions: self.repetitions,
            target: self.target.to_string(),
            target_size: profile.capacity,
            ..Settings::new(thoroughness)
        };
        let selection = Selection::named(&self.plan)?;
        for point in &points {
            selection.check(&settings(&point.profile), &point.profile.identity())?;
        }
        let sweep = SweepSettings {
            run: settings(&profile),
            profile: self.varied(&profile)?,
            sets: self.sets.clone(),
        };
        let manifest = Manifest {
            plans: selection.texts.clone(),
            ..run_folder::manifest(FolderKind::Sweep, sweep, profile.identity(), UNNEEDED.to_owned())
        };
        let folder = match begun {
            Some(path) => continued(path, &manifest)?,
            None => run_folder::create(
                self.output.as_deref(),
                &manifest,
                &self.target.to_string(),
                Content::Documents,
            )?,
        };
        tell!(
            "{} runs of {} on {}, of which up to {} at a time",
            points.len(),
            self.plan,
            self.target,
            cores()
        );
        let rows = self.run_all(&folder, &points, &settings)?;
        let document = SweepDocument {
            device: profile.name.clone(),
            plan: selection.plans.first().map_or(String::new(), |plan| plan.name.clone()),
            state: flashlab_bench::State::from(self.state).to_string(),
            flashlab: env!("CARGO_PKG_VERSION").to_owned(),
            keys: self.sets.iter().map(|set| set.key.clone()).collect(),
            points: rows,
        };
        folder.write_json(DOCUMENT, &document)?;
        folder.write_text(PAGE, &flashlab_report::sweep_html(&document))?;
        folder.finish::<SweepSettings>()?;
        self.print(&document, &folder.path().join(PAGE))
    }

    fn print(&self, document: &SweepDocument, page: &Path) -> Result<()> {
        let page = page.display().to_string();
        if !self.table.is_for_a_program() {
            return output::text(&flashlab_report::sweep_terminal(document, &output::layout(Some(page))));
        }
        tell!("report: {page}");
        if self.table.json {
            return output::json(document);
        }
        let rows = document.points.iter().flat_map(|point| {
            let values = document.keys.iter().cloned().zip(point.values.iter().cloned().map(Into::into));
            let values: serde_json::Map<_, _> = values.collect();
            point.rows.iter().map(move |row| CsvRow { values: values.clone(), state: &point.state, row })
        });
        csv_table::print(&rows.collect::<Vec<_>>())
    }

    /// Every combination. The values of the last key change first.
    fn points(&self, profile: &Profile) -> Result<Vec<Point>> {
        let grid = Grid::new(self.sets.clone())?;
        if grid.count() > MOST_POINTS {
            bail!(Usage(format!("more than {MOST_POINTS} combinations: give fewer values")));
        }
        let text = self.varied(profile)?;
        let point = |index: u64| {
            let values = grid.combination(index);
            let mut table: toml::Table = toml::from_str(&text).context("a profile is TOML")?;
            for (set, value) in self.sets.iter().zip(&values) {
                override_key(&mut table, &set.key, value)?;
            }
            let pairs = self.sets.iter().zip(&values).map(|(set, value)| format!("{}={value}", set.key));
            let name = pairs.collect::<Vec<_>>().join(" ");
            let profile = Profile::parse(&toml::to_string(&table)?, &format!("--set {name}"))?;
            Ok(Point { values, profile, folder: format!("point-{:03}", index + 1) })
        };
        (0..grid.count()).map(point).collect()
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
                let result = self.run_point(folder, point, settings(&point.profile), &interrupt);
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

    fn run_point(
        &self,
        folder: &RunFolder,
        point: &Point,
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
        let selection = Selection::named(&self.plan)?;
        let manifest = BenchManifest {
            plans: selection.texts,
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
        let rows = flashlab_report::middle_rows(&findings);
        let doubts = flashlab_report::doubts(&findings);
        let state = findings.method.state;
        Ok(SweepPoint { values: point.values.clone(), run: point.folder.clone(), state, doubts, rows })
    }

    fn in_words(&self, values: &[String]) -> String {
        let pairs = self.sets.iter().zip(values).map(|(set, value)| format!("{} = {value}", set.key));
        pairs.collect::<Vec<_>>().join(", ")
    }
}

/// The consent in the manifests.
const UNNEEDED: &str = "none needed: simulated";

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
