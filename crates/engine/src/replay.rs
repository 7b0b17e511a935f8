//! One replay: the IOs of a trace on a device.
//!
//! # Model
//! At the recorded pace the replay is an open loop. It submits each IO at its arrival time in the trace, whether or not
//! earlier IOs have completed. The response time starts at the arrival, so it includes the wait for a place in the device's
//! queue. As fast as possible the replay is a closed loop: each completion triggers the next submission.

use std::sync::atomic::{AtomicBool, AtomicU64};

use flashlab_base::{Mode, Nanos};
use flashlab_device::Device;
use flashlab_plan::{Content, PlannedIo, Start};
use flashlab_trace::TraceIo;

use crate::control::Control;
use crate::error::EngineError;
use crate::observer::Observer;
use crate::outcome::RunOutcome;
use crate::process::{IoLoop, Process, Shared, Task};

/// How fast a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each IO arrives at its recorded time, divided by `speed`.
    Recorded {
        /// The speed-up, greater than 0; 1 is the recorded pace.
        speed: f64,
    },
    /// A constant number of IOs is in flight.
    AsFastAsPossible {
        /// The number of IOs in flight.
        depth: u32,
    },
}

/// Replays `ios`, all of which fit on the device (see [`Trace::fit`](flashlab_trace::Trace::fit)). A sample's position is
/// the IO's index in `ios`. The sample of a flush or discard has the mode of a write.
///
/// # Errors
/// [`EngineError::QueueDepth`] when the device accepts fewer IOs in flight. No IO was submitted then.
pub fn replay<O: Observer>(
    device: &mut (dyn Device + '_),
    ios: &[TraceIo],
    pace: Pace,
    observer: &mut O,
    control: &Control<'_>,
) -> Result<RunOutcome, EngineError> {
    let offered = device.geometry().depth;
    let depth = match pace {
        // One slot for each IO that can be in flight, but no more than there are IOs.
        Pace::Recorded { .. } => offered.min(u32::try_from(ios.len()).unwrap_or(offered)).max(1),
        Pace::AsFastAsPossible { depth } => depth,
    };
    if depth == 0 || depth > offered {
        return Err(EngineError::QueueDepth { wanted: depth, offered });
    }
    let shared = Shared {
        stop: &AtomicBool::new(false),
        interrupt: control.interrupt,
        // A trace has its own flushes.
        write_through: false,
        time_limit: control.time_limit,
        failed: &AtomicU64::new(0),
        failures_allowed: control.failures_allowed,
    };
    let transfers = ios.iter().filter(|io| io.operation.mode().is_some());
    let largest = transfers.map(|io| io.size).max().unwrap_or_default();
    let tasks = ios.iter().enumerate().map(|(position, io)| task(position as u64, io, pace));
    let process = Process::new(0, tasks, observer);
    Ok(IoLoop::new(device, vec![process], depth, largest, &shared).run())
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
