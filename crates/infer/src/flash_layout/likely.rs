//! Finds the layout of dies that makes the measured response times most likely.
//!
//! # Method
//! 1. A grid of usual layouts is fitted to a part of the reads (`replay`).
//! 2. From the best of them on, each number of the layout is changed by itself until no change is better.
//! 3. All layouts that may be right are fitted to all reads.
//! 4. An answer is believed by the amount that the likelihood falls for any other answer.
//! 5. Reads from another part of the device, which had no part in the search, have to agree.
//!
//! # Invariants
//! - No page is larger than the smallest boundary that costs something (`crossings`).

mod scored;
mod search;
mod writes;

use scored::{CLIMBS_MOST, MARGIN_MOST, Scored};
use search::Search;

use super::crossings::Crossings;
use super::fitting::{IoModel, LayoutTimes};
use super::layouts::{CHUNK_OF_ALL, changed, simple, usual, within};
use super::replay::{FlashLayout, ReadReplay};
use super::runs::{self, TimedRun, nanos};
use crate::signals::statistics::upper_median;

/// Each layout of the grid is tried on one in this number of the reads. Unit: reads. Source: choice. Too
/// small: the search takes longer; too large: few reads choose a wrong layout.
const ROUGH_PART: usize = 7;
/// Below this log-likelihood ratio, the dies or planes are doubtful, and all simple layouts are tried. Unit:
/// natural logarithm. Source: tuned. Too high: the search takes longer; too low: a layout that was not tried
/// counts as impossible.
const MARGIN_DOUBTFUL: f64 = 6.0;
/// A changed layout is fitted to all reads if it is less likely than the one it was changed from by no more
/// than this. Unit: natural logarithm. Source: tuned. Too high: the search takes longer; too low: the right
/// layout is not fitted.
const ROUGH_MARGIN: f64 = 12.0;
/// The most layouts that are fitted to all reads. Unit: layouts. Source: choice. Too many: the search takes
/// longer; too few: the right layout is not fitted.
const FITTED_MOST: usize = 80;
/// The scatter of few reads may be off by this factor. Unit: ratio. Source: derivation: a standard deviation
/// of 24 values is known to 15 %. Too high: a misfit counts as scatter; too low: chance makes a misfit.
const SCATTER_ERROR: f64 = 1.2;
/// The search ends if the best layout of the grid has a greater misfit. Unit: ratio of variances. Source:
/// tuned. Too high: the search takes longer on devices that no layout explains; too low: a right layout with
/// rough times is given up.
const MISFIT_HOPELESS: f64 = 3.5;
/// Log-likelihoods are divided by this power of the misfit. Unit: exponent. Source: tuned. Too high: devices
/// with small effects beside the flash stay undetermined; too low: a wrong model is believed.
const MISFIT_POWER: i32 = 3;
/// Reads that a buffer answers scatter by at most this much more than reads of one kind. Unit: ratio of
/// variances. Source: tuned. Too high: flash counts as a buffer; too low: a buffer counts as flash.
const MISFIT_BUFFER: f64 = 1.6;

/// The layouts that may be right.
#[derive(Clone, Debug)]
pub struct Likely {
    /// The best first.
    all: Vec<Scored>,
    /// By how much the logarithms of response times of one kind scatter.
    pub sigma: f64,
    /// How much more the reads scatter than reads of one kind, as a variance: about 1 where the model is right.
    pub misfit: f64,
}

impl Likely {
    /// Whether reads are explained without the flash.
    pub fn is_without_flash(runs: &[TimedRun], page: u64) -> bool {
        let Some(sigma) = scatter(runs) else { return false };
        let layout = FlashLayout::of_one_die(page, 1, CHUNK_OF_ALL);
        let replay = ReadReplay::new(runs, layout, sigma);
        let times = nanos(&runs[0]);
        let starts = [0.9, 0.6, 0.3]
            .map(|share| [share * upper_median(&times), 0.0, 0.0, (1.0 - share) * upper_median(&times)]);
        let (_, loss) = replay.fit(&starts, &[0, 3], f64::INFINITY, &|_| 0.0);
        2.0 * loss < MISFIT_BUFFER * runs.iter().map(Vec::len).sum::<usize>() as f64
    }

    /// Looks for layouts with pages of these sizes, none smaller than `block`, that explain `crossings` as well; none for
    /// too few reads.
    pub fn search(
        runs: &[TimedRun],
        pages: &[u64],
        block: u64,
        crossings: Option<&Crossings>,
    ) -> Option<Likely> {
        let sigma = scatter(runs)?;
        let part: Vec<TimedRun> =
            runs.iter().map(|run| run[..run.len().div_ceil(ROUGH_PART)].to_vec()).collect();
        let mut rough = Search::new(&part, sigma, block, crossings);
        for &page in pages {
            usual(page).into_iter().for_each(|layout| rough.score(layout));
        }
        rough.climb();
        let mut begun = Vec::new();
        for _ in 0..CLIMBS_MOST {
            let fresh: Vec<FlashLayout> =
                rough.leaders().into_iter().filter(|layout| !begun.contains(layout)).collect();
            for layout in &fresh {
                if !rough.is_enough() {
                    rough.score_changed(layout);
                }
            }
            if fresh.is_empty() || rough.is_enough() {
                break;
            }
            begun.extend(fresh);
        }
        rough.climb();
        let all = rough.best();
        let best = *all.first()?;
        let reads = |runs: &[TimedRun]| runs.iter().map(Vec::len).sum::<usize>() as f64;
        if 2.0 * (best.loss - best.prior) > MISFIT_HOPELESS * reads(&part) {
            return None;
        }
        // Few reads show little of how much they scatter; but a model that does not fit shall be seen.
        let fitted = ReadReplay::new(runs, best.layout, sigma).scatter(&best.times);
        let sigma = fitted.clamp(sigma / SCATTER_ERROR, sigma * SCATTER_ERROR);
        let mut fine = Search::new(runs, sigma, block, crossings);
        for scored in all.iter().take_while(|scored| scored.loss < best.loss + MARGIN_MOST).take(FITTED_MOST)
        {
            fine.score_from(scored.layout, scored.times);
        }
        let mut begun: Vec<FlashLayout> = Vec::new();
        for _ in 0..CLIMBS_MOST {
            let most = fine.best().first()?.loss + MARGIN_MOST;
            let is_near =
                |layout: &FlashLayout| fine.scored.get(layout).is_some_and(|scored| scored.loss < most);
            let mut fresh = fine.leaders();
            fresh.retain(|layout| is_near(layout) && !begun.contains(layout));
            if fresh.is_empty() {
                break;
            }
            for from in &fresh {
                if fine.is_enough() {
                    break;
                }
                rough.score_changed(from);
                let most = rough.scored.get(from).map_or(0.0, |scored| scored.loss + ROUGH_MARGIN);
                within(from).for_each(|layout| fine.score(layout));
                for layout in changed(from) {
                    if let Some(scored) = rough.scored.get(&layout).filter(|scored| scored.loss < most) {
                        fine.score_from(layout, scored.times);
                    }
                }
            }
            begun.extend(fresh);
        }
        let found = Likely::new(fine.best(), sigma, reads(runs));
        let best = found.best();
        if found.margin(|layout| layout.dies, &best.dies) < MARGIN_DOUBTFUL
            || found.margin(|layout| layout.planes, &best.planes) < MARGIN_DOUBTFUL
        {
            let times = found.times();
            simple(best.page).for_each(|layout| fine.score_from(layout, times));
        }
        fine.refit();
        Some(Likely::new(fine.best(), sigma, reads(runs)))
    }

    /// Likelihoods are worth less where the model does not fit.
    fn new(mut all: Vec<Scored>, sigma: f64, reads: f64) -> Likely {
        let least = all.iter().map(|scored| scored.loss - scored.prior).fold(f64::INFINITY, f64::min);
        let misfit = 2.0 * least / reads;
        let unit = misfit.max(1.0).powi(MISFIT_POWER);
        for scored in &mut all {
            scored.loss = (scored.loss - scored.prior - least) / unit + scored.prior;
        }
        all.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        Likely { all, sigma, misfit }
    }

    /// The same layouts for other reads, with what both say together.
    pub fn again(&self, runs: &[TimedRun]) -> Option<(Likely, Likely)> {
        let sigma = scatter(runs)?.max(self.sigma);
        let mut other = Search::new(runs, sigma, 1, None);
        for scored in self.near() {
            other.score_from(scored.layout, scored.times);
        }
        let reads: usize = runs.iter().map(Vec::len).sum();
        let again = Likely::new(other.best(), sigma, reads as f64);
        let same = |layout: &FlashLayout| again.all.iter().find(|other| other.layout == *layout);
        let both = self.and(|layout| same(layout).map(|other| other.loss - other.prior));
        let misfit = (self.misfit + again.misfit) / 2.0;
        Some((again, Likely { misfit, ..both }))
    }

    /// The layouts that are hardly less likely than the best one.
    fn near(&self) -> impl Iterator<Item = &Scored> {
        self.all.iter().take_while(|scored| scored.loss < self.all[0].loss + MARGIN_MOST).take(FITTED_MOST)
    }

    /// With what something else says of the layouts as well, as a loss; what it says nothing of is far.
    fn and(&self, other: impl Fn(&FlashLayout) -> Option<f64>) -> Likely {
        let mut both = self.clone();
        for scored in &mut both.all {
            scored.loss += other(&scored.layout).unwrap_or(MARGIN_MOST);
        }
        both.all.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        both
    }

    /// The layout that fits best.
    pub fn best(&self) -> FlashLayout {
        self.all[0].layout
    }

    /// The times with which the best layout fits.
    pub fn times(&self) -> LayoutTimes {
        self.all[0].times
    }

    /// By how much the likelihood falls where something else is said than this, as a logarithm.
    pub fn margin<T: PartialEq>(&self, what: impl Fn(&FlashLayout) -> T, value: &T) -> f64 {
        let least = |is: bool| {
            let of = self.all.iter().filter(|scored| (what(&scored.layout) == *value) == is);
            of.map(|scored| scored.loss).fold(f64::INFINITY, f64::min)
        };
        (least(false) - least(true)).min(MARGIN_MOST)
    }

    /// What is most likely, and how likely that is.
    pub fn says<T: PartialEq>(&self, what: impl Fn(&FlashLayout) -> T) -> Option<(T, f64)> {
        let best = self.all.first()?.loss;
        let mut values: Vec<(T, f64)> = Vec::new();
        for scored in &self.all {
            let (value, weight) = (what(&scored.layout), (best - scored.loss).exp());
            match values.iter_mut().find(|(other, _)| *other == value) {
                Some((_, sum)) => *sum += weight,
                None => values.push((value, weight)),
            }
        }
        let all: f64 = values.iter().map(|(_, weight)| weight).sum();
        let most = values.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((most.0, most.1 / all))
    }

    /// Only those layouts of which this is true.
    pub fn of(&self, is: impl Fn(&FlashLayout) -> bool) -> Option<Likely> {
        let all: Vec<Scored> = self.all.iter().copied().filter(|scored| is(&scored.layout)).collect();
        (!all.is_empty()).then_some(Likely { all, ..*self })
    }
}

/// By how much the logarithms of the shortest reads one at a time scatter.
fn scatter(runs: &[TimedRun]) -> Option<f64> {
    runs.first().filter(|run| run.len() >= 12).map(runs::scatter)
}
