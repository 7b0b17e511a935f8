//! Reads mounts and swap areas from `/proc`.
//!
//! Invariant: an unknown line is skipped and causes no panic. Skipping is safe, because the owner of a listed
//! device also has it open exclusively.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::node::{DeviceNumber, Node};

/// A mounted file system.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mount {
    /// The kernel's number of this mount.
    pub(crate) id: u64,
    /// The device number that its files have; anonymous for btrfs and similar file systems.
    pub(crate) number: DeviceNumber,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// Its type, as `ext4`.
    pub(crate) kind: String,
    /// What was mounted, by its name at that time.
    pub(crate) source: PathBuf,
    /// The device that `source` leads to now.
    pub(crate) source_device: Option<DeviceNumber>,
}

impl Mount {
    /// Whether it is a file system of this device.
    pub(crate) fn is_of(&self, device: DeviceNumber) -> bool {
        self.number == device || self.source_device == Some(device)
    }
}

/// A swap area.
#[derive(Clone, Debug)]
pub(crate) struct Swap {
    pub(crate) path: PathBuf,
    pub(crate) node: Option<Node>,
}

/// Parses `/proc/self/mountinfo` (proc_pid_mountinfo(5)); unknown lines are skipped.
pub(crate) fn parse_mounts(text: &[u8], device_at: impl Fn(&Path) -> Option<DeviceNumber>) -> Vec<Mount> {
    let parse = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let number = DeviceNumber::parse(std::str::from_utf8(fields.nth(1)?).ok()?)?;
        let point = unescape(fields.nth(1)?);
        fields.find(|field| *field == b"-")?;
        let kind = String::from_utf8_lossy(fields.next()?).into_owned();
        let source = unescape(fields.next()?);
        let source_device = device_at(&source);
        Some(Mount { id, number, point, kind, source, source_device })
    };
    text.split(|&byte| byte == b'\n').filter_map(parse).collect()
}

/// What is mounted on this directory, by its name at the time of mounting, for example `/dev/sda1`. `None` if
/// nothing is mounted.
pub fn mounted_on(directory: &Path) -> Option<PathBuf> {
    let text = std::fs::read("/proc/self/mountinfo").ok()?;
    parse_mounts(&text, |_| None)
        .into_iter()
        .rfind(|mount| mount.point == directory)
        .map(|mount| mount.source)
}

/// Reads `/proc/swaps`, after its heading.
pub(crate) fn parse_swaps(text: &[u8], node_at: impl Fn(&Path) -> Option<Node>) -> Vec<Swap> {
    let parse = |line: &[u8]| {
        let path = unescape(line.split(|byte| byte.is_ascii_whitespace()).next()?);
        let node = node_at(&path);
        path.is_absolute().then_some(Swap { path, node })
    };
    text.split(|&byte| byte == b'\n').skip(1).filter_map(parse).collect()
}

/// Decodes the kernel's escapes such as `\040` for characters that separate fields.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some(&first) = rest.first() {
        let escaped = if first == b'\\' { rest.get(1..4).and_then(octal) } else { None };
        bytes.push(escaped.unwrap_or(first));
        rest = &rest[if escaped.is_some() { 4 } else { 1 }..];
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The byte of three octal digits.
fn octal(digits: &[u8]) -> Option<u8> {
    let digit = |d: &u8| matches!(d, b'0'..=b'7').then(|| u32::from(d - b'0'));
    let value = digits.iter().try_fold(0, |value, d| Some(value * 8 + digit(d)?))?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_optional_fields_and_escapes() {
        let text = b"36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 shared:2 - ext3 /dev/root rw\n\
                     garbage\n\
                     37 35 0:41 / /data rw - btrfs /dev/sdb rw\n40 1 8:1 / /x rw";
        let sdb = DeviceNumber::new(8, 16);
        let mounts = parse_mounts(text, |path| (path == Path::new("/dev/sdb")).then_some(sdb));
        assert_eq!(mounts.len(), 2);
        assert_eq!((mounts[0].id, mounts[0].number), (36, DeviceNumber::new(98, 0)));
        assert_eq!(mounts[0].point, Path::new("/mnt/a b"));
        assert_eq!((mounts[0].kind.as_str(), mounts[0].source_device), ("ext3", None));
        assert_eq!((mounts[1].kind.as_str(), mounts[1].source_device), ("btrfs", Some(sdb)));
    }

    #[test]
    fn a_backslash_that_escapes_nothing_is_kept() {
        for (escaped, expected) in
            [("a\\", "a\\"), ("\\04", "\\04"), ("\\999x", "\\999x"), ("\\777", "\\777")]
        {
            assert_eq!(unescape(escaped.as_bytes()), Path::new(expected));
        }
        assert_eq!(unescape(b"a\\134b\\011"), Path::new("a\\b\t"));
    }
}
