//! The report of a sweep: one plan on a simulated device with other values of its keys, as a table and as
//! charts.

use std::collections::BTreeSet;

use flashlab_analysis::findings::Regime;
use flashlab_base::Mode;
use maud::html;
use serde::Serialize;

use crate::charts::{Chart, ChartAxis, ChartSeries, Drawing, Figures};
use crate::page::{Section, figures, page};
use crate::rows::RunRow;
use crate::units;
use crate::words::mode_words;
use crate::writer::{BOLD, DIM, Layout, Writer};

/// What a sweep gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// The device that was varied.
    pub device: String,
    /// The plan.
    pub plan: String,
    /// The state that each device was to have before it was measured.
    pub state: String,
    /// The version of flashlab.
    pub flashlab: String,
    /// The keys that were set, for example `flash.over_provisioning`.
    pub keys: Vec<String>,
    /// Each combination of values, in the order in which they were given.
    pub points: Vec<SweepPoint>,
}

/// One combination of values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepPoint {
    /// A value for each key.
    pub values: Vec<String>,
    /// The folder of its run.
    pub run: String,
    /// The state that the device had, as in [`Method::state`](flashlab_analysis::findings::Method::state).
    pub state: String,
    /// What restricts the meaning of its figures, each a sentence; the state is the first.
    pub doubts: Vec<String>,
    /// The middle repetition of each experiment, reads and writes apart.
    pub rows: Vec<RunRow>,
}

/// What the last column means: a run may be shorter than the garbage collection that it causes.
const WRITE_AMPLIFICATION: &str = "WA is what the flash programmed during a run over what was written in it: work left by earlier writes \
    counts, and what is still in a write buffer does not. Runs that are longer than the buffer say more.";

/// More combinations than a table or a picture can usefully show. `sweep.json` and CSV have all of them.
const SHOWN_MOST: usize = 1000;

/// What a table leaves out, if it does.
fn left_out(sweep: &Sweep) -> Option<String> {
    let count = sweep.points.len();
    (count > SHOWN_MOST)
        .then(|| format!("The table has the first {SHOWN_MOST} of {count} combinations; sweep.json and --csv have all, and there are no pictures of so many."))
}

/// The table for a terminal.
pub fn sweep_terminal(sweep: &Sweep, layout: &Layout) -> String {
    let mut out = Writer::new(layout);
    out.wrapped("", &title(sweep), BOLD);
    out.wrapped("", &format!("state {}", sweep.state), DIM);
    for doubt in other_states(sweep) {
        out.wrapped("", &doubt, "");
    }
    out.blank();
    let (keys, rows) = table(sweep);
    let widths: Vec<usize> = (0..keys.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([keys[column].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).enumerate();
        let padded = cells.map(|(column, (cell, &width))| match column < sweep.keys.len() + 3 {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    out.line(&line(&keys), DIM);
    rows.iter().for_each(|row| out.line(&line(row), ""));
    out.blank();
    if let Some(sentence) = left_out(sweep) {
        out.wrapped("", &sentence, "");
    }
    out.wrapped("", WRITE_AMPLIFICATION, DIM);
    for sentence in regime_notes(sweep) {
        out.wrapped("", sentence, DIM);
    }
    out.report();
    out.text
}

/// The page with its pictures.
pub fn sweep_html(sweep: &Sweep) -> String {
    let charts = if left_out(sweep).is_none() { charts(sweep) } else { Vec::new() };
    let (headings, rows) = table(sweep);
    let table = html! {
        div.scroll tabindex="0" role="region" aria-label="All figures" {
            table.figures.sortable {
                thead { tr { @for heading in &headings { th scope="col" { (heading) } } } }
                tbody { @for row in &rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    };
    let head = html! {
        p.eyebrow { "Sweep" }
        h1 { (title(sweep)) }
        p.note { "Each device was to have the state " (sweep.state) " first. The figures are those of the middle repetition." }
        @for doubt in other_states(sweep) { p.note { (doubt) } }
    };
    let sections = [
        Section { id: "sweep", short: "", heading: "", body: head },
        Section { id: "pictures", short: "Pictures", heading: "Over the values", body: figures(&charts) },
        Section {
            id: "table",
            short: "Table",
            heading: "All figures",
            body: html! {
                (table)
                @if let Some(sentence) = left_out(sweep) { p.note { (sentence) } }
                p.note { (WRITE_AMPLIFICATION) }
                @for sentence in regime_notes(sweep) { p.note { (sentence) } }
            },
        },
    ];
    page(&title(sweep), &sections, &charts.iter().collect::<Vec<_>>(), &sweep.flashlab)
}

/// What the column of the regimes means, as far as it has values.
fn regime_notes(sweep: &Sweep) -> Vec<&'static str> {
    let has = |regime: Regime| {
        sweep.points.iter().flat_map(|point| &point.rows).any(|row| row.regime == regime.name())
    };
    let of_one_rate = |row: &RunRow| row.mode == Mode::Write && row.regime.is_empty();
    let has_one_rate = sweep.points.iter().flat_map(|point| &point.rows).any(of_one_rate);
    let one_rate = has_one_rate.then_some(
        "Writes without a regime had one rate from the begin of the run to its end; a buffer that is larger than what it wrote would not \
         show.",
    );
    let notes = [
        (
            Regime::Sustained,
            "Sustained is what lasts, and burst the writes before it, which the device buffered.",
        ),
        (
            Regime::Unknown,
            "Unknown is a regime that the run does not show: its writes may all be buffered. Give the plan a larger io_count.",
        ),
    ];
    notes.into_iter().filter(|(regime, _)| has(*regime)).map(|(_, note)| note).chain(one_rate).collect()
}

/// A sentence for each point that did not reach the state of the sweep.
fn other_states(sweep: &Sweep) -> Vec<String> {
    let others = sweep.points.iter().take(SHOWN_MOST).filter(|point| point.state != sweep.state);
    let sentence = |point: &SweepPoint| {
        let pairs =
            sweep.keys.iter().zip(&point.values).map(|(key, value)| format!("{} = {value}", short(key)));
        let why = point.doubts.first().map_or(String::new(), |doubt| format!(". {doubt}"));
        format!("{}: {}{why}", pairs.collect::<Vec<_>>().join(", "), point.state)
    };
    others.map(sentence).collect()
}

fn title(sweep: &Sweep) -> String {
    format!("{}: {} over {}", sweep.device, sweep.plan, sweep.keys.join(" and "))
}

/// The headings, and a row for each combination, experiment and mode.
fn table(sweep: &Sweep) -> (Vec<String>, Vec<Vec<String>>) {
    let figures = ["experiment", "mode", "regime", "mean", "p50", "p99", "p99.9", "IO/s", "bytes/s", "WA"];
    let keys = sweep.keys.iter().map(|key| short(key).to_owned());
    let headings = keys.chain(figures.map(str::to_owned)).collect();
    let mut rows = Vec::new();
    for point in sweep.points.iter().take(SHOWN_MOST) {
        for row in &point.rows {
            let response = &row.response;
            let figures = [
                series_name(row),
                mode_words(row.mode).to_owned(),
                if row.regime.is_empty() { units::UNKNOWN } else { row.regime }.to_owned(),
                units::time(response.mean_ns),
                units::time(response.p50_ns as f64),
                units::time(response.p99_ns as f64),
                units::time(response.p999_ns as f64),
                units::digits(row.ios_per_s),
                units::rate(row.bytes_per_s),
                row.write_amplification.map_or(units::UNKNOWN.to_owned(), |factor| format!("{factor:.2}")),
            ];
            rows.push(point.values.iter().cloned().chain(figures).collect());
        }
    }
    (headings, rows)
}

/// The last part of a key, which is enough for a heading.
fn short(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn series_name(row: &RunRow) -> String {
    if row.label.is_empty() { row.experiment.clone() } else { format!("{} {}", row.experiment, row.label) }
}

/// As [`series_name`], with its regime: `RW sustained`.
fn line_name(row: &RunRow) -> String {
    format!("{} {}", series_name(row), row.regime).trim_end().to_owned()
}

/// A line: an experiment's reads or writes, with one value for each key but the first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    experiment: usize,
    is_write: bool,
    others: Vec<String>,
    name: String,
    /// The experiment, without the value of the plan's parameter.
    group: String,
}

/// How a figure is drawn.
struct Drawn {
    id: &'static str,
    label: &'static str,
    unit: &'static str,
    scale: &'static str,
    of: fn(&RunRow) -> Option<f64>,
}

const DRAWN: [Drawn; 3] = [
    Drawn {
        id: "throughput",
        label: "throughput",
        unit: "bytes/s",
        scale: "linear",
        of: |row| Some(row.bytes_per_s),
    },
    Drawn {
        id: "p99",
        label: "response time at p99",
        unit: "ns",
        scale: "log10",
        of: |row| Some(row.response.p99_ns as f64).filter(|&ns| ns > 0.0),
    },
    Drawn {
        id: "write-amplification",
        label: "write amplification",
        unit: "ratio",
        scale: "linear",
        of: |row| row.write_amplification.filter(|_| row.mode == Mode::Write),
    },
];

/// More lines than this in one chart cannot be told apart.
const LINES_MOST: usize = 8;

const COLOURS: [&str; 10] = ["rr", "rw", "sr", "sw", "run1", "run2", "run3", "run4", "run5", "run0"];

/// Each figure in one chart or, if these are many lines, in a chart for each experiment.
fn charts(sweep: &Sweep) -> Vec<Chart> {
    let lines: BTreeSet<Line> = sweep.points.iter().flat_map(|point| lines_of(sweep, point)).collect();
    let mut groups: Vec<(String, Vec<&Line>)> = Vec::new();
    for line in &lines {
        let name = if lines.len() > LINES_MOST { line.group.clone() } else { String::new() };
        match groups.iter_mut().find(|(group, _)| *group == name) {
            Some((_, lines)) => lines.push(line),
            None => groups.push((name, vec![line])),
        }
    }
    let charts = DRAWN.iter().flat_map(|drawn| {
        groups.iter().enumerate().filter_map(|(index, group)| chart(sweep, drawn, index, group))
    });
    charts.collect()
}

/// `None` if no line of the group has the figure.
fn chart(sweep: &Sweep, drawn: &Drawn, index: usize, (group, lines): &(String, Vec<&Line>)) -> Option<Chart> {
    let (first, firsts) = (short(&sweep.keys[0]), firsts(sweep));
    let series = series(sweep, drawn, group, lines);
    let axis = |label: &str, scale, unit: &str, labels| ChartAxis {
        label: label.to_owned(),
        scale,
        unit: unit.to_owned(),
        labels,
    };
    let figure = units::sentence(drawn.label).trim_end_matches('.').to_owned();
    let of = if group.is_empty() { String::new() } else { format!(" of {group}") };
    (!series.is_empty()).then(|| Chart {
        id: format!("{}-{index}", drawn.id),
        title: format!("{figure}{of} over {first}"),
        caption: "One line for each experiment, reads and writes apart.".to_owned(),
        wide: group.is_empty(),
        drawing: Drawing {
            values: Figures((0..firsts.len()).map(|index| Some(index as f64)).collect()),
            x: axis(first, "ordinal", "", firsts),
            y: axis(drawn.label, drawn.scale, drawn.unit, Vec::new()),
            series,
            marks: Vec::new(),
            level: None,
        },
    })
}

/// The values of the first key, in the order in which they were given.
fn firsts(sweep: &Sweep) -> Vec<String> {
    let mut firsts: Vec<String> = Vec::new();
    for point in &sweep.points {
        if !firsts.contains(&point.values[0]) {
            firsts.push(point.values[0].clone());
        }
    }
    firsts
}

/// The lines that have the figure. In the chart of one experiment, its name is left out.
fn series(sweep: &Sweep, drawn: &Drawn, group: &str, lines: &[&Line]) -> Vec<ChartSeries> {
    let firsts = firsts(sweep);
    let drawn_lines = lines.iter().enumerate().filter_map(|(index, line)| {
        let value = |first: &String| {
            let point = sweep
                .points
                .iter()
                .find(|point| point.values[0] == *first && point.values[1..] == line.others[..])?;
            let place = lines_of(sweep, point).position(|found| found == **line)?;
            (drawn.of)(&point.rows[place])
        };
        let values: Vec<Option<f64>> = firsts.iter().map(value).collect();
        let colour = COLOURS[index % COLOURS.len()].to_owned();
        values.iter().any(Option::is_some).then(|| ChartSeries {
            name: line.name.strip_prefix(group).unwrap_or(&line.name).trim_start().to_owned(),
            colour: colour.clone(),
            points: colour,
            style: "line",
            values: Figures(values),
            band: None,
        })
    });
    drawn_lines.collect()
}

/// The line of each row of a point.
fn lines_of<'a>(sweep: &'a Sweep, point: &'a SweepPoint) -> impl Iterator<Item = Line> + 'a {
    point.rows.iter().map(move |row| {
        let same = |other: &&RunRow| line_name(other) != line_name(row);
        let experiment = point.rows.iter().take_while(same).count();
        let others = sweep.keys[1..].iter().zip(&point.values[1..]);
        let others: String = others.map(|(key, value)| format!(", {} {value}", short(key))).collect();
        Line {
            experiment,
            is_write: row.mode == Mode::Write,
            others: point.values[1..].to_vec(),
            group: row.experiment.clone(),
            name: format!("{} {}{others}", line_name(row), mode_words(row.mode)),
        }
    })
}
