//! Finds out how the machine uses its block devices: the facts behind a refusal.
//!
//! # Model
//! 1. [`Surroundings::look`] takes a snapshot of mounts, swap areas, loop devices, members of multi-device
//!    file systems, and of what programs have open for writing.
//! 2. [`Surroundings::uses`] then lists all uses of a device or file.
//!
//! A disk is in use if one of its partitions is, and a partition if its whole disk is. A loop device is in
//! use if another program uses the file or device under it.
//!
//! Invariants:
//! - Everything is compared by device number and inode, never by name.
//! - [`Surroundings::look`] writes nothing, and opens only loop devices, for reading.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::block_device::BlockDevice;
use crate::mounts::{Mount, Swap, parse_mounts, parse_swaps};
use crate::node::{DeviceNumber, Node};
use crate::refusal::{Reason, Refusal};
use crate::system;
use crate::writers::{Writer, writers};

/// A loop device that is attached to something.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    device: DeviceNumber,
    name: String,
    file: PathBuf,
    node: Option<Node>,
}

/// A device that a multi-device file system lists as its member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    device: DeviceNumber,
    file_system: String,
}

/// A snapshot of how the machine uses its block devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    pub(crate) mounts: Vec<Mount>,
    pub(crate) swaps: Vec<Swap>,
    pub(crate) loops: Vec<Loop>,
    pub(crate) members: Vec<Member>,
    pub(crate) writers: Vec<Writer>,
}

impl Surroundings {
    /// Takes the picture.
    pub(crate) fn look() -> Surroundings {
        let read = |path| fs::read(path).unwrap_or_default();
        Surroundings {
            mounts: parse_mounts(&read("/proc/self/mountinfo"), device_at),
            swaps: parse_swaps(&read("/proc/swaps"), |path| Node::at(path).ok()),
            loops: BlockDevice::disks().iter().filter_map(look_at_loop).collect(),
            members: [
                members("/sys/fs/btrfs", "devices", "btrfs"),
                members("/sys/fs/bcachefs", "", "bcachefs"),
            ]
            .concat(),
            writers: writers(),
        }
    }

    /// All uses of this device or file.
    pub(crate) fn uses(&self, node: Node) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        self.collect(node, "the file", &mut Vec::new(), &mut refusals);
        refusals
    }

    /// As [`Surroundings::uses`]; `above` are the loop devices on the path to it, and `file` names it if it is a file.
    fn collect(&self, node: Node, file: &str, above: &mut Vec<DeviceNumber>, refusals: &mut Vec<Refusal>) {
        match node {
            Node::File { .. } => {
                self.swaps_and_loops(node, file, above, refusals);
                self.writers_of(node, file, refusals);
            }
            Node::Device(number) => match BlockDevice::numbered(number) {
                Some(device) => self.collect_device(&device, above, refusals),
                None => refusals.push(Refusal::new(
                    Reason::Unknown,
                    format!("the kernel does not describe device {number} in /sys"),
                    "mount sysfs at /sys, so that flashlab can tell what uses the device",
                )),
            },
        }
    }

    fn collect_device(
        &self,
        device: &BlockDevice,
        above: &mut Vec<DeviceNumber>,
        refusals: &mut Vec<Refusal>,
    ) {
        let mut family = vec![device.clone()];
        if device.is_partition() {
            family.push(device.disk());
        } else {
            family.extend(device.partitions());
        }
        for relative in &family {
            self.mounts_of(relative, refusals);
            holders_of(relative, refusals);
            let name = relative.path().display().to_string();
            let node = Node::Device(relative.number());
            self.swaps_and_loops(node, &name, above, refusals);
            self.writers_of(node, &name, refusals);
        }
        let disk = device.disk();
        if let Some(own) = self.loops.iter().find(|candidate| candidate.device == disk.number()) {
            self.collect_beneath(own, above, refusals);
        }
    }

    /// A loop device is in use if its file or device is.
    fn collect_beneath(&self, own: &Loop, above: &mut Vec<DeviceNumber>, refusals: &mut Vec<Refusal>) {
        if above.contains(&own.device) {
            return;
        }
        above.push(own.device);
        match own.node {
            Some(node) => self.collect(node, &own.file.display().to_string(), above, refusals),
            None => refusals.push(Refusal::new(
                Reason::Unknown,
                format!("/dev/{} serves from {}, which cannot be looked at", own.name, own.file.display()),
                "run flashlab as root, where that file is visible",
            )),
        }
        above.pop();
    }

    fn mounts_of(&self, device: &BlockDevice, refusals: &mut Vec<Refusal>) {
        let number = device.number();
        for mount in &self.mounts {
            if mount.is_of(number) {
                let point = mount.point.display();
                refusals.push(Refusal::new(
                    Reason::Mounted,
                    format!("{} is mounted on {point} as {}", device.path().display(), mount.kind),
                    format!("unmount it (`umount {point}`), if nothing there is needed"),
                ));
            }
        }
        for member in self.members.iter().filter(|member| member.device == number) {
            refusals.push(Refusal::new(
                Reason::Mounted,
                format!("{} is a part of the {}", device.path().display(), member.file_system),
                "unmount that file system, or remove the device from it",
            ));
        }
    }

    fn swaps_and_loops(&self, node: Node, name: &str, above: &[DeviceNumber], refusals: &mut Vec<Refusal>) {
        for swap in self.swaps.iter().filter(|swap| swap.node == Some(node)) {
            refusals.push(Refusal::new(
                Reason::Swap,
                format!("{name} is in use as swap space ({})", swap.path.display()),
                format!("take it out of use (`swapoff {}`)", swap.path.display()),
            ));
        }
        for other in &self.loops {
            if other.node == Some(node) && !above.contains(&other.device) {
                let mut what = format!("/dev/{} serves from {}", other.name, other.file.display());
                let mut advice = format!("detach it (`losetup -d /dev/{}`), if nothing needs it", other.name);
                if let Some(mount) = self.mounts.iter().find(|mount| mount.is_of(other.device)) {
                    what += &format!(", and is mounted on {}", mount.point.display());
                    advice = format!("unmount it (`umount {}`), then {advice}", mount.point.display());
                }
                refusals.push(Refusal::new(Reason::Loop, what, advice));
            }
        }
    }

    fn writers_of(&self, node: Node, name: &str, refusals: &mut Vec<Refusal>) {
        for writer in self.writers.iter().filter(|writer| writer.node == node && writer.lasts()) {
            let Writer { process, program, .. } = writer;
            refusals.push(Refusal::new(
                Reason::OpenForWriting,
                format!("{name} is open for writing in process {process} ({program})"),
                format!(
                    "wait until that program has ended, or end it (`kill {process}`), if nothing needs it"
                ),
            ));
        }
    }

    /// The mounted file system that a file lies on. The mount through which the file was opened decides if it
    /// is known: files of a btrfs subvolume have a device number that no mount has.
    pub(crate) fn mount_of(&self, file_system: DeviceNumber, id: Option<u64>) -> Option<&Mount> {
        let by_id = self.mounts.iter().find(|mount| Some(mount.id) == id);
        by_id.or_else(|| self.mounts.iter().find(|mount| mount.number == file_system))
    }
}

fn holders_of(device: &BlockDevice, refusals: &mut Vec<Refusal>) {
    for holder in device.holders() {
        let layer = holder.layer().map(|layer| format!(" ({layer})")).unwrap_or_default();
        refusals.push(Refusal::new(
            Reason::Holder,
            format!("{} is a part of {}{layer}", device.path().display(), holder.path().display()),
            "take that device apart first (`dmsetup remove`, `vgchange -an`, `mdadm --stop`)",
        ));
    }
}

fn device_at(path: &Path) -> Option<DeviceNumber> {
    match Node::at(path) {
        Ok(Node::Device(number)) => Some(number),
        _ => None,
    }
}

/// What a loop device is attached to: by the kernel's numbers or, if the loop device cannot be opened, by
/// name.
fn look_at_loop(device: &BlockDevice) -> Option<Loop> {
    let file = device.loop_file()?;
    let by_number = File::open(device.path()).and_then(|opened| system::loop_backing(&opened)).ok();
    let node = match by_number {
        Some((_, _, backing_device)) if backing_device != 0 => {
            Some(Node::Device(DeviceNumber(backing_device)))
        }
        Some((file_system, inode, _)) => Some(Node::File { file_system: DeviceNumber(file_system), inode }),
        None => Node::at(&file).ok(),
    };
    Some(Loop { device: device.number(), name: device.name(), file, node })
}

/// The devices of mounted multi-device file systems. A mount names only one of them.
fn members(root: &str, within: &str, kind: &str) -> Vec<Member> {
    let mut members = Vec::new();
    for file_system in fs::read_dir(root).into_iter().flatten().flatten() {
        for entry in fs::read_dir(file_system.path().join(within)).into_iter().flatten().flatten() {
            // btrfs links to the device itself; bcachefs to a folder with a link `block` in it.
            let number = ["dev", "block/dev"]
                .iter()
                .find_map(|name| DeviceNumber::parse(&fs::read_to_string(entry.path().join(name)).ok()?));
            if let Some(device) = number {
                let name = file_system.file_name().to_string_lossy().into_owned();
                members.push(Member { device, file_system: format!("{kind} file system {name}") });
            }
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Node = Node::File { file_system: DeviceNumber(5), inode: 77 };

    #[test]
    fn a_file_is_on_the_mount_it_was_opened_through() {
        let text = b"36 1 8:1 / / rw - ext4 /dev/sda1 rw\n37 1 0:41 /home /home rw - btrfs /dev/sdb rw\n";
        let mounts = parse_mounts(text, |_| None);
        let picture = Surroundings { mounts, ..Surroundings::default() };
        let kind = |number, id| picture.mount_of(number, id).map(|mount| mount.kind.as_str());
        let subvolume = DeviceNumber::new(0, 55);
        assert_eq!(kind(subvolume, Some(37)), Some("btrfs"));
        assert_eq!(kind(subvolume, None), None);
        assert_eq!(kind(DeviceNumber::new(8, 1), None), Some("ext4"));
    }

    #[test]
    fn a_device_that_others_are_built_upon_is_in_use() {
        let root = std::env::temp_dir().join(format!("flashlab-holders-{}", std::process::id()));
        let make = |path: &str, file: &str, content: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.join(file).parent().unwrap()).unwrap();
            fs::write(path.join(file), content).unwrap();
            path
        };
        let disk = make("disk", "dev", "250:0\n");
        make("disk/disk1", "dev", "250:1\n");
        let partition = make("disk/disk1", "partition", "1\n");
        make("dm-0", "dev", "252:0\n");
        let volume = make("dm-0", "dm/uuid", "LVM-abcdef\n");
        fs::create_dir_all(partition.join("holders")).unwrap();
        std::os::unix::fs::symlink(&volume, partition.join("holders/dm-0")).unwrap();
        let uses = |path: &Path| {
            let mut refusals = Vec::new();
            let device = BlockDevice::in_directory(path).unwrap();
            Surroundings::default().collect_device(&device, &mut Vec::new(), &mut refusals);
            refusals
        };
        let (of_disk, of_partition, of_volume) = (uses(&disk), uses(&partition), uses(&volume));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(of_disk.iter().map(|refusal| refusal.reason).collect::<Vec<_>>(), [Reason::Holder]);
        assert_eq!(of_disk, of_partition);
        let finding = &of_disk[0].finding;
        assert_eq!(finding, "/dev/disk1 is a part of /dev/dm-0 (device mapper, LVM)");
        assert_eq!(of_volume, []);
    }

    #[test]
    fn a_member_of_a_mounted_pool_is_in_use_though_no_mount_names_it() {
        let Some(disk) = BlockDevice::disks().into_iter().next() else { return };
        let member = Member { device: disk.number(), file_system: "btrfs file system x".to_owned() };
        let picture = Surroundings { members: vec![member], ..Surroundings::default() };
        let uses = picture.uses(Node::Device(disk.number()));
        assert!(uses.iter().any(|refusal| refusal.reason == Reason::Mounted), "{uses:?}");
    }

    #[test]
    fn swap_areas_are_read_after_the_heading() {
        let text = b"Filename\t\t\tType\n/swap\\040file                           file\t\t1024\t0\t-2\n";
        let swaps = parse_swaps(text, |_| Some(FILE));
        assert_eq!(swaps.len(), 1);
        assert_eq!(swaps[0].path, Path::new("/swap file"));
        let picture = Surroundings { swaps, ..Surroundings::default() };
        let uses = picture.uses(FILE);
        assert_eq!(uses.iter().map(|refusal| refusal.reason).collect::<Vec<_>>(), [Reason::Swap]);
    }

    #[test]
    fn a_loop_device_is_in_use_when_its_file_serves_another() {
        let attached = |minor, name: &str| Loop {
            device: DeviceNumber::new(7, minor),
            name: name.to_owned(),
            file: PathBuf::from("/image"),
            node: Some(FILE),
        };
        let first = attached(200, "loop200");
        let mut picture = Surroundings { loops: vec![first.clone()], ..Surroundings::default() };
        let uses_beneath = |picture: &Surroundings| {
            let mut refusals = Vec::new();
            picture.collect_beneath(&first, &mut Vec::new(), &mut refusals);
            refusals.len()
        };
        assert_eq!(uses_beneath(&picture), 0);
        assert_eq!(picture.uses(FILE).len(), 1);
        picture.loops.push(attached(201, "loop201"));
        assert_eq!(uses_beneath(&picture), 1);
        assert_eq!(picture.uses(FILE).len(), 2);
    }
}
