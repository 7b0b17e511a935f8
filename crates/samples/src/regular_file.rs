//! Opens the files of a run, which come from outside.
//!
//! Invariant: only regular files are opened, and read up to a bound.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use flashlab_input::InputKind;

use crate::{SamplesError, seal};

/// Opens a regular file for reading.
///
/// # Errors
/// If it is not a regular file, or cannot be opened.
pub(crate) fn open(path: &Path) -> Result<File, SamplesError> {
    flashlab_input::open(path).map_err(|error| failed(path, error))
}

/// The bytes of a regular file.
///
/// # Errors
/// As [`open`], and if it is larger than a file of its kind is.
pub(crate) fn bytes(path: &Path, kind: InputKind) -> Result<Vec<u8>, SamplesError> {
    flashlab_input::read(path, kind).map_err(|error| failed(path, error))
}

/// The text of a regular file.
///
/// # Errors
/// As [`bytes()`], and if it is not text.
pub(crate) fn text(path: &Path, kind: InputKind) -> Result<String, SamplesError> {
    String::from_utf8(bytes(path, kind)?).map_err(|error| {
        let byte = error.utf8_error().valid_up_to() + 1;
        SamplesError::format(path, format!("is no text in UTF-8: byte {byte} is none; the file is damaged"))
    })
}

/// What is no file of a run is damage, and not a failure of the system.
fn failed(path: &Path, error: io::Error) -> SamplesError {
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::IsADirectory | ErrorKind::FileTooLarge => {
            SamplesError::format(path, format!("{error}, and no file of a run; {}", seal::REMEDY))
        }
        ErrorKind::NotFound => SamplesError::format(path, format!("is missing; {}", seal::REMEDY)),
        _ => SamplesError::io("read", path, error),
    }
}
