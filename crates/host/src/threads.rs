//! The engine with threads: several IOs in flight, for a device whose owner changes between threads.
//!
//! # Model
//! 1. As many threads as the queue depth take requests from one queue. Each serves one request at a time, as the synchronous
//!    engine does, with the same open file and clock.
//! 2. [`Device::wait`] takes the completions in the order in which they come.
//!
//! A ring of the kernel belongs to one thread, and its IOs end with the thread that submitted them. These do not. An IO takes two
//! switches between threads longer: some 10 us. So the engine is for large IOs, and not for measuring. A small read or write that comes
//! while nothing is in flight is served by the caller's thread.
//!
//! Lanes are synchronous devices: each belongs to a thread of its own.
//!
//! # Invariants
//! - A request is in the queue, with one thread, or among the completions. Dropping the device waits for IOs in flight.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flashlab_base::{Bytes, Identity, Nanos};
use flashlab_device::{Completion, Device, Geometry, Health, Operation, Parallel, Request, Telemetry};

use crate::error::HostError;
use crate::synchronous::SyncDevice;
use crate::target::Target;

/// The largest read or write that the caller's thread serves while nothing is in flight: one that takes little longer than two switches
/// between threads on a fast SSD. A volume's small writes come before a flush, which waits for them.
const OWN_MAX: Bytes = Bytes::kib(64);

/// A real device with a queue that threads serve.
pub struct ThreadsDevice {
    target: Arc<Target>,
    /// The handle of the owner's own thread: its clock, health and lanes.
    own: SyncDevice,
    /// `None` while the device is dropped: then the threads end.
    requests: Option<Sender<(Request, Nanos)>>,
    completions: Receiver<Completion>,
    threads: Vec<JoinHandle<()>>,
    in_flight: u32,
}

impl ThreadsDevice {
    pub(crate) fn new(target: Arc<Target>) -> Result<ThreadsDevice, HostError> {
        let (requests, queue) = channel();
        let (done, completions) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for _ in 0..target.geometry.depth {
            let (queue, done) = (Arc::clone(&queue), done.clone());
            let device = SyncDevice::new(Arc::clone(&target));
            let spawned = thread::Builder::new().name("flashlab-io".to_owned());
            let spawned = spawned.spawn(move || serve(device, &queue, &done));
            threads.push(spawned.map_err(|error| HostError::NoThread { error })?);
        }
        let own = SyncDevice::new(Arc::clone(&target));
        Ok(ThreadsDevice { target, own, requests: Some(requests), completions, threads, in_flight: 0 })
    }
}

/// What each thread does until the device is dropped.
fn serve(mut device: SyncDevice, queue: &Mutex<Receiver<(Request, Nanos)>>, done: &Sender<Completion>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((request, submitted)) = next else { return };
        device.submit(request);
        let Some(completion) = device.wait(Nanos::MAX) else { return };
        if done.send(Completion { submitted, ..completion }).is_err() {
            return;
        }
    }
}

impl Device for ThreadsDevice {
    fn geometry(&self) -> Geometry {
        self.target.geometry
    }

    fn identity(&self) -> Identity {
        self.target.identity.clone()
    }

    fn now(&mut self) -> Nanos {
        self.target.clock.now()
    }

    fn submit(&mut self, request: Request) {
        assert!(self.in_flight < self.target.geometry.depth, "no more requests are in flight than the depth");
        self.in_flight += 1;
        let is_transfer = matches!(request.operation, Operation::Read | Operation::Write);
        if is_transfer && request.size <= OWN_MAX && self.in_flight == 1 {
            self.own.submit(request);
            return;
        }
        let requests = self.requests.as_ref().expect("it is not dropped yet");
        requests.send((request, self.target.clock.now())).expect("the threads end after the device");
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        if self.in_flight == 0 {
            if until != Nanos::MAX {
                self.target.clock.sleep_until(until);
            }
            return None;
        }
        if let Some(completion) = self.own.wait(Nanos::MAX) {
            self.in_flight -= 1;
            return Some(completion);
        }
        let completion = if until == Nanos::MAX {
            self.completions.recv().expect("the threads end after the device")
        } else {
            let left = Duration::from_nanos(until.since(self.target.clock.now()).0);
            match self.completions.recv_timeout(left) {
                Ok(completion) => completion,
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => unreachable!("the threads end after the device"),
            }
        };
        self.in_flight -= 1;
        // As with the ring: a response time ends when the caller has the answer.
        Some(Completion { completed: self.target.clock.now(), ..completion })
    }

    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        Some(self)
    }

    fn health(&mut self) -> Option<&mut dyn Health> {
        self.own.health()
    }

    fn telemetry(&mut self) -> Option<&mut dyn Telemetry> {
        self.own.telemetry()
    }
}

impl Parallel for ThreadsDevice {
    fn lanes(&mut self, count: u32) -> io::Result<Vec<Box<dyn Device + Send>>> {
        self.own.lanes(count)
    }
}

impl Drop for ThreadsDevice {
    fn drop(&mut self) {
        self.requests = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}
