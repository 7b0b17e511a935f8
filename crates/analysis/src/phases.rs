//! The two-phase model of uFLIP section 4.2: start-up phase, running phase and period of a
//! baseline pattern, and IOIgnore and IOCount that follow from them.
//!
//! Everything uses the logarithm of response times. 400 us and 27 ms differ by a factor. One IO that takes a
//! thousand times as long counts seven times as much as one that takes e times as long, not a thousand times.
//!
//! The confidences of the start-up phase and of the period mean the same: 1 - p if it was found, and p if it
//! was not. Here p is the probability that a device without it shows at least this much of it, corrected for
//! all positions that were tested.

use crate::findings::Phases;
use crate::period::{self, Period};
use crate::point::mean;
use crate::startup::{self, Startup};

/// Finds the phases of a baseline pattern from its response times in nanoseconds, in the order of
/// the IOs and from the very first one (uFLIP section 4.2).
///
/// A start-up phase of 8 IOs to three quarters of the run can be found, and periods of 2 IOs to an eighth of
/// the running phase.
pub fn phases(response_ns: &[u64]) -> Phases {
    let log: Vec<f64> = response_ns.iter().map(|&ns| (ns.max(1) as f64).ln()).collect();
    let (startup, period) = both(&log);
    let ios = startup.ios.unwrap_or(0);
    let mean_ns = |part: &[u64]| mean(&part.iter().map(|&ns| ns as f64).collect::<Vec<_>>());
    let confidence = |found: bool, p: f64| if found { 1.0 - p } else { p };
    Phases {
        startup_ios: ios as u64,
        startup_ns_mean: startup.ios.and_then(|ios| mean_ns(&response_ns[..ios])),
        running_ns_mean: mean_ns(&response_ns[ios..]).unwrap_or(0.0),
        period_ios: period.ios.map(|ios| ios as u64),
        startup_confidence: confidence(startup.ios.is_some(), startup.p),
        period_confidence: confidence(period.ios.is_some(), period.p),
        evidence: format!("{}; {}.", startup.evidence, period.evidence),
    }
}

/// The period of several runs that follow one another, as one sequence of IOs in which each run has its own level; and the figures
/// that decided. An oscillation that counts IOs goes on from run to run, so that all of them together show longer periods than each.
pub fn common_period<'a>(runs: impl IntoIterator<Item = &'a Vec<f64>>) -> (Option<u64>, String) {
    let centred = |run: &Vec<f64>| -> Vec<f64> {
        let logs: Vec<f64> = run.iter().map(|ns| ns.max(1.0).ln()).collect();
        let level = mean(&logs).unwrap_or(0.0);
        logs.into_iter().map(|log| log - level).collect()
    };
    let all: Vec<f64> = runs.into_iter().flat_map(centred).collect();
    let Period { ios, evidence, .. } = period::find(&all);
    (ios.map(|ios| ios as u64), evidence)
}

/// The start-up phase, and the period of what follows it. Before the first slow IO of an oscillation, up to
/// one period can pass. That is no start-up phase: a start-up phase must differ from the oscillation.
fn both(log: &[f64]) -> (Startup, Period) {
    let startup = startup::find(log);
    let Some(ios) = startup.ios else { return (startup, period::find(log)) };
    let (period, whole) = (period::find(&log[ios..]), period::find(log));
    match period.ios.or(whole.ios) {
        Some(length) if continues_backwards(log, ios, length) => (startup::oscillation(ios), whole),
        _ => (startup, period),
    }
}

/// Whether the oscillation from `running` on, continued backwards, explains at least half of the difference
/// of the earlier IOs.
fn continues_backwards(log: &[f64], running: usize, period: usize) -> bool {
    let level = |part: &[f64]| mean(part).unwrap_or(0.0);
    let shape = period::shape(&log[running..], period);
    let expected: Vec<f64> = (1..=running).map(|back| shape[(period - back % period) % period]).collect();
    let apart = level(&log[..running]) - level(&log[running..]);
    (apart - level(&expected)).abs() < apart.abs() / 2.0
}

/// IOIgnore and IOCount for runs with this pattern (uFLIP section 4.2). IOIgnore is the start-up phase plus 2
/// %, rounded up to a multiple of 8, as the paper used 128 for 125. IOCount counts after IOIgnore. It is at
/// least `io_count_min`, covers at least 8 periods and ends with a whole one.
pub fn io_ignore_and_count(phases: &Phases, io_count_min: u64) -> (u64, u64) {
    let startup = phases.startup_ios;
    let io_ignore =
        startup.saturating_add(startup.div_ceil(50)).checked_next_multiple_of(8).unwrap_or(startup);
    let io_count = match phases.period_ios.filter(|&period| period > 0) {
        None => io_count_min,
        Some(period) => io_count_min.div_ceil(period).max(8).saturating_mul(period),
    };
    (io_ignore, io_count)
}

#[cfg(test)]
mod tests;
