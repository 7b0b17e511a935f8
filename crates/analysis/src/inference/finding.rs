//! One parameter's answer, and all of them together.

use std::fmt;

use flashlab_base::{Bytes, Identity, Nanos};
use serde::{Deserialize, Serialize};

use super::{Parameter, Picture, Unit};

/// The version of [`Inference`] as a file.
pub const INFERENCE_VERSION: u32 = 3;

/// What could be said of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// It has the value given, with the confidence given.
    #[serde(rename = "found")]
    Found,
    /// It has a value that could be found in principle, but not here: too much noise, too small a device, no consent.
    #[serde(rename = "undetermined")]
    Undetermined,
    /// Nothing that can be seen from outside depends on it on this device.
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

/// What was found out about one parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which.
    pub parameter: Parameter,
    /// Its value where the verdict is [`Verdict::Found`].
    pub value: Option<Value>,
    /// The probability that the verdict, with its value, is right: 0 to 1. 0 where it is [`Verdict::Undetermined`].
    pub confidence: f64,
    /// Whether it was found.
    pub verdict: Verdict,
    /// The figures that decided, in a sentence.
    pub evidence: String,
    /// What was written to find it out.
    pub bytes_written: Bytes,
    /// What the estimator saw.
    pub picture: Option<Picture>,
}

impl Finding {
    /// A value, with the probability that it is right. A number that is not finite is no value, and undetermined.
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

    /// The answer that there can be none on this device, why, and with what probability.
    pub fn not_identifiable(parameter: Parameter, confidence: f64, evidence: impl Into<String>) -> Finding {
        Finding { confidence, ..Finding::without(parameter, Verdict::NotIdentifiable, evidence) }
    }

    /// The same with a picture.
    pub fn with(self, picture: Picture) -> Finding {
        Finding { picture: Some(picture), ..self }
    }

    /// The same with a picture, if there is one; else with its own.
    pub fn seen_in(self, picture: Option<Picture>) -> Finding {
        Finding { picture: picture.or(self.picture), ..self }
    }

    fn without(parameter: Parameter, verdict: Verdict, evidence: impl Into<String>) -> Finding {
        let evidence = evidence.into();
        Finding {
            parameter,
            value: None,
            confidence: 0.0,
            verdict,
            evidence,
            bytes_written: Bytes::ZERO,
            picture: None,
        }
    }

    /// The value as a number in the parameter's unit, if it was found and is one.
    pub fn number(&self) -> Option<f64> {
        match self.value {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// The value as people write it, with its unit; empty where there is none.
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

/// All that was inferred of a device; the document `inference.json` of its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inference {
    /// [`INFERENCE_VERSION`].
    pub version: u32,
    /// The target, as it was named.
    pub target: String,
    /// What is known of the device's make.
    pub identity: Identity,
    /// Its size.
    pub capacity: Bytes,
    /// In the order in which they were found; no parameter stands twice.
    pub findings: Vec<Finding>,
    /// What later groups of probes are to look at again before it is found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supposed: Vec<Finding>,
    /// What was written, also by groups of probes that were not ended.
    pub written: Bytes,
    /// How far the device was filled.
    pub fill: Fill,
    /// How long the groups of probes that only read took, of those that were ended.
    #[serde(default)]
    pub reading_used: Nanos,
    /// Writes that were a part of filling it, run by run, until a later group has asked them for pages and dies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub row_writes: Vec<Vec<TimedIo>>,
}

/// An IO that was done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedIo {
    /// When it was submitted, in nanoseconds since the first one of its run.
    pub at: f64,
    /// What it took, in nanoseconds.
    pub nanos: f64,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How many bytes it asks for.
    pub size: u64,
}

/// How far a device was written from its beginning on, one address after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fill {
    /// What had been written in all, to another file in its place, when nothing of it was written yet.
    #[serde(default)]
    pub begun_at: Bytes,
    /// Until where.
    pub until: Bytes,
    /// What had been written in all when it was the whole device, and what has been written in place since.
    pub whole_at: Option<Bytes>,
    /// What the last of it cost, in nanoseconds a byte; 0 if that is not known.
    pub nanos_per_byte: f64,
    /// Of what was written since, what was written again and again to a few addresses.
    #[serde(default)]
    pub in_place: Bytes,
    /// Whether filling it in one go was begun.
    pub was_begun: bool,
    /// What a write of a few KiB took with a flush behind it, in nanoseconds, if that was seen to wait for what a write buffer holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushed_nanos: Option<f64>,
    /// The unit in which it makes room, as overwriting it showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<UnitSeen>,
    /// What single pages of one die had taken, times the dies, when more of them began to wait: if logs are shared, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_after: Option<Bytes>,
    /// By how much the logarithms of what writes take rise in all for each block that is moved out of a full fast region, if that was
    /// seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving_logs: Option<f64>,
}

/// A unit in which a device makes room.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitSeen {
    /// How large it is.
    pub size: Bytes,
    /// After how much overwriting room was made for the first time, if that was not from the beginning on.
    pub onset: Option<Bytes>,
    /// How often it foretold that room was made.
    pub foretold: u32,
    /// How often it did so rightly.
    pub rightly: u32,
    /// How many logs of this size all addresses share, if that was seen.
    pub logs: Option<u32>,
}

impl UnitSeen {
    /// A unit of so many logs, which came back from the beginning on and foretold nothing.
    pub fn of_logs(size: Bytes, logs: u32) -> UnitSeen {
        UnitSeen { size, onset: None, foretold: 0, rightly: 0, logs: Some(logs) }
    }
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
            supposed: Vec::new(),
            written: Bytes::ZERO,
            fill: Fill::default(),
            reading_used: Nanos::ZERO,
            row_writes: Vec::new(),
        }
    }

    /// The same with those of these parameters that have no finding undetermined, for this reason.
    pub fn with_rest(mut self, parameters: impl IntoIterator<Item = Parameter>, reason: &str) -> Inference {
        for parameter in parameters {
            if self.get(parameter).is_none() {
                self.findings.push(Finding::undetermined(parameter, reason));
            }
        }
        self
    }

    /// What is known of this parameter so far.
    pub fn get(&self, parameter: Parameter) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.parameter == parameter)
    }
}
