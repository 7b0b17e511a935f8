//! The findings as a table for a terminal.

use flashlab_analysis::inference::{Finding, Verdict};
use flashlab_base::Bytes;

use super::{InferenceRun, by_evidence, confidence, device_state, plain};
use crate::advice::Advised;
use crate::words::date;
use crate::writer::{BOLD, DIM, Layout, Writer};

/// The widths of a row's columns. The evidence follows on the lines below the row. On a narrow terminal the title has its own
/// line, and the next line has the value, the confidence and the bytes written.
const TITLE: usize = 26;
const VALUE: usize = 22;
const CONFIDENCE: usize = 14;
const WRITTEN: usize = 16;
const INDENT: &str = "  ";

/// The findings as a text that ends with a line feed. First the found ones, with value, confidence, bytes
/// written and evidence. Then the undetermined and the not identifiable ones, with the reasons.
pub fn inference_terminal(run: &InferenceRun<'_>, layout: &Layout) -> String {
    let mut out = Writer::new(layout);
    let inference = run.inference;
    out.wrapped("", &format!("{} ({})", run.device(), inference.capacity), BOLD);
    out.wrapped("", &format!("{}, seed {}", date(run.started), run.seed), DIM);
    out.blank();
    out.wrapped("", &plain::kind(inference), "");
    for (index, thing) in plain::things_to_do(run).iter().enumerate() {
        out.wrapped(&format!("{}. ", index + 1), thing, "");
    }
    out.blank();
    out.wrapped("", &device_state(inference).1, DIM);
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

/// Advice as a text that ends with a line feed: what to do, with its command and reason. Then the
/// subjects without advice: why there is none, and the command that would measure what is missing.
pub fn advice_terminal(advised: &Advised, layout: &Layout) -> String {
    let mut out = Writer::new(layout);
    if advised.given.is_empty() {
        out.wrapped("", "Nothing can be advised.", BOLD);
    }
    for advice in &advised.given {
        let confidence = confidence(advice.confidence);
        out.wrapped("", &format!("{}: {} (confidence {confidence})", advice.subject, advice.advice), BOLD);
        out.wrapped(INDENT, &format!("because {}", advice.reason), "");
        // Not wrapped, so that it can be copied.
        out.line(&format!("{INDENT}{}", advice.command), "");
        if advice.overwrites {
            out.wrapped(INDENT, "This overwrites what is on the device.", "");
        }
        out.blank();
    }
    for withheld in &advised.withheld {
        out.wrapped("", &format!("{}: no advice ({})", withheld.subject, withheld.reason), DIM);
        if let Some(measurement) = &withheld.measurement {
            out.line(&format!("{INDENT}to find out: {measurement}"), DIM);
        }
    }
    out.text
}

fn found(out: &mut Writer<'_>, findings: &[&Finding]) {
    if findings.is_empty() {
        return;
    }
    out.blank();
    row(out, "Parameter", ["value", "confidence", "written for it"], DIM);
    for finding in findings {
        let [value, confidence, written] =
            [finding.value_in_words(), confidence(finding.confidence), finding.bytes_written.to_string()];
        row(out, finding.parameter.title(), [&value, &confidence, &written], BOLD);
        out.wrapped(INDENT, &finding.evidence, "");
    }
}

fn row(out: &mut Writer<'_>, title: &str, [value, confidence, written]: [&str; 3], style: &str) {
    if out.width() >= TITLE + VALUE + CONFIDENCE + WRITTEN {
        let row = format!("{title:<TITLE$}{value:<VALUE$}{confidence:<CONFIDENCE$}{written}");
        out.line(row.trim_end(), style);
    } else {
        out.wrapped("", title, style);
        out.wrapped(INDENT, &format!("{value}, {confidence}, {written}"), style);
    }
}

fn reasons(out: &mut Writer<'_>, heading: &str, findings: &[&Finding]) {
    if findings.is_empty() {
        return;
    }
    out.blank();
    out.line(heading, DIM);
    for (group, evidence) in by_evidence(findings) {
        let titles: Vec<String> = group.iter().map(|finding| with_figures(finding)).collect();
        out.wrapped("", &titles.join(", "), BOLD);
        out.wrapped(INDENT, evidence, "");
    }
}

/// The parameter's title. In brackets follow the confidence that it is not identifiable, only for that verdict, and the bytes
/// written to probe it, if any: `Chunk (confidence 97.0 %)`, `Open blocks (12 MiB written for it)`.
fn with_figures(finding: &Finding) -> String {
    let confidence = (finding.verdict == Verdict::NotIdentifiable)
        .then(|| format!("confidence {}", confidence(finding.confidence)));
    let written =
        (finding.bytes_written > Bytes::ZERO).then(|| format!("{} written for it", finding.bytes_written));
    let figures: Vec<String> = confidence.into_iter().chain(written).collect();
    match figures.join("; ").as_str() {
        "" => finding.parameter.title().to_owned(),
        figures => format!("{} ({figures})", finding.parameter.title()),
    }
}

#[cfg(test)]
mod tests {
    use flashlab_analysis::inference::{Inference, Parameter};
    use flashlab_base::{Identity, Seed};

    use super::*;

    fn printed(width: usize) -> String {
        let figures = "reads of 4 KiB take 71.3 us, and those of 8 KiB 74.9 us";
        let written = |finding: Finding| Finding { bytes_written: Bytes::mib(12), ..finding };
        let findings = vec![
            Finding::found(Parameter::TranslationFamily, "demand-cached page", 0.96, figures),
            Finding::not_identifiable(Parameter::SegmentGroupSpan, 0.9, "there is one group"),
            written(Finding::not_identifiable(Parameter::WriteBufferFlush, 0.85, "there is no write buffer")),
            written(Finding::undetermined(Parameter::OverProvisioning, figures)),
            Finding::undetermined(Parameter::PhysicalCapacity, figures),
        ];
        let begun = Inference::begun("sim:test", Identity::default(), Bytes::gib(1));
        let inference = Inference { findings, written: Bytes::mib(24), ..begun };
        let run = InferenceRun {
            inference: &inference,
            started: "2026-01-02T03:04:05Z",
            flashlab: "0.1.0",
            seed: Seed(1),
            write_budget: Some(Bytes::gib(2)),
            warnings: &[],
            probes: &[],
        };
        inference_terminal(&run, &Layout { width, ..Layout::default() })
    }

    #[test]
    fn no_row_is_wider_than_the_terminal() {
        for width in [40, 50, 77, 78, 80, 120] {
            assert!(printed(width).lines().all(|line| line.chars().count() <= width), "{}", printed(width));
        }
    }

    #[test]
    fn what_was_not_found_has_its_confidence_and_the_bytes_written() {
        insta::assert_snapshot!(printed(50), @r"
    sim:test (1 GiB)
    2026-01-02 03:04 UTC, seed 1

    This device maps pages, and keeps only a part of
    the map in memory: random IOs over a large range
    are slower than over a small one.
    1. Make ext4 without options for erase blocks.
    2. Make f2fs without options for erase blocks.

    The probes wrote 24 MiB to a device of 1 GiB and
    did not fill it: some of it may never have been
    written. Garbage collection may not have limited
    it yet: once it does, writes, above all random
    ones, may take several times as long as the
    findings say. `flashlab bench --state steady`
    measures the steady state.

    1 of 5 parameters found; 2 undetermined, 2 not
    identifiable from outside. 24 MiB were written, of
    2 GiB allowed.

    Parameter
      value, confidence, written for it
    Translation layer
      demand-cached page, 96.0 %, 0 B
      reads of 4 KiB take 71.3 us, and those of 8 KiB
      74.9 us

    Undetermined
    Over-provisioning (12 MiB written for it),
    Physical capacity
      reads of 4 KiB take 71.3 us, and those of 8 KiB
      74.9 us

    Not identifiable from outside
    Span of a segment group (confidence 90.0 %)
      there is one group
    Flush policy (confidence 85.0 %; 12 MiB written
    for it)
      there is no write buffer
    ");
    }
}
