//! Comparisons of synthetic runs for which it is known whether they differ.
//!
//! `cargo xtask compare-score` measures coverage, false positives and power on many more pairs.

use flashlab_base::Mode;

use super::*;
use crate::synthetic::Source;

fn key(pattern: &str, value: f64) -> ExperimentKey {
    ExperimentKey {
        micro_benchmark: "granularity".into(),
        parameter: "IOSize".into(),
        pattern: pattern.into(),
        regime: None,
        value,
        label: value.to_string(),
        mode: Mode::Write,
    }
}

fn run(device: &str, experiments: Vec<(ExperimentKey, Vec<Vec<u64>>)>) -> ComparedRun {
    let with_responses = |(key, repetitions): (ExperimentKey, Vec<Vec<u64>>)| {
        (key, Responses::new(&repetitions).expect("there are response times"))
    };
    ComparedRun {
        device: device.into(),
        details: RunDetails::default(),
        characteristics: Characteristics::default(),
        experiments: experiments.into_iter().map(with_responses).collect(),
    }
}

/// A device whose response times are log-normal around `level` ns, for 20 values of a parameter.
fn device(source: &mut Source, level: f64, ios: usize) -> ComparedRun {
    let experiments = (0..20).map(|value| {
        let repetitions =
            (0..3).map(|_| (0..ios).map(|_| (level * source.log_normal(0.2)) as u64).collect()).collect();
        (key("RW", f64::from(value)), repetitions)
    });
    run("device", experiments.collect())
}

fn ratios(comparison: &Comparison, run: usize) -> impl Iterator<Item = &StatisticRatio> {
    comparison.experiments.iter().flat_map(move |row| row.ratios[run].iter().flatten())
}

fn differs(found: &StatisticRatio) -> bool {
    matches!(found.ratio.verdict, RatioVerdict::Faster | RatioVerdict::Slower)
}

#[test]
fn equal_devices_show_no_difference_nineteen_times_out_of_twenty() {
    let shown = (0..100).filter(|&seed| {
        let mut source = Source::new(seed);
        let (a, b) = (device(&mut source, 1e5, 400), device(&mut source, 1e5, 400));
        ratios(&compare(&[a, b]), 1).any(differs)
    });
    let shown: Vec<u64> = shown.collect();
    // Of 100 comparisons with a probability of 5 % each, more than 11 report a difference in 0.4 % of cases.
    assert!(shown.len() <= 11, "seeds {shown:?}");
}

#[test]
fn a_device_that_is_slower_everywhere_is_shown_to_be() {
    let mut source = Source::new(1);
    let (a, b) = (device(&mut source, 1e5, 1000), device(&mut source, 1.3e5, 1000));
    let comparison = compare(&[a.clone(), b.clone()]);
    for found in ratios(&comparison, 1).filter(|found| found.statistic != Statistic::P999) {
        // 3,000 IOs may have missed three that take 20 ms: that decides about their mean.
        let expected = match found.statistic {
            Statistic::Mean => RatioVerdict::CannotBeTold,
            _ => RatioVerdict::Slower,
        };
        assert_eq!(found.ratio.verdict, expected, "{found:?}");
        assert!((1.1..1.5).contains(&found.ratio.ratio), "{found:?}");
    }
    for (forth, back) in ratios(&comparison, 1).zip(ratios(&compare(&[b, a]), 1)) {
        assert!((forth.ratio.ratio * back.ratio.ratio - 1.0).abs() < 1e-9, "{forth:?} {back:?}");
        assert!((forth.ratio.p - back.ratio.p).abs() < 1e-6, "{forth:?} {back:?}");
    }
}

#[test]
fn outliers_that_drown_the_mean_do_not_hide_the_median() {
    // A device 1.9 times slower, both with 1 % of IOs that take 20 times as long.
    let mut source = Source::new(3);
    let mut of = |level: f64| {
        let repetitions = (0..3)
            .map(|_| {
                let mut response = || {
                    let outlier = if source.unit() < 0.01 { 20.0 } else { 1.0 };
                    (level * outlier * source.log_normal(0.1)) as u64
                };
                (0..400).map(|_| response()).collect()
            })
            .collect();
        run("device", vec![(key("RW", 1.0), repetitions)])
    };
    let comparison = compare(&[of(1e5), of(1.9e5)]);
    let median = ratios(&comparison, 1).next().unwrap();
    assert_eq!(
        (median.statistic, median.ratio.verdict),
        (Statistic::P50, RatioVerdict::Slower),
        "{median:?}"
    );
    assert!((1.8..2.0).contains(&median.ratio.ratio), "{median:?}");
}

#[test]
fn reads_and_writes_of_one_mix_are_two_experiments() {
    let mixed = |level: u64| {
        let of = |mode, ns: u64| {
            (ExperimentKey { mode, ..key("SR/RW", 0.5) }, vec![(0..500).map(|i| ns + i % 7).collect(); 3])
        };
        run("device", vec![of(Mode::Read, 1000), of(Mode::Write, level)])
    };
    let comparison = compare(&[mixed(50_000), mixed(100_000)]);
    let verdicts: Vec<_> = comparison
        .experiments
        .iter()
        .map(|row| (row.key.mode, row.ratios[1].as_ref().unwrap()[0].ratio.verdict))
        .collect();
    assert_eq!(verdicts, [(Mode::Read, RatioVerdict::Equal), (Mode::Write, RatioVerdict::Slower)]);
}

#[test]
fn too_few_ios_for_a_quantile_say_how_many_would_do() {
    let of = |offset: u64| {
        run("device", vec![(key("RW", 1.0), vec![(0..40).map(|i| 1000 + 37 * i % 400 + offset).collect()])])
    };
    let comparison = compare(&[of(0), of(10)]);
    let tail = ratios(&comparison, 1).find(|found| found.statistic == Statistic::P999).unwrap();
    assert_eq!((tail.ratio.verdict, tail.ratio.high), (RatioVerdict::CannotBeTold, None), "{tail:?}");
    assert!(tail.ratio.ios_needed.unwrap() > 40, "{tail:?}");
}

/// A device with a merge of 61 ms at every thousandth IO, and 20 us otherwise: its mean is 80.98 us.
fn merging(ios: usize) -> ComparedRun {
    let time = |io: usize| if io % 1000 == 999 { 61_000_000 } else { 20_000 };
    run("device", vec![(key("RW", 1.0), vec![(0..ios / 3).map(time).collect(); 3])])
}

#[test]
fn merges_that_a_short_run_missed_make_no_difference_of_the_means() {
    let comparison = compare(&[merging(187_000), merging(300)]);
    let mean = ratios(&comparison, 1).find(|found| found.statistic == Statistic::Mean).unwrap();
    assert_eq!(mean.ratio.verdict, RatioVerdict::CannotBeTold, "{mean:?}");
    assert!(mean.ratio.low < 1.0 && mean.ratio.high.unwrap() > 1.0, "{mean:?}");
    let estimate = merging(300).response_estimates(Statistic::Mean)[0];
    assert!(estimate.value == 20_000.0 && estimate.high.unwrap() > 80_980.0, "{estimate:?}");
    let long = merging(187_000).response_estimates(Statistic::Mean)[0];
    assert!(long.low > 60_000.0 && long.high.unwrap() < 110_000.0, "{long:?}");
}

#[test]
fn the_number_of_ios_that_would_tell_depends_on_the_quantile() {
    let mut source = Source::new(5);
    let mut of = || {
        let repetition = |_| (0..100).map(|_| (1e5 * source.log_normal(0.5)) as u64).collect();
        run("device", vec![(key("RW", 1.0), (0..3).map(repetition).collect())])
    };
    let comparison = compare(&[of(), of()]);
    let needed = |statistic: Statistic| {
        let found = ratios(&comparison, 1).find(|found| found.statistic == statistic).unwrap();
        found.ratio.ios_needed.unwrap_or_else(|| panic!("{found:?}"))
    };
    let [median, p99, p999] = [Statistic::P50, Statistic::P99, Statistic::P999].map(needed);
    assert!(median > 300 && 2 * median < p99 && 2 * p99 < p999, "{median}, {p99}, {p999}");
}

#[test]
fn an_experiment_that_jumps_between_two_modes_widens_its_own_intervals_alone() {
    let steady = |value: f64| (key("SR", value), vec![(0..400).map(|i| 67_000 + i % 5).collect(); 3]);
    let jumping =
        (key("SR", 9.0), [67_000, 129_000, 67_000].map(|ns| (0..400).map(|i| ns + i % 5).collect()).to_vec());
    let of = || run("device", (0..8).map(f64::from).map(steady).chain([jumping.clone()]).collect());
    let comparison = compare(&[of(), of()]);
    for row in &comparison.experiments {
        let median = &row.ratios[1].as_ref().unwrap()[0].ratio;
        let expected = if row.key.value == 9.0 { RatioVerdict::CannotBeTold } else { RatioVerdict::Equal };
        assert_eq!(median.verdict, expected, "{}: {median:?}", row.key.value);
    }
}

/// Eight experiments of three repetitions with 2,000 IOs; the last one has the repetitions that `last` makes.
fn with_last(source: &mut Source, last: impl Fn(&mut Source, usize, usize) -> f64) -> ComparedRun {
    let mut experiments: Vec<_> = (0..7)
        .map(|value| {
            let repetition = |source: &mut Source| {
                (0..2000).map(|_| (1e5 * source.log_normal(0.2)) as u64).collect::<Vec<u64>>()
            };
            (key("RW", f64::from(value)), (0..3).map(|_| repetition(source)).collect::<Vec<_>>())
        })
        .collect();
    let repetitions = (0..3).map(|repetition| {
        (0..2000).map(|io| (1e5 * source.log_normal(0.2) * last(source, repetition, io)) as u64).collect()
    });
    experiments.push((key("RW", 9.0), repetitions.collect()));
    run("device", experiments)
}

fn of_last(comparison: &Comparison, statistic: Statistic) -> Ratio {
    let row = comparison.experiments.iter().find(|row| row.key.value == 9.0).unwrap();
    let found = row.ratios[1].iter().flatten().find(|found| found.statistic == statistic);
    found.unwrap().ratio.clone()
}

#[test]
fn one_odd_repetition_of_three_is_shown_and_decides_nothing() {
    let mut source = Source::new(8);
    let usual = with_last(&mut source, |_, _, _| 1.0);
    // 5 % of the IOs of the second repetition take 20 times as long.
    let odd = with_last(
        &mut source,
        |source, repetition, _| {
            if repetition == 1 && source.unit() < 0.05 { 20.0 } else { 1.0 }
        },
    );
    let comparison = compare(&[usual, odd]);
    for statistic in [Statistic::P99, Statistic::P999] {
        let ratio = of_last(&comparison, statistic);
        assert_eq!(ratio.verdict, RatioVerdict::CannotBeTold, "{ratio:?}");
        assert!(ratio.first_repetitions_ns.is_none(), "{ratio:?}");
        let repetitions = ratio.other_repetitions_ns.as_ref().expect("they differ");
        assert!(repetitions[1] > 5.0 * repetitions[0].max(repetitions[2]), "{ratio:?}");
        let needed = ratio.repetitions_needed.expect("repetitions would tell");
        assert!(needed > 10 && ratio.ios_needed.unwrap().div_ceil(2000) == needed, "{ratio:?}");
    }
    let median = of_last(&comparison, Statistic::P50);
    assert!(median.verdict == RatioVerdict::Equal && median.other_repetitions_ns.is_none(), "{median:?}");
    let differs = ratios(&comparison, 1).filter(|found| differs(found)).count();
    assert_eq!(differs, 0);
}

#[test]
fn an_odd_repetition_of_one_experiment_leaves_the_tails_of_the_others_alone() {
    // Short experiments, which have no p99.9; a long one with an odd repetition; and a baseline, which has one repetition.
    let mut source = Source::new(12);
    let mut device = |tail: f64| {
        let mut responses = |ios: usize, odd: f64| -> Vec<u64> {
            let time = |_| {
                let slow = if source.unit() < 0.01 { tail * odd } else { 1.0 };
                (1e5 * source.log_normal(0.1) * slow) as u64
            };
            (0..ios).map(time).collect()
        };
        let mut experiments: Vec<_> =
            (0..7).map(|value| (key("RW", f64::from(value)), vec![responses(200, 1.0); 3])).collect();
        experiments.push((
            key("RW", 8.0),
            vec![responses(20_000, 1.0), responses(20_000, 8.0), responses(20_000, 1.0)],
        ));
        experiments.push((key("RW", 9.0), vec![responses(30_000, 1.0)]));
        run("device", experiments)
    };
    let comparison = compare(&[device(10.0), device(20.0)]);
    let ratio = of_last(&comparison, Statistic::P999);
    assert_eq!(ratio.verdict, RatioVerdict::Slower, "{ratio:?}");
    let odd = comparison.experiments.iter().find(|row| row.key.value == 8.0).unwrap();
    let odd = &odd.ratios[1].as_ref().unwrap()[Statistic::P999 as usize].ratio;
    assert_eq!(odd.verdict, RatioVerdict::CannotBeTold, "{odd:?}");
}

#[test]
fn an_odd_repetition_does_not_hide_what_the_others_agree_upon() {
    // All are at least 100 times as slow, and one of them 110 times.
    let mut source = Source::new(9);
    let usual = with_last(&mut source, |_, _, _| 1.0);
    let slow = with_last(&mut source, |_, repetition, _| if repetition == 1 { 110.0 } else { 100.0 });
    let ratio = of_last(&compare(&[usual, slow]), Statistic::P50);
    assert_eq!(ratio.verdict, RatioVerdict::Slower, "{ratio:?}");
    assert!(ratio.other_repetitions_ns.is_some(), "{ratio:?}");
}

#[test]
fn a_drift_from_repetition_to_repetition_is_no_difference_and_one_within_them_no_scatter() {
    let mut source = Source::new(10);
    let flat = with_last(&mut source, |_, _, _| 1.0);
    let rising = with_last(&mut source, |_, repetition, _| 1.0 + 0.15 * repetition as f64);
    let ratio = of_last(&compare(&[flat, rising]), Statistic::P50);
    assert_eq!(ratio.verdict, RatioVerdict::CannotBeTold, "{ratio:?}");
    assert!(ratio.other_repetitions_ns.is_some(), "{ratio:?}");

    let mut drifting = || with_last(&mut source, |_, _, io| 1.0 + 0.3 * io as f64 / 2000.0);
    let ratio = of_last(&compare(&[drifting(), drifting()]), Statistic::P50);
    assert_eq!(ratio.verdict, RatioVerdict::Equal, "{ratio:?}");
}

#[test]
fn what_only_some_runs_have_is_listed() {
    let of = |values: &[f64]| {
        run("device", values.iter().map(|&value| (key("RW", value), vec![vec![1000; 100]])).collect())
    };
    let comparison = compare(&[of(&[1.0, 2.0]), of(&[2.0, 3.0]), of(&[3.0])]);
    let compared: Vec<f64> = comparison.experiments.iter().map(|row| row.key.value).collect();
    assert_eq!(compared, [2.0]);
    assert!(comparison.experiments[0].ratios[1].is_some() && comparison.experiments[0].ratios[2].is_none());
    let missing: Vec<_> = comparison.missing.iter().map(|row| (row.key.value, row.runs.clone())).collect();
    assert_eq!(missing, [(1.0, vec![0]), (2.0, vec![0, 1]), (3.0, vec![1, 2])]);
}

#[test]
fn nothing_and_one_are_compared_with_nothing() {
    assert_eq!(compare(&[]).experiments, []);
    let alone = device(&mut Source::new(0), 1e5, 10);
    assert_eq!(compare(&[alone]).experiments, []);
}

#[test]
fn no_response_times_make_a_comparison_panic() {
    let odd: [Vec<u64>; 6] =
        [vec![0], vec![0; 500], vec![u64::MAX; 10], vec![1, u64::MAX], vec![5; 2], (0..1000).collect()];
    for a in &odd {
        for b in &odd {
            let of = |ns: &[u64]| run("device", vec![(key("RW", 1.0), vec![ns.to_vec(), ns.to_vec()])]);
            for found in ratios(&compare(&[of(a), of(b)]), 1) {
                let Ratio { low, ratio, high, p, .. } = found.ratio;
                assert!(low <= ratio && high.is_none_or(|high| ratio <= high), "{found:?}");
                assert!((0.0..=1.0).contains(&p), "{found:?}");
            }
        }
    }
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

#[test]
fn each_regime_is_compared_with_the_same_regime_and_named() {
    let in_regime = |regime, ns: u64| {
        let key = ExperimentKey { regime, ..key("RW", 32768.0) };
        (key, vec![(0..500).map(|i| ns + i % 7).collect(); 3])
    };
    let (burst, sustained) = (Some(Regime::Burst), Some(Regime::Sustained));
    let buffered = run("buffered", vec![in_regime(sustained, 600_000), in_regime(burst, 10_000)]);
    let other = run("other", vec![in_regime(burst, 20_000), in_regime(sustained, 300_000)]);
    let unbuffered = run("unbuffered", vec![in_regime(None, 600_000)]);
    let short = run("short", vec![in_regime(Some(Regime::Unknown), 10_000)]);
    let compared = compare(&[buffered, other, unbuffered, short]);
    let medians = |row: &ExperimentRow| -> Vec<Option<f64>> {
        let median = |ratios: &Option<Vec<StatisticRatio>>| Some(ratios.as_ref()?[0].ratio.ratio);
        row.ratios.iter().map(median).collect()
    };
    let [lasting, bursts] = &compared.experiments[..] else { panic!("{:?}", compared.experiments) };
    assert_eq!((lasting.key.name(), bursts.key.name()), ("RW".to_owned(), "RW.burst".to_owned()));
    // A device with one regime is always in what lasts; a run that does not show its regime is in none.
    assert_eq!(lasting.regimes, [sustained, sustained, None, None]);
    assert_eq!(bursts.regimes, [burst, burst, None, None]);
    let near = |found: Option<f64>, wanted: f64| assert!((found.unwrap() / wanted - 1.0).abs() < 0.01);
    near(medians(lasting)[1], 0.5);
    near(medians(lasting)[2], 1.0);
    near(medians(bursts)[1], 2.0);
    assert_eq!((medians(lasting)[3], medians(bursts)[2], medians(bursts)[3]), (None, None, None));
    let missing: Vec<_> = compared.missing.iter().map(|row| (row.key.regime, row.runs.clone())).collect();
    assert!(missing.contains(&(Some(Regime::Unknown), vec![3])), "{missing:?}");
}
