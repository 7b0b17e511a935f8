//! Counts the IOs of a live disk, by class.
//!
//! # Invariants
//! - counting an IO allocates nothing.

use flashlab_base::Nanos;
use flashlab_device::Operation;
use hdrhistogram::Histogram;
use serde::Serialize;

/// The classes of IOs, one for each operation.
pub const CLASSES: [&str; 4] = ["read", "write", "discard", "flush"];

/// The counters and histograms of all classes.
pub struct Counters {
    classes: [Class; 4],
    in_flight: u64,
    in_flight_max: u64,
}

struct Class {
    ios: u64,
    bytes: u64,
    errors: u64,
    too_fast: u64,
    late: u64,
    asked: Histogram<u64>,
    delivered: Histogram<u64>,
    lateness: Histogram<u64>,
}

/// One IO after its answer was sent.
#[derive(Clone, Copy, Debug)]
pub struct IoOutcome {
    /// Its operation.
    pub operation: Operation,
    /// Its size.
    pub bytes: u64,
    /// Whether it failed.
    pub failed: bool,
    /// The response time that the model computed.
    pub asked: Nanos,
    /// The response time that the program saw: that of the server plus the transport latency.
    pub delivered: Nanos,
    /// The time from the due time until the answer was sent.
    pub lateness: Nanos,
    /// Whether the computed response time is shorter than the transport latency.
    pub is_too_fast: bool,
}

/// The lateness from which an answer counts as late. Reading the clock and sending take some microseconds by themselves.
const LATE: Nanos = Nanos(5_000);

impl Counters {
    /// Counters of no IO.
    pub fn new() -> Counters {
        let histogram =
            || Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("these bounds are legal");
        let class = || Class {
            ios: 0,
            bytes: 0,
            errors: 0,
            too_fast: 0,
            late: 0,
            asked: histogram(),
            delivered: histogram(),
            lateness: histogram(),
        };
        Counters { classes: [class(), class(), class(), class()], in_flight: 0, in_flight_max: 0 }
    }

    /// An IO arrived.
    pub fn enter(&mut self) {
        self.in_flight += 1;
        self.in_flight_max = self.in_flight_max.max(self.in_flight);
    }

    /// An IO was answered.
    pub fn leave(&mut self, outcome: &IoOutcome) {
        self.in_flight -= 1;
        let class = &mut self.classes[match outcome.operation {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Discard => 2,
            Operation::Flush => 3,
        }];
        class.ios += 1;
        class.bytes += outcome.bytes;
        class.errors += u64::from(outcome.failed);
        class.too_fast += u64::from(outcome.is_too_fast);
        class.late += u64::from(outcome.lateness > LATE && !outcome.is_too_fast);
        class.asked.saturating_record(outcome.asked.0);
        class.delivered.saturating_record(outcome.delivered.0);
        class.lateness.saturating_record(outcome.lateness.0);
    }

    /// The counters so far.
    pub fn summary(&self) -> IoSummary {
        let classes = CLASSES.iter().zip(&self.classes).map(|(name, class)| ClassSummary {
            class: name,
            ios: class.ios,
            bytes: class.bytes,
            errors: class.errors,
            faster_than_the_transport: class.too_fast,
            late: class.late,
            asked: Percentiles::of(&class.asked),
            delivered: Percentiles::of(&class.delivered),
            lateness: Percentiles::of(&class.lateness),
        });
        IoSummary { in_flight: self.in_flight, in_flight_max: self.in_flight_max, classes: classes.collect() }
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters::new()
    }
}

/// The IOs of a live disk so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IoSummary {
    /// IOs that wait for their answer.
    pub in_flight: u64,
    /// The most that waited at one time.
    pub in_flight_max: u64,
    /// The IOs of each class.
    pub classes: Vec<ClassSummary>,
}

/// The IOs of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassSummary {
    /// Its name.
    pub class: &'static str,
    /// The number of answered IOs.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of failed IOs.
    pub errors: u64,
    /// IOs whose computed response time is shorter than the transport latency.
    pub faster_than_the_transport: u64,
    /// Of the other IOs, those answered more than 5 us after they were due.
    pub late: u64,
    /// The response times that the model computed.
    pub asked: Percentiles,
    /// The response times that programs saw: those of the server plus the transport latency.
    pub delivered: Percentiles,
    /// The times from the due time until the answer was sent.
    pub lateness: Percentiles,
}

/// Percentiles of times in nanoseconds; zero where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50_ns: u64,
    /// 99 of 100 are not longer.
    pub p99_ns: u64,
    /// 999 of 1000 are not longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Percentiles {
    fn of(histogram: &Histogram<u64>) -> Percentiles {
        Percentiles {
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        }
    }
}
