//! Today's devices beside what was measured of real ones: published data sets and not a paper.

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_device::{Buffer, Device, Operation, Request};
use flashlab_plan::{Arrival, Location, ModeRule, Pattern, Time};
use flashlab_samples::Sample;
use flashlab_sim::SimulatedDevice;

use crate::lab::{ReproduceError, Result, consecutive, device, on_all_processors, run};
use crate::{Agreement, Figure, Reproduction};

/// Every device of today that was calibrated.
pub(crate) const CALIBRATED: Reproduction = Reproduction {
    name: "today",
    title: "Today's drives, cards and cloud volumes beside what was measured of real ones",
    source: "iocost-benchmarks b2fc8dd, scylla-machine-image f25b2c5, diskplorer 33a5db3, flashbench's README",
    measure,
};

/// The kernel's linear model: bytes a second in IOs of 128 MiB one at a time, IOs a second of 4 KiB with 64 in flight.
/// In the order of [`IOCOST`].
const IOCOST_DRIVES: [(&str, [f64; 6]); 2] = [
    // Samsung SSD 870, the mean of three runs.
    ("tlc-sata", [571_630_923.0, 98_136.0, 98_447.0, 540_557_491.0, 93_060.0, 92_325.0]),
    // Fanxiang S500Pro 1TB.
    ("nvme-consumer", [3_449_179_331.0, 410_455.0, 276_878.0, 2_034_855_987.0, 254_124.0, 116_737.0]),
];
const IOCOST: [(&str, Mode, Location, u64); 6] = [
    ("rbps", Mode::Read, Location::Sequential, 128 << 20),
    ("rseqiops", Mode::Read, Location::Sequential, 4 << 10),
    ("rrandiops", Mode::Read, Location::Random, 4 << 10),
    ("wbps", Mode::Write, Location::Sequential, 128 << 20),
    ("wseqiops", Mode::Write, Location::Sequential, 4 << 10),
    ("wrandiops", Mode::Write, Location::Random, 4 << 10),
];

/// What a database finds of a drive before it starts, in the order of [`SCYLLA`].
const SCYLLA_DRIVES: [(&str, [f64; 4]); 2] = [
    // VM.DenseIO.E5.Flex-8.
    ("nvme-enterprise", [1_112_606.0, 6_965_937_664.0, 608_448.0, 4_079_220_992.0]),
    // i3en.ALL.
    ("cloud-local", [257_024.0, 2_043_674_624.0, 174_080.0, 1_024_458_752.0]),
];
const SCYLLA: [(&str, Mode, Location, u64); 4] = [
    ("read_iops", Mode::Read, Location::Random, 4 << 10),
    ("read_bandwidth", Mode::Read, Location::Sequential, 1 << 20),
    ("write_iops", Mode::Write, Location::Random, 4 << 10),
    ("write_bandwidth", Mode::Write, Location::Sequential, 1 << 20),
];

/// Points of a measurement.
type Latencies = [(f64, f64, f64); 4];

/// diskplorer: random reads of 512 B as a Poisson process, nothing written: reads a second, the median and the 95th
/// percentile in milliseconds.
const DISKPLORER: [(&str, Latencies); 2] = [
    // i3en.3xlarge.
    (
        "cloud-local",
        [
            (48_587.0, 0.147, 0.182),
            (97_174.0, 0.166, 0.233),
            (145_761.0, 0.200, 0.307),
            (194_347.0, 0.252, 0.417),
        ],
    ),
    // gcp-pd-SSD-2TB.
    (
        "cloud-gp",
        [(4825.0, 0.384, 0.581), (6031.0, 0.378, 0.530), (7237.0, 0.372, 0.522), (9649.0, 0.372, 0.522)],
    ),
];
/// The most reads a second of 512 B, and bytes a second written in 128 KiB, that gcp-pd-SSD-2TB did.
const CLOUD_GP_MOST: (f64, f64) = (12_061.0, 560e6);

/// flashbench: two reads of 1 KiB before, across and after a boundary, in microseconds.
const FLASHBENCH: [(u64, [f64; 3]); 17] = [
    (134_217_728, [735.0, 1080.0, 780.0]),
    (67_108_864, [736.0, 1050.0, 763.0]),
    (33_554_432, [722.0, 1040.0, 763.0]),
    (16_777_216, [727.0, 1050.0, 772.0]),
    (8_388_608, [724.0, 1040.0, 763.0]),
    (4_194_304, [741.0, 1080.0, 788.0]),
    (2_097_152, [745.0, 950.0, 811.0]),
    (1_048_576, [745.0, 945.0, 807.0]),
    (524_288, [743.0, 936.0, 799.0]),
    (262_144, [746.0, 948.0, 809.0]),
    (131_072, [737.0, 935.0, 804.0]),
    (65_536, [735.0, 925.0, 796.0]),
    (32_768, [735.0, 925.0, 800.0]),
    (16_384, [745.0, 911.0, 781.0]),
    (8_192, [785.0, 808.0, 725.0]),
    (4_096, [784.0, 788.0, 779.0]),
    (2_048, [787.0, 793.0, 789.0]),
];
/// flashbench: bytes a second of 256 KiB writes to so many erase blocks in turn.
const OPEN_BLOCKS: [(u64, f64); 2] = [(2, 6.27e6), (3, 0.912e6)];

fn measure() -> Result<Vec<Figure>> {
    let parts: [fn() -> Result<Vec<Figure>>; 6] =
        [|| iocost(0), || iocost(1), || scylla(0), || scylla(1), diskplorer, sd_card];
    Ok(on_all_processors(&parts, |part| part())?.concat())
}

fn figure(device: &str, quantity: String, unit: &str, real: f64, flashlab: f64) -> Figure {
    Figure {
        device: device.to_owned(),
        quantity,
        unit: unit.to_owned(),
        paper: Some(real),
        flashlab: Some(flashlab),
        agreement: Agreement::Within(0.15),
    }
}

/// A device that was written once from end to end and then rested.
fn written(name: &str) -> Result<SimulatedDevice> {
    let mut device = device(name)?;
    let step = Bytes::mib(1);
    let pieces = device.geometry().capacity.0 / step.0;
    let mut ios = (0..pieces).map(|i| (Operation::Write, Bytes(i * step.0), step));
    device.condition(&mut ios).map_err(|error| ReproduceError::new(name, error))?;
    device.wait(Nanos::from_secs(1000));
    Ok(device)
}

fn pattern(mode: Mode, location: Location, size: Bytes, in_flight: u32, count: u64) -> Pattern {
    let basic = consecutive(ModeRule::Always(mode), location, size);
    Pattern { io_count: Some(count), queue_depth: in_flight, ..Pattern::basic(basic) }
}

/// IOs a second.
fn rate(samples: &[Sample]) -> f64 {
    let begin = samples.iter().map(|sample| sample.submitted).min().unwrap_or_default();
    let end = samples.iter().map(|sample| sample.completed).max().unwrap_or_default();
    samples.len() as f64 / end.since(begin).as_secs_f64()
}

/// Bytes or IOs a second, each quantity on a device that rested.
fn most(
    (name, real): (&str, &[f64]),
    quantities: &[(&str, Mode, Location, u64)],
    (in_flight, in_flight_large): (u32, u32),
) -> Result<Vec<Figure>> {
    let mut device = written(name)?;
    let mut figures = Vec::new();
    for (&(quantity, mode, location, size), &real) in quantities.iter().zip(real) {
        let large = size >= 1 << 20;
        let in_flight = if large { in_flight_large } else { in_flight }.min(device.geometry().depth);
        let count = if large { (2 << 30) / size } else { 100_000 };
        let rest = device.now() + Nanos::from_secs(1000);
        device.wait(rest);
        let samples = run(&mut device, &pattern(mode, location, Bytes(size), in_flight, count), Seed(size))?;
        let (per_io, unit) = if large { (size as f64, "B/s") } else { (1.0, "IO/s") };
        figures.push(figure(name, quantity.to_owned(), unit, real, rate(&samples) * per_io));
    }
    Ok(figures)
}

fn iocost(drive: usize) -> Result<Vec<Figure>> {
    let (name, real) = &IOCOST_DRIVES[drive];
    most((name, real), &IOCOST, (64, 1))
}

fn scylla(drive: usize) -> Result<Vec<Figure>> {
    let (name, real) = &SCYLLA_DRIVES[drive];
    most((name, real), &SCYLLA, (512, 16))
}

fn diskplorer() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (name, points) in DISKPLORER {
        let mut device = written(name)?;
        for (reads_a_second, p50, p95) in points {
            let mut reads = pattern(Mode::Read, Location::Random, Bytes(512), 1024, 40_000);
            reads.first.time = Time::Rate { per_second: reads_a_second, arrival: Arrival::Poisson };
            let mut times: Vec<u64> =
                run(&mut device, &reads, Seed(1))?.iter().map(|sample| sample.response().0).collect();
            times.sort_unstable();
            for (percentile, real) in [(50, p50), (95, p95)] {
                let ours = times[times.len() * percentile / 100] as f64 / 1e6;
                let quantity = format!("p{percentile}_read_latency at {reads_a_second:.0} IO/s");
                figures.push(figure(name, quantity, "ms", real, ours));
            }
        }
    }
    let mut device = written("cloud-gp")?;
    let reads = run(&mut device, &pattern(Mode::Read, Location::Random, Bytes(512), 64, 40_000), Seed(2))?;
    let size = Bytes::kib(128);
    let writes = run(&mut device, &pattern(Mode::Write, Location::Sequential, size, 64, 10_000), Seed(3))?;
    let (read_iops, write_bandwidth) = CLOUD_GP_MOST;
    figures.push(figure("cloud-gp", "read_iops".to_owned(), "IO/s", read_iops, rate(&reads)));
    let ours = rate(&writes) * size.0 as f64;
    figures.push(figure("cloud-gp", "write_bandwidth".to_owned(), "B/s", write_bandwidth, ours));
    Ok(figures)
}

fn sd_card() -> Result<Vec<Figure>> {
    let mut device = written("sdcard")?;
    let mut figures = Vec::new();
    for (boundary, real) in FLASHBENCH {
        for ((place, first), real) in [("before", 2048), ("across", 1024), ("after", 0)].into_iter().zip(real)
        {
            let mut times = Vec::new();
            // As flashbench does: each pair lies in another part of the largest boundary's size.
            for part in 0..device.geometry().capacity.0 / FLASHBENCH[0].0 - 1 {
                let from = Bytes(part * FLASHBENCH[0].0 + boundary - first);
                times.push(read_us(&mut device, from)? + read_us(&mut device, from + Bytes(1024))?);
            }
            let ours = times.iter().sum::<f64>() / times.len() as f64;
            figures.push(figure("sdcard", format!("{place}_us {boundary}"), "us", real, ours));
        }
    }
    for (blocks, real) in OPEN_BLOCKS {
        let mut writes = pattern(
            Mode::Write,
            Location::Partitioned { partitions: blocks as u32 },
            Bytes::kib(256),
            1,
            16 * blocks,
        );
        writes.first.target_size = Some(Bytes::mib(4 * blocks));
        writes.first.target_offset = Bytes::mib(64);
        let ours = rate(&run(&mut device, &writes, Seed(4))?) * 262_144.0;
        figures.push(figure("sdcard", format!("256 KiB writes to {blocks} open blocks"), "B/s", real, ours));
    }
    Ok(figures)
}

/// A read of 1 KiB, in microseconds.
fn read_us(device: &mut SimulatedDevice, offset: Bytes) -> Result<f64> {
    let request =
        Request { tag: 0, operation: Operation::Read, offset, size: Bytes(1024), buffer: Buffer::empty() };
    device.submit(request);
    let done = device.wait(Nanos::MAX).expect("one request is in flight");
    done.result.map_err(|error| ReproduceError::new("sdcard", error))?;
    Ok(done.completed.since(done.submitted).as_secs_f64() * 1e6)
}
