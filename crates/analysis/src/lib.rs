//! Pure functions that turn response times into findings with evidence and confidence.
//!
//! The input is response times as integers of nanoseconds, in the order of the IOs. The output is the
//! vocabulary of [`findings`]. Invariants:
//! - There is no IO, no clock and no randomness: the same samples give the same findings.
//! - No response times cause a panic, and no figure is infinite or undefined.
//! - "None found" and "too few to decide" are different answers.

mod characteristics;
mod classes;
mod compare;
mod curve;
pub mod decide;
pub mod disturbance;
mod expect;
pub mod findings;
mod hints;
pub mod inference;
mod lingering;
mod period;
mod phases;
mod point;
mod precision;
mod stages;
mod startup;
mod steady;
pub mod student;
mod summary;
#[cfg(test)]
mod synthetic;
mod trace;
mod transient;
mod twin;
mod unsettled;

pub use characteristics::characteristics;
pub use classes::{ClassRow, ClassTable, Classes, Done, Locality};
pub use compare::{
    ComparedRun, Comparison, Estimate, ExperimentKey, ExperimentRow, FALSE_DIFFERENCE_P, FigureRow,
    MissingRow, QuantilePoint, Ratio, RatioVerdict, Responses, RunDetails, Statistic, StatisticRatio,
    TransferTotals, compare, ratios,
};
pub use expect::{
    Evidence, Expectation, ExpectationError, ExpectationKind, FigureUnit, Judgement, Outcome,
    expectable_names,
};
pub use hints::{DOUBLING_GAIN, hints};
pub use lingering::lingering;
pub use phases::{common_period, io_ignore_and_count, phases};
pub use point::{SPREAD_LIMIT, point, spread_warnings};
pub use precision::Precision;
pub use stages::{Returned, pattern_stages, pattern_stages_behind, returned};
pub use startup::STARTUP_IOS_MIN;
pub use steady::{CAPACITIES_BEFORE, CONFIDENCE_LEAST as STEADY_CONFIDENCE_LEAST, WINDOW, steady_state};
pub use summary::Summary;
pub use trace::trace;
pub use transient::{Transient, transient};
pub use twin::{
    PooledPoint, TwinDifference, TwinFigures, TwinKind, TwinMicroBenchmark, TwinPoint, TwinRegime,
};
pub use unsettled::{KNOWN_WITHIN, UnsettledRuns, without_unsettled_points};
