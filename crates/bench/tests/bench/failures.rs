//! A device that fails, or a full disk, at every stage of a bench run. The tests require a clear error,
//! findings from what was measured, and a run that can be resumed.

use std::path::Path;
use std::process::Command;

use flashlab_bench::{BenchError, Purpose, RunRecord};
use flashlab_device::{FaultyDevice, InjectedFault, IoError};

use crate::lab::{Lab, Watch};

const PLANS: &[&str] = &["order"];

/// How many IOs come before the middle of each stage, with its purpose.
fn stages() -> Vec<(u64, Purpose)> {
    let lab = Lab::quick("", PLANS);
    let measured = lab.measure();
    let mut before = 0;
    let mut stages = Vec::new();
    for record in &measured.records {
        let ios = lab.samples(record.run).len() as u64;
        let is_first_point = matches!(record.purpose, Purpose::Point { .. })
            && !stages.iter().any(|(_, purpose)| matches!(purpose, Purpose::Point { .. }));
        if is_first_point || !matches!(record.purpose, Purpose::Point { .. }) {
            stages.push((before + ios / 2, record.purpose.clone()));
        }
        before += ios;
    }
    stages
}

#[test]
fn a_device_that_vanishes_at_any_stage_leaves_a_run_that_can_be_resumed() {
    let stages = stages();
    // The state, three lingering runs, four baselines, and a micro-benchmark.
    assert_eq!(stages.len(), 9, "{stages:?}");
    for (ios, purpose) in stages {
        let lab = Lab::quick("", PLANS);
        let mut gone = FaultyDevice::new(lab.profile.device().unwrap(), InjectedFault::GoneFrom(ios));
        let error = lab.measure_on(&mut gone, &Watch::new()).unwrap_err();
        let BenchError::Device { run, failure, .. } = &error else { panic!("{purpose:?}: {error}") };
        assert_eq!(failure.error, IoError::GONE);
        let message = error.to_string();
        assert!(
            message.contains("sim:zeus failed in run") && message.contains("flashlab resume"),
            "{message}"
        );
        assert!(message.contains("No such device"), "{message}");

        // The folder contains the failed run, but no figure does.
        let records = lab.records();
        let last = records.last().unwrap();
        assert_eq!((last.run, last.ended), (*run, None));
        assert!(last.purpose.is_same(&purpose) && last.failed_ios >= 1, "{last:?}");
        assert!(last.first_failure.as_deref().unwrap().contains("No such device"));
        let findings = lab.measured(Watch::new()).findings;
        let baselines = records.iter().filter(|r| finished_baseline(r)).count();
        assert_eq!(findings.baselines.len(), baselines);
        assert!(findings.micro_benchmarks.is_empty());

        // The device is back.
        let measured = lab.measure();
        assert_eq!(measured.findings.baselines.len(), 4);
        assert_eq!(measured.points_run().filter(|record| record.ended.is_some()).count(), 30);
    }
}

fn finished_baseline(record: &RunRecord) -> bool {
    record.ended.is_some() && matches!(record.purpose, Purpose::Baseline { .. })
}

#[test]
fn one_failed_io_ends_nothing_and_is_said() {
    for (ios, purpose) in stages() {
        let lab = Lab::quick("", PLANS);
        let mut device =
            FaultyDevice::new(lab.profile.device().unwrap(), InjectedFault::Nth(ios, IoError::IO));
        lab.measure_on(&mut device, &Watch::new()).unwrap();
        let measured = lab.measured(Watch::new());
        let failed: Vec<_> = measured.records.iter().filter(|record| record.failed_ios > 0).collect();
        let [record] = failed[..] else { panic!("{purpose:?}: {failed:?}") };
        assert!(record.purpose.is_same(&purpose) && record.failed_ios == 1 && record.ended.is_some());
        let warning = measured.findings.warnings.iter().find(|warning| warning.kind == "failed_io").unwrap();
        assert!(warning.message.contains("Input/output error"), "{}", warning.message);
        // The other IOs of the run are counted.
        let samples = lab.samples(record.run);
        assert_eq!(samples.iter().filter(|sample| sample.errno == 5).count(), 1);
        if let Purpose::Baseline { pattern } = &record.purpose {
            let run = &measured.baseline(pattern).run;
            assert_eq!((run.failed_ios, run.response.count), (1, samples.len() as u64 - 1));
        }
    }
}

#[test]
fn many_failed_ios_end_the_run() {
    let lab = Lab::quick("", PLANS);
    let (from, _) = stages().into_iter().find(|(_, p)| matches!(p, Purpose::Baseline { .. })).unwrap();
    let mut device: Box<dyn flashlab_device::Device> = Box::new(lab.profile.device().unwrap());
    for nth in 0..11 {
        device = Box::new(FaultyDevice::new(device, InjectedFault::Nth(from + nth, IoError::IO)));
    }
    let error = lab.measure_on(device.as_mut(), &Watch::new()).unwrap_err().to_string();
    assert!(error.contains("Input/output error") && error.contains("health"), "{error}");
    assert_eq!(lab.records().last().unwrap().failed_ios, 11);
}

/// A small file system, unmounted when it is dropped.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount<'a>(path: &'a Path, size: &str) -> Result<SmallDisk<'a>, String> {
        std::fs::create_dir(path).unwrap();
        let options = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output();
        match mount {
            Ok(output) if output.status.success() => Ok(SmallDisk(path)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_for_the_results_is_an_error_and_what_was_written_is_worth_a_report() {
    let whole = Lab::quick("[noise]\nsigma = 0.3\n", &["order", "mix", "granularity"]);
    let lab = Lab::quick("[noise]\nsigma = 0.3\n", &["order", "mix", "granularity"]);
    let directory = lab.path().with_file_name("small");
    let disk = match SmallDisk::mount(&directory, "1m") {
        Ok(disk) => disk,
        Err(reason) => {
            return flashlab_skip::skip(
                flashlab_skip::Need::Root,
                format_args!("a small file system cannot be mounted: {reason}"),
            );
        }
    };
    let lab = lab.in_directory(&directory);
    let error = lab.measure_on(&mut lab.profile.device().unwrap(), &Watch::new()).unwrap_err();
    let BenchError::Samples(_) = &error else { panic!("{error}") };
    let message = error.to_string();
    assert!(message.contains("No space left") && message.contains("--output"), "{message}");

    let measured = lab.measured(Watch::new());
    assert_eq!(measured.findings.baselines.len(), 4);
    assert!(!measured.findings.micro_benchmarks.is_empty());
    let finished = measured.records.iter().filter(|record| record.ended.is_some()).count();
    assert!(finished > 10, "{finished}");

    // There is room again.
    let remount = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&directory).status().unwrap();
    assert!(remount.success());
    let resumed = lab.measure();
    let expected = whole.measure();
    assert_eq!(resumed.schedule(), expected.schedule());
    let done = resumed.points_run().filter(|record| record.ended.is_some()).count();
    assert_eq!(done, expected.schedule().steps.len());
    drop(disk);
}
