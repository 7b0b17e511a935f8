//! One run: a placed pattern on a device, from the first IO to the last.
//!
//! # Method
//! 1. [`run`] asks the device for one lane per process.
//! 2. With lanes, each process gets its own thread, and all start together.
//! 3. Without lanes, one loop interleaves the processes on the device's only clock.

use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{RwLock, mpsc};
use std::thread;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::Device;
use flashlab_plan::{Pattern, Placed};

use crate::control::Control;
use crate::error::EngineError;
use crate::observer::Observer;
use crate::outcome::RunOutcome;
use crate::process::{IoLoop, Process, Shared, Task};

/// Runs `placed` on `device`. The n-th observer sees the IOs of the n-th process.
///
/// A run that fails in the middle is no error of this function: the outcome says so, and the observers have seen every IO.
///
/// # Errors
/// When the pattern cannot run on the device at all. No IO was submitted then.
pub fn run<O: Observer>(
    device: &mut (dyn Device + '_),
    placed: &Placed,
    observers: &mut [O],
    control: &Control<'_>,
) -> Result<RunOutcome, EngineError> {
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
            Ok(IoLoop::new(device, processes.collect(), depth, largest, &shared).run())
        }
    }
}

/// Checks that the device accepts as many IOs in flight as the pattern needs. [`run`] checks it as well; a caller that
/// runs several patterns checks all of them before the first one.
///
/// # Errors
/// [`EngineError::QueueDepth`] or [`EngineError::Processes`].
pub fn check(device: &mut (dyn Device + '_), pattern: &Pattern) -> Result<(), EngineError> {
    lanes(device, pattern).map(drop)
}

/// The lanes that the pattern's processes run on, or `None` where all of them share the device itself.
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
        || device.geometry().depth,
        |lanes| lanes.iter().map(|lane| lane.geometry().depth).min().unwrap_or(0),
    );
    if depth > offered {
        return Err(EngineError::QueueDepth { wanted: depth, offered });
    }
    Ok(lanes)
}

/// Runs each process in its own thread and on its own lane. The processes start together when all of them are set up. If
/// one of them cannot be set up, none submits an IO.
fn in_threads<I: Iterator<Item = Task> + Send, O: Observer>(
    lanes: Vec<Box<dyn Device + Send>>,
    processes: Vec<Process<'_, I, O>>,
    depth: u32,
    largest: Bytes,
    shared: &Shared<'_>,
) -> Result<RunOutcome, EngineError> {
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
                    let io_loop = IoLoop::new(device, vec![process], depth, largest, shared);
                    // The receiver exists as long as the gate is closed, so sending cannot fail.
                    let _ = ready.send(());
                    drop(ready);
                    drop(gate.read());
                    io_loop.run()
                })
            })
            .collect();
        drop(ready);
        // The channel ends when each thread is set up or has panicked.
        if set_up.iter().count() < count {
            shared.stop.store(true, Ordering::Relaxed);
        }
        drop(closed);
        let threads = threads.map_err(|error| EngineError::Processes {
            processes: count as u32,
            depth,
            reason: format!("the operating system starts no more threads ({error})"),
        })?;
        let outcomes =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(outcomes.reduce(RunOutcome::merge).unwrap_or_else(|| RunOutcome::new(Nanos::ZERO)))
    })
}
