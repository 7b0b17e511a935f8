//! Runs a pattern, or replays a trace, on any [`Device`](flashlab_device::Device) and shows every IO to an observer.
//!
//! # Model
//! A pattern has processes, each with its queue depth. On a device with lanes each process has its own thread and lane;
//! otherwise one loop interleaves the processes on the device's clock. The same loop serves both: a thread runs it with one
//! process. A trace is replayed as one process.
//!
//! # Invariants
//! - The engine prints nothing, reads no clock but the device's, and stores no sample.
//! - Between a completion and the next submission of a consecutive pattern the engine allocates nothing and makes no system
//!   call.
//! - An observer sees every submitted IO, even when the run is stopped.

mod content;
mod control;
mod error;
mod observer;
mod outcome;
mod process;
mod replay;
mod run;
mod write_through;

pub use content::{StampError, verify};
pub use control::{Control, INTERRUPT_CHECK};
pub use error::EngineError;
pub use observer::Observer;
pub use outcome::{Failure, RunOutcome, StopReason};
pub use replay::{Pace, replay};
pub use run::{check, run};
pub use write_through::{FLUSH_TIMEOUT, flush_timeout_loss};
