//! Why a model cannot be fitted, or not used.

use flashlab_bench::BenchError;
use flashlab_plan::PlanError;
use flashlab_samples::SamplesError;
use thiserror::Error;

/// Why a model cannot be fitted or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// There are too few measurements for the parameters of the model.
    #[error("{model}: {found} measurements {of}, and at least {needed} are needed{remedy}")]
    TooFew {
        /// The model's name.
        model: &'static str,
        /// How many there are.
        found: usize,
        /// Of what, as `of random reads`.
        of: String,
        /// How many it takes.
        needed: usize,
        /// What to do, with the punctuation before it; or empty.
        remedy: String,
    },
    /// The measurements contradict the model.
    #[error("{model} does not hold here: {reason}")]
    DoesNotHold {
        /// The model's name.
        model: &'static str,
        /// What contradicts it.
        reason: String,
    },
    /// A figure that a model is asked for, or made of, cannot be.
    #[error("{0}")]
    Input(String),
    /// The files of a run.
    #[error(transparent)]
    Run(#[from] BenchError),
    /// A pattern in the files of a run.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl From<SamplesError> for ModelError {
    fn from(error: SamplesError) -> ModelError {
        ModelError::Run(BenchError::Samples(error))
    }
}
