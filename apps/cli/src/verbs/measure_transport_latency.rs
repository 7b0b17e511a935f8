//! `flashlab measure-transport-latency`: measures the transport latency of a live disk; only servers start it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::transport_latency;

/// Measure the transport latency of a live disk: started by `serve` itself
#[derive(Args)]
pub struct MeasureTransportLatency {
    path: PathBuf,
}

impl MeasureTransportLatency {
    /// Reads and writes the disk, and prints the latency.
    pub fn run(self) -> Result<()> {
        transport_latency::probe(&self.path)
    }
}
