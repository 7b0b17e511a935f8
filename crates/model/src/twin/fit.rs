//! The fit of flash: structure from the inference, costs and what is left open from the run.
//!
//! # Method
//! 1. The inference gives a structure, and the steadiest reads give the noise.
//! 2. Reads alone give the costs of reads, and decide between the structures that reads show.
//! 3. Runs that write give the costs of writes, and decide between the structures that writes show.
//! 4. In both, a grid of beginnings is simulated with few IOs. The best few are fitted with few IOs, and the best of them
//!    with more. Then each [variant](super::variants) is tried, and kept where it reproduces the run better.
//! 5. All of it ends with a [budget](super::budget) of simulated IOs. The state of a structure is made once for the candidates that differ in
//!    times.

use std::cell::RefCell;
use std::rc::Rc;

use flashlab_analysis::inference::Inference;
use flashlab_bench::Purpose;
use flashlab_plan::Space;
use flashlab_sim::Profile;

use super::budget::Budget;
use super::cost::{Cost, each_page};
use super::measured::{MeasuredRun, MeasuredRuns};
use super::noise::noise_of;
use super::objective::{Objective, score};
use super::rerun::ConditionedDevice;
use super::search::{Scored, improve};
use super::starts;
use super::structure::inferred_profile;
use super::typical::Typical;
use super::variants::{OF_READS, OF_WRITES, Variant};
use crate::ModelError;

/// The micro-benchmarks that are held out: they combine what the others show one by one.
pub(super) const HELD_OUT: [&str; 2] = ["mix", "bursts"];
/// Repetitions of each point that a candidate simulates: the time of a fit is proportional to them. With one, a merge that comes once in a
/// run decides the point's mean.
const REPETITIONS: u32 = 2;
/// Steps of a search for costs, each with a simulation for each cost. Response times are nearly linear in them, so that a search ends
/// before, when a step wins less than 1 % (`search::WORTH`).
const STEPS: usize = 8;
/// How many of the grid's beginnings are fitted. The best beginning is not always the best fit: with one, a wrong time of programming
/// or over-provisioning stays that other costs could have made up for.
const BEGINNINGS: usize = 4;
/// A variant whose score is worse than the best by more than this factor before its costs are fitted is given up. The variants take most of
/// the time of a fit: a larger factor makes it longer, and 1 would refuse each variant that needs other costs.
const HOPELESS: f64 = 1.3;
/// A variant has to make the score smaller by 2 %, the deviation that counts as noise in `objective::weight`. With 1, a fit collects variants
/// that the device does not have.
const BETTER: f64 = 0.98;
/// How often all variants are tried, because one can need another first. It ends earlier when a round changes nothing.
const ROUNDS: usize = 3;

/// The shares of a stage's budget after which its grid, and the fit of its best beginnings, end. The rest is for the variants, of which each
/// takes a state of its own.
const GRID_SHARE: f64 = 0.35;
const BEGINNINGS_SHARE: f64 = 0.6;
/// The share of the budget after which the fit of reads ends: it simulates an eighth of the IOs of each run that the other one does.
const READS_SHARE: f64 = 0.3;
/// Bytes that are written without times in the time in which the simulator serves one IO (docs/sim.md, Speed and memory).
const UNTIMED_BYTES: u64 = 16 << 10;
/// A device is copied in the time in which this share of it is written without times.
const COPIED: u64 = 32;

/// Flash with the structure that was inferred and fitted costs.
pub(super) fn fit_flash(
    measured: &MeasuredRuns,
    inference: &Inference,
    typical: &Typical,
    budget: &Budget<'_>,
    log: &mut Vec<String>,
) -> Result<Profile, ModelError> {
    let unknown = || ModelError::Input("the inference found no translation layer".to_owned());
    let mut start = inferred_profile(measured, inference, typical).ok_or_else(unknown)?;
    start.noise = noise_of(measured);
    let reads = Stage { name: "reads", writes: false, variants: OF_READS, costs: read_costs };
    let writes = Stage { name: "writes", writes: true, variants: OF_WRITES, costs: write_costs };
    let states = States::new(measured, budget);
    let starts = starts::of_reads(&start);
    let read = reads.fit(measured, typical, &starts, &states, [0.0, READS_SHARE], log)?;
    let starts = starts::of_writes(&read.profile, typical);
    let written = writes.fit(measured, typical, &starts, &states, [READS_SHARE, 1.0], log)?;
    if budget.was_cut() {
        log.push("the search was cut: not everything was tried".to_owned());
    }
    Ok(written.profile)
}

/// The mean deviation on the micro-benchmarks that are held out.
pub(super) fn deviation_of_held_out(measured: &MeasuredRuns, profile: &Profile) -> Result<f64, ModelError> {
    let (states, rest) = measured.runs.split_at(first_after_state(measured));
    let states: Vec<&MeasuredRun> = states.iter().collect();
    let runs = shortened(rest, REPETITIONS, 2500, |_| true);
    let runs: Vec<&MeasuredRun> = runs.iter().collect();
    let objective = Objective::new(&runs, is_held_out);
    if objective.is_empty() {
        return Err(ModelError::Input("the run has no such micro-benchmarks".to_owned()));
    }
    let conditioned = ConditionedDevice::new(profile, measured.space, &states)?;
    Ok(score(&objective.residuals(&conditioned.serve(profile, &runs)?)))
}

/// A stage of the fit.
struct Stage {
    name: &'static str,
    /// Whether it simulates the runs that write, or the others.
    writes: bool,
    variants: &'static [Variant],
    costs: fn(&Profile) -> Vec<Cost>,
}

impl Stage {
    fn fit(
        &self,
        measured: &MeasuredRuns,
        typical: &Typical,
        starts: &[Profile],
        states: &States<'_>,
        [from, until]: [f64; 2],
        log: &mut Vec<String>,
    ) -> Result<Scored, ModelError> {
        let allow = |share: f64| states.budget.allow_until(from + (until - from) * share);
        let most = if self.writes { 2500 } else { 300 };
        let coarse = Simulated::new(states, 1, most / 3, |run| run.pattern.writes() == self.writes);
        let repetitions = REPETITIONS.min(measured.fitted_repetitions());
        let fine = Simulated::new(states, repetitions, most, |run| run.pattern.writes() == self.writes);
        let scale = typical.read_ns;
        allow(GRID_SHARE);
        let mut begun: Vec<Scored> = starts.iter().filter_map(|start| coarse.evaluate(start)).collect();
        if begun.is_empty() {
            // One beginning is evaluated, however long it takes: the search has an answer.
            begun.extend(starts.iter().find_map(|start| coarse.evaluate_always(start)));
        }
        begun.sort_by(|a, b| a.score.total_cmp(&b.score));
        let first = begun.first().map_or(f64::NAN, |best| best.score);
        begun.truncate(BEGINNINGS);
        allow(BEGINNINGS_SHARE);
        let mut fitted: Vec<Scored> =
            begun.into_iter().map(|one| coarse.improve(one, &self.costs(), scale, 4)).collect();
        fitted.sort_by(|a, b| a.score.total_cmp(&b.score));
        let best = fitted.into_iter().find_map(|best| fine.evaluate_always(&best.profile));
        allow(1.0);
        let none = || ModelError::Input(format!("no candidate serves the {} of the run", self.name));
        let mut best = fine.improve(best.ok_or_else(none)?, &self.costs(), scale, STEPS);
        log.push(format!("{}: {first:.3} at first, {:.3} with costs fitted", self.name, best.score));
        for _ in 0..ROUNDS {
            let mut changed = false;
            for variant in self.variants {
                let tried = (variant.change)(&best.profile).and_then(|profile| fine.evaluate(&profile));
                let Some(tried) = tried.filter(|tried| tried.score < best.score * HOPELESS) else { continue };
                let costs = |profile: &Profile| {
                    let touched = |cost: &Cost| variant.costs.contains(&cost.kind());
                    (self.costs)(profile).into_iter().filter(touched).collect()
                };
                let tried = fine.improve(tried, &costs, scale, 1);
                if tried.score < best.score * BETTER {
                    log.push(format!(
                        "{}: {} {:.3} -> {:.3}",
                        self.name, variant.name, best.score, tried.score
                    ));
                    best = tried;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
            best = fine.improve(best, &self.costs(), scale, 2);
        }
        log.push(format!("{}: {:.3} in the end", self.name, best.score));
        Ok(best)
    }

    fn costs(&self) -> impl Fn(&Profile) -> Vec<Cost> {
        self.costs
    }
}

/// What is simulated for each candidate.
struct Simulated<'a> {
    states: &'a States<'a>,
    runs: Vec<MeasuredRun>,
}

impl<'a> Simulated<'a> {
    fn new(
        states: &'a States<'a>,
        repetitions: u32,
        most: usize,
        takes: impl Fn(&MeasuredRun) -> bool,
    ) -> Simulated<'a> {
        Simulated { states, runs: shortened(states.rest, repetitions, most, takes) }
    }

    /// How far a candidate is from the device; none if it does not serve the runs, or the budget is spent.
    fn evaluate(&self, profile: &Profile) -> Option<Scored> {
        if self.states.budget.is_left() { self.evaluate_always(profile) } else { None }
    }

    fn evaluate_always(&self, profile: &Profile) -> Option<Scored> {
        let (runs, objective) = self.compared();
        let conditioned = self.states.of(profile)?;
        let residuals = self.residuals(&conditioned, profile, &runs, &objective)?;
        Some(Scored::new(profile.clone(), residuals))
    }

    fn residuals(
        &self,
        conditioned: &ConditionedDevice,
        profile: &Profile,
        runs: &[&MeasuredRun],
        objective: &Objective,
    ) -> Option<Vec<f64>> {
        let ios = |run: &&MeasuredRun| match run.purpose.is_state() {
            true => run.written.0 / UNTIMED_BYTES,
            false => run.ios.iter().copied().max().unwrap_or(0) * run.ios.len() as u64,
        };
        // A copy of the device takes its place in memory as writes of all its pages do.
        let copied = self.states.space.capacity.0 / (UNTIMED_BYTES * COPIED);
        self.states.budget.spend(runs.iter().map(ios).sum::<u64>() + copied);
        Some(objective.residuals(&conditioned.serve(profile, runs).ok()?))
    }

    fn improve(
        &self,
        begun: Scored,
        costs: &dyn Fn(&Profile) -> Vec<Cost>,
        scale_ns: f64,
        steps: usize,
    ) -> Scored {
        let (runs, objective) = self.compared();
        if !self.states.budget.is_left() {
            return begun;
        }
        let Some(conditioned) = self.states.of(&begun.profile) else { return begun };
        let costs = costs(&begun.profile);
        improve(begun, &costs, scale_ns, steps, &mut |profile| {
            let is_left = self.states.budget.is_left();
            is_left.then(|| self.residuals(&conditioned, profile, &runs, &objective)).flatten()
        })
    }

    fn compared(&self) -> (Vec<&MeasuredRun>, Objective) {
        let runs: Vec<&MeasuredRun> = self.runs.iter().collect();
        let objective = Objective::new(&runs, |run| !is_held_out(run));
        (runs, objective)
    }
}

/// Where the runs after the state begin.
fn first_after_state(measured: &MeasuredRuns) -> usize {
    measured.runs.iter().position(|run| !run.purpose.is_state()).unwrap_or(measured.runs.len())
}

/// The first `most` IOs of each of these runs, of so many repetitions.
fn shortened(
    runs: &[MeasuredRun],
    repetitions: u32,
    most: usize,
    takes: impl Fn(&MeasuredRun) -> bool,
) -> Vec<MeasuredRun> {
    let simulated = |run: &&MeasuredRun| match &run.purpose {
        Purpose::Point { repetition, .. } => *repetition <= repetitions && takes(run),
        _ => takes(run),
    };
    runs.iter().filter(simulated).map(|run| run.shortened(most)).collect()
}

/// Devices in the state of the benchmark. The last one is kept for candidates with the same structure.
struct States<'a> {
    space: Space,
    states: Vec<&'a MeasuredRun>,
    /// The runs after the state.
    rest: &'a [MeasuredRun],
    budget: &'a Budget<'a>,
    last: RefCell<Option<(Profile, Rc<ConditionedDevice>)>>,
}

impl<'a> States<'a> {
    fn new(measured: &'a MeasuredRuns, budget: &'a Budget<'a>) -> States<'a> {
        let (states, rest) = measured.runs.split_at(first_after_state(measured));
        let states = states.iter().collect();
        States { space: measured.space, states, rest, budget, last: RefCell::new(None) }
    }

    /// The device that a profile describes; none if it fails in its state.
    fn of(&self, profile: &Profile) -> Option<Rc<ConditionedDevice>> {
        let structure = structure(profile);
        if let Some((_, device)) = self.last.borrow().as_ref().filter(|(known, _)| *known == structure) {
            return Some(device.clone());
        }
        // The one before is dropped first: each has the size of a device's map.
        self.last.take();
        self.budget.spend(self.states.iter().map(|run| run.written.0 / UNTIMED_BYTES).sum());
        let device = Rc::new(ConditionedDevice::new(profile, self.space, &self.states).ok()?);
        self.last.replace(Some((structure, device.clone())));
        Some(device)
    }
}

/// The profile without the times that are fitted: what decides the state of a device.
fn structure(profile: &Profile) -> Profile {
    let mut structure = profile.clone();
    for cost in read_costs(profile).into_iter().chain(write_costs(profile)) {
        cost.set(&mut structure, 0.0);
    }
    if let Some(flash) = &mut structure.flash {
        flash.gathers_multi_plane_pages = false;
    }
    structure
}

fn read_costs(profile: &Profile) -> Vec<Cost> {
    let Some(flash) = &profile.flash else { return Vec::new() };
    let mut costs = vec![Cost::ReadCommand, Cost::Transfer, Cost::ReadLink];
    costs.extend(each_page(&flash.read, Cost::Read));
    if profile.controller.segment_groups.is_some() {
        costs.push(Cost::ReadSwitch);
    }
    if profile.controller.read_jump.0 > 0 {
        costs.push(Cost::ReadJump);
    }
    if flash.slc_cache.is_some() {
        costs.push(Cost::SlcRead);
    }
    costs
}

fn write_costs(profile: &Profile) -> Vec<Cost> {
    let Some(flash) = &profile.flash else { return Vec::new() };
    let mut costs = vec![Cost::WriteCommand, Cost::WriteLink, Cost::Erase];
    costs.extend(each_page(&flash.program, Cost::Program));
    if profile.controller.segment_groups.is_some() {
        costs.push(Cost::WriteSwitch);
    }
    if profile.controller.write_jump.0 > 0 {
        costs.push(Cost::WriteJump);
    }
    if flash.slc_cache.is_some() {
        costs.push(Cost::SlcProgram);
    }
    if profile.controller.background.is_some_and(|background| background.max_backlog > 0) {
        costs.extend([Cost::Slice, Cost::IdleAfter]);
    }
    costs
}

/// Whether a run belongs to a micro-benchmark that is held out.
pub(super) fn is_held_out(run: &MeasuredRun) -> bool {
    matches!(&run.purpose, Purpose::Point { plan, .. } if HELD_OUT.contains(&plan.as_str()))
}
