//! The loop that submits IOs: one or several processes of a pattern on one device.
//!
//! # Method
//! 1. [`IoLoop::new`] allocates a slot with two buffers for each IO that may be in flight.
//! 2. The loop submits every IO that is due, then waits for the next completion or the next due time.
//! 3. Each completion becomes a sample, which the process's observer sees before the next submission.
//! 4. Where the processes have more IOs in flight than the device accepts, the others wait in the host's queue, first in, first
//!    out. They count as submitted when their process issued them, as the IOs of an operating system's processes do.
//!
//! # Invariants
//! - Between a completion and the next submission the loop allocates nothing and makes no system call.
//! - The loop ends only when no IO is in flight.

use std::collections::VecDeque;
use std::mem;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flashlab_base::{Bytes, Nanos, Operation, Sample, Seed};
use flashlab_device::{Arena, Buffer, Completion, Device, DisturbanceCounters, Request};
use flashlab_plan::{PlannedIo, Start};

use crate::content;
use crate::control::INTERRUPT_CHECK;
use crate::observer::Observer;
use crate::outcome::{Failure, RunOutcome, StopReason};
use crate::write_through::WriteThrough;

/// The state that all processes of a run share.
pub(crate) struct Shared<'a> {
    /// Set by the process that ends the run for all of them.
    pub stop: &'a AtomicBool,
    /// Set by the caller to end the run.
    pub interrupt: &'a AtomicBool,
    /// Whether a flush follows each write.
    pub write_through: bool,
    /// How long after its start the run submits IOs.
    pub time_limit: Option<Nanos>,
    /// How many IOs of all processes failed so far.
    pub failed: &'a AtomicU64,
    /// How many IOs may fail before the run ends.
    pub failures_allowed: u64,
}

impl Shared<'_> {
    /// The device that the processes submit to: `device` itself, or a [`WriteThrough`] in front of it, kept in `through`.
    pub(crate) fn device<'d>(
        &'d self,
        device: &'d mut dyn Device,
        through: &'d mut Option<WriteThrough<'d>>,
    ) -> &'d mut dyn Device {
        if self.write_through { through.insert(WriteThrough::new(device, self.interrupt)) } else { device }
    }
}

/// An IO of a process.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    /// Read, write, flush or discard.
    pub operation: Operation,
    /// Everything else. Its mode goes into the sample; for a flush or discard it has no meaning.
    pub io: PlannedIo,
}

impl From<PlannedIo> for Task {
    #[inline]
    fn from(io: PlannedIo) -> Task {
        Task { operation: io.mode.into(), io }
    }
}

/// The loop's record of one IO in flight.
struct Slot {
    task: Task,
    intended: Option<Nanos>,
    /// When it was issued, if it had to wait for the device.
    issued: Option<Nanos>,
    process: u32,
    /// One buffer for reads and one for writes, so that reads do not overwrite the data of later writes. While an IO is
    /// in flight it owns its buffer, and an empty one stands here.
    buffers: [Buffer; 2],
}

/// One process of the pattern: its tasks in order.
pub(crate) struct Process<'a, I, O> {
    number: u32,
    tasks: I,
    next: Option<Task>,
    /// The earliest time at which `next` may be submitted.
    ready: Nanos,
    free: Vec<usize>,
    observer: &'a mut O,
}

impl<'a, I: Iterator<Item = Task>, O: Observer> Process<'a, I, O> {
    pub(crate) fn new(number: u32, mut tasks: I, observer: &'a mut O) -> Process<'a, I, O> {
        let next = tasks.next();
        Process { number, tasks, next, ready: Nanos::ZERO, free: Vec::new(), observer }
    }

    /// When the next IO may be submitted; `None` without a next IO or a free slot.
    #[inline]
    fn due(&self) -> Option<Nanos> {
        (self.next.is_some() && !self.free.is_empty()).then_some(self.ready)
    }

    /// Sets the earliest time of the next IO, given that the previous one ended at `now`.
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

/// The processes of a run that share one device.
pub(crate) struct IoLoop<'a, 'b, I, O> {
    device: &'a mut (dyn Device + 'b),
    processes: Vec<Process<'a, I, O>>,
    slots: Vec<Slot>,
    /// IOs that were issued and are not completed.
    in_flight: usize,
    /// Those of them that the device did not accept yet.
    waiting: VecDeque<Request>,
    /// How many IOs the device accepts at a time.
    accepted: usize,
    shared: &'a Shared<'a>,
    outcome: RunOutcome,
    /// The device's time at which the run began.
    begin: Nanos,
    /// The device's time at which no IO is submitted any more.
    deadline: Nanos,
    /// The latest known time. A consecutive pattern takes it from completions and never reads the clock.
    now: Nanos,
}

impl<'a, 'b, I: Iterator<Item = Task>, O: Observer> IoLoop<'a, 'b, I, O> {
    /// Allocates everything that the loop needs, and takes the page faults now.
    pub(crate) fn new(
        device: &'a mut (dyn Device + 'b),
        mut processes: Vec<Process<'a, I, O>>,
        depth: u32,
        largest: Bytes,
        shared: &'a Shared<'a>,
    ) -> IoLoop<'a, 'b, I, O> {
        let count = processes.len() * depth as usize;
        let geometry = device.geometry();
        let accepted = geometry.depth as usize;
        let size = if geometry.data.is_used() { largest } else { Bytes::ZERO };
        let mut buffers = Arena::buffers(2 * count, size).into_iter();
        let mut slots = Vec::with_capacity(count);
        for process in &mut processes {
            let Some(first) = &process.next else { continue };
            for _ in 0..depth {
                process.free.push(slots.len());
                let seed = Seed(slots.len() as u64).derive("content", u64::from(process.number));
                let mut pair = std::array::from_fn(|_| buffers.next().unwrap_or(Buffer::empty()));
                let [read, write] = &mut pair;
                // Writes to every page now, so that no IO includes a page fault.
                read.fill(0);
                content::prepare(write, first.io.content, seed);
                slots.push(Slot {
                    task: *first,
                    intended: None,
                    issued: None,
                    process: process.number,
                    buffers: pair,
                });
            }
        }
        let (begin, deadline, now) = (Nanos::ZERO, Nanos::MAX, Nanos::ZERO);
        let outcome = RunOutcome::new(begin);
        let waiting = VecDeque::with_capacity(count.saturating_sub(accepted));
        IoLoop {
            device,
            processes,
            slots,
            in_flight: 0,
            waiting,
            accepted,
            shared,
            outcome,
            begin,
            deadline,
            now,
        }
    }

    /// Runs until the pattern or the run ends.
    pub(crate) fn run(mut self) -> RunOutcome {
        self.begin = self.device.now();
        self.now = self.begin;
        self.outcome = RunOutcome::new(self.begin);
        self.deadline = self.shared.time_limit.map_or(Nanos::MAX, |limit| self.begin.saturating_add(limit));
        for process in &mut self.processes {
            process.prepare(self.begin, self.begin);
        }
        let before = self.disturbance();
        // Long pauses are split, so that the loop notices an interrupt. In virtual time no pause takes long.
        let longest = match self.device.virtual_time() {
            Some(_) => Nanos::MAX,
            None => INTERRUPT_CHECK,
        };
        loop {
            let until = self.submit_due();
            if self.in_flight == 0 && until.is_none() {
                break;
            }
            let until = until.map(|due| due.min(self.now.saturating_add(longest)));
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

    fn disturbance(&mut self) -> DisturbanceCounters {
        self.device.telemetry().map(|telemetry| telemetry.disturbance()).unwrap_or_default()
    }

    /// Submits every IO that is due, and returns when the next one will be.
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
            self.outcome.end_with(StopReason::TimeUsed);
            return true;
        }
        if shared.interrupt.load(Ordering::Relaxed) {
            self.outcome.end_with(StopReason::Interrupted);
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
        // Closed-loop IOs fill the queue immediately; open-loop IOs keep their own times.
        process.prepare(self.begin, self.now);
        let in_flight = &mut self.slots[slot];
        let mut buffer = match operation.mode() {
            Some(mode) => mem::replace(&mut in_flight.buffers[usize::from(mode.is_write())], Buffer::empty()),
            None => Buffer::empty(),
        };
        if operation == Operation::Write && !buffer.is_empty() {
            content::freshen(&mut buffer[..io.size.0 as usize], &io, in_flight.process);
        }
        let request = Request { tag: slot as u64, operation, offset: io.offset, size: io.size, buffer };
        in_flight.task = task;
        in_flight.intended = intended;
        let waits = self.in_flight - self.waiting.len() >= self.accepted;
        in_flight.issued = waits.then_some(self.now);
        match waits {
            true => self.waiting.push_back(request),
            false => self.device.submit(request),
        }
        self.in_flight += 1;
    }

    #[inline]
    fn complete(&mut self, completion: Completion) {
        self.in_flight -= 1;
        self.now = self.now.max(completion.completed);
        if let Some(request) = self.waiting.pop_front() {
            self.device.submit(request);
        }
        let index = completion.tag as usize;
        let slot = &mut self.slots[index];
        let Task { operation, io } = slot.task;
        if let Some(mode) = operation.mode() {
            slot.buffers[usize::from(mode.is_write())] = completion.buffer;
        }
        let submitted = slot.issued.unwrap_or(completion.submitted);
        let sample = Sample {
            position: io.position,
            process: slot.process,
            mode: io.mode,
            offset: io.offset,
            size: io.size,
            intended: slot.intended.unwrap_or(submitted),
            submitted,
            completed: completion.completed,
            errno: completion.result.map_or_else(|error| error.errno, |()| 0),
        };
        let first = self.processes[0].number;
        let process = &mut self.processes[(slot.process - first) as usize];
        process.free.push(index);
        if process.free.len() == 1 {
            // The queue was full, so the next IO had to wait for this one.
            process.prepare(self.begin, completion.completed);
        }
        self.outcome.count(operation, sample.size);
        if process.observer.observe(&sample) == ControlFlow::Break(()) {
            self.outcome.end_with(StopReason::ObserverSatisfied);
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
                self.outcome.end_with(StopReason::DeviceFailed);
                self.shared.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}
