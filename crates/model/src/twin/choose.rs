//! The choice of a twin: the simplest model that reproduces what it was not fitted to.
//!
//! # Method
//! 1. The models are tried from the simplest on: the throughput model, flash with the structure that was inferred, and a
//!    [response tree](super::response_tree), which has no mechanism and as many parameters as the data carries.
//! 2. Each serves all requests of the run once more. It is judged on the last third of the repetitions of each point: flash is fitted to
//!    earlier ones, and the tree that is judged is grown from the others. Without repetitions it is judged on what it was fitted to.
//! 3. A model reproduces the run if mean, median and 99th percentile are off by at most [`REPRODUCES`], averaged over the
//!    micro-benchmarks. The first that does is the twin.
//! 4. If none does, the twin is the simplest one whose deviation ([`factor`](flashlab_analysis::TwinDifference::factor), as a logarithm) is at most [`AS_GOOD`] times the
//!    smallest. Its tree is grown from everything.
//!
//! What a model predicts that it was not fitted to is reported, too: the micro-benchmarks in [`HELD_OUT`]. The tree that is
//! judged on them is grown without them.

use flashlab_analysis::TwinFigures;
use flashlab_analysis::inference::Inference;
use flashlab_sim::Profile;
use serde::Serialize;

use super::budget::Budget;
use super::difference::compare_where;
use super::fit::{HELD_OUT, deviation_of_held_out, fit_flash, is_held_out};
use super::measured::{MeasuredRun, MeasuredRuns};
use super::noise::noise_of;
use super::response_tree::tree_profile;
use super::throughput::throughput_profile;
use super::typical::Typical;
use crate::ModelError;

/// The goal for twins: a mean error of 10 %, of the median and the 99th percentile as well. A larger bound takes simpler models
/// that a user would see the difference of; a smaller one is below what many devices differ from themselves by.
const REPRODUCES: f64 = 0.1;
/// A simpler model does as well as a more complex one if its deviation is at most this many times as large. Deviations scatter by more
/// than 10 % between two measurements of one device; with 1, chance would decide between a mechanism and a table of response times.
const AS_GOOD: f64 = 1.1;

/// A model of the device that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TwinCandidate {
    /// What it is, in words.
    pub model: String,
    /// How far it is from the repetitions that it was not fitted to; null where it was not made.
    pub error: Option<TwinFigures>,
    /// The same as a factor, too fast and too slow alike ([`TwinDifference::factor`](flashlab_analysis::TwinDifference::factor)).
    pub factor: Option<f64>,
    /// The micro-benchmarks that it does not reproduce, each with what it lacks.
    pub missing: Vec<(String, &'static str)>,
    /// The mean absolute logarithm of the ratios of figures on the micro-benchmarks that no fit saw; null where the run has none.
    pub held_out: Option<f64>,
    /// Why it was not made; null where it was.
    pub refused: Option<String>,
}

/// A twin, and what was chosen from.
#[derive(Clone, Debug)]
pub struct TwinFit {
    /// The profile.
    pub profile: Profile,
    /// Its model, as in [`TwinCandidate::model`].
    pub model: String,
    /// Whether the candidates were judged on repetitions that they were not fitted to: a run with one repetition has none.
    pub is_held_out: bool,
    /// All candidates, the simplest first.
    pub candidates: Vec<TwinCandidate>,
    /// What was tried, and what it brought.
    pub log: Vec<String>,
    /// Whether the fit of flash ended at its most work: the twin is the best one found until then.
    pub was_cut: bool,
}

/// The candidates so far.
struct Choice<'a> {
    measured: &'a MeasuredRuns,
    tried: Vec<(TwinCandidate, Option<Profile>)>,
}

/// Makes a twin of what was measured: the simplest model that reproduces it. Flash needs an inference.
///
/// `progress` is called with the share of the work that is done, of the most that the fit of flash may take, and with 1 when it has ended: then the
/// models serve the run's requests.
///
/// # Errors
/// When the run has too little for a fit.
pub fn fit_twin(
    measured: &MeasuredRuns,
    inference: Option<&Inference>,
    progress: &dyn Fn(f64),
) -> Result<TwinFit, ModelError> {
    let budget = Budget::new(progress);
    let too_little = || {
        let advice = "a twin needs reads and writes of several sizes: measure with `flashlab bench`, without --only and --quick";
        ModelError::Input(format!("{}: {advice}", measured.target))
    };
    let typical = Typical::of(measured).ok_or_else(too_little)?;
    let plain = throughput_profile(measured, noise_of(measured)).ok_or_else(too_little)?;
    let mut choice = Choice { measured, tried: Vec::new() };
    let mut log = Vec::new();
    choice.add("throughput model", &plain, Ok([plain.clone(), plain.clone()]));
    let flash = match (choice.is_made(), inference) {
        (true, _) => Err("not tried: a simpler model reproduces the run".to_owned()),
        (false, None) => {
            Err("no inference is given: `flashlab infer` finds pages, dies, blocks and the translation layer"
                .to_owned())
        }
        (false, Some(Inference { not_flash: Some(reason), .. })) => Err(format!("not tried: {reason}")),
        (false, Some(inference)) => {
            fit_flash(measured, inference, &typical, &budget, &mut log).map_err(|error| error.to_string())
        }
    };
    progress(1.0);
    let name = flash.as_ref().map_or("flash".to_owned(), |profile| format!("flash with {}", profile.kind()));
    let fitted = flash.as_ref().map_or(plain.clone(), Clone::clone);
    choice.add(&name, &fitted, flash.map(|profile| [profile.clone(), profile]));
    let fitted_repetitions = measured.fitted_repetitions();
    let tree_of = |repetitions: u32| {
        tree_profile(measured, &plain, |run| run.repetition() <= repetitions)
            .map_err(|error| error.to_string())
    };
    let tree = match choice.is_made() {
        true => Err("not tried: a simpler model reproduces the run".to_owned()),
        false => tree_of(fitted_repetitions).and_then(|judged| Ok([judged, tree_of(u32::MAX)?])),
    };
    let blind = tree.as_ref().ok().and_then(|_| tree_profile(measured, &plain, |run| !is_held_out(run)).ok());
    choice.add("response tree", &blind.unwrap_or(plain), tree);
    let reasons: Vec<String> =
        choice.tried.iter().filter_map(|(candidate, _)| candidate.refused.clone()).collect();
    let none =
        || ModelError::Input(format!("{}: no model serves the run: {}", measured.target, reasons.join("; ")));
    choice.twin(log, budget.was_cut()).ok_or_else(none)
}

impl Choice<'_> {
    /// Judges a candidate: the first profile, which was fitted without the last repetitions; the second is the twin. `fitted` is the one that
    /// was made without the micro-benchmarks that are held out.
    fn add(&mut self, model: &str, fitted: &Profile, profiles: Result<[Profile; 2], String>) {
        let (measured, last) = (self.measured, self.measured.fitted_repetitions());
        let is_held_out = measured.has_held_out_repetitions();
        let judged = profiles.and_then(|[judged, twin]| {
            let counts = |run: &MeasuredRun| !is_held_out || run.repetition() > last;
            let difference = compare_where(measured, &judged, counts).map_err(|error| error.to_string())?;
            Ok((twin, difference))
        });
        let model = model.to_owned();
        self.tried.push(match judged {
            Ok((profile, difference)) => {
                let factor = Some(difference.factor());
                let held_out = deviation_of_held_out(self.measured, fitted).ok();
                let missing = difference
                    .micro_benchmarks
                    .into_iter()
                    .filter_map(|micro| Some((micro.name, micro.missing?)))
                    .collect();
                let error = Some(difference.error);
                (TwinCandidate { model, error, factor, missing, held_out, refused: None }, Some(profile))
            }
            Err(reason) => {
                let missing = Vec::new();
                let (error, factor, held_out, refused) = (None, None, None, Some(reason));
                (TwinCandidate { model, error, factor, missing, held_out, refused }, None)
            }
        });
    }

    /// Whether a candidate reproduces the run.
    fn is_made(&self) -> bool {
        self.tried.iter().any(|(candidate, _)| reproduces(candidate))
    }

    fn twin(self, log: Vec<String>, was_cut: bool) -> Option<TwinFit> {
        let deviation = |candidate: &TwinCandidate| candidate.factor.map_or(f64::INFINITY, f64::ln);
        let first = self.tried.iter().position(|(candidate, _)| reproduces(candidate));
        let least =
            self.tried.iter().map(|(candidate, _)| deviation(candidate)).fold(f64::INFINITY, f64::min);
        let nearest = || self.tried.iter().position(|(candidate, _)| deviation(candidate) <= AS_GOOD * least);
        let chosen = first.or_else(nearest)?;
        let (candidate, profile) = &self.tried[chosen];
        let (model, error) = (candidate.model.clone(), candidate.error?);
        let mut profile = profile.clone()?;
        let target = &self.measured.target;
        profile.title = format!("Twin of {target}");
        profile.source = format!("a run of flashlab bench on {target}, by flashlab model twin");
        profile.fit = format!(
            "{model}; off by {:.1} % in the mean, {:.1} % in the median and {:.1} % in the 99th percentile{}",
            error.mean * 100.0,
            error.p50 * 100.0,
            error.p99 * 100.0,
            candidate.held_out.map_or(String::new(), |held_out| format!(
                "; {:.1} % on what no fit saw ({})",
                held_out.exp_m1() * 100.0,
                HELD_OUT.join(" and ")
            ))
        );
        let candidates = self.tried.into_iter().map(|(candidate, _)| candidate).collect();
        let is_held_out = self.measured.has_held_out_repetitions();
        Some(TwinFit { profile, model, is_held_out, candidates, log, was_cut })
    }
}

fn reproduces(candidate: &TwinCandidate) -> bool {
    candidate.error.is_some_and(|error| error.mean.max(error.p50).max(error.p99) <= REPRODUCES)
}
