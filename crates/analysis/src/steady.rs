//! Decides whether random writes have made a device steady.
//!
//! # Model
//! The device is written randomly in rounds of the same size. While its flash has free blocks, it writes
//! faster than it can in the long run. Then garbage collection slows it down, until the write amplification
//! no longer grows.
//!
//! # Method (SNIA Solid State Storage Performance Test Specification, section 2.1.24)
//! 1. Take the last [`WINDOW`] rounds, and each figure that is known: throughput, mean response time, write
//!    amplification.
//! 2. The excursion (the largest minus the smallest figure) is at most [`EXCURSION_MOST`] of their mean.
//! 3. The drift (the change of the least-squares line over the window) is at most [`DRIFT_MOST`] of their
//!    mean.
//! 4. The window begins after [`CAPACITIES_BEFORE`] capacities of random writes, because the rounds of a new
//!    device are also equal before garbage collection begins.
//!
//! 5. Where erases are counted, the window erases at least [`ERASED_LEAST`] of what it programs. Otherwise the device
//!    still takes never-written blocks, and writes as fast as it can until they are used up. This happens on a part
//!    of a drive: throughput alone cannot show it.
//! 6. The confidence is at least [`CONFIDENCE_LEAST`]. It is the probability that the true drift is within the limit,
//!    and follows from the scatter around the line (Student's t with the degrees of freedom of the window). The
//!    specification has no such figure.
//!
//! What is not steady by this rule is "not known to be steady": more writes would decide.

use crate::findings::{SteadyRound, SteadyState};
use crate::student::upper_p;

/// The number of rounds that have to be equal, as in the specification.
pub const WINDOW: usize = 5;
/// The largest excursion, relative to the mean, as in the specification.
const EXCURSION_MOST: f64 = 0.20;
/// The largest drift over the window, relative to the mean, as in the specification.
const DRIFT_MOST: f64 = 0.10;
/// Random writes before the window, in capacities. The specification writes two capacities sequentially
/// instead, and then the rounds of its tests. With less, a device whose over-provisioning exceeds one round
/// would seem steady before garbage collection begins.
pub const CAPACITIES_BEFORE: f64 = 1.0;

/// The smallest confidence of "steady". One device in ten may drift more than the rule allows: the window has three
/// degrees of freedom, and with 0.95 a scatter of 3 % around the line would already never be steady.
pub const CONFIDENCE_LEAST: f64 = 0.9;
/// The least that is erased in the window, for each byte programmed. In the long run both are equal. In the window
/// they differ by the blocks that are written in part, at most a tenth of it on the devices of the zoo.
const ERASED_LEAST: f64 = 0.9;

/// A figure over the window.
struct Figure {
    name: &'static str,
    excursion: f64,
    drift: f64,
    confidence: f64,
}

/// Judges the rounds so far, for a target of `capacity` bytes.
pub fn steady_state(rounds: Vec<SteadyRound>, capacity: u64) -> SteadyState {
    let written: u64 = rounds.iter().map(|round| round.written_bytes).sum();
    let capacities = written as f64 / capacity.max(1) as f64;
    let before = rounds.len().saturating_sub(WINDOW);
    let written_before: u64 = rounds[..before].iter().map(|round| round.written_bytes).sum();
    let is_late = written_before as f64 >= CAPACITIES_BEFORE * capacity as f64;
    let figures = figures(&rounds[before..]);
    let worst = figures.iter().max_by(|a, b| doubt(a).total_cmp(&doubt(b)));
    let is_alike =
        figures.iter().all(|figure| strain(figure) <= 1.0 && figure.confidence >= CONFIDENCE_LEAST);
    let erased = erased_share(&rounds[before..]);
    let is_erasing = erased.is_none_or(|share| share >= ERASED_LEAST);
    let is_steady = is_late && worst.is_some() && is_alike && is_erasing;
    let evidence = match worst {
        Some(_) if is_late && !is_erasing => format!(
            "over the last {WINDOW} of {} rounds the device erased {:.0} % of what it programmed (at least {:.0} %), after \
             {capacities:.1} capacities of random writes: it still has never-written blocks",
            rounds.len(),
            100.0 * erased.unwrap_or_default(),
            100.0 * ERASED_LEAST,
        ),
        Some(Figure { name, excursion, drift, .. }) if is_late => format!(
            "over the last {WINDOW} of {} rounds the {name} varied by {:.1} % (at most {:.0} %) and drifted by {:+.1} % (at most \
             {:.0} %), after {capacities:.1} capacities of random writes",
            rounds.len(),
            100.0 * excursion,
            100.0 * EXCURSION_MOST,
            100.0 * drift,
            100.0 * DRIFT_MOST
        ),
        _ => format!(
            "{capacities:.1} capacities of random writes in {} rounds are too few to tell",
            rounds.len()
        ),
    };
    let confidence = figures.iter().map(|figure| figure.confidence).reduce(f64::min);
    // The confidence is that of the drift: it does not matter while the device still takes never-written blocks.
    let confidence = confidence.filter(|_| is_late && is_erasing);
    SteadyState { is_steady, confidence, written_bytes: written, capacities, evidence, rounds }
}

/// Reads one figure of a round.
type Read = fn(&SteadyRound) -> Option<f64>;

/// The distance of a figure from its limits: steady up to 1.
fn strain(figure: &Figure) -> f64 {
    (figure.excursion / EXCURSION_MOST).max(figure.drift.abs() / DRIFT_MOST)
}

/// What speaks most against "steady": a figure beyond its limits, or else the one with the least confidence.
fn doubt(figure: &Figure) -> f64 {
    if strain(figure) > 1.0 { 1.0 + strain(figure) } else { 1.0 - figure.confidence }
}

/// The bytes erased for each byte programmed; `None` if a round does not know them.
fn erased_share(window: &[SteadyRound]) -> Option<f64> {
    let erased: u64 = window.iter().map(|round| round.erased_bytes).sum::<Option<u64>>()?;
    let programmed: u64 = window.iter().map(|round| round.programmed_bytes).sum::<Option<u64>>()?;
    (programmed > 0).then(|| erased as f64 / programmed as f64)
}

/// The figures that all rounds of a full window have.
fn figures(window: &[SteadyRound]) -> Vec<Figure> {
    if window.len() < WINDOW {
        return Vec::new();
    }
    let known: [(&str, Read); 3] = [
        ("throughput", |round| round.throughput_bytes_per_s),
        ("mean response time", |round| round.response_ns_mean),
        ("write amplification", |round| round.write_amplification),
    ];
    let of = |(name, value): (&'static str, Read)| {
        let values: Vec<f64> = window.iter().map(value).collect::<Option<_>>()?;
        (mean(&values) > 0.0).then(|| figure(name, &values))
    };
    known.into_iter().filter_map(of).collect()
}

fn figure(name: &'static str, values: &[f64]) -> Figure {
    let average = mean(values);
    let largest = values.iter().copied().fold(f64::MIN, f64::max);
    let smallest = values.iter().copied().fold(f64::MAX, f64::min);
    let middle = (values.len() - 1) as f64 / 2.0;
    let squares: f64 = (0..values.len()).map(|i| (i as f64 - middle).powi(2)).sum();
    let slope =
        values.iter().enumerate().map(|(i, value)| (i as f64 - middle) * value).sum::<f64>() / squares;
    let residual = |(i, value): (usize, &f64)| (value - average - slope * (i as f64 - middle)).powi(2);
    let degrees = (values.len() - 2) as f64;
    let variance = values.iter().enumerate().map(residual).sum::<f64>() / degrees;
    let length = (values.len() - 1) as f64 / average;
    let (drift, error) = (slope * length, (variance / squares).sqrt() * length);
    Figure {
        name,
        excursion: (largest - smallest) / average,
        drift,
        confidence: within(drift, error, degrees),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The probability that the true drift is within the limit.
fn within(drift: f64, error: f64, degrees: f64) -> f64 {
    if error <= 0.0 {
        return f64::from(u8::from(drift.abs() <= DRIFT_MOST));
    }
    let above = upper_p((DRIFT_MOST - drift) / error, degrees);
    let below = upper_p((DRIFT_MOST + drift) / error, degrees);
    (1.0 - above - below).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 1 << 30;

    /// Rounds of a quarter of the capacity with these write amplifications.
    fn judged(amplifications: &[f64]) -> SteadyState {
        let round = |&amplification: &f64| SteadyRound {
            written_bytes: CAPACITY / 4,
            throughput_bytes_per_s: None,
            response_ns_mean: None,
            write_amplification: Some(amplification),
            ..SteadyRound::default()
        };
        steady_state(amplifications.iter().map(round).collect(), CAPACITY)
    }

    #[test]
    fn equal_rounds_are_steady_after_a_capacity() {
        assert!(!judged(&[1.0; 8]).is_steady, "the window begins with the device's free blocks");
        let found = judged(&[1.0; 9]);
        assert!(found.is_steady, "{found:?}");
        assert_eq!((found.confidence, found.capacities), (Some(1.0), 2.25));
    }

    #[test]
    fn a_drift_within_the_excursion_is_not_steady() {
        let before = [1.0; 4];
        let rising: Vec<f64> = before.into_iter().chain([3.0, 3.1, 3.2, 3.3, 3.4]).collect();
        let found = judged(&rising);
        assert!(!found.is_steady && found.confidence < Some(0.1), "{found:?}");
        assert!(found.evidence.contains("drifted by +12.5 %"), "{}", found.evidence);
    }

    #[test]
    fn one_round_that_is_apart_is_an_excursion() {
        let found = judged(&[1.0, 1.0, 1.0, 1.0, 4.0, 4.0, 5.0, 4.0, 4.0]);
        assert!(!found.is_steady, "{found:?}");
        let found = judged(&[1.0, 1.0, 1.0, 1.0, 4.0, 4.1, 4.0, 4.1, 4.0]);
        assert!(found.is_steady && found.confidence > Some(0.9), "{found:?}");
    }

    #[test]
    fn a_confidence_below_the_least_is_not_steady() {
        // Within both limits: 12 % excursion, 4 % drift. But the scatter allows a drift of more than 10 %.
        let found = judged(&[1.0, 1.0, 1.0, 1.0, 4.0, 4.4, 3.9, 4.4, 4.1]);
        assert!(found.confidence > Some(0.5) && found.confidence < Some(CONFIDENCE_LEAST), "{found:?}");
        assert!(!found.is_steady, "{found:?}");
    }

    #[test]
    fn equal_rounds_without_erases_are_not_steady() {
        let round = |erased| SteadyRound {
            written_bytes: CAPACITY / 4,
            throughput_bytes_per_s: Some(4e8),
            write_amplification: Some(1.0),
            programmed_bytes: Some(CAPACITY / 4),
            erased_bytes: erased,
            ..SteadyRound::default()
        };
        let found = steady_state(vec![round(Some(0)); 20], CAPACITY);
        assert!(!found.is_steady && found.confidence.is_none(), "{found:?}");
        assert!(found.evidence.contains("erased 0 % of what it programmed"), "{}", found.evidence);
        assert!(steady_state(vec![round(Some(CAPACITY / 4)); 20], CAPACITY).is_steady);
        assert!(steady_state(vec![round(None); 20], CAPACITY).is_steady, "erases are not known");
    }

    #[test]
    fn rounds_without_figures_are_never_steady() {
        let round = SteadyRound { written_bytes: CAPACITY, ..SteadyRound::default() };
        let found = steady_state(vec![round; 20], CAPACITY);
        assert!(!found.is_steady && found.confidence.is_none(), "{found:?}");
        assert!(!steady_state(Vec::new(), 0).is_steady);
    }
}
