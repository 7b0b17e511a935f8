//! Stoica et al.: a day of random writes on the Fusion ioDrive, and its recovery.

use flashlab_base::{Bytes, Mode, Prng, Seed};
use flashlab_device::{Device, Operation};
use flashlab_plan::{Location, ModeRule, Pattern};
use flashlab_samples::Sample;
use flashlab_sim::SimulatedDevice;

use crate::lab::{ReproduceError, Result, consecutive, device, on_all_processors, run};
use crate::{Agreement, Figure, Reproduction};

/// Figures 1 and 4a.
pub(crate) const FIGURES: Reproduction = Reproduction {
    name: "iodrive",
    title: "The Fusion ioDrive under 15 threads: random writes for a day, sequential writes after them, mixes",
    source: "Stoica et al., Evaluating and Repairing Write Performance on Flash Devices, Figures 1 and 4a, Table 2",
    measure,
};

const NAME: &str = "iodrive";
const PAGE: Bytes = Bytes::kib(8);
const LARGE: Bytes = Bytes::mib(1);
const THREADS: u32 = 15;
/// A day at the mean rate between the paper's 25 and 322 MiB/s is some 16 times the drive's 160 GB.
const DAY: u64 = 16;

/// One of the experiments, each on a drive of its own.
#[derive(Clone, Copy)]
enum Experiment {
    /// Figure 1: a new drive, a day of random writes, two sequential passes.
    RandomThenSequential,
    /// Reads, and the threads that it takes.
    Reads,
    /// Figure 4a and the baseline of Table 2: this share of writes, after a day.
    Mix(f64, f64),
}

fn measure() -> Result<Vec<Figure>> {
    let experiments = [
        Experiment::RandomThenSequential,
        Experiment::Mix(0.5, 38.0),
        Experiment::Mix(0.25, 48.0),
        Experiment::Mix(0.1, 131.0),
        Experiment::Reads,
    ];
    Ok(on_all_processors(&experiments, |&experiment| match experiment {
        Experiment::RandomThenSequential => random_then_sequential(),
        Experiment::Reads => reads(),
        Experiment::Mix(writes, paper) => mix(writes, paper),
    })?
    .concat())
}

fn figure(quantity: &str, unit: &str, paper: Option<f64>, flashlab: f64, agreement: Agreement) -> Figure {
    Figure {
        device: NAME.to_owned(),
        quantity: quantity.to_owned(),
        unit: unit.to_owned(),
        paper,
        flashlab: Some(flashlab),
        agreement,
    }
}

/// IOs of a number of threads.
fn pattern(mode: ModeRule, location: Location, size: Bytes, threads: u32, count: u64) -> Pattern {
    let basic = consecutive(mode, location, size);
    Pattern { io_count: Some(count), queue_depth: threads, ..Pattern::basic(basic) }
}

/// Bytes by time, in MiB/s.
fn mib_s(samples: &[Sample]) -> f64 {
    let begin = samples.iter().map(|sample| sample.submitted).min().unwrap_or_default();
    let end = samples.iter().map(|sample| sample.completed).max().unwrap_or_default();
    let bytes: u64 = samples.iter().map(|sample| sample.size.0).sum();
    bytes as f64 / (1 << 20) as f64 / end.since(begin).as_secs_f64()
}

/// Random writes of so many times the capacity, without times.
fn age(device: &mut SimulatedDevice, times: u64, seed: u64) -> Result<()> {
    let pages = device.geometry().capacity.0 / PAGE.0;
    let mut random = Prng::new(Seed(seed));
    let mut ios = (0..times * pages).map(|_| (Operation::Write, Bytes(random.below(pages) * PAGE.0), PAGE));
    device.condition(&mut ios).map_err(|error| ReproduceError::new(NAME, error))?;
    Ok(())
}

fn random_then_sequential() -> Result<Vec<Figure>> {
    let writes = ModeRule::Always(Mode::Write);
    let mut fresh = device(NAME)?;
    let capacity = fresh.geometry().capacity;
    let sequential = |count| pattern(writes, Location::Sequential, LARGE, THREADS, count);
    let first = mib_s(&run(&mut fresh, &sequential(1000), Seed(1))?);

    let mut drive = device(NAME)?;
    let random = pattern(writes, Location::Random, PAGE, THREADS, 40_000);
    let at_first = mib_s(&run(&mut drive, &random, Seed(2))?);
    age(&mut drive, DAY, 3)?;
    let after_a_day = mib_s(&run(&mut drive, &random, Seed(4))?);
    // Figure 1b.
    let pass = capacity.0 / LARGE.0;
    let during = run(&mut drive, &sequential(pass), Seed(5))?;
    let begins = mib_s(&during[..100]);
    let recovered = mib_s(&run(&mut drive, &sequential(pass), Seed(6))?);
    let near = Agreement::Within(0.15);
    Ok(vec![
        figure("sequential write measured", "MiB/s", Some(350.0), first, near),
        figure("random 8 KiB write at first", "MiB/s", Some(322.0), at_first, near),
        figure("random 8 KiB write after 24 hours", "MiB/s", Some(25.0), after_a_day, near),
        figure("sequential write when it begins after random ones", "MiB/s", None, begins, Agreement::Any),
        figure(
            "sequential write recovered after one full sequential write of the device",
            "MiB/s",
            Some(320.0),
            recovered,
            near,
        ),
        figure(
            "random write relative to sequential write after 24 hours",
            "ratio",
            Some(46.0),
            recovered / after_a_day,
            Agreement::Any,
        ),
    ])
}

fn reads() -> Result<Vec<Figure>> {
    let mut drive = device(NAME)?;
    age(&mut drive, 2, 7)?;
    let reads = ModeRule::Always(Mode::Read);
    let large = pattern(reads, Location::Sequential, LARGE, THREADS, 1000);
    let sequential = mib_s(&run(&mut drive, &large, Seed(8))?);
    // The fewest threads that write nearly as much as four times as many.
    let mut rates = Vec::new();
    for threads in (1..=30).chain([60]) {
        let writes = pattern(ModeRule::Always(Mode::Write), Location::Random, PAGE, threads, 20_000);
        rates.push((threads, mib_s(&run(&mut device(NAME)?, &writes, Seed(9))?)));
    }
    let most = rates.iter().map(|rate| rate.1).fold(0.0, f64::max);
    let saturated = rates.iter().find(|rate| rate.1 >= 0.98 * most).map_or(0, |rate| rate.0);
    Ok(vec![
        figure(
            "sustained read bandwidth (advertised)",
            "MiB/s",
            Some(700.0),
            sequential,
            Agreement::Within(0.15),
        ),
        figure(
            "threads at which throughput saturates",
            "threads",
            Some(15.0),
            f64::from(saturated),
            Agreement::Within(0.15),
        ),
    ])
}

/// Random reads and writes, when a day of random writes is over.
fn mix(writes: f64, paper: f64) -> Result<Vec<Figure>> {
    let mut drive = device(NAME)?;
    age(&mut drive, DAY, 10)?;
    let mixed = pattern(ModeRule::WriteProbability(writes), Location::Random, PAGE, THREADS, 60_000);
    let rate = mib_s(&run(&mut drive, &mixed, Seed(11))?);
    let (read, write) = (100.0 - 100.0 * writes, 100.0 * writes);
    let quantity = format!("baseline_mib_s {read:.0}/{write:.0}");
    Ok(vec![figure(&quantity, "MiB/s", Some(paper), rate, Agreement::Within(0.25))])
}
