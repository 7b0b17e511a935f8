//! The attributes of a file beneath, as the kernel gets them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::Stat;

fn time_of(seconds: i64, nanos: u64) -> SystemTime {
    let nanos = Duration::from_nanos(nanos);
    match u64::try_from(seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + nanos,
        Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + nanos,
    }
}

pub(super) fn kind_of(kind: rustix::fs::FileType) -> FileType {
    match kind {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

pub(super) fn attr_of(number: u64, status: &Stat) -> FileAttr {
    let modified = time_of(status.st_mtime, status.st_mtime_nsec);
    FileAttr {
        ino: INodeNo(number),
        size: status.st_size as u64,
        blocks: status.st_blocks as u64,
        atime: time_of(status.st_atime, status.st_atime_nsec),
        mtime: modified,
        ctime: time_of(status.st_ctime, status.st_ctime_nsec),
        crtime: modified,
        kind: kind_of(rustix::fs::FileType::from_raw_mode(status.st_mode)),
        perm: (status.st_mode & 0o7777) as u16,
        nlink: status.st_nlink as u32,
        uid: status.st_uid,
        gid: status.st_gid,
        rdev: status.st_rdev as u32,
        blksize: status.st_blksize as u32,
        flags: 0,
    }
}
