//! A wrapper for a file whose last block is incomplete.
//!
//! # Model
//! Direct IO moves whole blocks, so a device on a file ends at the file's last whole block. This wrapper adds one more block:
//! the bytes after it, which its maker read by other means, and zeroes. It is for reading: a write to that block fails.
//!
//! # Invariants
//! - A read that reaches into the last block is one IO to its caller; the inner device serves what lies before.

use std::collections::VecDeque;

use flashlab_base::{Bytes, Nanos, Operation};

use crate::device::{Conditioning, Device, Parallel, VirtualTime};
use crate::geometry::Geometry;
use crate::io::{Completion, IoError, Request};

/// A device with a last block of its own.
pub struct TailDevice<D> {
    inner: D,
    /// One block.
    tail: Vec<u8>,
    /// Answers that the inner device does not give.
    ready: VecDeque<Completion>,
}

impl<D: Device> TailDevice<D> {
    /// `inner` followed by `tail`, which is shorter than a block.
    ///
    /// # Panics
    /// When the tail is longer than a block: the caller's mistake.
    pub fn new(inner: D, tail: &[u8]) -> TailDevice<D> {
        let block = inner.geometry().block.0 as usize;
        assert!(tail.len() <= block, "a tail is shorter than a block");
        let mut padded = tail.to_vec();
        padded.resize(block, 0);
        TailDevice { inner, tail: padded, ready: VecDeque::new() }
    }

    fn end(&self) -> Bytes {
        self.inner.geometry().capacity
    }

    fn answer(&mut self, request: Request, result: Result<(), IoError>) {
        let now = self.inner.now();
        let Request { tag, buffer, .. } = request;
        self.ready.push_back(Completion { tag, submitted: now, completed: now, result, buffer });
    }
}

impl<D: Device> crate::Wrapper for TailDevice<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn geometry(&self) -> Geometry {
        let inner = self.inner.geometry();
        Geometry { capacity: inner.capacity + inner.block, ..inner }
    }

    fn submit(&mut self, mut request: Request) {
        let checked = crate::Wrapper::geometry(self).check(request.offset, request.size);
        let reaches = request.operation != Operation::Flush && request.offset + request.size > self.end();
        if checked.is_err() || !reaches {
            return self.inner.submit(request);
        }
        if request.operation != Operation::Read || (request.buffer.len() as u64) < request.size.0 {
            return self.answer(request, Err(IoError::READ_ONLY));
        }
        let block = self.tail.len();
        let before = request.size.0 as usize - block;
        request.buffer[before..before + block].copy_from_slice(&self.tail);
        if before == 0 {
            return self.answer(request, Ok(()));
        }
        request.size = Bytes(before as u64);
        self.inner.submit(request);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.ready.pop_front().or_else(|| self.inner.wait(until))
    }

    /// None: completions in advance would bypass the tail.
    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        None
    }

    /// None: the tail has no state.
    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        None
    }

    /// None: the lanes would end before the tail.
    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Arena;
    use crate::complete::CompleteDevice;
    use crate::memory::MemoryDevice;

    fn io(device: &mut dyn Device, operation: Operation, offset: u64, size: u64) -> Completion {
        let mut buffer = Arena::buffers(1, Bytes(size)).remove(0);
        buffer.fill(9);
        device.submit(Request { tag: 3, operation, offset: Bytes(offset), size: Bytes(size), buffer });
        device.wait(Nanos::MAX).unwrap()
    }

    #[test]
    fn the_last_block_is_the_tail_and_zeroes() {
        let mut device = TailDevice::new(MemoryDevice::new(Bytes(1024), Nanos(1)), &[7; 100]);
        assert_eq!(Device::geometry(&device).capacity, Bytes(1536));
        for (offset, size) in [(0, 1536), (512, 1024), (1024, 512)] {
            let done = io(&mut device, Operation::Read, offset, size);
            let expected: Vec<u8> =
                (offset..offset + size).map(|at| if (1024..1124).contains(&at) { 7 } else { 0 }).collect();
            assert_eq!((done.tag, done.result), (3, Ok(())));
            assert!(done.buffer[..] == expected[..], "{offset}");
        }
        assert_eq!(io(&mut device, Operation::Write, 1024, 512).result, Err(IoError::READ_ONLY));
        assert_eq!(io(&mut device, Operation::Write, 0, 512).result, Ok(()));
        assert_eq!(io(&mut device, Operation::Read, 1536, 512).result, Err(IoError::OUT_OF_RANGE));
    }

    #[test]
    fn capabilities_that_bypass_the_tail_are_hidden() {
        let memory = MemoryDevice::new(Bytes::kib(64), Nanos(1));
        let mut device = TailDevice::new(CompleteDevice::new(memory), &[]);
        assert_eq!(CompleteDevice::capabilities(&mut device), ["health", "telemetry"]);
    }
}
