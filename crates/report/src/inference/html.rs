//! The findings as a page: one file that needs nothing else.

use flashlab_analysis::inference::{Finding, Verdict};
use maud::{Markup, html};

use super::pictures::sentence;
use super::{InferenceRun, by_evidence, confidence, pictures, titles};
use crate::advice::{Advice, Advised, advice};
use crate::charts::Chart;
use crate::page::{Section, facts, figures, note, page};
use crate::summary::{date, term};
use crate::units::exactly;

/// What was found with what it means, a picture of each signal, what is not known and why, and how it came about.
pub fn inference_html(run: &InferenceRun<'_>) -> String {
    let (found, open) = (run.of(Verdict::Found), run.of(Verdict::Undetermined));
    let none = run.of(Verdict::NotIdentifiable);
    let seen = pictures::charts(&found);
    let unclear: Vec<&Finding> = open.iter().chain(&none).copied().collect();
    let others = renumbered(pictures::charts(&unclear), seen.len());
    let advised = advice(run.inference);
    let sections = [
        Section { id: "verdict", short: "Found", heading: "", body: head(run, &found) },
        Section {
            id: "hints",
            short: advice_name(&advised),
            heading: advice_heading(&advised),
            body: advice_html(&advised),
        },
        Section {
            id: "evidence",
            short: "Evidence",
            heading: "What the estimators saw",
            body: drawn(&seen, "No finding has a picture."),
        },
        Section {
            id: "open",
            short: "Not known",
            heading: "What is not known, and why",
            body: html! {
                (reasons("Undetermined", &open))
                (reasons("Not identifiable from outside", &none))
            },
        },
        Section {
            id: "looked",
            short: "",
            heading: "",
            body: if others.is_empty() { Markup::default() } else { figures(&others) },
        },
        Section { id: "points", short: "Table", heading: "Every parameter", body: table(run) },
        Section { id: "method", short: "Method", heading: "How it was found out", body: method(run) },
    ];
    let charts: Vec<&Chart> = seen.iter().chain(&others).collect();
    page(&format!("{}: hidden parameters", run.device()), &sections, &charts, run.flashlab)
}

/// The same charts with names that follow those of the first ones.
fn renumbered(charts: Vec<Chart>, first: usize) -> Vec<Chart> {
    let renumber = |(index, chart)| Chart { id: format!("picture-{}", first + index), ..chart };
    charts.into_iter().enumerate().map(renumber).collect()
}

fn advice_name(advised: &Advised) -> &'static str {
    if advised.given.is_empty() { "" } else { "Advice" }
}

fn advice_heading(advised: &Advised) -> &'static str {
    if advised.given.is_empty() { "" } else { "What to do with this device" }
}

fn advice_html(advised: &Advised) -> Markup {
    html! {
        @if !advised.given.is_empty() { ol.hints { @for advice in &advised.given { (advice_item(advice)) } } }
    }
}

fn advice_item(advice: &Advice) -> Markup {
    html! {
        li.holds {
            div.sign aria-hidden="true" { "✓" }
            div {
                p.paper { (advice.subject) }
                p.advice { (sentence(&advice.advice)) }
                p.evidence { (sentence(&advice.reason)) " (" ((advice.confidence * 100.0).floor()) " % sure)" }
                pre { (advice.command) }
                @if advice.overwrites { p.evidence { "This overwrites what is on the device." } }
            }
        }
    }
}

fn drawn(charts: &[Chart], gap: &str) -> Markup {
    if charts.is_empty() { note(gap) } else { figures(charts) }
}

fn head(run: &InferenceRun<'_>, found: &[&Finding]) -> Markup {
    let inference = run.inference;
    html! {
        p.eyebrow { (inference.identity.kind) " · " (inference.capacity) " · " (date(run.started)) }
        h1 { (run.device()) }
        p.verdict { (run.summary()) }
        (warnings(run.warnings))
        div.cards.inferred { @for (index, finding) in found.iter().enumerate() { (card(index, finding)) } }
    }
}

fn card(index: usize, finding: &Finding) -> Markup {
    html! {
        div.card {
            h3 { (term(finding.parameter.title(), finding.parameter.definition(), index)) }
            p.figure { (finding.value_in_words()) }
            p.detail { (confidence(finding)) " sure" }
        }
    }
}

fn warnings(warnings: &[(String, String)]) -> Markup {
    html! {
        @if !warnings.is_empty() {
            aside.warnings aria-label="Warnings" {
                h2 { "To doubt" }
                ul { @for (_, message) in warnings { li { (message) } } }
            }
        }
    }
}

fn reasons(heading: &str, findings: &[&Finding]) -> Markup {
    let groups = by_evidence(findings);
    let rows: Vec<(String, String)> =
        groups.iter().map(|(group, evidence)| (titles(group), (*evidence).to_owned())).collect();
    let rows = rows.iter().map(|(titles, evidence)| (titles.as_str(), Some(evidence.clone())));
    html! { @if !findings.is_empty() { h2.small { (heading) } (facts(rows)) } }
}

fn table(run: &InferenceRun<'_>) -> Markup {
    const HEADINGS: [&str; 5] = ["Parameter", "Value", "Confidence", "Written for it", "Evidence"];
    html! {
        div.scroll {
            table.figures.inferred {
                thead { tr { @for heading in HEADINGS { th scope="col" { (heading) } } } }
                tbody { @for finding in &run.inference.findings { (row(finding)) } }
            }
        }
    }
}

fn row(finding: &Finding) -> Markup {
    html! {
        tr {
            th scope="row" { (finding.parameter.title()) br; code { (finding.parameter.name()) } }
            td {
                @if finding.value.is_some() { (finding.value_in_words()) }
                @else { span.missing { (finding.verdict) } }
            }
            td { @if finding.verdict != Verdict::Undetermined { (confidence(finding)) } }
            td { (finding.bytes_written) }
            td.said { (finding.evidence) }
        }
    }
}

fn method(run: &InferenceRun<'_>) -> Markup {
    let identity = &run.inference.identity;
    let budget = run.write_budget.map_or("nothing: it was only read".to_owned(), |budget| budget.to_string());
    let rows = [
        ("Target", Some(run.inference.target.clone())),
        ("Capacity", Some(exactly(run.inference.capacity))),
        ("Model", identity.model.clone()),
        ("Engine", identity.engine.clone()),
        ("Allowed to write", Some(budget)),
        ("Written", Some(run.inference.written.to_string())),
        ("Seed", Some(run.seed.to_string())),
    ];
    html! {
        (facts(rows))
        @if !run.probes.is_empty() {
            h2.small { "The probes, each a plan that can be run alone in this folder" }
            pre { @for probe in run.probes { "flashlab run " (probe) " TARGET\n" } }
        }
    }
}
