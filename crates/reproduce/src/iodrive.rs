//! Reproduces Stoica et al.: a day of random writes on the Fusion ioDrive, and its recovery.

use flashlab_base::{Bytes, Mode, Nanos, Prng, Sample, Seed};
use flashlab_device::{Device, Operation};
use flashlab_plan::{Basic, Location, ModeRule, Pattern};
use flashlab_sim::SimulatedDevice;

use crate::lab::{Result, bytes_per_s, condition, device, numbered, on_all_processors, run};
use crate::papers::{Measurement, paper};
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
use crate::reproduction::{Measured, Reproduction};

/// Figures 1 and 4a.
pub(crate) const FIGURES: Reproduction = Reproduction {
    name: "iodrive",
    title: "The Fusion ioDrive under 15 threads: random writes for a day, sequential writes after them, mixes",
    source: "Stoica et al., Evaluating and Repairing Write Performance on Flash Devices, Figures 1 and 4a, Table 2",
    measure,
};

pub(crate) const NAME: &str = "iodrive";
pub(crate) const PAGE: Bytes = Bytes::kib(8);
const LARGE: Bytes = Bytes::mib(1);
pub(crate) const THREADS: u32 = 15;
/// The length of a day, in capacities. At the mean rate between the paper's 25 and 322 MiB/s, a day is about
/// 16 times the drive's 160 GB.
pub(crate) const DAY: u64 = 16;
/// The number of measurements in a day, and the IOs that each of them times.
const MEASUREMENTS: u64 = 48;
const TIMED: u64 = 10_000;
/// The IOs of a mix, also with Append and Pack: two thirds of the drive.
pub(crate) const MIXED: u64 = 200_000;
const HOUR: f64 = 3600.0;
pub(crate) const MIB: f64 = (1 << 20) as f64;

/// One of the experiments, each on a separate drive.
#[derive(Clone, Copy)]
enum Experiment {
    /// Figure 1: a new drive, a day of random writes, two sequential passes.
    RandomThenSequential,
    /// Figure 4a: a mix with half writes, starting with a new drive.
    EvenMix,
    /// Table 2's baseline and section 4: reads and this share of writes, after a day.
    Mix(f64),
    /// Large reads.
    Reads,
    /// The threads that it takes.
    Threads,
}

fn measure(seed: Seed) -> Result<Measured> {
    let experiments = [
        Experiment::RandomThenSequential,
        Experiment::EvenMix,
        Experiment::Mix(0.0),
        Experiment::Mix(0.1),
        Experiment::Mix(0.25),
        Experiment::Mix(0.5),
        Experiment::Reads,
        Experiment::Threads,
    ];
    let parts = on_all_processors(&experiments, |&experiment| match experiment {
        Experiment::RandomThenSequential => random_then_sequential(seed),
        Experiment::EvenMix => even_mix(seed),
        Experiment::Mix(writes) => Ok(measured(vec![mix(writes, seed)?])),
        Experiment::Reads => reads(seed),
        Experiment::Threads => threads(seed),
    })?;
    let (mut values, mut pictures) = (Vec::new(), Vec::new());
    for part in parts {
        values.extend(part.values);
        pictures.extend(part.pictures);
    }
    cut(&mut values);
    Ok(Measured { values, pictures })
}

fn measured(values: Vec<Measurement>) -> Measured {
    Measured { values, pictures: Vec::new() }
}

fn value(quantity: impl Into<String>, unit: &'static str, value: f64) -> Measurement {
    Measurement::new(NAME, quantity, unit, value)
}

/// Section 4: how much a tenth of writes slows reads down. It removes the rate of reads alone, which is in no
/// table.
fn cut(values: &mut Vec<Measurement>) {
    let mut rate = |name| {
        let i = values.iter().position(|value| value.quantity == name)?;
        if name == READ_ONLY { values.swap_remove(i).value } else { values[i].value }
    };
    let share = rate(READ_ONLY).zip(rate("baseline_mib_s 90/10")).map(|(reads, mixed)| 1.0 - mixed / reads);
    let quantity = "10 percent random writes in a read-only workload cuts throughput by";
    values.push(Measurement::new(NAME, quantity, "percent", share.map(|share| 100.0 * share)));
}

const READ_ONLY: &str = "baseline_mib_s 100/0";

/// IOs of a number of threads.
pub(crate) fn pattern(mode: ModeRule, location: Location, size: Bytes, threads: u32, count: u64) -> Pattern {
    let basic = Basic::consecutive(mode, location, size);
    Pattern { io_count: Some(count), queue_depth: threads, ..Pattern::basic(basic) }
}

pub(crate) fn mib_s(samples: &[Sample]) -> f64 {
    bytes_per_s(samples) / MIB
}

/// Random writes of this number of pages, without times.
fn age(device: &mut SimulatedDevice, writes: u64, random: &mut Prng) -> Result<()> {
    let pages = device.geometry().capacity.0 / PAGE.0;
    let mut ios = (0..writes).map(|_| (Operation::Write, Bytes(random.below(pages) * PAGE.0), PAGE));
    condition(device, &mut ios)
}

/// A drive after random writes of `times` its capacity.
pub(crate) fn aged(times: u64, seed: Seed) -> Result<SimulatedDevice> {
    let mut drive = device(NAME)?;
    let pages = drive.geometry().capacity.0 / PAGE.0;
    age(&mut drive, times * pages, &mut Prng::new(seed))?;
    Ok(drive)
}

/// A day of random IOs, some of them timed at each measurement. Returns the hours and the rate of each
/// measurement. A rate stands for all writes until the next measurement.
fn day(drive: &mut SimulatedDevice, mode: ModeRule, writes: f64, seed: Seed) -> Result<Vec<(f64, f64)>> {
    // The drive of the zoo is smaller, and an hour of the paper takes proportionally less time.
    let scale = 160e9 / drive.geometry().capacity.0 as f64;
    let between = DAY * (drive.geometry().capacity.0 / PAGE.0) / MEASUREMENTS;
    let mut random = Prng::new(seed.derive("between", 0));
    let (mut hours, mut points) = (0.0, Vec::<(f64, f64)>::new());
    for index in 0..=MEASUREMENTS {
        if let Some(&(_, rate)) = points.last() {
            age(drive, between, &mut random)?;
            let ios = between as f64 / writes + TIMED as f64;
            hours += scale * ios * PAGE.0 as f64 / MIB / rate / HOUR;
        }
        let timed = pattern(mode, Location::Random, PAGE, THREADS, TIMED);
        points.push((hours, mib_s(&run(drive, &timed, seed.derive("look", index))?)));
    }
    Ok(points)
}

fn over_hours(name: &str, title: &str, series: Vec<FigureSeries>) -> FigurePicture {
    let (x, y) =
        (FigureAxis::new("time (h)", Scale::Linear), FigureAxis::new("throughput (MiB/s)", Scale::Linear));
    FigurePicture::new(name, title, x, y, series)
}

fn level(quantity: &str, unit: &str) -> FigureSeries {
    let value = paper(NAME, NAME, quantity);
    FigureSeries::level(format!("paper: {value} {unit}"), value)
}

pub(crate) fn random_then_sequential(seed: Seed) -> Result<Measured> {
    let writes = ModeRule::Always(Mode::Write);
    let mut fresh = device(NAME)?;
    let capacity = fresh.geometry().capacity;
    let sequential = |count| pattern(writes, Location::Sequential, LARGE, THREADS, count);
    let first = mib_s(&run(&mut fresh, &sequential(1000), numbered(seed, 1))?);

    let mut drive = device(NAME)?;
    let random = pattern(writes, Location::Random, PAGE, THREADS, 40_000);
    let at_first = mib_s(&run(&mut drive, &random, numbered(seed, 2))?);
    let mut decline = vec![(0.0, at_first)];
    decline.extend(day(&mut drive, writes, 1.0, numbered(seed, 3))?.split_off(1));
    let after_a_day = mib_s(&run(&mut drive, &random, numbered(seed, 4))?);
    // Figure 1b.
    let pass = capacity.0 / LARGE.0;
    let during = run(&mut drive, &sequential(pass), numbered(seed, 5))?;
    let begins = mib_s(&during[..100]);
    let second = run(&mut drive, &sequential(pass), numbered(seed, 6))?;
    let recovered = mib_s(&second);

    let names = ["random 8 KiB write at first", "random 8 KiB write after 24 hours", RECOVERED];
    let mut series = vec![FigureSeries::new("random writes of 8 KiB", SeriesStyle::Curve, decline)];
    series.extend(names[..2].iter().map(|name| level(name, "MiB/s")));
    let decline = over_hours("iodrive-fig1a", "Random writes on the ioDrive, 15 threads", series);
    let passes = over_bytes(&[during, second].concat(), capacity);
    let series = vec![
        FigureSeries::new("sequential writes of 1 MiB", SeriesStyle::Curve, passes),
        level(RECOVERED, "MiB/s"),
    ];
    let x = FigureAxis::new("written since the random writes (capacities)", Scale::Linear);
    let y = FigureAxis::new("throughput (MiB/s)", Scale::Linear);
    let recovery =
        FigurePicture::new("iodrive-fig1b", "Sequential writes after a day of random writes", x, y, series);
    Ok(Measured {
        values: vec![
            value("sequential write measured", "MiB/s", first),
            value(names[0], "MiB/s", at_first),
            value(names[1], "MiB/s", after_a_day),
            value("sequential write when it begins after random ones", "MiB/s", begins),
            value(RECOVERED, "MiB/s", recovered),
            value(
                "random write relative to sequential write depending on state",
                "ratio",
                recovered / after_a_day,
            ),
        ],
        pictures: vec![decline, recovery],
    })
}

/// The rate of every 50 IOs, from the end of the previous ones to their own end, over the bytes written until
/// then, in capacities.
fn over_bytes(samples: &[Sample], capacity: Bytes) -> Vec<(f64, f64)> {
    let mut ends: Vec<Nanos> = samples.iter().map(|sample| sample.completed).collect();
    ends.sort_unstable();
    let every_50th: Vec<Nanos> = ends.into_iter().step_by(50).collect();
    let bytes = 50.0 * LARGE.0 as f64;
    let point = |(i, pair): (usize, &[Nanos])| {
        ((i + 1) as f64 * bytes / capacity.0 as f64, bytes / MIB / pair[1].since(pair[0]).as_secs_f64())
    };
    every_50th.windows(2).enumerate().map(point).collect()
}

const RECOVERED: &str = "sequential write recovered after one full sequential write of the device";

/// Figure 4a.
pub(crate) fn even_mix(seed: Seed) -> Result<Measured> {
    let points = day(&mut device(NAME)?, ModeRule::WriteProbability(0.5), 0.5, numbered(seed, 12))?;
    let series = vec![
        FigureSeries::new("half reads, half writes", SeriesStyle::Curve, points),
        level("baseline_mib_s 50/50", "MiB/s"),
    ];
    let title = "Random reads and writes of 8 KiB on the ioDrive, 15 threads";
    Ok(Measured { values: Vec::new(), pictures: vec![over_hours("iodrive-fig4a", title, series)] })
}

fn reads(seed: Seed) -> Result<Measured> {
    let large = pattern(ModeRule::Always(Mode::Read), Location::Sequential, LARGE, THREADS, 1000);
    let rate = mib_s(&run(&mut aged(2, numbered(seed, 7))?, &large, numbered(seed, 8))?);
    Ok(measured(vec![value("sustained read bandwidth (advertised)", "MiB/s", rate)]))
}

/// The smallest number of threads that write nearly as fast as four times this number.
fn threads(seed: Seed) -> Result<Measured> {
    let mut rates = Vec::new();
    for threads in (1..=30).chain([60]) {
        let writes = pattern(ModeRule::Always(Mode::Write), Location::Random, PAGE, threads, 20_000);
        rates.push((threads, mib_s(&run(&mut device(NAME)?, &writes, numbered(seed, 9))?)));
    }
    let most = rates.iter().map(|rate| rate.1).fold(0.0, f64::max);
    let saturated = rates.iter().find(|rate| rate.1 >= 0.98 * most).map_or(0, |rate| rate.0);
    Ok(measured(vec![value("threads at which throughput saturates", "threads", f64::from(saturated))]))
}

/// Random reads and writes after a day of random writes.
pub(crate) fn mix(writes: f64, seed: Seed) -> Result<Measurement> {
    let mode = ModeRule::WriteProbability(writes);
    let mixed = pattern(mode, Location::Random, PAGE, THREADS, MIXED);
    let rate = mib_s(&run(&mut aged(DAY, numbered(seed, 10))?, &mixed, numbered(seed, 11))?);
    let (read, write) = (100.0 - 100.0 * writes, 100.0 * writes);
    Ok(value(format!("baseline_mib_s {read:.0}/{write:.0}"), "MiB/s", rate))
}
