//! The findings as an object from parameter name to finding. One more entry of the same form says in which state the
//! device was.

use flashlab_analysis::inference::{Finding, Inference, Unit, Value, Verdict};
use serde::{Serialize, Serializer};

use super::device_state;

/// An object from parameter name to `value`, `unit`, `confidence`, `verdict`, `evidence` and `bytes_written`, in the
/// order in which they were found. `device_state` comes first: its evidence says what the findings cannot say.
pub struct InferenceJson<'a>(pub &'a Inference);

#[derive(Serialize)]
struct Entry<'a> {
    value: Option<Short<'a>>,
    unit: &'static str,
    confidence: f64,
    verdict: Verdict,
    evidence: &'a str,
    bytes_written: u64,
}

/// A value; whole numbers without a decimal point.
#[derive(Serialize)]
#[serde(untagged)]
enum Short<'a> {
    Whole(u64),
    Other(&'a Value),
}

impl Serialize for InferenceJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, evidence) = device_state(self.0);
        let value = Value::Word(name.to_owned());
        let state = Entry {
            value: Some(Short::Other(&value)),
            unit: Unit::None.name(),
            confidence: 1.0,
            verdict: Verdict::Found,
            evidence: &evidence,
            bytes_written: 0,
        };
        let findings = self.0.findings.iter().map(|finding| (finding.parameter.name(), entry(finding)));
        serializer.collect_map(std::iter::once(("device_state", state)).chain(findings))
    }
}

fn entry(finding: &Finding) -> Entry<'_> {
    /// Up to this number, floats represent every whole number.
    const EXACT: f64 = 9e15;
    let value = finding.value.as_ref().map(|value| match *value {
        Value::Number(number) if number.fract() == 0.0 && (0.0..EXACT).contains(&number) => {
            Short::Whole(number as u64)
        }
        _ => Short::Other(value),
    });
    Entry {
        value,
        unit: finding.parameter.unit().name(),
        confidence: (finding.confidence * 1000.0).round() / 1000.0,
        verdict: finding.verdict,
        evidence: &finding.evidence,
        bytes_written: finding.bytes_written.0,
    }
}
