//! Files that several threads use at the same time.

use flashlab_device::Device;

use crate::error::RepairError;
use crate::files::{FileId, Files};
use crate::shared::{Shareable, Shared};
use crate::volume::{ReadStep, Volume};

/// The files of a volume for several threads.
pub struct ConcurrentFiles<D>(Shared<Files<D>>);

impl<D: Device> Shareable for Files<D> {
    type Device = D;
    type Object = FileId;

    fn volume(&mut self) -> &mut Volume<D> {
        self.volume_mut()
    }

    fn plan_read(&mut self, id: FileId, offset: u64, data: &mut [u8]) -> Result<ReadStep, RepairError> {
        Files::plan_read(self, id, offset, data)
    }

    fn read_alone(&mut self, id: FileId, offset: u64, data: &mut [u8]) -> Result<usize, RepairError> {
        self.read(id, offset, data)
    }
}

impl<D: Device> ConcurrentFiles<D> {
    /// Shares the files.
    pub fn new(files: Files<D>) -> ConcurrentFiles<D> {
        ConcurrentFiles(Shared::new(files))
    }

    /// Uses the files; nobody else does meanwhile, but for reads and flushes of the device.
    pub fn with<R>(&self, use_files: impl FnOnce(&mut Files<D>) -> R) -> R {
        self.0.count_call();
        self.0.look(use_files)
    }

    /// As [`ConcurrentFiles::with`], but not as a call of a program.
    pub fn look<R>(&self, look: impl FnOnce(&mut Files<D>) -> R) -> R {
        self.0.look(look)
    }

    /// Calls of programs so far.
    pub fn calls(&self) -> u64 {
        self.0.calls()
    }

    /// As [`Files::read`], and notes that the file is read now.
    ///
    /// # Errors
    /// As [`Files::read`].
    pub fn read(&self, id: FileId, offset: u64, data: &mut [u8], now_ns: i64) -> Result<usize, RepairError> {
        self.0.read(id, offset, data, |files| {
            files.accessed(id, now_ns);
            Ok(())
        })
    }

    /// As [`Files::sync`].
    ///
    /// # Errors
    /// As [`Files::sync`].
    pub fn sync(&self, data_only: bool) -> Result<(), RepairError> {
        self.0.count_call();
        self.0.flush(|files| if data_only { Ok(()) } else { files.record_attributes() })
    }

    /// Makes durable what no program syncs. It counts as no call.
    ///
    /// # Errors
    /// As [`Files::sync`].
    pub fn write_back(&self) -> Result<(), RepairError> {
        self.0.flush(|files| {
            files.give_back();
            files.record_attributes()
        })
    }

    /// Does a step of packing or a discard of the device, if one is due. False: there is nothing to do.
    pub fn work_while_idle(&self) -> bool {
        self.0.work_while_idle()
    }

    /// As [`Files::finish`].
    ///
    /// # Errors
    /// As [`Files::finish`].
    pub fn finish(&self) -> Result<(), RepairError> {
        self.0.finish(Files::finish)
    }
}

#[cfg(test)]
mod tests;
