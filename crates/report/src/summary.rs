//! The top of the report: the most important results.

use flashlab_analysis::findings::{Findings, Hint};
use maud::{Markup, html};

use crate::escape::with_code;
use crate::page::{Section, figures, note};
use crate::points::is_own_plan;
use crate::stages::stages_chart;
use crate::state::{state_sentence, steady_chart};
use crate::table3::{self, BaselineFigure, Table3Column};
use crate::units;
use crate::verdict;
use crate::warnings::warnings_html;
use crate::words::{capitalised, date, verdict_words};

/// Verdict and Table 3's row, warnings, hints.
pub fn sections(findings: &Findings) -> Vec<Section> {
    vec![
        Section { id: "verdict", short: "Verdict", heading: "", body: verdict_html(findings) },
        Section {
            id: "hints",
            short: "Hints",
            heading: "What to do with this device",
            body: hints_html(&findings.hints),
        },
    ]
}

/// The top of the report of a user's own plan, to which uFLIP's row and hints do not apply.
pub fn head(findings: &Findings) -> Section {
    let body =
        html! { (device(findings)) (warnings_html(&findings.warnings)) (figures(&steady_chart(findings))) };
    Section { id: "verdict", short: "Warnings", heading: "", body }
}

fn device(findings: &Findings) -> Markup {
    html! {
        p.eyebrow { (about(findings)) }
        h1 { (findings.characteristics.device) }
        p.note { (with_code(&state_sentence(&findings.method))) }
    }
}

fn verdict_html(findings: &Findings) -> Markup {
    let sentences = verdict::sentences(findings);
    html! {
        (device(findings))
        p.verdict {
            @if sentences.is_empty() { "The run measured too little for a verdict." }
            @else { (sentences.join(" ")) }
        }
        (warnings_html(&findings.warnings))
        (tiles_html(findings))
        (cards_html(findings))
        (figures(steady_chart(findings).iter().chain(&stages_chart(findings))))
    }
}

/// `block device · 64 GB · 2025-11-21 04:08 UTC · full run`.
fn about(findings: &Findings) -> String {
    let row = &findings.characteristics;
    let mut parts = Vec::new();
    parts.extend(row.kind.clone());
    parts.extend(row.capacity_gb.map(|gb| format!("{} GB", table3::short(gb))));
    parts.push(date(&findings.started));
    if !is_own_plan(findings) {
        parts.push(format!("{} run", findings.method.thoroughness));
    }
    parts.join(" · ")
}

/// The four baselines, each with a bar, on one scale.
fn tiles_html(findings: &Findings) -> Markup {
    let baselines = table3::baselines(&findings.characteristics);
    let longest = baselines.iter().filter_map(|b| b.mean_ns).filter(|ns| ns.is_finite()).fold(0.0, f64::max);
    html! {
        h2.small { "Response time of " (findings.method.io_size) " IOs, the bars to one scale" }
        div.tiles { @for baseline in &baselines { (tile(findings, baseline, longest)) } }
    }
}

fn tile(findings: &Findings, baseline: &BaselineFigure, longest: f64) -> Markup {
    let part = baseline.mean_ns.map_or(0.0, |ns| if longest > 0.0 { 100.0 * ns / longest } else { 0.0 });
    let long = findings.baselines.iter().find(|found| found.pattern == baseline.name);
    let width = format!("width:{part:.2}%");
    html! {
        div.tile.(baseline.name.to_lowercase()) {
            h3 { (capitalised(baseline.words)) " " abbr { (baseline.name) } }
            p.figure { (measured(baseline.mean_ns.map(units::time))) }
            div.bar aria-hidden="true" { i style=(width) {} }
            p.detail {
                @if let Some(found) = long {
                    "p99 " (units::time(found.run.response.p99_ns as f64))
                    " · " (units::rate(found.run.throughput_bytes_per_s))
                }
                "\u{a0}"
            }
        }
    }
}

fn measured(value: Option<String>) -> Markup {
    html! { @match value { Some(value) => (value), None => span.missing { "not measured" } } }
}

/// The other columns of Table 3.
fn cards_html(findings: &Findings) -> Markup {
    html! {
        h2.small { "Characteristics, as in uFLIP's Table 3" }
        div.cards { @for (index, column) in table3::columns(findings).into_iter().enumerate() { (card(index, column)) } }
    }
}

fn card(index: usize, column: Table3Column) -> Markup {
    html! {
        div.card {
            h3 { (term(column.title, column.meaning, index)) }
            p.figure { (measured(column.value)) }
            p.detail { (column.detail) }
        }
    }
}

/// A word with its meaning, which is shown when the reader points at it. `index` is unique among the terms of
/// a page.
pub fn term(word: &str, meaning: &str, index: usize) -> Markup {
    let id = format!("meaning-{index}");
    html! {
        span.term tabindex="0" aria-describedby=(id) {
            (word)
            span.tip role="tooltip" id=(id) { (meaning) }
        }
    }
}

fn hints_html(hints: &[Hint]) -> Markup {
    if hints.is_empty() {
        return note("The run decided none of uFLIP's design hints.");
    }
    html! {
        p.intro { "uFLIP's seven design hints (section 5.3), decided for this device." }
        ol.hints { @for one in hints { (hint(one)) } }
    }
}

fn hint(hint: &Hint) -> Markup {
    let (class, sign, words) = verdict_words(hint.verdict);
    html! {
        li.(class) {
            div.sign aria-hidden="true" { (sign) }
            div {
                p.paper { span.tag { (words) } " Hint " (hint.number) ": " (hint.paper) }
                p.advice { (hint.advice) }
                p.evidence { (hint.evidence) }
            }
        }
    }
}
