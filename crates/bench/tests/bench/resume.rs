//! The same seed gives the same samples, and an interrupted run ends with the same samples as an
//! uninterrupted one.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use flashlab_analysis::findings::Findings;
use flashlab_base::{Bytes, Nanos};
use flashlab_bench::{BenchError, Purpose, RunRecord, Thoroughness};

use crate::lab::{InterruptedDevice, Lab, Watch, zeus};

const PLANS: &[&str] = &["order", "mix"];
const NOISE: &str = "[noise]\nsigma = 0.2\nseed = 11\n";

/// Every file of samples, by name.
fn files(lab: &Lab) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(lab.folder().samples()).unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

fn segment(run: u32, number: u32) -> String {
    format!("run-{run:05}-{number:05}.parquet")
}

#[test]
fn the_same_seed_gives_the_same_samples_byte_for_byte() {
    let [first, same, other] = [1, 1, 2].map(|seed| Lab::quick(NOISE, PLANS).with_seed(seed));
    let [a, b, c] = [&first, &same, &other].map(|lab| lab.measure());
    assert!(a.findings == b.findings && a.traces == b.traces);
    assert_eq!(a.records.clone(), b.records);
    let (samples, others) = (files(&first), files(&other));
    assert!(samples.len() > 100);
    let again = files(&same);
    for record in &a.records {
        assert!(first.samples(record.run) == same.samples(record.run), "run {}", record.run);
        // A slow machine splits a run's samples into several files.
        let is_whole = |files: &BTreeMap<String, Vec<u8>>| !files.contains_key(&segment(record.run, 1));
        if is_whole(&samples) && is_whole(&again) {
            let name = segment(record.run, 0);
            assert!(samples.contains_key(&name) && samples[&name] == again[&name], "{name}");
        }
    }
    // Another seed has other addresses, also without noise.
    let random_reads = |records: &[RunRecord]| {
        let purpose = Purpose::Baseline { pattern: "RR".to_owned() };
        records.iter().find(|record| record.purpose == purpose).unwrap().run
    };
    let offsets = |lab: &Lab, run| lab.samples(run).iter().map(|sample| sample.offset.0).collect::<Vec<_>>();
    assert!(offsets(&first, random_reads(&a.records)) != offsets(&other, random_reads(&c.records)));
    assert!(samples.values().ne(others.values()));
}

#[test]
fn repetitions_have_other_addresses_and_the_same_figures() {
    let lab = Lab::quick("", PLANS);
    let measured = lab.measure();
    let seeds: Vec<u64> = measured.records.iter().map(|record| record.seed.0).collect();
    let distinct: std::collections::HashSet<_> = seeds.iter().collect();
    assert_eq!(distinct.len(), seeds.len());
    for point in measured.points("order", "SW") {
        assert!(point.spread.unwrap() < 1e-3, "{}", point.label);
    }
}

/// The findings without what an interruption must change: the numbers of the runs, the bytes written and the
/// time, because the state was enforced again.
pub fn comparable(mut findings: Findings) -> Findings {
    findings.method.bytes_written = Bytes::ZERO;
    findings.method.elapsed = Nanos::ZERO;
    let points = findings.micro_benchmarks.iter_mut().flat_map(|found| &mut found.experiments);
    let runs = points.flat_map(|experiment| &mut experiment.points).flat_map(|point| &mut point.runs);
    runs.for_each(|run| run.run = 0);
    findings.baselines.iter_mut().for_each(|baseline| baseline.run.run = 0);
    findings.warnings.iter_mut().for_each(|warning| warning.run = None);
    findings
}

/// The finished runs in their order, with their area and seed. Without states, which are enforced again.
fn finished(records: &[RunRecord]) -> Vec<(String, u64, String)> {
    let finished = records.iter().filter(|record| record.ended.is_some());
    let measuring = finished.filter(|record| !matches!(record.purpose, Purpose::State { .. }));
    measuring.map(|r| (format!("{:?}", r.purpose), r.seed.0, r.pattern.clone())).collect()
}

#[test]
fn a_run_that_is_interrupted_anywhere_and_resumed_ends_as_one_that_was_not() {
    let lab = || Lab::new(zeus(Bytes::mib(32), ""), Thoroughness::Quick, PLANS);
    let whole = lab();
    let watch = Watch::new();
    let counting = AtomicBool::new(false);
    let mut device =
        InterruptedDevice { inner: whole.profile.device().unwrap(), left: u64::MAX, interrupt: &counting };
    whole.measure_on(&mut device, &watch).unwrap();
    let ios = u64::MAX - device.left;
    let expected = whole.measured(watch);
    assert!(expected.schedule().resets > 0, "resets are a part of what is tested");

    // In the state, the lingering experiment, each baseline, and all over the micro-benchmarks.
    for sixteenth in 0..16 {
        let lab = lab();
        let watch = Watch::new();
        let left = ios * sixteenth / 16 + 17;
        let mut device =
            InterruptedDevice { inner: lab.profile.device().unwrap(), left, interrupt: &watch.interrupt };
        let error = lab.measure_on(&mut device, &watch).unwrap_err();
        assert!(matches!(error, BenchError::Interrupted), "{error}");
        // What was measured until then can be looked at.
        lab.measured(watch);
        let before = finished(&lab.records());
        let got = lab.measure();
        let after = finished(&got.records);
        assert_eq!(after[..before.len()], before, "what was measured is kept");
        // A lingering experiment that was torn is done again as a whole.
        let lingering = |(purpose, _, _): &&(String, u64, String)| purpose.starts_with("Lingering");
        let points = |all: &[(String, u64, String)]| -> Vec<_> {
            all.iter().filter(|one| !lingering(one)).cloned().collect()
        };
        assert_eq!(points(&after), points(&finished(&expected.records)), "IO {left} of {ios}");
        let (got, expected) = (comparable(got.findings), comparable(expected.findings.clone()));
        assert_eq!(got.micro_benchmarks, expected.micro_benchmarks, "IO {left} of {ios}");
        assert!(got == expected, "IO {left} of {ios}: {got:?}\n{expected:?}");
    }
}

#[test]
fn a_run_that_is_interrupted_at_every_step_gets_there_all_the_same() {
    let lab = Lab::quick("", &["order"]);
    let mut interruptions = 0;
    // Each attempt gets one part further: those before the first unfinished one are skipped, but for the
    // state, which is the first part of each.
    while interruptions < 40 {
        let watch = Watch::interrupting(if interruptions == 0 { 0 } else { 2 });
        match lab.measure_on(&mut lab.profile.device().unwrap(), &watch) {
            Ok(()) => break,
            Err(error) => assert!(matches!(error, BenchError::Interrupted), "{error}"),
        }
        interruptions += 1;
    }
    assert!(interruptions > 20, "{interruptions}");
    let expected = Lab::quick("", &["order"]).measure();
    let got = lab.measure();
    assert_eq!(comparable(got.findings).micro_benchmarks, comparable(expected.findings).micro_benchmarks);
}

#[test]
fn a_run_says_that_it_is_not_finished_until_it_is() {
    let lab = Lab::quick("", &["order"]);
    let unfinished =
        |findings: &Findings| findings.warnings.iter().any(|warning| warning.kind == "unfinished");
    let watch = Watch::new();
    let mut device =
        InterruptedDevice { inner: lab.profile.device().unwrap(), left: 5000, interrupt: &watch.interrupt };
    lab.measure_on(&mut device, &watch).unwrap_err();
    assert!(unfinished(&lab.measured(watch).findings));
    assert!(!unfinished(&lab.measure().findings));
}

#[test]
fn a_finished_run_that_is_resumed_neither_measures_nor_writes() {
    let lab = Lab::quick("", &["order"]);
    let first = lab.measure();
    let again = lab.measure();
    assert_eq!(again.records.len(), first.records.len(), "{:?}", again.records.last());
    assert!(comparable(first.findings) == comparable(again.findings));
}
