//! One measurement in its folder, from the open device to its report.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use flashlab_analysis::findings::{Findings, Traces};
use flashlab_base::{Bytes, Identity, Seed};
use flashlab_bench::{BenchManifest, Enforcing, Progress, Schedule, Settings, bench_part};
use flashlab_plan::Plan;
use flashlab_samples::{FolderKind, RunFolder};

use crate::arguments::PrintOptions;
use crate::interrupt::interrupt;
use crate::progress::Bar;
use crate::run_folder::{self, Content};
use crate::selection::Selection;
use crate::target::{OpenDevice, Opened};
use crate::{csv_table, expectations, flash_statistics, output};

/// A measurement that can be begun or resumed.
pub struct Measurement {
    folder: RunFolder,
    manifest: BenchManifest,
    interrupt: Arc<AtomicBool>,
}

impl Measurement {
    /// Creates the folder of a new run, if the run is possible.
    pub fn begin(
        kind: FolderKind,
        opened: &mut Opened,
        selection: Selection,
        settings: Settings,
        prepared: Bytes,
        output: Option<&Path>,
    ) -> Result<Measurement> {
        let device = opened.device.as_mut();
        let (mut identity, geometry) = (device.identity(), device.geometry());
        if settings.target != Settings::SCRATCH {
            // As the user named it: a simulated device does not know the file of its profile.
            identity.target.clone_from(&settings.target);
        }
        selection.check(&settings, &Identity { logical_block: Some(geometry.block), ..identity.clone() })?;
        flashlab_bench::check_queues(opened.device.as_mut(), &selection.plans, &settings)?;
        let manifest = BenchManifest {
            plans: selection.texts,
            prepared_bytes: prepared.0,
            warnings: opened.warnings.clone(),
            ..run_folder::manifest(kind, settings, identity, opened.consent.clone())
        };
        let folder = run_folder::create(output, &manifest, &manifest.settings.target, Content::Samples)?;
        let mut measurement = Measurement::resumed(folder, manifest)?;
        if let Err(error) = measurement.calibrate() {
            // The folder contains no measurement, and would prevent another attempt.
            let _ = std::fs::remove_dir_all(measurement.folder.path());
            return Err(error);
        }
        Ok(measurement)
    }

    /// Opens a folder for resuming, unless another process uses it. Torn segments of a killed process are
    /// renamed.
    pub fn resumed(mut folder: RunFolder, manifest: BenchManifest) -> Result<Measurement> {
        folder.lock()?;
        run_folder::set_aside(&folder)?;
        Ok(Measurement { folder, manifest, interrupt: interrupt()? })
    }

    /// Removes what was measured. A simulated device loses its content when the program ends, so a continued
    /// run on a new one would give other figures. A run from the start gives the same samples, byte for byte.
    pub fn begin_anew(&mut self) -> Result<()> {
        flashlab_bench::check_records(&self.folder)?;
        tell!("a simulated device loses its content when the program ends: everything is measured again");
        // Before the lines go: if the program is killed in between, the folder can still be resumed.
        self.manifest.finished = None;
        self.folder.write_manifest(&self.manifest)?;
        Ok(self.folder.remove_runs()?)
    }

    /// Adds bytes that were written to prepare the target.
    pub fn prepared(&mut self, bytes: Bytes) -> Result<()> {
        self.manifest.prepared_bytes += bytes.0;
        Ok(self.folder.write_manifest(&self.manifest)?)
    }

    /// Measures the overhead on this machine, and records it.
    fn calibrate(&mut self) -> Result<()> {
        let overhead = flashlab_bench::overhead(&self.folder)?;
        self.manifest.overhead_ns_per_io = Some(overhead.ns_per_io);
        self.manifest.clock_ns_per_reading = Some(overhead.clock_ns_per_reading);
        self.folder.write_manifest(&self.manifest)?;
        Ok(())
    }

    /// Measures more plans and leaves their samples in the folder, which stays unfinished; writes no report. The state is enforced
    /// before the first ones.
    pub fn measure_also(&mut self, device: &mut OpenDevice, plans: &[Plan]) -> Result<()> {
        let enforcing =
            if self.manifest.plans.is_empty() { Enforcing::BeforeTheFirstRun } else { Enforcing::Done };
        self.manifest.plans.extend(plans.iter().map(Plan::to_toml));
        let bar = Bar::new();
        plans.iter().for_each(|plan| bar.say(&plan.title));
        let (device, progress) = (device.as_mut(), Step(&bar));
        let measured =
            bench_part(device, &self.folder, &self.manifest, &self.interrupt, &progress, enforcing);
        drop(bar);
        measured.map_err(|error| {
            run_folder::tell_kept(&self.manifest, self.folder.path());
            error.into()
        })
    }

    /// The run's folder.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// The seed of everything random.
    pub fn seed(&self) -> Seed {
        self.manifest.settings.seed
    }

    /// What was measured, as the manifest has it.
    pub fn identity(&self) -> &Identity {
        &self.manifest.identity
    }

    /// Measures, and writes the report. The statistics of a simulated device are printed on standard error.
    pub fn measure(&self, device: &mut OpenDevice, options: &PrintOptions) -> Result<()> {
        let bar = Bar::new();
        let measured =
            flashlab_bench::bench(device.as_mut(), &self.folder, &self.manifest, &self.interrupt, &bar);
        drop(bar);
        if let Err(error) = measured {
            run_folder::tell_kept(&self.manifest, self.folder.path());
            return Err(error.into());
        }
        let reported = report(&self.folder, options);
        if let Some(device) = device.as_flash() {
            tell!("{}", flash_statistics::text(&device.statistics()).trim_end());
        }
        reported
    }
}

/// The progress of one step of a run of many: the schedule of all that was run before is nothing new.
struct Step<'a>(&'a Bar);

impl Progress for Step<'_> {
    fn step(&self, what: &str) {
        self.0.step(what);
    }

    fn round(&self, what: &str) {
        self.0.round(what);
    }

    fn share(&self, done: f64) {
        self.0.share(done);
    }

    fn schedule(&self, schedule: &Schedule) {
        for warning in &schedule.left_out {
            self.0.say(&format!("left out: {}", warning.message));
        }
    }

    fn step_of(&self, what: &str, index: usize, count: usize) {
        self.0.step_of(what, index, count);
    }
}

/// Computes the findings and writes every document of the run's folder.
pub fn report(folder: &RunFolder, options: &PrintOptions) -> Result<()> {
    write_report(folder, &flashlab_bench::rebuild(folder.path())?, options)
}

/// Writes every document of findings that were computed from the run's folder.
pub fn write_report(
    folder: &RunFolder,
    (findings, traces): &(Findings, Traces),
    options: &PrintOptions,
) -> Result<()> {
    folder.write_json("summary.json", findings)?;
    folder.write_json("traces.json", traces)?;
    folder.write_text("report.html", &flashlab_report::html(findings, traces))?;
    print(folder, findings, &folder.path().join("report.html"), options)
}

/// Prints the findings, where their page is, and the outcomes of the expectations.
pub fn print(folder: &RunFolder, findings: &Findings, page: &Path, options: &PrintOptions) -> Result<()> {
    let expectations = &options.expectations;
    let is_finished = RunFolder::any_manifest(folder.path())?.finished.is_some();
    let judged = expectations.judge(is_finished, |expectations| {
        let run = flashlab_bench::compared_run(folder.path())?;
        Ok(expectations.iter().flat_map(|expectation| expectation.judge_run(&run)).collect())
    })?;
    let page = page.display().to_string();
    let table = options.table;
    if table.is_for_a_program() {
        tell!("report: {page}");
        match table.csv {
            true => csv_table::print(&flashlab_report::run_rows(findings))?,
            false => expectations::json(findings, &judged)?,
        }
    } else {
        output::text(&flashlab_report::terminal(findings, &output::layout(Some(page))))?;
    }
    let doubts = flashlab_report::doubts(findings);
    expectations.conclude(&findings.characteristics.device, &judged, &doubts, table.is_for_a_program())
}
