//! One replay: the IOs of a trace on a device.
//!
//! # Model
//! At the trace's own pace the replay is an open loop: an IO is submitted when it arrived in the trace, whether or not
//! those before it are done, and its response time counts from then, so that waiting for room in the device's queue
//! counts as well. As fast as possible it is a closed loop: the next IO is submitted when one of those in flight is
//! done.

use std::sync::atomic::{AtomicBool, AtomicU64};

use flashlab_base::{Mode, Nanos};
use flashlab_device::Device;
use flashlab_plan::{Content, PlannedIo, Start};
use flashlab_trace::TraceIo;

use crate::observer::Observer;
use crate::process::{Drive, Process, Shared, Task};
use crate::run::{Control, EngineError, Outcome};

/// How fast a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each IO arrives when it did, so many times as fast; above 0.
    Recorded {
        /// How many times as fast.
        speed: f64,
    },
    /// So many IOs are in flight all the time.
    AsFastAsPossible {
        /// How many.
        depth: u32,
    },
}

/// Replays `ios`, which the device can serve (see [`Trace::fit`](flashlab_trace::Trace::fit)). The position of a
/// sample is the IO's place in `ios`; the mode of one that moves no data is told as a write.
///
/// # Errors
/// [`EngineError::QueueDepth`] when the device does not take so many IOs at once; then none was issued.
pub fn replay<O: Observer>(
    device: &mut (dyn Device + '_),
    ios: &[TraceIo],
    pace: Pace,
    observer: &mut O,
    control: &Control<'_>,
) -> Result<Outcome, EngineError> {
    let offered = device.geometry().depth;
    let depth = match pace {
        // A slot for each IO that there may be, and no more than there are IOs.
        Pace::Recorded { .. } => offered.min(u32::try_from(ios.len()).unwrap_or(offered)).max(1),
        Pace::AsFastAsPossible { depth } => depth,
    };
    if depth == 0 || depth > offered {
        return Err(EngineError::QueueDepth { processes: 1, wanted: depth, offered });
    }
    let shared = Shared {
        stop: &AtomicBool::new(false),
        interrupt: control.interrupt,
        // A trace has flushes of its own.
        write_through: false,
        time_limit: control.time_limit,
        failed: &AtomicU64::new(0),
        failures_allowed: control.failures_allowed,
    };
    let transfers = ios.iter().filter(|io| io.operation.mode().is_some());
    let largest = transfers.map(|io| io.size).max().unwrap_or_default();
    let tasks = ios.iter().enumerate().map(|(position, io)| task(position as u64, io, pace));
    let process = Process::new(0, tasks, observer);
    Ok(Drive::new(device, vec![process], depth, largest, &shared).run())
}

fn task(position: u64, io: &TraceIo, pace: Pace) -> Task {
    let &TraceIo { arrival, operation, offset, size, .. } = io;
    let start = match pace {
        Pace::Recorded { speed: 1.0 } => Start::At(arrival),
        Pace::Recorded { speed } => Start::At(Nanos((arrival.0 as f64 / speed) as u64)),
        Pace::AsFastAsPossible { .. } => Start::AfterPrevious(Nanos::ZERO),
    };
    let mode = operation.mode().unwrap_or(Mode::Write);
    Task {
        operation,
        io: PlannedIo { position, mode, offset, size, start, content: Content::Incompressible },
    }
}
