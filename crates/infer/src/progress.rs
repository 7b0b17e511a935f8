//! What an inference may do, whom it reports to, and how it ends.

use std::sync::atomic::AtomicBool;

use flashlab_analysis::inference::{Finding, USUAL_WRITES};
use flashlab_base::{Bytes, Nanos, Sample, Seed};
use flashlab_plan::Plan;
use flashlab_samples::ProbeStep;

use crate::checkpoint::Known;
use crate::probe::Probe;

/// What an inference may do.
pub struct InferenceSettings<'a> {
    /// Of everything random.
    pub seed: Seed,
    /// How much may be written; `None`: the device is only read.
    pub write_budget: Option<Bytes>,
    /// The longest that all reading probes together may take, on the device's clock. `None`: a minute where
    /// small reads take 60 us or less. Where they take more, it is longer in proportion, up to ten minutes.
    pub reading_time: Option<Nanos>,
    /// The longest that each of the other probes may take, on the device's clock.
    pub writing_time: Nanos,
    /// Set it to end; what is known is kept.
    pub interrupt: &'a AtomicBool,
}

impl InferenceSettings<'_> {
    /// The budget where nobody gives another: [`USUAL_WRITES`] capacities.
    pub fn usual_budget(capacity: Bytes) -> Bytes {
        capacity * USUAL_WRITES
    }
}

/// Receives the steps and the findings of an inference while it goes on.
pub trait InferenceProgress {
    /// A probe begins; which it is of how many.
    fn begin(&mut self, _probe: &'static Probe, _index: usize, _count: usize) {}
    /// A probe is about to write, at most this much. Returns whether it may. A program that cannot note it, for an inference that
    /// is killed and resumed, refuses. The inference then ends as if interrupted.
    fn may_write(&mut self, _probe: &'static Probe, _most: Bytes) -> bool {
        true
    }
    /// A parameter has its answer.
    fn concluded(&mut self, _finding: &Finding) {}
    /// A probe ended; all that is known so far, and the plan of its patterns.
    fn ended(&mut self, _probe: &'static Probe, _known: &Known, _patterns: &Plan) {}
    /// The inference ended within a probe, whose answers are forgotten; all that is known, and the plan of its patterns.
    fn abandoned(&mut self, _probe: &'static Probe, _known: &Known, _patterns: &Plan) {}
    /// A step was made. A run has samples, process by process; its number is the recorder's to give.
    fn step(&mut self, _step: ProbeStep, _samples: &[Vec<Sample>]) {}
    /// The device is left idle, for this much longer.
    fn idle(&mut self, _left: Nanos) {}
}

impl InferenceProgress for () {}

/// How an inference ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InferenceEnd {
    /// Every parameter has its answer.
    Done,
    /// It was interrupted: some parameters have none yet.
    Interrupted,
    /// The device is gone, for this reason: some parameters have none yet.
    Gone(String),
    /// A replay asked for something that was never done, and this is what: some parameters have no answer.
    Diverged(String),
}
