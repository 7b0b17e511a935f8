//! The stages of writes on simulated devices with a write buffer, with an SLC cache behind it, and with neither.

use flashlab_analysis::findings::{Regime, WriteStages};
use flashlab_base::{Bytes, Nanos};
use flashlab_bench::{Purpose, State, Thoroughness};
use flashlab_sim::Profile;

use crate::lab::{Lab, Measured, assert_near};

/// A small drive of today: 16 dies behind a fast link.
pub const DRIVE: &str = r#"
version = 2
name = "small"
title = "A small drive for tests"
source = "a test"
fit = "none"
capacity = "1GiB"

[flash]
page = "4KiB"
pages_per_block = 64
planes = 2
dies = 16
channels = 16
over_provisioning = 0.28
read = "50us"
program = "660us"
erase = "5ms"
channel_bandwidth = "400MB/s"
"#;

/// Its controller, without a write buffer.
pub const CONTROLLER: &str = r#"
[controller]
read_command = "1us"
write_command = "2us"
read_bandwidth = "4000MB/s"
write_bandwidth = "4000MB/s"
"#;

pub const BUFFER: &str = "write_buffer = { size = \"16MiB\" }\n";
pub const CACHE: &str =
    "\n[flash.slc_cache]\nsize = \"128MiB\"\nread = \"25us\"\nprogram = \"100us\"\nerase = \"1ms\"\n";

pub fn drive(parts: &[&str]) -> Profile {
    Profile::parse(&([DRIVE].iter().chain(parts)).copied().collect::<String>(), "the test").unwrap()
}

pub fn measured(profile: Profile, plans: &[&str]) -> Measured {
    let mut lab = Lab::new(profile, Thoroughness::Quick, plans);
    lab.manifest.settings.state = State::Steady;
    lab.measure()
}

fn stages(measured: &Measured) -> &WriteStages {
    measured.findings.stages.as_ref().expect("the baselines of writes were run")
}

#[test]
fn a_write_buffer_is_a_stage_that_an_idle_time_brings_back() {
    let measured = measured(drive(&[CONTROLLER, BUFFER]), &[]);
    let found = stages(&measured);
    let stages = found.of("RW").unwrap();
    assert_eq!(stages.stages.len(), 1, "{}", stages.evidence);
    // While the buffer fills, the flash programs what it has got.
    let stage = stages.stages[0];
    let buffer = Bytes::mib(16).0 as f64;
    assert!((0.9..1.3).contains(&(stage.bytes as f64 / buffer)), "{}", Bytes(stage.bytes));
    // 2 us, and 32 KiB over the link.
    assert_near(stage.response_ns_mean, 2000.0 + 32768.0 / 4.0, 0.02, "the stage");
    assert!(stages.is_settled && stages.confidence > 0.999, "{}", stages.evidence);
    let sustained = stages.sustained_ns_mean.unwrap();
    assert!(sustained > 5.0 * stage.response_ns_mean, "{sustained}");
    // 16 MiB take the flash less than a second.
    let last = found.recovery.last().unwrap();
    assert!(last.idle >= Nanos::from_secs(1), "{:?}", found.recovery);
    assert_near(last.bytes as f64, found.of("RW").unwrap().volatile_bytes as f64, 0.1, "what comes back");
    assert!(found.recovery.is_sorted_by_key(|recovery| recovery.bytes), "{:?}", found.recovery);
}

#[test]
fn in_front_of_an_slc_cache_the_write_buffer_is_the_first_stage() {
    let measured = measured(drive(&[CACHE, CONTROLLER, BUFFER]), &[]);
    let found = stages(&measured);
    let stages = found.of("RW").unwrap();
    let first = stages.stages.first().unwrap_or_else(|| panic!("{}", stages.evidence));
    assert!(first.bytes as f64 >= 0.9 * Bytes::mib(16).0 as f64, "{}", Bytes(first.bytes));
    assert!(stages.sustained_ns_mean.unwrap() > 5.0 * first.response_ns_mean, "{}", stages.evidence);
}

#[test]
fn a_device_without_buffers_has_no_stage_and_costs_nothing_more() {
    let measured = measured(drive(&[CONTROLLER]), &[]);
    let found = stages(&measured);
    assert!(found.patterns.iter().all(|stages| stages.stages.is_empty()), "{found:?}");
    assert_eq!(found.recovery, []);
    let is_more = |purpose: &Purpose| matches!(purpose, Purpose::LeadIn | Purpose::Recovery { .. });
    assert!(!measured.records.iter().any(|record| is_more(&record.purpose)));
}

#[test]
fn a_cache_that_the_baselines_do_not_fill_gives_no_figure_of_writes() {
    let large = CACHE.replace("128MiB", "512MiB");
    let mut lab = Lab::new(drive(&[&large, CONTROLLER, BUFFER]), Thoroughness::Quick, &["order"]);
    lab.manifest.settings.state = State::None;
    let measured = lab.measure();
    let row = &measured.findings.characteristics;
    assert_eq!((row.rw_ms, row.sw_ms, row.reverse_ratio, row.large_incr_vs_rw), (None, None, None, None));
    assert!(row.sr_ms.is_some() && row.rr_ms.is_some(), "reads have no regime");
    assert!(stages(&measured).patterns.iter().all(|stages| stages.sustained_ns_mean.is_none()));
    let names: Vec<&str> =
        measured.findings.baselines.iter().map(|baseline| baseline.pattern.as_str()).collect();
    assert_eq!(names, ["SR", "RR"]);
    let experiments = measured.findings.micro_benchmarks.iter().flat_map(|micro| &micro.experiments);
    assert!(experiments.clone().next().is_some());
    assert!(
        experiments.clone().all(|found| found.pattern.starts_with("SR") || found.pattern.starts_with("RR"))
    );
    let kinds: Vec<&str> = measured.findings.warnings.iter().map(|warning| warning.kind.as_str()).collect();
    assert!(kinds.contains(&"stages_unsettled") && kinds.contains(&"writes_left_out"), "{kinds:?}");
}

#[test]
fn with_one_regime_a_run_ignores_its_start_up_phase_as_in_the_paper() {
    let mut lab = Lab::new(drive(&[CONTROLLER, BUFFER]), Thoroughness::Quick, &["order"]);
    lab.manifest.settings.state = State::Steady;
    lab.manifest.settings.one_regime = true;
    let measured = lab.measure();
    assert_eq!(measured.findings.stages, None);
    let is_more = |purpose: &Purpose| matches!(purpose, Purpose::LeadIn | Purpose::Recovery { .. });
    assert!(!measured.records.iter().any(|record| is_more(&record.purpose)));
    assert!(measured.findings.micro_benchmarks[0].experiments.iter().all(|found| found.regime.is_none()));
}

/// The means of a plan whose runs are twenty times as long as the stages.
fn truth(profile: Profile, experiment: &str, stage_ios: u64) -> Vec<f64> {
    let counts = format!("io_count = {}\nio_ignore = {}\n", 24 * stage_ios, 4 * stage_ios);
    let text = format!("version = 1\nname = \"truth\"\n{experiment}{counts}");
    let mut lab = Lab::new(profile, Thoroughness::Quick, &[]);
    lab.manifest.plans = vec![text];
    lab.manifest.settings.methodology = false;
    lab.manifest.settings.state = State::Steady;
    lab.manifest.settings.repetitions = 1;
    let measured = lab.measure();
    measured.findings.micro_benchmarks[0].experiments[0]
        .points
        .iter()
        .map(|point| point.response_ns_mean)
        .collect()
}

#[test]
fn sustained_points_are_what_a_run_of_twenty_stages_gives_and_bursts_are_the_buffer() {
    let profile = drive(&[CONTROLLER, BUFFER]);
    let mut lab = Lab::new(profile.clone(), Thoroughness::Quick, &["granularity"]);
    lab.manifest.settings.state = State::Steady;
    lab.manifest.settings.budget = Some(Nanos::from_secs(4000));
    let measured = lab.measure();
    let sizes = "[\"16KiB\", \"32KiB\"]";
    let values = format!("pattern = \"RW\"\nvary = \"IOSize\"\nvalues = {sizes}\nquick_values = {sizes}\n");
    // The buffer has 512 IOs of 32 KiB.
    let truths = truth(profile, &values, 1024);
    // A quick run may withhold a small size: its IOs are too few for an interval.
    let of = |name: &str, value: f64| {
        measured.points("granularity", name).iter().find(move |point| point.value == value)
    };
    assert!(of("RW", 32768.0).is_some() && of("RW.burst", 32768.0).is_some());
    for (value, truth) in [16384.0, 32768.0].into_iter().zip(truths) {
        if let Some(point) = of("RW", value) {
            assert_near(point.response_ns_mean, truth, 0.1, &point.label);
        }
        let Some(burst) = of("RW.burst", value) else { continue };
        // 2 us, and the bytes over the link.
        assert_near(burst.response_ns_mean, 2000.0 + burst.value / 4.0, 0.05, &burst.label);
        assert!(truth > 10.0 * burst.response_ns_mean, "{}", burst.label);
    }
    let experiments = &measured.findings.micro_benchmarks[0].experiments;
    let regimes: Vec<_> = experiments.iter().map(|found| (found.pattern.as_str(), found.regime)).collect();
    let (burst, sustained) = (Some(Regime::Burst), Some(Regime::Sustained));
    let expected =
        [("SR", None), ("RR", None), ("SW", sustained), ("SW", burst), ("RW", sustained), ("RW", burst)];
    assert_eq!(regimes, expected);
    assert!(!measured.findings.warnings.iter().any(|warning| warning.kind == "regime_undecided"));
}

/// Random writes of 32 KiB of a plan as it is written, on a drive in its steady state, once.
fn plain(profile: Profile, more: &str) -> Measured {
    let mut lab = Lab::new(profile, Thoroughness::Quick, &[]);
    lab.manifest.plans = vec![format!("version = 1\nname = \"own\"\npattern = \"RW\"\n{more}")];
    lab.manifest.settings.methodology = false;
    lab.manifest.settings.state = State::Steady;
    lab.manifest.settings.repetitions = 1;
    lab.measure()
}

fn regimes(measured: &Measured) -> Vec<(Option<Regime>, f64)> {
    let experiments = measured.findings.micro_benchmarks.iter().flat_map(|micro| &micro.experiments);
    experiments.map(|found| (found.regime, found.points[0].response_ns_mean)).collect()
}

#[test]
fn a_plan_without_an_end_goes_on_until_its_writes_show_both_regimes() {
    let measured = plain(drive(&[CONTROLLER, BUFFER]), "");
    let [(Some(Regime::Sustained), lasting), (Some(Regime::Burst), burst)] = regimes(&measured)[..] else {
        panic!("{:?}", measured.findings.micro_benchmarks)
    };
    // 2 us, and 32 KiB over the link.
    assert_near(burst, 2000.0 + 32768.0 / 4.0, 0.05, "burst");
    let truth = truth(drive(&[CONTROLLER, BUFFER]), "pattern = \"RW\"\n", 1024)[0];
    assert_near(lasting, truth, 0.15, "what lasts");
    let written = measured.points_run().map(|record| record.written_bytes).sum::<u64>();
    assert!(written >= 512 << 20, "{written}");
    // Both parts are of the one run, and no IO is in both.
    let experiments = &measured.findings.micro_benchmarks[0].experiments;
    let [lasting, burst] = [0, 1].map(|index| &experiments[index].points[0].runs[0]);
    assert_eq!((lasting.run, Some(lasting.io_ignore)), (burst.run, burst.io_end));
    assert!(experiments[0].regime_evidence.contains("which lasts"), "{}", experiments[0].regime_evidence);
}

#[test]
fn a_plan_that_fits_into_the_buffer_does_not_show_its_regime() {
    let measured = plain(drive(&[CONTROLLER, BUFFER]), "io_count = 256\n");
    assert!(matches!(regimes(&measured)[..], [(Some(Regime::Unknown), _)]), "{:?}", regimes(&measured));
    let warnings = &measured.findings.warnings;
    let found = warnings.iter().find(|warning| warning.kind == "regime_unknown").expect("a warning");
    assert!(
        found.message.contains("8 MiB only") && found.message.contains("16384 or more"),
        "{}",
        found.message
    );
}

#[test]
fn a_plan_with_pauses_has_no_regime_to_show() {
    let measured = plain(drive(&[CONTROLLER, BUFFER]), "io_count = 256\npause = \"1ms\"\n");
    assert!(matches!(regimes(&measured)[..], [(None, _)]), "{:?}", regimes(&measured));
    assert!(!measured.findings.warnings.iter().any(|warning| warning.kind == "regime_unknown"));
}
