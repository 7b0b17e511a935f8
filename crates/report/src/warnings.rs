//! Orders warnings by severity: first those that may change the verdict, then the others in one line.
//!
//! Invariant: the page contains every warning; the less important ones are folded.

use flashlab_analysis::findings::{Severity, Warning};
use maud::{Markup, html};

use crate::escape::with_code;
use crate::words::capitalised;

/// Warnings of one kind. Equal messages are counted.
struct WarningKind<'a> {
    kind: &'a str,
    /// Each different warning with its number of occurrences; never empty.
    messages: Vec<(&'a Warning, usize)>,
}

impl WarningKind<'_> {
    fn count(&self) -> usize {
        self.messages.iter().map(|(_, count)| count).sum()
    }

    /// `28 points whose repetitions differ`.
    fn in_words(&self) -> String {
        let count = self.count();
        let (one, several) = match self.kind {
            "spread" => ("point whose repetitions differ", "points whose repetitions differ"),
            "left_out" => ("value that the device cannot take", "values that the device cannot take"),
            "torn_samples" => ("file of samples set aside", "files of samples set aside"),
            _ => return format!("{count} of kind {}", self.kind.replace('_', " ")),
        };
        format!("{count} {}", if count == 1 { one } else { several })
    }
}

/// The warnings of this severity by kind. Kinds are in the order of their first warning.
fn kinds(warnings: &[Warning], severity: Severity) -> Vec<WarningKind<'_>> {
    let mut kinds: Vec<WarningKind<'_>> = Vec::new();
    for warning in warnings.iter().filter(|warning| warning.severity() == severity) {
        let index = kinds.iter().position(|kind| kind.kind == warning.kind).unwrap_or_else(|| {
            kinds.push(WarningKind { kind: &warning.kind, messages: Vec::new() });
            kinds.len() - 1
        });
        let messages = &mut kinds[index].messages;
        match messages.iter_mut().find(|(known, _)| *known == warning) {
            Some((_, count)) => *count += 1,
            None => messages.push((warning, 1)),
        }
    }
    kinds
}

/// The warnings of a page; empty if there are none.
pub fn warnings_html(warnings: &[Warning]) -> Markup {
    let (severe, others) =
        (kinds(warnings, Severity::ChangesVerdict), kinds(warnings, Severity::SinglePoints));
    html! {
        @if !severe.is_empty() {
            aside.warnings aria-label="Warnings" {
                h2 { "These may change the verdict" }
                ul { @for kind in &severe { (severe_item(kind)) } }
                @if !others.is_empty() { (folded(&others)) }
            }
        } @else if !others.is_empty() {
            aside.warnings.minor aria-label="Warnings" { (folded(&others)) }
        }
    }
}

fn severe_item(kind: &WarningKind<'_>) -> Markup {
    let (first, more) = (&kind.messages[0], &kind.messages[1..]);
    html! {
        li {
            b { (capitalised(&kind.kind.replace('_', " "))) ":" } " " (message(first))
            @if !more.is_empty() {
                details {
                    summary { (more.len()) " more of this kind" }
                    ul { @for one in more { li { (message(one)) } } }
                }
            }
        }
    }
}

/// All of these behind one line.
fn folded(kinds: &[WarningKind<'_>]) -> Markup {
    html! {
        details {
            summary { (one_line(kinds)) }
            @for kind in kinds {
                h3 { (capitalised(&kind.in_words())) }
                ul { @for one in &kind.messages { li { (message(one)) } } }
            }
        }
    }
}

/// `Single points only: 28 points whose repetitions differ, 4 values that the device cannot take`.
fn one_line(kinds: &[WarningKind<'_>]) -> String {
    let words: Vec<String> = kinds.iter().map(WarningKind::in_words).collect();
    format!("Single points only: {}", words.join(", "))
}

fn message((warning, count): &(&Warning, usize)) -> Markup {
    html! {
        @if let Some(run) = warning.run { span.run { "run " (run) } " " }
        (with_code(&warning.message))
        @if *count > 1 { " (" (count) " times)" }
    }
}

/// The warnings for a terminal, one paragraph each: one of each kind that may change the verdict, then one
/// line for all others.
pub fn paragraphs(warnings: &[Warning]) -> Vec<(Severity, String)> {
    let severe = kinds(warnings, Severity::ChangesVerdict).into_iter().map(|kind| {
        let first = kind.messages[0].0;
        let run = first.run.map(|run| format!("run {run}: ")).unwrap_or_default();
        let more = match kind.count() - 1 {
            0 => String::new(),
            count => format!(" (and {count} more of this kind, in the report)"),
        };
        (Severity::ChangesVerdict, format!("{run}{}{more}", first.message))
    });
    let others = kinds(warnings, Severity::SinglePoints);
    let line = (!others.is_empty()).then(|| (Severity::SinglePoints, format!("{}.", one_line(&others))));
    severe.chain(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(kind: &str, message: &str) -> Warning {
        Warning { kind: kind.to_owned(), run: None, message: message.to_owned() }
    }

    #[test]
    fn warnings_that_change_the_verdict_come_first_and_none_is_lost() {
        let all = [
            warning("spread", "a"),
            warning("thermal", "b"),
            warning("spread", "c"),
            warning("thermal", "d"),
        ];
        let page = warnings_html(&all).into_string();
        let parts =
            ["Thermal:</b> b<details>", "<li>d</li>", "Single points only: 2 points", "<li>a</li><li>c</li>"];
        let positions = parts.map(|text| page.find(text));
        assert!(positions.is_sorted() && positions[0].is_some(), "{page}");
    }

    #[test]
    fn equal_warnings_are_counted() {
        let all = [warning("failed_io", "a"), warning("failed_io", "a"), warning("failed_io", "b")];
        let page = warnings_html(&all).into_string();
        assert!(page.contains("a (2 times)<details><summary>1 more of this kind"), "{page}");
    }

    #[test]
    fn a_terminal_has_one_line_for_all_that_concern_single_points() {
        let mut all: Vec<Warning> = (0..130).map(|run| warning("spread", &format!("point {run}"))).collect();
        all.extend([warning("left_out", "x"), warning("state_in_part", "y")]);
        let lines: Vec<String> = paragraphs(&all).into_iter().map(|(_, text)| text).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        y
        Single points only: 130 points whose repetitions differ, 1 value that the device cannot take.
        ");
    }

    #[test]
    fn where_there_is_nothing_to_warn_of_there_is_no_box() {
        assert_eq!(warnings_html(&[]).into_string(), "");
        assert!(paragraphs(&[]).is_empty());
    }
}
