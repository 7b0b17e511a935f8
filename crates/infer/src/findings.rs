//! The findings of an inference while it goes on: one place that answers a parameter, once.
//!
//! # Model
//! A probe concludes a finding, or takes a provisional one for the answer until a later probe has looked again. Both
//! go through [`Findings`], which counts what was written for them, and lowers their confidence where the measurement
//! was disturbed or the disk is virtual, a hard disk, or behind a limit.
//!
//! # Invariants
//! - Each parameter is concluded once.
//! - What an abandoned probe found is forgotten. What it did to the device is not.

use std::mem;

use flashlab_analysis::inference::{Finding, Inference, Parameter, Verdict};
use flashlab_base::Bytes;

use crate::checkpoint::{Checkpoint, Fill, Known, WritesBefore};
use crate::knowledge::Knowledge;
use crate::session::allowance::Allowance;
use crate::virtual_disk::without_its_host;

/// The document of an inference, and which of its findings are new.
pub(crate) struct Findings<'d> {
    pub(crate) inference: &'d mut Inference,
    pub(crate) checkpoint: &'d mut Checkpoint,
    concluded: Vec<Parameter>,
}

impl<'d> Findings<'d> {
    pub(crate) fn new(known: &'d mut Known) -> Findings<'d> {
        Findings { inference: &mut known.document, checkpoint: &mut known.checkpoint, concluded: Vec::new() }
    }

    pub(crate) fn known(&self) -> Knowledge<'_> {
        Knowledge { document: self.inference, checkpoint: self.checkpoint }
    }

    pub(crate) fn is_concluded(&self, parameter: Parameter) -> bool {
        self.inference.get(parameter).is_some()
    }

    /// Gives a parameter its answer. What was written since the last answer was for this one.
    ///
    /// # Panics
    /// If it has one already.
    pub(crate) fn conclude(&mut self, finding: Finding, allowance: &mut Allowance) {
        assert!(!self.is_concluded(finding.parameter), "{} is concluded twice", finding.parameter);
        let bytes_written = self.take_written(finding.parameter, allowance);
        self.concluded.push(finding.parameter);
        // A provisional finding was doubted when it was made.
        let was_provisional = self
            .known()
            .provisional(finding.parameter)
            .is_some_and(|before| before.evidence == finding.evidence);
        let rule = finding.rule.clone().filter(|_| finding.verdict != Verdict::Undetermined);
        let finding = without_figures(Finding { bytes_written, rule, ..finding }, allowance);
        let finding = if was_provisional { finding } else { allowance.doubt(finding) };
        let finding = without_its_host(finding, self.inference);
        self.inference.findings.push(finding);
    }

    /// The device is not flash, or hides it, for this reason: what earlier probes took for flash is not.
    pub(crate) fn has_no_flash(&mut self, reason: String) {
        self.inference.not_flash.get_or_insert(reason);
        let before = mem::take(&mut self.inference.findings);
        self.inference.findings =
            before.into_iter().map(|finding| without_its_host(finding, self.inference)).collect();
    }

    /// Takes a finding for the answer until a later probe has looked again.
    pub(crate) fn hand_in(&mut self, finding: Finding, allowance: &mut Allowance) {
        let bytes_written = self.take_written(finding.parameter, allowance);
        let finding = Finding { bytes_written, ..finding };
        self.checkpoint.provisional.retain(|before| before.parameter != finding.parameter);
        let finding = allowance.doubt(finding);
        self.checkpoint.provisional.push(finding);
    }

    /// What was written for a parameter: since the last answer, and for its provisional finding.
    fn take_written(&mut self, parameter: Parameter, allowance: &mut Allowance) -> Bytes {
        let before = self.known().provisional(parameter).map_or(Bytes::ZERO, |before| before.bytes_written);
        before + mem::take(&mut allowance.written)
    }

    /// Takes back the answers of these parameters.
    pub(crate) fn forget(&mut self, parameters: &[Parameter]) {
        self.inference.findings.retain(|finding| !parameters.contains(&finding.parameter));
    }

    /// The answers of these parameters stand: no provisional finding of them is left.
    pub(crate) fn settle(&mut self, parameters: &[Parameter]) {
        self.checkpoint.provisional.retain(|finding| !parameters.contains(&finding.parameter));
    }

    /// All that is known.
    pub(crate) fn copy(&self) -> Known {
        Known { document: self.inference.clone(), checkpoint: self.checkpoint.clone() }
    }

    /// Takes back everything that was found since `before`. What was done to the device stays.
    pub(crate) fn abandon(&mut self, before: Known) {
        let written = self.writes_before(Bytes::ZERO);
        (*self.inference, *self.checkpoint) = (before.document, before.checkpoint);
        self.restore(written);
    }

    /// What was written to the device, of it `unanswered` since the last answer.
    pub(crate) fn writes_before(&self, unanswered: Bytes) -> WritesBefore {
        let Inference { written, filled, .. } = *self.inference;
        WritesBefore { written, filled, fill: self.checkpoint.fill, unanswered }
    }

    /// Goes on from what was written to the device. What was inferred of it meanwhile is not taken over.
    pub(crate) fn restore(&mut self, writes: WritesBefore) {
        let Fill { unit, flushed_nanos, .. } = self.checkpoint.fill;
        let flushed_nanos = flushed_nanos.or(writes.fill.flushed_nanos);
        self.checkpoint.fill = Fill { unit, flushed_nanos, ..writes.fill };
        (self.inference.written, self.inference.filled) = (writes.written, writes.filled);
    }

    /// The findings since the last time.
    pub(crate) fn take_concluded(&mut self) -> Vec<Finding> {
        let concluded = mem::take(&mut self.concluded);
        concluded.into_iter().filter_map(|parameter| self.inference.get(parameter).cloned()).collect()
    }
}

/// Where no pattern could be run there is nothing to say but why: figures of none are none.
fn without_figures(finding: Finding, allowance: &Allowance) -> Finding {
    match &allowance.short {
        Some(halt) if !allowance.has_run && finding.verdict == Verdict::Undetermined => {
            Finding { evidence: halt.to_string(), picture: None, ..finding }
        }
        _ => finding,
    }
}
