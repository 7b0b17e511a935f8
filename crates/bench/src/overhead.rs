//! Measures the overhead on this machine: the engine's loop and the observers, without any IO.
//!
//! This is the only place of the methodology that reads a wall clock, because it measures the program and not
//! a device.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use flashlab_base::{Bytes, Seed, median};
use flashlab_device::NoDevice;
use flashlab_engine::{Control, Observer, run};
use flashlab_plan::{IoSize, Pattern, Space};

use crate::BenchError;

/// The cost of measuring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// What measuring and recording add to each IO, without the IO and its clock readings.
    pub ns_per_io: f64,
    /// One reading of the clock.
    pub clock_ns_per_reading: f64,
}

/// How many rounds are measured; the result is their median.
pub(crate) const ROUNDS: u32 = 15;
const CAPACITY: Bytes = Bytes::gib(1);

/// The median of [`ROUNDS`] runs of 4 KiB random reads. `start` makes the observer of each run and `finish`
/// takes it back.
pub(crate) fn measure<O: Observer>(
    mut start: impl FnMut(u32) -> Result<O, BenchError>,
    mut finish: impl FnMut(O) -> Result<(), BenchError>,
) -> Result<Overhead, BenchError> {
    // Few enough to fit into the chunks of a lane. No device produces as many samples in such a short time.
    const IOS: u32 = 20_000;
    let mut pattern = Pattern::baseline("RR").expect("RR is a baseline");
    pattern.first.io_size = IoSize::Fixed(Bytes::kib(4));
    pattern.io_count = Some(u64::from(IOS));
    let placed = pattern.place(Space { capacity: CAPACITY, block: Bytes(512) }, Seed(1))?;
    let interrupt = AtomicBool::new(false);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 0 };
    let (mut per_io, mut per_reading) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut observers = [start(round)?];
        let mut device = NoDevice::new(CAPACITY);
        let begin = Instant::now();
        run(&mut device, &placed, &mut observers, &control)?;
        per_io.push(nanos_each(begin, IOS));
        let [observer] = observers;
        finish(observer)?;

        let begin = Instant::now();
        for _ in 0..IOS {
            black_box(Instant::now());
        }
        per_reading.push(nanos_each(begin, IOS));
    }
    Ok(Overhead {
        ns_per_io: median(per_io).expect("there are rounds"),
        clock_ns_per_reading: median(per_reading).expect("there are rounds"),
    })
}

fn nanos_each(begin: Instant, count: u32) -> f64 {
    begin.elapsed().as_nanos() as f64 / f64::from(count)
}
