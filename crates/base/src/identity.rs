//! The identity of a device: model, firmware, how it is attached, and the saved state that it began in.

use std::collections::BTreeMap;

use crate::Bytes;
use serde::{Deserialize, Serialize};

/// The identity of a device and of the machine. `None` means "not known", never "no".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The path or name that it was opened by.
    pub target: String,
    /// `block device`, `regular file`, `simulated`, `memory`.
    pub kind: String,
    /// The block device under a regular file or a partition, for example `/dev/sda`.
    pub backing_device: Option<String>,
    /// The file system that a regular file lies on, for example `ext4`.
    pub file_system: Option<String>,
    /// Which regular file it is: its inode and, if the file system records it, its creation time in
    /// nanoseconds since 1970. For example `inode 12, made at 1795257441123456789`. A new file of the same
    /// name has another one.
    pub file: Option<String>,
    /// The model name from its vendor.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Its firmware's revision.
    pub firmware: Option<String>,
    /// How it is attached, for example `nvme`, `sata`, `virtio`.
    pub transport: Option<String>,
    /// The size of the target itself.
    pub capacity: Bytes,
    /// The smallest IO that it accepts.
    pub logical_block: Option<Bytes>,
    /// The smallest IO that it serves efficiently.
    pub physical_block: Option<Bytes>,
    /// Whether it reports rotating media.
    pub rotational: Option<bool>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// The kernel's IO scheduler for it.
    pub scheduler: Option<String>,
    /// The unit of a discard; zero if it accepts none.
    pub discard_granularity: Option<Bytes>,
    /// The longest discard; zero if it accepts none.
    pub discard_max: Option<Bytes>,
    /// The largest IO that the kernel passes on without splitting it.
    pub largest_request: Option<Bytes>,
    /// Whether the machine is virtual, and which source says so.
    pub virtual_machine: Option<String>,
    /// The kernel.
    pub kernel: Option<String>,
    /// The processor.
    pub processor: Option<String>,
    /// How many CPUs this process may use.
    pub processors: Option<u32>,
    /// How IOs are issued, for example `synchronous O_DIRECT`, `io_uring O_DIRECT`, `virtual time`.
    pub engine: Option<String>,
    /// The health log of an NVMe device (SMART), by field.
    pub health: Option<BTreeMap<String, String>>,
    /// Rated endurance in bytes written over its life, if the device or the user states it.
    pub rated_endurance: Option<Bytes>,
    /// What a simulated device is made of, for example `page map` or `response tree`.
    #[serde(default)]
    pub mechanism: Option<String>,
    /// A number that changes with every key of a simulated device's profile that the device depends on, in hexadecimal digits.
    #[serde(default)]
    pub profile_fingerprint: Option<String>,
    /// The saved state in which a simulated device began.
    #[serde(default)]
    pub saved_state: Option<SavedState>,
}

/// The state in which a simulated device was saved, and how that is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    /// `steady`, `random writes, not known to be steady`, `random`, `sequential`.
    pub state: String,
    /// Of a steady state: the probability that the drift is within the rule's limit, if it is known.
    pub confidence: Option<f64>,
    /// What was written, or why the device counts as steady, as a part of a sentence.
    pub evidence: String,
}

impl Identity {
    /// Whether the first `used` bytes of the target are only a part of the device, as far as that is known. A file is
    /// always a part of the device that it lies on, and so is a partition.
    pub fn is_part_of_device(&self, used: Bytes) -> bool {
        used < self.capacity || self.kind == "regular file" || self.backing_device.is_some()
    }
}
