//! What writes say of layouts that explain the reads.
//!
//! # Model
//! As in `programs`. Each layout is tried with all the ways in which rows may be programmed.

use std::collections::BTreeMap;

use super::super::fitting::{IoModel, LINK, LayoutTimes, SIGMA_MIN};
use super::super::layouts::ALL;
use super::super::programs::{self, Programs, Way};
use super::super::replay::FlashLayout;
use super::super::runs::{TimedRun, nanos};
use super::{Likely, Scored};
use crate::signals::statistics::{deviation, quantile, upper_median};

/// Writes scatter by as much more, as a variance, before rows are taken to differ, beside times that are a little unusual;
/// and before no layout explains them; less where a buffer of which nothing is known may have a part in them.
const UNEVEN: f64 = 1.1;
const USUAL: f64 = 5.0;
const MISFIT_WRITES: f64 = 2.6;
const MISFIT_BUFFERED: f64 = 1.6;
/// Of a size with fewer writes the scatter is not known.
const SCATTER_OF: usize = 12;

impl Likely {
    /// What writes of single pages and more say of the same layouts, with what both say together; none where no layout explains
    /// the writes.
    pub fn with_writes(&self, runs: &[TimedRun], knows_buffer: bool) -> Option<(Likely, Likely)> {
        let sigma = scatter(runs)?;
        let writes = runs.iter().map(Vec::len).sum::<usize>() as f64;
        // How reads come makes no difference to writes, nor chunks on one die, but in cache mode.
        let plain = |layout: &FlashLayout| {
            let chunk = if layout.dies == 1 && !layout.cached { ALL } else { layout.chunk };
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
        if way.may_be_uneven() || 2.0 * (even.loss - USUAL) > UNEVEN * writes {
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
            // Pages one by one may also be those that a slow link brings, which hides the programs of whole rows: so nothing
            // else is less likely than such a link, with which writes are explained as well.
            let by_page = each_byte(runs)? * self.best().page as f64;
            let best = alone.all[0];
            let slow_link = best.loss - best.prior + programs::slow_link(by_page, self.times()[LINK]);
            alone.all.iter_mut().for_each(|scored| scored.loss = scored.loss.min(slow_link));
        }
        let same = |layout: &FlashLayout| alone.all.iter().find(|other| other.layout == plain(layout));
        let both = self.and(|layout| same(layout).map(|other| other.loss));
        Some((alone, both))
    }
}

/// How well a layout explains writes that scatter by `sigma`, and the way that does it best; what is hopelessly worse than `good`
/// is given up.
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
        (logs.len() >= SCATTER_OF).then(|| deviation(&logs, upper_median(&logs)))
    };
    let all: Vec<f64> = sizes.into_iter().filter_map(of_size).collect();
    (!all.is_empty()).then(|| quantile(&all, 0.4).max(SIGMA_MIN))
}
