//! Finds the identity of a target in sysfs, udev's database, `/proc` and the device itself.
//!
//! Invariants: nothing here writes. What no source reports is `None`. A file has the identity of the device
//! under it.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use flashlab_base::{Bytes, Identity};

use crate::block_device::BlockDevice;
use crate::machine;
use crate::node::{DeviceNumber, Node};
use crate::nvme;
use crate::scsi;
use crate::surroundings::Surroundings;
use crate::underlying::{is_in_memory, underlying_device};

/// Everything that can be found out about the identity of a target.
pub(crate) fn identify(
    name: &str,
    node: Node,
    mount: Option<u64>,
    capacity: Bytes,
    surroundings: &Surroundings,
) -> Identity {
    let mut identity = Identity { target: name.to_owned(), capacity, ..Identity::default() };
    machine::describe(&mut identity);
    match node {
        Node::Device(_) => identity.kind = "block device".to_owned(),
        Node::File { file_system, .. } => {
            identity.kind = "regular file".to_owned();
            identity.file_system = surroundings.mount_of(file_system, mount).map(|mount| mount.kind.clone());
        }
    }
    if let Some(device) = underlying_device(node, mount, surroundings) {
        let disk = device.disk();
        identity.backing_device = match node {
            Node::File { .. } => Some(device.path().display().to_string()),
            Node::Device(_) => backing_of_device(&device, &disk),
        };
        describe_queue(&disk, &mut identity);
        let disk = device.physical();
        describe_make(&disk, &mut identity);
        if let Some(beneath) = disk.loop_file().and_then(|file| underlying_transport(&file, surroundings)) {
            identity.transport = Some(format!("loop over {beneath}"));
        }
    }
    identity
}

/// How the disk under a file is attached, which may be memory. `None` if no disk is known, for example for a
/// file that a process serves.
fn underlying_transport(path: &Path, surroundings: &Surroundings) -> Option<String> {
    let node = Node::at(path).ok()?;
    if File::open(path).is_ok_and(|file| is_in_memory(&file, node, surroundings)) {
        return Some("memory".to_owned());
    }
    let disk = underlying_device(node, None, surroundings)?.physical();
    match disk.loop_file() {
        Some(file) => underlying_transport(&file, surroundings),
        None => transport(&disk, &UdevNotes::of(disk.number())),
    }
}

/// Which regular file this is, for [`Identity::file`]. The inode alone is not enough: a file system may give
/// a new file the inode of a file that was just removed.
pub(crate) fn file(metadata: &Metadata) -> Option<String> {
    let inode = metadata.is_file().then(|| metadata.ino())?;
    let made = metadata.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made = made.map_or(String::new(), |made| format!(", made at {}", made.as_nanos()));
    Some(format!("inode {inode}{made}"))
}

/// What lies under a block device: the disk of a partition, or the file of a loop device.
fn backing_of_device(device: &BlockDevice, disk: &BlockDevice) -> Option<String> {
    let beneath = if device.is_partition() { Some(disk.path()) } else { device.loop_file() };
    beneath.map(|path| path.display().to_string())
}

fn describe_queue(disk: &BlockDevice, identity: &mut Identity) {
    let bytes = |name| disk.number_of(name).map(Bytes);
    identity.logical_block = bytes("queue/logical_block_size");
    identity.physical_block = bytes("queue/physical_block_size");
    identity.rotational = disk.number_of("queue/rotational").map(|value| value != 0);
    identity.write_cache = disk.attribute("queue/write_cache");
    identity.scheduler = disk.attribute("queue/scheduler").map(|text| chosen(&text).to_owned());
    identity.discard_granularity = bytes("queue/discard_granularity");
    identity.discard_max = bytes("queue/discard_max_bytes");
    identity.largest_request = disk.number_of("queue/max_sectors_kb").map(Bytes::kib);
}

/// The word in brackets, as in `none [mq-deadline] kyber`, or the only word.
fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(word, _)| word)
}

fn describe_make(disk: &BlockDevice, identity: &mut Identity) {
    let udev = UdevNotes::of(disk.number());
    let own = scsi::identify(disk);
    let first = |names: &[&str]| names.iter().find_map(|name| disk.attribute(name));
    let model = first(&["device/model", "device/name"]).map(|model| match disk.attribute("device/vendor") {
        // The SCSI layer writes ATA if it does not know the vendor; the vendor of virtio is a number.
        Some(vendor) if vendor != "ATA" && !vendor.starts_with("0x") => format!("{vendor} {model}"),
        _ => model,
    });
    identity.model =
        own.model.or(model).or_else(|| udev.value("ID_MODEL").map(|model| model.replace('_', " ")));
    identity.serial = first(&["device/serial", "serial"])
        .or(own.serial)
        .or_else(|| udev.value("ID_SERIAL_SHORT"))
        .or_else(|| udev.value("ID_SERIAL"));
    identity.firmware =
        own.firmware.or_else(|| first(&["device/firmware_rev", "device/rev", "device/fwrev"]));
    identity.transport = transport(disk, &udev);
    if disk.name().starts_with("nvme") {
        describe_nvme(disk, identity);
    }
}

/// How a disk is attached, from the drivers in its sysfs path.
fn transport(disk: &BlockDevice, udev: &UdevNotes) -> Option<String> {
    if let Some(transport) = disk.attribute("device/transport") {
        return Some(if transport == "pcie" { "nvme".to_owned() } else { format!("nvme over {transport}") });
    }
    let name = disk.name();
    let by_name = [
        ("nvme", "nvme"),
        ("vd", "virtio"),
        ("mmcblk", "mmc"),
        ("loop", "loop"),
        ("zram", "memory"),
        ("ram", "memory"),
        ("nullb", "memory"),
        ("dm-", "device mapper"),
        ("md", "md"),
        ("nbd", "nbd"),
        ("ublk", "ublk"),
        ("xvd", "xen"),
    ];
    if let Some((_, transport)) = by_name.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return Some((*transport).to_owned());
    }
    let chain = disk.link("device").map(|path| path.display().to_string()).unwrap_or_default();
    let by_chain = [("/usb", "usb"), ("/ata", "sata"), ("/virtio", "virtio scsi"), ("/session", "iscsi")];
    let found = by_chain.iter().find(|(part, _)| chain.contains(part)).map(|(_, name)| (*name).to_owned());
    found.or_else(|| udev.value("ID_BUS"))
}

/// Adds what an NVMe controller and its namespace report; nothing without the permission to ask them.
fn describe_nvme(disk: &BlockDevice, identity: &mut Identity) {
    let Ok(device) = File::open(disk.path()) else { return };
    if let Ok(controller) = nvme::identify_controller(&device) {
        identity.model = controller.model.or(identity.model.take());
        identity.serial = controller.serial.or(identity.serial.take());
        identity.firmware = controller.firmware.or(identity.firmware.take());
    }
    if let Ok(namespace) = nvme::identify_namespace(&device) {
        identity.logical_block = namespace.logical_block.or(identity.logical_block);
    }
    identity.health = nvme::health(&device).ok();
}

/// What udev recorded about a device, if udev runs.
struct UdevNotes(String);

impl UdevNotes {
    fn of(number: DeviceNumber) -> UdevNotes {
        let path = format!("/run/udev/data/b{number}");
        UdevNotes(fs::read_to_string(Path::new(&path)).unwrap_or_default())
    }

    fn value(&self, key: &str) -> Option<String> {
        let value =
            self.0.lines().find_map(|line| line.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('='));
        value.filter(|value| !value.is_empty()).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_in_use_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("[none]"), "none");
        assert_eq!(chosen("none"), "none");
        assert_eq!(chosen("broken [none"), "broken [none");
    }

    #[test]
    fn udev_notes_are_found_by_their_whole_key() {
        let notes =
            UdevNotes("S:disk/by-id/x\nE:ID_MODEL_ENC=no\nE:ID_MODEL=Flash_Disk\nE:ID_BUS=\n".to_owned());
        assert_eq!(notes.value("ID_MODEL").as_deref(), Some("Flash_Disk"));
        assert_eq!(notes.value("ID_BUS"), None);
        assert_eq!(notes.value("MODEL"), None);
    }
}
