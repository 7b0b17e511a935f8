//! The page that compares several runs.

use flashlab_analysis::{Comparison, FigureRow, PointRow};

use crate::charts::{Axis, Chart, Drawing, Figures, Series};
use crate::comparison::{
    differences, figure, groups, in_words, letter, measured_rows, run_name, sentences, title,
};
use crate::escape::Text;
use crate::page::{Section, figures, page};
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
                "<p class=\"note\">The runs have no micro-benchmark in common.</p>\n".to_owned()
            } else {
                figures(&charts)
            },
        },
        Section { id: "points", short: "Points", heading: "Every point", body: points(comparison) },
    ];
    let charts: Vec<&Chart> = charts.iter().collect();
    page(&format!("{}: compared", names.join(" and ")), &sections, &charts, env!("CARGO_PKG_VERSION"))
}

fn verdict(comparison: &Comparison) -> String {
    let run = |run: usize| {
        format!(
            "<li><i class=\"swatch solid\" style=\"--line:var(--{})\"></i> {}</li>\n",
            colour(run),
            Text(&run_name(comparison, run))
        )
    };
    let runs: String = (0..comparison.devices.len()).map(run).collect();
    format!(
        "<p class=\"eyebrow\">Comparison of runs</p>\n<h1>{} runs side by side</h1>\n<ul class=\"runs-compared\">\n{runs}</ul>\n\
         <p class=\"verdict\">{}</p>\n\
         <p class=\"note\">Differences are those of a t-test between the repetitions, adjusted for the number of points \
         compared (p below 0.05). What differs is the runs: their state, temperature and other load are part of it.</p>\n",
        comparison.devices.len(),
        Text(&sentences(comparison).join(" ")),
    )
}

fn characteristics(comparison: &Comparison) -> String {
    let head: String = (0..comparison.devices.len())
        .map(|run| {
            let relative = if run == 0 { "" } else { "<th scope=\"col\">÷ A</th>" };
            format!("<th scope=\"col\">{}</th>{relative}", Text(&run_name(comparison, run)))
        })
        .collect();
    let row = |row: &FigureRow| {
        let cells: String = (0..comparison.devices.len())
            .map(|run| {
                let ratio =
                    row.ratios.get(run).copied().flatten().map_or(units::UNKNOWN.to_owned(), units::ratio);
                let relative =
                    if run == 0 { String::new() } else { format!("<td class=\"faint\">{ratio}</td>") };
                format!("<td>{}</td>{relative}", Text(&figure(row, run)))
            })
            .collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", Text(title(&row.name)))
    };
    let rows: String = measured_rows(comparison).map(row).collect();
    format!(
        "<p class=\"intro\">The columns of uFLIP's Table 3. Ratios here are not tested.</p>\n<div class=\"scroll\">\
         <table class=\"figures\"><thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
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
fn points(comparison: &Comparison) -> String {
    let heads: String = (0..comparison.devices.len())
        .map(|run| {
            let name = letter(run);
            let test =
                if run == 0 { String::new() } else { format!("<th scope=\"col\">{name} against A</th>") };
            format!("<th scope=\"col\">{name} µs</th>{test}")
        })
        .collect();
    let rows: String = comparison.points.iter().map(|point| point_row(comparison, point)).collect();
    let shown = (1..comparison.devices.len())
        .map(|run| differences(&comparison.points, run).filter(|found| found.shown).count())
        .sum::<usize>();
    let count = match comparison.points.len() {
        1 => "1 point".to_owned(),
        n => format!("{n} points"),
    };
    format!(
        "<details class=\"runs\"><summary>{count}, {shown} differences shown</summary>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of all points\">\
         <table class=\"figures sortable compared\"><thead><tr><th scope=\"col\">Benchmark</th><th scope=\"col\">Pattern</th>\
         <th scope=\"col\">Parameter</th>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div></details>\n"
    )
}

fn point_row(comparison: &Comparison, point: &PointRow) -> String {
    let cells: String = (0..comparison.devices.len())
        .map(|run| {
            let mean = point.response_ns_mean.get(run).copied().flatten();
            let mean = mean.map_or(units::UNKNOWN.to_owned(), |ns| format!("{:.1}", ns / 1e3));
            let test = match point.differences.get(run).and_then(Option::as_ref) {
                _ if run == 0 => String::new(),
                None => format!("<td>{}</td>", units::UNKNOWN),
                Some(found) => format!(
                    "<td{} data-value=\"{}\">{}</td>",
                    if found.shown { " class=\"shown\"" } else { "" },
                    if found.shown { found.ratio } else { 1.0 },
                    Text(&found.describe())
                ),
            };
            format!("<td>{mean}</td>{test}")
        })
        .collect();
    format!(
        "<tr><td>{}</td><td>{}</td><td>{}</td>{cells}</tr>\n",
        Text(&point.micro_benchmark),
        Text(&point.pattern),
        Text(&point.label)
    )
}
