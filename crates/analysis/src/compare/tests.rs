//! Comparisons of synthetic devices of which it is known whether they differ.

use super::*;
use crate::findings::{Experiment, MicroBenchmark};
use crate::point::point;
use crate::synthetic::{Source, baseline, findings, run};

/// A device whose 200 points lie at `level` times those of any other, each repetition off by
/// `between` and by the `within` that it knows of.
fn device(source: &mut Source, level: f64, repetitions: usize, between: f64, within: f64) -> Findings {
    let points = (0..200)
        .map(|i| {
            let runs = (0..repetitions).map(|_| {
                let mean_ns = 1e5 * level * source.log_normal(between) * source.log_normal(within);
                RunSummary { precision: Some(1.96 * within), ..run(mean_ns) }
            });
            point(f64::from(i), i.to_string(), runs.collect())
        })
        .collect();
    let micro = MicroBenchmark {
        name: "granularity".into(),
        parameter: "IOSize".into(),
        unit: "bytes".into(),
        experiments: vec![Experiment { pattern: "SR".into(), points }],
    };
    // Each baseline is run once.
    let baselines = ["SR", "RR", "SW", "RW"].map(|pattern| {
        let mut baseline =
            baseline(pattern, 1e5 * level * source.log_normal(between) * source.log_normal(within));
        baseline.run.precision = Some(1.96 * within);
        baseline
    });
    findings("device", baselines.to_vec(), vec![micro])
}

fn shown(comparison: &Comparison) -> usize {
    comparison.points.iter().flat_map(|row| row.differences.iter().flatten()).filter(|d| d.shown).count()
}

/// Of `seeds` pairs of devices that do not differ: how many comparisons show any difference, and
/// how many differences are shown in all.
fn false_differences(seeds: u64, repetitions: usize, between: f64, within: f64) -> (u64, usize) {
    let (mut comparisons, mut differences) = (0, 0);
    for seed in 0..seeds {
        let mut s = Source::new(seed);
        let (a, b) = (
            device(&mut s, 1.0, repetitions, between, within),
            device(&mut s, 1.0, repetitions, between, within),
        );
        let found = shown(&compare(&[&a, &b]));
        comparisons += u64::from(found > 0);
        differences += found;
    }
    (comparisons, differences)
}

#[test]
#[ignore = "a table for people: cargo test -p flashlab-analysis comparison_table -- --ignored --nocapture"]
fn comparison_table() {
    println!(
        "of 1000 comparisons of equal devices with 200 points: that show any difference, differences shown"
    );
    for (between, within) in [(0.02, 0.0), (0.02, 0.01), (0.02, 0.02), (0.0, 0.025), (0.2, 0.02)] {
        for repetitions in [2, 3, 5] {
            let found = false_differences(1000, repetitions, between, within);
            println!("scatter {between} between, {within} within, {repetitions} repetitions: {found:?}");
        }
    }
    println!("share of the points shown, three repetitions, 2 % between and 1 % within, by true ratio");
    for level in [1.05, 1.1, 1.2, 1.5, 2.0] {
        let mut s = Source::new(1);
        let found: usize = (0..20)
            .map(|_| {
                shown(&compare(&[&device(&mut s, 1.0, 3, 0.02, 0.01), &device(&mut s, level, 3, 0.02, 0.01)]))
            })
            .sum();
        println!("{level}: {:.1} %", found as f64 / (20.0 * 204.0) * 100.0);
    }
}

#[test]
fn equal_devices_show_no_difference_nineteen_times_out_of_twenty() {
    for (between, within) in [(0.02, 0.0), (0.02, 0.01), (0.0, 0.025)] {
        let (comparisons, _) = false_differences(200, 3, between, within);
        assert!(comparisons <= 14, "{between}, {within}: {comparisons} of the seeds 0..200");
    }
}

#[test]
fn devices_that_differ_are_shown_to() {
    for seed in 0..20 {
        let mut s = Source::new(seed);
        let (a, b) = (device(&mut s, 1.0, 3, 0.02, 0.01), device(&mut s, 2.0, 3, 0.02, 0.01));
        let found = compare(&[&a, &b]);
        assert!(shown(&found) >= 190, "seed {seed}: {}", shown(&found));
        // The baselines come first.
        for row in &found.points[..4] {
            let difference = row.differences[1].clone().unwrap();
            assert!(
                difference.shown && (1.8..2.2).contains(&difference.ratio),
                "seed {seed}: {difference:?}"
            );
        }
    }
}

#[test]
fn a_single_repetition_shows_nothing() {
    let a = findings("a", vec![baseline("SR", 1e5)], vec![]);
    let b = findings("b", vec![baseline("SR", 9e5)], vec![]);
    let found = compare(&[&a, &b]);
    let difference = found.points[0].differences[1].clone().unwrap();
    assert_eq!((difference.ratio, difference.p, difference.shown), (9.0, None, false));
    assert_eq!(difference.describe(), "no difference shown (too few repetitions)");
}

#[test]
fn baselines_that_ran_once_are_not_told_apart_by_luck() {
    let mut false_alarms = 0;
    for seed in 0..500 {
        let mut s = Source::new(seed);
        let (a, b) = (device(&mut s, 1.0, 3, 0.03, 0.003), device(&mut s, 1.0, 3, 0.03, 0.003));
        let found = compare(&[&a, &b]);
        false_alarms +=
            found.points[..4].iter().filter(|row| row.differences[1].as_ref().unwrap().shown).count();
    }
    assert!(false_alarms <= 5, "{false_alarms} of 2000 in the seeds 0..500");
}

#[test]
fn only_what_the_first_run_shares_is_compared() {
    let a = findings("a", vec![baseline("SR", 1e5), baseline("RW", 4e5)], vec![]);
    let b = findings("b", vec![baseline("SW", 1e5), baseline("RW", 2e5)], vec![]);
    let c = findings("c", vec![], vec![]);
    let found = compare(&[&a, &b, &c]);
    assert_eq!(found.devices, ["a", "b", "c"]);
    assert_eq!(found.points.len(), 1);
    assert_eq!(found.points[0].response_ns_mean, [Some(4e5), Some(2e5), None]);
    assert!(found.points[0].differences[0].is_none() && found.points[0].differences[2].is_none());
    let rw = found.characteristics.iter().find(|row| row.name == "rw_ms").unwrap();
    assert_eq!(rw.ratios, [Some(1.0), Some(0.5), None]);
}

#[test]
fn nothing_and_one_are_compared_with_nothing() {
    assert_eq!(compare(&[]).points, []);
    let alone = findings("a", vec![baseline("SR", 1e5)], vec![]);
    assert_eq!(compare(&[&alone]).points, []);
}

#[test]
fn deterministic_devices_differ_if_their_figures_do() {
    let mut s = Source::new(0);
    let device = |s: &mut Source, level| device(s, level, 3, 0.0, 0.0);
    let (a, same, other) = (device(&mut s, 1.0), device(&mut s, 1.0), device(&mut s, 1.01));
    let found = compare(&[&a, &same, &other]);
    assert_eq!(found.points[0].differences[1].as_ref().unwrap().describe(), "no difference shown");
    assert!(found.points.iter().all(|row| row.differences[2].as_ref().unwrap().shown));
}

#[test]
fn the_columns_are_those_of_the_document() {
    let document = serde_json::to_value(Characteristics::default()).unwrap();
    let mut named: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    named.retain(|name| !["device", "type"].contains(name));
    let mut compared = columns(&Characteristics::default()).map(|(name, _)| name);
    named.sort_unstable();
    compared.sort_unstable();
    assert_eq!(named, compared);
}
