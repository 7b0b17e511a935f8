//! The fit of flash: structure from the inference, costs and what is left open from the run.
//!
//! # Method
//! 1. The inference gives a structure, and the steadiest reads give the noise.
//! 2. Reads alone give the costs of reads, and decide between the structures that reads show.
//! 3. Runs that write give the costs of writes, and decide between the structures that writes show.
//! 4. In both, a grid of beginnings is simulated with few IOs. The best few are fitted with few IOs, and the best of them
//!    with more. Then each [variant](super::variants) is tried, and kept where it reproduces the run better.

use flashlab_analysis::inference::Inference;
use flashlab_bench::Purpose;
use flashlab_plan::Space;
use flashlab_sim::Profile;

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

/// Flash with the structure that was inferred and fitted costs.
pub(super) fn fit_flash(
    measured: &MeasuredRuns,
    inference: &Inference,
    typical: &Typical,
    log: &mut Vec<String>,
) -> Result<Profile, ModelError> {
    let unknown = || ModelError::Input("the inference found no translation layer".to_owned());
    let mut start = inferred_profile(measured, inference, typical).ok_or_else(unknown)?;
    start.noise = noise_of(measured);
    let reads = Stage { name: "reads", writes: false, variants: OF_READS, costs: read_costs };
    let writes = Stage { name: "writes", writes: true, variants: OF_WRITES, costs: write_costs };
    let read = reads.fit(measured, typical, &starts::of_reads(&start), log)?;
    let written = writes.fit(measured, typical, &starts::of_writes(&read.profile, typical), log)?;
    Ok(written.profile)
}

/// The mean deviation on the micro-benchmarks that are held out.
pub(super) fn deviation_of_held_out(measured: &MeasuredRuns, profile: &Profile) -> Result<f64, ModelError> {
    let simulated = Simulated::new(measured, REPETITIONS, 2500, |_| true);
    let runs: Vec<&MeasuredRun> = simulated.runs.iter().collect();
    let objective = Objective::new(&runs, is_held_out);
    if objective.is_empty() {
        return Err(ModelError::Input("the run has no such micro-benchmarks".to_owned()));
    }
    let conditioned = ConditionedDevice::new(profile, measured.space, &simulated.states)?;
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
        log: &mut Vec<String>,
    ) -> Result<Scored, ModelError> {
        let most = if self.writes { 2500 } else { 300 };
        let coarse = Simulated::new(measured, 1, most / 3, |run| run.pattern.writes() == self.writes);
        let repetitions = REPETITIONS.min(measured.fitted_repetitions());
        let fine = Simulated::new(measured, repetitions, most, |run| run.pattern.writes() == self.writes);
        let scale = typical.read_ns;
        let mut begun: Vec<Scored> = starts.iter().filter_map(|start| coarse.evaluate(start)).collect();
        begun.sort_by(|a, b| a.score.total_cmp(&b.score));
        let first = begun.first().map_or(f64::NAN, |best| best.score);
        begun.truncate(BEGINNINGS);
        let mut fitted: Vec<Scored> =
            begun.into_iter().map(|one| coarse.improve(one, &self.costs(), scale, 4)).collect();
        fitted.sort_by(|a, b| a.score.total_cmp(&b.score));
        let best = fitted.into_iter().find_map(|best| fine.evaluate(&best.profile));
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
    space: Space,
    states: Vec<&'a MeasuredRun>,
    runs: Vec<MeasuredRun>,
}

impl<'a> Simulated<'a> {
    /// The first `most` IOs of each of these runs, of so many repetitions.
    fn new(
        measured: &'a MeasuredRuns,
        repetitions: u32,
        most: usize,
        takes: impl Fn(&MeasuredRun) -> bool,
    ) -> Simulated<'a> {
        let first = measured.runs.iter().position(|run| !run.purpose.is_state());
        let (states, rest) = measured.runs.split_at(first.unwrap_or(measured.runs.len()));
        let simulated = |run: &&MeasuredRun| match &run.purpose {
            Purpose::Point { repetition, .. } => *repetition <= repetitions && takes(run),
            _ => takes(run),
        };
        let runs = rest.iter().filter(simulated).map(|run| run.shortened(most)).collect();
        Simulated { space: measured.space, states: states.iter().collect(), runs }
    }

    fn evaluate(&self, profile: &Profile) -> Option<Scored> {
        let (runs, objective) = self.compared();
        let conditioned = ConditionedDevice::new(profile, self.space, &self.states).ok()?;
        let responses = conditioned.serve(profile, &runs).ok()?;
        Some(Scored::new(profile.clone(), objective.residuals(&responses)))
    }

    fn improve(
        &self,
        begun: Scored,
        costs: &dyn Fn(&Profile) -> Vec<Cost>,
        scale_ns: f64,
        steps: usize,
    ) -> Scored {
        let (runs, objective) = self.compared();
        let Ok(conditioned) = ConditionedDevice::new(&begun.profile, self.space, &self.states) else {
            return begun;
        };
        let costs = costs(&begun.profile);
        improve(begun, &costs, scale_ns, steps, &mut |profile| {
            Some(objective.residuals(&conditioned.serve(profile, &runs).ok()?))
        })
    }

    fn compared(&self) -> (Vec<&MeasuredRun>, Objective) {
        let runs: Vec<&MeasuredRun> = self.runs.iter().collect();
        let objective = Objective::new(&runs, |run| !is_held_out(run));
        (runs, objective)
    }
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
