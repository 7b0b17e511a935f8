//! The machine that an algorithm runs on: devices, internal memory, a clock, and the ledger of IOs.
//!
//! # Model
//! The external-memory machine of Aggarwal and Vitter (CACM 1988): an internal memory of M bytes and devices that are
//! read and written in blocks. IOs are asynchronous: [`Machine::submit`] returns a [`Ticket`], and the algorithm computes
//! until it needs the block. In virtual time computation costs what [`HostTime`] says; on real devices the clock runs by
//! itself.
//!
//! # Invariants
//! - Every IO is in the ledger, in the phase in which it was submitted, and is shown to the observer once.
//! - The clock never decreases. In virtual time it moves by waiting for IOs and by [`Machine::compute`] alone.
//! - All devices are in virtual time, or none is.

use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_base::{Bytes, Nanos, Operation};
use flashlab_device::{Buffer, Device, Geometry, Request};

use crate::budget::MemoryBudget;
use crate::device_queue::{Answer, DeviceQueue, IoRecord};
use crate::error::EmError;
use crate::ledger::IoLedger;

/// How long the machine blocks on one of several real devices before it looks at the next.
const LOOK: Nanos = Nanos::from_micros(50);

/// What computation costs in virtual time.
pub enum HostTime<'a> {
    /// This much for each element; deterministic.
    Declared(Nanos),
    /// What it really takes, by this clock.
    Measured(Box<dyn FnMut() -> Nanos + 'a>),
}

/// Sees the IOs of a machine.
pub trait IoObserver {
    /// A phase begins. No IO is in flight, if the algorithm waits for its IOs at the end of a phase.
    fn phase(&mut self, name: &str);

    /// An IO is done. In virtual time it is shown when it is submitted.
    fn io(&mut self, record: &IoRecord);
}

/// An IO that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    device: usize,
    tag: u64,
}

/// Devices, memory, clock and ledger.
pub struct Machine<'a> {
    queues: Vec<DeviceQueue<'a>>,
    budget: MemoryBudget,
    ledger: IoLedger,
    host_time: HostTime<'a>,
    /// The wall clock when the machine was last left, for [`HostTime::Measured`].
    left_at: Option<Nanos>,
    now: Nanos,
    host: Nanos,
    blocked: Nanos,
    begin: Nanos,
    submissions: u64,
    interrupt: Option<&'a AtomicBool>,
    observer: Option<&'a mut dyn IoObserver>,
}

impl<'a> Machine<'a> {
    /// A machine with these devices, which store data, and this memory.
    ///
    /// # Errors
    /// [`EmError::UnfitDevice`] when a device does not store data, or some devices are in virtual time and some are not.
    pub fn new(
        devices: Vec<Box<dyn Device + 'a>>,
        memory: Bytes,
        host_time: HostTime<'a>,
    ) -> Result<Machine<'a>, EmError> {
        let queues: Vec<DeviceQueue> =
            devices.into_iter().enumerate().map(|(index, device)| DeviceQueue::new(device, index)).collect();
        let unfit = |queue: &DeviceQueue, reason| EmError::UnfitDevice { device: queue.name.clone(), reason };
        for queue in &queues {
            if !queue.geometry.data.is_stored() {
                return Err(unfit(queue, "it does not store data, so no algorithm can run on it"));
            }
            if queue.is_virtual != queues[0].is_virtual {
                return Err(unfit(queue, "a simulated and a real device have no common clock"));
            }
        }
        if queues.is_empty() {
            return Err(EmError::Parameter("a machine needs a device".to_owned()));
        }
        let mut machine = Machine {
            queues,
            budget: MemoryBudget::new(memory),
            ledger: IoLedger::default(),
            host_time,
            left_at: None,
            now: Nanos::ZERO,
            host: Nanos::ZERO,
            blocked: Nanos::ZERO,
            begin: Nanos::ZERO,
            submissions: 0,
            interrupt: None,
            observer: None,
        };
        machine.now = machine.queues.iter_mut().map(DeviceQueue::now).max().unwrap_or_default();
        let now = machine.now;
        machine.queues.iter_mut().for_each(|queue| queue.synchronise(now));
        machine.begin = now;
        Ok(machine)
    }

    /// Ends every wait with [`EmError::Interrupted`] when the flag is set.
    pub fn with_interrupt(mut self, interrupt: &'a AtomicBool) -> Machine<'a> {
        self.interrupt = Some(interrupt);
        self
    }

    /// Shows every IO to `observer`.
    pub fn with_observer(mut self, observer: &'a mut dyn IoObserver) -> Machine<'a> {
        self.observer = Some(observer);
        self
    }

    /// The number of devices.
    pub fn device_count(&self) -> usize {
        self.queues.len()
    }

    /// The constants of a device.
    pub fn geometry(&self, device: usize) -> Geometry {
        self.queues[device].geometry
    }

    /// The name of a device.
    pub fn name(&self, device: usize) -> &str {
        &self.queues[device].name
    }

    /// The unit of all IOs: the largest logical block of the devices.
    pub fn unit(&self) -> Bytes {
        self.queues.iter().map(|queue| queue.geometry.block).max().unwrap_or(Bytes(512))
    }

    /// Whether the clock is virtual.
    pub fn is_virtual(&self) -> bool {
        self.queues[0].is_virtual
    }

    /// The internal memory.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// The IOs so far.
    pub fn ledger(&self) -> &IoLedger {
        &self.ledger
    }

    /// The IOs so far, to plan some.
    pub fn ledger_mut(&mut self) -> &mut IoLedger {
        &mut self.ledger
    }

    /// The time on the clock.
    pub fn now(&mut self) -> Nanos {
        self.enter();
        self.leave();
        self.now
    }

    /// How long the host has computed since the machine was made: what was declared or measured in virtual time; on real
    /// devices the time in which the algorithm did not wait for an IO.
    pub fn host_time(&mut self) -> Nanos {
        self.now();
        self.computed()
    }

    fn computed(&self) -> Nanos {
        if self.is_virtual() { self.host } else { self.now.since(self.begin + self.blocked) }
    }

    /// Begins a phase of the algorithm: the ledger and the observer tell them apart.
    pub fn begin_phase(&mut self, name: &str) {
        self.enter();
        self.advance();
        self.ledger.begin(name, self.computed());
        if let Some(observer) = &mut self.observer {
            observer.phase(name);
        }
        self.leave();
    }

    /// What the computation on an element costs by declaration: in virtual time, unless it is measured.
    pub fn declared_cost(&self) -> Nanos {
        match self.host_time {
            HostTime::Declared(cost) if self.is_virtual() => cost,
            _ => Nanos::ZERO,
        }
    }

    /// Accounts for the computation on `elements` elements.
    pub fn compute(&mut self, elements: u64) {
        self.enter();
        let cost = self.declared_cost();
        if cost > Nanos::ZERO {
            let cost = Nanos(cost.0.saturating_mul(elements));
            self.host += cost;
            self.now += cost;
            self.advance();
        }
        self.leave();
    }

    /// Submits an IO. A write's buffer holds the data; a read's buffer receives it. If the device's queue is full, the IO
    /// waits outside.
    pub fn submit(
        &mut self,
        device: usize,
        operation: Operation,
        offset: Bytes,
        size: Bytes,
        buffer: Buffer,
    ) -> Ticket {
        self.enter();
        if let Some(mode) = operation.mode() {
            self.ledger.current().issue(device, mode, size);
        }
        let tag = self.submissions;
        self.submissions += 1;
        let now = self.now;
        self.queues[device].enqueue(now, Request { tag, operation, offset, size, buffer });
        self.show();
        self.leave();
        Ticket { device, tag }
    }

    /// Whether an IO is done by now.
    pub fn is_done(&mut self, ticket: Ticket) -> bool {
        self.enter();
        self.advance();
        let completed = self.queues[ticket.device].completed_at(ticket.tag);
        let is_done = completed.is_some_and(|completed| !self.is_virtual() || completed <= self.now);
        self.leave();
        is_done
    }

    /// Waits for an IO and returns its buffer.
    ///
    /// # Errors
    /// [`EmError::Io`] when the device failed it, [`EmError::Interrupted`].
    pub fn wait(&mut self, ticket: Ticket) -> Result<Buffer, EmError> {
        self.enter();
        let begin = self.now;
        let answer = loop {
            self.check_interrupt()?;
            self.advance();
            if let Some(answer) = self.queues[ticket.device].take(ticket.tag) {
                break answer;
            }
            let queue = &mut self.queues[ticket.device];
            match queue.next_event() {
                Some(event) => self.now = self.now.max(event),
                None => queue.block(None),
            }
        };
        let buffer = self.finish(begin, answer);
        self.leave();
        buffer
    }

    /// Waits for the IO that completes first, of all devices. `None`: no IO is outstanding.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    pub fn wait_any(&mut self) -> Result<Option<(Ticket, Buffer)>, EmError> {
        self.enter();
        let begin = self.now;
        let (device, tag) = loop {
            self.check_interrupt()?;
            self.advance();
            let earliest = self.queues.iter().enumerate().filter_map(|(device, queue)| {
                queue.earliest().map(|(completed, tag)| (completed, device, tag))
            });
            if let Some((_, device, tag)) = earliest.min() {
                break (device, tag);
            }
            let mut busy: Vec<&mut DeviceQueue> =
                self.queues.iter_mut().filter(|queue| !queue.is_idle()).collect();
            match &mut busy[..] {
                [] => {
                    self.leave();
                    return Ok(None);
                }
                [queue] => queue.block(None),
                queues => queues.iter_mut().for_each(|queue| queue.block(Some(LOOK))),
            }
        };
        let answer = self.queues[device].take(tag).expect("the answer was just found");
        let buffer = self.finish(begin, answer);
        self.leave();
        buffer.map(|buffer| Some((Ticket { device, tag }, buffer)))
    }

    /// Ends a wait that began at `begin`.
    fn finish(&mut self, begin: Nanos, answer: Answer) -> Result<Buffer, EmError> {
        if self.is_virtual() {
            self.now = self.now.max(answer.record.completed);
            self.advance();
        } else {
            self.now = self.queues[0].now();
            self.blocked += self.now.since(begin);
        }
        self.show();
        let IoRecord { device, operation, offset, size, result, .. } = answer.record;
        result.map(|()| answer.buffer).map_err(|error| {
            let device = self.queues[device].name.clone();
            EmError::Io { device, operation, offset, size, error }
        })
    }

    fn check_interrupt(&self) -> Result<(), EmError> {
        match self.interrupt {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(EmError::Interrupted),
            _ => Ok(()),
        }
    }

    fn advance(&mut self) {
        let now = self.now;
        self.queues.iter_mut().for_each(|queue| queue.advance(now));
        self.show();
    }

    fn show(&mut self) {
        for queue in &mut self.queues {
            for record in queue.unseen.drain(..) {
                if let Some(observer) = &mut self.observer {
                    observer.io(&record);
                }
            }
        }
    }

    /// The algorithm enters the machine: what it computed since it left counts, if that is measured.
    fn enter(&mut self) {
        if !self.is_virtual() {
            self.now = self.queues[0].now();
        } else if let (HostTime::Measured(clock), Some(left_at)) = (&mut self.host_time, self.left_at) {
            let computed = clock().since(left_at);
            self.host += computed;
            self.now += computed;
        }
    }

    fn leave(&mut self) {
        if let (true, HostTime::Measured(clock)) = (self.queues[0].is_virtual, &mut self.host_time) {
            self.left_at = Some(clock());
        }
    }
}
