//! A bench run on a simulated device, in a temporary folder.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_analysis::findings::{Baseline, Findings, Point, Traces};
use flashlab_base::{Bytes, Nanos, Sample, Seed};
use flashlab_bench::{
    BenchError, BenchManifest, Progress, Purpose, RunRecord, Schedule, Settings, Thoroughness, bench, rebuild,
};
use flashlab_device::{Device, Request};
use flashlab_plan::Plan;
use flashlab_samples::{FolderKind, Manifest, RunFolder};
use flashlab_sim::Profile;
use tempfile::TempDir;

/// The capacity of the devices in these tests, unless a test needs another one.
pub const CAPACITY: Bytes = Bytes::mib(256);

/// The Zeus of `sim:zeus`, with another capacity and with the sections in `more`.
pub fn zeus(capacity: Bytes, more: &str) -> Profile {
    let mut text = flashlab_sim::zoo().into_iter().find(|profile| profile.name == "zeus").unwrap().to_toml();
    text = text.lines().filter(|line| !line.starts_with("capacity")).collect::<Vec<_>>().join("\n");
    Profile::parse(&format!("capacity = \"{}\"\n{text}\n{more}", capacity.exact()), "the test").unwrap()
}

/// Sets the flag with the n-th IO, as Ctrl-C in the middle of a run does.
pub struct InterruptedDevice<'a, D> {
    pub inner: D,
    /// How many IOs come before it.
    pub left: u64,
    pub interrupt: &'a AtomicBool,
}

impl<D: Device> flashlab_device::Wrapper for InterruptedDevice<'_, D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn submit(&mut self, request: Request) {
        if self.left == 0 {
            self.interrupt.store(true, Ordering::Relaxed);
        }
        self.left = self.left.saturating_sub(1);
        self.inner.submit(request);
    }
}

/// Where and how a bench run is done.
pub struct Lab {
    directory: PathBuf,
    _temporary: TempDir,
    pub profile: Profile,
    pub manifest: BenchManifest,
}

impl Lab {
    /// The whole device, with the shipped plans of these names.
    pub fn new(profile: Profile, thoroughness: Thoroughness, plans: &[&str]) -> Lab {
        let texts = plans.iter().map(|name| Plan::builtin(name).unwrap().to_toml()).collect();
        let settings = Settings {
            target: "sim:test".to_owned(),
            target_size: profile.capacity,
            ..Settings::new(thoroughness)
        };
        let manifest = BenchManifest {
            plans: texts,
            ..Manifest::new(FolderKind::Bench, settings, profile.identity(), "simulated")
        };
        let temporary = tempfile::tempdir().unwrap();
        Lab { directory: temporary.path().to_owned(), _temporary: temporary, profile, manifest }
    }

    pub fn quick(more: &str, plans: &[&str]) -> Lab {
        Lab::new(zeus(CAPACITY, more), Thoroughness::Quick, plans)
    }

    pub fn full(more: &str, plans: &[&str]) -> Lab {
        Lab::new(zeus(CAPACITY, more), Thoroughness::Full, plans)
    }

    pub fn with_seed(mut self, seed: u64) -> Lab {
        self.manifest.settings.seed = Seed(seed);
        self
    }

    /// Creates the folder in this directory.
    pub fn in_directory(mut self, directory: &Path) -> Lab {
        self.directory = directory.to_owned();
        self
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join("run")
    }

    /// The folder; created if it does not exist.
    pub fn folder(&self) -> RunFolder {
        match self.path().exists() {
            true => RunFolder::open_unverified::<Settings>(&self.path(), &[FolderKind::Bench]).unwrap().0,
            false => RunFolder::create(&self.path(), &self.manifest).unwrap(),
        }
    }

    /// Measures on this device, observed by `watch`. It continues with the content of the folder.
    pub fn measure_on(&self, device: &mut dyn Device, watch: &Watch) -> Result<(), BenchError> {
        bench(device, &self.folder(), &self.manifest, &watch.interrupt, watch)
    }

    /// Measures on a new device of the profile.
    pub fn measure(&self) -> Measured {
        let watch = Watch::new();
        self.measure_on(&mut self.profile.device().unwrap(), &watch).unwrap();
        self.measured(watch)
    }

    /// What the folder holds.
    pub fn measured(&self, watch: Watch) -> Measured {
        let (findings, traces) = rebuild(&self.path()).unwrap();
        let schedule = watch.schedule.into_inner().unwrap();
        Measured { findings, traces, records: self.records(), schedule }
    }

    pub fn records(&self) -> Vec<RunRecord> {
        self.folder().runs().unwrap()
    }

    /// The samples of one run.
    pub fn samples(&self, run: u32) -> Vec<Sample> {
        let mut samples = Vec::new();
        self.folder().each_sample(run, |sample| samples.push(*sample)).unwrap();
        samples
    }
}

/// What a bench run left.
pub struct Measured {
    pub findings: Findings,
    pub traces: Traces,
    pub records: Vec<RunRecord>,
    schedule: Option<Schedule>,
}

impl Measured {
    pub fn schedule(&self) -> &Schedule {
        self.schedule.as_ref().expect("the run got as far as its schedule")
    }

    pub fn baseline(&self, name: &str) -> &Baseline {
        self.findings.baselines.iter().find(|baseline| baseline.pattern == name).unwrap()
    }

    /// All points of one experiment.
    pub fn points(&self, micro_benchmark: &str, experiment: &str) -> &[Point] {
        let found = self.findings.micro_benchmarks.iter().find(|found| found.name == micro_benchmark);
        let experiments = &found.unwrap_or_else(|| panic!("no {micro_benchmark}")).experiments;
        &experiments.iter().find(|found| found.name() == experiment).unwrap().points
    }

    /// The records of the runs of micro-benchmarks, in their order.
    pub fn points_run(&self) -> impl Iterator<Item = &RunRecord> {
        self.records.iter().filter(|record| matches!(record.purpose, Purpose::Point { .. }))
    }
}

/// Keeps the schedule, and interrupts a run when a given part begins.
pub struct Watch {
    pub interrupt: AtomicBool,
    schedule: Mutex<Option<Schedule>>,
    begun: Mutex<usize>,
    /// The part, from 0, at whose begin to interrupt.
    interrupt_at: Option<usize>,
}

impl Watch {
    pub fn new() -> Watch {
        let (interrupt, schedule, begun) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        Watch { interrupt, schedule, begun, interrupt_at: None }
    }

    /// Interrupts when part `index` (from 0) begins: preparations and runs alike.
    pub fn interrupting(index: usize) -> Watch {
        Watch { interrupt_at: Some(index), ..Watch::new() }
    }

    fn begin(&self) {
        let mut begun = self.begun.lock().unwrap();
        if self.interrupt_at == Some(*begun) {
            self.interrupt.store(true, Ordering::Relaxed);
        }
        *begun += 1;
    }
}

impl Progress for Watch {
    fn step(&self, _what: &str) {
        self.begin();
    }

    fn share(&self, _done: f64) {}

    fn schedule(&self, schedule: &Schedule) {
        *self.schedule.lock().unwrap() = Some(schedule.clone());
    }

    fn step_of(&self, _what: &str, _index: usize, _count: usize) {
        self.begin();
    }
}

/// Asserts that `got` is within the relative `tolerance` of `truth`.
#[track_caller]
pub fn assert_near(got: f64, truth: f64, tolerance: f64, what: &str) {
    assert!((got / truth - 1.0).abs() <= tolerance, "{what}: {got} and not {truth} within {tolerance}");
}

/// T = A + nB of the Zeus, by hand from El Maghraoui et al., Table 1, in microseconds.
pub fn zeus_us(class: &str, kib: f64) -> f64 {
    let (a, b) = match class {
        "SR" => (127.5, 4.005),
        "RR" => (230.0, 3.987),
        "SW" => (2167.0, 4.96),
        _ => (770.0, 5.382),
    };
    a + b * kib
}

/// The device's time between the end of one run and the begin of the next.
pub fn gap(before: &RunRecord, after: &RunRecord) -> Nanos {
    Nanos(after.begin_ns - before.end_ns)
}
