//! The summary for a terminal.
//!
//! Invariants: no line is longer than the layout's width (but for a single word that is), and
//! nothing in it is obeyed by the terminal but our own colours, if they were asked for.

use flashlab_analysis::findings::{Findings, Severity, Verdict};

use crate::points::{self, is_own_plan};
use crate::summary::{date, verdict_words};
use crate::table3::{self, BaselineFigure};
use crate::units::{self, UNKNOWN, printable};
use crate::verdict;
use crate::warnings::paragraphs;

/// How the summary is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the terminal; below 40 the lines are laid out for 40.
    pub width: usize,
    /// Whether to use colours (ANSI escapes).
    pub colour: bool,
    /// Where `report.html` is, to be told at the end.
    pub report: Option<String>,
}

impl Default for Layout {
    /// 80 columns without colours.
    fn default() -> Layout {
        Layout { width: 80, colour: false, report: None }
    }
}

const NARROWEST: usize = 40;

pub(crate) const BOLD: &str = "1";
pub(crate) const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// The findings as a text that ends with a line feed: device, verdict, Table 3's row, the hints in
/// a line or two each, warnings, and where the report is.
pub fn terminal(findings: &Findings, layout: &Layout) -> String {
    let mut out = Writer::new(layout);
    out.wrapped("", &title(findings), BOLD);
    out.wrapped("", &about(findings), DIM);
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

/// The four baselines side by side, or two by two where that is too wide.
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

/// The other columns of Table 3, one a line.
fn columns(out: &mut Writer<'_>, findings: &Findings) {
    for column in table3::columns(findings) {
        let detail = if column.detail.is_empty() { String::new() } else { format!(" {}", column.detail) };
        let value = column.value.unwrap_or_else(|| "not measured".to_owned());
        // A ratio reads on: `1.50x a sequential write`; other figures need a stop before the detail.
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
            Verdict::Holds => GREEN,
            Verdict::DoesNotHold => RED,
            Verdict::NotSupportedByThisMeasurement => DIM,
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

/// Collects lines.
pub(crate) struct Writer<'a> {
    pub(crate) text: String,
    layout: &'a Layout,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(layout: &'a Layout) -> Writer<'a> {
        Writer { text: String::new(), layout }
    }

    pub(crate) fn width(&self) -> usize {
        self.layout.width.max(NARROWEST)
    }

    /// The last line: where to read more.
    pub(crate) fn report(&mut self) {
        if let Some(report) = &self.layout.report {
            self.blank();
            self.wrapped("", &format!("Report: {report}"), BOLD);
        }
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// One line in one style, made printable.
    pub(crate) fn line(&mut self, line: &str, style: &str) {
        let line = printable(line);
        let painted = self.painted(&line, style);
        self.text.push_str(&painted);
        self.text.push('\n');
    }

    /// A text after a first word, wrapped under itself.
    pub(crate) fn wrapped(&mut self, first: &str, text: &str, style: &str) {
        let indent = first.chars().count();
        let lines = wrap(text, self.width() - indent);
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { first.to_owned() } else { " ".repeat(indent) };
            self.line(&format!("{lead}{line}"), style);
        }
    }

    /// A text after a coloured sign.
    fn marked(&mut self, sign: &str, colour: &str, text: &str) {
        for (index, line) in wrap(text, self.width() - 2).iter().enumerate() {
            let sign = if index == 0 { self.painted(sign, colour) } else { " ".to_owned() };
            self.text.push_str(&format!("{sign} {}\n", printable(line)));
        }
    }

    fn painted(&self, text: &str, style: &str) -> String {
        if self.layout.colour && !style.is_empty() {
            format!("\u{1b}[{style}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Breaks `text` between words into lines of at most `width` characters; a longer word has a line
/// of its own. There is always at least one line.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    // Ordinary spaces only: a no-break space between a number and its unit must not break.
    for word in text.split([' ', '\n', '\t']).filter(|word| !word.is_empty()) {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two  three\nfour", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("incomprehensible if", 5), ["incomprehensible", "if"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
