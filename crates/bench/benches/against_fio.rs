//! Compares flashlab with fio: 4 KiB random reads of one file. flashlab records every IO as Parquet, and fio
//! records none.
//!
//!     cargo bench -p flashlab-bench --bench against_fio -- [ROUNDS [SECONDS [FILE]]]
//!
//! A round runs fio, flashlab and fio again, each in a process of its own. The next round starts with the
//! next of the three, so that a drift of the machine affects all equally. The program prints the median of
//! the rounds' ratios, with the quartiles. The ratio of fio to fio is the noise floor: smaller differences
//! mean nothing. On a busy machine, many short rounds are more precise than few long ones.
//!
//! All processes run on the last CPU, flashlab's writer included. Otherwise the scheduler decides whether a
//! run shares the CPU that takes the disk's interrupts, which changes the IOPS by a fifth.
//!
//! Without FILE (which must exist and be full of data) it creates a file of 1 GiB in the build folder, and
//! removes it.

use std::error::Error;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use flashlab_base::{Bytes, Identity, Nanos, Prng, Sample, Seed};
use flashlab_engine::{Control, Observer, run};
use flashlab_host::{IoEngine, OpenOptions};
use flashlab_plan::{IoSize, Pattern, Space};
use flashlab_samples::{Lane, Manifest, Recording, RecordingSettings, RunFolder, for_each_batch};

/// IOPS, and mean, 50th and 99th percentile of the response times in ns.
type Figures = [f64; 4];
const NAMES: [&str; 4] = ["IOPS", "mean", "p50", "p99"];

const FILE_SIZE: u64 = 1 << 30;
const BLOCK: Bytes = Bytes::kib(4);
/// fio's name of the engine, flashlab's name, and the depth.
const CASES: [(&str, &str, u32); 3] =
    [("psync", "synchronous", 1), ("io_uring", "io_uring", 1), ("io_uring", "io_uring", 32)];
/// The first argument of the process that measures with flashlab.
const CHILD: &str = "measure";

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds --bench.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if let [child, path, engine, depth, seconds] = words.as_slice()
        && child == CHILD
    {
        let figures = flashlab(Path::new(path), engine, depth.parse()?, seconds.parse()?)?;
        println!("{}", figures.map(|figure| figure.to_string()).join(" "));
        return Ok(());
    }
    if Command::new("fio").arg("--version").output().is_err() {
        println!("fio is not installed: nothing to compare with");
        return Ok(());
    }
    let rounds = words.first().map_or(Ok(40), |word| word.parse())?;
    let seconds = words.get(1).map_or(Ok(0.5), |word| word.parse())?;
    let given = words.get(2).map(PathBuf::from);
    let path = given.clone().map_or_else(full_file, Ok)?;
    let compared = CASES.iter().try_for_each(|case| compare(&path, *case, rounds, seconds));
    if given.is_none() {
        fs::remove_file(&path)?;
    }
    compared
}

/// A file without holes, written to the disk before it is read.
fn full_file() -> Result<PathBuf, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("against_fio.data");
    let mut file = File::create(&path)?;
    let mut prng = Prng::new(Seed(1));
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..FILE_SIZE >> 20 {
        prng.fill(&mut buffer);
        file.write_all(&buffer)?;
    }
    file.sync_all()?;
    Ok(path)
}

fn compare(
    path: &Path,
    (fio_engine, engine, depth): (&str, &str, u32),
    rounds: usize,
    seconds: f64,
) -> Result<(), Box<dyn Error>> {
    let mut seen: [Vec<Figures>; 3] = Default::default();
    for round in 0..rounds {
        for turn in 0..3 {
            let which = (round + turn) % 3;
            seen[which].push(match which {
                1 => in_child(path, engine, depth, seconds)?,
                _ => fio(path, fio_engine, depth, seconds)?,
            });
        }
    }
    let [fio, flashlab, again] = &seen;
    println!("{engine}, depth {depth}: median (quartiles) of {rounds} rounds of {seconds} s");
    for (index, name) in NAMES.iter().enumerate() {
        // flashlab's run of each round, divided by the mean of the round's two runs of fio.
        let ours = (0..rounds).map(|r| flashlab[r][index] / (0.5 * (fio[r][index] + again[r][index])));
        let floor = (0..rounds).map(|r| again[r][index] / fio[r][index]);
        println!(
            "  {name:<4} flashlab {:>9.0}  fio {:>9.0}  flashlab/fio {}  fio/fio {}",
            quartiles(flashlab.iter().map(|figures| figures[index]))[1],
            quartiles(fio.iter().chain(again).map(|figures| figures[index]))[1],
            ratio(quartiles(ours)),
            ratio(quartiles(floor)),
        );
    }
    Ok(())
}

fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [0.25, 0.5, 0.75].map(|share| values[((values.len() - 1) as f64 * share).round() as usize])
}

fn ratio([lower, median, upper]: [f64; 3]) -> String {
    format!("{median:.4} ({lower:.4} to {upper:.4})")
}

fn on_the_last_processor(program: impl AsRef<OsStr>) -> Result<Command, Box<dyn Error>> {
    let last = std::thread::available_parallelism()?.get() - 1;
    let mut command = Command::new("taskset");
    command.args(["-c", &last.to_string()]).arg(program);
    Ok(command)
}

fn fio(path: &Path, engine: &str, depth: u32, seconds: f64) -> Result<Figures, Box<dyn Error>> {
    let milliseconds = (seconds * 1e3).round();
    let output = on_the_last_processor("fio")?
        .arg("--name=r")
        .arg(format!("--filename={}", path.display()))
        .args(["--rw=randread", "--bs=4k", "--direct=1", "--randrepeat=0", "--norandommap"])
        .args(["--time_based", "--output-format=json", "--lat_percentiles=1"])
        .arg(format!("--ioengine={engine}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={milliseconds}ms"))
        .output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let read = &report["jobs"][0]["read"];
    let times = &read["lat_ns"];
    let percentiles = &times["percentile"];
    [&read["iops"], &times["mean"], &percentiles["50.000000"], &percentiles["99.000000"]]
        .map(|figure| figure.as_f64().ok_or("fio's report has not the figures that fio 3.33's has"))
        .into_iter()
        .collect::<Result<Vec<f64>, _>>()
        .map(|figures| Figures::try_from(figures).expect("four figures"))
        .map_err(Into::into)
}

fn in_child(path: &Path, engine: &str, depth: u32, seconds: f64) -> Result<Figures, Box<dyn Error>> {
    let output = on_the_last_processor(std::env::current_exe()?)?
        .arg(CHILD)
        .arg(path)
        .args([engine, &depth.to_string(), &seconds.to_string()])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let figures: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    Figures::try_from(figures).map_err(|_| String::from_utf8_lossy(&output.stderr).into())
}

/// Every IO goes to Parquet.
struct Record(Lane);

impl Observer for Record {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> std::ops::ControlFlow<()> {
        self.0.record(sample)
    }
}

/// The manifest of the folder that is recorded into.
fn manifest() -> Manifest<RecordingSettings> {
    let settings = RecordingSettings { target: "a bench".to_owned(), recorded_by: "a bench".to_owned() };
    Manifest::of_recording(Identity::default(), "", settings, Vec::new(), String::new())
}

/// One run, as `flashlab bench` makes it; the figures come from its files.
fn flashlab(path: &Path, engine: &str, depth: u32, seconds: f64) -> Result<Figures, Box<dyn Error>> {
    let engine = if engine == "synchronous" { IoEngine::Synchronous } else { IoEngine::IoUring };
    let mut device = flashlab_host::open(path, &OpenOptions { engine, depth, ..OpenOptions::default() })?;
    let mut pattern = Pattern::baseline("RR").ok_or("RR is a baseline")?;
    pattern.first.io_size = IoSize::Fixed(BLOCK);
    (pattern.io_count, pattern.queue_depth) = (None, depth);
    let geometry = device.geometry();
    let space = Space { capacity: geometry.capacity, block: geometry.block };
    let placed = pattern.place(space, Seed(u64::from(std::process::id())))?;
    let interrupt = AtomicBool::new(false);
    let time_limit = Some(Nanos((seconds * 1e9) as u64));
    let control = Control { interrupt: &interrupt, time_limit, failures_allowed: 0 };

    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let folder = RunFolder::create(&directory.path().join("run"), &manifest())?;
    let mut recording = Recording::start(&folder);
    let mut observers = [Record(recording.start_run(1, 1)?.swap_remove(0))];
    let outcome = run(device.as_mut(), &placed, &mut observers, &control)?;
    recording.finish_run(observers.map(|record| record.0).into())?;

    let mut responses = Vec::new();
    for file in fs::read_dir(folder.samples())? {
        for_each_batch(&file?.path(), |columns| {
            responses.extend((0..columns.len()).map(|index| columns.sample(index).response().0));
        })?;
    }
    assert_eq!(responses.len() as u64, outcome.ios, "every IO is in the files");
    responses.sort_unstable();
    let percentile = |share: f64| responses[((responses.len() - 1) as f64 * share) as usize] as f64;
    let mean = responses.iter().sum::<u64>() as f64 / responses.len() as f64;
    let iops = outcome.ios as f64 / outcome.end.since(outcome.begin).as_secs_f64();
    Ok([iops, mean, percentile(0.5), percentile(0.99)])
}
