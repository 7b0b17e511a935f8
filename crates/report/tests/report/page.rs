//! The page as a file: complete, safe with any names, small, and correct about missing figures.

use flashlab_analysis::findings::{Characteristics, Findings, Traces, Warning};
use flashlab_base::Seed;
use flashlab_report::html;

use crate::synthetic;

/// A run that measured nothing at all.
pub fn empty() -> (Findings, Traces) {
    let (mut findings, _) = synthetic::findings(Seed(1));
    findings.characteristics = Characteristics { device: "bare".to_owned(), ..Characteristics::default() };
    findings.baselines.clear();
    findings.lingering = None;
    findings.micro_benchmarks.clear();
    findings.hints.clear();
    findings.warnings.clear();
    (findings, Traces::default())
}

#[test]
fn a_page_without_data_is_small_and_says_what_is_missing() {
    let (findings, traces) = empty();
    let page = html(&findings, &traces);
    println!("page without data: {} bytes", page.len());
    assert!(page.len() < 120 * 1024, "{} bytes", page.len());
    assert!(page.contains("The run measured too little for a verdict."));
    assert!(page.contains("Not measured in this run: granularity, alignment, locality"));
    assert_eq!(page.matches("<span class=\"missing\">not measured</span>").count(), 4 + 6);
}

#[test]
fn the_page_asks_nothing_of_any_network() {
    let (findings, traces) = synthetic::findings(Seed(5));
    let page = html(&findings, &traces);
    println!("page of a full run: {} bytes", page.len());
    assert!(page.contains("default-src 'none'"));
    // Attributes that make a browser load something. No other attribute of the page does.
    for attribute in ["src=", "href=\"http", "href=\"//", "url(", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(attribute), "{attribute}");
    }
}

#[test]
fn names_cannot_break_out_of_the_page() {
    const HOSTILE: &str = "</script></title><script>alert('x')</script><!--<img src=x onerror=\"1\">&";
    let (mut findings, mut traces) = synthetic::findings(Seed(6));
    let hostile = || HOSTILE.to_owned();
    let harmless = html(&findings, &traces).matches('<').count();
    findings.characteristics.device = hostile();
    findings.identity.target = hostile();
    findings.identity.serial = Some(hostile());
    findings.flashlab = hostile();
    findings.method.state = hostile();
    findings.warnings = vec![Warning { kind: hostile(), run: None, message: hostile() }; 2];
    findings.hints.iter_mut().for_each(|hint| hint.advice = hostile());
    for micro in &mut findings.micro_benchmarks {
        micro.parameter = hostile();
        for experiment in &mut micro.experiments {
            experiment.pattern = hostile();
            experiment.points.iter_mut().for_each(|point| point.label = hostile());
        }
    }
    traces.traces[0].marks = vec![(0, hostile())];
    let page = html(&findings, &traces);
    assert!(!page.contains("<script>alert"));
    assert!(!page.contains("<img"));
    // Four scripts of the page end: errors and theme, data, uPlot, report. Nothing else contains an end tag.
    assert_eq!(page.matches("</script").count(), 4);
    // Each of the two warnings lost the `<span>` of its run. No tag was added.
    assert!(page.matches('<').count() <= harmless, "hostile names made markup");
}

#[test]
fn tables_hold_every_run_without_a_script() {
    let (findings, traces) = synthetic::findings(Seed(7));
    let page = html(&findings, &traces);
    let points = findings.micro_benchmarks.iter().flat_map(|m| &m.experiments).flat_map(|e| &e.points);
    let runs = findings.baselines.len() + points.map(|point| point.runs.len()).sum::<usize>();
    assert_eq!(page.matches("<tr><td data-view=\"run=").count(), runs);
    assert!(page.contains("<noscript>"));
}

#[test]
fn undefined_figures_are_gaps() {
    let (mut findings, mut traces) = synthetic::findings(Seed(8));
    findings.characteristics.rw_ms = Some(f64::NAN);
    findings.characteristics.sw_ms = Some(0.0);
    findings.micro_benchmarks[0].experiments[0].points[0].response_ns_mean = f64::INFINITY;
    findings.micro_benchmarks[1].experiments[0].points[0].value = f64::NAN;
    traces.traces[0].running_mean_ns.truncate(3);
    traces.traces[1].response_ns.clear();
    let page = html(&findings, &traces);
    for wrong in ["NaN", "inf<", "inf×", ">inf"] {
        let shown = page.split("<script>").next().unwrap();
        assert!(!shown.contains(wrong), "{wrong}");
    }
}
