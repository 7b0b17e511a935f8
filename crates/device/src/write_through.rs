//! A wrapper whose writes are answered when they are on the medium.

use flashlab_base::{Bytes, Nanos, Operation};

use crate::{Buffer, Completion, Device, Disturbance, Geometry, Identity, IoError, Request};

/// The device beneath it, with a flush behind each write: what the write left in a buffer is waited for as well, as the host does that
/// opens it for synchronous writes.
///
/// There are as many requests in flight beneath as above: a flush takes the place of its write.
pub struct WriteThrough<'d> {
    inner: &'d mut dyn Device,
    /// The tags of the writes in flight.
    writes: Vec<u64>,
    /// The writes that are done, and whose flush is in flight with the same tag.
    flushed: Vec<Completion>,
}

impl<'d> WriteThrough<'d> {
    /// `inner`, with a flush behind each write.
    pub fn new(inner: &'d mut dyn Device) -> WriteThrough<'d> {
        WriteThrough { inner, writes: Vec::new(), flushed: Vec::new() }
    }

    /// What this completion from beneath is above: none for a write, whose flush follows.
    fn pass(&mut self, completion: Completion) -> Option<Completion> {
        let tag = completion.tag;
        if let Some(place) = self.flushed.iter().position(|write| write.tag == tag) {
            let write = self.flushed.swap_remove(place);
            let result = write.result.and(completion.result);
            return Some(Completion { completed: completion.completed, result, ..write });
        }
        let Some(place) = self.writes.iter().position(|&write| write == tag) else { return Some(completion) };
        self.writes.swap_remove(place);
        if completion.result.is_err() {
            return Some(completion);
        }
        self.flushed.push(completion);
        let (offset, size) = (Bytes::ZERO, Bytes::ZERO);
        self.inner.submit(Request {
            tag,
            operation: Operation::Flush,
            offset,
            size,
            buffer: Buffer::empty(),
        });
        None
    }
}

impl Device for WriteThrough<'_> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn now(&mut self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, request: Request) {
        if request.operation == Operation::Write {
            self.writes.push(request.tag);
        }
        self.inner.submit(request);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        loop {
            let completion = self.inner.wait(until)?;
            if let passed @ Some(_) = self.pass(completion) {
                return passed;
            }
        }
    }

    fn loss(&mut self) -> Option<String> {
        self.inner.loss()
    }

    fn refusal(&mut self) -> Option<String> {
        self.inner.refusal()
    }

    fn keeps_data(&self) -> bool {
        self.inner.keeps_data()
    }

    fn sees_content(&self) -> bool {
        self.inner.sees_content()
    }

    fn condition(
        &mut self,
        ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>,
    ) -> Result<bool, IoError> {
        self.inner.condition(ios)
    }

    fn media_written(&mut self) -> Option<Bytes> {
        self.inner.media_written()
    }

    fn disturbance(&mut self) -> Disturbance {
        self.inner.disturbance()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    fn request(tag: u64, operation: Operation) -> Request {
        Request { tag, operation, offset: Bytes::ZERO, size: Bytes(512), buffer: Buffer::empty() }
    }

    #[test]
    fn a_write_takes_its_flush_as_well_and_a_read_none() {
        // Each IO takes as long, a flush too.
        let mut memory = MemoryDevice::new(Bytes::kib(64), Nanos::from_micros(10));
        let mut device = WriteThrough::new(&mut memory);
        for (operation, took) in [(Operation::Write, 20), (Operation::Read, 10), (Operation::Write, 20)] {
            device.submit(request(7, operation));
            let done = device.wait(Nanos::MAX).unwrap();
            assert_eq!((done.tag, done.result), (7, Ok(())));
            assert_eq!(done.completed.since(done.submitted), Nanos::from_micros(took), "{operation:?}");
        }
        assert!(device.wait(Nanos::MAX).is_none());
    }

    #[test]
    fn what_is_in_flight_at_once_is_answered_once_each() {
        let mut memory = MemoryDevice::new(Bytes::kib(64), Nanos::from_micros(10));
        let mut device = WriteThrough::new(&mut memory);
        device.submit(request(1, Operation::Write));
        device.submit(request(2, Operation::Read));
        device.submit(request(3, Operation::Write));
        let mut tags: Vec<u64> =
            std::iter::from_fn(|| device.wait(Nanos::MAX)).map(|done| done.tag).collect();
        tags.sort_unstable();
        assert_eq!(tags, [1, 2, 3]);
    }

    #[test]
    fn a_write_that_fails_is_not_flushed() {
        let mut memory = MemoryDevice::new(Bytes::kib(64), Nanos::from_micros(10));
        let mut device = WriteThrough::new(&mut memory);
        device.submit(Request { offset: Bytes::kib(64), ..request(1, Operation::Write) });
        assert_eq!(device.wait(Nanos::MAX).unwrap().result, Err(IoError::OUT_OF_RANGE));
        assert!(device.wait(Nanos::MAX).is_none());
    }
}
