//! The files beneath a mount, by descriptors of them.
//!
//! # Model
//! The kernel knows a file by a number. The table has a descriptor for each number that the kernel knows, which leads to the file
//! whatever its name is by now. Who may do what the kernel has decided before it asks, by owners and permissions.
//!
//! # Invariants
//! - A number is not used for another file while the kernel knows it: the descriptor keeps the file.
//! - No path is followed: names are looked up one by one, and links are the kernel's.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use fuser::Request;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, StatVfs, Timestamps, Uid};
use rustix::io::Errno;

use crate::locks::lock;

/// Set in the numbers of files beneath. Programs take numbers for signed, so the highest bit is not used.
pub(super) const BENEATH: u64 = 1 << 62;
/// Set in numbers that are not made of the file's own number.
const OTHER: u64 = 1 << 60;
const SET_GROUP: u32 = 0o2000;
const SET_IDS: u32 = 0o6000;

/// A file that the kernel knows.
struct Known {
    descriptor: Arc<OwnedFd>,
    key: (u64, u64),
    /// How often the kernel was given its number.
    lookups: u64,
}

#[derive(Default)]
struct Table {
    known: BTreeMap<u64, Known>,
    /// Their numbers by device and inode.
    numbers: BTreeMap<(u64, u64), u64>,
    next_other: u64,
    /// The device of the first file, whose files have numbers made of their own ones.
    device: Option<u64>,
}

/// The files beneath.
#[derive(Default)]
pub(super) struct Beneath {
    table: Mutex<Table>,
}

/// What is made in a directory.
pub(super) enum Made<'a> {
    Directory,
    Link(&'a OsStr),
    /// Anything else, with its device number.
    Node(FileType, u64),
}

impl Beneath {
    /// The number of a file. The kernel knows it until it forgets it.
    pub(super) fn add(&self, descriptor: OwnedFd) -> Result<(u64, Stat), Errno> {
        let status = rustix::fs::fstat(&descriptor)?;
        let key = (status.st_dev, status.st_ino);
        let mut table = lock(&self.table);
        let number = match table.numbers.get(&key) {
            Some(&number) => number,
            None => {
                let is_of_first = *table.device.get_or_insert(key.0) == key.0;
                let number = match is_of_first && key.1 < OTHER {
                    true => BENEATH | key.1,
                    false => {
                        table.next_other += 1;
                        BENEATH | OTHER | table.next_other
                    }
                };
                table.numbers.insert(key, number);
                number
            }
        };
        let known = table.known.entry(number);
        known.or_insert_with(|| Known { descriptor: Arc::new(descriptor), key, lookups: 0 }).lookups += 1;
        Ok((number, status))
    }

    /// The kernel forgets a number this many times.
    pub(super) fn forget(&self, number: u64, count: u64) {
        let mut table = lock(&self.table);
        let Some(known) = table.known.get_mut(&number) else { return };
        known.lookups = known.lookups.saturating_sub(count);
        if known.lookups == 0 {
            let key = known.key;
            table.known.remove(&number);
            table.numbers.remove(&key);
        }
    }

    fn descriptor(&self, number: u64) -> Result<Arc<OwnedFd>, Errno> {
        let table = lock(&self.table);
        table.known.get(&number).map(|known| Arc::clone(&known.descriptor)).ok_or(Errno::STALE)
    }

    /// A path that leads to the file itself.
    pub(super) fn path(&self, number: u64) -> Result<(PathBuf, Arc<OwnedFd>), Errno> {
        let descriptor = self.descriptor(number)?;
        Ok((PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd())), descriptor))
    }

    pub(super) fn lookup(&self, parent: u64, name: &OsStr) -> Result<(u64, Stat), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.add(rustix::fs::openat(&*self.descriptor(parent)?, name, flags, Mode::empty())?)
    }

    pub(super) fn status(&self, number: u64) -> Result<Stat, Errno> {
        rustix::fs::fstat(&*self.descriptor(number)?)
    }

    /// Opens a file. The kernel has done what these flags say, except for the access mode and for writing through.
    pub(super) fn open(&self, number: u64, flags: i32) -> Result<File, Errno> {
        let flags = OFlags::from_bits_retain(flags as u32);
        let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        let reads = !flags.contains(OFlags::WRONLY);
        let kept = (flags & (OFlags::DSYNC | OFlags::SYNC)).bits();
        let (path, _kept_open) = self.path(number)?;
        let mut options = OpenOptions::new();
        options.read(reads).write(writes).custom_flags(kept as i32);
        options.open(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// Makes a regular file in the name of the caller, and opens it.
    pub(super) fn create(
        &self,
        request: &Request,
        parent: u64,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Result<(u64, Stat, File), Errno> {
        let directory = self.descriptor(parent)?;
        let access = OFlags::from_bits_retain(flags as u32) & (OFlags::ACCMODE | OFlags::EXCL);
        let flags = access | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&*directory, name, flags, Mode::from_raw_mode(mode))?;
        self.give(request, parent, name, mode)?;
        let (number, status) = self.lookup(parent, name)?;
        Ok((number, status, made.into()))
    }

    /// Makes something in a directory in the name of the caller.
    pub(super) fn make(
        &self,
        request: &Request,
        parent: u64,
        name: &OsStr,
        mode: u32,
        made: Made<'_>,
    ) -> Result<(u64, Stat), Errno> {
        let directory = self.descriptor(parent)?;
        let permissions = Mode::from_raw_mode(mode & 0o7777);
        match made {
            Made::Directory => rustix::fs::mkdirat(&*directory, name, permissions)?,
            Made::Link(target) => {
                rustix::fs::symlinkat(target, &*directory, name)?;
                self.give_owner(request, parent, name)?;
                return self.lookup(parent, name);
            }
            Made::Node(kind, device) => rustix::fs::mknodat(&*directory, name, kind, permissions, device)?,
        }
        self.give(request, parent, name, mode)?;
        self.lookup(parent, name)
    }

    /// Gives what was just made to the caller, with the permissions that it asked for.
    fn give(&self, request: &Request, parent: u64, name: &OsStr, mode: u32) -> Result<(), Errno> {
        self.give_owner(request, parent, name)?;
        let directory = self.descriptor(parent)?;
        let found = rustix::fs::statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode & 0o7777;
        // What a directory hands on to its directories stays.
        let wanted = mode & 0o7777 | found & SET_GROUP;
        match found == wanted && mode & SET_IDS == 0 {
            true => Ok(()),
            false => rustix::fs::chmodat(&*directory, name, Mode::from_raw_mode(wanted), AtFlags::empty()),
        }
    }

    fn give_owner(&self, request: &Request, parent: u64, name: &OsStr) -> Result<(), Errno> {
        let directory = self.descriptor(parent)?;
        let found = rustix::fs::statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let hands_on = rustix::fs::fstat(&*directory)?.st_mode & SET_GROUP != 0;
        let group = if hands_on { found.st_gid } else { request.gid() };
        if (found.st_uid, found.st_gid) == (request.uid(), group) {
            return Ok(());
        }
        let (user, group) = (Some(Uid::from_raw(request.uid())), Some(Gid::from_raw(group)));
        rustix::fs::chownat(&*directory, name, user, group, AtFlags::SYMLINK_NOFOLLOW)
    }

    pub(super) fn remove(&self, parent: u64, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        rustix::fs::unlinkat(&*self.descriptor(parent)?, name, flags)
    }

    pub(super) fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> Result<(), Errno> {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags);
        rustix::fs::renameat_with(&*self.descriptor(from.0)?, from.1, &*self.descriptor(to.0)?, to.1, flags)
    }

    pub(super) fn link(&self, number: u64, parent: u64, name: &OsStr) -> Result<(u64, Stat), Errno> {
        let (path, _kept_open) = self.path(number)?;
        rustix::fs::linkat(CWD, path, &*self.descriptor(parent)?, name, AtFlags::SYMLINK_FOLLOW)?;
        self.lookup(parent, name)
    }

    pub(super) fn read_link(&self, number: u64) -> Result<Vec<u8>, Errno> {
        Ok(rustix::fs::readlinkat(&*self.descriptor(number)?, "", Vec::new())?.into_bytes())
    }

    pub(super) fn change_mode(&self, number: u64, mode: u32) -> Result<(), Errno> {
        let (path, _kept_open) = self.path(number)?;
        rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o7777))
    }

    /// Takes the set-user-ID bit away, and the set-group-ID bit of what its group may execute, as the kernel does at a write.
    pub(super) fn clear_set_ids(&self, number: u64) -> Result<(), Errno> {
        const GROUP_EXECUTES: u32 = 0o010;
        let mode = self.status(number)?.st_mode & 0o7777;
        let cleared = if mode & GROUP_EXECUTES != 0 { SET_IDS } else { SET_IDS & !SET_GROUP };
        if mode & cleared == 0 { Ok(()) } else { self.change_mode(number, mode & !cleared) }
    }

    pub(super) fn change_owner(
        &self,
        number: u64,
        user: Option<u32>,
        group: Option<u32>,
    ) -> Result<(), Errno> {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        rustix::fs::chownat(&*self.descriptor(number)?, "", user, group, AtFlags::EMPTY_PATH)
    }

    pub(super) fn change_times(&self, number: u64, times: &Timestamps) -> Result<(), Errno> {
        rustix::fs::utimensat(&*self.descriptor(number)?, "", times, AtFlags::EMPTY_PATH)
    }

    /// What a directory contains, with `.` and `..`.
    pub(super) fn entries(&self, number: u64) -> Result<Vec<(u64, FileType, Vec<u8>)>, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&*self.descriptor(number)?, ".", flags, Mode::empty())?;
        let listed = rustix::fs::Dir::new(opened)?.map(|entry| {
            let entry = entry?;
            Ok((BENEATH | entry.ino(), entry.file_type(), entry.file_name().to_bytes().to_vec()))
        });
        listed.collect()
    }

    /// The space of the file system that a file lies on.
    pub(super) fn space(&self, number: u64) -> Result<StatVfs, Errno> {
        rustix::fs::fstatvfs(&*self.descriptor(number)?)
    }

    pub(super) fn sync_directory(&self, number: u64) -> Result<(), Errno> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&*self.descriptor(number)?, ".", flags, Mode::empty())?;
        rustix::fs::fsync(opened)
    }
}
