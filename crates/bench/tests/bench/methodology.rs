//! What the preparation finds (uFLIP section 4) is what the device's profile says.

use flashlab_analysis::findings::{HintVerdict, RunEnd};
use flashlab_base::{Bytes, Nanos};
use flashlab_bench::{CAPACITIES_MOST, Purpose, State, Thoroughness};
use flashlab_sim::Profile;

use crate::lab::{CAPACITY, Lab, Measured, assert_near, zeus, zeus_us};

const STARTUP: &str = "[startup]\nios = 125\nfactor = 0.1\nidle = \"2s\"\n";
const OSCILLATION: &str = "[oscillation]\nclass = \"random_write\"\nperiod = 128\npeak_share = 0.5\n";
const LINGERING: &str = "[lingering]\nper_write = \"50ms\"\nlongest = \"2.5s\"\nread_factor = 3.0\n";
const NOISE: &str = "[noise]\nsigma = 0.2\nseed = 7\n";

fn check_phases(measured: &Measured) {
    for name in ["SR", "RR", "SW"] {
        let baseline = measured.baseline(name);
        assert_eq!((baseline.phases.startup_ios, baseline.phases.period_ios), (0, None), "{name}");
        assert_eq!(baseline.io_ignore, 0, "{name}");
    }
    let baseline = measured.baseline("RW");
    assert_eq!(baseline.phases.period_ios, Some(128), "{}", baseline.phases.evidence);
    assert_near(baseline.phases.startup_ios as f64, 125.0, 0.02, &baseline.phases.evidence);
    // As in the paper: 128 for 125.
    assert_eq!(baseline.io_ignore, 128);
    assert_eq!(baseline.io_count_min % 128, 0);
    assert!(baseline.io_count_min >= 8 * 128);
}

#[test]
fn start_up_phase_and_period_are_those_of_the_profile() {
    let more = [STARTUP, OSCILLATION].concat();
    // If a sequential pattern wraps around within its run, the period is that of the pattern.
    let large = zeus(Bytes::gib(4), &more);
    for lab in [Lab::quick(&more, &[]), Lab::new(large, Thoroughness::Full, &[])] {
        let measured = lab.measure();
        check_phases(&measured);
        // The figures of the baseline are the running phase's, whose mean is the model's.
        let run = &measured.baseline("RW").run;
        assert_eq!(run.io_ignore, 128);
        assert_near(run.response.mean_ns / 1e3, zeus_us("RW", 32.0), 0.02, "running phase");
        let startup_ns = measured.baseline("RW").phases.startup_ns_mean.unwrap();
        assert!(startup_ns / 1e3 < zeus_us("RW", 32.0) / 5.0, "{startup_ns}");
        assert!(measured.baseline("RW").phases.startup_confidence > 0.99);
    }
}

#[test]
fn start_up_phase_and_period_are_found_through_noise() {
    check_phases(&Lab::quick(&[STARTUP, OSCILLATION, NOISE].concat(), &[]).measure());
}

#[test]
fn a_device_without_phases_is_found_to_have_none() {
    let measured = Lab::quick("", &[]).measure();
    for baseline in &measured.findings.baselines {
        assert_eq!((baseline.phases.startup_ios, baseline.phases.period_ios), (0, None));
    }
    let lingering = measured.findings.lingering.unwrap();
    assert_eq!((lingering.affected_reads, lingering.pause), (0, Nanos::from_secs(1)));
    // The reads were unaffected for as long as a quick run measures.
    assert!(!lingering.still_affected_at_end);
}

#[test]
fn a_full_run_finds_how_long_random_writes_linger_and_keeps_twice_that() {
    let measured = Lab::full(&[LINGERING, NOISE].concat(), &["bursts"]).measure();
    let found = measured.findings.lingering.as_ref().unwrap();
    assert_near(found.affected.as_secs_f64(), 2.5, 0.02, &found.evidence);
    // The first read is a random one; all of them take three times as long.
    let truth = 1.0 + (2.5e6 - 3.0 * zeus_us("RR", 32.0)) / (3.0 * zeus_us("SR", 32.0));
    assert_near(found.affected_reads as f64, truth, 0.02, &found.evidence);
    assert!(!found.still_affected_at_end);
    assert!((5.0..=5.5).contains(&found.pause.as_secs_f64()), "{}", found.pause);
    assert_eq!(measured.schedule().pause, found.pause);
    assert_eq!(measured.findings.method.pause, found.pause);
    assert!(!measured.findings.warnings.iter().any(|warning| warning.kind == "pause_shortened"));
}

#[test]
fn a_quick_run_says_that_it_cannot_afford_the_pause() {
    let measured = Lab::quick(LINGERING, &["order"]).measure();
    let found = measured.findings.lingering.as_ref().unwrap();
    // It measures for only two seconds, and notices that this is too short.
    assert!(found.still_affected_at_end && found.pause >= Nanos::from_secs(5), "{found:?}");
    let kept = measured.findings.method.pause;
    assert!(kept < found.pause && kept <= Nanos::from_secs(5));
    let warning = measured.findings.warnings.iter().find(|warning| warning.kind == "pause_shortened");
    assert!(warning.unwrap().message.contains("--full"));
}

#[test]
fn the_first_baseline_does_not_begin_in_what_the_writes_before_it_left() {
    // Reads are slow for half a second longer than a quick run measures them.
    let measured = Lab::quick(LINGERING, &[]).measure();
    assert!(measured.findings.lingering.as_ref().unwrap().still_affected_at_end);
    let baseline = measured.baseline("SR");
    assert_near(baseline.run.response.mean_ns / 1e3, zeus_us("SR", 32.0), 0.01, "SR");
    assert_eq!(baseline.phases.startup_ios, 0, "{}", baseline.phases.evidence);
}

#[test]
fn the_state_is_enforced_over_the_whole_target_and_said() {
    for state in [State::Random, State::Sequential, State::None] {
        let mut lab = Lab::quick("", &[]);
        lab.manifest.settings.state = state;
        let measured = lab.measure();
        assert_eq!(measured.findings.method.state, state.to_string());
        let states: Vec<_> =
            measured.records.iter().filter(|r| matches!(r.purpose, Purpose::State { .. })).collect();
        assert_eq!(states.len(), usize::from(state != State::None));
        for record in states {
            assert!(record.written_bytes >= CAPACITY.0 && record.written_bytes < CAPACITY.0 + (128 << 10));
            let sizes: Vec<u64> = lab.samples(record.run).iter().map(|sample| sample.size.0).collect();
            let (least, most) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
            let expected = if state == State::Random { (512, 128 << 10) } else { (128 << 10, 128 << 10) };
            assert_eq!((least, most), expected);
        }
    }
}

#[test]
fn runs_on_a_noisy_device_end_when_they_are_precise_and_tell_the_truth() {
    let measured = Lab::full("[noise]\nsigma = 0.5\nseed = 3\n", &["granularity"]).measure();
    let (mut within, mut all) = (0, 0);
    for (name, experiment) in [("SR", "SR"), ("RR", "RR"), ("SW", "SW"), ("RW", "RW")] {
        for point in measured.points("granularity", experiment) {
            for run in &point.runs {
                let context = format!("{experiment} {} run {}", point.label, run.run);
                let precision = run.precision.unwrap_or_else(|| panic!("{context} has no precision"));
                if run.ended == RunEnd::PrecisionReached {
                    assert!(precision <= 0.05, "{context}: {precision}");
                }
                assert!(run.response.count >= 1024 || run.ended != RunEnd::PrecisionReached, "{context}");
                let truth = 1e3 * zeus_us(name, point.value / 1024.0);
                all += 1;
                within += u32::from((run.response.mean_ns - truth).abs() <= precision * run.response.mean_ns);
            }
        }
    }
    // 95 % intervals of 180 runs: fewer than 90 % within them has a probability below one in 200.
    assert!(all == 15 * 4 * 3 && f64::from(within) >= 0.9 * f64::from(all), "{within} of {all}, seed 1");
    let ended = |end| measured.records.iter().filter(|record| record.ended == Some(end)).count();
    assert!(ended(RunEnd::PrecisionReached) >= 90, "{}", ended(RunEnd::PrecisionReached));
}

#[test]
fn hints_whose_micro_benchmark_was_left_out_are_not_decided() {
    let measured = Lab::quick("", &["order"]).measure();
    let verdicts: Vec<_> = measured.findings.hints.iter().map(|hint| (hint.number, hint.verdict)).collect();
    assert_eq!(verdicts.len(), 7);
    let undecided =
        |number: u32| verdicts[number as usize - 1].1 == HintVerdict::NotSupportedByThisMeasurement;
    // Locality (4), partitions (5), mixes and pauses are measured by other micro-benchmarks.
    assert!(undecided(4) && undecided(5), "{verdicts:?}");
    let row = &measured.findings.characteristics;
    assert!(row.sr_ms.is_some() && row.reverse_ratio.is_some() && row.in_place_ratio.is_some());
    assert_eq!((row.locality_mb, row.partitions, row.pause_rw_ms), (None, None, None));
}

#[test]
fn a_full_run_can_begin_when_the_device_is_steady() {
    // A page map with little over-provisioning: garbage collection begins after some random writes.
    let profile = "version = 2\nname = \"small\"\ntitle = \"Small\"\nsource = \"A test\"\nfit = \"none\"\n\
        capacity = \"256MiB\"\n[flash]\nover_provisioning = 0.1\n";
    let profile = Profile::parse(profile, "small").unwrap();
    let measured = |state| {
        let mut lab = Lab::new(profile.clone(), Thoroughness::Quick, &[]);
        lab.manifest.settings.state = state;
        lab.measure()
    };
    let once = measured(State::Sequential);
    assert_eq!(once.findings.method.steady, None);
    let found = measured(State::Steady);
    let steady = found.findings.method.steady.as_ref().unwrap();
    assert!(steady.is_steady, "{}", steady.evidence);
    assert_eq!(found.findings.method.state, "steady");
    assert!(steady.capacities >= 2.25 && steady.rounds.len() >= 9, "{steady:?}");
    let throughput = |index: usize| steady.rounds[index].throughput_bytes_per_s.unwrap();
    assert!(throughput(steady.rounds.len() - 1) < 0.8 * throughput(0), "{:?}", steady.rounds);
    let written: u64 = steady.rounds.iter().map(|round| round.written_bytes).sum();
    assert_eq!(steady.written_bytes, written);
    assert!(written <= profile.capacity.0 * u64::from(CAPACITIES_MOST) + (64 << 20));
}

#[test]
fn a_part_of_a_drive_is_not_steady_before_blocks_are_erased() {
    // A quarter of the drive. Its rounds are equal long before the never-written blocks are used up.
    let profile = "version = 2\nname = \"small\"\ntitle = \"Small\"\nsource = \"A test\"\nfit = \"none\"\n\
        capacity = \"256MiB\"\n[flash]\nover_provisioning = 0.1\n";
    let mut lab = Lab::new(Profile::parse(profile, "small").unwrap(), Thoroughness::Quick, &[]);
    lab.manifest.settings.state = State::Steady;
    lab.manifest.settings.target_size = Bytes::mib(64);
    let found = lab.measure().findings;
    let steady = found.method.steady.as_ref().unwrap();
    let window = &steady.rounds[steady.rounds.len() - 5..];
    let erased: u64 = window.iter().map(|round| round.erased_bytes.unwrap()).sum();
    let programmed: u64 = window.iter().map(|round| round.programmed_bytes.unwrap()).sum();
    assert!(!steady.is_steady || erased as f64 >= 0.9 * programmed as f64, "{steady:?}");
    // 281 MiB of flash take more than three times this part before the first block is erased.
    assert!(steady.capacities > 3.0, "{}", steady.evidence);
    assert!(found.method.is_part);
    let state =
        if steady.is_steady { "steady for this part only" } else { "random writes, not known to be steady" };
    assert_eq!(found.method.state, state);
}
