//! Layouts that are tried on reads, each with the times that make them most likely.

use std::collections::BTreeMap;

use super::super::crossings::Crossings;
use super::super::fitting::{IoModel, LayoutTimes};
use super::super::layouts::{around, changed, unusual, within};
use super::super::replay::{FlashLayout, ReadReplay};
use super::super::runs::{TimedRun, alone, nanos};
use super::scored::{CLIMBS_MOST, MARGIN_MOST, Scored};
use crate::signals::statistics::upper_median;

/// The reads that are replayed in one search, each some twenty times. Unit: reads. Source: choice. Too many:
/// the search takes longer; too few: layouts are not tried.
const REPLAYS_MOST: usize = 600_000;

/// Layouts that were tried.
pub(super) struct Search<'a> {
    runs: &'a [TimedRun],
    sigma: f64,
    /// No page is smaller.
    block: u64,
    /// What else a layout has to explain.
    crossings: Option<&'a Crossings>,
    /// No page is larger: a boundary of smaller ones costs something.
    page_most: u64,
    /// As many layouts are tried.
    most: usize,
    /// What the shortest reads take, and of how many bytes they are.
    shortest: f64,
    least: u64,
    /// What each byte more takes of the largest reads one at a time.
    by_byte: f64,
    pub(super) scored: BTreeMap<FlashLayout, Scored>,
    /// The one that fits best so far.
    leader: Option<Scored>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        runs: &'a [TimedRun],
        sigma: f64,
        block: u64,
        crossings: Option<&'a Crossings>,
    ) -> Search<'a> {
        let times = runs.first().map(nanos).unwrap_or_default();
        let reads: usize = runs.iter().map(Vec::len).sum();
        let most = REPLAYS_MOST / reads.max(1);
        Search {
            runs,
            sigma,
            block,
            crossings,
            page_most: crossings.map_or(u64::MAX, |crossings| crossings.page),
            most,
            shortest: upper_median(&times),
            least: runs.first().and_then(|run| run.first()).map_or(0, |read| read.size),
            by_byte: by_byte(runs),
            scored: BTreeMap::new(),
            leader: None,
        }
    }

    /// Fits a layout, if that was not done, from many starts.
    pub(super) fn score(&mut self, layout: FlashLayout) {
        /// The shares of command, sense, transfer and link in the shortest read from which a fit
        /// starts. Unit: share. Source: choice. Too few: the descent ends in the wrong valley; too
        /// many: the search takes longer.
        const START_SHARES: [LayoutTimes; 5] = [
            [0.15, 0.6, 0.2, 0.05],
            [0.2, 0.2, 0.5, 0.1],
            [0.5, 0.25, 0.2, 0.05],
            [0.1, 0.4, 0.15, 0.35],
            [0.7, 0.1, 0.1, 0.1],
        ];
        let starts: Vec<LayoutTimes> =
            START_SHARES.iter().map(|start| start.map(|share| share * self.shortest)).collect();
        self.fit(layout, starts);
    }

    /// Fits the layouts that differ a little, from the times with which this one fits.
    pub(super) fn score_changed(&mut self, layout: &FlashLayout) {
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
    pub(super) fn climb(&mut self) {
        for _ in 0..CLIMBS_MOST {
            let Some(Scored { layout, .. }) = self.leader else { return };
            around(&layout).for_each(|other| self.fit(other, Vec::new()));
            self.score_changed(&layout);
            if self.leader.is_some_and(|leader| leader.layout == layout) {
                return;
            }
        }
    }

    /// Whether as many layouts were tried as there is time for.
    pub(super) fn is_enough(&self) -> bool {
        self.scored.len() >= self.most
    }

    /// The same with times that fitted before.
    pub(super) fn score_from(&mut self, layout: FlashLayout, times: LayoutTimes) {
        self.fit(layout, vec![times]);
    }

    /// From these times on, or from those with which the best layout fits.
    fn fit(&mut self, layout: FlashLayout, from: Vec<LayoutTimes>) {
        let known = self.scored.contains_key(&layout);
        if layout.page < self.block || layout.page > self.page_most || known {
            return;
        }
        // The best times first: replays from others end early.
        let mut starts: Vec<LayoutTimes> =
            self.leader.iter().map(|leader| leader.times_of(layout.page)).collect();
        starts.extend(from);
        starts.extend(self.behind_the_link(layout.page));
        starts.extend(self.page_by_page(layout.page));
        let good = self.leader.map_or(f64::INFINITY, |leader| leader.loss);
        let scored = self.descended(layout, &starts, good);
        self.scored.insert(layout, scored);
        if self.leader.is_none_or(|leader| scored.loss < leader.loss) {
            self.leader = Some(scored);
        }
    }

    /// A layout with the times at which the best descent from these starts ends, and what else has to be explained.
    fn descended(&self, layout: FlashLayout, starts: &[LayoutTimes], good: f64) -> Scored {
        let unusual = |times: &LayoutTimes| unusual(&layout, times);
        let (times, loss) =
            ReadReplay::new(self.runs, layout, self.sigma).fit(starts, &[0, 1, 2, 3], good, &unusual);
        let more = self.crossings.map_or(0.0, |crossings| crossings.unlikely(&layout, &times));
        Scored { layout, times, loss: loss + more, prior: unusual(&times).min(loss) + more }
    }

    /// The times of a slow link behind which large reads hide the flash: of one die, and of several. A
    /// descent from other times does not reach these, as no small step towards them helps.
    fn behind_the_link(&self, page: u64) -> [LayoutTimes; 2] {
        /// The share of the flash in a fit that starts behind a slow link, where there is one die.
        /// Unit: share. Source: choice. Too high: the descent ends in the wrong valley; too low:
        /// likewise.
        const LINKED_FLASH: f64 = 0.6;
        /// The same where there are several dies. Unit: share. Source: choice. Too high: the descent
        /// ends in the wrong valley; too low: likewise.
        const LINKED_DIES: f64 = 0.7;
        let link = self.by_byte * page as f64;
        let rest = (self.shortest - self.by_byte * self.least.min(page) as f64).max(0.1 * self.shortest);
        [LINKED_FLASH * link.min(rest), LINKED_DIES * rest]
            .map(|flash| [rest - flash, flash / 2.0, flash / 2.0, link])
    }

    /// LayoutTimes of a fast link, where of large reads one page is sensed and transferred after the other, wholly or what is asked of it.
    fn page_by_page(&self, page: u64) -> impl Iterator<Item = LayoutTimes> + use<> {
        /// The shares of sensing in a page, in fits that start with a fast link. Unit: share. Source:
        /// choice. Too high: the descent ends in the wrong valley; too low: likewise.
        const SENSED_SHARES: [f64; 2] = [0.5, 0.75];
        /// The share of the link in a page, in the same fits. Unit: share. Source: choice. Too high:
        /// the descent ends in the wrong valley; too low: likewise.
        const FAST_LINK: f64 = 0.03;
        let (both, shortest) = (self.by_byte * page as f64, self.shortest);
        let asked = self.least.min(page) as f64 / page as f64;
        SENSED_SHARES.into_iter().flat_map(move |share| {
            let (sense, transfer) = (share * both, (1.0 - share) * both);
            let command = |asked: f64| (shortest - sense - asked * transfer).max(0.1 * shortest);
            [command(asked), command(1.0)].map(|command| [command, sense, transfer, FAST_LINK * both])
        })
    }

    /// Fits those again that are more likely by the times with which the best layout fits than by their own: their descent
    /// ended too early.
    pub(super) fn refit(&mut self) {
        let Some(leader) = self.leader else { return };
        let better = |scored: &Scored| {
            let (layout, start) = (scored.layout, leader.times_of(scored.layout.page));
            let loss = ReadReplay::new(self.runs, layout, self.sigma).loss(&start) + unusual(&layout, &start);
            let again = (loss < scored.loss).then(|| self.descended(layout, &[start], f64::INFINITY));
            again.filter(|again| again.loss < scored.loss)
        };
        let again: Vec<Scored> = self.scored.values().filter_map(better).collect();
        self.scored.extend(again.into_iter().map(|scored| (scored.layout, scored)));
    }

    /// The best of each size of pages, and of each way in which a die may work, but for those that are far off.
    pub(super) fn leaders(&self) -> Vec<FlashLayout> {
        let all = self.best();
        let most = all.first().map_or(0.0, |best| best.loss + 2.0 * MARGIN_MOST);
        let way =
            |layout: &FlashLayout| (layout.page, layout.planes, layout.cached, layout.serial, layout.partial);
        let mut leaders: Vec<FlashLayout> = Vec::new();
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
    pub(super) fn best(&self) -> Vec<Scored> {
        let mut all: Vec<Scored> = self.scored.values().copied().collect();
        let simple = |scored: &Scored| {
            let FlashLayout { page, planes, chunk, dies, channels, cached, phase, serial, partial } =
                scored.layout;
            (dies, channels, chunk, planes, page, cached, phase, serial, partial)
        };
        all.sort_by(|a, b| a.loss.total_cmp(&b.loss).then(simple(a).cmp(&simple(b))));
        all
    }
}

/// What each byte more takes of the largest of the reads one at a time, which come first, by size.
fn by_byte(runs: &[TimedRun]) -> f64 {
    let size = |run: &TimedRun| run.first().map_or(0, |read| read.size);
    let [.., small, large] = alone(runs) else { return 0.0 };
    let more = upper_median(&nanos(large)) - upper_median(&nanos(small));
    more.max(0.0) / (size(large) - size(small)) as f64
}

#[cfg(test)]
mod tests {
    use super::super::super::layouts::CHUNK_OF_ALL;
    use super::super::super::runs::Io;
    use super::*;

    #[test]
    fn a_descent_that_ended_too_early_is_begun_again_from_the_best_times() {
        let layout = |dies| FlashLayout {
            page: 4096,
            planes: 1,
            chunk: if dies == 1 { CHUNK_OF_ALL } else { 1 },
            dies,
            channels: 1,
            cached: false,
            phase: 0,
            serial: false,
            partial: false,
        };
        // Of one page each: on however many dies they take the same.
        let read = |index: u64| Io::new(index as f64 * 1e6, 90e3, index * 8192, 512);
        let runs = [(0..30).map(read).collect::<TimedRun>()];
        let mut search = Search::new(&runs, 0.05, 512, None);
        [1, 2].into_iter().for_each(|dies| search.score(layout(dies)));
        let losses = |search: &Search<'_>| [1, 2].map(|dies| search.scored[&layout(dies)].loss);
        let all = losses(&search);
        let stuck = search.scored.get_mut(&layout(2)).unwrap();
        (stuck.times, stuck.loss) = ([1e3, 1e3, 1e3, 1e3], 100.0);
        search.refit();
        let again = losses(&search);
        assert!(all.iter().zip(again).all(|(one, other)| (one - other).abs() < 0.5), "{all:?} {again:?}");
    }

    #[test]
    fn a_link_that_hides_the_flash_is_found() {
        let (chunk, cached, phase, serial, partial) = (CHUNK_OF_ALL, false, 0, false, false);
        let layout = FlashLayout {
            page: 2048,
            planes: 1,
            chunk,
            dies: 1,
            channels: 1,
            cached,
            phase,
            serial,
            partial,
        };
        let mut random = flashlab_base::Prng::new(flashlab_base::Seed(7));
        let mut run = |size: u64| -> TimedRun {
            let read = |index: u64| Io::new(index as f64 * 1e9, 1.0, index * 65536 + 1536, size);
            let all = [(0..60).map(read).collect::<TimedRun>()];
            let mut run = TimedRun::new();
            ReadReplay::new(&all, layout, 1.0).predict(&[485e3, 25e3, 5e3, 114e3], |read, nanos| {
                run.push(Io { nanos: nanos * (0.95 + 0.1 * random.unit()), ..*read });
            });
            run
        };
        let runs: Vec<TimedRun> = [512, 1024, 3072, 7168, 15360, 31744, 64512].map(&mut run).to_vec();
        let mut search = Search::new(&runs, 0.03, 512, None);
        search.score(layout);
        let Scored { times: [command, sense, transfer, link], loss, .. } = search.scored[&layout];
        assert!(
            (command / 485e3 - 1.0).abs() < 0.05 && (link / 114e3 - 1.0).abs() < 0.05,
            "{command} {link}"
        );
        assert!(((sense + transfer) / 30e3 - 1.0).abs() < 0.4 && loss < 300.0, "{sense} {transfer} {loss}");
    }
}
