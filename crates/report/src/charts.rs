//! Defines the charts of a report.
//!
//! # Model
//! A [`Chart`] is a title and a caption for the HTML, and a [`Drawing`] for the script: axes, x
//! values, and series over them. The four baselines have one colour each, everywhere; a mix is
//! drawn as a line in the colour of its first pattern with points in that of its second.
//!
//! # Invariants
//! - All series of a drawing are as long as its x values, which ascend.
//! - An axis is logarithmic only if all its values are above zero; otherwise x is ordinal.

use std::collections::BTreeMap;

use flashlab_analysis::findings::{
    ExperimentFindings, Findings, MicroBenchmark, Point, Regime, ResponseTrace, Traces,
};
use flashlab_base::Bytes;
use serde::{Serialize, Serializer};

use crate::units::sentence;

/// A chart of the report.
pub struct Chart {
    /// Unique in the page.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How to read it, in one or two sentences.
    pub caption: String,
    /// Whether it has the full width of the page.
    pub wide: bool,
    /// What the script draws.
    pub drawing: Drawing,
}

/// The data that the script needs to draw a chart. Field names are short because every page contains them.
#[derive(Clone, Debug, Serialize)]
pub struct Drawing {
    /// The horizontal axis.
    pub x: ChartAxis,
    /// The vertical axis.
    pub y: ChartAxis,
    /// The x values, ascending; for an ordinal axis 0, 1, 2, ...
    pub values: Figures,
    /// What is drawn over them.
    pub series: Vec<ChartSeries>,
    /// Vertical lines where something begins.
    pub marks: Vec<(f64, String)>,
    /// A horizontal line to compare with.
    pub level: Option<(f64, String)>,
}

/// An axis.
#[derive(Clone, Debug, Serialize)]
pub struct ChartAxis {
    /// What it measures, as `IOSize`.
    pub label: String,
    /// `linear`, `ordinal`, `log2`, `log10`, or `tail` for the share beyond: logarithmic, with the smallest at the top.
    pub scale: &'static str,
    /// `ns`, `bytes`, `bytes/s`, `ratio`, `share`, `tail`, or empty for a count.
    pub unit: String,
    /// The label of each x value; empty if the number is enough.
    pub labels: Vec<String>,
}

/// A line, or dots.
#[derive(Clone, Debug, Serialize)]
pub struct ChartSeries {
    /// As in the legend.
    pub name: String,
    /// The colour's name: `sr`, `rr`, `sw`, `rw`, `ink`, `muted`, or `run0` and so on.
    pub colour: String,
    /// The colour of a line's points.
    pub points: String,
    /// `line` with points, `dots` alone, `solid` or `dashed` without points.
    pub style: &'static str,
    /// The y values.
    pub values: Figures,
    /// The smallest and the largest of the repetitions, if there are several.
    pub band: Option<(Figures, Figures)>,
}

/// Numbers for a chart, written to five significant digits; undefined ones as null.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(pub Vec<Option<f64>>);

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Number {
            Whole(i64),
            Broken(f64),
            Missing,
        }
        const EXACT: f64 = 9e15;
        serializer.collect_seq(self.0.iter().map(|value| match *value {
            Some(value) if value.fract() == 0.0 && value.abs() < EXACT => Number::Whole(value as i64),
            Some(value) if value.abs() >= 1e4 && value.abs() < EXACT => Number::Whole(value.round() as i64),
            Some(value) if value.is_finite() => {
                let digits = (4.0 - value.abs().log10().floor()).clamp(4.0, 15.0);
                let scale = 10f64.powf(digits);
                Number::Broken((value * scale).round() / scale)
            }
            _ => Number::Missing,
        }))
    }
}

/// The colour of one of the baselines; other names have the text's colour.
pub fn colour(pattern: &str) -> &'static str {
    match pattern {
        "SR" => "sr",
        "RR" => "rr",
        "SW" => "sw",
        "RW" => "rw",
        _ => "ink",
    }
}

/// The response-time traces of the baselines (uFLIP Figures 3 and 4).
pub fn baselines(findings: &Findings, traces: &Traces) -> Vec<Chart> {
    let baseline_traces = traces.traces.iter().filter(|trace| trace.name != "lingering");
    baseline_traces
        .enumerate()
        .map(|(index, trace)| {
            let evidence = findings.baselines.iter().find(|baseline| baseline.pattern == trace.name);
            Chart {
                id: format!("trace-{index}"),
                title: in_words(&trace.name),
                caption: evidence.map(|baseline| sentence(&baseline.phases.evidence)).unwrap_or_default(),
                wide: false,
                drawing: trace_drawing(trace),
            }
        })
        .collect()
}

/// The pause determination (uFLIP Figure 5).
pub fn lingering(findings: &Findings, traces: &Traces) -> Option<Chart> {
    let trace = traces.traces.iter().find(|trace| trace.name == "lingering")?;
    Some(Chart {
        id: "lingering".to_owned(),
        title: "Sequential reads, random writes, sequential reads once more".to_owned(),
        caption: findings.lingering.as_ref().map(|found| sentence(&found.evidence)).unwrap_or_default(),
        wide: true,
        drawing: trace_drawing(trace),
    })
}

fn trace_drawing(trace: &ResponseTrace) -> Drawing {
    let mut series = dots(trace);
    let means = |name: &str, style, values| ChartSeries {
        name: name.to_owned(),
        colour: "ink".to_owned(),
        points: "ink".to_owned(),
        style,
        values,
        band: None,
    };
    let all = Figures(trace.running_mean_ns.iter().map(|&ns| Some(ns)).collect());
    if trace.name != "lingering" {
        let without = Figures(trace.running_mean_without_startup_ns.clone());
        // Without a start-up phase the two averages are equal.
        if without != all {
            series.push(means("average with start-up", "dashed", all));
            series.push(means("average without", "solid", without));
        } else {
            series.push(means("running average", "solid", all));
        }
    }
    pad(&mut series, trace.position.len());
    Drawing {
        x: axis("IO", "linear", ""),
        y: axis("response time", "log10", "ns"),
        values: Figures(trace.position.iter().map(|&position| Some(position as f64)).collect()),
        series,
        // A single phase needs no line.
        marks: if trace.marks.len() > 1 { marks(trace) } else { Vec::new() },
        level: None,
    }
}

fn marks(trace: &ResponseTrace) -> Vec<(f64, String)> {
    trace.marks.iter().map(|(position, name)| (*position as f64, name.clone())).collect()
}

/// The single IOs. In the lingering experiment, the random writes are separate from the reads.
fn dots(trace: &ResponseTrace) -> Vec<ChartSeries> {
    let dots = |name: &str, pattern: &str, keep: &dyn Fn(u64) -> bool| ChartSeries {
        name: name.to_owned(),
        colour: colour(pattern).to_owned(),
        points: colour(pattern).to_owned(),
        style: "dots",
        values: Figures(
            trace
                .position
                .iter()
                .zip(&trace.response_ns)
                .map(|(&position, &ns)| (keep(position) && ns > 0).then_some(ns as f64))
                .collect(),
        ),
        band: None,
    };
    if trace.name != "lingering" {
        return vec![dots("single IOs", &trace.name, &|_| true)];
    }
    let is_write = |position: u64| {
        let phase = trace.marks.iter().rev().find(|(start, _)| *start <= position);
        phase.is_some_and(|(_, name)| name.contains("write"))
    };
    vec![
        dots("sequential reads", "SR", &|position| !is_write(position)),
        dots("random writes", "RW", &is_write),
    ]
}

/// Makes every series as long as the x values, whatever the file contains.
fn pad(series: &mut [ChartSeries], length: usize) {
    for one in series {
        one.values.0.resize(length, None);
    }
}

/// The chart of a micro-benchmark: response time over its parameter.
pub fn micro_benchmark(findings: &Findings, micro: &MicroBenchmark, index: usize) -> Chart {
    let mut chart = Chart {
        id: format!("micro-{index}"),
        title: title(micro),
        caption: format!("{}{}", regimes_in_words(findings, micro), caption(&micro.name)),
        wide: matches!(micro.name.as_str(), "granularity" | "locality"),
        drawing: experiments_drawing(micro),
    };
    if micro.name == "locality" {
        relative_to_sequential_writes(&mut chart, findings);
    }
    chart
}

/// What the two curves of each pattern that writes are, where there are two: the caption begins with it.
fn regimes_in_words(findings: &Findings, micro: &MicroBenchmark) -> String {
    let has = |regime| micro.experiments.iter().any(|experiment| experiment.regime == Some(regime));
    let stages = findings.stages.as_ref().and_then(|stages| stages.of("RW"));
    let bytes = stages.filter(|stages| stages.volatile_bytes > 0).map(|stages| Bytes(stages.volatile_bytes));
    let buffered =
        bytes.map_or(String::new(), |bytes| format!(" within the {bytes} that the device buffers"));
    match (has(Regime::Sustained), has(Regime::Burst)) {
        (true, true) => format!("Of writes the solid line is what lasts, the dashed one bursts{buffered}. "),
        (false, true) => format!("Of writes only bursts{buffered} were measured, not what lasts. "),
        (true, false) => "Of writes only what lasts was measured. ".to_owned(),
        (false, false) => String::new(),
    }
}

/// Figure 8 shows response times relative to sequential writes.
fn relative_to_sequential_writes(chart: &mut Chart, findings: &Findings) {
    let Some(unit) = findings.characteristics.sw_ms.map(|ms| ms * 1e6).filter(|&ns| ns > 0.0) else { return };
    let relative = |figures: &mut Figures| {
        for value in figures.0.iter_mut().flatten() {
            *value /= unit;
        }
    };
    for series in &mut chart.drawing.series {
        relative(&mut series.values);
        if let Some((low, high)) = &mut series.band {
            relative(low);
            relative(high);
        }
    }
    chart.drawing.y = axis("relative to sequential writes", "log10", "ratio");
    chart.drawing.level = Some((1.0, "a sequential write".to_owned()));
}

/// Every experiment of a micro-benchmark as a series over the values of all of them.
fn experiments_drawing(micro: &MicroBenchmark) -> Drawing {
    let mut labels: BTreeMap<u64, (f64, &str)> = BTreeMap::new();
    let points = micro.experiments.iter().flat_map(|experiment| &experiment.points);
    for point in points.filter(|point| point.value.is_finite()) {
        labels.insert(order_key(point.value), (point.value, &point.label));
    }
    let values: Vec<f64> = labels.values().map(|(value, _)| *value).collect();
    let logarithmic = values.iter().all(|&value| value > 0.0);
    let mut x = axis(&micro.parameter, if logarithmic { "log2" } else { "ordinal" }, &micro.unit);
    x.labels = labels.values().map(|(_, label)| (*label).to_owned()).collect();
    let at = |index: usize, value: f64| Some(if logarithmic { value } else { index as f64 });
    Drawing {
        x,
        y: axis("response time", "log10", "ns"),
        series: micro.experiments.iter().map(|experiment| series(experiment, &labels)).collect(),
        values: Figures(values.iter().enumerate().map(|(index, &value)| at(index, value)).collect()),
        marks: Vec::new(),
        level: None,
    }
}

fn series(experiment: &ExperimentFindings, values: &BTreeMap<u64, (f64, &str)>) -> ChartSeries {
    let points: BTreeMap<u64, &Point> =
        experiment.points.iter().map(|point| (order_key(point.value), point)).collect();
    let figures = |figure: &dyn Fn(&Point) -> f64| {
        let at = |key| points.get(key).map(|point| figure(point)).filter(|&ns| ns > 0.0);
        Figures(values.keys().map(at).collect())
    };
    let (first, second) =
        experiment.pattern.split_once('/').unwrap_or((&experiment.pattern, &experiment.pattern));
    let repeated = experiment.points.iter().any(|point| point.runs.len() > 1);
    ChartSeries {
        name: match experiment.regime {
            Some(regime) => format!("{} {}", experiment.pattern, regime.name()),
            None => experiment.pattern.clone(),
        },
        colour: colour(first).to_owned(),
        points: colour(second).to_owned(),
        style: if experiment.regime == Some(Regime::Burst) { "dashed" } else { "line" },
        values: figures(&|point| point.response_ns_mean),
        band: repeated.then(|| (figures(&|p| extreme(p, f64::min)), figures(&|p| extreme(p, f64::max)))),
    }
}

/// The smallest or largest of the repetitions' means.
fn extreme(point: &Point, choose: fn(f64, f64) -> f64) -> f64 {
    point.runs.iter().map(|run| run.response.mean_ns).reduce(choose).unwrap_or(point.response_ns_mean)
}

/// An integer key with the order of the value, because floats have no total order.
pub(crate) fn order_key(value: f64) -> u64 {
    // -0 and 0 are one value.
    let bits = (value + 0.0).to_bits();
    if value < 0.0 { !bits } else { bits | 1 << 63 }
}

fn axis(label: &str, scale: &'static str, unit: &str) -> ChartAxis {
    ChartAxis { label: label.to_owned(), scale, unit: unit.to_owned(), labels: Vec::new() }
}

/// A pattern's name in words.
pub fn in_words(pattern: &str) -> String {
    match pattern {
        "SR" => "Sequential reads (SR)".to_owned(),
        "RR" => "Random reads (RR)".to_owned(),
        "SW" => "Sequential writes (SW)".to_owned(),
        "RW" => "Random writes (RW)".to_owned(),
        other => other.to_owned(),
    }
}

/// `Granularity: response time over IOSize`.
fn title(micro: &MicroBenchmark) -> String {
    let mut letters = micro.name.chars();
    let name: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    format!("{name}: response time over {}", micro.parameter)
}

/// What each of uFLIP's micro-benchmarks shows (section 3.2).
fn caption(name: &str) -> &'static str {
    match name {
        "granularity" => {
            "How much a larger IO costs. Where a line is flat, larger IOs are free; where it rises \
                          as fast as IOSize, they gain nothing."
        }
        "alignment" => {
            "Response times of IOs that do not begin at a boundary. A dip shows a boundary of the device."
        }
        "locality" => {
            "How large an area random IOs may cover before they become expensive. At 1 a write costs as much \
                       as a sequential one."
        }
        "partitioning" => {
            "How many sequential streams, each in its own partition, the device serves without loss."
        }
        "order" => "Backwards (-1), in place (0), sequential (1), and with growing gaps.",
        "parallelism" => {
            "Whether the device gains from several processes at once. Response time growing with \
                          ParallelDegree means that it serves one IO after the other."
        }
        "mix" => {
            "Two patterns at once, Ratio IOs of the first for each of the second. A line has the first \
                  pattern's colour, its points the second's."
        }
        "pause" => {
            "Whether the device reclaims blocks while it is idle: then random writes get faster with the pause."
        }
        "bursts" => "How many IOs the device takes before its deferred work slows them down.",
        _ => "Response time over the parameter.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_keys_order_as_values_do() {
        let values = [-256.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0, 1e12];
        assert!(values.windows(2).all(|pair| order_key(pair[0]) < order_key(pair[1])));
        assert_eq!(order_key(-0.0), order_key(0.0));
    }

    #[test]
    fn chart_numbers_are_short_and_never_invalid() {
        let figures = Figures(vec![Some(3.0), Some(1.23456789), Some(123_456.7), Some(f64::NAN), None]);
        assert_eq!(serde_json::to_string(&figures).unwrap(), "[3,1.2346,123457,null,null]");
    }
}
