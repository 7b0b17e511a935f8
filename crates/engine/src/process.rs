//! The loop that issues IOs: some processes of a pattern on one device.

use std::mem;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flashlab_base::{Bytes, Nanos, Operation, Seed};
use flashlab_device::{Arena, Buffer, Completion, Device, Disturbance, Request};
use flashlab_plan::{PlannedIo, Start};
use flashlab_samples::Sample;

use crate::content;
use crate::observer::Observer;
use crate::run::{Ended, Failure, Outcome};
use crate::write_through::WriteThrough;

/// The longest that a process waits without looking whether the run has been ended.
pub const WAIT_PIECE: Nanos = Nanos::from_millis(50);

/// What all processes of a run have in common.
pub(crate) struct Shared<'a> {
    /// Set when the run has to end: by the caller, or by the process that ended it.
    pub stop: &'a AtomicBool,
    /// Set when the caller wants the run to end.
    pub interrupt: &'a AtomicBool,
    /// Whether each write is flushed.
    pub write_through: bool,
    /// How long after its beginning no IO is submitted any more.
    pub time_limit: Option<Nanos>,
    /// How many IOs of all processes failed.
    pub failed: &'a AtomicU64,
    /// How many may.
    pub failures_allowed: u64,
}

impl Shared<'_> {
    /// What the processes submit to: the device, or `through` around it.
    pub(crate) fn device<'d>(
        &'d self,
        device: &'d mut dyn Device,
        through: &'d mut Option<WriteThrough<'d>>,
    ) -> &'d mut dyn Device {
        if self.write_through { through.insert(WriteThrough::new(device, self.interrupt)) } else { device }
    }
}

/// What a process does next.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    /// What is asked of the device.
    pub operation: Operation,
    /// Everything else. Its mode is that of the samples, and means nothing where no data moves.
    pub io: PlannedIo,
}

impl From<PlannedIo> for Task {
    #[inline]
    fn from(io: PlannedIo) -> Task {
        Task { operation: io.mode.into(), io }
    }
}

/// What one IO in flight leaves behind until it is done.
struct Slot {
    task: Task,
    intended: Option<Nanos>,
    process: u32,
    /// The buffers of the slot by mode, apart so that reads do not spoil what writes will put. The one
    /// that is on its way is empty here.
    buffers: [Buffer; 2],
}

/// One process of the pattern, with its tasks in their order.
pub(crate) struct Process<'a, I, O> {
    number: u32,
    tasks: I,
    next: Option<Task>,
    /// When `next` may be submitted.
    ready: Nanos,
    free: Vec<usize>,
    observer: &'a mut O,
}

impl<'a, I: Iterator<Item = Task>, O: Observer> Process<'a, I, O> {
    pub(crate) fn new(number: u32, mut tasks: I, observer: &'a mut O) -> Process<'a, I, O> {
        let next = tasks.next();
        Process { number, tasks, next, ready: Nanos::ZERO, free: Vec::new(), observer }
    }

    /// When the next IO can be submitted, if there is one and a slot for it.
    #[inline]
    fn due(&self) -> Option<Nanos> {
        (self.next.is_some() && !self.free.is_empty()).then_some(self.ready)
    }

    /// Sets when the next IO may start, its predecessor having ended at `now`.
    #[inline]
    fn prepare(&mut self, begin: Nanos, now: Nanos) {
        if let Some(next) = &self.next {
            self.ready = match next.io.start {
                Start::AfterPrevious(pause) => now.saturating_add(pause),
                Start::At(time) => begin.saturating_add(time),
            };
        }
    }
}

/// Some processes of a run, about to be driven on one device.
pub(crate) struct Drive<'a, 'b, I, O> {
    device: &'a mut (dyn Device + 'b),
    processes: Vec<Process<'a, I, O>>,
    slots: Vec<Slot>,
    in_flight: usize,
    shared: &'a Shared<'a>,
    outcome: Outcome,
    /// The device's time at which the run began.
    begin: Nanos,
    /// The device's time at which no IO is submitted any more.
    deadline: Nanos,
    /// A time that the clock has reached, so that a consecutive pattern needs no reading of it.
    now: Nanos,
}

impl<'a, 'b, I: Iterator<Item = Task>, O: Observer> Drive<'a, 'b, I, O> {
    /// Allocates and touches everything that the loop will need.
    pub(crate) fn new(
        device: &'a mut (dyn Device + 'b),
        mut processes: Vec<Process<'a, I, O>>,
        depth: u32,
        largest: Bytes,
        shared: &'a Shared<'a>,
    ) -> Drive<'a, 'b, I, O> {
        let count = processes.len() * depth as usize;
        let size = if device.geometry().data.is_used() { largest } else { Bytes::ZERO };
        let mut buffers = Arena::buffers(2 * count, size).into_iter();
        let mut slots = Vec::with_capacity(count);
        for process in &mut processes {
            let Some(first) = &process.next else { continue };
            for _ in 0..depth {
                process.free.push(slots.len());
                let seed = Seed(slots.len() as u64).derive("content", u64::from(process.number));
                let mut pair = std::array::from_fn(|_| buffers.next().unwrap_or(Buffer::empty()));
                let [read, write] = &mut pair;
                // Touched now, so that no IO pays for the page faults.
                read.fill(0);
                content::prepare(write, first.io.content, seed);
                slots.push(Slot { task: *first, intended: None, process: process.number, buffers: pair });
            }
        }
        let (begin, deadline, now) = (Nanos::ZERO, Nanos::MAX, Nanos::ZERO);
        let outcome = Outcome::new(begin);
        Drive { device, processes, slots, in_flight: 0, shared, outcome, begin, deadline, now }
    }

    /// Runs to the end of the pattern, or until the run is ended otherwise.
    pub(crate) fn run(mut self) -> Outcome {
        self.begin = self.device.now();
        self.now = self.begin;
        self.outcome = Outcome::new(self.begin);
        self.deadline = self.shared.time_limit.map_or(Nanos::MAX, |limit| self.begin.saturating_add(limit));
        for process in &mut self.processes {
            process.prepare(self.begin, self.begin);
        }
        let before = self.disturbance();
        loop {
            let until = self.submit_due();
            if self.in_flight == 0 && until.is_none() {
                break;
            }
            // A long pause is waited for in pieces, so that the end of the run is heard meanwhile.
            let until = until.map(|due| due.min(self.now.saturating_add(WAIT_PIECE)));
            match self.device.wait(until.unwrap_or(Nanos::MAX)) {
                Some(completion) => self.complete(completion),
                None => self.now = self.now.max(until.unwrap_or(self.now)),
            }
        }
        self.outcome.end = self.outcome.end.max(self.now);
        let after = self.disturbance();
        self.outcome.add_disturbance(before, after);
        self.outcome
    }

    fn disturbance(&mut self) -> Disturbance {
        self.device.telemetry().map(|telemetry| telemetry.disturbance()).unwrap_or_default()
    }

    /// Submits what is due, and returns when the next IO will be.
    #[inline]
    fn submit_due(&mut self) -> Option<Nanos> {
        let mut next: Option<Nanos> = None;
        for index in 0..self.processes.len() {
            while let Some(due) = self.processes[index].due() {
                if self.has_ended(due) {
                    return None;
                }
                if due > self.now {
                    next = Some(next.map_or(due, |earlier| earlier.min(due)));
                    break;
                }
                self.submit(index);
            }
        }
        next
    }

    #[inline]
    fn has_ended(&mut self, due: Nanos) -> bool {
        let shared = self.shared;
        if due.max(self.now) >= self.deadline {
            self.outcome.end_with(Ended::TimeUsed);
            return true;
        }
        if shared.interrupt.load(Ordering::Relaxed) {
            self.outcome.end_with(Ended::Interrupted);
            return true;
        }
        shared.stop.load(Ordering::Relaxed)
    }

    #[inline]
    fn submit(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let (Some(task), Some(slot)) = (process.next.take(), process.free.pop()) else { return };
        process.next = process.tasks.next();
        let Task { operation, io } = task;
        let intended = matches!(io.start, Start::At(_)).then_some(process.ready);
        // A queue of closed-loop IOs is filled at once; open-loop ones keep their own times.
        process.prepare(self.begin, self.now);
        let held = &mut self.slots[slot];
        let mut buffer = match operation.mode() {
            Some(mode) => mem::replace(&mut held.buffers[usize::from(mode.is_write())], Buffer::empty()),
            None => Buffer::empty(),
        };
        if operation == Operation::Write && !buffer.is_empty() {
            content::freshen(&mut buffer[..io.size.0 as usize], &io, held.process);
        }
        let request = Request { tag: slot as u64, operation, offset: io.offset, size: io.size, buffer };
        held.task = task;
        held.intended = intended;
        self.in_flight += 1;
        self.device.submit(request);
    }

    #[inline]
    fn complete(&mut self, completion: Completion) {
        self.in_flight -= 1;
        self.now = self.now.max(completion.completed);
        let index = completion.tag as usize;
        let slot = &mut self.slots[index];
        let Task { operation, io } = slot.task;
        if let Some(mode) = operation.mode() {
            slot.buffers[usize::from(mode.is_write())] = completion.buffer;
        }
        let sample = Sample {
            position: io.position,
            process: slot.process,
            mode: io.mode,
            offset: io.offset,
            size: io.size,
            intended: slot.intended.unwrap_or(completion.submitted),
            submitted: completion.submitted,
            completed: completion.completed,
            errno: completion.result.map_or_else(|error| error.errno, |()| 0),
        };
        let first = self.processes[0].number;
        let process = &mut self.processes[(slot.process - first) as usize];
        process.free.push(index);
        if process.free.len() == 1 {
            // The queue was full: its next IO waited for this one.
            process.prepare(self.begin, completion.completed);
        }
        self.outcome.count(operation, sample.size);
        if process.observer.observe(&sample) == ControlFlow::Break(()) {
            self.outcome.end_with(Ended::ObserverSatisfied);
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        if let Err(error) = completion.result {
            let failure = Failure { operation, offset: sample.offset, size: sample.size, error };
            self.outcome.fail(failure);
            let failed = self.shared.failed.fetch_add(1, Ordering::Relaxed) + 1;
            if error.device_is_gone() {
                self.outcome.loss = self.device.health().and_then(|health| health.loss());
            }
            if error.device_is_gone() || failed > self.shared.failures_allowed {
                self.outcome.end_with(Ended::DeviceFailed);
                self.shared.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}
