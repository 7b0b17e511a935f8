//! A device whose writes are answered when they are on the medium.

use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_base::{Bytes, Nanos, Operation};
use flashlab_device::{Buffer, Completion, Device, Health, IoError, Parallel, Request, VirtualTime};

use crate::process::WAIT_PIECE;

/// No device that answers at all takes longer for a flush: the kernel gives up commands sooner, with all that it tries again.
pub const FLUSH_MOST: Nanos = Nanos::from_secs(600);

/// What became of a device that took longer, as [`Device::loss`] tells it.
pub fn unanswered_flush() -> String {
    format!("did not answer a flush within {FLUSH_MOST}")
}

/// The device beneath it, with a flush behind each write: what the write left in a buffer is waited for as well, as the host does that
/// opens it for synchronous writes.
///
/// There are as many requests in flight beneath as above: a flush takes the place of its write. One that is not answered within
/// [`FLUSH_MOST`] fails its write with [`IoError::GONE`], and one that is not when the run is ended is not waited for. It may be in
/// flight for ever then, so that nothing else is submitted.
pub(crate) struct WriteThrough<'d> {
    inner: &'d mut dyn Device,
    /// Set when the run has to end.
    interrupt: &'d AtomicBool,
    /// How long a flush may take.
    longest: Nanos,
    /// Whether one took longer.
    hangs: bool,
    /// The tags of the writes in flight.
    writes: Vec<u64>,
    /// The writes that are done, and whose flush is in flight with the same tag.
    flushed: Vec<Completion>,
    /// The tags of flushes that are not waited for: no answer counts for them.
    given_up: Vec<u64>,
}

impl<'d> WriteThrough<'d> {
    /// `inner`, with a flush behind each write, until `interrupt` is set.
    pub(crate) fn new(inner: &'d mut dyn Device, interrupt: &'d AtomicBool) -> WriteThrough<'d> {
        let (writes, flushed, given_up) = (Vec::new(), Vec::new(), Vec::new());
        WriteThrough { inner, interrupt, longest: FLUSH_MOST, hangs: false, writes, flushed, given_up }
    }

    /// The write whose flush waits the longest, and until when it may.
    fn first_flushed(&self) -> Option<(usize, Nanos)> {
        let due =
            |(place, write): (usize, &Completion)| (place, write.completed.saturating_add(self.longest));
        self.flushed.iter().enumerate().map(due).min_by_key(|&(_, due)| due)
    }

    /// What this completion from beneath is above: none for a write, whose flush follows, and for a flush that nobody waits for.
    fn pass(&mut self, completion: Completion) -> Option<Completion> {
        let tag = completion.tag;
        if self.given_up.contains(&tag) {
            return None;
        }
        if let Some(place) = self.flushed.iter().position(|write| write.tag == tag) {
            let write = self.flushed.swap_remove(place);
            return Some(Completion { completed: completion.completed, result: completion.result, ..write });
        }
        let Some(place) = self.writes.iter().position(|&write| write == tag) else { return Some(completion) };
        self.writes.swap_remove(place);
        if completion.result.is_err() {
            return Some(completion);
        }
        if !self.given_up.is_empty() {
            return Some(self.unflushed(completion));
        }
        self.flushed.push(completion);
        let (offset, size) = (Bytes::ZERO, Bytes::ZERO);
        let operation = Operation::Flush;
        self.inner.submit(Request { tag, operation, offset, size, buffer: Buffer::empty() });
        None
    }

    /// A write whose flush is not waited for.
    fn unflushed(&self, write: Completion) -> Completion {
        if self.hangs { Completion { result: Err(IoError::GONE), ..write } } else { write }
    }
}

impl<'d> flashlab_device::Wrapper for WriteThrough<'d> {
    type Inner = dyn Device + 'd;

    fn inner(&self) -> &(dyn Device + 'd) {
        self.inner
    }

    fn inner_mut(&mut self) -> &mut (dyn Device + 'd) {
        self.inner
    }

    fn submit(&mut self, request: Request) {
        if request.operation == Operation::Write {
            self.writes.push(request.tag);
        }
        self.inner.submit(request);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        loop {
            let Some((first, due)) = self.first_flushed() else {
                let completion = self.inner.wait(until)?;
                match self.pass(completion) {
                    None => continue,
                    passed => return passed,
                }
            };
            let piece = self.inner.now().saturating_add(WAIT_PIECE);
            if let Some(completion) = self.inner.wait(until.min(due).min(piece)) {
                match self.pass(completion) {
                    None => continue,
                    passed => return passed,
                }
            }
            let now = self.inner.now();
            self.hangs |= now >= due;
            if self.hangs || self.interrupt.load(Ordering::Relaxed) {
                let write = self.flushed.swap_remove(first);
                self.given_up.push(write.tag);
                return Some(self.unflushed(Completion { completed: now, ..write }));
            }
            if now >= until {
                return None;
            }
        }
    }

    /// None: a write would complete before its flush is submitted.
    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        None
    }

    /// None: the lanes' writes would not be flushed.
    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        None
    }

    fn health(&mut self) -> Option<&mut dyn Health> {
        Some(self)
    }
}

impl Health for WriteThrough<'_> {
    fn loss(&mut self) -> Option<String> {
        if self.hangs { Some(unanswered_flush()) } else { self.inner.health()?.loss() }
    }

    fn refusal(&mut self) -> Option<String> {
        self.inner.health()?.refusal()
    }
}

#[cfg(test)]
mod tests {
    use flashlab_device::{CompleteDevice, MemoryDevice};

    use super::*;

    static GOES_ON: AtomicBool = AtomicBool::new(false);
    static ENDS: AtomicBool = AtomicBool::new(true);

    /// Each IO takes as long, a flush too, one after the other.
    fn memory() -> MemoryDevice {
        MemoryDevice::new(Bytes::kib(64), Nanos::from_micros(10))
    }

    fn request(tag: u64, operation: Operation) -> Request {
        Request { tag, operation, offset: Bytes::ZERO, size: Bytes(512), buffer: Buffer::empty() }
    }

    #[test]
    fn a_write_takes_its_flush_as_well_and_a_read_none() {
        let mut memory = memory();
        let mut device = WriteThrough::new(&mut memory, &GOES_ON);
        for (operation, took) in [(Operation::Write, 20), (Operation::Read, 10), (Operation::Write, 20)] {
            device.submit(request(7, operation));
            let done = device.wait(Nanos::MAX).unwrap();
            assert_eq!((done.tag, done.result), (7, Ok(())));
            assert_eq!(done.completed.since(done.submitted), Nanos::from_micros(took), "{operation:?}");
        }
        assert!(device.wait(Nanos::MAX).is_none());
    }

    #[test]
    fn only_what_would_bypass_the_flush_is_not_passed_on() {
        let mut complete = CompleteDevice::new(memory());
        let mut device = WriteThrough::new(&mut complete, &GOES_ON);
        assert_eq!(CompleteDevice::capabilities(&mut device), ["conditioning", "health", "telemetry"]);
        let health = device.health().unwrap();
        assert_eq!(health.loss().as_deref(), Some(CompleteDevice::LOSS));
        assert_eq!(health.refusal().as_deref(), Some(CompleteDevice::REFUSAL));
        let telemetry = device.telemetry().unwrap();
        assert_eq!(telemetry.disturbance().device_traffic, Some(CompleteDevice::DEVICE_TRAFFIC));
        assert_eq!(telemetry.media_written(), Some(CompleteDevice::MEDIA_WRITTEN));
        assert_eq!(device.geometry(), memory().geometry());
    }

    #[test]
    fn what_is_in_flight_at_once_is_answered_once_each() {
        let mut memory = memory();
        let mut device = WriteThrough::new(&mut memory, &GOES_ON);
        device.submit(request(1, Operation::Write));
        device.submit(request(2, Operation::Read));
        device.submit(request(3, Operation::Write));
        let all: Vec<(u64, u64)> = std::iter::from_fn(|| device.wait(Nanos::MAX))
            .map(|done| (done.tag, done.completed.0 / 1000))
            .collect();
        // The flushes queue behind the read and the other write.
        assert_eq!(all, [(2, 20), (1, 40), (3, 50)]);
    }

    #[test]
    fn a_flush_that_takes_too_long_fails_its_write_and_comes_too_late() {
        let mut memory = memory();
        let mut device =
            WriteThrough { longest: Nanos::from_micros(4), ..WriteThrough::new(&mut memory, &GOES_ON) };
        device.submit(request(1, Operation::Write));
        device.submit(request(2, Operation::Write));
        assert!(device.wait(Nanos(13_000)).is_none() && Health::loss(&mut device).is_none());
        // The other one is not flushed any more.
        for (tag, completed) in [(1, 14), (2, 20)] {
            let done = device.wait(Nanos::MAX).unwrap();
            let completed = Nanos::from_micros(completed);
            assert_eq!((done.tag, done.completed, done.result), (tag, completed, Err(IoError::GONE)));
        }
        assert!(Health::loss(&mut device).is_some_and(|loss| loss.contains("flush")));
        assert!(device.wait(Nanos::MAX).is_none());
    }

    #[test]
    fn a_flush_is_not_waited_for_when_the_run_is_ended() {
        let mut memory = memory();
        let mut device = WriteThrough::new(&mut memory, &ENDS);
        device.submit(request(1, Operation::Write));
        assert!(device.wait(Nanos(9_000)).is_none());
        let done = device.wait(Nanos(13_000)).unwrap();
        assert_eq!((done.tag, done.completed, done.result), (1, Nanos(13_000), Ok(())));
        assert!(Health::loss(&mut device).is_none() && device.wait(Nanos::MAX).is_none());
    }

    #[test]
    fn a_write_that_fails_is_not_flushed() {
        let mut memory = memory();
        let mut device = WriteThrough::new(&mut memory, &GOES_ON);
        device.submit(Request { offset: Bytes::kib(64), ..request(1, Operation::Write) });
        assert_eq!(device.wait(Nanos::MAX).unwrap().result, Err(IoError::OUT_OF_RANGE));
        assert!(device.wait(Nanos::MAX).is_none());
    }
}
