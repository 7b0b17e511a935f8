//! What pauses between random writes buy.
//!
//! # Model
//! A device may do put-off work while the host rests. With pauses as long as the writes themselves take it has half
//! of the time for it; what a write costs then, relative to without pauses, is what they buy: 1 where it rests, too.
//! Stretches with and without pauses take turns, so that drift does not decide, and the beginning of each does not
//! count: it is under the influence of the stretch before.
//!
//! # Invariants
//! - the two kinds of stretches are as long, and in pairs;
//! - the mean counts, as lumps of work are what it is about; how well it is known is told from the pairs.

use flashlab_analysis::decide::level::trimmed_mean;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Nanos;
use flashlab_plan::{Pattern, Time};

use super::figures::mean;
use super::patterns::responses;
use super::startup::{IO_SIZE, random_writes};
use super::steps::lump;
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "pauses",
    about: "random writes with and without pauses of their own length, in turns",
    parameters: &[Parameter::PauseBenefit],
    write_share: 0.015,
    probe,
};

/// Pairs of stretches.
const PAIRS: usize = 8;
/// The fewest writes of a stretch, and the most.
const WRITES: (u64, u64) = (32, 8192);
/// The part of a stretch that is under the influence of the one before.
const SETTLING: f64 = 0.25;
/// About how long all stretches take at the most.
const TIME_MOST: Nanos = Nanos::from_secs(9000);
/// A ratio is told if it is known to this much, and rather sure if it is known to that much.
const KNOWN: f64 = 0.15;
const WELL_KNOWN: f64 = 0.03;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let most = session.writes_left().0 / size.0 / (2 * PAIRS as u64 + 2);
    if most < WRITES.0 {
        return Err(Halt::Budget {
            needed: size * (WRITES.0 * (2 * PAIRS as u64 + 2)),
            left: session.writes_left(),
        });
    }
    let first = responses(&session.run("consecutive", &random_writes(session, WRITES.0))?);
    // A stretch with pauses takes twice as long.
    let in_time = TIME_MOST.0 as f64 / (3.0 * PAIRS as f64 * mean(&first).max(1.0));
    let count = most.min(in_time as u64).clamp(WRITES.0, WRITES.1);
    let consecutive = random_writes(session, count);
    let mut without = stretch(session, "consecutive", &consecutive)?;
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        let pause = Nanos(mean(&without) as u64);
        let mut paused = consecutive.clone();
        paused.first.time = Time::Pause { pause };
        let with = stretch(session, "with-pauses", &paused)?;
        without = stretch(session, "consecutive", &consecutive)?;
        pairs.push((with, without.clone()));
    }
    conclude(session, count, &pairs);
    Ok(())
}

/// The response times of a stretch, but for those that settle.
fn stretch(session: &mut Session<'_, '_>, name: &str, pattern: &Pattern) -> Result<Vec<f64>, Halt> {
    let costs = responses(&session.run(name, pattern)?);
    Ok(costs[(costs.len() as f64 * SETTLING) as usize..].to_vec())
}

/// The ratio of two sums over the pairs, and its error with 95 %, from leaving out one pair at a time (Tukey's jackknife).
fn ratio(pairs: &[(f64, f64)]) -> Interval {
    let without = |left_out: usize| {
        let kept = pairs.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, pair)| pair);
        let (with, without) = kept.fold((0.0, 0.0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1));
        with / without
    };
    let estimate = without(usize::MAX);
    let n = pairs.len() as f64;
    let pseudo: Vec<f64> = (0..pairs.len()).map(|index| n * estimate - (n - 1.0) * without(index)).collect();
    let half = trimmed_mean(&pseudo, 0.0, 0.95).map_or(f64::INFINITY, |found| (found.high - found.low) / 2.0);
    Interval { estimate, low: estimate - half, high: estimate + half }
}

fn conclude(session: &mut Session<'_, '_>, count: u64, stretches: &[(Vec<f64>, Vec<f64>)]) {
    // A lump that is an outlier, too, counts as a lump.
    let all: Vec<f64> = stretches.iter().flat_map(|pair| pair.1.iter().copied()).collect();
    let lump = lump(&all);
    let most = lump.usual + 2.0 * lump.excess;
    let cut = |costs: &[f64]| mean(&costs.iter().map(|cost| cost.min(most)).collect::<Vec<_>>());
    let pairs: Vec<(f64, f64)> = stretches.iter().map(|(with, without)| (cut(with), cut(without))).collect();
    let total = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
    let (with, without) = (total(|pair| pair.0), total(|pair| pair.1));
    let points =
        |of: fn(&(f64, f64)) -> f64| pairs.iter().enumerate().map(|(i, pair)| (i as f64, of(pair))).collect();
    let picture = Picture::new(
        "Mean response times of stretches of random writes, with and without pauses in turns.",
        Axis::linear("pair of stretches", ""),
        Axis::linear("response time", "ns"),
    )
    .draw("with pauses", Style::Dots, points(|pair| pair.0))
    .draw("without", Style::Dots, points(|pair| pair.1));
    let ratio = ratio(&pairs);
    let error = (ratio.high - ratio.low) / 2.0;
    let evidence = format!(
        "random writes take {} with pauses of their own length and {} without: means of {count} writes, {PAIRS} times in \
         turns; the ratio is {:.3} with an error of {error:.3}",
        Nanos(with as u64),
        Nanos(without as u64),
        ratio.estimate,
    );
    // Pauses that are not seen to buy anything buy nothing.
    let value = if ratio.holds(1.0) { 1.0 } else { ratio.estimate };
    let finding = if error <= KNOWN {
        let confidence = if error <= WELL_KNOWN { 0.8 } else { 0.6 };
        Finding::found(Parameter::PauseBenefit, value, confidence, evidence)
    } else {
        Finding::undetermined(Parameter::PauseBenefit, evidence)
    };
    session.conclude(finding.with(picture));
}
