//! Files that are wrong: plans, profiles, and the folders of runs.

use std::fs;

use crate::support::{Directory, SHORT_RUNS, SMALL_PROFILE};

/// What is said of a plan on a simulated device of 64 MiB with blocks of 4 KiB.
fn refused(plan: &str) -> String {
    let directory = Directory::new();
    directory.write("a.toml", plan);
    directory.write("small.toml", SMALL_PROFILE);
    let ran = directory.flashlab(&["run", "a.toml", "sim:./small.toml"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert_eq!(directory.names(), ["a.toml", "small.toml"], "nothing is made");
    ran.err
}

/// A plan of one pattern with these lines.
fn plan(lines: &str) -> String {
    format!("version = 1\nname = \"a\"\n\n{lines}\n")
}

#[test]
fn plans_that_cannot_be_read() {
    insta::assert_snapshot!(refused("version = 1\nname = a plan\n"), @"");
    insta::assert_snapshot!(refused("version = 2\nname = \"a\"\n"), @"");
    insta::assert_snapshot!(refused(""), @"");
    insta::assert_snapshot!(refused(&plan("mode = \"read\"\nlocaton = \"random\"")), @"");
    insta::assert_snapshot!(refused(&plan("mode = \"read\"\nlocation = \"everywhere\"")), @"");
    insta::assert_snapshot!(refused(&plan("mode = \"read\"\nlocation = \"random\"\nio_count = 0")), @"");
}

#[test]
fn parameters_that_no_device_can_have() {
    let random = "mode = \"write\"\nlocation = \"random\"\n";
    insta::assert_snapshot!(refused(&plan(&format!("{random}io_size = \"32KiB\"\ntarget_size = \"16KiB\""))), @"");
    insta::assert_snapshot!(refused(&plan(&format!("{random}io_size = \"0KiB\""))), @"");
    insta::assert_snapshot!(refused(&plan(&format!("{random}parallel_degree = 0"))), @"");
    insta::assert_snapshot!(refused(&plan("mode = \"write\"\nlocation = \"partitioned\"\npartitions = 0")), @"");
}

#[test]
fn parameters_that_this_device_cannot_have() {
    let random = "mode = \"write\"\nlocation = \"random\"\n";
    insta::assert_snapshot!(refused(&plan(&format!("{random}io_size = \"512B\""))), @"");
    insta::assert_snapshot!(refused(&plan(&format!("{random}io_shift = \"1KiB\""))), @"");
    insta::assert_snapshot!(refused(&plan(&format!("{random}target_size = \"1GiB\""))), @"");
    insta::assert_snapshot!(refused(&plan(&format!("{random}target_offset = \"64MiB\""))), @"");
    insta::assert_snapshot!(
        refused(&plan("mode = \"write\"\nlocation = \"partitioned\"\npartitions = 100000")), @"");
    insta::assert_snapshot!(refused(&plan(&format!("{random}parallel_degree = 4096"))), @"");
}

#[test]
fn what_does_not_fit_is_left_out_where_something_fits() {
    let directory = Directory::new();
    directory.write("small.toml", SMALL_PROFILE);
    let ran = directory.succeeds(&["run", "alignment", "sim:./small.toml", "--output", "run"]);
    let left_out: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("left out")).collect();
    // Shifts of 512 B, 1 KiB and 2 KiB, for each of the four patterns.
    assert_eq!(left_out.len(), 12, "{ran}");
    insta::assert_snapshot!(left_out[0], @"");
}

#[test]
fn profiles_that_are_wrong() {
    let wrong = |profile: &str| {
        let directory = Directory::new();
        directory.write("p.toml", profile);
        let ran = directory.flashlab(&["sim", "show", "./p.toml"]);
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.err
    };
    insta::assert_snapshot!(wrong("version = 1\n"), @"");
    insta::assert_snapshot!(wrong(&SMALL_PROFILE.replace("random_read", "randm_read")), @"");
    insta::assert_snapshot!(wrong(&SMALL_PROFILE.replace("64MiB", "0B")), @"");
    insta::assert_snapshot!(wrong(&SMALL_PROFILE.replace("version = 1", "version = 9")), @"");
}

/// A finished run in `run`.
fn finished() -> Directory {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    directory.succeeds(&["run", "short.toml", "sim:zeus", "--output", "run"]);
    directory
}

fn manifest_with(change: impl Fn(String) -> String) -> [String; 2] {
    let directory = finished();
    let manifest = directory.path("run/manifest.json");
    fs::write(&manifest, change(fs::read_to_string(&manifest).unwrap())).unwrap();
    [["report", "run"].as_slice(), &["bench", "--resume", "run"]].map(|arguments| {
        let ran = directory.flashlab(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}\n{ran}");
        ran.err
    })
}

#[test]
fn manifests_that_are_damaged() {
    let [report, resume] = manifest_with(|text| text[..text.len() / 2].to_owned());
    insta::assert_snapshot!(report, @"");
    assert_eq!(report, resume);
    insta::assert_snapshot!(manifest_with(|text| text.replace("\"version\": 1", "\"version\": 99"))[0], @"");
    insta::assert_snapshot!(manifest_with(|_| String::new())[0], @"");
    insta::assert_snapshot!(manifest_with(|_| "[]".to_owned())[0], @"");
}

#[test]
fn a_device_that_is_not_there_any_more() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    let profile = directory.write("small.toml", SMALL_PROFILE);
    directory.succeeds(&["run", "short.toml", "sim:./small.toml", "--output", "run"]);
    fs::remove_file(profile).unwrap();
    directory.succeeds(&["report", "run"]);
    insta::assert_snapshot!(directory.flashlab(&["bench", "--resume", "run"]), @"");
    directory.write("small.toml", SMALL_PROFILE.replace("64MiB", "32MiB"));
    insta::assert_snapshot!(directory.flashlab(&["bench", "--resume", "run"]), @"");
}

#[test]
fn runs_and_samples_that_are_damaged() {
    let directory = finished();
    let runs = directory.path("run/runs.jsonl");
    let text = fs::read_to_string(&runs).unwrap();
    fs::write(&runs, text.replacen("\"run\":", "\"ran\":", 1)).unwrap();
    insta::assert_snapshot!(directory.flashlab(&["report", "run"]), @"");

    // The rest of a run is worth what is whole of it.
    fs::write(&runs, &text[..text.len() - 10]).unwrap();
    let samples = fs::read_dir(directory.path("run/samples")).unwrap();
    let first = samples.map(|entry| entry.unwrap().path()).min().unwrap();
    fs::write(&first, "no Parquet").unwrap();
    let ran = directory.succeeds(&["report", "run"]);
    assert!(ran.out.contains("set aside"), "{ran}");
}

#[test]
fn a_run_without_its_samples() {
    let directory = finished();
    fs::remove_dir_all(directory.path("run/samples")).unwrap();
    insta::assert_snapshot!(directory.flashlab(&["report", "run"]), @"");
}
