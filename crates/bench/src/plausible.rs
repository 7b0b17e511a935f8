//! Checks that the values in the files of a run are possible.
//!
//! The files come from outside: a disk may have damaged them, or a user may have changed them.
//!
//! # Invariant
//! After this check, no sum over a run's records overflows, and no time runs backwards.

use std::path::Path;

use flashlab_base::Bytes;
use flashlab_samples::SamplesError;

use crate::manifest::BenchManifest;
use crate::record::RunRecord;
use crate::settings::MOST_REPETITIONS;

/// More than any device has, in bytes.
const MOST_BYTES: u64 = 1 << 60;
/// The file of the records.
const RUNS: &str = "runs.jsonl";

/// Refuses a manifest with impossible values.
///
/// # Errors
/// [`SamplesError::Format`] with the file, the key and its legal range.
pub(crate) fn manifest(path: &Path, manifest: &BenchManifest) -> Result<(), SamplesError> {
    let (settings, capacity) = (&manifest.settings, manifest.identity.capacity);
    let (size, goal) = (settings.target_size, settings.precision_goal);
    let wrong = if size == Bytes::ZERO || size > capacity {
        format!("target_size is {size}: it may be from 1 B to the target's {capacity}")
    } else if !(1..=MOST_REPETITIONS).contains(&settings.repetitions) {
        format!("repetitions is {}: it may be from 1 to {MOST_REPETITIONS}", settings.repetitions)
    } else if !(goal > 0.0 && goal < 1.0) {
        format!("precision_goal is {goal}: it may be between 0 and 1")
    } else if manifest.prepared_bytes > MOST_BYTES {
        format!("prepared_bytes is {}: it may be up to {MOST_BYTES}", manifest.prepared_bytes)
    } else {
        return Ok(());
    };
    Err(damaged(path, "manifest.json", &wrong))
}

/// Refuses records with impossible values.
///
/// # Errors
/// [`SamplesError::Format`] with the file and the key.
pub(crate) fn records(path: &Path, records: &[RunRecord]) -> Result<(), SamplesError> {
    let wrong = |what: String| Err(damaged(path, RUNS, &what));
    if let Some(last) = records.iter().find(|record| record.run == u32::MAX) {
        return wrong(format!("a run has the number {}: it may be up to {}", last.run, u32::MAX - 1));
    }
    if let Some(record) = records.iter().find(|record| record.end_ns < record.begin_ns) {
        return wrong(format!("run {} ends before it begins (end_ns, begin_ns)", record.run));
    }
    type Figure = fn(&RunRecord) -> Option<u64>;
    const SUMS: [(&str, Figure); 4] = [
        ("the times between begin_ns and end_ns, with pause_ns,", |record| {
            (record.end_ns - record.begin_ns).checked_add(record.pause_ns)
        }),
        ("read_bytes and written_bytes", |record| record.read_bytes.checked_add(record.written_bytes)),
        ("other_traffic_bytes", |record| Some(record.other_traffic_bytes.unwrap_or(0))),
        ("processor_wait_ns", |record| Some(record.processor_wait_ns.unwrap_or(0))),
    ];
    for (name, figure) in SUMS {
        let sum = records.iter().try_fold(0u64, |sum, record| sum.checked_add(figure(record)?));
        if sum.is_none_or(|sum| sum > u64::MAX - MOST_BYTES) {
            return wrong(format!("{name} of all runs together is impossibly large"));
        }
    }
    Ok(())
}

fn damaged(path: &Path, file: &str, wrong: &str) -> SamplesError {
    let message = format!("{wrong}; the file is damaged: restore it, or measure again");
    SamplesError::Format { path: path.join(file), message }
}
