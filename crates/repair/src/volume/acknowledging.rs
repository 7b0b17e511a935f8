//! Writes that are acknowledged before they are done, as a drive with a write cache does.
//!
//! # Model
//! A write says nothing about durability: a flush does. So a write that only a failing device can prevent is acknowledged
//! first, while the volume is locked, and done then: everybody who comes later finds it done. The program goes on meanwhile, and its
//! next request comes while this one is copied: sequential writes through FUSE get 1.4 times as fast (docs/repair.md).
//!
//! # Invariants
//! - Only what can be done is acknowledged early: whole pages of the volume, while segments are free and nothing has failed.
//! - If such a write fails nevertheless, no later write or flush succeeds, and a read of its range fails with its error. So there is one
//!   at most.

use flashlab_device::Device;

use super::{LostWrite, Volume};
use crate::error::RepairError;

impl<D: Device> Volume<D> {
    /// Writes bytes, and calls `acknowledge` as soon as only a failing device can prevent that they are written; at the latest when
    /// they are. It is not called if the write fails before.
    ///
    /// # Errors
    /// As [`Volume::write`], of a write that was not acknowledged.
    pub(crate) fn write_acknowledging(
        &mut self,
        offset: u64,
        data: &[u8],
        acknowledge: impl FnOnce(),
    ) -> Result<(), RepairError> {
        if self.takes_at_once(offset, data.len() as u64) {
            acknowledge();
            self.write_acknowledged(offset, data);
            return Ok(());
        }
        self.write(offset, data)?;
        acknowledge();
        Ok(())
    }

    /// Whether only a failing device can prevent that this range is written.
    pub(crate) fn takes_at_once(&self, offset: u64, length: u64) -> bool {
        let page = self.page_size() as u64;
        let segment = u64::from(self.layout().data_pages_per_segment()) * page;
        // Each log may open a segment for it, and it fills some.
        let needed =
            u64::from(self.placer.watermarks().reserve) + self.open.len() as u64 + length / segment + 1;
        offset.is_multiple_of(page)
            && length.is_multiple_of(page)
            && self.check_range(offset, length).is_ok()
            && self.poison().is_none()
            && u64::from(self.placer.table().free_count()) > needed
    }

    /// Writes bytes that were acknowledged.
    pub(crate) fn write_acknowledged(&mut self, offset: u64, data: &[u8]) {
        if let Err(error) = self.write(offset, data) {
            self.lost =
                Some(LostWrite { start: offset, end: offset + data.len() as u64, error: error.clone() });
            self.io.fail(error);
        }
    }

    /// Fails if a part of the range was acknowledged as written, and is not.
    #[inline]
    pub(super) fn check_lost(&self, offset: u64, length: usize) -> Result<(), RepairError> {
        let end = offset.saturating_add(length as u64);
        match &self.lost {
            Some(lost) if lost.start < end && offset < lost.end => Err(lost.error.clone()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
