//! Streams of stdio over managed files.
//!
//! # Method
//! libc's own streams make system calls that nobody can replace. A stream over a managed file is therefore one of `fopencookie`, whose
//! functions are those of this library. `fileno` of such a stream is looked up here, because libc's returns an error.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use libc::{AT_FDCWD, FILE};

use crate::kernel::{self, set_errno};
use crate::{data, descriptors, opening, paths};

/// The most streams of managed files at one time.
const STREAMS_MAX: usize = 256;
static STREAMS: [AtomicPtr<FILE>; STREAMS_MAX] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; STREAMS_MAX];
static DESCRIPTORS: [AtomicI32; STREAMS_MAX] = [const { AtomicI32::new(-1) }; STREAMS_MAX];

#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize,
    seek: unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

fn fd_of(cookie: *mut c_void) -> c_int {
    cookie as usize as c_int
}

unsafe extern "C" fn read(cookie: *mut c_void, to: *mut c_char, length: usize) -> isize {
    // SAFETY: stdio passes its buffer.
    unsafe { data::read(fd_of(cookie), to.cast(), length) }
}

unsafe extern "C" fn write(cookie: *mut c_void, from: *const c_char, length: usize) -> isize {
    // SAFETY: stdio passes its buffer. Zero stands for an error here.
    unsafe { data::write(fd_of(cookie), from.cast(), length) }.max(0)
}

unsafe extern "C" fn seek(cookie: *mut c_void, offset: *mut i64, whence: c_int) -> c_int {
    // SAFETY: stdio passes its offset.
    unsafe {
        *offset = data::lseek(fd_of(cookie), *offset, whence);
        if *offset < 0 { -1 } else { 0 }
    }
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    let fd = fd_of(cookie);
    for (stream, noted) in STREAMS.iter().zip(&DESCRIPTORS) {
        if noted.load(Ordering::Relaxed) == fd {
            noted.store(-1, Ordering::Relaxed);
            stream.store(std::ptr::null_mut(), Ordering::Release);
        }
    }
    // SAFETY: the descriptor is the stream's.
    unsafe { opening::close(fd) }
}

/// A stream over a managed descriptor.
unsafe fn stream(fd: c_int, mode: *const c_char) -> *mut FILE {
    let functions = Functions { read, write, seek, close };
    // SAFETY: the mode is the caller's.
    let made = unsafe { fopencookie(fd as usize as *mut c_void, mode, functions) };
    if made.is_null() {
        return made;
    }
    let free = STREAMS.iter().position(|stream| {
        stream.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    match free {
        Some(index) => DESCRIPTORS[index].store(fd, Ordering::Relaxed),
        None => kernel::say(&[b"more streams are open than fileno() can know"]),
    }
    made
}

/// The flags of `open` for a mode of `fopen`.
unsafe fn flags_of(mode: *const c_char) -> Option<c_int> {
    // SAFETY: the caller's ends with a zero byte.
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    let has = |byte| mode.contains(&byte);
    let access = |alone| if has(b'+') { libc::O_RDWR } else { alone };
    let flags = match mode.first()? {
        b'r' => access(libc::O_RDONLY),
        b'w' => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        b'a' => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    let extra = [(b'x', libc::O_EXCL), (b'e', libc::O_CLOEXEC)];
    Some(extra.iter().filter(|(byte, _)| has(*byte)).fold(flags, |flags, (_, more)| flags | more))
}

unsafe extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// Replaces the standard streams that a shell redirected to managed files: libc lets programs assign them.
pub fn replace_standard_streams() {
    let is_managed = |fd| descriptors::get(fd).is_some();
    // SAFETY: the process has not begun, so nobody uses them; the modes end with zero bytes.
    unsafe {
        if is_managed(0) {
            stdin = stream(0, c"r".as_ptr());
        }
        if is_managed(1) {
            stdout = stream(1, c"w".as_ptr());
        }
        if is_managed(2) {
            stderr = stream(2, c"w".as_ptr());
            libc::setvbuf(stderr, std::ptr::null_mut(), libc::_IONBF, 0);
        }
    }
}

type OpenStream = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;

unsafe fn open_stream(name: &'static CStr, path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller's arguments; libc's function of this name has this type.
    unsafe {
        if paths::managed(AT_FDCWD, path, true).is_none() {
            let next: OpenStream = transmute(kernel::next(name));
            return next(path, mode);
        }
        let Some(flags) = flags_of(mode) else {
            set_errno(libc::EINVAL);
            return std::ptr::null_mut();
        };
        let fd = opening::open_at(AT_FDCWD, path, flags, 0o666);
        if fd < 0 {
            return std::ptr::null_mut();
        }
        match descriptors::get(fd) {
            Some(_) => stream(fd, mode),
            None => libc::fdopen(fd, mode),
        }
    }
}

export!(fopen _IO_fopen => (path: *const c_char, mode: *const c_char) -> *mut FILE {
    open_stream(c"fopen", path, mode)
});
export!(fopen64 => (path: *const c_char, mode: *const c_char) -> *mut FILE {
    open_stream(c"fopen64", path, mode)
});
export!(fdopen _IO_fdopen => (fd: c_int, mode: *const c_char) -> *mut FILE {
    if descriptors::get(fd).is_some() {
        return stream(fd, mode);
    }
    let next: unsafe extern "C" fn(c_int, *const c_char) -> *mut FILE = transmute(kernel::next(c"fdopen"));
    next(fd, mode)
});
export!(freopen freopen64 => (path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
    if known(file).is_some() || paths::managed(AT_FDCWD, path, true).is_some() {
        kernel::say(&[b"freopen() of a managed file is not possible"]);
        set_errno(libc::EOPNOTSUPP);
        return std::ptr::null_mut();
    }
    let next: unsafe extern "C" fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE =
        transmute(kernel::next(c"freopen64"));
    next(path, mode, file)
});

fn known(file: *mut FILE) -> Option<c_int> {
    let at = STREAMS.iter().position(|stream| stream.load(Ordering::Acquire) == file)?;
    (!file.is_null()).then(|| DESCRIPTORS[at].load(Ordering::Relaxed)).filter(|fd| *fd >= 0)
}

export!(fileno fileno_unlocked => (file: *mut FILE) -> c_int {
    if let Some(fd) = known(file) {
        return fd;
    }
    let next: unsafe extern "C" fn(*mut FILE) -> c_int = transmute(kernel::next(c"fileno"));
    next(file)
});
