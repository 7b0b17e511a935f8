//! What is known of a device's make.

use std::collections::BTreeMap;

use crate::Bytes;
use serde::{Deserialize, Serialize};

/// A device's make and surroundings. `None` says "not known", never "no".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The path or name that it was opened by.
    pub target: String,
    /// `block device`, `regular file`, `simulated`, `memory`.
    pub kind: String,
    /// The block device beneath a regular file or a partition, as `/dev/sda`.
    pub backing_device: Option<String>,
    /// The file system that a regular file lies on, as `ext4`.
    pub file_system: Option<String>,
    /// Which regular file it is: its inode and, where the file system notes it, when it was made (in
    /// nanoseconds since 1970), as `inode 12, made at 1795257441123456789`. Another file of the same
    /// name differs in it.
    pub file: Option<String>,
    /// The maker's name for it.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Its firmware's revision.
    pub firmware: Option<String>,
    /// How it is attached, as `nvme`, `sata`, `virtio`.
    pub transport: Option<String>,
    /// The size of the target itself.
    pub capacity: Bytes,
    /// The smallest IO it takes.
    pub logical_block: Option<Bytes>,
    /// The smallest IO it likes.
    pub physical_block: Option<Bytes>,
    /// Whether it says that it has a moving head.
    pub rotational: Option<bool>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// The kernel's IO scheduler for it.
    pub scheduler: Option<String>,
    /// The unit of a discard; zero where it takes none.
    pub discard_granularity: Option<Bytes>,
    /// The longest discard; zero where it takes none.
    pub discard_max: Option<Bytes>,
    /// The largest IO that the kernel passes on in one piece.
    pub largest_request: Option<Bytes>,
    /// Whether the machine is virtual, and by whose word.
    pub virtual_machine: Option<String>,
    /// The kernel.
    pub kernel: Option<String>,
    /// The processor.
    pub processor: Option<String>,
    /// How many processors this process may use.
    pub processors: Option<u32>,
    /// How IOs are issued, as `synchronous O_DIRECT`, `io_uring O_DIRECT`, `virtual time`.
    pub engine: Option<String>,
    /// The health log of an NVMe device (SMART), by field.
    pub health: Option<BTreeMap<String, String>>,
    /// Rated endurance in bytes written over its life, where the device or the user tells it.
    pub rated_endurance: Option<Bytes>,
}
