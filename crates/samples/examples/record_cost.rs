//! Measures the time that recording a sample takes in the measuring thread, and for comparison two readings
//! of the clock and an empty loop. Prints the median and the extremes of alternating rounds.
//!
//!     cargo run --release -p flashlab-samples --example record_cost

use std::hint::black_box;
use std::time::Instant;

use flashlab_base::{Bytes, Sample, Seed};
use flashlab_samples::Recording;

#[path = "../tests/samples/synthetic.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod synthetic;

/// Few enough that no round waits for the writer: they fit into the chunks of a lane.
const IOS: u64 = 20_000;
const ROUNDS: u32 = 101;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let folder = synthetic::folder(&directory.path().join("run"));
    let mut recording = Recording::start(&folder);
    let samples: Vec<Sample> = synthetic::random_reads(Bytes::gib(64), IOS, Seed(1)).collect();
    let (mut empty, mut clock, mut record) = (Vec::new(), Vec::new(), Vec::new());
    let mut stalls = 0;
    for run in 0..ROUNDS {
        let begin = Instant::now();
        for sample in &samples {
            black_box(sample);
        }
        empty.push(each(begin));

        let begin = Instant::now();
        for _ in &samples {
            black_box((Instant::now(), Instant::now()));
        }
        clock.push(each(begin));

        let mut lanes = recording.start_run(run, 1)?;
        let begin = Instant::now();
        for sample in &samples {
            let _ = black_box(lanes[0].record(black_box(sample)));
        }
        record.push(each(begin));
        stalls += recording.finish_run(lanes)?;
    }
    print("an empty loop", empty);
    print("two readings of the clock", clock);
    print("Lane::record", record);
    println!("waits for the writer: {stalls}");
    Ok(())
}

fn each(begin: Instant) -> f64 {
    begin.elapsed().as_nanos() as f64 / IOS as f64
}

fn print(what: &str, mut rounds: Vec<f64>) {
    rounds.sort_by(f64::total_cmp);
    let (least, median, most) = (rounds[0], rounds[rounds.len() / 2], rounds[rounds.len() - 1]);
    println!("{what:<28} {median:>6.1} ns an IO (median of {}; {least:.1} to {most:.1})", rounds.len());
}
