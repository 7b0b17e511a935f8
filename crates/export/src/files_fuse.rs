//! The files of a volume as a directory, through FUSE.
//!
//! # Model
//! The kernel caches pages and passes each write on at once, so that `mmap` works and nothing waits in the cache but what was
//! written through a mapping. Locks of files are the kernel's own. Several threads answer requests, because each is busy until its IO is
//! done.
//!
//! A write with a set-user-ID or set-group-ID bit is ours to notice (`FUSE_HANDLE_KILLPRIV_V2`); otherwise the kernel would ask for the
//! attribute `security.capability` before each write.
//!
//! # Invariants
//! - `fsync` and `fdatasync` return when the volume has flushed.
//! - A file that is open is there until it is closed, also without a name; a directory until the kernel forgets it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use flashlab_base::Bytes;
use flashlab_repair::{
    FileAttributes, FileId, FileKind, FileRefusal, FileStatus, LINK_PERMISSIONS, RepairError, SetExtended,
};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, Notifier, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;

use crate::awake::AwakeCpus;
use crate::file_attributes::{PERMISSIONS, SET_GROUP, attr_of, is_root, time_ns, type_of, without_set_ids};
use crate::file_counts::FileCounts;
use crate::fuse::{FILES_NAME, FuseMount, THREADS, is_dead_mount_of_files, serve_in_parallel};
use crate::locks::lock;
use crate::shared_files::{OpenFiles, SharedFiles};

/// The time that the kernel may cache attributes and names: long, because only the kernel changes them.
const VALID: Duration = Duration::from_secs(3600);
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Of lseek: the next data, or the next hole (linux/fs.h).
pub(crate) const SEEK_DATA: i32 = 3;
pub(crate) const SEEK_HOLE: i32 = 4;
/// The extended attributes that files have.
const EXTENDED_PREFIX: &[u8] = b"user.";
/// A file up to this size loses its cache when it is opened and the time of its last read is due, because the kernel keeps reads of its
/// cache to itself. A larger one keeps its cache: a database is opened after each change, and would be read from the device each time.
const DROPPED_CACHE_MAX: Bytes = Bytes(128 << 10);

/// Mounts the files on a directory, also in the place of a mount of ours whose server was killed.
///
/// # Errors
/// When FUSE is missing or not permitted, or `directory` is no directory or busy.
pub fn mount_files(files: SharedFiles, directory: &Path) -> io::Result<FuseMount> {
    let mount = FilesMount::new(files, Arc::default());
    let kernel = mount.kernel();
    let mounted = match is_dead_mount_of_files(directory) {
        true => FuseMount::in_place_of_dead(mount, FILES_NAME, directory, THREADS),
        false => FuseMount::of(mount, FILES_NAME, directory, THREADS),
    }?;
    mounted.notifier().map(|notifier| kernel.set(notifier));
    Ok(mounted)
}

/// A directory's content as it was when it was opened.
type Listing = Vec<(FileId, FileKind, Vec<u8>)>;

pub(crate) struct FilesMount {
    files: SharedFiles,
    counts: Arc<FileCounts>,
    awake: AwakeCpus,
    listings: Mutex<BTreeMap<u64, Listing>>,
    next_listing: AtomicU64,
    /// What the kernel is told through.
    kernel: Arc<OnceLock<Notifier>>,
    /// How often each file is open for writing. Who may write may also map it, and what a mapping holds the kernel keeps to itself.
    writers: Mutex<BTreeMap<FileId, u64>>,
}

impl FilesMount {
    pub(crate) fn new(files: SharedFiles, counts: Arc<FileCounts>) -> FilesMount {
        FilesMount {
            files,
            counts,
            awake: AwakeCpus::start(),
            listings: Mutex::default(),
            next_listing: AtomicU64::new(1),
            kernel: Arc::default(),
            writers: Mutex::default(),
        }
    }

    /// Where to put what the kernel is told through, when it is mounted.
    pub(crate) fn kernel(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.kernel)
    }

    /// The kernel keeps a mode that it knows. Lets it ask anew for that of a file whose set-ID bits were cleared.
    fn let_mode_be_asked(&self, node: INodeNo) {
        /// Only attributes: no data.
        const ATTRIBUTES: i64 = -1;
        if let Some(kernel) = self.kernel.get() {
            // A kernel that has forgotten the file asks in any case.
            let _ = kernel.inval_inode(node, ATTRIBUTES, 0);
        }
    }

    /// Makes a file or directory in the name of the caller, and opens it if it `is_open`.
    fn make(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        (kind, mode): (FileKind, u32),
        is_open: bool,
    ) -> Result<FileAttr, RepairError> {
        self.files.with_shown(|files, now_ns| {
            let parent = id_of(parent);
            let attributes = attributes_in(files, parent, request, (kind, mode), now_ns)?;
            let id = files.create(parent, name.as_bytes(), kind, attributes)?;
            if is_open {
                files.hold(id)?;
            }
            known(files, id)
        })
    }
}

impl FilesMount {
    fn note_open(&self, node: INodeNo, flags: OpenFlags) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            *lock(&self.writers).entry(id_of(node)).or_default() += 1;
        }
    }

    fn note_closed(&self, node: INodeNo, flags: OpenFlags) {
        let mut writers = lock(&self.writers);
        if flags.acc_mode() != OpenAccMode::O_RDONLY
            && let Some(count) = writers.get_mut(&id_of(node))
        {
            *count -= 1;
            if *count == 0 {
                writers.remove(&id_of(node));
            }
        }
    }
}

/// The attributes of what a caller makes in a directory.
fn attributes_in(
    files: &OpenFiles,
    parent: FileId,
    request: &Request,
    (kind, mode): (FileKind, u32),
    now_ns: i64,
) -> Result<FileAttributes, RepairError> {
    let inherited = files.status(parent)?.attributes;
    let hands_on = inherited.mode & SET_GROUP != 0;
    let group = if hands_on { inherited.group } else { request.gid() };
    let set_group = if hands_on && kind == FileKind::Directory { SET_GROUP } else { 0 };
    Ok(FileAttributes::new(mode & PERMISSIONS | set_group, request.uid(), group, now_ns))
}

/// The attributes of a file that the kernel gets to know. It keeps a directory until it forgets it.
fn known(files: &mut OpenFiles, id: FileId) -> Result<FileAttr, RepairError> {
    let status = files.status(id)?;
    if status.kind == FileKind::Directory {
        files.hold(id)?;
    }
    Ok(attr_of(&status))
}

/// Clears the set-user-ID and set-group-ID bits after a change by a user who may not keep them. Whether one was set.
fn clear_set_ids(
    files: &mut OpenFiles,
    id: FileId,
    request: &Request,
    now_ns: i64,
) -> Result<bool, RepairError> {
    let old = files.status(id)?.attributes;
    let mode = without_set_ids(old.mode, old.group, request);
    if mode != old.mode {
        files.set_attributes(id, FileAttributes { mode, changed_ns: now_ns, ..old })?;
    }
    Ok(mode != old.mode)
}

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
        self.awake.used();
        let clears = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let is_direct = flags.0 & OFlags::DIRECT.bits() as i32 != 0;
        let (mut reply, mut is_cleared) = (Some(reply), false);
        let written = self.files.with(|files, now_ns| {
            let acknowledge = || {
                if let Some(reply) = reply.take() {
                    self.counts.written(data.len());
                    reply.written(data.len() as u32);
                }
            };
            if !clears && files.overwrite_acknowledging(id_of(node), offset, data, now_ns, acknowledge) {
                return Ok(data.len());
            }
            let written = match is_direct {
                // The kernel makes EIO of a direct write that ends early.
                true => files.write(id_of(node), Some(offset), data, now_ns).map(|_| data.len())?,
                false => write_what_fits(files, id_of(node), offset, data, now_ns)?,
            };
            if clears {
                is_cleared = clear_set_ids(files, id_of(node), request, now_ns)?;
            }
            Ok::<usize, RepairError>(written)
        });
        if is_cleared {
            self.let_mode_be_asked(node);
        }
        match (written, reply) {
            // It was acknowledged before it was done.
            (_, None) => {}
            (Ok(length), Some(reply)) => {
                self.counts.written(length);
                reply.written(length as u32);
            }
            (Err(error), Some(reply)) => reply.error(errno_of(&error)),
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

fn id_of(node: INodeNo) -> FileId {
    FileId(node.0)
}

/// Writes data; where it does not fit, its beginning, as ext4 does.
fn write_what_fits(
    files: &mut OpenFiles,
    id: FileId,
    offset: u64,
    data: &[u8],
    now_ns: i64,
) -> Result<usize, RepairError> {
    let refused = match files.write(id, Some(offset), data, now_ns) {
        Ok(_) => return Ok(data.len()),
        Err(error) => error,
    };
    if refused != RepairError::File(FileRefusal::NoSpace) {
        return Err(refused);
    }
    // The first page of the range may be the file's already.
    let page = files.volume().layout().options.page.0;
    let free = files.usage().free.0 / page * page;
    for fits in [free + page, free].map(|end| end.saturating_sub(offset % page)) {
        if fits > 0
            && fits < data.len() as u64
            && files.write(id, Some(offset), &data[..fits as usize], now_ns).is_ok()
        {
            return Ok(fits as usize);
        }
    }
    Err(refused)
}

/// Linux's `fallocate`, with its mode: allocates a range, punches a hole or zeroes it.
fn fallocate(
    files: &mut OpenFiles,
    id: FileId,
    (offset, length): (u64, u64),
    mode: u32,
    now_ns: i64,
) -> Result<(), RepairError> {
    const KEEP_SIZE: u32 = 1;
    const PUNCH_HOLE: u32 = 2;
    const ZERO_RANGE: u32 = 16;
    let keeps_size = mode & KEEP_SIZE != 0;
    match mode & !KEEP_SIZE {
        0 => files.allocate(id, offset, length, keeps_size, now_ns),
        PUNCH_HOLE => files.punch(id, offset, length, now_ns),
        ZERO_RANGE => {
            files.punch(id, offset, length, now_ns)?;
            files.allocate(id, offset, length, keeps_size, now_ns)
        }
        _ => Err(FileRefusal::NotSupported.into()),
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

fn errno_of(error: &RepairError) -> Errno {
    Errno::from_i32(error.io_error().errno)
}

fn answer(result: Result<(), RepairError>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno_of(&error)),
    }
}

fn answer_extended(value: Result<Vec<u8>, RepairError>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
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
