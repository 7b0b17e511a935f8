//! The trait [`Device`]: anything that serves IOs and stamps them with its own clock.
//!
//! A disk, a simulated device, a fault injector and later a repaired volume all implement it, so the engine, the
//! inference and the exports are written once. [`device`](Device) has the trait and its capabilities, [`Wrapper`] is for
//! devices that stand in front of another one, [`MemoryDevice`] is the simplest complete device.
//!
//! Nothing in this crate opens a file.

mod buffer;
mod complete;
mod device;
mod fault;
mod geometry;
mod huge_pages;
mod io;
mod memory;
mod nothing;
mod storing;
mod tail;
mod virtual_queue;
mod wrapper;

pub use buffer::{Arena, Buffer};
pub use complete::CompleteDevice;
pub use device::{Conditioning, Device, DisturbanceCounters, Health, Parallel, Telemetry, VirtualTime};
pub use fault::{FaultyDevice, InjectedFault};
pub use flashlab_base::{Identity, Operation};
pub use geometry::{DataHandling, Geometry};
pub use huge_pages::{empty_vec_in_huge_pages, vec_in_huge_pages};
pub use io::{Completion, IoError, Request};
pub use memory::MemoryDevice;
pub use nothing::NoDevice;
pub use storing::StoringDevice;
pub use tail::TailDevice;
pub use virtual_queue::VirtualQueue;
pub use wrapper::Wrapper;
