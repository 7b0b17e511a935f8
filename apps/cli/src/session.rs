//! One measurement, from the open device to its report.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use flashlab_analysis::findings::Findings;
use flashlab_base::{Bytes, Identity};
use flashlab_bench::{Manifest, Settings};
use flashlab_report::{Layout, shell_word};
use flashlab_samples::{FolderLock, MANIFEST_VERSION, RunFolder, SamplesError};

use crate::args;
use crate::exit::Usage;
use crate::flash_statistics;
use crate::output;
use crate::progress::Bar;
use crate::selection::Selection;
use crate::target::{OpenDevice, Opened, short_name};

/// Set when the person wants to stop: Ctrl-C, or SIGTERM. The second time ends the program at once,
/// for a device that does not answer any more. Signals are caught from the first call on.
pub fn interrupt() -> Result<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(Arc::clone(flag));
    }
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
            .context("cannot listen to signals")?;
    }
    Ok(Arc::clone(flag))
}

/// Where runs go that are given no folder.
const RUNS: &str = "flashlab-runs";

/// Refuses a run's folder that is there already or cannot be made, before anything is written.
pub fn check_output(output: Option<&Path>) -> Result<()> {
    if let Some(path) = output.filter(|path| path.symlink_metadata().is_ok()) {
        bail!(SamplesError::Exists { path: path.to_owned() });
    }
    let wanted = std::path::absolute(output.unwrap_or(Path::new(RUNS))).map_err(|error| {
        Usage(format!("no folder can be made for the results: {error}; give --output DIR"))
    })?;
    let parent = wanted.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    try_to_make_in(parent).map_err(|error| {
        let parent = parent.display();
        Usage(format!(
            "no folder for the results can be made in {parent}: {error}; give another with --output"
        ))
    })?;
    Ok(())
}

/// Whether anything can be made in a directory. Only trying tells: its file system may be read-only or
/// full, and root not the one who decides.
pub fn try_to_make_in(directory: &Path) -> std::io::Result<()> {
    let trial = directory.join(format!("flashlab-trial-{}", std::process::id()));
    std::fs::create_dir(&trial)?;
    std::fs::remove_dir(&trial)
}

/// A run's folder and how to go on in it.
pub struct Session {
    folder: RunFolder,
    manifest: Manifest,
    interrupt: Arc<AtomicBool>,
    json: bool,
    _lock: FolderLock,
}

impl Session {
    /// Makes the folder of a new run, if the run is possible at all.
    pub fn begin(
        opened: &mut Opened,
        selection: Selection,
        settings: Settings,
        prepared: Bytes,
        common: args::Common,
    ) -> Result<Session> {
        let device = opened.device.as_mut();
        let (mut identity, geometry) = (device.identity(), device.geometry());
        if settings.target != Settings::SCRATCH {
            // As the person named it: a simulated device does not know the file of its profile.
            identity.target.clone_from(&settings.target);
        }
        selection.check(&settings, &Identity { logical_block: Some(geometry.block), ..identity.clone() })?;
        flashlab_bench::check_queues(opened.device.as_mut(), &selection.plans, &settings)?;
        let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            flashlab: env!("CARGO_PKG_VERSION").to_owned(),
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            started,
            identity,
            consent: opened.consent.clone(),
            settings,
            plans: selection.texts,
            prepared_bytes: prepared.0,
            warnings: opened.warnings.clone(),
            overhead_ns_per_io: None,
            clock_ns_per_reading: None,
        };
        let folder = match common.output {
            Some(path) => RunFolder::create(&path, &manifest)?,
            None => new_folder(&manifest.started, &manifest.settings.target, |path| {
                RunFolder::create(path, &manifest)
            })?,
        };
        let mut session = Session::resumed(folder, manifest, common.json)?;
        if let Err(error) = session.calibrate() {
            // It holds nothing that was measured, and is in the way of another attempt.
            let _ = std::fs::remove_dir_all(session.folder.path());
            return Err(error);
        }
        Ok(session)
    }

    /// Goes on in a folder that nobody else measures into. Segments that a killed process left torn are
    /// set aside.
    pub fn resumed(folder: RunFolder, manifest: Manifest, json: bool) -> Result<Session> {
        let lock = folder.lock()?;
        for aside in folder.set_torn_segments_aside()? {
            tell!("set aside {}: {}", aside.path.display(), aside.reason);
        }
        Ok(Session { folder, manifest, interrupt: interrupt()?, json, _lock: lock })
    }

    /// Notes that more was written to prepare the target.
    pub fn prepared(&mut self, bytes: Bytes) -> Result<()> {
        self.manifest.prepared_bytes += bytes.0;
        Ok(self.folder.write_json("manifest.json", &self.manifest)?)
    }

    /// Finds out what measuring costs here.
    fn calibrate(&mut self) -> Result<()> {
        let overhead = flashlab_bench::overhead(&self.folder)?;
        self.manifest.overhead_ns_per_io = Some(overhead.ns_per_io);
        self.manifest.clock_ns_per_reading = Some(overhead.clock_ns_per_reading);
        self.folder.write_json("manifest.json", &self.manifest)?;
        Ok(())
    }

    /// Measures, and writes the report. What a simulated device did is told on standard error.
    pub fn measure(&self, device: &mut OpenDevice) -> Result<()> {
        let bar = Bar::new();
        let measured =
            flashlab_bench::bench(device.as_mut(), &self.folder, &self.manifest, &self.interrupt, &bar);
        drop(bar);
        if let Err(error) = measured {
            let path = self.folder.path().display();
            let word = shell_word(&path.to_string());
            tell!("what was measured is in {path}; see it with: flashlab report {word}");
            tell!("go on with: flashlab bench --resume {word}");
            return Err(error.into());
        }
        report(&self.folder, self.json)?;
        if let Some(device) = device.as_flash() {
            tell!("{}", flash_statistics::text(&device.statistics()).trim_end());
        }
        Ok(())
    }
}

/// A folder of a name that is not taken yet: two runs may start in the same second.
pub fn new_folder(
    started: &str,
    target: &str,
    create: impl Fn(&Path) -> Result<RunFolder, SamplesError>,
) -> Result<RunFolder> {
    let name = format!("{}-{}", started.replace(':', "-"), short_name(target));
    let mut path = Path::new(RUNS).join(&name);
    for number in 2.. {
        match create(&path) {
            Err(SamplesError::Exists { .. }) => path.set_file_name(format!("{name}-{number}")),
            result => return Ok(result?),
        }
    }
    unreachable!("some number is free")
}

/// Computes the findings and writes every document of the run's folder.
pub fn report(folder: &RunFolder, json: bool) -> Result<()> {
    let (findings, traces) = flashlab_bench::rebuild(folder.path())?;
    folder.write_json("summary.json", &findings)?;
    folder.write_json("traces.json", &traces)?;
    folder.write_text("report.html", &flashlab_report::html(&findings, &traces))?;
    print(&findings, &folder.path().join("report.html"), json)
}

/// Prints the findings, and where their page is.
pub fn print(findings: &Findings, page: &Path, json: bool) -> Result<()> {
    let page = page.display().to_string();
    if json {
        tell!("report: {page}");
        return output::json(findings);
    }
    output::text(&flashlab_report::terminal(findings, &layout(Some(page))))
}

/// How the terminal is laid out.
pub fn layout(report: Option<String>) -> Layout {
    use std::io::IsTerminal;
    const WIDEST: u16 = 120;
    if !std::io::stdout().is_terminal() {
        return Layout { report, ..Layout::default() };
    }
    let size = terminal_size::terminal_size();
    let width = size.map_or(Layout::default().width, |(width, _)| usize::from(width.0.min(WIDEST)));
    Layout { width, colour: std::env::var_os("NO_COLOR").is_none(), report }
}
