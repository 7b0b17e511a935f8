//! What is under a target: a block device, or the machine's memory.

use std::fs::File;

use crate::block_device::BlockDevice;
use crate::node::Node;
use crate::surroundings::Surroundings;
use crate::system::FileSystem;

/// The block device that the target is or lies on. `mount` is the mount through which the target was opened.
///
/// `None` if there is no such device (tmpfs, network file systems) or if it is not known.
pub(crate) fn underlying_device(
    node: Node,
    mount: Option<u64>,
    surroundings: &Surroundings,
) -> Option<BlockDevice> {
    let number = match node {
        Node::Device(number) => number,
        Node::File { file_system, .. } => match BlockDevice::numbered(file_system) {
            Some(device) => return Some(device),
            // Files on btrfs report a device number that belongs to no device.
            None => surroundings.mount_of(file_system, mount)?.source_device?,
        },
    };
    BlockDevice::numbered(number)
}

/// Name prefixes of kernel disks whose data is in memory (zram, ram) or not kept (nullb).
const MEMORY_DISKS: [&str; 3] = ["zram", "ram", "nullb"];

/// Whether the target's data is in the machine's memory.
pub(crate) fn is_in_memory(file: &File, node: Node, surroundings: &Surroundings) -> bool {
    let in_memory = |file: &File| FileSystem::of(file).is_ok_and(|system| system.in_memory());
    match node {
        Node::File { .. } => in_memory(file),
        Node::Device(_) => match underlying_device(node, None, surroundings).map(|device| device.disk()) {
            Some(disk) if MEMORY_DISKS.iter().any(|prefix| disk.name().starts_with(prefix)) => true,
            Some(disk) => {
                disk.loop_file().and_then(|path| File::open(path).ok()).is_some_and(|f| in_memory(&f))
            }
            None => false,
        },
    }
}
