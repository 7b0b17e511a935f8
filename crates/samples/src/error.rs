//! What can go wrong with a run's files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a run's files cannot be written or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum SamplesError {
    /// The operating system refused.
    Io {
        /// What was tried, as `write`.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// A file is not what it should be.
    Format {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// There is something where the folder of a new run was to be.
    Exists {
        /// Which name.
        path: PathBuf,
    },
    /// A folder holds no run, or somebody else measures into it.
    Folder {
        /// Which folder.
        path: PathBuf,
        /// What is wrong and what to do.
        message: String,
    },
    /// The writer thread is gone.
    WriterGone,
}

impl SamplesError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> SamplesError {
        SamplesError::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn format(path: &Path, message: impl fmt::Display) -> SamplesError {
        SamplesError::Format { path: path.to_owned(), message: message.to_string() }
    }
}

impl fmt::Display for SamplesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SamplesError::Io { action, path, source } => {
                write!(f, "cannot {action} {}: {source}", path.display())?;
                if source.kind() == io::ErrorKind::StorageFull {
                    f.write_str("; make room, or begin a run elsewhere with --output")?;
                }
                Ok(())
            }
            SamplesError::Format { path, message } => write!(f, "{}: {message}", path.display()),
            SamplesError::Exists { path } => write!(
                f,
                "{} is there already: choose another name with --output, or continue its run with flashlab resume",
                path.display()
            ),
            SamplesError::Folder { path, message } => write!(f, "{}: {message}", path.display()),
            SamplesError::WriterGone => f.write_str("the thread that writes the samples has ended"),
        }
    }
}

impl std::error::Error for SamplesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SamplesError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
