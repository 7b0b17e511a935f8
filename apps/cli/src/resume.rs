//! `flashlab bench --resume`: going on with a run, as it was begun, on the device that it was begun on.

use std::path::Path;

use anyhow::{Result, bail};
use flashlab_base::Identity;
use flashlab_bench::{Manifest, Settings};
use flashlab_samples::RunFolder;

use crate::exit::Usage;
use crate::selection::Selection;
use crate::session::Session;
use crate::target::{Candidate, Opened, Opening};
use crate::{args, inference_run, scratch};

/// Goes on with the run in this folder.
pub fn resume(run: &Path, target: &args::Target, json: bool) -> Result<()> {
    inference_run::refuse(run)?;
    let (folder, manifest, plans) = flashlab_bench::open_run(run)?;
    let selection = Selection { texts: manifest.plans.clone(), plans };
    let opening = Opening::as_before(&manifest.identity, selection.depth());
    if manifest.settings.target == Settings::SCRATCH {
        return on_scratch(folder, manifest, opening, target.keep_file, json);
    }
    let name = manifest.settings.target.clone();
    let candidate = Candidate::find(&name, selection.writes(&manifest.settings), target)?;
    check_same(run, &name, &manifest.identity, &candidate.identity())?;
    let mut opened = candidate.open(opening)?;
    Session::resumed(folder, manifest, json)?.measure(&mut opened.device)
}

/// The file that was measured is gone; another one in the same place has the same disk beneath.
fn on_scratch(folder: RunFolder, manifest: Manifest, opening: Opening, keep: bool, json: bool) -> Result<()> {
    let (size, seed) = (manifest.settings.target_size, manifest.settings.seed);
    let (scratch, name) = scratch::make_again(&manifest.identity, size, seed)?;
    let Opened { mut device, .. } = scratch::open(&scratch, opening)?;
    check_same(folder.path(), &name, &manifest.identity, &device.as_mut().identity())?;
    let mut session = Session::resumed(folder, manifest, json)?;
    session.prepared(scratch.size())?;
    let measured = session.measure(&mut device);
    scratch::end(scratch, keep)?;
    measured
}

/// Refuses to mix two devices, or two files, in a run.
pub fn check_same(run: &Path, name: &str, before: &Identity, now: &Identity) -> Result<()> {
    let distinct = |identity: &Identity| {
        let Identity { model, serial, capacity, backing_device, .. } = identity.clone();
        (model, serial, capacity, backing_device)
    };
    // A run of an older flashlab does not know its file.
    let is_another_file = before.file.is_some() && now.file.is_some() && before.file != now.file;
    if is_another_file || distinct(before) != distinct(now) {
        let about = |identity: &Identity| {
            let known = [&identity.model, &identity.serial, &identity.backing_device, &identity.file];
            let known: Vec<&str> = known.into_iter().flatten().map(String::as_str).collect();
            format!("{} {}", known.join(" "), identity.capacity).trim().to_owned()
        };
        let kind = if is_another_file { "file" } else { "device" };
        bail!(Usage(format!(
            "{name} is now another {kind} ({}) than {} was begun on ({}): put that one back, or begin a new run",
            about(now),
            run.display(),
            about(before)
        )));
    }
    Ok(())
}
