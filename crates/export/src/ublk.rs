//! A live disk as a block device of the kernel, through ublk: `/dev/ublkbN`.
//!
//! # Model
//! Each queue has a thread, which alone may talk to it. It begins what came, answers what is due, and waits on its ring
//! until the next request, or until a lead before the next deadline; the rest it spins, with an eye on what comes
//! meanwhile.
//!
//! # Invariants
//! - nothing is answered before it is due;
//! - every request is answered, also while the device is being stopped.

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

/// How many requests a queue holds.
const DEPTH: u16 = 128;
/// Each queue has a thread and the buffers of its depth.
const QUEUES_MAX: usize = 4;
/// The largest request; the kernel splits what is larger.
const LARGEST: Bytes = Bytes::mib(1);

/// A disk as a block device; it is stopped and deleted when this is dropped.
pub struct Ublk {
    device: Arc<UblkDevice>,
    queues: Vec<JoinHandle<io::Result<()>>>,
}

impl Ublk {
    /// Makes a block device of the disk, or takes the device with the number `recover` over, whose server was killed.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when the kernel has no ublk, and the kernel's others.
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
        // A thread that fails says nothing, and tells why at its end.
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

    /// Stops the device and deletes it, unless it is mounted or another program claims it, which is answered with false.
    ///
    /// # Errors
    /// The kernel's.
    pub fn try_end(&mut self) -> io::Result<bool> {
        // A second claim is refused; a device that has gone already is nobody's.
        let claim = flashlab_host::claim_block_device(&self.path());
        match claim {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            _ => {
                drop(claim);
                self.stop().map(|()| true)
            }
        }
    }

    /// Stops the device and deletes it; the IOs of programs that use it fail, and it is deleted when they let go of it.
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
        largest: LARGEST,
    }
}

/// What one queue's thread does, whatever happens to it: the requests of a queue that nobody serves would wait for ever
/// while this process lives, so that they are made to fail.
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

/// Serves one queue until its end. `ready` is told, or hung up on, when the queue is there.
fn serve(device: &UblkDevice, index: u16, disk: &LiveDisk, lead: Nanos, ready: Sender<()>) -> io::Result<()> {
    let queue = device.queue(index)?;
    let mut worker = Worker { queue, disk, held: BinaryHeap::new(), answers: vec![None; DEPTH_MAX] };
    let _ = ready.send(());
    drop(ready);
    worker.work(lead)
}

/// A queue may have been made with another depth by the server that was killed.
const DEPTH_MAX: usize = 4096;

struct Worker<'a> {
    queue: UblkQueue,
    disk: &'a LiveDisk,
    /// When the answers are due, with their tags.
    held: BinaryHeap<Reverse<(Nanos, u16)>>,
    /// By tag.
    answers: Vec<Option<(PendingAnswer, Bytes)>>,
}

impl Worker<'_> {
    fn work(&mut self, lead: Nanos) -> io::Result<()> {
        let clock = self.disk.clock();
        while !(self.queue.is_over() && self.held.is_empty()) {
            while let Some(tag) = self.queue.arrived() {
                self.begin(tag, clock.now());
            }
            while let Some(&Reverse((due, tag))) = self.held.peek()
                && due <= clock.now()
            {
                self.held.pop();
                self.answer(tag);
            }
            let left = self.held.peek().map(|Reverse((due, _))| due.since(clock.now()));
            match left {
                // Other queues' threads and programs have to run as well.
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
        self.held.push(Reverse((answer.due, tag)));
        self.answers[usize::from(tag)] = Some((answer, size));
    }

    fn answer(&mut self, tag: u16) {
        let Some((answer, size)) = self.answers[usize::from(tag)].take() else { return };
        let result = self.disk.finish(&answer, self.disk.clock().now());
        self.queue.commit(tag, result.map(|()| size));
    }
}

/// EOPNOTSUPP.
const UNSUPPORTED: IoError = IoError { errno: 95 };
