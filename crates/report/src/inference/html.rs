//! The findings as a page: one file that needs no other file.
//!
//! The page shows the advice first. Then each group of parameters has its conclusions, its values, one
//! picture, and a sentence of evidence for each finding. Definitions, figures and further pictures are
//! folded.

use flashlab_analysis::inference::{Finding, Inference, Verdict};
use maud::{Markup, html};

use super::groups::{GROUPS, ParameterGroup};
use super::{InferenceRun, by_evidence, confidence, device_state, pictures, plain, titles};
use crate::advice::{Advice, Advised, LEAST_CONFIDENCE, Withheld, advice};
use crate::charts::Chart;
use crate::escape::with_code;
use crate::page::{Section, facts, figure, figures, page};
use crate::units::{UNKNOWN, exactly, sentence};
use crate::words::{capitalised, date};

/// Advice, the groups of parameters with pictures and evidence, and how the findings were made.
pub fn inference_html(run: &InferenceRun<'_>) -> String {
    let advised = advice(run.inference, run.write_budget);
    let groups: Vec<(Section, Vec<Chart>)> =
        GROUPS.iter().map(|group| section(run.inference, group)).collect();
    let (groups, charts): (Vec<Section>, Vec<Vec<Chart>>) = groups.into_iter().unzip();
    let mut sections = vec![
        Section { id: "verdict", short: "Summary", heading: "", body: head(run) },
        Section {
            id: "hints",
            short: "Advice",
            heading: "What to do with this device",
            body: advice_html(&advised),
        },
    ];
    sections.extend(groups);
    sections.push(Section {
        id: "method",
        short: "Method",
        heading: "How it was found out",
        body: method(run),
    });
    let charts: Vec<&Chart> = charts.iter().flatten().collect();
    page(&format!("{}: hidden parameters", run.device()), &sections, &charts, run.flashlab)
}

fn section(inference: &Inference, group: &ParameterGroup) -> (Section, Vec<Chart>) {
    let findings: Vec<&Finding> =
        group.parameters.iter().filter_map(|&parameter| inference.get(parameter)).collect();
    let charts = pictures::charts(&findings, group.id);
    let conclusions = (group.conclusions)(inference);
    let body = html! {
        p.meaning {
            @if conclusions.is_empty() { (group.nothing_found) } @else { (conclusions.join(" ")) }
        }
        @if findings.is_empty() {
            p.note { "This run did not look for these parameters." }
        } @else {
            div.cards.inferred { @for finding in &findings { (card(finding)) } }
            @if let Some((first, more)) = charts.split_first() {
                div.charts.needs-script { (figure(first)) }
                @if !more.is_empty() {
                    details.needs-script { summary { (count(more.len(), "more picture")) } (figures(more)) }
                }
            }
            ul.evidence-list {
                @for (shared, evidence) in by_evidence(&findings) { (evidence_item(&shared, evidence)) }
            }
        }
    };
    (Section { id: group.id, short: group.short, heading: group.heading, body }, charts)
}

/// `1 more picture`, `2 more pictures`.
fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The style of a finding: a reliable value, a doubtful value, or no value.
fn class(finding: &Finding) -> &'static str {
    match finding.verdict {
        Verdict::Found if finding.confidence >= LEAST_CONFIDENCE => "reliable",
        Verdict::Found => "doubtful",
        Verdict::Undetermined | Verdict::NotIdentifiable => "unknown",
    }
}

fn card(finding: &Finding) -> Markup {
    let share = format!("width:{:.1}%", finding.confidence * 100.0);
    html! {
        div.card.(class(finding)) {
            h3 { (finding.parameter.title()) }
            p.figure {
                @match finding.verdict {
                    Verdict::Found => (finding.value_in_words()),
                    Verdict::Undetermined | Verdict::NotIdentifiable => (UNKNOWN),
                }
            }
            @if finding.verdict != Verdict::Undetermined {
                div.bar aria-hidden="true" { i style=(share) {} }
            }
            p.detail {
                @match class(finding) {
                    "reliable" => { (confidence(finding.confidence)) " confidence" },
                    "doubtful" => { (confidence(finding.confidence)) ", low confidence" },
                    _ => { (finding.verdict) },
                }
            }
        }
    }
}

fn evidence_item(findings: &[&Finding], evidence: &str) -> Markup {
    let (headline, more) = split_evidence(evidence);
    html! {
        li {
            b { (titles(findings)) ": " } (sentence(headline))
            details {
                summary { "Details" }
                @if let Some(more) = more { p { (sentence(more)) } }
                dl {
                    @for finding in findings {
                        dt data-view={ "mark=" (finding.parameter.name()) } { (finding.parameter.title()) " " code { (finding.parameter.name()) } }
                        dd {
                            (sentence(finding.parameter.definition()))
                            @if finding.verdict == Verdict::NotIdentifiable {
                                " Confidence that there is no answer: " (confidence(finding.confidence)) "."
                            }
                            @if finding.bytes_written.0 > 0 { " Written to find it: " (finding.bytes_written) "." }
                        }
                    }
                }
            }
        }
    }
}

/// The first sentence, or the first clause before a semicolon, and the text after it.
fn split_evidence(evidence: &str) -> (&str, Option<&str>) {
    let end = ["; ", ". "].into_iter().filter_map(|end| evidence.find(end)).min();
    match end {
        Some(end) => (&evidence[..end], Some(evidence[end + 2..].trim()).filter(|more| !more.is_empty())),
        None => (evidence, None),
    }
}

fn advice_html(advised: &Advised) -> Markup {
    html! {
        @if advised.given.is_empty() {
            p.intro { "No finding has the confidence that advice needs, " (percent(LEAST_CONFIDENCE)) "." }
        } @else {
            ol.hints { @for advice in &advised.given { (advice_item(advice)) } }
        }
        @if !advised.withheld.is_empty() {
            h2.small { "No advice yet, and the measurement that would bring it" }
            ol.hints.withheld { @for one in &advised.withheld { (withheld_item(one)) } }
        }
    }
}

fn withheld_item(withheld: &Withheld) -> Markup {
    html! {
        li.open {
            div.sign aria-hidden="true" { "?" }
            div {
                p.paper { (capitalised(withheld.subject)) }
                p.evidence { (sentence(&withheld.reason)) }
                @match &withheld.measurement {
                    Some(command) => pre { (command) },
                    None => p.evidence { "No measurement of flashlab changes this." },
                }
            }
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn advice_item(advice: &Advice) -> Markup {
    html! {
        li.holds {
            div.sign aria-hidden="true" { "✓" }
            div {
                p.paper { (capitalised(advice.subject)) }
                p.advice { (sentence(&advice.advice)) }
                p.evidence { (sentence(&advice.reason)) " Confidence: " (confidence(advice.confidence)) "." }
                pre { (advice.command) }
                @if advice.overwrites { p.evidence { "This overwrites what is on the device." } }
            }
        }
    }
}

fn head(run: &InferenceRun<'_>) -> Markup {
    let inference = run.inference;
    html! {
        p.eyebrow { (inference.identity.kind) " · " (inference.capacity) " · " (date(run.started)) }
        h1 { (run.device()) }
        p.verdict { (plain::kind(inference)) }
        @let things = plain::things_to_do(run);
        @if !things.is_empty() { ol { @for thing in &things { li { (thing) } } } }
        p.note { (with_code(&device_state(inference).1)) }
        p.note { (run.summary()) }
        (warnings(run.warnings))
    }
}

fn warnings(warnings: &[(String, String)]) -> Markup {
    html! {
        @if !warnings.is_empty() {
            aside.warnings aria-label="Warnings" {
                h2 { "To doubt" }
                ul { @for (_, message) in warnings { li { (with_code(message)) } } }
            }
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
        ("State of the device", Some(device_state(run.inference).0.to_owned())),
        ("Allowed to write", Some(budget)),
        ("Written", Some(run.inference.written.to_string())),
        ("Seed", Some(run.seed.to_string())),
    ];
    html! {
        (facts(rows))
        @if !run.probes.is_empty() {
            h2.small { "The probes: each is a plan that runs alone in this folder" }
            pre { @for probe in run.probes { "flashlab run " (probe) " TARGET\n" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_begins_with_its_first_sentence() {
        let split = |evidence| split_evidence(evidence);
        assert_eq!(split("Reads take 1.5 us."), ("Reads take 1.5 us.", None));
        assert_eq!(
            split("Reads take 1.5 us. Writes take 3 us."),
            ("Reads take 1.5 us", Some("Writes take 3 us."))
        );
        assert_eq!(split("reads are slow; writes, too"), ("reads are slow", Some("writes, too")));
    }
}
