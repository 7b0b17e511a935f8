//! Errors of a bench run.

use std::fmt;

use flashlab_base::Bytes;
use flashlab_engine::{EngineError, Failure};
use flashlab_plan::PlanError;
use flashlab_samples::SamplesError;

/// Why a bench run ended early. The folder keeps what was measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum BenchError {
    /// Somebody asked for it.
    Interrupted,
    /// Too many IOs failed, or the device is gone.
    Device {
        /// The device.
        target: String,
        /// The run's number.
        run: u32,
        /// The first IO of the run that failed.
        failure: Failure,
    },
    /// The target has changed since the measurement began.
    Lost {
        /// The target.
        target: String,
        /// The run in which that was noticed.
        run: u32,
        /// What happened to it, for example `was removed while it was measured`.
        loss: String,
    },
    /// The target is not suitable for the measurement.
    Target(String),
    /// A pattern does not fit the device.
    Plan(PlanError),
    /// The device, as it was opened, cannot run a pattern.
    Engine(EngineError),
    /// The run's files cannot be written or read.
    Samples(SamplesError),
    /// The samples of a run do not fit its record.
    Damaged {
        /// The run's number.
        run: u32,
        /// Bytes read and written by the samples that exist.
        found: Bytes,
        /// What the record says.
        recorded: Bytes,
    },
}

impl BenchError {
    /// Whether another request would succeed, and not the same one later.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            BenchError::Target(_)
            | BenchError::Plan(_)
            | BenchError::Engine(_)
            | BenchError::Damaged { .. } => true,
            BenchError::Samples(error) => error.is_wrong_input(),
            BenchError::Interrupted | BenchError::Device { .. } | BenchError::Lost { .. } => false,
        }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Interrupted => f.write_str("interrupted"),
            BenchError::Device { target, run, failure } => {
                write!(
                    f,
                    "{target} failed in run {run}: {failure}; look at the kernel's log and at the device's \
                     health, then continue with flashlab resume"
                )
            }
            BenchError::Lost { target, run, loss } => write!(
                f,
                "{target} {loss}; run {run} does not count, and earlier runs are kept: restore the file and resume, or \
                 begin a new run"
            ),
            BenchError::Target(message) => f.write_str(message),
            BenchError::Plan(error) => error.fmt(f),
            BenchError::Engine(error) => error.fmt(f),
            BenchError::Samples(error) => error.fmt(f),
            BenchError::Damaged { run, found, recorded } => write!(
                f,
                "the samples of run {run} tell of {} read and written, its line in runs.jsonl of {}: a file of \
                 it is missing or damaged; restore it, or measure the run again with flashlab resume",
                found.exact(),
                recorded.exact()
            ),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<PlanError> for BenchError {
    fn from(error: PlanError) -> BenchError {
        BenchError::Plan(error)
    }
}

impl From<EngineError> for BenchError {
    fn from(error: EngineError) -> BenchError {
        BenchError::Engine(error)
    }
}

impl From<SamplesError> for BenchError {
    fn from(error: SamplesError) -> BenchError {
        BenchError::Samples(error)
    }
}
