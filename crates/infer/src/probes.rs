//! The probes: a file for each signal, beside it a folder of what mostly it uses, and what they share.

pub(crate) mod buffered_writes;
pub(crate) mod content;
mod cost_per_io;
pub(crate) mod erase_block;
pub(crate) mod fill;
mod filling;
mod flushes;
pub(crate) mod large_reads;
pub(crate) mod large_writes;
pub(crate) mod layout;
pub(crate) mod lingering;
mod merges;
pub(crate) mod misalignment;
pub(crate) mod no_faster;
pub(crate) mod open_blocks;
pub(crate) mod over_provisioning;
pub(crate) mod patterns;
pub(crate) mod physical_capacity;
pub(crate) mod queue_depth;
mod random_writes;
mod read_buffer;
pub(crate) mod read_cache;
pub(crate) mod reads;
pub(crate) mod recovery;
pub(crate) mod segment_groups;
mod size_pictures;
mod slc_region;
mod space;

pub(crate) mod startup;
pub(crate) mod structure;
pub(crate) mod translation;
pub(crate) mod write_buffer;
pub(crate) mod write_page;
mod writes;
