//! `flashlab sweep`, and `--csv`.

use serde_json::Value;

use crate::support::Directory;

const PLAN: &str = "version = 1\nname = \"rw\"\ntitle = \"\"\nmode = \"write\"\nlocation = \"random\"\n\
                    io_size = \"4KiB\"\nio_count = 3000\n";

#[test]
fn less_over_provisioning_costs_write_amplification() {
    let directory = Directory::new();
    directory.write("rw.toml", PLAN);
    let set = "flash.over_provisioning=0.1,0.4";
    let sweep = [
        "sweep",
        "sim:tlc-sata",
        "--size",
        "256MiB",
        "--set",
        set,
        "--plan",
        "rw.toml",
        "--json",
        "--output",
    ];
    let run = |output| {
        let ran = directory.succeeds(&[&sweep[..], &[output]].concat());
        serde_json::from_str::<Value>(&ran.out).unwrap()
    };
    let document = run("a");
    let amplification =
        |point: usize| document["points"][point]["rows"][0]["write_amplification"].as_f64().unwrap();
    assert!(amplification(0) > 1.5 * amplification(1), "{document}");
    assert_eq!(document["points"][1]["values"][0], "0.4");
    assert_eq!(document["points"], run("b")["points"], "the cores' order changes nothing");

    let states: Vec<&Value> =
        document["points"].as_array().unwrap().iter().map(|point| &point["state"]).collect();
    assert_eq!(states, ["steady", "steady"], "{document}");

    // Each point is a run, and its profile repeats it.
    let ran = directory.flashlab(&["report", "a"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.err.contains("is a sweep, made by `"), "{ran}");
    directory.succeeds(&["report", "a/point-001"]);
    let again =
        ["run", "rw.toml", "sim:./a/point-002.toml", "--state", "steady", "--repetitions", "1", "--csv"];
    let ran = directory.succeeds(&[&again[..], &["--output", "c"]].concat());
    let mut lines = ran.out.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mean = columns.iter().position(|&name| name == "mean_ns").unwrap();
    assert_eq!(document["points"][1]["rows"][0]["mean_ns"].to_string(), row[mean]);
}

#[test]
fn what_cannot_be_swept_is_told_before_anything_is_run() {
    let directory = Directory::new();
    directory.write("rw.toml", PLAN);
    for (target, set, message) in [
        ("sim:tlc-sata", "flash.nope=1", "unknown field `nope`"),
        ("sim:tlc-sata", "flash.over_provisioning=much", "flash.over_provisioning is a number"),
        ("sim:tlc-sata", "flash.over_provisioning=-3", "it may be 0 to 100"),
        ("sim:tlc-sata", "flash=1", "it is a section"),
        ("sim:tlc-sata", "flash.channels", "write a key and its values"),
        ("sim:tlc-sata", "flash.channels=2,2", "is given twice"),
        ("rw.toml", "flash.channels=2", "give a simulated device without a saved state"),
    ] {
        let ran =
            directory.flashlab(&["sweep", target, "--set", set, "--plan", "rw.toml", "--output", "out"]);
        assert_eq!(ran.code, Some(2), "{ran}");
        assert!(ran.err.contains(message), "{ran}");
    }
    assert_eq!(directory.names(), ["rw.toml"]);
}

#[test]
fn every_table_is_csv() {
    let directory = Directory::new();
    for (command, columns) in [
        (&["sim", "list"][..], "version,name,title"),
        (&["plan", "list"], "name,title,description"),
        (
            &["infer", "sim:zeus", "--only", "erase_block_size", "--output", "i"],
            "parameter,value,unit,confidence",
        ),
        (&["sim", "run", "sim:zeus", "--plan", "baselines"], "run,operation,locality"),
        (&["reproduce", "zeus"], "device,quantity,unit,paper"),
    ] {
        let ran = directory.succeeds(&[command, &["--csv"]].concat());
        assert!(ran.out.starts_with(columns), "{command:?}: {}", ran.out.lines().next().unwrap_or_default());
        assert!(ran.out.lines().count() > 1, "{command:?}");
    }
    let listed = directory.succeeds(&["sim", "list"]).out;
    let disk = listed.lines().find(|line| line.contains("barracuda")).expect("the zoo has a hard disk");
    assert!(disk.contains("hard disk") && !disk.contains("throughput model"), "{disk}");
    assert_eq!(directory.flashlab(&["sim", "list", "--csv", "--json"]).code, Some(2));
}

/// A drive of 1 GiB with a write buffer of 16 MiB.
const BUFFERED: &str = "version = 2\nname = \"small\"\ntitle = \"A small drive\"\nsource = \"a test\"\nfit = \"none\"\ncapacity = \"1GiB\"\n\n\
    [flash]\npage = \"4KiB\"\npages_per_block = 64\nplanes = 2\ndies = 16\nchannels = 16\nover_provisioning = 0.28\nread = \"50us\"\n\
    program = \"660us\"\nerase = \"5ms\"\nchannel_bandwidth = \"400MB/s\"\n\n[controller]\nread_command = \"1us\"\nwrite_command = \"2us\"\n\
    read_bandwidth = \"4000MB/s\"\nwrite_bandwidth = \"4000MB/s\"\nwrite_buffer = { size = \"16MiB\" }\n";

#[test]
fn the_writes_of_the_baselines_are_sustained_and_bursts_in_a_named_column() {
    let directory = Directory::new();
    directory.write("small.toml", BUFFERED);
    let sets = ["--set", "flash.over_provisioning=0.15,0.4"];
    let sweep = [&["sweep", "sim:./small.toml", "--plan", "baselines", "--json"][..], &sets].concat();
    let ran = directory.succeeds(&sweep);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let mean = |point: usize, regime: &str| {
        let rows = document["points"][point]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["experiment"] == "RW" && row["regime"] == regime);
        row.unwrap_or_else(|| panic!("no RW {regime}: {rows:?}"))["mean_ns"].as_f64().unwrap()
    };
    // The buffer is as fast with every over-provisioning, and what lasts is not.
    assert!((mean(0, "burst") / mean(1, "burst") - 1.0).abs() < 0.05);
    assert!(
        mean(0, "sustained") > 1.3 * mean(1, "sustained"),
        "{} {}",
        mean(0, "sustained"),
        mean(1, "sustained")
    );
    assert!(mean(1, "sustained") > 5.0 * mean(1, "burst"));
}

/// The shards of a sweep, each run by itself as on hosts of their own, make the table of the whole sweep: here of a sample of the
/// combinations.
#[test]
fn shards_make_the_table_of_the_whole_sweep() {
    let directory = Directory::new();
    directory.write("rw.toml", PLAN);
    let sweep: Vec<&str> =
        "sweep sim:tlc-sata --size 64MiB --set flash.over_provisioning=0.1,0.2,0.3,0.4 --set flash.channels=1,2,4 --sample sobol 6 --plan rw.toml --state none --csv"
            .split(' ')
            .collect();
    let whole = directory.succeeds(&[&sweep[..], &["--output", "whole"]].concat());
    assert_eq!(whole.out.lines().count(), 1 + 6, "{whole}");
    let shard = |number: &'static str| [&sweep[..], &["--shard", number, "--output", "all"]].concat();
    directory.succeeds(&shard("2/2"));
    let incomplete = directory.flashlab(&["sweep", "merge", "all"]);
    assert!(incomplete.code == Some(2) && incomplete.err.contains("shards are missing: 1/2"), "{incomplete}");
    let unfinished = directory.start(&shard("1/2")).until("1 of 3 are done").signal("KILL");
    drop(unfinished);
    let merged = directory.flashlab(&["sweep", "merge", "all"]);
    assert!(merged.code == Some(2) && merged.err.contains("shard 1/2 is unfinished: run `"), "{merged}");
    directory.succeeds(&shard("1/2"));
    let merged = directory.succeeds(&["sweep", "merge", "all", "--csv"]);
    assert_eq!(merged.out, whole.out);
    let again = directory.flashlab(&shard("1/2"));
    assert_eq!(again.code, Some(2), "a finished shard is not run again: {again}");
    let parts = directory.flashlab(&shard("9/9"));
    assert!(parts.code == Some(2) && parts.err.contains("there are 6 combinations"), "{parts}");
}

#[test]
fn what_is_no_shard_is_not_merged() {
    let directory = Directory::new();
    directory.write("rw.toml", PLAN);
    let sweep = |set: &str, shard: &str| {
        let words = format!(
            "sweep sim:tlc-sata --size 64MiB --set {set} --plan rw.toml --state none --shard {shard} --output all"
        );
        directory.succeeds(&words.split(' ').collect::<Vec<_>>());
    };
    let refused = |expected: &str| {
        let merged = directory.flashlab(&["sweep", "merge", "all"]);
        assert!(merged.code == Some(2) && merged.err.contains(expected), "{merged}");
    };
    refused("all is no folder");
    std::fs::create_dir(directory.path("all")).unwrap();
    refused("all has no shards: give the folder that flashlab sweep --shard had as --output");
    sweep("flash.channels=1,2", "1/2");
    sweep("flash.channels=2,4", "2/2");
    refused("the shards are of two sweeps");
}

#[test]
fn a_wrong_sample_is_refused() {
    let directory = Directory::new();
    let refused = |sample: &str| {
        let words = format!(
            "sweep sim:tlc-sata --set flash.channels=1,2 --plan baselines --sample {sample} --output all"
        );
        let told = directory.flashlab(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(told.code, Some(2), "{told}");
        told.err
    };
    insta::assert_snapshot!(refused("sobol 0"), @"flashlab: --sample sobol 0: how many combinations? Give a whole number from 1 on");
    insta::assert_snapshot!(refused("grid 3"), @"flashlab: --sample grid: a sample is `sobol` or `random`, not `grid`");
    assert!(directory.names().is_empty());
}
