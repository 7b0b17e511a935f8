//! Equations that predict a device: fitted to what was measured, selected by hold-out error, checked on what was not.
//!
//! # Model
//! A [`PerformanceModel`] is a small type with its parameters, its assumptions and where it fails. [`run_points`] turns a
//! recorded run into [`RunPoint`]s, the medians and means that models are fitted to.
//!
//! # Invariants
//! - Fitting is a function of figures: it does no IO and reads no clock; the same figures give the same parameters.
//! - What contradicts a model is refused, never fitted: a negative fixed time is an error and no parameter.
//! - Every prediction has an interval.

mod error;
mod least_squares;
mod linear;
mod performance_model;
mod run_points;

pub use error::ModelError;
pub use linear::Linear;
pub use performance_model::{CONFIDENCE, Measured, PerformanceModel};
pub use run_points::{RunPoint, Workload, run_points};
