//! The list of a folder's files: `files.jsonl`.
//!
//! # Model
//! A line names a file that flashlab reads later, with its length and a CRC-32 of its content. It is appended when the file has its
//! final name. If a file has several lines, the last one counts. Files that are computed from others are not listed.
//!
//! # Invariants
//! - A file of samples or a probe's plan is read only if its line is there and its content is what the line notes.
//! - The list of a finished folder is complete: a file that is missing, and one that is not listed, are refused.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::{SamplesError, regular_file, seal};

/// The list's file.
pub(crate) const FILES: &str = "files.jsonl";

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedFile {
    /// Its path in the folder, as `samples/run-00001-00000.parquet`.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// The CRC-32 of its content, in eight hexadecimal digits.
    pub content_crc32: String,
}

impl ListedFile {
    pub fn new(file: String, bytes: u64, content_crc32: u32) -> ListedFile {
        ListedFile { file, bytes, content_crc32: format!("{content_crc32:08x}") }
    }

    /// The line of a file that exists.
    pub fn of(folder: &Path, file: &str) -> Result<ListedFile, SamplesError> {
        let (bytes, crc32) = measured(&folder.join(file))?;
        Ok(ListedFile::new(file.to_owned(), bytes, crc32))
    }

    /// Whether the line names a file in a directory of the folder, as all of flashlab's lines do.
    pub fn is_within_the_folder(&self) -> bool {
        let mut components = Path::new(&self.file).components();
        matches!(
            (components.next(), components.next(), components.next()),
            (Some(Component::Normal(_)), Some(Component::Normal(_)), None)
        )
    }

    /// Compares the file with its line.
    ///
    /// # Errors
    /// If it is missing, has another length or another content. The message names the file.
    pub fn verify(&self, folder: &Path) -> Result<(), SamplesError> {
        let path = folder.join(&self.file);
        let damaged = |wrong: String| {
            let message = format!("{wrong}: the file is damaged; {}", seal::REMEDY);
            SamplesError::format(&path, message)
        };
        if path.symlink_metadata().is_err() {
            let message = format!("is missing, and {FILES} lists it; {}", seal::REMEDY);
            return Err(SamplesError::format(&path, message));
        }
        let wrong_length =
            |bytes: u64| damaged(format!("has {bytes} bytes, and {FILES} notes {}", self.bytes));
        // A file that is much larger is not read.
        match regular_file::open(&path)?.metadata() {
            Ok(metadata) if metadata.len() != self.bytes => return Err(wrong_length(metadata.len())),
            _ => {}
        }
        let (bytes, crc32) = measured(&path)?;
        if bytes != self.bytes {
            return Err(wrong_length(bytes));
        }
        if format!("{crc32:08x}") != self.content_crc32 {
            return Err(damaged(format!(
                "its checksum is {crc32:08x}, and {FILES} notes {}",
                self.content_crc32
            )));
        }
        Ok(())
    }
}

/// The length of a file, and the CRC-32 of its content.
fn measured(path: &Path) -> Result<(u64, u32), SamplesError> {
    let mut file: File = regular_file::open(path)?;
    let (mut hasher, mut bytes, mut buffer) = (crc32fast::Hasher::new(), 0u64, vec![0; 1 << 18]);
    loop {
        let count = file.read(&mut buffer).map_err(|source| SamplesError::io("read", path, source))?;
        if count == 0 {
            return Ok((bytes, hasher.finalize()));
        }
        hasher.update(&buffer[..count]);
        bytes += count as u64;
    }
}
