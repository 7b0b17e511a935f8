//! What `flashlab view` shows: folders of runs of every kind, and files of samples.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Result;
use flashlab_bench::RunRecord;
use flashlab_samples::{FolderKind, Manifest, ProbeStep, RecordedRun, RunFolder};
use flashlab_view::{RunLabel, Source};
use serde::de::IgnoredAny;

/// The name of the file beside the samples that keeps what a large recording was summed up to.
const PYRAMID: &str = "samples.pyramid";
/// The kinds of folders that have samples of their own.
const WITH_SAMPLES: &[FolderKind] = &[
    FolderKind::Bench,
    FolderKind::ModelFit,
    FolderKind::ModelCheck,
    FolderKind::Inference,
    FolderKind::Recording,
];

/// Where the IOs of a run are, and what its folder says about them.
pub fn source(run: &Path) -> Result<Source> {
    let name = run.display().to_string();
    if run.is_file() {
        let segments = vec![run.to_owned()];
        return Ok(Source {
            name,
            verb: "file of samples".to_owned(),
            segments,
            pyramid_files: kept_pyramid(run),
            ..Source::default()
        });
    }
    // The segments are verified when they are summed up.
    let (folder, manifest) = RunFolder::open_unverified::<IgnoredAny>(run, WITH_SAMPLES)?;
    let mut notes: Vec<String> = manifest.warnings.iter().map(|(_, message)| message.clone()).collect();
    notes.extend(manifest.unfinished(run).map(|left| format!("unfinished: {left}")));
    let mut pyramid_files = kept_pyramid(run);
    if manifest.finished.is_some() {
        pyramid_files.insert(0, folder.path().join(PYRAMID));
    }
    Ok(Source {
        name,
        target: manifest.identity.target.clone(),
        verb: verb(&manifest),
        segments: folder.all_segments(),
        runs: labels(&folder, manifest.kind)?,
        notes,
        pyramid_files,
    })
}

/// The words of the command that are neither the program nor arguments.
fn verb(manifest: &Manifest<IgnoredAny>) -> String {
    let words = manifest
        .command
        .iter()
        .skip(1)
        .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    words.take(2).cloned().collect::<Vec<String>>().join(" ")
}

/// What each run was.
fn labels(folder: &RunFolder, kind: FolderKind) -> Result<Vec<RunLabel>> {
    Ok(match kind {
        FolderKind::Recording => folder
            .runs::<RecordedRun>()?
            .into_iter()
            .map(|run| RunLabel { run: run.run, name: run.name, io_ignore: 0 })
            .collect(),
        FolderKind::Inference => {
            let mut probe = String::new();
            let mut labels = Vec::new();
            for step in folder.runs::<ProbeStep>()? {
                match step {
                    ProbeStep::Begin { probe: name, .. } => probe = name,
                    ProbeStep::Run(run) => {
                        let name = format!("{probe}: {}", run.experiment);
                        labels.push(RunLabel { run: run.run, name, io_ignore: 0 });
                    }
                    _ => {}
                }
            }
            labels
        }
        _ => folder
            .runs::<RunRecord>()?
            .into_iter()
            .map(|run| RunLabel { run: run.run, name: run.purpose.to_string(), io_ignore: run.io_ignore })
            .collect(),
    })
}

/// A file in the user's cache folder, for a run whose folder cannot be written or is still written to.
fn kept_pyramid(run: &Path) -> Vec<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let path = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    // The stamps of the files in it decide whether it is used; the name has only to differ.
    let name = path.to_string_lossy().replace(['/', '%'], "%");
    let name: String = name.chars().rev().take(200).collect::<Vec<char>>().into_iter().rev().collect();
    cache.map(|cache| cache.join("flashlab/pyramids").join(format!("{name}.pyramid"))).into_iter().collect()
}
