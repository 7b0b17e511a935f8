//! The hints on the devices of uFLIP's Table 3, and on others whose answer is known.

use HintVerdict::{DoesNotHold, Holds, NotSupportedByThisMeasurement};

use super::*;
use crate::findings::RunSummary;
use crate::point::point;
use crate::synthetic::{Source, baseline, measure, micro, run, table3};

/// Runs of `size` bytes.
fn sized(mean_ns: f64, size: f64) -> RunSummary {
    RunSummary { throughput_bytes_per_s: size * 1e9 / mean_ns, ..run(mean_ns) }
}

/// IOSize in KiB and the mean in microseconds, for each pattern.
fn granularity(latency_us: f64, us_per_kib: f64) -> MicroBenchmark {
    let mut all = micro("IOSize", "SR", &[]);
    let sizes = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
    all.experiments = ["SR", "RR", "SW", "RW"]
        .map(|pattern| {
            let points: Vec<_> = sizes
                .iter()
                .map(|kib| (kib * 1024.0, (latency_us + us_per_kib * kib) * 1e3))
                .map(|(size, ns)| point(size, Bytes(size as u64).exact(), vec![sized(ns, size)]))
                .collect();
            crate::findings::ExperimentFindings {
                pattern: pattern.to_owned(),
                regime: None,
                regime_evidence: String::new(),
                points,
            }
        })
        .to_vec();
    all
}

fn verdict(baselines: &[Baseline], micros: &[MicroBenchmark], number: usize) -> Hint {
    hints(baselines, micros).swap_remove(number - 1)
}

#[test]
fn there_are_seven_and_none_is_decided_without_a_measurement() {
    let got = hints(&[], &[]);
    assert_eq!(got.iter().map(|hint| hint.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    for hint in got {
        assert_eq!(hint.verdict, NotSupportedByThisMeasurement, "{hint:?}");
        assert!(hint.evidence.contains("was not measured"), "{hint:?}");
    }
}

#[test]
fn larger_ios_pay_where_there_is_a_latency() {
    let hint = verdict(&[], &[granularity(70.0, 8.0)], 1);
    assert_eq!(hint.verdict, Holds);
    assert!(hint.evidence.contains("of which 70 us fixed"), "{}", hint.evidence);
    assert_eq!(verdict(&[], &[granularity(0.01, 8.0)], 1).verdict, DoesNotHold);
}

#[test]
fn the_best_block_size_is_where_half_the_time_is_latency() {
    // T = A + n B has most power at n = A / B.
    for (latency_us, us_per_kib, size, expected) in [
        (256.0, 8.0, "32 KiB", Holds),
        (32.0, 8.0, "4 KiB", DoesNotHold),
        (128.0, 0.5, "256 KiB", DoesNotHold),
    ] {
        let hint = verdict(&[], &[granularity(latency_us, us_per_kib)], 2);
        assert_eq!(hint.verdict, expected, "{hint:?}");
        assert_eq!(hint.advice, format!("Use blocks of {size}."));
    }
}

#[test]
fn the_samsung_is_to_be_aligned_to_16_kib() {
    // uFLIP section 5.2: 18 ms aligned to 16 KiB, 32 ms otherwise.
    let shifts: Vec<_> = (0..=6)
        .map(|i| 512.0 * f64::from(1 << i))
        .map(|shift| (shift, if shift % 16384.0 == 0.0 { 18e6 } else { 32e6 }))
        .collect();
    let hint = verdict(&[], &[micro("IOShift", "RW", &shifts)], 3);
    assert_eq!((hint.verdict, hint.advice.as_str()), (Holds, "Align IOs to 16 KiB."));
    assert!(hint.evidence.contains("1.78 times"), "{}", hint.evidence);
    let indifferent: Vec<_> = shifts.iter().map(|&(shift, _)| (shift, 18e6)).collect();
    assert_eq!(verdict(&[], &[micro("IOShift", "RW", &indifferent)], 3).verdict, DoesNotHold);
}

#[test]
fn noise_as_large_as_the_effect_decides_nothing() {
    let mut noisy = micro("IOShift", "RW", &[(16384.0, 20e6), (32768.0, 18e6)]);
    for point in &mut noisy.experiments[0].points {
        point.spread = Some(0.2);
    }
    let hint = verdict(&[], &[noisy], 3);
    assert_eq!(hint.verdict, NotSupportedByThisMeasurement);
    assert!(hint.evidence.contains("1.11 times"), "{}", hint.evidence);
}

#[test]
fn disturbed_runs_decide_nothing() {
    let latency = granularity(70.0, 8.0);
    let mut disturbed = latency.clone();
    let points = disturbed.experiments.iter_mut().flat_map(|experiment| &mut experiment.points);
    let runs = points.flat_map(|point| &mut point.runs).enumerate();
    runs.filter(|(index, _)| index % 4 != 0).for_each(|(_, run)| run.flags = vec!["interference".to_owned()]);
    for number in [1, 2] {
        assert_ne!(
            verdict(&[], std::slice::from_ref(&latency), number).verdict,
            NotSupportedByThisMeasurement
        );
        let hint = verdict(&[], std::slice::from_ref(&disturbed), number);
        assert_eq!(hint.verdict, NotSupportedByThisMeasurement);
        let why = "Too disturbed for a verdict: 75 % of 40 runs were flagged as disturbed. ";
        assert!(hint.evidence.starts_with(why), "{}", hint.evidence);
    }
    // A disturbed run of another micro-benchmark does not matter.
    let shifts = micro("IOShift", "RW", &[(512.0, 32e6), (32768.0, 18e6)]);
    assert_eq!(verdict(&[], &[disturbed, shifts], 3).verdict, Holds);
}

#[test]
fn area_and_partitions_are_those_of_table_3() {
    for row in table3() {
        let (baselines, micros) = measure(&row, &mut Source::new(7), 0.02);
        let (area, partitions) = (verdict(&baselines, &micros, 4), verdict(&baselines, &micros, 5));
        let expected = if row.locality.0 > 0.0 { Holds } else { DoesNotHold };
        assert_eq!(area.verdict, expected, "{}: {area:?}", row.device);
        assert!(
            row.locality.0 == 0.0 || area.advice.contains(&format!("{} MiB", row.locality.0)),
            "{area:?}"
        );
        assert_eq!(partitions.verdict, Holds);
        assert!(partitions.advice.contains(&format!("at most {} ", row.partitions.0)), "{partitions:?}");
    }
}

#[test]
fn a_device_without_expensive_random_writes_needs_no_focus() {
    let baselines = [baseline("SW", 1e5), baseline("RW", 1.1e5)];
    let locality = micro("TargetSize", "RW", &[(65536.0, 1e5), (1e6, 1e5), (1e8, 1.1e5)]);
    let partitions = micro("Partitions", "SW", &[(1.0, 1e5), (2.0, 1e5), (256.0, 1.05e5)]);
    assert_eq!(verdict(&baselines, std::slice::from_ref(&locality), 4).verdict, DoesNotHold);
    let hint = verdict(&baselines, &[locality, partitions], 5);
    assert_eq!(hint.verdict, DoesNotHold);
    assert!(hint.evidence.contains("256 partitions, the most measured"), "{hint:?}");
}

#[test]
fn a_mix_is_compared_with_its_baselines_weighted_by_the_ratio() {
    let baselines = [baseline("SR", 1e5), baseline("RW", 9e5)];
    // Seven reads to a write: (7 * 0.1 + 0.9) / 8 = 0.2 ms.
    let free = micro("Ratio", "SR/RW", &[(7.0, 2e5)]);
    let hint = verdict(&baselines, &[free], 6);
    assert_eq!(hint.verdict, Holds, "{hint:?}");
    assert!(hint.evidence.contains("1.00 times its baselines"), "{hint:?}");
    assert_eq!(verdict(&baselines, &[micro("Ratio", "SR/RW", &[(7.0, 4e5)])], 6).verdict, DoesNotHold);
    assert_eq!(
        verdict(&baselines[..1], &[micro("Ratio", "SR/RW", &[(7.0, 4e5)])], 6).verdict,
        NotSupportedByThisMeasurement
    );
}

#[test]
fn concurrency_and_pauses_help_if_more_ios_are_done_in_the_same_time() {
    let parallel = |rates: &[(f64, f64)]| {
        let mut micro =
            micro("ParallelDegree", "RR", &rates.iter().map(|&(n, _)| (n, 1e5)).collect::<Vec<_>>());
        for (point, (_, rate)) in micro.experiments[0].points.iter_mut().zip(rates) {
            point.runs[0].ios_per_s = *rate;
        }
        micro
    };
    let baselines = [baseline("RW", 5e6)];
    // uFLIP section 5.2: a pause as long as a random write makes it behave like a sequential write.
    let pause = micro("Pause", "RW", &[(1e6, 4.3e6), (5e6, 0.3e6)]);
    let none = [parallel(&[(1.0, 1e4), (2.0, 1.01e4), (16.0, 0.9e4)]), pause.clone()];
    assert_eq!(verdict(&baselines, &none, 7).verdict, Holds);
    let hint = verdict(&baselines, &[parallel(&[(1.0, 1e4), (8.0, 6e4)]), pause.clone()], 7);
    assert_eq!(hint.verdict, DoesNotHold);
    assert_eq!(hint.advice, "Keep 8 IOs in flight for RR.");
    // The rule of `infer`: two doublings from 4 to 16 that add 1 % in all are not worth it.
    let flat = verdict(&baselines, &[parallel(&[(1.0, 1e4), (4.0, 3e4), (16.0, 3.03e4)])], 7);
    assert_eq!(flat.advice, "Keep 4 IOs in flight for RR.");
    let rising = verdict(&baselines, &[parallel(&[(1.0, 1e4), (4.0, 3e4), (16.0, 3.3e4)])], 7);
    assert_eq!(rising.advice, "Keep 16 IOs in flight for RR.");
    assert_eq!(verdict(&baselines, &[pause], 7).verdict, NotSupportedByThisMeasurement);
    let helping = micro("Pause", "RW", &[(1e6, 0.3e6)]);
    assert_eq!(verdict(&baselines, &[helping], 7).verdict, DoesNotHold);
}
