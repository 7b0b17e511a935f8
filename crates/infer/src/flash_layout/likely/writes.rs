//! What writes say of layouts that explain the reads.
//!
//! # Model
//! As in `programs`. Each layout is tried with all the ways in which rows may be programmed.

use std::collections::BTreeMap;

use super::super::fitting::{IoModel, LayoutTime, LayoutTimes, SCATTER_LEAST};
use super::super::layouts::CHUNK_OF_ALL;
use super::super::programs::{self, Programs, Way};
use super::super::replay::FlashLayout;
use super::super::runs::{TimedRun, nanos};
use super::{Likely, Scored};
use crate::signals::statistics::{deviation, quantile, upper_median};

/// Slow and fast pages are tried if writes scatter by more than this with equal ones. Unit: ratio of
/// variances. Source: tuned. Too high: pages that differ look like dies; too low: the search takes longer.
const UNEVEN_MISFIT: f64 = 1.1;
/// The loss of unusual times that does not count in that decision. Unit: natural logarithm. Source: tuned.
/// Too high: unusual times hide pages that differ; too low: the search takes longer.
const UNUSUAL_FREE: f64 = 5.0;
/// Writes with a greater misfit are explained by no layout. Unit: ratio of variances. Source: tuned. Too
/// high: a wrong layout is believed; too low: writes decide nothing.
const MISFIT_WRITES: f64 = 2.6;
/// The same where a write buffer of unknown size may have a part in them. Unit: ratio of variances. Source:
/// tuned. Too high: a buffer counts as dies; too low: writes decide nothing.
const MISFIT_BUFFERED: f64 = 1.6;
/// The fewest writes of a size whose scatter is known. Unit: writes. Source: derivation: a standard deviation
/// of 12 values is known to 20 %. Too high: few sizes count; too low: chance is the scatter.
const SCATTER_WRITES: usize = 12;

impl Likely {
    /// What writes of single pages and more say of the same layouts, with what both say together; none where no layout explains
    /// the writes.
    pub fn with_writes(&self, runs: &[TimedRun], knows_buffer: bool) -> Option<(Likely, Likely)> {
        let sigma = scatter(runs)?;
        let writes = runs.iter().map(Vec::len).sum::<usize>() as f64;
        // How reads come makes no difference to writes, nor chunks on one die, but in cache mode.
        let plain = |layout: &FlashLayout| {
            let chunk = if layout.dies == 1 && !layout.cached { CHUNK_OF_ALL } else { layout.chunk };
            FlashLayout { chunk, cached: false, phase: 0, serial: false, partial: false, ..*layout }
        };
        let mut tried: BTreeMap<FlashLayout, (Scored, Way, LayoutTimes)> = BTreeMap::new();
        let mut good = f64::INFINITY;
        for scored in self.near() {
            let layout = plain(&scored.layout);
            tried.entry(layout).or_insert_with(|| {
                let (best, way) = written(runs, layout, &scored.times, (sigma, good), Way::even());
                good = good.min(best.loss);
                (best, way, scored.times)
            });
        }
        let (even, way, _) = tried.values().min_by(|a, b| a.0.loss.total_cmp(&b.0.loss))?;
        // Unusual times count, too: they may stand in for rows that differ.
        if way.may_be_uneven() || 2.0 * (even.loss - UNUSUAL_FREE) > UNEVEN_MISFIT * writes {
            for (&layout, (best, even, reads)) in &mut tried {
                let (mut uneven, mut way) = written(runs, layout, reads, (sigma, good), Way::uneven());
                for near in Way::nearer() {
                    good = good.min(uneven.loss);
                    let (nearer, other) = written(runs, layout, reads, (sigma, good), near(way).into_iter());
                    if nearer.loss < uneven.loss {
                        (uneven, way) = (nearer, other);
                    }
                }
                if uneven.loss < best.loss {
                    (*best, *even) = (uneven, way);
                }
            }
        }
        // Who takes the same by the same times has to be found by them, too.
        let &(leader, way, _) = tried.values().min_by(|a, b| a.0.loss.total_cmp(&b.0.loss))?;
        for (&layout, (best, _, reads)) in &mut tried {
            let (again, _) = fitted(runs, layout, reads, (sigma, good), way, &[leader.times]);
            if again.loss < best.loss {
                *best = again;
            }
        }
        let mut alone = Likely::new(tried.into_values().map(|(best, ..)| best).collect(), sigma, writes);
        if alone.misfit > if knows_buffer { MISFIT_WRITES } else { MISFIT_BUFFERED } {
            return None;
        }
        if alone.best().planes * alone.best().dies == 1 {
            // A slow link also looks like pages one by one: it hides the programs of multi-plane
            // pages. So no other layout is less likely than such a link.
            let by_page = each_byte(runs)? * self.best().page as f64;
            let best = alone.all[0];
            let slow_link = best.loss - best.prior
                + programs::slow_link(by_page, self.times()[LayoutTime::Link as usize]);
            alone.all.iter_mut().for_each(|scored| scored.loss = scored.loss.min(slow_link));
        }
        let same = |layout: &FlashLayout| alone.all.iter().find(|other| other.layout == plain(layout));
        let both = self.and(|layout| same(layout).map(|other| other.loss));
        Some((alone, both))
    }
}

/// The loss of a layout for writes that scatter by `sigma`, and the way with the least loss. What is hopelessly
/// worse than `good` is given up.
fn written(
    runs: &[TimedRun],
    layout: FlashLayout,
    reads: &LayoutTimes,
    (sigma, good): (f64, f64),
    ways: impl Iterator<Item = Way>,
) -> (Scored, Way) {
    let [command, _, transfer, link] = *reads;
    let shortest = runs.iter().flatten().map(|write| write.nanos).fold(f64::INFINITY, f64::min);
    let starts = [0.7, 0.35, 0.15].map(|share| [command, share * shortest, transfer, link]);
    let none = Scored { layout, times: *reads, loss: f64::INFINITY, prior: 0.0 };
    ways.fold((none, Way::EVEN), |best, way| {
        let other = fitted(runs, layout, reads, (sigma, good.min(best.0.loss)), way, &starts);
        if other.0.loss < best.0.loss { other } else { best }
    })
}

/// How well it explains them in this way, by the times that are found from these on.
fn fitted(
    runs: &[TimedRun],
    layout: FlashLayout,
    reads: &LayoutTimes,
    (sigma, good): (f64, f64),
    way: Way,
    starts: &[LayoutTimes],
) -> (Scored, Way) {
    let unusual = |times: &LayoutTimes| programs::unusual(times, reads, &way);
    let model = Programs::new(runs, layout, way, sigma);
    let (times, loss) = model.fit(starts, &[0, 1, 2, 3], good, &unusual);
    (Scored { layout, times, loss, prior: unusual(&times).min(loss) }, way)
}

/// What each byte of a write takes, in nanoseconds, from the smallest to the largest ones.
fn each_byte(runs: &[TimedRun]) -> Option<f64> {
    let size = |run: &&TimedRun| run.first().map(|write| write.size);
    let (small, large) = (runs.iter().min_by_key(size)?, runs.iter().max_by_key(size)?);
    let bytes = size(&large)?.checked_sub(size(&small)?).filter(|&bytes| bytes > 0)?;
    Some((upper_median(&nanos(large)) - upper_median(&nanos(small))) / bytes as f64)
}

/// By how much the logarithms of response times of one size scatter. Where only some writes make a row whole, other sizes
/// show it.
fn scatter(runs: &[TimedRun]) -> Option<f64> {
    let mut sizes: Vec<u64> = runs.iter().flatten().map(|write| write.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let of_size = |size: u64| {
        let runs = runs.iter().filter(|run| run.first().is_some_and(|write| write.size == size));
        let logs: Vec<f64> = runs.flat_map(nanos).map(|nanos| nanos.max(1.0).ln()).collect();
        (logs.len() >= SCATTER_WRITES).then(|| deviation(&logs, upper_median(&logs)))
    };
    let all: Vec<f64> = sizes.into_iter().filter_map(of_size).collect();
    (!all.is_empty()).then(|| quantile(&all, 0.4).max(SCATTER_LEAST))
}
