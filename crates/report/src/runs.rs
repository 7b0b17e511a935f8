//! The table of all runs.
//!
//! Invariant: a column has one unit, so that its figures can be compared and sorted.

use flashlab_analysis::findings::{Distribution, Findings, RunEnd, RunSummary};
use maud::{Markup, html};

use crate::page::{Section, note};
use crate::units::UNKNOWN;
use crate::words::mode_words;

const HEADINGS: [&str; 21] = [
    "Run",
    "Benchmark",
    "Pattern",
    "Parameter",
    "Rep.",
    "IO",
    "IOs",
    "Mean us",
    "Min us",
    "p50 us",
    "p90 us",
    "p99 us",
    "p99.9 us",
    "Max us",
    "Std dev us",
    "MB/s",
    "IO/s",
    "Write amplification",
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

/// Every run with its statistics, folded.
pub fn section(findings: &Findings) -> Section {
    let rows = rows(findings);
    let body = if rows.is_empty() { note("There are none.") } else { table(&rows) };
    Section { id: "runs", short: "Runs", heading: "All runs", body }
}

fn table(rows: &[Markup]) -> Markup {
    html! {
        details.runs {
            summary { (rows.len()) " runs with their statistics" }
            p.note { "Start-up phases are left out. Click on a heading to sort. " code { "flashlab view" } " with the run's folder shows each IO; this page there links each run to its IOs." }
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
        rows.extend(rows_of(&place, &baseline.run));
    }
    for micro in &findings.micro_benchmarks {
        for experiment in &micro.experiments {
            for point in &experiment.points {
                let pattern = experiment.name();
                let place = Place {
                    benchmark: &micro.name,
                    pattern: &pattern,
                    label: &point.label,
                    value: point.value,
                };
                rows.extend(point.runs.iter().flat_map(|run| rows_of(&place, run)));
            }
        }
    }
    rows
}

/// One row for all IOs of a run, and one each for its reads and writes if it has both.
fn rows_of(place: &Place<'_>, run: &RunSummary) -> Vec<Markup> {
    let all = Counted {
        name: match run.modes.as_slice() {
            [one] => mode_words(one.mode),
            _ => "all",
        },
        response: &run.response,
        bytes_per_s: run.throughput_bytes_per_s,
        ios_per_s: run.ios_per_s,
    };
    let apart = run.modes.iter().filter(|_| run.modes.len() > 1).map(|mode| Counted {
        name: mode_words(mode.mode),
        response: &mode.response,
        bytes_per_s: mode.throughput_bytes_per_s,
        ios_per_s: mode.ios_per_s,
    });
    std::iter::once(all).chain(apart).map(|counted| row(place, run, &counted)).collect()
}

/// The IOs of a run that a row shows.
struct Counted<'a> {
    name: &'static str,
    response: &'a Distribution,
    bytes_per_s: f64,
    ios_per_s: f64,
}

fn row(place: &Place<'_>, run: &RunSummary, counted: &Counted<'_>) -> Markup {
    let response = counted.response;
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
    let rates = [
        (counted.bytes_per_s / 1e6, 2),
        (counted.ios_per_s, 0),
        (run.write_amplification.unwrap_or(f64::NAN), 2),
    ];
    let precision = [(run.precision.map_or(f64::NAN, |precision| precision * 100.0), 1)];
    let figures = microseconds.chain(rates).chain(precision);
    html! {
        tr {
            td data-view={ "run=" (run.run) } { (run.run) }
            td { (place.benchmark) }
            td { (place.pattern) }
            td data-value=(place.value) { (place.label) }
            td { (run.repetition) }
            td { (counted.name) }
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
