//! Simulated devices in virtual time.
//!
//! A [`Profile`] is a versioned TOML file that describes a device; [`Profile::device`] builds it.
//! So far a profile is a throughput model of four classes ([`throughput`]).
//!
//! Invariants:
//! - no wall clock and no randomness of the operating system is read here: the same profile, seed
//!   and requests give the same completions;
//! - time moves only when the caller waits.

pub mod flash;
pub mod layer;
pub mod profile;
pub mod throughput;
mod zoo;

pub use profile::{Profile, ProfileError};
pub use zoo::zoo;
