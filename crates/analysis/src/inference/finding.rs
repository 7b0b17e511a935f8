//! The finding for one parameter, and the document with all findings.

use std::fmt;

use flashlab_base::{Bytes, Identity, Nanos};
use serde::{Deserialize, Serialize};

use super::{Family, Parameter, Picture, Unit};

/// What an inference writes at most, unless it is given another budget, in capacities of the device.
pub const USUAL_WRITES: u64 = 2;

/// The version of [`Inference`] as a file.
pub const INFERENCE_VERSION: u32 = 5;
/// The kind of answer for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// It has the given value, with the given confidence.
    #[serde(rename = "found")]
    Found,
    /// It has a value, but this run could not find it: too much noise, too small a device, no consent.
    #[serde(rename = "undetermined")]
    Undetermined,
    /// On this device, nothing that is visible from outside depends on it.
    #[serde(rename = "not identifiable")]
    NotIdentifiable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Found => "found",
            Verdict::Undetermined => "undetermined",
            Verdict::NotIdentifiable => "not identifiable",
        })
    }
}

/// A parameter's value, in the parameter's unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Whether something is so.
    Truth(bool),
    /// Bytes, nanoseconds, a count or a ratio.
    Number(f64),
    /// One of a few words.
    Word(String),
}

impl From<Bytes> for Value {
    fn from(bytes: Bytes) -> Value {
        Value::Number(bytes.0 as f64)
    }
}

impl From<Nanos> for Value {
    fn from(nanos: Nanos) -> Value {
        Value::Number(nanos.0 as f64)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Number(count as f64)
    }
}

impl From<f64> for Value {
    fn from(ratio: f64) -> Value {
        Value::Number(ratio)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Truth(truth)
    }
}

impl From<&str> for Value {
    fn from(word: &str) -> Value {
        Value::Word(word.to_owned())
    }
}

/// The finding for one parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which.
    pub parameter: Parameter,
    /// Its value, if the verdict is [`Verdict::Found`].
    pub value: Option<Value>,
    /// The probability that the verdict and the value are right: 0 to 1. 0 for [`Verdict::Undetermined`].
    pub confidence: f64,
    /// How it was decided: the rule whose calibration gives the confidence. `None` for [`Verdict::Undetermined`], and in
    /// documents of earlier versions of flashlab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Whether it was found.
    pub verdict: Verdict,
    /// A sentence with the figures that decided.
    pub evidence: String,
    /// The bytes that were written to find it.
    pub bytes_written: Bytes,
    /// What the estimator saw.
    pub picture: Option<Picture>,
}

impl Finding {
    /// A value, with the probability that it is right. A number that is not finite becomes "undetermined".
    pub fn found(
        parameter: Parameter,
        value: impl Into<Value>,
        confidence: f64,
        evidence: impl Into<String>,
    ) -> Finding {
        let value = value.into();
        if matches!(value, Value::Number(number) if !number.is_finite()) {
            return Finding::undetermined(parameter, evidence);
        }
        let confidence = if confidence.is_finite() { confidence.clamp(0.0, 1.0) } else { 0.0 };
        Finding { value: Some(value), confidence, ..Finding::without(parameter, Verdict::Found, evidence) }
    }

    /// No answer, and why.
    pub fn undetermined(parameter: Parameter, evidence: impl Into<String>) -> Finding {
        Finding::without(parameter, Verdict::Undetermined, evidence)
    }

    /// The answer that the parameter has no visible value on this device, with the reason and the
    /// probability.
    pub fn not_identifiable(parameter: Parameter, confidence: f64, evidence: impl Into<String>) -> Finding {
        Finding { confidence, ..Finding::without(parameter, Verdict::NotIdentifiable, evidence) }
    }

    /// The same with a picture.
    pub fn with(self, picture: Picture) -> Finding {
        Finding { picture: Some(picture), ..self }
    }

    /// The same with this picture; without one it keeps its own.
    pub fn seen_in(self, picture: Option<Picture>) -> Finding {
        Finding { picture: picture.or(self.picture), ..self }
    }

    fn without(parameter: Parameter, verdict: Verdict, evidence: impl Into<String>) -> Finding {
        let evidence = evidence.into();
        Finding {
            parameter,
            value: None,
            confidence: 0.0,
            rule: None,
            verdict,
            evidence,
            bytes_written: Bytes::ZERO,
            picture: None,
        }
    }

    /// The value as a number in the parameter's unit, if it was found and is a number.
    pub fn number(&self) -> Option<f64> {
        match self.value {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// The value with its unit as a text; empty if there is none.
    pub fn value_in_words(&self) -> String {
        match (&self.value, self.parameter.unit()) {
            (None, _) => String::new(),
            (Some(Value::Truth(truth)), _) => if *truth { "yes" } else { "no" }.to_owned(),
            (Some(Value::Word(word)), _) => word.clone(),
            (Some(Value::Number(number)), Unit::Bytes) => Bytes(number.round() as u64).to_string(),
            (Some(Value::Number(number)), Unit::Nanos) => Nanos(number.round() as u64).to_string(),
            (Some(Value::Number(number)), Unit::Count) => format!("{number:.0}"),
            (Some(Value::Number(number)), Unit::Ratio | Unit::None) => format!("{number:.3}"),
        }
    }
}

/// All findings about a device: the document `inference.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inference {
    /// [`INFERENCE_VERSION`].
    pub version: u32,
    /// The target, as it was named.
    pub target: String,
    /// Its model, serial number and so on.
    pub identity: Identity,
    /// Its size.
    pub capacity: Bytes,
    /// In the order in which they were found; each parameter at most once.
    pub findings: Vec<Finding>,
    /// The bytes written in all, including groups of probes that did not finish.
    pub written: Bytes,
    /// Up to which address the device was filled sequentially: its capacity if it holds data everywhere.
    pub filled: Bytes,
    /// Why no probe sees flash here, as a sentence without its full stop: a head moves, or a host makes the disk up. `None`: nothing says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_flash: Option<String>,
}

/// An IO that was done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedIo {
    /// When it was submitted, in nanoseconds since the first IO of its run.
    pub at: f64,
    /// What it took, in nanoseconds.
    pub nanos: f64,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How many bytes it asks for.
    pub size: u64,
    /// How many times as exact it is as the others. Not kept: what is read from a file counts once.
    #[serde(skip, default = "TimedIo::usual")]
    pub weight: f64,
}

impl TimedIo {
    /// An IO that is as exact as others.
    pub fn new(at: f64, nanos: f64, offset: u64, size: u64) -> TimedIo {
        TimedIo { at, nanos, offset, size, weight: TimedIo::usual() }
    }

    fn usual() -> f64 {
        1.0
    }
}

/// The least probability that all of these findings are right: one minus the sum of their error probabilities (union
/// bound), at least 0. The bound needs no independence; several findings often rest on the same writes.
pub fn confidence_in_all<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> f64 {
    let error_probability: f64 = findings.into_iter().map(|finding| 1.0 - finding.confidence).sum();
    // Rounded, so that 1 - 0.1 reaches a limit of 0.9 despite binary rounding.
    (((1.0 - error_probability) * 1e9).round() / 1e9).max(0.0)
}

impl Inference {
    /// A document without findings.
    pub fn begun(target: &str, identity: Identity, capacity: Bytes) -> Inference {
        Inference {
            version: INFERENCE_VERSION,
            target: target.to_owned(),
            identity,
            capacity,
            findings: Vec::new(),
            written: Bytes::ZERO,
            filled: Bytes::ZERO,
            not_flash: None,
        }
    }

    /// The same; those of these parameters without a finding become undetermined, for this reason.
    pub fn with_rest(mut self, parameters: impl IntoIterator<Item = Parameter>, reason: &str) -> Inference {
        for parameter in parameters {
            if self.get(parameter).is_none() {
                self.findings.push(Finding::undetermined(parameter, reason));
            }
        }
        self
    }

    /// The finding for this parameter so far.
    pub fn get(&self, parameter: Parameter) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.parameter == parameter)
    }
}

impl From<Family> for Value {
    fn from(family: Family) -> Value {
        family.name().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_findings_add_up() {
        let finding = |confidence| Finding::found(Parameter::ReadPageSize, Bytes::kib(4), confidence, "");
        assert_eq!(confidence_in_all(&[finding(0.9)]), 0.9);
        assert_eq!(confidence_in_all(&[finding(0.95), finding(0.9)]), 0.85);
        assert_eq!(confidence_in_all(&[finding(0.4), finding(0.5)]), 0.0);
    }

    #[test]
    fn a_version_that_is_not_known_is_refused() {
        for version in [0, INFERENCE_VERSION - 1, INFERENCE_VERSION + 1] {
            let document = Inference {
                version,
                target: "sim:x".into(),
                identity: Identity::default(),
                capacity: Bytes::mib(1),
                findings: Vec::new(),
                written: Bytes::ZERO,
                filled: Bytes::ZERO,
                not_flash: None,
            };
            let refused =
                format!("has version {version}, and this program reads version {INFERENCE_VERSION}");
            assert_eq!(document.check(), Err(refused));
        }
    }
}
