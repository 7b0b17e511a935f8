//! `--expect`: the answers, the files for CI, and the exit codes.

use std::fs;

use serde_json::Value;

use crate::support::{Directory, Mount};

const BENCH: [&str; 8] =
    ["bench", "sim:zeus", "--quick", "--size", "64MiB", "--only", "granularity", "--output"];

fn with<'a>(command: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [command, more].concat()
}

#[test]
fn a_run_is_held_to_its_bounds() {
    let directory = Directory::new();
    let met = directory.flashlab(&with(&BENCH, &["run", "--expect", "RW.p50 < 1s"]));
    assert_eq!(met.code, Some(0), "{}", met.err);
    assert!(met.out.contains("✓ RW.p50 < 1s: met: measured "), "{}", met.out);

    let report = ["report", "run", "--json", "--junit", "ci.xml"];
    let not_met =
        directory.flashlab(&with(&report, &["--expect", "RW.p50 < 1ns", "--expect", "SR.iops > 1"]));
    assert_eq!(not_met.code, Some(4), "{}", not_met.err);
    assert!(not_met.err.contains("of 2 expectations 1 not met"), "{}", not_met.err);
    let document: Value = serde_json::from_str(&not_met.out).unwrap();
    assert_eq!(document["expectations"][0]["outcome"], "not_met");
    assert_eq!(document["expectations"][1]["outcome"], "met");
    let xml = fs::read_to_string(directory.path("ci.xml")).unwrap();
    assert!(xml.contains("tests=\"2\" failures=\"1\" errors=\"0\""), "{xml}");

    // A name that no point of a plan has is reported after the measurement; here there is only one.
    let unknown = ["report", "run", "--expect", "pause:RW.p50 < 1s"];
    assert_eq!(directory.flashlab(&unknown).code, Some(5));
    assert_eq!(directory.flashlab(&with(&unknown, &["--strict"])).code, Some(4));

    let mut summary = directory.command(&["report", "run", "--expect", "RW.p50 < 1s", "--github-summary"]);
    let path = directory.path("step.md");
    let ran = directory.ran(summary.env("GITHUB_STEP_SUMMARY", &path).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let markdown = fs::read_to_string(&path).unwrap();
    assert!(
        markdown.contains("| ✅ met | `RW.p50 < 1s (RW)` |")
            || markdown.contains("| ✅ met | `RW.p50 < 1s` |")
    );
}

#[test]
fn the_files_for_ci_say_what_is_in_doubt() {
    // A new device, of which a part is measured.
    let directory = Directory::new();
    let bench = ["bench", "sim:sdcard", "--quick", "--size", "16MiB", "--only", "order", "--output", "run"];
    let mut command = directory
        .command(&with(&bench, &["--expect", "RW.p50 < 10s", "--junit", "ci.xml", "--github-summary"]));
    let ran = directory.ran(command.env("GITHUB_STEP_SUMMARY", directory.path("step.md")).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for file in ["ci.xml", "step.md"] {
        let text = fs::read_to_string(directory.path(file)).unwrap();
        assert!(text.contains("nothing was ever written to the simulated flash"), "{text}");
        assert!(text.contains("This holds for the measured part of 16 MiB only"), "{text}");
    }
}

#[test]
fn a_comparison_and_an_inference_are_held_to_their_bounds() {
    let directory = Directory::new();
    directory.succeeds(&with(&BENCH, &["a"]));
    directory.succeeds(&with(&BENCH, &["b", "--seed", "2"]));
    let compared = directory.flashlab(&["compare", "a", "b", "--expect", "median(RW) < 0.01x"]);
    assert_eq!(compared.code, Some(4), "{}", compared.err);
    directory.succeeds(&["compare", "a", "b", "--expect", "median(RW) < 100x"]);

    let infer = [
        "infer",
        "sim:zeus",
        "--only",
        "erase_block_size",
        "--output",
        "c",
        "--expect",
        "erase_block_size = 3MiB",
    ];
    let inferred = directory.flashlab(&infer);
    assert!(matches!(inferred.code, Some(4 | 5)), "{}", inferred.err);
    assert!(inferred.out.contains("erase_block_size = 3MiB: "), "{}", inferred.out);
}

/// What a part of a measurement meets is not known of the whole; what it does not meet stays so.
#[test]
fn an_unfinished_measurement_meets_nothing() {
    let directory = Directory::new();
    directory.succeeds(&with(&BENCH, &["a"]));
    directory.succeeds(&with(&BENCH, &["b", "--seed", "2"]));
    directory.succeeds(&["infer", "sim:zeus", "--only", "segment_groups", "--output", "c"]);
    let met: [&[&str]; 3] = [
        &["report", "a", "--expect", "RW.p50 < 1s"],
        &["compare", "a", "b", "--expect", "median(RW) < 100x"],
        &["report", "c", "--expect", "segment_groups = 1"],
    ];
    met.iter().for_each(|command| drop(directory.succeeds(command)));
    ["a", "c"].iter().for_each(|folder| directory.unfinish(folder));
    for command in met {
        let ran = directory.flashlab(command);
        assert_eq!(ran.code, Some(5), "{ran}");
        let told = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(": cannot be told: the run is unfinished; so far it is met: "), "{ran}");
        assert_eq!(directory.flashlab(&with(command, &["--strict"])).code, Some(4));
    }
    let not_met = directory.flashlab(&["report", "a", "--expect", "RW.p50 < 1ns", "--junit", "ci.xml"]);
    assert_eq!(not_met.code, Some(4), "{not_met}");
    // Finished again, it is met again.
    directory.succeeds(&["resume", "a"]);
    directory.succeeds(met[0]);
}

#[test]
fn what_cannot_be_answered_is_refused_before_anything_is_measured() {
    let directory = Directory::new();
    for (command, message) in [
        (
            with(&BENCH, &["run", "--expect", "XX.p99 < 1us"]),
            "there are SR, RR, SW, RW, RW.burst, granularity:SR@",
        ),
        (with(&BENCH, &["run", "--expect", "p99(RW) < 1.2x"]), "is for flashlab compare"),
        (with(&BENCH, &["run", "--expect", "RW.max < 1us"]), "use p99.9"),
        (with(&BENCH, &["run", "--expect", "RW.p99 = 1us"]), "never equal"),
        (with(&BENCH, &["run", "--expect", "RW.p99 < 1MB"]), "is no bound"),
        (with(&BENCH, &["run", "--strict"]), "--expect"),
        (with(&BENCH, &["run", "--expect", "RW.p99 < 1s", "--junit", "no/such/ci.xml"]), "no/such/ci.xml"),
        (with(&BENCH, &["run", "--expect", "RW.reads.p99 < 1s"]), "names nothing that would be measured"),
        (with(&BENCH, &["run", "--expect", "granularity:SR.writes.p99 < 1s"]), "names nothing"),
        (vec!["infer", "sim:zeus", "--expect", "RW.p99 < 1us"], "is for flashlab bench"),
    ] {
        let ran = directory.flashlab(&command);
        assert_eq!(ran.code, Some(2), "{command:?}: {}", ran.err);
        assert!(ran.err.contains(message), "{command:?}: {}", ran.err);
    }
    assert_eq!(directory.names(), Vec::<String>::new(), "nothing is left behind");
}

#[test]
fn a_step_summary_that_cannot_be_written_is_reported_before_anything_is_measured() {
    let directory = Directory::new();
    let mut command =
        directory.command(&with(&BENCH, &["run", "--expect", "RW.p50 < 1s", "--github-summary"]));
    let ran =
        directory.ran(command.env("GITHUB_STEP_SUMMARY", directory.path("no/step.md")).output().unwrap());
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert_eq!(directory.names(), Vec::<String>::new(), "nothing is left behind");
}

/// A summary is a text: what is none stays as it is, and no file is made where another one's link leads.
#[test]
fn a_step_summary_is_added_to_a_text_alone() {
    let directory = Directory::new();
    directory.write("data", b"SQLite format 3\0");
    directory.write("notes.md", "# n\u{f6}tes\n");
    std::os::unix::fs::symlink("gone", directory.path("link")).unwrap();
    directory.succeeds(&with(&BENCH, &["run"]));
    let summary = |name: &str| {
        let mut command =
            directory.command(&["report", "run", "--expect", "RW.p50 < 1s", "--github-summary"]);
        directory.ran(command.env("GITHUB_STEP_SUMMARY", directory.path(name)).output().unwrap())
    };
    let refused = summary("data");
    assert!(refused.code == Some(3) && refused.err.contains("to which no text is added"), "{refused}");
    assert_eq!(fs::read(directory.path("data")).unwrap(), b"SQLite format 3\0");
    let dangling = summary("link");
    assert!(dangling.code == Some(2) && dangling.err.contains("a file that does not exist"), "{dangling}");
    assert!(!directory.path("gone").exists() && directory.path("link").symlink_metadata().is_ok());
    assert_eq!(summary("notes.md").code, Some(0));
    assert!(fs::read_to_string(directory.path("notes.md")).unwrap().starts_with("# n\u{f6}tes\n"));
}

#[test]
fn outputs_replace_nothing_but_outputs_of_the_same_kind() {
    let directory = Directory::new();
    directory.succeeds(&with(&BENCH, &["a"]));
    directory.succeeds(&with(&BENCH, &["b", "--seed", "2"]));
    directory.write("plan.toml", "name = \"mine\"\n");
    let junit = ["--expect", "RW.p50 < 1s", "--junit"];
    for (command, file) in [
        (vec!["compare", "a", "b", "-o", "a/manifest.json"], "a/manifest.json"),
        (vec!["compare", "a", "b", "--expect", "p50(RW) < 9x", "--junit", "plan.toml"], "plan.toml"),
        (vec!["report", "a", "-o", "plan.toml"], "plan.toml"),
        (with(&["report", "a"], &with(&junit, &["a/runs.jsonl"])), "a/runs.jsonl"),
        (with(&BENCH, &with(&["c"], &with(&junit, &["plan.toml"]))), "plan.toml"),
        (vec!["sim", "precondition", "sdcard", "--state", "sequential", "-o", "plan.toml"], "plan.toml"),
    ] {
        let before = fs::read(directory.path(file)).unwrap();
        let ran = directory.flashlab(&command);
        assert_eq!(ran.code, Some(3), "{command:?}: {}", ran.err);
        assert!(ran.err.contains("which would be lost"), "{command:?}: {}", ran.err);
        assert_eq!(fs::read(directory.path(file)).unwrap(), before, "{command:?}");
    }
    // Its own outputs are replaced, and no part of a file is left behind.
    for _ in 0..2 {
        directory.succeeds(&["compare", "a", "b", "--expect", "p50(RW) < 99x", "--junit", "ci.xml"]);
    }
    assert_eq!(directory.names(), ["a", "b", "ci.xml", "comparison.html", "plan.toml"]);
}

/// A full disk and a limit of file sizes are no wrong command: exit code 1, the file's name, nothing half written, and what was there
/// stays.
#[test]
fn outputs_that_find_no_room_leave_what_was_there() {
    let directory = Directory::new();
    directory.succeeds(&with(&BENCH, &["a"]));
    directory.succeeds(&with(&BENCH, &["b", "--seed", "2"]));
    let expect = ["--expect", "p50(RW) < 99x", "--junit"];
    let commands = |place: &str| {
        let file = |name: &str| format!("{place}{name}");
        [
            vec!["compare".into(), "a".into(), "b".into(), "-o".into(), file("page.html")],
            vec!["report".into(), "a".into(), "-o".into(), file("page.html")],
            [&["compare", "a", "b"][..], &expect]
                .concat()
                .into_iter()
                .map(str::to_owned)
                .chain([file("ci.xml")])
                .collect(),
            vec!["sim", "precondition", "sdcard", "--state", "sequential", "-o"]
                .into_iter()
                .map(str::to_owned)
                .chain([file("state")])
                .collect(),
        ]
    };
    let words = |command: &[String]| command.join(" ").replace('<', "'<'").replace("p50(RW)", "'p50(RW)'");

    // A limit of 512 bytes for each file. The earlier page has more, and stays.
    directory.succeeds(&["compare", "a", "b", "-o", "page.html"]);
    let page = fs::read(directory.path("page.html")).unwrap();
    let before = directory.names();
    for command in commands("") {
        let program = env!("CARGO_BIN_EXE_flashlab");
        let quoted: Vec<String> = command.iter().map(|word| format!("'{word}'")).collect();
        let limited = format!("ulimit -f 1; exec {program} {}", quoted.join(" "));
        let shell =
            std::process::Command::new("sh").args(["-c", &limited]).current_dir(directory.path("")).output();
        let ran = directory.ran(shell.unwrap());
        assert_eq!(ran.code, Some(1), "{}: {ran}", words(&command));
        assert!(ran.err.contains("cannot write ") && ran.err.contains("File too large"), "{ran}");
    }
    assert_eq!(directory.names(), before, "no part of a file is left behind");
    assert!(fs::read(directory.path("page.html")).unwrap() == page);

    let full = directory.path("full");
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], &full) else { return };
    let earlier = b"<!DOCTYPE html><meta name=\"generator\" content=\"flashlab 0.1\">";
    fs::write(full.join("page.html"), earlier).unwrap();
    let _ = fs::write(full.join("rest"), vec![0; 1 << 20]);
    for command in commands("full/") {
        let ran = directory.flashlab(&command.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ran.code, Some(1), "{}: {ran}", words(&command));
        assert!(ran.err.contains("No space left on device"), "{ran}");
    }
    let mut left: Vec<_> = fs::read_dir(&full).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["page.html", "rest"]);
    assert_eq!(fs::read(full.join("page.html")).unwrap(), earlier);
}

#[test]
fn comparisons_for_ci_say_what_is_in_doubt() {
    let directory = Directory::new();
    for (seed, run) in [("1", "a"), ("2", "b")] {
        let bench =
            ["bench", "sim:sdcard", "--quick", "--size", "16MiB", "--only", "order", "--state", "none"];
        directory.succeeds(&with(&bench, &["--seed", seed, "--output", run]));
    }
    let compared =
        directory.flashlab(&["compare", "a", "b", "--expect", "p50(SR) < 99x", "--junit", "ci.xml"]);
    assert_eq!(compared.code, Some(0), "{compared}");
    let xml = fs::read_to_string(directory.path("ci.xml")).unwrap();
    let page = fs::read_to_string(directory.path("comparison.html")).unwrap();
    for run in ["a (", "b ("] {
        assert!(xml.contains(&format!("{run}SD card")) || xml.contains(run), "{xml}");
    }
    assert!(xml.contains("the device was measured as it was found"), "{xml}");
    for text in [&xml, &page, &compared.out] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("nothing was ever written to the simulated flash"), "{text}");
    }
}

#[test]
fn runs_of_one_device_are_distinguished_by_their_folders() {
    let directory = Directory::new();
    for (folder, seed) in [("a", "1"), ("b", "2"), ("c", "3")] {
        directory.succeeds(&with(&BENCH, &[folder, "--seed", seed]));
    }
    let shown = directory.succeeds(&["compare", "a", "b", "c"]).out;
    assert!(shown.contains(": c, 20") && shown.contains("state: random"), "{shown}");
    let rows = directory.succeeds(&["compare", "a", "b", "c", "--csv"]).out;
    let names: std::collections::BTreeSet<&str> =
        rows.lines().skip(1).filter_map(|row| row.split(',').nth(3)).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["b", "c"], "{rows}");
    directory.flashlab(&["compare", "a", "b", "c", "--expect", "p50(RW) < 99x", "--junit", "ci.xml"]);
    let xml = fs::read_to_string(directory.path("ci.xml")).unwrap();
    assert!(xml.contains("(b (") && xml.contains("(c ("), "{xml}");

    // A copy is the same run, whatever its folder is called.
    let copied =
        std::process::Command::new("cp").args(["-r", "b", "copy"]).current_dir(directory.path("")).status();
    assert!(copied.unwrap().success());
    let same = directory.flashlab(&["compare", "b", "copy"]);
    assert_eq!(same.code, Some(2), "{}", same.err);
    assert!(same.err.contains("the same run"), "{}", same.err);
}
