//! The comparison of several runs for a terminal.

use flashlab_analysis::Comparison;

use crate::comparison::{figure, groups, in_words, letter, measured_rows, run_name, sentences, title};
use crate::writer::{BOLD, DIM, Layout, Writer};

const TITLE: usize = 18;
const COLUMN: usize = 12;

/// Runs side by side as a text that ends with a line feed: Table 3's columns, then for each pattern
/// of each micro-benchmark whether a difference is shown.
pub fn compare_terminal(comparison: &Comparison, layout: &Layout) -> String {
    let mut out = Writer::new(layout);
    for run in 0..comparison.devices.len() {
        out.wrapped("", &run_name(comparison, run), BOLD);
    }
    out.blank();
    out.wrapped("", &sentences(comparison).join(" "), "");
    out.blank();
    characteristics(&mut out, comparison);
    out.blank();
    patterns(&mut out, comparison);
    out.report();
    out.text
}

/// As many runs beside each other as there is room for, then the others below.
fn characteristics(out: &mut Writer<'_>, comparison: &Comparison) {
    let room = ((out.width() - TITLE) / COLUMN).max(1);
    let runs: Vec<usize> = (0..comparison.devices.len()).collect();
    for some in runs.chunks(room) {
        let in_columns = |first: &str, text: &dyn Fn(usize) -> String| {
            let columns: String = some.iter().map(|&run| format!("{:<COLUMN$}", text(run))).collect();
            format!("{first:<TITLE$}{columns}").trim_end().to_owned()
        };
        out.line(&in_columns("", &letter), DIM);
        for row in measured_rows(comparison) {
            out.line(&in_columns(title(&row.name), &|run| figure(row, run)), "");
        }
    }
}

fn patterns(out: &mut Writer<'_>, comparison: &Comparison) {
    for range in groups(&comparison.points) {
        let points = &comparison.points[range];
        let name = format!("{} {}", points[0].micro_benchmark, points[0].pattern);
        let words = |run: usize| match comparison.devices.len() {
            2 => in_words(points, run),
            _ => format!("{}: {}", letter(run), in_words(points, run)),
        };
        let words: Vec<String> = (1..comparison.devices.len()).map(words).collect();
        out.wrapped(&format!("{name:<TITLE$} "), &words.join("; "), "");
    }
}
