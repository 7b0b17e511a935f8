//! What a model comes from: its own document, the folder of a run, or what fio wrote.

use std::path::Path;

use anyhow::{Result, bail};
use flashlab_base::Identity;
use flashlab_input::InputKind;
use flashlab_model::{DeviceModel, MODEL_VERSION, ModelSource, RunPoint, fio_points, read_model, run_points};
use flashlab_samples::RunFolder;

use crate::exit::Usage;
use crate::run_folder;

/// The document in a run's folder.
pub const DOCUMENT: &str = "model.json";

/// The model of a document, of a folder with one, of a run, or of what fio wrote.
pub fn model(path: &Path) -> Result<DeviceModel> {
    // The folder of a model of fio's output has no manifest.
    if path.join("manifest.json").exists() {
        run_folder::check_finished(path)?;
    }
    let document = if path.is_dir() { path.join(DOCUMENT) } else { path.to_owned() };
    if !document.is_file() {
        return fitted(path);
    }
    let text = text(&document)?;
    if is_of_fio(path, &text) {
        return fitted(path);
    }
    Ok(read_model(&text, &document.display().to_string())?)
}

/// The model of a run, or of what fio wrote, fitted now.
pub fn fitted(path: &Path) -> Result<DeviceModel> {
    let name = path.display().to_string();
    if path.is_file() {
        let text = text(path)?;
        if !is_of_fio(path, &text) {
            return Ok(read_model(&text, &name)?);
        }
        let identity =
            Identity { target: name.clone(), kind: "measured by fio".to_owned(), ..Identity::default() };
        return fit(identity, name.clone(), fio_points(&text, &name)?);
    }
    let manifest = RunFolder::any_manifest(path)?;
    run_folder::require_finished(&manifest, path)?;
    fit(manifest.identity, name, run_points(path)?)
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

/// Whether a file is something to fit and no device or document: fio's JSON, or a log of it.
pub fn is_measured_elsewhere(path: &Path) -> bool {
    let is_log = path.extension().is_some_and(|extension| extension == "log" || extension == "json");
    path.is_file() && is_log
}

fn is_of_fio(path: &Path, text: &str) -> bool {
    path.extension().is_some_and(|extension| extension == "log") || text.contains("\"fio version\"")
}

fn text(path: &Path) -> Result<String> {
    Ok(flashlab_input::read_text(path, InputKind::MODEL)
        .map_err(|error| Usage(format!("cannot read {}: {error}", path.display())))?)
}
