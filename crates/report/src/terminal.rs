//! The summary of a run for a terminal.
//!
//! Invariants: no line is longer than the layout's width, except for a single longer word. The text contains
//! no control characters except our own colours, if they were requested.

use flashlab_analysis::findings::{Findings, HintVerdict, Severity};

use crate::points::{self, is_own_plan};
use crate::state::state_sentence;
use crate::table3::{self, BaselineFigure};
use crate::units::{self, UNKNOWN};
use crate::verdict;
use crate::warnings::paragraphs;
use crate::words::{date, verdict_words};
use crate::writer::{BOLD, DIM, GREEN, Layout, RED, Writer, YELLOW};

/// The findings as a text that ends with a line feed: device, verdict, row of Table 3, the hints in one or
/// two lines each, warnings, and where the report is.
pub fn terminal(findings: &Findings, layout: &Layout) -> String {
    let mut out = Writer::new(layout);
    out.wrapped("", &title(findings), BOLD);
    out.wrapped("", &about(findings), DIM);
    out.wrapped("", &state_sentence(&findings.method), DIM);
    let sentences = if is_own_plan(findings) { Vec::new() } else { verdict::sentences(findings) };
    if !sentences.is_empty() {
        out.blank();
        out.wrapped("", &sentences.join(" "), "");
    }
    if is_own_plan(findings) {
        points::tables(&mut out, findings);
    } else {
        out.blank();
        baselines(&mut out, findings);
        columns(&mut out, findings);
        hints(&mut out, findings);
    }
    warnings(&mut out, findings);
    out.report();
    out.text
}

fn title(findings: &Findings) -> String {
    let row = &findings.characteristics;
    let capacity = row.capacity_gb.map(|gb| format!(", {} GB", table3::short(gb))).unwrap_or_default();
    let kind = row.kind.as_ref().map(|kind| format!(" ({kind}{capacity})")).unwrap_or_default();
    format!("{}{kind}", row.device)
}

fn about(findings: &Findings) -> String {
    let method = &findings.method;
    if is_own_plan(findings) {
        return format!("{}, state {}, seed {}", date(&findings.started), method.state, method.seed);
    }
    format!(
        "{}, {} run, state {}, {} IOs, seed {}",
        date(&findings.started),
        method.thoroughness,
        method.state,
        method.io_size,
        method.seed
    )
}

/// The four baselines side by side, or in two rows if that is too wide.
fn baselines(out: &mut Writer<'_>, findings: &Findings) {
    const COLUMN: usize = 18;
    let figures = table3::baselines(&findings.characteristics);
    let side_by_side = if out.width() < figures.len() * COLUMN { 2 } else { figures.len() };
    for row in figures.chunks(side_by_side) {
        let in_columns = |text: &dyn Fn(&BaselineFigure) -> String| -> String {
            row.iter().map(|figure| format!("{:<COLUMN$}", text(figure))).collect()
        };
        let names = in_columns(&|figure| short_words(figure.name).to_owned());
        let values = in_columns(&|figure| figure.mean_ns.map_or(UNKNOWN.to_owned(), units::time));
        out.line(names.trim_end(), DIM);
        out.line(values.trim_end(), BOLD);
    }
    out.blank();
}

fn short_words(name: &str) -> &str {
    match name {
        "SR" => "SR seq. read",
        "RR" => "RR rand. read",
        "SW" => "SW seq. write",
        _ => "RW rand. write",
    }
}

/// The other columns of Table 3, one per line.
fn columns(out: &mut Writer<'_>, findings: &Findings) {
    for column in table3::columns(findings) {
        let detail = if column.detail.is_empty() { String::new() } else { format!(" {}", column.detail) };
        let value = column.value.unwrap_or_else(|| "not measured".to_owned());
        // A ratio continues without a stop: `1.50x a sequential write`. Other figures need a stop before the
        // detail.
        let joint = if value.ends_with('×') || detail.is_empty() { "" } else { "," };
        out.wrapped(&format!("{:<11}", column.title), &format!("{value}{joint}{detail}"), "");
    }
}

fn hints(out: &mut Writer<'_>, findings: &Findings) {
    if findings.hints.is_empty() {
        return;
    }
    out.blank();
    out.wrapped("", "uFLIP's design hints, decided for this device", DIM);
    for hint in &findings.hints {
        let (_, sign, _) = verdict_words(hint.verdict);
        let colour = match hint.verdict {
            HintVerdict::Holds => GREEN,
            HintVerdict::DoesNotHold => RED,
            HintVerdict::NotSupportedByThisMeasurement => DIM,
        };
        out.marked(sign, colour, &format!("{} {}", hint.number, hint.advice));
    }
}

fn warnings(out: &mut Writer<'_>, findings: &Findings) {
    let paragraphs = paragraphs(&findings.warnings);
    if paragraphs.is_empty() {
        return;
    }
    out.blank();
    for (severity, text) in paragraphs {
        match severity {
            Severity::ChangesVerdict => out.marked("!", YELLOW, &text),
            Severity::SinglePoints => out.marked("·", DIM, &text),
        }
    }
}
