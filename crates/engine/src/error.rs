//! Why a run cannot begin. What goes wrong later is in its [`RunOutcome`](crate::outcome::RunOutcome).

use thiserror::Error;

/// Why a run cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A run needs one observer per process.
    #[error("a pattern of {processes} processes was given {observers} observers")]
    Observers {
        /// The number of the pattern's processes.
        processes: u32,
        /// The number of observers given.
        observers: usize,
    },
    /// The pattern keeps more IOs in flight than the device accepts.
    #[error(
        "queue_depth = {wanted}: must be from 1 to {offered}: the device accepts no more IOs at the same time"
    )]
    QueueDepth {
        /// The queue depth of each process.
        wanted: u32,
        /// The largest queue depth that the device offers each process.
        offered: u32,
    },
    /// The device, or the operating system, cannot serve that many processes.
    #[error(
        "parallel_degree = {processes} with queue_depth = {depth} is not possible here: {reason}; take fewer \
         processes or a smaller queue depth"
    )]
    Processes {
        /// The number of the pattern's processes.
        processes: u32,
        /// The queue depth of each process.
        depth: u32,
        /// Why not.
        reason: String,
    },
}
