//! The synchronous engine: one `pread` or `pwrite` at a time.
//!
//! # Model
//! [`Device::submit`] makes the system call between two readings of the clock and keeps the completion for
//! [`Device::wait`]. Lanes share the open file and the clock; each lane belongs to one thread.
//!
//! Invariant: each IO takes two readings of the clock and one system call. There is no allocation and no
//! lock.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flashlab_base::{Bytes, Identity, Nanos};
use flashlab_device::{
    Completion, Device, DisturbanceCounters, Geometry, Health, IoError, Operation, Parallel, Request,
    Telemetry,
};

use crate::disturbance::DisturbanceMeter;
use crate::target::{Target, io_error};

/// A real device, one IO at a time.
pub struct SyncDevice {
    target: Arc<Target>,
    done: Option<Completion>,
    meter: DisturbanceMeter,
}

impl SyncDevice {
    pub(crate) fn new(target: Arc<Target>) -> SyncDevice {
        let meter = DisturbanceMeter::new(target.disk.clone());
        SyncDevice { target, done: None, meter }
    }

    fn serve(&self, request: &mut Request) -> Result<(), IoError> {
        match request.operation {
            Operation::Read | Operation::Write => self.transfer(request),
            Operation::Flush => self.target.file.sync_data().map_err(|error| self.failure(&error)),
            Operation::Discard => self.target.discard(request.offset, request.size),
        }
    }

    /// Reads or writes the whole range, in several calls if a transfer is short.
    #[inline]
    fn transfer(&self, request: &mut Request) -> Result<(), IoError> {
        let file = &self.target.file;
        let size = request.size.0 as usize;
        let mut done = 0;
        while done < size {
            let offset = request.offset.0 + done as u64;
            let part = &mut request.buffer[done..size];
            let result = match request.operation {
                Operation::Write => file.write_at(part, offset),
                _ => file.read_at(part, offset),
            };
            match result {
                // The device is shorter than when it was opened.
                Ok(0) => return Err(self.target.failure(IoError::IO)),
                Ok(length) => done += length,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) => return Err(self.failure(&error)),
            }
        }
        Ok(())
    }

    #[cold]
    fn failure(&self, error: &io::Error) -> IoError {
        self.target.failure(io_error(error))
    }
}

impl Device for SyncDevice {
    fn geometry(&self) -> Geometry {
        Geometry { depth: 1, ..self.target.geometry }
    }

    fn identity(&self) -> Identity {
        self.target.identity.clone()
    }

    #[inline]
    fn now(&mut self) -> Nanos {
        self.target.clock.now()
    }

    #[inline]
    fn submit(&mut self, mut request: Request) {
        assert!(self.done.is_none(), "a synchronous device takes one request at a time");
        let checked = self.target.check(&request);
        let submitted = self.target.clock.now();
        let result = checked.and_then(|()| self.serve(&mut request));
        let completed = self.target.clock.now();
        self.done =
            Some(Completion { tag: request.tag, submitted, completed, result, buffer: request.buffer });
    }

    #[inline]
    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        if self.done.is_none() && until != Nanos::MAX {
            self.target.clock.sleep_until(until);
        }
        self.done.take()
    }

    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        Some(self)
    }

    fn health(&mut self) -> Option<&mut dyn Health> {
        Some(self)
    }

    fn telemetry(&mut self) -> Option<&mut dyn Telemetry> {
        Some(self)
    }
}

impl Health for SyncDevice {
    fn loss(&mut self) -> Option<String> {
        self.target.loss()
    }

    /// The kernel does not report that a disk became read-only; a failed write shows it.
    fn refusal(&mut self) -> Option<String> {
        None
    }
}

impl Telemetry for SyncDevice {
    fn media_written(&mut self) -> Option<Bytes> {
        self.target.media_written()
    }

    fn disturbance(&mut self) -> DisturbanceCounters {
        self.meter.read()
    }
}

impl Parallel for SyncDevice {
    fn lanes(&mut self, count: u32) -> io::Result<Vec<Box<dyn Device + Send>>> {
        let lane = |_| Box::new(SyncDevice::new(Arc::clone(&self.target))) as Box<dyn Device + Send>;
        Ok((0..count).map(lane).collect())
    }
}
