//! The output of successful commands, and the documents for other programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Directory, SHORT_RUNS};

/// The first line of figures in the reference: the columns of uFLIP's Table 3.
const COLUMNS: &str = "device,type,capacity_gb,sr_ms,rr_ms,sw_ms,rw_ms,pause_rw_ms,locality_mb,locality_ratio,partitions,\
                       partition_ratio,reverse_ratio,in_place_ratio,large_incr_vs_rw";

/// The columns as the reference has them, where it lies beside the project.
fn columns() -> String {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/uflip_table3.csv");
    match fs::read_to_string(&reference) {
        Ok(text) => text.lines().find(|line| !line.starts_with('#')).unwrap().to_owned(),
        Err(_) => {
            flashlab_skip::skip(
                flashlab_skip::Need::Reference,
                "the reference is not there: compared with the list in this test",
            );
            COLUMNS.to_owned()
        }
    }
}

#[test]
fn the_characteristics_have_the_columns_of_table_3() {
    let directory = Directory::new();
    let ran = directory.succeeds(&["bench", "sim:zeus", "--quick", "--output", "run", "--json"]);
    let printed: Value = serde_json::from_str(&ran.out).expect("exactly one JSON document");
    let text = fs::read_to_string(directory.path("run/summary.json")).unwrap();
    assert_eq!(
        printed,
        serde_json::from_str::<Value>(&text).unwrap(),
        "--json and summary.json are the same"
    );

    let columns = columns();
    assert_eq!(columns, COLUMNS, "the list in this test is that of the reference");
    let expected: BTreeSet<&str> = columns.split(',').collect();
    let characteristics = printed["characteristics"].as_object().unwrap();
    assert_eq!(characteristics.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    let unknown: Vec<&String> =
        characteristics.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name).collect();
    // On a device without a state, pauses have no effect. Everything else was measured.
    assert_eq!(unknown, ["pause_rw_ms"], "{characteristics:?}");
}

#[test]
fn what_was_not_measured_is_null_and_not_missing() {
    let directory = Directory::new();
    let ran = directory.succeeds(&["bench", "sim:zeus", "--quick", "--only", "order", "--json"]);
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
    let characteristics = printed["characteristics"].as_object().unwrap();
    assert_eq!(characteristics.len(), columns().split(',').count());
    assert!(characteristics["locality_mb"].is_null() && characteristics["reverse_ratio"].is_number());
}

#[test]
fn every_verb_prints_one_json_document() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    directory.succeeds(&["run", "short.toml", "sim:zeus", "--output", "a", "--json"]);
    directory.succeeds(&["run", "short.toml", "sim:zeus", "--output", "b", "--seed", "2"]);
    let commands: [&[&str]; 10] = [
        &["run", "short.toml", "sim:zeus", "--output", "c", "--json"],
        &["run", "short.toml", "--size", "1MiB", "--output", "d", "--json"],
        &["plan", "list", "--json"],
        &["plan", "show", "mix", "--json"],
        &["plan", "check", "short.toml", "--json"],
        &["devices", "--json"],
        &["sim", "list", "--json"],
        &["sim", "show", "zeus", "--json"],
        &["report", "a", "--json"],
        &["compare", "a", "b", "--json"],
    ];
    for command in commands {
        let ran = directory.succeeds(command);
        if let Err(error) = serde_json::from_str::<Value>(&ran.out) {
            panic!("{command:?}: {error}\n{}", ran.out);
        }
    }
}

#[test]
fn a_failure_prints_no_document() {
    let directory = Directory::new();
    for command in [["report", "nothing", "--json"], ["bench", "sim:nothing", "--json"]] {
        let ran = directory.flashlab(&command);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
    }
}

#[test]
fn a_report_is_computed_again_from_the_files() {
    let directory = Directory::new();
    directory.succeeds(&["bench", "sim:zeus", "--quick", "--only", "granularity", "--output", "run"]);
    let documents =
        ["summary.json", "traces.json", "report.html"].map(|name| directory.path("run").join(name));
    let before = documents.each_ref().map(|path| fs::read_to_string(path).unwrap());
    documents.iter().for_each(|path| fs::remove_file(path).unwrap());
    directory.succeeds(&["report", "run"]);
    let after = documents.each_ref().map(|path| fs::read_to_string(path).unwrap());
    assert!(before == after, "the report is another one when it is computed again");
}

#[test]
fn the_same_seed_gives_the_same_samples_byte_for_byte() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    for (folder, seed) in [("a", "7"), ("b", "7"), ("c", "8")] {
        directory.succeeds(&["run", "short.toml", "sim:zeus", "--output", folder, "--seed", seed]);
    }
    let [a, b, c] = ["a", "b", "c"].map(|folder| samples(&directory.path(folder)));
    assert_eq!(a.len(), 12, "four values, three times");
    assert!(a == b, "the same seed gave other samples");
    assert!(a != c, "another seed gave the same samples");
}

/// The files of samples by name, with their bytes.
fn samples(run: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(run.join("samples")).unwrap().map(|entry| entry.unwrap().path());
    let mut samples: Vec<_> = entries
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    samples.sort();
    samples
}

#[test]
fn the_end_of_a_run_says_where_its_report_is() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    let ran = directory.succeeds(&["run", "short.toml", "sim:zeus"]);
    let last = ran.out.lines().last().unwrap();
    let path = last.strip_prefix("Report: ").unwrap_or_else(|| panic!("{last}"));
    assert!(fs::read_to_string(directory.path(path)).unwrap().starts_with("<!"), "{path} is no page");
    let ran = directory.succeeds(&["run", "short.toml", "sim:zeus", "--json"]);
    let path = ran.err.lines().find_map(|line| line.strip_prefix("report: ")).unwrap();
    assert!(directory.path(path).is_file());
}

#[test]
fn runs_are_compared() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    for (folder, seed) in [("a", "1"), ("b", "2")] {
        directory.succeeds(&["run", "short.toml", "sim:zeus", "--output", folder, "--seed", seed]);
    }
    let ran = directory.succeeds(&["compare", "a", "b", "--output", "both.html"]);
    assert!(ran.out.contains("B's median: equal at 8 of 8."), "{ran}");
    assert!(ran.out.ends_with("Report: both.html\n"), "{ran}");
    let document = directory.succeeds(&["compare", "a", "b", "--json"]);
    let document: Value = serde_json::from_str(&document.out).unwrap();
    let experiment = &document["experiments"][0];
    assert_eq!(experiment["ratios"][1][0]["statistic"], "p50", "{experiment}");
    assert!(experiment["ratios"][1][0]["low"].as_f64() <= Some(1.0), "{experiment}");
    let ran = directory.flashlab(&["compare", "a", "b", "--output", "no/such/folder.html"]);
    insta::assert_snapshot!(ran, @r"
    exit 2
    flashlab: cannot write no/such/folder.html: No such file or directory (os error 2); choose another file
    ");
    let ran = directory.flashlab(&["compare", "a", "./a"]);
    insta::assert_snapshot!(ran, @r"
    exit 2
    flashlab: ./a and a are the same run, or one is a copy of the other: to see how runs of one device differ, repeat it with another --seed and compare the two
    ");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let directory = Directory::new();
    for arguments in [["plan", "list"].as_slice(), &["plan", "show", "mix"], &["devices", "--json"]] {
        let mut command = directory.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ran = directory.ran(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn plans_and_profiles_are_shown_as_they_are_written() {
    let directory = Directory::new();
    let shown = directory.succeeds(&["plan", "show", "granularity"]).out;
    directory.write("granularity.toml", &shown);
    insta::assert_snapshot!(directory.succeeds(&["plan", "check", "granularity.toml"]).out, @r"
    granularity: Granularity: response time over IOSize
      SR: IOSize = 512B, 1KiB, 1536B, 2KiB, 4KiB, 8KiB, 12KiB, 16KiB, 24KiB, 32KiB, 48KiB, 64KiB, 96KiB, 128KiB, 256KiB
      RR: IOSize = 512B, 1KiB, 1536B, 2KiB, 4KiB, 8KiB, 12KiB, 16KiB, 24KiB, 32KiB, 48KiB, 64KiB, 96KiB, 128KiB, 256KiB
      SW: IOSize = 512B, 1KiB, 1536B, 2KiB, 4KiB, 8KiB, 12KiB, 16KiB, 24KiB, 32KiB, 48KiB, 64KiB, 96KiB, 128KiB, 256KiB
      RW: IOSize = 512B, 1KiB, 1536B, 2KiB, 4KiB, 8KiB, 12KiB, 16KiB, 24KiB, 32KiB, 48KiB, 64KiB, 96KiB, 128KiB, 256KiB
    ");
    let profile = directory.succeeds(&["sim", "show", "zeus"]).out;
    directory.write("zeus.toml", &profile);
    assert_eq!(directory.succeeds(&["sim", "show", "./zeus.toml"]).out, profile);
    insta::assert_snapshot!(directory.succeeds(&["plan", "list"]).out, @r"
    baselines                         Baselines: sequential and random, reads and writes
    granularity       IOSize          Granularity: response time over IOSize
    alignment         IOShift         Alignment: response time over IOShift
    locality          TargetSize      Locality: response time over TargetSize
    partitioning      Partitions      Partitioning: response time over Partitions
    order             Incr            Order: response time over Incr
    parallelism       ParallelDegree  Parallelism: response time over ParallelDegree
    mix               Ratio           Mix: response time over Ratio
    pause             Pause           Pause: response time over Pause
    bursts            Burst           Bursts: response time over Burst
    random-state                      Random state: random writes of random size on the whole device
    sequential-state                  Sequential state: one sequential rewrite of the whole device
    ");
    // Whatever else the zoo has: one line for each, in columns.
    let listed = directory.succeeds(&["sim", "list"]).out;
    let zeus =
        listed.lines().find(|line| line.starts_with("sim:zeus ")).unwrap_or_else(|| panic!("{listed}"));
    assert!(zeus.ends_with("  65.2 GiB  throughput model  STEC Zeus 70 GB"), "{zeus}");
    let ends_of_capacities = listed.lines().map(|line| line.find("iB  ").unwrap_or_else(|| panic!("{line}")));
    assert_eq!(ends_of_capacities.collect::<BTreeSet<_>>().len(), 1, "{listed}");
}

#[test]
fn a_report_goes_elsewhere_and_leaves_the_run_s_folder_as_it_is() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    directory.succeeds(&["run", "short.toml", "sim:zeus", "--output", "run"]);
    let written = fs::read_to_string(directory.path("run/report.html")).unwrap();
    fs::write(directory.path("run/report.html"), "old").unwrap();
    let ran = directory.succeeds(&["report", "run", "--output", "page.html"]);
    assert!(ran.out.ends_with("Report: page.html\n"), "{ran}");
    assert_eq!(fs::read_to_string(directory.path("page.html")).unwrap(), written);
    assert_eq!(fs::read_to_string(directory.path("run/report.html")).unwrap(), "old");
}

#[test]
fn runs_that_begin_in_the_same_second_have_folders_of_their_own() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    let started: Vec<_> = (0..4).map(|_| directory.start(&["run", "short.toml", "sim:zeus"])).collect();
    for run in started {
        let ran = run.end();
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    let folders = fs::read_dir(directory.path("flashlab-runs")).unwrap();
    let whole = folders.filter(|folder| folder.as_ref().unwrap().path().join("report.html").is_file());
    assert_eq!(whole.count(), 4);
}
