//! Reads the IOs of a trace from its file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::ValueEnum;
use flashlab_base::Bytes;
use flashlab_input::{FileContent, GZIP, HEAD};
use flashlab_samples::{FolderKind, RunFolder, for_each_batch};
use flashlab_trace::{Format, Trace, TraceIo, parse};
use flate2::bufread::MultiGzDecoder;
use serde::de::IgnoredAny;

use crate::exit::Usage;
use crate::{files, run_folder};

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// fio's write_iolog, versions 2 and 3
    Fio,
    /// blkparse's text
    Blkparse,
    /// CSV of Microsoft Research Cambridge
    Msr,
    /// MQSim's text
    Mqsim,
    /// flashlab's samples
    Samples,
}

/// Reads a trace. A folder, or a Parquet file, contains samples; a text may be compressed with gzip.
pub fn read(path: &Path, format: Option<TraceFormat>) -> Result<Trace> {
    let name = path.display().to_string();
    let failed = |error| Usage(format!("cannot read the trace {name}: {error}"));
    if path.is_dir() {
        return samples(path, &segments(path)?);
    }
    let file = flashlab_input::open_stream(path).map_err(failed)?;
    let mut reader = BufReader::with_capacity(HEAD, file);
    // Of a pipe, the first read may be short: it has what the writer wrote at once.
    let begin = reader.fill_buf().map_err(failed)?;
    let (is_gzip, content) = (begin.starts_with(GZIP), FileContent::of(begin));
    let format = match (format, content) {
        (Some(TraceFormat::Samples), _) | (None, FileContent::Parquet) => {
            return samples(path, &[path.to_owned()]);
        }
        (Some(TraceFormat::Fio), _) => Some(Format::Fio),
        (Some(TraceFormat::Blkparse), _) => Some(Format::Blkparse),
        (Some(TraceFormat::Msr), _) => Some(Format::Msr),
        (Some(TraceFormat::Mqsim), _) => Some(Format::Mqsim),
        (None, FileContent::Trace(format)) => Some(format),
        // The parser says what a trace begins with.
        (
            None,
            FileContent::Text
            | FileContent::Data
            | FileContent::Numbers
            | FileContent::Empty
            | FileContent::Zeroes
            | FileContent::Compressed("gzip"),
        ) => None,
        (None, other) => bail!(files::holds_other(&name, other, "trace")),
    };
    if !is_gzip {
        return Ok(parse(reader, &name, format, ios_max())?);
    }
    let text = BufReader::with_capacity(HEAD, MultiGzDecoder::new(reader));
    Ok(parse(text, &name, format, ios_max())?)
}

/// How many IOs a trace may have: half of the free memory holds them, because a list that grows is copied.
fn ios_max() -> usize {
    const UNKNOWN: Bytes = Bytes::gib(1);
    let free = flashlab_host::available_memory().unwrap_or(UNKNOWN);
    free.0 as usize / 2 / size_of::<TraceIo>()
}

/// The segments in the folder of a run, or in the folder of its samples.
fn segments(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_samples = folder.file_name().is_some_and(|name| name == "samples");
    let run = folder.parent().filter(|_| is_samples).unwrap_or(folder);
    let (run, manifest) = RunFolder::open::<IgnoredAny>(run, FolderKind::ALL)?;
    run_folder::require_finished(&manifest, run.path())?;
    let segments = run.all_segments();
    if segments.is_empty() {
        bail!(Usage(format!("{} holds no samples: there is no .parquet in it", folder.display())));
    }
    Ok(segments)
}

/// Samples as a trace. The line of an IO is the number of its sample, in the order of the files.
fn samples(path: &Path, segments: &[PathBuf]) -> Result<Trace> {
    let (mut ios, mut line) = (Vec::new(), 0);
    for segment in segments {
        let mut outside = None;
        for_each_batch(segment, |columns| {
            for sample in (0..columns.len()).map(|index| columns.sample(index)) {
                line += 1;
                if sample.size == Bytes::ZERO || sample.offset.0.checked_add(sample.size.0).is_none() {
                    outside.get_or_insert(line);
                }
                let operation = sample.mode.into();
                let (arrival, offset, size) = (sample.intended, sample.offset, sample.size);
                ios.push(TraceIo { arrival, operation, offset, size, source: sample.process, line });
            }
        })?;
        if let Some(line) = outside {
            bail!(Usage(format!("{}: sample {line} has a range that no IO can have", segment.display())));
        }
    }
    if ios.is_empty() {
        bail!(Usage(format!("{}: there is no sample in it", path.display())));
    }
    // A damaged file may have any number of a process, so the processes are counted and not their numbers.
    let processes: BTreeSet<u32> = ios.iter().map(|io| io.source).collect();
    let indices: BTreeMap<u32, u32> = processes.iter().copied().zip(0..).collect();
    ios.iter_mut().for_each(|io| io.source = indices[&io.source]);
    Ok(Trace::new(ios, processes.iter().map(u32::to_string).collect()))
}
