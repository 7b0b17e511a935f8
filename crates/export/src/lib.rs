//! Serves a device as a live disk for other programs.
//!
//! # Model
//! A [`LiveDisk`] combines a simulated [`Device`](flashlab_device::Device), which computes in virtual time
//! when an IO completes, with a [`DataStore`], which stores the bytes. A transport receives IOs from the
//! operating system or the network, passes them to the disk, and sends each answer when it is due. The
//! transports are [`fuse`] (optionally with a loop device over it), [`ublk`], and NBD through the plugin for
//! nbdkit.
//!
//! # Invariants
//! - No answer leaves before its due time: the completion time of the device minus the measured transport
//!   latency.
//! - A late answer is counted as late.
//! - A killed server loses no flushed data.

mod awake;
mod backing;
mod concurrent;
mod connections;
mod control;
mod deadlines;
mod error;
mod fault_grammar;
mod fault_rules;
#[cfg(feature = "fuse")]
mod file_attributes;
mod file_clock;
mod file_counts;
#[cfg(feature = "fuse")]
pub mod files_fuse;
#[cfg(feature = "fuse")]
pub mod fuse;
mod http;
mod io;
mod keys;
mod latency_probe;
mod live;
mod locks;
mod loop_device;
mod medium;
#[cfg(feature = "fuse")]
pub mod merged;
mod metrics;
mod model;
pub mod nbd;
mod private;
mod recorder;
mod setup;
mod shared_files;
mod statistics;
mod status;
mod store;
mod transport_latency;
pub mod ublk;
mod undo_copies;
mod writeback;

pub use concurrent::ConcurrentDevice;
pub use control::{
    COMMAND_LENGTH_MAX, ControlClient, ControlCommand, ControlCommandError, ControlReply, ControlServer,
    Controlled,
};
pub use deadlines::{Deadlines, calibrate_lead, wait_until};
pub use error::ExportError;
pub use fault_grammar::ParseFaultRuleError;
pub use fault_rules::{FaultInjector, FaultKind, FaultOperation, FaultRule};
pub use file_counts::FileCounts;
pub use http::{HttpRequest, HttpRequestError, serve_metrics};
pub use io::{Data, Io, PendingAnswer};
pub use keys::HELP as KEYS_HELP;
pub use latency_probe::{measure_transport_latency, probe_disk};
pub use live::LiveDisk;
pub use loop_device::LoopDevice;
pub use model::ServedDevice;
pub use private::{private_directory, random_name};
pub use recorder::{Recorder, RecordingDestination};
pub use setup::{DataPlacement, DiskServer, Setup};
pub use shared_files::SharedFiles;
pub use statistics::{ClassSummary, IoSummary, Percentiles};
pub use status::{ArmedFault, STATUS_VERSION, Status};
pub use store::DataStore;
pub use transport_latency::{LatencyCurve, TransportLatency};
pub use writeback::{DIRTY_MAX, IDLE, Writeback};
