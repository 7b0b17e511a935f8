//! Estimates the time of a run from what is known about the device.
//!
//! # Model
//! - An IO takes the mean of its baseline, scaled by its size, plus its pause.
//! - A pattern between sequential and random (in reverse, in place, with gaps, partitioned) may behave like
//!   either. Its time and its start-up phase are the larger ones of the two baselines.
//! - Reads in a mix with writes are slowed down as in the lingering experiment.

use flashlab_analysis::findings::Baseline;
use flashlab_base::{Mode, Nanos};
use flashlab_plan::{Basic, Location, ModeRule, Pattern, Space, Time};

use crate::area::Areas;
use crate::regimes::WriteRegimes;
use crate::shares::weighted;

/// What is known about the device when the schedule is made.
#[derive(Clone)]
pub(crate) struct DeviceKnowledge<'a> {
    pub space: Space,
    pub baselines: &'a [Baseline],
    pub regimes: WriteRegimes,
    /// The pause after a run that wrote.
    pub pause: Nanos,
    /// The response time of a read that follows writes without a pause, divided by that of a normal read.
    pub slowdown: f64,
    /// What enforcing the state took.
    pub state_time: Nanos,
    /// The time of an IO of 32 KiB without a baseline.
    pub unknown_ns: f64,
    /// The areas that are left for sequential writes.
    pub areas: Areas,
}

impl DeviceKnowledge<'_> {
    /// A device of which only the size is known.
    pub fn nothing(space: Space, unknown_ns: f64) -> DeviceKnowledge<'static> {
        let areas = Areas::of(space);
        let (pause, state_time) = (Nanos::ZERO, Nanos::ZERO);
        let regimes = WriteRegimes::One;
        DeviceKnowledge {
            space,
            baselines: &[],
            regimes,
            pause,
            slowdown: 1.0,
            state_time,
            unknown_ns,
            areas,
        }
    }

    /// The baselines that a basic pattern may behave like.
    pub fn baselines(&self, basic: &Basic) -> impl Iterator<Item = &Baseline> {
        let reads = basic.mode == ModeRule::Always(Mode::Read);
        let in_place = basic.target_size.is_some_and(|size| size <= basic.io_size.largest());
        let sequential = match basic.location {
            _ if in_place => None,
            Location::Sequential
            | Location::Ordered { incr: 1 }
            | Location::Partitioned { partitions: 1 } => Some(true),
            Location::Ordered { .. } | Location::Partitioned { .. } => None,
            _ => Some(false),
        };
        self.baselines.iter().filter(move |baseline| {
            let (of_reads, of_sequential) = match baseline.pattern.as_str() {
                "SR" => (true, true),
                "RR" => (true, false),
                "SW" => (false, true),
                _ => (false, false),
            };
            of_reads == reads && sequential.is_none_or(|sequential| sequential == of_sequential)
        })
    }

    /// The time of an IO of one process of the pattern with its pause, in nanoseconds; at least one.
    pub fn per_io_ns(&self, pattern: &Pattern) -> f64 {
        let response = weighted(pattern, |basic| {
            let means = self.baselines(basic).map(|baseline| baseline.run.response.mean_ns);
            let mean = means.reduce(f64::max).unwrap_or(self.unknown_ns);
            let relative = basic.io_size.largest().0 as f64 / 32768.0;
            let reads_among_writes = basic.mode == ModeRule::Always(Mode::Read) && pattern.writes();
            mean * (0.3 + 0.7 * relative) * if reads_among_writes { self.slowdown } else { 1.0 }
        });
        let pause = match pattern.first.time {
            Time::Pause { pause } => pause.0 as f64,
            Time::Burst { burst, pause } => pause.0 as f64 / f64::from(burst),
            Time::Consecutive | Time::Rate { .. } => 0.0,
        };
        (response * f64::from(pattern.parallel_degree) + pause).max(1.0)
    }
}
