//! The results of a user's own plan, run by run.
//!
//! uFLIP's row and hints do not apply to such a plan, because it is run without the methodology.
//!
//! Invariant: the figures in a line are those of one run, the middle repetition by its mean.

use flashlab_analysis::findings::{
    Distribution, ExperimentFindings, Findings, MicroBenchmark, Point, Regime, RunSummary,
};
use flashlab_base::Mode;
use maud::Markup;

use crate::charts::{Chart, ChartAxis, ChartSeries, Drawing, Figures};
use crate::page;
use crate::units;
use crate::words::mode_words;
use crate::writer::{DIM, Writer};

/// Whether plans were run as they are written, without the baselines of the methodology.
pub(crate) fn is_own_plan(findings: &Findings) -> bool {
    findings.baselines.is_empty() && !findings.micro_benchmarks.is_empty()
}

/// A table for each plan.
pub(crate) fn tables(out: &mut Writer<'_>, findings: &Findings) {
    findings.micro_benchmarks.iter().for_each(|plan| table(out, plan));
}

/// What the runs show of the regimes of their writes: `RW: 16.1 MiB in 71.3 us each, then 651 us each, which lasts`. Of several values the
/// first is shown.
pub(crate) fn regime_sentences(plan: &MicroBenchmark) -> Vec<String> {
    let sentence = |experiment: &ExperimentFindings| {
        let [first, others @ ..] = experiment.points.as_slice() else { return None };
        // The warning has the evidence of what is unknown.
        let is_shown = !experiment.regime_evidence.is_empty() && experiment.regime != Some(Regime::Unknown);
        let place = match (first.label.as_str(), others.is_empty()) {
            ("", _) => String::new(),
            (label, true) => format!(" at {label}"),
            (label, false) => format!(" at {label}, the first of {} values", others.len() + 1),
        };
        let bursts = match experiment.regime {
            Some(Regime::Sustained) => {
                format!(" ({name} is what lasts, {name}.burst what came before)", name = experiment.pattern)
            }
            _ => String::new(),
        };
        is_shown.then(|| format!("{}{place}: {}{bursts}.", experiment.pattern, experiment.regime_evidence))
    };
    plan.experiments.iter().filter_map(sentence).collect()
}

/// The results of experiments that vary nothing, because a single point is no curve.
pub(crate) fn facts(plans: &[&MicroBenchmark]) -> Markup {
    let experiments = plans.iter().flat_map(|plan| &plan.experiments);
    let fact = |experiment: &'_ ExperimentFindings| {
        let run = experiment.points.first().and_then(middle)?;
        let in_words = |counted: Counted<'_>| {
            let [mean, p50, p90, p99, p999, max, ios, rate] = counted.figures();
            format!(
                "{}: mean {mean}, p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}, max {max}, {ios} IO/s, {rate}",
                counted.name
            )
        };
        let mut figures: Vec<String> = counted(run).into_iter().map(in_words).collect();
        figures.extend(run.write_amplification.map(|factor| format!("write amplification {factor:.2}")));
        Some((experiment.name(), figures.join("; ")))
    };
    let found: Vec<(String, String)> = experiments.filter_map(fact).collect();
    if found.is_empty() {
        return Markup::default();
    }
    page::facts(found.iter().map(|(name, text)| (name.as_str(), Some(text.clone()))))
}

/// Below this width a line has only the mean and p99.
const WIDE: usize = 79;

fn table(out: &mut Writer<'_>, plan: &MicroBenchmark) {
    let wide = out.width() >= WIDE;
    let is_single = plan.experiments.len() == 1;
    out.blank();
    let title = match plan.parameter.as_str() {
        "" => plan.name.clone(),
        parameter => format!("{}: {parameter}", plan.name),
    };
    let headings = ["mean", "p50", "p90", "p99", "p99.9", "max", "IO/s", "bytes/s"].map(str::to_owned);
    out.line(&heading(wide, &title, headings), DIM);
    let mut factors = Vec::new();
    for experiment in &plan.experiments {
        for point in &experiment.points {
            let Some(run) = middle(point) else { continue };
            factors.extend(run.write_amplification);
            let name = match (is_single, point.label.as_str()) {
                (_, "") => experiment.name(),
                (true, label) => label.to_owned(),
                (false, label) => format!("{} {label}", experiment.name()),
            };
            for (index, counted) in counted(run).into_iter().enumerate() {
                let name = if index == 0 { name.as_str() } else { "" };
                out.line(&row(wide, name, counted.name, counted.figures()), "");
            }
        }
    }
    for sentence in regime_sentences(plan) {
        out.wrapped("", &sentence, "");
    }
    factors.sort_by(f64::total_cmp);
    if let (Some(least), Some(most)) = (factors.first(), factors.last()) {
        let (least, most) = (format!("{least:.2}"), format!("{most:.2}"));
        let range = if least == most { most } else { format!("{least} to {most}") };
        out.line(&format!("write amplification {range}"), DIM);
    }
}

/// The IOs of a run that a line shows.
struct Counted<'a> {
    name: &'static str,
    response: &'a Distribution,
    ios_per_s: f64,
    bytes_per_s: f64,
}

/// Reads and writes apart.
fn counted(run: &RunSummary) -> Vec<Counted<'_>> {
    let modes = run.modes.iter().map(|mode| Counted {
        name: mode_words(mode.mode),
        response: &mode.response,
        ios_per_s: mode.ios_per_s,
        bytes_per_s: mode.throughput_bytes_per_s,
    });
    modes.collect()
}

impl Counted<'_> {
    fn figures(&self) -> [String; 8] {
        let response = self.response;
        [
            units::time(response.mean_ns),
            units::time(response.p50_ns as f64),
            units::time(response.p90_ns as f64),
            units::time(response.p99_ns as f64),
            units::time(response.p999_ns as f64),
            units::time(response.max_ns as f64),
            units::digits(self.ios_per_s),
            units::rate(self.bytes_per_s),
        ]
    }
}

fn row(wide: bool, name: &str, mode: &str, [mean, p50, _, p99, p999, max, ios, rate]: [String; 8]) -> String {
    let row = if wide {
        let name = cut(name, 14);
        format!("{name:<14} {mode:<6} {mean:>7} {p50:>7} {p99:>7} {p999:>7} {max:>7} {ios:>7} {rate:>9}")
    } else {
        let name = cut(name, 12);
        format!("{name:<12} {mode:<6} {mean:>8} {p99:>8}")
    };
    row.trim_end().to_owned()
}

/// A row with one text instead of the name and the mode.
fn heading(wide: bool, title: &str, headings: [String; 8]) -> String {
    let length = if wide { 21 } else { 19 };
    let figures = row(wide, "", "", headings).split_off(length);
    format!("{:<length$}{figures}", cut(title, length))
}

/// Shortens a text: names in a user's plan may be longer than their column.
fn cut(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length - 1).chain(['…']).collect()
}

/// The IOs and bytes per second of each experiment over time, for the middle repetition of its last point.
pub(crate) fn over_time(findings: &Findings) -> Vec<Chart> {
    let mut charts = Vec::new();
    for plan in &findings.micro_benchmarks {
        for experiment in &plan.experiments {
            let last = experiment.points.last();
            let Some((point, run)) = last.and_then(|point| Some((point, middle(point)?))) else { continue };
            let place = match point.label.as_str() {
                "" => String::new(),
                label => format!(", {} {label}", plan.parameter),
            };
            charts.push(Chart {
                id: format!("over-time-{}", charts.len()),
                title: format!("{}{place} over time", experiment.name()),
                caption: "What was completed in each twentieth of the run, its start-up phase included."
                    .to_owned(),
                wide: false,
                drawing: over_time_drawing(run),
            });
        }
    }
    charts
}

fn over_time_drawing(run: &RunSummary) -> Drawing {
    let axis = |label: &str, unit: &str| ChartAxis {
        label: label.to_owned(),
        scale: "linear",
        unit: unit.to_owned(),
        labels: Vec::new(),
    };
    let interval = run.modes.first().map_or(0, |mode| mode.over_time.interval_ns) as f64;
    let count = run.modes.iter().map(|mode| mode.over_time.bytes_per_s.len()).max().unwrap_or(0);
    let series = run.modes.iter().map(|mode| ChartSeries {
        name: mode_words(mode.mode).to_owned(),
        colour: if mode.mode == Mode::Read { "rr" } else { "rw" }.to_owned(),
        points: if mode.mode == Mode::Read { "rr" } else { "rw" }.to_owned(),
        style: "line",
        values: Figures(mode.over_time.bytes_per_s.iter().copied().map(Some).collect()),
        band: None,
    });
    Drawing {
        x: axis("time", "ns"),
        y: axis("throughput", "bytes/s"),
        values: Figures((0..count).map(|index| Some((index as f64 + 0.5) * interval)).collect()),
        series: series.collect(),
        marks: Vec::new(),
        level: None,
    }
}

/// The middle repetition by its mean.
pub(crate) fn middle(point: &Point) -> Option<&RunSummary> {
    let mut runs: Vec<&RunSummary> = point.runs.iter().collect();
    runs.sort_by(|a, b| a.response.mean_ns.total_cmp(&b.response.mean_ns));
    runs.get(runs.len().saturating_sub(1) / 2).copied()
}
