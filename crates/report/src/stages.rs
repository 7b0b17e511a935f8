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
        "Writes had one rate in this quick run, for {written} after an idle time: the figures are those of bursts up to this size. If the \
         drive buffers more, what lasts is slower, and --full shows it."
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

/// Points per factor of two of the bytes written. A phone shows about 300 points. Over 64 MiB to 8 GiB this is 28 of them, and a cycle of
/// 461 MiB (nvme-enterprise) still shows in the first GiB, and is a line behind that: with every stretch drawn, it filled the chart.
const POINTS_PER_OCTAVE: f64 = 4.0;

/// Throughput of the stretches between bytes that grow by a constant factor, by their ends. `io` are the bytes of an IO.
fn rates(stages: &PatternStages, io: f64) -> BTreeMap<u64, f64> {
    let mut stretches: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let mut before = 0;
    for &(until, ns) in &stages.curve {
        let bytes = until.saturating_sub(before) as f64;
        before = until;
        let end = ((until as f64).log2() * POINTS_PER_OCTAVE).ceil() / POINTS_PER_OCTAVE;
        if ns > 0.0 && end.is_finite() {
            let (sum, time_ns) = stretches.entry(end.exp2().round() as u64).or_default();
            (*sum, *time_ns) = (*sum + bytes, *time_ns + bytes / io * ns);
        }
    }
    let rate = |(end, (bytes, time_ns)): (u64, (f64, f64))| (end, bytes * 1e9 / time_ns);
    stretches.into_iter().filter(|(_, (bytes, _))| *bytes > 0.0).map(rate).collect()
}

/// Throughput over the bytes written after an idle time.
pub fn stages_chart(findings: &Findings) -> Option<Chart> {
    let found = findings.stages.as_ref()?;
    if found.patterns.iter().all(|stages| stages.stages.is_empty()) {
        return None;
    }
    let io = findings.method.io_size.0 as f64;
    let curves: Vec<(&PatternStages, BTreeMap<u64, f64>)> =
        found.patterns.iter().map(|stages| (stages, rates(stages, io))).collect();
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
    let axis = |label: &str, scale, unit: &str| ChartAxis {
        label: label.to_owned(),
        scale,
        unit: unit.to_owned(),
        labels: Vec::new(),
    };
    Some(Chart {
        id: "stages".to_owned(),
        title: "Writes after an idle time".to_owned(),
        caption: stages_sentences(findings).join(" "),
        wide: true,
        drawing: Drawing {
            x: axis("bytes written", "log2", "bytes"),
            y: axis("throughput", "linear", "bytes/s"),
            values: Figures(all.keys().map(|&x| Some(x as f64)).collect()),
            series: curves.iter().map(series).collect(),
            marks: marks.collect(),
            level: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_alternates_is_its_mean_over_longer_stretches() {
        // 64 MiB in 10 us each, then every other MiB in 10 us or 70 us each, as far as 4 GiB.
        let ns = |mib: u64| if mib <= 64 || mib.is_multiple_of(2) { 10_000.0 } else { 70_000.0 };
        let curve = (1..4097).map(|mib| (mib << 20, ns(mib))).collect();
        let found = rates(&PatternStages { curve, ..PatternStages::default() }, 32768.0);
        assert!(found.len() <= 13 * 4, "{}", found.len());
        let rate = |ns: f64| 32768e9 / ns;
        assert!(found.range(..=64 << 20).all(|(_, found)| (found / rate(10_000.0) - 1.0).abs() < 1e-9));
        let after = found.range(256 << 20..).map(|(_, found)| found / rate(40_000.0));
        assert!(after.into_iter().all(|ratio| (0.9..1.1).contains(&ratio)), "{found:?}");
    }
}
