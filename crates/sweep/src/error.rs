//! Why an experiment has no result.

use flashlab_engine::EngineError;
use flashlab_plan::PlanError;
use flashlab_samples::SamplesError;
use flashlab_sim::{ProfileError, flash_device::StateError};

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// What was asked for cannot be done: the request has to change.
    #[error("{0}")]
    Input(String),
    /// The profile is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The plan is wrong, or does not fit the device.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The device accepts fewer IOs in flight.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A saved state does not belong to the device.
    #[error(transparent)]
    State(#[from] StateError),
    /// Samples cannot be kept.
    #[error(transparent)]
    Samples(#[from] SamplesError),
    /// The caller interrupted it.
    #[error("interrupted after {ios} IOs")]
    Interrupted {
        /// IOs that were done.
        ios: u64,
    },
    /// The work failed.
    #[error("{0}")]
    Failed(String),
}

impl SweepError {
    /// Whether another request would succeed, and not the same one later.
    pub fn is_wrong_input(&self) -> bool {
        !matches!(self, SweepError::Interrupted { .. } | SweepError::Failed(_) | SweepError::Samples(_))
    }
}
