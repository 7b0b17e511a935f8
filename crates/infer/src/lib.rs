//! Infers the hidden parameters of a device from outside, each with evidence and confidence.
//!
//! # Model
//! A [`Probe`] answers the parameters that one signal shows. It runs patterns on the device, decides by the
//! statistics of `flashlab_analysis::decide`, and concludes a finding for each of its parameters. Later probes use
//! the findings of earlier ones.
//!
//! # Method
//! 1. With consent, the first probes fill the device sequentially. So later probes read data, and data in order.
//! 2. Each probe runs within its share of the write budget and of the time ([`PROBES`] has their order).
//! 3. Each step of a probe, with its samples, goes to the [`InferenceProgress`], which records it.
//! 4. A recorded inference can be replayed: a [`RecordedDevice`] answers the same probes from the samples.
//!
//! # Invariants
//! - A probe sees only what every host sees: geometry, completions and the device's clock. This crate does not use
//!   the simulator.
//! - Each read and write belongs to a pattern, which is kept as a plan that can be run again, with the flushes after
//!   its writes. Other flushes and idle times are in the recording only.
//! - Nothing is written without consent, and never more than the budget.
//! - A value is "found" only with the confidence that a test gives, corrected for the number of looks. If the
//!   measurements do not decide, the finding is "undetermined": no answer is better than a wrong one.
//! - If a probe fails, its parameters say why, and the next probe runs. If the device is gone, the inference ends,
//!   and what is missing can be inferred later.

mod answers;
mod caps;
mod checkpoint;
mod conduct;
mod findings;
mod flash_layout;
mod flash_signs;
mod halt;
mod journal;
mod knowledge;
mod lab;
mod layout_traces;
mod order;
mod patterns;
mod priors;
mod probe;
mod probes;
mod progress;
mod recorded;
mod recording;
mod rule;
mod session;
mod signals;
mod thresholds;
mod virtual_disk;
mod words;

use flashlab_analysis::inference::Parameter;
use flashlab_base::Bytes;
use flashlab_device::Device;

pub use checkpoint::{CHECKPOINT_VERSION, Checkpoint, Fill, Known, ReclaimUnit};
use conduct::conduct;
pub use lab::Limits;
use lab::{DeviceLab, Lab};
pub use order::PROBES;
pub use probe::Probe;
pub use progress::{InferenceEnd, InferenceProgress, InferenceSettings};
pub use recorded::{RecordedDevice, RecordedProbeRun, RecordedStep, RecordedSteps};
pub use recording::{PROBES_FOLDER, Recording, RecordingError};
use session::Session;

/// Infers all parameters that `known` has no finding of, and adds theirs to it.
pub fn infer(
    device: &mut dyn Device,
    settings: &InferenceSettings<'_>,
    known: &mut Known,
    progress: &mut dyn InferenceProgress,
) -> InferenceEnd {
    infer_probes(device, settings, known, progress, PROBES)
}

/// As [`infer`], with these probes only. A probe in which the inference ended leaves in `known` what it did to the device, and
/// nothing of what it found.
pub fn infer_probes(
    device: &mut dyn Device,
    settings: &InferenceSettings<'_>,
    known: &mut Known,
    progress: &mut dyn InferenceProgress,
    probes: &'static [Probe],
) -> InferenceEnd {
    infer_in(&mut DeviceLab::new(device), settings, known, progress, probes)
}

/// As [`infer_probes`], with answers from a recording. With the settings of the recorded inference the findings are the same.
pub fn replay_probes(
    device: &mut RecordedDevice<'_>,
    settings: &InferenceSettings<'_>,
    known: &mut Known,
    progress: &mut dyn InferenceProgress,
    probes: &'static [Probe],
) -> InferenceEnd {
    infer_in(device, settings, known, progress, probes)
}

fn infer_in(
    lab: &mut dyn Lab,
    settings: &InferenceSettings<'_>,
    known: &mut Known,
    progress: &mut dyn InferenceProgress,
    probes: &'static [Probe],
) -> InferenceEnd {
    conduct(&mut Session::new(lab, settings, known, progress), probes)
}

/// The probes that answer these parameters, and all probes before them. A probe builds on earlier findings, and
/// on the state of the device that earlier probes leave. Without parameters: all probes.
pub fn probes_for(parameters: &[Parameter]) -> &'static [Probe] {
    let answers = |probe: &Probe| probe.parameters.iter().any(|parameter| parameters.contains(parameter));
    match PROBES.iter().rposition(answers) {
        Some(last) => &PROBES[..=last],
        None => PROBES,
    }
}

/// Forgets what was found by writing, because the device is another one, or in another state. If the disk under it is the
/// same, its wear stays, and what was written still counts against the budget.
pub fn forget_writes(known: &mut Known, is_worn: bool) {
    let Known { document, checkpoint } = known;
    for probe in PROBES.iter().filter(|probe| probe.writes()) {
        document.findings.retain(|finding| !probe.parameters.contains(&finding.parameter));
    }
    checkpoint.provisional.clear();
    checkpoint.row_writes.clear();
    if !is_worn {
        document.written = Bytes::ZERO;
    }
    document.filled = Bytes::ZERO;
    checkpoint.fill = Fill { begun_at: document.written, ..Fill::default() };
}

/// Nothing known of a device that is about to be inferred.
pub fn nothing_known(device: &dyn Device, target: &str) -> Known {
    Known::begun(target, device.identity(), device.geometry().capacity)
}
