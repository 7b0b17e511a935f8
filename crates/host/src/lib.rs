//! Real devices: direct IO, io_uring, identity, and the guards against destroying data.
//!
//! # Model
//! [`inspect`] says what a path leads to, what is known of it and why flashlab would refuse to write to
//! it. A [`Consent`] is the permission to overwrite that one target. [`open`] makes it a
//! [`Device`]: [`SyncDevice`] serves one IO at a time, [`RingDevice`] as many
//! as its depth. A [`ScratchFile`] is a target that flashlab makes itself.
//!
//! # Invariants
//! - Only this crate opens a block device, and it opens nothing for writing without a consent, which
//!   only this crate can make.
//! - What is bytes from outside (sysfs, `/proc`, disks, NVMe pages) is parsed without a panic.
//! - Nothing is said of a device that no source tells: it is `None`.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "flashlab-host measures devices through Linux's O_DIRECT, io_uring and sysfs: build it on Linux"
);

mod awake;
mod block_device;
mod clock;
mod consent;
mod disturbance;
mod error;
mod identity;
mod input;
mod inspection;
mod machine;
mod memory;
mod mounts;
mod node;
mod nvme;
mod patience;
mod refusal;
mod ring;
mod scratch;
mod scsi;
mod signature;
mod signature_tables;
mod surroundings;
mod synchronous;
mod system;
mod target;
mod ublk;

use std::path::Path;
use std::sync::Arc;

use flashlab_device::Device;

pub use awake::IdleProcessors;
pub use clock::{Clock, SPIN, use_precise_timers};
pub use consent::{Consent, consent_by_flag, consent_by_typing, consent_to_overwrite_file};
pub use error::HostError;
pub use input::{read_file, read_text};
pub use inspection::{Inspection, devices, inspect};
pub use machine::available_memory;
pub use memory::{Memory, keep_in_memory};
pub use mounts::mounted_on;
pub use patience::claim_block_device;
pub use refusal::{Reason, Refusal};
pub use ring::RingDevice;
pub use scratch::{ScratchFile, check_room, stale_scratch_files};
pub use synchronous::SyncDevice;
pub use ublk::{UblkDevice, UblkOperation, UblkQueue, UblkRequest, UblkShape};

/// How IOs are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// One `pread` or `pwrite` at a time; a thread for each process of a parallel pattern.
    #[default]
    Synchronous,
    /// Up to the queue depth at once.
    IoUring,
}

/// How to open a target.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// How IOs are issued.
    pub engine: Engine,
    /// How many IOs may be in flight at once, from 1 to 4096; the synchronous engine has one whatever
    /// this says.
    pub depth: u32,
    /// The permission to write; without it the target is opened for reading only, and every write
    /// completes with [`IoError::READ_ONLY`](flashlab_device::IoError::READ_ONLY).
    pub write: Option<Consent>,
    /// Go through the page cache on purpose. Where the file system takes no direct IO that happens
    /// anyway, and the identity's engine says so.
    pub buffered: bool,
    /// What the identity calls the target; its path if `None`.
    pub name: Option<String>,
}

impl Default for OpenOptions {
    /// Synchronous, for reading, with direct IO.
    fn default() -> OpenOptions {
        OpenOptions { engine: Engine::Synchronous, depth: 1, write: None, buffered: false, name: None }
    }
}

/// Opens a block device or a regular file.
///
/// A block device is opened exclusively when it is opened for writing: it can be so once at a time,
/// in the whole system, until the device and all its lanes are dropped.
///
/// # Errors
/// When there is no such target, the consent is for another, writing is refused
/// ([`HostError::Refused`]), or the operating system says no.
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Box<dyn Device + Send>, HostError> {
    if options.depth == 0 || options.depth > ring::DEPTH_MAX {
        return Err(HostError::Depth { asked: options.depth, most: ring::DEPTH_MAX });
    }
    let target = Arc::new(target::Target::open(path.as_ref(), options)?);
    Ok(match options.engine {
        Engine::Synchronous => Box::new(SyncDevice::new(target)),
        Engine::IoUring => Box::new(RingDevice::new(target)?),
    })
}
