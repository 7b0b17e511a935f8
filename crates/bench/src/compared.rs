//! Reads the folder of a run and returns the response times that a comparison needs.
//!
//! # Method
//! 1. The findings contain which runs belong to which experiment, and which IOs count
//!    ([`rebuild()`](fn@crate::rebuild)).
//! 2. The samples of these runs give the response times in the order of submission, reads and writes apart.
//!    Failed IOs are in no figure.

use std::ops::Range;
use std::path::Path;

use flashlab_analysis::findings::{Findings, Regime, RunSummary};
use flashlab_analysis::{ComparedRun, ExperimentKey, Responses, RunDetails, TransferTotals};
use flashlab_base::Mode;
use flashlab_samples::SegmentIndex;

use crate::BenchError;
use crate::rebuild::rebuild_opened;

/// The name of the baselines among the micro-benchmarks.
const BASELINE: &str = "baseline";
const MODES: [Mode; 2] = [Mode::Read, Mode::Write];

/// The run in this folder, complete or not, for [`compare`](fn@flashlab_analysis::compare).
///
/// # Errors
/// If the folder contains no run, or its files are damaged.
pub fn compared_run(path: &Path) -> Result<ComparedRun, BenchError> {
    let run = crate::open_run(path)?;
    let (findings, _) = rebuild_opened(&run)?;
    let (folder, manifest, _) = run;
    let segments = folder.segment_index();
    let mut experiments = Vec::new();
    for (key, runs) in experiment_runs(&findings) {
        let runs: Vec<Counted> = runs.iter().map(|run| (run.run, run.counted_positions())).collect();
        experiments.extend(responses(&segments, &key, &runs)?);
    }
    if let Some(burst) = longest_burst(&findings) {
        experiments.extend(responses(&segments, &baseline_key("RW", Some(Regime::Burst)), &[burst])?);
    }
    let warnings = findings.severe_warnings().map(|warning| warning.message.clone());
    let horizon = findings.stages_looked_for().map(|written| {
        format!("the regime of its writes is known as far as {written} after an idle time: a larger buffer would not show")
    });
    Ok(ComparedRun {
        device: findings.characteristics.device.clone(),
        details: RunDetails {
            folder: path.display().to_string(),
            started: manifest.started,
            state: findings.method.state.clone(),
            warnings: warnings.chain(horizon).collect(),
        },
        characteristics: findings.characteristics,
        experiments,
    })
}

/// A run, and the positions of the IOs that count.
type Counted = (u32, Range<u64>);

fn baseline_key(pattern: &str, regime: Option<Regime>) -> ExperimentKey {
    ExperimentKey {
        micro_benchmark: BASELINE.to_owned(),
        parameter: String::new(),
        pattern: pattern.to_owned(),
        regime,
        value: 0.0,
        label: String::new(),
        mode: Mode::Read,
    }
}

/// Random writes after the idle time that brought back the most, as long as they were faster than what lasts.
fn longest_burst(findings: &Findings) -> Option<Counted> {
    let recovery = &findings.stages.as_ref()?.recovery;
    let longest =
        recovery.iter().max_by_key(|recovery| recovery.bytes).filter(|longest| longest.bytes > 0)?;
    Some((longest.run, 0..longest.bytes / findings.method.io_size.0.max(1)))
}

/// All experiments of a run, each with its repetitions. The mode is not known here, so it is set to read.
fn experiment_runs(findings: &Findings) -> Vec<(ExperimentKey, Vec<&RunSummary>)> {
    let baselines = findings.baselines.iter().map(|baseline| {
        let regime = findings.lasting_regime(&baseline.pattern);
        (baseline_key(&baseline.pattern, regime), vec![&baseline.run])
    });
    let points = findings.micro_benchmarks.iter().flat_map(|micro| {
        micro.experiments.iter().flat_map(move |experiment| {
            experiment.points.iter().map(move |point| {
                let key = ExperimentKey {
                    micro_benchmark: micro.name.clone(),
                    parameter: micro.parameter.clone(),
                    pattern: experiment.pattern.clone(),
                    regime: experiment.regime,
                    value: point.value,
                    label: point.label.clone(),
                    mode: Mode::Read,
                };
                (key, point.runs.iter().collect())
            })
        })
    });
    baselines.chain(points).collect()
}

/// The response times of an experiment's reads and of its writes, as far as it has them.
fn responses(
    segments: &SegmentIndex,
    key: &ExperimentKey,
    runs: &[Counted],
) -> Result<Vec<(ExperimentKey, Responses)>, BenchError> {
    let mut repetitions: [Vec<Vec<u64>>; 2] = Default::default();
    let mut throughputs = [TransferTotals::default(); 2];
    for (run, positions) in runs {
        let mut counted = Vec::new();
        segments.each_sample(*run, |sample| {
            if sample.errno == 0 && positions.contains(&sample.position) {
                counted.push(*sample);
            }
        })?;
        // The samples of several processes follow each other in the file.
        counted.sort_by_key(|sample| sample.submitted);
        let start = counted.first().map_or(0, |sample| sample.submitted.0);
        let end = counted.iter().map(|sample| sample.completed.0).max().unwrap_or(start);
        for ((mode, of_mode), throughput) in MODES.into_iter().zip(&mut repetitions).zip(&mut throughputs) {
            let of_this_mode = || counted.iter().filter(|sample| sample.mode == mode);
            of_mode.push(of_this_mode().map(|sample| sample.response().0).collect());
            throughput.ios += of_this_mode().count() as u64;
            throughput.bytes += of_this_mode().map(|sample| sample.size.0).sum::<u64>();
            throughput.duration_ns += end.saturating_sub(start);
        }
    }
    let found = MODES.into_iter().zip(&repetitions).zip(throughputs).filter_map(
        |((mode, repetitions), throughput)| {
            let responses = Responses::new(repetitions)?.with_throughput(throughput);
            Some((ExperimentKey { mode, ..key.clone() }, responses))
        },
    );
    Ok(found.collect())
}
