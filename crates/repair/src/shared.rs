//! What several threads use at the same time: a volume, or the files on one.
//!
//! # Model
//! The volume is locked while the map, the logs and the records in memory are used. It is not locked while the device reads or
//! flushes: other threads write, and read, meanwhile.
//!
//! # Method
//! - A read is planned under the lock, done and verified by another handle on the device (a lane), and accepted under the lock. If
//!   its pages were moved or discarded meanwhile, it is done once more, under the lock. The next part of a read is planned anew,
//!   because a file may have other pages by then.
//! - Flushes are committed in groups: the first that finds no other flush under way writes and flushes for all that wait.
//! - Without lanes everything is done under the lock.
//!
//! # Invariants
//! - A read returns what its pages held at one time between its call and its return, for each page. A place on the device that is
//!   accepted held the same page all the time, because no place is used twice in the same use of a segment.
//! - After a panic of a thread that had the lock nothing is written any more: what it left half done does not become durable.
//! - One flush of the device at a time: an error of it is reported to everybody whose data it may concern.

#[cfg(test)]
pub(crate) mod memory;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Buffer, Device, IoError, Operation, Request};

use crate::device_io::read_buffer;
use crate::error::RepairError;
use crate::volume::{PlannedRead, ReadStep, Volume};

/// Reads that are done at the same time; further ones are done under the lock.
const LANES: u32 = 16;

/// What threads share.
pub(crate) trait Shareable {
    /// The device beneath.
    type Device: Device;
    /// What a read names: a file, or nothing of a volume.
    type Object: Copy;

    /// The volume.
    fn volume(&mut self) -> &mut Volume<Self::Device>;

    /// Begins a read: copies what needs no IO, or says which IO is needed next. `Done(0)`: there is no more.
    fn plan_read(
        &mut self,
        object: Self::Object,
        offset: u64,
        data: &mut [u8],
    ) -> Result<ReadStep, RepairError>;

    /// Reads while nobody else does anything. Returns the number of bytes.
    fn read_alone(
        &mut self,
        object: Self::Object,
        offset: u64,
        data: &mut [u8],
    ) -> Result<usize, RepairError>;
}

/// A volume, or files, with lanes for reads and a lane for flushes.
pub(crate) struct Shared<S> {
    shared: Mutex<S>,
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

impl<S: Shareable> Shared<S> {
    pub fn new(mut shared: S) -> Shared<S> {
        let lane = |device| Lane { device, data: Buffer::empty(), header: Buffer::empty() };
        let mut lanes: Vec<Lane> = shared.volume().lanes(LANES + 1).into_iter().map(lane).collect();
        let flushing = Mutex::new(lanes.pop());
        Shared { shared: Mutex::new(shared), lanes: Mutex::new(lanes), flushing, calls: AtomicU64::new(0) }
    }

    /// Uses it while no other thread does, also after a panic of one: then nothing is written any more.
    pub fn look<R>(&self, look: impl FnOnce(&mut S) -> R) -> R {
        let mut shared = self.shared.lock().unwrap_or_else(|panicked| {
            let mut shared = panicked.into_inner();
            shared.volume().distrust();
            shared
        });
        look(&mut shared)
    }

    /// Locks it, unless a thread panicked while it had it: its map is not to be trusted then.
    pub fn lock(&self) -> Result<MutexGuard<'_, S>, RepairError> {
        let panicked = |_| RepairError::Poisoned(RepairError::Panicked.to_string());
        self.shared.lock().map_err(panicked)
    }

    /// As [`Shared::lock`], for a call of the host.
    pub fn call(&self) -> Result<MutexGuard<'_, S>, RepairError> {
        self.count_call();
        self.lock()
    }

    pub fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Reads bytes after `begin` has found nothing wrong. Returns their number, which is smaller than asked for at the end.
    pub fn read(
        &self,
        object: S::Object,
        offset: u64,
        data: &mut [u8],
        begin: impl FnOnce(&mut S) -> Result<(), RepairError>,
    ) -> Result<usize, RepairError> {
        let mut shared = self.call()?;
        begin(&mut shared)?;
        let mut at = 0;
        while at < data.len() {
            let planned = match shared.plan_read(object, offset + at as u64, &mut data[at..])? {
                ReadStep::Done(0) => break,
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
                shared.volume().settle(&planned);
                drop(shared);
                let read = lane.read(&planned);
                let is_copied = read.is_ok() && planned.copy_known(&lane.data, part);
                shared = self.lock()?;
                let volume = shared.volume();
                is_read = match is_copied {
                    true => volume.is_there(&planned),
                    false => {
                        read.is_ok()
                            && !planned.is_known()
                            && volume.accept(&planned, &lane.data, &lane.header, part)
                    }
                };
                lock(&self.lanes).push(lane);
            }
            if is_read {
                at += planned.length;
                continue;
            }
            let length = shared.read_alone(object, offset + at as u64, part)?;
            at += length;
            if length < planned.length {
                break;
            }
        }
        Ok(at)
    }

    /// Makes all writes and discards durable that returned before, and what `begin` does.
    pub fn flush(&self, begin: impl FnOnce(&mut S) -> Result<(), RepairError>) -> Result<(), RepairError> {
        let needed = {
            let mut shared = self.lock()?;
            begin(&mut shared)?;
            shared.volume().begin_flush()?
        };
        let mut turn = lock(&self.flushing);
        let mut shared = self.lock()?;
        let volume = shared.volume();
        if volume.shares_flush(needed)? {
            return Ok(());
        }
        let Some(lane) = turn.as_mut() else { return volume.finish_flush() };
        let flush = volume.start_flush()?;
        drop(shared);
        flush.answer(lane.flush());
        self.lock()?.volume().end_flush()
    }

    /// Ends its use with `finish`, when no flush is under way.
    pub fn finish(&self, finish: impl FnOnce(&mut S) -> Result<(), RepairError>) -> Result<(), RepairError> {
        let _turn = lock(&self.flushing);
        finish(&mut *self.lock()?)
    }

    /// Does a step of packing or a discard of the device, if one is due. False: there is nothing to do.
    pub fn work_while_idle(&self) -> bool {
        self.lock().is_ok_and(|mut shared| shared.volume().work_while_idle())
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
