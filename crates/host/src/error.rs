//! What can go wrong before the first IO. What goes wrong with an IO is its completion's
//! [`IoError`](flashlab_device::IoError).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use flashlab_base::Bytes;

use crate::{Refusal, system};

/// Why a target cannot be opened, inspected or made.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostError {
    /// The operating system said no.
    System {
        /// What was tried, as `open` or `read the capacity of`.
        attempt: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// The path leads to something that is neither a block device nor a regular file.
    NoTarget {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The target is empty, or smaller than one block.
    Empty {
        /// The path.
        path: PathBuf,
    },
    /// Writing to the target could destroy data.
    Refused {
        /// The path.
        path: PathBuf,
        /// Every reason that was found.
        refusals: Vec<Refusal>,
    },
    /// What was typed or given does not name the target.
    ConsentMismatch {
        /// The target.
        path: PathBuf,
        /// What was given.
        given: String,
        /// What would have been accepted.
        expected: Vec<String>,
    },
    /// This kind of consent does not fit this kind of target.
    WrongConsent {
        /// The target.
        path: PathBuf,
        /// What the target takes.
        needed: &'static str,
    },
    /// The path no longer leads to what the consent was given for.
    TargetChanged {
        /// The path.
        path: PathBuf,
    },
    /// Another program has the file locked, as one that measures it does.
    Locked {
        /// The path.
        path: PathBuf,
    },
    /// The kernel does not offer io_uring to this process.
    NoRing {
        /// Its answer.
        source: io::Error,
    },
    /// A queue depth that cannot be had.
    Depth {
        /// What was asked for.
        asked: u32,
        /// The most.
        most: u32,
    },
    /// The file system has too little room for a scratch file.
    NoSpace {
        /// The directory.
        directory: PathBuf,
        /// How large the file was to be.
        needed: Bytes,
        /// How much is free for this user.
        free: Bytes,
        /// How much of that flashlab leaves alone.
        reserve: Bytes,
    },
    /// The caller's progress function asked to stop.
    Interrupted,
}

impl HostError {
    pub(crate) fn system(attempt: &'static str, path: &Path, source: io::Error) -> HostError {
        HostError::System { attempt, path: path.to_owned(), source }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::System { attempt, path, source } => {
                write!(f, "cannot {attempt} {}: {source}", path.display())?;
                f.write_str(advice(source))
            }
            HostError::NoTarget { path, kind } => write!(
                f,
                "{} is a {kind}: give a block device or a regular file (`flashlab devices` lists the devices)",
                path.display()
            ),
            HostError::Empty { path } => write!(
                f,
                "{} is smaller than one block: give a device with a medium in it, or a file with content",
                path.display()
            ),
            HostError::Refused { path, refusals } => {
                write!(f, "refusing to write to {}:", path.display())?;
                refusals.iter().try_for_each(|refusal| write!(f, "\n  - {refusal}"))
            }
            HostError::ConsentMismatch { path, given, expected } => write!(
                f,
                "`{given}` does not name {}: expected {}; nothing was written",
                path.display(),
                expected.join(" or ")
            ),
            HostError::WrongConsent { path, needed } => {
                write!(f, "{} needs {needed} before it is written to", path.display())
            }
            HostError::TargetChanged { path } => write!(
                f,
                "{} is no longer what it was when you consented to its being overwritten: look at it again \
                 (`flashlab devices`) and start again; nothing was written",
                path.display()
            ),
            HostError::Locked { path } => write!(
                f,
                "{} is being measured by another flashlab, or another program has it locked: wait until that has \
                 ended, or measure another file",
                path.display()
            ),
            HostError::NoRing { source } => write!(
                f,
                "the kernel offers no io_uring here ({source}): use the synchronous engine, or allow it \
                 (sysctl kernel.io_uring_disabled=0, or the container's seccomp profile)"
            ),
            HostError::Depth { asked, most } => {
                write!(f, "a queue depth of {asked} cannot be had: choose one from 1 to {most}")
            }
            HostError::NoSpace { directory, needed, free, reserve } => write!(
                f,
                "no room for a scratch file of {needed} in {}: {free} are free, of which flashlab leaves \
                 {reserve} alone; choose a smaller size or another directory",
                directory.display()
            ),
            HostError::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// What to do about an answer of the operating system.
fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
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
        Some(libc::ENOSPC) => "; make room there",
        Some(libc::ETXTBSY) => "; it is in use, as swap space or as a running program",
        _ => "",
    }
}

// No `source`: the messages have the operating system's answer in them already.
impl std::error::Error for HostError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn the_operating_systems_answer_stands_once_in_a_message() {
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
