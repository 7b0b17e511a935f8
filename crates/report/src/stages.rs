//! The stages of writes after an idle time, in words and as a picture: what a burst sees, and what lasts.

use std::collections::BTreeMap;

use flashlab_analysis::findings::{Findings, PatternStages, Regime, WriteStages};
use flashlab_base::Bytes;

use crate::charts::{Chart, ChartAxis, ChartSeries, Drawing, Figures, colour, in_words};
use crate::units;

/// The sentences that a reader has to know before the figures of writes. Empty if a burst is as fast as what lasts.
pub fn stages_sentences(findings: &Findings) -> Vec<String> {
    let Some(found) = &findings.stages else { return Vec::new() };
    let staged = |stages: &&PatternStages| !stages.stages.is_empty();
    let Some(stages) = found.of("RW").filter(staged).or_else(|| found.patterns.iter().find(staged)) else {
        let withheld = found.patterns.iter().filter(|stages| stages.is_withheld());
        let sentences: Vec<String> = withheld.map(withheld_sentence).collect();
        let is_known = sentences.is_empty();
        return if is_known { horizon_sentence(findings).into_iter().collect() } else { sentences };
    };
    let mut sentences = vec![stages_sentence(findings, stages)];
    sentences.extend(cycle_sentence(stages));
    sentences.extend(recovery_sentence(found, stages));
    sentences.extend(regime_sentence(findings));
    sentences.extend(found.patterns.iter().filter(|stages| stages.is_withheld()).map(withheld_sentence));
    sentences
}

/// How far a quick run has looked: a buffer that it did not fill would not show.
fn horizon_sentence(findings: &Findings) -> Option<String> {
    let written = findings.stages_looked_for()?;
    Some(format!(
        "This quick run saw no faster stage of writes within {written} after an idle time; a larger buffer would not show."
    ))
}

/// Folding and collection in batches alternate, whatever the load is.
fn cycle_sentence(stages: &PatternStages) -> Option<String> {
    let cycle = stages.cycle_bytes.filter(|_| stages.is_settled)?;
    Some(format!(
        "What lasts alternates with a cycle of {}: the figure is the mean of whole cycles.",
        Bytes(cycle)
    ))
}

/// `This drive buffers 64 MiB at 3.4 GB/s; after that random writes of 32 KiB take 35.6 us.`
fn stages_sentence(findings: &Findings, stages: &PatternStages) -> String {
    let each: Vec<String> = stages
        .stages
        .iter()
        .map(|stage| format!("{} at {}", Bytes(stage.bytes), units::rate(stage.bytes_per_s)))
        .collect();
    let buffers = format!("This drive buffers {}", each.join(", then "));
    let kind = if stages.pattern == "RW" { "random" } else { "sequential" };
    match stages.sustained_ns_mean {
        Some(ns) => {
            format!(
                "{buffers}; after that {kind} writes of {} take {}.",
                findings.method.io_size,
                units::time(ns)
            )
        }
        None => format!("{buffers}; how long {kind} writes take after that is not known."),
    }
}

/// How much of it an idle time brings back: the longest idle time at which it is not all, and the shortest at which it is.
fn recovery_sentence(found: &WriteStages, stages: &PatternStages) -> Option<String> {
    let is_all = |bytes: u64| bytes as f64 >= 0.9 * stages.volatile_bytes as f64;
    if let Some(first) = found.recovery.iter().find(|recovery| is_all(recovery.bytes)) {
        return Some(format!("An idle time of {} brings all of it back.", units::time(first.idle.0 as f64)));
    }
    let longest = found.recovery.last()?;
    Some(format!(
        "An idle time of {} brings {} of it back.",
        units::time(longest.idle.0 as f64),
        Bytes(longest.bytes)
    ))
}

/// Which regime the writes of the micro-benchmarks show.
fn regime_sentence(findings: &Findings) -> Option<String> {
    let experiments = || findings.micro_benchmarks.iter().flat_map(|micro| &micro.experiments);
    let has = |regime| experiments().any(|experiment| experiment.regime == Some(regime));
    let sentence = match (has(Regime::Burst), has(Regime::Sustained)) {
        (true, false) => "The micro-benchmarks measured bursts only, not what lasts.",
        (false, true) => "The micro-benchmarks measured what lasts, and no bursts.",
        (true, true) => "Figures and hints are of what lasts; bursts are dashed in the charts.",
        (false, false) if findings.micro_benchmarks.is_empty() => return None,
        (false, false) => "The micro-benchmarks measured reads only: no regime of writes is known.",
    };
    Some(sentence.to_owned())
}

fn withheld_sentence(stages: &PatternStages) -> String {
    let pattern = in_words(&stages.pattern).to_lowercase();
    format!("Figures of {pattern} are withheld, because they did not settle: {}.", stages.evidence)
}

/// Throughput over the bytes written after an idle time.
pub fn stages_chart(findings: &Findings) -> Option<Chart> {
    let found = findings.stages.as_ref()?;
    if found.patterns.iter().all(|stages| stages.stages.is_empty()) {
        return None;
    }
    let io = findings.method.io_size.0 as f64;
    let rates = |stages: &PatternStages| -> BTreeMap<u64, f64> {
        let points = stages.curve.iter().filter(|(_, ns)| *ns > 0.0);
        points.map(|&(bytes, ns)| (bytes, io * 1e9 / ns)).collect()
    };
    let curves: Vec<(&PatternStages, BTreeMap<u64, f64>)> =
        found.patterns.iter().map(|stages| (stages, rates(stages))).collect();
    let all: BTreeMap<u64, ()> =
        curves.iter().flat_map(|(_, curve)| curve.keys().map(|&x| (x, ()))).collect();
    let series = |(stages, curve): &(&PatternStages, BTreeMap<u64, f64>)| ChartSeries {
        name: stages.pattern.clone(),
        colour: colour(&stages.pattern).to_owned(),
        points: colour(&stages.pattern).to_owned(),
        style: "solid",
        values: Figures(all.keys().map(|x| curve.get(x).copied()).collect()),
        band: None,
    };
    let ends = curves.iter().filter(|(stages, _)| stages.volatile_bytes > 0);
    let marks = ends.take(1).map(|(stages, _)| (stages.volatile_bytes as f64, "what lasts".to_owned()));
    let axis = |label: &str, unit: &str| ChartAxis {
        label: label.to_owned(),
        scale: "linear",
        unit: unit.to_owned(),
        labels: Vec::new(),
    };
    Some(Chart {
        id: "stages".to_owned(),
        title: "Writes after an idle time".to_owned(),
        caption: stages_sentences(findings).join(" "),
        wide: true,
        drawing: Drawing {
            x: axis("bytes written", "bytes"),
            y: axis("throughput", "bytes/s"),
            values: Figures(all.keys().map(|&x| Some(x as f64)).collect()),
            series: curves.iter().map(series).collect(),
            marks: marks.collect(),
            level: None,
        },
    })
}
