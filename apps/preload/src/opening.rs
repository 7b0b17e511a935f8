//! Opening, closing and copying descriptors.

use std::ffi::{c_char, c_int, c_uint, c_void};

use flashlab_repair::{CallHeader, FileCall};
use libc::{AT_FDCWD, O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_PATH, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY};

use crate::connection::{self, request};
use crate::descriptors::{self, Managed};
use crate::kernel::{self, call, failed};
use crate::paths::{self, PLACEHOLDER_TIME, Place, ResolvedPath};

/// Opens a path, managed or not.
///
/// # Safety
/// As libc's `openat`.
pub unsafe fn open_at(directory: c_int, path: *const c_char, flags: c_int, mode: u32) -> c_int {
    // The mode is passed only where it counts; otherwise the register holds anything.
    let mode = if flags & O_CREAT != 0 || flags & O_TMPFILE == O_TMPFILE { mode } else { 0 };
    let follows = flags & O_NOFOLLOW == 0 && flags & (O_CREAT | O_EXCL) != O_CREAT | O_EXCL;
    // SAFETY: the caller's.
    let Some(managed) = (unsafe { paths::managed(directory, path, follows) }) else {
        return kernel::openat(directory, path, flags, mode);
    };
    if flags & O_TMPFILE == O_TMPFILE {
        kernel::say(&[b"files without a name (O_TMPFILE) cannot be managed: ", managed.bytes()]);
        return failed(libc::EOPNOTSUPP);
    }
    match paths::place(&managed) {
        Place::Directory => kernel::openat(directory, path, flags, mode),
        _ if flags & O_PATH != 0 => kernel::openat(directory, path, flags, mode),
        Place::Other if is_regular(&managed) => {
            kernel::say(&[b"a file lies where only files of the volume may: ", managed.bytes()]);
            failed(libc::ENXIO)
        }
        Place::Other => kernel::openat(directory, path, flags, mode),
        Place::Nothing if flags & O_CREAT == 0 => failed(libc::ENOENT),
        Place::Nothing => make(&managed, flags, mode),
        Place::Placeholder if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL => failed(libc::EEXIST),
        Place::Placeholder => match is_permitted(&managed, flags) {
            true => open_managed(&managed, flags),
            false => failed(libc::EACCES),
        },
    }
}

fn is_regular(path: &ResolvedPath) -> bool {
    kernel::lstat(path.name()).is_some_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFREG)
}

fn is_permitted(path: &ResolvedPath, flags: c_int) -> bool {
    let needed = match flags & libc::O_ACCMODE {
        O_WRONLY => libc::W_OK,
        O_RDWR => libc::R_OK | libc::W_OK,
        _ => libc::R_OK,
    };
    let needed = if flags & O_TRUNC != 0 { needed | libc::W_OK } else { needed };
    call!(SYS_faccessat2, AT_FDCWD, path.name().as_ptr(), needed, libc::AT_EACCESS) == 0
}

/// Makes a placeholder, and the file.
fn make(path: &ResolvedPath, flags: c_int, mode: u32) -> c_int {
    let name = path.name().as_ptr();
    if call!(SYS_mknodat, AT_FDCWD, name, libc::S_IFSOCK | mode & 0o7777, 0) != 0 {
        let is_other_faster = kernel::errno() == libc::EEXIST && flags & O_EXCL == 0;
        return if is_other_faster { open_managed(path, flags) } else { -1 };
    }
    let time = libc::timespec { tv_sec: PLACEHOLDER_TIME, tv_nsec: 0 };
    call!(SYS_utimensat, AT_FDCWD, name, [time, time].as_ptr(), 0);
    let opened = open_managed(path, flags);
    if opened < 0 {
        let error = kernel::errno();
        call!(SYS_unlinkat, AT_FDCWD, name, 0);
        kernel::set_errno(error);
    }
    opened
}

fn open_managed(path: &ResolvedPath, flags: c_int) -> c_int {
    let Some(found) = kernel::lstat(path.name()) else { return failed(libc::ENOENT) };
    let header = CallHeader {
        flags: flags as u32,
        offset: (found.st_mode & 0o7777).into(),
        file: u64::from(found.st_uid) << 32 | u64::from(found.st_gid),
        ..request(FileCall::Open, 0)
    };
    match connection::ask_descriptor(header, path.bytes(), flags & O_CLOEXEC != 0) {
        Err(error) => failed(error),
        Ok((file, fd)) if descriptors::put(fd, Managed::new(file as u64, flags)) => fd,
        Ok((file, fd)) => {
            kernel::close(fd);
            let _ = connection::ask(request(FileCall::Close, file as u64), &[], &mut []);
            failed(libc::EMFILE)
        }
    }
}

export!(open open64 __open __open64 => (path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    open_at(AT_FDCWD, path, flags, mode)
});
export!(openat openat64 => (directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    open_at(directory, path, flags, mode)
});
export!(__open_2 __open64_2 => (path: *const c_char, flags: c_int) -> c_int {
    open_at(AT_FDCWD, path, flags, 0)
});
export!(__openat_2 __openat64_2 => (directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    open_at(directory, path, flags, 0)
});
export!(creat creat64 => (path: *const c_char, mode: c_uint) -> c_int {
    open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode)
});

export!(close __close => (fd: c_int) -> c_int {
    if connection::is_own(fd) {
        return failed(libc::EBADF);
    }
    let closed = kernel::close(fd);
    if closed == 0 {
        descriptors::forget(fd);
    }
    closed
});

const CLOSE_RANGE_CLOEXEC: c_int = 4;

export!(close_range => (first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let is_inside = |fd: c_int| first <= fd as c_uint && fd as c_uint <= last;
    if flags & CLOSE_RANGE_CLOEXEC == 0 {
        let managed = descriptors::all(first.min(i32::MAX as c_uint) as c_int);
        for (fd, _) in managed.filter(|(fd, _)| is_inside(*fd)) {
            kernel::close(fd);
            descriptors::forget(fd);
        }
    }
    let own = connection::own().filter(|own| is_inside(*own));
    let Some(own) = own.map(|own| own as c_uint) else {
        return call!(SYS_close_range, first, last, flags) as c_int;
    };
    if own > first {
        call!(SYS_close_range, first, own - 1, flags);
    }
    if own < last {
        call!(SYS_close_range, own + 1, last, flags);
    }
    0
});
export!(closefrom => (first: c_int) -> () {
    close_range(first.max(0) as c_uint, c_uint::MAX, 0);
});

export!(dup => (fd: c_int) -> c_int {
    let copy = call!(SYS_dup, fd) as c_int;
    descriptors::copied(fd, copy);
    copy
});
export!(dup2 __dup2 => (fd: c_int, to: c_int) -> c_int {
    if fd == to {
        return if kernel::fcntl(fd, libc::F_GETFD, 0) < 0 { -1 } else { to };
    }
    dup3(fd, to, 0)
});
export!(dup3 => (fd: c_int, to: c_int, flags: c_int) -> c_int {
    connection::give_way(to);
    let copy = call!(SYS_dup3, fd, to, flags) as c_int;
    if copy >= 0 {
        descriptors::forget(copy);
        descriptors::copied(fd, copy);
    }
    copy
});

export!(fcntl fcntl64 __fcntl __fcntl64 => (fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    let Some(managed) = descriptors::get(fd) else {
        return kernel::fcntl(fd, command, argument as usize);
    };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            let copy = kernel::fcntl(fd, command, argument as usize);
            descriptors::copied(fd, copy);
            copy
        }
        libc::F_GETFL => match kernel::fcntl(fd, command, 0) {
            -1 => -1,
            flags => flags & !libc::O_ACCMODE | managed.access(),
        },
        libc::F_SETFL => {
            // The volume writes directly; memory needs no alignment.
            let flags = argument as usize as c_int & !libc::O_DIRECT;
            descriptors::set_appends(fd, flags & libc::O_APPEND != 0);
            kernel::fcntl(fd, command, flags as usize)
        }
        _ => kernel::fcntl(fd, command, argument as usize),
    }
});
