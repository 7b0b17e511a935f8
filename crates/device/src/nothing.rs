//! A device that does nothing, to measure the overhead of the program that drives a device.

use flashlab_base::{Bytes, Identity, Nanos};

use crate::device::Device;
use crate::geometry::{DataHandling, Geometry};
use crate::io::{Completion, Request};

/// A device that completes every IO immediately. Its clock makes no system call, so that a profile shows only
/// the program. It ignores data and accepts any range.
#[derive(Debug)]
pub struct NoDevice {
    capacity: Bytes,
    clock: u64,
    in_flight: Option<Completion>,
}

impl NoDevice {
    /// A device of this capacity.
    pub fn new(capacity: Bytes) -> NoDevice {
        NoDevice { capacity, clock: 0, in_flight: None }
    }
}

impl Device for NoDevice {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.capacity, block: Bytes(512), depth: 1, data: DataHandling::Ignored }
    }

    fn identity(&self) -> Identity {
        Identity::default()
    }

    #[inline]
    fn now(&mut self) -> Nanos {
        Nanos(self.clock)
    }

    #[inline]
    fn submit(&mut self, request: Request) {
        let submitted = Nanos(self.clock);
        // Response times vary as on a disk, so that recording them costs as much as on a disk.
        self.clock += 60_000 + (self.clock.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52);
        let (tag, completed, buffer) = (request.tag, Nanos(self.clock), request.buffer);
        self.in_flight = Some(Completion { tag, submitted, completed, result: Ok(()), buffer });
    }

    #[inline]
    fn wait(&mut self, _until: Nanos) -> Option<Completion> {
        self.in_flight.take()
    }
}
