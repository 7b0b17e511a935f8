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
use serde::{Deserialize, Serialize};

use crate::profile::Bandwidth;

/// `[controller.limit]`. What is absent is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limit {
    /// Reads a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<u64>,
    /// Writes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<u64>,
    /// Bytes read a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bandwidth: Option<Bandwidth>,
    /// Bytes written a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<Bandwidth>,
    /// For how long the right to IOs is saved up.
    pub burst: Nanos,
    /// The way to the device and back.
    pub latency: Nanos,
}

impl Limit {
    /// How much of the bucket's time an IO takes.
    fn share(&self, operation: Operation, size: Bytes) -> Nanos {
        let (iops, bandwidth) = match operation {
            Operation::Read => (self.read_iops, self.read_bandwidth),
            Operation::Write => (self.write_iops, self.write_bandwidth),
            Operation::Flush | Operation::Discard => return Nanos::ZERO,
        };
        let one = Nanos(iops.map_or(0, |iops| (1e9 / iops as f64).round() as u64));
        one.max(bandwidth.map_or(Nanos::ZERO, |bandwidth| bandwidth.time(size)))
    }
}

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
        self.paid = self.paid.max(now) + self.limit.share(operation, size);
        admitted
    }

    /// What the way takes.
    pub(super) fn latency(&self) -> Nanos {
        self.limit.latency
    }
}
