//! The probes, a file for each signal.

pub(crate) mod large_requests;
pub(crate) mod patterns;
