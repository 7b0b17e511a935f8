//! Response times by class: operation, locality and size of the IOs.
//!
//! # Model
//! IOs are added one by one, in any order. Only a [`Summary`] is kept for each class. The mean queue follows
//! from Little's law: the sum of the response times divided by the elapsed time.

use std::collections::BTreeMap;

use flashlab_base::{Bytes, Nanos, Operation};
use serde::Serialize;

use crate::Summary;
use crate::findings::Distribution;

/// The upper ends of the size classes; larger IOs are in one more class.
const SIZES: [Bytes; 5] = [Bytes::kib(4), Bytes::kib(16), Bytes::kib(64), Bytes::kib(256), Bytes::mib(1)];

/// Whether an IO began where the previous one of the same operation and source ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Locality {
    /// It did.
    Sequential,
    /// It did not.
    Random,
}

/// A completed IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// What was asked.
    pub operation: Operation,
    /// Whether it continues the previous one.
    pub locality: Locality,
    /// How long it was.
    pub size: Bytes,
    /// From the intended start to the submission to the device.
    pub waited: Nanos,
    /// From the intended start to the completion.
    pub response: Nanos,
}

/// The classes of the IOs seen so far.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    operations: BTreeMap<Operation, Class>,
    classes: BTreeMap<(Operation, Locality, usize), Class>,
    failed: u64,
}

#[derive(Clone, Debug, Default)]
struct Class {
    bytes: u64,
    waited_ns: u128,
    response_ns: u128,
    responses: Summary,
}

/// Response times by class, with the rates over the elapsed time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassTable {
    /// The time that passed.
    pub duration_ns: u64,
    /// IOs that failed, and are in no class.
    pub failed_ios: u64,
    /// The mean number of unfinished IOs, including those that wait for the device's queue.
    pub queue_mean: f64,
    /// The mean number of IOs in the device.
    pub device_queue_mean: f64,
    /// All IOs of each operation, followed by those of its classes.
    pub rows: Vec<ClassRow>,
}

/// One class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassRow {
    /// What was asked.
    pub operation: Operation,
    /// Where; null for all IOs of the operation.
    pub locality: Option<Locality>,
    /// IOs are larger than this; null for all IOs of the operation.
    pub larger_than_bytes: Option<u64>,
    /// And at most this size; null without an upper bound.
    pub up_to_bytes: Option<u64>,
    /// Their sizes together.
    pub bytes: u64,
    /// IOs per second of elapsed time.
    pub ios_per_s: f64,
    /// Bytes per second of elapsed time.
    pub bytes_per_s: f64,
    /// Their number and their response times.
    pub response: Distribution,
    /// The 95th percentile of these.
    pub response_ns_p95: u64,
    /// The mean number of unfinished IOs of this row.
    pub queue_mean: f64,
}

impl Classes {
    /// Adds an IO that was done.
    pub fn add(&mut self, done: &Done) {
        self.operations.entry(done.operation).or_default().add(done);
        if done.operation.mode().is_some() {
            let size = SIZES.iter().position(|&largest| done.size <= largest).unwrap_or(SIZES.len());
            self.classes.entry((done.operation, done.locality, size)).or_default().add(done);
        }
    }

    /// Adds an IO that failed.
    pub fn add_failed(&mut self) {
        self.failed += 1;
    }

    /// Adds what another one has seen.
    pub fn merge(&mut self, other: &Classes) {
        self.failed += other.failed;
        for (operation, class) in &other.operations {
            self.operations.entry(*operation).or_default().merge(class);
        }
        for (key, class) in &other.classes {
            self.classes.entry(*key).or_default().merge(class);
        }
    }

    /// The table, after this elapsed time.
    pub fn table(&self, duration: Nanos) -> ClassTable {
        let share = |sum: u128| if duration.0 == 0 { 0.0 } else { sum as f64 / duration.0 as f64 };
        let mut rows = Vec::new();
        for (&operation, class) in &self.operations {
            rows.push(class.row(operation, duration));
            for (&(_, locality, size), class) in self.classes.iter().filter(|((of, ..), _)| *of == operation)
            {
                rows.push(ClassRow {
                    locality: Some(locality),
                    larger_than_bytes: Some(if size == 0 { 0 } else { SIZES[size - 1].0 }),
                    up_to_bytes: SIZES.get(size).map(|size| size.0),
                    ..class.row(operation, duration)
                });
            }
        }
        let all = || self.operations.values();
        ClassTable {
            duration_ns: duration.0,
            failed_ios: self.failed,
            queue_mean: share(all().map(|class| class.response_ns).sum()),
            device_queue_mean: share(all().map(|class| class.response_ns - class.waited_ns).sum()),
            rows,
        }
    }
}

impl Class {
    fn add(&mut self, done: &Done) {
        self.bytes = self.bytes.saturating_add(done.size.0);
        self.response_ns += u128::from(done.response.0);
        self.waited_ns += u128::from(done.waited.0.min(done.response.0));
        self.responses.add(done.response.0);
    }

    fn merge(&mut self, other: &Class) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.response_ns += other.response_ns;
        self.waited_ns += other.waited_ns;
        self.responses.merge(&other.responses);
    }

    /// The row of all IOs of an operation.
    fn row(&self, operation: Operation, duration: Nanos) -> ClassRow {
        let seconds = duration.as_secs_f64();
        let rate = |count: f64| if seconds == 0.0 { 0.0 } else { count / seconds };
        ClassRow {
            operation,
            locality: None,
            larger_than_bytes: None,
            up_to_bytes: None,
            bytes: self.bytes,
            ios_per_s: rate(self.responses.count() as f64),
            bytes_per_s: rate(self.bytes as f64),
            response: self.responses.distribution(),
            response_ns_p95: self.responses.quantile(0.95),
            queue_mean: rate(self.response_ns as f64 * 1e-9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(operation: Operation, size: u64, response: u64) -> Done {
        let locality = if size > 4096 { Locality::Sequential } else { Locality::Random };
        Done {
            operation,
            locality,
            size: Bytes(size),
            waited: Nanos(response / 4),
            response: Nanos(response),
        }
    }

    #[test]
    fn each_io_is_in_the_row_of_its_operation_and_of_its_class() {
        let mut classes = Classes::default();
        (1..=1000).for_each(|n| classes.add(&done(Operation::Read, 4096, n * 1000)));
        classes.add(&done(Operation::Read, 4097, 50_000));
        classes.add(&done(Operation::Write, 2 << 20, 80_000));
        classes.add(&done(Operation::Flush, 0, 7));
        classes.add_failed();
        let table = classes.table(Nanos::from_secs(1));
        let shown: Vec<_> = table
            .rows
            .iter()
            .map(|row| {
                (row.operation, row.locality, row.larger_than_bytes, row.up_to_bytes, row.response.count)
            })
            .collect();
        let (read, write) = (Operation::Read, Operation::Write);
        assert_eq!(
            shown,
            [
                (read, None, None, None, 1001),
                (read, Some(Locality::Sequential), Some(4096), Some(16384), 1),
                (read, Some(Locality::Random), Some(0), Some(4096), 1000),
                (write, None, None, None, 1),
                (write, Some(Locality::Sequential), Some(1 << 20), None, 1),
                (Operation::Flush, None, None, None, 1),
            ]
        );
        let random = &table.rows[2];
        assert!((random.response.mean_ns - 500_500.0).abs() < 1e-6, "{random:?}");
        assert!(random.response_ns_p95.abs_diff(950_000) <= 950, "{random:?}");
        assert!(random.response.p999_ns.abs_diff(999_000) <= 999, "{random:?}");
        assert_eq!(random.response.max_ns, 1_000_000);
        assert_eq!((random.ios_per_s, random.bytes_per_s), (1000.0, 4_096_000.0));
        assert!((random.queue_mean - 0.5005).abs() < 1e-9);
        assert_eq!(table.failed_ios, 1);
        assert!((table.device_queue_mean / table.queue_mean - 0.75).abs() < 1e-6);
    }

    #[test]
    fn merged_classes_are_those_of_all_ios() {
        let (mut all, mut even, mut odd) = (Classes::default(), Classes::default(), Classes::default());
        for n in 0..500 {
            let io = done(if n % 3 == 0 { Operation::Write } else { Operation::Read }, n * 100, n * n);
            all.add(&io);
            if n % 2 == 0 { &mut even } else { &mut odd }.add(&io);
        }
        even.merge(&odd);
        let (merged, whole) = (even.table(Nanos(12_345)), all.table(Nanos(12_345)));
        assert_eq!(merged.rows.len(), whole.rows.len());
        assert_eq!(
            (merged.queue_mean, merged.device_queue_mean),
            (whole.queue_mean, whole.device_queue_mean)
        );
        for (merged, whole) in merged.rows.iter().zip(&whole.rows) {
            assert_eq!((merged.locality, merged.bytes), (whole.locality, whole.bytes));
            assert_eq!(merged.response.count, whole.response.count);
            assert_eq!(merged.response_ns_p95, whole.response_ns_p95);
            assert!((merged.response.mean_ns / whole.response.mean_ns - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn nothing_in_no_time_is_a_table_without_rows() {
        let table = Classes::default().table(Nanos::ZERO);
        assert_eq!((table.rows.len(), table.queue_mean), (0, 0.0));
    }
}
