//! The files of an open volume, which several threads use, with the time of each call.

use std::sync::Arc;

use flashlab_device::Device;
use flashlab_repair::{ConcurrentFiles, FileId, Files, RepairError};

use crate::file_clock::FileClock;

/// The files of an open volume.
pub(crate) type OpenFiles = Files<Box<dyn Device + Send>>;

/// The files of a volume.
#[derive(Clone)]
pub struct SharedFiles {
    files: Arc<ConcurrentFiles<Box<dyn Device + Send>>>,
    clock: Arc<FileClock>,
}

impl SharedFiles {
    /// Shares the files.
    pub fn new(files: OpenFiles) -> SharedFiles {
        SharedFiles { files: Arc::new(ConcurrentFiles::new(files)), clock: Arc::default() }
    }

    /// Calls of programs so far.
    pub fn calls(&self) -> u64 {
        self.files.calls()
    }

    /// Whether something is not durable yet.
    pub fn is_dirty(&self) -> bool {
        self.files.look(|files| files.is_dirty())
    }

    /// Makes durable what no program syncs.
    ///
    /// # Errors
    /// When the device fails, or did before.
    pub fn write_back(&self) -> Result<(), RepairError> {
        self.files.write_back()
    }

    /// Uses the files; nobody else does meanwhile. The second argument is the time, in nanoseconds since 1970.
    pub fn with<T>(&self, use_files: impl FnOnce(&mut OpenFiles, i64) -> T) -> T {
        self.files.with(|files| use_files(files, self.clock.now_ns()))
    }

    /// As [`SharedFiles::with`], for what returns times of files.
    pub fn with_shown<T>(&self, use_files: impl FnOnce(&mut OpenFiles, i64) -> T) -> T {
        self.with(|files, now_ns| {
            let shown = use_files(files, now_ns);
            self.clock.look();
            shown
        })
    }

    /// Reads bytes of a file, and returns their number: fewer at the file's end. Other threads use the files meanwhile.
    ///
    /// # Errors
    /// As [`Files::read`].
    pub fn read(&self, id: FileId, offset: u64, data: &mut [u8]) -> Result<usize, RepairError> {
        self.files.read(id, offset, data, self.clock.now_ns())
    }

    /// Makes everything durable that was done before; with `data_only`, the times of the last changes may be missing. Other threads use
    /// the files meanwhile.
    ///
    /// # Errors
    /// As [`Files::sync`].
    pub fn sync(&self, data_only: bool) -> Result<(), RepairError> {
        self.files.sync(data_only)
    }

    /// Does a step of packing or a discard of the device, if one is due. False: there is nothing to do.
    pub fn work_while_idle(&self) -> bool {
        self.files.work_while_idle()
    }

    /// Makes everything durable and closes the volume in order.
    ///
    /// # Errors
    /// When the device fails, or did before.
    pub fn shut_down(&self) -> Result<(), RepairError> {
        self.files.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flashlab_base::{Bytes, Nanos};
    use flashlab_device::MemoryDevice;
    use flashlab_repair::{
        FileAttributes, FileKind, LayoutOptions, MountOptions, Volume, VolumeUuid, default_policy,
    };

    use super::*;

    #[test]
    fn syncs_within_a_tick_record_the_times_once() {
        const PAGE: usize = 4096;
        let options = LayoutOptions {
            capacity: Bytes::mib(64),
            page: Bytes(PAGE as u64),
            segment: Bytes::mib(1),
            logical_pages: 8000,
            checkpoint_interval: Bytes::mib(64),
        };
        let mut device: Box<dyn Device + Send> =
            Box::new(MemoryDevice::new(Bytes::mib(64), Nanos::from_micros(1)));
        Volume::create(&mut device, VolumeUuid([7; 16]), options).unwrap();
        let volume = Volume::open(device, MountOptions::default(), default_policy).unwrap();
        let files = SharedFiles::new(Files::open(volume).unwrap());
        let attributes = FileAttributes::new(0o600, 0, 0, 0);
        let id = files.with(|files, now_ns| {
            let id = files.create(FileId::ROOT, b"f", FileKind::Regular, attributes).unwrap();
            files.write(id, None, &[1; 8 * PAGE], now_ns).unwrap();
            id
        });
        files.sync(false).unwrap();
        let pages = || files.with(|files, _| files.volume().counters().host_pages);
        let (before, mut ticks) = (pages(), BTreeSet::new());
        const WRITES: u64 = 400;
        for number in 0..WRITES {
            let now = files.with(|files, now_ns| {
                files.write(id, Some(number % 8 * PAGE as u64), &[2; PAGE], now_ns).unwrap();
                now_ns
            });
            ticks.insert(now);
            files.sync(false).unwrap();
        }
        let recorded = pages() - before - WRITES;
        // The first write may be in the tick of what came before.
        assert!(ticks.len() as u64 - recorded <= 1, "{recorded} records of {} times", ticks.len());
    }
}
