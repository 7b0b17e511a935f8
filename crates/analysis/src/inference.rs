//! The vocabulary of inference: parameters, their findings, and the pictures of them.
//!
//! Invariants:
//! - A finding has a value only if its verdict is "found".
//! - Evidence is a sentence with the figures that decided.
//! - A picture shows only what the estimator used.
//! - A document with values that flashlab does not write is refused before its values are used
//!   ([`Inference::check`]).

mod calibration;
mod check;
mod family;
mod finding;
mod parameter;
mod picture;

pub use calibration::{CONFIDENT, CalibrationTable, RuleCount};
pub use check::check_findings;
pub use family::Family;
pub use finding::{
    Finding, INFERENCE_VERSION, Inference, TimedIo, USUAL_WRITES, Value, Verdict, confidence_in_all,
};
pub use parameter::{Parameter, Unit, UnknownParameter};
pub use picture::{Axis, Picture, Series, Style};
