//! Records 100 million samples, then summarises them from disk with one thread and with two. Prints seconds,
//! bytes and memory.
//!
//!     cargo run --release -p flashlab-samples --example hundred_million [MILLIONS]

use std::path::PathBuf;
use std::time::Instant;

use flashlab_analysis::Summary;
use flashlab_base::{Bytes, Seed};
use flashlab_samples::{Column, Columns, SamplesError, for_each_batch, for_each_batch_of};

#[path = "../tests/samples/synthetic.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod synthetic;

/// The columns that the summary of a run reads.
const WANTED: [Column; 6] =
    [Column::Position, Column::Process, Column::Errno, Column::Response, Column::Intended, Column::Size];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let millions = std::env::args().nth(1).map_or(Ok(100), |millions| millions.parse::<u64>())?;
    let ios = millions * 1_000_000;
    let directory = tempfile::tempdir()?;
    let folder = synthetic::folder(&directory.path().join("run"));

    let begin = Instant::now();
    let made = synthetic::random_reads(Bytes::gib(64), ios, Seed(1)).map(|sample| sample.response().0);
    let sum: u64 = made.sum();
    println!("{ios} samples made in {:.1} s", begin.elapsed().as_secs_f64());

    let begin = Instant::now();
    synthetic::record(&folder, 1, synthetic::random_reads(Bytes::gib(64), ios, Seed(1)));
    let seconds = begin.elapsed().as_secs_f64();
    let segments = folder.segments(1);
    let bytes = segments.iter().map(|path| Ok(path.metadata()?.len())).sum::<std::io::Result<u64>>()?;
    println!("made, recorded and written in {seconds:.1} s: {} segments", segments.len());
    println!("{bytes} bytes on disk, {:.3} an IO; peak memory {}", bytes as f64 / ios as f64, peak_memory());

    for threads in [1, 2] {
        let begin = Instant::now();
        let figures = summarise(&segments, threads)?;
        let seconds = begin.elapsed().as_secs_f64();
        println!("summarised on {threads} threads in {seconds:.1} s; peak memory {}", peak_memory());
        let found = figures.responses.distribution();
        assert_eq!(found.count, ios);
        assert!((found.mean_ns * ios as f64 / sum as f64 - 1.0).abs() < 1e-6, "{found:?}");
        println!("  {found:?}, {} bytes in {} ns", figures.bytes, figures.last - figures.first);
    }

    let begin = Instant::now();
    let mut count = 0;
    segments.iter().try_for_each(|path| for_each_batch(path, |columns| count += columns.len()))?;
    println!("every column of {count} samples read on 1 thread in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// The figures of a run.
struct Figures {
    responses: Summary,
    bytes: i64,
    first: i64,
    last: i64,
}

impl Figures {
    fn new() -> Figures {
        Figures { responses: Summary::new(), bytes: 0, first: i64::MAX, last: 0 }
    }

    fn add(&mut self, columns: &Columns) {
        for index in 0..columns.len() {
            // As in a run's summary: without failed IOs, and without ignored IOs.
            if columns.errno[index] == 0 && columns.position[index] >= 0 && columns.process[index] >= 0 {
                let (intended, response) = (columns.intended_ns[index], columns.response_ns[index]);
                self.responses.add(response as u64);
                self.bytes += columns.size_bytes[index];
                self.first = self.first.min(intended);
                self.last = self.last.max(intended + response);
            }
        }
    }
}

/// Each thread summarises a part of the segments; the parts are merged.
fn summarise(segments: &[PathBuf], threads: usize) -> Result<Figures, SamplesError> {
    let part = |segments: &[PathBuf]| {
        let mut figures = Figures::new();
        for path in segments {
            for_each_batch_of(path, &WANTED, |columns| figures.add(columns))?;
        }
        Ok(figures)
    };
    let parts: Result<Vec<Figures>, SamplesError> = std::thread::scope(|scope| {
        let parts = segments.chunks(segments.len().div_ceil(threads));
        let running: Vec<_> = parts.map(|segments| scope.spawn(move || part(segments))).collect();
        running.into_iter().map(|thread| thread.join().expect("summarising does not panic")).collect()
    });
    let mut whole = Figures::new();
    for part in parts? {
        whole.responses.merge(&part.responses);
        whole.bytes += part.bytes;
        whole.first = whole.first.min(part.first);
        whole.last = whole.last.max(part.last);
    }
    Ok(whole)
}

/// The peak memory of this process, as Linux reports it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("not known".to_owned(), |size| size.trim().to_owned())
}
