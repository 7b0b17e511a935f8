//! The files of a volume, and directories in which some names live on the volume and the others beneath.
//!
//! # Model
//! A merged directory has names on two sides. Names that match its patterns are those of a directory on the volume; all others are
//! those of the directory beneath. Below a name everything is on its side. What lies on the volume `files_fuse` serves; this layer
//! only finds the side.
//!
//! # Invariants
//! - A name has one side, whatever lies on the other one.
//! - Renames and links from one side to the other fail with EXDEV, after which programs copy.
//! - No answer for a file beneath is ENOSYS, after which the kernel would not ask for files on the volume either.

mod answers;
mod attributes;
mod beneath;
mod caller;
mod changes;
mod listing;
mod open_beneath;
mod pattern;
mod requests;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flashlab_repair::FileId;
use fuser::{FileAttr, INodeNo};
use rustix::io::Errno;

use crate::file_counts::FileCounts;
use crate::files_fuse::FilesMount;
use crate::fuse::{FuseSession, THREADS};
use crate::shared_files::SharedFiles;

use attributes::attr_of;
use beneath::{BENEATH, Beneath};
use open_beneath::OpenBeneath;

pub use pattern::name_matches;

/// Set in the numbers of merged directories.
const MERGED: u64 = 1 << 61;
/// How the names of merged directories in the root begin; their number follows. Only who mounts sees the root.
pub const MERGED_NAME: &str = ".flashlab-merged-";
/// Others may change what lies beneath at any time.
const NOT_KEPT: Duration = Duration::ZERO;

/// A directory in which some names live on the volume.
pub struct MergedDirectory {
    /// The patterns of those names.
    pub patterns: Vec<Vec<u8>>,
    /// The directory beneath.
    pub beneath: OwnedFd,
    /// Its path on the volume, from the root. It has to be there before it is looked up.
    pub on_volume: Vec<u8>,
}

/// Serves the files through the descriptor of a FUSE file system that another process mounted. Merged directories are in its root.
///
/// # Errors
/// When it is no such descriptor.
pub fn serve_files(
    files: SharedFiles,
    directories: Vec<MergedDirectory>,
    device: OwnedFd,
    counts: Arc<FileCounts>,
) -> io::Result<FuseSession> {
    let (beneath, open) = (Beneath::default(), OpenBeneath::default());
    let mut merged = Vec::new();
    for MergedDirectory { patterns, beneath: descriptor, on_volume } in directories {
        let (number, _) = beneath.add(descriptor)?;
        merged.push(Merged { patterns, beneath: number, on_volume, directory: OnceLock::new() });
    }
    let volume = FilesMount::new(files.clone(), counts);
    let kernel = volume.kernel();
    let session = FuseSession::serve(MergedFiles { volume, files, merged, beneath, open }, device, THREADS)?;
    let _ = kernel.set(session.notifier());
    Ok(session)
}

struct Merged {
    patterns: Vec<Vec<u8>>,
    beneath: u64,
    on_volume: Vec<u8>,
    /// The directory on the volume, when it was looked up.
    directory: OnceLock<FileId>,
}

struct MergedFiles {
    volume: FilesMount,
    files: SharedFiles,
    merged: Vec<Merged>,
    beneath: Beneath,
    open: OpenBeneath,
}

/// Where a file is, with its number there.
#[derive(Clone, Copy)]
enum Side {
    Volume(INodeNo),
    Beneath(u64),
}

/// What a number names.
enum Named<'a> {
    On(Side),
    Merged(&'a Merged),
}

impl Merged {
    fn volume(&self) -> INodeNo {
        // Nobody has its number before it was looked up.
        INodeNo(self.directory.get().map_or(0, |id| id.0))
    }
}

impl MergedFiles {
    fn named(&self, node: INodeNo) -> Named<'_> {
        match node.0 {
            number if number & BENEATH != 0 => Named::On(Side::Beneath(number)),
            number if number & MERGED != 0 => match self.merged.get((number & !MERGED) as usize) {
                Some(merged) => Named::Merged(merged),
                None => Named::On(Side::Volume(INodeNo(0))),
            },
            _ => Named::On(Side::Volume(node)),
        }
    }

    /// The side of a file itself; of a merged directory: beneath.
    fn side(&self, node: INodeNo) -> Side {
        match self.named(node) {
            Named::On(side) => side,
            Named::Merged(merged) => Side::Beneath(merged.beneath),
        }
    }

    /// The directory on the side that a name in a directory has.
    fn side_of_name(&self, parent: INodeNo, name: &OsStr) -> Side {
        match self.named(parent) {
            Named::On(side) => side,
            Named::Merged(merged) if merged.matches(name) => Side::Volume(merged.volume()),
            Named::Merged(merged) => Side::Beneath(merged.beneath),
        }
    }

    /// The number of a merged directory that a name in the root names.
    fn find_merged(&self, name: &OsStr) -> Option<u64> {
        let number: usize = name.to_str()?.strip_prefix(MERGED_NAME)?.parse().ok()?;
        let merged = self.merged.get(number)?;
        let directory = self.files.with(|files, _| files.find(&merged.on_volume)).ok()?;
        let _ = merged.directory.set(directory);
        Some(MERGED | number as u64)
    }

    /// A file's attributes, under the number that it was asked with.
    fn attributes(&self, node: INodeNo, number: u64) -> Result<FileAttr, Errno> {
        Ok(attr_of(node.0, &self.beneath.status(number)?))
    }
}

impl Merged {
    fn matches(&self, name: &OsStr) -> bool {
        self.patterns.iter().any(|pattern| name_matches(pattern, name.as_bytes()))
    }
}
