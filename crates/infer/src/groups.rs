//! The probes, a file for each signal.

pub(crate) mod fill;
pub(crate) mod large_requests;
pub(crate) mod lingering;
pub(crate) mod patterns;
pub(crate) mod pause;
pub(crate) mod recovery;
pub(crate) mod spare;
pub(crate) mod startup;
pub(crate) mod steps;
pub(crate) mod write_buffer;
