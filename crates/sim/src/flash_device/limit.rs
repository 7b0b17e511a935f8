//! What a provider lets a volume do, and how far away it is.
//!
//! # Model
//! One token bucket for reads and writes: an IO takes the greater one of its shares of the IOs and of the bytes of a second.
//! What was not used can be saved up for `burst`. An IO that finds the bucket empty waits before it reaches the
//! device, and those behind it too. The way there and back takes each IO the same time, whatever else is on it.
//!
//! # Invariants
//! - requests are let through in the order in which they came.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::Operation;

use crate::profile::Limit;

/// The bucket of a device.
#[derive(Debug)]
pub(super) struct Bucket {
    limit: Limit,
    /// When all that was let through would be paid for.
    paid: Nanos,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(limit: Limit) -> Bucket {
        Bucket { limit, paid: Nanos::ZERO }
    }

    /// When an IO that comes at `now` reaches the device.
    pub(super) fn admit(&mut self, operation: Operation, size: Bytes, now: Nanos) -> Nanos {
        let admitted = now.max(self.paid.since(self.limit.burst));
        self.paid = self.paid.max(now) + self.share(operation, size);
        admitted
    }

    /// How much of the bucket's time an IO takes.
    fn share(&self, operation: Operation, size: Bytes) -> Nanos {
        let (iops, bandwidth) = match operation {
            Operation::Read => (self.limit.read_iops, self.limit.read_bandwidth),
            Operation::Write => (self.limit.write_iops, self.limit.write_bandwidth),
            Operation::Flush | Operation::Discard => return Nanos::ZERO,
        };
        let one = Nanos(iops.map_or(0, |iops| (1e9 / iops as f64).round() as u64));
        one.max(bandwidth.map_or(Nanos::ZERO, |bandwidth| bandwidth.time(size)))
    }

    /// What the way takes.
    pub(super) fn latency(&self) -> Nanos {
        self.limit.latency
    }
}
