//! The start-up phase and the period, from runs of random writes alone.

use flashlab_analysis::decide::change::{Change, Direction, change};
use flashlab_analysis::findings::Phases;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::signals::cheap_beginning::cheap_beginning;
use flashlab_analysis::signals::figures::{mean, medians};

use crate::patterns::random_writes::phases_of;
use crate::rule::Rule;
use crate::words::duration;

/// How many runs there are of either kind.
pub(super) const RUNS: usize = 4;
/// The rule of a start-up phase that one run shows alone.
const OF_LONG_RUN: Rule = Rule::likely("long run");
/// The rule of one that all runs share.
const OF_ALL_RUNS: Rule = Rule::likely("all runs together");
/// The rule that there is no period where one loses its step.
const OUT_OF_STEP: Rule = Rule::weak("out of step");
/// The rule of a period of short runs on a page map, whose costs become steady only after more writes than the capacity.
const NOT_STEADY: Rule = Rule::weak("page map not steady");
/// The rule of what a full SLC cache does that no run shows.
const OF_REGION: Rule = Rule::weak("SLC cache");
/// In runs of this many writes blocks are collected often enough: a period that all but one of them have needs no other evidence.
const TELLING: usize = 8192;
/// Runs keep step if the oscillations of one and the next have at least this correlation on average: halfway between those that keep step,
/// 1, and those that begin anywhere, 0.
const IN_STEP: f64 = 0.5;
/// A level this close to the other is none of its own.
const DIFFERENCE_LEAST: f64 = 1.1;
/// One that differs by more than this is one though no single run shows it, as none may show one as short as this.
const DIFFERENCE_CLEAR: f64 = 2.0;
const SHORT: usize = 64;

/// What random writes took, run by run, and what is known of the device.
pub(super) struct RandomWrites {
    /// Without pauses, each run after idle time.
    pub(super) without: Vec<Vec<f64>>,
    /// With pauses, each behind one without.
    pub(super) with: Vec<Vec<f64>>,
    /// The writes that fill the SLC cache; 0 without one.
    pub(super) fast_pages: f64,
    /// The writes that fill a block of all dies.
    pub(super) of_blocks: Option<u64>,
    pub(super) has_slc_cache: bool,
    /// Whether every page can lie anywhere.
    pub(super) is_page_map: bool,
}

impl RandomWrites {
    /// The length of the start-up phase.
    pub(super) fn startup(&self) -> Finding {
        let runs = &self.without;
        let medians = &medians(runs);
        let long = runs[0].len() > medians.len();
        let picture = picture_of_medians(medians);
        let by_run: Vec<u64> = runs.iter().map(|run| phases_of(run).startup_ios).collect();
        let listed = by_run.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let by_write = change(medians, Direction::Up)
            .filter(|step| step.p < 1e-4 && step.ratio() > DIFFERENCE_LEAST)
            .filter(|step| (step.index_high - step.index_low) as f64 <= 2.0 + 0.03 * step.index as f64);
        let evidence =
            format!("In {} after idle time, the start-up phase lasted {listed} writes.", of_runs(runs));
        let seen = |step: &Change| by_run.iter().any(|&startup| alike(startup, step.index as u64));
        let supported =
            |step: &Change| (step.ratio() > DIFFERENCE_CLEAR && step.index <= SHORT) || seen(step);
        // Runs that agree know it better than the median over all, in which each moves the place.
        let agreed = most_say(&by_run).filter(|&(startup, runs)| startup > 0 && runs > 1);
        let found = |startup: u64, rule, evidence| {
            let marked = picture.clone().mark(startup as f64, "start-up ends");
            Rule::found(Parameter::StartupIos, startup, rule, evidence).with(marked)
        };
        match (by_write.filter(supported).filter(|_| agreed.is_none()), most_say(&by_run)) {
            _ if long && by_run[0] > 0 => {
                let evidence = format!("{evidence} The first run is long enough to fill the SLC cache.");
                found(by_run[0], OF_LONG_RUN, evidence)
            }
            _ if agreed.is_none()
                && let Some(together) = cheap_beginning(runs) =>
            {
                let evidence =
                    format!("{evidence} In all runs together, slow writes begin after {together}.");
                found(together as u64, OF_ALL_RUNS, evidence)
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
                found(step.index as u64, rule, evidence)
            }
            (None, Some((0, _))) if self.fast_pages > medians.len() as f64 / 2.0 => {
                let evidence = format!("{evidence} The runs may be too short to fill the SLC cache.");
                Rule::found(Parameter::StartupIos, 0, OF_REGION, evidence).with(picture.clone())
            }
            (None, Some((startup, runs))) => {
                let rule = if runs == RUNS { Rule::likely("every run") } else { Rule::likely("most runs") };
                found(startup, rule, evidence)
            }
            (None, None) => Finding::undetermined(Parameter::StartupIos, evidence).with(picture.clone()),
        }
    }

    /// The period of the oscillation after a start-up phase of `startup` writes.
    pub(super) fn period(&self, startup: usize) -> Finding {
        let (without, with) = (&self.without, &self.with);
        let mut phases: Vec<Phases> = without.iter().map(|run| phases_of(run)).collect();
        let long = without[0].len() > without[RUNS - 1].len();
        if long && phases[0].period_ios.is_none() {
            // Before the SLC cache is full nothing oscillates.
            phases[0] = phases_of(&without[0][startup.min(without[0].len())..]);
        }
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
        let moved = self.of_blocks.filter(|_| self.has_slc_cache);
        let finding = match lasting(&by_run, moved) {
            Some((0, _)) if long && by_run[0] > 0 => {
                let evidence = format!("{evidence} The first run is long enough to fill the SLC cache.");
                Rule::found(Parameter::PeriodIos, by_run[0], OF_LONG_RUN, evidence)
            }
            Some((period, runs))
                if period > 0
                    && !(run.len() >= TELLING && runs + 1 >= RUNS)
                    && self.of_blocks.is_none_or(|blocks| !alike(blocks, period))
                    && !keeps_step(without, with, period) =>
            {
                let evidence = format!(
                    "There is no regular oscillation: the period within one run does not continue in step in the next run. {evidence}"
                );
                Rule::found(Parameter::PeriodIos, 0, OUT_OF_STEP, evidence)
            }
            Some((0, _)) => Rule::found(Parameter::PeriodIos, 0, Rule::likely("no oscillation"), evidence),
            Some((period, runs)) => {
                let early = self.is_page_map && run.len() < TELLING;
                let settled =
                    if runs == RUNS { Rule::strong("every run") } else { Rule::likely("most runs") };
                let rule = if early { NOT_STEADY } else { settled };
                Rule::found(Parameter::PeriodIos, period, rule, evidence)
            }
            None => Finding::undetermined(Parameter::PeriodIos, evidence),
        };
        finding.with(picture)
    }
}

fn picture_of_medians(medians: &[f64]) -> Picture {
    let points = medians.iter().enumerate().map(|(index, &cost)| (index as f64, cost)).collect();
    Picture::new(
        "Random writes after idle time, each the median of several runs. The writes before the mark are the start-up phase.",
        Axis::linear("write", ""),
        Axis::linear("response time", "ns"),
    )
    .draw("random writes", Style::Dots, points)
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

    /// Four runs of either kind, of which each write takes what `cost` says of its number in the run.
    fn runs(cost: impl Fn(usize) -> f64) -> RandomWrites {
        let run =
            |count: usize| (0..count).map(|write| cost(write) * (1.0 + 0.01 * (write % 3) as f64)).collect();
        RandomWrites {
            without: vec![run(1024); RUNS],
            with: vec![run(1024); RUNS],
            fast_pages: 0.0,
            of_blocks: None,
            has_slc_cache: false,
            is_page_map: false,
        }
    }

    #[test]
    fn a_fast_beginning_of_every_run_is_the_startup_phase() {
        let found = runs(|write| if write < 200 { 100e3 } else { 900e3 }).startup();
        assert!(found.number().is_some_and(|ios| (ios - 200.0).abs() <= 6.0), "{}", found.evidence);
        let none = runs(|_| 100e3).startup();
        assert_eq!((none.number(), none.rule.as_deref()), (Some(0.0), Some("startup_ios/every run")));
        // A cache that no run fills hides it.
        let hidden = RandomWrites { fast_pages: 1e6, ..runs(|_| 100e3) }.startup();
        assert_eq!(hidden.rule.as_deref(), Some("startup_ios/SLC cache"));
    }

    #[test]
    fn a_stall_once_in_a_block_is_the_period() {
        let found = runs(|write| if write % 32 == 31 { 900e3 } else { 100e3 }).period(0);
        assert_eq!(found.number(), Some(32.0), "{}", found.evidence);
        assert_eq!(runs(|_| 100e3).period(0).number(), Some(0.0));
    }
}
