//! The kernel's requests for the files of a volume.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use flashlab_base::Bytes;
use flashlab_repair::{FileAttributes, FileKind, FileRefusal, LINK_PERMISSIONS, RepairError, SetExtended};
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};

use super::answers::{answer, answer_attributes, answer_entry, answer_extended, errno_of};
use super::making::{attributes_in, known};
use super::writing::{clear_set_ids, fallocate};
use super::{FilesMount, Listing, SEEK_DATA, SEEK_HOLE, VALID, id_of};
use crate::file_attributes::{PERMISSIONS, is_root, time_ns, type_of, without_set_ids};
use crate::fuse::serve_in_parallel;
use crate::locks::lock;

const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// The extended attributes that files have.
const EXTENDED_PREFIX: &[u8] = b"user.";
/// A file up to this size loses its cache when it is opened and the time of its last read is due, because the kernel keeps reads of its
/// cache to itself. A larger one keeps its cache: a database is opened after each change, and would be read from the device each time.
const DROPPED_CACHE_MAX: Bytes = Bytes(128 << 10);

impl Filesystem for FilesMount {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        // A kernel without it clears the bits itself.
        let _ = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        serve_in_parallel(config);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.files.with_shown(|files, _| {
            let id = files.lookup(id_of(parent), name.as_bytes())?;
            known(files, id)
        });
        answer_entry(found, reply);
    }

    fn forget(&self, _request: &Request, node: INodeNo, count: u64) {
        self.files.with(|files, _| {
            let is_directory =
                files.status(id_of(node)).is_ok_and(|status| status.kind == FileKind::Directory);
            if is_directory {
                // An error of the device ends the next call that can report it.
                let _ = files.release_times(id_of(node), count);
            }
        });
    }

    fn getattr(&self, _request: &Request, node: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        answer_attributes(self.files.with_shown(|files, _| files.status(id_of(node))), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _file: Option<FileHandle>,
        _created: Option<SystemTime>,
        _flags_changed: Option<SystemTime>,
        _backup: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = self.files.with_shown(|files, now_ns| {
            let id = id_of(node);
            if let Some(size) = size {
                files.truncate(id, Bytes(size), now_ns)?;
                if !is_root(request) {
                    clear_set_ids(files, id, request, now_ns)?;
                }
            }
            let status = files.status(id)?;
            let old = status.attributes;
            let is_chown = user.is_some() || group.is_some();
            let kept = match is_chown && status.kind != FileKind::Directory {
                true => without_set_ids(old.mode, old.group, request),
                false => old.mode,
            };
            let new = FileAttributes {
                mode: mode.map_or(kept, |mode| mode & PERMISSIONS),
                user: user.unwrap_or(old.user),
                group: group.unwrap_or(old.group),
                modified_ns: modified.map_or(old.modified_ns, |time| time_ns(time, now_ns)),
                accessed_ns: accessed.map_or(old.accessed_ns, |time| time_ns(time, now_ns)),
                changed_ns: now_ns,
            };
            if mode.is_some() || is_chown || modified.is_some() || accessed.is_some() {
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
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(request, (parent, name), (FileKind::Regular, mode), true) {
            Ok(attr) => {
                self.note_open(attr.ino, OpenFlags(flags));
                reply.created(&VALID, &attr, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.files.with_shown(|files, now_ns| {
            let (parent, what) = (id_of(parent), (FileKind::SymbolicLink, LINK_PERMISSIONS));
            let attributes = attributes_in(files, parent, request, what, now_ns)?;
            let target = target.as_os_str().as_bytes();
            let id = files.symlink(parent, name.as_bytes(), target, attributes)?;
            known(files, id)
        });
        answer_entry(made, reply);
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        let target = self.files.with(|files, now_ns| {
            files.accessed(id_of(node), now_ns);
            files.read_link(id_of(node))
        });
        match target {
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
        let (from, to) = ((id_of(parent), name.as_bytes()), (id_of(new_parent), new_name.as_bytes()));
        let renamed = self.files.with(|files, now_ns| match flags {
            RenameFlags::RENAME_NOREPLACE => files.rename(from, to, false, now_ns),
            RenameFlags::RENAME_EXCHANGE => files.exchange(from, to, now_ns),
            flags if flags.is_empty() => files.rename(from, to, true, now_ns),
            _ => Err(FileRefusal::Invalid.into()),
        });
        answer(renamed, reply);
    }

    fn link(&self, _request: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.files.with_shown(|files, now_ns| {
            files.link(id_of(node), id_of(parent), name.as_bytes(), now_ns)?;
            known(files, id_of(node))
        });
        answer_entry(linked, reply);
    }

    fn open(&self, _request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.files.with(|files, now_ns| {
            files.hold(id_of(node))?;
            let is_small = files.status(id_of(node))?.size <= DROPPED_CACHE_MAX;
            let reads = flags.acc_mode() == OpenAccMode::O_RDONLY;
            Ok::<bool, RepairError>(reads && is_small && files.access_is_due(id_of(node), now_ns))
        });
        if opened.is_ok() {
            self.note_open(node, flags);
        }
        match opened {
            Ok(true) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Ok(false) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
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
        self.awake.used();
        let mut buffer = vec![0; size as usize];
        match self.files.read(id_of(node), offset, &mut buffer) {
            Ok(length) => {
                self.counts.read(length);
                reply.data(&buffer[..length]);
            }
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn write(
        &self,
        request: &Request,
        node: INodeNo,
        _file: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.write_data(request, node, (offset, data), (write_flags, flags), reply);
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
        flags: OpenFlags,
        _lock: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.note_closed(node, flags);
        answer(self.files.with(|files, _| files.release(id_of(node))), reply);
    }

    fn fsync(&self, _request: &Request, _node: INodeNo, _file: FileHandle, data: bool, reply: ReplyEmpty) {
        self.counts.synced();
        answer(self.files.sync(data), reply);
    }

    fn fsyncdir(&self, _request: &Request, _node: INodeNo, _file: FileHandle, data: bool, reply: ReplyEmpty) {
        self.counts.synced();
        answer(self.files.sync(data), reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        _file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (range, mode) = ((offset, length), mode as u32);
        let done = self.files.with(|files, now_ns| {
            fallocate(files, id_of(node), range, mode, now_ns)?;
            Ok(!is_root(request) && clear_set_ids(files, id_of(node), request, now_ns)?)
        });
        if let Ok(true) = done {
            self.let_mode_be_asked(node);
        }
        answer(done.map(drop), reply);
    }

    fn lseek(
        &self,
        _request: &Request,
        node: INodeNo,
        _file: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        // Programs may copy what is data alone: nothing with data may be a hole.
        let is_written = lock(&self.writers).contains_key(&id_of(node));
        let found = self.files.with(|files, _| match (whence, u64::try_from(offset)) {
            (SEEK_DATA | SEEK_HOLE, Ok(offset)) if is_written => {
                let size = files.status(id_of(node))?.size.0;
                match offset < size {
                    true => Ok(if whence == SEEK_DATA { offset } else { size }),
                    false => Err(FileRefusal::NoData.into()),
                }
            }
            (SEEK_DATA, Ok(offset)) => files.seek_data(id_of(node), offset),
            (SEEK_HOLE, Ok(offset)) => files.seek_hole(id_of(node), offset),
            (SEEK_DATA | SEEK_HOLE, Err(_)) => Err(FileRefusal::NoData.into()),
            _ => Err(FileRefusal::Invalid.into()),
        });
        match found {
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        const CREATE: i32 = 1;
        const REPLACE: i32 = 2;
        let set = match flags {
            0 => SetExtended::Any,
            CREATE => SetExtended::Create,
            REPLACE => SetExtended::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        let done = self
            .files
            .with(|files, now_ns| files.set_extended(id_of(node), extended_name(name)?, value, set, now_ns));
        answer(done, reply);
    }

    fn getxattr(&self, _request: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self.files.with(|files, _| {
            let value = files.extended(id_of(node), extended_name(name)?)?;
            Ok(value.to_vec())
        });
        answer_extended(value, size, reply);
    }

    fn listxattr(&self, _request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.files.with(|files, _| files.extended_names(id_of(node)));
        let listed = |names: Vec<Vec<u8>>| {
            names.iter().flat_map(|name| [EXTENDED_PREFIX, name, b"\0"].concat()).collect()
        };
        answer_extended(names.map(listed), size, reply);
    }

    fn removexattr(&self, _request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed =
            self.files.with(|files, now_ns| files.remove_extended(id_of(node), extended_name(name)?, now_ns));
        answer(removed, reply);
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
        node: INodeNo,
        file: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.files.with(|files, now_ns| files.accessed(id_of(node), now_ns));
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
        let (files, free_files) = (usage.files + usage.free_files, usage.free_files);
        reply.statfs(blocks(usage.total), free, free, files, free_files, BLOCK, 255, BLOCK);
    }
}

/// The name of an extended attribute without its `user.`.
fn extended_name(name: &OsStr) -> Result<&[u8], RepairError> {
    match name.as_bytes().strip_prefix(EXTENDED_PREFIX) {
        None => Err(FileRefusal::NotSupported.into()),
        Some([]) => Err(FileRefusal::Invalid.into()),
        Some(name) => Ok(name),
    }
}
