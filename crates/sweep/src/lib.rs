//! Simulated experiments in virtual time: device states, plans and traces on a simulated device, and the design space as a table.
//!
//! # Model
//! A [`Trial`] is a row: a profile, overrides of its keys, a state, a workload and a seed. [`Evaluator::evaluate`] returns what the
//! device did. It is one pure function, so any engine can compute the rows in any order: the command line, Python, a cluster.
//!
//! # Invariants
//! - The result of a row depends on the row alone, except for [`TrialResult::wall_s`].
//! - Every row begins with its device in a saved state. So it makes no difference whether the state was in the cache.
//! - Nothing is printed.

mod class_observer;
mod error;
mod evaluator;
mod precondition;
mod run;
mod sampling;
mod setting;
mod state_cache;
mod table;
mod table_file;
mod trial;
mod workload;

pub use class_observer::SampleLane;
pub use error::SweepError;
pub use evaluator::{Evaluator, RESULT_COLUMNS};
pub use precondition::{FilledState, Preconditioned, precondition};
pub use run::{NoRecorder, RunRecorder, SimulatedRun, replay, run_plans};
pub use sampling::Sampling;
pub use setting::{Grid, Setting, override_key};
pub use state_cache::StateCache;
pub use table::{Table, TableColumn};
pub use table_file::{read_table, table_from_bytes, table_to_bytes, write_table};
pub use trial::{ModeResult, Trial, TrialResult, evaluate_trial};
pub use workload::{names_a_file, profile_of, workload_of};
