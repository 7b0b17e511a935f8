//! Computes the findings of a run from its folder alone.

use std::path::Path;

use flashlab_analysis::findings::{Findings, Traces};
use flashlab_plan::Plan;
use flashlab_samples::{FolderKind, RunFolder};

use crate::error::BenchError;
use crate::manifest::{BenchManifest, plans};
use crate::settings::Settings;
use crate::{examine, plausible, store};

/// Computes the findings of the run in this folder, complete or not.
///
/// # Errors
/// If the folder contains no run, or its files are damaged.
pub fn rebuild(path: &Path) -> Result<(Findings, Traces), BenchError> {
    rebuild_opened(&open_run(path)?)
}

/// As [`rebuild`], of a run that is open already.
pub(crate) fn rebuild_opened(
    (folder, manifest, plans): &(RunFolder, BenchManifest, Vec<Plan>),
) -> Result<(Findings, Traces), BenchError> {
    let torn = folder.torn_segments()?;
    let records = store::records(folder)?;
    let context = examine::Context {
        manifest,
        plans,
        records: &records,
        torn: torn.iter().map(|path| path.display().to_string()).collect(),
        unfinished: manifest.unfinished(folder.path()),
    };
    examine::examine(&folder.segment_index(), &context)
}

/// The run in this folder, finished or not: its files, its manifest and its plans.
///
/// # Errors
/// If the folder contains no run, its manifest has impossible values, or a file of samples is missing, damaged or not listed.
pub fn open_run(path: &Path) -> Result<(RunFolder, BenchManifest, Vec<Plan>), BenchError> {
    checked(path, RunFolder::open::<Settings>(path, FolderKind::BENCHMARKS)?)
}

/// As [`open_run`], for a run that is continued: runs whose samples are missing or damaged are measured again.
///
/// # Errors
/// If the folder contains no run, or its manifest has impossible values.
pub fn open_run_to_resume(path: &Path) -> Result<(RunFolder, BenchManifest, Vec<Plan>), BenchError> {
    checked(path, RunFolder::open_unverified::<Settings>(path, &[FolderKind::Bench])?)
}

fn checked(
    path: &Path,
    (folder, manifest): (RunFolder, BenchManifest),
) -> Result<(RunFolder, BenchManifest, Vec<Plan>), BenchError> {
    plausible::manifest(path, &manifest)?;
    let plans = plans(path, &manifest)?;
    Ok((folder, manifest, plans))
}
