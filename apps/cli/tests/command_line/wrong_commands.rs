//! Command lines that are wrong: exit code 2, a message that says what to do, and nothing is made.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::support::{Directory, SHORT_RUNS};

/// What is said, after a check that nothing was made and that the exit code is 2.
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
    insta::assert_snapshot!(wrong(&["bnch"]), @"");
    insta::assert_snapshot!(wrong(&["plan", "shw"]), @"");
}

#[test]
fn unknown_values_of_options() {
    insta::assert_snapshot!(wrong(&["bench", "--state", "dirty"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--engine", "aio"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--only", "granularity,ordr"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--only", ""]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--seed", "-1"]), @"");
}

#[test]
fn numbers_that_are_none_or_impossible() {
    insta::assert_snapshot!(wrong(&["bench", "--size", "0"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--size", "many"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--size", "-1"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--size", "99999999TiB"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--repetitions", "0"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--repetitions", "101"]), @"");
}

#[test]
fn sizes_that_no_target_has() {
    insta::assert_snapshot!(wrong(&["bench", "--size", "1"]), @"");
    let huge = wrong(&["bench", "--size", "99TiB"]);
    assert!(huge.contains("flashlab: no room for a scratch file of 99 TiB in DIR: "), "{huge}");
    assert!(huge.ends_with("choose a smaller size or another directory\n"), "{huge}");
    insta::assert_snapshot!(wrong(&["bench", "sim:zeus", "--size", "99TiB"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "sim:zeus", "--size", "8MiB"]), @"");
    insta::assert_snapshot!(wrong(&["run", "short.toml", "sim:zeus", "--size", "100B"]), @"");
}

#[test]
fn options_that_exclude_or_need_each_other() {
    insta::assert_snapshot!(wrong(&["bench", "--quick", "--full", "sim:zeus"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--directory", ".", "sim:zeus"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--destroy-data-on", "/dev/null"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--resume", "a-run", "--seed", "1"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--resume", "a-run", "sim:zeus"]), @"");
}

#[test]
fn targets_that_are_none() {
    insta::assert_snapshot!(wrong(&["bench", "sim:zeuss"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "sim:./zeus.toml"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "/dev/no-such-disk"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "/dev/null"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "."]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--directory", "nowhere"]), @"");
}

#[test]
fn plans_that_are_none() {
    insta::assert_snapshot!(wrong(&["plan", "show", "granularty"]), @"");
    insta::assert_snapshot!(wrong(&["plan", "check", "no-plan.toml"]), @"");
    insta::assert_snapshot!(wrong(&["run", "no-plan", "sim:zeus"]), @"");
    insta::assert_snapshot!(wrong(&["run", "no-plan.toml", "sim:zeus"]), @"");
    insta::assert_snapshot!(wrong(&["run", ".", "sim:zeus"]), @"");
}

#[test]
fn runs_that_are_none() {
    insta::assert_snapshot!(wrong(&["report", "no-run"]), @"");
    insta::assert_snapshot!(wrong(&["report", "."]), @"");
    insta::assert_snapshot!(wrong(&["report"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "--resume", "no-run"]), @"");
    insta::assert_snapshot!(wrong(&["bench", "sim:zeus", "--output", "short.toml"]), @"");
}

#[test]
fn words_that_are_no_text() {
    let directory = Directory::new();
    let mut command = directory.command(&["bench"]);
    let ran = directory.ran(command.arg(OsStr::from_bytes(b"\xff\xfe")).output().unwrap());
    assert_eq!(ran.code, Some(2), "{ran}");
    assert_eq!(directory.names(), [] as [&str; 0]);
}
