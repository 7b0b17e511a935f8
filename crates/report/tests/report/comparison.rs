//! Comparisons of runs: differences are reported, and only those.

use flashlab_analysis::findings::{Findings, RunSummary};
use flashlab_analysis::{
    ComparedRun, Comparison, ExperimentKey, FigureRow, RatioVerdict, Responses, compare,
};
use flashlab_base::{Mode, Seed};
use flashlab_report::{Layout, compare_html, compare_terminal};

use crate::synthetic::Synthetic;

/// The synthetic device, the same device with another seed, and a device that is twice as slow.
pub fn three_runs() -> Comparison {
    let run = |seed, slowness, name: &str| {
        let mut device = Synthetic::new(Seed(seed), slowness);
        let (mut findings, _) = device.findings(Seed(seed));
        findings.characteristics.device = name.to_owned();
        compared_run(&findings, &device)
    };
    compare(&[
        run(1, 1.0, "Synthetic SSD 64"),
        run(2, 1.0, "Synthetic SSD 64"),
        run(3, 2.0, "Synthetic SSD 64, slow"),
    ])
}

fn compared_run(findings: &Findings, device: &Synthetic) -> ComparedRun {
    let responses = |runs: &[RunSummary]| {
        let repetitions: Vec<Vec<u64>> = runs.iter().map(|run| device.responses[&run.run].clone()).collect();
        Responses::new(&repetitions).unwrap()
    };
    let mode = |pattern: &str| if pattern.ends_with('R') { Mode::Read } else { Mode::Write };
    let baselines = findings.baselines.iter().map(|baseline| {
        let key = ExperimentKey {
            micro_benchmark: "baseline".to_owned(),
            parameter: String::new(),
            pattern: baseline.pattern.clone(),
            regime: None,
            value: 0.0,
            label: String::new(),
            mode: mode(&baseline.pattern),
        };
        (key, responses(std::slice::from_ref(&baseline.run)))
    });
    let mut experiments: Vec<_> = baselines.collect();
    for micro in &findings.micro_benchmarks {
        for experiment in &micro.experiments {
            for point in &experiment.points {
                let key = ExperimentKey {
                    micro_benchmark: micro.name.clone(),
                    parameter: micro.parameter.clone(),
                    pattern: experiment.pattern.clone(),
                    regime: None,
                    value: point.value,
                    label: point.label.clone(),
                    mode: mode(&experiment.pattern),
                };
                experiments.push((key, responses(&point.runs)));
            }
        }
    }
    ComparedRun {
        device: findings.characteristics.device.clone(),
        details: Default::default(),
        characteristics: findings.characteristics.clone(),
        experiments,
    }
}

/// 3 x 400 IOs of `ns`, a tenth of them twice as long, without scatter.
fn experiment(micro_benchmark: &str, label: &str, value: f64, ns: u64) -> (ExperimentKey, Responses) {
    let key = ExperimentKey {
        micro_benchmark: micro_benchmark.to_owned(),
        parameter: "IOSize".to_owned(),
        pattern: "RW".to_owned(),
        regime: None,
        value,
        label: label.to_owned(),
        mode: Mode::Write,
    };
    let repetition: Vec<u64> = (0..400).map(|i| if i % 10 == 9 { 2 * ns } else { ns }).collect();
    (key, Responses::new(&vec![repetition; 3]).unwrap())
}

/// Two runs that differ in one of the patterns.
fn two_runs() -> Comparison {
    let run = |device: &str, experiments| ComparedRun {
        device: device.to_owned(),
        details: Default::default(),
        characteristics: Default::default(),
        experiments,
    };
    let of = |factor: u64, more: (ExperimentKey, Responses)| {
        vec![
            experiment("pause", "0.1ms", 0.0, 1_000_000),
            experiment("granularity", "512B", 512.0, 100_000),
            experiment("granularity", "1KiB", 1024.0, 150_000 * factor),
            experiment("granularity", "2KiB", 2048.0, 200_000 * factor),
            more,
        ]
    };
    let mut comparison = compare(&[
        run("disk one", of(1, experiment("granularity", "4KiB", 4096.0, 1000))),
        run("disk two", of(2, experiment("order", "1", 1.0, 1000))),
    ]);
    let figure = |name: &str, values: [Option<f64>; 2]| FigureRow {
        name: name.to_owned(),
        values: values.to_vec(),
        ratios: vec![Some(1.0), values[0].and_then(|first| Some(values[1]? / first))],
    };
    comparison.characteristics = vec![
        figure("rw_ms", [Some(5.0), Some(9.0)]),
        figure("locality_mb", [Some(8.0), Some(0.0)]),
        figure("partitions", [Some(4.0), None]),
        figure("reverse_ratio", [Some(1.0), Some(1.5)]),
    ];
    comparison
}

#[test]
fn two_runs_in_a_terminal() {
    let layout = Layout { report: Some("comparison.html".to_owned()), ..Layout::default() };
    insta::assert_snapshot!(compare_terminal(&two_runs(), &layout), @r"
    A disk one
    B disk two

    B's median: slower at 2 of 4 (2.00×), equal at 2. Its p99: slower at 2 of 4
    (2.00×), equal at 2.

                      A           B
    Random write      5.00 ms     9.00 ms
    Locality          8 MB        no area
    Partitions        4           –
    Reverse           1.00×       1.50×

    pause RW 0.1ms
      median    A 1.00 ms, B 1.00 ms: 1.00× (1.00× to 1.00×), equal
      p90       A 1.50 ms, B 1.50 ms: 1.00× (0.61× to 1.64×), cannot be told
      p99       A 2.00 ms, B 2.00 ms: 1.00× (1.00× to 1.00×), equal
      p99.9     A 2.00 ms, B 2.00 ms: 1.00× (too few IOs), cannot be told
      mean      A 1.10 ms, B 1.10 ms: 1.00× (0.95× to 1.06×), equal
      B is equal to A within 10 % at median, p99 and mean. It cannot be told at p90
      (more IOs than can be measured would tell) and p99.9 (about 4 100 IOs of each,
      in 11 repetitions, would tell).

    granularity RW, 3 values of IOSize
      median    slower at 2 of 3 (2.00×), equal at 1
      p99       slower at 2 of 3 (2.00×), equal at 1

    Only A has granularity RW 4KiB.

    Only B has order RW 1.

    Each ratio has a 95 % confidence interval that holds for dependent IOs and for
    few repetitions. Holm's correction covers all 20 ratios: if nothing differs, a
    difference is reported in at most one comparison of twenty. “Equal” means that
    the whole interval lies within 10 % of A. Runs are compared, not device models:
    their states, temperature and other load are part of the ratios.

    Report: comparison.html
    ");
}

#[test]
fn what_cannot_be_told_is_not_called_a_difference() {
    let mut comparison = two_runs();
    for found in comparison.experiments.iter_mut().flat_map(|row| row.ratios.iter_mut().flatten().flatten()) {
        found.ratio.verdict = RatioVerdict::CannotBeTold;
        found.ratio.ios_needed = Some(12_345);
        found.ratio.repetitions_needed = Some(13);
    }
    for text in [compare_terminal(&comparison, &Layout::default()), compare_html(&comparison)] {
        let text = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("median: cannot be told at 4 of 4"), "{text}");
        assert!(text.contains("about 13\u{202f}000 IOs of each, in 13 repetitions, would tell"), "{text}");
        assert!(!text.contains("slower at") && !text.contains("faster at"), "{text}");
    }
}

#[test]
fn a_device_twice_as_slow_is_called_slower() {
    let comparison = three_runs();
    let text = compare_terminal(&comparison, &Layout::default()).replace('\n', " ");
    assert!(text.contains("C's median: slower at"), "{text}");
    let page = compare_html(&comparison);
    assert!(page.contains("C is slower than A at "), "the captions of the distributions");
}

#[test]
fn what_only_one_run_has_is_listed() {
    let text = compare_terminal(&two_runs(), &Layout::default());
    assert!(text.contains("Only A has granularity RW 4KiB."), "{text}");
    assert!(text.contains("Only B has order RW 1."), "{text}");
}

#[test]
fn lines_fit_any_number_of_runs_and_any_width() {
    let mut comparison = two_runs();
    comparison.devices = vec!["a disk with a long name".to_owned(); 9];
    for width in [0, 40, 80, 200] {
        let text = compare_terminal(&comparison, &Layout { width, ..Layout::default() });
        for line in text.lines() {
            assert!(line.chars().count() <= width.max(40), "{width}: {line}");
        }
    }
    for none in [Vec::new(), vec!["alone".to_owned()]] {
        let comparison = Comparison { devices: none, ..compare(&[]) };
        compare_terminal(&comparison, &Layout::default());
        compare_html(&comparison);
    }
}

#[test]
fn names_cannot_break_out_of_the_comparison() {
    let mut comparison = two_runs();
    comparison.devices[1] = "</script><script>alert(1)</script>\u{1b}[2J".to_owned();
    comparison.experiments.iter_mut().for_each(|row| row.key.label = "<b>".to_owned());
    let page = compare_html(&comparison);
    assert!(!page.contains("<script>alert") && !page.contains("<b>"));
    assert_eq!(page.matches("</script").count(), 4);
    assert!(!compare_terminal(&comparison, &Layout::default()).contains('\u{1b}'));
}
