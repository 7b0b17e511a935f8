//! Reads the description of a block device from sysfs.
//!
//! # Model
//! `/sys/dev/block/MAJOR:MINOR` leads to the device's directory. The directory of a partition lies within
//! that of its disk. `holders/` lists the devices that use this one (md, LVM, dm).
//!
//! Invariant: nothing here opens a device. What sysfs does not contain is `None`.

use std::fs;
use std::path::{Path, PathBuf};

use flashlab_base::Bytes;

use crate::node::DeviceNumber;

/// The unit of sizes in sysfs, whatever the device's block size is.
const SECTOR: u64 = 512;

/// A disk, a partition, or a device built from other devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockDevice {
    number: DeviceNumber,
    directory: PathBuf,
}

impl BlockDevice {
    /// The device with this number, if the kernel knows it.
    pub(crate) fn numbered(number: DeviceNumber) -> Option<BlockDevice> {
        let directory = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
        Some(BlockDevice { number, directory })
    }

    /// Every disk that has a capacity, in the order of their names.
    pub(crate) fn disks() -> Vec<BlockDevice> {
        let mut disks = listed(Path::new("/sys/block"));
        disks.retain(|disk| disk.capacity() > Bytes::ZERO);
        disks
    }

    /// The device that a directory of sysfs describes.
    pub(crate) fn in_directory(directory: &Path) -> Option<BlockDevice> {
        let directory = fs::canonicalize(directory).ok()?;
        let number = DeviceNumber::parse(&fs::read_to_string(directory.join("dev")).ok()?)?;
        Some(BlockDevice { number, directory })
    }

    pub(crate) fn number(&self) -> DeviceNumber {
        self.number
    }

    /// The kernel's name for it, as `nvme0n1`.
    pub(crate) fn name(&self) -> String {
        // sysfs writes a slash in a name as an exclamation mark.
        self.directory.file_name().unwrap_or_default().to_string_lossy().replace('!', "/")
    }

    /// The usual path of its device node.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/dev").join(self.name())
    }

    pub(crate) fn is_partition(&self) -> bool {
        self.directory.join("partition").exists()
    }

    /// This disk, or the disk of which this is a partition.
    pub(crate) fn disk(&self) -> BlockDevice {
        let parent = self.directory.parent().filter(|_| self.is_partition());
        parent.and_then(BlockDevice::in_directory).unwrap_or_else(|| self.clone())
    }

    /// The disk under everything: through partitions, and through devices that are built from a single other
    /// one, as encrypted and logical volumes usually are.
    pub(crate) fn physical(&self) -> BlockDevice {
        let disk = self.disk();
        match listed(&disk.directory.join("slaves")).as_slice() {
            [only] if *only != disk => only.physical(),
            _ => disk,
        }
    }

    /// The partitions that the kernel knows on this disk.
    pub(crate) fn partitions(&self) -> Vec<BlockDevice> {
        let mut partitions = listed(&self.directory);
        partitions.retain(BlockDevice::is_partition);
        partitions
    }

    /// The devices that are built from this one.
    pub(crate) fn holders(&self) -> Vec<BlockDevice> {
        listed(&self.directory.join("holders"))
    }

    /// The text of a file in its directory, trimmed; `None` if it is missing or empty.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        let text = fs::read(self.directory.join(name)).ok()?;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The bytes of a file in its directory.
    pub(crate) fn bytes_of(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.directory.join(name)).ok()
    }

    /// The number in a file of its directory.
    pub(crate) fn number_of(&self, name: &str) -> Option<u64> {
        self.attribute(name)?.parse().ok()
    }

    /// The target of the link `name` in its directory.
    pub(crate) fn link(&self, name: &str) -> Option<PathBuf> {
        fs::canonicalize(self.directory.join(name)).ok()
    }

    pub(crate) fn capacity(&self) -> Bytes {
        Bytes(self.number_of("size").unwrap_or(0).saturating_mul(SECTOR))
    }

    /// Whether the kernel refuses writes to it or to its disk.
    pub(crate) fn is_read_only(&self) -> bool {
        [self, &self.disk()].iter().any(|device| device.number_of("ro") == Some(1))
    }

    /// Whether the device still exists. It may have been removed.
    pub(crate) fn is_there(&self) -> bool {
        self.directory.exists()
    }

    /// A number that is unique since boot. A device number can be reused.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.disk().number_of("diskseq")
    }

    /// The file behind a loop device, as sysfs prints it.
    pub(crate) fn loop_file(&self) -> Option<PathBuf> {
        self.attribute("loop/backing_file").map(PathBuf::from)
    }

    /// The kind of a device built from others, for example `LVM` or `md raid1`, if its name does not show it.
    pub(crate) fn layer(&self) -> Option<String> {
        if let Some(uuid) = self.attribute("dm/uuid") {
            let kind = uuid.split('-').next().unwrap_or_default();
            return Some(format!("device mapper, {kind}"));
        }
        if let Some(level) = self.attribute("md/level") {
            return Some(format!("md {level}"));
        }
        self.directory.join("bcache").exists().then(|| "bcache".to_owned())
    }

    /// The kernel's counters of bytes read, written and discarded since boot.
    pub(crate) fn statistics_file(&self) -> PathBuf {
        self.directory.join("stat")
    }
}

/// The block devices among a directory's entries.
fn listed(directory: &Path) -> Vec<BlockDevice> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut devices: Vec<BlockDevice> =
        entries.filter_map(|entry| BlockDevice::in_directory(&entry.path())).collect();
    devices.sort_by_key(|device| (device.name().len(), device.name()));
    devices
}

/// The bytes moved, from the text of a statistics file. Its third, seventh and fourteenth fields are the
/// sectors read, written and discarded (Documentation/block/stat.rst).
pub(crate) fn bytes_moved(statistics: &str) -> Option<Bytes> {
    let fields: Vec<u64> = statistics.split_ascii_whitespace().map_while(|f| f.parse().ok()).collect();
    let sectors = fields.get(2)?.wrapping_add(*fields.get(6)?);
    // Kernels before 4.18 count no discards.
    let discarded = fields.get(13).copied().unwrap_or(0);
    Some(Bytes(sectors.wrapping_add(discarded).wrapping_mul(SECTOR)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_what_was_read_written_and_discarded() {
        let old = "1 2 10 4 5 6 20 8 9 10 11";
        assert_eq!(bytes_moved(old), Some(Bytes(30 * 512)));
        assert_eq!(bytes_moved(&format!("  {old} 12 13 5 15 16 17\n")), Some(Bytes(35 * 512)));
        assert_eq!(bytes_moved("1 2 x"), None);
        assert_eq!(bytes_moved(""), None);
    }

    #[test]
    fn the_disk_beneath_a_stack_of_single_devices_is_found() {
        let root = std::env::temp_dir().join(format!("flashlab-stack-{}", std::process::id()));
        let make = |name: &str, minor: u32| {
            let directory = root.join(name);
            fs::create_dir_all(directory.join("slaves")).unwrap();
            fs::write(directory.join("dev"), format!("250:{minor}\n")).unwrap();
            directory
        };
        let (disk, partition, other) = (make("disk", 0), make("disk/disk1", 1), make("other", 2));
        fs::write(partition.join("partition"), "1\n").unwrap();
        let (encrypted, mirror) = (make("dm-0", 3), make("md0", 4));
        let link = |from: &Path, to: &Path| {
            std::os::unix::fs::symlink(to, from.join("slaves").join(to.file_name().unwrap())).unwrap();
        };
        link(&encrypted, &partition);
        link(&mirror, &encrypted);
        let at = |path: &Path| BlockDevice::in_directory(path).unwrap();
        let found = at(&mirror).physical();
        link(&mirror, &other);
        let of_two = at(&mirror).physical();
        let (disk, mirror) = (at(&disk), at(&mirror));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, disk);
        assert_eq!(of_two, mirror, "a mirror of two has no one disk beneath");
    }

    #[test]
    fn every_disk_is_found_again_by_its_number() {
        for disk in BlockDevice::disks() {
            assert_eq!(BlockDevice::numbered(disk.number()), Some(disk.clone()));
            assert_eq!(disk.disk(), disk);
            assert!(!disk.is_partition());
        }
    }
}
