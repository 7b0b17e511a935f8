//! Tells whether files are as they were: by their names, lengths and times of change.

use std::fs;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// A file of samples as it was when it was summed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    file: PathBuf,
    bytes: u64,
    changed_ns: u128,
}

/// The files of samples as they are now.
pub fn stamps(segments: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok();
        let changed = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Stamp {
            file: path.file_name().map(PathBuf::from).unwrap_or_default(),
            bytes: metadata.map_or(0, |metadata| metadata.len()),
            changed_ns: changed.map_or(0, |time| time.as_nanos()),
        }
    };
    segments.iter().map(stamp).collect()
}
