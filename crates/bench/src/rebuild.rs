//! Computes the findings of a run from its folder alone.

use std::path::Path;

use flashlab_analysis::findings::{Findings, Traces};
use flashlab_plan::Plan;
use flashlab_samples::{RunFolder, SamplesError};
use serde::de::IgnoredAny;

use crate::error::BenchError;
use crate::manifest::{BenchManifest, plans};
use crate::settings::Settings;
use crate::{examine, plausible, store};

/// Computes the findings of the run in this folder, complete or not.
///
/// # Errors
/// If the folder contains no run, or its files are damaged.
pub fn rebuild(path: &Path) -> Result<(Findings, Traces), BenchError> {
    let (folder, manifest, plans) = open_run(path)?;
    let torn = folder.torn_segments()?;
    let records = store::records(&folder)?;
    let context = examine::Context {
        manifest: &manifest,
        plans: &plans,
        records: &records,
        torn: torn.iter().map(|path| path.display().to_string()).collect(),
    };
    examine::examine(&folder.segment_index()?, &context)
}

/// The document of a sweep, whose folder contains a run for each point.
pub const SWEEP: &str = "sweep.json";

/// What is wrong with a folder that could not be opened as that of a run: it may be whole, and of a verb with other settings.
fn of_another_verb(path: &Path, error: SamplesError) -> SamplesError {
    match RunFolder::open::<IgnoredAny>(path) {
        Ok((_, manifest)) => {
            let command = manifest.command.join(" ");
            let message = format!(
                "contains no run of bench, run or model fit: it was made by `{command}`; flashlab report shows it"
            );
            SamplesError::Folder { path: path.to_owned(), message }
        }
        Err(_) => error,
    }
}

/// The run in this folder, complete or not: its files, its manifest and its plans.
///
/// # Errors
/// If the folder contains no run, or its manifest has impossible values.
pub fn open_run(path: &Path) -> Result<(RunFolder, BenchManifest, Vec<Plan>), BenchError> {
    let (folder, manifest) =
        RunFolder::open::<Settings>(path).map_err(|error| of_another_verb(path, error))?;
    if path.join(SWEEP).is_file() {
        let message =
            format!("contains a sweep: give one of its runs, as {}", path.join("point-001").display());
        return Err(SamplesError::Folder { path: path.to_owned(), message }.into());
    }
    plausible::manifest(path, &manifest)?;
    let plans = plans(path, &manifest)?;
    Ok((folder, manifest, plans))
}
