//! A volume that several threads use at the same time.
//!
//! # Model
//! The volume is locked while the map, the logs and the records in memory are used. It is not locked while the device reads or
//! flushes: other threads write, and read, meanwhile.
//!
//! # Method
//! - A read is planned under the lock, done by another handle on the device (a lane), and accepted under the lock. If
//!   packing moved its pages meanwhile, it is done once more, under the lock.
//! - Flushes are committed in groups: the first that finds no other flush under way writes and flushes for all that wait.
//! - Without lanes everything is done under the lock.
//!
//! # Invariants
//! - One flush of the device at a time: an error of it is reported to everybody whose data it may concern.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Buffer, Device, IoError, Operation, Request};

use crate::device_io::read_buffer;
use crate::error::RepairError;
use crate::volume::{PlannedRead, ReadStep, Volume};

/// Reads that are done at the same time; further ones are done under the lock.
const LANES: u32 = 16;

/// A volume for several threads.
pub struct SharedVolume<D> {
    volume: Mutex<Volume<D>>,
    /// Lanes that no read uses.
    lanes: Mutex<Vec<Lane>>,
    /// The lane that flushes the device, and its turn.
    flushing: Mutex<Option<Lane>>,
    /// Calls so far, from which idle times are seen.
    calls: AtomicU64,
}

/// A handle on the device, with memory for what it reads.
struct Lane {
    device: Box<dyn Device + Send>,
    data: Buffer,
    header: Buffer,
}

/// Locks what a panic cannot leave half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Device> SharedVolume<D> {
    /// Shares an open volume.
    pub fn new(mut volume: Volume<D>) -> SharedVolume<D> {
        let lane = |device| Lane { device, data: Buffer::empty(), header: Buffer::empty() };
        let mut lanes: Vec<Lane> = volume.lanes(LANES + 1).into_iter().map(lane).collect();
        let flushing = Mutex::new(lanes.pop());
        SharedVolume {
            volume: Mutex::new(volume),
            lanes: Mutex::new(lanes),
            flushing,
            calls: AtomicU64::new(0),
        }
    }

    /// Looks at the volume while no other thread uses it.
    pub fn with<R>(&self, look: impl FnOnce(&Volume<D>) -> R) -> R {
        look(&lock(&self.volume))
    }

    /// Locks the volume, unless a thread panicked while it had it: its map is not to be trusted then.
    fn volume(&self) -> Result<MutexGuard<'_, Volume<D>>, RepairError> {
        let panicked = |_| RepairError::Poisoned("a thread that used it failed inside".to_owned());
        self.volume.lock().map_err(panicked)
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), RepairError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut volume = self.volume()?;
        volume.check_range(offset, data.len() as u64)?;
        let mut at = 0;
        while at < data.len() {
            let planned = match volume.plan_read(offset + at as u64, &mut data[at..]) {
                ReadStep::Done(length) => {
                    at += length;
                    continue;
                }
                ReadStep::Device(planned) => planned,
            };
            let part = &mut data[at..at + planned.length];
            let lane = lock(&self.lanes).pop();
            let mut is_read = false;
            if let Some(mut lane) = lane {
                volume.settle(&planned);
                drop(volume);
                let read = lane.read(&planned);
                volume = self.volume()?;
                is_read = read.is_ok() && volume.accept(&planned, &lane.data, &lane.header, part);
                lock(&self.lanes).push(lane);
            }
            if !is_read {
                volume.read(offset + at as u64, part)?;
            }
            at += planned.length;
        }
        Ok(())
    }

    /// Writes bytes. They are durable after the next [`SharedVolume::flush`].
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), RepairError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.volume()?.write(offset, data)
    }

    /// Discards bytes.
    ///
    /// # Errors
    /// As [`Volume::discard`].
    pub fn discard(&self, offset: u64, length: u64) -> Result<(), RepairError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.volume()?.discard(offset, length)
    }

    /// Makes all writes and discards durable that returned before.
    ///
    /// # Errors
    /// As [`Volume::flush`].
    pub fn flush(&self) -> Result<(), RepairError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let needed = self.volume()?.begin_flush()?;
        let mut turn = lock(&self.flushing);
        let mut volume = self.volume()?;
        if volume.shares_flush(needed)? {
            return Ok(());
        }
        let Some(lane) = turn.as_mut() else { return volume.finish_flush() };
        let flush = volume.start_flush()?;
        drop(volume);
        flush.answer(lane.flush());
        self.volume()?.end_flush()
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Does the volume's own work ([`Volume::work_while_idle`]): one step, and more of them until the next call if there was
    /// none since `calls`.
    pub fn work(&self, calls: u64) {
        let step = || self.volume().is_ok_and(|mut volume| volume.work_while_idle());
        while step() && self.calls() == calls {}
    }

    /// As [`Volume::finish`].
    ///
    /// # Errors
    /// As [`Volume::finish`].
    pub fn finish(&self) -> Result<(), RepairError> {
        let _turn = lock(&self.flushing);
        self.volume()?.finish()
    }
}

impl Lane {
    fn read(&mut self, planned: &PlannedRead) -> Result<(), IoError> {
        let data = std::mem::replace(&mut self.data, Buffer::empty());
        self.data = self.serve(Operation::Read, planned.offset, planned.size, data)?;
        if let Some(offset) = planned.header {
            let header = std::mem::replace(&mut self.header, Buffer::empty());
            self.header = self.serve(Operation::Read, offset, planned.page_size, header)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.serve(Operation::Flush, 0, Bytes::ZERO, Buffer::empty()).map(drop)
    }

    /// Does one IO, and returns the buffer.
    fn serve(
        &mut self,
        operation: Operation,
        offset: u64,
        size: Bytes,
        mut buffer: Buffer,
    ) -> Result<Buffer, IoError> {
        if (buffer.len() as u64) < size.0 {
            buffer = read_buffer(size);
        }
        self.device.submit(Request { tag: 0, operation, offset: Bytes(offset), size, buffer });
        let done = self.device.wait(Nanos::MAX).ok_or(IoError::GONE)?;
        done.result.map(|()| done.buffer)
    }
}

#[cfg(test)]
mod tests;
