//! `flashlab em`: files are sorted and verified, experiments print predicted and measured, and bad input changes nothing.

use std::fs;

use serde_json::Value;

use crate::support::Directory;

/// Records of 16 bytes in a pseudo-random order, the key first.
fn records(count: u32) -> Vec<u8> {
    let record = |index: u32| {
        let key = index.wrapping_mul(2_654_435_761).rotate_left(7);
        let mut record = [0u8; 16];
        record[..4].copy_from_slice(&key.to_be_bytes());
        record[8..12].copy_from_slice(&index.to_be_bytes());
        record
    };
    (0..count).flat_map(record).collect()
}

fn sorted(records: &[u8]) -> Vec<u8> {
    let mut all: Vec<&[u8]> = records.chunks(16).collect();
    all.sort_by_key(|record| &record[..8]);
    all.concat()
}

#[test]
fn a_file_is_sorted_with_and_without_runs_whatever_its_length() {
    let directory = Directory::new();
    for (count, memory) in [(0, "1MiB"), (1, "1MiB"), (33, "1MiB"), (100_003, "1MiB"), (100_003, "64MiB")] {
        let input = records(count);
        directory.write("in", &input);
        let arguments =
            ["em", "sort", "in", "out", "--record", "16B", "--key", "0..8", "--memory", memory, "--json"];
        let ran = directory.succeeds(&arguments);
        let document: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&document["records"], &document["verified"]), (&count.into(), &true.into()));
        let passes = u64::from(count > 50_000 && memory == "1MiB");
        assert_eq!(document["merge_passes"], passes, "{document}");
        assert!(fs::read(directory.path("out")).unwrap() == sorted(&input), "{count} records in {memory}");
        assert!(fs::read(directory.path("in")).unwrap() == input);
        assert_eq!(directory.names(), ["in", "out"]);
        fs::remove_file(directory.path("out")).unwrap();
    }
}

#[test]
fn what_cannot_be_sorted_is_refused_and_leaves_everything_as_it_was() {
    let directory = Directory::new();
    directory.write("in", records(4096));
    directory.write("odd", [1; 100]);
    directory.write("there", "kept");
    let refused = |input: &str, output: &str, more: &[&str]| {
        let words = ["em", "sort", input, output, "--record", "16B"];
        let key = ["--key", "0..8"];
        let has_key = more.contains(&"--key");
        let arguments: Vec<&str> = words
            .into_iter()
            .chain(if has_key { [].iter() } else { key.iter() }.copied())
            .chain(more.iter().copied())
            .collect();
        let ran = directory.flashlab(&arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran}");
        ran.err.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(
        refused("odd", "out", &[]),
        "flashlab: odd has 100 bytes, which is not a multiple of the record of 16 bytes: 4 bytes are left over at its end"
    );
    assert_eq!(refused("in", "in", &[]), "flashlab: in is the input: give the output another name");
    assert_eq!(refused("in", "./in", &[]), "flashlab: ./in is the input: give the output another name");
    assert_eq!(
        refused("in", "there", &[]),
        "flashlab: there exists: remove it, or give the output another name"
    );
    assert_eq!(refused("in", "nowhere/out", &[]), "flashlab: nowhere is no directory: make it first");
    assert!(refused("missing", "out", &[]).starts_with("flashlab: cannot read missing: "));
    assert!(refused(".", "out", &[]).ends_with("is not a regular file: give a file of records"));
    assert!(refused("in", "out", &["--memory", "16KiB"]).contains("a sort with a fan-in of 2 needs "));
    assert!(
        refused("in", "out", &["--key", "9..17"]).contains("the key 9..17 is not within a record of 16 B")
    );
    assert_eq!(directory.names(), ["in", "odd", "there"]);
    assert_eq!(fs::read(directory.path("there")).unwrap(), b"kept");
    assert!(fs::read(directory.path("in")).unwrap() == records(4096));
}

#[test]
fn an_interrupted_and_a_killed_sort_leave_nothing_behind() {
    let directory = Directory::new();
    directory.file("in", 192 << 20);
    let arguments = ["em", "sort", "in", "out", "--record", "16B", "--key", "0..8", "--memory", "4MiB"];
    let ran = directory.start(&arguments).until("sorting").signal("INT");
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(
        ran.err.ends_with(
            "flashlab: interrupted: no output was made, the temporary files are removed, in is as it was\n"
        ),
        "{ran}"
    );
    assert_eq!(directory.names(), ["in"]);
    directory.start(&arguments).until("sorting").signal("KILL");
    let names: Vec<String> = directory.names();
    // Without nameless files, scratch files are left, which the next start names.
    assert!(names.iter().all(|name| name == "in" || name.starts_with("flashlab-scratch-")), "{names:?}");
}

/// The keys that issue 26 defines, and no others.
const KEYS: [&str; 9] = [
    "algorithm",
    "elements",
    "verified",
    "ios",
    "bytes",
    "time_ns",
    "host_ns",
    "predicted",
    "bandwidth_bound_ratio",
];

#[test]
fn experiments_are_verified_recorded_and_compared_with_their_predictions() {
    let directory = Directory::new();
    for algorithm in ["scan", "sort", "search"] {
        let arguments = |folder| {
            [
                "em",
                "run",
                algorithm,
                "sim:nvme-consumer",
                "--elements",
                "100000",
                "--memory",
                "1MiB",
                "--output",
                folder,
                "--json",
            ]
        };
        let document: Value = serde_json::from_str(&directory.succeeds(&arguments(algorithm)).out).unwrap();
        let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, KEYS);
        assert_eq!(document["ios"]["planned"], document["ios"]["issued"], "{algorithm}");
        assert_eq!(document["verified"], true);
        let models: Vec<&String> = document["predicted"].as_object().unwrap().keys().collect();
        assert_eq!(models.len(), 6, "{models:?}");
        let again = format!("{algorithm}-again");
        let second: Value = serde_json::from_str(&directory.succeeds(&arguments(&again)).out).unwrap();
        assert_eq!(document, second, "the same seed gives the same document");
        let report = directory.succeeds(&["report", algorithm]);
        let phase = if algorithm == "sort" { "merge 1: " } else { algorithm };
        assert!(report.out.contains(phase), "{report}");
    }
    let predicted =
        ["em", "predict", "sort", "sim:nvme-consumer", "--elements", "100000", "--memory", "1MiB"];
    assert!(directory.succeeds(&predicted).out.contains("affine"));
}

#[test]
fn an_experiment_that_does_not_fit_is_refused() {
    let directory = Directory::new();
    let run = |more: &[&str]| {
        let words = ["em", "run", "sort", "sim:zeus"];
        let arguments: Vec<&str> = words.into_iter().chain(more.iter().copied()).collect();
        let ran = directory.flashlab(&arguments);
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.err.lines().last().unwrap_or_default().to_owned()
    };
    assert!(run(&["--elements", "100000000000"]).contains("of memory on a simulated device"));
    assert!(run(&["--elements", "100000", "--memory", "8KiB"]).contains("give more memory"));
    assert!(run(&["--elements", "4000000", "--size", "64MiB"]).contains("has no free extent of"));
    assert!(run(&["--elements", "100", "--record", "1MiB"]).contains("a record has 1 byte to 64 KiB"));
    assert!(run(&["--elements", "100", "--write-cost", "0.1"]).contains("a write costs 1 to 1000 reads"));
}
