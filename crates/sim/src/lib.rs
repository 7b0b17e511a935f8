//! Simulated devices in virtual time.
//!
//! A [`Profile`] is a versioned TOML file that describes a device; [`Profile::device`] builds it: a throughput model of
//! four classes ([`throughput`]), response times that were measured ([`response_tree`]), a hard disk ([`disk`]), or an array of flash ([`flash`]) behind a translation layer
//! ([`layer`]) and a controller ([`flash_device`]).
//!
//! Invariants:
//! - no wall clock and no randomness of the operating system is read here: the same profile, seed
//!   and requests give the same completions;
//! - time moves only when the caller waits.

pub mod disk;
pub mod flash;
pub mod flash_device;
mod illegal;
pub mod layer;
mod name;
mod noise;
pub mod profile;
pub mod response_tree;
mod simulated;
pub mod throughput;
mod zoo;

pub use flash_device::{FlashDevice, Statistics};
pub use layer::Translation;
pub use profile::{Profile, ProfileError};
pub use simulated::SimulatedDevice;
pub use zoo::zoo;
