//! What a model comes from: its own document, the folder of a run, or what fio wrote.

use std::path::Path;

use anyhow::{Result, bail};
use flashlab_base::Identity;
use flashlab_input::{FileContent, InputKind};
use flashlab_model::{
    DeviceModel, FioPoints, MODEL_VERSION, ModelSource, RunPoint, fio_points, read_model, run_points,
};
use flashlab_report::shell_word;
use flashlab_samples::{FolderKind, RunFolder};
use serde::de::IgnoredAny;

use crate::exit::Usage;
use crate::output_part::folder_of;
use crate::{files, run_folder};

/// The document in a run's folder.
pub const DOCUMENT: &str = "model.json";

/// The model of a document, of a folder with one, of a run, or of what fio wrote.
pub fn model(path: &Path) -> Result<DeviceModel> {
    let folder = match path.file_name() {
        Some(name) if name == DOCUMENT && path.is_file() => folder_of(path),
        _ => path,
    };
    let document = if path.is_dir() { path.join(DOCUMENT) } else { path.to_owned() };
    if !document.is_file() {
        return fitted(path);
    }
    if !is_of_a_measurement(folder) {
        return of_file(&document);
    }
    let measured = run_folder::finished(folder)?;
    let model = of_file(&document)?;
    if model.fitted_to.files_crc32 != Some(measured.files_crc32()?) {
        let ModelSource { source, identity, .. } = &model.fitted_to;
        let folder = folder.display();
        bail!(Usage(format!(
            "{} is not the model of this folder's samples: it was fitted to {source}, a measurement of {}; put the folder's own model \
             back, or make it again with flashlab model fit {}",
            document.display(),
            identity.target,
            shell_word(&folder.to_string())
        )));
    }
    Ok(model)
}

/// Whether a folder has a measurement. The folder of a model of fio's output has neither runs nor a manifest. A manifest that is
/// lost is damage.
pub fn is_of_a_measurement(folder: &Path) -> bool {
    let lists = ["manifest.json", "runs.jsonl", "files.jsonl"];
    lists.iter().any(|name| folder.join(name).symlink_metadata().is_ok())
}

/// The model of a run, or of what fio wrote, fitted now.
pub fn fitted(path: &Path) -> Result<DeviceModel> {
    if path.is_file() {
        return of_file(path);
    }
    // The files are verified when the points are computed from them.
    let (folder, manifest) = RunFolder::open_unverified::<IgnoredAny>(path, FolderKind::ALL)?;
    run_folder::require_finished(&manifest, path)?;
    fit(manifest.identity, path.display().to_string(), Some(folder.files_crc32()?), run_points(path)?)
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
    fit(identity, name, None, points)
}

/// The error for a file that holds something else.
pub fn foreign(name: &str, content: FileContent) -> Usage {
    files::holds_other(name, content, "model, no run and no output of fio")
}

/// Whether what a file holds is fitted, and not measured as a device.
pub fn is_measurement(content: FileContent) -> bool {
    content.is_of_fio() || content == FileContent::Model
}

/// The model of points, of a folder with this list of files.
pub fn fit(
    identity: Identity,
    source: String,
    files_crc32: Option<String>,
    points: Vec<RunPoint>,
) -> Result<DeviceModel> {
    if points.is_empty() {
        bail!(Usage(format!(
            "{source} has no finished run that a model is fitted to: one of sequential or random IOs of one size, one after the \
             other; flashlab model fit TARGET makes one"
        )));
    }
    let flashlab = env!("CARGO_PKG_VERSION").to_owned();
    let version = MODEL_VERSION;
    Ok(DeviceModel::fit(ModelSource {
        version,
        flashlab,
        identity,
        source,
        files_crc32,
        points,
        bursts: Vec::new(),
    })?)
}
