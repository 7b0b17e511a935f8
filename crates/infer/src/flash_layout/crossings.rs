//! Predicts what small reads across page boundaries take, relative to reads beside them, for a layout.
//!
//! # Model
//! As in [`replay`](super::replay), for reads one at a time. A read of the map before each read makes all crossings
//! relatively cheaper, by the same factor. So a layout has to explain the ratios between the boundaries, and not
//! their absolute cost. A layout of larger pages cannot explain that the boundary of smaller ones costs anything.
//!
//! # Invariants
//! - The same layout and times give the same ratios.

use flashlab_analysis::decide::ranks::Interval;

use super::fitting::{IoModel, LayoutTimes};
use super::replay::{FlashLayout, ReadReplay};
use super::runs::{Io, TimedRun};
use crate::signals::statistics::upper_median;

/// The boundaries at which a layout is asked what a read across costs. Unit: boundaries. Source: derivation:
/// a multiple of the dies of usual stripes. Too many: the search takes longer; too few: one boundary of a
/// stripe decides.
const BOUNDARIES: u64 = 32;
/// The time between two predicted reads. No read waits for the one before. Unit: ns. Source: derivation: far
/// longer than any read. Too long: nothing, up to the precision of a float; too short: reads wait for each
/// other.
const IDLE_BETWEEN: f64 = 1e12;
/// The least and the greatest factor by which all crossings may differ from those of a layout. A map that is
/// read first makes them relatively cheaper. Unit: ratio. Source: tuned. Too large: any costs fit any layout;
/// too small: devices with a map on the flash fit no layout.
const CROSSING_FACTORS: (f64, f64) = (0.25, 1.2);
/// The standard deviations from the middle to an end of a 99 % interval. Unit: standard deviations. Source:
/// derivation: the normal distribution. Too high: crossings count for too much; too low: for too little.
const DEVIATIONS_OF_99: f64 = 2.576;
/// What the model does not contain, as a share of what crossing costs. Unit: share. Source: tuned. Too high:
/// crossings do not distinguish layouts; too low: effects beside the flash refute the right layout.
const CROSSING_ERROR: f64 = 0.15;
/// What the model does not contain, as a share of the read. Unit: share. Source: tuned. Too high: crossings
/// do not distinguish layouts; too low: effects beside the flash refute the right layout.
const READ_ERROR: f64 = 0.004;

/// What crossing boundaries costs.
#[derive(Clone, Debug)]
pub struct Crossings {
    /// The smallest IO: reads are of two.
    pub block: u64,
    /// The smallest boundary that costs something.
    pub page: u64,
    /// How far the boundaries are apart that are crossed.
    pub slot: u64,
    /// For boundaries of each size: reads across them, relative to beside them.
    pub ratios: Vec<(u64, Interval)>,
}

impl Crossings {
    /// How unlikely they are with a layout and its times, as a logarithm.
    pub(crate) fn unlikely(&self, layout: &FlashLayout, times: &LayoutTimes) -> f64 {
        let terms: Vec<(f64, f64, f64)> = self
            .ratios
            .iter()
            .map(|(boundary, ratio)| {
                let said = self.ratio(layout, times, *boundary) - 1.0;
                let chance = (ratio.high - ratio.low) / (2.0 * DEVIATIONS_OF_99);
                let seen = ratio.estimate - 1.0;
                (said, seen, chance.hypot(READ_ERROR).hypot(CROSSING_ERROR * seen))
            })
            .filter(|(.., sigma)| sigma.is_finite())
            .collect();
        let sum = |of: fn(f64, f64) -> f64| {
            terms.iter().map(|&(said, seen, sigma)| of(said, seen) / (sigma * sigma)).sum::<f64>()
        };
        let (along, all) = (sum(|said, seen| said * seen), sum(|said, _| said * said));
        let factor =
            if all > 0.0 { (along / all).clamp(CROSSING_FACTORS.0, CROSSING_FACTORS.1) } else { 1.0 };
        terms.iter().map(|(said, seen, sigma)| ((seen - factor * said) / sigma).powi(2) / 2.0).sum()
    }

    /// What reads across boundaries take, relative to those beside them.
    fn ratio(&self, layout: &FlashLayout, times: &LayoutTimes, boundary: u64) -> f64 {
        let block = self.block;
        let of = |offsets: &[u64]| {
            let reads =
                (0..BOUNDARIES).flat_map(|place| offsets.iter().map(move |at| place * self.slot + at));
            let io = |(index, offset)| Io::new(index as f64 * IDLE_BETWEEN, 1.0, offset, 2 * block);
            let run: [TimedRun; 1] = [reads.enumerate().map(io).collect()];
            let mut all = Vec::new();
            ReadReplay::new(&run, *layout, 1.0).predict(times, |_, nanos| all.push(nanos));
            upper_median(&all)
        };
        of(&[boundary - block]) / of(&[boundary - 2 * block, boundary]).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layouts::CHUNK_OF_ALL;
    use super::*;

    const TIMES: LayoutTimes = [50e3, 60e3, 20e3, 10e3];

    fn layout(page: u64, planes: u64, partial: bool) -> FlashLayout {
        let (chunk, cached, phase, serial) = (CHUNK_OF_ALL, false, 0, false);
        FlashLayout { page, planes, chunk, dies: 1, channels: 1, cached, phase, serial, partial }
    }

    /// What a layout says, relative to reads that take `beside` as long.
    fn crossings(layout: &FlashLayout, beside: f64) -> Crossings {
        let mut crossings = Crossings { block: 512, page: layout.page, slot: 1 << 17, ratios: Vec::new() };
        for boundary in (1..8).map(|double| 512 << double) {
            let estimate = 1.0 + (crossings.ratio(layout, &TIMES, boundary) - 1.0) / beside;
            crossings
                .ratios
                .push((boundary, Interval { estimate, low: estimate - 0.01, high: estimate + 0.01 }));
        }
        crossings
    }

    #[test]
    fn the_boundaries_of_pages_and_rows_are_explained_by_those_pages_only() {
        let is = layout(4096, 4, false);
        for beside in [1.0, 2.0] {
            let crossings = crossings(&is, beside);
            assert!(crossings.unlikely(&is, &TIMES) < 0.1);
            for (page, planes) in [(2048, 8), (8192, 2), (16384, 1)] {
                let other = crossings.unlikely(&layout(page, planes, false), &TIMES);
                assert!(other > 8.0, "{page} {other}");
            }
        }
    }

    #[test]
    fn pages_of_which_parts_are_transferred_cost_no_less() {
        let is = layout(2048, 1, true);
        let crossings = crossings(&is, 1.0);
        assert!(crossings.unlikely(&is, &TIMES) < 0.1 && crossings.ratios[1].1.estimate > 1.2);
    }
}
