//! The files of a volume as a directory, through FUSE.
//!
//! # Model
//! The kernel caches pages and passes each write on at once, so that `mmap` works and nothing waits in the cache but what was
//! written through a mapping. Locks of files are the kernel's own.
//!
//! # Invariants
//! - `fsync` and `fdatasync` return when the volume has flushed.
//! - A file that is open is there until it is closed, also without a name.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flashlab_base::Bytes;
use flashlab_repair::{FileAttributes, FileId, FileKind, FileStatus, LINK_PERMISSIONS, RepairError};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::fuse::{FuseMount, is_dead_mount};
use crate::locks::lock;
use crate::shared_files::{OpenFiles, PERMISSIONS, SharedFiles, fallocate};

/// The time that the kernel may cache attributes and names: long, because only the kernel changes them.
const VALID: Duration = Duration::from_secs(3600);
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Set in the mode of a directory: what is made in it belongs to its group.
const SET_GROUP: u32 = 0o2000;

/// Mounts the files on a directory, also in the place of a mount of ours whose server was killed.
///
/// # Errors
/// When FUSE is missing or not permitted, or `directory` is no directory or busy.
pub fn mount_files(files: SharedFiles, directory: &Path) -> io::Result<FuseMount> {
    let mount = FilesMount { files, listings: Mutex::default(), next_listing: AtomicU64::new(1) };
    match is_dead_mount(directory) {
        true => FuseMount::in_place_of_dead(mount, directory, 1),
        false => FuseMount::of(mount, directory, 1),
    }
}

/// A directory's content as it was when it was opened.
type Listing = Vec<(FileId, FileKind, Vec<u8>)>;

struct FilesMount {
    files: SharedFiles,
    listings: Mutex<BTreeMap<u64, Listing>>,
    next_listing: AtomicU64,
}

impl FilesMount {
    /// Makes a file or directory in the name of the caller, and opens it if it `is_open`.
    fn make(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        (kind, mode): (FileKind, u32),
        is_open: bool,
    ) -> Result<FileAttr, RepairError> {
        self.files.with(|files, modified_ns| {
            let parent = id_of(parent);
            let attributes = attributes_in(files, parent, request, (kind, mode), modified_ns)?;
            let id = files.create(parent, name.as_bytes(), kind, attributes)?;
            if is_open {
                files.hold(id)?;
            }
            Ok(attr_of(&files.status(id)?))
        })
    }
}

/// The attributes of what a caller makes in a directory.
fn attributes_in(
    files: &OpenFiles,
    parent: FileId,
    request: &Request,
    (kind, mode): (FileKind, u32),
    modified_ns: u64,
) -> Result<FileAttributes, RepairError> {
    let inherited = files.status(parent)?.attributes;
    let hands_on = inherited.mode & SET_GROUP != 0;
    let group = if hands_on { inherited.group } else { request.gid() };
    let set_group = if hands_on && kind == FileKind::Directory { SET_GROUP } else { 0 };
    Ok(FileAttributes { mode: mode & PERMISSIONS | set_group, user: request.uid(), group, modified_ns })
}

impl Filesystem for FilesMount {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.files.with(|files, _| files.status(files.lookup(id_of(parent), name.as_bytes())?));
        answer_entry(found.map(|status| attr_of(&status)), reply);
    }

    fn getattr(&self, _request: &Request, node: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        answer_attributes(self.files.with(|files, _| files.status(id_of(node))), reply);
    }

    fn setattr(
        &self,
        _request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _file: Option<FileHandle>,
        _created: Option<SystemTime>,
        _flags_changed: Option<SystemTime>,
        _backup: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = self.files.with(|files, now_ns| {
            let id = id_of(node);
            if let Some(size) = size {
                files.truncate(id, Bytes(size), now_ns)?;
            }
            let old = files.status(id)?.attributes;
            let new = FileAttributes {
                mode: mode.map_or(old.mode, |mode| mode & PERMISSIONS),
                user: user.unwrap_or(old.user),
                group: group.unwrap_or(old.group),
                modified_ns: modified.map_or(old.modified_ns, |time| time_ns(time, now_ns)),
            };
            if new != old {
                files.set_attributes(id, new)?;
            }
            files.status(id)
        });
        answer_attributes(changed, reply);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        const FORMAT: u32 = 0o170000;
        const REGULAR: u32 = 0o100000;
        if mode & FORMAT != REGULAR {
            return reply.error(Errno::EPERM);
        }
        answer_entry(self.make(request, (parent, name), (FileKind::Regular, mode), false), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        answer_entry(self.make(request, (parent, name), (FileKind::Directory, mode), false), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(request, (parent, name), (FileKind::Regular, mode), true) {
            Ok(attr) => {
                reply.created(&VALID, &attr, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.files.with(|files, modified_ns| {
            let (parent, what) = (id_of(parent), (FileKind::SymbolicLink, LINK_PERMISSIONS));
            let attributes = attributes_in(files, parent, request, what, modified_ns)?;
            let target = target.as_os_str().as_bytes();
            let id = files.symlink(parent, name.as_bytes(), target, attributes)?;
            files.status(id)
        });
        answer_entry(made.map(|status| attr_of(&status)), reply);
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        match self.files.with(|files, _| files.read_link(id_of(node))) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.files.with(|files, now_ns| files.unlink(id_of(parent), name.as_bytes(), now_ns)), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed =
            self.files.with(|files, now_ns| files.remove_directory(id_of(parent), name.as_bytes(), now_ns));
        answer(removed, reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let replaces = match flags {
            RenameFlags::RENAME_NOREPLACE => false,
            flags if flags.is_empty() => true,
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = ((id_of(parent), name.as_bytes()), (id_of(new_parent), new_name.as_bytes()));
        answer(self.files.with(|files, now_ns| files.rename(from, to, replaces, now_ns)), reply);
    }

    fn link(&self, _request: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.files.with(|files, now_ns| {
            files.link(id_of(node), id_of(parent), name.as_bytes(), now_ns)?;
            files.status(id_of(node))
        });
        answer_entry(linked.map(|status| attr_of(&status)), reply);
    }

    fn open(&self, _request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.files.with(|files, _| files.hold(id_of(node))) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        node: INodeNo,
        _file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut data = vec![0; size as usize];
        match self.files.with(|files, _| files.read(id_of(node), offset, &mut data)) {
            Ok(length) => reply.data(&data[..length]),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        node: INodeNo,
        _file: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.files.with(|files, now_ns| files.write(id_of(node), Some(offset), data, now_ns)) {
            Ok(_) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _node: INodeNo,
        _file: FileHandle,
        _lock: LockOwner,
        reply: ReplyEmpty,
    ) {
        // The kernel calls this when a program closes a file, which makes nothing durable.
        reply.ok();
    }

    fn release(
        &self,
        _request: &Request,
        node: INodeNo,
        _file: FileHandle,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        answer(self.files.with(|files, _| files.release(id_of(node))), reply);
    }

    fn fsync(&self, _request: &Request, _node: INodeNo, _file: FileHandle, data: bool, reply: ReplyEmpty) {
        answer(self.files.with(|files, _| files.sync(data)), reply);
    }

    fn fsyncdir(&self, _request: &Request, _node: INodeNo, _file: FileHandle, data: bool, reply: ReplyEmpty) {
        answer(self.files.with(|files, _| files.sync(data)), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        node: INodeNo,
        _file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (range, mode) = ((offset, length), mode as u32);
        answer(self.files.with(|files, now_ns| fallocate(files, id_of(node), range, mode, now_ns)), reply);
    }

    fn opendir(&self, _request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let directory = id_of(node);
        let listed = self.files.with(|files, _| {
            let mut listing = vec![
                (directory, FileKind::Directory, b".".to_vec()),
                (files.parent(directory)?, FileKind::Directory, b"..".to_vec()),
            ];
            let entries = files.entries(directory)?.into_iter();
            listing.extend(entries.map(|(name, status)| (status.id, status.kind, name)));
            Ok::<Listing, RepairError>(listing)
        });
        match listed {
            Ok(listing) => {
                let number = self.next_listing.fetch_add(1, Ordering::Relaxed);
                lock(&self.listings).insert(number, listing);
                reply.opened(FileHandle(number), FopenFlags::empty());
            }
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _node: INodeNo,
        file: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listings = lock(&self.listings);
        let listing = listings.get(&file.0).map_or(&[][..], Vec::as_slice);
        for (index, (id, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(id.0), index as u64 + 1, type_of(*kind), OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _node: INodeNo,
        file: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        lock(&self.listings).remove(&file.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        const BLOCK: u32 = 4096;
        let usage = self.files.with(|files, _| files.usage());
        let blocks = |size: Bytes| size.0 / u64::from(BLOCK);
        let free = blocks(usage.free);
        reply.statfs(blocks(usage.total), free, free, usage.files + free, free, BLOCK, 255, BLOCK);
    }
}

fn id_of(node: INodeNo) -> FileId {
    FileId(node.0)
}

fn type_of(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::SymbolicLink => FileType::Symlink,
    }
}

fn time_ns(time: TimeOrNow, now_ns: u64) -> u64 {
    match time {
        TimeOrNow::Now => now_ns,
        TimeOrNow::SpecificTime(time) => time
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)),
    }
}

fn attr_of(status: &FileStatus) -> FileAttr {
    let modified = UNIX_EPOCH + Duration::from_nanos(status.attributes.modified_ns);
    FileAttr {
        ino: INodeNo(status.id.0),
        size: status.size.0,
        blocks: status.allocated.0 / 512,
        atime: modified,
        mtime: modified,
        ctime: modified,
        crtime: modified,
        kind: type_of(status.kind),
        perm: status.attributes.mode as u16,
        nlink: if status.kind == FileKind::Directory { 2 } else { status.links },
        uid: status.attributes.user,
        gid: status.attributes.group,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn errno_of(error: &RepairError) -> Errno {
    Errno::from_i32(error.io_error().errno)
}

fn answer(result: Result<(), RepairError>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno_of(&error)),
    }
}

fn answer_attributes(result: Result<FileStatus, RepairError>, reply: ReplyAttr) {
    match result {
        Ok(status) => reply.attr(&VALID, &attr_of(&status)),
        Err(error) => reply.error(errno_of(&error)),
    }
}

fn answer_entry(result: Result<FileAttr, RepairError>, reply: ReplyEntry) {
    match result {
        Ok(attr) => reply.entry(&VALID, &attr, Generation(0)),
        Err(error) => reply.error(errno_of(&error)),
    }
}
