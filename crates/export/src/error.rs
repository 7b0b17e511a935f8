//! Why a disk is not served.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use flashlab_base::Bytes;
use flashlab_host::HostError;
use flashlab_samples::SamplesError;
use flashlab_sim::ProfileError;

/// Why a disk is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A key is unknown, or its value is wrong.
    #[error("{0}")]
    Key(String),
    /// The profile describes no possible device.
    #[error("{0}")]
    Profile(#[from] ProfileError),
    /// The saved state belongs to another device, or is damaged.
    #[error("the state cannot be used: {0}")]
    State(String),
    /// The data and the device's tables need more memory than is free.
    #[error(
        "a disk of {capacity}, with {tables} of tables, does not fit into the {available} of memory that are free: \
         give a smaller --capacity, keep the data in a file with --backing FILE, or keep none with --no-data"
    )]
    Memory {
        /// The capacity of the disk.
        capacity: Bytes,
        /// The size of the device's tables.
        tables: Bytes,
        /// The free memory.
        available: Bytes,
    },
    /// The backing file contains a disk of another size.
    #[error("{}: {}; give that --capacity, or another --backing file", .0.display(), .1)]
    Size(PathBuf, String),
    /// flashlab did not make the backing file.
    #[error(
        "{} exists and was not made by flashlab serve{}: programs that use the disk would write over it; give another file{}",
        .path.display(), content(.carries), overwriting(.carries)
    )]
    NotMadeByFlashlab {
        /// The file.
        path: PathBuf,
        /// The formats that it contains; empty if none is known.
        carries: String,
    },
    /// The file beside the backing file is none that a server wrote.
    #[error(
        "{} is not the state of a disk that this version of flashlab serve wrote, and would be lost: move it away, or give \
         another --backing file", .0.display()
    )]
    NoState(PathBuf),
    /// The guard of `host` refused, or a file could not be opened.
    #[error("{0}")]
    Host(#[from] HostError),
    /// The control socket cannot be made at this path.
    #[error("cannot make the control socket {}: {}", .0.display(), control_socket_advice(.1))]
    Control(PathBuf, #[source] io::Error),
    /// The recording cannot be made or finished.
    #[error("{0}")]
    Record(#[source] SamplesError),
    /// The backing file is a directory, a device or a pipe.
    #[error("{} is no regular file: a backing file is one", .0.display())]
    NoFile(PathBuf),
    /// The operating system refused.
    #[error("cannot {action} {what}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

fn content(carries: &str) -> String {
    if carries.is_empty() { String::new() } else { format!(", and it contains: {carries}") }
}

/// A file that somebody filled is not offered for overwriting.
fn overwriting(carries: &str) -> &'static str {
    if carries.is_empty() {
        ", or --overwrite-file, if nothing behind its beginning is needed: the beginning is blank"
    } else {
        ""
    }
}

fn control_socket_advice(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "something of that name exists that no killed server left: another server listens there, or it is no socket; \
             give another --control path".to_owned()
        }
        _ => error.to_string(),
    }
}

impl ExportError {
    /// A saved state fixes the size of its device.
    pub const STATE_AND_SIZE: &str =
        "--capacity makes another device than the one that the state is of: leave out one of them";

    /// Adds the attempt to an error of the operating system.
    pub(crate) fn io(action: &'static str, what: impl fmt::Display) -> impl FnOnce(io::Error) -> ExportError {
        move |source| ExportError::Io { action, what: what.to_string(), source }
    }

    /// The error of [`DataStore::file`](crate::DataStore::file) on this path.
    pub(crate) fn backing_file(path: &Path, source: io::Error) -> ExportError {
        match source.kind() {
            ErrorKind::InvalidInput => ExportError::Size(path.to_owned(), source.to_string()),
            _ => ExportError::Io { action: "open", what: path.display().to_string(), source },
        }
    }
}
