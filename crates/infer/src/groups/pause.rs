//! What pauses between random writes buy.
//!
//! # Model
//! A device may do put-off work while the host rests. With pauses as long as the writes themselves take it has half
//! of the time for it; what a write costs then, relative to without pauses, is what they buy: 1 where it rests, too.
//! Stretches with and without pauses take turns, so that drift does not decide, and of each only the second half
//! counts: the first is under the influence of the stretch before.
//!
//! # Invariants
//! - the two kinds of stretches are as long, and in pairs;
//! - the mean counts, as lumps of work are what it is about; how well it is known is told from the pairs.

use flashlab_analysis::decide::level::level;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Nanos;
use flashlab_plan::{Pattern, Time};

use super::patterns::responses;
use super::startup::{IO_SIZE, random_writes};
use super::steps::mean;
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "pauses",
    about: "random writes with and without pauses of their own length, in turns",
    parameters: &[Parameter::PauseBenefit],
    write_share: 0.01,
    probe,
};

/// Pairs of stretches: the true ratio lies among as many ratios with 95 %.
const PAIRS: u64 = 6;
/// The fewest writes of a stretch, and the most.
const WRITES: (u64, u64) = (32, 4096);

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let most = session.writes_left().0 / size.0 / (2 * PAIRS + 1);
    if most < WRITES.0 {
        return Err(Halt::Budget {
            needed: size * (WRITES.0 * (2 * PAIRS + 1)),
            left: session.writes_left(),
        });
    }
    // Half of it, where that is enough: other groups follow.
    let count = (most / 2).clamp(WRITES.0, WRITES.1);
    let consecutive = random_writes(session, count);
    let mut cost = second_half(session, "consecutive", &consecutive)?;
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        let pause = Nanos(cost as u64);
        let mut paused = consecutive.clone();
        paused.first.time = Time::Pause { pause };
        let with = second_half(session, "with-pauses", &paused)?;
        cost = second_half(session, "consecutive", &consecutive)?;
        pairs.push((with, cost));
    }
    conclude(session, count, &pairs);
    Ok(())
}

fn second_half(session: &mut Session<'_, '_>, name: &str, pattern: &Pattern) -> Result<f64, Halt> {
    let costs = responses(&session.run(name, pattern)?);
    Ok(mean(&costs[costs.len() / 2..]))
}

fn conclude(session: &mut Session<'_, '_>, count: u64, pairs: &[(f64, f64)]) {
    let ratios: Vec<f64> = pairs.iter().map(|(with, without)| with / without).collect();
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
    let evidence = format!(
        "random writes take {} with pauses of their own length and {} without: means of {} writes, {PAIRS} times in turns",
        Nanos(with as u64),
        Nanos(without as u64),
        count / 2,
    );
    let interval = level(&ratios, 0.95);
    let finding = match interval {
        Some(interval) if interval.relative_half_width() <= 0.06 => {
            Finding::found(Parameter::PauseBenefit, with / without, 0.9, evidence)
        }
        Some(interval) => {
            let between =
                format!("{evidence}; the ratio lies between {:.2} and {:.2}", interval.low, interval.high);
            Finding::undetermined(Parameter::PauseBenefit, between)
        }
        None => Finding::undetermined(Parameter::PauseBenefit, evidence),
    };
    session.conclude(finding.with(picture));
}
