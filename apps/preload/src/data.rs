//! Reading, writing and syncing.

use std::ffi::{c_int, c_uint, c_void};
use std::slice;

use flashlab_repair::{CALL_BYTES_MAX, CallHeader, FileCall};
use libc::iovec;

use crate::connection::{self, OFFSETS, PARTS_MAX, request};
use crate::descriptors::{self, Managed};
use crate::kernel::{self, call, failed};
use crate::status;

/// Reads until the memory is full or the file ends.
fn read_at(managed: Managed, mut offset: u64, to: &mut [u8]) -> Result<usize, c_int> {
    if !managed.reads() {
        return Err(libc::EBADF);
    }
    let mut done = 0;
    for part in to.chunks_mut(CALL_BYTES_MAX) {
        let header =
            CallHeader { offset, flags: part.len() as u32, ..request(FileCall::Read, managed.file()) };
        let wanted = part.len();
        let (_, read) = connection::ask(header, &[], part)?;
        done += read;
        offset += read as u64;
        if read < wanted {
            break;
        }
    }
    Ok(done)
}

/// Writes all parts, at an offset or at the end of the file, in calls of bounded size. Returns their length and where they end.
fn write_at(managed: Managed, offset: Option<u64>, parts: &[iovec]) -> Result<(usize, u64), c_int> {
    if !managed.writes() {
        return Err(libc::EBADF);
    }
    let call = if offset.is_some() && !managed.appends() { FileCall::Write } else { FileCall::Append };
    let (mut done, mut end) = (0, offset.unwrap_or(0));
    let mut batch = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PARTS_MAX];
    let mut left = parts.iter().copied().filter(|part| part.iov_len > 0);
    let mut next = left.next();
    while next.is_some() {
        let (mut count, mut length) = (0, 0);
        while count < PARTS_MAX && length < CALL_BYTES_MAX {
            let Some(part) = &mut next else { break };
            let taken = part.iov_len.min(CALL_BYTES_MAX - length);
            batch[count] = iovec { iov_base: part.iov_base, iov_len: taken };
            (count, length) = (count + 1, length + taken);
            (part.iov_base, part.iov_len) = (part.iov_base.wrapping_byte_add(taken), part.iov_len - taken);
            if part.iov_len == 0 {
                next = left.next();
            }
        }
        let header = CallHeader { offset: end, ..request(call, managed.file()) };
        end = connection::ask(header, &batch[..count], &mut [])?.0 as u64;
        done += length;
    }
    Ok((done, end))
}

fn part(data: *const c_void, length: usize) -> [iovec; 1] {
    [iovec { iov_base: data.cast_mut(), iov_len: length }]
}

fn result(done: Result<usize, c_int>) -> isize {
    done.map_or_else(|error| failed(error) as isize, |length| length as isize)
}

/// Reads at the descriptor's offset, which the kernel keeps.
unsafe fn read_here(fd: c_int, managed: Managed, parts: &[iovec]) -> isize {
    OFFSETS.lock();
    let offset = kernel::lseek(fd, 0, libc::SEEK_CUR);
    // SAFETY: the caller's.
    let done = unsafe { read_parts(managed, offset as u64, parts) };
    if let Ok(length) = done {
        kernel::lseek(fd, offset + length as i64, libc::SEEK_SET);
    }
    OFFSETS.unlock();
    result(done)
}

unsafe fn read_parts(managed: Managed, offset: u64, parts: &[iovec]) -> Result<usize, c_int> {
    let mut done = 0;
    for part in parts.iter().filter(|part| part.iov_len > 0) {
        // SAFETY: the caller's parts are memory of these lengths.
        let to = unsafe { slice::from_raw_parts_mut(part.iov_base.cast::<u8>(), part.iov_len) };
        let read = read_at(managed, offset + done as u64, to)?;
        done += read;
        if read < part.iov_len {
            break;
        }
    }
    Ok(done)
}

/// Writes at the descriptor's offset, or at the end.
fn write_here(fd: c_int, managed: Managed, parts: &[iovec]) -> isize {
    OFFSETS.lock();
    let offset = kernel::lseek(fd, 0, libc::SEEK_CUR) as u64;
    let done = write_at(managed, Some(offset), parts);
    if let Ok((_, end)) = done {
        kernel::lseek(fd, end as i64, libc::SEEK_SET);
    }
    OFFSETS.unlock();
    result(done.map(|(length, _)| length))
}

unsafe fn parts_of<'a>(parts: *const iovec, count: c_int) -> &'a [iovec] {
    match count {
        // SAFETY: the caller's.
        1.. if !parts.is_null() => unsafe { slice::from_raw_parts(parts, count as usize) },
        _ => &[],
    }
}

export!(read __read => (fd: c_int, to: *mut c_void, length: usize) -> isize {
    match descriptors::get(fd) {
        Some(managed) => read_here(fd, managed, &part(to, length)),
        None => kernel::read(fd, to, length),
    }
});
export!(__read_chk => (fd: c_int, to: *mut c_void, length: usize, _size: usize) -> isize {
    read(fd, to, length)
});
export!(write __write => (fd: c_int, data: *const c_void, length: usize) -> isize {
    match descriptors::get(fd) {
        Some(managed) => write_here(fd, managed, &part(data, length)),
        None => kernel::write(fd, data, length),
    }
});
export!(pread pread64 __pread64 => (fd: c_int, to: *mut c_void, length: usize, offset: i64) -> isize {
    match descriptors::get(fd) {
        Some(_) if offset < 0 => failed(libc::EINVAL) as isize,
        Some(managed) => result(read_parts(managed, offset as u64, &part(to, length))),
        None => call!(SYS_pread64, fd, to, length, offset) as isize,
    }
});
export!(__pread_chk __pread64_chk => (fd: c_int, to: *mut c_void, length: usize, offset: i64, _size: usize) -> isize {
    pread(fd, to, length, offset)
});
export!(pwrite pwrite64 __pwrite64 => (fd: c_int, data: *const c_void, length: usize, offset: i64) -> isize {
    match descriptors::get(fd) {
        Some(_) if offset < 0 => failed(libc::EINVAL) as isize,
        Some(managed) => result(write_at(managed, Some(offset as u64), &part(data, length)).map(|done| done.0)),
        None => call!(SYS_pwrite64, fd, data, length, offset) as isize,
    }
});
export!(readv => (fd: c_int, parts: *const iovec, count: c_int) -> isize {
    match descriptors::get(fd) {
        Some(managed) => read_here(fd, managed, parts_of(parts, count)),
        None => call!(SYS_readv, fd, parts, count) as isize,
    }
});
export!(writev => (fd: c_int, parts: *const iovec, count: c_int) -> isize {
    match descriptors::get(fd) {
        Some(managed) => write_here(fd, managed, parts_of(parts, count)),
        None => call!(SYS_writev, fd, parts, count) as isize,
    }
});
export!(preadv preadv64 => (fd: c_int, parts: *const iovec, count: c_int, offset: i64) -> isize {
    preadv2(fd, parts, count, offset, 0)
});
export!(preadv2 preadv64v2 => (fd: c_int, parts: *const iovec, count: c_int, offset: i64, flags: c_int) -> isize {
    match descriptors::get(fd) {
        Some(managed) if offset == -1 => read_here(fd, managed, parts_of(parts, count)),
        Some(managed) => result(read_parts(managed, offset as u64, parts_of(parts, count))),
        None => call!(SYS_preadv2, fd, parts, count, offset, 0, flags) as isize,
    }
});
export!(pwritev pwritev64 => (fd: c_int, parts: *const iovec, count: c_int, offset: i64) -> isize {
    pwritev2(fd, parts, count, offset, 0)
});
export!(pwritev2 pwritev64v2 => (fd: c_int, parts: *const iovec, count: c_int, offset: i64, flags: c_int) -> isize {
    let Some(managed) = descriptors::get(fd) else {
        return call!(SYS_pwritev2, fd, parts, count, offset, 0, flags) as isize;
    };
    let written = match offset {
        -1 => write_here(fd, managed, parts_of(parts, count)),
        _ => result(write_at(managed, Some(offset as u64), parts_of(parts, count)).map(|done| done.0)),
    };
    let is_durable = flags & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0;
    if written >= 0 && is_durable && sync_all(1) < 0 { -1 } else { written }
});

export!(lseek lseek64 __lseek => (fd: c_int, offset: i64, whence: c_int) -> i64 {
    let Some(managed) = descriptors::get(fd) else { return kernel::lseek(fd, offset, whence) };
    let size = match whence {
        libc::SEEK_SET | libc::SEEK_CUR => return kernel::lseek(fd, offset, whence),
        _ => match status::of_file(managed.file()) {
            Ok(found) => found.size as i64,
            Err(error) => return failed(error).into(),
        },
    };
    let target = match whence {
        libc::SEEK_END => size + offset,
        // The whole file counts as data.
        libc::SEEK_DATA if offset < size => offset,
        libc::SEEK_HOLE if offset < size => size,
        libc::SEEK_DATA | libc::SEEK_HOLE => return failed(libc::ENXIO).into(),
        _ => return failed(libc::EINVAL).into(),
    };
    kernel::lseek(fd, target, libc::SEEK_SET)
});

/// Syncs the volume; `flags` 1: data only.
pub fn sync_all(flags: u32) -> c_int {
    match connection::ask(CallHeader { flags, ..request(FileCall::Sync, 0) }, &[], &mut []) {
        Ok(_) => 0,
        Err(error) => failed(error),
    }
}

/// Syncs a descriptor. What a directory names is on the volume as well.
fn sync(fd: c_int, number: i64, flags: u32) -> c_int {
    if descriptors::get(fd).is_some() {
        return sync_all(flags);
    }
    if crate::paths::is_active() && status::is_directory(fd) && sync_all(0) < 0 {
        return -1;
    }
    // SAFETY: a system call that takes a descriptor.
    unsafe { libc::syscall(number, fd as std::ffi::c_long) as c_int }
}

export!(fsync => (fd: c_int) -> c_int {
    sync(fd, libc::SYS_fsync, 0)
});
export!(fdatasync => (fd: c_int) -> c_int {
    sync(fd, libc::SYS_fdatasync, 1)
});
export!(syncfs => (fd: c_int) -> c_int {
    sync(fd, libc::SYS_syncfs, 0)
});
export!(sync_file_range => (fd: c_int, offset: i64, length: i64, flags: c_uint) -> c_int {
    match descriptors::get(fd) {
        // It makes nothing durable, as Linux's does not.
        Some(_) => 0,
        None => call!(SYS_sync_file_range, fd, offset, length, flags) as c_int,
    }
});

export!(ftruncate ftruncate64 => (fd: c_int, size: i64) -> c_int {
    let Some(managed) = descriptors::get(fd) else { return call!(SYS_ftruncate, fd, size) as c_int };
    if size < 0 || !managed.writes() {
        return failed(libc::EINVAL);
    }
    let header = CallHeader { offset: size as u64, ..request(FileCall::Truncate, managed.file()) };
    connection::ask(header, &[], &mut []).map_or_else(failed, |_| 0)
});
export!(truncate truncate64 => (path: *const std::ffi::c_char, size: i64) -> c_int {
    if crate::paths::managed(libc::AT_FDCWD, path, true).is_none() {
        return call!(SYS_truncate, path, size) as c_int;
    }
    let fd = crate::opening::open_at(libc::AT_FDCWD, path, libc::O_WRONLY | libc::O_CLOEXEC, 0);
    if fd < 0 {
        return -1;
    }
    let done = ftruncate(fd, size);
    crate::opening::close(fd);
    done
});
export!(fallocate fallocate64 => (fd: c_int, mode: c_int, offset: i64, length: i64) -> c_int {
    let Some(managed) = descriptors::get(fd) else {
        return call!(SYS_fallocate, fd, mode, offset, length) as c_int;
    };
    if offset < 0 || length <= 0 {
        return failed(libc::EINVAL);
    }
    let bytes = (length as u64).to_ne_bytes();
    let header =
        CallHeader { offset: offset as u64, flags: mode as u32, ..request(FileCall::Allocate, managed.file()) };
    connection::ask(header, &part(bytes.as_ptr().cast(), bytes.len()), &mut []).map_or_else(failed, |_| 0)
});
export!(posix_fallocate posix_fallocate64 => (fd: c_int, offset: i64, length: i64) -> c_int {
    let saved = kernel::errno();
    let done = fallocate(fd, 0, offset, length);
    let error = kernel::errno();
    kernel::set_errno(saved);
    if done == 0 { 0 } else { error }
});
export!(posix_fadvise posix_fadvise64 => (fd: c_int, offset: i64, length: i64, advice: c_int) -> c_int {
    if descriptors::get(fd).is_some() || call!(SYS_fadvise64, fd, offset, length, advice) == 0 {
        return 0;
    }
    kernel::errno()
});
export!(readahead => (fd: c_int, offset: i64, length: usize) -> isize {
    match descriptors::get(fd) {
        Some(_) => 0,
        None => call!(SYS_readahead, fd, offset, length) as isize,
    }
});
