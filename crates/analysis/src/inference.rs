//! The vocabulary of what was inferred of a black box: parameters, their findings, and what a person looks at.
//!
//! Invariants:
//! - a value stands only where the verdict is "found";
//! - evidence is a sentence with the figures that decided;
//! - a picture shows what the estimator saw, and no more;
//! - a document that holds what flashlab does not write is refused before anybody reckons with it ([`Inference::check`]).

mod check;
mod family;
mod finding;
mod parameter;
mod picture;

pub use family::Family;
pub use finding::{
    Fill, Finding, INFERENCE_VERSION, Inference, ReclaimUnit, TimedIo, Value, Verdict,
    reads_inference_version,
};
pub use parameter::{Parameter, Unit, UnknownParameter};
pub use picture::{Axis, Picture, Series, Style};
