//! What the way from a program to a live disk costs: measured by a process of its own, asked for by the server.
//!
//! # Model
//! The server starts this binary again, with a verb that no person needs; it reads and writes the disk and prints what that costs.
//! A server that read its own disk and was killed then would wait for itself, in the kernel, for ever. The other process
//! gets an error when the server is killed, and ends.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use flashlab_export::{LiveDisk, Overhead, use_disk};

use crate::output;

/// The verb.
pub const VERB: &str = "read-through";

/// `flashlab read-through PATH`: uses the disk, and prints what is lost on the way as JSON.
pub fn read(path: &Path) -> Result<()> {
    output::text(&serde_json::to_string(&use_disk(path)?)?)
}

/// What is lost on the way to the disk that is reached at `path`.
pub fn measure(disk: &LiveDisk, path: &Path) -> Result<Overhead> {
    flashlab_export::measure(disk, || ask(path))
        .with_context(|| format!("cannot measure the way to {}", path.display()))
}

fn ask(path: &Path) -> Result<Overhead> {
    let mut reader = Command::new("/proc/self/exe");
    // In a group of its own: Ctrl-C is for the server.
    reader.arg(VERB).arg(path).stdin(Stdio::null()).process_group(0);
    let output = reader.output().context("cannot start flashlab once more")?;
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout)?),
        false => bail!("{}", String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("flashlab: ")),
    }
}
