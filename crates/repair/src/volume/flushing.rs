//! Flushes: everything acknowledged before is durable when they succeed.
//!
//! # Method
//! [`Volume::flush`] does all of it. A [`SharedVolume`](crate::SharedVolume) begins a flush, lets another handle flush the
//! device while the volume is used, and ends it. The result is in a [`FlushInFlight`] as soon as the device has answered, so
//! that a checkpoint can wait for it: nothing depends on a flush that may have failed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use flashlab_base::Bytes;
use flashlab_device::{Device, IoError};

use super::Volume;
use crate::device_io::failed;
use crate::error::RepairError;
use crate::seeded_bug::SeededBug;

/// A flush of the device by another handle.
pub(crate) struct FlushInFlight {
    /// The last record that was written before it.
    sequence: u64,
    result: Mutex<Option<Result<(), IoError>>>,
    answered: Condvar,
}

impl FlushInFlight {
    fn lock(&self) -> MutexGuard<'_, Option<Result<(), IoError>>> {
        // Nothing can panic while it is locked.
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the device's answer.
    pub fn answer(&self, result: Result<(), IoError>) {
        *self.lock() = Some(result);
        self.answered.notify_all();
    }

    fn wait(&self) -> Result<(), IoError> {
        let mut result = self.lock();
        loop {
            match *result {
                Some(result) => return result,
                None => result = self.answered.wait(result).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl<D: Device> Volume<D> {
    /// Whether the host wrote or discarded something that is not durable yet.
    pub fn is_dirty(&self) -> bool {
        self.host_sequence > self.durable || self.open.iter().flatten().any(|record| record.has_host)
    }

    /// Makes all writes and discards so far durable. If nothing was written since the last flush, the device is not asked.
    ///
    /// # Errors
    /// When the device fails. The volume is poisoned then: what is durable is not known, and every later write and flush
    /// fails.
    pub fn flush(&mut self) -> Result<(), RepairError> {
        let needed = self.begin_flush()?;
        if self.shares_flush(needed)? { Ok(()) } else { self.finish_flush() }
    }

    /// Flushes the device for everybody whose records were written.
    pub(crate) fn finish_flush(&mut self) -> Result<(), RepairError> {
        self.flush_device()?;
        self.after_host_io()
    }

    /// Writes all open records of the host. Returns the last record that has to be durable.
    pub(crate) fn begin_flush(&mut self) -> Result<u64, RepairError> {
        self.check_poison()?;
        self.counters.flushes += 1;
        let open = self.open.iter().flatten().filter(|record| record.has_host);
        self.counters.flush_header_pages += open.count() as u64;
        self.write_group()?;
        Ok(self.host_sequence)
    }

    /// Whether another flush made everything durable up to this record.
    pub(crate) fn shares_flush(&mut self, needed: u64) -> Result<bool, RepairError> {
        self.check_poison()?;
        let is_durable = needed <= self.durable;
        self.counters.shared_flushes += u64::from(is_durable);
        Ok(is_durable)
    }

    /// Lets another handle flush the device. Nobody else does so at the same time.
    pub(crate) fn start_flush(&mut self) -> Result<Arc<FlushInFlight>, RepairError> {
        self.io.settle_all()?;
        let flush =
            FlushInFlight { sequence: self.sequence, result: Mutex::new(None), answered: Condvar::new() };
        let flush = Arc::new(flush);
        self.flushing = Some(Arc::clone(&flush));
        Ok(flush)
    }

    /// Ends a flush by another handle, after its answer.
    pub(crate) fn end_flush(&mut self) -> Result<(), RepairError> {
        self.join_flush()?;
        self.check_poison()?;
        self.after_host_io()
    }

    /// Waits for a flush by another handle.
    pub(super) fn join_flush(&mut self) -> Result<(), RepairError> {
        let Some(flush) = self.flushing.take() else { return Ok(()) };
        match flush.wait() {
            Ok(()) => {
                self.durable = self.durable.max(flush.sequence);
                Ok(())
            }
            Err(error) => {
                let error = failed("flush", 0, Bytes::ZERO, error);
                self.io.fail(error.clone());
                Err(error)
            }
        }
    }

    /// Flushes the device: all records that were written are durable.
    pub(super) fn flush_device(&mut self) -> Result<(), RepairError> {
        if self.has_bug(SeededBug::FlushDoesNothing) {
            self.durable = self.sequence;
            return Ok(());
        }
        self.join_flush()?;
        self.io.flush()?;
        self.durable = self.sequence;
        Ok(())
    }
}
