use flashlab_base::{Mode, Prng, Seed};

use super::{Evidence, Expectation, ExpectationKind, Outcome};
use crate::compare::{
    ComparedRun, ExperimentKey, RatioVerdict, Responses, RunDetails, TransferTotals, compare,
};
use crate::findings::{Characteristics, Regime};

fn key(micro_benchmark: &str, pattern: &str, label: &str, value: f64, mode: Mode) -> ExperimentKey {
    ExperimentKey {
        micro_benchmark: micro_benchmark.to_owned(),
        parameter: String::new(),
        pattern: pattern.to_owned(),
        regime: None,
        value,
        label: label.to_owned(),
        mode,
    }
}

fn in_bursts(key: ExperimentKey) -> ExperimentKey {
    ExperimentKey { regime: Some(Regime::Burst), ..key }
}

/// Three repetitions of IOs of 4 KiB, within 10 % of `center_ns`, one after the other.
fn responses(center_ns: u64, ios: u64, seed: u64) -> Responses {
    let mut random = Prng::new(Seed(seed));
    let mut time = || center_ns * 9 / 10 + random.below(center_ns / 5);
    let repetitions: Vec<Vec<u64>> = (0..3).map(|_| (0..ios).map(|_| time()).collect()).collect();
    let duration_ns = repetitions.iter().flatten().sum();
    Responses::new(&repetitions).unwrap().with_throughput(TransferTotals {
        ios: 3 * ios,
        bytes: 3 * ios * 4096,
        duration_ns,
    })
}

fn run(center_ns: u64, seed: u64) -> ComparedRun {
    run_of(20_000, center_ns, seed)
}

fn run_of(ios: u64, center_ns: u64, seed: u64) -> ComparedRun {
    let experiments = [
        key("baseline", "RW", "", 0.0, Mode::Write),
        key("granularity", "RW", "4KiB", 4096.0, Mode::Write),
        key("granularity", "RW", "32KiB", 32768.0, Mode::Write),
        key("mix", "SR/RW", "2", 2.0, Mode::Read),
        key("mix", "SR/RW", "2", 2.0, Mode::Write),
        in_bursts(key("baseline", "RW", "", 0.0, Mode::Write)),
        in_bursts(key("granularity", "RW", "32KiB", 32768.0, Mode::Write)),
    ];
    ComparedRun {
        device: "a device".to_owned(),
        details: RunDetails::default(),
        characteristics: Characteristics::default(),
        experiments: experiments
            .into_iter()
            .zip(1..)
            .map(|(key, index)| (key, responses(center_ns * index, ios, seed + index)))
            .collect(),
    }
}

fn judged(text: &str) -> Vec<(String, Outcome)> {
    let expectation: Expectation = text.parse().unwrap();
    let judgements = expectation.judge_run(&run(100_000, 1));
    judgements.into_iter().map(|judgement| (judgement.of, judgement.outcome)).collect()
}

#[test]
fn an_interval_on_one_side_of_the_bound_decides() {
    let only = |text: &str| match judged(text).as_slice() {
        [(of, outcome)] => (of.clone(), *outcome),
        several => panic!("{text}: {several:?}"),
    };
    let baseline = |outcome| ("RW".to_owned(), outcome);
    assert_eq!(only("RW.p50 < 110us"), baseline(Outcome::Met));
    assert_eq!(only("RW.p50 < 90us"), baseline(Outcome::NotMet));
    assert_eq!(only("RW.p50 < 100us"), baseline(Outcome::CannotBeTold));
    assert_eq!(only("rw.p50 >= 90 us"), baseline(Outcome::Met));
    assert_eq!(only("RW.iops > 9000"), baseline(Outcome::Met));
    assert_eq!(only("RW.iops > 11000"), baseline(Outcome::NotMet));
    assert_eq!(only("RW.bandwidth > 36MB/s"), baseline(Outcome::Met));
    assert_eq!(only("RW.bandwidth > 36MiB/s"), baseline(Outcome::Met));
    assert_eq!(only("RW.bandwidth > 45MB/s"), baseline(Outcome::NotMet));
    assert_eq!(only("granularity:RW@4KiB.p99 < 1ms"), ("granularity:RW@4KiB".to_owned(), Outcome::Met));
    assert_eq!(only("granularity:RW@4096.mean > 1ms").1, Outcome::NotMet);
    assert_eq!(only("SR/RW.writes.mean > 450us"), ("mix:SR/RW@2.writes".to_owned(), Outcome::Met));
}

#[test]
fn a_name_can_mean_several_experiments() {
    assert_eq!(judged("granularity:RW.p50 < 250us").len(), 2);
    let both = judged("mix:SR/RW.p50 < 450us");
    assert_eq!(both[0], ("mix:SR/RW@2.reads".to_owned(), Outcome::Met));
    assert_eq!(both[1], ("mix:SR/RW@2.writes".to_owned(), Outcome::NotMet));
}

#[test]
fn what_so_few_ios_cannot_give_cannot_be_told() {
    let few = run_of(400, 100_000, 1);
    let judged = |text: &str| text.parse::<Expectation>().unwrap().judge_run(&few)[0].outcome;
    // Of 1,200 IOs one lies beyond the 99.9th percentile: no upper end.
    assert_eq!(judged("RW.p99.9 < 1s"), Outcome::CannotBeTold);
    assert_eq!(judged("RW.p99.9 < 50us"), Outcome::NotMet);
    // And three of them may have been merges of 20 ms, none of which was seen: 62 us an IO.
    assert_eq!(judged("RW.mean < 150us"), Outcome::CannotBeTold);
    assert_eq!(judged("RW.iops > 7000"), Outcome::CannotBeTold);
    assert_eq!(judged("RW.mean < 180us"), Outcome::Met);
}

#[test]
fn what_was_not_measured_is_never_met() {
    for text in ["SW.p50 < 1s", "granularity:RW@8KiB.p50 < 1s", "order:RW.p50 < 1s"] {
        let expectation: Expectation = text.parse().unwrap();
        let judgements = expectation.judge_run(&run(100_000, 1));
        assert_eq!(judgements.len(), 1);
        assert_eq!(judgements[0].outcome, Outcome::CannotBeTold);
        let Evidence::NotMeasured { measured } = &judgements[0].evidence else { panic!("{judgements:?}") };
        assert!(measured.contains(&"granularity:RW@4KiB".to_owned()), "{measured:?}");
    }
}

#[test]
fn every_other_run_of_a_comparison_is_judged() {
    let comparison = compare(&[run(100_000, 1), run(100_000, 50), run(200_000, 100)]);
    let judged = |text: &str| -> Vec<Outcome> {
        let expectation: Expectation = text.parse().unwrap();
        assert_eq!(expectation.kind(), ExpectationKind::Comparison);
        expectation.judge_comparison(&comparison).iter().map(|judgement| judgement.outcome).collect()
    };
    assert_eq!(judged("p50(RW) < 1.2x"), [Outcome::Met, Outcome::NotMet]);
    assert_eq!(judged("median(granularity:RW@32KiB) > 1.5x"), [Outcome::NotMet, Outcome::Met]);
    assert_eq!(judged("mean(RW) < 2×")[1], Outcome::CannotBeTold);
}

#[test]
fn what_is_no_expectation_is_told() {
    let error = |text: &str| text.parse::<Expectation>().unwrap_err().to_string();
    assert!(error("RW.p99").contains("compares nothing"));
    assert!(error("RW.p95 < 1ms").contains("is no figure"));
    assert!(error("RW < 1ms").contains("is no figure"));
    assert!(error(".p99 < 1ms").contains("is no figure"));
    assert!(error("iops(RW) < 1.2x").contains("is no figure"));
    assert!(error("RW.max < 1ms").contains("p99.9"));
    assert!(error("RW.p99 = 1ms").contains("never equal"));
    assert!(error("RW.p99 < 3").contains("a time, as 500us"));
    assert!(error("RW.bandwidth > 1GB").contains("1GB/s"));
    assert!(error("p99(RW) < 1.2").contains("1.2x"));
    assert!(error("p99(RW) < -1x").contains("1.2x"));
    assert!(error("RW.iops > inf").contains("20000"));
    assert!(error("erase_block_size = big").contains("a size, as 4MiB"));
    assert!(error("translation_family = pages").contains("demand-cached page"));
    assert!(error("recovery_ends < yes").contains("yes, no"));
    assert!(error("read_cost_per_io = 10us").contains("never equal"));
}

#[test]
fn an_expectation_that_the_corrected_comparison_does_not_bear_out_says_so() {
    let expectation: Expectation = "p50(RW) > 1.0x".parse().unwrap();
    let mut seen = Vec::new();
    for seed in 0..40 {
        let comparison = compare(&[run_of(30, 100_000, 100 * seed), run_of(30, 102_500, 100 * seed + 50)]);
        let verdict = comparison.experiments[0].ratios[1].as_ref().unwrap()[0].ratio.verdict;
        let judgement = expectation.judge_comparison(&comparison).remove(0);
        let Evidence::Interval { not_among, .. } = judgement.evidence else { panic!("{judgement:?}") };
        let is_shown = matches!(verdict, RatioVerdict::Faster | RatioVerdict::Slower);
        let is_left_open = judgement.outcome == Outcome::Met && !is_shown;
        assert_eq!(not_among, is_left_open.then_some(comparison.tests), "seed {seed}: {judgement:?}");
        seen.push((judgement.outcome, not_among.is_some()));
    }
    for case in [(Outcome::Met, true), (Outcome::CannotBeTold, false)] {
        assert!(seen.contains(&case), "{case:?} in {seen:?}");
    }
}

#[test]
fn an_expectation_names_a_regime_and_without_one_means_what_lasts() {
    let of = |text: &str| judged(text).into_iter().map(|(of, _)| of).collect::<Vec<_>>();
    assert_eq!(of("RW.p99 < 1s"), ["RW"]);
    assert_eq!(of("RW.sustained.p99 < 1s"), ["RW"]);
    assert_eq!(of("RW.burst.p99.9 < 1s"), ["RW.burst"]);
    assert_eq!(of("granularity:RW@32KiB.sustained.p99 < 1s"), ["granularity:RW@32KiB"]);
    for text in [
        "granularity:RW@32KiB.burst.p99 < 1s",
        "granularity:RW.burst@32KiB.p99 < 1s",
        "RW@32KiB.burst.writes.p99 < 1s",
    ] {
        assert_eq!(of(text), ["granularity:RW.burst@32KiB"], "{text}");
    }
    // The sixth experiment takes 600 us, the first 100.
    assert_eq!(judged("RW.burst.p50 < 300us")[0].1, Outcome::NotMet);
    assert_eq!(judged("RW.sustained.p50 < 300us")[0].1, Outcome::Met);
    assert_eq!(judged("SW.burst.p50 < 300us")[0].1, Outcome::CannotBeTold);
}
