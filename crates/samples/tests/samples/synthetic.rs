//! Synthetic runs, with samples that a device could produce.

use std::path::Path;

use flashlab_base::{Bytes, Identity, Mode, Nanos, Prng, Sample, Seed};
use flashlab_samples::{FolderKind, Manifest, Recording, RunFolder};

/// Samples of a closed loop: random 4 KiB reads over `space`, one after the other. Each takes about 60 us
/// with log-normal jitter, with a short time of the program between them.
pub fn random_reads(space: Bytes, count: u64, seed: Seed) -> impl Iterator<Item = Sample> {
    let size = Bytes::kib(4);
    let mut prng = Prng::new(seed);
    let mut clock = 1_000_000;
    (0..count).map(move |position| {
        let submitted = Nanos(clock + 120 + prng.below(140));
        let response = 60_000.0 * (0.25 * normal(&mut prng)).exp();
        let completed = Nanos(submitted.0 + response as u64);
        clock = completed.0;
        Sample {
            position,
            process: 0,
            mode: Mode::Read,
            offset: Bytes(prng.below(space.0 / size.0) * size.0),
            size,
            intended: submitted,
            submitted,
            completed,
            errno: 0,
        }
    })
}

/// Samples of an open loop in which every field varies.
pub fn mixed_ios(process: u32, count: u64, seed: Seed) -> impl Iterator<Item = Sample> {
    let mut prng = Prng::new(seed);
    let mut clock = 0;
    (0..count).map(move |position| {
        clock += prng.below(200_000);
        let intended = Nanos(clock);
        let submitted = Nanos(clock + prng.below(3) * 1000);
        Sample {
            position,
            process,
            mode: if prng.below(3) == 0 { Mode::Write } else { Mode::Read },
            offset: Bytes(prng.below(1 << 31) * 512),
            size: Bytes(512 << prng.below(8)),
            intended,
            submitted,
            completed: Nanos(submitted.0 + prng.below(1 << 20)),
            errno: if prng.below(100) == 0 { 5 } else { 0 },
        }
    })
}

/// A standard normal number (Box and Muller).
fn normal(prng: &mut Prng) -> f64 {
    let mut uniform = || (prng.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

/// The folder of a new run at `path`.
pub fn folder(path: &Path) -> RunFolder {
    RunFolder::create(path, &manifest()).expect("the test's directory takes a run's folder")
}

/// A manifest whose settings are a text.
pub fn manifest() -> Manifest<String> {
    Manifest {
        command: vec!["flashlab".to_owned(), "bench".to_owned()],
        plans: vec!["name = \"granularity\"".to_owned()],
        overhead_ns_per_io: Some(40.5),
        ..Manifest::new(
            FolderKind::Bench,
            "quick".to_owned(),
            Identity { target: "sim:zeus".to_owned(), ..Identity::default() },
            "none needed",
        )
    }
}

/// Records the samples of a run of one process.
pub fn record(folder: &RunFolder, run: u32, samples: impl Iterator<Item = Sample>) {
    let mut recording = Recording::start(folder);
    let mut lanes = recording.start_run(run, 1).expect("the writer has just begun");
    for sample in samples {
        assert!(lanes[0].record(&sample).is_continue());
    }
    recording.finish_run(lanes).expect("the disk has room");
}

/// The samples of a run on disk.
pub fn read(folder: &RunFolder, run: u32) -> Vec<Sample> {
    let mut samples = Vec::new();
    folder.each_sample(run, |sample| samples.push(*sample)).expect("whole segments are read");
    samples
}
