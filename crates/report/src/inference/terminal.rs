//! The findings as a table for a terminal.

use flashlab_analysis::inference::{Finding, Verdict};

use super::{InferenceRun, by_evidence, confidence, titles};
use crate::advice::Advised;
use crate::summary::date;
use crate::terminal::{BOLD, DIM, Layout, Writer};

/// Columns before the evidence, which stands below.
const TITLE: usize = 26;
const VALUE: usize = 22;
const CONFIDENCE: usize = 14;
const INDENT: &str = "  ";

/// The findings as a text that ends with a line feed: what was found with value, confidence, what was written for it
/// and evidence; then what is undetermined and what is not identifiable, with the reasons.
pub fn inference_terminal(run: &InferenceRun<'_>, layout: &Layout) -> String {
    let mut out = Writer::new(layout);
    let inference = run.inference;
    out.wrapped("", &format!("{} ({})", run.device(), inference.capacity), BOLD);
    out.wrapped("", &format!("{}, seed {}", date(run.started), run.seed), DIM);
    out.blank();
    out.wrapped("", &run.summary(), "");
    found(&mut out, &run.of(Verdict::Found));
    reasons(&mut out, "Undetermined", &run.of(Verdict::Undetermined));
    reasons(&mut out, "Not identifiable from outside", &run.of(Verdict::NotIdentifiable));
    if !run.warnings.is_empty() {
        out.blank();
        run.warnings.iter().for_each(|(_, message)| out.wrapped("! ", message, ""));
    }
    out.report();
    out.text
}

/// Advice as a text that ends with a line feed: what to do with its command and reason; then what is withheld.
pub fn advice_terminal(advised: &Advised, layout: &Layout) -> String {
    let mut out = Writer::new(layout);
    if advised.given.is_empty() {
        out.wrapped("", "Nothing can be advised.", BOLD);
    }
    for advice in &advised.given {
        let sure = (advice.confidence * 100.0).floor();
        out.wrapped("", &format!("{}: {} ({sure} % sure)", advice.subject, advice.advice), BOLD);
        out.wrapped(INDENT, &format!("because {}", advice.reason), "");
        // Not wrapped: it is to be copied.
        out.line(&format!("{INDENT}{}", advice.command), "");
        if advice.overwrites {
            out.wrapped(INDENT, "This overwrites what is on the device.", "");
        }
        out.blank();
    }
    for withheld in &advised.withheld {
        out.wrapped("", &format!("{}: no advice ({})", withheld.subject, withheld.reason), DIM);
    }
    out.text
}

fn found(out: &mut Writer<'_>, findings: &[&Finding]) {
    if findings.is_empty() {
        return;
    }
    out.blank();
    let row = |title: &str, value: &str, confidence: &str, written: &str| {
        format!("{title:<TITLE$}{value:<VALUE$}{confidence:<CONFIDENCE$}{written}").trim_end().to_owned()
    };
    out.line(&row("Parameter", "value", "confidence", "written for it"), DIM);
    for finding in findings {
        let written = finding.bytes_written.to_string();
        let title = finding.parameter.title();
        out.line(&row(title, &finding.value_in_words(), &confidence(finding), &written), BOLD);
        out.wrapped(INDENT, &finding.evidence, "");
    }
}

fn reasons(out: &mut Writer<'_>, heading: &str, findings: &[&Finding]) {
    if findings.is_empty() {
        return;
    }
    out.blank();
    out.line(heading, DIM);
    for (group, evidence) in by_evidence(findings) {
        out.wrapped("", &titles(&group), BOLD);
        out.wrapped(INDENT, evidence, "");
    }
}
