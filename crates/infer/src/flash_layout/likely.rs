//! Which layout of dies makes what was measured most likely.
//!
//! # Model
//! As in `replay`. A grid of usual layouts is tried on a part of the reads; from the best of them on, each figure of the
//! layout is changed by itself, until no change is better; then all that may be right is fitted to all reads. What a layout
//! says is believed by as much as the likelihood falls where it says something else. Reads from another part of the
//! device, which had no part in finding the layout, have to say so as well. What crossing boundaries costs (`crossings`) counts as
//! what is known before: no page is larger than the smallest boundary that costs something.

mod scored;
mod search;
mod writes;

use scored::{FAR, Scored, TURNS};
use search::Search;

use super::crossings::Crossings;
use super::fitting::{IoModel, LayoutTimes};
use super::layouts::{ALL, changed, simple, usual, within};
use super::replay::{FlashLayout, ReadReplay};
use super::runs::{self, TimedRun, nanos};
use crate::signals::statistics::upper_median;

/// The part of each run that the grid is tried on.
const PART: usize = 7;
/// Where the planes or the dies are less clear, all simple layouts are tried.
const DOUBTFUL: f64 = 6.0;
const NEAR: f64 = 12.0;
/// The most layouts that are fitted to all reads.
const FITTED: usize = 80;
/// How far the scatter of few reads may be off, as a factor.
const SIGMA_ERROR: f64 = 1.2;
/// What fits no better than this to a part of the reads is given up.
const HOPELESS: f64 = 3.5;
/// The power of the misfit by which likelihoods are worth less.
const DOUBT: i32 = 3;
/// How much more than one kind reads scatter that are answered by a buffer.
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
        let layout = FlashLayout::of_one_die(page, 1, ALL);
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
        let part: Vec<TimedRun> = runs.iter().map(|run| run[..run.len().div_ceil(PART)].to_vec()).collect();
        let mut rough = Search::new(&part, sigma, block, crossings);
        for &page in pages {
            usual(page).into_iter().for_each(|layout| rough.score(layout));
        }
        rough.climb();
        let mut begun = Vec::new();
        for _ in 0..TURNS {
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
        if 2.0 * (best.loss - best.prior) > HOPELESS * reads(&part) {
            return None;
        }
        // Few reads show little of how much they scatter; but a model that does not fit shall be seen.
        let fitted = ReadReplay::new(runs, best.layout, sigma).scatter(&best.times);
        let sigma = fitted.clamp(sigma / SIGMA_ERROR, sigma * SIGMA_ERROR);
        let mut fine = Search::new(runs, sigma, block, crossings);
        for scored in all.iter().take_while(|scored| scored.loss < best.loss + FAR).take(FITTED) {
            fine.score_from(scored.layout, scored.times);
        }
        let mut begun: Vec<FlashLayout> = Vec::new();
        for _ in 0..TURNS {
            let most = fine.best().first()?.loss + FAR;
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
                let most = rough.scored.get(from).map_or(0.0, |scored| scored.loss + NEAR);
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
        if found.margin(|layout| layout.dies, &best.dies) < DOUBTFUL
            || found.margin(|layout| layout.planes, &best.planes) < DOUBTFUL
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
        let unit = misfit.max(1.0).powi(DOUBT);
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
        self.all.iter().take_while(|scored| scored.loss < self.all[0].loss + FAR).take(FITTED)
    }

    /// With what something else says of the layouts as well, as a loss; what it says nothing of is far.
    fn and(&self, other: impl Fn(&FlashLayout) -> Option<f64>) -> Likely {
        let mut both = self.clone();
        for scored in &mut both.all {
            scored.loss += other(&scored.layout).unwrap_or(FAR);
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
        (least(false) - least(true)).min(FAR)
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
