//! The journal: each step of a probe, for the recording, and each pattern, for the probe's plan.

use std::mem;

use flashlab_base::{Bytes, Nanos, Operation, Sample, Seed};
use flashlab_engine::{RunOutcome, StopReason};
use flashlab_plan::{Experiment, Pattern};
use flashlab_samples::{FailedIo, PROBE_STEPS_VERSION, ProbeRun, ProbeRunEnd, ProbeStep};

use crate::lab::{LabRun, Limits};
use crate::progress::InferenceProgress;

/// The patterns of the current probe. Steps go to the [`InferenceProgress`] as they are made.
#[derive(Default)]
pub(crate) struct Journal {
    experiments: Vec<Experiment>,
}

impl Journal {
    /// The name under which the probe's plan has a pattern, or will have it. A repetition is the same experiment.
    pub(crate) fn experiment(&self, name: &str, pattern: &Pattern) -> String {
        let same = |experiment: &&Experiment| is_repetition(&experiment.name, name);
        if let Some(kept) = self.experiments.iter().find(|kept| kept.pattern == *pattern && same(kept)) {
            return kept.name.clone();
        }
        match self.experiments.iter().filter(same).count() {
            0 => name.to_owned(),
            before => format!("{name}-{}", before + 1),
        }
    }

    /// Keeps a pattern under its name.
    pub(crate) fn keep(&mut self, name: &str, pattern: &Pattern) {
        if self.experiments.iter().all(|kept| kept.name != name) {
            self.experiments.push(Experiment { name: name.to_owned(), pattern: pattern.clone(), vary: None });
        }
    }

    /// The patterns since the last time.
    pub(crate) fn take_experiments(&mut self) -> Vec<Experiment> {
        mem::take(&mut self.experiments)
    }
}

/// The first line of a recording.
pub(crate) fn device_step(limits: Limits) -> ProbeStep {
    ProbeStep::Device {
        version: PROBE_STEPS_VERSION,
        capacity_bytes: limits.capacity.0,
        block_bytes: limits.block.0,
        depth: limits.depth,
    }
}

/// Records a pattern that was run.
pub(crate) fn record_run(
    progress: &mut dyn InferenceProgress,
    (experiment, seed): (String, Seed),
    run: &LabRun,
    now: Nanos,
) {
    let outcome = &run.outcome;
    let step = ProbeStep::Run(ProbeRun {
        run: 0,
        experiment,
        seed,
        ended: end_of(outcome.ended),
        begin_ns: outcome.begin.0,
        end_ns: outcome.end.0,
        now_ns: now.0,
        first_failure: outcome.first_failure.map(|failure| FailedIo {
            operation: failure.operation,
            offset_bytes: failure.offset.0,
            size_bytes: failure.size.0,
            errno: failure.error.errno,
        }),
        loss: outcome.loss.clone(),
        refusal: run.refusal.clone(),
        device_traffic_bytes: outcome.disturbance.device_traffic.map(|bytes| bytes.0),
        cpu_wait_ns: outcome.disturbance.cpu_wait.map(|time| time.0),
        thermal_throttles: outcome.disturbance.thermal_throttles,
    });
    progress.step(step, &run.samples);
}

fn end_of(reason: StopReason) -> ProbeRunEnd {
    match reason {
        StopReason::PatternDone | StopReason::ObserverSatisfied => ProbeRunEnd::PatternDone,
        StopReason::TimeUsed => ProbeRunEnd::TimeUsed,
        StopReason::Interrupted => ProbeRunEnd::Interrupted,
        StopReason::DeviceFailed => ProbeRunEnd::DeviceFailed,
    }
}

/// The totals of a recorded run.
pub(crate) fn outcome_of(run: &ProbeRun, samples: &[Vec<Sample>]) -> RunOutcome {
    use flashlab_device::{DisturbanceCounters, IoError};
    use flashlab_engine::Failure;

    let all = || samples.iter().flatten();
    let moved = |operation: Operation| {
        let own = all().filter(|sample| Operation::from(sample.mode) == operation);
        Bytes(own.map(|sample| sample.size.0).sum())
    };
    let (begin, end) = run.span();
    RunOutcome {
        ended: match run.ended {
            ProbeRunEnd::PatternDone => StopReason::PatternDone,
            ProbeRunEnd::TimeUsed => StopReason::TimeUsed,
            ProbeRunEnd::Interrupted => StopReason::Interrupted,
            ProbeRunEnd::DeviceFailed => StopReason::DeviceFailed,
        },
        ios: all().count() as u64,
        failed: all().filter(|sample| sample.errno != 0).count() as u64,
        first_failure: run.first_failure.map(|failed| Failure {
            operation: failed.operation,
            offset: failed.offset(),
            size: failed.size(),
            error: IoError { errno: failed.errno },
        }),
        loss: run.loss.clone(),
        read: moved(Operation::Read),
        written: moved(Operation::Write),
        begin,
        end,
        disturbance: DisturbanceCounters {
            device_traffic: run.device_traffic_bytes.map(Bytes),
            cpu_wait: run.cpu_wait_ns.map(Nanos),
            thermal_throttles: run.thermal_throttles,
        },
    }
}

/// Whether a probe is kept as this one, or as one of its repetitions: the name, or the name, `-` and a number.
fn is_repetition(kept: &str, name: &str) -> bool {
    let number = kept.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    kept == name || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_repeats_the_one_of_its_name_and_not_one_whose_name_begins_so() {
        assert!(is_repetition("few-pages", "few-pages"));
        assert!(is_repetition("few-pages-12", "few-pages"));
        for other in ["few-pages-read", "few-pages-2-read", "few-pages2", "few"] {
            assert!(!is_repetition(other, "few-pages"), "{other}");
        }
    }
}
