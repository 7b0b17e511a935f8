//! Any device as a live disk.
//!
//! # Model
//! A [`LiveDisk`] is a [`Device`](flashlab_device::Device) in virtual time, asked by the wall clock, with data kept beside
//! it. A transport takes IOs from the operating system or from the network, lets the disk say what to answer and when,
//! and holds the answers until then: [`fuse`] (with a loop device over it), `ublk`, and NBD through nbdkit's plugin.
//!
//! # Invariants
//! - an answer is never sent before the device would have given it, less what the transport costs, which was measured;
//! - where an answer is late, it is counted;
//! - nothing that was flushed is lost when the server is killed.

mod awake;
mod connections;
mod control;
mod deadlines;
mod error;
mod fault_rules;
#[cfg(feature = "fuse")]
pub mod fuse;
mod http;
mod io;
mod keys;
mod latency_probe;
mod live;
mod locks;
mod loop_device;
mod metrics;
mod model;
pub mod nbd;
mod recorder;
mod setup;
mod statistics;
mod status;
mod store;
mod transport_latency;
pub mod ublk;

pub use control::{
    COMMAND_LENGTH_MAX, ControlClient, ControlCommand, ControlCommandError, ControlReply, ControlServer,
};
pub use deadlines::{Deadlines, calibrate_lead, wait_until};
pub use error::ExportError;
pub use fault_rules::{FaultInjector, FaultRule, ParseFaultRuleError};
pub use http::{HttpRequest, HttpRequestError, serve_metrics};
pub use io::{Data, Io, PendingAnswer};
pub use keys::HELP as KEYS_HELP;
pub use latency_probe::{measure_transport_latency, probe_disk};
pub use live::LiveDisk;
pub use loop_device::LoopDevice;
pub use model::ServedDevice;
pub use recorder::{Recorder, RecordingDestination};
pub use setup::{DataPlacement, DiskServer, Setup};
pub use statistics::{ClassSummary, IoSummary, Percentiles};
pub use status::{ArmedFault, STATUS_VERSION, Status};
pub use store::DataStore;
pub use transport_latency::{LatencyCurve, TransportLatency};
