//! Why a target cannot be opened, inspected or created. The error of an IO is in its completion
//! ([`IoError`](flashlab_device::IoError)).
//!
//! # Invariant
//! - A message contains the operating system's error, so no variant returns it as its source, too. It would be printed
//!   twice.

use std::io;
use std::path::{Path, PathBuf};

use flashlab_base::Bytes;
use thiserror::Error;

use crate::refusal::Refusal;
use crate::system;

/// Why a target cannot be opened, inspected or created.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostError {
    /// The operating system reported an error.
    #[error("cannot {attempt} {path}: {error}{advice}", path = .path.display(), advice = advice(.error))]
    System {
        /// What failed, for example `open` or `read the capacity of`.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The path leads to something that is neither a block device nor a regular file.
    #[error("{} is a {kind}: give a block device or a regular file (`flashlab devices` lists the devices)", .path.display())]
    NoTarget {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The target is empty, or smaller than one block.
    #[error("{} is smaller than one block: give a device with a medium in it, or a file with content", .path.display())]
    Empty {
        /// The path.
        path: PathBuf,
    },
    /// Writing to the target could destroy data.
    #[error("refusing to write to {}:{}", .path.display(), bullets(.refusals))]
    Refused {
        /// The path.
        path: PathBuf,
        /// Every reason that was found.
        refusals: Vec<Refusal>,
    },
    /// The typed or given name is not the target's.
    #[error("`{given}` does not name {}: expected {}; nothing was written", .path.display(), .expected.join(" or "))]
    ConsentMismatch {
        /// The target.
        path: PathBuf,
        /// The given name.
        given: String,
        /// The names that are accepted.
        expected: Vec<String>,
    },
    /// This kind of consent does not fit this kind of target.
    #[error("{} needs {needed} before it is written to", .path.display())]
    WrongConsent {
        /// The target.
        path: PathBuf,
        /// What the target takes.
        needed: &'static str,
    },
    /// The path no longer leads to what the consent was given for.
    #[error("{} is no longer what it was when you consented to its being overwritten: look at it again (`flashlab \
         devices`) and start again; nothing was written", .path.display())]
    TargetChanged {
        /// The path.
        path: PathBuf,
    },
    /// Another program has the file locked, as one that measures it does.
    #[error("{} is in use by another flashlab, or another program has it locked: wait until that has ended, or choose \
         another file", .path.display())]
    Locked {
        /// The path.
        path: PathBuf,
    },
    /// The kernel does not offer io_uring to this process.
    #[error(
        "the kernel offers no io_uring here ({error}): use the synchronous engine, or allow it (sysctl \
         kernel.io_uring_disabled=0, or the container's seccomp profile)"
    )]
    NoRing {
        /// The operating system's error.
        error: io::Error,
    },
    /// The engine with threads cannot start one.
    #[error(
        "cannot start a thread for the IOs ({error}): raise the limit of threads (ulimit -u, or the cgroup's pids.max)"
    )]
    NoThread {
        /// The operating system's error.
        error: io::Error,
    },
    /// The queue depth is out of range.
    #[error("a queue depth of {asked} is not possible: choose one from 1 to {most}")]
    Depth {
        /// The requested depth.
        asked: u32,
        /// The largest possible depth.
        most: u32,
    },
    /// The file system has too little room for a scratch file.
    #[error("too little space for a file of {needed} in {}: {free} are free there, and {reserve} have to stay free; free some \
         space, take another directory, or less data", .directory.display())]
    NoSpace {
        /// The directory.
        directory: PathBuf,
        /// How large the file was to be.
        needed: Bytes,
        /// How much is free for this user.
        free: Bytes,
        /// How much of the free space flashlab does not use.
        reserve: Bytes,
    },
    /// The caller's progress function asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl HostError {
    pub(crate) fn system(attempt: &'static str, path: &Path, error: io::Error) -> HostError {
        HostError::System { attempt, path: path.to_owned(), error }
    }
}

/// The refusals as a list, one per line.
fn bullets(refusals: &[Refusal]) -> String {
    refusals.iter().map(|refusal| format!("\n  - {refusal}")).collect()
}

/// What the user can do about an error of the operating system.
fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if system::is_root() => {
            "; root itself may not: a container, a security module or the file system's server forbids it"
        }
        Some(libc::EACCES | libc::EPERM) => "; run as root, or as a member of the group that owns it",
        Some(libc::ENOENT) => "; check the path (`flashlab devices` lists the devices)",
        Some(libc::EBUSY) => {
            "; another program holds it: stop that program first (`lsof` or `fuser` names it)"
        }
        Some(libc::EROFS) => "; it is read-only: make it writable (`blockdev --setrw`), or only read from it",
        Some(libc::ENOMEDIUM) => "; put a medium in",
        Some(libc::ENOSPC) => "; free some space there",
        Some(libc::ETXTBSY) => "; it is in use, as swap space or as a running program",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn a_message_contains_the_operating_systems_error_once() {
        let error =
            HostError::system("open", Path::new("/dev/x"), io::Error::from_raw_os_error(libc::ENOENT));
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message += &error.to_string();
            cause = error.source();
        }
        assert_eq!(message.matches("No such file").count(), 1, "{message}");
    }
}
