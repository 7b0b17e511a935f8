//! Traces with response times: blkparse's text, and the CSV files of Microsoft Research Cambridge.

use std::path::PathBuf;

use flashlab_base::{Mode, Operation, Sample};
use flashlab_samples::ImportedSamples;
use flashlab_trace::{Format, ServedIo, parse_served};

use super::conversion::{Imported, TIME_MOST, open_text};
use crate::error::ViewError;
use crate::recording::ReadProgress;

pub(super) fn convert(
    paths: &[PathBuf],
    samples: &mut ImportedSamples,
    progress: ReadProgress,
) -> Result<Imported, ViewError> {
    let [path] = paths else {
        let message = "is one of several traces, which are not one recording".to_owned();
        return Err(ViewError::Foreign { file: paths.first().cloned().unwrap_or_default(), message });
    };
    let (mut ios, mut others) = (0, 0_u64);
    let see = |io: &ServedIo| {
        let mode = match io.operation {
            Operation::Read => Mode::Read,
            Operation::Write => Mode::Write,
            _ => {
                others += 1;
                return Ok(());
            }
        };
        if io.offset.0.saturating_add(io.size.0) > i64::MAX as u64 || io.completed.0 > TIME_MOST {
            let message = format!("IO {}: its range or its time is one that no IO can have", ios + 1);
            return Err(ViewError::Foreign { file: path.clone(), message });
        }
        let sample = Sample {
            position: ios,
            process: 0,
            mode,
            offset: io.offset,
            size: io.size,
            intended: io.arrival,
            submitted: io.submitted,
            completed: io.completed,
            errno: io.errno,
        };
        ios += 1;
        Ok(samples.push(io.source, &sample)?)
    };
    let trace = parse_served(open_text(path, progress)?, &path.display().to_string(), see)?;
    let mut notes = vec![match trace.format {
        Format::Blkparse => {
            "an IO begins when it is queued (Q), or issued (D) where no Q is in the trace, and ends when its device completes all of it (C)"
        }
        _ => "the response times are those that the trace notes",
    }
    .to_owned()];
    if others > 0 {
        notes.push(format!("{others} flushes and discards are left out"));
    }
    notes.extend(trace.left_out.iter().map(|(what, count)| format!("left out: {count} {what}")));
    if ios == 0 {
        notes.push(
            "no read or write with its completion is in it: trace with the actions Q, D and C".to_owned(),
        );
    }
    Ok(Imported {
        verb: trace.format.name().to_owned(),
        target: trace.sources.join(", "),
        runs: (0..).zip(&trace.sources).map(|(run, name)| (run, format!("device {name}"))).collect(),
        notes,
        ..Imported::default()
    })
}
