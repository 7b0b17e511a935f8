//! The page of one run: which sections it has, in which order.

use flashlab_analysis::findings::{Findings, MicroBenchmark, Traces};
use flashlab_plan::Plan;
use maud::{Markup, html};

use crate::charts::{self, Chart};
use crate::page::{Section, figures, note, page};
use crate::points::{self, is_own_plan};
use crate::stages::stages_chart;
use crate::state::steady_chart;
use crate::{method, runs, summary};

/// `report.html`: one file that needs no other file.
///
/// It begins with the verdict and the row of Table 3, then warnings and hints. The plots of uFLIP's Figures 3
/// to 8 and of the other micro-benchmarks follow. At the end are how it was measured, and every run.
///
/// For a user's own plan it has the plots, and how they were measured.
pub fn html(findings: &Findings, traces: &Traces) -> String {
    if is_own_plan(findings) {
        return own_plan(findings);
    }
    let baselines = charts::baselines(findings, traces);
    let lingering = charts::lingering(findings, traces);
    let micro: Vec<(&str, Chart)> = findings
        .micro_benchmarks
        .iter()
        .enumerate()
        .map(|(index, micro)| (micro.name.as_str(), charts::micro_benchmark(findings, micro, index)))
        .collect();
    let called = |name: &str| micro.iter().find(|(called, _)| *called == name).map(|(_, chart)| chart);
    let others: Vec<&Chart> = micro
        .iter()
        .filter(|(name, _)| !matches!(*name, "granularity" | "locality"))
        .map(|(_, chart)| chart)
        .collect();
    let top = [steady_chart(findings), stages_chart(findings)];
    let micro_charts = micro.iter().map(|(_, chart)| chart);
    let drawn: Vec<&Chart> =
        top.iter().flatten().chain(&baselines).chain(&lingering).chain(micro_charts).collect();
    let missing: Vec<&str> =
        Plan::MICRO_BENCHMARKS.into_iter().filter(|name| called(name).is_none()).collect();

    let mut sections = summary::sections(findings);
    sections.push(Section {
        id: "phases",
        short: "Phases",
        heading: "Start-up and running phase",
        body: html! {
            p.intro {
                "Every IO of the four baseline patterns, in order. A device may serve the first IOs faster or slower "
                "than it can sustain; figures elsewhere in this report leave that start-up phase out."
            }
            (charts_or_gap(&baselines, "The run kept no traces of the baselines."))
        },
    });
    sections.push(Section {
        id: "lingering",
        short: "Pause",
        heading: "How long random writes linger",
        body: html! {
            p.intro {
                "If a device defers work, reads that follow random writes pay for it. The runs keep a pause from each "
                "other that is longer than this effect."
            }
            (charts_or_gap(&lingering, "The run did not measure it."))
        },
    });
    sections.push(Section {
        id: "granularity",
        short: "IOSize",
        heading: "Response time over IOSize",
        body: charts_or_gap(called("granularity"), "The run did not measure granularity."),
    });
    sections.push(Section {
        id: "locality",
        short: "Locality",
        heading: "Locality of random writes",
        body: charts_or_gap(called("locality"), "The run did not measure locality."),
    });
    sections.push(Section {
        id: "patterns",
        short: "Patterns",
        heading: "The other micro-benchmarks",
        body: html! {
            (charts_or_gap(others, "The run measured none of them."))
            @if !missing.is_empty() { p.note { "Not measured in this run: " (missing.join(", ")) "." } }
        },
    });
    sections.extend(method::sections(findings));
    sections.push(runs::section(findings));
    sections.push(method::definitions(findings));
    let title = format!("{}: flash report", findings.characteristics.device);
    page(&title, &sections, &drawn, &findings.flashlab)
}

fn own_plan(findings: &Findings) -> String {
    let (varied, single): (Vec<&MicroBenchmark>, Vec<&MicroBenchmark>) =
        findings.micro_benchmarks.iter().partition(|plan| !plan.parameter.is_empty());
    let plans = varied.into_iter().enumerate();
    let mut charts: Vec<Chart> =
        plans.map(|(index, plan)| charts::micro_benchmark(findings, plan, index)).collect();
    charts.extend(points::over_time(findings));
    let regimes = findings.micro_benchmarks.iter().flat_map(points::regime_sentences);
    let body = html! {
        (points::facts(&single))
        @for sentence in regimes { p.note { (sentence) } }
        (figures(&charts))
    };
    let mut sections = vec![
        summary::head(findings),
        Section { id: "patterns", short: "Patterns", heading: "What was run", body },
    ];
    sections.extend(method::sections(findings));
    sections.push(runs::section(findings));
    sections.push(method::definitions(findings));
    let title = format!("{}: flash report", findings.characteristics.device);
    let steady = steady_chart(findings);
    page(&title, &sections, &steady.iter().chain(&charts).collect::<Vec<_>>(), &findings.flashlab)
}

fn charts_or_gap<'a>(charts: impl IntoIterator<Item = &'a Chart>, gap: &str) -> Markup {
    let charts: Vec<&Chart> = charts.into_iter().collect();
    if charts.is_empty() { note(gap) } else { figures(charts) }
}
