//! The tables of a report as rows for CSV. Each figure has the unit in the name of its column.

use flashlab_analysis::findings::{Distribution, Findings, ModeFigures, Regime, RunSummary};
use flashlab_analysis::inference::{Finding, Inference, Value, Verdict};
use flashlab_analysis::{ClassRow, ClassTable, Comparison, ExperimentKey, StatisticRatio};
use flashlab_base::Mode;
use serde::Serialize;

use crate::points;

/// The reads, or the writes, of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// The plan, or `baseline`.
    pub plan: String,
    /// The pattern.
    pub experiment: String,
    /// The regime of the experiment's writes: `burst`, `sustained` or `unknown`; empty if the device has one regime, or nothing is written.
    pub regime: &'static str,
    /// The parameter that varies; empty if none does.
    pub parameter: String,
    /// Its value.
    pub value: f64,
    /// The value as a text.
    pub label: String,
    /// The run's number.
    pub run: u32,
    /// From 1.
    pub repetition: u32,
    /// Of reads, or of writes.
    pub mode: Mode,
    /// Response times.
    #[serde(flatten)]
    pub response: Distribution,
    /// IOs a second.
    pub ios_per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Of the whole run.
    pub write_amplification: Option<f64>,
    /// Failed IOs of the whole run.
    pub failed_ios: u64,
    /// What to doubt about the run.
    pub flags: String,
}

/// One row for the reads of each run, and one for its writes.
pub fn run_rows(findings: &Findings) -> Vec<RunRow> {
    let baselines = findings.baselines.iter().flat_map(|baseline| {
        let regime = findings.lasting_regime(&baseline.pattern);
        rows_of(&baseline.run, ["baseline", &baseline.pattern, "", ""], regime, 0.0)
    });
    let points = findings.micro_benchmarks.iter().flat_map(|micro| {
        micro.experiments.iter().flat_map(move |experiment| {
            experiment.points.iter().flat_map(move |point| {
                let names = [micro.name.as_str(), &experiment.pattern, &micro.parameter, &point.label];
                point.runs.iter().flat_map(move |run| rows_of(run, names, experiment.regime, point.value))
            })
        })
    });
    baselines.chain(points).collect()
}

/// As [`run_rows`], but only the middle repetition of each point.
pub fn middle_rows(findings: &Findings) -> Vec<RunRow> {
    let mut middle = findings.clone();
    for micro in &mut middle.micro_benchmarks {
        for experiment in &mut micro.experiments {
            for point in &mut experiment.points {
                point.runs = points::middle(point).cloned().into_iter().collect();
            }
        }
    }
    run_rows(&middle)
}

fn rows_of(
    run: &RunSummary,
    [plan, experiment, parameter, label]: [&str; 4],
    regime: Option<Regime>,
    value: f64,
) -> Vec<RunRow> {
    let row = |mode: &ModeFigures| RunRow {
        plan: plan.to_owned(),
        experiment: experiment.to_owned(),
        regime: regime.map_or("", Regime::name),
        parameter: parameter.to_owned(),
        value,
        label: label.to_owned(),
        run: run.run,
        repetition: run.repetition,
        mode: mode.mode,
        response: mode.response.clone(),
        ios_per_s: mode.ios_per_s,
        bytes_per_s: mode.throughput_bytes_per_s,
        write_amplification: run.write_amplification,
        failed_ios: run.failed_ios,
        flags: run.flags.join(" "),
    };
    run.modes.iter().map(row).collect()
}

/// One statistic of one experiment: another run against the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatioRow {
    /// The first run's device.
    pub first: String,
    /// The other run's device.
    pub other: String,
    /// The first run's folder.
    pub first_run: String,
    /// The other run's folder.
    pub other_run: String,
    /// Which experiment.
    #[serde(flatten)]
    pub key: ExperimentKey,
    /// The ratio and its verdict.
    #[serde(flatten)]
    pub ratio: StatisticRatio,
}

/// One row for each ratio of a comparison.
pub fn ratio_rows(comparison: &Comparison) -> Vec<RatioRow> {
    let first = comparison.devices.first().cloned().unwrap_or_default();
    let folder =
        |run: usize| comparison.runs.get(run).map_or(String::new(), |details| details.folder.clone());
    let mut rows = Vec::new();
    for experiment in &comparison.experiments {
        for (run, (other, ratios)) in comparison.devices.iter().zip(&experiment.ratios).enumerate() {
            rows.extend(ratios.iter().flatten().map(|ratio| RatioRow {
                first: first.clone(),
                other: other.clone(),
                first_run: folder(0),
                other_run: folder(run),
                key: experiment.key.clone(),
                ratio: ratio.clone(),
            }));
        }
    }
    rows
}

/// One inferred parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParameterRow {
    /// Its name.
    pub parameter: &'static str,
    /// Its value; empty if none was found.
    pub value: Option<Value>,
    /// The value's unit.
    pub unit: &'static str,
    /// The probability that it is right.
    pub confidence: f64,
    /// `found`, `undetermined` or `not identifiable`.
    pub verdict: Verdict,
    /// The evidence.
    pub evidence: String,
    /// What was written to find it.
    pub bytes_written: u64,
}

/// One row for each parameter of an inference.
pub fn parameter_rows(inference: &Inference) -> Vec<ParameterRow> {
    let row = |finding: &Finding| ParameterRow {
        parameter: finding.parameter.name(),
        value: finding.value.clone(),
        unit: finding.parameter.unit().name(),
        confidence: finding.confidence,
        verdict: finding.verdict,
        evidence: finding.evidence.clone(),
        bytes_written: finding.bytes_written.0,
    };
    inference.findings.iter().map(row).collect()
}

/// One class of IOs of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunClassRow {
    /// The run's name.
    pub run: String,
    /// The class.
    #[serde(flatten)]
    pub class: ClassRow,
}

/// One row for each class of these runs.
pub fn class_rows<'a>(runs: impl IntoIterator<Item = (&'a str, &'a ClassTable)>) -> Vec<RunClassRow> {
    let rows = |(run, table): (&str, &'a ClassTable)| {
        let run = run.to_owned();
        table.rows.iter().map(move |class| RunClassRow { run: run.clone(), class: class.clone() })
    };
    runs.into_iter().flat_map(rows).collect()
}
