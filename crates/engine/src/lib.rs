//! Runs a pattern, or replays a trace, on any [`Device`](flashlab_device::Device) and shows every IO to an observer.
//!
//! # Model
//! A pattern has processes, each with a queue depth. Where the device gives lanes, each process has
//! a thread and a lane of its own; otherwise one loop interleaves the processes on the device's one
//! clock. The same loop serves both, and a single process is the case of one. A trace is replayed as one process.
//!
//! # Invariants
//! - The engine prints nothing, reads no clock but the device's, and keeps no sample.
//! - Between a completion and the next submission of a consecutive pattern there is no allocation
//!   and no system call of the engine's.
//! - Every IO that was submitted is observed, also when the run is stopped.

mod content;
mod observer;
mod process;
mod replay;
mod run;
mod write_through;

pub use content::{StampError, verify};
pub use observer::Observer;
pub use process::WAIT_PIECE;
pub use replay::{Pace, replay};
pub use run::{Control, Ended, EngineError, Failure, Outcome, check, run};
pub use write_through::{FLUSH_MOST, unanswered_flush};
