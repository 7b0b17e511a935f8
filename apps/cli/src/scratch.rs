//! The scratch file that is measured if the user names no target.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use flashlab_base::{Bytes, Identity, Seed};
use flashlab_bench::Progress;
use flashlab_host::ScratchFile;

use crate::exit::Usage;
use crate::interrupt::interrupt;
use crate::progress::Bar;
use crate::run_folder::try_to_make_in;
use crate::target::{OpenDevice, Opened, Opening, warnings};

/// The size of a scratch file where none is given.
pub const SIZE: Bytes = Bytes::gib(1);
/// Its size is a multiple of this.
pub const UNIT: Bytes = Bytes::kib(4);

/// The directory of a scratch file. The path is absolute, so that a run can be resumed from another
/// directory.
pub fn directory(given: Option<&Path>) -> Result<PathBuf> {
    let given = given.unwrap_or(Path::new("."));
    let found = given.canonicalize().and_then(|found| {
        try_to_make_in(&found)?;
        Ok(found)
    });
    let found = found.map_err(|error| {
        let given = given.display();
        Usage(format!(
            "no scratch file can be made in {given}: {error}; choose another place with --directory"
        ))
    })?;
    Ok(found)
}

/// The directory that the scratch file of a run was in.
fn directory_of(identity: &Identity) -> Result<PathBuf> {
    directory(identity.target.strip_prefix("scratch file in ").map(Path::new))
}

/// Says which file will be made.
pub fn announce(size: Bytes, directory: &Path, is_kept: bool) {
    let end = if is_kept { "kept" } else { "removed" };
    tell!("scratch file: {size} in {}, filled completely, {end} at the end", directory.display());
}

/// The identity of the file before it is created.
pub fn identity(size: Bytes) -> Identity {
    Identity { target: "a scratch file".to_owned(), capacity: size, ..Identity::default() }
}

/// Makes and fills the file.
pub fn make(
    directory: &Path,
    size: Bytes,
    seed: Seed,
    interrupt: &AtomicBool,
    bar: &Bar,
) -> Result<ScratchFile> {
    for stale in flashlab_host::stale_scratch_files(directory)? {
        bar.say(&format!("{} was left by a flashlab that was killed; it may be removed", stale.display()));
    }
    bar.step("filling the scratch file");
    let scratch = ScratchFile::create(directory, size, seed, &mut |written| {
        bar.share(written.0 as f64 / size.0 as f64);
        if interrupt.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(scratch)
}

/// Creates another scratch file in the directory of an earlier run's, on the same disk. Also returns the name
/// of the directory.
pub fn recreate(before: &Identity, size: Bytes, seed: Seed) -> Result<(ScratchFile, String)> {
    let directory = directory_of(before)?;
    flashlab_host::check_room(&directory, size)?;
    tell!("making another scratch file of {size} in {}", directory.display());
    let scratch = make(&directory, size, seed, &*interrupt()?, &Bar::new())?;
    Ok((scratch, directory.display().to_string()))
}

/// Opens it for measuring.
pub fn open(scratch: &ScratchFile, opening: Opening) -> Result<Opened> {
    let consent = scratch.consent();
    let given = consent.to_string();
    let options = opening.options(Some(consent), Some(scratch.description()));
    let device = flashlab_host::open(scratch.path(), &options)?;
    let inspection = flashlab_host::inspect(scratch.path())?;
    let mut warnings = warnings(device.as_ref(), &inspection);
    // The path leads to the file only in this process.
    let path = inspection.path.display().to_string();
    warnings.iter_mut().for_each(|(_, message)| *message = message.replace(&path, &scratch.description()));
    Ok(Opened { device: OpenDevice::Real(device), consent: given, warnings })
}

/// Gives the file a name if it is to be kept; otherwise it is removed when it is dropped.
pub fn end(scratch: ScratchFile, keep: bool) -> Result<()> {
    if keep {
        let kept = scratch.keep(&format!("flashlab-scratch-kept-{}.bin", std::process::id()))?;
        tell!("kept {}", kept.display());
    }
    Ok(())
}
