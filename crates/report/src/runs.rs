//! The table of all runs.
//!
//! Invariant: a column has one unit, so that its figures can be compared at a glance and sorted.

use std::fmt::Write;

use flashlab_analysis::findings::{Findings, RunEnd, RunSummary};

use crate::escape::Text;
use crate::page::Section;

const HEADINGS: [&str; 19] = [
    "Run",
    "Benchmark",
    "Pattern",
    "Parameter",
    "Rep.",
    "IOs",
    "Mean µs",
    "Min µs",
    "p50 µs",
    "p90 µs",
    "p99 µs",
    "p99.9 µs",
    "Max µs",
    "Std dev µs",
    "MB/s",
    "IO/s",
    "Precision %",
    "Ended",
    "Flags",
];

/// Where a run belongs.
struct Place<'a> {
    benchmark: &'a str,
    pattern: &'a str,
    label: &'a str,
    value: f64,
}

/// Every run with its statistics, folded away.
pub fn section(findings: &Findings) -> Section {
    let (rows, count) = rows(findings);
    let headings: String =
        HEADINGS.iter().map(|heading| format!("<th scope=\"col\">{heading}</th>")).collect();
    let body = if count == 0 {
        "<p class=\"note\">There are none.</p>\n".to_owned()
    } else {
        format!(
            "<details class=\"runs\"><summary>{count} runs with their statistics</summary>\n\
             <p class=\"note\">Start-up phases are left out. Click on a heading to sort.</p>\n\
             <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of all runs\">\
             <table class=\"figures sortable\"><thead><tr>{headings}</tr></thead>\n<tbody>\n{rows}</tbody></table></div></details>\n"
        )
    };
    Section { id: "runs", short: "Runs", heading: "All runs", body }
}

fn rows(findings: &Findings) -> (String, usize) {
    let mut rows = String::new();
    let mut count = 0;
    for baseline in &findings.baselines {
        let place = Place { benchmark: "baseline", pattern: &baseline.pattern, label: "", value: 0.0 };
        push_row(&mut rows, &place, &baseline.run);
        count += 1;
    }
    for micro in &findings.micro_benchmarks {
        for experiment in &micro.experiments {
            for point in &experiment.points {
                let place = Place {
                    benchmark: &micro.name,
                    pattern: &experiment.pattern,
                    label: &point.label,
                    value: point.value,
                };
                point.runs.iter().for_each(|run| push_row(&mut rows, &place, run));
                count += point.runs.len();
            }
        }
    }
    (rows, count)
}

fn push_row(rows: &mut String, place: &Place<'_>, run: &RunSummary) {
    let response = &run.response;
    let failed = if run.failed_ios > 0 { format!(", {} failed", run.failed_ios) } else { String::new() };
    let mut cells = format!(
        "<tr><td>{}<td>{}<td>{}<td data-value=\"{}\">{}<td>{}<td>{}",
        run.run,
        Text(place.benchmark),
        Text(place.pattern),
        place.value,
        Text(place.label),
        run.repetition,
        response.count,
    );
    let nanoseconds = [
        response.mean_ns,
        response.min_ns as f64,
        response.p50_ns as f64,
        response.p90_ns as f64,
        response.p99_ns as f64,
        response.p999_ns as f64,
        response.max_ns as f64,
        response.standard_deviation_ns,
    ];
    let microseconds = nanoseconds.into_iter().map(|ns| (ns / 1e3, 1));
    let rates = [(run.throughput_bytes_per_s / 1e6, 2), (run.ios_per_s, 0)];
    let precision = [(run.precision.map_or(f64::NAN, |precision| precision * 100.0), 1)];
    for (figure, decimals) in microseconds.chain(rates).chain(precision) {
        let written = if figure.is_finite() {
            write!(cells, "<td>{figure:.decimals$}")
        } else {
            write!(cells, "<td>–")
        };
        written.expect("a String takes everything");
    }
    rows.push_str(&cells);
    rows.push_str("<td>");
    rows.push_str(ended(run.ended));
    rows.push_str(&failed);
    let flags = run.flags.join(", ").replace('_', " ");
    writeln!(rows, "<td>{}</tr>", Text(&flags)).expect("a String takes everything");
}

fn ended(end: RunEnd) -> &'static str {
    match end {
        RunEnd::PrecisionReached => "precise enough",
        RunEnd::BudgetUsed => "budget used",
        RunEnd::CountReached => "count reached",
    }
}
