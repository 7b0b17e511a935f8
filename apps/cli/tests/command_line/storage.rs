//! Files and disks that are full, read-only, or owned by somebody else.

use std::fs;

use crate::support::{Directory, LONG_RUNS, Mount, SHORT_RUNS};

#[test]
fn data_behind_a_blank_beginning_is_seen() {
    let directory = Directory::new();
    let file = fs::File::create(directory.path("tail.img")).unwrap();
    file.set_len(64 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 4096], (64 << 20) - 4096).unwrap();
    drop(file);
    let ran = directory.flashlab(&["bench", "tail.img", "--quick", "--output", "run"]);
    assert_eq!(ran.code, Some(3), "{ran}");
    let said = ran.to_string();
    assert!(
        said.contains("tail.img exists and holds data from 64") && !said.contains("--overwrite-file"),
        "{said}"
    );
}

#[test]
fn a_file_is_overwritten_only_with_consent() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    directory.write("precious", vec![7; 1 << 20]);
    let ran = directory.flashlab(&["run", "short.toml", "precious", "--output", "run"]);
    assert_eq!(ran.code, Some(3), "{ran}");
    insta::assert_snapshot!(ran, @r"
    exit 3
    flashlab: precious exists and holds data in a format that flashlab does not know (1 MiB), which would be lost: give another file, or no TARGET for a scratch file
    ");
    assert!(fs::read(directory.path("precious")).unwrap().iter().all(|&byte| byte == 7));
    assert_eq!(directory.names(), ["precious", "short.toml"]);

    let arguments = ["run", "short.toml", "precious", "--output", "run", "--overwrite-file", "--json"];
    directory.succeeds(&arguments);
    assert!(fs::read(directory.path("precious")).unwrap().iter().any(|&byte| byte != 7));
    let manifest = fs::read_to_string(directory.path("run/manifest.json")).unwrap();
    assert!(manifest.contains("--overwrite-file"), "the consent is on record\n{manifest}");
}

#[test]
fn reading_needs_no_consent_and_changes_nothing() {
    let directory = Directory::new();
    directory.write("long.toml", LONG_RUNS);
    directory.write("precious", vec![7; 1 << 20]);
    let ran = directory.succeeds(&["run", "long.toml", "precious", "--quick", "--repetitions", "1"]);
    assert!(ran.err.contains("nothing will be written"), "{ran}");
    assert_eq!(fs::read(directory.path("precious")).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn an_empty_file_is_no_target() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    directory.write("empty", "");
    let ran = directory.flashlab(&["run", "short.toml", "empty", "--overwrite-file"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    insta::assert_snapshot!(ran, @r"
    exit 2
    flashlab: empty is empty: give a device with a medium in it, or a file with content
    ");
}

#[test]
fn a_scratch_file_is_kept_if_it_is_asked_for() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    let arguments = ["run", "short.toml", "--size", "1MiB", "--quick", "--output", "run", "--keep-file"];
    let ran = directory.succeeds(&arguments);
    let names = directory.names();
    assert!(names[0].starts_with("flashlab-scratch-kept-") && names.len() == 3, "{names:?}");
    assert_eq!(fs::metadata(directory.path(&names[0])).unwrap().len(), 1 << 20);
    assert!(ran.err.contains(&format!("kept DIR/{}", names[0])), "{ran}");
}

#[test]
fn a_read_only_file_system_takes_no_scratch_file() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "ro", "tmpfs"], &directory.path("ro")) else {
        return;
    };
    let ran = directory.flashlab(&["run", "short.toml", "--directory", "ro", "--size", "1MiB"]);
    insta::assert_snapshot!(ran, @r"
    exit 2
    flashlab: no scratch file can be made in ro: Read-only file system (os error 30); choose another place with --directory
    ");
    let ran = directory.flashlab(&["run", "short.toml", "sim:zeus", "--output", "ro/results/run"]);
    insta::assert_snapshot!(ran, @r"
    exit 2
    flashlab: no folder for the results can be made in DIR/ro: Read-only file system (os error 30); give another with --output
    ");
    assert_eq!(directory.names(), ["ro", "short.toml"]);

    // The folder of a run in an archive that is read-only.
    directory.succeeds(&["run", "short.toml", "sim:zeus", "--output", "run"]);
    let (run, ro) = (directory.path("run"), directory.path("ro"));
    let Some(_bound) = Mount::new(&["--bind", run.to_str().unwrap()], &ro) else { return };
    crate::support::program("mount", &["-o", "remount,bind,ro", ro.to_str().unwrap()]).unwrap();
    insta::assert_snapshot!(directory.flashlab(&["report", "ro"]), @r"
    exit 1
    flashlab: cannot write ro/summary.json: Read-only file system (os error 30); give another place for the page with --output FILE
    ");
    directory.succeeds(&["report", "ro", "--output", "page.html"]);
}

#[test]
fn a_full_disk_takes_no_scratch_file() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "size=80m", "tmpfs"], &directory.path("full"))
    else {
        return;
    };
    let ran = directory.flashlab(&["run", "short.toml", "--directory", "full", "--size", "32MiB"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    insta::assert_snapshot!(ran, @r"
    exit 2
    flashlab: too little space for a file of 32 MiB in DIR/full: 80 MiB are free there, and 64 MiB have to stay free; free some space, take another directory, or less data
    ");
    assert_eq!(fs::read_dir(directory.path("full")).unwrap().count(), 0);
}

#[test]
fn a_file_in_memory_is_measured_with_a_warning() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "size=200m", "tmpfs"], &directory.path("memory"))
    else {
        return;
    };
    let arguments = ["run", "short.toml", "--directory", "memory", "--size", "1MiB", "--output", "run"];
    let ran = directory.succeeds(&arguments);
    let told = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("! scratch file in ") && told.contains("memory is in the machine's memory"),
        "{ran}"
    );
    assert_eq!(fs::read_dir(directory.path("memory")).unwrap().count(), 0);
}

#[test]
fn a_limit_on_the_size_of_files_is_told() {
    let directory = Directory::new();
    directory.write("many.toml", SHORT_RUNS.replace("io_count = 200", "io_count = 60_000"));
    let program = env!("CARGO_BIN_EXE_flashlab");
    let limited = format!("ulimit -f 64; exec {program} run many.toml sim:zeus --output run");
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &limited]).current_dir(directory.path("")).output().unwrap();
    let ran = directory.ran(output);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.err.contains("File too large"), "{ran}");
}

#[test]
fn a_full_disk_for_the_results_ends_a_run_that_goes_on_when_there_is_room() {
    let directory = Directory::new();
    // Twelve runs of 60 000 random IOs, more than the file system has space for.
    directory.write("many.toml", SHORT_RUNS.replace("io_count = 200", "io_count = 60_000"));
    let full = directory.path("full");
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "size=2m", "tmpfs"], &full) else { return };
    let ran = directory.flashlab(&["run", "many.toml", "sim:zeus", "--output", "full/run"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    let last = ran.err.lines().last().unwrap();
    assert!(last.contains("No space left on device"), "{ran}");
    assert!(last.ends_with("free some space, or begin a run elsewhere with --output"), "{ran}");
    assert!(ran.err.contains("resume with: flashlab resume full/run"), "{ran}");

    let done = fs::read_to_string(full.join("run/runs.jsonl")).unwrap();
    let full = full.to_str().unwrap();
    crate::support::program("mount", &["-o", "remount,size=200m", full]).unwrap();
    directory.succeeds(&["resume", "full/run"]);
    let all = fs::read_to_string(directory.path("full/run/runs.jsonl")).unwrap();
    let finished = |line: &&str| !line.contains("\"ended\":null");
    let (done, all_lines): (Vec<&str>, Vec<&str>) =
        (done.lines().filter(finished).collect(), all.lines().filter(finished).collect());
    assert_eq!(all_lines[..done.len()], done, "a simulated device gives the same again");
    assert_eq!(all.lines().filter(|line| !line.contains("\"ended\":null")).count(), 12);
}

#[test]
fn space_that_was_never_written_is_told() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    directory.file("holes", 16 << 20);
    let run =
        |target, run| directory.succeeds(&["run", "short.toml", target, "--overwrite-file", "--output", run]);
    let ran = run("holes", "a");
    assert!(ran.err.contains("16 MiB of 16 MiB of holes were holes that were never written"), "{ran}");
    let summary = fs::read_to_string(directory.path("a/summary.json")).unwrap();
    assert!(summary.contains("\"never_written\""), "the warning is in the report, too");

    directory.write("full", vec![1; 16 << 20]);
    assert!(!run("full", "b").err.contains("never written"));

    let fresh = |arguments: &[&str]| {
        directory
            .succeeds(arguments)
            .err
            .contains("before this run nothing was ever written to the simulated flash")
    };
    let target = ["run", "short.toml", "sim:tlc-sata", "--size", "64MiB", "--output"];
    assert!(fresh(&[&target[..], &["c"]].concat()));
    // The message after the state was enforced holds after it, too.
    let random = directory.succeeds(&[&target[..], &["f", "--state", "random"]].concat());
    assert!(!random.out.contains("nothing was ever written to it"), "{random}");
    let told = random.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("! before this run nothing was ever written to the simulated flash"), "{random}");
    assert!(told.contains("random writes of one capacity leave out about a third of it"), "{random}");
    assert!(!fresh(&[&target[..], &["d", "--state", "sequential"]].concat()));
    assert!(fresh(&["infer", "sim:tlc-sata", "--read-only", "--only", "read_page_size", "--output", "e"]));
}

#[test]
fn a_device_too_large_for_the_memory_limit_is_refused() {
    let directory = Directory::new();
    let shown = directory.succeeds(&["sim", "show", "tlc-sata"]).out;
    let capacity = shown.lines().find(|line| line.starts_with("capacity = ")).unwrap();
    directory.write("big.toml", shown.replace(capacity, "capacity = \"4TiB\""));
    let program = env!("CARGO_BIN_EXE_flashlab");
    let limited = format!("ulimit -v 6000000; exec {program} run granularity sim:./big.toml --output run");
    let output =
        std::process::Command::new("sh").args(["-c", &limited]).current_dir(directory.path("")).output();
    let ran = directory.ran(output.unwrap());
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.err.contains("of memory, and"), "{ran}");
}

#[test]
fn years_between_two_ios_of_a_trace_take_no_time() {
    let directory = Directory::new();
    directory.write("trace", "0 0 0 8 1\n1000000000000000000 0 8 8 1\n");
    let ran = directory.succeeds(&[
        "sim",
        "run",
        "sim:tlc-sata",
        "--trace",
        "trace",
        "--format",
        "mqsim",
        "--json",
    ]);
    assert!(ran.out.contains("\"duration_ns\": 1000000000"), "{ran}");
}
