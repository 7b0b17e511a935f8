//! Compares today's simulated devices with published measurements of real ones.

use flashlab_analysis::decide::boundaries::{Row, boundaries};
use flashlab_base::{Bytes, Mode, Nanos, Sample, Seed};
use flashlab_device::{Buffer, Device, Operation, Request};
use flashlab_plan::{Arrival, Basic, Location, ModeRule, Pattern, Time};
use flashlab_sim::SimulatedDevice;

use crate::lab::{
    ReproduceError, Result, bytes_per_s, condition, device, elapsed, mean, numbered, on_all_processors, run,
};
use crate::papers::Measurement;
use crate::reproduction::{Measured, Reproduction};

/// Every calibrated device of today.
pub(crate) const CALIBRATED: Reproduction = Reproduction {
    name: "today",
    title: "Today's drives, cards and cloud volumes, compared with measurements of real ones",
    source: "iocost-benchmarks b2fc8dd, scylla-machine-image f25b2c5, diskplorer 33a5db3, flashbench's README",
    measure,
};

/// A rate: the quantity, mode and location, and the size of an IO.
type RateMeasurement = (&'static str, Mode, Location, u64);

/// The kernel's linear model: bytes per second with IOs of 128 MiB, one at a time, and IOs per second of 4
/// KiB with 64 in flight.
const IOCOST: [RateMeasurement; 6] = [
    ("rbps", Mode::Read, Location::Sequential, 128 << 20),
    ("rseqiops", Mode::Read, Location::Sequential, 4 << 10),
    ("rrandiops", Mode::Read, Location::Random, 4 << 10),
    ("wbps", Mode::Write, Location::Sequential, 128 << 20),
    ("wseqiops", Mode::Write, Location::Sequential, 4 << 10),
    ("wrandiops", Mode::Write, Location::Random, 4 << 10),
];

/// What ScyllaDB measures on a drive before it starts.
const SCYLLA: [RateMeasurement; 4] = [
    ("read_iops", Mode::Read, Location::Random, 4 << 10),
    ("read_bandwidth", Mode::Read, Location::Sequential, 1 << 20),
    ("write_iops", Mode::Write, Location::Random, 4 << 10),
    ("write_bandwidth", Mode::Write, Location::Sequential, 1 << 20),
];

/// diskplorer: random reads of 512 B as a Poisson process without writes, with these reads per second.
const DISKPLORER: [(&str, [u32; 4]); 2] =
    [("cloud-local", [48_587, 97_174, 145_761, 194_347]), ("cloud-gp", [4825, 6031, 7237, 9649])];

/// flashbench: two reads of 1 KiB around multiples of these powers of two.
const BOUNDARIES: std::ops::RangeInclusive<u32> = 11..=27;

/// A measurement of one device, or of several in the same way.
type Part = fn(Seed) -> Result<Vec<Measurement>>;

fn measure(seed: Seed) -> Result<Measured> {
    let parts: [Part; 6] = [
        |seed| most("tlc-sata", &IOCOST, (64, 1), seed),
        |seed| most("nvme-consumer", &IOCOST, (64, 1), seed),
        |seed| most("nvme-enterprise", &SCYLLA, (512, 16), seed),
        |seed| most("cloud-local", &SCYLLA, (512, 16), seed),
        diskplorer,
        sd_card,
    ];
    Ok(Measured { values: on_all_processors(&parts, |part| part(seed))?.concat(), pictures: Vec::new() })
}

/// A device that was written once from end to end and was then idle.
fn written(name: &str) -> Result<SimulatedDevice> {
    let mut device = device(name)?;
    let step = Bytes::mib(1);
    let pieces = device.geometry().capacity.0 / step.0;
    let mut ios = (0..pieces).map(|i| (Operation::Write, Bytes(i * step.0), step));
    condition(&mut device, &mut ios)?;
    device.wait(Nanos::from_secs(1000));
    Ok(device)
}

fn pattern(mode: Mode, location: Location, size: Bytes, in_flight: u32, count: u64) -> Pattern {
    let basic = Basic::consecutive(ModeRule::Always(mode), location, size);
    Pattern { io_count: Some(count), queue_depth: in_flight, ..Pattern::basic(basic) }
}

/// IOs a second.
fn rate(samples: &[Sample]) -> f64 {
    samples.len() as f64 / elapsed(samples).as_secs_f64()
}

/// Bytes or IOs per second. Each quantity is measured on an idle device, with the given numbers of small and
/// of large IOs in flight.
fn most(
    name: &'static str,
    quantities: &[RateMeasurement],
    (small, large): (u32, u32),
    seed: Seed,
) -> Result<Vec<Measurement>> {
    let mut device = written(name)?;
    let mut values = Vec::new();
    for &(quantity, mode, location, size) in quantities {
        let is_large = size >= 1 << 20;
        let in_flight = if is_large { large } else { small }.min(device.geometry().depth);
        let count = if is_large { (2 << 30) / size } else { 100_000 };
        let rest = device.now() + Nanos::from_secs(1000);
        device.wait(rest);
        let samples =
            run(&mut device, &pattern(mode, location, Bytes(size), in_flight, count), numbered(seed, size))?;
        values.push(if is_large {
            Measurement::new(name, quantity, "B/s", bytes_per_s(&samples))
        } else {
            Measurement::new(name, quantity, "IO/s", rate(&samples))
        });
    }
    Ok(values)
}

fn diskplorer(seed: Seed) -> Result<Vec<Measurement>> {
    let mut values = Vec::new();
    for (name, rates) in DISKPLORER {
        let mut device = written(name)?;
        for reads_a_second in rates {
            let mut reads = pattern(Mode::Read, Location::Random, Bytes(512), 1024, 40_000);
            let per_second = f64::from(reads_a_second);
            reads.first.time = Time::Rate { per_second, arrival: Arrival::Poisson };
            let mut times: Vec<u64> = run(&mut device, &reads, numbered(seed, 1))?
                .iter()
                .map(|sample| sample.response().0)
                .collect();
            times.sort_unstable();
            values.extend([50, 95].map(|percentile| {
                let quantity = format!("p{percentile}_read_latency at {reads_a_second} IO/s");
                Measurement::new(name, quantity, "ms", times[times.len() * percentile / 100] as f64 / 1e6)
            }));
        }
    }
    let name = "cloud-gp";
    let mut device = written(name)?;
    let reads =
        run(&mut device, &pattern(Mode::Read, Location::Random, Bytes(512), 64, 40_000), numbered(seed, 2))?;
    let writes = pattern(Mode::Write, Location::Sequential, Bytes::kib(128), 64, 10_000);
    let writes = run(&mut device, &writes, numbered(seed, 3))?;
    values.push(Measurement::new(name, "read_iops", "IO/s", rate(&reads)));
    values.push(Measurement::new(name, "write_bandwidth", "B/s", bytes_per_s(&writes)));
    Ok(values)
}

const SD_CARD: &str = "sdcard";

fn sd_card(seed: Seed) -> Result<Vec<Measurement>> {
    let mut device = written(SD_CARD)?;
    let mut values = Vec::new();
    // As in flashbench: each pair is in another part of the device, each part as large as the largest
    // boundary.
    let part = 1 << BOUNDARIES.end();
    let mut rows = Vec::new();
    for boundary in BOUNDARIES.rev().map(|power| 1 << power) {
        let mut row = [0.0; 3];
        for (took, (place, before)) in row.iter_mut().zip([("before", 2048), ("across", 1024), ("after", 0)])
        {
            let mut times = Vec::new();
            for i in 0..device.geometry().capacity.0 / part - 1 {
                let from = Bytes(i * part + boundary - before);
                times.push(read_us(&mut device, from)? + read_us(&mut device, from + Bytes(1024))?);
            }
            *took = mean(&times);
            values.push(Measurement::new(SD_CARD, format!("{place}_us {boundary}"), "us", *took));
        }
        let [before, across, after] = row;
        rows.push(Row { boundary, before, across, after });
    }
    let told = boundaries(&rows);
    let tells = |quantity, unit, value: Option<u64>| {
        Measurement::new(SD_CARD, quantity, unit, value.map(|value| value as f64))
    };
    values.push(tells("page by its boundaries", "B", told.as_ref().map(|told| told.page)));
    values.push(tells("planes by their boundaries", "", told.as_ref().and_then(|told| told.planes)));
    values.push(tells("erase block by its boundaries", "B", told.as_ref().and_then(|told| told.block)));
    for blocks in [2, 3] {
        let turns = Location::Partitioned { partitions: blocks as u32 };
        let mut writes = pattern(Mode::Write, turns, Bytes::kib(256), 1, 16 * blocks);
        writes.first.target_size = Some(Bytes::mib(4 * blocks));
        writes.first.target_offset = Bytes::mib(64);
        let samples = run(&mut device, &writes, numbered(seed, 4))?;
        let quantity = format!("256 KiB writes to {blocks} open blocks");
        values.push(Measurement::new(SD_CARD, quantity, "B/s", bytes_per_s(&samples)));
    }
    Ok(values)
}

/// A read of 1 KiB, in microseconds.
fn read_us(device: &mut SimulatedDevice, offset: Bytes) -> Result<f64> {
    let request =
        Request { tag: 0, operation: Operation::Read, offset, size: Bytes(1024), buffer: Buffer::empty() };
    device.submit(request);
    let done = device.wait(Nanos::MAX).expect("one request is in flight");
    done.result.map_err(|error| ReproduceError::new(SD_CARD, error))?;
    Ok(done.completed.since(done.submitted).as_secs_f64() * 1e6)
}
