//! Reads files that a user names, such as plans and profiles, in full.
//!
//! # Invariants
//! - It does not wait forever and does not read without an end, for example on a pipe without a writer or on
//!   a device named by mistake.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use flashlab_base::Bytes;

/// Larger than any plan or profile.
const LARGEST_TEXT: Bytes = Bytes::mib(1);

/// The content of a regular file of at most `at_most` bytes. `kind` is what the file should be, for example
/// `state`.
///
/// # Errors
/// If it cannot be read, is not a regular file, or is larger.
pub fn read_file(path: &Path, kind: &str, at_most: Bytes) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(io::Error::other("it is a pipe or a device and not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(at_most.0.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > at_most.0 {
        true => Err(io::Error::other(format!("it is larger than {at_most}, as no {kind} is"))),
        false => Ok(bytes),
    }
}

/// The text of a regular file of at most 1 MiB. No plan and no profile is larger.
///
/// # Errors
/// As [`read_file`], and if it is not UTF-8 text.
pub fn read_text(path: &Path, kind: &str) -> io::Result<String> {
    String::from_utf8(read_file(path, kind, LARGEST_TEXT)?)
        .map_err(|_| io::Error::other("it is no text in UTF-8"))
}
