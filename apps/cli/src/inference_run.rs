//! An inference and its folder.
//!
//! ```text
//! manifest.json        what is inferred, how, and by whose consent; written at the start
//! under-way.json       what the group that is under way may have written
//! inference.json       what is known so far
//! probes/NN-GROUP.toml what each group ran, a plan for `flashlab run`
//! report.html, report.txt
//! ```
//! All but the manifest are written after each group, and appear when they are whole: who interrupts, or kills, keeps
//! what is known.

use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use anyhow::{Result, bail};
use flashlab_analysis::inference::{
    Finding, INFERENCE_VERSION, Inference, Parameter, reads_inference_version,
};
use flashlab_base::{Bytes, Identity, Nanos, Seed};
use flashlab_bench::Settings as BenchSettings;
use flashlab_infer::{Ended, Group, Progress, groups_for};
use flashlab_plan::Plan;
use flashlab_report::{
    InferenceJson, InferenceRun, Layout, advice, advice_terminal, inference_html, inference_terminal,
    shell_word,
};
use flashlab_samples::{FolderLock, MANIFEST_VERSION, Manifest, RunFolder, SamplesError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exit::Usage;
use crate::target::{OpenDevice, Opened};
use crate::{flash_statistics, output, session};

const INFERENCE: &str = "inference.json";
const UNDER_WAY: &str = "under-way.json";
const PROBES: &str = "probes";
const PAGE: &str = "report.html";
const DAMAGED: &str = "the file is damaged";
/// Where there is such a folder, the runs are those of a device that is worn out.
const FIRST_ROUND: &str = "round-000";

/// Of a parameter whose group did not run yet.
const NOT_YET: &str = "not looked at yet";

/// What a person chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    pub target: String,
    pub target_size: Bytes,
    pub seed: Seed,
    /// How much may be written; without it the target is only read.
    pub write_budget: Option<Bytes>,
    /// Only these; all of them if there is none.
    pub only: Vec<Parameter>,
    pub reading_time: Option<Nanos>,
    pub writing_time: Nanos,
}

/// What is printed at the end.
#[derive(Clone, Copy)]
pub struct Shown {
    pub json: bool,
    /// Advice, too; as JSON, advice instead of findings.
    pub advice: bool,
}

/// What may have been written that is not in [`INFERENCE`] yet: who is killed counts it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct UnderWay {
    version: u32,
    bytes_written: Bytes,
}

/// An inference that is under way.
pub struct Run {
    folder: RunFolder,
    manifest: Manifest<Chosen>,
    known: Inference,
    interrupt: Arc<AtomicBool>,
    _lock: FolderLock,
}

impl Run {
    /// Makes the folder of a new run.
    pub fn begin(opened: &mut Opened, chosen: Chosen, output: Option<&Path>) -> Result<Run> {
        let device = opened.device.as_mut();
        let mut known = flashlab_infer::nothing_known(device, &chosen.target);
        if chosen.target != BenchSettings::SCRATCH {
            // As the person named it: a simulated device does not know the file of its profile.
            known.identity.target.clone_from(&chosen.target);
        }
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            flashlab: env!("CARGO_PKG_VERSION").to_owned(),
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            identity: known.identity.clone(),
            consent: opened.consent.clone(),
            settings: chosen,
            plans: Vec::new(),
            prepared_bytes: 0,
            warnings: opened.warnings.clone(),
            overhead_ns_per_io: None,
            clock_ns_per_reading: None,
        };
        let folder = match output {
            Some(path) => RunFolder::create_for_documents(path, &manifest)?,
            None => session::new_folder(&manifest.started, &manifest.settings.target, |path| {
                RunFolder::create_for_documents(path, &manifest)
            })?,
        };
        folder.make_directory(PROBES)?;
        folder.write_json(INFERENCE, &known)?;
        Run::with(folder, manifest, known)
    }

    /// Goes on in a folder that nobody else infers into.
    pub fn resumed(path: &Path) -> Result<Run> {
        let (folder, manifest, known) = open(path)?;
        let mut run = Run::with(folder, manifest, known)?;
        if path.join(UNDER_WAY).exists() {
            let advice = "remove it to go on: what was written last is then not counted";
            let under_way: UnderWay = read(&run.folder, UNDER_WAY, advice)?;
            if !reads_inference_version(under_way.version) {
                let (file, version) = (path.join(UNDER_WAY), under_way.version);
                bail!(Usage(format!(
                    "{}: has version {version}, and this program reads version {INFERENCE_VERSION}; {advice}",
                    file.display()
                )));
            }
            // Who is killed again counts both.
            run.known.written = Bytes(run.known.written.0.saturating_add(under_way.bytes_written.0));
            check(path, &run.known)?;
            run.folder.write_json(INFERENCE, &run.known)?;
            run.folder.write_json(UNDER_WAY, &UnderWay { bytes_written: Bytes::ZERO, ..under_way })?;
        }
        Ok(run)
    }

    fn with(folder: RunFolder, manifest: Manifest<Chosen>, known: Inference) -> Result<Run> {
        let lock = folder.lock()?;
        Ok(Run { folder, manifest, known, interrupt: session::interrupt()?, _lock: lock })
    }

    /// The device is another one, in another state.
    pub fn forget_writes(&mut self, is_worn: bool) {
        flashlab_infer::forget_writes(&mut self.known, is_worn);
    }

    /// What of the write budget is left.
    pub fn writes_left(&self) -> Bytes {
        let budget = self.chosen().write_budget.unwrap_or_default();
        Bytes(budget.0.saturating_sub(self.known.written.0))
    }

    pub fn chosen(&self) -> &Chosen {
        &self.manifest.settings
    }

    /// Whether every parameter that was asked for has its answer.
    pub fn is_done(&self) -> bool {
        asked(self.chosen()).iter().all(|&parameter| self.known.get(parameter).is_some())
    }

    /// Says how it goes on, before anything is written.
    pub fn announce_rest(&self) {
        let is_left = |&parameter: &Parameter| self.known.get(parameter).is_none();
        let count = asked(self.chosen()).into_iter().filter(is_left).count();
        let written = self.known.written;
        tell!("going on with {count} parameters of {}", self.chosen().target);
        match self.chosen().write_budget {
            None => tell!("it will only be read"),
            Some(budget) => {
                let left = self.writes_left();
                tell!("at most {left} more will be written: {written} of {budget} may have been before");
            }
        }
    }

    /// What it was begun on.
    pub fn identity(&self) -> &Identity {
        &self.manifest.identity
    }

    /// Infers what is not known yet, and prints all of it.
    pub fn infer(mut self, device: &mut OpenDevice, shown: Shown) -> Result<()> {
        let (known, capacity) = (self.known.capacity, device.as_mut().geometry().capacity);
        if known != capacity {
            let document = self.folder.path().join(INFERENCE);
            bail!(Usage(format!(
                "{}: capacity is {known}, and that of the target {capacity}",
                document.display()
            )));
        }
        let page = self.folder.path().join(PAGE);
        let (ended, kept) = self.infer_until_the_end(device);
        let missing = match (&ended, &kept) {
            (Ended::Gone(reason), _) => Some(gone(reason)),
            (_, Err(error)) => Some(error.to_string()),
            _ => None,
        };
        if let Some(reason) = missing {
            // Whoever reads the answers gets one of each parameter. The folder has none, so that they are asked again.
            let told = self.known.clone().with_rest(asked(self.chosen()), &reason);
            print(&self.manifest, &told, &page, shown)?;
        }
        kept?;
        if let Some(failure) = failure(ended) {
            let word = self.tell_where();
            tell!("go on with: flashlab infer --resume {word}");
            bail!(failure)
        }
        print(&self.manifest, &self.known, &page, shown)?;
        if let Some(device) = device.as_flash() {
            tell!("{}", flash_statistics::text(&device.statistics()).trim_end());
        }
        Ok(())
    }

    /// Infers what is not known yet; all of it, and if the device is gone that, as a clause without a subject.
    pub fn infer_quietly(mut self, device: &mut OpenDevice) -> Result<(Inference, Option<String>)> {
        let (ended, kept) = self.infer_until_the_end(device);
        kept?;
        match ended {
            Ended::Done => Ok((self.known, None)),
            Ended::Gone(reason) => {
                let asked = asked(self.chosen());
                Ok((self.known.with_rest(asked, &gone(&reason)), Some(format!("is gone: {reason}"))))
            }
            Ended::Interrupted => {
                self.tell_where();
                bail!("interrupted")
            }
        }
    }

    /// Tells where what is known is; the folder as a word for a shell.
    fn tell_where(&self) -> String {
        let word = shell_word(&self.folder.path().display().to_string());
        tell!("what is known is in {word}; see it with: flashlab infer {word}");
        word
    }

    /// How it ended, and whether what is known is in the folder.
    fn infer_until_the_end(&mut self, device: &mut OpenDevice) -> (Ended, Result<(), SamplesError>) {
        let chosen = self.chosen().clone();
        let settings = flashlab_infer::Settings {
            seed: chosen.seed,
            write_budget: chosen.write_budget,
            reading_time: chosen.reading_time,
            writing_time: chosen.writing_time,
            interrupt: &self.interrupt,
        };
        let mut keeper = Keeper {
            folder: &self.folder,
            manifest: &self.manifest,
            number: 0,
            failed: None,
            has_told: false,
            has_estimated: false,
            written: self.known.written,
            noted: self.known.written,
        };
        let groups = groups_for(&chosen.only);
        let ended =
            flashlab_infer::infer_groups(device.as_mut(), &settings, &mut self.known, &mut keeper, groups);
        // Once more: there may be room again.
        let kept = match keeper.failed.take() {
            Some(_) => {
                keeper.write_known(&self.known);
                keeper.failed.map_or(Ok(()), Err)
            }
            None => Ok(()),
        };
        (ended, kept)
    }
}

/// The parameters that have to be looked at for those that a person wants.
fn asked(chosen: &Chosen) -> Vec<Parameter> {
    groups_for(&chosen.only).iter().flat_map(|group| group.parameters).copied().collect()
}

/// Why not all is known.
fn failure(ended: Ended) -> Option<String> {
    match ended {
        Ended::Done => None,
        Ended::Interrupted => Some("interrupted".to_owned()),
        Ended::Gone(reason) => Some(gone(&reason)),
    }
}

fn gone(reason: &str) -> String {
    format!("the device is gone: {reason}")
}

/// Shows what is known in a run's folder.
pub fn show(path: &Path, shown: Shown) -> Result<()> {
    let (folder, mut manifest, known) = open(path)?;
    let page = path.join(PAGE);
    if !page.exists() {
        write_pages(&folder, &manifest, &known).unwrap_or_else(|error| tell!("{error}"));
    }
    if let Some(warning) = unfinished(&manifest.settings, &known, path) {
        if shown.json {
            tell!("{}", warning.1);
        }
        manifest.warnings.push(warning);
    }
    print(&manifest, &known.with_rest(asked(&manifest.settings), NOT_YET), &page, shown)
}

/// Refuses the folder of an inference where only runs of measurements are read.
pub fn refuse(path: &Path) -> Result<()> {
    if path.join(INFERENCE).exists() || path.join(FIRST_ROUND).exists() {
        let word = shell_word(&path.display().to_string());
        bail!(Usage(format!(
            "{word} is a run of flashlab infer: see it with: flashlab infer {word}, go on with: flashlab infer --resume {word}"
        )));
    }
    Ok(())
}

/// A warning where some parameters were not looked at yet.
fn unfinished(chosen: &Chosen, known: &Inference, folder: &Path) -> Option<(String, String)> {
    let asked = asked(chosen);
    let left = asked.iter().filter(|&&parameter| known.get(parameter).is_none()).count();
    let word = shell_word(&folder.display().to_string());
    let message = format!(
        "unfinished: {left} of {} parameters were {NOT_YET}; go on with: flashlab infer --resume {word}",
        asked.len()
    );
    (left > 0).then(|| ("unfinished".to_owned(), message))
}

fn open(path: &Path) -> Result<(RunFolder, Manifest<Chosen>, Inference)> {
    if path.join(FIRST_ROUND).exists() {
        bail!(Usage(format!(
            "{0} holds the rounds of --wear-out, which cannot be gone on with: show one of them, as {0}/{FIRST_ROUND}",
            path.display()
        )));
    }
    if path.join("manifest.json").exists() && !path.join(INFERENCE).exists() {
        bail!(Usage(format!(
            "{}: there is no {INFERENCE} in it: it is no run of flashlab infer",
            path.display()
        )));
    }
    let (folder, manifest) = RunFolder::open(path).map_err(|error| damaged(error, "begin a new run"))?;
    let known: Inference = read(&folder, INFERENCE, "begin a new run")?;
    check(path, &known)?;
    let chosen: &Chosen = &manifest.settings;
    let most = flashlab_infer::Settings::usual_budget(chosen.target_size);
    if let Some(budget) = chosen.write_budget.filter(|&budget| budget > most) {
        bail!(Usage(format!(
            "{}: write_budget is {budget}, and no more than twice the capacity, {most}, is ever written: the file is damaged; \
             begin a new run",
            path.join("manifest.json").display()
        )));
    }
    Ok((folder, manifest, known))
}

/// A document of a run, or what to do without it.
fn read<T: DeserializeOwned>(folder: &RunFolder, name: &str, advice: &str) -> Result<T> {
    folder.read_json(name).map_err(|error| damaged(error, advice))
}

/// What is wrong with a document, and what to do.
fn damaged(error: SamplesError, advice: &str) -> anyhow::Error {
    if !matches!(error, SamplesError::Format { .. }) {
        return error.into();
    }
    let error = error.to_string();
    let error = error.trim_end_matches(DAMAGED).trim_end_matches([';', ':', ' ']);
    Usage(format!("{error}: {DAMAGED}; {advice}")).into()
}

/// Refuses a document that flashlab did not write.
fn check(path: &Path, known: &Inference) -> Result<()> {
    known.check().map_err(|wrong| {
        let advice = if wrong.ends_with(DAMAGED) { "; begin a new run" } else { "" };
        Usage(format!("{}: {wrong}{advice}", path.join(INFERENCE).display()))
    })?;
    Ok(())
}

fn print(manifest: &Manifest<Chosen>, known: &Inference, page: &Path, shown: Shown) -> Result<()> {
    let page = page.display().to_string();
    if shown.json {
        tell!("report: {page}");
        return match shown.advice {
            true => output::json(&advice(known)),
            false => output::json(&InferenceJson(known)),
        };
    }
    let table = inference_terminal(
        &described(manifest, known, &manifest.warnings, &[]),
        &session::layout(Some(page)),
    );
    if !shown.advice {
        return output::text(&table);
    }
    output::text(&format!("{table}\n{}", advice_terminal(&advice(known), &session::layout(None))))
}

fn described<'a>(
    manifest: &'a Manifest<Chosen>,
    known: &'a Inference,
    warnings: &'a [(String, String)],
    probes: &'a [String],
) -> InferenceRun<'a> {
    InferenceRun {
        inference: known,
        started: &manifest.started,
        flashlab: &manifest.flashlab,
        seed: manifest.settings.seed,
        write_budget: manifest.settings.write_budget,
        warnings,
        probes,
    }
}

/// Writes for people what is known.
fn write_pages(
    folder: &RunFolder,
    manifest: &Manifest<Chosen>,
    known: &Inference,
) -> Result<(), SamplesError> {
    let probes = probes_in(folder);
    let told = known.clone().with_rest(asked(&manifest.settings), NOT_YET);
    let mut warnings = manifest.warnings.clone();
    warnings.extend(unfinished(&manifest.settings, known, folder.path()));
    let run = described(manifest, &told, &warnings, &probes);
    folder.write_text(PAGE, &inference_html(&run))?;
    folder.write_text("report.txt", &inference_terminal(&run, &Layout::default()))
}

/// The files of the probes, in the order of their numbers.
fn probes_in(folder: &RunFolder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path().join(PROBES)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut files: Vec<String> =
        names.filter(|name| name.ends_with(".toml")).map(|name| format!("{PROBES}/{name}")).collect();
    files.sort();
    files
}

/// Keeps what is known in the folder, and tells of it on standard error.
struct Keeper<'a> {
    folder: &'a RunFolder,
    manifest: &'a Manifest<Chosen>,
    /// Of the group that is under way.
    number: usize,
    /// Why the folder could not be written to, the first time, and whether that was told.
    failed: Option<SamplesError>,
    has_told: bool,
    /// Whether it said how long the rest takes.
    has_estimated: bool,
    /// What has been written in all, and what of it the folder's document knows of.
    written: Bytes,
    noted: Bytes,
}

impl Keeper<'_> {
    /// A folder that cannot be written to is told of once. Whether it was written to.
    fn note(&mut self, written: Result<(), SamplesError>) -> bool {
        let is_written = written.is_ok();
        if let (Err(error), None) = (written, &self.failed) {
            if !mem::replace(&mut self.has_told, true) {
                tell!(
                    "{error}; the inference goes on as long as what it writes can be noted there, and prints what it found"
                );
            }
            self.failed = Some(error);
        }
        is_written
    }

    /// Notes what may be on the device that the document does not know of: `most` more than by now.
    fn write_under_way(&mut self, most: Bytes) -> bool {
        let unknown = Bytes(self.written.0.saturating_sub(self.noted.0));
        let under_way = UnderWay { version: INFERENCE_VERSION, bytes_written: unknown + most };
        let written = self.folder.write_json(UNDER_WAY, &under_way);
        self.note(written)
    }

    /// Tells how long the rest of the writes takes, once it is known how long filling the device took.
    fn estimate(&mut self, known: &Inference) {
        let pace = known.fill.nanos_per_byte;
        let left = self.manifest.settings.write_budget.unwrap_or_default().0.saturating_sub(known.written.0);
        if !self.has_estimated && pace > 0.0 {
            let least = Nanos::from_secs_f64((left as f64 * pace / 1e9).ceil());
            tell!(
                "  at most {} are left to write: {least} at the pace of filling; rests of some minutes come on top, and random writes that are slow",
                Bytes(left)
            );
            self.has_estimated = true;
        }
    }

    fn write_known(&mut self, known: &Inference) {
        self.written = known.written;
        let kept = self.folder.write_json(INFERENCE, known);
        // A kill between the two counts what was written twice, and not never.
        if self.note(kept) {
            self.noted = known.written;
        }
        self.write_under_way(Bytes::ZERO);
        let pages = write_pages(self.folder, self.manifest, known);
        self.note(pages);
    }
}

impl Progress for Keeper<'_> {
    fn begin(&mut self, group: &'static Group, index: usize, count: usize) {
        self.number = index + 1;
        let is_left = group.writes() && self.manifest.settings.write_budget.is_none();
        let about = if is_left { "left out: it would have to write" } else { group.about };
        tell!("group {} of {count}: {}: {about}", self.number, group.name);
    }

    fn may_write(&mut self, _: &'static Group, most: Bytes) -> bool {
        self.write_under_way(most)
    }

    fn concluded(&mut self, finding: &Finding) {
        let name = finding.parameter.name();
        match finding.value_in_words().as_str() {
            "" => tell!("  {name}: {}", finding.verdict),
            value => tell!("  {name}: {value} ({:.1} % sure)", finding.confidence * 100.0),
        }
    }

    fn ended(&mut self, group: &'static Group, known: &Inference, probes: &Plan) {
        if !probes.experiments.is_empty() {
            let name = format!("{PROBES}/{:02}-{}.toml", self.number, group.name);
            let written = self.folder.write_text(&name, &probes.to_toml());
            self.note(written);
        }
        self.estimate(known);
        self.write_known(known);
    }

    fn abandoned(&mut self, _: &'static Group, known: &Inference) {
        self.write_known(known);
    }
}
