//! Which paths are managed.
//!
//! # Method
//! A path is resolved as the kernel does: the directory is opened and asked for its name, so that `..`, links and the current
//! directory need no code here. Then the patterns are compared; `*` matches `/`, too.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

use flashlab_repair::path_matches;

use crate::kernel;

const PATH_MAX: usize = libc::PATH_MAX as usize;
/// The length of the patterns' text, one a line.
const PATTERNS_MAX: usize = 4096;

struct Patterns(UnsafeCell<[u8; PATTERNS_MAX]>);
// SAFETY: it is written once, before other threads exist.
unsafe impl Sync for Patterns {}
static PATTERNS: Patterns = Patterns(UnsafeCell::new([0; PATTERNS_MAX]));
static PATTERNS_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// An absolute path.
pub struct ResolvedPath {
    bytes: [u8; PATH_MAX],
    length: usize,
}

impl ResolvedPath {
    fn new() -> ResolvedPath {
        ResolvedPath { bytes: [0; PATH_MAX], length: 0 }
    }

    /// The path without a zero byte.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The path.
    pub fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    fn push(&mut self, part: &[u8]) -> Option<()> {
        let end = self.length + part.len();
        // One byte is left for the zero.
        if end >= PATH_MAX {
            return None;
        }
        self.bytes[self.length..end].copy_from_slice(part);
        self.length = end;
        self.bytes[end] = 0;
        Some(())
    }
}

/// Notes the patterns, one a line. False: they are too long, or there are none.
pub fn set_patterns(text: &[u8]) -> bool {
    if text.is_empty() || text.len() >= PATTERNS_MAX {
        return false;
    }
    // SAFETY: no other thread exists yet.
    let to = unsafe { &mut *PATTERNS.0.get() };
    to[..text.len()].copy_from_slice(text);
    PATTERNS_LENGTH.store(text.len(), Ordering::Release);
    true
}

/// Whether this process has managed files.
pub fn is_active() -> bool {
    PATTERNS_LENGTH.load(Ordering::Acquire) > 0
}

fn is_managed(path: &ResolvedPath) -> bool {
    let length = PATTERNS_LENGTH.load(Ordering::Acquire);
    // SAFETY: it is not written any more.
    let patterns = unsafe { &(&*PATTERNS.0.get())[..length] };
    patterns.split(|&byte| byte == b'\n').any(|pattern| path_matches(pattern, path.bytes()))
}

/// The path, if it is managed. With `follows`, a link at its end is followed.
///
/// # Safety
/// `path` ends with a zero byte, or is null.
pub unsafe fn managed(directory: c_int, path: *const c_char, follows: bool) -> Option<ResolvedPath> {
    if !is_active() || path.is_null() {
        return None;
    }
    let saved = kernel::errno();
    // SAFETY: as above.
    let given = unsafe { CStr::from_ptr(path) };
    let resolved = resolve(directory, given, follows).filter(is_managed);
    kernel::set_errno(saved);
    resolved
}

fn resolve(directory: c_int, path: &CStr, follows: bool) -> Option<ResolvedPath> {
    let text = path.to_bytes();
    let trimmed = text.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let text = &text[..trimmed];
    if text.is_empty() {
        return None;
    }
    let cut = text.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let (parent, name) = text.split_at(cut);
    if matches!(name, b"." | b"..") {
        return opened_path(directory, path, libc::O_DIRECTORY);
    }
    let mut whole = ResolvedPath::new();
    whole.push(if parent.is_empty() { b"." } else { parent })?;
    let mut resolved = opened_path(directory, whole.name(), libc::O_DIRECTORY)?;
    if resolved.bytes() != b"/" {
        resolved.push(b"/")?;
    }
    resolved.push(name)?;
    if follows
        && let Some(found) = kernel::lstat(resolved.name())
        && found.st_mode & libc::S_IFMT == libc::S_IFLNK
    {
        return match opened_path(libc::AT_FDCWD, resolved.name(), 0) {
            Some(target) => Some(target),
            // A link to nothing: the file may be made at its target.
            None => linked_path(&resolved),
        };
    }
    Some(resolved)
}

/// The target of a link, which does not exist.
fn linked_path(link: &ResolvedPath) -> Option<ResolvedPath> {
    let mut target = ResolvedPath::new();
    let length = kernel::call!(
        SYS_readlinkat,
        libc::AT_FDCWD,
        link.name().as_ptr(),
        target.bytes.as_mut_ptr(),
        PATH_MAX - 1
    );
    target.length = usize::try_from(length).ok()?;
    let absolute = match target.bytes().first() {
        Some(b'/') => target,
        _ => {
            let cut = link.bytes().iter().rposition(|&byte| byte == b'/')? + 1;
            let mut absolute = ResolvedPath::new();
            absolute.push(&link.bytes()[..cut])?;
            absolute.push(target.bytes())?;
            absolute
        }
    };
    resolve(libc::AT_FDCWD, absolute.name(), false)
}

fn opened_path(directory: c_int, path: &CStr, flags: c_int) -> Option<ResolvedPath> {
    let fd = kernel::openat(directory, path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC | flags, 0);
    if fd < 0 {
        return None;
    }
    let mut resolved = ResolvedPath::new();
    let found = kernel::path_of(fd, &mut resolved.bytes);
    kernel::close(fd);
    resolved.length = found?;
    resolved.bytes[resolved.length] = 0;
    Some(resolved)
}

/// What lies at a managed path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Nothing,
    Directory,
    /// The placeholder of a managed file.
    Placeholder,
    /// A file that is not managed, such as the socket of a server.
    Other,
}

/// The time of the last change by which placeholders are known, in seconds since 1970.
pub const PLACEHOLDER_TIME: i64 = 1;

/// Whether this is the status of a placeholder.
pub fn is_placeholder(mode: u32, modified: i64) -> bool {
    mode & libc::S_IFMT == libc::S_IFSOCK && modified == PLACEHOLDER_TIME
}

/// What lies at a path.
pub fn place(path: &ResolvedPath) -> Place {
    match kernel::lstat(path.name()) {
        None => Place::Nothing,
        Some(found) if found.st_mode & libc::S_IFMT == libc::S_IFDIR => Place::Directory,
        Some(found) if is_placeholder(found.st_mode, found.st_mtime) => Place::Placeholder,
        Some(_) => Place::Other,
    }
}
