//! What is known so far, for later probes: findings, and provisional findings where there is none yet.

use flashlab_analysis::inference::{Family, Finding, Inference, Parameter, Value};
use flashlab_base::Bytes;

use crate::checkpoint::Checkpoint;
use crate::rule::Rule;

/// A value with a lower confidence is not reported. Unit: probability. Source: derivation: an answer has to
/// be right more often than wrong. Too high: right answers stay undetermined; too low: wrong ones are
/// reported.
pub(crate) const CONFIDENCE_LEAST: f64 = 0.5;

/// What is known of the device: its findings, and provisional findings of parameters without one.
#[derive(Clone, Copy)]
pub struct Knowledge<'a> {
    pub(crate) document: &'a Inference,
    pub(crate) checkpoint: &'a Checkpoint,
}

impl Knowledge<'_> {
    /// The finding of a parameter, or else its provisional one.
    pub(crate) fn finding(&self, parameter: Parameter) -> Option<&Finding> {
        self.document.get(parameter).or_else(|| self.provisional(parameter))
    }

    /// The provisional finding of a parameter.
    pub(crate) fn provisional(&self, parameter: Parameter) -> Option<&Finding> {
        self.checkpoint.provisional.iter().find(|finding| finding.parameter == parameter)
    }

    /// A number in its unit.
    pub fn number(self, parameter: Parameter) -> Option<f64> {
        self.finding(parameter).and_then(|finding| finding.number())
    }

    /// A size.
    pub fn bytes(self, parameter: Parameter) -> Option<Bytes> {
        self.number(parameter).map(|number| Bytes(number.round() as u64))
    }

    /// Its confidence; 0 if nothing is known.
    pub fn confidence(self, parameter: Parameter) -> f64 {
        self.finding(parameter).map_or(0.0, |finding| finding.confidence)
    }

    /// It as a premise of another answer.
    pub(crate) fn premise(self, parameter: Parameter) -> Rule {
        Rule::premise(parameter, self.finding(parameter))
    }

    /// A count.
    pub fn count(self, parameter: Parameter) -> Option<u64> {
        self.number(parameter).map(|number| number.round() as u64)
    }

    /// Whether there is an SLC cache.
    pub fn has_slc_cache(self) -> bool {
        self.number(Parameter::SlcCacheSize).is_some_and(|size| size > 0.0)
    }

    /// Whether the device probably maps pages: it has an SLC cache, or its chunks are single multi-plane pages. Then writes to one
    /// die would use up the space of that die before that of the others.
    pub fn is_likely_to_map_pages(self) -> bool {
        let row = self.bytes(Parameter::ReadPageSize).zip(self.count(Parameter::PlanesReadAtOnce));
        self.has_slc_cache()
            || row.is_some_and(|(page, planes)| self.bytes(Parameter::ChunkSize) == Some(page * planes))
    }

    /// The distance after which whole pages lie on the same die; `None` if it is not known.
    pub fn whole_stripe(self, page: Bytes) -> Option<Bytes> {
        match self.count(Parameter::ParallelUnits) {
            Some(1) => Some(page),
            _ => self.bytes(Parameter::StripeSize).filter(|stripe| stripe.0.is_multiple_of(page.0)),
        }
    }

    /// The size of one multi-plane page of each die, a superpage, if pages and dies are known.
    pub fn superpage_size(self) -> Option<Bytes> {
        let page = self.bytes(Parameter::ReadPageSize)?;
        let planes = self.count(Parameter::PlanesReadAtOnce).unwrap_or(1);
        Some(page * (planes * self.count(Parameter::ParallelUnits)?))
    }

    /// The family of the translation layer.
    pub fn family(self) -> Option<Family> {
        self.word(Parameter::TranslationFamily).and_then(Family::named)
    }

    /// A word.
    pub fn word(&self, parameter: Parameter) -> Option<&str> {
        match &self.finding(parameter)?.value {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }
}
