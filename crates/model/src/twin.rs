//! Twins: a profile of the simulator from a measured run, so that what was measured once can be simulated.
//!
//! # Model
//! A twin is the simplest of several models that reproduces a run: the throughput model, flash with the structure that was
//! inferred, or a response tree, which has measured response times and no mechanism. Each candidate serves the requests that the
//! device served (`rerun`), and `choose` decides.
//!
//! # Method
//! 1. `measured` reads what the run did, and its response times.
//! 2. `throughput` fits the simple model; `structure`, `starts`, `search` and `variants` fit flash (`fit`); `response_tree` grows
//!    a tree.
//! 3. `difference` says how far the twin is from the device, point by point.
//!
//! # Invariants
//! - The same run and the same inference give the same twin.
//! - A candidate sees the requests of the device and their response times, and nothing else of it.

mod budget;
mod choose;
mod cost;
mod difference;
mod fit;
mod measured;
mod noise;
mod objective;
mod rerun;
mod response_tree;
mod search;
mod starts;
mod structure;
mod throughput;
mod typical;
mod variants;

pub use choose::{TwinCandidate, TwinFit, fit_twin};
pub use difference::{compare_runs, compare_with_profile};
pub use measured::{MeasuredRun, MeasuredRuns};
