//! The probes: a file for each, with its own parts in a folder of its name.

pub(crate) mod buffered_writes;
pub(crate) mod content;
pub(crate) mod erase_block;
pub(crate) mod fill;
pub(crate) mod large_reads;
pub(crate) mod large_writes;
pub(crate) mod lingering;
pub(crate) mod misalignment;
pub(crate) mod open_blocks;
pub(crate) mod over_provisioning;
pub(crate) mod physical_capacity;
pub(crate) mod queue_depth;
pub(crate) mod rate_limit;
pub(crate) mod read_cache;
pub(crate) mod recovery;
pub(crate) mod segment_groups;
pub(crate) mod startup;
pub(crate) mod structure;
pub(crate) mod translation;
pub(crate) mod write_buffer;
pub(crate) mod write_page;
