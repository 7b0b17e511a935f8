//! A device that takes no time, for measuring what a program costs that drives one.

use flashlab_base::{Bytes, Identity, Nanos};

use crate::{Completion, Device, Geometry, Request};

/// Completes every IO at once, with a clock that costs nothing: what is left is the program. It keeps no
/// data, and any range is served.
#[derive(Debug)]
pub struct NoDevice {
    capacity: Bytes,
    clock: u64,
    in_flight: Option<Completion>,
}

impl NoDevice {
    /// A device of this size.
    pub fn new(capacity: Bytes) -> NoDevice {
        NoDevice { capacity, clock: 0, in_flight: None }
    }
}

impl Device for NoDevice {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.capacity, block: Bytes(512), depth: 1 }
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
        // Response times that vary as a disk's do, so that recording them costs what it will.
        self.clock += 60_000 + (self.clock.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52);
        let (tag, completed, buffer) = (request.tag, Nanos(self.clock), request.buffer);
        self.in_flight = Some(Completion { tag, submitted, completed, result: Ok(()), buffer });
    }

    #[inline]
    fn wait(&mut self, _until: Nanos) -> Option<Completion> {
        self.in_flight.take()
    }

    fn keeps_data(&self) -> bool {
        false
    }
}
