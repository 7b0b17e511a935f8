//! What managed files cannot do: it fails, with a message that says what to set.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{AT_FDCWD, c_long};

use crate::kernel::{self, call, failed};
use crate::{descriptors, paths};

/// Prints a message once in each process.
fn say_once(said: &AtomicBool, message: &[u8]) {
    if !said.swap(true, Ordering::Relaxed) {
        kernel::say(&[message]);
    }
}

static MAPPED: AtomicBool = AtomicBool::new(false);

export!(mmap mmap64 => (address: *mut c_void, length: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS == 0 && descriptors::get(fd).is_some() {
        say_once(&MAPPED, b"mmap of a managed file is not possible (SQLite: leave the -shm file out of --files, or set \
                           locking_mode=exclusive; mmap_size=0)");
        failed(libc::ENODEV);
        return libc::MAP_FAILED;
    }
    call!(SYS_mmap, address, length, protection, flags, fd, offset) as *mut c_void
});

fn is_either(first: c_int, second: c_int) -> bool {
    descriptors::get(first).is_some() || descriptors::get(second).is_some()
}

// Programs read and write instead after these errors.
export!(sendfile sendfile64 => (to: c_int, from: c_int, offset: *mut i64, length: usize) -> isize {
    match is_either(to, from) {
        true => failed(libc::EINVAL) as isize,
        false => call!(SYS_sendfile, to, from, offset, length) as isize,
    }
});
export!(copy_file_range => (from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, length: usize, flags: c_uint) -> isize {
    match is_either(to, from) {
        true => failed(libc::EXDEV) as isize,
        false => call!(SYS_copy_file_range, from, from_offset, to, to_offset, length, flags) as isize,
    }
});
export!(splice => (from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, length: usize, flags: c_uint) -> isize {
    match is_either(to, from) {
        true => failed(libc::EINVAL) as isize,
        false => call!(SYS_splice, from, from_offset, to, to_offset, length, flags) as isize,
    }
});

unsafe fn temporary(name: &'static CStr, template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's; libc's functions of these names take no more arguments than these.
    unsafe {
        if let Some(path) = paths::managed(AT_FDCWD, template, false) {
            kernel::say(&[b"mkstemp() of a managed file is not possible: ", path.bytes()]);
            return failed(libc::EOPNOTSUPP);
        }
        let next: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int = transmute(kernel::next(name));
        next(template, suffix, flags)
    }
}

export!(mkstemp mkstemp64 => (template: *mut c_char) -> c_int {
    temporary(c"mkstemp", template, 0, 0)
});
export!(mkostemp mkostemp64 => (template: *mut c_char, flags: c_int) -> c_int {
    temporary(c"mkostemp", template, flags, 0)
});
export!(mkstemps mkstemps64 => (template: *mut c_char, suffix: c_int) -> c_int {
    temporary(c"mkstemps", template, suffix, 0)
});
export!(mkostemps mkostemps64 => (template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    temporary(c"mkostemps", template, suffix, flags)
});

static ASYNCHRONOUS: AtomicBool = AtomicBool::new(false);
const ASYNCHRONOUS_MESSAGE: &[u8] =
    b"native asynchronous IO passes by managed files and is refused (MariaDB: set innodb_use_native_aio=0)";

// The kernel refuses them, too (see `start`); here is the message. These functions return negative errors.
export!(io_setup io_queue_init => (_events: c_int, _context: *mut c_void) -> c_int {
    say_once(&ASYNCHRONOUS, ASYNCHRONOUS_MESSAGE);
    -libc::EPERM
});
export!(io_uring_queue_init => (_entries: c_uint, _ring: *mut c_void, _flags: c_uint) -> c_int {
    say_once(&ASYNCHRONOUS, ASYNCHRONOUS_MESSAGE);
    -libc::EPERM
});
export!(io_uring_queue_init_params => (_entries: c_uint, _ring: *mut c_void, _parameters: *mut c_void) -> c_int {
    say_once(&ASYNCHRONOUS, ASYNCHRONOUS_MESSAGE);
    -libc::EPERM
});

/// Whether a program is static: this library would not be in it.
pub unsafe fn is_static(path: *const c_char) -> bool {
    const HEADER: usize = 64;
    const ENTRY: usize = 56;
    const INTERPRETER: u32 = 3;
    let fd = kernel::openat(AT_FDCWD, path, libc::O_RDONLY | libc::O_CLOEXEC, 0);
    if fd < 0 {
        return false;
    }
    let mut bytes = [0_u8; 4096];
    let length = kernel::read(fd, bytes.as_mut_ptr().cast(), bytes.len()).max(0) as usize;
    kernel::close(fd);
    let bytes = &bytes[..length];
    if length < HEADER || !bytes.starts_with(b"\x7fELF\x02") {
        return false;
    }
    let u16_at = |at: usize| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
    let first = u64::from_ne_bytes(std::array::from_fn(|index| bytes[32 + index])) as usize;
    let entries = (0..u16_at(56)).filter_map(|index| bytes.get(first + index * ENTRY..)?.first_chunk::<4>());
    !entries.into_iter().any(|kind| u32::from_ne_bytes(*kind) == INTERPRETER)
}

/// Refuses to start a static program.
unsafe fn may_start(path: *const c_char) -> bool {
    // SAFETY: the caller's path ends with a zero byte.
    unsafe {
        if !paths::is_active() || path.is_null() || !is_static(path) {
            return true;
        }
        let name = CStr::from_ptr(path).to_bytes();
        kernel::say(&[b"a static program cannot use files of a volume, and is not started: ", name]);
    }
    failed(libc::EACCES);
    false
}

/// The program that is started when this name is looked for in `PATH`; calls `start` with it.
unsafe fn found_in_path(file: *const c_char, start: impl FnOnce(*const c_char) -> bool) -> bool {
    // SAFETY: the caller's name ends with a zero byte.
    let name = unsafe { CStr::from_ptr(file) }.to_bytes();
    // SAFETY: the environment is not changed meanwhile.
    let path = unsafe { libc::getenv(c"PATH".as_ptr()) };
    if name.contains(&b'/') || path.is_null() {
        return start(file);
    }
    // SAFETY: it ends with a zero byte.
    for directory in unsafe { CStr::from_ptr(path) }.to_bytes().split(|&byte| byte == b':') {
        let mut whole = [0_u8; libc::PATH_MAX as usize];
        let length = directory.len() + 1 + name.len();
        if length >= whole.len() {
            continue;
        }
        whole[..directory.len()].copy_from_slice(directory);
        whole[directory.len()] = b'/';
        whole[directory.len() + 1..length].copy_from_slice(name);
        if call!(SYS_faccessat, AT_FDCWD, whole.as_ptr(), libc::X_OK) == 0 {
            return start(whole.as_ptr().cast());
        }
    }
    true
}

type Strings = *const *const c_char;

unsafe extern "C" {
    static environ: Strings;
}

export!(execve => (path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    if !may_start(path) {
        return -1;
    }
    call!(SYS_execve, path, arguments, environment) as c_int
});
export!(execv => (path: *const c_char, arguments: Strings) -> c_int {
    execve(path, arguments, environ)
});
export!(execvp => (file: *const c_char, arguments: Strings) -> c_int {
    execvpe(file, arguments, environ)
});
export!(execvpe => (file: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    if !found_in_path(file, |path| may_start(path)) {
        return -1;
    }
    let next: unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int = transmute(kernel::next(c"execvpe"));
    next(file, arguments, environment)
});

type Spawn =
    unsafe extern "C" fn(*mut c_int, *const c_char, *const c_void, *const c_void, Strings, Strings) -> c_int;

export!(posix_spawn => (process: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int {
    if !may_start(path) {
        return libc::EACCES;
    }
    let next: Spawn = transmute(kernel::next(c"posix_spawn"));
    next(process, path, actions, attributes, arguments, environment)
});
export!(posix_spawnp => (process: *mut c_int, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int {
    if !found_in_path(file, |path| may_start(path)) {
        return libc::EACCES;
    }
    let next: Spawn = transmute(kernel::next(c"posix_spawnp"));
    next(process, file, actions, attributes, arguments, environment)
});

/// Lets the kernel refuse `io_uring_setup` and `io_setup` to this process and all that it starts.
pub fn refuse_asynchronous_io() {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUALS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // A filter of a process before this one is still there: it answers without looking at the arguments.
    if call!(SYS_io_uring_setup, 0, 0) == -1 && kernel::errno() == libc::EPERM {
        return;
    }
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD, 0, 0, 0),
        step(EQUALS, 1, 0, libc::SYS_io_uring_setup as u32),
        step(EQUALS, 0, 1, libc::SYS_io_setup as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    call!(SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    let set = call!(SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &program as *const libc::sock_fprog);
    let _: c_long = set;
    if set != 0 {
        kernel::say(&[b"the kernel takes no filter (seccomp): io_uring and native AIO cannot be refused"]);
        // SAFETY: it ends the process, which has not begun.
        unsafe { libc::_exit(126) };
    }
}
