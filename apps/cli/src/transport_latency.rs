//! Measures the transport latency of a live disk in a separate process.
//!
//! # Model
//! The server starts this program again with a hidden verb. That process reads and writes the disk, and
//! prints the transport latency as JSON.
//!
//! If the server read its own disk and was killed, it would wait for itself in the kernel forever. The other
//! process gets an error when the server is killed, and ends.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use flashlab_export::{LiveDisk, TransportLatency, measure_transport_latency, probe_disk};

use crate::output;

/// The hidden verb.
pub const VERB: &str = "measure-transport-latency";

/// `flashlab measure-transport-latency PATH`: prints the transport latency of the disk at `path` as JSON.
pub fn probe(path: &Path) -> Result<()> {
    output::text(&serde_json::to_string(&probe_disk(path)?)?)
}

/// The transport latency of the live disk that programs reach at `path`.
pub fn measure(disk: &LiveDisk, path: &Path) -> Result<TransportLatency> {
    measure_transport_latency(disk, || start_probe(path))
        .with_context(|| format!("cannot measure the transport latency of {}", path.display()))
}

fn start_probe(path: &Path) -> Result<TransportLatency> {
    let mut probe = Command::new("/proc/self/exe");
    // In a separate process group, because Ctrl-C is meant for the server.
    probe.arg(VERB).arg(path).stdin(Stdio::null()).process_group(0);
    let output = probe.output().context("cannot start flashlab once more")?;
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout)?),
        false => bail!("{}", String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("flashlab: ")),
    }
}
