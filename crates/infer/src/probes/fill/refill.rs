//! What idle time makes free of a SLC cache that is full, and what of it still holds data then.
//!
//! # Model
//! A region that is full reclaims blocks a block at a time: one write in many is a latency spike. With idle time between them two latency spikes are as
//! much further apart as the rest made free. The chance of that is taken from the distances of latency spikes without idle time: as
//! many of them are as long, or, of regular ones, by Cantelli's inequality for this number of deviations. Of what the rest began to move
//! only a part is left: the first latency spike after it may be smaller, and ends what the rest made free.
//!
//! # Invariants
//! - nothing of the region is overwritten, which would reclaim blocks in it.

use crate::priors;
use crate::signals::cycles::{Cycle, cycles};
use crate::signals::statistics::{deviation, mean, upper_median};
use crate::signals::steps::{Spike, spike_distance, spike_worth};
use flashlab_base::Bytes;

use crate::InferenceSettings;
use crate::halt::Halt;
use crate::patterns::filling::{LARGE_WRITES_SHARE, reserved, sequential_writes};
use crate::session::Session;

/// Pieces of the distance between two latency spikes, after each of which it is looked whether the region is full.
const PIECES: usize = 8;
/// Idle times at most. Unit: idle times. Source: choice: before the first one nobody knows how much of the open block was used, and the median
/// of two is none. Too many: writes are spent that other probes need; too few: chance decides.
pub(super) const IDLE_TIMES: usize = 3;
/// They end when the chance that latency spikes are so far apart without them is as small as this;
const CLEAR_P: f64 = 0.02;
/// and a chance as large as this shows that idle times make nothing free.
const USUAL_P: f64 = 0.4;
/// Where nothing shows when latency spikes begin, there are at least this number of distances between them. So many are drawn, too.
pub(super) const DISTANCES_LEAST: usize = 8;
/// Moving a block costs this many times as much as other writes, and this number of nanoseconds, at least: sixteen pages and an erase.
const SPIKE_LEAST: f64 = 15.0;
/// The first latency spike may be smaller, by this factor, and this number of writes off.
const SMALLER: f64 = 0.15;
const NEAR: usize = 2;
/// A period this many times as long, or as short, is another one.
const ALIKE: f64 = 1.4;
/// Distances are not believed to scatter less than this part of their median.
const SCATTER_LEAST: f64 = 0.1;
/// What writes cost when the region is full.
pub(super) struct Full {
    pub(super) spike: Spike,
    /// Writes from one latency spike to the next, typically, and all of them.
    pub(super) distance: usize,
    /// Writes from one stall to the next, however few.
    pub(super) stalls: usize,
    distances: Vec<usize>,
    /// How much they scatter.
    scatter: f64,
    /// Until where latency spikes are looked for.
    pub(super) most: usize,
}

impl Full {
    /// From what the fill took behind the place from which on the region is full, which held `before` writes already.
    pub(super) fn after(costs: &[f64], place: usize, before: usize) -> Full {
        let (cheap, costs) = costs.split_at(place.min(costs.len()));
        let spike = spike_behind(cheap, costs);
        let stalls = distance(costs, spike);
        let distance = stalls.max(PIECES);
        let places: Vec<usize> = (0..costs.len()).filter(|&index| spike.is(costs[index])).collect();
        let far = |pair: &[usize]| Some(pair[1] - pair[0]).filter(|far| 2 * far > distance);
        let distances: Vec<usize> = places.windows(2).filter_map(far).collect();
        let far: Vec<f64> = distances.iter().map(|&far| far as f64).collect();
        let scatter = deviation(&far, distance as f64).max(SCATTER_LEAST * distance as f64);
        let held = before + place;
        Full { spike, distance, stalls, distances, scatter, most: held + held / 4 + 2 * distance }
    }

    /// Whether latency spikes may be blocks that are moved.
    pub(super) fn moves_blocks(&self) -> bool {
        self.spike.excess > priors::RELOCATION_LEAST.max(SPIKE_LEAST * self.spike.usual)
    }

    /// Whether there are enough latency spikes that they may be a region's, though nothing shows when they begin.
    pub(super) fn has_spikes(&self) -> bool {
        self.distances.len() >= DISTANCES_LEAST && self.moves_blocks()
    }

    /// The chance that there is no latency spike for so long.
    fn chance(&self, wait: usize) -> f64 {
        let as_long = self.distances.iter().filter(|&&distance| distance >= wait).count();
        let by_rank = (as_long + 1) as f64 / (self.distances.len() + 1) as f64;
        let deviations = (wait as f64 - self.distance as f64).max(0.0) / self.scatter;
        by_rank.min(1.0 / (1.0 + deviations * deviations))
    }
}

/// What the latency spikes behind a rise are: together they are worth the rise. Other stalls there may be before it as well.
fn spike_behind(cheap: &[f64], costs: &[f64]) -> Spike {
    let worth =
        if cheap.is_empty() { f64::INFINITY } else { (mean(costs) - mean(cheap)) * costs.len() as f64 };
    spike_worth(costs, worth)
}

/// From one latency spike to the next: the likeliest period of stalls, if it is about as long as latency spikes are apart.
fn distance(costs: &[f64], spike: Spike) -> usize {
    let typical = spike_distance(costs, spike);
    let alike =
        |cycle: &Cycle| (ALIKE.recip()..ALIKE).contains(&(cycle.period as f64 / typical.max(1) as f64));
    cycles(costs).into_iter().find(alike).map_or(typical, |cycle| cycle.period)
}

/// What idle times make free.
pub(super) struct Refill {
    /// Writes from a latency spike to the next one with idle time between them, the median of several.
    pub(super) wait: usize,
    /// The same to the first one that is smaller, as a part of its block had to be moved by the rest.
    pub(super) until_any: usize,
    /// The chance of this number without idle time.
    pub(super) p: f64,
    /// Fewer writes are no block that became free.
    pub(super) least: usize,
}

impl Refill {
    /// Whether idle times make a block free at least, and that is no chance.
    pub(super) fn is_clear(&self) -> bool {
        self.p <= CLEAR_P && self.wait >= self.least
    }
}

/// The first latency spike, which is smaller where only a part of a block has to be moved.
pub(super) fn first_spike(costs: &[f64], place: usize) -> usize {
    if place >= costs.len() {
        return place;
    }
    let (cheap, full) = costs.split_at(place);
    let spike = spike_behind(cheap, full);
    let distance = distance(full, spike);
    first_of_any(costs, place, spike, distance)
}

/// The first of the latency spikes of which that at `place` is the first whole one: a smaller one where there would be one before it.
fn first_of_any(costs: &[f64], place: usize, spike: Spike, distance: usize) -> usize {
    let Some(before) = place.checked_sub(distance).filter(|&before| before > NEAR) else { return place };
    let least = spike.usual + SMALLER * spike.excess;
    let is_one = |index: &usize| costs.get(*index).is_some_and(|&cost| cost > least);
    (before - NEAR..before + NEAR + 1).find(is_one).unwrap_or(place)
}

/// What may be written yet, so that the rest of the device can be filled, which takes more than the share of those who do that.
pub(super) fn affordable(session: &Session<'_, '_>) -> Bytes {
    let share = InferenceSettings::usual_budget(session.capacity()).0 as f64 * LARGE_WRITES_SHARE;
    let kept = reserved(session).0.saturating_sub(share as u64);
    Bytes(session.writes_left().0.saturating_sub(kept))
}

/// What idle times make free; `None` if the region is not full again.
pub(super) fn refilled(
    session: &mut Session<'_, '_>,
    size: Bytes,
    full: &Full,
) -> Result<Option<Refill>, Halt> {
    let (first, mut written) = until_full(session, size, full, Bytes::ZERO, 4 * full.distance)?;
    let mut last = first.map(|[spike, _]| spike);
    let (mut waits, mut until_any, mut p) = (Vec::new(), Vec::new(), 1.0);
    for _ in 0..IDLE_TIMES {
        let most = full.most.min((affordable(session).0 / size.0) as usize);
        let enough = waits.last().is_some_and(|&wait: &f64| p <= CLEAR_P || (most as f64) < 2.0 * wait);
        if enough {
            break;
        }
        session.idle(priors::BACKLOG_DONE)?;
        // Elsewhere: what is overwritten in the region reclaims blocks in it.
        let (first, more) = until_full(session, size, full, size * written as u64, most)?;
        let Some([spike, any]) = first else { break };
        let begun = last.map_or(0, |last| (written - last) % full.distance);
        let wait = spike + begun;
        (last, written) = (Some(written + spike), written + more);
        p *= full.chance(wait);
        waits.push(wait as f64);
        until_any.push((any + begun) as f64);
        if full.chance(wait) > USUAL_P {
            break;
        }
    }
    if waits.is_empty() {
        return Ok(None);
    }
    let (wait, until_any) = (upper_median(&waits) as usize, upper_median(&until_any) as usize);
    Ok(Some(Refill { wait, until_any, p, least: (7 * full.distance).div_ceil(4) }))
}

/// Writes sequentially from `begin` on until there are latency spikes; how many writes were before the first one, if there is
/// one, and before a smaller one, and how many there were. It ends with little of a new block begun.
fn until_full(
    session: &mut Session<'_, '_>,
    size: Bytes,
    full: &Full,
    begin: Bytes,
    most: usize,
) -> Result<(Option<[usize; 2]>, usize), Halt> {
    let piece = full.distance / PIECES;
    let mut costs: Vec<f64> = Vec::new();
    let mut last: Option<usize> = None;
    while costs.len() + piece <= most {
        let written = costs.len();
        let place = begin + size * written as u64;
        costs.extend(sequential_writes(session, "after-a-rest", size, place, size * piece as u64)?);
        if let Some(index) = (written..costs.len()).find(|&index| full.spike.is(costs[index])) {
            // One latency spike alone may be an outlier.
            match last.filter(|last| index - last <= 2 * full.distance) {
                Some(last) => {
                    return Ok((
                        Some([last, first_of_any(&costs, last, full.spike, full.distance)]),
                        costs.len(),
                    ));
                }
                None => last = Some(index),
            }
        }
    }
    Ok((None, costs.len()))
}
