//! Errors of reading and writing a run's files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a run's files cannot be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SamplesError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// What was tried, as `write`.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// A file has the wrong content.
    #[error("{}: {message}", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The name for the folder of a new run is taken.
    #[error("{} already exists: {advice}", path.display())]
    Exists {
        /// Which name.
        path: PathBuf,
        /// What to do: with what it lacks, if it is an unfinished folder.
        advice: String,
    },
    /// A folder contains no run, or another process is measuring into it.
    #[error("{}: {message}", path.display())]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// What is wrong and what to do.
        message: String,
    },
    /// The writer thread is gone.
    #[error("the thread that writes the samples has ended")]
    WriterGone,
}

impl SamplesError {
    /// Whether another request would succeed, and not the same one later.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            SamplesError::Exists { .. } | SamplesError::Folder { .. } | SamplesError::Format { .. } => true,
            SamplesError::Io { action, source, .. } => {
                *action == "read" && source.kind() == io::ErrorKind::NotFound
            }
            SamplesError::WriterGone => false,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> SamplesError {
        SamplesError::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn format(path: &Path, message: impl fmt::Display) -> SamplesError {
        SamplesError::Format { path: path.to_owned(), message: message.to_string() }
    }
}

/// What the user can do about an error of the operating system.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; free some space, or begin a run elsewhere with --output",
        _ => "",
    }
}
