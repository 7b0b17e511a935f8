//! Every help text.

use crate::support::Directory;

fn help(arguments: &[&str]) -> String {
    Directory::new().succeeds(arguments).out
}

#[test]
fn of_the_program() {
    insta::assert_snapshot!(help(&["--help"]), @"");
}

#[test]
fn of_bench() {
    insta::assert_snapshot!(help(&["bench", "--help"]), @"");
}

#[test]
fn of_run() {
    insta::assert_snapshot!(help(&["run", "-h"]), @"");
}

#[test]
fn of_plan() {
    insta::assert_snapshot!(help(&["plan", "-h"]), @"");
    insta::assert_snapshot!(help(&["plan", "list", "-h"]), @"");
    insta::assert_snapshot!(help(&["plan", "show", "-h"]), @"");
    insta::assert_snapshot!(help(&["plan", "check", "-h"]), @"");
}

#[test]
fn of_devices() {
    insta::assert_snapshot!(help(&["devices", "-h"]), @"");
}

#[test]
fn of_sim() {
    insta::assert_snapshot!(help(&["sim", "-h"]), @"");
    insta::assert_snapshot!(help(&["sim", "list", "-h"]), @"");
    insta::assert_snapshot!(help(&["sim", "show", "-h"]), @"");
}

#[test]
fn of_report() {
    insta::assert_snapshot!(help(&["report", "-h"]), @"");
}
