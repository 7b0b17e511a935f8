//! What simulation cannot calibrate: explicit caps of the confidence.
//!
//! A rule's confidence is how often it was right on simulated devices (`rule.rs`). No simulated device is busy with
//! the requests of others, and none is a file behind a loop device. These caps are the only confidences that are
//! chosen by hand, and no measurement supports their height. Each is below 0.95, from where on an answer counts as
//! known to an expectation (`flashlab_analysis`, `expect.rs`). Advice needs 0.9 (`flashlab_report`): only those below
//! it withhold advice.

use flashlab_analysis::inference::{Finding, Verdict};

/// Some IOs of the probe failed. Estimators bear outliers, but a failed IO may have changed the state of the
/// device. Unit: probability. Source: choice. Too high: wrong answers of failing devices are believed; too
/// low: one bad block makes all answers doubtful.
pub(crate) const WITH_FAILURES: f64 = 0.9;
/// Other programs used the disk or the CPU while the probe ran: the response times may be theirs. Unit:
/// probability. Source: choice. Too high: wrong answers of busy machines are believed; too low: a short job
/// makes all answers doubtful.
pub(crate) const DISTURBED: f64 = 0.8;
/// A loop device over a file: the caches of the file system below, and the fragments of the file, look like
/// those of a device. Unit: probability. Source: choice. Too high: the file system is taken for the device;
/// too low: right answers are doubtful.
pub(crate) const LOOP_DEVICE: f64 = 0.93;

/// The device may hold no data, and may have answered reads without the flash. In the calibration all devices
/// were filled. It caps what reads did not show, such as a seek. Unit: probability. Source: choice. Too high:
/// the answer of an empty device is believed; too low: read-only inferences are doubtful.
pub(crate) const NO_DATA: f64 = 0.9;
/// A device without flash looks the same: a layout that does not fit, shows no page boundary and senses
/// faster than flash; few writes of which none merges. All devices of the calibration are flash. Unit:
/// probability. Source: choice. Too high: memory is reported as flash; too low: fast flash is doubtful.
pub(crate) const NO_FLASH: f64 = 0.75;
/// Reads of one kind scatter more than on nearly all devices of the calibration, because of the transport. How
/// often a layout is right then was counted on a few such devices, and on six live ones (`infer-score --live
/// --virtual-time`).
pub(crate) const SCATTER: f64 = UNSEEN;
/// A doubt that no device of the calibration raised, for example that a seek costs what a merge would. Unit:
/// probability. Source: choice. Too high: such devices have wrong answers; too low: right ones are doubtful.
pub(crate) const UNSEEN: f64 = 0.7;

/// The cap of what reads did not show on a device that is known to hold data, or may hold none.
pub(crate) const fn of_data(holds_data: bool) -> f64 {
    if holds_data { 1.0 } else { NO_DATA }
}

/// The finding with at most this confidence, and the reason in its evidence if that changes it.
pub(crate) fn cap(mut finding: Finding, most: f64, reason: &str) -> Finding {
    if finding.verdict != Verdict::Undetermined {
        finding.confidence = finding.confidence.min(most);
    }
    finding.evidence += reason;
    finding
}
