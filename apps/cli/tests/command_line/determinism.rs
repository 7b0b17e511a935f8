//! The same seed and plan give the same samples, on any CPU and in any build of the program.
//!
//! The checksums below are those of the samples of small runs on devices of each family. An optimised build,
//! and a later one, have to give the same. If the simulator or the expansion of plans is changed on purpose,
//! renew them: run the test, check the change, and accept it with `cargo insta accept`, or copy the checksums
//! from the failure. An update of the Parquet library does not change them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flashlab_samples::for_each_batch;

use crate::support::Directory;

/// Everything that is computed with fractions: open-loop arrivals, skewed locations, mixes.
const PLAN: &str = r#"version = 1
name = "small"
title = "Small runs"

[[experiment]]
name = "writes"
mode = "write"
location = "random"
io_size = "4KiB"
io_count = 2000

[[experiment]]
name = "skewed"
write_probability = 0.5
location = "zipf"
theta = 0.9
io_size = { min = "4KiB", max = "64KiB" }
per_second = 500
arrival = "poisson"
io_count = 1000
"#;

/// Plans with several IOs in flight, which not every device supports.
const QUEUES: &str = r#"version = 1
name = "queues"
title = "Small runs with several IOs in flight"

[[experiment]]
name = "deep"
mode = "write"
location = "random"
io_size = "4KiB"
queue_depth = 4
io_count = 2000

[[experiment]]
name = "parallel"
mode = "read"
location = "sequential"
io_size = "32KiB"
parallel_degree = 4
io_count = 300
"#;

/// A device with noise, which needs logarithms, roots and cosines.
const NOISY: &str = r#"version = 2
name = "noisy"
title = "Noisy"
source = "a test"
fit = "none"
capacity = "64MiB"
[flash]
over_provisioning = 0.15
dies = 4
[noise]
sigma = 0.3
outlier_share = 0.01
outlier = "5ms"
"#;

/// A device of each family: lines, a page map, a demand map, log blocks, a disk; and their plans.
const RUNS: [(&str, &str); 9] = [
    ("sim:zeus", "small.toml"),
    ("sim:zeus", "queues.toml"),
    ("sim:tlc-sata", "small.toml"),
    ("sim:tlc-sata", "queues.toml"),
    ("sim:nvme-consumer", "queues.toml"),
    ("sim:dt-secure", "small.toml"),
    ("sim:barracuda", "small.toml"),
    ("sim:./noisy.toml", "small.toml"),
    ("sim:./noisy.toml", "queues.toml"),
];

/// The files in a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The CRC-32 of all samples, value by value.
fn checksum(folder: &Path) -> (u32, usize) {
    let (mut checksum, mut count) = (crc32fast::Hasher::new(), 0);
    let segments = files(&folder.join("samples"))
        .into_iter()
        .filter(|file| file.extension().is_some_and(|end| end == "parquet"));
    for file in segments {
        for_each_batch(&file, |columns| {
            count += columns.len();
            for index in 0..columns.len() {
                let sample = columns.sample(index);
                let numbers = [
                    sample.position,
                    sample.process.into(),
                    sample.mode.is_write().into(),
                    sample.offset.0,
                    sample.size.0,
                    sample.intended.0,
                    sample.submitted.0,
                    sample.completed.0,
                    sample.errno as u64,
                ];
                numbers.iter().for_each(|number| checksum.update(&number.to_le_bytes()));
            }
        })
        .unwrap();
    }
    (checksum.finalize(), count)
}

#[test]
fn every_build_gives_the_same_samples() {
    let directory = Directory::new();
    directory.write("small.toml", PLAN);
    directory.write("queues.toml", QUEUES);
    directory.write("noisy.toml", NOISY);
    let mut shown = String::new();
    for (number, (device, plan)) in RUNS.iter().enumerate() {
        let folder = format!("samples-{number}");
        directory.succeeds(&["sim", "run", device, "--plan", plan, "--seed", "7", "--output", &folder]);
        let (checksum, count) = checksum(&directory.path(&folder));
        writeln!(shown, "{device} {plan} {count} {checksum:08x}").unwrap();
    }
    insta::assert_snapshot!(shown, @r"
    sim:zeus small.toml 3000 34d2fef2
    sim:zeus queues.toml 3200 ead59bd0
    sim:tlc-sata small.toml 3000 94550e26
    sim:tlc-sata queues.toml 3200 395bfd0d
    sim:nvme-consumer queues.toml 3200 dad5273b
    sim:dt-secure small.toml 3000 059db035
    sim:barracuda small.toml 3000 cca971d6
    sim:./noisy.toml small.toml 3000 97988cbd
    sim:./noisy.toml queues.toml 3200 7b90aae9
    ");
}

/// The program on the first CPU only; `None` if that is not possible.
fn on_one_processor(directory: &Directory, arguments: &[&str]) -> Option<String> {
    let binary = directory.command(&[]);
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "0"]).arg(binary.get_program()).args(arguments);
    let ran = command.current_dir(directory.path(".")).output();
    match ran {
        Ok(output) if output.status.success() => Some(directory.ran(output).out),
        other => {
            flashlab_skip::skip(flashlab_skip::Need::Programs, format_args!("no taskset here ({other:?})"));
            None
        }
    }
}

#[test]
fn one_processor_gives_the_same_bytes_as_all() {
    let directory = Directory::new();
    directory.write("queues.toml", QUEUES);
    let run = |folder: &'static str| ["run", "queues.toml", "sim:zeus", "--seed", "7", "--output", folder];
    directory.succeeds(&run("all"));
    if on_one_processor(&directory, &run("one")).is_none() {
        return;
    }
    let bytes = |folder: &str| -> Vec<(String, Vec<u8>)> {
        let files = files(&directory.path(folder).join("samples"));
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        files.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
    };
    let all = bytes("all");
    assert!(all.len() >= 6, "three repetitions of two experiments");
    assert!(bytes("one") == all, "samples differ between one processor and all of them");
}
