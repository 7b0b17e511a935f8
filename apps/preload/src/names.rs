//! Renaming, linking and removing files; directories.
//!
//! # Method
//! The kernel changes the placeholder first: it knows the permissions. Then the server changes the file.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use flashlab_repair::{CallHeader, FileCall};
use libc::{AT_FDCWD, AT_REMOVEDIR, DIR, dirent, iovec};

use crate::connection::{self, request};
use crate::kernel::{self, call, failed};
use crate::paths::{self, Place, ResolvedPath};

/// Asks for a change of one or two paths.
fn change(header: CallHeader, first: &ResolvedPath, second: Option<&ResolvedPath>) -> Result<(), c_int> {
    let part = |bytes: &[u8]| iovec { iov_base: bytes.as_ptr() as *mut c_void, iov_len: bytes.len() };
    let parts = [part(first.bytes()), part(b"\0"), part(second.map_or(b"", ResolvedPath::bytes))];
    let count = if second.is_some() { 3 } else { 1 };
    connection::ask(header, &parts[..count], &mut []).map(drop)
}

fn result(done: Result<(), c_int>) -> c_int {
    done.map_or_else(failed, |()| 0)
}

/// Of a directory, of which the volume may know nothing.
fn result_of_directory(done: Result<(), c_int>) -> c_int {
    match done {
        Err(libc::ENOENT | libc::EEXIST) => 0,
        done => result(done),
    }
}

export!(rename => (from: *const c_char, to: *const c_char) -> c_int {
    renameat2(AT_FDCWD, from, AT_FDCWD, to, 0)
});
export!(renameat => (from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char) -> c_int {
    renameat2(from_directory, from, to_directory, to, 0)
});
export!(renameat2 => (from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_uint) -> c_int {
    let old = paths::managed(from_directory, from, false);
    let new = paths::managed(to_directory, to, false);
    let moved = old.as_ref().map(paths::place);
    let in_kernel = || call!(SYS_renameat2, from_directory, from, to_directory, to, flags) as c_int;
    match (&old, &new, moved) {
        (Some(old), Some(new), Some(moved @ (Place::Placeholder | Place::Directory))) => {
            if flags & !libc::RENAME_NOREPLACE != 0 {
                return failed(libc::EINVAL);
            }
            if in_kernel() != 0 {
                return -1;
            }
            let header = CallHeader { flags: flags & libc::RENAME_NOREPLACE, ..request(FileCall::Rename, 0) };
            match moved {
                Place::Directory => result_of_directory(change(header, old, Some(new))),
                _ => result(change(header, old, Some(new))),
            }
        }
        // Between the volume and the file system a file has to be copied.
        (Some(_), None, Some(Place::Placeholder | Place::Directory)) => failed(libc::EXDEV),
        (None, Some(new), _) if is_file_or_directory(from_directory, from) => {
            kernel::say(&[b"a file that is not managed cannot become ", new.bytes()]);
            failed(libc::EXDEV)
        }
        _ => in_kernel(),
    }
});

unsafe fn is_file_or_directory(directory: c_int, path: *const c_char) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let result = call!(SYS_newfstatat, directory, path, found.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW);
    // SAFETY: it was zeroed, and every bit pattern is a stat.
    let format = unsafe { found.assume_init() }.st_mode & libc::S_IFMT;
    result == 0 && (format == libc::S_IFREG || format == libc::S_IFDIR)
}

export!(unlink => (path: *const c_char) -> c_int {
    unlinkat(AT_FDCWD, path, 0)
});
export!(rmdir => (path: *const c_char) -> c_int {
    unlinkat(AT_FDCWD, path, AT_REMOVEDIR)
});
export!(unlinkat => (directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    let managed = paths::managed(directory, path, false);
    let place = managed.as_ref().map(paths::place);
    if call!(SYS_unlinkat, directory, path, flags) != 0 {
        return -1;
    }
    match (managed, place) {
        (Some(managed), Some(Place::Placeholder)) => result(change(request(FileCall::Unlink, 0), &managed, None)),
        (Some(managed), Some(Place::Directory)) => {
            result_of_directory(change(request(FileCall::RemoveDirectory, 0), &managed, None))
        }
        _ => 0,
    }
});
export!(remove => (path: *const c_char) -> c_int {
    let removed = unlinkat(AT_FDCWD, path, 0);
    if removed != 0 && kernel::errno() == libc::EISDIR { rmdir(path) } else { removed }
});

export!(link => (from: *const c_char, to: *const c_char) -> c_int {
    linkat(AT_FDCWD, from, AT_FDCWD, to, 0)
});
export!(linkat => (from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_int) -> c_int {
    let old = paths::managed(from_directory, from, flags & libc::AT_SYMLINK_FOLLOW != 0);
    let old = old.filter(|old| paths::place(old) == Place::Placeholder);
    let new = paths::managed(to_directory, to, false);
    match (old, new) {
        (Some(old), Some(new)) => {
            if call!(SYS_linkat, from_directory, from, to_directory, to, flags) != 0 {
                return -1;
            }
            result(change(request(FileCall::Link, 0), &old, Some(&new)))
        }
        (None, None) => call!(SYS_linkat, from_directory, from, to_directory, to, flags) as c_int,
        _ => failed(libc::EXDEV),
    }
});

export!(mkdir => (path: *const c_char, mode: c_uint) -> c_int {
    mkdirat(AT_FDCWD, path, mode)
});
export!(mkdirat => (directory: c_int, path: *const c_char, mode: c_uint) -> c_int {
    if call!(SYS_mkdirat, directory, path, mode) != 0 {
        return -1;
    }
    let Some(managed) = paths::managed(directory, path, false) else { return 0 };
    let Some(made) = kernel::lstat(managed.name()) else { return 0 };
    let owner = u64::from(made.st_uid) << 32 | u64::from(made.st_gid);
    let header = CallHeader {
        offset: (made.st_mode & 0o7777).into(),
        ..request(FileCall::MakeDirectory, owner)
    };
    result_of_directory(change(header, &managed, None))
});

/// An entry of a directory, in which placeholders must not look like sockets: programs ask for the status of what has no type.
unsafe fn entry(name: &'static CStr, directory: *mut DIR) -> *mut dirent {
    let next = kernel::next(name);
    if next.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: it is libc's function of this type, and the entry is the caller's until the next call.
    unsafe {
        let next: unsafe extern "C" fn(*mut DIR) -> *mut dirent = std::mem::transmute(next);
        let found = next(directory);
        if !found.is_null() && (*found).d_type == libc::DT_SOCK {
            (*found).d_type = libc::DT_UNKNOWN;
        }
        found
    }
}

export!(readdir => (directory: *mut DIR) -> *mut dirent {
    entry(c"readdir", directory)
});
export!(readdir64 => (directory: *mut DIR) -> *mut dirent {
    entry(c"readdir64", directory)
});
