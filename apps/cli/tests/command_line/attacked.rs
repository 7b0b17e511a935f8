//! Runs short versions of the scripts in `tests/live`, which attack live disks. Without root, FUSE, loop
//! devices or a program, they report that and end.

use std::path::Path;
use std::process::Command;

/// Runs a script, which ends with an error if it finds a defect.
fn attack(script: &str, arguments: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/live").join(script);
    let output =
        Command::new("bash").arg(path).arg(env!("CARGO_BIN_EXE_flashlab")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}

#[test]
fn a_server_is_killed_at_random_moments() {
    attack("kills.sh", &["--kills", "12"]);
}

#[test]
fn ext4_survives_power_losses() {
    attack("power_losses.sh", &["--losses", "2"]);
}

#[test]
fn a_disk_that_loses_flushes_loses_files() {
    attack("power_losses.sh", &["--losses", "2", "--lost-flush"]);
}
