//! A person's own plan: what each run gave.
//!
//! uFLIP's row and hints say nothing of such a plan, which has no methodology around it.
//!
//! Invariant: the figures in a line are those of one run, the middle repetition by its mean.

use flashlab_analysis::findings::{ExperimentFindings, Findings, MicroBenchmark, Point, RunSummary};
use maud::Markup;

use crate::page;
use crate::units;
use crate::writer::{DIM, Writer};

/// Whether plans were run as they are written, without the baselines that the methodology begins with.
pub(crate) fn is_own_plan(findings: &Findings) -> bool {
    findings.baselines.is_empty() && !findings.micro_benchmarks.is_empty()
}

/// A table for each plan.
pub(crate) fn tables(out: &mut Writer<'_>, findings: &Findings) {
    findings.micro_benchmarks.iter().for_each(|plan| table(out, plan));
}

/// What the experiments gave that vary nothing: a single point is no curve.
pub(crate) fn facts(plans: &[&MicroBenchmark]) -> Markup {
    let experiments = plans.iter().flat_map(|plan| &plan.experiments);
    let fact = |experiment: &'_ ExperimentFindings| {
        let run = experiment.points.first().and_then(middle)?;
        let [mean, p50, p99, ios, rate] = figures(run);
        let figures = format!("mean {mean}, p50 {p50}, p99 {p99}, {ios} IO/s, {rate}");
        Some((experiment.pattern.clone(), figures))
    };
    let found: Vec<(String, String)> = experiments.filter_map(fact).collect();
    if found.is_empty() {
        return Markup::default();
    }
    page::facts(found.iter().map(|(name, text)| (name.as_str(), Some(text.clone()))))
}

/// Below this width a line has only the mean and p99.
const WIDE: usize = 78;

fn table(out: &mut Writer<'_>, plan: &MicroBenchmark) {
    let wide = out.width() >= WIDE;
    out.blank();
    let headings = ["mean", "p50", "p99", "IO/s", "throughput"].map(str::to_owned);
    out.line(&row(wide, &plan.name, &plan.parameter, headings), DIM);
    for experiment in &plan.experiments {
        for point in &experiment.points {
            let Some(run) = middle(point) else { continue };
            out.line(&row(wide, &experiment.pattern, &point.label, figures(run)), "");
        }
    }
}

fn figures(run: &RunSummary) -> [String; 5] {
    let response = &run.response;
    [
        units::time(response.mean_ns),
        units::time(response.p50_ns as f64),
        units::time(response.p99_ns as f64),
        units::digits(run.ios_per_s),
        units::rate(run.throughput_bytes_per_s),
    ]
}

fn row(wide: bool, name: &str, value: &str, [mean, p50, p99, ios, rate]: [String; 5]) -> String {
    let row = if wide {
        let (name, value) = (cut(name, 16), cut(value, 14));
        format!("{name:<16} {value:>14} {mean:>8} {p50:>8} {p99:>8} {ios:>8} {rate:>10}")
    } else {
        let (name, value) = (cut(name, 12), cut(value, 9));
        format!("{name:<12} {value:>9} {mean:>8} {p99:>8}")
    };
    row.trim_end().to_owned()
}

/// A person's own names may be longer than their column.
fn cut(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length - 1).chain(['…']).collect()
}

fn middle(point: &Point) -> Option<&RunSummary> {
    let mut runs: Vec<&RunSummary> = point.runs.iter().collect();
    runs.sort_by(|a, b| a.response.mean_ns.total_cmp(&b.response.mean_ns));
    runs.get(runs.len().saturating_sub(1) / 2).copied()
}
