//! Which layout of dies makes what was measured most likely.
//!
//! # Model
//! As in `replay`. A grid of usual layouts is tried on a part of the reads; from the best of them on, each figure of the
//! layout is changed by itself, until no change is better; then all that may be right is fitted to all reads. What a layout
//! says is believed by as much as the likelihood falls where it says something else. Reads from another part of the
//! device, which had no part in finding the layout, have to say so as well.

use std::collections::BTreeMap;

use super::figures::{NORMAL, median};
use super::fitting::{LINK, Model, Times};
use super::layouts::{ALL, around, changed, unusual, usual, within};
use super::programs::{self, Programs, Way};
use super::replay::{Layout, Replay, Run, nanos};
use super::row_writes;

/// The part of each run that the grid is tried on.
const PART: usize = 7;
/// How often changes begin.
const TURNS: usize = 5;
/// What is so much less likely on a part of the reads is not tried on all.
const FAR: f64 = 30.0;
const NEAR: f64 = 12.0;
/// The most layouts that are fitted to all reads.
const FITTED: usize = 80;
/// How far the scatter of few reads may be off, as a factor.
const SIGMA_ERROR: f64 = 1.2;
/// So many reads are replayed at most, each some twenty times.
const READS_MAX: usize = 600_000;
/// What fits no better than this to a part of the reads is given up.
const HOPELESS: f64 = 3.5;
/// The power of the misfit by which likelihoods are worth less.
const DOUBT: i32 = 3;
/// How much more than one kind reads scatter that are answered by a buffer.
const MISFIT_BUFFER: f64 = 1.6;
/// Writes scatter by as much more, as a variance, before rows are taken to differ, beside times that are a little unusual;
/// and before no layout explains them.
const UNEVEN: f64 = 1.1;
const USUAL: f64 = 5.0;
const MISFIT_WRITES: f64 = 2.6;
/// The link takes no more than so many times as long for writes as for reads.
const SLOW_LINK: f64 = 2.5;
/// Less scatter is not believed.
const SIGMA_MIN: f64 = 0.004;

/// A layout, the times with which it fits best, and how unlikely it is, as a logarithm.
#[derive(Clone, Copy, Debug)]
struct Scored {
    layout: Layout,
    times: Times,
    loss: f64,
    /// Of that, how unusual it is before.
    prior: f64,
}

/// The layouts that may be right.
#[derive(Clone, Debug)]
pub(crate) struct Likely {
    /// The best first.
    all: Vec<Scored>,
    /// By how much the logarithms of response times of one kind scatter.
    pub(crate) sigma: f64,
    /// How much more the reads scatter than reads of one kind, as a variance: about 1 where the model is right.
    pub(crate) misfit: f64,
}

impl Likely {
    /// Whether reads are explained without the flash.
    pub(crate) fn is_without_flash(runs: &[Run], page: u64) -> bool {
        let Some(sigma) = scatter(runs) else { return false };
        let layout = Layout {
            page,
            planes: 1,
            chunk: ALL,
            dies: 1,
            channels: 1,
            cached: false,
            phase: 0,
            serial: false,
            partial: false,
        };
        let replay = Replay::new(runs, layout, sigma);
        let times = nanos(&runs[0]);
        let starts =
            [0.9, 0.6, 0.3].map(|share| [share * median(&times), 0.0, 0.0, (1.0 - share) * median(&times)]);
        let (_, loss) = replay.fit(&starts, &[0, 3], f64::INFINITY, &|_| 0.0);
        2.0 * loss < MISFIT_BUFFER * runs.iter().map(Vec::len).sum::<usize>() as f64
    }

    /// Looks for layouts with pages of these sizes, none smaller than `block`; none for too few reads.
    pub(crate) fn search(runs: &[Run], pages: &[u64], block: u64) -> Option<Likely> {
        let sigma = scatter(runs)?;
        let part: Vec<Run> = runs.iter().map(|run| run[..run.len().div_ceil(PART)].to_vec()).collect();
        let mut rough = Search::new(&part, sigma, block);
        for &page in pages {
            usual(page).into_iter().for_each(|layout| rough.score(layout));
        }
        rough.climb();
        let mut begun = Vec::new();
        for _ in 0..TURNS {
            let fresh: Vec<Layout> =
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
        let reads = |runs: &[Run]| runs.iter().map(Vec::len).sum::<usize>() as f64;
        if 2.0 * best.loss > HOPELESS * reads(&part) {
            return None;
        }
        // Few reads tell little of how much they scatter; but a model that does not fit shall be seen.
        let fitted = Replay::new(runs, best.layout, sigma).scatter(&best.times);
        let sigma = fitted.clamp(sigma / SIGMA_ERROR, sigma * SIGMA_ERROR);
        let mut fine = Search::new(runs, sigma, block);
        for scored in all.iter().take_while(|scored| scored.loss < best.loss + FAR).take(FITTED) {
            fine.score_from(scored.layout, scored.times);
        }
        let mut begun: Vec<Layout> = Vec::new();
        for _ in 0..TURNS {
            let most = fine.best().first()?.loss + FAR;
            let is_near = |layout: &Layout| fine.scored.get(layout).is_some_and(|scored| scored.loss < most);
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
    pub(crate) fn again(&self, runs: &[Run]) -> Option<(Likely, Likely)> {
        let sigma = scatter(runs)?.max(self.sigma);
        let mut other = Search::new(runs, sigma, 1);
        for scored in self.all.iter().take_while(|scored| scored.loss < self.all[0].loss + FAR).take(FITTED) {
            other.score_from(scored.layout, scored.times);
        }
        let reads: usize = runs.iter().map(Vec::len).sum();
        let again = Likely::new(other.best(), sigma, reads as f64);
        let mut both = self.clone();
        both.misfit = (self.misfit + again.misfit) / 2.0;
        for scored in &mut both.all {
            let same = again.all.iter().find(|other| other.layout == scored.layout);
            scored.loss += same.map_or(FAR, |other| other.loss - other.prior);
        }
        both.all.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        Some((again, both))
    }

    /// What writes of single pages and more say of the same layouts, with what both say together; none where no layout explains
    /// the writes.
    pub(crate) fn with_writes(&self, runs: &[Run]) -> Option<(Likely, Likely)> {
        let sigma = row_writes::scatter(runs)?;
        let writes = runs.iter().map(Vec::len).sum::<usize>() as f64;
        let near = self.all.iter().take_while(|scored| scored.loss < self.all[0].loss + FAR).take(FITTED);
        // How reads come makes no difference to writes.
        let plain = |layout: &Layout| {
            let chunk = if layout.dies == 1 { ALL } else { layout.chunk };
            Layout { chunk, cached: false, phase: 0, serial: false, partial: false, ..*layout }
        };
        let mut tried: BTreeMap<Layout, (Scored, Way, Times)> = BTreeMap::new();
        for scored in near {
            let layout = plain(&scored.layout);
            tried.entry(layout).or_insert_with(|| {
                let (best, way) = written(runs, layout, &scored.times, sigma, Way::even());
                (best, way, scored.times)
            });
        }
        let (even, way, _) = tried.values().min_by(|a, b| a.0.loss.total_cmp(&b.0.loss))?;
        // Unusual times count, too: they may stand in for rows that differ.
        if way.may_be_uneven() || 2.0 * (even.loss - USUAL) > UNEVEN * writes {
            for (&layout, (best, _, reads)) in &mut tried {
                let (mut uneven, mut way) = written(runs, layout, reads, sigma, Way::uneven());
                for near in Way::nearer() {
                    let (nearer, other) = written(runs, layout, reads, sigma, near(way).into_iter());
                    if nearer.loss < uneven.loss {
                        (uneven, way) = (nearer, other);
                    }
                }
                if uneven.loss < best.loss {
                    *best = uneven;
                }
            }
        }
        let tried: BTreeMap<Layout, Scored> =
            tried.into_iter().map(|(layout, (best, ..))| (layout, best)).collect();
        let alone = Likely::new(tried.into_values().collect(), sigma, writes);
        // Pages one by one may also be those that a slow link brings, which hides the programs of whole rows.
        let by_page = row_writes::each_byte(runs)? * self.best().page as f64;
        let one_by_one = alone.best().planes * alone.best().dies == 1;
        let hidden = one_by_one && by_page <= SLOW_LINK * self.times()[LINK];
        if hidden || alone.misfit > MISFIT_WRITES {
            return None;
        }
        let mut both = self.clone();
        for scored in &mut both.all {
            let same = alone.all.iter().find(|other| other.layout == plain(&scored.layout));
            scored.loss += same.map_or(FAR, |other| other.loss);
        }
        both.all.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        Some((alone, both))
    }

    /// The layout that fits best.
    pub(crate) fn best(&self) -> Layout {
        self.all[0].layout
    }

    pub(crate) fn times(&self) -> Times {
        self.all[0].times
    }

    /// By how much the likelihood falls where something else is said than this, as a logarithm.
    pub(crate) fn margin<T: PartialEq>(&self, what: impl Fn(&Layout) -> T, value: &T) -> f64 {
        let least = |is: bool| {
            let of = self.all.iter().filter(|scored| (what(&scored.layout) == *value) == is);
            of.map(|scored| scored.loss).fold(f64::INFINITY, f64::min)
        };
        (least(false) - least(true)).min(FAR)
    }

    /// What is most likely, and how likely that is.
    pub(crate) fn says<T: PartialEq>(&self, what: impl Fn(&Layout) -> T) -> Option<(T, f64)> {
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
    pub(crate) fn of(&self, is: impl Fn(&Layout) -> bool) -> Option<Likely> {
        let all: Vec<Scored> = self.all.iter().copied().filter(|scored| is(&scored.layout)).collect();
        (!all.is_empty()).then_some(Likely { all, ..*self })
    }
}

/// How well a layout explains writes, and the way that does it best.
fn written(
    runs: &[Run],
    layout: Layout,
    reads: &Times,
    sigma: f64,
    ways: impl Iterator<Item = Way>,
) -> (Scored, Way) {
    let [command, _, transfer, link] = *reads;
    let shortest = runs.iter().flatten().map(|write| write.nanos).fold(f64::INFINITY, f64::min);
    let starts = [0.7, 0.35, 0.15].map(|share| [command, share * shortest, transfer, link]);
    let fit = |way: Way| {
        let unusual = |times: &Times| programs::unusual(times, reads, &way);
        let model = Programs::new(runs, layout, way, sigma);
        let (times, loss) = model.fit(&starts, &[0, 1, 2, 3], f64::INFINITY, &unusual);
        (Scored { layout, times, loss, prior: unusual(&times).min(loss) }, way)
    };
    let none = Scored { layout, times: *reads, loss: f64::INFINITY, prior: 0.0 };
    ways.map(fit).fold((none, Way::EVEN), |best, other| if other.0.loss < best.0.loss { other } else { best })
}

/// By how much the logarithms of the shortest reads one at a time scatter.
fn scatter(runs: &[Run]) -> Option<f64> {
    let logs: Vec<f64> = runs.first()?.iter().map(|read| read.nanos.max(1.0).ln()).collect();
    let middle = median(&logs);
    let apart: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
    (logs.len() >= 12).then(|| (NORMAL * median(&apart)).max(SIGMA_MIN))
}

/// Layouts that were tried.
struct Search<'a> {
    runs: &'a [Run],
    sigma: f64,
    /// No page is smaller.
    block: u64,
    /// As many layouts are tried.
    most: usize,
    /// What the shortest read takes.
    shortest: f64,
    scored: BTreeMap<Layout, Scored>,
    /// The one that fits best so far.
    leader: Option<Scored>,
}

impl<'a> Search<'a> {
    fn new(runs: &'a [Run], sigma: f64, block: u64) -> Search<'a> {
        let times = runs.first().map(nanos).unwrap_or_default();
        let reads: usize = runs.iter().map(Vec::len).sum();
        let most = READS_MAX / reads.max(1);
        Search { runs, sigma, block, most, shortest: median(&times), scored: BTreeMap::new(), leader: None }
    }

    /// Fits a layout, if that was not done, from many starts.
    fn score(&mut self, layout: Layout) {
        const SHARES: [Times; 5] = [
            [0.15, 0.6, 0.2, 0.05],
            [0.2, 0.2, 0.5, 0.1],
            [0.5, 0.25, 0.2, 0.05],
            [0.1, 0.4, 0.15, 0.35],
            [0.7, 0.1, 0.1, 0.1],
        ];
        let starts: Vec<Times> =
            SHARES.iter().map(|start| start.map(|share| share * self.shortest)).collect();
        self.fit(layout, starts);
    }

    /// Fits the layouts that differ a little, from the times with which this one fits.
    fn score_changed(&mut self, layout: &Layout) {
        let Some(&Scored { times: [command, sense, transfer, link], .. }) = self.scored.get(layout) else {
            return;
        };
        for inner in within(layout) {
            self.score(inner);
        }
        for changed in changed(layout) {
            let ratio = changed.page as f64 / layout.page as f64;
            // What is sensed and what is transferred may have been taken for each other.
            let flash = sense + transfer;
            let parts = [(sense, transfer), (0.75 * flash, 0.25 * flash), (0.25 * flash, 0.75 * flash)];
            let starts = parts.map(|(sense, transfer)| [command, sense, transfer * ratio, link * ratio]);
            self.fit(changed, starts.to_vec());
        }
    }

    /// Goes from the best layout to better ones around it, until there are none.
    fn climb(&mut self) {
        for _ in 0..TURNS {
            let Some(Scored { layout, .. }) = self.leader else { return };
            around(&layout).for_each(|other| self.fit(other, Vec::new()));
            self.score_changed(&layout);
            if self.leader.is_some_and(|leader| leader.layout == layout) {
                return;
            }
        }
    }

    /// Whether as many layouts were tried as there is time for.
    fn is_enough(&self) -> bool {
        self.scored.len() >= self.most
    }

    /// The same with times that fitted before.
    fn score_from(&mut self, layout: Layout, times: Times) {
        self.fit(layout, vec![times]);
    }

    /// From these times on, or from those with which the best layout fits.
    fn fit(&mut self, layout: Layout, mut starts: Vec<Times>) {
        let known = self.scored.contains_key(&layout);
        if layout.page < self.block || known {
            return;
        }
        if let Some(Scored { layout: other, times: [command, sense, transfer, link], .. }) = self.leader {
            let ratio = layout.page as f64 / other.page as f64;
            starts.push([command, sense, transfer * ratio, link * ratio]);
        }
        let good = self.leader.map_or(f64::INFINITY, |leader| leader.loss);
        let unusual = |times: &Times| unusual(&layout, times);
        let (times, loss) =
            Replay::new(self.runs, layout, self.sigma).fit(&starts, &[0, 1, 2, 3], good, &unusual);
        let prior = unusual(&times).min(loss);
        let scored = Scored { layout, times, loss, prior };
        self.scored.insert(layout, scored);
        if self.leader.is_none_or(|leader| loss < leader.loss) {
            self.leader = Some(scored);
        }
    }

    /// The best of each size of pages, and of each way in which a die may work, but for those that are far off.
    fn leaders(&self) -> Vec<Layout> {
        let all = self.best();
        let most = all.first().map_or(0.0, |best| best.loss + 2.0 * FAR);
        let way =
            |layout: &Layout| (layout.page, layout.planes, layout.cached, layout.serial, layout.partial);
        let mut leaders: Vec<Layout> = Vec::new();
        for scored in &all {
            let layout = scored.layout;
            // Pages of another size begin far off, as more than the page has to change.
            let is_first = leaders.iter().all(|leader| leader.page != layout.page);
            let is_near = scored.loss < most && leaders.iter().all(|leader| way(leader) != way(&layout));
            if is_first || is_near {
                leaders.push(layout);
            }
        }
        leaders
    }

    /// All, the best first; of equals the simplest.
    fn best(&self) -> Vec<Scored> {
        let mut all: Vec<Scored> = self.scored.values().copied().collect();
        let simple = |scored: &Scored| {
            let Layout { page, planes, chunk, dies, channels, cached, phase, serial, partial } =
                scored.layout;
            (dies, channels, chunk, planes, page, cached, phase, serial, partial)
        };
        all.sort_by(|a, b| a.loss.total_cmp(&b.loss).then(simple(a).cmp(&simple(b))));
        all
    }
}
