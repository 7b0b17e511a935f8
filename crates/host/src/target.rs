//! An open target: what the engines share, and the last guard before a write.
//!
//! # Model
//! [`Target::open`] opens a path for direct IO, or through the page cache where the file system takes
//! no other. For writing it needs a [`Consent`], takes a block device exclusively, and then looks once
//! more whether it is still the thing that the consent was given for, unused and without a signature.
//!
//! Invariants:
//! - a target without consent is open for reading only, so that not even a mistake can write to it;
//! - the checks after opening are made on the open file: its path may lead elsewhere by then.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use flashlab_base::{Bytes, Identity};
use flashlab_device::{Arena, DataHandling, Geometry, IoError, Operation, Request};

use crate::beneath::{device_beneath, is_in_memory};
use crate::block_device::BlockDevice;
use crate::clock::Clock;
use crate::consent::Consent;
use crate::error::HostError;
use crate::identity;
use crate::inspection::{self, generation, held_refusal};
use crate::node::Node;
use crate::nvme;
use crate::options::{IoEngine, OpenOptions};
use crate::patience::{A_LOOK, open_exclusively, patiently};
use crate::surroundings::Surroundings;
use crate::system::{self, DirectAlignment};

/// The smallest IO of the patterns, where nothing demands a larger one.
const SMALLEST_BLOCK: Bytes = Bytes(512);

/// An open block device or file.
pub(crate) struct Target {
    pub(crate) file: File,
    pub(crate) clock: Clock,
    pub(crate) geometry: Geometry,
    pub(crate) identity: Identity,
    /// The whole disk beneath everything.
    pub(crate) disk: Option<BlockDevice>,
    is_device: bool,
    /// Whether there was a name to find it by: a nameless scratch file loses none.
    had_name: bool,
    writable: bool,
}

impl Target {
    /// Opens `path` for the engine and with the depth and consent of `options`.
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
        // A scratch file is locked by its maker.
        if matches!(node, Node::File { .. }) && !is_scratch {
            lock(&file, path)?;
        }
        let capacity = inspection::size_of(&file, node, path)?;
        if let Some(consent) = &options.write {
            check_when_open(path, node, consent, &file, capacity)?;
        }
        let mount = system::mount_id(&file);
        let beneath = device_beneath(node, mount, &surroundings);
        let block = if direct { block(&file, node, beneath.as_ref()) } else { SMALLEST_BLOCK };
        let capacity = capacity.round_down(block);
        if capacity == Bytes::ZERO {
            return Err(HostError::Empty { path: path.to_owned() });
        }
        let name = options.name.clone().unwrap_or_else(|| path.display().to_string());
        let mut identity = identity::identify(&name, node, mount, capacity, &surroundings);
        let in_memory = is_in_memory(&file, node, &surroundings);
        identity.engine = Some(engine_name(options.engine, direct, in_memory));
        // Another scratch file is as good.
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

    /// Whether a request can be handed to the kernel.
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

    /// Tells the device, or the file system, that a range's content is no longer needed.
    pub(crate) fn discard(&self, offset: Bytes, size: Bytes) -> Result<(), IoError> {
        let result = if self.is_device {
            system::discard_device_range(&self.file, offset, size)
        } else {
            system::discard_file_range(&self.file, offset, size)
        };
        result.map_err(|error| self.failure(io_error(&error)))
    }

    /// What the failure of an IO means. The kernel takes its capacity from a disk that is removed, and
    /// answers from then on as if every range ended after it; IOs to its partitions and files just fail.
    #[cold]
    pub(crate) fn failure(&self, error: IoError) -> IoError {
        let lost = self.is_device && system::device_size(&self.file).is_ok_and(|size| size == Bytes::ZERO);
        let removed = self.disk.as_ref().is_some_and(|disk| !disk.is_there());
        if lost || removed { IoError::GONE } else { error }
    }

    /// What the device wrote to its flash since it was made: asked of a whole NVMe device, which gave its health log, and
    /// not for a file on it, beside others.
    pub(crate) fn media_written(&self) -> Option<Bytes> {
        let counts = self.is_device && self.identity.health.is_some();
        counts.then(|| nvme::media_written(&self.file)).flatten()
    }

    /// Whether the file was removed or truncated since it was opened. A clause without a subject; `None` for a block device.
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

/// Keeps another flashlab from measuring the same file, which would disturb both, until it is closed. A program that is
/// just being started by a thread of the former owner holds the lock, too, until it is started.
fn lock(file: &File, path: &Path) -> Result<(), HostError> {
    let locked = patiently(ErrorKind::WouldBlock, A_LOOK, || match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
        other => Ok(other),
    });
    match locked.unwrap_or(Err(TryLockError::WouldBlock)) {
        Err(TryLockError::WouldBlock) => Err(HostError::Locked { path: path.to_owned() }),
        // Not every file system has locks.
        Err(TryLockError::Error(_)) | Ok(()) => Ok(()),
    }
}

/// The number of an operating system's error; EIO where it has none.
pub(crate) fn io_error(error: &io::Error) -> IoError {
    error.raw_os_error().map_or(IoError::IO, |errno| IoError { errno })
}

fn engine_name(engine: IoEngine, direct: bool, in_memory: bool) -> String {
    let engine = match engine {
        IoEngine::Synchronous => "synchronous",
        IoEngine::IoUring => "io_uring",
    };
    let way = if direct { "O_DIRECT" } else { "buffered (page cache)" };
    let medium = if in_memory { ", in memory" } else { "" };
    format!("{engine} {way}{medium}")
}

/// Looks for refusals before anything is opened for writing.
fn check_before_opening(
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

/// Looks again now that a block device is ours alone: the world may have changed in between.
fn check_when_open(
    path: &Path,
    node: Node,
    consent: &Consent,
    file: &File,
    capacity: Bytes,
) -> Result<(), HostError> {
    if !consent.covers(node, generation(node)) {
        return Err(HostError::TargetChanged { path: path.to_owned() });
    }
    // Read through the page cache: what is looked at need not be aligned.
    let reader = reopen_for_reading(file).map_err(|e| HostError::system("read", path, e))?;
    let refusals = inspection::refusals_when_open(&reader, node, capacity, &Surroundings::look());
    if refusals.is_empty() { Ok(()) } else { Err(HostError::Refused { path: path.to_owned(), refusals }) }
}

/// A second description of the same open file, without its flags.
fn reopen_for_reading(file: &File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Opens the path, and says whether for direct IO.
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

/// Found by trying; 4 KiB if nothing can be read, which the first IO will then tell.
fn smallest_that_reads(file: &File) -> Bytes {
    let mut buffer = Arena::buffers(1, Bytes::kib(4)).remove(0);
    let mut sizes = [512, 1024, 2048, 4096].into_iter();
    let found = sizes.find(|&size| file.read_at(&mut buffer[..size], 0).is_ok());
    Bytes(found.unwrap_or(4096) as u64)
}
