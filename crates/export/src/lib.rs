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
mod faults;
#[cfg(feature = "fuse")]
pub mod fuse;
mod keys;
mod live;
mod loop_device;
mod model;
pub mod nbd;
mod overhead;
mod recorder;
mod setup;
mod statistics;
mod status;
mod store;
pub mod ublk;

pub use control::{Control, ControlClient, LONGEST, Reply};
pub use deadlines::{Deadlines, calibrate_lead, wait_until};
pub use faults::{Fault, Faults, ParseFaultError};
pub use keys::HELP as KEYS_HELP;
pub use live::{Answer, Io, LiveDisk};
pub use loop_device::LoopDevice;
pub use model::{Data, Served};
pub use overhead::{Line, Overhead, measure, use_disk};
pub use recorder::{RecordTo, Recorder};
pub use setup::{ExportError, Keep, Session, Setup};
pub use statistics::{ClassSummary, Percentiles, Summary};
pub use status::{ArmedFault, STATUS_VERSION, Status, serve_metrics};
pub use store::Store;
