//! Latency logs of fio: a line for each IO, with its end in milliseconds and its latency in nanoseconds.
//!
//! # Model
//! fio writes a log for each job: `NAME_lat.1.log`, `NAME_lat.2.log`. A job is a process of the recording. An IO began at its issue time
//! where the log has it (log_issue_time), and otherwise at its end minus its latency.

use std::path::{Path, PathBuf};

use flashlab_base::{Bytes, Mode, Nanos, Operation, Sample};
use flashlab_samples::ImportedSamples;
use flashlab_trace::{LogColumns, LogLine, parse_log};

use super::conversion::{Imported, TIME_MOST, open_text};
use crate::error::ViewError;
use crate::recording::ReadProgress;

/// What the names of fio's logs say about their values.
const VALUES: [(&str, LogValue); 6] = [
    ("_clat_hist", LogValue::Other("histograms")),
    ("_clat", LogValue::Latency("completion latencies, without the submission")),
    ("_slat", LogValue::Latency("submission latencies")),
    ("_lat", LogValue::Latency("latencies")),
    ("_bw", LogValue::Other("bandwidths")),
    ("_iops", LogValue::Other("IOPS")),
];
/// The origin of the recording's clock: IOs that ended in the first millisecond of a job may have begun before it.
const ORIGIN: Nanos = Nanos::from_secs(1 << 20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogValue {
    /// Times of single IOs.
    Latency(&'static str),
    /// What nobody can draw as an IO.
    Other(&'static str),
}

/// What the name of a log says; `None` for another name.
fn value_of(path: &Path) -> Option<LogValue> {
    let (stem, _) = parts(path)?;
    VALUES.iter().find(|(suffix, _)| stem.ends_with(suffix)).map(|(_, value)| *value)
}

/// The name of a log without the number of its job, and that number: `run_lat` and 2 for `run_lat.2.log`.
fn parts(path: &Path) -> Option<(String, u32)> {
    let name = path.file_name()?.to_str()?;
    let stem = name.trim_end_matches(".gz").strip_suffix(".log")?;
    Some(match stem.rsplit_once('.') {
        Some((stem, job)) if job.parse::<u32>().is_ok() => (stem.to_owned(), job.parse().unwrap_or(0)),
        _ => (stem.to_owned(), 1),
    })
}

/// Whether these are logs of several jobs of one command.
pub(super) fn are_of_one_command(a: &Path, b: &Path) -> bool {
    let same = |a: &Path, b: &Path| Some(parts(a)?.0 == parts(b)?.0 && a.parent() == b.parent() && a != b);
    same(a, b).unwrap_or(false)
}

/// What the logs say and do not say.
#[derive(Default)]
struct Found {
    trims: u64,
    ios: u64,
    columns: Option<LogColumns>,
}

pub(super) fn convert(
    paths: &[PathBuf],
    samples: &mut ImportedSamples,
    progress: ReadProgress,
) -> Result<Imported, ViewError> {
    let mut found = Found::default();
    let mut value = "latencies";
    for (path, process) in paths.iter().zip(0..) {
        match value_of(path) {
            Some(LogValue::Other(what)) => {
                let message = format!(
                    "is a log of {what}, and no IO is in it: give the log with the latencies, which fio writes beside it as `_lat` \
                     (--write_lat_log=NAME --log_offset=1)"
                );
                return Err(ViewError::Foreign { file: path.clone(), message });
            }
            Some(LogValue::Latency(of)) => value = of,
            None => {}
        }
        log(path, process, samples, &mut found, progress)?;
    }
    let columns = found.columns.unwrap_or(LogColumns { has_offset: false, has_issue_time: false });
    let mut notes = vec![match columns.has_issue_time {
        true => "each IO began at the issue time of its line".to_owned(),
        false => {
            "each IO began at the time of its line, which is in whole milliseconds, minus its latency: rates and IOs in flight within a few \
             milliseconds say nothing; log_issue_time=1 (fio 3.38) gives the time of issue"
                .to_owned()
        }
    }];
    if value != "latencies" {
        notes.push(format!("the response times are {value}"));
    }
    if !columns.has_offset {
        notes.push("the log has no offsets (log_offset=1), and 0 is shown".to_owned());
    }
    if found.trims > 0 {
        notes.push(format!("{} trims are left out", found.trims));
    }
    if paths.len() > 1 {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let names: Vec<String> =
            paths.iter().zip(0..).map(|(path, process)| format!("{process} is {}", name(path))).collect();
        notes.push(format!("each log is a process: {}", names.join(", ")));
    }
    if found.ios == 0 {
        notes.push("no read and no write is in it".to_owned());
    }
    Ok(Imported { verb: "fio".to_owned(), notes, ..Imported::default() })
}

fn log(
    path: &Path,
    process: u32,
    samples: &mut ImportedSamples,
    found: &mut Found,
    progress: ReadProgress,
) -> Result<(), ViewError> {
    let mut position = 0;
    let mut number = 0;
    let refused = |line: u64, message: &str| ViewError::Foreign {
        file: path.to_owned(),
        message: format!("line {line}: {message}"),
    };
    let see = |line: &LogLine, columns: LogColumns| {
        number += 1;
        let mode = match line.operation {
            Operation::Read => Mode::Read,
            Operation::Write => Mode::Write,
            _ => {
                found.trims += 1;
                return Ok(());
            }
        };
        if line.size == 0 {
            let message = "has a size of 0: the log has means over windows of time and not IOs (log_avg_msec); repeat the job without \
                           log_avg_msec";
            return Err(refused(number, message));
        }
        let end = line.at_ms.checked_mul(1_000_000).and_then(|end| end.checked_add(ORIGIN.0));
        let begin = match line.issued_ns(columns) {
            Some(issued) => issued.checked_add(ORIGIN.0),
            None => end.and_then(|end| end.checked_sub(line.value)),
        };
        let intended =
            begin.filter(|begin| begin.checked_add(line.value).is_some_and(|end| end <= TIME_MOST));
        let Some(intended) = intended.map(Nanos) else {
            return Err(refused(number, "a time or latency is beyond what a job of fio can take"));
        };
        let (offset, size) = (Bytes(line.offset(columns).unwrap_or(0)), Bytes(line.size));
        if offset.0.checked_add(size.0).is_none_or(|end| end > i64::MAX as u64) {
            return Err(refused(number, "has a range that no IO can have"));
        }
        let completed = Nanos(intended.0 + line.value);
        let sample = Sample {
            position,
            process,
            mode,
            offset,
            size,
            intended,
            submitted: intended,
            completed,
            errno: 0,
        };
        position += 1;
        found.ios += 1;
        Ok(samples.push(0, &sample)?)
    };
    let columns = parse_log(open_text(path, progress)?, &path.display().to_string(), see)?;
    found.columns = match (found.columns, columns) {
        (Some(own), Some(more)) => Some(LogColumns {
            has_offset: own.has_offset && more.has_offset,
            has_issue_time: own.has_issue_time && more.has_issue_time,
        }),
        (own, more) => own.or(more),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_logs_say_what_is_in_them() {
        let value = |name: &str| value_of(Path::new(name));
        assert_eq!(value("/tmp/a_lat.1.log"), Some(LogValue::Latency("latencies")));
        assert_eq!(value("a_slat.12.log.gz"), Some(LogValue::Latency("submission latencies")));
        assert_eq!(value("a_bw.log"), Some(LogValue::Other("bandwidths")));
        assert_eq!(value("a_clat_hist.1.log"), Some(LogValue::Other("histograms")));
        assert_eq!(value("renamed.log"), None);
        assert!(are_of_one_command(Path::new("d/a_lat.1.log"), Path::new("d/a_lat.2.log")));
        assert!(!are_of_one_command(Path::new("d/a_lat.1.log"), Path::new("d/a_clat.1.log")));
        assert!(!are_of_one_command(Path::new("d/a_lat.1.log"), Path::new("e/a_lat.2.log")));
    }
}
