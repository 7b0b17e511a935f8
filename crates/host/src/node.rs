//! Identifies the device or file that a path leads to, whatever the path is.
//!
//! Two paths lead to the same device if their nodes have the same device number. They lead to the same file
//! if they have the same inode of the same file system. Symlinks, by-id links, other device nodes and hard
//! links make no difference.

use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::error::HostError;
use crate::system;

/// The kernel's number of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DeviceNumber(pub(crate) u64);

impl DeviceNumber {
    pub(crate) fn new(major: u32, minor: u32) -> DeviceNumber {
        DeviceNumber(libc::makedev(major, minor))
    }

    /// Parses `259:3`, the form in sysfs and mountinfo.
    pub(crate) fn parse(text: &str) -> Option<DeviceNumber> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(DeviceNumber::new(major.parse().ok()?, minor.parse().ok()?))
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", libc::major(self.0), libc::minor(self.0))
    }
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// A block device, by its number.
    Device(DeviceNumber),
    /// A regular file, by its file system's device number and its inode.
    File { file_system: DeviceNumber, inode: u64 },
}

impl Node {
    /// The node of this metadata; the name of its kind if it is neither device nor file.
    pub(crate) fn of(metadata: &Metadata) -> Result<Node, &'static str> {
        let kind = metadata.file_type();
        if kind.is_block_device() {
            Ok(Node::Device(DeviceNumber(metadata.rdev())))
        } else if kind.is_file() {
            Ok(Node::File { file_system: DeviceNumber(metadata.dev()), inode: metadata.ino() })
        } else if kind.is_dir() {
            Err("directory")
        } else if kind.is_char_device() {
            Err("character device")
        } else {
            Err("pipe or socket")
        }
    }

    /// The node that a path leads to, as far as the kernel knows it without asking a server of files. `None` if it is neither a
    /// block device nor a regular file.
    pub(crate) fn known_at(path: &Path) -> Option<Node> {
        let status = system::known_status(path)?;
        match u32::from(status.stx_mode) & libc::S_IFMT {
            libc::S_IFBLK => {
                Some(Node::Device(DeviceNumber::new(status.stx_rdev_major, status.stx_rdev_minor)))
            }
            libc::S_IFREG => Some(Node::File {
                file_system: DeviceNumber::new(status.stx_dev_major, status.stx_dev_minor),
                inode: status.stx_ino,
            }),
            _ => None,
        }
    }

    /// The node that a path leads to; symlinks are followed.
    ///
    /// # Errors
    /// If nothing is there, or it is neither a block device nor a regular file.
    pub(crate) fn at(path: &Path) -> Result<Node, HostError> {
        let metadata = fs::metadata(path).map_err(|e| HostError::system("look at", path, e))?;
        let no_target = |kind| HostError::NoTarget { path: path.to_owned(), kind };
        let node = Node::of(&metadata).map_err(no_target)?;
        // Writing to one of these files changes the kernel's settings.
        match node {
            Node::File { .. } if system::is_made_by_the_kernel(path) => {
                Err(no_target("file of the kernel, which holds no data"))
            }
            _ => Ok(node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_read_and_written_as_sysfs_does() {
        assert_eq!(DeviceNumber::parse("259:1048575\n"), Some(DeviceNumber::new(259, 1_048_575)));
        assert_eq!(DeviceNumber::new(8, 17).to_string(), "8:17");
        for wrong in ["", "8", "8:", ":1", "a:b", "8:-1"] {
            assert_eq!(DeviceNumber::parse(wrong), None);
        }
    }

    #[test]
    fn only_files_and_block_devices_are_targets() {
        assert!(matches!(Node::at(Path::new("/")), Err(HostError::NoTarget { kind: "directory", .. })));
        let error = Node::at(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("character device"), "{error}");
        for file in [
            "/proc/self/mem",
            "/proc/version",
            "/sys/kernel/uevent_seqnum",
            "/sys/block/../kernel/uevent_seqnum",
        ] {
            let error = Node::at(Path::new(file)).unwrap_err().to_string();
            assert!(error.contains("file of the kernel"), "{error}");
        }
        assert!(matches!(Node::at(Path::new("/nowhere")), Err(HostError::System { .. })));
    }
}
