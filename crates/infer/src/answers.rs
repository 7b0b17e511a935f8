//! One owner for each answer that several probes have a part in.
//!
//! # Model
//! A probe hands in evidence: a finding with its rule, or a hypothesis. The file of a parameter, or of a family of
//! them, makes the answer of it, and nothing else concludes it.

pub(crate) mod cost_per_io;
pub(crate) mod erase_block;
pub(crate) mod no_cache;
pub(crate) mod read_buffer;
pub(crate) mod size_pictures;
pub(crate) mod slc_cache;
pub(crate) mod space;
pub(crate) mod write_buffer;
