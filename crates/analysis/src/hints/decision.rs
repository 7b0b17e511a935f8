//! What all hints share: a verdict from a ratio, its uncertainty and a limit.

use flashlab_base::{Bytes, Nanos};

use crate::curve::{curve, patterns, uncertainty};
use crate::findings::{Baseline, HintVerdict, MicroBenchmark, Point};

/// A hint's verdict, advice and evidence.
pub type Decision = (HintVerdict, String, String);

/// The decision if a micro-benchmark is missing.
pub fn not_measured(what: &str) -> Decision {
    let advice = format!("Nothing can be advised: run the {what}.");
    (HintVerdict::NotSupportedByThisMeasurement, advice, format!("The {what} was not measured."))
}

/// The decision if the uncertainty includes the limit.
pub fn cannot_tell(evidence: String) -> Decision {
    let advice = "Nothing can be advised: the effect is within the uncertainty; measure longer.".to_owned();
    (HintVerdict::NotSupportedByThisMeasurement, advice, evidence)
}

/// Whether `ratio`, with the relative uncertainty `noise`, is over `limit`; `None` if it may be either.
pub fn exceeds(ratio: f64, noise: f64, limit: f64) -> Option<bool> {
    if ratio > limit * (1.0 + noise) {
        Some(true)
    } else if ratio * (1.0 + noise) <= limit {
        Some(false)
    } else {
        None
    }
}

/// The uncertainty of a ratio of two points.
pub fn both(a: &Point, b: &Point) -> f64 {
    uncertainty(a).hypot(uncertainty(b))
}

/// The decision for each outcome of [`exceeds`].
pub fn choose(
    verdict: Option<bool>,
    evidence: String,
    yes: (HintVerdict, String),
    no: (HintVerdict, String),
) -> Decision {
    match verdict {
        Some(true) => (yes.0, yes.1, evidence),
        Some(false) => (no.0, no.1, evidence),
        None => cannot_tell(evidence),
    }
}

/// Each pattern's curve over `parameter`.
pub fn curves<'a>(micro_benchmarks: &'a [MicroBenchmark], parameter: &str) -> Vec<(&'a str, Vec<&'a Point>)> {
    let names = patterns(micro_benchmarks, parameter);
    names.into_iter().map(|name| (name, curve(micro_benchmarks, parameter, name))).collect()
}

/// The parameter of a point as a size.
pub fn size(point: &Point) -> Bytes {
    Bytes(point.value as u64)
}

/// Whole nanoseconds.
pub fn time(ns: f64) -> Nanos {
    Nanos(ns.round() as u64)
}

/// The relative uncertainty of a baseline; a quarter if it is not known.
pub fn baseline_noise(baseline: &Baseline) -> f64 {
    baseline.run.precision.unwrap_or(0.25)
}
