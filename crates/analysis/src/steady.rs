//! Decides whether random writes have made a device steady.
//!
//! # Model
//! The device is written randomly in rounds of the same size. While its flash has free blocks, it writes
//! faster than it can in the long run. Then garbage collection slows it down, until the write amplification
//! no longer grows.
//!
//! # Method (SNIA Solid State Storage Performance Test Specification, section 2.1.24)
//! 1. Take the last [`WINDOW`] rounds, and each figure that is known: throughput, mean response time, write
//!    amplification. The specification leaves the length of a round open: [`LENGTHS`] are tried, in units of the rounds as
//!    written. Longer ones average the scatter of a real device (other programs, its cache), and have to hold the same limits
//!    over more writes. The shortest that is steady decides.
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
//! 7. A drive may alternate by design (folding of an SLC cache, collection in batches), so that rounds fall into different phases. Where
//!    media writes are counted, they decide: the write amplification of the rounds has to hold all limits, and throughput and
//!    response time may vary, but not drift beyond what their scatter explains ([`ALTERNATES_P`]).
//!
//! What is not steady by this rule is "not known to be steady": more writes would decide.

use crate::findings::{SteadyRound, SteadyState};
use crate::student::upper_p;

/// The number of rounds that have to be equal, as in the specification.
pub const WINDOW: usize = 5;
/// How many rounds as written form a round of the rule. With these, five rounds are 1.25, 2.5 and 5 capacities of random writes. The
/// confidence of 90 % allows a scatter of 3.3, 4.7 and 6.7 % of the rounds as written. A longer window would not fit between
/// [`CAPACITIES_BEFORE`] and the bound of ten capacities with room to spare.
const LENGTHS: [usize; 3] = [1, 2, 4];
/// The largest excursion, relative to the mean, as in the specification.
const EXCURSION_MOST: f64 = 0.20;
/// The largest drift over the window, relative to the mean, as in the specification.
const DRIFT_MOST: f64 = 0.10;
/// Random writes before the window, in capacities. The specification writes two capacities sequentially
/// instead, and then the rounds of its tests. With less, a device whose over-provisioning exceeds one round
/// would seem steady before garbage collection begins.
pub const CAPACITIES_BEFORE: f64 = 1.0;

/// The smallest confidence of "steady". One device in ten may drift more than the rule allows: the window has three
/// degrees of freedom, and with 0.95 a scatter of 2.5 % around the line would already never be steady.
pub const CONFIDENCE_LEAST: f64 = 0.9;
/// Figures that vary by more than the limits are those of a drive that alternates if their drift has at least this probability by chance
/// (two-sided).
const ALTERNATES_P: f64 = 0.1;
/// The least that is erased in the window, for each byte programmed. In the long run both are equal. In the window
/// they differ by the blocks that are written in part, at most a tenth of it on the devices of the zoo.
const ERASED_LEAST: f64 = 0.9;

/// A figure over the window.
struct Figure {
    name: &'static str,
    excursion: f64,
    drift: f64,
    confidence: f64,
    /// The probability of at least this drift by the scatter around the line.
    drift_p: f64,
}

/// The last rounds, joined to [`WINDOW`] longer ones, and what the rule says of them.
struct Window {
    is_steady: bool,
    confidence: Option<f64>,
    evidence: String,
}

/// Judges the rounds so far, for a target of `capacity` bytes.
pub fn steady_state(rounds: Vec<SteadyRound>, capacity: u64) -> SteadyState {
    let written = bytes(&rounds);
    let capacities = written as f64 / capacity.max(1) as f64;
    let windows: Vec<Window> =
        LENGTHS.iter().filter_map(|&length| window(&rounds, length, capacity)).collect();
    let steady = windows.iter().find(|window| window.is_steady);
    // The window that comes closest says why the device is not steady.
    let closest =
        || windows.iter().reduce(|best, other| if other.confidence > best.confidence { other } else { best });
    let (is_steady, confidence, evidence) = match steady.or_else(closest) {
        Some(window) => (window.is_steady, window.confidence, window.evidence.clone()),
        None => {
            let of = match rounds.len() {
                1 => "1 round".to_owned(),
                count => format!("{count} rounds"),
            };
            let few = format!("{capacities:.1} capacities of random writes in {of} are too few to tell");
            (false, None, few)
        }
    };
    SteadyState { is_steady, confidence, written_bytes: written, capacities, evidence, rounds }
}

fn bytes(rounds: &[SteadyRound]) -> u64 {
    rounds.iter().map(|round| round.written_bytes).sum()
}

/// Judges the last rounds, of which `length` form one. `None` if there are too few, they begin too early, or no figure is known.
fn window(rounds: &[SteadyRound], length: usize, capacity: u64) -> Option<Window> {
    let before = rounds.len().checked_sub(WINDOW * length)?;
    if (bytes(&rounds[..before]) as f64) < CAPACITIES_BEFORE * capacity as f64 {
        return None;
    }
    let joined: Vec<SteadyRound> = rounds[before..].chunks(length).map(joined).collect();
    let figures = figures(&joined);
    let Figure { name, excursion, drift, .. } =
        figures.iter().max_by(|a, b| doubt(a).total_cmp(&doubt(b)))?;
    let capacities = |rounds: &[SteadyRound]| bytes(rounds) as f64 / capacity.max(1) as f64;
    let after = format!("after {:.1} capacities of random writes", capacities(rounds));
    let of = format!("the last {WINDOW} rounds of {:.2} capacities", capacities(&joined) / WINDOW as f64);
    let erased = erased_share(&joined).filter(|&share| share < ERASED_LEAST);
    if let Some(share) = erased {
        let evidence = format!(
            "over {of} the device erased {:.0} % of what it programmed (at least {:.0} %), {after}: it still has \
             never-written blocks",
            100.0 * share,
            100.0 * ERASED_LEAST,
        );
        // The confidence is that of the drift: it does not matter while the device still takes never-written blocks.
        return Some(Window { is_steady: false, confidence: None, evidence });
    }
    let evidence = format!(
        "over {of} the {name} varied by {:.1} % (at most {:.0} %) and drifted by {:+.1} % (at most {:.0} %), {after}",
        100.0 * excursion,
        100.0 * EXCURSION_MOST,
        100.0 * drift,
        100.0 * DRIFT_MOST
    );
    let is_steady =
        figures.iter().all(|figure| strain(figure) <= 1.0 && figure.confidence >= CONFIDENCE_LEAST);
    let confidence = figures.iter().map(|figure| figure.confidence).reduce(f64::min);
    if !is_steady && let Some(media) = alternates(&figures) {
        let evidence = format!(
            "over {of} the write amplification varied by {:.1} % (at most {:.0} %) and drifted by {:+.1} % (at most {:.0} %), {after}; \
             the {name} alternates (by {:.0} %) and does not drift",
            100.0 * media.excursion,
            100.0 * EXCURSION_MOST,
            100.0 * media.drift,
            100.0 * DRIFT_MOST,
            100.0 * excursion
        );
        return Some(Window { is_steady: true, confidence: Some(media.confidence), evidence });
    }
    Some(Window { is_steady, confidence, evidence })
}

/// The write amplification, if it is steady and the other figures only alternate.
fn alternates(figures: &[Figure]) -> Option<&Figure> {
    let media = figures.iter().find(|figure| figure.name == WRITE_AMPLIFICATION)?;
    let others =
        figures.iter().all(|figure| figure.name == WRITE_AMPLIFICATION || figure.drift_p >= ALTERNATES_P);
    (strain(media) <= 1.0 && media.confidence >= CONFIDENCE_LEAST && others).then_some(media)
}

/// Rounds as one: sums of bytes, throughput over all of their time, and means weighted by bytes.
fn joined(rounds: &[SteadyRound]) -> SteadyRound {
    let written_bytes = bytes(rounds);
    let weighted = |value: &dyn Fn(&SteadyRound) -> Option<f64>| -> Option<f64> {
        let part = |round: &SteadyRound| Some(value(round)? * round.written_bytes as f64);
        Some(rounds.iter().map(part).sum::<Option<f64>>()? / written_bytes.max(1) as f64)
    };
    let sum = |value: fn(&SteadyRound) -> Option<u64>| rounds.iter().map(value).sum::<Option<u64>>();
    let time_per_byte = weighted(&|round| round.throughput_bytes_per_s.map(f64::recip));
    SteadyRound {
        written_bytes,
        throughput_bytes_per_s: time_per_byte.map(f64::recip),
        response_ns_mean: weighted(&|round| round.response_ns_mean),
        write_amplification: weighted(&|round| round.write_amplification),
        programmed_bytes: sum(|round| round.programmed_bytes),
        erased_bytes: sum(|round| round.erased_bytes),
    }
}

/// The figure that counters of media writes give.
const WRITE_AMPLIFICATION: &str = "write amplification";

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
        (WRITE_AMPLIFICATION, |round| round.write_amplification),
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
        drift_p: if error > 0.0 {
            2.0 * upper_p(drift.abs() / error, degrees)
        } else {
            f64::from(u8::from(drift == 0.0))
        },
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
    fn a_device_that_scatters_is_steady_over_longer_rounds() {
        // 5 % around 4, without a drift: the usual scatter of a disk that serves others as well.
        let scattered = [1.05, 0.95, 1.04, 0.97, 0.94, 1.06, 0.99, 1.0];
        let rounds: Vec<f64> = [1.0; 4].into_iter().chain(scattered.map(|factor| 4.0 * factor)).collect();
        let short = judged(&rounds);
        assert!(!short.is_steady && short.confidence < Some(CONFIDENCE_LEAST), "{short:?}");
        let longer: Vec<f64> = rounds.into_iter().chain(scattered.map(|factor| 4.0 * factor)).collect();
        let found = judged(&longer);
        assert!(found.is_steady && found.confidence >= Some(CONFIDENCE_LEAST), "{found:?}");
        assert!(found.evidence.contains("rounds of 0.50 capacities"), "{}", found.evidence);
        // The same scatter on a device that becomes slower all the time.
        let rising: Vec<f64> =
            longer.iter().enumerate().map(|(i, value)| value * (1.0 + 0.04 * i as f64)).collect();
        assert!(!judged(&rising).is_steady);
    }

    #[test]
    fn joined_rounds_have_the_throughput_of_all_their_time() {
        let round = |seconds: f64| SteadyRound {
            written_bytes: 100,
            throughput_bytes_per_s: Some(100.0 / seconds),
            response_ns_mean: Some(seconds),
            ..SteadyRound::default()
        };
        let both = joined(&[round(1.0), round(3.0)]);
        assert_eq!((both.written_bytes, both.throughput_bytes_per_s), (200, Some(50.0)));
        assert_eq!((both.response_ns_mean, both.write_amplification), (Some(2.0), None));
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
    fn a_drive_that_alternates_is_steady_by_its_counters_and_one_that_slows_down_is_not() {
        let judged = |times: &[f64], amplification: &dyn Fn(usize) -> Option<f64>| {
            let round = |(i, &time): (usize, &f64)| SteadyRound {
                written_bytes: CAPACITY,
                throughput_bytes_per_s: Some(1e8 / time),
                response_ns_mean: Some(1e5 * time),
                write_amplification: amplification(i),
                ..SteadyRound::default()
            };
            steady_state(times.iter().enumerate().map(round).collect(), CAPACITY)
        };
        let alternating = [1.0, 1.0, 2.3, 1.1, 2.2, 0.9, 1.8];
        let found = judged(&alternating, &|i| Some(4.5 + 0.02 * (i % 2) as f64));
        assert!(found.is_steady && found.evidence.contains("alternates"), "{}", found.evidence);
        assert!(!judged(&alternating, &|_| None).is_steady, "nothing counts media writes");
        assert!(!judged(&alternating, &|i| Some(4.5 + 0.4 * i as f64)).is_steady);
        assert!(!judged(&[1.0, 1.0, 1.0, 1.5, 2.0, 2.6, 3.0], &|_| Some(4.5)).is_steady);
    }

    #[test]
    fn rounds_without_figures_are_never_steady() {
        let round = SteadyRound { written_bytes: CAPACITY, ..SteadyRound::default() };
        let found = steady_state(vec![round; 20], CAPACITY);
        assert!(!found.is_steady && found.confidence.is_none(), "{found:?}");
        assert!(!steady_state(Vec::new(), 0).is_steady);
    }
}
