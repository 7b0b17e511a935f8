//! Ctrl-C, SIGTERM and SIGKILL during a run: nothing is left behind, nothing measured is lost, and the run
//! can be resumed. What was killed says that it is unfinished.

use std::fs;

use flashlab_base::{Prng, Seed};

use crate::folders::{self, FIT, INFER};
use crate::support::{Directory, LONG_RUNS, Ran, SHORT_RUNS, SMALL_PROFILE, files_within};

fn directory() -> Directory {
    let directory = Directory::new();
    directory.write("long.toml", LONG_RUNS);
    directory
}

/// A run on a scratch file that a signal ends after two of its eight runs.
fn ended_by(signal: &str, directory: &Directory) -> Ran {
    let arguments = ["run", "long.toml", "--size", "4MiB", "--repetitions", "2", "--output", "run"];
    directory.start(&arguments).until("run 1 of 8").until_runs("run", 2).signal(signal)
}

fn lines(directory: &Directory) -> Vec<String> {
    let text = fs::read_to_string(directory.path("run/runs.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Resumes, and checks that finished runs are kept and the others are done.
fn goes_on(directory: &Directory) {
    assert_eq!(directory.names(), ["long.toml", "run"], "no scratch file is left behind");
    let before = lines(directory);
    let finished = |lines: &[String]| lines.iter().filter(|line| !line.contains("\"ended\":null")).count();
    assert!((2..8).contains(&finished(&before)), "{before:?}");
    let ran = directory.succeeds(&["resume", "run"]);
    assert!(ran.err.contains("making another scratch file of 4 MiB in DIR"), "{ran}");
    let after = lines(directory);
    assert_eq!(after[..before.len()], before, "what was measured is as it was");
    assert_eq!(finished(&after), 8);
    assert_eq!(directory.names(), ["long.toml", "run"]);
    let summary = fs::read_to_string(directory.path("run/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let points = summary["micro_benchmarks"][0]["experiments"][0]["points"].as_array().unwrap();
    let runs: Vec<usize> = points.iter().map(|point| point["runs"].as_array().unwrap().len()).collect();
    assert_eq!(runs, [2, 2, 2, 2], "each value twice");
}

#[test]
fn ctrl_c() {
    let directory = directory();
    let ran = ended_by("INT", &directory);
    assert_eq!(ran.code, Some(1), "{ran}");
    let told: Vec<&str> = ran.err.lines().rev().take(3).collect();
    insta::assert_snapshot!(told.into_iter().rev().collect::<Vec<_>>().join("\n"), @r"
    what was measured is in run; see it with: flashlab report run
    resume with: flashlab resume run
    flashlab: interrupted
    ");
    // The results so far can be shown before the run is resumed.
    directory.succeeds(&["report", "run"]);
    goes_on(&directory);
}

#[test]
fn sigterm() {
    let directory = directory();
    let ran = ended_by("TERM", &directory);
    assert_eq!(ran.code, Some(1), "{ran}");
    goes_on(&directory);
}

/// Whether this process, and so each that it starts, ignores SIGHUP.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1
}

#[test]
fn sighup() {
    let directory = directory();
    let ran = ended_by("HUP", &directory);
    if is_hangup_ignored() {
        // These tests were started with `nohup`: the run outlives its terminal.
        assert_eq!(ran.code, Some(0), "{ran}");
        return;
    }
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.err.contains("resume with: flashlab resume run"), "{ran}");
    goes_on(&directory);
}

#[test]
fn sigkill() {
    let directory = directory();
    let ran = ended_by("KILL", &directory);
    assert_eq!(ran.code, None, "{ran}");
    goes_on(&directory);
}

#[test]
fn while_the_scratch_file_is_filled() {
    let directory = directory();
    let ran = directory
        .start(&["run", "long.toml", "--size", "1GiB", "--output", "run"])
        .until("filling the scratch file")
        .signal("INT");
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.err.ends_with("flashlab: interrupted\n"), "{ran}");
    assert_eq!(directory.names(), ["long.toml"]);
}

#[test]
fn a_run_of_the_methodology_goes_on_where_it_was() {
    let directory = Directory::new();
    let arguments = ["bench", "--size", "16MiB", "--only", "order", "--repetitions", "1", "--output", "run"];
    let ran = directory.start(&arguments).until("baseline SW").signal("INT");
    assert_eq!(ran.code, Some(1), "{ran}");
    let before = lines(&directory);
    let ran = directory.succeeds(&["resume", "run"]);
    assert!(!ran.err.contains("baseline SR"), "what was measured is not measured again\n{ran}");
    assert_eq!(lines(&directory)[..before.len()], before);
    assert_eq!(directory.names(), ["run"]);
}

#[test]
fn another_file_of_the_same_name_is_not_mixed_in() {
    let directory = directory();
    let target = directory.write("target", vec![1; 4 << 20]);
    let arguments = ["run", "long.toml", "target", "--output", "run"];
    let ran = directory.start(&arguments).until("run 1 of 12").until_runs("run", 1).signal("INT");
    assert_eq!(ran.code, Some(1), "{ran}");
    fs::rename(&target, directory.path("moved")).unwrap();
    directory.write("target", vec![1; 4 << 20]);
    let ran = directory.flashlab(&["resume", "run"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.err.contains("target is now another file ("), "{ran}");
    assert!(ran.err.contains("4 MiB) than run was begun on ("), "{ran}");
    // The first one is back.
    fs::rename(directory.path("moved"), &target).unwrap();
    directory.succeeds(&["resume", "run"]);
}

#[test]
fn a_file_that_is_cut_short_or_removed_in_the_middle_ends_the_run() {
    let directory = directory();
    let target = directory.write("target", vec![1; 4 << 20]);
    let begin = |run| {
        let arguments = ["run", "long.toml", "target", "--output", run];
        directory.start(&arguments).until("run 1 of 12").until_runs(run, 1)
    };
    let told = |ran: Ran| {
        assert_eq!(ran.code, Some(1), "{ran}");
        let last = ran.err.lines().last().unwrap();
        let (before, after) = last.split_once("; run ").unwrap_or_else(|| panic!("{ran}"));
        let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
        format!("{before}; run N{after}")
    };
    let started = begin("run");
    fs::OpenOptions::new().write(true).open(&target).unwrap().set_len(8192).unwrap();
    insta::assert_snapshot!(told(started.end()), @"flashlab: target was cut short while it was measured: to 8 KiB; 4 MiB were to be used; run N does not count, and earlier runs are kept: restore the file and resume, or begin a new run");
    // It is as it was.
    fs::OpenOptions::new().write(true).open(&target).unwrap().set_len(4 << 20).unwrap();
    directory.succeeds(&["resume", "run"]);
    assert_eq!(lines(&directory).iter().filter(|line| !line.contains("\"ended\":null")).count(), 12);

    let started = begin("another-run");
    fs::remove_file(&target).unwrap();
    insta::assert_snapshot!(told(started.end()), @"flashlab: target was removed while it was measured; run N does not count, and earlier runs are kept: restore the file and resume, or begin a new run");
}

#[test]
fn a_file_is_measured_by_one_flashlab_at_a_time() {
    let directory = directory();
    directory.write("target", vec![1; 4 << 20]);
    let started = directory.start(&["run", "long.toml", "target", "--output", "run"]).until("run 1 of 12");
    let ran = directory.flashlab(&["run", "long.toml", "target", "--output", "second"]);
    insta::assert_snapshot!(ran, @r"
    exit 3
    measuring 4 MiB of target
    nothing will be written to it
    flashlab: target is in use by another flashlab, or another program has it locked: wait until that has ended, or choose another file
    ");
    assert!(!directory.path("second").exists());
    assert_eq!(started.signal("INT").code, Some(1));
}

#[test]
fn another_device_is_not_mixed_in() {
    let directory = directory();
    let ran = directory.start(&["run", "long.toml", "target", "--output", "run", "--repetitions", "1"]).end();
    assert_eq!(ran.code, Some(2), "there is no such file yet\n{ran}");
    directory.write("target", vec![1; 4 << 20]);
    let ran = directory
        .start(&["run", "long.toml", "target", "--output", "run"])
        .until("run 1 of 12")
        .until_runs("run", 1)
        .signal("INT");
    assert_eq!(ran.code, Some(1), "{ran}");
    directory.write("target", vec![1; 8 << 20]);
    let ran = directory.flashlab(&["resume", "run"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.err.contains("target is now another device"), "{ran}");
    assert!(ran.err.contains("8 MiB) than run was begun on ("), "{ran}");
}

#[test]
fn names_with_spaces_are_told_as_a_shell_takes_them() {
    let directory = directory();
    let arguments = ["run", "long.toml", "sim:zeus", "--output", "my run"];
    // Two values of one day each, which take long even in virtual time.
    directory.write("long.toml", LONG_RUNS.replace("400ms", "24h"));
    let ran = directory.start(&arguments).until("run 1 of 12").signal("INT");
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.err.contains("resume with: flashlab resume 'my run'\n"), "{ran}");
}

#[test]
fn on_a_simulated_device_the_figures_are_those_of_a_run_without_interruption() {
    let plan = "version = 1\nname = \"writes\"\ntitle = \"Writes\"\nvary = \"IOSize\"\n\
                values = [4096, 8192, 16384, 32768, 65536, 131072]\nmode = \"write\"\nlocation = \"random\"\n\
                io_size = \"4KiB\"\nio_count = 20000\n";
    let directory = Directory::new();
    directory.write("writes.toml", plan);
    let arguments = |run| ["run", "writes.toml", "sim:tlc-sata", "--size", "64MiB", "--output", run];
    let ran = directory.start(&arguments("run")).until("run 1 of 18").until_runs("run", 2).signal("INT");
    assert_eq!(ran.code, Some(1), "{ran}");
    let resumed = directory.succeeds(&["resume", "run"]);
    assert!(resumed.err.contains("everything is measured again"), "{resumed}");
    directory.succeeds(&arguments("straight"));
    let samples = |run| {
        let folder = directory.path(run).join("samples");
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let named =
            |path: &std::path::PathBuf| (path.file_name().unwrap().to_owned(), fs::read(path).unwrap());
        files.iter().map(named).collect::<Vec<_>>()
    };
    assert!(samples("run") == samples("straight"), "the samples are the same to the byte");
}

/// Whether a verb says that the folder is unfinished, in a refusal or in a warning.
fn says_unfinished(directory: &Directory, verb: &[&str], code: i32) {
    let ran = directory.flashlab(verb);
    assert_eq!(ran.code, Some(code), "{verb:?}: {ran}");
    assert!((ran.err.clone() + &ran.out).contains("unfinished"), "{verb:?}: {ran}");
}

#[test]
fn a_killed_fit_is_refused_by_those_who_would_predict_from_a_part_of_it() {
    let directory = folders::directory();
    let mut prng = Prng::new(Seed(7));
    for _ in 0..2 {
        let _ = fs::remove_dir_all(directory.path("fitted"));
        let count = 2 + prng.below(12) as usize;
        directory.start(FIT).until_runs("fitted", count).signal("KILL");
        says_unfinished(&directory, &["model", "fit", "fitted", "--output", "made"], 2);
        says_unfinished(&directory, &["model", "tune", "fitted", "--for", "postgresql"], 2);
        says_unfinished(&directory, &["model", "twin", "fitted", "--output", "twin.toml"], 2);
        says_unfinished(&directory, &["sim", "run", "sim:./small.toml", "--trace", "fitted"], 2);
        says_unfinished(&directory, &["report", "fitted"], 0);
        let resumed = directory.flashlab(&["resume", "fitted"]);
        assert!(resumed.code == Some(2) && resumed.err.contains("run its command again"), "{resumed}");
    }
    // Without a name for its folder.
    directory.succeeds(&FIT[..FIT.len() - 2]);
}

/// None of them can be resumed: each says what it keeps, and how to go on.
#[test]
fn ctrl_c_of_a_fit_a_check_and_an_experiment() {
    let directory = folders::directory();
    directory.succeeds(FIT);
    let check = ["model", "check", "fitted", "sim:./small.toml", "--read-only", "--output", "checked"];
    let sort =
        ["em", "run", "sort", "sim:zeus", "--elements", "4000000", "--memory", "1MiB", "--output", "sorted"];
    let fit = [&FIT[..FIT.len() - 1], &["again"]].concat();
    for (command, folder) in [(&fit[..], "again"), (&check[..], "checked"), (&sort[..], "sorted")] {
        let ran = directory.start(command).until_runs(folder, 2).signal("INT");
        assert_eq!(ran.code, Some(1), "{ran}");
        let told = format!("what was measured is in {folder}; see it with: flashlab report {folder}\n");
        assert!(ran.err.contains(&told), "{ran}");
        assert!(
            ran.err.contains("it cannot be resumed: run its command again with another --output: "),
            "{ran}"
        );
        assert!(ran.err.ends_with("flashlab: interrupted\n"), "{ran}");
        directory.succeeds(&["report", folder]);
    }
}

#[test]
fn a_killed_sweep_is_continued_by_the_same_command() {
    let directory = folders::directory();
    directory.write("long.toml", LONG_RUNS.replace("400ms", "20s"));
    let sweep = |output| {
        let sets = ["--set", "throughput.random_read.b_us_per_kb=1.0,2.0,3.0,4.0", "--plan", "long.toml"];
        [&["sweep", "sim:./small.toml", "--output", output, "--json"][..], &sets].concat()
    };
    let straight = directory.succeeds(&sweep("straight"));
    directory.start(&sweep("sweep")).until("1 of 4 are done").signal("KILL");
    says_unfinished(&directory, &["report", "sweep"], 2);
    let other = [&sweep("sweep")[..], &["--seed", "7"]].concat();
    let refused = directory.flashlab(&other);
    assert!(refused.code == Some(2) && refused.err.contains("of another sweep"), "{refused}");
    let continued = directory.succeeds(&sweep("sweep"));
    assert!(continued.err.contains("continuing the sweep in sweep"), "{continued}");
    assert_eq!(continued.out, straight.out);
    let again = directory.flashlab(&sweep("sweep"));
    assert!(again.code == Some(2) && again.err.contains("already exists"), "{again}");
}

#[test]
fn a_killed_inference_and_killed_recordings_say_so() {
    let directory = folders::directory();
    directory.start(&["infer", "sim:./small.toml", "--output", "inferred"]).until("probe 4").signal("KILL");
    says_unfinished(&directory, &["report", "inferred"], 0);
    says_unfinished(&directory, &["infer", "--replay", "inferred", "--output", "made"], 2);
    says_unfinished(&directory, &["model", "fit", "inferred", "--output", "made"], 2);
    directory.succeeds(&["resume", "inferred"]);
    let report = directory.succeeds(&["report", "inferred"]);
    assert!(!(report.err + &report.out).contains("unfinished"));

    directory.write("long.toml", LONG_RUNS.replace("400ms", "2000s"));
    directory
        .start(&["sim", "run", "sim:./small.toml", "--plan", "long.toml", "--output", "recorded"])
        .until_runs("recorded", 2)
        .signal("KILL");
    says_unfinished(&directory, &["report", "recorded"], 0);
    says_unfinished(&directory, &["sim", "run", "sim:./small.toml", "--trace", "recorded"], 2);
    says_unfinished(
        &directory,
        &["sim", "run", "sim:./small.toml", "--plan", "long.toml", "--output", "recorded"],
        2,
    );
    let resumed = directory.flashlab(&["resume", "recorded"]);
    assert!(resumed.code == Some(2) && resumed.err.contains("run its command again"), "{resumed}");
}

#[test]
fn what_is_finished_is_not_measured_again() {
    let directory = folders::directory();
    directory.succeeds(&["run", "short.toml", "sim:./small.toml", "--quick", "--output", "run"]);
    let samples = || {
        let files = files_within(&directory.path("run/samples"));
        let times = files.iter().map(|file| fs::metadata(file).unwrap().modified().unwrap());
        times.collect::<Vec<_>>()
    };
    let before = samples();
    let resumed = directory.succeeds(&["resume", "run"]);
    assert!(resumed.err.contains("nothing is left to measure"), "{resumed}");
    assert_eq!(samples(), before);
}

/// What a kill leaves and somebody then loses is not taken for less work.
#[test]
fn an_unfinished_folder_has_its_lists() {
    let directory = folders::directory();
    directory.succeeds(&[INFER, &["--output", "inferred"]].concat());
    directory.write("target", vec![1; 4 << 20]);
    directory.write("reads.toml", SHORT_RUNS.replace("write_probability = 0.5", "mode = \"read\""));
    directory.succeeds(&["run", "reads.toml", "target", "--quick", "--output", "run"]);
    let lists = ["runs.jsonl", "files.jsonl"];
    for (folder, names) in [("inferred", &["under-way.json"][..]), ("inferred", &lists), ("run", &lists)] {
        directory.unfinish(folder);
        for name in names {
            let (own, aside) = (directory.path(folder).join(name), directory.path("aside"));
            fs::rename(&own, &aside).unwrap();
            let before = files_within(&directory.path(folder));
            let resumed = directory.flashlab(&["resume", folder]);
            assert!(resumed.code == Some(2) && resumed.err.contains(name), "{name}: {resumed}");
            assert!(!resumed.err.contains("remove it"), "{name}: {resumed}");
            assert_eq!(files_within(&directory.path(folder)), before, "{name}: nothing is set aside");
            fs::rename(&aside, &own).unwrap();
        }
    }
    for folder in ["inferred", "run"] {
        directory.succeeds(&["resume", folder]);
    }
}

/// A simulated device is its profile: the runs of two of them are not those of one device.
#[test]
fn a_profile_that_was_edited_is_another_device() {
    let directory = folders::directory();
    directory.succeeds(&["run", "short.toml", "sim:./small.toml", "--quick", "--output", "run"]);
    directory.succeeds(&[INFER, &["--output", "inferred"]].concat());
    let edited = |from, to| directory.write("small.toml", SMALL_PROFILE.replace(from, to));
    for folder in ["run", "inferred"] {
        directory.unfinish(folder);
        edited("200us", "100us");
        let before = files_within(&directory.path(folder));
        let resumed = directory.flashlab(&["resume", folder]);
        assert!(
            resumed.code == Some(2) && resumed.err.contains("the profile of sim:DIR/small.toml was"),
            "{resumed}"
        );
        assert_eq!(files_within(&directory.path(folder)), before);
        // A comment is no part of the device.
        edited("version", "# mine\nversion");
        directory.succeeds(&["resume", folder]);
    }
}

/// A replay has no device, and the device of a round of `wear-out` is gone.
#[test]
fn what_has_no_device_is_not_resumed() {
    let directory = folders::directory();
    directory.succeeds(&[INFER, &["--output", "inferred"]].concat());
    directory.succeeds(&["infer", "--replay", "inferred", "--output", "replayed"]);
    directory.unfinish("replayed");
    directory.succeeds(&[&["wear-out"], &INFER[1..], &["--rounds", "1", "--output", "worn"]].concat());
    directory.unfinish("worn/round-001");
    for folder in ["replayed", "worn/round-001"] {
        let resumed = directory.flashlab(&["resume", folder]);
        assert!(resumed.code == Some(2) && resumed.err.contains("cannot be resumed: "), "{resumed}");
        let report = directory.flashlab(&["report", folder, "--json"]);
        let is_told = report.err.contains("is unfinished: ") && !report.err.contains("resume");
        assert!(is_told, "{report}");
    }
}

#[test]
fn the_next_start_names_what_a_kill_left() {
    let directory = folders::directory();
    directory.write("long.toml", LONG_RUNS.replace("400ms", "2000s"));
    let run = ["sim", "run", "sim:./small.toml", "--plan", "long.toml", "--output", "flashlab-runs/killed"];
    directory.start(&run).until_runs("flashlab-runs/killed", 1).signal("KILL");
    // No process has this number: it is above the kernel's limit.
    directory.write("comparison.html.flashlab-99999999.part", "half");
    // Of another program.
    directory.write("comparison.html.99999998.part", "half");
    let ran = directory.succeeds(&["run", "short.toml", "sim:./small.toml", "--quick"]);
    assert!(ran.err.contains("flashlab-runs/killed is unfinished: "), "{ran}");
    directory.succeeds(&["run", "short.toml", "sim:./small.toml", "--quick", "--output", "one"]);
    directory.succeeds(&[
        "run",
        "short.toml",
        "sim:./small.toml",
        "--quick",
        "--seed",
        "2",
        "--output",
        "two",
    ]);
    let ran = directory.succeeds(&["compare", "one", "two"]);
    assert!(ran.err.contains("comparison.html.flashlab-99999999.part was left by a flashlab"), "{ran}");
    assert!(!ran.err.contains("99999998"), "{ran}");
    directory.write("volume.flashlab-99999999.part", "half");
    let ran = directory.succeeds(&["repair", "create", "volume", "--size", "16MiB", "--segment", "256KiB"]);
    assert!(ran.err.contains("volume.flashlab-99999999.part was left by a flashlab"), "{ran}");
    assert!(!directory.names().iter().any(|name| name.ends_with(".part") && !name.contains("9999999")));
}

/// A signal while a file has its temporary name: the file goes, and so does its name.
#[test]
fn a_signal_leaves_no_part_of_a_volume_or_an_image() {
    let directory = Directory::new();
    directory.succeeds(&["repair", "create", "volume", "--size", "64MiB", "--segment", "256KiB"]);
    for command in [
        &["repair", "create", "made", "--size", "64MiB", "--segment", "256KiB"][..],
        &["repair", "dump", "volume", "--output", "made"],
    ] {
        // It may be complete before it is stopped; then once more.
        let ended = (0..200).find_map(|_| {
            let _ = fs::remove_file(directory.path("made"));
            let ran = directory.start(command).stopped_at("made.flashlab-")?.signal("TERM");
            (ran.code != Some(0)).then_some(ran)
        });
        let ran = ended.expect("200 of 200 were complete first");
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.err.ends_with("interrupted: no output was made, and nothing is left of it\n"), "{ran}");
        assert_eq!(directory.names(), ["volume"], "{command:?}");
    }
}
