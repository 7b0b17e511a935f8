//! Opens the files of a run, which come from outside.
//!
//! Invariant: only regular files are opened. Opening a pipe waits for its writer, perhaps forever, and a
//! device may have no end.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::SamplesError;

/// Opens a regular file for reading.
///
/// # Errors
/// If it is not a regular file, or cannot be opened.
pub(crate) fn open(path: &Path) -> Result<File, SamplesError> {
    let failed = |source| SamplesError::io("read", path, source);
    if fs::metadata(path).map_err(failed)?.is_file() {
        return File::open(path).map_err(failed);
    }
    Err(SamplesError::format(path, "is no regular file: remove it, or put the run's own file back"))
}

/// The bytes of a regular file.
///
/// # Errors
/// As [`open`].
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, SamplesError> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(|source| SamplesError::io("read", path, source))?;
    Ok(bytes)
}

/// The text of a regular file.
///
/// # Errors
/// As [`open`], and if it is not text.
pub(crate) fn text(path: &Path) -> Result<String, SamplesError> {
    String::from_utf8(bytes(path)?).map_err(|error| {
        let byte = error.utf8_error().valid_up_to() + 1;
        SamplesError::format(path, format!("is no text in UTF-8: byte {byte} is none; the file is damaged"))
    })
}
