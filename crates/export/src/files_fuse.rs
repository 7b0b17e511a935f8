//! The files of a volume as a directory, through FUSE.
//!
//! # Model
//! The kernel caches pages and passes each write on at once, so that `mmap` works and nothing waits in the cache but what was
//! written through a mapping. Locks of files are the kernel's own. Several threads answer requests, because each is busy until its IO is
//! done.
//!
//! A write with a set-user-ID or set-group-ID bit is ours to notice (`FUSE_HANDLE_KILLPRIV_V2`); otherwise the kernel would ask for the
//! attribute `security.capability` before each write.
//!
//! # Method
//! - `requests`: answers each request of the kernel.
//! - `making`: files and directories that programs make. `writing`: what changes the data of files. `answers`: what the kernel is answered.
//!
//! # Invariants
//! - `fsync` and `fdatasync` return when the volume has flushed.
//! - A file that is open is there until it is closed, also without a name; a directory until the kernel forgets it.

mod answers;
mod making;
mod requests;
mod writing;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use flashlab_repair::{FileId, FileKind};
use fuser::{INodeNo, Notifier, OpenAccMode, OpenFlags};

use crate::awake::AwakeCpus;
use crate::file_counts::FileCounts;
use crate::fuse::{FILES_NAME, FuseMount, THREADS, is_dead_mount_of_files};
use crate::locks::lock;
use crate::shared_files::SharedFiles;

/// The time that the kernel may cache attributes and names: long, because only the kernel changes them.
const VALID: Duration = Duration::from_secs(3600);
/// Of lseek: the next data, or the next hole (linux/fs.h).
pub(crate) const SEEK_DATA: i32 = 3;
pub(crate) const SEEK_HOLE: i32 = 4;

/// Mounts the files on a directory, also in the place of a mount of ours whose server was killed.
///
/// # Errors
/// When FUSE is missing or not permitted, or `directory` is no directory or busy.
pub fn mount_files(files: SharedFiles, directory: &Path) -> io::Result<FuseMount> {
    let mount = FilesMount::new(files, Arc::default());
    let kernel = mount.kernel();
    let mounted = match is_dead_mount_of_files(directory) {
        true => FuseMount::in_place_of_dead(mount, FILES_NAME, directory, THREADS),
        false => FuseMount::of(mount, FILES_NAME, directory, THREADS),
    }?;
    mounted.notifier().map(|notifier| kernel.set(notifier));
    Ok(mounted)
}

/// A directory's content as it was when it was opened.
type Listing = Vec<(FileId, FileKind, Vec<u8>)>;

pub(crate) struct FilesMount {
    files: SharedFiles,
    counts: Arc<FileCounts>,
    awake: AwakeCpus,
    listings: Mutex<BTreeMap<u64, Listing>>,
    next_listing: AtomicU64,
    /// What the kernel is told through.
    kernel: Arc<OnceLock<Notifier>>,
    /// How often each file is open for writing. Who may write may also map it, and what a mapping holds the kernel keeps to itself.
    writers: Mutex<BTreeMap<FileId, u64>>,
}

impl FilesMount {
    pub(crate) fn new(files: SharedFiles, counts: Arc<FileCounts>) -> FilesMount {
        FilesMount {
            files,
            counts,
            awake: AwakeCpus::start(),
            listings: Mutex::default(),
            next_listing: AtomicU64::new(1),
            kernel: Arc::default(),
            writers: Mutex::default(),
        }
    }

    /// Where to put what the kernel is told through, when it is mounted.
    pub(crate) fn kernel(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.kernel)
    }

    /// The kernel keeps a mode that it knows. Lets it ask anew for that of a file whose set-ID bits were cleared.
    fn let_mode_be_asked(&self, node: INodeNo) {
        /// Only attributes: no data.
        const ATTRIBUTES: i64 = -1;
        if let Some(kernel) = self.kernel.get() {
            // A kernel that has forgotten the file asks in any case.
            let _ = kernel.inval_inode(node, ATTRIBUTES, 0);
        }
    }

    fn note_open(&self, node: INodeNo, flags: OpenFlags) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            *lock(&self.writers).entry(id_of(node)).or_default() += 1;
        }
    }

    fn note_closed(&self, node: INodeNo, flags: OpenFlags) {
        let mut writers = lock(&self.writers);
        if flags.acc_mode() != OpenAccMode::O_RDONLY
            && let Some(count) = writers.get_mut(&id_of(node))
        {
            *count -= 1;
            if *count == 0 {
                writers.remove(&id_of(node));
            }
        }
    }
}

fn id_of(node: INodeNo) -> FileId {
    FileId(node.0)
}
