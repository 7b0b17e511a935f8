//! The limits of a cloud volume, and the network latency to it.
//!
//! # Model
//! One token bucket serves reads and writes. An IO takes the larger of two shares of a second: one IO of the IOPS limit, and
//! its bytes of the bandwidth limit. Unused time is saved, up to `burst`. An IO that finds the bucket empty waits before it
//! reaches the device, and the IOs behind it wait too. The network latency is the same for each IO, and does not depend on
//! the load.
//!
//! # Invariants
//! - requests reach the device in the order of their arrival.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::Operation;

use crate::profile::Limit;

/// The bucket of a device.
#[derive(Debug)]
pub(super) struct Bucket {
    limit: Limit,
    /// When all admitted IOs have used up their time.
    paid: Nanos,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(limit: Limit) -> Bucket {
        Bucket { limit, paid: Nanos::ZERO }
    }

    /// When an IO that arrives at `now` reaches the device.
    pub(super) fn admit(&mut self, operation: Operation, size: Bytes, now: Nanos) -> Nanos {
        let admitted = now.max(self.paid.since(self.limit.burst));
        self.paid = self.paid.max(now) + self.share(operation, size);
        admitted
    }

    /// The time that an IO takes from the bucket.
    fn share(&self, operation: Operation, size: Bytes) -> Nanos {
        let (iops, bandwidth) = match operation {
            Operation::Read => (self.limit.read_iops, self.limit.read_bandwidth),
            Operation::Write => (self.limit.write_iops, self.limit.write_bandwidth),
            Operation::Flush | Operation::Discard => return Nanos::ZERO,
        };
        let one = Nanos(iops.map_or(0, |iops| (1e9 / iops as f64).round() as u64));
        one.max(bandwidth.map_or(Nanos::ZERO, |bandwidth| bandwidth.time(size)))
    }

    /// The network latency of an IO, in both directions together.
    pub(super) fn latency(&self) -> Nanos {
        self.limit.latency
    }
}
