//! The requests of one device: those that wait for its queue, those in flight, those that are done.
//!
//! # Model
//! An algorithm may have more requests outstanding than the device's depth. The others wait here, first come first served,
//! and enter the device as soon as a request completes, as in the queue of an operating system.
//!
//! In virtual time a completion is known when its request is submitted ([`VirtualTime`](flashlab_device::VirtualTime)). The
//! device's clock therefore lags behind the algorithm's: a waiting request is submitted at the virtual time at which a slot
//! became free, although the algorithm computed beyond it meanwhile.
//!
//! # Invariants
//! - The device never has more requests than its depth.
//! - Every request is answered once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use flashlab_base::{Bytes, Nanos, Operation};
use flashlab_device::{Buffer, Completion, Device, Geometry, IoError, Request};

/// One IO with its times on the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoRecord {
    /// The device, by its index.
    pub device: usize,
    /// What the IO was.
    pub operation: Operation,
    /// Where it began.
    pub offset: Bytes,
    /// Its length.
    pub size: Bytes,
    /// When the device accepted it.
    pub submitted: Nanos,
    /// When the device finished it.
    pub completed: Nanos,
    /// Whether it succeeded.
    pub result: Result<(), IoError>,
}

/// An answered request.
pub(crate) struct Answer {
    pub record: IoRecord,
    pub buffer: Buffer,
}

/// One device with its requests.
pub(crate) struct DeviceQueue<'a> {
    device: Box<dyn Device + 'a>,
    index: usize,
    pub name: String,
    pub geometry: Geometry,
    pub is_virtual: bool,
    /// The machine's time minus the device's. Zero in virtual time.
    clock_lag: i64,
    waiting: VecDeque<(Nanos, Request)>,
    /// In virtual time: when the requests in the device complete.
    busy: BinaryHeap<Reverse<Nanos>>,
    /// In virtual time: when a slot of a full queue became free last.
    free_at: Nanos,
    /// In wall time: the requests in the device.
    in_flight: BTreeMap<u64, (Operation, Bytes, Bytes)>,
    done: BTreeMap<u64, Answer>,
    /// The keys of `done` by time.
    order: BTreeSet<(Nanos, u64)>,
    /// IOs that were answered since the machine last took this.
    pub unseen: Vec<IoRecord>,
}

impl<'a> DeviceQueue<'a> {
    pub fn new(mut device: Box<dyn Device + 'a>, index: usize) -> DeviceQueue<'a> {
        let (geometry, name) = (device.geometry(), device.identity().target);
        DeviceQueue {
            is_virtual: device.virtual_time().is_some(),
            device,
            index,
            name,
            geometry,
            clock_lag: 0,
            waiting: VecDeque::new(),
            busy: BinaryHeap::new(),
            free_at: Nanos::ZERO,
            in_flight: BTreeMap::new(),
            done: BTreeMap::new(),
            order: BTreeSet::new(),
            unseen: Vec::new(),
        }
    }

    /// The device's time on the machine's clock.
    pub fn now(&mut self) -> Nanos {
        let now = self.device.now();
        self.to_machine(now)
    }

    /// Makes the device's clock show `now`: moves a virtual clock, and remembers the difference of a real one.
    pub fn synchronise(&mut self, now: Nanos) {
        if self.is_virtual {
            self.device.wait(now);
        } else {
            self.clock_lag = now.0 as i64 - self.device.now().0 as i64;
        }
    }

    fn to_machine(&self, time: Nanos) -> Nanos {
        Nanos(time.0.saturating_add_signed(self.clock_lag))
    }

    /// Whether any request is not answered.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Accepts a request at `now`.
    pub fn enqueue(&mut self, now: Nanos, request: Request) {
        self.waiting.push_back((now, request));
        self.advance(now);
    }

    /// Submits what the depth allows, and collects what is done, up to `now`.
    pub fn advance(&mut self, now: Nanos) {
        if self.is_virtual { self.advance_virtual(now) } else { self.advance_real() }
    }

    fn advance_virtual(&mut self, now: Nanos) {
        loop {
            while self.busy.len() < self.geometry.depth as usize
                && let Some((queued, request)) = self.waiting.pop_front()
            {
                self.submit_at(queued.max(self.free_at), request);
            }
            match self.busy.peek() {
                Some(&Reverse(completed)) if completed <= now => {
                    self.busy.pop();
                    self.free_at = completed;
                }
                _ => break,
            }
        }
    }

    fn submit_at(&mut self, time: Nanos, request: Request) {
        let meta = (request.operation, request.offset, request.size);
        self.device.wait(time);
        self.device.submit(request);
        let virtual_time = self.device.virtual_time().expect("a virtual device keeps its capability");
        let completion = virtual_time.next_completion().expect("every request is answered by one completion");
        self.busy.push(Reverse(completion.completed));
        self.answer(completion, meta);
    }

    fn advance_real(&mut self) {
        loop {
            while self.in_flight.len() < self.geometry.depth as usize
                && let Some((_, request)) = self.waiting.pop_front()
            {
                let meta = (request.operation, request.offset, request.size);
                self.in_flight.insert(request.tag, meta);
                self.device.submit(request);
            }
            if self.in_flight.is_empty() || !self.collect(Nanos::ZERO) {
                break;
            }
        }
    }

    /// In wall time: takes one completion, waiting until the device's clock shows `until`.
    fn collect(&mut self, until: Nanos) -> bool {
        let Some(completion) = self.device.wait(until) else { return false };
        let meta = self.in_flight.remove(&completion.tag).expect("only requests in flight complete");
        self.answer(completion, meta);
        true
    }

    fn answer(&mut self, completion: Completion, (operation, offset, size): (Operation, Bytes, Bytes)) {
        let record = IoRecord {
            device: self.index,
            operation,
            offset,
            size,
            submitted: self.to_machine(completion.submitted),
            completed: self.to_machine(completion.completed),
            result: completion.result,
        };
        self.unseen.push(record);
        self.order.insert((record.completed, completion.tag));
        self.done.insert(completion.tag, Answer { record, buffer: completion.buffer });
    }

    /// Takes the answer to a request, if it is known; in virtual time it may lie ahead.
    pub fn take(&mut self, tag: u64) -> Option<Answer> {
        let answer = self.done.remove(&tag)?;
        self.order.remove(&(answer.record.completed, tag));
        Some(answer)
    }

    /// The answer that comes first, by time.
    pub fn earliest(&self) -> Option<(Nanos, u64)> {
        self.order.first().copied()
    }

    /// When the answer to a request is there, if it is known.
    pub fn completed_at(&self, tag: u64) -> Option<Nanos> {
        self.done.get(&tag).map(|answer| answer.record.completed)
    }

    /// In virtual time: when the next request completes.
    pub fn next_event(&self) -> Option<Nanos> {
        self.busy.peek().map(|&Reverse(completed)| completed)
    }

    /// In wall time: waits for a completion, at most for `limit`.
    pub fn block(&mut self, limit: Option<Nanos>) {
        let until = match limit {
            Some(limit) => self.device.now() + limit,
            None => Nanos::MAX,
        };
        if !self.in_flight.is_empty() {
            self.collect(until);
        }
        self.advance_real();
    }
}
