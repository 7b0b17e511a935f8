//! The test of files is right on the file system of the build, and finds what is wrong.

use std::path::PathBuf;

use flashlab_base::Seed;
use flashlab_judge::fsx::{Fsx, fsx};

/// A directory on the file system of the build: ext4 or another one of Linux's.
fn directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().to_owned();
    (directory, path)
}

#[test]
fn a_file_system_of_linux_is_right() {
    let (_kept, directory) = directory();
    let report =
        fsx(&Fsx { directory: directory.clone(), operations: 20_000, seed: Seed(1), tamper_at: None });
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(
        report.operations.len() == 20 && report.operations.values().all(|&count| count > 20),
        "{report:?}"
    );
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "the folder of the test was left");
}

#[test]
fn bytes_that_change_are_found() {
    for seed in 1..=20 {
        let (_kept, directory) = directory();
        let test = Fsx { directory, operations: 1_000, seed: Seed(seed), tamper_at: Some(300) };
        let failure = fsx(&test).expect_err("bytes were changed");
        assert!(failure.operation >= 300, "{failure}");
        let said = failure.to_string();
        assert!(said.contains(&format!("--seed {seed}")) && said.contains("differ"), "{said}");
    }
}
