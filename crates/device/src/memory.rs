//! A device in memory whose IOs all take the same virtual time: for tests, and as the simplest example of a device.

use flashlab_base::{Bytes, Identity, Nanos, Operation};

use crate::device::{Device, VirtualTime};
use crate::geometry::{DataHandling, Geometry};
use crate::huge_pages::zeroes_in_huge_pages;
use crate::io::{Completion, IoError, Request};
use crate::virtual_queue::VirtualQueue;

/// A device that serves one IO after the other, each in the same virtual time.
pub struct MemoryDevice {
    data: Vec<u8>,
    response: Nanos,
    busy_until: Nanos,
    queue: VirtualQueue,
}

const BLOCK: Bytes = Bytes(512);
const DEPTH: u32 = 1024;

impl MemoryDevice {
    /// A zeroed device of `capacity`, rounded down to 512 bytes, that takes `response` for each IO.
    pub fn new(capacity: Bytes, response: Nanos) -> MemoryDevice {
        let capacity = capacity.round_down(BLOCK);
        MemoryDevice {
            data: zeroes_in_huge_pages(usize::try_from(capacity.0).expect("the device fits into memory")),
            response,
            busy_until: Nanos::ZERO,
            queue: VirtualQueue::new(DEPTH),
        }
    }

    /// The stored data.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    fn serve(&mut self, request: &mut Request) -> Result<(), IoError> {
        if request.operation == Operation::Flush {
            return Ok(());
        }
        self.geometry().check(request.offset, request.size)?;
        let (start, length) = (request.offset.0 as usize, request.size.0 as usize);
        let stored = &mut self.data[start..start + length];
        match request.operation {
            Operation::Discard => stored.fill(0),
            _ if request.buffer.is_empty() => {}
            Operation::Write => stored.copy_from_slice(&request.buffer[..length]),
            _ => request.buffer[..length].copy_from_slice(stored),
        }
        Ok(())
    }
}

impl Device for MemoryDevice {
    fn geometry(&self) -> Geometry {
        let capacity = Bytes(self.data.len() as u64);
        Geometry { capacity, block: BLOCK, depth: DEPTH, data: DataHandling::Stored }
    }

    fn identity(&self) -> Identity {
        Identity {
            target: "memory".to_owned(),
            kind: "memory".to_owned(),
            capacity: self.geometry().capacity,
            engine: Some("virtual time".to_owned()),
            ..Identity::default()
        }
    }

    fn now(&mut self) -> Nanos {
        self.queue.now()
    }

    fn submit(&mut self, mut request: Request) {
        let result = self.serve(&mut request);
        self.busy_until = self.busy_until.max(self.queue.now()) + self.response;
        self.queue.push(request, self.busy_until, result);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.wait(until)
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        Some(&mut self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Arena;

    fn request(operation: Operation, offset: u64, size: u64) -> Request {
        let buffer = Arena::buffers(1, Bytes(size)).remove(0);
        Request { tag: 9, operation, offset: Bytes(offset), size: Bytes(size), buffer }
    }

    #[test]
    fn what_was_written_is_read_until_it_is_discarded() {
        let mut device = MemoryDevice::new(Bytes::kib(64), Nanos(100));
        let mut write = request(Operation::Write, 4096, 512);
        write.buffer.fill(7);
        device.submit(write);
        device.submit(request(Operation::Read, 4096, 512));
        device.submit(request(Operation::Discard, 4096, 512));
        device.submit(request(Operation::Read, 4096, 512));
        let done: Vec<Completion> = std::iter::from_fn(|| device.wait(Nanos::MAX)).collect();
        assert_eq!(done.iter().map(|c| c.completed.0).collect::<Vec<_>>(), [100, 200, 300, 400]);
        assert!(done[1].buffer.iter().all(|&byte| byte == 7));
        assert!(done[3].buffer.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn waiting_ends_at_the_given_time() {
        let mut device = MemoryDevice::new(Bytes::kib(64), Nanos(100));
        device.submit(request(Operation::Read, 0, 512));
        assert!(device.wait(Nanos(40)).is_none());
        assert_eq!(device.now(), Nanos(40));
        assert_eq!(device.wait(Nanos(1000)).unwrap().completed, Nanos(100));
        assert_eq!(device.now(), Nanos(100));
        assert!(device.wait(Nanos(1000)).is_none());
        assert_eq!(device.now(), Nanos(1000));
    }

    #[test]
    fn impossible_ranges_are_errors_of_the_io() {
        let mut device = MemoryDevice::new(Bytes::kib(64), Nanos(1));
        for (offset, size, expected) in [
            (0, 0, IoError::INVALID),
            (1, 512, IoError::INVALID),
            (65536, 512, IoError::OUT_OF_RANGE),
            (u64::MAX - 511, 512, IoError::OUT_OF_RANGE),
        ] {
            device.submit(request(Operation::Read, offset, size));
            assert_eq!(device.wait(Nanos::MAX).unwrap().result, Err(expected));
        }
    }
}
