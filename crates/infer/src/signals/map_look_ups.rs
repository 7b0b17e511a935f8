//! Whether reads of the same pages take longer once a map on the flash has forgotten where they lie.
//!
//! # Model
//! Half of the reads are of a first round, half of a second one. A look-up is another read of the flash, which is a
//! good part of any read (DFTL, Gupta et al., ASPLOS 2009). Both rounds have to show it.

use crate::thresholds;
use flashlab_analysis::decide::ranks::{Interval, mann_whitney, ratio};
use flashlab_analysis::inference::Family;

/// Reads take at least this many times as long if a look-up of the map precedes each: it is one more read of
/// the flash (DFTL, Gupta et al., ASPLOS 2009). Unit: ratio. Source: tuned. Too high: look-ups behind a slow
/// link are not seen; too low: drift is a look-up.
const LOOK_UP_RATIO: f64 = 1.15;
/// There are no look-ups if the interval of the ratio ends below this. Unit: ratio. Source: tuned. Too high:
/// cached look-ups are denied; too low: more reads are needed to deny them.
const NO_LOOK_UP_RATIO: f64 = 1.1;

/// Whether only a part of a map is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapCache {
    /// It is.
    Found,
    /// All of it is.
    None,
    /// It is not clear; this is more likely.
    Unclear(Family),
}

/// Compares reads of pages whose map entries are in memory with reads of the same pages, in the same order,
/// that the map may have `forgotten`. Also returns the ratio. `None` for too few reads.
pub fn look_ups(known: &[f64], forgotten: &[f64]) -> Option<(MapCache, Interval)> {
    let half = known.len() / 2;
    let p = |from: usize, to: usize| mann_whitney(&forgotten[from..to], &known[from..to]).p_above;
    let more = ratio(forgotten, known, 0.99)?;
    let twice = p(0, half) <= thresholds::FALSE_ALARM_WITH_EFFECT
        && p(half, 2 * half) <= thresholds::FALSE_ALARM_WITH_EFFECT;
    let cache = match () {
        () if more.estimate >= LOOK_UP_RATIO
            && twice
            && p(0, 2 * half) <= thresholds::FALSE_ALARM_OF_MANY_IOS =>
        {
            MapCache::Found
        }
        () if more.high <= NO_LOOK_UP_RATIO => MapCache::None,
        () if more.estimate > (LOOK_UP_RATIO * NO_LOOK_UP_RATIO).sqrt() => {
            MapCache::Unclear(Family::DemandCachedPage)
        }
        () => MapCache::Unclear(Family::Page),
    };
    Some((cache, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of 32 pages in two rounds that take about so long.
    fn reads(level: [f64; 2], jitter: f64, seed: u64) -> Vec<f64> {
        let mut random = flashlab_base::Prng::new(flashlab_base::Seed(seed));
        (0..64).map(|index| level[index / 32] * (1.0 + jitter * (random.unit() - 0.5))).collect()
    }

    #[test]
    fn a_look_up_makes_reads_of_both_rounds_longer() {
        let cache = |level: [f64; 2], jitter| {
            look_ups(&reads([80e3; 2], jitter, 1), &reads(level, jitter, 2)).unwrap().0
        };
        assert_eq!(cache([130e3; 2], 0.1), MapCache::Found);
        assert_eq!(cache([80e3; 2], 0.1), MapCache::None);
        assert_ne!(cache([80e3, 130e3], 0.1), MapCache::Found, "one round alone");
        assert_eq!(cache([92e3; 2], 0.4), MapCache::Unclear(Family::DemandCachedPage));
        assert!(look_ups(&[], &[]).is_none());
    }
}
