//! The findings as a page: one file that needs nothing else.

use flashlab_analysis::inference::{Finding, Verdict};

use super::pictures::sentence;
use super::{InferenceRun, by_evidence, confidence, pictures, titles};
use crate::advice::{Advice, Advised, advice};
use crate::charts::Chart;
use crate::escape::Text;
use crate::page::{Section, facts, figures, page};
use crate::summary::date;
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
            body: reasons("Undetermined", &open) + &reasons("Not identifiable from outside", &none),
        },
        Section {
            id: "looked",
            short: "",
            heading: "",
            body: if others.is_empty() { String::new() } else { figures(&others) },
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

fn advice_html(advised: &Advised) -> String {
    let item = |advice: &Advice| {
        format!(
            "<li class=\"holds\"><div class=\"sign\" aria-hidden=\"true\">✓</div><div><p class=\"paper\">{subject}</p>\
             <p class=\"advice\">{advice}</p><p class=\"evidence\">{reason} ({sure} % sure)</p>\
             <pre>{command}</pre>{overwrites}</div></li>\n",
            subject = advice.subject,
            advice = Text(&sentence(&advice.advice)),
            reason = Text(&sentence(&advice.reason)),
            sure = (advice.confidence * 100.0).floor(),
            command = Text(&advice.command),
            overwrites = match advice.overwrites {
                true => "<p class=\"evidence\">This overwrites what is on the device.</p>",
                false => "",
            },
        )
    };
    let items: String = advised.given.iter().map(item).collect();
    if items.is_empty() { String::new() } else { format!("<ol class=\"hints\">\n{items}</ol>\n") }
}

fn drawn(charts: &[Chart], gap: &str) -> String {
    if charts.is_empty() { format!("<p class=\"note\">{gap}</p>\n") } else { figures(charts) }
}

fn head(run: &InferenceRun<'_>, found: &[&Finding]) -> String {
    let inference = run.inference;
    let kind = &inference.identity.kind;
    let cards: String = found.iter().enumerate().map(card).collect();
    format!(
        "<p class=\"eyebrow\">{about}</p>\n<h1>{device}</h1>\n<p class=\"verdict\">{summary}</p>\n{warnings}\
         <div class=\"cards inferred\">\n{cards}</div>\n",
        about = Text(&format!("{kind} · {} · {}", inference.capacity, date(run.started))),
        device = Text(run.device()),
        summary = Text(&run.summary()),
        warnings = warnings(run.warnings),
    )
}

fn card((index, finding): (usize, &&Finding)) -> String {
    format!(
        "<div class=\"card\"><h3><span class=\"term\" tabindex=\"0\" aria-describedby=\"meaning-{index}\">{title}\
         <span class=\"tip\" role=\"tooltip\" id=\"meaning-{index}\">{meaning}</span></span></h3>\
         <p class=\"figure\">{value}</p><p class=\"detail\">{confidence} sure</p></div>\n",
        title = finding.parameter.title(),
        meaning = Text(finding.parameter.definition()),
        value = Text(&finding.value_in_words()),
        confidence = Text(&confidence(finding)),
    )
}

fn warnings(warnings: &[(String, String)]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let items: String = warnings.iter().map(|(_, message)| format!("<li>{}</li>\n", Text(message))).collect();
    format!(
        "<aside class=\"warnings\" aria-label=\"Warnings\">\n<h2>To doubt</h2>\n<ul>\n{items}</ul>\n</aside>\n"
    )
}

fn reasons(heading: &str, findings: &[&Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let groups = by_evidence(findings);
    let rows: Vec<(String, String)> =
        groups.iter().map(|(group, evidence)| (titles(group), (*evidence).to_owned())).collect();
    let rows = rows.iter().map(|(titles, evidence)| (titles.as_str(), Some(evidence.clone())));
    format!("<h2 class=\"small\">{heading}</h2>\n{}", facts(rows))
}

fn table(run: &InferenceRun<'_>) -> String {
    let row = |finding: &Finding| {
        let value = match finding.value_in_words().as_str() {
            "" => format!("<span class=\"missing\">{}</span>", finding.verdict),
            value => Text(value).to_string(),
        };
        let confidence = match finding.verdict {
            Verdict::Undetermined => String::new(),
            _ => confidence(finding),
        };
        format!(
            "<tr><th scope=\"row\">{title}<br><code>{name}</code></th><td>{value}</td><td>{confidence}</td>\
             <td>{written}</td><td class=\"said\">{evidence}</td></tr>\n",
            title = finding.parameter.title(),
            name = finding.parameter.name(),
            written = finding.bytes_written,
            evidence = Text(&finding.evidence),
        )
    };
    let rows: String = run.inference.findings.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table class=\"figures inferred\"><thead><tr><th scope=\"col\">Parameter</th>\
         <th scope=\"col\">Value</th><th scope=\"col\">Confidence</th><th scope=\"col\">Written for it</th>\
         <th scope=\"col\">Evidence</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

fn method(run: &InferenceRun<'_>) -> String {
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
    let probes: String = run.probes.iter().map(|probe| format!("flashlab run {probe} TARGET\n")).collect();
    let probes = match probes.as_str() {
        "" => String::new(),
        probes => format!(
            "<h2 class=\"small\">The probes, each a plan that can be run alone in this folder</h2>\n<pre>{}</pre>\n",
            Text(probes)
        ),
    };
    facts(rows) + &probes
}
