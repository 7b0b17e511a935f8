//! A drive that gets one request at a time, as in the paper's programs.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Arena, Device, Operation, Request};
use flashlab_sim::SimulatedDevice;

use crate::lab::{ReproduceError, Result, condition, device, mean};

/// The paper's unit of reading and writing.
pub(super) const BLOCK: Bytes = Bytes::kib(4);

/// The most blocks of a request.
pub(super) const LARGEST: u64 = 30;

/// The drive that the paper studies.
pub(super) const UNKNOWN: &str = "sun-zhang-unknown";

/// The content of a block of 4 KiB.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fill {
    Zeros,
    Ones,
    Random,
    /// The first bytes random, in this number, and the others zeros.
    First(usize),
}

/// A drive and its clock, one request at a time.
pub(super) struct Drive {
    name: &'static str,
    device: SimulatedDevice,
    pub(super) capacity: Bytes,
    random: Prng,
}

impl Drive {
    /// A drive whose every page was written once.
    pub(super) fn written(name: &'static str, seed: Seed) -> Result<Drive> {
        let mut device = device(name)?;
        let capacity = device.geometry().capacity;
        let step = Bytes::kib(128);
        let mut ios = (0..capacity.0 / step.0).map(|i| (Operation::Write, Bytes(i * step.0), step));
        condition(&mut device, &mut ios)?;
        Ok(Drive { name, device, capacity, random: Prng::new(seed) })
    }

    /// The response time of one request, in milliseconds.
    pub(super) fn timed(
        &mut self,
        operation: Operation,
        offset: Bytes,
        size: Bytes,
        fill: Fill,
    ) -> Result<f64> {
        let mut buffer = Arena::buffers(1, size).remove(0);
        match fill {
            Fill::Zeros => buffer.fill(0),
            Fill::Ones => buffer.fill(0xFF),
            Fill::Random => buffer.fill(0x5A),
            Fill::First(bytes) => buffer.chunks_mut(BLOCK.0 as usize).for_each(|block| {
                block.fill(0);
                block[..bytes].fill(0x5A);
            }),
        }
        self.device.submit(Request { tag: 0, operation, offset, size, buffer });
        let done = self.device.wait(Nanos::MAX).expect("one request is in flight");
        done.result.map_err(|error| ReproduceError::new(self.name, error))?;
        Ok(done.completed.since(done.submitted).as_secs_f64() * 1e3)
    }

    /// The response time of a read, in milliseconds.
    pub(super) fn read(&mut self, offset: Bytes, size: Bytes) -> Result<f64> {
        self.timed(Operation::Read, offset, size, Fill::Zeros)
    }

    /// A random multiple of 4 KiB below `end`, with space for `size`.
    pub(super) fn anywhere(&mut self, end: Bytes, size: Bytes) -> Bytes {
        Bytes(self.random.below((end.0 - size.0) / BLOCK.0 + 1) * BLOCK.0)
    }

    /// Random reads of `size` within the first `end` bytes: offset and time of each.
    pub(super) fn random_reads(
        &mut self,
        count: usize,
        end: Bytes,
        size: Bytes,
    ) -> Result<Vec<(Bytes, f64)>> {
        (0..count)
            .map(|_| {
                let offset = self.anywhere(end, size);
                Ok((offset, self.read(offset, size)?))
            })
            .collect()
    }

    /// Consecutive writes of 4 KiB.
    pub(super) fn writes(&mut self, from: Bytes, count: u64, fill: Fill) -> Result<Vec<f64>> {
        (0..count).map(|i| self.timed(Operation::Write, from + Bytes(i * BLOCK.0), BLOCK, fill)).collect()
    }

    /// The time of a merge when blocks of one content are overwritten with another: that of the slow
    /// sequential writes, once the logs contain nothing else.
    pub(super) fn merge_ms(&mut self, from: Bytes, before: Fill, then: Fill) -> Result<f64> {
        self.writes(from, 4096, before)?;
        let times = self.writes(from, 4096, then)?;
        Ok(levels(&times[2048..]).1)
    }
}

/// The means of the two groups of times, divided at the widest gap.
pub(super) fn levels(times: &[f64]) -> (f64, f64) {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let gap = |&i: &usize| sorted[i] - sorted[i - 1];
    let at = (1..sorted.len()).max_by(|a, b| gap(a).total_cmp(&gap(b))).unwrap_or(0);
    (mean(&sorted[..at]), mean(&sorted[at..]))
}

/// The response times alone.
pub(super) fn times(ios: &[(Bytes, f64)]) -> Vec<f64> {
    ios.iter().map(|io| io.1).collect()
}
