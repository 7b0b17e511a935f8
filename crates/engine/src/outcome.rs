//! The result of a run: why it ended and what it did.

use std::fmt;

use flashlab_base::{Bytes, Nanos, Operation};
use flashlab_device::{DisturbanceCounters, IoError};

/// Why a run ended, in increasing order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopReason {
    /// The pattern's last IO completed.
    PatternDone,
    /// An observer asked for the end.
    ObserverSatisfied,
    /// The pattern's duration or the caller's time limit is over.
    TimeUsed,
    /// The caller interrupted the run.
    Interrupted,
    /// The device is gone, or too many IOs failed.
    DeviceFailed,
}

/// An IO that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The failed operation.
    pub operation: Operation,
    /// The first byte of its range.
    pub offset: Bytes,
    /// The length of its range.
    pub size: Bytes,
    /// The error that the device returned.
    pub error: IoError,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { operation, offset, size, error } = self;
        if *operation == Operation::Flush {
            return write!(f, "a flush failed: {error}");
        }
        write!(f, "a {operation} of {} at offset {} failed: {error}", size.exact(), offset.exact())
    }
}

/// The totals of a run, over all of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// Why the run ended.
    pub ended: StopReason,
    /// IOs that completed, including those that failed.
    pub ios: u64,
    /// IOs that failed.
    pub failed: u64,
    /// The first IO that failed.
    pub first_failure: Option<Failure>,
    /// Why the device is gone, if it knows: see [`Health::loss`](flashlab_device::Health::loss).
    pub loss: Option<String>,
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
    /// The device's time at the start.
    pub begin: Nanos,
    /// The device's time at the end.
    pub end: Nanos,
    /// What happened next to the run while it went on, including the run's own traffic. With several processes each
    /// counter is the largest that one of them read.
    pub disturbance: DisturbanceCounters,
}

impl RunOutcome {
    pub(crate) fn new(begin: Nanos) -> RunOutcome {
        RunOutcome {
            ended: StopReason::PatternDone,
            ios: 0,
            failed: 0,
            first_failure: None,
            loss: None,
            read: Bytes::ZERO,
            written: Bytes::ZERO,
            begin,
            end: begin,
            disturbance: DisturbanceCounters::default(),
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, operation: Operation, size: Bytes) {
        self.ios += 1;
        match operation {
            Operation::Read => self.read += size,
            Operation::Write => self.written += size,
            Operation::Flush | Operation::Discard => {}
        }
    }

    /// Ends the run for `reason`, unless it already ended for a more severe one.
    pub(crate) fn end_with(&mut self, reason: StopReason) {
        self.ended = self.ended.max(reason);
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        self.first_failure.get_or_insert(failure);
    }

    pub(crate) fn add_disturbance(&mut self, before: DisturbanceCounters, after: DisturbanceCounters) {
        let sum = &mut self.disturbance;
        sum.device_traffic = difference(before.device_traffic, after.device_traffic, |b| b.0).map(Bytes);
        sum.cpu_wait = difference(before.cpu_wait, after.cpu_wait, |n| n.0).map(Nanos);
        sum.thermal_throttles = difference(before.thermal_throttles, after.thermal_throttles, |n| n);
    }

    /// The totals of two processes that ran at the same time.
    pub(crate) fn merge(mut self, other: RunOutcome) -> RunOutcome {
        self.end_with(other.ended);
        self.ios += other.ios;
        self.failed += other.failed;
        self.first_failure = self.first_failure.or(other.first_failure);
        self.loss = self.loss.or(other.loss);
        self.read += other.read;
        self.written += other.written;
        self.begin = self.begin.min(other.begin);
        self.end = self.end.max(other.end);
        let (sum, more) = (&mut self.disturbance, other.disturbance);
        sum.device_traffic = sum.device_traffic.max(more.device_traffic);
        sum.cpu_wait = sum.cpu_wait.max(more.cpu_wait);
        sum.thermal_throttles = sum.thermal_throttles.max(more.thermal_throttles);
        self
    }
}

fn difference<T: Copy>(before: Option<T>, after: Option<T>, get: impl Fn(T) -> u64) -> Option<u64> {
    Some(get(after?).saturating_sub(get(before?)))
}
