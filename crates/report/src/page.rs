//! The frame of every page: head, bar, embedded script and style, foot.
//!
//! Invariant: nothing in the page refers to anything outside it. The Content-Security-Policy makes
//! the browser refuse every request, whatever the rest of the page says.

use crate::charts::{Chart, Drawing};
use crate::escape::{Text, json};

const STYLE: &str = include_str!("../assets/report.css");
const EARLY: &str = include_str!("../assets/early.js");
const SCRIPT: &str = include_str!("../assets/report.js");
const UPLOT: &str = include_str!("../vendor/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../vendor/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("../vendor/uplot/LICENSE");

/// A part of the page with a heading, reached from the bar at the top.
pub struct Section {
    /// Unique in the page.
    pub id: &'static str,
    /// Its name in the bar; empty to leave it out there.
    pub short: &'static str,
    /// Its heading; empty for none.
    pub heading: &'static str,
    /// Its content, as HTML.
    pub body: String,
}

/// A whole page. `title` is text, `sections` are HTML.
pub fn page(title: &str, sections: &[Section], charts: &[&Chart], flashlab: &str) -> String {
    let links: String = sections
        .iter()
        .filter(|section| !section.short.is_empty())
        .map(|section| format!("<a href=\"#{}\">{}</a>", section.id, section.short))
        .collect();
    let body: String = sections.iter().map(section_html).collect();
    let drawings: std::collections::BTreeMap<&str, &Drawing> =
        charts.iter().map(|chart| (chart.id.as_str(), &chart.drawing)).collect();
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="flashlab {version}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{UPLOT_STYLE}
{STYLE}</style>
<script>
{EARLY}</script>
</head>
<body>
<a class="skip" href="#main">Skip to the findings</a>
<header class="top"><div>
<span class="brand">flashlab</span>
<nav aria-label="Sections">{links}</nav>
<button type="button" id="theme" class="needs-script" aria-label="Switch between dark and light">◐</button>
</div></header>
<main id="main">
<noscript><p class="note">The charts are drawn by a script, which is switched off here. All figures stand in the tables.</p></noscript>
{body}</main>
<footer>
<p>Made by flashlab {version}. Charts by uPlot 1.6.32. This page is complete in itself and asks nothing of any network.</p>
<details><summary>Licence of uPlot</summary><pre>{licence}</pre></details>
</footer>
<script type="application/json" id="charts">{data}</script>
<script>
{UPLOT}</script>
<script>
{SCRIPT}</script>
</body>
</html>
"##,
        version = Text(flashlab),
        title = Text(title),
        licence = Text(UPLOT_LICENCE),
        data = json(&drawings),
    )
}

fn section_html(section: &Section) -> String {
    let heading = match section.heading {
        "" => String::new(),
        heading => format!("<h2>{heading}</h2>\n"),
    };
    format!("<section id=\"{}\">\n{heading}{}</section>\n", section.id, section.body)
}

/// The place of a chart, which the script fills.
pub fn figure(chart: &Chart) -> String {
    let caption = match chart.caption.as_str() {
        "" => String::new(),
        caption => format!("<p>{}</p>", Text(caption)),
    };
    format!(
        "<figure class=\"chart{wide}\" id=\"{id}\" aria-labelledby=\"{id}-title\">\n\
         <figcaption><h3 id=\"{id}-title\">{title}</h3>{caption}</figcaption>\n\
         <div class=\"legend\" role=\"group\" aria-label=\"What is shown\"></div>\n\
         <div class=\"plot\" tabindex=\"0\" role=\"group\" aria-roledescription=\"chart\" \
         aria-label=\"{title}. Left and right arrow keys read it point by point, Escape shows all of it.\"></div>\n\
         </figure>\n",
        wide = if chart.wide { " wide" } else { "" },
        id = chart.id,
        title = Text(&chart.title),
    )
}

/// Charts side by side, as wide as they want to be.
pub fn figures<'a>(charts: impl IntoIterator<Item = &'a Chart>) -> String {
    let figures: String = charts.into_iter().map(figure).collect();
    format!("<div class=\"charts needs-script\">\n{figures}</div>\n")
}

/// A table of names and values; a missing value is shown as `not known`.
pub fn facts<'a>(rows: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let row = |(name, value): (&str, Option<String>)| {
        let value = match value {
            Some(value) => Text(&value).to_string(),
            None => "<span class=\"missing\">not known</span>".to_owned(),
        };
        format!("<tr><th scope=\"row\">{}</th><td>{value}</td></tr>\n", Text(name))
    };
    let rows: String = rows.into_iter().map(row).collect();
    format!("<table class=\"facts\"><tbody>\n{rows}</tbody></table>\n")
}
