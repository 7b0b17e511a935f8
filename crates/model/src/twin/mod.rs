//! Twins: a profile of the simulator from a measured run, so that what was measured once can be simulated.
//!
//! # Model
//! A twin is the simplest of several models: the throughput model, or flash with the structure that was inferred. Each candidate
//! serves the requests that the device served (`rerun`), and the micro-benchmarks that no fit saw decide.
//!
//! # Method
//! 1. `measured` reads what the run did, and its response times.
//! 2. `throughput` fits the simple model; `structure`, `starts`, `search` and `variants` fit flash (`fit`).
//! 3. `difference` says how far the twin is from the device, point by point.
//!
//! # Invariants
//! - The same run and the same inference give the same twin.
//! - A candidate sees the requests of the device, and nothing else of it.

mod cost;
mod difference;
mod fit;
mod measured;
mod noise;
mod objective;
mod rerun;
mod search;
mod starts;
mod structure;
mod throughput;
mod typical;
mod variants;

pub use difference::{compare_runs, compare_with_profile};
pub use fit::{TwinCandidate, TwinFit, fit_twin};
pub use measured::{MeasuredRun, MeasuredRuns};
