//! Reads and checks the files of an inference. Files with impossible values are refused.

use std::path::Path;

use anyhow::{Result, bail};
use flashlab_analysis::inference::{INFERENCE_VERSION, Inference};
use flashlab_base::Bytes;
use flashlab_infer::{Checkpoint, Known};
use flashlab_samples::seal::REMEDY;
use flashlab_samples::{FolderKind, Manifest, RunFolder, SamplesError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exit::Usage;
use crate::inference::settings::InferenceSettings;
use crate::run_folder;

/// What is known so far.
pub const INFERENCE: &str = "inference.json";
/// What only a resumed inference needs.
pub const CHECKPOINT: &str = "checkpoint.json";
/// The page.
pub const PAGE: &str = "report.html";
const UNDER_WAY: &str = "under-way.json";
const DAMAGED: &str = "the file is damaged";

/// Writes that [`INFERENCE`] may not contain yet. If an inference is killed, they count against the budget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct PendingWrites {
    version: u32,
    bytes_written: Bytes,
}

/// Opens a finished inference: its folder, its manifest, and its findings.
pub fn open(path: &Path) -> Result<(RunFolder, Manifest<InferenceSettings>, Inference)> {
    let (folder, manifest, known) = open_unfinished(path)?;
    run_folder::require_finished(&manifest, path)?;
    Ok((folder, manifest, known))
}

/// As [`open`], of an inference that may lack findings: for those who say so.
pub fn open_unfinished(path: &Path) -> Result<(RunFolder, Manifest<InferenceSettings>, Inference)> {
    let (folder, manifest) =
        RunFolder::open(path, &[FolderKind::Inference]).map_err(|error| damaged(error, "begin a new run"))?;
    let known: Inference = read(&folder, INFERENCE, "begin a new run")?;
    check(path, &known)?;
    if known.identity != manifest.identity {
        bail!(Usage(format!(
            "{}: is of {}, and the folder of {}: restore it, or begin a new run",
            path.join(INFERENCE).display(),
            known.target,
            manifest.identity.target
        )));
    }
    let settings: &InferenceSettings = &manifest.settings;
    let most = flashlab_infer::InferenceSettings::usual_budget(settings.target_size);
    if let Some(budget) = settings.write_budget.filter(|&budget| budget > most) {
        bail!(Usage(format!(
            "{}: write_budget is {budget}, and no more than twice the capacity, {most}, is ever written: the file is damaged; \
             begin a new run",
            path.join("manifest.json").display()
        )));
    }
    Ok((folder, manifest, known))
}

/// What only a resumed inference needs.
pub fn checkpoint(folder: &RunFolder, document: &Inference) -> Result<Checkpoint> {
    let path = folder.path().join(CHECKPOINT);
    let advice = "begin a new run";
    let checkpoint: Checkpoint = read(folder, CHECKPOINT, advice)?;
    checkpoint
        .check(document.capacity)
        .map_err(|wrong| Usage(format!("{}: {wrong}; {advice}", path.display())))?;
    Ok(checkpoint)
}

/// Saves what is known. The checkpoint comes first: it may be ahead of the findings, and these may not be ahead of it.
pub fn write_known(folder: &RunFolder, known: &Known) -> Result<(), SamplesError> {
    folder.write_sealed(CHECKPOINT, &known.checkpoint)?;
    folder.write_sealed(INFERENCE, &known.document)
}

/// Adds the writes of a killed probe to the document. The file exists from the beginning: without it nobody knows what was written.
pub fn count_pending_writes(folder: &RunFolder, known: &mut Inference) -> Result<()> {
    let file = folder.path().join(UNDER_WAY);
    let advice = "begin a new run: what the probe under way wrote is not known without it";
    let under_way: PendingWrites = read(folder, UNDER_WAY, advice)?;
    if under_way.version != INFERENCE_VERSION {
        bail!(Usage(format!(
            "{}: has version {}, and this program reads version {INFERENCE_VERSION}; {advice}",
            file.display(),
            under_way.version
        )));
    }
    // If the process is killed again, both are counted.
    known.written = Bytes(known.written.0.saturating_add(under_way.bytes_written.0));
    check(folder.path(), known)?;
    folder.write_sealed(INFERENCE, known)?;
    folder.write_sealed(UNDER_WAY, &PendingWrites { bytes_written: Bytes::ZERO, ..under_way })?;
    Ok(())
}

/// Records writes that [`INFERENCE`] does not count yet.
pub fn write_pending(folder: &RunFolder, bytes_written: Bytes) -> Result<(), SamplesError> {
    folder.write_sealed(UNDER_WAY, &PendingWrites { version: INFERENCE_VERSION, bytes_written })
}

/// Reads a document of a run; `advice` says what to do if that fails.
fn read<T: DeserializeOwned>(folder: &RunFolder, name: &str, advice: &str) -> Result<T> {
    folder.read_sealed(name).map_err(|error| damaged(error, advice))
}

/// The error for a damaged document, with advice.
fn damaged(error: SamplesError, advice: &str) -> anyhow::Error {
    if !matches!(error, SamplesError::Format { .. }) {
        return error.into();
    }
    let error = error.to_string();
    if let Some(wrong) = error.strip_suffix(REMEDY) {
        return Usage(format!("{wrong}restore it, or {advice}")).into();
    }
    let error = error.trim_end_matches(DAMAGED).trim_end_matches([';', ':', ' ']);
    Usage(format!("{error}: {DAMAGED}; {advice}")).into()
}

/// Refuses a document with values that flashlab does not write.
fn check(path: &Path, known: &Inference) -> Result<()> {
    known.check().map_err(|wrong| {
        let advice = if wrong.ends_with(DAMAGED) { "; begin a new run" } else { "" };
        Usage(format!("{}: {wrong}{advice}", path.join(INFERENCE).display()))
    })?;
    Ok(())
}
