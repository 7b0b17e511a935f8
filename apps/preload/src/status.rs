//! Status and attributes of files.
//!
//! # Invariants
//! - A managed file has the same device and number by its path and by a descriptor, because programs compare them.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use flashlab_repair::{CallStatus, FileCall};
use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, iovec, stat as Stat, statx as Statx, timespec};

use crate::connection::{self, request};
use crate::descriptors;
use crate::kernel::{call, failed};
use crate::paths::{self, Place, ResolvedPath};

/// The device of all managed files; no kernel's device has this number.
const DEVICE: (u32, u32) = (0xf1a, 0x5b);

fn status_of(header: flashlab_repair::CallHeader, path: &[u8]) -> Result<CallStatus, c_int> {
    let mut bytes = [0; CallStatus::BYTES];
    let path = [iovec { iov_base: path.as_ptr() as *mut c_void, iov_len: path.len() }];
    connection::ask(header, &path, &mut bytes)?;
    Ok(CallStatus::decode(&bytes))
}

/// The status of an open file.
pub fn of_file(file: u64) -> Result<CallStatus, c_int> {
    status_of(request(FileCall::Status, file), &[])
}

fn of_path(path: &ResolvedPath) -> Result<CallStatus, c_int> {
    status_of(request(FileCall::StatusAt, 0), path.bytes())
}

/// Whether a descriptor is a directory's.
pub fn is_directory(fd: c_int) -> bool {
    let mut found = MaybeUninit::<Stat>::zeroed();
    let result = call!(SYS_fstat, fd, found.as_mut_ptr());
    // SAFETY: it was zeroed, and every bit pattern is a stat.
    result == 0 && unsafe { found.assume_init() }.st_mode & libc::S_IFMT == libc::S_IFDIR
}

/// Replaces what the kernel says of a placeholder or descriptor.
fn put(found: &CallStatus, to: &mut Stat) {
    let modified = Duration::from_nanos(found.modified_ns);
    to.st_dev = libc::makedev(DEVICE.0, DEVICE.1);
    to.st_ino = found.file;
    to.st_mode = libc::S_IFREG | found.mode & 0o7777;
    to.st_nlink = found.links as _;
    (to.st_uid, to.st_gid) = (found.user, found.group);
    to.st_rdev = 0;
    to.st_size = found.size as i64;
    to.st_blocks = (found.allocated / 512) as i64;
    to.st_blksize = 4096;
    (to.st_mtime, to.st_mtime_nsec) = (modified.as_secs() as i64, modified.subsec_nanos().into());
    (to.st_atime, to.st_atime_nsec) = (to.st_mtime, to.st_mtime_nsec);
    (to.st_ctime, to.st_ctime_nsec) = (to.st_mtime, to.st_mtime_nsec);
}

fn put_extended(found: &CallStatus, to: &mut Statx) {
    let modified = Duration::from_nanos(found.modified_ns);
    (to.stx_dev_major, to.stx_dev_minor) = DEVICE;
    to.stx_ino = found.file;
    to.stx_mode = (libc::S_IFREG | found.mode & 0o7777) as u16;
    to.stx_nlink = found.links;
    (to.stx_uid, to.stx_gid) = (found.user, found.group);
    to.stx_size = found.size;
    to.stx_blocks = found.allocated / 512;
    to.stx_blksize = 4096;
    to.stx_mtime.tv_sec = modified.as_secs() as i64;
    to.stx_mtime.tv_nsec = modified.subsec_nanos();
    (to.stx_atime, to.stx_ctime) = (to.stx_mtime, to.stx_mtime);
}

/// The status of what a call names: an open managed file, or the file of a placeholder.
unsafe fn managed_status(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    is_placeholder: bool,
) -> Option<Result<CallStatus, c_int>> {
    // SAFETY: the caller's path ends with a zero byte.
    let is_empty = path.is_null() || unsafe { *path } == 0;
    if flags & AT_EMPTY_PATH != 0 && is_empty {
        return descriptors::get(directory).map(|managed| of_file(managed.file()));
    }
    if !is_placeholder {
        return None;
    }
    // SAFETY: as above.
    let path = unsafe { paths::managed(directory, path, flags & AT_SYMLINK_NOFOLLOW == 0) };
    path.map(|path| of_path(&path))
}

unsafe fn stat_at(directory: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int {
    if call!(SYS_newfstatat, directory, path, to, flags) != 0 {
        return -1;
    }
    // SAFETY: the kernel has filled it.
    let to = unsafe { &mut *to };
    let is_placeholder = paths::is_placeholder(to.st_mode, to.st_mtime);
    // SAFETY: the caller's.
    match unsafe { managed_status(directory, path, flags, is_placeholder) } {
        None => 0,
        Some(Ok(found)) => {
            put(&found, to);
            0
        }
        Some(Err(error)) => failed(error),
    }
}

export!(stat stat64 => (path: *const c_char, to: *mut Stat) -> c_int {
    stat_at(AT_FDCWD, path, to, 0)
});
export!(lstat lstat64 => (path: *const c_char, to: *mut Stat) -> c_int {
    stat_at(AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW)
});
export!(fstat fstat64 => (fd: c_int, to: *mut Stat) -> c_int {
    stat_at(fd, c"".as_ptr(), to, AT_EMPTY_PATH)
});
export!(fstatat fstatat64 => (directory: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int {
    stat_at(directory, path, to, flags)
});
// The names of these functions in programs that were built with an older libc.
export!(__xstat __xstat64 => (_version: c_int, path: *const c_char, to: *mut Stat) -> c_int {
    stat_at(AT_FDCWD, path, to, 0)
});
export!(__lxstat __lxstat64 => (_version: c_int, path: *const c_char, to: *mut Stat) -> c_int {
    stat_at(AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW)
});
export!(__fxstat __fxstat64 => (_version: c_int, fd: c_int, to: *mut Stat) -> c_int {
    stat_at(fd, c"".as_ptr(), to, AT_EMPTY_PATH)
});
export!(__fxstatat __fxstatat64 => (_version: c_int, directory: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int {
    stat_at(directory, path, to, flags)
});
export!(statx => (directory: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut Statx) -> c_int {
    // The time and the type show a placeholder.
    let asked = mask | libc::STATX_MTIME | libc::STATX_TYPE;
    if call!(SYS_statx, directory, path, flags, asked, to) != 0 {
        return -1;
    }
    let is_placeholder = paths::is_placeholder((*to).stx_mode.into(), (*to).stx_mtime.tv_sec);
    match managed_status(directory, path, flags, is_placeholder) {
        None => 0,
        Some(Ok(found)) => {
            put_extended(&found, &mut *to);
            0
        }
        Some(Err(error)) => failed(error),
    }
});

const SAME: CallStatus = CallStatus {
    file: 0,
    size: 0,
    allocated: 0,
    modified_ns: u64::MAX,
    mode: CallStatus::SAME,
    user: CallStatus::SAME,
    group: CallStatus::SAME,
    links: 0,
};

fn set(file: Result<u64, c_int>, new: CallStatus) -> c_int {
    let bytes = new.encode();
    let data = [iovec { iov_base: bytes.as_ptr() as *mut c_void, iov_len: bytes.len() }];
    let done = file.and_then(|file| connection::ask(request(FileCall::SetAttributes, file), &data, &mut []));
    done.map_or_else(failed, |_| 0)
}

/// Changes attributes of a path's file on the volume, after the kernel changed its placeholder.
unsafe fn set_at(
    directory: c_int,
    path: *const c_char,
    follows: bool,
    changed: i64,
    new: CallStatus,
) -> c_int {
    if changed != 0 {
        return -1;
    }
    // SAFETY: the caller's.
    match unsafe { paths::managed(directory, path, follows) } {
        Some(path) if paths::place(&path) == Place::Placeholder => {
            set(of_path(&path).map(|found| found.file), new)
        }
        _ => 0,
    }
}

export!(chmod => (path: *const c_char, mode: c_uint) -> c_int {
    fchmodat(AT_FDCWD, path, mode, 0)
});
export!(fchmodat => (directory: c_int, path: *const c_char, mode: c_uint, flags: c_int) -> c_int {
    if flags != 0 {
        return failed(libc::EOPNOTSUPP);
    }
    let changed = call!(SYS_fchmodat, directory, path, mode);
    set_at(directory, path, true, changed, CallStatus { mode, ..SAME })
});
export!(fchmod => (fd: c_int, mode: c_uint) -> c_int {
    match descriptors::get(fd) {
        Some(managed) => set(Ok(managed.file()), CallStatus { mode, ..SAME }),
        None => call!(SYS_fchmod, fd, mode) as c_int,
    }
});
export!(chown => (path: *const c_char, user: c_uint, group: c_uint) -> c_int {
    fchownat(AT_FDCWD, path, user, group, 0)
});
export!(lchown => (path: *const c_char, user: c_uint, group: c_uint) -> c_int {
    fchownat(AT_FDCWD, path, user, group, AT_SYMLINK_NOFOLLOW)
});
export!(fchownat => (directory: c_int, path: *const c_char, user: c_uint, group: c_uint, flags: c_int) -> c_int {
    let changed = call!(SYS_fchownat, directory, path, user, group, flags);
    set_at(directory, path, flags & AT_SYMLINK_NOFOLLOW == 0, changed, CallStatus { user, group, ..SAME })
});
export!(fchown => (fd: c_int, user: c_uint, group: c_uint) -> c_int {
    match descriptors::get(fd) {
        Some(managed) => set(Ok(managed.file()), CallStatus { user, group, ..SAME }),
        None => call!(SYS_fchown, fd, user, group) as c_int,
    }
});

unsafe fn modified_ns(times: *const timespec) -> u64 {
    // SAFETY: the caller's: two times, or null for now.
    let given = (!times.is_null()).then(|| unsafe { *times.add(1) });
    match given {
        Some(time) if time.tv_nsec == libc::UTIME_OMIT => u64::MAX,
        Some(time) if time.tv_nsec != libc::UTIME_NOW => {
            (time.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
        }
        _ => {
            let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
            call!(SYS_clock_gettime, libc::CLOCK_REALTIME, &mut now as *mut timespec);
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
        }
    }
}

export!(utimensat => (directory: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int {
    if let Some(managed) = paths::managed(directory, path, flags & AT_SYMLINK_NOFOLLOW == 0)
        && paths::place(&managed) == Place::Placeholder
    {
        // The placeholder keeps its time, by which it is known.
        let new = CallStatus { modified_ns: modified_ns(times), ..SAME };
        return set(of_path(&managed).map(|found| found.file), new);
    }
    call!(SYS_utimensat, directory, path, times, flags) as c_int
});
export!(futimens => (fd: c_int, times: *const timespec) -> c_int {
    match descriptors::get(fd) {
        Some(managed) => set(Ok(managed.file()), CallStatus { modified_ns: modified_ns(times), ..SAME }),
        None => call!(SYS_utimensat, fd, 0, times, 0) as c_int,
    }
});
export!(utimes => (path: *const c_char, times: *const libc::timeval) -> c_int {
    if times.is_null() {
        return utimensat(AT_FDCWD, path, std::ptr::null(), 0);
    }
    let exact = [0, 1].map(|index| {
        let time = *times.add(index);
        timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_usec * 1000 }
    });
    utimensat(AT_FDCWD, path, exact.as_ptr(), 0)
});
export!(utime => (path: *const c_char, times: *const libc::utimbuf) -> c_int {
    if times.is_null() {
        return utimensat(AT_FDCWD, path, std::ptr::null(), 0);
    }
    let exact = [(*times).actime, (*times).modtime].map(|time| timespec { tv_sec: time, tv_nsec: 0 });
    utimensat(AT_FDCWD, path, exact.as_ptr(), 0)
});
