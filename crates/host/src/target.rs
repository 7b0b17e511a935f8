//! An open target: what both engines share, and the last check before a write.
//!
//! # Model
//! [`Target::open`] opens a path for direct IO, or through the page cache if the file system does not support
//! it. For writing it needs a [`Consent`] and opens a block device exclusively. Then it checks once more that
//! the consent is for this target, that the target is unused, and that it has no signature.
//!
//! Invariants:
//! - A target without consent is open for reading only, so that even a defect cannot write to it.
//! - The checks after opening use the open file, because its path may lead to another file by then.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use flashlab_base::{Bytes, Identity};
use flashlab_device::{Arena, DataHandling, Geometry, IoError, Operation, Request};

use crate::block_device::BlockDevice;
use crate::clock::Clock;
use crate::consent::Consent;
use crate::error::HostError;
use crate::identity;
use crate::inspection::{self, generation, held_refusal};
use crate::node::Node;
use crate::nvme;
use crate::options::{IoEngine, OpenOptions};
use crate::retry::{CLAIM_TIME, open_exclusively, retry};
use crate::surroundings::Surroundings;
use crate::system::{self, DirectAlignment};
use crate::underlying::{is_in_memory, underlying_device};

/// The smallest IO of a pattern, if the device does not require a larger one.
const SMALLEST_BLOCK: Bytes = Bytes(512);

/// An open block device or file.
pub(crate) struct Target {
    pub(crate) file: File,
    pub(crate) clock: Clock,
    pub(crate) geometry: Geometry,
    pub(crate) identity: Identity,
    /// The whole underlying disk.
    pub(crate) disk: Option<BlockDevice>,
    is_device: bool,
    /// Whether it had a name when it was opened. A nameless scratch file cannot lose its name.
    had_name: bool,
    writable: bool,
}

impl Target {
    /// Opens `path` with the engine, depth and consent of `options`.
    pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Target, HostError> {
        let node = Node::at(path)?;
        let surroundings = Surroundings::look();
        if let Some(consent) = &options.write {
            check_before_opening(path, node, consent, &surroundings)?;
        }
        let (file, direct) = open_file(path, node, options)?;
        let opened = file.metadata().map_err(|e| HostError::system("look at", path, e))?;
        if Node::of(&opened) != Ok(node) {
            return Err(HostError::TargetChanged { path: path.to_owned() });
        }
        let is_scratch = options.write.as_ref().is_some_and(Consent::is_for_scratch_file);
        // A scratch file is already locked by the code that made it.
        if matches!(node, Node::File { .. }) && !is_scratch {
            lock(&file, path, options.write.is_some())?;
        }
        let capacity = inspection::size_of(&file, node, path)?;
        if let Some(consent) = &options.write {
            check_when_open(path, node, consent, &file, capacity)?;
        }
        let mount = system::mount_id(&file);
        let beneath = underlying_device(node, mount, &surroundings);
        let block = if direct { block(&file, node, beneath.as_ref()) } else { SMALLEST_BLOCK };
        let capacity = capacity.round_down(block);
        if capacity == Bytes::ZERO {
            return Err(HostError::Empty { path: path.to_owned() });
        }
        let name = options.name.clone().unwrap_or_else(|| path.display().to_string());
        let mut identity = identity::identify(&name, node, mount, capacity, &surroundings);
        let in_memory = is_in_memory(&file, node, &surroundings);
        identity.engine = Some(engine_name(options.engine, direct, in_memory));
        // One scratch file can replace another.
        identity.file = if is_scratch { None } else { identity::file(&opened) };
        Ok(Target {
            file,
            clock: Clock::start(),
            geometry: Geometry { capacity, block, depth: options.depth, data: DataHandling::Stored },
            identity,
            disk: beneath.map(|device| device.physical()),
            is_device: matches!(node, Node::Device(_)),
            had_name: opened.nlink() > 0,
            writable: options.write.is_some(),
        })
    }

    /// Checks that the kernel can serve a request.
    #[inline]
    pub(crate) fn check(&self, request: &Request) -> Result<(), IoError> {
        match request.operation {
            Operation::Flush => return Ok(()),
            Operation::Write | Operation::Discard if !self.writable => return Err(IoError::READ_ONLY),
            _ => {}
        }
        self.geometry.check(request.offset, request.size)?;
        let needs_memory = request.operation != Operation::Discard;
        if needs_memory && (request.buffer.len() as u64) < request.size.0 {
            return Err(IoError::INVALID);
        }
        Ok(())
    }

    /// Tells the device, or the file system, that the content of a range is no longer needed.
    pub(crate) fn discard(&self, offset: Bytes, size: Bytes) -> Result<(), IoError> {
        let result = if self.is_device {
            system::discard_device_range(&self.file, offset, size)
        } else {
            system::discard_file_range(&self.file, offset, size)
        };
        result.map_err(|error| self.failure(io_error(&error)))
    }

    /// What a failed IO means. If a disk is removed, the kernel sets its capacity to zero, and then reports
    /// every range as beyond the end. IOs to its partitions and files fail with EIO.
    #[cold]
    pub(crate) fn failure(&self, error: IoError) -> IoError {
        let lost = self.is_device && system::device_size(&self.file).is_ok_and(|size| size == Bytes::ZERO);
        let removed = self.disk.as_ref().is_some_and(|disk| !disk.is_there());
        if lost || removed { IoError::GONE } else { error }
    }

    /// The bytes that the device wrote to its flash since it was made. Only for a whole NVMe device that has
    /// a health log, not for a file on it, because other files are on it, too.
    pub(crate) fn media_written(&self) -> Option<Bytes> {
        let counts = self.is_device && self.identity.health.is_some();
        counts.then(|| nvme::media_written(&self.file)).flatten()
    }

    /// Why the file is gone: it was removed or truncated since it was opened. A clause without a subject;
    /// `None` for a block device.
    pub(crate) fn loss(&self) -> Option<String> {
        let metadata = self.file.metadata().ok().filter(|_| !self.is_device)?;
        let (size, capacity) = (Bytes(metadata.len()), self.geometry.capacity);
        if self.had_name && metadata.nlink() == 0 {
            return Some("was removed while it was measured".to_owned());
        }
        (size < capacity)
            .then(|| format!("was cut short while it was measured: to {size}; {capacity} were to be used"))
    }
}

/// Locks the file until it is closed, so that a second flashlab cannot use it at the same time. If a
/// thread of the former owner is just starting a program, that program still has the lock until it has
/// started. A file that is written to must have no lock of another kind either (`fcntl`, as databases have).
pub(crate) fn lock(file: &File, path: &Path, writes: bool) -> Result<(), HostError> {
    if writes && system::has_record_lock(file) {
        return Err(HostError::Locked { path: path.to_owned() });
    }
    let locked = retry(ErrorKind::WouldBlock, CLAIM_TIME, || match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
        other => Ok(other),
    });
    match locked.unwrap_or(Err(TryLockError::WouldBlock)) {
        Err(TryLockError::WouldBlock) => Err(HostError::Locked { path: path.to_owned() }),
        // Some file systems have no locks.
        Err(TryLockError::Error(_)) | Ok(()) => Ok(()),
    }
}

/// The number of an operating system's error; EIO if it has none.
pub(crate) fn io_error(error: &io::Error) -> IoError {
    error.raw_os_error().map_or(IoError::IO, |errno| IoError { errno })
}

fn engine_name(engine: IoEngine, direct: bool, in_memory: bool) -> String {
    let engine = match engine {
        IoEngine::Synchronous => "synchronous",
        IoEngine::IoUring => "io_uring",
        IoEngine::Threads => "threads",
    };
    let way = if direct { "O_DIRECT" } else { "buffered (page cache)" };
    let medium = if in_memory { ", in memory" } else { "" };
    format!("{engine} {way}{medium}")
}

/// Checks for refusals before anything is opened for writing.
pub(crate) fn check_before_opening(
    path: &Path,
    node: Node,
    consent: &Consent,
    surroundings: &Surroundings,
) -> Result<(), HostError> {
    if !consent.covers(node, generation(node)) {
        return Err(HostError::TargetChanged { path: path.to_owned() });
    }
    let refusals = inspection::refusals_by_use(node, surroundings);
    if refusals.is_empty() { Ok(()) } else { Err(HostError::Refused { path: path.to_owned(), refusals }) }
}

/// Checks for refusals again, now that the block device is open exclusively: it may have changed since the
/// first check.
pub(crate) fn check_when_open(
    path: &Path,
    node: Node,
    consent: &Consent,
    file: &File,
    capacity: Bytes,
) -> Result<(), HostError> {
    if !consent.covers(node, generation(node)) {
        return Err(HostError::TargetChanged { path: path.to_owned() });
    }
    // Reads through the page cache, so that reads need not be aligned.
    let reader = reopen_for_reading(file).map_err(|e| HostError::system("read", path, e))?;
    let mut refusals = inspection::refusals_when_open(&reader, path, node, capacity, &Surroundings::look());
    refusals.retain(|refusal| !consent.permits(refusal));
    if refusals.is_empty() { Ok(()) } else { Err(HostError::Refused { path: path.to_owned(), refusals }) }
}

/// A second open description of the same file, without its flags.
fn reopen_for_reading(file: &File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Opens the path, and reports whether it is open for direct IO.
fn open_file(path: &Path, node: Node, options: &OpenOptions) -> Result<(File, bool), HostError> {
    let exclusive = options.write.is_some() && matches!(node, Node::Device(_));
    let attempt = |direct: bool| {
        let flags = if direct { libc::O_DIRECT } else { 0 };
        let mut open = fs::OpenOptions::new();
        open.read(true).write(options.write.is_some());
        if exclusive { open_exclusively(path, &open, flags) } else { open.custom_flags(flags).open(path) }
    };
    let failed = |error: io::Error| match error.raw_os_error() {
        Some(libc::EBUSY) if exclusive => {
            HostError::Refused { path: path.to_owned(), refusals: vec![held_refusal(path, &error)] }
        }
        _ => HostError::system("open", path, error),
    };
    if options.buffered {
        return attempt(false).map(|file| (file, false)).map_err(failed);
    }
    match attempt(true) {
        Ok(file) if matches!(system::direct_alignment(&file), DirectAlignment::Unsupported) => {
            drop(file);
            attempt(false).map(|file| (file, false)).map_err(failed)
        }
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attempt(false).map(|file| (file, false)).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// The unit of offsets and sizes of direct IO.
fn block(file: &File, node: Node, beneath: Option<&BlockDevice>) -> Bytes {
    if let (Node::File { .. }, DirectAlignment::Blocks(block)) = (node, system::direct_alignment(file)) {
        return block.max(SMALLEST_BLOCK);
    }
    match beneath.and_then(|device| device.disk().number_of("queue/logical_block_size")) {
        Some(block) => Bytes(block).max(SMALLEST_BLOCK),
        None => smallest_that_reads(file),
    }
}

/// Found by trying; 4 KiB if nothing can be read, in which case the first IO reports the error.
fn smallest_that_reads(file: &File) -> Bytes {
    let mut buffer = Arena::buffers(1, Bytes::kib(4)).remove(0);
    let mut sizes = [512, 1024, 2048, 4096].into_iter();
    let found = sizes.find(|&size| file.read_at(&mut buffer[..size], 0).is_ok());
    Bytes(found.unwrap_or(4096) as u64)
}
