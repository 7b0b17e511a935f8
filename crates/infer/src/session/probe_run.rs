//! The course of a probe: it begins with its part of the budget and its deadline, and ends with the plan of its patterns.
//!
//! # Invariants
//! - Only the files of a session change the limits and the counts of a probe.

use std::mem;

use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Experiment, Pattern};
use flashlab_samples::ProbeStep;

use super::allowance::Allowance;
use super::{READING_TIME, Session};
use crate::halt::Halt;
use crate::journal::device_step;
use crate::probe::Probe;

/// The device is gone if this number of random reads fails. Unit: reads. Source: choice. Too many: a device
/// that is gone takes minutes; too few: some bad blocks end the inference.
const LAST_READS: u64 = 8;

impl Session<'_, '_> {
    /// Reports the device, before the first probe.
    pub(crate) fn report_device(&mut self) {
        self.progress.step(device_step(self.lab.limits()), &[]);
    }

    /// Begins a probe with its deadline. `share` is the share of the budget that it and the probes before it may write. Returns
    /// when it began.
    ///
    /// # Errors
    /// [`Halt::Diverges`].
    pub(crate) fn begin(&mut self, probe: &'static Probe, share: f64) -> Result<Nanos, Halt> {
        let recorded = self.lab.begin(probe.name);
        if let Some(writes) = self.or_over(recorded)? {
            self.allowance.written = writes.unanswered;
            self.findings.restore(writes);
        }
        let begin = self.lab.now();
        let writes = self.findings.writes_before(self.allowance.written);
        let writes_before = Some(serde_json::to_value(writes).expect("its keys are strings"));
        let step = ProbeStep::Begin { probe: probe.name.to_owned(), now_ns: begin.0, writes_before };
        self.progress.step(step, &[]);
        let time = if probe.writes() { self.settings.writing_time } else { self.reading_time };
        self.allowance = Allowance {
            seed_label: probe.seed_label(),
            writes: if probe.writes() { self.writes_left_of(share) } else { Bytes::ZERO },
            deadline: begin.saturating_add(time),
            // What a probe without an answer wrote counts for the next answer.
            written: mem::take(&mut self.allowance.written),
            on_data: self.holds_data(),
            ..Allowance::default()
        };
        Ok(begin)
    }

    /// The part of this share of the budget that is left.
    fn writes_left_of(&self, share: f64) -> Bytes {
        let whole = self.settings.write_budget.unwrap_or_default();
        Bytes(((whole.0 as f64 * share.min(1.0)) as u64).saturating_sub(self.inference().written.0))
    }

    /// Gives a reading probe that began at `begin` what is left of the time for reading. If the user gave no limit, that time
    /// is in proportion to `slowness`, which is 1 for usual flash.
    pub(crate) fn allow_reading(&mut self, begin: Nanos, slowness: f64) {
        if self.settings.reading_time.is_none() {
            self.reading_time = Nanos((READING_TIME.0 as f64 * slowness) as u64);
        }
        let left = self.reading_time.since(self.findings.checkpoint.reading_used);
        self.allowance.deadline = begin.saturating_add(left);
    }

    /// Counts the time of a reading probe that began at `begin`.
    pub(crate) fn count_reading(&mut self, begin: Nanos) {
        self.findings.checkpoint.reading_used += self.lab.now().since(begin);
    }

    /// Whether the probe may begin to write: the program that records the inference may refuse.
    pub(crate) fn may_write(&mut self, probe: &'static Probe) -> bool {
        self.progress.may_write(probe, self.allowance.writes)
    }

    /// Whether IOs of the probe failed, and no random read is answered either. If a device's server is gone, the kernel reports
    /// failed IOs.
    pub(crate) fn is_silent(&mut self, random_read: &Pattern) -> bool {
        let failed = self.allowance.failed;
        if failed == 0 {
            return false;
        }
        let is_silent = (0..LAST_READS).all(|_| {
            self.allowance.failed = 0;
            match self.run("last-read", random_read) {
                Ok(samples) => samples.iter().all(|sample| sample.errno != 0),
                Err(halt) => matches!(halt, Halt::Gone(_) | Halt::Failed(_)),
            }
        });
        self.allowance.failed = failed;
        is_silent
    }

    /// The patterns that the probe ran, and its counts.
    pub(crate) fn take_experiments(&mut self) -> (Vec<Experiment>, &Allowance) {
        (self.journal.take_experiments(), &self.allowance)
    }
}
