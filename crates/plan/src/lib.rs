//! The IO pattern language: parses plans, checks them, and expands them to IOs.
//!
//! # Model
//! A [`Plan`] is a file of experiments. An [`Experiment`] is a [`Pattern`] and a parameter that
//! varies; each value makes one run (uFLIP section 3.2). A pattern is placed on a device's
//! [`Space`] with a seed and expands lazily to [`PlannedIo`]s.
//!
//! # Invariants
//! - This crate knows no device. Of a device it gets only the capacity and the block size.
//! - The same plan, space and seed give the same IOs.
//! - A wrong text from outside causes a [`PlanError`], never a panic.
//! - The shipped micro-benchmarks are files of the language; no code depends on their names.

mod builtin;
mod check;
mod error;
mod ios;
mod location;
mod parameter;
mod parse;
mod pattern;
mod permutation;
mod place;
mod plan;
mod print;
mod section;
mod vary;
mod zipf;

pub use builtin::Builtin;
pub use error::{Misfit, PlanError};
pub use ios::{Ios, PlannedIo, Start};
pub use parameter::PatternParameter;
pub use pattern::{Arrival, Basic, Content, IgnoreAndCount, IoSize, Location, Mix, ModeRule, Pattern, Time};
pub use place::{Placed, Space};
pub use plan::{Choice, Experiment, ExperimentValue, PLAN_VERSION, Plan, Vary};
pub use zipf::Zipf;
