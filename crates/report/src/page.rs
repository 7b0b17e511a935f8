//! The frame of every page: head, navigation bar, embedded script and style, foot.
//!
//! Invariant: nothing in the page refers to another file or site. The Content-Security-Policy makes the
//! browser refuse every request, whatever the page contains.

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::charts::{Chart, Drawing};
use crate::escape::{json, without_controls};

const STYLE: &str = include_str!("../assets/report.css");
const EARLY: &str = include_str!("../assets/early.js");
const SCRIPT: &str = include_str!("../assets/report.js");
const UPLOT: &str = include_str!("../vendor/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../vendor/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("../vendor/uplot/LICENSE");
const SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// A section of the page with a heading, linked from the bar at the top.
pub struct Section {
    /// Unique in the page.
    pub id: &'static str,
    /// Its name in the bar; empty for a section without a link.
    pub short: &'static str,
    /// Its heading; empty for none.
    pub heading: &'static str,
    /// Its content.
    pub body: Markup,
}

/// A whole page, as the text of a file.
pub fn page(title: &str, sections: &[Section], charts: &[&Chart], flashlab: &str) -> String {
    let drawings: BTreeMap<&str, &Drawing> =
        charts.iter().map(|chart| (chart.id.as_str(), &chart.drawing)).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, flashlab))
            "\n"
            body {
                a.skip href="#main" { "Skip to the findings" }
                (bar(sections))
                "\n"
                main #main {
                    noscript {
                        p.note {
                            "The charts are drawn by a script, which is switched off here. "
                            "All figures stand in the tables."
                        }
                    }
                    @for section in sections { "\n" (section_html(section)) }
                }
                "\n"
                (foot(flashlab))
                "\n"
                script #charts type="application/json" { (PreEscaped(json(&drawings))) }
                "\n"
                script { (PreEscaped(UPLOT)) }
                "\n"
                script { (PreEscaped(SCRIPT)) }
            }
        }
        "\n"
    };
    without_controls(page.into_string())
}

fn head(title: &str, flashlab: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(SECURITY_POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content={ "flashlab " (flashlab) };
            title { (title) }
            link rel="icon" href="data:,";
            style { (PreEscaped(UPLOT_STYLE)) "\n" (PreEscaped(STYLE)) }
            script { (PreEscaped(EARLY)) }
        }
    }
}

fn bar(sections: &[Section]) -> Markup {
    let named = sections.iter().filter(|section| !section.short.is_empty());
    html! {
        header.top {
            div {
                span.brand { "flashlab" }
                nav aria-label="Sections" {
                    @for section in named { a href={ "#" (section.id) } { (section.short) } }
                }
                button #theme .needs-script type="button" aria-label="Switch between dark and light" { "◐" }
            }
        }
    }
}

fn section_html(section: &Section) -> Markup {
    html! {
        section id=(section.id) {
            @if !section.heading.is_empty() { h2 { (section.heading) } }
            (section.body)
        }
    }
}

fn foot(flashlab: &str) -> Markup {
    html! {
        footer {
            p {
                "Made by flashlab " (flashlab) ". Charts by uPlot 1.6.32. "
                "This page is complete in itself and asks nothing of any network."
            }
            details { summary { "Licence of uPlot" } pre { (UPLOT_LICENCE) } }
        }
    }
}

/// The frame of a chart, which the script fills.
pub fn figure(chart: &Chart) -> Markup {
    let title_id = format!("{}-title", chart.id);
    html! {
        figure.chart.wide[chart.wide] id=(chart.id) aria-labelledby=(title_id) {
            figcaption {
                h3 id=(title_id) { (chart.title) }
                @if !chart.caption.is_empty() { p { (chart.caption) } }
            }
            div.legend role="group" aria-label="What is shown" {}
            div.plot tabindex="0" role="group" aria-roledescription="chart" aria-label={
                (chart.title) ". Left and right arrow keys read it point by point, Escape shows all of it."
            } {}
        }
    }
}

/// Charts side by side, with their preferred widths.
pub fn figures<'a>(charts: impl IntoIterator<Item = &'a Chart>) -> Markup {
    html! { div.charts.needs-script { @for chart in charts { (figure(chart)) "\n" } } }
}

/// A table of names and values; a missing value is shown as `not known`.
pub fn facts<'a>(rows: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Markup {
    html! {
        table.facts {
            tbody {
                @for (name, value) in rows {
                    tr {
                        th scope="row" { (name) }
                        td { @match value { Some(value) => (value), None => span.missing { "not known" } } }
                    }
                    "\n"
                }
            }
        }
    }
}

/// A paragraph in small print.
pub fn note(text: &str) -> Markup {
    html! { p.note { (text) } }
}
