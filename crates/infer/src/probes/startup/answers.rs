//! The start-up phase and the period, from runs of random writes alone.

use crate::signals::fast_beginning::fast_beginning;
use crate::signals::statistics::medians;
use flashlab_analysis::findings::Phases;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::{common_period, phases};

use crate::rule::Rule;

/// The runs of either kind. Unit: runs. Source: choice. Too many: runs are short; too few: nothing confirms
/// the first one.
pub(super) const RUNS: usize = 4;
/// The rule of a start-up phase that all runs share.
const OF_ALL_RUNS: Rule = Rule::likely("all runs together");
/// The rules of a period of all runs in sequence, on a page map, and of none.
const ALL_IN_SEQUENCE: Rule = Rule::likely("all runs in sequence");
const NO_OSCILLATION: Rule = Rule::likely("no oscillation");

/// What random writes took, run by run, and what is known of the device.
pub(super) struct RandomWrites {
    /// Without pauses, each run after idle time.
    pub(super) without: Vec<Vec<f64>>,
    /// With pauses, each run directly after the run without pauses of the same index.
    pub(super) with: Vec<Vec<f64>>,
    /// Whether every page can lie anywhere.
    pub(super) is_page_map: bool,
}

impl RandomWrites {
    /// The length of the start-up phase.
    pub(super) fn startup(&self) -> Finding {
        let (parameter, runs) = (Parameter::StartupIos, &self.without);
        let picture = picture_of_medians(&medians(runs));
        let by_run: Vec<u64> = runs.iter().map(|run| phases_of(run).startup_ios).collect();
        let evidence = format!(
            "In {} after idle time, the start-up phase lasted {} writes.",
            of_runs(runs),
            listed(&by_run)
        );
        let said = most_say(&by_run);
        let together = if said.is_some_and(|(startup, _)| startup > 0) { None } else { fast_beginning(runs) };
        let (startup, rule, more) = match (together, said) {
            (Some(together), _) => {
                let more = format!(" In all runs together, slow writes begin after {together}.");
                (together as u64, OF_ALL_RUNS, more)
            }
            (None, Some((startup, agree))) => (startup, by_count(agree, Rule::likely), String::new()),
            (None, None) => return Finding::undetermined(parameter, evidence).with(picture),
        };
        let picture = picture.mark(startup as f64, "start-up ends");
        Rule::found(parameter, startup, rule, evidence + &more).with(picture)
    }

    /// The period of the oscillation after the start-up phase. On a page map garbage collection counts
    /// writes, whatever lies between them. It may run less than once in a run, so all runs are examined in
    /// sequence.
    pub(super) fn period(&self) -> Finding {
        let (parameter, runs) = (Parameter::PeriodIos, &self.without);
        let phases: Vec<Phases> = runs.iter().map(|run| phases_of(run)).collect();
        let points = runs[0].iter().enumerate().map(|(index, &cost)| (index as f64, cost)).collect();
        let picture = Picture::new(
            "Random writes after idle time, one run.",
            Axis::linear("write", ""),
            Axis::logarithmic("response time", "ns"),
        )
        .draw("random writes", Style::Dots, points);
        let by_run: Vec<u64> = phases.iter().map(|phases| phases.period_ios.unwrap_or(0)).collect();
        let evidence = format!(
            "In {} the response times oscillate with a period of {} writes (0: no period). The first run: {}",
            of_runs(runs),
            listed(&by_run),
            phases[0].evidence
        );
        if self.is_page_map {
            let all = runs.iter().zip(&self.with).flat_map(|(without, with)| [without, with]);
            let (period, figures) = common_period(all);
            let rule = if period.is_some() { ALL_IN_SEQUENCE } else { NO_OSCILLATION };
            let evidence = format!("{evidence} All runs in sequence, those with pauses too: {figures}.");
            return Rule::found(parameter, period.unwrap_or(0), rule, evidence).with(picture);
        }
        let finding = match lasting(&by_run) {
            Some((0, _)) => Rule::found(parameter, 0, NO_OSCILLATION, evidence),
            Some((period, agree)) => Rule::found(parameter, period, by_count(agree, Rule::strong), evidence),
            None => Finding::undetermined(parameter, evidence),
        };
        finding.with(picture)
    }
}

/// The rule of what this number of runs say; `every` makes that of all runs.
fn by_count(runs: usize, every: fn(&'static str) -> Rule) -> Rule {
    if runs == RUNS { every("every run") } else { Rule::likely("most runs") }
}

fn phases_of(run: &[f64]) -> Phases {
    phases(&run.iter().map(|&cost| cost as u64).collect::<Vec<_>>())
}

fn listed(figures: &[u64]) -> String {
    figures.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
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

/// The figure that at least half of the runs say, but for 3 %, the median of these, and how many do. That two runs by chance agree on one
/// that is not 0 is less likely than that two show nothing.
fn most_say(figures: &[u64]) -> Option<(u64, usize)> {
    let agree = |one: u64| figures.iter().copied().filter(|&other| alike(one, other)).collect::<Vec<_>>();
    let mut most =
        figures.iter().map(|&figure| agree(figure)).max_by_key(|agree| (agree.len(), agree[0] > 0))?;
    most.sort_unstable();
    (2 * most.len() >= figures.len()).then(|| (most[(most.len() - 1) / 2], most.len()))
}

/// The same of periods. One that as many runs do not show does not last.
fn lasting(periods: &[u64]) -> Option<(u64, usize)> {
    let none = periods.iter().filter(|&&period| period == 0).count();
    let (period, runs) = most_say(periods)?;
    Some(if runs > none { (period, runs) } else { (0, none) })
}

/// As in "4 runs of 64 writes".
fn of_runs(runs: &[Vec<f64>]) -> String {
    format!("{} runs of {} writes", runs.len(), runs.first().map_or(0, Vec::len))
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    #[test]
    fn a_period_that_half_of_the_runs_do_not_show_does_not_last() {
        assert_eq!(lasting(&[0, 384, 384, 0]), Some((0, 2)));
        assert_eq!(lasting(&[384, 384, 0, 384]), Some((384, 3)));
        assert_eq!(lasting(&[8, 2, 0, 2]), Some((2, 2)));
        assert_eq!(lasting(&[0, 0, 56, 64]), Some((0, 2)));
        assert_eq!(lasting(&[8, 2, 4, 16]), None);
        assert_eq!(most_say(&[0, 384, 384, 0]), Some((384, 2)));
    }

    /// Four runs, of which each write takes what `cost` says of its number in the run.
    fn runs(cost: impl Fn(usize) -> f64) -> RandomWrites {
        let mut random = Prng::new(Seed(1));
        let run = (0..1024).map(|write| cost(write) * (1.0 + 0.01 * random.unit())).collect();
        RandomWrites { without: vec![run; RUNS], with: Vec::new(), is_page_map: false }
    }

    #[test]
    fn a_fast_beginning_of_every_run_is_the_startup_phase() {
        let found = runs(|write| if write < 200 { 100e3 } else { 900e3 }).startup();
        assert!(found.number().is_some_and(|ios| (ios - 200.0).abs() <= 6.0), "{}", found.evidence);
        let none = runs(|_| 100e3).startup();
        assert_eq!((none.number(), none.rule.as_deref()), (Some(0.0), Some("startup_ios/every run")));
    }

    #[test]
    fn a_stall_once_in_a_block_is_the_period() {
        let found = runs(|write| if write % 32 == 31 { 900e3 } else { 100e3 }).period();
        assert_eq!(found.number(), Some(32.0), "{}", found.evidence);
        assert_eq!(runs(|_| 100e3).period().number(), Some(0.0));
    }

    #[test]
    fn on_a_page_map_all_runs_in_sequence_show_a_period_that_no_run_shows_alone() {
        let mut random = Prng::new(Seed(1));
        let mut of_stalls = |stalls: usize, is_page_map: bool| {
            let mut done = 0;
            let mut run = |count: usize| -> Vec<f64> {
                done += count;
                let cost = |write: usize| if write % 300 < stalls { 900e3 } else { 100e3 };
                (done - count..done).map(|write| cost(write) * (1.0 + 0.05 * random.unit())).collect()
            };
            let (mut without, mut with) = (Vec::new(), Vec::new());
            for count in [608, 448, 544, 448] {
                without.push(run(512));
                with.push(run(count));
            }
            let found = RandomWrites { without, with, is_page_map }.period();
            (found.number(), found.rule.unwrap_or_default(), found.evidence)
        };
        let (period, rule, evidence) = of_stalls(3, true);
        assert_eq!((period, rule.as_str()), (Some(300.0), "period_ios/all runs in sequence"), "{evidence}");
        for (stalls, is_page_map) in [(3, false), (0, true)] {
            let (period, rule, evidence) = of_stalls(stalls, is_page_map);
            assert_eq!((period, rule.as_str()), (Some(0.0), "period_ios/no oscillation"), "{evidence}");
        }
    }
}
