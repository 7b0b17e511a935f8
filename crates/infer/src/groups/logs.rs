//! How many logs all blocks share: until they are full for the first time.
//!
//! # Model
//! Where the units that are replaced as a whole are known, one page is written in the middle of one after the other, at
//! random. A log-structured page map and shared logs take it wherever they write (FAST, Lee et al., ACM TECS 6(3), 2007); a
//! block that has a log of its own is merged for nearly each of these writes.
//!
//! The middle of each unit lies on the same die. So its logs fill one after the other, and when the last one is full the
//! first one makes room, with each one that follows: all blocks that have pages in it are merged. The number of logs is
//! when that comes for the first time, in times of what lies between it and the next.
//!
//! A device may put the emptying off until it has spare blocks for no more: then the first one that is waited for comes
//! later. But from when on something is owed, each write does a part of it first and takes a little longer: where a whole number of
//! logs before the first wait the usual cost rises, the logs were full.
//!
//! # Invariants
//! - the middle of a unit begins no block: what begins one goes to a log of its own;
//! - what is told was seen several times.

use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use super::cycles::{cycles, level};
use super::figures::{mean, median};
use super::patterns::{ios, responses};
use super::writes::apart;
use crate::halt::Halt;
use crate::session::Session;

/// The smallest writes.
const IO_SIZE: Bytes = Bytes::kib(16);
/// Writes that are looked at first, and how many more there are each time.
const FIRST: usize = 192;
const GROWTH: f64 = 0.25;
/// The share of what may be written that this may take, and the most writes.
const PART: f64 = 0.6;
const MOST: usize = 1 << 13;
/// Where each write costs so many times what it costs in order, it is merged.
const MERGED: f64 = 8.0;
/// Emptying a full log takes so many times what a write takes.
const EMPTIED: f64 = 12.0;
/// Logs that were emptied, at least.
const EMPTIED_LEAST: usize = 4;

/// A rise of the usual cost is one if it is so much likelier than none, in nats.
const RISE_GAIN: f64 = 6.0;
/// Costs so many times the usual one, or as small a part of it, are outliers.
const OUTLIER: f64 = 1.5;

/// What writes in the middle of units show.
pub(super) enum Logs {
    /// Each costs a merge; what they cost.
    Merged(Vec<f64>),
    /// So many logs are shared.
    Shared { logs: u32, first: usize, period: usize, costs: Vec<f64> },
    /// Neither.
    Unclear,
}

/// Writes one page in the middle of units of `unit` until logs are full. `sequential` is what it costs in order.
pub(super) fn logs(session: &mut Session<'_, '_>, unit: Bytes, sequential: f64) -> Result<Logs, Halt> {
    let size = IO_SIZE.max(session.block());
    let units = session.capacity().0 / unit.0.max(1);
    if unit < size * 4 || units < 4 {
        return Ok(Logs::Unclear);
    }
    let middle = Bytes(unit.0 / 2).round_down(size);
    let most = ((session.writes_left().0 as f64 * PART) as u64 / size.0).min(MOST as u64) as usize;
    let mut costs: Vec<f64> = Vec::new();
    while costs.len() < most {
        let count = FIRST.max((costs.len() as f64 * GROWTH) as usize).min(most - costs.len());
        let writes =
            ios(Mode::Write, Location::Random, size, count as u64).on_target(middle, unit * (units - 1));
        match session.run("middle-of-units", &apart(writes, unit)) {
            Err(Halt::Time | Halt::Budget { .. }) if !costs.is_empty() => break,
            other => costs.extend(responses(&other?)),
        }
        let usual = median(&costs[costs.len() / 2..]);
        if usual > MERGED * sequential {
            return Ok(Logs::Merged(costs));
        }
        let Some(cycle) = cycles(&costs).into_iter().find(|cycle| level(cycle, &costs) > EMPTIED * usual)
        else {
            continue;
        };
        // The first log may hold little, as it was begun before.
        let least = EMPTIED * usual;
        let emptied = |index: &usize| cycle.covers(*index) && costs[*index] > least;
        let Some(first) = (0..costs.len()).find(emptied) else { continue };
        // A part of the first log may have been full before.
        let full = rise_before(&costs[..first], cycle.period);
        let (logs, period) = (full.div_ceil(cycle.period), cycle.period);
        if logs >= 1 && costs.len() >= first + EMPTIED_LEAST * period {
            return Ok(Logs::Shared { logs: logs as u32, first, period, costs });
        }
    }
    Ok(Logs::Unclear)
}

/// The write from which on others cost more, a whole number of periods before the end; the end if none do.
fn rise_before(costs: &[f64], period: usize) -> usize {
    let usual = median(costs);
    let of = |costs: &[f64]| {
        let near = costs.iter().filter(|&&cost| (usual / OUTLIER..usual * OUTLIER).contains(&cost));
        let times: Vec<f64> = near.map(|cost| cost.ln()).collect();
        let middle = mean(&times);
        (times.len() as f64, middle, times.iter().map(|time| (time - middle).powi(2)).sum::<f64>())
    };
    let (count, _, without) = of(costs);
    let gain = |at: usize| {
        let ((first, low, before), (second, high, behind)) = (of(&costs[..at]), of(&costs[at..]));
        let rises = high > low && first >= 2.0 && second >= 2.0 && before + behind > 0.0;
        if rises { count / 2.0 * (without / (before + behind)).ln() } else { 0.0 }
    };
    let places = (1..).map_while(|periods| costs.len().checked_sub(periods * period)).filter(|&at| at > 0);
    let best = places.map(|at| (at, gain(at))).max_by(|a, b| a.1.total_cmp(&b.1));
    best.filter(|&(_, gain)| gain >= RISE_GAIN).map_or(costs.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    #[test]
    fn what_is_put_off_makes_writes_a_little_dearer() {
        for seed in 0..20 {
            let mut random = Prng::new(Seed(seed));
            let mut write = |share: f64| {
                let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
                1e6 * share * (0.95 + 0.1 * random.unit()) * outlier
            };
            let owed: Vec<f64> = (0..500).map(|at| write(if at < 52 { 1.0 } else { 1.1 })).collect();
            assert_eq!(rise_before(&owed, 32), 52);
            let even: Vec<f64> = (0..500).map(|_| write(1.0)).collect();
            assert_eq!(rise_before(&even, 32), 500);
        }
    }
}
