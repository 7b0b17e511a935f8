//! Calls of the operating system that the standard library lacks, as safe functions.
//!
//! Invariant: nothing here opens a file by path.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flashlab_base::Bytes;

// From linux/fs.h and linux/loop.h.
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const BLKDISCARD: libc::c_ulong = 0x1277;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;

/// Turns -1 into the error of the system call.
pub(crate) fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Whether this process is root. Advice to become root does not help it.
pub(crate) fn is_root() -> bool {
    // SAFETY: returns a number, and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// The size of a block device.
pub(crate) fn device_size(file: &File) -> io::Result<Bytes> {
    let mut size = 0u64;
    // SAFETY: the request writes 8 bytes to its argument.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64 as _, &mut size) })?;
    Ok(Bytes(size))
}

/// Tells a block device that a range's content is no longer needed.
pub(crate) fn discard_device_range(file: &File, offset: Bytes, size: Bytes) -> io::Result<()> {
    let range = [offset.0, size.0];
    // SAFETY: the request reads 16 bytes from its argument.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD as _, &range) }).map(drop)
}

/// Gives a range of a file back to its file system.
pub(crate) fn discard_file_range(file: &File, offset: Bytes, size: Bytes) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    fallocate(file, mode, offset, size)
}

/// Reserves the blocks of a range of a file, growing the file to hold it.
pub(crate) fn allocate(file: &File, size: Bytes) -> io::Result<()> {
    fallocate(file, 0, Bytes::ZERO, size)
}

fn fallocate(file: &File, mode: libc::c_int, offset: Bytes, size: Bytes) -> io::Result<()> {
    let too_large = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let offset = i64::try_from(offset.0).map_err(too_large)?;
    let size = i64::try_from(size.0).map_err(too_large)?;
    // SAFETY: takes no pointers.
    checked(unsafe { libc::fallocate64(file.as_raw_fd(), mode, offset, size) }).map(drop)
}

/// The requirements of direct IO on a file, if the kernel reports them.
pub(crate) enum DirectAlignment {
    /// The offset and size of every IO must be a multiple of this.
    Blocks(Bytes),
    /// The file takes none.
    Unsupported,
    /// This kernel or file system does not report it.
    Unknown,
}

/// The alignment that direct IO on this file needs (statx, since Linux 6.1).
pub(crate) fn direct_alignment(file: &File) -> DirectAlignment {
    let Ok(status) = status(file.as_fd(), libc::STATX_DIOALIGN) else { return DirectAlignment::Unknown };
    if status.stx_mask & libc::STATX_DIOALIGN == 0 {
        return DirectAlignment::Unknown;
    }
    match status.stx_dio_offset_align {
        0 => DirectAlignment::Unsupported,
        alignment => DirectAlignment::Blocks(Bytes(alignment.into())),
    }
}

/// The mount through which a file was opened, by its number in `/proc/self/mountinfo` (since Linux 5.8).
pub(crate) fn mount_id(file: &File) -> Option<u64> {
    let status = status(file.as_fd(), libc::STATX_MNT_ID).ok()?;
    (status.stx_mask & libc::STATX_MNT_ID != 0).then_some(status.stx_mnt_id)
}

/// The statx of an open file.
fn status(file: BorrowedFd<'_>, mask: libc::c_uint) -> io::Result<libc::statx> {
    const HERE: &CStr = c"";
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: with an empty path the call applies to the descriptor; `status` is writable.
    checked(unsafe {
        libc::statx(file.as_raw_fd(), HERE.as_ptr(), libc::AT_EMPTY_PATH, mask, status.as_mut_ptr())
    })?;
    // SAFETY: the call succeeded and filled it.
    Ok(unsafe { status.assume_init() })
}

/// What the kernel knows of the file at a path: a network or FUSE file system whose server does not answer is not asked.
pub(crate) fn known_status(path: &Path) -> Option<libc::statx> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mask = libc::STATX_TYPE | libc::STATX_INO;
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path ends with a zero byte, and `status` is writable.
    checked(unsafe {
        libc::statx(libc::AT_FDCWD, path.as_ptr(), libc::AT_STATX_DONT_SYNC, mask, status.as_mut_ptr())
    })
    .ok()?;
    // SAFETY: the call succeeded and filled it.
    Some(unsafe { status.assume_init() })
}

/// The file system of an open file.
pub(crate) struct FileSystem {
    /// Its magic number.
    pub(crate) magic: u64,
    /// How large it is.
    pub(crate) size: Bytes,
    /// How much of it this user may still use.
    pub(crate) free: Bytes,
}

impl FileSystem {
    /// Looks at the file system that `file` lies on.
    pub(crate) fn of(file: &File) -> io::Result<FileSystem> {
        let mut status = MaybeUninit::<libc::statfs64>::zeroed();
        // SAFETY: `status` is writable.
        checked(unsafe { libc::fstatfs64(file.as_raw_fd(), status.as_mut_ptr()) })?;
        // SAFETY: the call succeeded and filled it.
        let status = unsafe { status.assume_init() };
        let unit = status.f_frsize as u64;
        Ok(FileSystem {
            magic: status.f_type as u64,
            size: Bytes(status.f_blocks.saturating_mul(unit)),
            free: Bytes(status.f_bavail.saturating_mul(unit)),
        })
    }

    /// Whether its files live in the machine's memory.
    pub(crate) fn in_memory(&self) -> bool {
        const TMPFS: u64 = 0x0102_1994;
        const RAMFS: u64 = 0x8584_58f6;
        const HUGETLBFS: u64 = 0x9584_58f6;
        [TMPFS, RAMFS, HUGETLBFS].contains(&(self.magic & 0xFFFF_FFFF))
    }
}

/// Whether the path is on a file system that the kernel generates, such as /proc and /sys. If that is
/// unknown, opening the path will show it.
pub(crate) fn is_made_by_the_kernel(path: &Path) -> bool {
    /// procfs, sysfs, debugfs, tracefs, cgroup, cgroup2, securityfs, efivarfs, bpf, configfs, pstore, selinuxfs,
    /// binfmt_misc, devpts and fusectl, as in linux/magic.h.
    const KINDS: [u64; 15] = [
        0x9FA0,
        0x6265_6572,
        0x6462_6720,
        0x7472_6163,
        0x0027_E0EB,
        0x6367_7270,
        0x7363_6673,
        0xDE5E_81E4,
        0xCAFE_4A11,
        0x6265_6570,
        0x6165_676C,
        0xF97C_FF8C,
        0x4249_4E4D,
        0x1CD1,
        0x6573_5543,
    ];
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let mut status = MaybeUninit::<libc::statfs64>::uninit();
    // SAFETY: the path ends with a zero byte, and `status` is writable.
    let result = unsafe { libc::statfs64(path.as_ptr(), status.as_mut_ptr()) };
    // SAFETY: the call succeeded and initialised it. The kernel's numbers have 32 bits, whatever the type of
    // the field is.
    result == 0 && KINDS.contains(&u64::from(unsafe { status.assume_init() }.f_type as u32))
}

/// The file or device behind an open loop device: the device number of its file system, its inode, and its
/// own device number if it is a device.
pub(crate) fn loop_backing(file: &File) -> io::Result<(u64, u64, u64)> {
    // struct loop_info64 is 232 bytes; it starts with lo_device, lo_inode and lo_rdevice.
    let mut status = [0u64; 29];
    // SAFETY: the request writes 232 bytes to its argument.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64 as _, &mut status) })?;
    Ok((status[0], status[1], status[2]))
}

/// Whether a program has a lock of `fcntl` on any part of the file. A file system without such locks has none.
pub(crate) fn has_record_lock(file: &File) -> bool {
    // SAFETY: the structure has only numbers, and zeroes stand for the whole file.
    let mut asked: libc::flock = unsafe { std::mem::zeroed() };
    asked.l_type = libc::F_WRLCK as _;
    asked.l_whence = libc::SEEK_SET as _;
    // SAFETY: the call reads and writes the structure.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut asked) };
    result == 0 && i32::from(asked.l_type) != libc::F_UNLCK
}

/// A number that no other living thread of this process has.
#[inline]
pub(crate) fn thread_token() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}
