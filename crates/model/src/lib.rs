//! Equations that predict a device: fitted to what was measured, selected by hold-out error, checked on what was not.
//!
//! # Model
//! A [`PerformanceModel`] is a small type with its parameters, its assumptions and where it fails. [`run_points()`] turns a
//! recorded run into [`RunPoint`]s, [`fio_points`] what fio measured; a [`DeviceModel`] is fitted to them. An [`Extraction`]
//! says what to measure for one, [`ModelCheck`] how well it predicts, [`tune()`] what other software makes of it.
//!
//! # Invariants
//! - Fitting is a function of figures: it does no IO and reads no clock; the same figures give the same parameters.
//! - What contradicts a model is refused, never fitted: a negative fixed time is an error and no parameter.
//! - A model with more parameters is selected only where it predicts better what it was not fitted to.
//! - Every prediction has an interval.

pub mod append_and_pack;
mod broken_line;
mod check;
mod class_model;
mod derived;
mod device_model;
mod distances;
mod document;
mod error;
mod escape;
mod external_memory;
mod extraction;
mod fill;
mod fio;
mod garbage_collection;
mod hold_out;
mod interpolation;
mod io_cost;
mod io_properties;
mod least_squares;
mod linear;
mod linear_max;
mod mixed_load;
mod performance_model;
mod pictures;
mod queue_depth;
mod run_points;
mod scatter;
mod search;
mod seek;
mod seek_model;
mod tune;
pub mod twin;

pub use broken_line::BrokenLine;
pub use check::{CheckRow, CheckSummary, CheckedParameter, GoalVerdict, ModelCheck};
pub use class_model::{ClassModel, LineParameters, SizeEquation, SizeModel};
pub use device_model::{
    DepthModel, DeviceModel, FilledModel, MODEL_VERSION, MixedModel, ModelSource, Prediction, SaturatedModel,
    WorkloadRequest,
};
pub use document::{
    FillDocument, LineDocument, MixedDocument, ModelDocument, QueueDepthDocument, ResidualDocument,
    SeekDocument, read_model,
};
pub use error::ModelError;
pub use external_memory::ExternalMemoryCost;
pub use extraction::{CHECK_FILLS, Extraction, FILLS, RunLength, SIZE_LEAST, SizeStep};
pub use fill::{FillCurve, FillModel};
pub use fio::{FioPoints, fio_points};
pub use garbage_collection::{GarbageCollection, fill_of, write_amplification};
pub use hold_out::hold_out_error;
pub use interpolation::Interpolation;
pub use io_cost::{IoCostLine, IoCostModel, IoCostQos};
pub use io_properties::IoProperties;
pub use linear::Linear;
pub use linear_max::LinearMax;
pub use mixed_load::{LoadMix, MixedFrontier};
pub use performance_model::{CONFIDENCE, Measured, PerformanceModel};
pub use pictures::pictures;
pub use queue_depth::{DepthTable, HardMinimum, QueueDepthModel, SoftMinimum};
pub use run_points::{RunPoint, Workload, run_points, run_points_after};
pub use scatter::Scatter;
pub use seek::{SeekLine, SeekRequest};
pub use seek_model::SeekModel;
pub use tune::{RefusedValue, TuneReport, TuneSurroundings, TuneTarget, TunedValue, random_page_cost, tune};
