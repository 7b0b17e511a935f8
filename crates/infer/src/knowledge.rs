//! What was found or is supposed so far, for the groups that follow.

use flashlab_analysis::inference::{Family, Finding, Inference, Parameter, Value};
use flashlab_base::Bytes;

/// What is known of the device: what was found, and where nothing was yet, what is supposed.
#[derive(Clone, Copy)]
pub struct Knowledge<'a>(pub(crate) &'a Inference);

impl Knowledge<'_> {
    /// What was found of a parameter, or else what is supposed.
    pub(crate) fn finding(&self, parameter: Parameter) -> Option<&Finding> {
        self.0.get(parameter).or_else(|| self.supposed(parameter))
    }

    /// What is supposed of a parameter.
    pub(crate) fn supposed(&self, parameter: Parameter) -> Option<&Finding> {
        self.0.supposed.iter().find(|finding| finding.parameter == parameter)
    }

    /// A number in its unit.
    pub fn number(self, parameter: Parameter) -> Option<f64> {
        self.finding(parameter).and_then(|finding| finding.number())
    }

    /// A size.
    pub fn bytes(self, parameter: Parameter) -> Option<Bytes> {
        self.number(parameter).map(|number| Bytes(number.round() as u64))
    }

    /// How sure it is; 0 where nothing is known.
    pub fn confidence(self, parameter: Parameter) -> f64 {
        self.finding(parameter).map_or(0.0, |finding| finding.confidence)
    }

    /// A count.
    pub fn count(self, parameter: Parameter) -> Option<u64> {
        self.number(parameter).map(|number| number.round() as u64)
    }

    /// Whether there is a fast region.
    pub fn has_fast_region(self) -> bool {
        self.number(Parameter::FastRegionSize).is_some_and(|size| size > 0.0)
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
