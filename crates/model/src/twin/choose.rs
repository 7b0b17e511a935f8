//! The choice of a twin: the simplest model that reproduces the run.
//!
//! # Method
//! 1. The models are tried from the simplest on: the throughput model, flash with the structure that was inferred, and a
//!    [response tree](super::response_tree), which has no mechanism and as many parameters as the data carries.
//! 2. Each serves all requests of the run once more. It reproduces the run if mean, median and 99th percentile are off by at most
//!    [`REPRODUCES`], averaged over the micro-benchmarks.
//! 3. The first that reproduces the run is the twin. If none does, the twin is the one with the smallest error.
//!
//! What a model predicts that it was not fitted to is reported, too: the micro-benchmarks in [`HELD_OUT`]. The tree that is
//! judged on them is grown without them; the twin's tree is grown from everything.

use flashlab_analysis::TwinFigures;
use flashlab_analysis::inference::Inference;
use flashlab_sim::Profile;
use serde::Serialize;

use super::difference::compare_with_profile;
use super::fit::{HELD_OUT, deviation_of_held_out, fit_flash, is_held_out};
use super::measured::MeasuredRuns;
use super::noise::noise_of;
use super::response_tree::tree_profile;
use super::throughput::throughput_profile;
use super::typical::Typical;
use crate::ModelError;

/// The goal for twins: a mean error of 10 %, of the median and the 99th percentile as well. A larger bound takes simpler models
/// that a user would see the difference of; a smaller one is below what many devices differ from themselves by.
const REPRODUCES: f64 = 0.1;

/// A model of the device that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TwinCandidate {
    /// What it is, in words.
    pub model: String,
    /// How far it is from the run whose requests it served; null where it was not made.
    pub error: Option<TwinFigures>,
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
    /// All candidates, the simplest first.
    pub candidates: Vec<TwinCandidate>,
    /// What was tried, and what it brought.
    pub log: Vec<String>,
}

/// The candidates so far.
struct Choice<'a> {
    measured: &'a MeasuredRuns,
    tried: Vec<(TwinCandidate, Option<Profile>)>,
}

/// Makes a twin of what was measured: the simplest model that reproduces it. Flash needs an inference.
///
/// # Errors
/// When the run has too little for a fit.
pub fn fit_twin(measured: &MeasuredRuns, inference: Option<&Inference>) -> Result<TwinFit, ModelError> {
    let too_little = || {
        let advice =
            "a twin needs reads and writes of several sizes: measure with `flashlab bench`, without --only";
        ModelError::Input(format!("{}: {advice}", measured.target))
    };
    let typical = Typical::of(measured).ok_or_else(too_little)?;
    let plain = throughput_profile(measured, noise_of(measured)).ok_or_else(too_little)?;
    let mut choice = Choice { measured, tried: Vec::new() };
    let mut log = Vec::new();
    choice.add("throughput model", &plain, Ok(plain.clone()));
    let flash = match (choice.is_made(), inference) {
        (true, _) => Err("not tried: a simpler model reproduces the run".to_owned()),
        (false, None) => {
            Err("no inference is given: `flashlab infer` finds pages, dies, blocks and the translation layer"
                .to_owned())
        }
        (false, Some(inference)) => {
            fit_flash(measured, inference, &typical, &mut log).map_err(|error| error.to_string())
        }
    };
    let name = flash.as_ref().map_or("flash".to_owned(), |profile| format!("flash with {}", profile.kind()));
    let fitted = flash.as_ref().map_or(plain.clone(), Clone::clone);
    choice.add(&name, &fitted, flash);
    let tree = match choice.is_made() {
        true => Err("not tried: a simpler model reproduces the run".to_owned()),
        false => tree_profile(measured, &plain, |_| true).ok_or("the run has no IOs".to_owned()),
    };
    let blind = tree.as_ref().ok().and_then(|_| tree_profile(measured, &plain, |run| !is_held_out(run)));
    choice.add("response tree", &blind.unwrap_or(plain), tree);
    let reasons: Vec<String> =
        choice.tried.iter().filter_map(|(candidate, _)| candidate.refused.clone()).collect();
    let none =
        || ModelError::Input(format!("{}: no model serves the run: {}", measured.target, reasons.join("; ")));
    choice.twin(log).ok_or_else(none)
}

impl Choice<'_> {
    /// Judges a candidate. `fitted` is the profile that was made without what is held out.
    fn add(&mut self, model: &str, fitted: &Profile, profile: Result<Profile, String>) {
        let judged = profile.and_then(|profile| {
            let difference =
                compare_with_profile(self.measured, &profile).map_err(|error| error.to_string())?;
            Ok((profile, difference.error))
        });
        let model = model.to_owned();
        self.tried.push(match judged {
            Ok((profile, error)) => {
                let held_out = deviation_of_held_out(self.measured, fitted).ok();
                (TwinCandidate { model, error: Some(error), held_out, refused: None }, Some(profile))
            }
            Err(reason) => {
                (TwinCandidate { model, error: None, held_out: None, refused: Some(reason) }, None)
            }
        });
    }

    /// Whether a candidate reproduces the run.
    fn is_made(&self) -> bool {
        self.tried.iter().any(|(candidate, _)| reproduces(candidate))
    }

    fn twin(self, log: Vec<String>) -> Option<TwinFit> {
        let total = |candidate: &TwinCandidate| {
            candidate.error.map_or(f64::INFINITY, |error| error.mean + error.p50 + error.p99)
        };
        let first = self.tried.iter().position(|(candidate, _)| reproduces(candidate));
        let nearest = || {
            (0..self.tried.len()).min_by(|&a, &b| total(&self.tried[a].0).total_cmp(&total(&self.tried[b].0)))
        };
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
        Some(TwinFit { profile, model, candidates, log })
    }
}

fn reproduces(candidate: &TwinCandidate) -> bool {
    candidate.error.is_some_and(|error| error.mean.max(error.p50).max(error.p99) <= REPRODUCES)
}
