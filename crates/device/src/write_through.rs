//! A wrapper whose writes are answered when they are on the medium.

use flashlab_base::{Bytes, Nanos, Operation};

use crate::{Buffer, Completion, Device, Disturbance, Geometry, Identity, IoError, Request};

/// The device beneath it, with a flush behind each write: what the write left in a buffer is waited for as well, as the host does that
/// opens it for synchronous writes.
///
/// There are as many requests in flight beneath as above: a flush takes the place of its write. One that is not answered in time fails
/// its write with [`IoError::GONE`]; it is in flight for ever then, so that nothing else can be asked of the device beneath.
pub struct WriteThrough<'d> {
    inner: &'d mut dyn Device,
    /// How long a flush may take.
    longest: Nanos,
    /// Whether one took longer.
    hangs: bool,
    /// The tags of the writes in flight.
    writes: Vec<u64>,
    /// The writes that are done, and whose flush is in flight with the same tag.
    flushed: Vec<Completion>,
}

impl<'d> WriteThrough<'d> {
    /// `inner`, with a flush behind each write, that may take so long.
    pub fn new(inner: &'d mut dyn Device, longest: Nanos) -> WriteThrough<'d> {
        WriteThrough { inner, longest, hangs: false, writes: Vec::new(), flushed: Vec::new() }
    }

    /// Whether a flush was not answered in time.
    pub fn hangs(&self) -> bool {
        self.hangs
    }

    /// The write whose flush waits the longest, and until when it may.
    fn first_flushed(&self) -> Option<(usize, Nanos)> {
        let due =
            |(place, write): (usize, &Completion)| (place, write.completed.saturating_add(self.longest));
        self.flushed.iter().enumerate().map(due).min_by_key(|&(_, due)| due)
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
            let first = self.first_flushed();
            let due = first.map_or(Nanos::MAX, |(_, due)| due);
            match (self.inner.wait(until.min(due)), first) {
                (Some(completion), _) => {
                    if let passed @ Some(_) = self.pass(completion) {
                        return passed;
                    }
                }
                (None, Some((place, due))) if due <= until => {
                    self.hangs = true;
                    let write = self.flushed.swap_remove(place);
                    return Some(Completion { completed: due, result: Err(IoError::GONE), ..write });
                }
                (None, _) => return None,
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

    const LONGEST: Nanos = Nanos::from_secs(1);

    fn request(tag: u64, operation: Operation) -> Request {
        Request { tag, operation, offset: Bytes::ZERO, size: Bytes(512), buffer: Buffer::empty() }
    }

    #[test]
    fn a_write_takes_its_flush_as_well_and_a_read_none() {
        // Each IO takes as long, a flush too.
        let mut memory = MemoryDevice::new(Bytes::kib(64), Nanos::from_micros(10));
        let mut device = WriteThrough::new(&mut memory, LONGEST);
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
        let mut device = WriteThrough::new(&mut memory, LONGEST);
        device.submit(request(1, Operation::Write));
        device.submit(request(2, Operation::Read));
        device.submit(request(3, Operation::Write));
        let mut tags: Vec<u64> =
            std::iter::from_fn(|| device.wait(Nanos::MAX)).map(|done| done.tag).collect();
        tags.sort_unstable();
        assert_eq!(tags, [1, 2, 3]);
    }

    #[test]
    fn a_flush_that_takes_too_long_fails_its_write() {
        let mut memory = MemoryDevice::new(Bytes::kib(64), Nanos::from_micros(10));
        let mut device = WriteThrough::new(&mut memory, Nanos::from_micros(4));
        device.submit(request(1, Operation::Write));
        assert!(device.wait(Nanos(13_000)).is_none() && !device.hangs());
        let done = device.wait(Nanos::MAX).unwrap();
        assert_eq!((done.completed, done.result), (Nanos::from_micros(14), Err(IoError::GONE)));
        assert!(device.hangs());
    }

    #[test]
    fn a_write_that_fails_is_not_flushed() {
        let mut memory = MemoryDevice::new(Bytes::kib(64), Nanos::from_micros(10));
        let mut device = WriteThrough::new(&mut memory, LONGEST);
        device.submit(Request { offset: Bytes::kib(64), ..request(1, Operation::Write) });
        assert_eq!(device.wait(Nanos::MAX).unwrap().result, Err(IoError::OUT_OF_RANGE));
        assert!(device.wait(Nanos::MAX).is_none());
    }
}
