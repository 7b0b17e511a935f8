//! The page that compares several runs.

use flashlab_analysis::{Comparison, Difference, FigureRow, PointRow};
use maud::{Markup, html};

use crate::charts::{Axis, Chart, Drawing, Figures, Series};
use crate::comparison::{
    differences, figure, groups, in_words, letter, measured_rows, run_name, sentences, title,
};
use crate::page::{Section, figures, note, page};
use crate::units;

/// How many colours the style has for runs; further runs begin again.
const RUN_COLOURS: usize = 6;

/// One self-contained page: Table 3 side by side, a plot for each pattern of each micro-benchmark,
/// and every point with its significance test.
pub fn compare_html(comparison: &Comparison) -> String {
    let charts = charts(comparison);
    let names: Vec<&str> = comparison.devices.iter().map(String::as_str).collect();
    let sections = [
        Section { id: "verdict", short: "Verdict", heading: "", body: verdict(comparison) },
        Section {
            id: "table3",
            short: "Table 3",
            heading: "Characteristics side by side",
            body: characteristics(comparison),
        },
        Section {
            id: "patterns",
            short: "Patterns",
            heading: "Response times",
            body: if charts.is_empty() {
                note("The runs have no micro-benchmark in common.")
            } else {
                figures(&charts)
            },
        },
        Section { id: "points", short: "Points", heading: "Every point", body: points(comparison) },
    ];
    let charts: Vec<&Chart> = charts.iter().collect();
    page(&format!("{}: compared", names.join(" and ")), &sections, &charts, env!("CARGO_PKG_VERSION"))
}

fn verdict(comparison: &Comparison) -> Markup {
    let runs = 0..comparison.devices.len();
    html! {
        p.eyebrow { "Comparison of runs" }
        h1 { (comparison.devices.len()) " runs side by side" }
        ul.runs-compared {
            @for run in runs {
                li {
                    i.swatch.solid style={ "--line:var(--" (colour(run)) ")" } {}
                    " " (run_name(comparison, run))
                }
            }
        }
        p.verdict { (sentences(comparison).join(" ")) }
        p.note {
            "Differences are those of a t-test between the repetitions, adjusted for the number of points compared "
            "(p below 0.05). What differs is the runs: their state, temperature and other load are part of it."
        }
    }
}

fn characteristics(comparison: &Comparison) -> Markup {
    let runs = 0..comparison.devices.len();
    html! {
        p.intro { "The columns of uFLIP's Table 3. Ratios here are not tested." }
        div.scroll {
            table.figures {
                thead {
                    tr {
                        td {}
                        @for run in runs {
                            th scope="col" { (run_name(comparison, run)) }
                            @if run > 0 { th scope="col" { "÷ A" } }
                        }
                    }
                }
                tbody { @for row in measured_rows(comparison) { (figure_row(comparison, row)) } }
            }
        }
    }
}

fn figure_row(comparison: &Comparison, row: &FigureRow) -> Markup {
    let ratio =
        |run: usize| row.ratios.get(run).copied().flatten().map_or(units::UNKNOWN.to_owned(), units::ratio);
    html! {
        tr {
            th scope="row" { (title(&row.name)) }
            @for run in 0..comparison.devices.len() {
                td { (figure(row, run)) }
                @if run > 0 { td.faint { (ratio(run)) } }
            }
        }
    }
}

fn colour(run: usize) -> String {
    format!("run{}", run % RUN_COLOURS)
}

/// One for each pattern of each micro-benchmark; a single point is no curve.
fn charts(comparison: &Comparison) -> Vec<Chart> {
    groups(&comparison.points)
        .into_iter()
        .filter(|range| range.len() > 1)
        .enumerate()
        .map(|(index, range)| chart(comparison, &comparison.points[range], index))
        .collect()
}

fn chart(comparison: &Comparison, points: &[PointRow], index: usize) -> Chart {
    let first = &points[0];
    let words = |run: usize| format!("{}: {}.", letter(run), in_words(points, run));
    let caption: Vec<String> = (1..comparison.devices.len()).map(words).collect();
    let series = |run: usize| Series {
        name: letter(run),
        colour: colour(run),
        points: colour(run),
        style: "line",
        values: Figures(
            points
                .iter()
                .map(|point| point.response_ns_mean.get(run).copied().flatten().filter(|&ns| ns > 0.0))
                .collect(),
        ),
        band: None,
    };
    Chart {
        id: format!("compared-{index}"),
        title: format!("{} {}", first.micro_benchmark, first.pattern),
        caption: caption.join(" "),
        wide: false,
        drawing: Drawing {
            x: Axis {
                label: first.micro_benchmark.clone(),
                scale: "ordinal",
                unit: String::new(),
                labels: points.iter().map(|point| point.label.clone()).collect(),
            },
            y: Axis {
                label: "response time".to_owned(),
                scale: "log10",
                unit: "ns".to_owned(),
                labels: Vec::new(),
            },
            values: Figures((0..points.len()).map(|index| Some(index as f64)).collect()),
            series: (0..comparison.devices.len()).map(series).collect(),
            marks: Vec::new(),
            level: None,
        },
    }
}

/// The table of all points, folded away.
fn points(comparison: &Comparison) -> Markup {
    let count = comparison.points.len();
    let shown = (1..comparison.devices.len())
        .map(|run| differences(&comparison.points, run).filter(|found| found.shown).count())
        .sum::<usize>();
    html! {
        details.runs {
            summary { (count) @if count == 1 { " point, " } @else { " points, " } (shown) " differences shown" }
            div.scroll tabindex="0" role="region" aria-label="Table of all points" {
                table.figures.sortable.compared {
                    thead {
                        tr {
                            @for heading in ["Benchmark", "Pattern", "Parameter"] { th scope="col" { (heading) } }
                            @for run in 0..comparison.devices.len() {
                                th scope="col" { (letter(run)) " µs" }
                                @if run > 0 { th scope="col" { (letter(run)) " against A" } }
                            }
                        }
                    }
                    tbody { @for point in &comparison.points { "\n" (point_row(comparison, point)) } }
                }
            }
        }
    }
}

fn point_row(comparison: &Comparison, point: &PointRow) -> Markup {
    let mean = |run: usize| point.response_ns_mean.get(run).copied().flatten();
    html! {
        tr {
            td { (point.micro_benchmark) }
            td { (point.pattern) }
            td { (point.label) }
            @for run in 0..comparison.devices.len() {
                td { (mean(run).map_or(units::UNKNOWN.to_owned(), |ns| format!("{:.1}", ns / 1e3))) }
                @if run > 0 { (difference(point.differences.get(run).and_then(Option::as_ref))) }
            }
        }
    }
}

fn difference(found: Option<&Difference>) -> Markup {
    html! {
        @match found {
            None => td { (units::UNKNOWN) },
            Some(found) => td.shown[found.shown] data-value=(if found.shown { found.ratio } else { 1.0 }) {
                (found.describe())
            },
        }
    }
}
