//! The files of a volume for programs with the preload library, over a Unix socket.
//!
//! # Model
//! Each process has one connection, with a thread here. A call is answered before the next one is read. The volume has one owner,
//! this process; no client has any of its state.
//!
//! # Method
//! An opened file is a descriptor in the client, so that the kernel keeps its offset, its locks and its copies over `dup`, `fork` and
//! `exec`. The descriptor is of an empty file in memory, one for each file of the volume, which is sealed: who writes to it past
//! the library fails.
//!
//! # Invariants
//! - What a process holds open is released when its connection ends.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use flashlab_base::Bytes;
use flashlab_device::IoError;
use flashlab_repair::{
    AnswerHeader, CALL_BYTES_MAX, CallHeader, CallStatus, DESCRIPTOR_NAME, FileAttributes, FileCall, FileId,
    FileKind, FileRefusal, FileStatus, RepairError,
};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::locks::lock;
use crate::shared_files::{OpenFiles, PERMISSIONS, SharedFiles, fallocate};

// Flags of open, as Linux has them.
const ACCESS_MODE: u32 = 3;
const CREATE: u32 = 0o100;
const EXCLUSIVE: u32 = 0o200;
const TRUNCATE: u32 = 0o1000;
const APPEND: u32 = 0o2000;
const NONBLOCK: u32 = 0o4000;

/// What clients did.
#[derive(Debug, Default)]
pub struct FileCounts {
    /// Processes that connected.
    pub processes: AtomicU64,
    /// Of those, the ones that are connected now.
    pub connected: AtomicU64,
    /// Calls of all kinds.
    pub calls: AtomicU64,
    /// Their bytes.
    pub call_bytes: AtomicU64,
    /// Files that were opened.
    pub opens: AtomicU64,
    /// Reads, and their bytes.
    pub reads: AtomicU64,
    /// Bytes read.
    pub read_bytes: AtomicU64,
    /// Writes, and their bytes.
    pub writes: AtomicU64,
    /// Bytes written.
    pub written_bytes: AtomicU64,
    /// Syncs.
    pub syncs: AtomicU64,
}

/// Serves the files to programs.
pub struct FilesServer {
    files: SharedFiles,
    /// The empty file of each file that was opened.
    descriptors: Mutex<BTreeMap<FileId, OwnedFd>>,
    /// What clients did so far.
    pub counts: FileCounts,
}

impl FilesServer {
    /// A server of these files.
    pub fn new(files: SharedFiles) -> Arc<FilesServer> {
        Arc::new(FilesServer { files, descriptors: Mutex::default(), counts: FileCounts::default() })
    }

    /// Accepts clients in a thread of its own, until this process ends.
    pub fn listen(self: &Arc<Self>, listener: UnixListener) {
        let server = Arc::clone(self);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = Arc::clone(&server);
                std::thread::spawn(move || server.serve(client));
            }
        });
    }

    /// Answers one client until it ends.
    fn serve(&self, mut client: UnixStream) {
        self.counts.processes.fetch_add(1, Ordering::Relaxed);
        self.counts.connected.fetch_add(1, Ordering::Relaxed);
        let mut held = BTreeMap::new();
        let mut session = Session { server: self, held: &mut held };
        // Whatever ends the connection ends the session.
        let _ = session.answer_calls(&mut client);
        self.files.with(|files, _| {
            for (id, count) in held {
                (0..count).for_each(|_| drop(self.release(files, id)));
            }
        });
        self.counts.connected.fetch_sub(1, Ordering::Relaxed);
    }

    /// A new descriptor of the file's empty file. Whoever calls this has the files locked, and the file open.
    fn descriptor(&self, id: FileId, flags: u32) -> io::Result<File> {
        let mut descriptors = lock(&self.descriptors);
        let empty = match descriptors.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(sealed_file(id)?),
        };
        let path = format!("/proc/self/fd/{}", empty.as_raw_fd());
        let kept = flags & (APPEND | NONBLOCK);
        // Locks for reading and writing need a descriptor that may do both.
        OpenOptions::new().read(true).write(true).custom_flags(kept as i32).open(path)
    }

    /// Releases a file once, and closes its empty file with the last client's. Whoever calls this has the files locked.
    fn release(&self, files: &mut OpenFiles, id: FileId) -> Result<(), RepairError> {
        let released = files.release(id);
        if !files.is_held(id) {
            lock(&self.descriptors).remove(&id);
        }
        released
    }
}

/// An empty file in memory, which nobody can write to.
fn sealed_file(id: FileId) -> io::Result<OwnedFd> {
    let name = format!("{DESCRIPTOR_NAME}{}", id.0);
    let made = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&made, seals)?;
    Ok(made)
}

/// What a client has open.
struct Session<'a> {
    server: &'a FilesServer,
    held: &'a mut BTreeMap<FileId, u64>,
}

/// A call's result: a status and what follows it, or an error's number.
type Answer = Result<(i64, usize), RepairError>;

impl Session<'_> {
    fn answer_calls(&mut self, client: &mut UnixStream) -> io::Result<()> {
        let mut data = vec![0; CALL_BYTES_MAX];
        loop {
            let mut header = [0; CallHeader::BYTES];
            match client.read_exact(&mut header) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                read => read?,
            }
            let Some(call) = CallHeader::decode(&header) else { return Err(ErrorKind::InvalidData.into()) };
            client.read_exact(&mut data[..call.length as usize])?;
            let counts = &self.server.counts;
            counts.calls.fetch_add(1, Ordering::Relaxed);
            counts.call_bytes.fetch_add((header.len() + call.length as usize) as u64, Ordering::Relaxed);
            if call.call == FileCall::Open {
                self.answer_open(client, &call, &data[..call.length as usize])?;
                continue;
            }
            let (status, length) = match self.answer(&call, &mut data) {
                Ok(answer) => answer,
                Err(error) => (-i64::from(error.io_error().errno), 0),
            };
            let header = AnswerHeader { status, length: length as u32 }.encode();
            if length == 0 {
                client.write_all(&header)?;
            } else {
                write_both(client, &header, &data[..length])?;
            }
        }
    }

    fn answer_open(&mut self, client: &UnixStream, call: &CallHeader, path: &[u8]) -> io::Result<()> {
        self.server.counts.opens.fetch_add(1, Ordering::Relaxed);
        let server = self.server;
        let opened = server.files.with(|files, now_ns| {
            let id = open(files, call, path, now_ns).map_err(|error| error.io_error().errno)?;
            match server.descriptor(id, call.flags) {
                Ok(file) => Ok((id, file)),
                Err(error) => {
                    let _ = server.release(files, id);
                    Err(error.raw_os_error().unwrap_or(IoError::IO.errno))
                }
            }
        });
        let status = match &opened {
            Ok((id, _)) => {
                *self.held.entry(*id).or_default() += 1;
                id.0 as i64
            }
            Err(errno) => -i64::from(*errno),
        };
        let header = AnswerHeader { status, length: 0 }.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let passed = opened.as_ref().ok().map(|(_, file)| [file.as_fd()]);
        if let Some(passed) = &passed {
            ancillary.push(SendAncillaryMessage::ScmRights(passed));
        }
        let slices = [IoSlice::new(&header)];
        rustix::net::sendmsg(client, &slices, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn answer(&mut self, call: &CallHeader, data: &mut [u8]) -> Answer {
        let id = FileId(call.file);
        let server = self.server;
        let counts = &server.counts;
        let length = call.length as usize;
        let held = &mut *self.held;
        self.server.files.with(|files, now_ns| {
            let done = |()| (0, 0);
            match call.call {
                FileCall::Hold => {
                    files.hold(id)?;
                    *held.entry(id).or_default() += 1;
                    Ok((0, 0))
                }
                FileCall::Close => {
                    if let Some(count) = held.get_mut(&id) {
                        *count -= 1;
                        if *count == 0 {
                            held.remove(&id);
                        }
                        server.release(files, id)?;
                    }
                    Ok((0, 0))
                }
                FileCall::Read => {
                    let read = files.read(id, call.offset, &mut data[..call.flags as usize])?;
                    counts.reads.fetch_add(1, Ordering::Relaxed);
                    counts.read_bytes.fetch_add(read as u64, Ordering::Relaxed);
                    Ok((read as i64, read))
                }
                FileCall::Write | FileCall::Append => {
                    let offset = (call.call == FileCall::Write).then_some(call.offset);
                    let at = files.write(id, offset, &data[..length], now_ns)?;
                    counts.writes.fetch_add(1, Ordering::Relaxed);
                    counts.written_bytes.fetch_add(length as u64, Ordering::Relaxed);
                    Ok(((at + length as u64) as i64, 0))
                }
                FileCall::Sync => {
                    counts.syncs.fetch_add(1, Ordering::Relaxed);
                    files.sync(call.flags == 1).map(done)
                }
                FileCall::Truncate => files.truncate(id, Bytes(call.offset), now_ns).map(done),
                FileCall::Allocate => {
                    let bytes = data[..length].try_into().map_or(0, u64::from_ne_bytes);
                    fallocate(files, id, (call.offset, bytes), call.flags, now_ns).map(done)
                }
                FileCall::Status => Ok(put_status(&files.status(id)?, data)),
                FileCall::StatusAt => {
                    let status = files.status(files.find(&data[..length])?)?;
                    match status.kind {
                        // The file system has a link of its own in its place.
                        FileKind::SymbolicLink => Err(FileRefusal::SymbolicLink.into()),
                        FileKind::Regular | FileKind::Directory => Ok(put_status(&status, data)),
                    }
                }
                FileCall::SetAttributes => set_attributes(files, id, &data[..length]).map(done),
                _ => change_names(files, call, &data[..length], now_ns).map(done),
            }
        })
    }
}

/// The calls that make, rename and remove.
fn change_names(
    files: &mut OpenFiles,
    call: &CallHeader,
    data: &[u8],
    now_ns: i64,
) -> Result<(), RepairError> {
    let mut paths = data.split(|&byte| byte == 0);
    let (first, second) = (paths.next().unwrap_or_default(), paths.next().unwrap_or_default());
    let (parent, name) = parent_of(files, first, call.call == FileCall::MakeDirectory)?;
    match call.call {
        FileCall::Unlink => files.unlink(parent, name, now_ns),
        FileCall::RemoveDirectory => files.remove_directory(parent, name, now_ns),
        FileCall::MakeDirectory => {
            let attributes = attributes_of(call, now_ns);
            files.create(parent, name, FileKind::Directory, attributes).map(drop)
        }
        FileCall::Rename => {
            let to = parent_of(files, second, true)?;
            files.rename((parent, name), to, call.flags & 1 == 0, now_ns)
        }
        _ => {
            let id = files.lookup(parent, name)?;
            let (parent, name) = parent_of(files, second, true)?;
            files.link(id, parent, name, now_ns)
        }
    }
}

fn open(files: &mut OpenFiles, call: &CallHeader, path: &[u8], now_ns: i64) -> Result<FileId, RepairError> {
    let creates = call.flags & CREATE != 0;
    let (parent, name) = parent_of(files, path, creates)?;
    let id = match files.lookup(parent, name) {
        Ok(_) if creates && call.flags & EXCLUSIVE != 0 => return Err(FileRefusal::Exists.into()),
        Ok(id) => id,
        Err(RepairError::File(FileRefusal::Missing)) if creates => {
            files.create(parent, name, FileKind::Regular, attributes_of(call, now_ns))?
        }
        Err(error) => return Err(error),
    };
    match files.status(id)?.kind {
        FileKind::Directory => return Err(FileRefusal::IsDirectory.into()),
        FileKind::SymbolicLink => return Err(FileRefusal::SymbolicLink.into()),
        FileKind::Regular => {}
    }
    if call.flags & TRUNCATE != 0 && call.flags & ACCESS_MODE != 0 {
        files.truncate(id, Bytes::ZERO, now_ns)?;
    }
    files.hold(id)?;
    Ok(id)
}

fn attributes_of(call: &CallHeader, now_ns: i64) -> FileAttributes {
    let (user, group) = ((call.file >> 32) as u32, call.file as u32);
    FileAttributes::new(call.offset as u32 & PERMISSIONS, user, group, now_ns)
}

/// The directory of a path, and its last name. Missing directories are made if `makes`.
fn parent_of<'a>(
    files: &mut OpenFiles,
    path: &'a [u8],
    makes: bool,
) -> Result<(FileId, &'a [u8]), RepairError> {
    let cut = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let (directories, name) = path.split_at(cut);
    let mut parent = FileId::ROOT;
    for directory in directories.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        parent = match files.lookup(parent, directory) {
            Err(RepairError::File(FileRefusal::Missing)) if makes => {
                let attributes = FileAttributes { mode: 0o755, ..files.status(parent)?.attributes };
                files.create(parent, directory, FileKind::Directory, attributes)?
            }
            found => found?,
        };
    }
    Ok((parent, name))
}

fn set_attributes(files: &mut OpenFiles, id: FileId, data: &[u8]) -> Result<(), RepairError> {
    let Ok(bytes) = data.try_into() else { return Err(FileRefusal::Invalid.into()) };
    let new = CallStatus::decode(bytes);
    let old = files.status(id)?.attributes;
    let changed = |new: u32, old: u32| if new == CallStatus::SAME { old } else { new };
    let attributes = FileAttributes {
        mode: changed(new.mode, old.mode) & PERMISSIONS,
        user: changed(new.user, old.user),
        group: changed(new.group, old.group),
        modified_ns: if new.modified_ns == u64::MAX { old.modified_ns } else { new.modified_ns as i64 },
        ..old
    };
    files.set_attributes(id, attributes)
}

fn put_status(status: &FileStatus, data: &mut [u8]) -> (i64, usize) {
    let FileStatus { id, kind, attributes, size, allocated, links } = *status;
    let FileAttributes { mode, user, group, modified_ns, .. } = attributes;
    let status = CallStatus {
        file: id.0,
        size: size.0,
        allocated: allocated.0,
        modified_ns: modified_ns as u64,
        mode,
        user,
        group,
        links,
    };
    data[..CallStatus::BYTES].copy_from_slice(&status.encode());
    (i64::from(kind == FileKind::Directory), CallStatus::BYTES)
}

fn write_both(client: &mut UnixStream, header: &[u8], data: &[u8]) -> io::Result<()> {
    let written = client.write_vectored(&[IoSlice::new(header), IoSlice::new(data)])?;
    match written.checked_sub(header.len()) {
        Some(sent) => client.write_all(&data[sent..]),
        None => {
            client.write_all(&header[written..])?;
            client.write_all(data)
        }
    }
}
