//! uFLIP's seven design hints (section 5.3), each decided for the device at hand.
//!
//! A hint is decided by one figure: a ratio of measured costs, compared with the limit from which
//! on a designer should care. The figure's uncertainty is counted: where it reaches across the
//! limit, the measurement does not support a verdict, just as where nothing was measured. Nor does it
//! where the runs that it comes from were too disturbed.

mod concurrency;
mod io_shape;

use flashlab_base::{Bytes, Nanos};

use crate::characteristics::{locality, partitioning};
use crate::curve::{baseline, curve, largest, patterns, uncertainty};
use crate::findings::{Baseline, Disturbance, Hint, MicroBenchmark, Point, Verdict};

/// Random writes are expensive when they cost this many times sequential writes.
const RANDOM_EXPENSIVE: f64 = 2.0;

const PAPER: [&str; 7] = [
    "Flash devices do incur latency: larger IOs are generally beneficial, even for reads.",
    "Block size should (currently) be 32 KB.",
    "Blocks should be aligned to flash pages.",
    "Random writes should be limited to a focused area.",
    "Sequential writes should be limited to a few partitions.",
    "Combining a limited number of patterns is acceptable.",
    "Neither concurrent nor delayed IOs improve the performance.",
];

/// The parameters of the micro-benchmarks that decide each hint.
const DECIDED_BY: [&[&str]; 7] = [
    &["IOSize"],
    &["IOSize"],
    &["IOShift"],
    &["TargetSize"],
    &["Partitions"],
    &["Ratio"],
    &["ParallelDegree", "Pause"],
];

/// A hint's verdict, advice and evidence.
type Decision = (Verdict, String, String);

/// Decides the seven hints, in their order.
pub fn hints(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Vec<Hint> {
    let decisions = [
        io_shape::larger_ios(micro_benchmarks),
        io_shape::block_size(micro_benchmarks),
        io_shape::alignment(micro_benchmarks),
        focused_area(baselines, micro_benchmarks),
        few_partitions(micro_benchmarks),
        concurrency::mixing(baselines, micro_benchmarks),
        concurrency::scheduling(baselines, micro_benchmarks),
    ];
    (1..)
        .zip(PAPER)
        .zip(DECIDED_BY)
        .zip(decisions)
        .map(|(((number, paper), parameters), decision)| {
            let (verdict, advice, evidence) = unless_disturbed(decision, parameters, micro_benchmarks);
            Hint { number, paper: paper.to_owned(), verdict, advice, evidence }
        })
        .collect()
}

/// A decision, if the micro-benchmarks that it comes from carry one.
fn unless_disturbed(
    (verdict, advice, evidence): Decision,
    parameters: &[&str],
    micro_benchmarks: &[MicroBenchmark],
) -> Decision {
    let deciding = micro_benchmarks.iter().filter(|micro| parameters.contains(&micro.parameter.as_str()));
    match Disturbance::of(&[], deciding).forbids() {
        Some(why) if verdict != Verdict::NotSupportedByThisMeasurement => {
            let advice = "Nothing can be advised: measure again on an idle machine.".to_owned();
            (Verdict::NotSupportedByThisMeasurement, advice, format!("{why}. {evidence}"))
        }
        _ => (verdict, advice, evidence),
    }
}

fn not_measured(what: &str) -> Decision {
    let advice = format!("Nothing can be advised: run the {what}.");
    (Verdict::NotSupportedByThisMeasurement, advice, format!("The {what} was not measured."))
}

fn cannot_tell(evidence: String) -> Decision {
    let advice = "Nothing can be advised: the effect is within the uncertainty; measure longer.".to_owned();
    (Verdict::NotSupportedByThisMeasurement, advice, evidence)
}

/// Whether `ratio`, uncertain by the relative `noise`, is over `limit`; none where it may be either.
fn exceeds(ratio: f64, noise: f64, limit: f64) -> Option<bool> {
    if ratio > limit * (1.0 + noise) {
        Some(true)
    } else if ratio * (1.0 + noise) <= limit {
        Some(false)
    } else {
        None
    }
}

/// The uncertainty of a ratio of two points.
fn both(a: &Point, b: &Point) -> f64 {
    uncertainty(a).hypot(uncertainty(b))
}

fn choose(
    verdict: Option<bool>,
    evidence: String,
    yes: (Verdict, String),
    no: (Verdict, String),
) -> Decision {
    match verdict {
        Some(true) => (yes.0, yes.1, evidence),
        Some(false) => (no.0, no.1, evidence),
        None => cannot_tell(evidence),
    }
}

/// Each pattern's curve over `parameter`.
fn curves<'a>(micro_benchmarks: &'a [MicroBenchmark], parameter: &str) -> Vec<(&'a str, Vec<&'a Point>)> {
    let names = patterns(micro_benchmarks, parameter);
    names.into_iter().map(|name| (name, curve(micro_benchmarks, parameter, name))).collect()
}

fn size(point: &Point) -> Bytes {
    Bytes(point.value as u64)
}

fn time(ns: f64) -> Nanos {
    Nanos(ns.round() as u64)
}

/// Hint 4, by the locality area (uFLIP section 5.2) and what random writes cost outside it.
fn focused_area(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let Some(locality) = locality(baselines, micro_benchmarks) else {
        return not_measured("locality micro-benchmark");
    };
    let (Some(random), Some(sequential)) = (baseline(baselines, "RW"), baseline(baselines, "SW")) else {
        return not_measured("baseline of random and sequential writes");
    };
    let penalty = random.run.response.mean_ns / sequential.run.response.mean_ns;
    let noise = baseline_noise(random).hypot(baseline_noise(sequential));
    let area = Bytes(locality.area_bytes as u64);
    let evidence = if locality.area_bytes > 0.0 {
        format!(
            "Random writes cost {penalty:.1} times sequential writes, within {area} at most {:.1} times{}.",
            locality.ratio,
            if locality.degrades { "" } else { " (no limit was seen up to there)" }
        )
    } else {
        format!("Random writes cost {penalty:.1} times sequential writes, and no less in any area measured.")
    };
    let focus = if locality.area_bytes > 0.0 {
        (Verdict::Holds, format!("Keep random writes within {area} at a time."))
    } else {
        (Verdict::DoesNotHold, "Avoid random writes: a focused area makes them no cheaper.".to_owned())
    };
    choose(
        exceeds(penalty, noise, RANDOM_EXPENSIVE),
        evidence,
        focus,
        (Verdict::DoesNotHold, "Random writes need no focused area.".to_owned()),
    )
}

fn baseline_noise(baseline: &Baseline) -> f64 {
    baseline.run.precision.unwrap_or(0.25)
}

/// Hint 5, by the knee over Partitions (uFLIP section 5.2).
fn few_partitions(micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let points = curve(micro_benchmarks, "Partitions", "SW");
    let Some(found) = partitioning(micro_benchmarks).filter(|_| points.len() > 1) else {
        return not_measured("partitioning micro-benchmark with a single partition and more");
    };
    let single = points[0].response_ns_mean;
    let beyond: Vec<f64> = points
        .iter()
        .filter(|point| point.value > f64::from(found.partitions))
        .map(|point| point.response_ns_mean / single)
        .collect();
    let n = found.partitions;
    if !found.degrades {
        let evidence =
            format!("Up to {n} partitions, the most measured, cost at most {:.1} times one.", found.ratio);
        return (Verdict::DoesNotHold, format!("Write {n} partitions at once if that helps."), evidence);
    }
    let evidence = format!(
        "Up to {n} partitions cost at most {:.1} times one, more up to {:.1} times.",
        found.ratio,
        largest(&beyond)
    );
    (Verdict::Holds, format!("Write at most {n} sequential partitions at once."), evidence)
}

#[cfg(test)]
mod tests;
