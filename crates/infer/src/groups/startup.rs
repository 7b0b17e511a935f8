//! How many random writes a rested device takes for less than those after them, the period of the others, and what pauses
//! between them buy.
//!
//! # Model
//! uFLIP section 4.2: work is put off as long as there is memory or there are spare blocks for it. So the first random
//! writes after a rest are cheap, and the number of them is the same after each rest that is long enough. Then
//! costs oscillate with a period, or at random. Each of several runs is looked at by `phases`; and the median over the
//! runs, write by write, shows a change of level that is smaller than what a single run scatters by.
//!
//! Behind each run as many writes follow with pauses between them: the two kinds of runs take turns, so that drift does not
//! decide what pauses buy, and all runs without pauses serve twice.
//!
//! A fast region that is full moves a block at a time. That is one oscillation, which lasts as many writes as the block has
//! pages; and a region that was emptied meanwhile is full only after as many as it has.
//!
//! # Invariants
//! - each run begins after a rest, and at places of its own;
//! - what most runs say decides; what none repeats is not said.

use flashlab_analysis::decide::change::{Change, Direction, change};
use flashlab_analysis::findings::Phases;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::phases;
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::{Location, Pattern};

use super::figures::{mean, median};
use super::patterns::{ios, responses};
use super::pause;
use crate::group::Group;
use crate::halt::Halt;
use crate::session::Session;

pub(crate) const GROUP: Group = Group {
    name: "random-writes",
    about: "random writes after rests, then with pauses: how many are cheap, how the others oscillate, and what pauses buy",
    parameters: &[Parameter::StartupIos, Parameter::PeriodIos, Parameter::PauseBenefit],
    supposes: None,
    write_share: 0.045,
    probe,
};

/// The size of the writes.
pub(crate) const IO_SIZE: Bytes = Bytes::kib(4);
/// How long the device rests before each run.
const REST: Nanos = Nanos::from_secs(60);
/// How many runs there are of either kind.
const RUNS: usize = 4;
/// The fewest writes of a run, and the most.
const WRITES: (u64, u64) = (64, 16_384);
/// About how long a run without pauses takes at the most.
const RUN_MOST: Nanos = Nanos::from_secs(900);
/// A run shows an oscillation that comes so often in it.
const PERIODS: u64 = 8;
/// How sure the period is of a full fast region that no run shows.
const OF_REGION: f64 = 0.65;
/// A level this close to the other is none of its own.
const DIFFERENCE_LEAST: f64 = 1.1;
/// One that differs by more than this is one though no single run shows it.
const DIFFERENCE_CLEAR: f64 = 2.0;

/// Random writes on the whole device.
pub(crate) fn random_writes(session: &Session<'_, '_>, count: u64) -> Pattern {
    ios(Mode::Write, Location::Random, IO_SIZE.max(session.block()), count)
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let runs = 2 * RUNS as u64;
    // A quarter of a run is for finding out how long they take.
    let most = (session.writes_left().0 / size.0).saturating_sub(WRITES.0) * 4 / (4 * runs + 1);
    if most < WRITES.0 {
        return Err(Halt::Budget { needed: size * (WRITES.0 * (runs + 2)), left: session.writes_left() });
    }
    let cost = how_long(session, most / 4)?;
    let in_time = (RUN_MOST.0 as f64 / cost) as u64;
    let count = most.min(in_time).clamp(WRITES.0, WRITES.1);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let run = after_rest(session, "after-a-rest", count)?;
        with.push(pause::run(session, &run)?);
        without.push(run);
    }
    let phases: Vec<Phases> =
        without.iter().map(|run| phases(&run.iter().map(|&cost| cost as u64).collect::<Vec<_>>())).collect();
    conclude_startup(session, &medians(&without), &phases);
    conclude_period(session, &without[0], &phases, long_period(&without, &with));
    pause::conclude(session, &without, &with);
    Ok(())
}

/// What a write takes: the mean of the dearest of more and more writes, `most` of them at most, as a buffer hides what the
/// first ones cost.
fn how_long(session: &mut Session<'_, '_>, most: u64) -> Result<f64, Halt> {
    let cost = |session: &mut Session<'_, '_>, count| {
        let pattern = random_writes(session, count);
        Ok::<_, Halt>(mean(&responses(&session.run("how-long", &pattern)?)).max(1.0))
    };
    session.rest(REST)?;
    let mut dearest = cost(session, WRITES.0)?;
    let (mut count, mut left) = (2 * WRITES.0, most);
    while count <= left && count as f64 * dearest < RUN_MOST.0 as f64 / 4.0 {
        left -= count;
        dearest = dearest.max(cost(session, count)?);
        count *= 2;
    }
    Ok(dearest)
}

fn after_rest(session: &mut Session<'_, '_>, name: &str, count: u64) -> Result<Vec<f64>, Halt> {
    session.rest(REST)?;
    let pattern = random_writes(session, count);
    Ok(responses(&session.run(name, &pattern)?))
}

/// The median over the runs, write by write.
fn medians(runs: &[Vec<f64>]) -> Vec<f64> {
    let count = runs.iter().map(Vec::len).min().unwrap_or(0);
    (0..count).map(|index| median(&runs.iter().map(|run| run[index]).collect::<Vec<_>>())).collect()
}

/// Whether two counts are the same but for 3 %.
fn alike(one: u64, other: u64) -> bool {
    one.abs_diff(other) as f64 <= 0.03 * one as f64
}

/// The figure that at least half of the runs say, but for 3 %, and how many do.
fn most_say(figures: &[u64]) -> Option<(u64, usize)> {
    let agree = |one: u64| figures.iter().filter(|&&other| alike(one, other)).count();
    let most = figures.iter().copied().max_by_key(|&figure| agree(figure))?;
    (2 * agree(most) >= figures.len()).then(|| (most, agree(most)))
}

fn conclude_startup(session: &mut Session<'_, '_>, medians: &[f64], phases: &[Phases]) {
    let points = medians.iter().enumerate().map(|(index, &cost)| (index as f64, cost)).collect();
    let picture = Picture::new(
        "Random writes after a rest, each the median of several runs; those before the mark are the start-up phase.",
        Axis::linear("write", ""),
        Axis::linear("response time", "ns"),
    )
    .draw("random writes", Style::Dots, points);
    let by_run: Vec<u64> = phases.iter().map(|phases| phases.startup_ios).collect();
    let listed = by_run.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let by_write = change(medians, Direction::Up)
        .filter(|step| step.p < 1e-4 && step.ratio() > DIFFERENCE_LEAST)
        .filter(|step| (step.index_high - step.index_low) as f64 <= 2.0 + 0.03 * step.index as f64);
    let evidence = format!("start-up phases of {RUNS} runs of {} writes: {listed}", medians.len());
    let supported = |step: &Change| {
        step.ratio() > DIFFERENCE_CLEAR || by_run.iter().any(|&startup| alike(startup, step.index as u64))
    };
    let finding = match (by_write.filter(supported), most_say(&by_run)) {
        (Some(step), _) => {
            let evidence = format!(
                "after a rest {} random writes take {}, those after them {} (medians of {RUNS} runs); {evidence}",
                step.index,
                Nanos(step.before as u64),
                Nanos(step.after as u64),
            );
            Finding::found(Parameter::StartupIos, step.index as u64, 0.9, evidence)
                .with(picture.mark(step.index as f64, "start-up ends"))
        }
        (None, Some((0, _))) if fast_cells(session) > medians.len() as f64 / 2.0 => {
            // The region may be full for good, as what is written to it is not had back in a minute.
            let evidence = format!("{evidence}; they may be too short to fill the fast region");
            Finding::found(Parameter::StartupIos, 0, 0.6, evidence).with(picture)
        }
        (None, Some((startup, runs))) => {
            let confidence = if runs == RUNS { 0.8 } else { 0.7 };
            Finding::found(Parameter::StartupIos, startup, confidence, evidence)
                .with(picture.mark(startup as f64, "start-up ends"))
        }
        (None, None) => Finding::undetermined(Parameter::StartupIos, evidence).with(picture),
    };
    session.conclude(finding);
}

/// The writes for which a full fast region moves a block of all dies, each of which takes a page at least; `None` if runs of so
/// many `writes` would have shown it, or show a longer period.
fn of_region(session: &Session<'_, '_>, writes: usize, said: u64) -> Option<u64> {
    let size = IO_SIZE.max(session.block());
    let known = session.known();
    let region = known.bytes(Parameter::FastRegionSize).filter(|&region| region > Bytes::ZERO)?;
    let page = known.bytes(Parameter::ReadPageSize).or(known.bytes(Parameter::WritePageSize))?.max(size);
    let period = known.bytes(Parameter::EraseBlockSize)?.0 / page.0;
    let shown = PERIODS * period + region.0 / page.0;
    (period >= 2 && (writes as u64) < shown && said < period / 2).then_some(period)
}

/// What the fast region takes at first, in writes.
fn fast_cells(session: &Session<'_, '_>) -> f64 {
    session.known().number(Parameter::FastRegionSize).unwrap_or(0.0) / IO_SIZE.max(session.block()).0 as f64
}

/// An oscillation that is too long for a single run. What collecting takes comes back after so many writes, whether they
/// wait or not: all of them in their order are one long run. None that a single run would have shown.
fn long_period(without: &[Vec<f64>], with: &[Vec<f64>]) -> Option<u64> {
    let all: Vec<u64> = without
        .iter()
        .zip(with)
        .flat_map(|(one, other)| one.iter().chain(other))
        .map(|&cost| cost as u64)
        .collect();
    let single = without.first().map_or(0, Vec::len) as u64 / PERIODS;
    phases(&all).period_ios.filter(|&period| period > single)
}

fn conclude_period(session: &mut Session<'_, '_>, run: &[f64], phases: &[Phases], long: Option<u64>) {
    let points = run.iter().enumerate().map(|(index, &cost)| (index as f64, cost)).collect();
    let picture = Picture::new(
        "Random writes after a rest, one run.",
        Axis::linear("write", ""),
        Axis::logarithmic("response time", "ns"),
    )
    .draw("random writes", Style::Dots, points);
    let by_run: Vec<u64> = phases.iter().map(|phases| phases.period_ios.unwrap_or(0)).collect();
    let listed = by_run.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let evidence =
        format!("periods of {RUNS} runs of {} writes: {listed}; {}", run.len(), phases[0].evidence);
    let finding = match (most_say(&by_run), long) {
        (said, _) if let Some(period) = of_region(session, run.len(), said.map_or(0, |said| said.0)) => {
            let evidence = format!(
                "{evidence} When the fast region is full, a block of all dies is moved for each {period} writes, and the runs are \
                 too short to show that"
            );
            Finding::found(Parameter::PeriodIos, period, OF_REGION, evidence)
        }
        (Some((0, RUNS)), Some(period)) => {
            let evidence = format!("{evidence} All runs together have a period of {period} writes");
            Finding::found(Parameter::PeriodIos, period, 0.7, evidence)
        }
        (Some((0, _)), _) => Finding::found(Parameter::PeriodIos, 0, 0.8, evidence),
        (Some((period, runs)), _) => {
            let confidence = if runs == RUNS { 0.9 } else { 0.8 };
            Finding::found(Parameter::PeriodIos, period, confidence, evidence)
        }
        (None, _) => Finding::undetermined(Parameter::PeriodIos, evidence),
    };
    session.conclude(finding.with(picture));
}
