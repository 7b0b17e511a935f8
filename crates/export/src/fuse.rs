//! A live disk as a file, through FUSE: `DIR/disk`.
//!
//! # Model
//! [`fuser`] reads the kernel's requests in one thread, which begins each of them at once; for a disk in wall time in
//! several, because each is busy until its IO is done. The answer is sent when it is
//! due: by the thread of [`Deadlines`], or by the reading thread if it is due already. Every program that opens the file
//! gets direct IO, so that no page cache hides the disk. A loop device over the file makes it a block device.
//!
//! # Invariants
//! - The size of the file never changes: truncating and extending do nothing, as on a block device.
//! - Every request is answered.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{IoError, Operation};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, Notifier, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session,
    SessionACL, TimeOrNow, WriteFlags,
};

use rustix::fs::OFlags;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags};

use crate::deadlines::Deadlines;
use crate::io::{Data, Io, PendingAnswer};
use crate::live::LiveDisk;
use crate::locks::lock;
use crate::private::private_directory;

/// The file's name in the directory.
pub const FILE: &str = "disk";
/// The source of a disk's mount, as `/proc/mounts` shows it.
const NAME: &str = "flashlab";
/// The source of a mount of files.
pub const FILES_NAME: &str = "flashlab-files";
const FILE_NODE: INodeNo = INodeNo(2);
/// The time that the kernel may cache attributes and names: long, because they never change.
const VALID: Duration = Duration::from_secs(3600);
/// The largest write request. Linux makes requests of 1 MiB, or as large as `fs.fuse.max_pages_limit` allows.
const REQUEST_BYTES_MAX: u32 = 8 << 20;
/// The most asynchronous requests that the kernel sends before it waits for answers.
const REQUESTS_MAX: u16 = 1024;
/// IOs of a disk in wall time that are done at the same time: enough for a device with a queue.
pub(crate) const THREADS: usize = 16;
/// The most read buffers that are kept for later reads.
const SPARE_BUFFERS_MAX: usize = 64;

/// A mounted disk, or the files of a volume; dropping it unmounts it.
pub struct FuseMount {
    session: Option<BackgroundSession>,
    directory: PathBuf,
    /// It was mounted elsewhere first, and the session knows only that place.
    is_moved: bool,
}

impl FuseMount {
    /// Mounts `disk` on the directory.
    ///
    /// # Errors
    /// When FUSE is missing or not permitted, or `directory` is no directory or busy.
    pub fn new(disk: Arc<LiveDisk>, directory: &Path, lead: Nanos) -> io::Result<FuseMount> {
        // A model answers at once when an IO is due, and its IOs begin in the order of their arrival.
        let threads = if disk.is_in_wall_time() { THREADS } else { 1 };
        FuseMount::of(Export::new(disk, lead), NAME, directory, threads)
    }

    /// Mounts a file system in the place of the one whose server was killed, so that no program ever reaches the directory beneath.
    ///
    /// The new one is mounted elsewhere, then beneath the dead one, which goes last. Linux before 6.5 and users other than root cannot do
    /// that: the dead one goes first.
    pub(crate) fn in_place_of_dead(
        filesystem: impl Filesystem,
        name: &str,
        directory: &Path,
        threads: usize,
    ) -> io::Result<FuseMount> {
        if !rustix::process::geteuid().is_root() {
            unmount(directory, true)?;
            return FuseMount::of(filesystem, name, directory, threads);
        }
        let elsewhere = private_directory()?;
        let moved = FuseMount::of(filesystem, name, &elsewhere, threads).and_then(|mut mount| {
            move_beneath(&elsewhere, directory)?;
            unmount(&elsewhere, true)?;
            (mount.directory, mount.is_moved) = (directory.to_owned(), true);
            Ok(mount)
        });
        // It is empty, and in nobody's way.
        let _ = std::fs::remove_dir(&elsewhere);
        moved
    }

    /// Mounts a file system on the directory.
    pub(crate) fn of(
        filesystem: impl Filesystem,
        name: &str,
        directory: &Path,
        threads: usize,
    ) -> io::Result<FuseMount> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(name.to_owned()),
            MountOption::Subtype("flashlab".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoDev,
            MountOption::NoSuid,
        ];
        let root = rustix::process::geteuid().is_root();
        // Only root may always let other users in; for others it depends on /etc/fuse.conf.
        config.acl = if root { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(threads);
        let session = Session::new(filesystem, directory, &config)?;
        let session = Some(session.spawn()?);
        Ok(FuseMount { session, directory: directory.to_owned(), is_moved: false })
    }

    /// The path of the disk's file.
    pub fn file(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What the kernel can be told through.
    pub(crate) fn notifier(&self) -> Option<Notifier> {
        self.session.as_ref().map(BackgroundSession::notifier)
    }

    /// Whether it is still mounted: nobody else unmounted it.
    pub fn is_mounted(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.guard.is_finished())
    }

    /// Unmounts the disk; false if a program uses the file.
    ///
    /// # Errors
    /// When the system refuses for another reason.
    pub fn try_end(&mut self) -> io::Result<bool> {
        let Some(session) = &self.session else { return Ok(true) };
        if !session.guard.is_finished() && !unmount(&self.directory, false)? {
            return Ok(false);
        }
        // The kernel ends the session a moment later, and not while the disk is mounted at another place too.
        for _ in 0..100 {
            if session.guard.is_finished() {
                // Dropping the session would unmount again, whatever is mounted there by then.
                std::mem::forget(self.session.take());
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(false)
    }

    /// Unmounts the disk while programs use it. Their IOs fail after this process has ended.
    pub fn abandon(mut self) {
        // If it cannot be unmounted it stays mounted, as after a killed server.
        let _ = unmount(&self.directory, true);
        // Dropping the session would wait for those programs.
        if let Some(session) = self.session.take() {
            std::mem::forget(session);
        }
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        if self.session.is_some() && self.is_moved {
            let _ = unmount(&self.directory, true);
        }
    }
}

/// Whether files are mounted on this directory, whose path is canonical, and their server is gone.
pub fn is_dead_mount_of_files(directory: &Path) -> bool {
    // The kernel may answer a `stat` from its cache, but never this.
    flashlab_host::mounted_on(directory).is_some_and(|source| source == Path::new(FILES_NAME))
        && matches!(rustix::fs::statvfs(directory), Err(rustix::io::Errno::NOTCONN))
}

/// Mounts what is mounted on `from` on `directory` as well, in the place of what is mounted there.
fn move_beneath(from: &Path, directory: &Path) -> io::Result<()> {
    /// `MOVE_MOUNT_BENEATH` of linux/mount.h, since Linux 6.5.
    const BENEATH: u32 = 0x200;
    let here = rustix::fs::CWD;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = rustix::mount::open_tree(here, from, clone)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    let beneath = flags | MoveMountFlags::from_bits_retain(BENEATH);
    let moved = rustix::mount::move_mount(&tree, "", here, directory, beneath);
    unmount(directory, true)?;
    if moved.is_err() {
        rustix::mount::move_mount(&tree, "", here, directory, flags)?;
    }
    Ok(())
}

/// A file system that another process mounted, with the descriptor that it serves it through.
pub struct FuseSession(BackgroundSession);

impl FuseSession {
    /// Serves a file system in threads of its own.
    pub(crate) fn serve(
        filesystem: impl Filesystem,
        device: OwnedFd,
        threads: usize,
    ) -> io::Result<FuseSession> {
        let mut config = Config::default();
        config.n_threads = Some(threads);
        // Who may use it is in the mount's options.
        Ok(FuseSession(Session::from_fd(filesystem, device, SessionACL::All, config)?.spawn()?))
    }

    /// What the kernel can be told through.
    pub(crate) fn notifier(&self) -> Notifier {
        self.0.notifier()
    }

    /// Whether nobody can use it any more: it is unmounted everywhere, and the kernel has written back what was mapped.
    pub fn has_ended(&self) -> bool {
        self.0.guard.is_finished()
    }
}

/// Unmounts the disk that a killed server left mounted on this directory, also if programs use it.
///
/// # Errors
/// The system's.
pub fn unmount_abandoned(directory: &Path) -> io::Result<()> {
    match flashlab_host::mounted_on(directory).is_some_and(|source| source == Path::new(NAME)) {
        true => unmount(directory, true).map(drop),
        false => Ok(()),
    }
}

/// Unmounts `directory`, with `lazily` also if programs use it; false if programs use it and `lazily` is not set.
fn unmount(directory: &Path, lazily: bool) -> io::Result<bool> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(directory, flags) {
        // It is unmounted already.
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(true),
        Err(rustix::io::Errno::BUSY) => Ok(false),
        Err(rustix::io::Errno::PERM) => {
            let flags = if lazily { "-uz" } else { "-u" };
            let output = Command::new("fusermount3").arg(flags).arg("--").arg(directory).output()?;
            let message = String::from_utf8_lossy(&output.stderr);
            match output.status.success() {
                true => Ok(true),
                false if message.contains("busy") => Ok(false),
                false => Err(io::Error::other(message.trim().to_owned())),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// An answer, with the handle through which the kernel receives it.
struct FuseAnswer {
    answer: PendingAnswer,
    reply: FuseReply,
}

enum FuseReply {
    Data(ReplyData, Vec<u8>),
    Written(ReplyWrite, u32),
    Empty(ReplyEmpty),
}

/// Sends answers to the kernel and counts them.
#[derive(Clone)]
struct Sender {
    disk: Arc<LiveDisk>,
    spare: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Sender {
    fn send(&self, FuseAnswer { answer, reply }: FuseAnswer) {
        // The time from here to the program is a part of the transport latency, which `finish` adds.
        let result = self.disk.finish(&answer, self.disk.clock().now());
        let error = result.err().map(|IoError { errno }| Errno::from_i32(errno));
        let mut buffer = None;
        match (reply, error) {
            (FuseReply::Data(reply, data), None) => {
                reply.data(&data);
                buffer = Some(data);
            }
            (FuseReply::Written(reply, size), None) => reply.written(size),
            (FuseReply::Empty(reply), None) => reply.ok(),
            (FuseReply::Data(reply, _), Some(error)) => reply.error(error),
            (FuseReply::Written(reply, _), Some(error)) => reply.error(error),
            (FuseReply::Empty(reply), Some(error)) => reply.error(error),
        }
        if let Some(buffer) = buffer {
            let mut spare = lock(&self.spare);
            if spare.len() < SPARE_BUFFERS_MAX {
                spare.push(buffer);
            }
        }
    }
}

/// Asks the kernel for as many requests at the same time as it has. A file system works without that; the kernel may refuse it.
pub(crate) fn serve_in_parallel(config: &mut KernelConfig) {
    let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_READ);
    let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
    let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
    let _ = config.set_max_background(REQUESTS_MAX);
    let _ = config.set_congestion_threshold(REQUESTS_MAX);
}

struct Export {
    sender: Sender,
    deadlines: Deadlines<FuseAnswer>,
    size: Bytes,
    owner: (u32, u32),
}

impl Export {
    fn new(disk: Arc<LiveDisk>, lead: Nanos) -> Export {
        let (clock, size) = (disk.clock(), disk.geometry().capacity);
        let sender = Sender { disk, spare: Arc::default() };
        let own = sender.clone();
        let deadlines = Deadlines::start(clock, lead, move |answered| own.send(answered));
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Export { sender, deadlines, size, owner }
    }

    /// Begins an operation.
    fn begin(&self, operation: Operation, offset: u64, size: u64, data: Data<'_>) -> PendingAnswer {
        let disk = &self.sender.disk;
        let (offset, size) = (Bytes(offset), Bytes(size));
        disk.begin(disk.clock().now(), Io { operation, offset, size, durable: false, data })
    }

    fn reply(&self, answer: PendingAnswer, reply: FuseReply) {
        let answered = FuseAnswer { answer, reply };
        if answer.due <= self.sender.disk.clock().now() {
            self.sender.send(answered);
        } else {
            self.deadlines.send_at(answer.due, answered);
        }
    }

    fn buffer(&self, size: usize) -> Vec<u8> {
        let mut buffer = lock(&self.sender.spare).pop().unwrap_or_default();
        buffer.resize(size, 0);
        buffer
    }

    fn attributes(&self, node: INodeNo) -> Option<FileAttr> {
        let (kind, perm, nlink, size) = match node {
            INodeNo::ROOT => (FileType::Directory, 0o755, 2, 0),
            FILE_NODE => (FileType::RegularFile, 0o600, 1, self.size.0),
            _ => return None,
        };
        Some(FileAttr {
            ino: node,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn answer_attributes(&self, node: INodeNo, reply: ReplyAttr) {
        match self.attributes(node) {
            Some(attributes) => reply.attr(&VALID, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// The length of the part of a range that lies on the disk.
    fn within(&self, offset: u64, size: u64) -> u64 {
        size.min(self.size.0.saturating_sub(offset))
    }
}

impl Filesystem for Export {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The disk works without it; the kernel may refuse it.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        serve_in_parallel(config);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match (parent, name == OsStr::new(FILE), self.attributes(FILE_NODE)) {
            (INodeNo::ROOT, true, Some(attributes)) => reply.entry(&VALID, &attributes, Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, node: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        self.answer_attributes(node, reply);
    }

    fn setattr(
        &self,
        _request: &Request,
        node: INodeNo,
        _mode: Option<u32>,
        _owner: Option<u32>,
        _group: Option<u32>,
        _size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<std::time::SystemTime>,
        _file: Option<FileHandle>,
        _created: Option<std::time::SystemTime>,
        _flags_changed: Option<std::time::SystemTime>,
        _backup: Option<std::time::SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.answer_attributes(node, reply);
    }

    fn open(&self, _request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = match node {
            FILE_NODE => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            _ => FopenFlags::empty(),
        };
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _node: INodeNo,
        _file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let size = self.within(offset, size.into());
        if size == 0 {
            return reply.data(&[]);
        }
        let mut buffer = self.buffer(size as usize);
        let answer = self.begin(Operation::Read, offset, size, Data::Read(&mut buffer));
        self.reply(answer, FuseReply::Data(reply, buffer));
    }

    fn write(
        &self,
        _request: &Request,
        _node: INodeNo,
        _file: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let size = self.within(offset, data.len() as u64);
        if size == 0 {
            return reply.error(Errno::ENOSPC);
        }
        // Linux sends no FSYNC behind such a write to a file past the page cache. O_SYNC has the bit of O_DSYNC, too, and both are set for
        // RWF_DSYNC and RWF_SYNC of a single write.
        let is_durable = flags.0 as u32 & OFlags::DSYNC.bits() != 0;
        let (mut reply, mut acknowledged) = (Some(reply), None);
        let disk = &self.sender.disk;
        let io = Io {
            operation: Operation::Write,
            offset: Bytes(offset),
            size: Bytes(size),
            durable: is_durable,
            data: Data::Write(&data[..size as usize]),
        };
        let answer = disk.begin_acknowledging(disk.clock().now(), io, &mut || {
            if let Some(reply) = reply.take() {
                acknowledged = Some(disk.clock().now());
                reply.written(size as u32);
            }
        });
        match acknowledged {
            // The answer is on its way, and is counted.
            Some(sent) => {
                let _ = disk.finish(&answer, sent);
            }
            None => {
                let reply = reply.expect("it was not sent");
                self.reply(answer, FuseReply::Written(reply, size as u32));
            }
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
        // The kernel calls this when a program closes the file, which makes nothing durable.
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _node: INodeNo, _file: FileHandle, _data: bool, reply: ReplyEmpty) {
        let answer = self.begin(Operation::Flush, 0, 0, Data::Nothing);
        self.reply(answer, FuseReply::Empty(reply));
    }

    fn fallocate(
        &self,
        _request: &Request,
        _node: INodeNo,
        _file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const PUNCH_HOLE: i32 = 2;
        const ZERO_RANGE: i32 = 16;
        let size = self.within(offset, length);
        if mode & (PUNCH_HOLE | ZERO_RANGE) == 0 {
            // All of the disk is allocated already, and it cannot grow.
            return if size == length { reply.ok() } else { reply.error(Errno::ENOSPC) };
        }
        if size == 0 {
            return reply.ok();
        }
        let answer = self.begin(Operation::Discard, offset, size, Data::Nothing);
        self.reply(answer, FuseReply::Empty(reply));
    }

    fn readdir(
        &self,
        _request: &Request,
        node: INodeNo,
        _file: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if node != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE_NODE, FileType::RegularFile, FILE),
        ];
        for (index, (node, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
            if reply.add(node, index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        reply.statfs(self.size.0 / 512, 0, 0, 1, 0, 512, 255, 512);
    }
}
