//! Wrong files: plans, profiles, and folders of runs.

use std::fs;

use crate::support::{Directory, SHORT_RUNS, SMALL_PROFILE, unsealed};

/// The message about a plan on a simulated device of 64 MiB with blocks of 4 KiB.
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
    insta::assert_snapshot!(refused("version = 1\nname = a plan\n"), @"flashlab: a.toml:2: this is not TOML: string values must be quoted, expected literal string");
    insta::assert_snapshot!(refused("version = 2\nname = \"a\"\n"), @"flashlab: a.toml:1: version = 2: must be 1, the version of the language that this flashlab reads");
    insta::assert_snapshot!(refused(""), @"flashlab: a.toml:1: `version` is missing: add version = 1");
    insta::assert_snapshot!(refused(&plan("mode = \"read\"\nlocaton = \"random\"")), @"flashlab: a.toml:5: unknown key `locaton`: did you mean `location`?");
    insta::assert_snapshot!(refused(&plan("mode = \"read\"\nlocation = \"everywhere\"")), @r#"flashlab: a.toml:5: location = "everywhere": must be one of "sequential", "random", "permutation", "ordered", "partitioned", "zipf", "hot_cold""#);
    insta::assert_snapshot!(refused(&plan("mode = \"read\"\nlocation = \"random\"\nio_count = 0")), @"flashlab: a.toml:6: io_count = 0: must be from 1 to 2^53");
}

#[test]
fn parameters_that_no_device_can_have() {
    let random = "mode = \"write\"\nlocation = \"random\"\n";
    insta::assert_snapshot!(refused(&plan(&format!("{random}io_size = \"32KiB\"\ntarget_size = \"16KiB\""))), @r#"flashlab: a.toml:7: target_size = "16KiB": must be at least 32KiB, which is IOSize + IOShift"#);
    insta::assert_snapshot!(refused(&plan(&format!("{random}io_size = \"0KiB\""))), @r#"flashlab: a.toml:6: io_size = "0KiB": must be from 1B to 8PiB"#);
    insta::assert_snapshot!(refused(&plan(&format!("{random}parallel_degree = 0"))), @"flashlab: a.toml:6: parallel_degree = 0: must be from 1 to 1024");
    insta::assert_snapshot!(refused(&plan("mode = \"write\"\nlocation = \"partitioned\"\npartitions = 0")), @"flashlab: a.toml:6: partitions = 0: must be at least 1");
}

#[test]
fn parameters_that_this_device_cannot_have() {
    let random = "mode = \"write\"\nlocation = \"random\"\n";
    insta::assert_snapshot!(refused(&plan(&format!("{random}io_size = \"512B\""))), @"flashlab: nothing of the plan can be run on sim:small: IOSize = 512B: must be a multiple of the device's block of 4KiB");
    insta::assert_snapshot!(refused(&plan(&format!("{random}io_shift = \"1KiB\""))), @"flashlab: nothing of the plan can be run on sim:small: IOShift = 1KiB: must be a multiple of the device's block of 4KiB");
    insta::assert_snapshot!(refused(&plan(&format!("{random}target_size = \"1GiB\""))), @"flashlab: nothing of the plan can be run on sim:small: TargetSize = 1GiB: must be at most 64MiB, as the device ends at 64MiB and the target starts at 0B");
    insta::assert_snapshot!(refused(&plan(&format!("{random}target_offset = \"64MiB\""))), @"flashlab: nothing of the plan can be run on sim:small: TargetOffset = 64MiB: must be below the device's capacity of 64MiB");
    insta::assert_snapshot!(
        refused(&plan("mode = \"write\"\nlocation = \"partitioned\"\npartitions = 100000")), @"flashlab: nothing of the plan can be run on sim:small: Partitions = 100000: must be from 1 to 2048, the number of IOs that fit into the target");
    insta::assert_snapshot!(refused(&plan(&format!("{random}parallel_degree = 4096"))), @"flashlab: a.toml:6: parallel_degree = 4096: must be from 1 to 1024");
}

#[test]
fn what_does_not_fit_is_left_out_where_something_fits() {
    let directory = Directory::new();
    directory.write("small.toml", SMALL_PROFILE);
    let ran = directory.succeeds(&["run", "alignment", "sim:./small.toml", "--output", "run"]);
    let left_out: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("left out")).collect();
    // Shifts of 512 B, 1 KiB and 2 KiB, for each of the four patterns.
    assert_eq!(left_out.len(), 12, "{ran}");
    insta::assert_snapshot!(left_out[0], @"left out: alignment SR at 512B: IOShift = 512B: must be a multiple of the device's block of 4KiB");
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
    insta::assert_snapshot!(wrong("version = 1\n"), @r"
    flashlab: profile ./p.toml: TOML parse error at line 1, column 1
      |
    1 | version = 1
      | ^
    missing field `name`
    ");
    insta::assert_snapshot!(wrong(&SMALL_PROFILE.replace("random_read", "randm_read")), @r#"
    flashlab: profile ./p.toml: TOML parse error at line 11, column 1
       |
    11 | randm_read = { a = "200us", b_us_per_kb = 1.0 }
       | ^^^^^^^^^^
    unknown field `randm_read`, expected one of `sequential_read`, `random_read`, `sequential_write`, `random_write`
    "#);
    insta::assert_snapshot!(wrong(&SMALL_PROFILE.replace("64MiB", "0B")), @"flashlab: profile ./p.toml: `capacity` is 0 B; it may be from one block to 1 EiB");
    insta::assert_snapshot!(wrong(&SMALL_PROFILE.replace("version = 2", "version = 9")), @"flashlab: profile ./p.toml: `version` is 9; it may be 2: the version that this program knows");
}

#[test]
fn files_that_are_no_text() {
    let directory = Directory::new();
    directory.write("garbage.toml", b"version = 1\nname = \"\xff\xfe\"\n");
    directory.write("large.toml", vec![b'#'; (1 << 20) + 1]);
    let wrong = |arguments: &[&str]| {
        let ran = directory.flashlab(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}\n{ran}");
        ran.err
    };
    insta::assert_snapshot!(wrong(&["run", "garbage.toml", "sim:zeus"]), @"flashlab: cannot read the plan garbage.toml: it is no text in UTF-8; `flashlab plan list` names the plans that come with flashlab");
    insta::assert_snapshot!(wrong(&["plan", "check", "large.toml"]), @"flashlab: cannot read the plan large.toml: it is larger than 1 MiB, as no plan is; `flashlab plan list` names the plans that come with flashlab");
    insta::assert_snapshot!(wrong(&["bench", "sim:./garbage.toml"]), @"flashlab: cannot read the profile ./garbage.toml: it is no text in UTF-8");
    insta::assert_snapshot!(wrong(&["sim", "show", "./large.toml"]), @"flashlab: cannot read the profile ./large.toml: it is larger than 1 MiB, as no profile is");
}

#[test]
fn queues_that_no_device_has() {
    let reads = "mode = \"read\"\nlocation = \"random\"\n";
    insta::assert_snapshot!(refused(&plan(&format!("{reads}queue_depth = 2000"))), @r"
    measuring 64 MiB of sim:./small.toml
    nothing will be written to it
    flashlab: queue_depth = 2000: must be from 1 to 1024: the device accepts no more IOs at the same time
    ");
    insta::assert_snapshot!(refused(&plan(&format!("{reads}queue_depth = 256\nparallel_degree = 32"))), @"flashlab: a.toml:6: queue_depth = 256: must be from 1 to 128, as 32 processes keep 4096 IOs in flight at most");
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
    fs::write(&manifest, change(unsealed(fs::read_to_string(&manifest).unwrap()))).unwrap();
    [["report", "run"].as_slice(), &["resume", "run"]].map(|arguments| {
        let ran = directory.flashlab(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}\n{ran}");
        ran.err
    })
}

#[test]
fn manifests_that_are_damaged() {
    let [report, resume] = manifest_with(|_| "{\n  \"version\": 1,\n  \"flashlab\": \"0.".to_owned());
    insta::assert_snapshot!(report, @"flashlab: run/manifest.json: EOF while parsing a string at line 3 column 17");
    assert_eq!(report, resume);
    insta::assert_snapshot!(manifest_with(|text| text.replace("\"version\": 2", "\"version\": 99"))[0], @"flashlab: run/manifest.json: has version 99, and this program reads version 2: read it with flashlab 0.1.0, which wrote it");
    let [report, resume] = manifest_with(|text| text.replace("io_count = 200", "io_cuont = 200"));
    insta::assert_snapshot!(report, @"flashlab: run/manifest.json: plan 1:9: unknown key `io_cuont`: did you mean `io_count`?");
    assert_eq!(report, resume);
    insta::assert_snapshot!(manifest_with(|_| String::new())[0], @"flashlab: run/manifest.json: EOF while parsing a value at line 1 column 0");
    insta::assert_snapshot!(manifest_with(|_| "\u{0}\u{1}\u{7f}".to_owned())[0], @"flashlab: run/manifest.json: expected value at line 1 column 1");
    insta::assert_snapshot!(manifest_with(|_| "[]".to_owned())[0], @"flashlab: run/manifest.json: invalid length 0, expected the manifest of a run at line 1 column 2");
}

#[test]
fn manifests_and_records_that_cannot_be_true() {
    let huge = u64::MAX.to_string();
    let wrong = |from: &str, to: &str| {
        let [report, resume] = manifest_with(|text| {
            assert!(text.contains(from), "{text}");
            text.replace(from, to)
        });
        assert_eq!(report, resume);
        report
    };
    insta::assert_snapshot!(wrong("\"target_size\": \"68359375KiB\"", "\"target_size\": \"0B\""), @"flashlab: run/manifest.json: target_size is 0 B: it may be from 1 B to the target's 65.2 GiB; the file is damaged: restore it, or measure again");
    insta::assert_snapshot!(wrong("\"repetitions\": 3", "\"repetitions\": 0"), @"flashlab: run/manifest.json: repetitions is 0: it may be from 1 to 100; the file is damaged: restore it, or measure again");
    insta::assert_snapshot!(wrong("\"precision_goal\": 0.05", "\"precision_goal\": -1"), @"flashlab: run/manifest.json: precision_goal is -1: it may be between 0 and 1; the file is damaged: restore it, or measure again");
    insta::assert_snapshot!(wrong("\"prepared_bytes\": 0", &format!("\"prepared_bytes\": {huge}")), @"flashlab: run/manifest.json: prepared_bytes is 18446744073709551615: it may be up to 1152921504606846976; the file is damaged: restore it, or measure again");

    let directory = finished();
    let runs = directory.path("run/runs.jsonl");
    let text = unsealed(fs::read_to_string(&runs).unwrap());
    let wrong = |key: &str, value: &str| {
        let key = format!("\"{key}\":");
        let at = text.find(&key).unwrap() + key.len();
        let end = at + text[at..].find(',').unwrap();
        directory.write_runs("run", &format!("{}{value}{}", &text[..at], &text[end..]));
        let [report, resume] = [["report", "run"].as_slice(), &["resume", "run"]].map(|arguments| {
            let ran = directory.flashlab(arguments);
            assert_eq!(ran.code, Some(2), "{arguments:?}\n{ran}");
            ran.err.lines().last().unwrap().to_owned()
        });
        assert_eq!(report, resume);
        report
    };
    insta::assert_snapshot!(wrong("run", "4294967295"), @"flashlab: run/runs.jsonl: a run has the number 4294967295: it may be up to 4294967294; the file is damaged: restore it, or measure again");
    insta::assert_snapshot!(wrong("begin_ns", &huge), @"flashlab: run/runs.jsonl: run 1 ends before it begins (end_ns, begin_ns); the file is damaged: restore it, or measure again");
    insta::assert_snapshot!(wrong("end_ns", &huge), @"flashlab: run/runs.jsonl: the times between begin_ns and end_ns, with pause_ns, of all runs together is impossibly large; the file is damaged: restore it, or measure again");
    insta::assert_snapshot!(wrong("pause_ns", &huge), @"flashlab: run/runs.jsonl: the times between begin_ns and end_ns, with pause_ns, of all runs together is impossibly large; the file is damaged: restore it, or measure again");
    insta::assert_snapshot!(wrong("written_bytes", &huge), @"flashlab: run/runs.jsonl: read_bytes and written_bytes of all runs together is impossibly large; the file is damaged: restore it, or measure again");
    insta::assert_snapshot!(wrong("other_traffic_bytes", &huge), @"flashlab: run/runs.jsonl: other_traffic_bytes of all runs together is impossibly large; the file is damaged: restore it, or measure again");
}

#[test]
fn a_device_that_is_not_there_any_more() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    let profile = directory.write("small.toml", SMALL_PROFILE);
    directory.succeeds(&["run", "short.toml", "sim:./small.toml", "--output", "run"]);
    fs::remove_file(profile).unwrap();
    directory.succeeds(&["report", "run"]);
    directory.unfinish("run");
    insta::assert_snapshot!(directory.flashlab(&["resume", "run"]), @r"
    exit 2
    flashlab: cannot read the profile DIR/small.toml: No such file or directory (os error 2)
    ");
    directory.write("small.toml", SMALL_PROFILE.replace("64MiB", "32MiB"));
    insta::assert_snapshot!(directory.flashlab(&["resume", "run"]), @r"
    exit 2
    flashlab: sim:DIR/small.toml is now another device (Small 32 MiB) than run was begun on (Small 64 MiB): put that one back, or begin a new run
    ");
}

#[test]
fn runs_and_samples_that_are_damaged() {
    let directory = finished();
    let runs = directory.path("run/runs.jsonl");
    let text = fs::read_to_string(&runs).unwrap();
    fs::write(&runs, text.replacen("\"run\":1", "\"run\":3", 1)).unwrap();
    insta::assert_snapshot!(directory.flashlab(&["report", "run"]), @r"
    exit 2
    flashlab: run/runs.jsonl: line 1: its checksum does not match: the file is damaged or was changed; restore it, or measure again
    ");
    directory.write_runs("run", &unsealed(text.clone()).replacen("\"run\":", "\"ran\":", 1));
    insta::assert_snapshot!(directory.flashlab(&["report", "run"]), @r"
    exit 2
    flashlab: run/runs.jsonl: line 1: missing field `run` at line 1 column 814
    ");

    // Only a killed program leaves an incomplete line, and this run is finished.
    let last = text.trim_end().rfind('\n').map_or(0, |end| end + 1);
    for lost in [&text[..text.len() - 10], &text[..last], ""] {
        fs::write(&runs, lost).unwrap();
        let ran = directory.flashlab(&["report", "run"]);
        assert_eq!(ran.code, Some(2), "{ran}");
        assert!(ran.err.contains("run/runs.jsonl: the number of its complete lines is"), "{ran}");
    }
    directory.write_runs("run", &text);
    directory.succeeds(&["report", "run"]);

    let samples = fs::read_dir(directory.path("run/samples")).unwrap();
    let first = samples.map(|entry| entry.unwrap().path()).min().unwrap();
    fs::write(&first, "no Parquet").unwrap();
    let ran = directory.flashlab(&["report", "run"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(
        ran.err.contains("run-00001-00000.parquet") || ran.err.contains("the samples of run 1 "),
        "{ran}"
    );
}

#[test]
fn a_run_with_other_things_than_files() {
    let directory = finished();
    let pipe = directory.path("run/samples/run-00001-00001.parquet");
    if let Err(reason) = crate::support::program("mkfifo", &[pipe.to_str().unwrap()]) {
        flashlab_skip::skip(flashlab_skip::Need::Programs, &reason);
        return;
    }
    insta::assert_snapshot!(directory.flashlab(&["report", "run"]), @r"
    exit 2
    flashlab: run/samples/run-00001-00001.parquet: files.jsonl does not list it: it does not belong to this run; move it to the folder that it is from, or restore this folder
    ");
    fs::remove_file(&pipe).unwrap();
    fs::create_dir(&pipe).unwrap();
    insta::assert_snapshot!(directory.flashlab(&["report", "run"]), @r"
    exit 2
    flashlab: run/samples/run-00001-00001.parquet: files.jsonl does not list it: it does not belong to this run; move it to the folder that it is from, or restore this folder
    ");
    fs::remove_dir(&pipe).unwrap();
    fs::write(directory.path("run/manifest.json"), b"{\xff}").unwrap();
    insta::assert_snapshot!(directory.flashlab(&["report", "run"]), @r"
    exit 2
    flashlab: run/manifest.json: is no text in UTF-8: byte 2 is none; the file is damaged
    ");
}

#[test]
fn a_run_without_its_samples() {
    let directory = finished();
    fs::remove_dir_all(directory.path("run/samples")).unwrap();
    insta::assert_snapshot!(directory.flashlab(&["report", "run"]), @r"
    exit 2
    flashlab: run/samples/run-00001-00000.parquet: is missing, and files.jsonl lists it; restore it, or measure again
    ");
}
