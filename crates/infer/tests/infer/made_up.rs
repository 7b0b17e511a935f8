//! A device whose response times, and failures, a test makes up.

use flashlab_base::{Bytes, Identity, Nanos};
use flashlab_device::{Completion, DataHandling, Device, Geometry, IoError, Request, VirtualQueue};

/// A device that takes for each IO what `service` says, by when it begins, and fails those that `fails` says, by their
/// number (from 1) and what they ask.
pub struct MadeUp<F> {
    capacity: Bytes,
    pub block: Bytes,
    queue: VirtualQueue,
    service: F,
    /// Whether it serves one IO at a time, rather than all at once.
    pub serial: bool,
    /// When it is done with the last one.
    free: Nanos,
    ios: u64,
    pub fails: fn(u64, &Request) -> bool,
    pub error: IoError,
}

impl<F: FnMut(&Request, Nanos) -> f64> MadeUp<F> {
    /// One that serves all IOs at once and fails none; `service` is in nanoseconds.
    pub fn new(capacity: Bytes, service: F) -> MadeUp<F> {
        MadeUp {
            capacity,
            block: Bytes(512),
            queue: VirtualQueue::new(32),
            service,
            serial: false,
            free: Nanos::ZERO,
            ios: 0,
            fails: |_, _| false,
            error: IoError::IO,
        }
    }
}

impl<F: FnMut(&Request, Nanos) -> f64> Device for MadeUp<F> {
    fn geometry(&self) -> Geometry {
        let (capacity, block) = (self.capacity, self.block);
        Geometry { capacity, block, depth: 32, data: DataHandling::Ignored }
    }

    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn now(&mut self) -> Nanos {
        self.queue.now()
    }

    fn submit(&mut self, request: Request) {
        let mut result = self.geometry().check(request.offset, request.size);
        self.ios += 1;
        if (self.fails)(self.ios, &request) {
            result = Err(self.error);
        }
        let now = self.queue.now();
        let begin = if self.serial { now.max(self.free) } else { now };
        self.free = begin + Nanos((self.service)(&request, begin) as u64);
        self.queue.push(request, self.free, result);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.wait(until)
    }
}
