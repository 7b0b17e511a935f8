//! The probes, a file for each signal.

pub(crate) mod channels;
pub(crate) mod content;
pub(crate) mod dies;
pub(crate) mod erase_block;
pub(crate) mod fill;
pub(crate) mod large_reads;
pub(crate) mod large_writes;
pub(crate) mod lingering;
pub(crate) mod open_blocks;
pub(crate) mod parallel_reads;
pub(crate) mod patterns;
pub(crate) mod pause;
pub(crate) mod queue_depth;
mod read_ahead;
pub(crate) mod read_pages;
pub(crate) mod reads;
pub(crate) mod recovery;
pub(crate) mod rereads;
pub(crate) mod segment_groups;
pub(crate) mod spare;
mod stalls;
pub(crate) mod startup;
pub(crate) mod steps;
pub(crate) mod translation;
pub(crate) mod write_buffer;
pub(crate) mod write_page;
mod writes;
