//! What idle time frees of an SLC cache that folds at the host's pace.
//!
//! # Model
//! Most drives fold a few pages with each write once the cache is full. No write waits for a whole block then: the rate alone falls, to a
//! fold rate. In idle time the cache is folded, and writes are fast again until it is full. Nothing else that makes a fill slower comes
//! back that way: slow pages, a map that is written back and garbage collection stay.
//!
//! # Method
//! 1. Sequential writes go on until they are slow: two windows in succession are above the middle of the two rates.
//! 2. After idle time they go on elsewhere, until they are slow again. What was written before that was free.
//! 3. How much of the open block was used before the idle time is known only up to whole blocks. So the last idle time comes a bit later:
//!    if that much less is fast, both times belong to one block, and count.
//! 4. The chance that the rate differs by noise is that of the windows before the fall among those of the fill's end (Mann-Whitney).
//!
//! # Invariants
//! - Nothing of the cache is overwritten, which would free pages in it.

use crate::priors;
use crate::signals::cycles::OUTLIER_OF_LEVEL;
use crate::signals::statistics::windows;
use crate::signals::steps::CostRise;
use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_base::Bytes;

use super::refill::{Full, IDLE_TIMES, Refill, affordable};
use crate::halt::Halt;
use crate::patterns::filling::sequential_writes;
use crate::session::Session;

/// A fold rate is this many times as slow as the cache, at least. Unit: ratio. Source: Grupp et al., table 2: cells of two bits take over
/// twice what SLC takes; a link in front hides a part. Too high: caches behind a slow link are denied; too low: deferred erases of log
/// blocks look like folds.
const FOLDS_LEAST: f64 = 1.5;
/// What was written before the rise has this number of windows at least, and twice this number at most. Unit: windows. Source: choice: the size
/// of the cache is known to two windows, and what the fold rate is seen by is 3 to 6 % of the cache. Too many: noise looks like the end of
/// the cache; too few: the writes that show the end take space that other probes need.
const WINDOWS: usize = 32;
/// The fewest writes of a window. Unit: writes. Source: choice: the mean halves the scatter of single writes. Too many: small caches are
/// not found; too few: a few slow writes are a slow window.
pub(super) const WRITES_OF_A_WINDOW: usize = 4;

/// Writes until their rate falls.
struct UntilSlow {
    /// The first slow write; `None` if no window was fast.
    fall: Option<usize>,
    /// The windows before it.
    fast: Vec<f64>,
    /// How many writes there were.
    written: usize,
}

/// What separates the rate of the cache from the fold rate.
struct Rates {
    window: usize,
    middle: f64,
    /// No write counts for more, so that no outlier makes a window slow.
    most: f64,
}

impl Rates {
    fn new(step: &CostRise, full: &Full, place: usize) -> Rates {
        let [least, most] = [2 * WINDOWS, WINDOWS].map(|windows| (place / windows).max(WRITES_OF_A_WINDOW));
        // Two stalls in each, so that no window is fast between them.
        let window = (2 * full.stalls).clamp(least, most);
        let spike = full.spike.usual + OUTLIER_OF_LEVEL * full.spike.excess;
        let most = spike.max(OUTLIER_OF_LEVEL * step.after);
        Rates { window, middle: (step.before + step.after) / 2.0, most }
    }

    fn windows(&self, costs: &[f64]) -> Vec<f64> {
        windows(&costs.iter().map(|cost| cost.min(self.most)).collect::<Vec<_>>(), self.window)
    }

    /// Where the costs rise: the sum of what they exceed the middle by is lowest there.
    fn fall(&self, costs: &[f64]) -> usize {
        let (mut sum, mut lowest, mut place) = (0.0, 0.0, 0);
        for (index, cost) in costs.iter().enumerate() {
            sum += cost.min(self.most) - self.middle;
            if sum < lowest {
                (lowest, place) = (sum, index + 1);
            }
        }
        place
    }
}

/// Whether a rise may be the end of an SLC cache that folds at the host's pace: it is large, and no write stalls for a block, or stalls are
/// so frequent that they fold less than blocks of all dies.
pub(super) fn may_fold_at_pace(step: &CostRise, full: &Full, place: usize) -> bool {
    step.ratio() >= FOLDS_LEAST && (!full.moves_blocks() || full.stalls <= place / WINDOWS)
}

/// What idle times free; `None` if the writes that are left do not show it. `costs` are those of the fill, which are slow from `place` on.
pub(super) fn refilled_at_pace(
    session: &mut Session<'_, '_>,
    size: Bytes,
    full: &Full,
    step: &CostRise,
    (costs, place): (&[f64], usize),
) -> Result<Option<Refill>, Halt> {
    let rates = Rates::new(step, full, place);
    let slow = rates.windows(&costs[place.min(costs.len())..]);
    let first = until_slow(session, size, &rates, Bytes::ZERO, full.most)?;
    let Some((mut written, mut behind)) = first.map(|first| (first.written, first.behind())) else {
        return Ok(None);
    };
    let (mut waits, mut p): (Vec<Wait>, f64) = (Vec::new(), 1.0);
    for idle in 0..IDLE_TIMES {
        session.idle(priors::BACKLOG_DONE)?;
        let Some(next) = until_slow(session, size, &rates, size * written as u64, full.most)? else { break };
        let Some(fall) = next.fall else {
            return Ok(Some(Refill { wait: 0, until_any: 0, p: 1.0, least: rates.window }));
        };
        p *= mann_whitney(&next.fast, &slow).p_below;
        waits.push(Wait { fall, behind });
        (written, behind) = (written + next.written, next.behind());
        if idle + 2 == IDLE_TIMES {
            // Beyond the error of a fall, and few enough that mostly no new block begins.
            let later = (2 * rates.window).min((affordable(session).0 / size.0) as usize);
            let length = size * later as u64;
            sequential_writes(session, "after-idle", size, size * written as u64, length)?;
            (written, behind) = (written + later, behind + later);
        }
    }
    let wait = freed(&waits);
    Ok(wait.map(|wait| Refill { wait, until_any: wait, p, least: rates.window }))
}

/// What was fast after an idle time, and how many writes were slow before it.
struct Wait {
    fall: usize,
    behind: usize,
}

/// What idle time frees, with what was used of the open block if that is known.
fn freed(waits: &[Wait]) -> Option<usize> {
    let longest = waits.iter().map(|wait| wait.fall).max()?;
    let [.., one, other] = waits else { return Some(longest) };
    let later = other.behind.saturating_sub(one.behind);
    let is_one_block = (one.fall as f64 - other.fall as f64 - later as f64).abs() < later as f64 / 2.0;
    Some(if is_one_block { one.fall + one.behind } else { longest })
}

impl UntilSlow {
    /// The writes behind the fall.
    fn behind(&self) -> usize {
        self.fall.map_or(0, |fall| self.written - fall)
    }
}

/// Writes sequentially from `begin` on until two windows in succession are slow; `None` if `most` writes are not, or none are left.
fn until_slow(
    session: &mut Session<'_, '_>,
    size: Bytes,
    rates: &Rates,
    begin: Bytes,
    most: usize,
) -> Result<Option<UntilSlow>, Halt> {
    let mut costs: Vec<f64> = Vec::new();
    while costs.len() + rates.window <= most.min(costs.len() + (affordable(session).0 / size.0) as usize) {
        let place = begin + size * costs.len() as u64;
        costs.extend(sequential_writes(session, "after-idle", size, place, size * rates.window as u64)?);
        let fast = rates.windows(&costs);
        if let [.., one, other] = fast[..]
            && one > rates.middle
            && other > rates.middle
        {
            let fall = rates.fall(&costs);
            let before = fast[..fall / rates.window].to_vec();
            let fall = (fall >= rates.window).then_some(fall);
            return Ok(Some(UntilSlow { fall, fast: before, written: costs.len() }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_of_the_open_block_counts_where_it_is_known() {
        let waits = |all: &[(usize, usize)]| {
            freed(&all.iter().map(|&(fall, behind)| Wait { fall, behind }).collect::<Vec<_>>())
        };
        // Blocks of 100 writes, ten of them: 20 and 80 of the open block are used.
        assert_eq!(waits(&[(930, 0), (980, 20), (920, 80)]), Some(1000));
        // Blocks of 30: 20 of one are used, and of the third 20.
        assert_eq!(waits(&[(960, 0), (970, 20), (970, 80)]), Some(970));
        assert_eq!((waits(&[(960, 0)]), waits(&[])), (Some(960), None));
    }
}
