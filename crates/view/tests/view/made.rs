//! Recordings that are made for tests and benchmarks: IOs as a device with write stages could serve them.

use std::path::Path;

use flashlab_base::{Bytes, Identity, Mode, Nanos, Prng, Sample, Seed};
use flashlab_samples::{Manifest, RecordedRun, Recording, RecordingSettings, RunFolder};

/// How a run of [`ios`] uses the device.
const RUNS: [(&str, Mode, bool, u64); 4] = [
    ("random reads, 4 KiB", Mode::Read, true, 4096),
    ("random writes, 4 KiB", Mode::Write, true, 4096),
    ("sequential writes, 64 KiB", Mode::Write, false, 65536),
    ("sequential reads, 16 KiB", Mode::Read, false, 16384),
];

/// The response time of the one IO that is slower than all others.
pub const OUTLIER: Nanos = Nanos(1_234_567_890);

/// `count` IOs of a run over `space`, by two processes that alternate. Reads take 80 us, buffered writes 12 us, later ones 150 us; one in
/// 2,000 writes waits 5 ms for garbage collection; one in 5,000 IOs fails. One IO in the middle of run 1 takes [`OUTLIER`].
pub fn ios(run: u32, count: u64, space: Bytes, begin: Nanos, seed: Seed) -> impl Iterator<Item = Sample> {
    let (_, mode, is_random, size) = RUNS[run as usize % RUNS.len()];
    let mut prng = Prng::new(seed.derive("run", u64::from(run)));
    let mut clock = [begin.0, begin.0 + 7];
    (0..count).map(move |index| {
        let process = (index % 2) as usize;
        let jitter = 0.85 + 0.3 * (prng.below(1 << 20) as f64 / f64::from(1 << 20));
        let typical = match mode {
            Mode::Read => 80_000.0,
            _ if index < count / 8 => 12_000.0,
            _ if prng.below(2000) == 0 => 5_000_000.0,
            _ => 150_000.0,
        };
        let slow = if run == 1 && index == count / 2 { OUTLIER.0 } else { (typical * jitter) as u64 };
        let submitted = clock[process] + 100 + prng.below(200);
        clock[process] = submitted + slow;
        let blocks = space.0 / size;
        let block = if is_random { prng.below(blocks) } else { index % blocks };
        Sample {
            position: index / 2,
            process: process as u32,
            mode,
            offset: Bytes(block * size),
            size: Bytes(size),
            intended: Nanos(submitted),
            submitted: Nanos(submitted),
            completed: Nanos(submitted + slow),
            errno: if prng.below(5000) == 0 { 5 } else { 0 },
        }
    })
}

/// Records runs, with these counts of IOs, as the finished folder of a recording.
pub fn record_runs(path: &Path, counts: &[u64], space: Bytes, seed: Seed) {
    let settings = RecordingSettings { target: "a made device".to_owned(), recorded_by: "a test".to_owned() };
    let identity = Identity { target: "a made device".to_owned(), ..Identity::default() };
    let manifest = Manifest::of_recording(
        identity,
        "none needed",
        settings,
        vec!["flashlab".to_owned(), "serve".to_owned()],
        "2026-11-29T00:00:00Z".to_owned(),
    );
    let folder = RunFolder::create(path, &manifest).expect("the test's directory takes a folder");
    let mut recording = Recording::start_virtual(&folder);
    let mut begin = Nanos(1_000_000_000);
    for (run, &count) in (0..).zip(counts) {
        let name = RUNS[run as usize % RUNS.len()].0.to_owned();
        folder.add_run(&RecordedRun { run, name }).expect("the disk has space");
        let mut lanes = recording.start_run(run, 2).expect("the writer has just begun");
        for sample in ios(run, count, space, begin, seed) {
            begin = begin.max(sample.completed);
            assert!(lanes[sample.process as usize].record(&sample).is_continue());
        }
        recording.finish_run(lanes).expect("the disk has space");
        // The device is idle between two runs.
        begin = Nanos(begin.0 + 1_000_000_000);
    }
    drop(recording);
    folder.finish::<RecordingSettings>().expect("the disk has space");
}
