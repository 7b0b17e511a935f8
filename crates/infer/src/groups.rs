//! The probes, a file for each signal.

pub(crate) mod channels;
pub(crate) mod dies;
pub(crate) mod large_reads;
pub(crate) mod parallel_reads;
pub(crate) mod patterns;
pub(crate) mod queue_depth;
pub(crate) mod read_pages;
pub(crate) mod reads;
pub(crate) mod rereads;
pub(crate) mod segment_groups;
