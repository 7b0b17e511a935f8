//! A wrapper whose writes complete when they are on the medium.
//!
//! # Model
//! A flush follows each write, with the same tag and in the same place of the queue, so the inner device never has more
//! IOs in flight than the outer one. The write completes when its flush does, as with a file that is opened for
//! synchronous writes.
//!
//! # Invariants
//! - A flush that takes longer than [`FLUSH_TIMEOUT`] fails its write with [`IoError::GONE`]. It may stay in flight forever,
//!   so no further flush is submitted.
//! - After an interrupt the wrapper waits for no flush.

use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_base::{Bytes, Nanos, Operation};
use flashlab_device::{Buffer, Completion, Device, Health, IoError, Parallel, Request, VirtualTime};

use crate::control::INTERRUPT_CHECK;

/// The longest time that a working device takes for a flush. Linux aborts a command after 30 s and retries it
/// a few times; 10 minutes are longer than all of its retries. With a shorter limit, slow devices would be
/// reported as dead.
pub const FLUSH_TIMEOUT: Nanos = Nanos::from_secs(600);

/// The text of [`Health::loss`] for a device that exceeded [`FLUSH_TIMEOUT`].
pub fn flush_timeout_loss() -> String {
    format!("did not answer a flush within {FLUSH_TIMEOUT}")
}

/// A device in front of `inner` that flushes each write.
pub(crate) struct WriteThrough<'d> {
    inner: &'d mut dyn Device,
    /// Set by the caller to end the run.
    interrupt: &'d AtomicBool,
    /// How long a flush may take.
    timeout: Nanos,
    /// Whether a flush took longer.
    has_timed_out: bool,
    /// The tags of the writes in flight.
    writes: Vec<u64>,
    /// The completed writes whose flush is in flight.
    flushing: Vec<Completion>,
    /// The tags of flushes that are no longer waited for. Their completions are dropped.
    abandoned: Vec<u64>,
}

impl<'d> WriteThrough<'d> {
    /// `inner` with a flush after each write, until `interrupt` is set.
    pub(crate) fn new(inner: &'d mut dyn Device, interrupt: &'d AtomicBool) -> WriteThrough<'d> {
        let (writes, flushing, abandoned) = (Vec::new(), Vec::new(), Vec::new());
        WriteThrough {
            inner,
            interrupt,
            timeout: FLUSH_TIMEOUT,
            has_timed_out: false,
            writes,
            flushing,
            abandoned,
        }
    }

    /// The index of the write whose flush has waited longest, and the time at which the flush times out.
    fn first_due(&self) -> Option<(usize, Nanos)> {
        let due =
            |(index, write): (usize, &Completion)| (index, write.completed.saturating_add(self.timeout));
        self.flushing.iter().enumerate().map(due).min_by_key(|&(_, due)| due)
    }

    /// Turns a completion of the inner device into one of this device. `None` for a write, whose flush is submitted now, and
    /// for an abandoned flush.
    fn outer_completion(&mut self, completion: Completion) -> Option<Completion> {
        let tag = completion.tag;
        if self.abandoned.contains(&tag) {
            return None;
        }
        if let Some(index) = self.flushing.iter().position(|write| write.tag == tag) {
            let write = self.flushing.swap_remove(index);
            return Some(Completion { completed: completion.completed, result: completion.result, ..write });
        }
        let Some(index) = self.writes.iter().position(|&write| write == tag) else { return Some(completion) };
        self.writes.swap_remove(index);
        if completion.result.is_err() {
            return Some(completion);
        }
        if !self.abandoned.is_empty() {
            return Some(self.without_flush(completion));
        }
        self.flushing.push(completion);
        let (offset, size) = (Bytes::ZERO, Bytes::ZERO);
        let operation = Operation::Flush;
        self.inner.submit(Request { tag, operation, offset, size, buffer: Buffer::empty() });
        None
    }

    /// The completion of a write whose flush is not waited for.
    fn without_flush(&self, write: Completion) -> Completion {
        if self.has_timed_out { Completion { result: Err(IoError::GONE), ..write } } else { write }
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
            let Some((first, due)) = self.first_due() else {
                let completion = self.inner.wait(until)?;
                match self.outer_completion(completion) {
                    None => continue,
                    passed => return passed,
                }
            };
            let check = self.inner.now().saturating_add(INTERRUPT_CHECK);
            if let Some(completion) = self.inner.wait(until.min(due).min(check)) {
                match self.outer_completion(completion) {
                    None => continue,
                    passed => return passed,
                }
            }
            let now = self.inner.now();
            self.has_timed_out |= now >= due;
            if self.has_timed_out || self.interrupt.load(Ordering::Relaxed) {
                let write = self.flushing.swap_remove(first);
                self.abandoned.push(write.tag);
                return Some(self.without_flush(Completion { completed: now, ..write }));
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
        if self.has_timed_out { Some(flush_timeout_loss()) } else { self.inner.health()?.loss() }
    }

    fn refusal(&mut self) -> Option<String> {
        self.inner.health()?.refusal()
    }
}

#[cfg(test)]
mod tests {
    use flashlab_device::{CompleteDevice, MemoryDevice};

    use super::*;

    static NOT_INTERRUPTED: AtomicBool = AtomicBool::new(false);
    static INTERRUPTED: AtomicBool = AtomicBool::new(true);

    /// A device that serves one IO after the other in 10 us each, flushes included.
    fn memory() -> MemoryDevice {
        MemoryDevice::new(Bytes::kib(64), Nanos::from_micros(10))
    }

    fn request(tag: u64, operation: Operation) -> Request {
        Request { tag, operation, offset: Bytes::ZERO, size: Bytes(512), buffer: Buffer::empty() }
    }

    #[test]
    fn a_write_includes_its_flush_and_a_read_does_not() {
        let mut memory = memory();
        let mut device = WriteThrough::new(&mut memory, &NOT_INTERRUPTED);
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
        let mut device = WriteThrough::new(&mut complete, &NOT_INTERRUPTED);
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
    fn ios_in_flight_at_the_same_time_complete_once_each() {
        let mut memory = memory();
        let mut device = WriteThrough::new(&mut memory, &NOT_INTERRUPTED);
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
    fn a_flush_that_times_out_fails_its_write() {
        let mut memory = memory();
        let mut device = WriteThrough {
            timeout: Nanos::from_micros(4),
            ..WriteThrough::new(&mut memory, &NOT_INTERRUPTED)
        };
        device.submit(request(1, Operation::Write));
        device.submit(request(2, Operation::Write));
        assert!(device.wait(Nanos(13_000)).is_none() && Health::loss(&mut device).is_none());
        // The second write is not flushed any more.
        for (tag, completed) in [(1, 14), (2, 20)] {
            let done = device.wait(Nanos::MAX).unwrap();
            let completed = Nanos::from_micros(completed);
            assert_eq!((done.tag, done.completed, done.result), (tag, completed, Err(IoError::GONE)));
        }
        assert!(Health::loss(&mut device).is_some_and(|loss| loss.contains("flush")));
        assert!(device.wait(Nanos::MAX).is_none());
    }

    #[test]
    fn an_interrupted_run_waits_for_no_flush() {
        let mut memory = memory();
        let mut device = WriteThrough::new(&mut memory, &INTERRUPTED);
        device.submit(request(1, Operation::Write));
        assert!(device.wait(Nanos(9_000)).is_none());
        let done = device.wait(Nanos(13_000)).unwrap();
        assert_eq!((done.tag, done.completed, done.result), (1, Nanos(13_000), Ok(())));
        assert!(Health::loss(&mut device).is_none() && device.wait(Nanos::MAX).is_none());
    }

    #[test]
    fn a_write_that_fails_is_not_flushed() {
        let mut memory = memory();
        let mut device = WriteThrough::new(&mut memory, &NOT_INTERRUPTED);
        device.submit(Request { offset: Bytes::kib(64), ..request(1, Operation::Write) });
        assert_eq!(device.wait(Nanos::MAX).unwrap().result, Err(IoError::OUT_OF_RANGE));
        assert!(device.wait(Nanos::MAX).is_none());
    }
}
