//! One run: a placed pattern on a device, from the first IO to the last.

use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{RwLock, mpsc};
use std::thread;

use flashlab_base::{Bytes, Nanos, Operation};
use flashlab_device::{Device, Disturbance, IoError};
use flashlab_plan::{Pattern, Placed};

use crate::observer::Observer;
use crate::process::{Drive, Process, Shared, Task};

/// What the caller holds of a run while it goes on.
pub struct Control<'a> {
    /// Set it to end the run; IOs in flight are still waited for.
    pub interrupt: &'a AtomicBool,
    /// The longest that the run may take on the device's clock, beside the pattern's own duration.
    pub time_limit: Option<Nanos>,
    /// How many IOs, of all processes together, may fail before the run is given up.
    pub failures_allowed: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The pattern's last IO was done.
    PatternDone,
    /// An observer had seen enough.
    ObserverSatisfied,
    /// The pattern's duration or the caller's time limit was used up.
    TimeUsed,
    /// The caller asked for it.
    Interrupted,
    /// The device is gone, or too many IOs failed.
    DeviceFailed,
}

/// An IO that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was asked.
    pub operation: Operation,
    /// Where.
    pub offset: Bytes,
    /// How long.
    pub size: Bytes,
    /// The device's answer.
    pub error: IoError,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { operation, offset, size, error } = self;
        if *operation == Operation::Flush {
            return write!(f, "a flush failed: {error}");
        }
        write!(f, "a {operation} of {} at offset {} failed: {error}", size.exact(), offset.exact())
    }
}

/// What a run did, in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why it ended.
    pub ended: Ended,
    /// IOs done, failed ones included.
    pub ios: u64,
    /// IOs failed.
    pub failed: u64,
    /// The first IO that failed.
    pub first_failure: Option<Failure>,
    /// What became of the device when it was gone, if that is known: see [`Device::loss`].
    pub loss: Option<String>,
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
    /// The device's time at the start.
    pub begin: Nanos,
    /// The device's time at the end.
    pub end: Nanos,
    /// What happened around the device meanwhile, the run's own traffic included: the most that one
    /// of the processes saw.
    pub disturbance: Disturbance,
}

impl Outcome {
    pub(crate) fn new(begin: Nanos) -> Outcome {
        Outcome {
            ended: Ended::PatternDone,
            ios: 0,
            failed: 0,
            first_failure: None,
            loss: None,
            read: Bytes::ZERO,
            written: Bytes::ZERO,
            begin,
            end: begin,
            disturbance: Disturbance::default(),
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, operation: Operation, size: Bytes) {
        self.ios += 1;
        match operation {
            Operation::Read => self.read += size,
            Operation::Write => self.written += size,
            Operation::Flush | Operation::Discard => {}
        }
    }

    /// The gravest reason wins.
    pub(crate) fn end_with(&mut self, reason: Ended) {
        let grave = |ended: Ended| ended as u8;
        if grave(reason) > grave(self.ended) {
            self.ended = reason;
        }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        self.first_failure.get_or_insert(failure);
    }

    pub(crate) fn add_disturbance(&mut self, before: Disturbance, after: Disturbance) {
        let sum = &mut self.disturbance;
        sum.device_traffic = difference(before.device_traffic, after.device_traffic, |b| b.0).map(Bytes);
        sum.cpu_wait = difference(before.cpu_wait, after.cpu_wait, |n| n.0).map(Nanos);
        sum.thermal_throttles = difference(before.thermal_throttles, after.thermal_throttles, |n| n);
    }

    fn merge(mut self, other: Outcome) -> Outcome {
        self.end_with(other.ended);
        self.ios += other.ios;
        self.failed += other.failed;
        self.first_failure = self.first_failure.or(other.first_failure);
        self.loss = self.loss.or(other.loss);
        self.read += other.read;
        self.written += other.written;
        self.begin = self.begin.min(other.begin);
        self.end = self.end.max(other.end);
        let (sum, more) = (&mut self.disturbance, other.disturbance);
        sum.device_traffic = sum.device_traffic.max(more.device_traffic);
        sum.cpu_wait = sum.cpu_wait.max(more.cpu_wait);
        sum.thermal_throttles = sum.thermal_throttles.max(more.thermal_throttles);
        self
    }
}

fn difference<T: Copy>(before: Option<T>, after: Option<T>, get: impl Fn(T) -> u64) -> Option<u64> {
    Some(get(after?).saturating_sub(get(before?)))
}

/// Why a run could not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineError {
    /// There must be one observer for each process.
    Observers {
        /// The pattern's processes.
        processes: u32,
        /// The observers given.
        observers: usize,
    },
    /// The device does not take as many IOs at once as the pattern's processes keep in flight.
    QueueDepth {
        /// The pattern's processes.
        processes: u32,
        /// The queue depth of each.
        wanted: u32,
        /// What the device takes of each.
        offered: u32,
    },
    /// The device, or the operating system, cannot serve so many processes.
    Processes {
        /// The pattern's processes.
        processes: u32,
        /// The queue depth of each.
        depth: u32,
        /// What stands against it.
        reason: String,
    },
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Observers { processes, observers } => {
                write!(f, "a pattern of {processes} processes was given {observers} observers")
            }
            EngineError::QueueDepth { processes: 1, wanted, offered } => write!(
                f,
                "queue_depth = {wanted}: must be from 1 to {offered}: the device takes no more IOs at once"
            ),
            EngineError::QueueDepth { processes, wanted, offered } => write!(
                f,
                "queue_depth = {wanted} with parallel_degree = {processes}: must be from 1 to {offered}, as all \
                 processes share what the device takes at once"
            ),
            EngineError::Processes { processes, depth, reason } => write!(
                f,
                "parallel_degree = {processes} with queue_depth = {depth} cannot be had here: {reason}; take \
                 fewer of them"
            ),
        }
    }
}

impl std::error::Error for EngineError {}

/// Runs `placed` on `device`, with one observer for each process, in the order of their numbers.
///
/// A run that fails midway is no error of this function: the outcome says so, and its observers
/// have seen every IO.
///
/// # Errors
/// When the pattern cannot be run on the device at all; then no IO was issued.
pub fn run<O: Observer>(
    device: &mut (dyn Device + '_),
    placed: &Placed,
    observers: &mut [O],
    control: &Control<'_>,
) -> Result<Outcome, EngineError> {
    let processes = placed.processes();
    if observers.len() != processes as usize {
        return Err(EngineError::Observers { processes, observers: observers.len() });
    }
    let lanes = lanes(device, placed.pattern())?;
    let depth = placed.pattern().queue_depth;
    let time_limit = [placed.pattern().duration, control.time_limit].into_iter().flatten().min();
    let shared = Shared {
        stop: &AtomicBool::new(false),
        interrupt: control.interrupt,
        write_through: placed.pattern().write_through,
        time_limit,
        failed: &AtomicU64::new(0),
        failures_allowed: control.failures_allowed,
    };
    let processes = observers.iter_mut().enumerate().map(|(number, observer)| {
        Process::new(number as u32, placed.ios(number as u32).map(Task::from), observer)
    });
    let largest = placed.largest_io();
    match lanes {
        Some(lanes) => in_threads(lanes, processes.collect(), depth, largest, &shared),
        None => {
            let mut through = None;
            let device = shared.device(device, &mut through);
            Ok(Drive::new(device, processes.collect(), depth, largest, &shared).run())
        }
    }
}

/// Whether the device takes as many IOs at once as the pattern keeps in flight. [`run`] looks as well;
/// asking first leaves nothing half done.
///
/// # Errors
/// [`EngineError::QueueDepth`] or [`EngineError::Processes`].
pub fn check(device: &mut (dyn Device + '_), pattern: &Pattern) -> Result<(), EngineError> {
    lanes(device, pattern).map(drop)
}

/// What the pattern's processes run on: a lane for each, or the device itself for all (`None`).
fn lanes(
    device: &mut (dyn Device + '_),
    pattern: &Pattern,
) -> Result<Option<Vec<Box<dyn Device + Send>>>, EngineError> {
    let (processes, depth) = (pattern.parallel_degree, pattern.queue_depth);
    let parallel = if processes > 1 { device.parallel() } else { None };
    let lanes = parallel
        .map(|parallel| parallel.lanes(processes))
        .transpose()
        .map_err(|error| EngineError::Processes { processes, depth, reason: error.to_string() })?;
    let offered = lanes.as_ref().map_or_else(
        || device.geometry().depth / processes.max(1),
        |lanes| lanes.iter().map(|lane| lane.geometry().depth).min().unwrap_or(0),
    );
    if depth > offered {
        return Err(EngineError::QueueDepth { processes, wanted: depth, offered });
    }
    Ok(lanes)
}

/// Each process on a thread and a lane of its own; they begin together, when all are set up. If one
/// cannot be, none does an IO.
fn in_threads<I: Iterator<Item = Task> + Send, O: Observer>(
    lanes: Vec<Box<dyn Device + Send>>,
    processes: Vec<Process<'_, I, O>>,
    depth: u32,
    largest: Bytes,
    shared: &Shared<'_>,
) -> Result<Outcome, EngineError> {
    let count = lanes.len();
    let gate = &RwLock::new(());
    let (ready, set_up) = mpsc::channel();
    thread::scope(|scope| {
        let closed = gate.write();
        let threads: io::Result<Vec<_>> = lanes
            .into_iter()
            .zip(processes)
            .map(|(mut lane, process)| {
                let ready = ready.clone();
                thread::Builder::new().spawn_scoped(scope, move || {
                    let mut through = None;
                    let device = shared.device(lane.as_mut(), &mut through);
                    let drive = Drive::new(device, vec![process], depth, largest, shared);
                    // Who counts them is there as long as the gate is closed.
                    let _ = ready.send(());
                    drop(ready);
                    drop(gate.read());
                    drive.run()
                })
            })
            .collect();
        drop(ready);
        // The channel ends when each thread is set up, or has panicked.
        if set_up.iter().count() < count {
            shared.stop.store(true, Ordering::Relaxed);
        }
        drop(closed);
        let threads = threads.map_err(|error| EngineError::Processes {
            processes: count as u32,
            depth,
            reason: format!("no thread for each of them ({error})"),
        })?;
        let outcomes =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(outcomes.reduce(Outcome::merge).unwrap_or_else(|| Outcome::new(Nanos::ZERO)))
    })
}
