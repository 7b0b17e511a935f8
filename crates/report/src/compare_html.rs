//! The page that compares several runs.

use flashlab_analysis::{
    Comparison, ExperimentRow, FigureRow, QuantilePoint, RatioVerdict, Statistic, StatisticRatio,
};
use maud::{Markup, html};

use crate::charts::{Chart, ChartAxis, ChartSeries, Drawing, Figures};
use crate::comparison::{
    ExperimentGroup, experiment_name, figure, group_name, groups, interval, letter, measured_rows, method,
    missing, odd_repetitions, ratios_of, run_name, sentences, statistic_name, statistic_over, title,
    verdict_sentence, verdict_word, warnings, what_would_tell,
};
use crate::escape::with_code;
use crate::page::{Section, figures, note, page};
use crate::units;
use crate::words::capitalised;

/// The number of colours for runs in the style; further runs reuse them.
const RUN_COLOURS: usize = 6;

/// One self-contained page. It shows Table 3 side by side, the distributions, the ratios over each parameter,
/// every ratio with its interval, and what cannot be compared.
pub fn compare_html(comparison: &Comparison) -> String {
    let groups = groups(&comparison.experiments);
    let distributions: Vec<Chart> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| distribution_chart(comparison, group, index))
        .collect();
    let curves: Vec<Chart> = groups
        .iter()
        .filter(|group| group.len() > 1)
        .enumerate()
        .map(|(index, group)| ratio_chart(comparison, group, index))
        .collect();
    let names: Vec<&str> = comparison.devices.iter().map(String::as_str).collect();
    let section = |id, short, heading, body| Section { id, short, heading, body };
    let mut sections = vec![
        section("verdict", "Verdict", "", verdict(comparison)),
        section("table3", "Table 3", "Characteristics side by side", characteristics(comparison)),
    ];
    if !curves.is_empty() {
        sections.push(section("ratios", "Ratios", "Ratios over each parameter", figures(&curves)));
    }
    let body = if distributions.is_empty() {
        note("The runs have no experiment in common.")
    } else {
        figures(&distributions)
    };
    sections.push(section("distributions", "Distributions", "Distributions of the response times", body));
    sections.push(section("experiments", "Experiments", "Every experiment", experiments(comparison)));
    if !comparison.missing.is_empty() {
        sections.push(section(
            "missing",
            "Not compared",
            "What only some of the runs have",
            lacking(comparison),
        ));
    }
    let charts: Vec<&Chart> = curves.iter().chain(&distributions).collect();
    page(&format!("{}: compared", names.join(" and ")), &sections, &charts, env!("CARGO_PKG_VERSION"))
}

fn verdict(comparison: &Comparison) -> Markup {
    let runs = 0..comparison.devices.len();
    html! {
        p.eyebrow { "Comparison of runs" }
        h1 { (comparison.devices.len()) " runs side by side" }
        ul.runs-compared {
            @for run in runs {
                li {
                    i.swatch.solid style={ "--line:var(--" (colour(run)) ")" } {}
                    " " (run_name(comparison, run))
                }
            }
        }
        @for sentence in sentences(comparison) { p.verdict { (sentence) } }
        @let doubts = warnings(comparison);
        @if !doubts.is_empty() {
            div.warnings {
                h2 { "These may change the verdict" }
                ul { @for doubt in doubts { li { (with_code(&doubt)) } } }
            }
        }
        p.note { (method(comparison)) }
    }
}

fn characteristics(comparison: &Comparison) -> Markup {
    let runs = 0..comparison.devices.len();
    html! {
        p.intro { "The columns of uFLIP's Table 3. Ratios here are not tested." }
        div.scroll {
            table.figures {
                thead {
                    tr {
                        td {}
                        @for run in runs {
                            th scope="col" { (letter(run)) }
                            @if run > 0 { th scope="col" { "÷ A" } }
                        }
                    }
                }
                tbody { @for row in measured_rows(comparison) { (figure_row(comparison, row)) } }
            }
        }
    }
}

fn figure_row(comparison: &Comparison, row: &FigureRow) -> Markup {
    let ratio =
        |run: usize| row.ratios.get(run).copied().flatten().map_or(units::UNKNOWN.to_owned(), units::ratio);
    html! {
        tr {
            th scope="row" { (title(&row.name)) }
            @for run in 0..comparison.devices.len() {
                td { (figure(row, run)) }
                @if run > 0 { td.faint { (ratio(run)) } }
            }
        }
    }
}

fn colour(run: usize) -> String {
    format!("run{}", run % RUN_COLOURS)
}

/// The ratio to A at the median and at the 99th percentile over the values of a parameter.
fn ratio_chart(comparison: &Comparison, group: &ExperimentGroup<'_>, index: usize) -> Chart {
    let caption: Vec<String> = (1..comparison.devices.len())
        .map(|run| {
            let [median, p99] =
                [Statistic::P50, Statistic::P99].map(|statistic| statistic_over(group, run, statistic));
            format!("{}'s median: {median}. Its p99: {p99}.", letter(run))
        })
        .collect();
    let series = |run: usize, statistic: Statistic, style| {
        let found: Vec<Option<&StatisticRatio>> = group
            .iter()
            .map(|row| ratios_of(row, run).iter().find(|found| found.statistic == statistic))
            .collect();
        let edge = |of: &dyn Fn(&StatisticRatio) -> Option<f64>| {
            Figures(found.iter().map(|found| of((*found)?)).collect())
        };
        ChartSeries {
            name: format!("{} {}", letter(run), statistic_name(statistic)),
            colour: colour(run),
            points: colour(run),
            style,
            values: edge(&|found| Some(found.ratio.ratio)),
            band: Some((edge(&|found| Some(found.ratio.low)), edge(&|found| found.ratio.high))),
        }
    };
    Chart {
        id: format!("ratios-{index}"),
        title: group_name(&group[0].key),
        caption: caption.join(" "),
        wide: false,
        drawing: Drawing {
            x: ChartAxis {
                label: group[0].key.parameter.clone(),
                scale: "ordinal",
                unit: String::new(),
                labels: group.iter().map(|row| row.key.label.clone()).collect(),
            },
            y: axis("response time relative to A", "log10", "ratio"),
            values: Figures((0..group.len()).map(|index| Some(index as f64)).collect()),
            series: (1..comparison.devices.len())
                .flat_map(|run| [series(run, Statistic::P50, "line"), series(run, Statistic::P99, "dashed")])
                .collect(),
            marks: Vec::new(),
            level: Some((1.0, "A".to_owned())),
        },
    }
}

/// The distribution functions of all runs in one chart, at the value at which the runs differ most.
fn distribution_chart(comparison: &Comparison, group: &ExperimentGroup<'_>, index: usize) -> Chart {
    let row = most_different(group);
    let of_several = if group.len() > 1 {
        format!("The value of {} at which the runs differ most. ", row.key.parameter)
    } else {
        String::new()
    };
    let sentences: Vec<String> =
        (1..comparison.devices.len()).map(|run| verdict_sentence(row, run)).collect();
    let times = distribution_times(row);
    let series = |run: usize, points: &[QuantilePoint]| ChartSeries {
        name: letter(run),
        colour: colour(run),
        points: colour(run),
        style: "solid",
        values: Figures(times.iter().map(|&time| Some(1.0 - share_until(points, time))).collect()),
        band: None,
    };
    let distributions = row.distributions.iter().enumerate();
    Chart {
        id: format!("distribution-{index}"),
        title: experiment_name(&row.key),
        caption: format!("{of_several}{}", sentences.join(" ")),
        wide: false,
        drawing: Drawing {
            x: axis("response time", "log10", "ns"),
            y: axis("share of the IOs that take at most this", "tail", "tail"),
            values: Figures(times.iter().copied().map(Some).collect()),
            series: distributions.filter_map(|(run, points)| Some(series(run, points.as_deref()?))).collect(),
            marks: Vec::new(),
            level: None,
        },
    }
}

fn axis(label: &str, scale: &'static str, unit: &str) -> ChartAxis {
    ChartAxis { label: label.to_owned(), scale, unit: unit.to_owned(), labels: Vec::new() }
}

/// The experiment with the smallest p-value.
fn most_different<'a>(group: &ExperimentGroup<'a>) -> &'a ExperimentRow {
    let p = |row: &ExperimentRow| {
        let ratios = row.ratios.iter().flatten().flatten();
        ratios.map(|found| found.ratio.p).fold(f64::INFINITY, f64::min)
    };
    group.iter().copied().min_by(|a, b| p(a).total_cmp(&p(b))).expect("a group has an experiment")
}

/// The response times at which the distributions are drawn, in ascending order: each known quantile, a point just before
/// the first of each run, and a margin of 5 % on both sides. So a run whose IOs all take equally long is drawn as a step.
fn distribution_times(row: &ExperimentRow) -> Vec<f64> {
    let runs = row.distributions.iter().flatten();
    let before_first =
        runs.clone().filter_map(|points| points.first()).map(|first| first.response_ns * 0.9999);
    let mut times: Vec<f64> = runs
        .flatten()
        .map(|point| point.response_ns)
        .chain(before_first)
        .filter(|&time| time > 0.0)
        .collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    if let [first, .., last] = times[..] {
        times.insert(0, first / 1.05);
        times.push(last * 1.05);
    }
    times
}

/// The share of response times up to `time`.
fn share_until(points: &[QuantilePoint], time: f64) -> f64 {
    let after = points.partition_point(|point| point.response_ns <= time);
    after.checked_sub(1).map_or(0.0, |last| points[last].share)
}

/// The table of all ratios, folded.
fn experiments(comparison: &Comparison) -> Markup {
    let count = comparison.experiments.len();
    let all = comparison.experiments.iter().flat_map(|row| row.ratios.iter().flatten().flatten());
    let differ =
        |found: &&StatisticRatio| matches!(found.ratio.verdict, RatioVerdict::Faster | RatioVerdict::Slower);
    let shown = all.filter(differ).count();
    html! {
        details.runs {
            summary {
                (count) @if count == 1 { " experiment, " } @else { " experiments, " }
                (shown) " of " (comparison.tests) " ratios show a difference"
            }
            div.scroll tabindex="0" role="region" aria-label="Table of all experiments" {
                table.figures.sortable.compared {
                    thead {
                        tr {
                            @for heading in ["Experiment", "Run", "Statistic", "A", "Run's", "Ratio", "95 % interval", "Verdict"] {
                                th scope="col" { (heading) }
                            }
                        }
                    }
                    tbody {
                        @for row in &comparison.experiments {
                            @for run in 1..comparison.devices.len() {
                                @for found in ratios_of(row, run) { "\n" (ratio_row(row, run, found)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn ratio_row(row: &ExperimentRow, run: usize, found: &StatisticRatio) -> Markup {
    let ratio = &found.ratio;
    let differs = matches!(ratio.verdict, RatioVerdict::Faster | RatioVerdict::Slower);
    let reason = match ratio.verdict {
        RatioVerdict::CannotBeTold => Some(what_would_tell(ratio, run)),
        RatioVerdict::Equal => None,
        RatioVerdict::Faster | RatioVerdict::Slower => odd_repetitions(ratio, run),
    };
    html! {
        tr {
            td { (experiment_name(&row.key)) }
            td { (letter(run)) }
            td { (statistic_name(found.statistic)) }
            td data-value=(ratio.first_ns) { (units::time(ratio.first_ns)) }
            td data-value=(ratio.other_ns) { (units::time(ratio.other_ns)) }
            td.shown[differs] data-value=(ratio.ratio) { (units::ratio(ratio.ratio)) }
            td data-value=(ratio.low) { (interval(ratio)) }
            td { (verdict_word(ratio.verdict)) @if let Some(reason) = reason { ", " (reason) } }
        }
    }
}

fn lacking(comparison: &Comparison) -> Markup {
    html! {
        @for (runs, names) in missing(comparison) {
            p.intro { (capitalised(&runs)) ":" }
            ul { @for name in names { li { (name) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_response_times_are_drawn_as_a_step() {
        let points: Vec<QuantilePoint> =
            [0.5, 0.9, 1.0].map(|share| QuantilePoint { share, response_ns: 1000.0 }).to_vec();
        let shares = [999.9, 1000.0, 1050.0].map(|time| share_until(&points, time));
        assert_eq!(shares, [0.0, 1.0, 1.0]);
    }
}
