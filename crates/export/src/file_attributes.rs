//! The attributes of files, as Linux has them: permissions, kinds and times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flashlab_repair::{FileAttributes, FileKind, FileStatus};
use fuser::{FileAttr, FileType, INodeNo, Request, TimeOrNow};

/// The permissions in Linux's mode.
pub(crate) const PERMISSIONS: u32 = 0o7777;
const SET_USER: u32 = 0o4000;
/// In the mode of a directory: what is made in it belongs to its group.
pub(crate) const SET_GROUP: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o010;

/// The mode after a change of the data or the owner. Without its permission to execute, the bit of the group means something else, and
/// stays for members of the group.
pub(crate) fn without_set_ids(mode: u32, group: u32, request: &Request) -> u32 {
    let may_keep = is_root(request) || request.gid() == group;
    let set_group = if may_keep && mode & GROUP_EXECUTES == 0 { 0 } else { SET_GROUP };
    mode & !SET_USER & !set_group
}

pub(crate) fn is_root(request: &Request) -> bool {
    request.uid() == 0
}

pub(crate) fn type_of(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::SymbolicLink => FileType::Symlink,
    }
}

pub(crate) fn time_ns(time: TimeOrNow, now_ns: i64) -> i64 {
    match time {
        TimeOrNow::Now => now_ns,
        TimeOrNow::SpecificTime(time) => {
            let (seconds, nanoseconds) = seconds_of(time);
            seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds.into())
        }
    }
}

/// A time that a program asked for, in seconds since 1970 and nanoseconds after them.
pub(crate) fn seconds_of(time: SystemTime) -> (i64, u32) {
    let seconds = |distance: Duration| i64::try_from(distance.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (seconds(since), since.subsec_nanos()),
        // fuser 0.18 makes of -s seconds and n nanoseconds the time s seconds and n nanoseconds before 1970.
        Err(before) => (-seconds(before.duration()), before.duration().subsec_nanos()),
    }
}

fn time_of(ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    if ns < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

pub(crate) fn attr_of(status: &FileStatus) -> FileAttr {
    let FileAttributes { modified_ns, changed_ns, accessed_ns, .. } = status.attributes;
    FileAttr {
        ino: INodeNo(status.id.0),
        size: status.size.0,
        blocks: status.allocated.0 / 512,
        atime: time_of(accessed_ns),
        mtime: time_of(modified_ns),
        ctime: time_of(changed_ns),
        crtime: UNIX_EPOCH,
        kind: type_of(status.kind),
        perm: status.attributes.mode as u16,
        nlink: status.links,
        uid: status.attributes.user,
        gid: status.attributes.group,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
