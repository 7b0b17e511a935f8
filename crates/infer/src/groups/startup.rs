//! How many random writes a rested device takes for less than those after them, and the period of the others.
//!
//! # Model
//! uFLIP section 4.2: work is put off as long as there is memory or there are spare blocks for it. So the first random
//! writes after a rest are cheap, and the number of them is the same after each rest that is long enough. Then
//! costs oscillate with a period, or at random. The start-up phase is where the median over several runs, write by
//! write, changes its level; and a longer single run must show the same by `phases`, which looks at stretches.
//!
//! # Invariants
//! - each run begins after a rest, and at places of its own;
//! - what differs between the runs is not said.

use flashlab_analysis::decide::change::{Direction, change};
use flashlab_analysis::findings::Phases;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::phases;
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::{Location, Pattern};

use super::patterns::{ios, responses};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "start-up",
    about: "random writes after rests: how many are cheap, and how the others oscillate",
    parameters: &[Parameter::StartupIos, Parameter::PeriodIos],
    write_share: 0.01,
    probe,
};

/// The size of the writes.
pub(crate) const IO_SIZE: Bytes = Bytes::kib(4);
/// How long the device rests before each run.
const REST: Nanos = Nanos::from_secs(60);
/// Runs that are compared write by write.
const RUNS: u64 = 5;
/// So many times as long are the two single runs.
const LONGER: u64 = 4;
/// The fewest writes of a run, and the most.
const WRITES: (u64, u64) = (64, 4096);
/// Runs of fewer writes do not show that there is no period.
const WRITES_OF_NO_PERIOD: usize = 8192;
/// A level this close to the other is none of its own.
const DIFFERENCE_LEAST: f64 = 1.1;

/// Random writes on the whole device.
pub(crate) fn random_writes(session: &Session<'_, '_>, count: u64) -> Pattern {
    ios(Mode::Write, Location::Random, IO_SIZE.max(session.block()), count)
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let most = session.writes_left().0 / size.0 / (RUNS + 2 * LONGER);
    if most < WRITES.0 {
        let needed = size * (WRITES.0 * (RUNS + 2 * LONGER));
        return Err(Halt::Budget { needed, left: session.writes_left() });
    }
    // Half of it, where that is enough: other groups follow.
    let count = (most / 2).clamp(WRITES.0, WRITES.1);
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(after_rest(session, "after-a-rest", count)?);
    }
    let medians = medians(&runs);
    let longer =
        [after_rest(session, "longer", count * LONGER)?, after_rest(session, "longer", count * LONGER)?];
    let found = longer.each_ref().map(|run| phases(&run.iter().map(|&cost| cost as u64).collect::<Vec<_>>()));
    conclude_startup(session, &medians, &found);
    conclude_period(session, &longer[0], &found);
    Ok(())
}

fn after_rest(session: &mut Session<'_, '_>, name: &str, count: u64) -> Result<Vec<f64>, Halt> {
    session.rest(REST)?;
    let pattern = random_writes(session, count);
    Ok(responses(&session.run(name, &pattern)?))
}

/// The median over the runs, write by write.
fn medians(runs: &[Vec<f64>]) -> Vec<f64> {
    let count = runs.iter().map(Vec::len).min().unwrap_or(0);
    let median = |index: usize| {
        let mut costs: Vec<f64> = runs.iter().map(|run| run[index]).collect();
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    };
    (0..count).map(median).collect()
}

fn conclude_startup(session: &mut Session<'_, '_>, medians: &[f64], longer: &[Phases; 2]) {
    let points = medians.iter().enumerate().map(|(index, &cost)| (index as f64, cost)).collect();
    let picture = Picture::new(
        "Random writes after a rest, each the median of several runs; those before the mark are the start-up phase.",
        Axis::linear("write", ""),
        Axis::linear("response time", "ns"),
    )
    .draw("random writes", Style::Dots, points);
    let by_write =
        change(medians, Direction::Up).filter(|step| step.p < 1e-4 && step.ratio() > DIFFERENCE_LEAST);
    let by_stretches = longer.each_ref().map(|phases| (phases.startup_ios, phases.startup_confidence));
    let finding = match (by_write, by_stretches) {
        (Some(step), [(first, _), (second, _)]) => {
            let evidence = format!(
                "after a rest {} random writes take {}, those after them {} (medians of {RUNS} runs); stretches of two \
                 longer runs change after {first} and {second}",
                step.index,
                Nanos(step.before as u64),
                Nanos(step.after as u64),
            );
            let close =
                |other: u64| other.abs_diff(step.index as u64) as f64 <= 2.0 + 0.03 * step.index as f64;
            let sharp = (step.index_high - step.index_low) as f64 <= 2.0 + 0.03 * step.index as f64;
            let picture = picture.mark(step.index as f64, "start-up ends");
            if sharp && (close(first) || close(second)) {
                Finding::found(Parameter::StartupIos, step.index as u64, 0.9, evidence).with(picture)
            } else {
                Finding::undetermined(Parameter::StartupIos, evidence).with(picture)
            }
        }
        (None, [(0, first), (0, second)])
            if first > 0.02
                && second > 0.02
                && 2.0 * kept_back(session) < (LONGER as usize * medians.len()) as f64 =>
        {
            let evidence = format!(
                "the first of {} random writes after a rest cost what the last ones cost, and so in two runs of four \
                 times as many",
                medians.len()
            );
            Finding::found(Parameter::StartupIos, 0u64, 0.9, evidence).with(picture)
        }
        (None, [(first, _), (second, _)]) => {
            let short = medians.len() as u64;
            let alike = first.abs_diff(second) as f64 <= 2.0 + 0.03 * first as f64;
            let evidence = format!(
                "{} and {} random writes after a rest are cheaper than those after them",
                first, second
            );
            if first > short && alike {
                Finding::found(Parameter::StartupIos, first, 0.8, evidence).with(picture)
            } else {
                Finding::undetermined(Parameter::StartupIos, evidence).with(picture)
            }
        }
    };
    session.conclude(finding);
}

/// What is known to take writes at first, in writes: buffers and fast cells; infinite where that is not known.
fn kept_back(session: &Session<'_, '_>) -> f64 {
    let known = [Parameter::WriteBufferSize, Parameter::FastRegionSize];
    let size = |parameter| session.known().number(parameter).unwrap_or(f64::INFINITY);
    known.into_iter().map(size).sum::<f64>() / IO_SIZE.0 as f64
}

fn conclude_period(session: &mut Session<'_, '_>, run: &[f64], longer: &[Phases; 2]) {
    let points = run.iter().enumerate().map(|(index, &cost)| (index as f64, cost)).collect();
    let picture = Picture::new(
        "Random writes after a rest, one run.",
        Axis::linear("write", ""),
        Axis::logarithmic("response time", "ns"),
    )
    .draw("random writes", Style::Dots, points);
    let [first, second] = longer.each_ref().map(|phases| phases.period_ios);
    let confident = longer.iter().all(|phases| phases.period_confidence > 0.02);
    let evidence = format!("two runs: {} / {}", longer[0].evidence, longer[1].evidence);
    let finding = match (first, second) {
        (Some(first), Some(second)) if first == second => {
            Finding::found(Parameter::PeriodIos, first, 0.9, evidence)
        }
        (None, None) if confident && run.len() >= WRITES_OF_NO_PERIOD => {
            Finding::found(Parameter::PeriodIos, 0u64, 0.9, evidence)
        }
        _ => Finding::undetermined(Parameter::PeriodIos, evidence),
    };
    session.conclude(finding.with(picture));
}
