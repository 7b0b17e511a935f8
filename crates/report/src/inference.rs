//! What was inferred of a device, to people: a terminal table, a page with a picture of each finding, and JSON.
//!
//! Invariant: what is not known is told with its reason, never left out and never shown as a number.

mod groups;
mod html;
mod json;
mod pictures;
mod plain;
mod terminal;

use flashlab_analysis::inference::{Finding, Inference, Verdict};
use flashlab_base::{Bytes, Seed};

pub use html::inference_html;
pub use json::InferenceJson;
pub use terminal::{advice_terminal, inference_terminal};

/// An inference with how it came about.
pub struct InferenceRun<'a> {
    /// What was found.
    pub inference: &'a Inference,
    /// When it was begun, RFC 3339, UTC.
    pub started: &'a str,
    /// The program's version.
    pub flashlab: &'a str,
    /// Of everything random.
    pub seed: Seed,
    /// How much it was allowed to write; `None`: it only read.
    pub write_budget: Option<Bytes>,
    /// What to doubt about the target.
    pub warnings: &'a [(String, String)],
    /// The files of the probes, in the order in which they ran.
    pub probes: &'a [String],
}

impl InferenceRun<'_> {
    /// The device's model, or the name that it was given.
    fn device(&self) -> &str {
        let identity = &self.inference.identity;
        identity.model.as_deref().unwrap_or(&self.inference.target)
    }

    fn of(&self, verdict: Verdict) -> Vec<&Finding> {
        self.inference.findings.iter().filter(|finding| finding.verdict == verdict).collect()
    }

    /// How much became known, in a sentence or two.
    fn summary(&self) -> String {
        let count = |verdict| self.of(verdict).len();
        let found = count(Verdict::Found);
        let (open, none) = (count(Verdict::Undetermined), count(Verdict::NotIdentifiable));
        let all = found + open + none;
        let written = match (self.inference.written, self.write_budget) {
            (Bytes::ZERO, None) => "Nothing was written.".to_owned(),
            (written, None) => format!("{written} were written."),
            (written, Some(budget)) => format!("{written} were written, of {budget} allowed."),
        };
        format!(
            "{found} of {all} parameters found; {open} undetermined, {none} not identifiable from outside. {written}"
        )
    }
}

/// Findings that have the same to say, together: one group's parameters often have one reason.
fn by_evidence<'a>(findings: &[&'a Finding]) -> Vec<(Vec<&'a Finding>, &'a str)> {
    let mut groups: Vec<(Vec<&Finding>, &str)> = Vec::new();
    for finding in findings {
        match groups.iter_mut().find(|(_, evidence)| *evidence == finding.evidence) {
            Some((group, _)) => group.push(finding),
            None => groups.push((vec![finding], &finding.evidence)),
        }
    }
    groups
}

/// The names of some findings' parameters, in a row.
fn titles(findings: &[&Finding]) -> String {
    let titles: Vec<&str> = findings.iter().map(|finding| finding.parameter.title()).collect();
    titles.join(", ")
}

/// A confidence as people read it: `99.2 %`, and never certainty.
fn confidence(finding: &Finding) -> String {
    let share = (finding.confidence * 1000.0).floor() / 10.0;
    if share > 99.9 { "over 99.9 %".to_owned() } else { format!("{share:.1} %") }
}
