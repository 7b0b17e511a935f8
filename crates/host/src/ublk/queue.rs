//! A queue of a ublk device: fetches requests and commits their results through one ring.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Arena, Buffer, IoError};
use io_uring::{IoUring, opcode, types};

use super::{READ, WRITE, command};
use crate::clock::use_precise_timers;

const FETCH: u32 = command(WRITE | READ, 0x20, 16);
const COMMIT_AND_FETCH: u32 = command(WRITE | READ, 0x21, 16);
/// The most requests of a queue: the kernel places the queues' descriptors at this distance.
const MOST: usize = 4096;
const PAGE: usize = 4096;
/// The flag of a request that has to be durable when it completes.
const FUA: u32 = 1 << 13;

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UblkOperation {
    /// Fill the buffer.
    Read,
    /// Keep the buffer.
    Write,
    /// Make everything durable.
    Flush,
    /// Forget the range.
    Discard,
    /// Let the range be zeroes.
    WriteZeroes,
    /// An operation that our devices do not announce.
    Unknown,
}

/// A request, as the kernel describes it.
#[derive(Clone, Copy, Debug)]
pub struct UblkRequest {
    /// What it wants.
    pub operation: UblkOperation,
    /// Where its range starts.
    pub offset: Bytes,
    /// How long it is; zero for a flush.
    pub size: Bytes,
    /// Whether it has to be durable when it completes.
    pub durable: bool,
}

/// A queue of a ublk device.
pub struct UblkQueue {
    // Dropped first: after that the kernel has no pointer into the buffers.
    ring: IoUring,
    channel: i32,
    index: u16,
    buffers: Vec<Buffer>,
    descriptors: Descriptors,
    /// How many requests can still be fetched from the kernel.
    alive: usize,
}

/// `struct ublksrv_io_desc`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    operation_and_flags: u32,
    sectors: u32,
    first_sector: u64,
    address: u64,
}

/// The kernel's descriptors of the requests, by their tags.
struct Descriptors {
    start: NonNull<Descriptor>,
    bytes: usize,
    count: usize,
}

impl UblkQueue {
    pub(super) fn new(channel: &File, index: u16, depth: u16, largest: Bytes) -> io::Result<UblkQueue> {
        use_precise_timers();
        let count = usize::from(depth);
        let mut queue = UblkQueue {
            ring: IoUring::builder().setup_single_issuer().build(u32::from(depth))?,
            channel: channel.as_raw_fd(),
            index,
            buffers: Arena::buffers(count, largest),
            descriptors: Descriptors::map(channel, index, count)?,
            alive: count,
        };
        (0..depth).for_each(|tag| queue.push(FETCH, tag, 0));
        queue.ring.submit()?;
        Ok(queue)
    }

    /// Whether the device was stopped. No more requests will arrive.
    pub fn is_over(&self) -> bool {
        self.alive == 0
    }

    /// Submits the commits to the kernel, and waits for a request, at most for `patience`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&mut self, patience: Option<Nanos>) -> io::Result<()> {
        let waited = match patience {
            None => self.ring.submit_and_wait(1),
            Some(Nanos::ZERO) => self.ring.submit(),
            Some(patience) => {
                let time = types::Timespec::from(std::time::Duration::from_nanos(patience.0));
                self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        match waited {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ResourceBusy) => Ok(()),
            result => result.map(drop),
        }
    }

    /// The tag of the next request that arrived, if there is one.
    pub fn arrived(&mut self) -> Option<u16> {
        loop {
            let done = self.ring.completion().next()?;
            if done.result() == 0 {
                return Some(done.user_data() as u16);
            }
            // The device is being stopped: this tag is not fetched again.
            self.alive -= 1;
        }
    }

    /// The request with this tag, and its buffer.
    pub fn request(&mut self, tag: u16) -> (UblkRequest, &mut [u8]) {
        let Descriptor { operation_and_flags, sectors, first_sector, .. } = self.descriptors.read(tag);
        let operation = match operation_and_flags & 0xff {
            0 => UblkOperation::Read,
            1 => UblkOperation::Write,
            2 => UblkOperation::Flush,
            3 => UblkOperation::Discard,
            5 => UblkOperation::WriteZeroes,
            _ => UblkOperation::Unknown,
        };
        // A flush has no offset: the kernel writes minus one.
        let offset = if operation == UblkOperation::Flush { 0 } else { first_sector.saturating_mul(512) };
        let request = UblkRequest {
            operation,
            offset: Bytes(offset),
            size: Bytes(u64::from(sectors) * 512),
            durable: operation_and_flags & FUA != 0,
        };
        let buffer = &mut self.buffers[usize::from(tag)][..];
        match operation {
            UblkOperation::Read | UblkOperation::Write => (request, &mut buffer[..request.size.0 as usize]),
            _ => (request, &mut []),
        }
    }

    /// Completes the request with this tag, with the bytes that were moved or an error. The kernel sees it
    /// with the next [`wait`](UblkQueue::wait).
    pub fn commit(&mut self, tag: u16, result: Result<Bytes, IoError>) {
        let result = result.map_or_else(|error| -error.errno, |bytes| bytes.0 as i32);
        self.push(COMMIT_AND_FETCH, tag, result);
    }

    /// `struct ublksrv_io_cmd`.
    fn push(&mut self, operation: u32, tag: u16, result: i32) {
        let address = self.buffers[usize::from(tag)].as_ptr() as u64;
        let mut bytes = [0; 16];
        bytes[0..2].copy_from_slice(&self.index.to_ne_bytes());
        bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&result.to_ne_bytes());
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        let entry = opcode::UringCmd16::new(types::Fd(self.channel), operation).cmd(bytes).build();
        // SAFETY: the buffer is as long as the largest request of the device and lives until the ring is gone.
        unsafe { self.ring.submission().push(&entry.user_data(tag.into())) }
            .expect("each tag has at most one entry, and the ring has room for all");
    }
}

impl Descriptors {
    fn map(channel: &File, index: u16, count: usize) -> io::Result<Descriptors> {
        let bytes = (count * size_of::<Descriptor>()).next_multiple_of(PAGE);
        let offset = usize::from(index) * (MOST * size_of::<Descriptor>()).next_multiple_of(PAGE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                channel.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("no mapping is at zero");
        Ok(Descriptors { start, bytes, count })
    }

    fn read(&self, tag: u16) -> Descriptor {
        assert!(usize::from(tag) < self.count, "the kernel has no request {tag}");
        // What the kernel wrote before it completed the fetch is visible after this fence.
        fence(Ordering::Acquire);
        // SAFETY: within the mapping; the kernel changes the descriptor only while it owns the request.
        unsafe { self.start.add(tag.into()).as_ptr().read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
