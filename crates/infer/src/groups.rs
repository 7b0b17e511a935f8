//! The probes, a file for each signal.

pub(crate) mod content;
pub(crate) mod erase_block;
pub(crate) mod fill;
pub(crate) mod large_requests;
pub(crate) mod large_writes;
pub(crate) mod lingering;
pub(crate) mod open_blocks;
pub(crate) mod patterns;
pub(crate) mod pause;
pub(crate) mod recovery;
pub(crate) mod spare;
mod stalls;
pub(crate) mod startup;
pub(crate) mod steps;
pub(crate) mod translation;
pub(crate) mod write_buffer;
pub(crate) mod write_page;
mod writes;
