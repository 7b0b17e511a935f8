//! Drives and targets on which the regime of writes is hard to know: no figure of the wrong regime is given.

use std::sync::atomic::AtomicBool;

use flashlab_analysis::findings::{ExperimentFindings, Point, Regime, RunEnd};
use flashlab_base::{Bytes, Nanos};
use flashlab_bench::{BenchError, Purpose, RunRecord, State, Thoroughness};

use crate::lab::{InterruptedDevice, Lab, Measured, Watch};
use crate::stages::{BUFFER, CACHE, CONTROLLER, drive};

/// A bench of a part of the drive, as of a scratch file.
fn of_a_part(parts: &[&str], size: Bytes) -> Measured {
    let mut lab = Lab::new(drive(parts), Thoroughness::Quick, &["order"]);
    lab.manifest.settings.target_size = size;
    lab.measure()
}

/// The regimes in which values were measured.
fn regimes(measured: &Measured) -> Vec<(String, Option<Regime>)> {
    let experiments = measured.findings.micro_benchmarks.iter().flat_map(|micro| &micro.experiments);
    experiments.map(|found| (found.pattern.clone(), found.regime)).collect()
}

#[test]
fn a_scratch_file_that_is_smaller_than_the_buffer_says_how_far_its_one_rate_is_known() {
    let buffer = "write_buffer = { size = \"64MiB\" }\n";
    let found = of_a_part(&[CONTROLLER, buffer], Bytes::mib(32));
    let stages = found.findings.stages.as_ref().expect("the baselines of writes were run");
    // Either the buffer shows, or the run says over how many bytes it did not.
    let shows = stages.patterns.iter().any(|stages| !stages.stages.is_empty() || stages.is_withheld());
    assert_eq!(found.findings.stages_looked_for().is_some(), !shows, "{stages:?}");
    let regimes = regimes(&found);
    assert!(shows || regimes.iter().all(|(_, regime)| regime.is_none()), "{regimes:?}");
}

#[test]
fn a_cache_that_is_larger_than_the_target_gives_no_sustained_figure_without_its_evidence() {
    let large = CACHE.replace("128MiB", "256MiB");
    let found = of_a_part(&[&large, CONTROLLER, BUFFER], Bytes::mib(64));
    let stages = found.findings.stages.as_ref().expect("the baselines of writes were run");
    let regimes = regimes(&found);
    let is_known = stages.patterns.iter().all(|stages| stages.sustained_ns_mean.is_some());
    let is_lasting = |(_, regime): &(String, Option<Regime>)| *regime == Some(Regime::Sustained);
    assert!(is_known || !regimes.iter().any(is_lasting), "{regimes:?}");
    let is_said = !found.findings.warnings.is_empty() || found.findings.stages_looked_for().is_some();
    assert!(is_said, "{stages:?}");
}

/// The IOs of the plan `order`.
const IO_SIZE: Bytes = Bytes::kib(32);

fn is_sustained(record: &RunRecord) -> bool {
    matches!(record.purpose, Purpose::Point { regime: Some(Regime::Sustained), .. })
}

/// The sustained mean response times of writes, by their point.
fn sustained_means(measured: &Measured) -> Vec<(String, f64)> {
    let experiments = measured.findings.micro_benchmarks.iter().flat_map(|micro| &micro.experiments);
    let lasting = experiments.filter(|found| found.regime == Some(Regime::Sustained));
    let means = |found: &ExperimentFindings| -> Vec<_> {
        let of = |point: &Point| (format!("{} {}", found.name(), point.label), point.response_ns_mean);
        found.points.iter().map(of).collect()
    };
    lasting.flat_map(means).collect()
}

#[test]
fn a_group_of_sustained_runs_that_is_resumed_in_its_middle_begins_with_a_lead_in() {
    let lab = || {
        let mut lab = Lab::new(drive(&[CONTROLLER, BUFFER]), Thoroughness::Quick, &["order"]);
        lab.manifest.settings.state = State::Steady;
        lab.manifest.settings.budget = Some(Nanos::from_secs(4000));
        lab
    };
    let uninterrupted = lab();
    let never = AtomicBool::new(false);
    let mut device = InterruptedDevice {
        inner: uninterrupted.profile.device().unwrap(),
        left: u64::MAX,
        interrupt: &never,
    };
    let watch = Watch::new();
    uninterrupted.measure_on(&mut device, &watch).unwrap();
    let all = u64::MAX - device.left;
    let whole = uninterrupted.measured(watch);
    let ios = |record: &RunRecord| record.written_bytes.max(record.read_bytes) / IO_SIZE.0;
    let group: Vec<&RunRecord> = whole.records.iter().filter(|record| is_sustained(record)).collect();
    let middle = group[group.len() / 2];
    let from_middle = whole.records.iter().filter(|record| record.run >= middle.run);
    assert!(from_middle.clone().all(|record| !record.purpose.is_state()));
    let left = all - from_middle.map(ios).sum::<u64>() + ios(middle) / 2;
    let resumed = lab();
    let watch = Watch::new();
    let mut device =
        InterruptedDevice { inner: resumed.profile.device().unwrap(), left, interrupt: &watch.interrupt };
    let error = resumed.measure_on(&mut device, &watch).unwrap_err();
    assert!(matches!(error, BenchError::Interrupted), "{error}");
    let interrupted = resumed.records();
    let done = interrupted.iter().filter(|record| record.ended.is_some() && is_sustained(record)).count();
    assert!((1..group.len()).contains(&done), "{done} of {}", group.len());
    let found = resumed.measure();
    for pair in found.records.windows(2).filter(|pair| is_sustained(&pair[1])) {
        assert_eq!(pair[0].purpose, Purpose::LeadIn, "before run {}", pair[1].run);
        assert_eq!(pair[1].regime_shown, Some(pair[0].ended == Some(RunEnd::PrecisionReached)));
    }
    assert_eq!(regimes(&found), regimes(&whole));
    let (got, expected) = (sustained_means(&found), sustained_means(&whole));
    assert!(got.len() >= 3 && got.len() == expected.len(), "{got:?} {expected:?}");
    for ((label, got), (same, expected)) in got.into_iter().zip(expected) {
        assert_eq!(label, same);
        let apart = got / expected - 1.0;
        assert!(apart.abs() < 0.15, "{label}: {apart:+.2}");
    }
}
