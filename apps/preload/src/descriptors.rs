//! Which descriptors of the process are of managed files.
//!
//! # Invariants
//! - Each entry is one hold at the server. Descriptors beyond the table are refused when they are opened.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use flashlab_repair::FileCall;

use crate::connection::{self, request};

/// The largest table: more descriptors than databases open.
const DESCRIPTORS_MAX: usize = 1 << 16;
const MANAGED: u64 = 1;
const APPENDS: u64 = 2;
const READS: u64 = 4;
const WRITES: u64 = 8;

static TABLE: [AtomicU64; DESCRIPTORS_MAX] = [const { AtomicU64::new(0) }; DESCRIPTORS_MAX];
/// Above all entries.
static END: AtomicI32 = AtomicI32::new(0);

/// A descriptor of a managed file.
#[derive(Clone, Copy)]
pub struct Managed(u64);

impl Managed {
    /// A file that was opened with these flags.
    pub fn new(file: u64, flags: c_int) -> Managed {
        let access = match flags & libc::O_ACCMODE {
            libc::O_RDONLY => READS,
            libc::O_WRONLY => WRITES,
            _ => READS | WRITES,
        };
        let appends = if flags & libc::O_APPEND != 0 { APPENDS } else { 0 };
        Managed(file << 8 | MANAGED | access | appends)
    }

    pub fn file(self) -> u64 {
        self.0 >> 8
    }

    pub fn appends(self) -> bool {
        self.0 & APPENDS != 0
    }

    pub fn reads(self) -> bool {
        self.0 & READS != 0
    }

    pub fn writes(self) -> bool {
        self.0 & WRITES != 0
    }

    /// The access mode with which it was opened.
    pub fn access(self) -> c_int {
        match (self.reads(), self.writes()) {
            (true, true) => libc::O_RDWR,
            (false, true) => libc::O_WRONLY,
            _ => libc::O_RDONLY,
        }
    }
}

fn entry(fd: c_int) -> Option<&'static AtomicU64> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// The managed file of a descriptor.
pub fn get(fd: c_int) -> Option<Managed> {
    let value = entry(fd)?.load(Ordering::Relaxed);
    (value != 0).then_some(Managed(value))
}

/// Notes a descriptor. False: it is beyond the table.
pub fn put(fd: c_int, managed: Managed) -> bool {
    let Some(entry) = entry(fd) else { return false };
    entry.store(managed.0, Ordering::Relaxed);
    END.fetch_max(fd + 1, Ordering::Relaxed);
    true
}

/// Notes whether writes go to the end.
pub fn set_appends(fd: c_int, appends: bool) {
    if let (Some(entry), Some(old)) = (entry(fd), get(fd)) {
        let value = if appends { old.0 | APPENDS } else { old.0 & !APPENDS };
        entry.store(value, Ordering::Relaxed);
    }
}

/// Forgets a descriptor, which was closed.
pub fn forget(fd: c_int) {
    let Some(entry) = entry(fd) else { return };
    let old = entry.swap(0, Ordering::Relaxed);
    if old != 0 {
        let _ = connection::ask(request(FileCall::Close, old >> 8), &[], &mut []);
    }
}

/// Notes that a descriptor is a copy of another one.
pub fn copied(from: c_int, to: c_int) {
    if let Some(managed) = get(from)
        && put(to, managed)
    {
        let _ = connection::ask(request(FileCall::Hold, managed.file()), &[], &mut []);
    }
}

/// All descriptors of managed files from one on.
pub fn all(from: c_int) -> impl Iterator<Item = (c_int, Managed)> {
    (from.max(0)..END.load(Ordering::Relaxed)).filter_map(|fd| Some((fd, get(fd)?)))
}
