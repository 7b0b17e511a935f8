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
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use fuser::Request;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, StatVfs, Timestamps, Uid};
use rustix::io::Errno;

use super::caller::Caller;
use crate::file_attributes::{PERMISSIONS, SET_GROUP, without_set_ids};
use crate::locks::lock;

/// Set in the numbers of files beneath. Programs take numbers for signed, so the highest bit is not used.
pub(super) const BENEATH: u64 = 1 << 62;
/// Set in numbers that are not made of the file's own number.
const OTHER: u64 = 1 << 60;
/// What an open beneath keeps of the program's flags. The kernel has done what the others say.
const KEPT_FLAGS: OFlags = OFlags::ACCMODE.union(OFlags::DSYNC).union(OFlags::SYNC);

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
        Ok((path_of(&*descriptor), descriptor))
    }

    pub(super) fn lookup(&self, parent: u64, name: &OsStr) -> Result<(u64, Stat), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.add(rustix::fs::openat(&*self.descriptor(parent)?, name, flags, Mode::empty())?)
    }

    pub(super) fn status(&self, number: u64) -> Result<Stat, Errno> {
        rustix::fs::fstat(&*self.descriptor(number)?)
    }

    /// Opens a file, for which the kernel has checked the caller's permissions.
    pub(super) fn open(&self, number: u64, flags: i32) -> Result<File, Errno> {
        let (path, _kept_open) = self.path(number)?;
        let flags = OFlags::from_bits_retain(flags as u32) & KEPT_FLAGS | OFlags::CLOEXEC;
        Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
    }

    /// Makes a regular file in the name of the caller, and opens it. If there is one by now, the kernel is asked to look again, and
    /// to check who may open that one.
    pub(super) fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Result<(u64, Stat, File), Errno> {
        let directory = self.descriptor(parent)?;
        let asked = OFlags::from_bits_retain(flags as u32);
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let acting = caller.begin()?;
        let made = rustix::fs::openat(&*directory, name, asked & KEPT_FLAGS | new, Mode::from_raw_mode(mode));
        let made = made.map_err(|error| match error {
            Errno::EXIST if !asked.contains(OFlags::EXCL) => Errno::STALE,
            error => error,
        })?;
        let path = path_of(&made);
        // The mask of this process, and what bits the directory hands on, do not count.
        if rustix::fs::fstat(&made)?.st_mode & PERMISSIONS != mode & PERMISSIONS {
            rustix::fs::fchmod(&made, Mode::from_raw_mode(mode & PERMISSIONS))?;
        }
        drop(acting);
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let (number, status) = self.add(found)?;
        Ok((number, status, made.into()))
    }

    /// Makes something in a directory in the name of the caller.
    pub(super) fn make(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        made: Made<'_>,
    ) -> Result<(u64, Stat), Errno> {
        let directory = self.descriptor(parent)?;
        let permissions = Mode::from_raw_mode(mode & PERMISSIONS);
        let acting = caller.begin()?;
        let is_link = matches!(made, Made::Link(_));
        match made {
            Made::Directory => rustix::fs::mkdirat(&*directory, name, permissions)?,
            Made::Link(target) => rustix::fs::symlinkat(target, &*directory, name)?,
            Made::Node(kind, device) => rustix::fs::mknodat(&*directory, name, kind, permissions, device)?,
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(&*directory, name, flags, Mode::empty())?;
        let is = rustix::fs::fstat(&found)?.st_mode & PERMISSIONS;
        // What a directory hands on to its directories stays.
        let wanted = mode & PERMISSIONS | is & SET_GROUP;
        if !is_link && is != wanted {
            // If somebody put another file there meanwhile, the caller changes it only if it belongs to the caller.
            rustix::fs::chmod(path_of(&found), Mode::from_raw_mode(wanted))?;
        }
        drop(acting);
        self.add(found)
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
        rustix::fs::chmod(path, Mode::from_raw_mode(mode & PERMISSIONS))
    }

    /// Takes the set-user-ID and set-group-ID bits away after a change by a user who may not keep them.
    pub(super) fn clear_set_ids(&self, request: &Request, number: u64) -> Result<(), Errno> {
        let status = self.status(number)?;
        let mode = status.st_mode & PERMISSIONS;
        match without_set_ids(mode, status.st_gid, request) {
            cleared if cleared == mode => Ok(()),
            cleared => self.change_mode(number, cleared),
        }
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

/// A path that leads to an open file itself.
fn path_of(opened: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    const CALLER: Caller = Caller { user: 4321, group: 8765 };
    const READ_WRITE: i32 = 2;

    fn root_of(folder: &std::path::Path) -> Option<(Beneath, u64)> {
        if !rustix::process::geteuid().is_root() {
            flashlab_skip::skip(flashlab_skip::Need::Root, "only root acts in the name of others");
            return None;
        }
        let beneath = Beneath::default();
        let (number, _) = beneath.add(File::open(folder).unwrap().into()).unwrap();
        Some((beneath, number))
    }

    #[test]
    fn what_others_put_in_the_way_is_neither_opened_nor_given_away() {
        let folder = tempfile::tempdir().unwrap();
        let Some((beneath, root)) = root_of(folder.path()) else { return };
        let secret = folder.path().join("secret");
        fs::write(&secret, "of root").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&secret, folder.path().join("link")).unwrap();
        for name in ["secret", "link"] {
            let create = |flags| beneath.create(CALLER, root, OsStr::new(name), 0o100666, flags).err();
            // The kernel looks again after this error.
            assert_eq!(create(READ_WRITE), Some(Errno::STALE), "{name}");
            assert_eq!(create(READ_WRITE | OFlags::EXCL.bits() as i32), Some(Errno::EXIST), "{name}");
            for made in [Made::Directory, Made::Link(OsStr::new("/")), Made::Node(FileType::Fifo, 0)] {
                let made = beneath.make(CALLER, root, OsStr::new(name), 0o777, made);
                assert_eq!(made.err(), Some(Errno::EXIST), "{name}");
            }
        }
        let found = secret.metadata().unwrap();
        assert_eq!((found.uid(), found.mode() & PERMISSIONS), (0, 0o600));
    }

    #[test]
    fn what_is_made_belongs_to_the_caller_who_gets_no_power_over_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let Some((beneath, root)) = root_of(folder.path()) else { return };
        let owner = |status: &Stat| (status.st_uid, status.st_gid, status.st_mode & PERMISSIONS);
        let (number, status, _) =
            beneath.create(CALLER, root, OsStr::new("file"), 0o100666, READ_WRITE).unwrap();
        assert_eq!(owner(&status), (4321, 8765, 0o666));
        assert_eq!(beneath.lookup(root, OsStr::new("file")).unwrap().0, number);
        let make = |name: &str, made| {
            let (_, status) = beneath.make(CALLER, root, OsStr::new(name), 0o777, made).unwrap();
            owner(&status)
        };
        assert_eq!(make("directory", Made::Directory), (4321, 8765, 0o777));
        assert_eq!(make("pipe", Made::Node(FileType::Fifo, 0)), (4321, 8765, 0o777));
        assert_eq!(make("link", Made::Link(OsStr::new("/"))), (4321, 8765, 0o777));
        // A directory that hands its group on.
        rustix::fs::chmod(folder.path(), Mode::from_raw_mode(0o2755)).unwrap();
        assert_eq!(make("inner", Made::Directory), (4321, 0, 0o2777));

        let of_root = folder.path().join("of_root");
        fs::write(&of_root, "").unwrap();
        let acting = CALLER.begin().unwrap();
        assert_eq!(rustix::fs::chmod(&of_root, Mode::from_raw_mode(0o666)), Err(Errno::PERM));
        drop(acting);
        assert_eq!(rustix::fs::chmod(&of_root, Mode::from_raw_mode(0o666)), Ok(()));
    }
}
