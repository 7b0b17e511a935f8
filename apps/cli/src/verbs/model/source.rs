//! What a model comes from: its own document, the folder of a run, or what fio wrote.

use std::path::Path;

use anyhow::{Result, bail};
use flashlab_base::Identity;
use flashlab_input::{FileContent, InputKind};
use flashlab_model::{
    DeviceModel, FioPoints, MODEL_VERSION, ModelSource, RunPoint, fio_points, read_model, run_points,
};
use flashlab_samples::RunFolder;

use crate::exit::Usage;
use crate::{files, run_folder};

/// The document in a run's folder.
pub const DOCUMENT: &str = "model.json";

/// The model of a document, of a folder with one, of a run, or of what fio wrote.
pub fn model(path: &Path) -> Result<DeviceModel> {
    // The folder of a model of fio's output has neither runs nor a manifest. A manifest that is lost is damage.
    let lists = ["manifest.json", "runs.jsonl", "files.jsonl"];
    let is_measurement = lists.iter().any(|name| path.join(name).symlink_metadata().is_ok());
    if is_measurement {
        run_folder::check_finished(path)?;
    }
    let document = if path.is_dir() { path.join(DOCUMENT) } else { path.to_owned() };
    if document.is_file() { of_file(&document) } else { fitted(path) }
}

/// The model of a run, or of what fio wrote, fitted now.
pub fn fitted(path: &Path) -> Result<DeviceModel> {
    if path.is_file() {
        return of_file(path);
    }
    let manifest = RunFolder::any_manifest(path)?;
    run_folder::require_finished(&manifest, path)?;
    fit(manifest.identity, path.display().to_string(), run_points(path)?)
}

/// The model in a file: a document, or what fio wrote.
fn of_file(path: &Path) -> Result<DeviceModel> {
    let name = path.display().to_string();
    let unreadable = |error| Usage(format!("cannot read {name}: {error}"));
    let content = FileContent::of_file(path).map_err(unreadable)?;
    if matches!(content, FileContent::Model | FileContent::Json) {
        return Ok(read_model(
            &flashlab_input::read_text(path, InputKind::MODEL).map_err(unreadable)?,
            &name,
        )?);
    }
    if !content.is_of_fio() || content == FileContent::FioCompressedLog {
        bail!(foreign(&name, content));
    }
    let text = flashlab_input::read_text(path, InputKind::MODEL).map_err(unreadable)?;
    let FioPoints { points, notes } = fio_points(&text, &name)?;
    notes.iter().for_each(|note| tell!("warning: {note}"));
    let identity =
        Identity { target: name.clone(), kind: "measured by fio".to_owned(), ..Identity::default() };
    fit(identity, name, points)
}

/// The error for a file that holds something else.
pub fn foreign(name: &str, content: FileContent) -> Usage {
    files::holds_other(name, content, "model, no run and no output of fio")
}

/// Whether what a file holds is fitted, and not measured as a device.
pub fn is_measurement(content: FileContent) -> bool {
    content.is_of_fio() || content == FileContent::Model
}

/// The model of points.
pub fn fit(identity: Identity, source: String, points: Vec<RunPoint>) -> Result<DeviceModel> {
    if points.is_empty() {
        bail!(Usage(format!(
            "{source} has no finished run that a model is fitted to: one of sequential or random IOs of one size, one after the \
             other; flashlab model fit TARGET makes one"
        )));
    }
    let flashlab = env!("CARGO_PKG_VERSION").to_owned();
    Ok(DeviceModel::fit(ModelSource { version: MODEL_VERSION, flashlab, identity, source, points })?)
}
