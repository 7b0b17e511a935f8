//! A live disk as a block device of the kernel, through ublk: `/dev/ublkbN`.
//!
//! # Model
//! The kernel driver `ublk_drv` passes requests to a server in queues. Each queue has one thread, which alone may use it:
//! 1. It begins all requests that arrived.
//! 2. It answers all requests that are due.
//! 3. It waits on the queue's io_uring until the next request, or until the lead before the next due time; then it spins.
//!
//! # Invariants
//! - No request is answered before it is due.
//! - Every request is answered, also while the device stops.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{IoError, Operation};
use flashlab_host::{UblkDevice, UblkOperation, UblkQueue, UblkShape};

use crate::io::{Data, Io, PendingAnswer};
use crate::live::LiveDisk;

/// The number of requests that a queue holds: as many as block drivers usually have.
const DEPTH: u16 = 128;
/// The most queues. Each has a thread, which spins, and 128 MiB of buffers ([`DEPTH`] of [`REQUEST_BYTES_MAX`]).
const QUEUES_MAX: usize = 4;
/// The largest request; the kernel splits larger ones.
const REQUEST_BYTES_MAX: Bytes = Bytes::mib(1);

/// A disk as a block device; dropping it stops and deletes the device.
pub struct Ublk {
    device: Arc<UblkDevice>,
    queues: Vec<JoinHandle<io::Result<()>>>,
}

impl Ublk {
    /// Makes a block device of the disk. With `recover` it takes over the device of that number, whose server was killed.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when the kernel has no ublk; other errors are the kernel's.
    pub fn start(disk: &Arc<LiveDisk>, lead: Nanos, recover: Option<u32>) -> io::Result<Ublk> {
        let device = match recover {
            Some(number) => UblkDevice::recover(number)?,
            None => UblkDevice::add(shape(disk))?,
        };
        let mut ublk = Ublk { device: Arc::new(device), queues: Vec::new() };
        let (ready, answers) = channel();
        for index in 0..ublk.device.queues() {
            let (disk, device, ready) = (Arc::clone(disk), Arc::clone(&ublk.device), ready.clone());
            let thread = Builder::new()
                .name(format!("ublk {index}"))
                .spawn(move || serve_or_stop(&device, index, &disk, lead, ready))?;
            ublk.queues.push(thread);
        }
        drop(ready);
        // A thread that fails closes its channel without a message; its result says why.
        if answers.iter().count() < ublk.queues.len() {
            return Err(ublk.end().err().unwrap_or_else(|| io::Error::other("a queue ended by itself")));
        }
        ublk.device.start()?;
        Ok(ublk)
    }

    /// The block device.
    pub fn path(&self) -> PathBuf {
        self.device.path()
    }

    /// Stops and deletes the device; false if it is mounted or another program claims it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn try_end(&mut self) -> io::Result<bool> {
        // The kernel refuses a second claim. A device that is gone already cannot be claimed, and is deleted.
        let claim = flashlab_host::claim_block_device(&self.path());
        match claim {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            _ => {
                drop(claim);
                self.stop().map(|()| true)
            }
        }
    }

    /// Stops and deletes the device. The IOs of programs that use it fail; it disappears when they close it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn end(mut self) -> io::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> io::Result<()> {
        if self.queues.is_empty() {
            return Ok(());
        }
        let mut result = self.device.stop();
        for queue in self.queues.drain(..) {
            let ended = queue.join().unwrap_or_else(|_| Err(io::Error::other("a queue's thread panicked")));
            result = result.and(ended);
        }
        result.and(self.device.delete())
    }
}

impl Drop for Ublk {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn shape(disk: &LiveDisk) -> UblkShape {
    let geometry = disk.geometry();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let block = Bytes(geometry.block.0.clamp(512, 4096));
    UblkShape {
        size: geometry.capacity.round_down(block),
        block,
        queues: processors.min(QUEUES_MAX) as u16,
        depth: DEPTH,
        largest: REQUEST_BYTES_MAX,
    }
}

/// Serves one queue; after an error or a panic it stops the device. The requests of a queue that nobody serves would
/// otherwise wait as long as this process lives.
fn serve_or_stop(
    device: &UblkDevice,
    index: u16,
    disk: &LiveDisk,
    lead: Nanos,
    ready: Sender<()>,
) -> io::Result<()> {
    let served = catch_unwind(AssertUnwindSafe(|| serve(device, index, disk, lead, ready)));
    let served = served.unwrap_or_else(|_| Err(io::Error::other("a queue's thread panicked")));
    served.inspect_err(|_| drop(device.stop()))
}

/// Serves one queue until the device stops. It sends to `ready` when the queue exists, or hangs up if it cannot be made.
fn serve(device: &UblkDevice, index: u16, disk: &LiveDisk, lead: Nanos, ready: Sender<()>) -> io::Result<()> {
    let queue = device.queue(index)?;
    let mut worker = Worker { queue, disk, waiting: BinaryHeap::new(), answers: vec![None; DEPTH_MAX] };
    let _ = ready.send(());
    drop(ready);
    worker.work(lead)
}

/// The most requests of a queue. A recovered queue has the depth that its killed server gave it.
const DEPTH_MAX: usize = 4096;

struct Worker<'a> {
    queue: UblkQueue,
    disk: &'a LiveDisk,
    /// Due times of the answers that wait, with the tags of their requests.
    waiting: BinaryHeap<Reverse<(Nanos, u16)>>,
    /// The answers and the sizes of their requests, by tag.
    answers: Vec<Option<(PendingAnswer, Bytes)>>,
}

impl Worker<'_> {
    fn work(&mut self, lead: Nanos) -> io::Result<()> {
        let clock = self.disk.clock();
        while !(self.queue.is_over() && self.waiting.is_empty()) {
            while let Some(tag) = self.queue.arrived() {
                self.begin(tag, clock.now());
            }
            while let Some(&Reverse((due, tag))) = self.waiting.peek()
                && due <= clock.now()
            {
                self.waiting.pop();
                self.send_answer(tag);
            }
            let left = self.waiting.peek().map(|Reverse((due, _))| due.since(clock.now()));
            match left {
                // The threads of other queues, and programs, need the CPU too.
                Some(left) if left <= lead => {
                    self.queue.wait(Some(Nanos::ZERO))?;
                    std::thread::yield_now();
                }
                Some(left) => self.queue.wait(Some(Nanos(left.0 - lead.0)))?,
                None if self.queue.is_over() => {}
                None => self.queue.wait(None)?,
            }
        }
        Ok(())
    }

    fn begin(&mut self, tag: u16, arrived: Nanos) {
        let (request, buffer) = self.queue.request(tag);
        let operation = match request.operation {
            UblkOperation::Read => Operation::Read,
            UblkOperation::Write => Operation::Write,
            UblkOperation::Flush => Operation::Flush,
            UblkOperation::Discard | UblkOperation::WriteZeroes => Operation::Discard,
            UblkOperation::Unknown => return self.queue.commit(tag, Err(UNSUPPORTED)),
        };
        let data = match operation {
            Operation::Read => Data::Read(buffer),
            Operation::Write => Data::Write(buffer),
            Operation::Flush | Operation::Discard => Data::Nothing,
        };
        let (offset, size, durable) = (request.offset, request.size, request.durable);
        let answer = self.disk.begin(arrived, Io { operation, offset, size, durable, data });
        self.waiting.push(Reverse((answer.due, tag)));
        self.answers[usize::from(tag)] = Some((answer, size));
    }

    fn send_answer(&mut self, tag: u16) {
        let Some((answer, size)) = self.answers[usize::from(tag)].take() else { return };
        let result = self.disk.finish(&answer, self.disk.clock().now());
        self.queue.commit(tag, result.map(|()| size));
    }
}

/// EOPNOTSUPP.
const UNSUPPORTED: IoError = IoError { errno: rustix::io::Errno::OPNOTSUPP.raw_os_error() };
