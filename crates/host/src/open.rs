//! Opens a target as a device.

use std::path::Path;
use std::sync::Arc;

use flashlab_device::Device;

use crate::error::HostError;
use crate::options::{IoEngine, OpenOptions};
use crate::ring::{self, RingDevice};
use crate::synchronous::SyncDevice;
use crate::target::Target;
use crate::threads::ThreadsDevice;

/// Opens a block device or a regular file.
///
/// A block device that is opened for writing is opened exclusively: no other program can do the same until
/// the device and all its lanes are dropped.
///
/// # Errors
/// If the target does not exist, the consent is for another target, writing is refused
/// ([`HostError::Refused`]), or the operating system reports an error.
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Box<dyn Device + Send>, HostError> {
    if options.depth == 0 || options.depth > ring::DEPTH_MAX {
        return Err(HostError::Depth { asked: options.depth, most: ring::DEPTH_MAX });
    }
    let target = Arc::new(Target::open(path.as_ref(), options)?);
    Ok(match options.engine {
        IoEngine::Synchronous => Box::new(SyncDevice::new(target)),
        IoEngine::IoUring => Box::new(RingDevice::new(target)?),
        IoEngine::Threads => Box::new(ThreadsDevice::new(target)?),
    })
}
