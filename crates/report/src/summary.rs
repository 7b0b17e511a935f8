//! The top of the report: what a reader who reads nothing else should have read.

use flashlab_analysis::findings::{Findings, Hint, Verdict, Warning};

use crate::escape::Text;
use crate::page::Section;
use crate::points::is_own_plan;
use crate::table3::{self, BaselineFigure, Column};
use crate::units;
use crate::verdict;

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

/// The top of the report of a person's own plan, of which uFLIP's row and hints say nothing.
pub fn head(findings: &Findings) -> Section {
    let body = format!(
        "<p class=\"eyebrow\">{about}</p>\n<h1>{device}</h1>\n{warnings}",
        about = Text(&about(findings)),
        device = Text(&findings.characteristics.device),
        warnings = warnings_html(&findings.warnings),
    );
    Section { id: "verdict", short: "Warnings", heading: "", body }
}

fn verdict_html(findings: &Findings) -> String {
    let sentences = verdict::sentences(findings);
    let sentences = if sentences.is_empty() {
        "The run measured too little for a verdict.".to_owned()
    } else {
        sentences.join(" ")
    };
    format!(
        "<p class=\"eyebrow\">{about}</p>\n<h1>{device}</h1>\n<p class=\"verdict\">{sentences}</p>\n{warnings}{tiles}{cards}",
        about = Text(&about(findings)),
        device = Text(&findings.characteristics.device),
        sentences = Text(&sentences),
        warnings = warnings_html(&findings.warnings),
        tiles = tiles_html(findings),
        cards = cards_html(findings),
    )
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

/// An RFC 3339 instant in UTC as people write it; anything else as it is.
pub fn date(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(10..11), rfc3339.get(11..16), rfc3339.ends_with('Z')) {
        (Some(day), Some("T"), Some(minute), true) => format!("{day} {minute} UTC"),
        _ => rfc3339.to_owned(),
    }
}

/// The four baselines, each with a bar to one scale.
fn tiles_html(findings: &Findings) -> String {
    let baselines = table3::baselines(&findings.characteristics);
    let longest = baselines.iter().filter_map(|b| b.mean_ns).filter(|ns| ns.is_finite()).fold(0.0, f64::max);
    let tiles: String = baselines.iter().map(|baseline| tile(findings, baseline, longest)).collect();
    format!(
        "<h2 class=\"small\">Response time of {} IOs, the bars to one scale</h2>\n<div class=\"tiles\">\n{tiles}</div>\n",
        findings.method.io_size
    )
}

fn tile(findings: &Findings, baseline: &BaselineFigure, longest: f64) -> String {
    let value = baseline.mean_ns.map(units::time);
    let part = baseline.mean_ns.map_or(0.0, |ns| if longest > 0.0 { 100.0 * ns / longest } else { 0.0 });
    let long = findings.baselines.iter().find(|found| found.pattern == baseline.name);
    let more = long.map_or_else(String::new, |found| {
        format!(
            "p99 {} · {}",
            units::time(found.run.response.p99_ns as f64),
            units::rate(found.run.throughput_bytes_per_s)
        )
    });
    format!(
        "<div class=\"tile {colour}\"><h3>{words} <abbr>{name}</abbr></h3><p class=\"figure\">{value}</p>\
         <div class=\"bar\" aria-hidden=\"true\"><i style=\"width:{part:.2}%\"></i></div>\
         <p class=\"detail\">{more}&nbsp;</p></div>\n",
        colour = baseline.name.to_lowercase(),
        words = capitalised(baseline.words),
        name = baseline.name,
        value = value.as_deref().map_or(NOT_MEASURED.to_owned(), |value| Text(value).to_string()),
    )
}

const NOT_MEASURED: &str = "<span class=\"missing\">not measured</span>";

/// The other columns of Table 3.
fn cards_html(findings: &Findings) -> String {
    let cards: String = table3::columns(findings).iter().enumerate().map(card).collect();
    format!(
        "<h2 class=\"small\">Characteristics, as in uFLIP's Table 3</h2>\n<div class=\"cards\">\n{cards}</div>\n"
    )
}

fn card((index, column): (usize, &Column)) -> String {
    format!(
        "<div class=\"card\"><h3><span class=\"term\" tabindex=\"0\" aria-describedby=\"meaning-{index}\">{title}\
         <span class=\"tip\" role=\"tooltip\" id=\"meaning-{index}\">{meaning}</span></span></h3>\
         <p class=\"figure\">{value}</p><p class=\"detail\">{detail}</p></div>\n",
        title = column.title,
        meaning = Text(column.meaning),
        value = column.value.as_deref().map_or(NOT_MEASURED.to_owned(), |value| Text(value).to_string()),
        detail = Text(&column.detail),
    )
}

/// One item for each kind of warning; what there is more of a kind is folded away, with its number.
fn warnings_html(warnings: &[Warning]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let text = |warning: &Warning| {
        let run = warning.run.map(|run| format!("<span class=\"run\">run {run}</span> ")).unwrap_or_default();
        format!("{run}{}", Text(&warning.message))
    };
    let item = |kind: Vec<&Warning>| {
        let (first, more) = (kind[0], &kind[1..]);
        let name = capitalised(&first.kind.replace('_', " "));
        let folded: String = more.iter().map(|warning| format!("<li>{}</li>\n", text(warning))).collect();
        let folded = match more.len() {
            0 => String::new(),
            count => {
                format!("<details><summary>{count} more of this kind</summary><ul>\n{folded}</ul></details>")
            }
        };
        format!("<li><b>{}:</b> {}{folded}</li>\n", Text(&name), text(first))
    };
    let items: String = by_kind(warnings).into_iter().map(item).collect();
    let count = match warnings.len() {
        1 => "1 warning".to_owned(),
        n => format!("{n} warnings"),
    };
    format!(
        "<aside class=\"warnings\" aria-label=\"Warnings\">\n<h2>{count}</h2>\n<ul>\n{items}</ul>\n</aside>\n"
    )
}

/// The warnings of each kind, kinds in the order of their first: never empty ones.
pub(crate) fn by_kind(warnings: &[Warning]) -> Vec<Vec<&Warning>> {
    let mut kinds: Vec<Vec<&Warning>> = Vec::new();
    for warning in warnings {
        match kinds.iter_mut().find(|kind| kind[0].kind == warning.kind) {
            Some(kind) => kind.push(warning),
            None => kinds.push(vec![warning]),
        }
    }
    kinds
}

fn hints_html(hints: &[Hint]) -> String {
    if hints.is_empty() {
        return "<p class=\"note\">The run decided none of uFLIP's design hints.</p>\n".to_owned();
    }
    let hints: String = hints.iter().map(hint).collect();
    format!(
        "<p class=\"intro\">uFLIP's seven design hints (section 5.3), decided for this device.</p>\n<ol class=\"hints\">\n{hints}</ol>\n"
    )
}

fn hint(hint: &Hint) -> String {
    let (class, sign, words) = verdict_words(hint.verdict);
    format!(
        "<li class=\"{class}\"><div class=\"sign\" aria-hidden=\"true\">{sign}</div><div>\
         <p class=\"paper\"><span class=\"tag\">{words}</span> Hint {number}: {paper}</p>\
         <p class=\"advice\">{advice}</p><p class=\"evidence\">{evidence}</p></div></li>\n",
        number = hint.number,
        paper = Text(&hint.paper),
        advice = Text(&hint.advice),
        evidence = Text(&hint.evidence),
    )
}

/// A verdict's class in the style, its sign, and its words.
pub fn verdict_words(verdict: Verdict) -> (&'static str, &'static str, &'static str) {
    match verdict {
        Verdict::Holds => ("holds", "✓", "Holds"),
        Verdict::DoesNotHold => ("fails", "✗", "Does not hold"),
        Verdict::NotSupportedByThisMeasurement => ("open", "?", "Not decided"),
    }
}

fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_a_kind_stand_together_and_none_is_lost() {
        let warning = |kind: &str, message: &str| Warning {
            kind: kind.to_owned(),
            run: None,
            message: message.to_owned(),
        };
        let all = [warning("spread", "a"), warning("thermal", "b"), warning("spread", "c")];
        let page = warnings_html(&all);
        assert_eq!(page.matches("<b>").count(), 2);
        assert!(page.contains("3 warnings") && page.contains("1 more of this kind"), "{page}");
        let positions = ["a<details>", "<li>c</li>", "b</li>"].map(|text| page.find(text));
        assert!(positions.is_sorted() && positions[0].is_some(), "{page}");
    }

    #[test]
    fn instants_are_shown_to_the_minute_and_odd_ones_as_they_are() {
        assert_eq!(date("2025-11-21T04:08:59.123Z"), "2025-11-21 04:08 UTC");
        for odd in ["", "yesterday", "2025-11-21T04:08:59+01:00", "äöüäöüäöü"] {
            assert_eq!(date(odd), odd);
        }
    }
}
