//! System calls past libc's names, and errors.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;

use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, stat};

/// The kernel's answer: -1 with `errno`.
macro_rules! call {
    ($number:ident $(, $argument:expr)*) => {
        // SAFETY: the caller passes what this system call takes.
        unsafe { libc::syscall(libc::$number $(, $argument as std::ffi::c_long)*) }
    };
}

/// Sets `errno` and returns -1.
pub fn failed(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

pub fn set_errno(errno: c_int) {
    // SAFETY: it is this thread's own.
    unsafe { *libc::__errno_location() = errno }
}

pub fn errno() -> c_int {
    // SAFETY: it is this thread's own.
    unsafe { *libc::__errno_location() }
}

pub fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: u32) -> c_int {
    call!(SYS_openat, directory, path, flags, mode) as c_int
}

pub fn close(fd: c_int) -> c_int {
    call!(SYS_close, fd) as c_int
}

pub fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64 {
    call!(SYS_lseek, fd, offset, whence)
}

pub fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    call!(SYS_fcntl, fd, command, argument) as c_int
}

pub fn read(fd: c_int, data: *mut c_void, length: usize) -> isize {
    call!(SYS_read, fd, data, length) as isize
}

pub fn write(fd: c_int, data: *const c_void, length: usize) -> isize {
    call!(SYS_write, fd, data, length) as isize
}

/// The status of a path. `None`: there is no such file, or `errno`.
pub fn lstat(path: &CStr) -> Option<stat> {
    let mut found = MaybeUninit::<stat>::zeroed();
    let result = call!(SYS_newfstatat, AT_FDCWD, path.as_ptr(), found.as_mut_ptr(), AT_SYMLINK_NOFOLLOW);
    // SAFETY: it was zeroed, and every bit pattern is a stat.
    (result == 0).then(|| unsafe { found.assume_init() })
}

/// The path that a descriptor was opened with, as the kernel knows it.
pub fn path_of(fd: c_int, to: &mut [u8]) -> Option<usize> {
    let mut name = [0_u8; 32];
    write_decimal(b"/proc/self/fd/", fd as u64, &mut name);
    let length = call!(SYS_readlinkat, AT_FDCWD, name.as_ptr(), to.as_mut_ptr(), to.len());
    usize::try_from(length).ok().filter(|length| *length < to.len())
}

/// Writes a prefix, a number and a zero byte.
fn write_decimal(prefix: &[u8], number: u64, to: &mut [u8; 32]) {
    to[..prefix.len()].copy_from_slice(prefix);
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut left = number;
    for at in (prefix.len()..prefix.len() + digits).rev() {
        to[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    to[prefix.len() + digits] = 0;
}

/// The function of libc that has a name which this library has, too.
pub fn next(name: &'static CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Prints a message on standard error.
pub fn say(parts: &[&[u8]]) {
    let mut line = [0; 600];
    let mut length = 0;
    for part in [b"flashlab: "].map(|part| &part[..]).iter().chain(parts).chain([&&b"\n"[..]]) {
        let count = part.len().min(line.len() - length);
        line[length..length + count].copy_from_slice(&part[..count]);
        length += count;
    }
    let saved = errno();
    write(2, line.as_ptr().cast(), length);
    set_errno(saved);
}

pub(crate) use call;
