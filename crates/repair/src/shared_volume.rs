//! A volume that several threads use at the same time.

use flashlab_device::Device;

use crate::error::RepairError;
use crate::shared::{Shareable, Shared};
use crate::volume::{ReadStep, Volume};

/// A volume for several threads.
pub struct SharedVolume<D>(Shared<Volume<D>>);

impl<D: Device> Shareable for Volume<D> {
    type Device = D;
    type Object = ();

    fn volume(&mut self) -> &mut Volume<D> {
        self
    }

    fn plan_read(&mut self, (): (), offset: u64, data: &mut [u8]) -> Result<ReadStep, RepairError> {
        Volume::plan_read(self, offset, data)
    }

    fn read_alone(&mut self, (): (), offset: u64, data: &mut [u8]) -> Result<usize, RepairError> {
        self.read(offset, data).map(|()| data.len())
    }
}

impl<D: Device> SharedVolume<D> {
    /// Shares an open volume.
    pub fn new(volume: Volume<D>) -> SharedVolume<D> {
        SharedVolume(Shared::new(volume))
    }

    /// Looks at the volume while no other thread uses it.
    pub fn with<R>(&self, look: impl FnOnce(&Volume<D>) -> R) -> R {
        self.0.look(|volume| look(volume))
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), RepairError> {
        let length = data.len() as u64;
        self.0.read((), offset, data, |volume| volume.check_range(offset, length)).map(drop)
    }

    /// Writes bytes. They are durable after the next [`SharedVolume::flush`].
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), RepairError> {
        self.0.call()?.write(offset, data)
    }

    /// Writes bytes, and calls `acknowledge` as soon as only a failing device can prevent that they are written. The error of a write
    /// that was not acknowledged is returned; after that of one that was, every flush fails.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn write_acknowledging(
        &self,
        offset: u64,
        data: &[u8],
        acknowledge: impl FnOnce(),
    ) -> Result<(), RepairError> {
        self.0.call()?.write_acknowledging(offset, data, acknowledge)
    }

    /// Discards bytes.
    ///
    /// # Errors
    /// As [`Volume::discard`].
    pub fn discard(&self, offset: u64, length: u64) -> Result<(), RepairError> {
        self.0.call()?.discard(offset, length)
    }

    /// Makes all writes and discards durable that returned before.
    ///
    /// # Errors
    /// As [`Volume::flush`].
    pub fn flush(&self) -> Result<(), RepairError> {
        self.0.count_call();
        self.0.flush(|_| Ok(()))
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.0.calls()
    }

    /// Does the volume's own work ([`Volume::work_while_idle`]): one step, and more of them until the next call if there was
    /// none since `calls`.
    pub fn work(&self, calls: u64) {
        while self.0.work_while_idle() && self.calls() == calls {}
    }

    /// As [`Volume::finish`].
    ///
    /// # Errors
    /// As [`Volume::finish`].
    pub fn finish(&self) -> Result<(), RepairError> {
        self.0.finish(Volume::finish)
    }
}

#[cfg(test)]
mod tests;
