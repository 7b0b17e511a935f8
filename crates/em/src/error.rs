//! Why an external-memory algorithm cannot run, or ended.

use flashlab_base::{Bytes, Operation};
use flashlab_device::IoError;
use thiserror::Error;

/// The error of this crate.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum EmError {
    /// The device failed an IO.
    #[error("{device}: a {operation} of {size} at {offset} failed: {error}")]
    Io {
        /// The device's name.
        device: String,
        /// What the IO was.
        operation: Operation,
        /// Where it began.
        offset: Bytes,
        /// Its length.
        size: Bytes,
        /// What the device reported.
        error: IoError,
    },
    /// The interrupt flag was set.
    #[error("interrupted")]
    Interrupted,
    /// The memory budget is too small.
    #[error("{purpose} needs {needed} of memory, and {left} of {limit} are left: give more memory")]
    Memory {
        /// What the memory is for.
        purpose: &'static str,
        /// What it needs.
        needed: Bytes,
        /// What is left.
        left: Bytes,
        /// The budget.
        limit: Bytes,
    },
    /// The devices have too little space.
    #[error(
        "{device} has no free extent of {needed}: the largest is {largest}; take fewer elements or a larger device"
    )]
    Space {
        /// The device's name.
        device: String,
        /// What is needed.
        needed: Bytes,
        /// The largest free extent.
        largest: Bytes,
    },
    /// No plan of a sort has runs that fit into the free space.
    #[error(
        "the runs of the sort need {needed} of space, and {left} are free: take fewer elements, more memory or a larger device"
    )]
    RunsSpace {
        /// What the plan that needs the least needs.
        needed: Bytes,
        /// What is free.
        left: Bytes,
    },
    /// The machine cannot be made of these devices.
    #[error("{device}: {reason}")]
    UnfitDevice {
        /// The device's name.
        device: String,
        /// Why, as a clause.
        reason: &'static str,
    },
    /// A parameter is out of its range.
    #[error("{0}")]
    Parameter(String),
    /// A result is not what it must be.
    #[error("the result is wrong: {0}")]
    Wrong(String),
    /// What a device holds is not what the algorithm wrote.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// The structure.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
}
