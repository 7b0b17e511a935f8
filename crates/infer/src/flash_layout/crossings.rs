//! What small reads across boundaries take, relative to beside them, as a layout has it.
//!
//! # Model
//! As in `replay`, for reads one at a time. What each read takes beside the flash (a map that is read first) makes all
//! crossings cheaper, relatively, by the same factor; so a layout has to explain which boundaries cost how much of each other,
//! and not how much they cost. No layout of larger pages explains that the boundary of smaller ones costs anything.

use flashlab_analysis::decide::ranks::Interval;

use super::fitting::{IoModel, LayoutTimes};
use super::replay::{FlashLayout, ReadReplay};
use super::runs::{Io, TimedRun};
use crate::signals::statistics::upper_median;

/// Boundaries that a layout is asked for.
const PLACES: u64 = 32;
/// Far enough from each other that no read waits for the one before, in nanoseconds.
const APART: f64 = 1e12;
/// By which factor crossings may all be cheaper, or slower, than a layout says.
const FACTOR: (f64, f64) = (0.25, 1.2);
/// The standard deviations that an interval of 99 % has to each side.
const DEVIATIONS: f64 = 2.576;
/// What is not in the model, of what crossing costs and relative to a read.
const SHARE_BEYOND: f64 = 0.15;
const BEYOND: f64 = 0.004;

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
                let chance = (ratio.high - ratio.low) / (2.0 * DEVIATIONS);
                let seen = ratio.estimate - 1.0;
                (said, seen, chance.hypot(BEYOND).hypot(SHARE_BEYOND * seen))
            })
            .filter(|(.., sigma)| sigma.is_finite())
            .collect();
        let sum = |of: fn(f64, f64) -> f64| {
            terms.iter().map(|&(said, seen, sigma)| of(said, seen) / (sigma * sigma)).sum::<f64>()
        };
        let (along, all) = (sum(|said, seen| said * seen), sum(|said, _| said * said));
        let factor = if all > 0.0 { (along / all).clamp(FACTOR.0, FACTOR.1) } else { 1.0 };
        terms.iter().map(|(said, seen, sigma)| ((seen - factor * said) / sigma).powi(2) / 2.0).sum()
    }

    /// What reads across boundaries take, relative to those beside them.
    fn ratio(&self, layout: &FlashLayout, times: &LayoutTimes, boundary: u64) -> f64 {
        let block = self.block;
        let of = |offsets: &[u64]| {
            let reads = (0..PLACES).flat_map(|place| offsets.iter().map(move |at| place * self.slot + at));
            let io = |(index, offset)| Io::new(index as f64 * APART, 1.0, offset, 2 * block);
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
    use super::super::layouts::ALL;
    use super::*;

    const TIMES: LayoutTimes = [50e3, 60e3, 20e3, 10e3];

    fn layout(page: u64, planes: u64, partial: bool) -> FlashLayout {
        let (chunk, cached, phase, serial) = (ALL, false, 0, false);
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
