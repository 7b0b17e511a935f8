//! A run and its twin's, or a profile that serves the run's requests, point by point.

use flashlab_analysis::{PooledPoint, TwinDifference, TwinKind};
use flashlab_bench::Purpose;
use flashlab_sim::Profile;

use super::measured::{MeasuredRun, MeasuredRuns};
use super::rerun::ConditionedDevice;
use crate::ModelError;

/// Compares what benchmarks of both measured, by the points that both have. All repetitions of a point count together, of several
/// benchmarks as well.
pub fn compare_runs(device: &[MeasuredRuns], twin: &[MeasuredRuns]) -> TwinDifference {
    let all = |runs: &[MeasuredRuns]| PooledPoint::pool(runs.iter().flat_map(|run| points(run, |_| true)));
    TwinDifference::of(all(device), &all(twin), twin.first().map_or(TwinKind::Mechanism, |twin| twin.kind))
}

/// Serves the requests of a run once more, on the device that a profile describes, and compares. So both have served the
/// same requests with the same pauses, and the same IOs count.
///
/// # Errors
/// When the profile's parts do not fit together, or its device refuses a request.
pub fn compare_with_profile(device: &MeasuredRuns, profile: &Profile) -> Result<TwinDifference, ModelError> {
    compare_where(device, profile, |_| true)
}

/// The same by some of the runs; the profile serves all of them.
pub(super) fn compare_where(
    device: &MeasuredRuns,
    profile: &Profile,
    counts: impl Fn(&MeasuredRun) -> bool,
) -> Result<TwinDifference, ModelError> {
    let first = device.runs.iter().position(|run| !run.purpose.is_state()).unwrap_or(device.runs.len());
    let states: Vec<&MeasuredRun> = device.runs[..first].iter().collect();
    let runs: Vec<&MeasuredRun> = device.runs[first..].iter().collect();
    let responses = ConditionedDevice::new(profile, device.space, &states)?.serve(profile, &runs)?;
    let served = runs.iter().zip(responses).filter(|(run, _)| counts(run));
    let served = served.filter_map(|(run, responses)| point(run, responses.concat()));
    Ok(TwinDifference::of(points(device, &counts), &PooledPoint::pool(served), kind_of(profile)))
}

fn kind_of(profile: &Profile) -> TwinKind {
    if profile.response_tree.is_some() { TwinKind::ResponseTree } else { TwinKind::Mechanism }
}

fn points(runs: &MeasuredRuns, counts: impl Fn(&MeasuredRun) -> bool) -> Vec<PooledPoint> {
    let runs = runs.runs.iter().filter(|run| counts(run));
    PooledPoint::pool(runs.filter_map(|run| point(run, run.all_responses())))
}

/// The run's point with these response times; `None` of a run that is no point.
fn point(run: &MeasuredRun, responses: Vec<u64>) -> Option<PooledPoint> {
    let Purpose::Point { plan, experiment, regime, value, label, .. } = &run.purpose else { return None };
    if run.is_undecided {
        return None;
    }
    Some(PooledPoint {
        micro_benchmark: plan.clone(),
        experiment: experiment.clone(),
        regime: *regime,
        value: *value,
        label: label.clone(),
        repetitions: vec![responses],
    })
}
