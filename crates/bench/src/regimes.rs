//! The two regimes of writes on a device that buffers them: a burst after an idle time, and what lasts.
//!
//! # Model
//! - A **burst** fits into the bytes that the pause between runs brings back. It ignores nothing.
//! - A **sustained** run follows a lead-in without a pause. The lead-in writes randomly until a window is as slow as what lasts: so
//!   each run begins in the regime that it is named after, whatever the run before left. The run then ignores what the
//!   buffer holds of the lead-in, and measures whole windows, because the sustained rate alternates within one.
//!
//! # Invariant
//! A run is either a burst or sustained. What fits neither is left out with the reason.

use flashlab_analysis::findings::{PatternStages, WriteStages};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::Pattern;

use crate::settings::{IO_SIZE, Lengths, Settings};
use crate::shares::bytes_written_each;

/// The least IOs of a burst: the batches of [`Precision`](flashlab_analysis::Precision).
const BURST_IOS_MIN: u64 = 32;
/// The part of the returned bytes that a burst uses. What comes back is known to within a tenth of it.
const BURST_SHARE: f64 = 0.9;
/// A sustained run measures at least this number of windows.
const WINDOWS_MIN: f64 = 2.0;
/// ... and at most this number, whatever the scatter of windows is.
const WINDOWS_MOST: f64 = 64.0;
/// What the name of an experiment ends with if it was measured in bursts.
pub(crate) const BURST: &str = ".burst";

/// What the schedule has to know about the regimes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Regimes {
    /// The stages of random writes, with which a lead-in is done.
    pub stages: PatternStages,
    /// The bytes that each idle time brings back.
    returned: Vec<(Nanos, Bytes)>,
    /// The relative half width that the mean of all repetitions should have.
    goal: f64,
    repetitions: f64,
}

impl Regimes {
    pub fn new(found: &WriteStages, settings: &Settings) -> Option<Regimes> {
        let returned = found.recovery.iter().map(|recovery| (recovery.idle, Bytes(recovery.bytes)));
        Some(Regimes {
            stages: found.of("RW")?.clone(),
            returned: returned.collect(),
            goal: settings.precision_goal,
            repetitions: f64::from(settings.repetitions),
        })
    }

    /// The IOs of each process of a burst after this pause, at most. `None` if the pause brings back too little for this pattern.
    pub fn burst_ios(&self, pattern: &Pattern, pause: Nanos) -> Option<u64> {
        let returned =
            self.returned.iter().filter(|(idle, _)| *idle <= pause).map(|(_, bytes)| bytes.0).max()?;
        let each = bytes_written_each(pattern) * f64::from(pattern.parallel_degree);
        let ios = (BURST_SHARE * returned as f64 / each) as u64;
        (ios >= BURST_IOS_MIN).then_some(ios)
    }

    /// The time of a window of what lasts.
    fn window_ns(&self) -> f64 {
        self.stages.sustained_ns_mean * self.stages.window_bytes as f64 / IO_SIZE.0 as f64
    }

    /// The IOs at the begin of a sustained run that may still see what the lead-in left in the buffer. The buffer is the first
    /// stage, and drains at the sustained rate.
    pub fn ignored_ios(&self, per_io_ns: f64) -> u64 {
        let first = self.stages.stages.first().map_or(0, |stage| stage.bytes);
        let part = (first as f64 / self.stages.window_bytes.max(1) as f64).min(1.0);
        (part * self.window_ns() / per_io_ns).ceil() as u64
    }

    /// The IOs of each process that a sustained run measures at least. The scatter of windows decides how many windows: the mean
    /// over all repetitions should be as precise as the goal.
    pub fn measured_ios(&self, pattern: &Pattern, per_io_ns: f64) -> u64 {
        let scatter = self.stages.window_scatter.unwrap_or(1.0);
        let windows = ((scatter / self.goal).powi(2) / self.repetitions).clamp(WINDOWS_MIN, WINDOWS_MOST);
        let each = bytes_written_each(pattern) * f64::from(pattern.parallel_degree);
        let in_bytes = self.stages.window_bytes as f64 / each;
        // A pattern that writes less than the device sustains sees no cycle of it.
        let in_time = self.window_ns() / per_io_ns;
        (windows * in_bytes.min(in_time)).ceil() as u64
    }

    /// The most writes of a lead-in: a quarter more than the stages take, and some windows.
    pub fn lead_in_most(&self, capacity: Bytes, lengths: Lengths) -> u64 {
        let PatternStages { volatile_bytes, window_bytes, .. } = self.stages;
        (volatile_bytes + volatile_bytes / 4 + 4 * window_bytes)
            .div_ceil(IO_SIZE.0)
            .min(lead_in_bound(capacity, lengths).0 / IO_SIZE.0)
    }

    /// A lead-in between two sustained runs, usually: a window, in which the buffer fills if the run before had left it empty.
    pub fn lead_in(&self) -> (Nanos, Bytes) {
        (Nanos(self.window_ns() as u64), Bytes(self.stages.window_bytes))
    }
}

/// What a lead-in writes at most, on any device.
pub(crate) fn lead_in_bound(capacity: Bytes, lengths: Lengths) -> Bytes {
    let share = Bytes(capacity.0 / lengths.written_divisor);
    share.min(IO_SIZE * lengths.baseline_ios_most).max(IO_SIZE)
}
