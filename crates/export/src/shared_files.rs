//! The files of an open volume, which several threads use, with the time of each call.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use flashlab_device::Device;
use flashlab_repair::{FileId, FileRefusal, Files, RepairError};

/// The permissions in Linux's mode.
pub(crate) const PERMISSIONS: u32 = 0o7777;

/// The files of an open volume.
pub(crate) type OpenFiles = Files<Box<dyn Device + Send>>;

/// The files of a volume.
#[derive(Clone)]
pub struct SharedFiles(Arc<flashlab_repair::ConcurrentFiles<Box<dyn Device + Send>>>);

impl SharedFiles {
    /// Shares the files.
    pub fn new(files: OpenFiles) -> SharedFiles {
        SharedFiles(Arc::new(flashlab_repair::ConcurrentFiles::new(files)))
    }

    /// Calls of programs so far.
    pub fn calls(&self) -> u64 {
        self.0.calls()
    }

    /// Whether something is not durable yet.
    pub fn is_dirty(&self) -> bool {
        self.0.look(|files| files.is_dirty())
    }

    /// Makes durable what no program syncs.
    ///
    /// # Errors
    /// When the device fails, or did before.
    pub fn write_back(&self) -> Result<(), RepairError> {
        self.0.write_back()
    }

    /// Uses the files; nobody else does meanwhile. The second argument is the time, in nanoseconds since 1970.
    pub fn with<T>(&self, use_files: impl FnOnce(&mut OpenFiles, i64) -> T) -> T {
        self.0.with(|files| use_files(files, now_ns()))
    }

    /// Reads bytes of a file, and returns their number: fewer at the file's end. Other threads use the files meanwhile.
    ///
    /// # Errors
    /// As [`Files::read`].
    pub fn read(&self, id: FileId, offset: u64, data: &mut [u8]) -> Result<usize, RepairError> {
        self.0.read(id, offset, data, now_ns())
    }

    /// Makes everything durable that was done before; with `data_only`, the times of the last changes may be missing. Other threads use
    /// the files meanwhile.
    ///
    /// # Errors
    /// As [`Files::sync`].
    pub fn sync(&self, data_only: bool) -> Result<(), RepairError> {
        self.0.sync(data_only)
    }

    /// Does a step of packing or a discard of the device, if one is due. False: there is nothing to do.
    pub fn work_while_idle(&self) -> bool {
        self.0.work_while_idle()
    }

    /// Makes everything durable and closes the volume in order.
    ///
    /// # Errors
    /// When the device fails, or did before.
    pub fn shut_down(&self) -> Result<(), RepairError> {
        self.0.finish()
    }
}

/// The time, in nanoseconds since 1970.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
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
