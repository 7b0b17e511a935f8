//! The table of all runs.
//!
//! Invariant: a column has one unit, so that its figures can be compared at a glance and sorted.

use flashlab_analysis::findings::{Findings, RunEnd, RunSummary};
use maud::{Markup, html};

use crate::page::{Section, note};
use crate::units::UNKNOWN;

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
    let rows = rows(findings);
    let body = if rows.is_empty() { note("There are none.") } else { table(&rows) };
    Section { id: "runs", short: "Runs", heading: "All runs", body }
}

fn table(rows: &[Markup]) -> Markup {
    html! {
        details.runs {
            summary { (rows.len()) " runs with their statistics" }
            p.note { "Start-up phases are left out. Click on a heading to sort." }
            div.scroll tabindex="0" role="region" aria-label="Table of all runs" {
                table.figures.sortable {
                    thead { tr { @for heading in HEADINGS { th scope="col" { (heading) } } } }
                    tbody { @for row in rows { "\n" (row) } }
                }
            }
        }
    }
}

fn rows(findings: &Findings) -> Vec<Markup> {
    let mut rows = Vec::new();
    for baseline in &findings.baselines {
        let place = Place { benchmark: "baseline", pattern: &baseline.pattern, label: "", value: 0.0 };
        rows.push(row(&place, &baseline.run));
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
                rows.extend(point.runs.iter().map(|run| row(&place, run)));
            }
        }
    }
    rows
}

fn row(place: &Place<'_>, run: &RunSummary) -> Markup {
    let response = &run.response;
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
    let figures = microseconds.chain(rates).chain(precision);
    html! {
        tr {
            td { (run.run) }
            td { (place.benchmark) }
            td { (place.pattern) }
            td data-value=(place.value) { (place.label) }
            td { (run.repetition) }
            td { (response.count) }
            @for (figure, decimals) in figures { td { (written(figure, decimals)) } }
            td { (ended(run.ended)) @if run.failed_ios > 0 { ", " (run.failed_ios) " failed" } }
            td { (run.flags.join(", ").replace('_', " ")) }
        }
    }
}

fn written(figure: f64, decimals: usize) -> String {
    if figure.is_finite() { format!("{figure:.decimals$}") } else { UNKNOWN.to_owned() }
}

fn ended(end: RunEnd) -> &'static str {
    match end {
        RunEnd::PrecisionReached => "precise enough",
        RunEnd::BudgetUsed => "budget used",
        RunEnd::CountReached => "count reached",
    }
}
