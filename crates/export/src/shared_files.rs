//! The files of a volume, which several threads use.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use flashlab_device::Device;
use flashlab_repair::{Files, RepairError};

use crate::locks::lock;

/// The files of a volume behind a lock.
#[derive(Clone)]
pub struct SharedFiles(Arc<Mutex<Files<Box<dyn Device + Send>>>>);

impl SharedFiles {
    /// Shares the files.
    pub fn new(files: Files<Box<dyn Device + Send>>) -> SharedFiles {
        SharedFiles(Arc::new(Mutex::new(files)))
    }

    /// Uses the files; nobody else does meanwhile. The second argument is the time, in nanoseconds since 1970.
    pub fn with<T>(&self, use_files: impl FnOnce(&mut Files<Box<dyn Device + Send>>, u64) -> T) -> T {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        use_files(&mut lock(&self.0), now_ns)
    }

    /// Does a step of packing or a discard of the device, if one is due. False: there is nothing to do.
    pub fn work_while_idle(&self) -> bool {
        self.with(|files, _| files.work_while_idle())
    }

    /// Makes everything durable and closes the volume in order.
    ///
    /// # Errors
    /// When the device fails, or did before.
    pub fn shut_down(&self) -> Result<(), RepairError> {
        self.with(|files, _| files.finish())
    }
}
