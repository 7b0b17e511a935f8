//! Transport latency: the time that an IO takes from the program to the server and back.
//!
//! # Model
//! The response time that a program sees is the time of the server plus the transport latency: request and
//! answer cross the kernel, and threads wake up. It differs between reads and writes and grows with the size
//! of the IO. A live disk subtracts it from each modelled response time, so that the program sees the
//! modelled one. Module `latency_probe` measures it.
//!
//! # Invariants
//! - A larger IO never has a smaller transport latency.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::Operation;
use serde::{Deserialize, Serialize};

/// The transport latency of reads and of writes, there and back together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportLatency {
    /// Of reads.
    pub read: LatencyCurve,
    /// Of writes, discards and flushes.
    pub write: LatencyCurve,
}

/// A latency over the IO size: measured points, with straight lines between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyCurve {
    points: [(Bytes, Nanos); POINTS],
}

/// The number of IO sizes that are measured.
pub(crate) const POINTS: usize = 5;

impl TransportLatency {
    /// The transport latency of one IO.
    pub fn of(&self, operation: Operation, size: Bytes) -> Nanos {
        if operation == Operation::Read { self.read.of(size) } else { self.write.of(size) }
    }
}

impl LatencyCurve {
    /// The curve through measured points, sorted by size. A latency below that of a smaller size is noise, and is raised
    /// to it.
    pub fn through(mut points: [(Bytes, Nanos); POINTS]) -> LatencyCurve {
        let mut least = Nanos::ZERO;
        for (_, latency) in &mut points {
            least = least.max(*latency);
            *latency = least;
        }
        LatencyCurve { points }
    }

    /// The latency of an IO of this size. Below the smallest measured size it is constant; beyond the largest it
    /// continues with the last slope.
    pub fn of(&self, size: Bytes) -> Nanos {
        let (smallest, latency) = self.points[0];
        if size <= smallest {
            return latency;
        }
        let pairs = || self.points.windows(2).filter(|pair| pair[0].0 < pair[1].0);
        let Some(pair) = pairs().find(|pair| size <= pair[1].0).or(pairs().next_back()) else {
            return latency;
        };
        let [(from, low), (to, high)] = [pair[0], pair[1]];
        let slope = (high.0 - low.0) as f64 / (to.0 - from.0) as f64;
        low + Nanos((slope * (size.0 - from.0) as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: [(u64, u64); 5]) -> LatencyCurve {
        LatencyCurve::through(points.map(|(kib, time)| (Bytes::kib(kib), Nanos(time))))
    }

    #[test]
    fn the_curve_goes_through_its_points_and_beyond_the_last() {
        let curve = curve([(4, 10_000), (32, 9_000), (128, 30_000), (512, 100_000), (1024, 200_000)]);
        let of = |kib| curve.of(Bytes::kib(kib)).0;
        assert_eq!((curve.of(Bytes(512)).0, of(4), of(32)), (10_000, 10_000, 10_000), "it never falls");
        assert_eq!((of(80), of(768), of(1024)), (20_000, 150_000, 200_000));
        assert_eq!(of(2048), 400_000);
    }

    #[test]
    fn a_disk_of_one_block_has_a_flat_curve() {
        let curve = curve([(4, 9_000), (4, 9_500), (4, 9_000), (4, 9_000), (4, 9_000)]);
        assert_eq!(curve.of(Bytes::kib(4)), Nanos(9_000));
        assert_eq!(curve.of(Bytes::kib(64)), Nanos(9_000));
    }
}
