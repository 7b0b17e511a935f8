//! Wrong command lines: exit code 2, a message that says what to do, and nothing is created.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::support::{Directory, SHORT_RUNS};

/// The message, after checking that nothing was created and that the exit code is 2.
fn wrong(arguments: &[&str]) -> String {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    let ran = directory.flashlab(arguments);
    assert_eq!(ran.code, Some(2), "{arguments:?}\n{ran}");
    assert_eq!(ran.out, "", "{arguments:?}");
    assert_eq!(directory.names(), ["short.toml"], "{arguments:?}");
    ran.err
}

#[test]
fn no_verb_or_an_unknown_one() {
    assert!(wrong(&[]).starts_with("A laboratory for flash storage"));
    insta::assert_snapshot!(wrong(&["bnch"]), @r"
    error: unrecognized subcommand 'bnch'

      tip: a similar subcommand exists: 'bench'

    Usage: flashlab <COMMAND>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["plan", "shw"]), @r"
    error: unrecognized subcommand 'shw'

      tip: a similar subcommand exists: 'show'

    Usage: flashlab plan <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn unknown_values_of_options() {
    insta::assert_snapshot!(wrong(&["bench", "--state", "dirty"]), @r"
    error: invalid value 'dirty' for '--state <STATE>'
      [possible values: steady, random, sequential, none]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["bench", "--engine", "aio"]), @r"
    error: invalid value 'aio' for '--engine <ENGINE>'
      [possible values: sync, io-uring]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["bench", "--only", "granularity,ordr"]), @"flashlab: there is no micro-benchmark `ordr`; there are: granularity, alignment, locality, partitioning, order, parallelism, mix, pause, bursts");
    insta::assert_snapshot!(wrong(&["bench", "--only", ""]), @"flashlab: --only has an empty name in it; there are: granularity, alignment, locality, partitioning, order, parallelism, mix, pause, bursts");
    insta::assert_snapshot!(wrong(&["bench", "--only", "mix,order,mix"]), @"flashlab: --only names mix twice");
    insta::assert_snapshot!(wrong(&["bench", "--seed", "-1"]), @r"
    error: invalid value '-1' for '--seed <SEED>': a seed is a whole number, 0 to 18446744073709551615

    For more information, try '--help'.
    ");
}

#[test]
fn numbers_that_are_none_or_impossible() {
    insta::assert_snapshot!(wrong(&["bench", "--size", "0"]), @r"
    error: invalid value '0' for '--size <SIZE>': must be more than 0

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["bench", "--size", "many"]), @r"
    error: invalid value 'many' for '--size <SIZE>': `many` is not a size: write a number with a unit, as in 512B, 32KiB, 4MB or 1GiB

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["bench", "--size", "-1"]), @r"
    error: invalid value '-1' for '--size <SIZE>': `-1` is not a size: write a number with a unit, as in 512B, 32KiB, 4MB or 1GiB

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["bench", "--size", "99999999TiB"]), @r"
    error: invalid value '99999999TiB' for '--size <SIZE>': `99999999TiB` is too large: a size is below 16EiB (2^64 bytes)

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["bench", "--repetitions", "0"]), @r"
    error: invalid value '0' for '--repetitions <N>': 0 is not in 1..=100

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["bench", "--repetitions", "101"]), @r"
    error: invalid value '101' for '--repetitions <N>': 101 is not in 1..=100

    For more information, try '--help'.
    ");
}

#[test]
fn sizes_that_no_target_has() {
    insta::assert_snapshot!(wrong(&["bench", "--size", "1"]), @"flashlab: 4 KiB of a scratch file are too little for the methodology: it needs 16 MiB or more");
    for (size, told) in [("99TiB", "99 TiB"), ("1PiB", "1 PiB"), ("18446744073709551615", "16.0 EiB")] {
        let huge = wrong(&["bench", "--size", size]);
        assert!(
            huge.contains(&format!("flashlab: too little space for a file of {told} in DIR: ")),
            "{huge}"
        );
        assert!(huge.ends_with("free some space, take another directory, or less data\n"), "{huge}");
    }
    insta::assert_snapshot!(wrong(&["bench", "sim:zeus", "--size", "99TiB"]), @"flashlab: --size 99TiB: sim:zeus has 65.2 GiB only");
    insta::assert_snapshot!(wrong(&["bench", "sim:zeus", "--size", "8MiB"]), @"flashlab: 8 MiB of sim:zeus are too little for the methodology: it needs 16 MiB or more");
    insta::assert_snapshot!(wrong(&["run", "short.toml", "sim:zeus", "--size", "100B"]), @"flashlab: nothing of the plan can be run on sim:zeus: TargetOffset = 0B: must be below the device's capacity of 0B");
}

#[test]
fn options_that_exclude_or_need_each_other() {
    insta::assert_snapshot!(wrong(&["bench", "--quick", "--full", "sim:zeus"]), @r"
    error: the argument '--quick' cannot be used with '--full'

    Usage: flashlab bench --quick <TARGET>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["bench", "--directory", ".", "sim:zeus"]), @r"
    error: the argument '--directory <DIR>' cannot be used with '[TARGET]'

    Usage: flashlab bench --directory <DIR> [TARGET]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["bench", "--destroy-data-on", "/dev/null"]), @"flashlab: consent is given, but no TARGET: name the device or file that may be overwritten; a scratch file needs no consent");
    insta::assert_snapshot!(wrong(&["resume", "a-run", "--seed", "1"]), @r"
    error: unexpected argument '--seed' found

      tip: to pass '--seed' as a value, use '-- --seed'

    Usage: flashlab resume <RUN>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["resume", "a-run", "sim:zeus"]), @r"
    error: unexpected argument 'sim:zeus' found

    Usage: flashlab resume [OPTIONS] <RUN>

    For more information, try '--help'.
    ");
}

#[test]
fn targets_that_are_none() {
    insta::assert_snapshot!(wrong(&["bench", "sim:zeuss"]), @"flashlab: there is no simulated device `zeuss`: `flashlab sim list` names them; or give a file as sim:./zeuss.toml");
    insta::assert_snapshot!(wrong(&["bench", "sim:./zeus.toml"]), @"flashlab: cannot read the profile ./zeus.toml: No such file or directory (os error 2)");
    insta::assert_snapshot!(wrong(&["bench", "/dev/no-such-disk"]), @"flashlab: cannot look at /dev/no-such-disk: No such file or directory (os error 2); check the path (`flashlab devices` lists the devices)");
    insta::assert_snapshot!(wrong(&["bench", "/dev/null"]), @"flashlab: /dev/null is a character device: give a block device or a regular file (`flashlab devices` lists the devices)");
    insta::assert_snapshot!(wrong(&["bench", "."]), @"flashlab: . is a directory: give a block device or a regular file (`flashlab devices` lists the devices)");
    insta::assert_snapshot!(wrong(&["bench", "--directory", "nowhere"]), @"flashlab: no scratch file can be made in nowhere: No such file or directory (os error 2); choose another place with --directory");
}

#[test]
fn plans_that_are_none() {
    insta::assert_snapshot!(wrong(&["plan", "show", "granularty"]), @"flashlab: there is no plan `granularty`; there are: baselines, granularity, alignment, locality, partitioning, order, parallelism, mix, pause, bursts, random-state, sequential-state");
    insta::assert_snapshot!(wrong(&["plan", "check", "no-plan.toml"]), @"flashlab: cannot read the plan no-plan.toml: No such file or directory (os error 2); `flashlab plan list` names the plans that come with flashlab");
    insta::assert_snapshot!(wrong(&["run", "no-plan", "sim:zeus"]), @"flashlab: there is no plan `no-plan`; there are: baselines, granularity, alignment, locality, partitioning, order, parallelism, mix, pause, bursts, random-state, sequential-state");
    insta::assert_snapshot!(wrong(&["run", "no-plan.toml", "sim:zeus"]), @"flashlab: cannot read the plan no-plan.toml: No such file or directory (os error 2); `flashlab plan list` names the plans that come with flashlab");
    insta::assert_snapshot!(wrong(&["run", ".", "sim:zeus"]), @"flashlab: cannot read the plan .: Is a directory (os error 21); `flashlab plan list` names the plans that come with flashlab");
}

#[test]
fn runs_that_are_none() {
    insta::assert_snapshot!(wrong(&["report", "no-run"]), @"flashlab: no-run: is not there: give the folder of a run, as flashlab-runs/TIME-TARGET");
    insta::assert_snapshot!(wrong(&["report", "short.toml"]), @"flashlab: short.toml: is no folder: give the folder of a run, as flashlab-runs/TIME-TARGET");
    insta::assert_snapshot!(wrong(&["report", "."]), @"flashlab: .: contains no run: there is no manifest.json in it");
    insta::assert_snapshot!(wrong(&["report"]), @r"
    error: the following required arguments were not provided:
      <RUN>

    Usage: flashlab report <RUN> [TWIN]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(wrong(&["resume", "no-run"]), @"flashlab: no-run: is not there: give the folder of a run, as flashlab-runs/TIME-TARGET");
    insta::assert_snapshot!(wrong(&["bench", "sim:zeus", "--output", "short.toml"]), @"flashlab: short.toml already exists: choose another name with --output");
    insta::assert_snapshot!(wrong(&["bench", "--output", "short.toml/run"]), @"flashlab: no folder for the results can be made in DIR/short.toml: Not a directory (os error 20); give another with --output");
}

#[test]
fn words_that_are_no_text() {
    let directory = Directory::new();
    let mut command = directory.command(&["bench"]);
    let ran = directory.ran(command.arg(OsStr::from_bytes(b"\xff\xfe")).output().unwrap());
    assert_eq!(ran.code, Some(2), "{ran}");
    assert_eq!(directory.names(), [] as [&str; 0]);
}

#[test]
fn a_terminal_obeys_nothing_in_a_name() {
    let told = wrong(&["bench", "a\u{1b}[31mred"]);
    assert!(told.starts_with("flashlab: cannot look at a\u{fffd}[31mred: No such file"), "{told}");
}
