//! Presents inferred parameters: a terminal table, a page with pictures, and JSON.
//!
//! Invariant: an unknown parameter is shown with its reason, never left out and never shown as a number.

mod groups;
mod html;
mod json;
mod pictures;
mod plain;
mod state;
mod terminal;

use flashlab_analysis::inference::{Finding, Inference, Verdict};
use flashlab_base::{Bytes, Seed};

pub use html::inference_html;
pub use json::InferenceJson;
pub(crate) use pictures::drawing;
pub use state::device_state;
pub use terminal::{advice_terminal, inference_terminal};

/// An inference, and how it was made.
pub struct InferenceRun<'a> {
    /// What was found.
    pub inference: &'a Inference,
    /// When it began, RFC 3339, UTC.
    pub started: &'a str,
    /// The program's version.
    pub flashlab: &'a str,
    /// Of everything random.
    pub seed: Seed,
    /// The most bytes that it was allowed to write; `None`: it only read.
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

    /// How many parameters were found, in one or two sentences.
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

/// Findings with the same evidence, together: the parameters of a group often have one reason.
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

/// The names of these findings' parameters, in a list.
fn titles(findings: &[&Finding]) -> String {
    let titles: Vec<&str> = findings.iter().map(|finding| finding.parameter.title()).collect();
    titles.join(", ")
}

/// A confidence as a text: `99.2 %`, and never 100 %.
pub fn confidence(share: f64) -> String {
    let share = (share * 1000.0).floor() / 10.0;
    if share > 99.9 { "over 99.9 %".to_owned() } else { format!("{share:.1} %") }
}
