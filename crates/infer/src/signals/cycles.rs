//! Periodic stalls in groups: from the costs of equal writes, how many writes lie between two collections or merges.
//!
//! # Model
//! Where space is given out by units that several dies fill at the same time, at each end of a unit a few of the writes
//! within a window are expensive, the same ones each time or, behind a buffer, now these and now those. So each write is
//! expensive with one probability within the windows and with another one elsewhere, and the windows come with a period. Of
//! all periods, phases and widths the likeliest is taken, with what it is more likely than no windows at all (the
//! logarithm of the ratio of the likelihoods). A multiple of the period leaves half of the stalls without a window and a
//! part of it has windows without stalls, so that neither is as likely.
//!
//! What is expensive is not known: costs above several levels, with and without those that are far above, are tried. When
//! it began is not known: the last part of the writes is looked at, from all of them down to a quarter.
//!
//! # Invariants
//! - a cycle has stalls in nearly all of its windows;
//! - the same costs give the same cycles.

mod cycle;
mod fold;
mod onset;

use super::statistics::{expensive, quantile, upper_median};
pub use cycle::Cycle;
use fold::{Fold, PERIODS_MIN, distances, rounded};

/// How much likelier than no cycle, as a log-likelihood ratio, beyond the logarithm of how many periods and phases this many writes have: for all
/// widths and levels that are tried.
const GAIN_LEAST: f64 = 9.0;
/// This many times likelier a cycle in time is that is not one in writes.
const CLOCK_GAIN: f64 = 1.2;
/// Writes that are more expensive than so large a part of all may be a little more expensive by rule.
const LITTLE: [f64; 2] = [0.85, 0.93];
/// Costs this many times above a level may be left out.
pub const FAR_ABOVE: f64 = 2.5;
/// At most so large a share of the writes is expensive, and at most this many are looked at.
const SHARE_MOST: f64 = 0.3;
const STALLS_MOST: usize = 2500;
/// All writes, the last half of them, and the last quarter are looked at.
const HALVINGS: u32 = 3;

/// The cycles of several levels of costs, the likeliest first.
pub fn cycles(costs: &[f64]) -> Vec<Cycle> {
    let mut found: Vec<Cycle> = Vec::new();
    for halvings in 0..HALVINGS {
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

/// Whether stalls come back by the clock rather than by what is written: then they are regular in time, and with jitter less
/// so in writes.
pub fn is_by_the_clock(cycle: &Cycle, costs: &[f64], times: &[f64]) -> bool {
    let of_time = cycles(&over_time(costs, times))
        .into_iter()
        .find(|of_time| (0.8..1.25).contains(&(of_time.period as f64 / cycle.period as f64)));
    of_time.is_some_and(|of_time| of_time.gain > CLOCK_GAIN * cycle.gain)
}

/// The levels between which costs may be stalls.
fn levels(costs: &[f64]) -> Vec<(f64, f64)> {
    let (least, expensive) = expensive(costs);
    if expensive.len() < PERIODS_MIN {
        return Vec::new();
    }
    let lows = [least, quantile(&expensive, 0.3), quantile(&expensive, 0.6), quantile(&expensive, 0.85)];
    let mut levels: Vec<(f64, f64)> =
        lows.into_iter().flat_map(|low| [(low, f64::INFINITY), (low, FAR_ABOVE * low)]).collect();
    // Work that is done by and by makes many writes a little more expensive.
    levels.extend(LITTLE.map(|share| (quantile(costs, share), least.max(quantile(costs, 0.97)))));
    levels
}

/// The likeliest cycle of the stalls between two levels from a write on.
fn likeliest(costs: &[f64], from: usize, low: f64, high: f64) -> Option<Cycle> {
    let stalls: Vec<usize> =
        (from..costs.len()).filter(|&index| costs[index] > low && costs[index] <= high).collect();
    let length = costs.len() - from;
    if stalls.len() < PERIODS_MIN
        || stalls.len() > STALLS_MOST
        || stalls.len() as f64 > SHARE_MOST * length as f64
    {
        return None;
    }
    let fold = Fold { stalls: &stalls, from, length };
    let candidates = distances(&stalls, length / PERIODS_MIN);
    let best = candidates
        .into_iter()
        .filter_map(|period| fold.best(period))
        .max_by(|a, b| a.gain.total_cmp(&b.gain))?;
    let near = best.width.clamp(2, best.period / 2 + 1).min(32);
    let best = (best.period.saturating_sub(near).max(2)..=best.period + near)
        .filter_map(|period| fold.best(period))
        .max_by(|a, b| rounded(a).total_cmp(&rounded(b)))?;
    (best.gain >= GAIN_LEAST + 2.0 * (length as f64).ln()).then_some(Cycle { low, high, ..best })
}

/// The median of the costs that count as stalls of a cycle.
pub fn level(cycle: &Cycle, costs: &[f64]) -> f64 {
    upper_median(
        &costs[cycle.from..].iter().copied().filter(|&cost| cycle.is_stall(cost)).collect::<Vec<_>>(),
    )
}

#[cfg(test)]
mod tests;
