//! The io_uring engine: many IOs in flight from one thread.
//!
//! # Model
//! 1. A request gets a slot. The slot's number travels through the ring.
//! 2. [`Device::submit`] stamps the request and enters the kernel at once, with one IO per call. So the stamp
//!    is the time at which the kernel accepts it.
//! 3. [`Device::wait`] takes one completion out of the ring, without a system call if one is there, and
//!    stamps it. A response time ends when the caller has the answer, as in fio. If the caller is slower than
//!    the device, the response time includes the time that the completion waits in the ring.
//!
//! With DEFER_TASKRUN the kernel processes completions when the thread enters it for them, and does not
//! interrupt the thread. Every submission enters for completions as well, as fio does. On tmpfs at depth 32,
//! where only software takes time, this gave 10 % more IOPS than COOP_TASKRUN; on a disk the difference is
//! within the noise. It ties a ring to one thread. A device that was moved to another thread therefore gets a
//! new ring with its first IO there.
//!
//! # Invariants
//! - A slot owns its request, and so the memory that the kernel reads and writes, from submission until the
//!   completion was seen. Dropping the device waits for IOs in flight.
//! - Nothing is allocated after opening: slots, free list and queue have the length of the depth from the
//!   start.
//! - At most one entry waits in the submission queue, and only within [`RingDevice::enter_one`].

use std::collections::VecDeque;
use std::hint;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use flashlab_base::{Bytes, Identity, Nanos};
use flashlab_device::{
    Completion, Device, DisturbanceCounters, Geometry, Health, IoError, Operation, Parallel, Request,
    Telemetry,
};
use io_uring::{EnterFlags, IoUring, opcode, squeue, types};

use crate::clock::{SPIN, use_precise_timers};
use crate::disturbance::DisturbanceMeter;
use crate::error::HostError;
use crate::target::Target;

/// The most IOs in flight: in one ring, and in all lanes of a device together.
pub(crate) const DEPTH_MAX: u32 = 4096;

/// Errors of an IO are in its completion; the ring itself fails only if it is used incorrectly.
const RING_WORKS: &str = "the kernel takes a ring that it made";

/// A request in the ring.
struct Slot {
    request: Option<Request>,
    submitted: Nanos,
    /// How many bytes earlier, short transfers have moved.
    done: u32,
}

/// A request that is done.
struct Done {
    slot: u32,
    completed: Nanos,
    result: Result<(), IoError>,
}

/// A real device with a queue. It may move to another thread only if nothing is in flight.
pub struct RingDevice {
    target: Arc<Target>,
    ring: IoUring,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// IOs served without the ring and not returned yet.
    done: VecDeque<Done>,
    in_kernel: u32,
    meter: DisturbanceMeter,
}

impl RingDevice {
    pub(crate) fn new(target: Arc<Target>) -> Result<RingDevice, HostError> {
        let depth = target.geometry.depth;
        let ring = build(depth).map_err(|error| HostError::NoRing { error })?;
        Ok(RingDevice {
            ring,
            slots: (0..depth).map(|_| Slot { request: None, submitted: Nanos::ZERO, done: 0 }).collect(),
            free: (0..depth).rev().collect(),
            done: VecDeque::with_capacity(depth as usize),
            in_kernel: 0,
            meter: DisturbanceMeter::new(target.disk.clone()),
            target,
        })
    }

    /// The ring's entry for the remaining part of the slot's request. Only for flushes and transfers.
    #[inline]
    fn entry(&mut self, slot: u32) -> squeue::Entry {
        let file = types::Fd(self.target.file.as_raw_fd());
        let Slot { request, done, .. } = &mut self.slots[slot as usize];
        let request = request.as_mut().expect("a slot in use has a request");
        let length = request.size.0 as u32 - *done;
        let offset = request.offset.0 + u64::from(*done);
        let entry = match request.operation {
            Operation::Read => {
                let memory = request.buffer[*done as usize..].as_mut_ptr();
                opcode::Read::new(file, memory, length).offset(offset).build()
            }
            Operation::Write => {
                let memory = request.buffer[*done as usize..].as_ptr();
                opcode::Write::new(file, memory, length).offset(offset).build()
            }
            _ => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
        };
        entry.user_data(u64::from(slot))
    }

    /// Submits one entry to the kernel.
    #[inline]
    fn enter_one(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entry's memory belongs to its slot, which keeps it until the completion.
        unsafe { self.ring.submission().push(entry) }.expect("the queue is as long as the depth, and empty");
        loop {
            // SAFETY: no argument is passed.
            let entered = unsafe {
                self.ring.submitter().enter::<libc::sigset_t>(1, 0, EnterFlags::GETEVENTS.bits(), None)
            };
            match entered {
                Ok(1..) => break,
                Ok(0) => {}
                // The kernel was short of memory for a moment, or was interrupted.
                Err(error) if is_transient(&error) => hint::spin_loop(),
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => return self.move_here(entry),
                Err(error) => panic!("{RING_WORKS}: {error}"),
            }
        }
        self.in_kernel += 1;
    }

    /// Submits one entry on another thread than the ring's. The thread first gets a ring of its own; the IO
    /// starts after that.
    #[cold]
    fn move_here(&mut self, entry: &squeue::Entry) {
        assert!(self.in_kernel == 0, "a ring was moved to another thread with IOs in flight");
        self.ring = build(self.target.geometry.depth).expect(RING_WORKS);
        self.slots[entry.get_user_data() as usize].submitted = self.target.clock.now();
        self.enter_one(entry);
    }

    /// Waits in the kernel for a completion, at most for `limit`; submits nothing.
    fn enter_and_wait(&self, limit: Option<Nanos>) -> io::Result<()> {
        let submitter = self.ring.submitter();
        let wait = EnterFlags::GETEVENTS;
        let entered = match limit {
            Some(limit) => {
                use_precise_timers();
                let limit = types::Timespec::from(Duration::from_nanos(limit.0));
                let arguments = types::SubmitArgs::new().timespec(&limit);
                // SAFETY: EXT_ARG declares the type of the argument, which is the one passed.
                unsafe { submitter.enter(0, 1, (wait | EnterFlags::EXT_ARG).bits(), Some(&arguments)) }
            }
            // SAFETY: no argument is passed.
            None => unsafe { submitter.enter::<libc::sigset_t>(0, 1, wait.bits(), None) },
        };
        match entered {
            Err(error) if !is_transient(&error) && error.raw_os_error() != Some(libc::ETIME) => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes one completion out of the ring, and stamps it.
    #[inline]
    fn reap(&mut self) -> Option<Done> {
        loop {
            let entry = self.ring.completion().next()?;
            self.in_kernel -= 1;
            if let Some(result) = self.result_of(entry.user_data() as u32, entry.result()) {
                let completed = self.target.clock.now();
                return Some(Done { slot: entry.user_data() as u32, completed, result });
            }
        }
    }

    /// The result of a slot's request; `None` if the transfer was short, and the remaining part is in flight
    /// now.
    #[inline]
    fn result_of(&mut self, slot: u32, result: i32) -> Option<Result<(), IoError>> {
        let Slot { request, done, .. } = &mut self.slots[slot as usize];
        let request = request.as_ref().expect("a slot in use has a request");
        let is_transfer = matches!(request.operation, Operation::Read | Operation::Write);
        match u32::try_from(result) {
            Err(_) if -result == libc::EINTR => self.send_rest(slot),
            Err(_) => Some(Err(self.target.failure(IoError { errno: -result }))),
            Ok(_) if !is_transfer => Some(Ok(())),
            // The device is shorter than when it was opened.
            Ok(0) => Some(Err(self.target.failure(IoError::IO))),
            Ok(length) => {
                *done += length;
                if u64::from(*done) < request.size.0 { self.send_rest(slot) } else { Some(Ok(())) }
            }
        }
    }

    #[cold]
    fn send_rest(&mut self, slot: u32) -> Option<Result<(), IoError>> {
        let entry = self.entry(slot);
        self.enter_one(&entry);
        None
    }

    /// Frees the slot of a finished request.
    #[inline]
    fn hand_out(&mut self, done: Done) -> Completion {
        let slot = &mut self.slots[done.slot as usize];
        let request = slot.request.take().expect("a slot in use has a request");
        self.free.push(done.slot);
        Completion {
            tag: request.tag,
            submitted: slot.submitted,
            completed: done.completed,
            result: done.result,
            buffer: request.buffer,
        }
    }

    /// Serves requests that do not use the ring: invalid requests, and discards.
    #[cold]
    fn serve_now(&mut self, slot: u32, result: Result<(), IoError>) {
        let completed = self.target.clock.now();
        self.done.push_back(Done { slot, completed, result });
    }
}

/// A ring for this thread. If the kernel supports it (6.1), it processes completions when the thread enters
/// it for them; otherwise an ordinary ring.
fn build(depth: u32) -> io::Result<IoUring> {
    let entries = depth.next_power_of_two();
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(entries)
        .or_else(|_| IoUring::builder().build(entries))?;
    if ring.params().is_feature_ext_arg() {
        return Ok(ring);
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "its io_uring is older than Linux 5.11"))
}

/// An entry of the ring counts the bytes to transfer in 32 bits.
#[inline]
fn fits_an_entry(request: &Request) -> Result<(), IoError> {
    let is_transfer = matches!(request.operation, Operation::Read | Operation::Write);
    if is_transfer && request.size.0 > u64::from(u32::MAX) { Err(IoError::INVALID) } else { Ok(()) }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

impl Device for RingDevice {
    fn geometry(&self) -> Geometry {
        self.target.geometry
    }

    fn identity(&self) -> Identity {
        self.target.identity.clone()
    }

    #[inline]
    fn now(&mut self) -> Nanos {
        self.target.clock.now()
    }

    #[inline]
    fn submit(&mut self, request: Request) {
        let slot = self.free.pop().expect("no more requests are in flight than the depth");
        let checked = self.target.check(&request).and_then(|()| fits_an_entry(&request));
        let (operation, offset, size) = (request.operation, request.offset, request.size);
        let submitted = self.target.clock.now();
        self.slots[slot as usize] = Slot { request: Some(request), submitted, done: 0 };
        match checked {
            Err(error) => self.serve_now(slot, Err(error)),
            Ok(()) if operation == Operation::Discard => {
                let result = self.target.discard(offset, size);
                self.serve_now(slot, result);
            }
            Ok(()) => {
                let entry = self.entry(slot);
                self.enter_one(&entry);
            }
        }
    }

    #[inline]
    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        loop {
            if let Some(done) = self.done.pop_front().or_else(|| self.reap()) {
                return Some(self.hand_out(done));
            }
            if self.in_kernel == 0 {
                if until != Nanos::MAX {
                    self.target.clock.sleep_until(until);
                }
                return None;
            }
            if until == Nanos::MAX {
                self.enter_and_wait(None).expect(RING_WORKS);
                continue;
            }
            let left = until.since(self.target.clock.now());
            if left == Nanos::ZERO {
                return None;
            } else if left > SPIN {
                self.enter_and_wait(Some(Nanos(left.0 - SPIN.0))).expect(RING_WORKS);
            } else if self.ring.submission().taskrun() {
                // Completions wait for this thread to enter the kernel.
                self.enter_and_wait(Some(Nanos::ZERO)).expect(RING_WORKS);
            } else {
                hint::spin_loop();
            }
        }
    }

    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        Some(self)
    }

    fn health(&mut self) -> Option<&mut dyn Health> {
        Some(self)
    }

    fn telemetry(&mut self) -> Option<&mut dyn Telemetry> {
        Some(self)
    }
}

impl Health for RingDevice {
    fn loss(&mut self) -> Option<String> {
        self.target.loss()
    }

    /// The kernel does not report that a disk became read-only; a failed write shows it.
    fn refusal(&mut self) -> Option<String> {
        None
    }
}

impl Telemetry for RingDevice {
    fn media_written(&mut self) -> Option<Bytes> {
        self.target.media_written()
    }

    fn disturbance(&mut self) -> DisturbanceCounters {
        self.meter.read()
    }
}

impl Parallel for RingDevice {
    fn lanes(&mut self, count: u32) -> io::Result<Vec<Box<dyn Device + Send>>> {
        let depth = self.target.geometry.depth;
        if count.saturating_mul(depth) > DEPTH_MAX {
            let message = format!("{count} queues of {depth} are more than {DEPTH_MAX} IOs in flight");
            return Err(io::Error::other(message));
        }
        let lane = |_| {
            let ring = RingDevice::new(Arc::clone(&self.target)).map_err(io::Error::other)?;
            Ok(Box::new(ring) as Box<dyn Device + Send>)
        };
        (0..count).map(lane).collect()
    }
}

impl Drop for RingDevice {
    fn drop(&mut self) {
        while self.in_kernel > 0 {
            if self.enter_and_wait(None).is_err() {
                // The kernel still owns this memory, and will not report when it no longer does.
                self.slots.drain(..).for_each(mem::forget);
                return;
            }
            self.reap();
        }
    }
}
