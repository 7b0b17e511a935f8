//! The files of a volume, which several threads use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use flashlab_device::Device;
use flashlab_repair::{FileId, FileRefusal, Files, RepairError};

use crate::locks::lock;

/// The permissions in Linux's mode.
pub(crate) const PERMISSIONS: u32 = 0o7777;

/// The files of an open volume.
pub(crate) type OpenFiles = Files<Box<dyn Device + Send>>;

/// The files of a volume behind a lock.
#[derive(Clone)]
pub struct SharedFiles(Arc<Shared>);

struct Shared {
    files: Mutex<OpenFiles>,
    /// Calls of programs so far.
    calls: AtomicU64,
}

impl SharedFiles {
    /// Shares the files.
    pub fn new(files: OpenFiles) -> SharedFiles {
        SharedFiles(Arc::new(Shared { files: Mutex::new(files), calls: AtomicU64::new(0) }))
    }

    /// Calls of programs so far.
    pub fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// Whether something is not durable yet.
    pub fn is_dirty(&self) -> bool {
        lock(&self.0.files).is_dirty()
    }

    /// Makes durable what no program syncs.
    ///
    /// # Errors
    /// When the device fails, or did before.
    pub fn write_back(&self) -> Result<(), RepairError> {
        let mut files = lock(&self.0.files);
        files.give_back();
        files.sync(false)
    }

    /// Uses the files; nobody else does meanwhile. The second argument is the time, in nanoseconds since 1970.
    pub fn with<T>(&self, use_files: impl FnOnce(&mut OpenFiles, i64) -> T) -> T {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        use_files(&mut lock(&self.0.files), now_ns)
    }

    /// Does a step of packing or a discard of the device, if one is due. False: there is nothing to do.
    pub fn work_while_idle(&self) -> bool {
        lock(&self.0.files).work_while_idle()
    }

    /// Makes everything durable and closes the volume in order.
    ///
    /// # Errors
    /// When the device fails, or did before.
    pub fn shut_down(&self) -> Result<(), RepairError> {
        self.with(|files, _| files.finish())
    }
}

/// Linux's `fallocate`, with its mode: allocates a range, punches a hole or zeroes it.
pub(crate) fn fallocate(
    files: &mut OpenFiles,
    id: FileId,
    (offset, length): (u64, u64),
    mode: u32,
    now_ns: i64,
) -> Result<(), RepairError> {
    const KEEP_SIZE: u32 = 1;
    const PUNCH_HOLE: u32 = 2;
    const ZERO_RANGE: u32 = 16;
    let keeps_size = mode & KEEP_SIZE != 0;
    match mode & !KEEP_SIZE {
        0 => files.allocate(id, offset, length, keeps_size, now_ns),
        PUNCH_HOLE => files.punch(id, offset, length, now_ns),
        ZERO_RANGE => {
            files.punch(id, offset, length, now_ns)?;
            files.allocate(id, offset, length, keeps_size, now_ns)
        }
        _ => Err(FileRefusal::NotSupported.into()),
    }
}
