//! Turns the picture of an estimator into a chart of the page.

use std::collections::BTreeMap;

use flashlab_analysis::inference::{Axis, Finding, Picture, Series, Style};

use super::confidence;
use crate::charts::{Chart, ChartAxis, ChartSeries, Drawing, Figures, order_key};
use crate::units::sentence;

/// Series have these colours, in this order: distinguishable under the kinds of colour blindness.
const COLOURS: [&str; 6] = ["sr", "sw", "rw", "run2", "run1", "run4"];

/// A chart for each picture. Its identifiers begin with `prefix`. Findings with the same picture share the
/// chart.
pub fn charts(findings: &[&Finding], prefix: &str) -> Vec<Chart> {
    let mut pictures: Vec<(&Picture, Vec<&Finding>)> = Vec::new();
    for &finding in findings {
        let Some(picture) = &finding.picture else { continue };
        match pictures.iter_mut().find(|(known, _)| {
            // To a reader, the same points with another mark are the same picture.
            known.series == picture.series && known.caption == picture.caption
        }) {
            Some((_, shared)) => shared.push(finding),
            None => pictures.push((picture, vec![finding])),
        }
    }
    let charts = pictures.iter().enumerate();
    charts.map(|(index, (picture, shared))| chart(format!("{prefix}-{index}"), picture, shared)).collect()
}

fn chart(id: String, picture: &Picture, findings: &[&Finding]) -> Chart {
    let values: Vec<String> = findings.iter().map(|finding| value(finding)).collect();
    let mut marks = Vec::new();
    for mark in
        findings.iter().filter_map(|finding| finding.picture.as_ref()).flat_map(|picture| &picture.marks)
    {
        if !marks.contains(mark) {
            marks.push(mark.clone());
        }
    }
    marks.sort_by(|a, b| a.0.total_cmp(&b.0));
    Chart {
        id,
        title: values.join("; "),
        caption: sentence(&picture.caption),
        wide: false,
        drawing: Drawing { marks, ..drawing(picture) },
    }
}

/// `Read page: 4 KiB (99.2 %)`, or `Read page: undetermined`.
fn value(finding: &Finding) -> String {
    let title = finding.parameter.title();
    match finding.value_in_words().as_str() {
        "" => format!("{title}: {}", finding.verdict),
        value => format!("{title}: {value} ({})", confidence(finding.confidence)),
    }
}

/// All series over the x values of all of them. If a series has several points at one x, the x is repeated.
pub(crate) fn drawing(picture: &Picture) -> Drawing {
    let is_shown = |&(x, y): &(f64, f64)| {
        let fits = |value: f64, logarithmic: bool| value.is_finite() && (!logarithmic || value > 0.0);
        fits(x, picture.x.logarithmic) && fits(y, picture.y.logarithmic)
    };
    let columns: Vec<BTreeMap<u64, Vec<f64>>> = picture
        .series
        .iter()
        .map(|series| {
            let mut column: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for &(x, y) in series.points.iter().filter(|point| is_shown(point)) {
                column.entry(order_key(x)).or_default().push(y);
            }
            column
        })
        .collect();
    let mut times: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
    for (series, column) in picture.series.iter().zip(&columns) {
        for &(x, _) in series.points.iter().filter(|point| is_shown(point)) {
            let count = column[&order_key(x)].len();
            let entry = times.entry(order_key(x)).or_insert((x, 0));
            entry.1 = entry.1.max(count);
        }
    }
    let values = times.values().flat_map(|&(x, count)| std::iter::repeat_n(Some(x), count)).collect();
    let series = picture.series.iter().zip(&columns).enumerate();
    let is_alone = picture.series.iter().filter(|series| series.style == Style::Line).count() < 2;
    Drawing {
        x: axis(&picture.x, "log2"),
        y: axis(&picture.y, "log10"),
        values: Figures(values),
        series: series
            .map(|(index, (series, column))| drawn(index, series, is_alone, column, &times))
            .collect(),
        marks: Vec::new(),
        level: None,
    }
}

fn drawn(
    index: usize,
    series: &Series,
    is_alone: bool,
    column: &BTreeMap<u64, Vec<f64>>,
    times: &BTreeMap<u64, (f64, usize)>,
) -> ChartSeries {
    let colour = COLOURS[index % COLOURS.len()];
    let mut values = Vec::new();
    for (key, &(_, count)) in times {
        let own = column.get(key).map(Vec::as_slice).unwrap_or_default();
        values.extend((0..count).map(|nth| own.get(nth).copied()));
    }
    /// A line through more points than this is drawn without the points. So are several lines, whose points
    /// may cover each other.
    const POINTS_MOST: usize = 64;
    let style = match series.style {
        Style::Dots => "dots",
        Style::Line if series.points.len() > POINTS_MOST || !is_alone => "solid",
        Style::Line => "line",
        Style::Fitted => "dashed",
    };
    ChartSeries {
        name: series.name.clone(),
        colour: colour.to_owned(),
        points: colour.to_owned(),
        style,
        values: Figures(values),
        band: None,
    }
}

fn axis(axis: &Axis, logarithmic: &'static str) -> ChartAxis {
    let scale = if axis.logarithmic { logarithmic } else { "linear" };
    ChartAxis { label: axis.label.clone(), scale, unit: axis.unit.clone(), labels: Vec::new() }
}
