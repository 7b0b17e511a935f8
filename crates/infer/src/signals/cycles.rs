//! Finds periodic stalls: how many writes lie between two garbage collections or merges.
//!
//! # Model
//! Dies that fill their blocks at the same time erase them at the same time. So in each period, some of the writes
//! within a window are slow: the same ones each time or, behind a write buffer, different ones. Each write is slow
//! with one probability within the windows, and with another one elsewhere. A multiple of the period leaves half of
//! the stalls outside the windows, and a part of it has windows without stalls: neither is as likely.
//!
//! # Method
//! 1. Writes above several levels count as stalls, with and without those far above the level.
//! 2. All writes are examined, then the last half, then the last quarter: the beginning of the cycle is not known.
//! 3. Of all periods, phases and widths the one with the largest log-likelihood ratio to no windows is taken.
//!
//! # Invariants
//! - Nearly all windows of a cycle contain a stall.
//! - The same costs give the same cycles.

mod cycle;
mod fold;
mod onset;

use super::statistics::{quantile, slow, upper_median};
use crate::thresholds;
pub use cycle::Cycle;
use fold::{Fold, distances, rounded};

/// A cycle in time has to be this many times as likely as the one in writes, as a ratio of log-likelihood
/// ratios. Unit: ratio. Source: tuned. Too high: stalls by the clock count as erase blocks; too low: erase
/// blocks count as stalls by the clock.
const CLOCK_RATIO: f64 = 1.2;
/// The quantiles of all costs from which on deferred work may make writes a little slower. Unit: share.
/// Source: tuned. Too high: work in many small parts is not seen; too low: jitter counts as deferred work.
const DEFERRED_QUANTILES: [f64; 2] = [0.85, 0.93];
/// Costs this many times above a level are left out in one of two looks. Unit: ratio. Source: tuned. Too
/// high: outliers stay in; too low: half of the stalls of one cycle are left out.
pub const OUTLIER_OF_LEVEL: f64 = 2.5;
/// The greatest share of the writes that are stalls. Unit: share. Source: tuned. Too high: usual writes count
/// as stalls; too low: cycles of deferred work are not seen.
const STALLS_SHARE_MOST: f64 = 0.3;
/// The most stalls whose distances are compared: the time of the search grows with their square. Unit:
/// stalls. Source: choice. Too many: the search takes seconds; too few: levels with many stalls are not
/// tried.
const STALLS_MOST: usize = 2500;
/// The looks at the writes: all of them, the last half, and the last quarter. Unit: looks. Source: choice.
/// Too many: a quarter of few writes has cycles by chance; too few: a cycle that begins late is hidden by the
/// writes before it.
const LOOKS_BACK: u32 = 3;

/// The cycles of several levels of costs, the likeliest first.
pub fn cycles(costs: &[f64]) -> Vec<Cycle> {
    let mut found: Vec<Cycle> = Vec::new();
    for halvings in 0..LOOKS_BACK {
        let length = costs.len() >> halvings;
        if length < 64 {
            break;
        }
        let from = costs.len() - length;
        for (low, high) in levels(&costs[from..]) {
            found.extend(likeliest(costs, from, low, high));
        }
    }
    found.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    found
}

/// Costs over time instead of over writes: in each tick of the mean time of a write the most expensive one that begins in it.
/// `times` is what goes by with each.
fn over_time(costs: &[f64], times: &[f64]) -> Vec<f64> {
    let tick = (times.iter().sum::<f64>() / times.len().max(1) as f64).max(1.0);
    let mut ticks = vec![0.0_f64; times.len() + 1];
    let mut now = 0.0;
    for (cost, time) in costs.iter().zip(times) {
        let at = ((now / tick) as usize).min(ticks.len() - 1);
        ticks[at] = ticks[at].max(*cost);
        now += time;
    }
    ticks
}

/// Whether stalls are periodic in time rather than in writes. With jitter, stalls that are regular in time are
/// less regular in writes.
pub fn is_by_the_clock(cycle: &Cycle, costs: &[f64], times: &[f64]) -> bool {
    let of_time = cycles(&over_time(costs, times))
        .into_iter()
        .find(|of_time| (0.8..1.25).contains(&(of_time.period as f64 / cycle.period as f64)));
    of_time.is_some_and(|of_time| of_time.gain > CLOCK_RATIO * cycle.gain)
}

/// The levels between which costs may be stalls.
fn levels(costs: &[f64]) -> Vec<(f64, f64)> {
    let (least, slow) = slow(costs);
    if slow.len() < thresholds::PERIODS_LEAST {
        return Vec::new();
    }
    let lows = [least, quantile(&slow, 0.3), quantile(&slow, 0.6), quantile(&slow, 0.85)];
    let mut levels: Vec<(f64, f64)> =
        lows.into_iter().flat_map(|low| [(low, f64::INFINITY), (low, OUTLIER_OF_LEVEL * low)]).collect();
    // Work that is done by and by makes many writes a little more expensive.
    levels.extend(DEFERRED_QUANTILES.map(|share| (quantile(costs, share), least.max(quantile(costs, 0.97)))));
    levels
}

/// The likeliest cycle of the stalls between two levels from a write on.
fn likeliest(costs: &[f64], from: usize, low: f64, high: f64) -> Option<Cycle> {
    let stalls: Vec<usize> =
        (from..costs.len()).filter(|&index| costs[index] > low && costs[index] <= high).collect();
    let length = costs.len() - from;
    if stalls.len() < thresholds::PERIODS_LEAST
        || stalls.len() > STALLS_MOST
        || stalls.len() as f64 > STALLS_SHARE_MOST * length as f64
    {
        return None;
    }
    let fold = Fold { stalls: &stalls, from, length };
    let candidates = distances(&stalls, length / thresholds::PERIODS_LEAST);
    let best = candidates
        .into_iter()
        .filter_map(|period| fold.best(period))
        .max_by(|a, b| a.gain.total_cmp(&b.gain))?;
    let near = best.width.clamp(2, best.period / 2 + 1).min(32);
    let best = (best.period.saturating_sub(near).max(2)..=best.period + near)
        .filter_map(|period| fold.best(period))
        .max_by(|a, b| rounded(a).total_cmp(&rounded(b)))?;
    (best.gain >= thresholds::PERIOD_GAIN + 2.0 * (length as f64).ln()).then_some(Cycle { low, high, ..best })
}

/// The median of the costs that count as stalls of a cycle.
pub fn level(cycle: &Cycle, costs: &[f64]) -> f64 {
    upper_median(
        &costs[cycle.from..].iter().copied().filter(|&cost| cycle.is_stall(cost)).collect::<Vec<_>>(),
    )
}

#[cfg(test)]
mod tests;
