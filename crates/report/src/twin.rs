//! A device and its twin: the errors by micro-benchmark, and both drawn over each other.

use flashlab_analysis::findings::Regime;
use flashlab_analysis::{TwinDifference, TwinFigures, TwinMicroBenchmark, TwinPoint, TwinRegime};
use flashlab_base::Nanos;
use maud::{Markup, html};

use crate::charts::{Chart, ChartAxis, ChartSeries, Drawing, Figures};
use crate::page::{Section, figures, page};
use crate::units::{UNKNOWN, percent};
use crate::words::capitalised;

/// A figure of response times: its name and where it is.
type Statistic = (&'static str, fn(&TwinFigures) -> f64);

/// So many points are named that are far off.
const OUTLIERS_NAMED: usize = 5;

const MEAN: Statistic = ("mean", |figures| figures.mean);
const P99: Statistic = ("p99", |figures| figures.p99);

/// The table of errors, for a terminal.
pub fn twin_terminal(difference: &TwinDifference) -> String {
    let mut text = format!(
        "{:<16} {:>9} {:>9} {:>9}   {:>9} {:>9} {:>9}\n{:<16} {:>9} {:>9} {:>9}   {:>9} {:>9} {:>9}\n",
        "",
        "twin",
        "",
        "",
        "itself",
        "",
        "",
        "error of the",
        "mean",
        "median",
        "p99",
        "mean",
        "median",
        "p99"
    );
    let mut row = |name: &str, error: &TwinFigures, own: Option<&TwinFigures>| {
        let [mean, p50, p99] = of_figures(Some(error));
        text += &format!("{name:<16} {mean:>9} {p50:>9} {p99:>9}");
        let [mean, p50, p99] = of_figures(own);
        text += &format!("   {mean:>9} {p50:>9} {p99:>9}\n");
    };
    for micro in &difference.micro_benchmarks {
        row(&micro.name, &micro.error, micro.own.as_ref());
    }
    row("all", &difference.error, difference.own.as_ref());
    for regime in &difference.regimes {
        row(regime_name(regime), &regime.error, regime.own.as_ref());
    }
    for sentence in regime_sentences(difference) {
        text += &format!("{sentence}\n");
    }
    for micro in &difference.micro_benchmarks {
        if let Some(missing) = micro.missing {
            text += &format!("{} is not reproduced. Missing: {missing}.\n", capitalised(&micro.name));
        }
    }
    for sentence in outliers(difference) {
        text += &format!("{sentence}\n");
    }
    text
}

fn regime_name(regime: &TwinRegime) -> &'static str {
    if regime.regime == Regime::Burst { "writes in bursts" } else { "sustained writes" }
}

/// Whether the twin reproduces each regime of writes.
fn regime_sentences(difference: &TwinDifference) -> Vec<String> {
    let sentence = |regime: &TwinRegime| {
        let verdict = if regime.is_reproduced { "are reproduced" } else { "are not reproduced" };
        let [mean, p50, p99] = of_figures(Some(&regime.error));
        format!(
            "{} {verdict}: means are off by {mean}, medians by {p50}, 99th percentiles by {p99}.",
            capitalised(regime_name(regime))
        )
    };
    difference.regimes.iter().map(sentence).collect()
}

/// Mean, median and 99th percentile in per cent.
fn of_figures(figures: Option<&TwinFigures>) -> [String; 3] {
    let Some(figures) = figures else { return [UNKNOWN; 3].map(str::to_owned) };
    [figures.mean, figures.p50, figures.p99].map(percent)
}

/// A sentence for each of the worst outliers, and how many more there are.
fn outliers(difference: &TwinDifference) -> Vec<String> {
    let all = difference.outliers();
    let sentence = |(micro, point): &(&TwinMicroBenchmark, &TwinPoint)| {
        let [device, twin] = [&point.device, &point.twin].map(|figures| Nanos(figures.mean as u64));
        let own = point.own.map_or(String::new(), |own| {
            format!("; the device differs from itself by {}", percent(own.mean))
        });
        format!(
            "Outlier: {} {} at {}: the mean is {twin} in place of {device}{own}.",
            micro.name,
            point.name(),
            point.label
        )
    };
    let mut sentences: Vec<String> = all.iter().take(OUTLIERS_NAMED).map(sentence).collect();
    if all.len() > OUTLIERS_NAMED {
        sentences
            .push(format!("{} more points are off by a factor of 2 or more.", all.len() - OUTLIERS_NAMED));
    }
    sentences
}

/// One self-contained page, with a chart for each experiment.
pub fn twin_html(difference: &TwinDifference, device: &str, twin: &str) -> String {
    let charts: Vec<Chart> = difference.micro_benchmarks.iter().flat_map(micro_charts).collect();
    let sections = [
        Section { id: "verdict", short: "Verdict", heading: "", body: verdict(difference, device, twin) },
        Section {
            id: "errors",
            short: "Errors",
            heading: "Errors by micro-benchmark",
            body: errors(difference),
        },
        Section {
            id: "overlay",
            short: "Charts",
            heading: "Device and twin over each other",
            body: figures(&charts),
        },
    ];
    let drawn: Vec<&Chart> = charts.iter().collect();
    page(&format!("{device} and its twin"), &sections, &drawn, env!("CARGO_PKG_VERSION"))
}

fn verdict(difference: &TwinDifference, device: &str, twin: &str) -> Markup {
    let error = &difference.error;
    html! {
        p.eyebrow { "A device and its twin" }
        h1 { (device) }
        ul.runs-compared {
            li { i.swatch.solid style="--line:var(--run0)" {} " device: " (device) }
            li { i.swatch.solid style="--line:var(--run1)" {} " twin: " (twin) }
        }
        p.verdict {
            "Over all micro-benchmarks the twin's mean response times are off by " (percent(error.mean))
            ", its medians by " (percent(error.p50)) " and its 99th percentiles by " (percent(error.p99)) "."
        }
        @for sentence in regime_sentences(difference) {
            p.verdict { (sentence) }
        }
        @for micro in &difference.micro_benchmarks {
            @if let Some(missing) = micro.missing {
                p.verdict { (capitalised(&micro.name)) " is not reproduced. Missing: " (missing) "." }
            }
        }
        @for sentence in outliers(difference) {
            p.verdict { (sentence) }
        }
        p.note {
            "An error is |twin / device - 1|. It is averaged over the points of a micro-benchmark, and then over the \
             micro-benchmarks. \"Itself\" is the device against itself: one repetition of a point against its others. \
             Below that a difference says nothing of the twin."
        }
    }
}

fn errors(difference: &TwinDifference) -> Markup {
    let row = |name: &str, error: &TwinFigures, own: Option<&TwinFigures>| {
        html! {
            tr {
                th scope="row" { (capitalised(name)) }
                @for value in of_figures(Some(error)).iter().chain(&of_figures(own)) { td { (value) } }
            }
        }
    };
    html! {
        div.scroll {
            table.figures {
                thead {
                    tr { td {} th colspan="3" scope="colgroup" { "twin" } th colspan="3" scope="colgroup" { "itself" } }
                    tr { td {} @for name in ["mean", "median", "p99"].repeat(2) { th scope="col" { (name) } } }
                }
                tbody {
                    @for micro in &difference.micro_benchmarks { (row(&micro.name, &micro.error, micro.own.as_ref())) }
                    (row("all", &difference.error, difference.own.as_ref()))
                    @for regime in &difference.regimes {
                        (row(regime_name(regime), &regime.error, regime.own.as_ref()))
                    }
                }
            }
        }
    }
}

/// One chart for each experiment of a micro-benchmark.
fn micro_charts(micro: &TwinMicroBenchmark) -> Vec<Chart> {
    let mut names: Vec<String> = micro.points.iter().map(TwinPoint::name).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    names.iter().map(|name| chart(micro, name)).collect()
}

fn chart(micro: &TwinMicroBenchmark, experiment: &str) -> Chart {
    let mut points: Vec<&TwinPoint> =
        micro.points.iter().filter(|point| point.name() == experiment).collect();
    points.sort_by(|a, b| a.value.total_cmp(&b.value));
    let series = |(name, of): Statistic, is_twin: bool, style| {
        let (who, colour) = if is_twin { ("twin", "run1") } else { ("device", "run0") };
        let figures = |point: &&TwinPoint| of(if is_twin { &point.twin } else { &point.device });
        ChartSeries {
            name: format!("{who} {name}"),
            colour: colour.to_owned(),
            points: colour.to_owned(),
            style,
            values: Figures(points.iter().map(|point| Some(figures(point))).collect()),
            band: None,
        }
    };
    let error = TwinFigures::mean_of(points.iter().map(|point| point.error));
    Chart {
        id: format!("twin-{}-{}", micro.name, experiment.replace(['/', '.'], "-").to_lowercase()),
        title: format!("{}, {experiment}", capitalised(&micro.name)),
        caption: format!(
            "The twin's means are off by {}, its medians by {}, its 99th percentiles by {}.",
            percent(error.mean),
            percent(error.p50),
            percent(error.p99)
        ),
        wide: false,
        drawing: Drawing {
            x: ChartAxis {
                label: micro.name.clone(),
                scale: "ordinal",
                unit: String::new(),
                labels: points.iter().map(|point| point.label.clone()).collect(),
            },
            y: ChartAxis {
                label: "response time".to_owned(),
                scale: "log10",
                unit: "ns".to_owned(),
                labels: Vec::new(),
            },
            values: Figures((0..points.len()).map(|index| Some(index as f64)).collect()),
            series: vec![
                series(MEAN, false, "line"),
                series(MEAN, true, "line"),
                series(P99, false, "dashed"),
                series(P99, true, "dashed"),
            ],
            marks: Vec::new(),
            level: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use flashlab_analysis::PooledPoint;

    use super::*;

    #[test]
    fn a_page_has_one_list_of_charts_and_a_chart_for_each_experiment() {
        let point = |experiment: &str, responses: [u64; 2]| PooledPoint {
            micro_benchmark: "order".to_owned(),
            experiment: experiment.to_owned(),
            regime: None,
            value: 1.0,
            label: "1".to_owned(),
            repetitions: vec![responses.to_vec()],
        };
        let device = vec![point("SR", [100, 100]), point("SW", [200, 200])];
        let twin = vec![point("SR", [110, 110]), point("SW", [400, 400])];
        let difference = TwinDifference::of(device.clone(), &twin, flashlab_analysis::TwinKind::Mechanism);
        let page = twin_html(&difference, "sim:a", "sim:b");
        let in_bursts = |points: &[PooledPoint]| -> Vec<PooledPoint> {
            let regime = Some(Regime::Burst);
            points.iter().map(|point| PooledPoint { regime, ..point.clone() }).collect()
        };
        let buffered =
            TwinDifference::of(in_bursts(&device), &in_bursts(&twin), flashlab_analysis::TwinKind::Mechanism);
        let missed = "Writes in bursts are not reproduced: means are off by 55";
        assert!(twin_terminal(&buffered).contains(missed) && twin_html(&buffered, "a", "b").contains(missed));
        // The script finds its charts by this id, which no section may have.
        assert_eq!(page.matches("id=\"charts\"").count(), 1);
        assert!(page.contains("id=\"twin-order-sr\"") && page.contains("id=\"twin-order-sw\""));
        let told = twin_terminal(&difference);
        assert!(
            told.contains("Order is not reproduced. Missing: the orders in which a log block takes pages."),
            "{told}"
        );
    }
}
