//! Runs side by side: what differs is said to, and nothing else is.

use flashlab_analysis::{Comparison, Difference, FigureRow, PointRow, compare};
use flashlab_base::Seed;
use flashlab_report::{Layout, compare_html, compare_terminal};

use crate::synthetic::{self, Synthetic};

/// The synthetic device, again with another seed, and a device twice as slow.
pub fn three_runs() -> Comparison {
    let (first, _) = synthetic::findings(Seed(1));
    let (again, _) = synthetic::findings(Seed(2));
    let (mut slow, _) = Synthetic::new(Seed(3), 2.0).findings(Seed(3));
    slow.characteristics.device = "Synthetic SSD 64, slow".to_owned();
    compare(&[&first, &again, &slow])
}

fn point(micro_benchmark: &str, label: &str, means: [f64; 2], p: Option<f64>) -> PointRow {
    let difference = Difference { ratio: means[1] / means[0], p, shown: p.is_some_and(|p| p < 0.05) };
    PointRow {
        micro_benchmark: micro_benchmark.to_owned(),
        pattern: "RW".to_owned(),
        label: label.to_owned(),
        response_ns_mean: means.map(Some).to_vec(),
        differences: vec![None, Some(difference)],
    }
}

/// Two runs that differ in one of the patterns.
fn two_runs() -> Comparison {
    let figure = |name: &str, values: [Option<f64>; 2]| FigureRow {
        name: name.to_owned(),
        values: values.to_vec(),
        ratios: vec![Some(1.0), values[0].and_then(|first| Some(values[1]? / first))],
    };
    Comparison {
        devices: vec!["disk one".to_owned(), "disk two".to_owned()],
        characteristics: vec![
            figure("rw_ms", [Some(5.0), Some(9.0)]),
            figure("locality_mb", [Some(8.0), Some(0.0)]),
            figure("partitions", [Some(4.0), None]),
            figure("reverse_ratio", [Some(1.0), Some(1.5)]),
        ],
        points: vec![
            point("baseline", "", [5e6, 9e6], None),
            point("granularity", "512B", [1e6, 1.9e6], Some(0.001)),
            point("granularity", "1KiB", [1e6, 2.1e6], Some(0.002)),
            point("granularity", "2KiB", [1e6, 1.1e6], Some(0.4)),
            point("pause", "0.1ms", [1e6, 1.1e6], Some(0.4)),
        ],
    }
}

#[test]
fn two_runs_in_a_terminal() {
    let layout = Layout { report: Some("comparison.html".to_owned()), ..Layout::default() };
    insta::assert_snapshot!(compare_terminal(&two_runs(), &layout), @r"
    A disk one
    B disk two

    Of 4 points B is slower than A in 2 and faster in 0; in the others no difference
    is shown.

                      A           B
    Random write      5.00 ms     9.00 ms
    Locality          8 MB        no area
    Partitions        4           –
    Reverse           1.00×       1.50×

    baseline RW        no difference shown (too few repetitions)
    granularity RW     2 of 3 points differ, 1.90× to 2.10×
    pause RW           no difference shown

    Report: comparison.html
    ");
}

#[test]
fn where_no_difference_is_shown_none_is_claimed() {
    let mut comparison = two_runs();
    for found in comparison.points.iter_mut().flat_map(|point| point.differences.iter_mut().flatten()) {
        found.shown = false;
    }
    for text in [compare_terminal(&comparison, &Layout::default()), compare_html(&comparison)] {
        assert!(text.replace('\n', " ").contains("no difference is shown in any of 4 points"), "{text}");
        assert!(!text.contains("differ,"), "{text}");
    }
}

#[test]
fn a_device_twice_as_slow_is_called_slower() {
    let comparison = three_runs();
    let text = compare_terminal(&comparison, &Layout::default()).replace('\n', " ");
    assert!(text.contains("C is slower than A in") && text.contains("and faster in 0"), "{text}");
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
        let comparison = Comparison { devices: none, characteristics: Vec::new(), points: Vec::new() };
        compare_terminal(&comparison, &Layout::default());
        compare_html(&comparison);
    }
}

#[test]
fn names_cannot_break_out_of_the_comparison() {
    let mut comparison = two_runs();
    comparison.devices[1] = "</script><script>alert(1)</script>\u{1b}[2J".to_owned();
    comparison.points.iter_mut().for_each(|point| point.label = "<b>".to_owned());
    let page = compare_html(&comparison);
    assert!(!page.contains("<script>alert") && !page.contains("<b>"));
    assert_eq!(page.matches("</script").count(), 4);
    assert!(!compare_terminal(&comparison, &Layout::default()).contains('\u{1b}'));
}
