//! The comparison of several runs for a terminal.

use flashlab_analysis::{Comparison, ExperimentRow, RatioVerdict, Statistic, StatisticRatio};

use crate::comparison::{
    experiment_name, figure, group_name, groups, interval, letter, measured_rows, method, missing,
    odd_repetitions, ratios_of, run_name, sentences, statistic_name, statistic_over, title, verdict_sentence,
    verdict_word, warnings,
};
use crate::units;
use crate::writer::{BOLD, DIM, Layout, Writer};

const TITLE: usize = 18;
const COLUMN: usize = 12;
/// The width of a statistic's name, under its experiment.
const STATISTIC: usize = 10;
/// How many of the experiments that only some runs have are named; the page names all.
const NAMED_MOST: usize = 4;

/// Runs side by side, as a text that ends with a line feed: verdict, the columns of Table 3, each experiment
/// with its ratios, and what cannot be compared.
pub fn compare_terminal(comparison: &Comparison, layout: &Layout) -> String {
    let mut out = Writer::new(layout);
    for run in 0..comparison.devices.len() {
        out.wrapped("", &run_name(comparison, run), BOLD);
    }
    out.blank();
    for sentence in sentences(comparison) {
        out.wrapped("", &sentence, "");
    }
    for warning in warnings(comparison) {
        out.wrapped("! ", &warning, DIM);
    }
    out.blank();
    characteristics(&mut out, comparison);
    for group in groups(&comparison.experiments) {
        out.blank();
        match group.as_slice() {
            [row] => experiment(&mut out, comparison, row),
            rows => curve(&mut out, comparison, rows),
        }
    }
    lacking(&mut out, comparison);
    if comparison.tests > 0 {
        out.blank();
        out.wrapped("", &method(comparison), DIM);
    }
    out.report();
    out.text
}

/// As many runs side by side as the width allows, and the others below.
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

/// An experiment of one value: every statistic.
fn experiment(out: &mut Writer<'_>, comparison: &Comparison, row: &ExperimentRow) {
    out.wrapped("", &experiment_name(&row.key), BOLD);
    for run in 1..comparison.devices.len() {
        for StatisticRatio { statistic, ratio } in ratios_of(row, run) {
            let name = format!("  {:<STATISTIC$}", statistic_name(*statistic));
            let [first, other] = [ratio.first_ns, ratio.other_ns].map(units::time);
            let text = format!(
                "A {first}, {} {other}: {} ({}), {}",
                letter(run),
                units::ratio(ratio.ratio),
                interval(ratio),
                verdict_word(ratio.verdict)
            );
            let text = match odd_repetitions(ratio, run) {
                Some(odd) if matches!(ratio.verdict, RatioVerdict::Faster | RatioVerdict::Slower) => {
                    format!("{text}; {odd}")
                }
                _ => text,
            };
            out.wrapped(&name, &text, "");
        }
        out.wrapped("  ", &verdict_sentence(row, run), "");
    }
}

/// An experiment of several values: how many of them differ.
fn curve(out: &mut Writer<'_>, comparison: &Comparison, rows: &[&ExperimentRow]) {
    let parameter = &rows[0].key.parameter;
    let heading = format!("{}, {} values of {parameter}", group_name(&rows[0].key), rows.len());
    out.wrapped("", &heading, BOLD);
    for run in 1..comparison.devices.len() {
        for statistic in [Statistic::P50, Statistic::P99] {
            let name = match comparison.devices.len() {
                2 => format!("  {:<STATISTIC$}", statistic_name(statistic)),
                _ => format!("  {} {:<STATISTIC$}", letter(run), statistic_name(statistic)),
            };
            out.wrapped(&name, &statistic_over(rows, run, statistic), "");
        }
    }
}

fn lacking(out: &mut Writer<'_>, comparison: &Comparison) {
    for (runs, names) in missing(comparison) {
        out.blank();
        let more = names.len().saturating_sub(NAMED_MOST);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = names[..names.len().min(NAMED_MOST)].join(", ");
        out.wrapped("", &units::sentence(&format!("{runs} {named}{more}")), DIM);
    }
}
