//! Measures what measuring and recording add to each IO, part by part, on a device that takes no time.
//!
//! Each part runs alone with the same pattern. The parts alternate, so that a busy machine disturbs all of
//! them equally; the figure is the median over the rounds. To exclude the constant cost of a run (buffers,
//! threads), two lengths are measured, and their difference is divided by the IOs between them. Both lengths
//! fit into the chunks of a lane. A real device would give the writer minutes for what this loop produces in
//! a millisecond.

use std::error::Error;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use flashlab_analysis::Precision;
use flashlab_base::{Bytes, Identity, Sample, Seed};
use flashlab_device::NoDevice;
use flashlab_engine::{Control, Observer, run};
use flashlab_plan::{IoSize, Pattern, Placed, Space};
use flashlab_samples::{Lane, Manifest, Recording, RecordingSettings, RunFolder};

const CAPACITY: Bytes = Bytes::gib(64);
const SPACE: Space = Space { capacity: CAPACITY, block: Bytes(512) };
const SHORT: u32 = 4_000;
const LONG: u32 = 24_000;
const ROUNDS: u32 = 301;

/// Observes the IO and does nothing.
struct Nothing;

impl Observer for Nothing {
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        black_box(sample);
        ControlFlow::Continue(())
    }
}

/// The statistics of every micro-benchmark.
struct Statistics(Precision);

impl Observer for Statistics {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        self.0.add(sample.response().0);
        ControlFlow::Continue(())
    }
}

/// The recording of every IO.
struct Record(Lane);

impl Observer for Record {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        self.0.record(sample)
    }
}

/// The manifest of the folder that is recorded into.
fn manifest() -> Manifest<RecordingSettings> {
    let settings = RecordingSettings { target: "a bench".to_owned(), recorded_by: "a bench".to_owned() };
    Manifest::of_recording(Identity::default(), "", settings, Vec::new(), String::new())
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let folder = RunFolder::create(&directory.path().join("run"), &manifest())?;
    let mut recording = Recording::start(&folder);
    let (mut clock, mut choice, mut engine) = (Vec::new(), Vec::new(), Vec::new());
    let (mut statistics, mut all) = (Vec::new(), Vec::new());
    let mut stalls = 0;
    for round in 0..ROUNDS {
        clock.push(per_io(|ios| {
            Ok(seconds(|| {
                for _ in 0..ios {
                    black_box(Instant::now());
                }
            }))
        })?);
        choice.push(per_io(|ios| {
            let placed = placed(ios)?;
            Ok(seconds(|| {
                for io in placed.ios(0) {
                    black_box(io);
                }
            }))
        })?);
        engine.push(per_io(|ios| Ok(timed(ios, Nothing)?.0))?);
        statistics.push(per_io(|ios| Ok(timed(ios, Statistics(Precision::new()))?.0))?);
        all.push(per_io(|ios| {
            let lane = recording.start_run(2 * round + u32::from(ios == LONG), 1)?.swap_remove(0);
            let (time, (record, _)) = timed(ios, (Record(lane), Statistics(Precision::new())))?;
            stalls += recording.finish_run(vec![record.0])?;
            Ok(time)
        })?);
    }
    println!("What flashlab adds to each IO, in ns: median of {ROUNDS} rounds (10 % to 90 %)");
    print("choosing the IO", choice);
    print("... and the engine's loop", engine);
    print("... and the statistics", statistics);
    print("... and the recording: all", all);
    print("for comparison: a reading of the clock", clock);
    println!("  waits for the writer: {stalls}");
    Ok(())
}

fn placed(ios: u32) -> Result<Placed, Box<dyn Error>> {
    let mut pattern = Pattern::baseline("RR").ok_or("RR is a baseline")?;
    pattern.first.io_size = IoSize::Fixed(Bytes::kib(4));
    pattern.io_count = Some(u64::from(ios));
    Ok(pattern.place(SPACE, Seed(1))?)
}

/// The seconds of a run with this number of IOs, and the observer after it.
fn timed<O: Observer>(ios: u32, observer: O) -> Result<(f64, O), Box<dyn Error>> {
    let placed = placed(ios)?;
    let interrupt = AtomicBool::new(false);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 0 };
    let mut observers = [observer];
    let mut device = NoDevice::new(CAPACITY);
    let begin = Instant::now();
    let outcome = run(&mut device, &placed, &mut observers, &control)?;
    let time = begin.elapsed().as_secs_f64();
    assert_eq!(outcome.ios, u64::from(ios));
    let [observer] = observers;
    Ok((time, observer))
}

fn seconds(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// Nanoseconds per IO, from the difference of two lengths.
fn per_io(mut seconds: impl FnMut(u32) -> Result<f64, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let (short, long) = (seconds(SHORT)?, seconds(LONG)?);
    Ok((long - short) * 1e9 / f64::from(LONG - SHORT))
}

fn print(what: &str, mut rounds: Vec<f64>) {
    rounds.sort_by(f64::total_cmp);
    let at = |share: f64| rounds[((rounds.len() - 1) as f64 * share) as usize];
    println!("  {what:<40} {:>6.1}  ({:.1} to {:.1})", at(0.5), at(0.1), at(0.9));
}
