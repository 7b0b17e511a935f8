//! The probes, a file for each signal.

pub(crate) mod content;
pub(crate) mod erase_block;
pub(crate) mod large_requests;
pub(crate) mod large_writes;
pub(crate) mod open_blocks;
pub(crate) mod patterns;
mod stalls;
pub(crate) mod translation;
pub(crate) mod write_page;
mod writes;
