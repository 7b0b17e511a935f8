//! The folder of a run: its name, the manifest with which it begins, and whether it is finished.
//!
//! # Invariants
//! - A verb that computes figures takes a folder only if it is finished, or says that it is not.
//! - A new run never writes into a folder that exists.
//! - The manifest is in the folder before anything is measured.

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Result, bail};
use flashlab_base::{Identity, Target};
use flashlab_bench::Settings;
use flashlab_report::shell_word;
use flashlab_samples::{FolderKind, Manifest, RunFolder, SamplesError};
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::exit::Usage;

/// The parent of run folders without a given name.
const RUNS: &str = "flashlab-runs";

/// What a run's folder contains.
#[derive(Clone, Copy)]
pub enum Content {
    /// Samples, and what is computed from them.
    Samples,
    /// Documents alone.
    Documents,
}

/// Refuses a folder for results that exists or cannot be created, before anything is written.
pub fn check_output(output: Option<&Path>) -> Result<()> {
    if let Some(path) = output.filter(|path| path.symlink_metadata().is_ok()) {
        bail!(RunFolder::name_taken(path));
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

/// Tries to create something in a directory. Only trying shows whether that is possible: the file system may
/// be read-only or full, also for root.
pub fn try_to_make_in(directory: &Path) -> std::io::Result<()> {
    let trial = directory.join(format!("flashlab-trial-{}", std::process::id()));
    std::fs::create_dir(&trial)?;
    std::fs::remove_dir(&trial)
}

/// The manifest of a run that this command begins now.
pub fn manifest<S>(kind: FolderKind, settings: S, identity: Identity, consent: String) -> Manifest<S> {
    Manifest {
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ..Manifest::new(kind, settings, identity, consent)
    }
}

/// Creates the folder at `output`, or in `flashlab-runs` with a name from the time and the target.
pub fn create<S: Serialize>(
    output: Option<&Path>,
    manifest: &Manifest<S>,
    target: &str,
    content: Content,
) -> Result<RunFolder> {
    let create = |path: &Path| match content {
        Content::Samples => RunFolder::create(path, manifest),
        Content::Documents => RunFolder::create_for_documents(path, manifest),
    };
    if let Some(path) = output {
        return Ok(create(path)?);
    }
    name_unfinished();
    let name = format!("{}-{}", manifest.started.replace(':', "-"), short_name(target));
    let mut path = Path::new(RUNS).join(&name);
    // Two runs may start in the same second.
    for number in 2.. {
        match create(&path) {
            Err(SamplesError::Exists { .. }) => path.set_file_name(format!("{name}-{number}")),
            result => return Ok(result?),
        }
    }
    unreachable!("some number is free")
}

/// Opens a folder of any kind. Refuses one that is not finished, and one with a file that is missing, damaged or not listed.
pub fn finished(path: &Path) -> Result<RunFolder> {
    let (folder, manifest) = RunFolder::open::<IgnoredAny>(path, FolderKind::ALL)?;
    require_finished(&manifest, path)?;
    Ok(folder)
}

/// Refuses a folder that is not finished: its figures would be those of a part.
pub fn require_finished<S>(manifest: &Manifest<S>, folder: &Path) -> Result<()> {
    match manifest.unfinished(folder) {
        Some(left) => bail!(Usage(format!("{} is unfinished: {left}", folder.display()))),
        None => Ok(()),
    }
}

/// Says that a folder is not finished where its table or document goes to a program: people read it in the report.
pub fn tell_unfinished<S>(manifest: &Manifest<S>, folder: &Path) {
    if let Some(left) = manifest.unfinished(folder) {
        tell!("warning: {} is unfinished: {left}", folder.display());
    }
}

/// Says where the measurement is that ended before its end, and how to go on.
pub fn tell_kept<S>(manifest: &Manifest<S>, folder: &Path) {
    let path = folder.display();
    let word = shell_word(&path.to_string());
    tell!("what was measured is in {path}; see it with: flashlab report {word}");
    match manifest.can_be_resumed() {
        true => tell!("resume with: flashlab resume {word}"),
        false => tell!(
            "it cannot be resumed: run its command again with another --output: {}",
            manifest.command.join(" ")
        ),
    }
}

/// Renames what a killed flashlab left in a folder that is continued, and names it.
pub fn set_aside(folder: &RunFolder) -> Result<()> {
    for aside in folder.set_aside()? {
        tell!("set aside {}: {}", aside.path.display(), aside.reason);
    }
    Ok(())
}

/// Names the folders that a killed flashlab left unfinished among those without a given name.
fn name_unfinished() {
    let mut paths: Vec<_> = std::fs::read_dir(RUNS).into_iter().flatten().flatten().collect();
    paths.sort_by_key(std::fs::DirEntry::file_name);
    for path in paths.into_iter().map(|entry| entry.path()) {
        let Ok(manifest) = RunFolder::any_manifest(&path) else { continue };
        let Some(left) = manifest.unfinished(&path) else { continue };
        if !RunFolder::is_in_use(&path) {
            tell!("{} is unfinished: {left}", shell_word(&path.display().to_string()));
        }
    }
}

/// The target as a name of letters, digits, `-` and `_`.
fn short_name(target: &str) -> String {
    let name = match target.parse() {
        _ if target == Settings::SCRATCH => "scratch".to_owned(),
        Ok(Target::Simulated(target)) => {
            format!("sim-{}", stem(target.to_string().trim_start_matches("sim:")))
        }
        _ => stem(target),
    };
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

fn stem(path: &str) -> String {
    Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or("target").to_owned()
}
