//! Real devices: direct IO, io_uring, identity, and the guards against destroying data.
//!
//! # Model
//! 1. [`inspect`] reports what a path leads to, its identity, and why flashlab refuses to write to it.
//! 2. A [`Consent`] is the user's permission to overwrite that target and no other.
//! 3. [`open()`] turns the target into a [`Device`](flashlab_device::Device). [`SyncDevice`] serves one IO at a time,
//!    [`RingDevice`] as many as its depth.
//!
//! A [`ScratchFile`] is a target that flashlab creates itself.
//!
//! # Invariants
//! - Only this crate opens a block device. It opens nothing for writing without a consent, and only this crate can make
//!   one.
//! - No bytes from outside (sysfs, `/proc`, disks, NVMe pages) can cause a panic.
//! - What no source reports about a device is `None`, never a guess.

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
mod file;
mod first_data;
mod identity;
mod inspection;
mod machine;
mod memory;
mod mounts;
mod never_written;
mod node;
mod nvme;
mod open;
mod options;
mod private_mount;
mod process_status;
mod refusal;
mod retry;
mod ring;
mod scratch;
mod scsi;
mod signature;
mod signature_tables;
mod surroundings;
mod synchronous;
mod system;
mod target;
mod threads;
mod ublk;
mod underlying;
mod writers;

pub use awake::IdleProcessors;
pub use clock::{Clock, SPIN, use_precise_timers};
pub use consent::{
    Consent, consent_by_flag, consent_by_typing, consent_to_overwrite_file, consent_to_use_own_file,
    consent_to_write_volume,
};
pub use error::HostError;
pub use file::{create_file, file_identity, open_file};
pub use inspection::{Inspection, devices, inspect};
pub use machine::available_memory;
pub use memory::{Memory, keep_in_memory};
pub use mounts::mounted_on;
pub use never_written::{NeverWritten, never_written};
pub use open::open;
pub use options::{IoEngine, OpenOptions};
pub use private_mount::{enter_mount_namespace, mount_fuse, mount_subtrees};
pub use process_status::is_running;
pub use refusal::{Reason, Refusal};
pub use retry::claim_block_device;
pub use ring::RingDevice;
pub use scratch::{ScratchFile, check_room, rename_without_replacing, stale_scratch_files};
pub use synchronous::SyncDevice;
pub use threads::ThreadsDevice;
pub use ublk::{UblkDevice, UblkOperation, UblkQueue, UblkRequest, UblkShape};
