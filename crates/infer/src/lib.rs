//! The hidden parameters of a black box: adaptive probing of a [`Device`], each answer with evidence and confidence.
//!
//! # Model
//! A [`Group`] of probes answers some [`Parameter`]s that are seen by the same signal. It runs patterns on the device
//! through a session, which counts what is written and how long it takes, decides by the statistics of
//! `flashlab_analysis::decide`, and concludes a [`Finding`] for each parameter. With consent the
//! device is filled first, so that what only reads sees data, and data in order; without, it is read as it is. What is
//! concluded is knowledge for the groups that follow.
//!
//! # Invariants
//! - The device is known by its answers alone: geometry, completions and its clock. This crate does not know the
//!   simulator.
//! - Every read and write is one of a pattern, which is kept as a plan that can be run again, with the flushes behind its writes.
//!   Other flushes, and rests, are in no plan.
//! - Nothing is written without consent, and never more than the budget.
//! - A value is "found" only with a confidence that follows from a test, corrected for what was looked at; a probe
//!   whose figures do not decide says so. Being silent is better than being wrong.
//! - One group's failure is told by its parameters, and the others go on. When the device is gone, all ends, and what
//!   was not concluded can be inferred later.

mod group;
mod groups;
mod halt;
mod journal;
mod knowledge;
mod lab;
mod recorded;
mod recording;
mod session;
mod virtual_disk;
mod words;

use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_analysis::inference::{Fill, Finding, Inference, Parameter};
use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::Device;
use flashlab_plan::Plan;
use flashlab_samples::{ProbeStep, Sample};

pub use group::{GROUPS, Group};
use halt::Halt;
pub use lab::Limits;
use lab::{DeviceLab, Lab};
pub use recorded::{RecordedDevice, RecordedProbeRun, RecordedStep, RecordedSteps};
pub use recording::{PROBES, Recording, RecordingError};
use session::Session;

/// What an inference may do.
pub struct InferenceSettings<'a> {
    /// Of everything random.
    pub seed: Seed,
    /// How much may be written; `None`: the device is only read.
    pub write_budget: Option<Bytes>,
    /// The longest that the groups that only read may take together, on the device's clock; `None`: a minute where small
    /// reads take 60 us or less, and in proportion longer where they take more, up to ten minutes.
    pub reading_time: Option<Nanos>,
    /// The longest that each of the other groups may take, on the device's clock.
    pub writing_time: Nanos,
    /// Set it to end; what is known is kept.
    pub interrupt: &'a AtomicBool,
}

impl InferenceSettings<'_> {
    /// The budget where nobody gives another: twice the capacity.
    pub fn usual_budget(capacity: Bytes) -> Bytes {
        capacity * 2
    }
}

/// Who is told while it goes on.
pub trait InferenceProgress {
    /// A group begins; which it is of how many.
    fn begin(&mut self, _group: &'static Group, _index: usize, _count: usize) {}
    /// A group that writes is about to, and this is the most. Whether it may: who cannot note it, for an inference that is
    /// killed and resumed, refuses, and the inference ends as if interrupted.
    fn may_write(&mut self, _group: &'static Group, _most: Bytes) -> bool {
        true
    }
    /// A parameter has its answer.
    fn concluded(&mut self, _finding: &Finding) {}
    /// A group ended; all that is known so far, and the plan of the probes that it ran.
    fn ended(&mut self, _group: &'static Group, _known: &Inference, _probes: &Plan) {}
    /// It ended in the middle of a group, whose answers are forgotten; all that is known, and the plan of the probes that it ran.
    fn abandoned(&mut self, _group: &'static Group, _known: &Inference, _probes: &Plan) {}
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

/// Infers all parameters that `known` has no finding of, and adds theirs to it.
pub fn infer(
    device: &mut dyn Device,
    settings: &InferenceSettings<'_>,
    known: &mut Inference,
    progress: &mut dyn InferenceProgress,
) -> InferenceEnd {
    infer_groups(device, settings, known, progress, GROUPS)
}

/// As [`infer`], with the first of the groups only. A group in which it ended leaves in `known` what it did to the device, and
/// nothing of what it found or supposed.
pub fn infer_groups(
    device: &mut dyn Device,
    settings: &InferenceSettings<'_>,
    known: &mut Inference,
    progress: &mut dyn InferenceProgress,
    groups: &'static [Group],
) -> InferenceEnd {
    infer_in(&mut DeviceLab::new(device), settings, known, progress, groups)
}

/// As [`infer_groups`], with answers from a recording. With the settings of the recorded inference the findings are the same.
pub fn replay_groups(
    device: &mut RecordedDevice<'_>,
    settings: &InferenceSettings<'_>,
    known: &mut Inference,
    progress: &mut dyn InferenceProgress,
    groups: &'static [Group],
) -> InferenceEnd {
    infer_in(device, settings, known, progress, groups)
}

fn infer_in(
    lab: &mut dyn Lab,
    settings: &InferenceSettings<'_>,
    known: &mut Inference,
    progress: &mut dyn InferenceProgress,
    groups: &'static [Group],
) -> InferenceEnd {
    progress.step(journal::device_step(lab.limits()), &[]);
    let mut session = Session::new(lab, settings, known, progress);
    for (index, group) in groups.iter().enumerate() {
        let answered = group.parameters.iter().all(|&parameter| session.is_concluded(parameter));
        if answered && !session.has_to_suppose(group) {
            continue;
        }
        // What is known of a part of a group is found again with the rest of it.
        session.forget(group);
        let before = session.inference().clone();
        session.progress().begin(group, index, groups.len());
        let share = groups[..=index].iter().map(|group| group.write_share).sum();
        let halt = session.run_group(group, share);
        let ended = match &halt {
            Some(Halt::Gone(reason)) => Some(InferenceEnd::Gone(reason.clone())),
            Some(Halt::Interrupted) => Some(InferenceEnd::Interrupted),
            Some(Halt::Diverges(reason)) => Some(InferenceEnd::Diverged(reason.clone())),
            _ => settings.interrupt.load(Ordering::Relaxed).then_some(InferenceEnd::Interrupted),
        };
        session.record_end(group, ended.is_none());
        if let Some(ended) = ended {
            session.abandon(before);
            session.report_abandoned(group);
            return ended;
        }
        session.conclude_rest(group, halt);
        session.report_end(group);
    }
    InferenceEnd::Done
}

/// The groups that have to run for these parameters: those that answer them, and all before them, as a group may
/// build on what the ones before it found and on the state that they left. All of them for no parameter.
pub fn groups_for(parameters: &[Parameter]) -> &'static [Group] {
    let answers = |group: &Group| group.parameters.iter().any(|parameter| parameters.contains(parameter));
    match GROUPS.iter().rposition(answers) {
        Some(last) => &GROUPS[..=last],
        None => GROUPS,
    }
}

/// Forgets what was found by writing: the device is another one, in another state. What was written for it counts against
/// the budget where the disk beneath is the same, and is worn.
pub fn forget_writes(known: &mut Inference, is_worn: bool) {
    for group in GROUPS.iter().filter(|group| group.writes()) {
        known.findings.retain(|finding| !group.parameters.contains(&finding.parameter));
    }
    known.provisional.clear();
    known.row_writes.clear();
    if !is_worn {
        known.written = Bytes::ZERO;
    }
    known.fill = Fill { begun_at: known.written, ..Fill::default() };
}

/// A document without findings, of a device that is about to be inferred.
pub fn nothing_known(device: &dyn Device, target: &str) -> Inference {
    Inference::begun(target, device.identity(), device.geometry().capacity)
}
