//! How many random writes a rested device takes for less than those after them, the period of the others, and what pauses
//! between them buy.
//!
//! # Model
//! uFLIP section 4.2: work is deferred as long as there is memory or there are spare blocks for it. So the first random
//! writes after idle time are fast, and the number of them is the same after each rest that is long enough. Then
//! costs oscillate with a period, or at random. Each of several runs is looked at by `phases`; the median over the
//! runs, write by write, shows a change of level that is smaller than what a single run scatters by; and where only a part of
//! the writes is slow, all runs together show from which one on (`cheap_beginning`).
//!
//! Behind each run about as many writes follow with pauses between them: the two kinds of runs take turns, so that drift does
//! not decide what pauses buy, and all runs without pauses serve twice.
//!
//! A SLC cache that is full moves a block at a time. That is one oscillation, which lasts as many writes as the block has
//! pages; and a region that was reclaimed meanwhile is full only after as many as it has. So the first run is longer than the
//! others where the budget allows for one that fills the region.
//!
//! An oscillation of a few writes (fast and slow pages, rows of planes, dies in turn) is no regular one if it loses its step
//! whenever blocks are collected. All runs count: between two of them so many writes are done that where the oscillation has to be is
//! known. One of a block of all dies is that of garbage collection.
//!
//! # Invariants
//! - each run begins after idle time, and at places of its own;
//! - what most runs say decides; what none repeats is not said.

mod full_region;
mod pause;

use flashlab_analysis::decide::change::{Change, Direction, change};
use flashlab_analysis::findings::Phases;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::priors;
use flashlab_analysis::signals::cheap_beginning::cheap_beginning;
use flashlab_analysis::signals::figures::{mean, medians};
use flashlab_base::Nanos;

use crate::halt::Halt;
use crate::patterns::random_writes::{IO_SIZE, is_page_map, phases_of, random_writes};
use crate::patterns::responses;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;
use full_region::{fast_pages, of_blocks};

pub(crate) const PROBE: Probe = Probe {
    name: "random-writes",
    about: "random writes after idle time, then with pauses: how long is the start-up phase, do costs oscillate, do pauses help?",
    parameters: &[Parameter::StartupIos, Parameter::PeriodIos, Parameter::PauseBenefit],
    hands_in: &[],
    write_share: 0.045,
};

/// How many runs there are of either kind.
const RUNS: usize = 4;
/// The writes of the runs with pauses, in sixteenths of those without: each run begins another number of writes after the one
/// before, so that what comes back after some writes, rest or none, begins elsewhere in each.
const PAUSED_WRITES: [u64; RUNS] = [19, 14, 17, 14];
/// The fewest writes of a run, and the most.
const WRITES: (u64, u64) = (64, 16_384);
/// About how long a run without pauses takes at the most.
const RUN_MOST: Nanos = Nanos::from_secs(900);
/// How sure a start-up phase is that one run shows alone.
const OF_LONG_RUN: Rule = Rule::likely("long run");
/// How sure one is that all runs share.
const OF_ALL_RUNS: Rule = Rule::likely("all runs together");
/// The rule that there is no period where one loses its step.
const OUT_OF_STEP: Rule = Rule::weak("out of step");
/// How sure a period is of short runs on a page map, whose costs become steady only after more writes than the capacity.
const NOT_STEADY: Rule = Rule::weak("page map not steady");
/// The rule what a full SLC cache does that no run shows.
const OF_REGION: Rule = Rule::weak("SLC cache");
/// Runs of so many writes tell it themselves, if all but one of them do: in them blocks are collected often enough.
const TELLING: usize = 8192;
/// Runs keep step if the shapes of the oscillation in one and the next are so much alike, on average (a correlation).
const IN_STEP: f64 = 0.5;
/// How much longer than what fills the SLC cache a run has to be, and which part of all writes it may take.
const BEYOND_REGION: f64 = 1.5;
const LONG_RUN: f64 = 0.6;
/// A level this close to the other is none of its own.
const DIFFERENCE_LEAST: f64 = 1.1;
/// One that differs by more than this is one though no single run shows it, as none may show one as short as this.
const DIFFERENCE_CLEAR: f64 = 2.0;
const SHORT: usize = 64;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let runs = 2 * RUNS as u64;
    // A quarter of a run is for finding out how long they take.
    let most = (session.writes_left().0 / size.0).saturating_sub(WRITES.0) * 4 / (4 * runs + 1);
    if most < WRITES.0 {
        return Err(Halt::Budget { needed: size * (WRITES.0 * (runs + 2)), left: session.writes_left() });
    }
    let cost = how_long(session, most / 4)?;
    let in_time = (RUN_MOST.0 as f64 / cost) as u64;
    let (first, count) = counts(most, in_time, fast_pages(session));
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for (index, sixteenths) in PAUSED_WRITES.into_iter().enumerate() {
        without.push(after_rest(session, if index == 0 { first } else { count })?);
        with.push(pause::run(session, &without, count * sixteenths / 16)?);
    }
    let mut phases: Vec<Phases> = without.iter().map(|run| phases_of(run)).collect();
    conclude_startup(session, &without, &phases);
    if first > count && phases[0].period_ios.is_none() {
        // Before the region is full nothing oscillates.
        let startup = session.known().number(Parameter::StartupIos).unwrap_or(0.0) as usize;
        phases[0] = phases_of(&without[0][startup.min(without[0].len())..]);
    }
    conclude_period(session, &without, &with, &phases);
    pause::conclude(session, &without, &with);
    Ok(())
}

/// The writes of the first run and of each of the others, of which `most` are affordable and `in_time` last long enough: the
/// first one fills an SLC cache of `fast_pages` pages if that leaves enough for the others.
fn counts(most: u64, in_time: u64, fast_pages: f64) -> (u64, u64) {
    let usual = most.min(in_time).clamp(WRITES.0, WRITES.1);
    let (all, long) = (2 * RUNS as u64 * most, (BEYOND_REGION * fast_pages) as u64);
    let affordable = long as f64 <= LONG_RUN * all as f64 && long <= in_time.saturating_mul(RUNS as u64);
    if long <= usual || !affordable {
        return (usual, usual);
    }
    (long, usual.min((all - long) / (2 * RUNS as u64 - 1)).max(WRITES.0))
}

/// What a write takes: the mean of the slowest of more and more writes, `most` of them at most, as a buffer hides what the
/// first ones cost.
fn how_long(session: &mut Session<'_, '_>, most: u64) -> Result<f64, Halt> {
    let cost = |session: &mut Session<'_, '_>, count| {
        let pattern = random_writes(session, count);
        Ok::<_, Halt>(mean(&responses(&session.run("how-long", &pattern)?)).max(1.0))
    };
    session.idle(priors::BACKLOG_DONE)?;
    let mut dearest = cost(session, WRITES.0)?;
    let (mut count, mut left) = (2 * WRITES.0, most);
    while count <= left && count as f64 * dearest < RUN_MOST.0 as f64 / 4.0 {
        left -= count;
        dearest = dearest.max(cost(session, count)?);
        count *= 2;
    }
    Ok(dearest)
}

fn after_rest(session: &mut Session<'_, '_>, count: u64) -> Result<Vec<f64>, Halt> {
    session.idle(priors::BACKLOG_DONE)?;
    let pattern = random_writes(session, count);
    Ok(responses(&session.run("after-a-rest", &pattern)?))
}

/// Whether two counts are the same but for 3 %.
fn alike(one: u64, other: u64) -> bool {
    one.abs_diff(other) as f64 <= 0.03 * one as f64
}

/// The figure that at least half of the runs say, but for 3 %, and how many do. That two runs by chance agree on one that is
/// not 0 is less likely than that two show nothing.
fn most_say(figures: &[u64]) -> Option<(u64, usize)> {
    let agree = |one: u64| figures.iter().filter(|&&other| alike(one, other)).count();
    let most = figures.iter().copied().max_by_key(|&figure| (agree(figure), figure > 0))?;
    (2 * agree(most) >= figures.len()).then(|| (most, agree(most)))
}

/// The same of periods. One that as many runs do not show does not last, unless it is that of blocks which are `moved` out of a SLC cache.
fn lasting(periods: &[u64], moved: Option<u64>) -> Option<(u64, usize)> {
    let none = periods.iter().filter(|&&period| period == 0).count();
    let (period, runs) = most_say(periods)?;
    let lasts = runs > none || moved.is_some_and(|moved| alike(moved, period));
    Some(if lasts { (period, runs) } else { (0, none) })
}

fn conclude_startup(session: &mut Session<'_, '_>, runs: &[Vec<f64>], phases: &[Phases]) {
    let medians = &medians(runs);
    let long = runs[0].len() > medians.len();
    let points = medians.iter().enumerate().map(|(index, &cost)| (index as f64, cost)).collect();
    let picture = Picture::new(
        "Random writes after idle time, each the median of several runs. The writes before the mark are the start-up phase.",
        Axis::linear("write", ""),
        Axis::linear("response time", "ns"),
    )
    .draw("random writes", Style::Dots, points);
    let by_run: Vec<u64> = phases.iter().map(|phases| phases.startup_ios).collect();
    let listed = by_run.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let by_write = change(medians, Direction::Up)
        .filter(|step| step.p < 1e-4 && step.ratio() > DIFFERENCE_LEAST)
        .filter(|step| (step.index_high - step.index_low) as f64 <= 2.0 + 0.03 * step.index as f64);
    let evidence =
        format!("In {} after idle time, the start-up phase lasted {listed} writes.", of_runs(runs));
    let seen = |step: &Change| by_run.iter().any(|&startup| alike(startup, step.index as u64));
    let supported = |step: &Change| (step.ratio() > DIFFERENCE_CLEAR && step.index <= SHORT) || seen(step);
    // Runs that agree know it better than the median over all, in which each moves the place.
    let agreed = most_say(&by_run).filter(|&(startup, runs)| startup > 0 && runs > 1);
    let finding = match (by_write.filter(supported).filter(|_| agreed.is_none()), most_say(&by_run)) {
        _ if long && by_run[0] > 0 => {
            let evidence = format!("{evidence} The first run is long enough to fill the SLC cache.");
            Rule::found(Parameter::StartupIos, by_run[0], OF_LONG_RUN, evidence)
                .with(picture.mark(by_run[0] as f64, "start-up ends"))
        }
        _ if agreed.is_none()
            && let Some(together) = cheap_beginning(runs) =>
        {
            let evidence = format!("{evidence} In all runs together, slow writes begin after {together}.");
            Rule::found(Parameter::StartupIos, together as u64, OF_ALL_RUNS, evidence)
                .with(picture.mark(together as f64, "start-up ends"))
        }
        (Some(step), _) => {
            let evidence = format!(
                "After idle time the first {} random writes take {} each, and later ones {} (medians of {RUNS} runs). {evidence}",
                step.index,
                duration(step.before),
                duration(step.after),
            );
            let rule = if seen(&step) {
                Rule::strong("median of runs and one run")
            } else {
                Rule::likely("median of runs")
            };
            Rule::found(Parameter::StartupIos, step.index as u64, rule, evidence)
                .with(picture.mark(step.index as f64, "start-up ends"))
        }
        (None, Some((0, _))) if fast_pages(session) > medians.len() as f64 / 2.0 => {
            let evidence = format!("{evidence} The runs may be too short to fill the SLC cache.");
            Rule::found(Parameter::StartupIos, 0, OF_REGION, evidence).with(picture)
        }
        (None, Some((startup, runs))) => {
            let rule = if runs == RUNS { Rule::likely("every run") } else { Rule::likely("most runs") };
            Rule::found(Parameter::StartupIos, startup, rule, evidence)
                .with(picture.mark(startup as f64, "start-up ends"))
        }
        (None, None) => Finding::undetermined(Parameter::StartupIos, evidence).with(picture),
    };
    session.conclude(finding);
}

/// As in "4 runs of 64 writes".
fn of_runs(runs: &[Vec<f64>]) -> String {
    let (first, last) = (runs.first().map_or(0, Vec::len), runs.last().map_or(0, Vec::len));
    let longer = if first == last { String::new() } else { format!(" (the first run {first})") };
    format!("{} runs of {last} writes{longer}", runs.len())
}

/// Whether an oscillation of `period` writes keeps step from one run without pauses to the next, with as many writes between
/// them as the one with pauses has.
fn keeps_step(without: &[Vec<f64>], with: &[Vec<f64>], period: u64) -> bool {
    let period = period as usize;
    let mut begin = 0;
    let shapes: Vec<Vec<f64>> = without
        .iter()
        .zip(with)
        .map(|(run, paused)| {
            let shape = shape(run, begin, period);
            begin += run.len() + paused.len();
            shape
        })
        .collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let likeness = |pair: &[Vec<f64>]| {
        let sizes = product(&pair[0], &pair[0]) * product(&pair[1], &pair[1]);
        if sizes > 0.0 { product(&pair[0], &pair[1]) / sizes.sqrt() } else { 0.0 }
    };
    mean(&shapes.windows(2).map(likeness).collect::<Vec<_>>()) >= IN_STEP
}

/// What the logarithm of a cost is more than the mean, by the place in a period, of a run that begins at the write `begin`.
fn shape(run: &[f64], begin: usize, period: usize) -> Vec<f64> {
    let logs: Vec<f64> = run.iter().map(|cost| cost.max(1.0).ln()).collect();
    let level = mean(&logs);
    let mut sums = vec![(0.0, 0.0); period.max(1)];
    for (index, log) in logs.iter().enumerate() {
        let sum = &mut sums[(begin + index) % period.max(1)];
        *sum = (sum.0 + log - level, sum.1 + 1.0);
    }
    sums.into_iter().map(|(sum, count)| if count > 0.0 { sum / count } else { 0.0 }).collect()
}

fn conclude_period(
    session: &mut Session<'_, '_>,
    without: &[Vec<f64>],
    with: &[Vec<f64>],
    phases: &[Phases],
) {
    let run = &without[0];
    let points = run.iter().enumerate().map(|(index, &cost)| (index as f64, cost)).collect();
    let picture = Picture::new(
        "Random writes after idle time, one run.",
        Axis::linear("write", ""),
        Axis::logarithmic("response time", "ns"),
    )
    .draw("random writes", Style::Dots, points);
    let by_run: Vec<u64> = phases.iter().map(|phases| phases.period_ios.unwrap_or(0)).collect();
    let listed = by_run.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let evidence = format!(
        "In {} the response times oscillate with a period of {listed} writes (0: no period). The first run: {}",
        of_runs(without),
        phases[0].evidence
    );
    let long = run.len() > without[RUNS - 1].len();
    let moved = of_blocks(session).filter(|_| session.known().has_slc_cache());
    let finding = match lasting(&by_run, moved) {
        Some((0, _)) if long && by_run[0] > 0 => {
            let evidence = format!("{evidence} The first run is long enough to fill the SLC cache.");
            Rule::found(Parameter::PeriodIos, by_run[0], OF_LONG_RUN, evidence)
        }
        Some((period, runs))
            if period > 0
                && !(run.len() >= TELLING && runs + 1 >= RUNS)
                && of_blocks(session).is_none_or(|blocks| !alike(blocks, period))
                && !keeps_step(without, with, period) =>
        {
            let evidence = format!(
                "There is no regular oscillation: the period within one run does not continue in step in the next run. {evidence}"
            );
            Rule::found(Parameter::PeriodIos, 0, OUT_OF_STEP, evidence)
        }
        Some((0, _)) => Rule::found(Parameter::PeriodIos, 0, Rule::likely("no oscillation"), evidence),
        Some((period, runs)) => {
            let early = is_page_map(session) && run.len() < TELLING;
            let settled = if runs == RUNS { Rule::strong("every run") } else { Rule::likely("most runs") };
            let rule = if early { NOT_STEADY } else { settled };
            Rule::found(Parameter::PeriodIos, period, rule, evidence)
        }
        None => Finding::undetermined(Parameter::PeriodIos, evidence),
    };
    session.conclude(finding.with(picture));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_that_half_of_the_runs_do_not_show_does_not_last() {
        assert_eq!(lasting(&[0, 384, 384, 0], None), Some((0, 2)));
        assert_eq!(lasting(&[0, 384, 384, 0], Some(384)), Some((384, 2)));
        assert_eq!(lasting(&[384, 384, 0, 384], None), Some((384, 3)));
        assert_eq!(lasting(&[8, 2, 0, 2], None), Some((2, 2)));
        assert_eq!(lasting(&[0, 0, 56, 64], None), Some((0, 2)));
        assert_eq!(lasting(&[8, 2, 4, 16], None), None);
        assert_eq!(most_say(&[0, 384, 384, 0]), Some((384, 2)));
    }

    #[test]
    fn an_oscillation_that_loses_its_step_is_none() {
        let run = |begin: usize, count: usize| -> Vec<f64> {
            (begin..begin + count).map(|write| if write % 4 == 0 { 9.0 } else { 1.0 }).collect()
        };
        let with = [run(0, 101), run(0, 99), run(0, 50)];
        assert!(keeps_step(&[run(0, 202), run(303, 101), run(503, 101)], &with, 4));
        assert!(!keeps_step(&[run(0, 202), run(304, 101), run(505, 101)], &with, 4));
        assert!(!keeps_step(&[vec![1.0; 8], vec![1.0; 8]], &with, 4));
        assert!(!keeps_step(&[], &[], 0));
    }

    #[test]
    fn the_first_run_fills_the_slc_cache_where_that_is_affordable() {
        assert_eq!(counts(1000, u64::MAX, 0.0), (1000, 1000));
        assert_eq!(counts(1000, u64::MAX, 2000.0), (3000, 714));
        assert_eq!(counts(1000, u64::MAX, 4000.0), (1000, 1000));
        assert_eq!(counts(1000, 100, 2000.0), (100, 100));
        assert_eq!(counts(1 << 20, u64::MAX, 20_000.0), (30_000, 16_384));
    }
}
