//! A live disk as a file, through FUSE: `DIR/disk`.
//!
//! # Model
//! The kernel's requests are read by [`fuser`]; each is begun at once, and its answer is sent when it is due, by the
//! thread of [`Deadlines`], or by the reading thread itself when it is due already. The file is opened for direct IO
//! whatever the program asks for: there is no page cache between it and the disk. A loop device over it is a block
//! device.
//!
//! # Invariants
//! - the file's size never changes; cutting or growing it does nothing, as with a block device;
//! - every request is answered.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{IoError, Operation};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL,
    TimeOrNow, WriteFlags,
};

use rustix::mount::UnmountFlags;

use crate::deadlines::Deadlines;
use crate::io::{Data, Io, PendingAnswer};
use crate::live::LiveDisk;
use crate::locks::lock;

/// The file's name in the directory.
pub const FILE: &str = "disk";
/// What is mounted, by its name.
const NAME: &str = "flashlab";
const FILE_NODE: INodeNo = INodeNo(2);
/// What the kernel may believe without asking again: nothing here changes.
const VALID: Duration = Duration::from_secs(3600);
/// The largest request that is taken. Linux makes them of 1 MiB, or of what `fs.fuse.max_pages_limit` allows.
const LARGEST: u32 = 8 << 20;
/// How many requests the kernel may have outstanding.
const OUTSTANDING: u16 = 1024;
/// Buffers for reads that are kept for the next ones.
const SPARE: usize = 64;

/// A mounted disk; it is unmounted when this is dropped.
pub struct FuseMount {
    session: Option<BackgroundSession>,
    file: PathBuf,
}

impl FuseMount {
    /// Mounts `disk` on the directory.
    ///
    /// # Errors
    /// When FUSE is not there or not allowed, or the directory is not one or is busy.
    pub fn new(disk: Arc<LiveDisk>, directory: &Path, lead: Nanos) -> io::Result<FuseMount> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(NAME.to_owned()),
            MountOption::Subtype("flashlab".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoDev,
            MountOption::NoSuid,
        ];
        let root = rustix::process::geteuid().is_root();
        // A user who is not root may let others in only where the system's configuration allows it.
        config.acl = if root { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(1);
        let session = Session::new(Export::new(disk, lead), directory, &config)?;
        Ok(FuseMount { session: Some(session.spawn()?), file: directory.join(FILE) })
    }

    /// Where the file is.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether the kernel still asks for the file: it was not unmounted by somebody else.
    pub fn is_there(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.guard.is_finished())
    }

    /// Unmounts, and says whether that could be done: it cannot while a program uses the file.
    ///
    /// # Errors
    /// When the system refuses for another reason.
    pub fn try_end(&mut self) -> io::Result<bool> {
        let Some(session) = &self.session else { return Ok(true) };
        if !session.guard.is_finished() && !unmount(self.directory(), false)? {
            return Ok(false);
        }
        // The kernel lets go a moment later, and not while the disk is mounted elsewhere as well.
        for _ in 0..100 {
            if session.guard.is_finished() {
                // Its own end would unmount once more, whatever is mounted there by then.
                std::mem::forget(self.session.take());
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(false)
    }

    /// Takes the file away from the programs that use it; their IOs fail when this process has ended.
    pub fn abandon(mut self) {
        // What cannot be unmounted stays, as when the process is killed.
        let _ = unmount(self.directory(), true);
        // Its own end would wait for those programs.
        if let Some(session) = self.session.take() {
            std::mem::forget(session);
        }
    }

    fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }
}

/// Unmounts the disk that a server which is no more left on this directory, from under its users.
///
/// # Errors
/// The system's.
pub fn unmount_what_is_left(directory: &Path) -> io::Result<()> {
    match flashlab_host::mounted_on(directory).is_some_and(|source| source == Path::new(NAME)) {
        true => unmount(directory, true).map(drop),
        false => Ok(()),
    }
}

/// Unmounts `directory`, from under its users if `lazily`; false if they keep it.
fn unmount(directory: &Path, lazily: bool) -> io::Result<bool> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(directory, flags) {
        // Somebody else did it.
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(true),
        Err(rustix::io::Errno::BUSY) => Ok(false),
        Err(rustix::io::Errno::PERM) => {
            let flags = if lazily { "-uz" } else { "-u" };
            let output = Command::new("fusermount3").arg(flags).arg("--").arg(directory).output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            match output.status.success() {
                true => Ok(true),
                false if said.contains("busy") => Ok(false),
                false => Err(io::Error::other(said.trim().to_owned())),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// An answer on its way to the kernel.
struct Reply {
    answer: PendingAnswer,
    way: Way,
}

enum Way {
    Data(ReplyData, Vec<u8>),
    Written(ReplyWrite, u32),
    Empty(ReplyEmpty),
}

/// What sending an answer takes.
#[derive(Clone)]
struct Sender {
    disk: Arc<LiveDisk>,
    spare: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Sender {
    fn send(&self, reply: Reply) {
        let Reply { answer, way } = reply;
        // What the way back costs from here on is in the overhead, which is added.
        let result = self.disk.finish(&answer, self.disk.clock().now());
        let error = result.err().map(|IoError { errno }| Errno::from_i32(errno));
        let mut buffer = None;
        match (way, error) {
            (Way::Data(reply, data), None) => {
                reply.data(&data);
                buffer = Some(data);
            }
            (Way::Written(reply, size), None) => reply.written(size),
            (Way::Empty(reply), None) => reply.ok(),
            (Way::Data(reply, _), Some(error)) => reply.error(error),
            (Way::Written(reply, _), Some(error)) => reply.error(error),
            (Way::Empty(reply), Some(error)) => reply.error(error),
        }
        if let Some(buffer) = buffer {
            let mut spare = lock(&self.spare);
            if spare.len() < SPARE {
                spare.push(buffer);
            }
        }
    }
}

struct Export {
    sender: Sender,
    deadlines: Deadlines<Reply>,
    size: Bytes,
    owner: (u32, u32),
}

impl Export {
    fn new(disk: Arc<LiveDisk>, lead: Nanos) -> Export {
        let (clock, size) = (disk.clock(), disk.geometry().capacity);
        let sender = Sender { disk, spare: Arc::default() };
        let own = sender.clone();
        let deadlines = Deadlines::start(clock, lead, move |reply| own.send(reply));
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Export { sender, deadlines, size, owner }
    }

    fn begin(&self, operation: Operation, offset: u64, size: u64, data: Data<'_>) -> PendingAnswer {
        let disk = &self.sender.disk;
        let (offset, size) = (Bytes(offset), Bytes(size));
        disk.begin(disk.clock().now(), Io { operation, offset, size, durable: false, data })
    }

    fn reply(&self, answer: PendingAnswer, way: Way) {
        let reply = Reply { answer, way };
        if answer.due <= self.sender.disk.clock().now() {
            self.sender.send(reply);
        } else {
            self.deadlines.hold(answer.due, reply);
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

    /// How much of a range lies on the disk.
    fn within(&self, offset: u64, size: u64) -> u64 {
        size.min(self.size.0.saturating_sub(offset))
    }
}

impl Filesystem for Export {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel refuses it does without.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_READ);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(LARGEST);
        let _ = config.set_max_background(OUTSTANDING);
        let _ = config.set_congestion_threshold(OUTSTANDING);
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
        self.reply(answer, Way::Data(reply, buffer));
    }

    fn write(
        &self,
        _request: &Request,
        _node: INodeNo,
        _file: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let size = self.within(offset, data.len() as u64);
        if size == 0 {
            return reply.error(Errno::ENOSPC);
        }
        let answer = self.begin(Operation::Write, offset, size, Data::Write(&data[..size as usize]));
        self.reply(answer, Way::Written(reply, size as u32));
    }

    fn flush(
        &self,
        _request: &Request,
        _node: INodeNo,
        _file: FileHandle,
        _lock: LockOwner,
        reply: ReplyEmpty,
    ) {
        // A close of the file, which makes nothing durable.
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _node: INodeNo, _file: FileHandle, _data: bool, reply: ReplyEmpty) {
        let answer = self.begin(Operation::Flush, 0, 0, Data::Nothing);
        self.reply(answer, Way::Empty(reply));
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
            // All room is there already, and there will be no more.
            return if size == length { reply.ok() } else { reply.error(Errno::ENOSPC) };
        }
        if size == 0 {
            return reply.ok();
        }
        let answer = self.begin(Operation::Discard, offset, size, Data::Nothing);
        self.reply(answer, Way::Empty(reply));
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
