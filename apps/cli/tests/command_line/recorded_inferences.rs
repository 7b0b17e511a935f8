//! Recorded inferences are replayed: estimators that change must find the same, or the case is recorded again on purpose.
//!
//! The cases are archives in `tests/recorded`: simulated devices with noise, live ones over FUSE and a loop device, and a file on a disk, with the
//! scatter of a real clock and a busy machine. Values and verdicts are compared; confidences and sentences may change.

use std::fs;
use std::path::Path;
use std::process::Command;

use flashlab_skip::{Need, skip};
use serde_json::Value;

use crate::support::Directory;

const ADVICE: &str =
    "if the change is intended, record the cases again: cd apps/cli/tests/recorded && ./record.sh FLASHLAB";

/// Parameter, verdict and value of each finding.
fn findings(directory: &Directory, run: &str) -> Vec<(String, String, Value)> {
    let text = fs::read_to_string(directory.path(run).join("inference.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let finding = |finding: &Value| {
        let text = |key: &str| finding[key].as_str().unwrap().to_owned();
        (text("parameter"), text("verdict"), finding["value"].clone())
    };
    document["findings"].as_array().unwrap().iter().map(finding).collect()
}

/// Replays a case and compares.
fn check(archive: &str) {
    let directory = Directory::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(format!("{archive}.tar.gz"));
    match Command::new("tar").arg("xzf").arg(&path).arg("-C").arg(directory.path(".")).status() {
        Ok(status) => assert!(status.success(), "{} cannot be unpacked", path.display()),
        Err(error) => return skip(Need::Programs, format!("there is no tar: {error}")),
    }
    let ran = directory.flashlab(&["infer", "--replay", archive, "--output", "again"]);
    assert_eq!(ran.code, Some(0), "{ran}\n{ADVICE}");
    let (recorded, replayed) = (findings(&directory, archive), findings(&directory, "again"));
    assert!(recorded.len() >= 10, "{archive} has only {} findings", recorded.len());
    for (one, other) in recorded.iter().zip(&replayed) {
        assert_eq!(one, other, "{archive}: recorded on the left, replayed on the right; {ADVICE}");
    }
    assert_eq!(recorded.len(), replayed.len(), "{ADVICE}");
}

#[test]
fn of_a_page_mapped_device_with_noise() {
    check("page-map");
}

#[test]
fn of_a_device_with_log_blocks_and_noise() {
    check("log-blocks");
}

#[test]
fn of_a_live_device_over_fuse() {
    check("live-fuse");
}

#[test]
fn of_a_live_device_behind_a_loop_device() {
    check("live-loop");
}

#[test]
fn of_a_file_on_a_disk() {
    check("disk");
}
