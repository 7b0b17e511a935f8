//! The filled device overwritten sequentially: the cycle in which it reclaims blocks, and from which IO on.
//!
//! # Model
//! Where every page can lie anywhere, the first erase comes when the over-provisioned space is used up; from then on
//! there is one for each block of each die. Where blocks are replaced, it comes at the end of each from the beginning
//! on. Dies that fill their blocks together erase them together, so that these stalls come in clusters
//! ([`cycles`](super::cycles)).
//!
//! # Invariants
//! - A cycle counts only if it predicts the stalls of IOs that were done after it was found, or if it begins late.

use super::copied::{WINDOWS_LEAST, few_copied};
use super::cycles::{Cycle, is_by_the_clock, level};
use super::late_cycles::late_cycle;
use super::onset::{Onset, onset};
use super::row_cycles::{Rows, SHORT_CYCLES_MOST, cycles_of_blocks, without};
use super::statistics::{mean, upper_median};
use super::unit_rows::{UnitOfRows, may_be_block, unit_of_rows};
use crate::priors;
use crate::thresholds;

/// A cycle that begins late needs this share of the log-likelihood ratio of the likeliest one: a write buffer
/// has no late beginning. Unit: share. Source: tuned. Too high: the cycle of a write buffer wins; too low: a
/// chance cycle that begins late wins.
const LATE_SHARE: f64 = 0.05;
/// The different periods that have to predict fresh writes. Unit: periods. Source: choice. Too many: one of
/// them predicts by chance; too few: the right one is not among them.
const PERIODS_TRIED: usize = 8;
/// The share of the fresh windows that contain a stall. Half of the true period is right in every second
/// window. Unit: share. Source: tuned. Too high: garbage collection that skips a block refutes the period;
/// too low: half of the period is confirmed.
const PREDICTED_SHARE: f64 = 0.7;
/// The mean write takes at least this many times as long once blocks are copied. Unit: ratio. Source: tuned.
/// Too high: collection of nearly empty blocks is not seen; too low: erases alone count as copies.
const COPIES_RATIO: f64 = 1.5;
/// In that mean, a write counts for at most this many usual ones. Unit: ratio. Source: tuned. Too high: one
/// outlier of the host decides; too low: merges are cut.
const WRITE_CAP: f64 = 500.0;
/// The longest erase, as far as an IO waits for it. Unit: ns. Source: Grupp et al., MICRO 2009: 1.5 to 5 ms,
/// here three times as much. Too high: merges count as erases; too low: slow erases count as merges.
const ERASE_MOST: f64 = 15e6;
/// The most open blocks of a die, each of which is merged when another one is allocated. Unit: blocks.
/// Source: tuned. Too high: the end of the over-provisioning counts as full log blocks; too low: devices with
/// many log blocks seem to collect late.
const OPEN_BLOCKS_MOST: usize = 20;
/// A part of a period that has this share of its log-likelihood ratio is the period. Unit: share. Source:
/// tuned. Too high: a multiple is reported; too low: a part that fits by chance is reported.
const MULTIPLE_SHARE: f64 = 0.55;

/// What each IO of the overwriting took, and what that showed.
#[derive(Clone, Default)]
pub struct Overwritten {
    /// What each write and the flush or the read behind it took.
    pub both: Vec<f64>,
    /// What each write took.
    pub writes: Vec<f64>,
    /// The writes of a multi-plane page of all dies, if it is known.
    pub writes_of_row: Option<f64>,
    /// A cycle that predicted itself, or a late one.
    pub seen: Option<PredictedCycle>,
    /// The multi-plane pages of a block, by all stalls.
    pub of_rows: Option<UnitOfRows>,
    /// The write from which on more of them stall, if a page map is likely.
    pub room_from: Option<usize>,
}

/// A cycle that predicted itself.
#[derive(Clone, Copy)]
pub struct PredictedCycle {
    /// The cycle.
    pub cycle: Cycle,
    /// What is too short for an erase block, and was taken away before.
    pub rows: [Option<Rows>; SHORT_CYCLES_MOST],
    /// Whether the writes alone show it.
    pub of_writes: bool,
    /// The first write of its first window, if it is not from the beginning on.
    pub onset: Option<usize>,
    /// Fresh windows.
    pub windows: usize,
    /// Of these, the ones with stalls.
    pub stalled: usize,
}

impl PredictedCycle {
    /// A cycle that has not predicted itself.
    fn unconfirmed(
        cycle: Cycle,
        rows: [Option<Rows>; SHORT_CYCLES_MOST],
        of_writes: bool,
        onset: Option<usize>,
    ) -> PredictedCycle {
        PredictedCycle { cycle, rows, of_writes, onset, windows: 0, stalled: 0 }
    }

    /// Whether it is to be believed rather than one that was found earlier, among fewer writes.
    fn is_likelier(&self, earlier: Option<PredictedCycle>) -> bool {
        let for_each = |seen: &PredictedCycle| seen.cycle.gain / seen.cycle.length as f64;
        earlier.is_none_or(|earlier| self.onset.is_some() || for_each(self) >= for_each(&earlier))
    }
}

impl Overwritten {
    /// From when on there are more stalls: of writes, of the reads behind them, or of both together, whichever is likeliest.
    pub fn more_stalls(&self) -> Option<Onset> {
        let reads = self.reads();
        let found = [&self.both, &self.writes, &reads].into_iter().filter_map(|costs| onset(costs));
        found.max_by(|a, b| a.gain.total_cmp(&b.gain))
    }

    /// What the read behind each write took.
    pub fn reads(&self) -> Vec<f64> {
        self.both.iter().zip(&self.writes).map(|(both, write)| both - write).collect()
    }

    /// Whether blocks are copied from the first stall of a cycle on, and not only erased. Then it may be
    /// log blocks that are full for the first time, of which there are not many.
    pub fn copies(&self) -> bool {
        let Some(PredictedCycle { cycle, of_writes, onset: Some(onset), .. }) = self.seen else {
            return false;
        };
        onset <= OPEN_BLOCKS_MOST * cycle.period && copies(&cycle, self.costs(of_writes), onset)
    }

    fn costs(&self, of_writes: bool) -> &[f64] {
        if of_writes { &self.writes } else { &self.both }
    }

    /// Takes the likeliest of these cycles that predict the IOs from the `known`-th on; `shortest` is the shortest block.
    pub fn confirm(&mut self, candidates: &[PredictedCycle], known: usize, shortest: usize) {
        let predicted = |seen: &PredictedCycle| {
            let costs = without(&seen.rows, &self.costs(seen.of_writes)[known..], known);
            let (windows, stalled, gain) = seen.cycle.predicts(&costs, known);
            let right = windows >= 1
                && stalled as f64 >= PREDICTED_SHARE * windows as f64
                && gain >= thresholds::PART_GAIN;
            right.then_some(PredictedCycle { windows, stalled, ..*seen })
        };
        let mut confirmed: Vec<PredictedCycle> = candidates.iter().filter_map(predicted).collect();
        confirmed.retain(|seen| {
            let costs = without(&seen.rows, self.costs(seen.of_writes), 0);
            !is_by_the_clock(&seen.cycle, &costs, &self.both)
        });
        self.seen = likeliest(&confirmed).filter(|seen| seen.is_likelier(self.seen)).or(self.seen);
        self.seen = self.seen.map(|seen| self.with_likeliest_period(seen, shortest));
    }

    /// What all stalls from where blocks are collected on say of the rows of a unit.
    pub fn look_at_rows(&mut self, pages: bool) {
        let Some(rows) = self.writes_of_row else { return };
        let more =
            self.more_stalls().filter(|stalls| stalls.gain >= thresholds::CLEAR_GAIN).map(|stalls| stalls.at);
        // Where blocks are replaced as a whole, other things begin later.
        self.room_from = more.filter(|_| pages);
        let onset = self.seen.and_then(|seen| seen.onset);
        let beginnings: Vec<usize> = more.into_iter().chain(onset).collect();
        let cycle = self.seen.map(|seen| seen.cycle.period);
        let told = unit_of_rows(&[&self.writes, &self.reads()], rows, &beginnings, cycle);
        // Where the cycle is another one, it began at another place.
        let begins = |told: UnitOfRows| {
            let period = (told.rows as f64 * rows).round() as usize;
            let found = few_copied(&self.both, &[period]).filter(|found| found.phase >= period);
            UnitOfRows { from: found.map_or(told.from, |found| found.phase), ..told }
        };
        self.of_rows = told.map(begins);
    }

    /// Blocks that are copied, or erased, that few stalls show. In order these are whole blocks.
    fn look_for_few(&mut self, shortest: usize, later: usize) {
        let longest = self.both.len() / WINDOWS_LEAST;
        let periods: Vec<usize> =
            (shortest.max(2)..=longest).filter(|&period| may_be_block(period)).collect();
        let seen = |cycle: Cycle| PredictedCycle {
            windows: (cycle.length - cycle.phase) / cycle.period.max(1),
            ..PredictedCycle::unconfirmed(cycle, [None; SHORT_CYCLES_MOST], false, Some(cycle.phase))
        };
        // In order, where units are replaced, the first one may be before any stall.
        let begins = |cycle: &Cycle| cycle.phase >= cycle.period.max(later);
        self.seen = few_copied(&self.both, &periods).filter(begins).map(seen).or(self.seen);
    }

    /// A cycle that begins late, of which too few blocks were seen to predict others. It has stalls in few
    /// writes of a block, or in a part of it. Where each write is a superpage, few stalls show whole
    /// blocks, if no more writes will follow.
    pub fn look_for_late(&mut self, shortest: usize, later: usize, is_last: bool) {
        let of = |of_writes| {
            let costs = self.costs(of_writes);
            let cycle = late_cycle(costs, shortest)?;
            let onset = cycle.onset(costs).filter(|&onset| onset > later)?;
            let erases = level(&cycle, costs) - upper_median(costs) >= priors::ERASE_LEAST;
            erases.then(|| {
                PredictedCycle::unconfirmed(cycle, [None; SHORT_CYCLES_MOST], of_writes, Some(onset))
            })
        };
        let narrow = self.candidates(shortest, later).into_iter().filter(|seen| seen.onset.is_some());
        let found: Vec<PredictedCycle> = narrow.chain(of(false)).chain(of(true)).collect();
        let windows =
            |seen: &PredictedCycle| (self.both.len() - seen.onset.unwrap_or(0)) / seen.cycle.period.max(1);
        let best = likeliest(&found).map(|seen| self.with_likeliest_period(seen, shortest));
        let best = best.map(|seen| PredictedCycle { windows: windows(&seen), ..seen });
        self.seen = best.or(self.seen);
        let few = is_last && self.writes_of_row == Some(1.0);
        if few && self.seen.is_none_or(|seen| seen.onset.is_none()) {
            self.look_for_few(shortest, later);
        }
    }

    /// What begins later, with the part or the multiple of its period that explains the stalls since then best, and from when on
    /// that is.
    fn with_likeliest_period(&self, seen: PredictedCycle, shortest: usize) -> PredictedCycle {
        let Some(onset) = seen.onset else { return seen };
        let costs = without(&seen.rows, self.costs(seen.of_writes), 0);
        let cycle = seen.cycle.likeliest_period(&costs, onset, shortest);
        let times = cycle.period as f64 / seen.cycle.period.max(1) as f64;
        let of_all = |windows: usize| (windows as f64 / times).round() as usize;
        PredictedCycle {
            cycle,
            onset: Some(cycle.onset(&costs).unwrap_or(onset)),
            windows: of_all(seen.windows),
            stalled: of_all(seen.stalled),
            ..seen
        }
    }

    /// Cycles of different periods, the likeliest first, and from when on they are.
    pub fn candidates(&self, shortest: usize, later: usize) -> Vec<PredictedCycle> {
        let of = |of_writes| {
            let (cycles, rows) = cycles_of_blocks(self.costs(of_writes), shortest);
            cycles.into_iter().map(move |cycle| (cycle, of_writes, rows))
        };
        let mut all: Vec<_> = of(false).chain(of(true)).collect();
        all.sort_by(|a, b| b.0.gain.total_cmp(&a.0.gain));
        let mut chosen: Vec<PredictedCycle> = Vec::new();
        for (cycle, of_writes, rows) in all {
            if chosen.len() < PERIODS_TRIED && chosen.iter().all(|seen| seen.cycle.period != cycle.period) {
                let costs = &without(&rows, self.costs(of_writes), 0);
                // Writing back a map takes less than an erase.
                let erases = level(&cycle, costs) - upper_median(costs) >= priors::ERASE_LEAST;
                let onset = cycle.onset(costs).filter(|&onset| erases && onset > later);
                chosen.push(PredictedCycle::unconfirmed(cycle, rows, of_writes, onset));
            }
        }
        chosen
    }
}

/// Whether from a write on enough more is done that blocks are copied, and not only erased.
fn copies(cycle: &Cycle, costs: &[f64], onset: usize) -> bool {
    let (before, after) = costs.split_at(onset.min(costs.len()));
    let cut = WRITE_CAP * upper_median(costs);
    let usual = |costs: &[f64]| mean(&costs.iter().map(|cost| cost.min(cut)).collect::<Vec<_>>());
    level(cycle, costs) > ERASE_MOST || usual(after) > COPIES_RATIO * usual(before)
}

/// The likeliest cycle. One that begins late is no buffer's, and is preferred unless it is much less likely. A
/// part of its period is preferred if it is hardly less likely.
fn likeliest(seen: &[PredictedCycle]) -> Option<PredictedCycle> {
    let most = |seen: &mut dyn Iterator<Item = PredictedCycle>| {
        seen.max_by(|a, b| a.cycle.gain.total_cmp(&b.cycle.gain))
    };
    let best = most(&mut seen.iter().copied())?;
    let later =
        |seen: &PredictedCycle| seen.onset.is_some() && seen.cycle.gain >= LATE_SHARE * best.cycle.gain;
    let best = most(&mut seen.iter().copied().filter(later)).unwrap_or(best);
    let is_part = |seen: &&PredictedCycle| {
        let (part, whole) = (seen.cycle.period, best.cycle.period);
        let parts = (whole as f64 / part as f64).round();
        part < whole
            && seen.onset.is_some() == best.onset.is_some()
            && seen.cycle.gain >= MULTIPLE_SHARE * best.cycle.gain
            && (part as f64 * parts - whole as f64).abs() <= best.cycle.width as f64
    };
    seen.iter().filter(is_part).min_by_key(|seen| seen.cycle.period).copied().or(Some(best))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IOs of which one in `period` waits for an erase, from the `first` on.
    fn overwritten(count: usize, first: usize, period: usize, erase: f64) -> Overwritten {
        // They become slower, so that nothing comes back by the clock.
        let io = |at: usize| (200e3 + 300.0 * at as f64) * (1.0 + 0.03 * (at * 7 % 11) as f64 / 11.0);
        let waits = |at: usize| at >= first && (at - first).is_multiple_of(period);
        let both: Vec<f64> = (0..count).map(|at| io(at) + if waits(at) { erase } else { 0.0 }).collect();
        Overwritten { writes: both.iter().map(|both| both / 2.0).collect(), both, ..Overwritten::default() }
    }

    #[test]
    fn a_cycle_is_confirmed_by_ios_after_it_was_found() {
        for first in [0, 480] {
            let all = overwritten(1200, first, 48, 3e6);
            let mut part = overwritten(800, first, 48, 3e6);
            let candidates = part.candidates(16, 64);
            (part.both, part.writes) = (all.both, all.writes);
            part.confirm(&candidates, 800, 16);
            let seen = part.seen.expect("a cycle");
            assert_eq!((seen.cycle.period, seen.onset.is_some()), (48, first > 0), "{first}");
            assert!(seen.stalled >= 7, "{}", seen.stalled);
        }
        // What comes back differently afterwards was none.
        let mut other = overwritten(1200, 0, 37, 3e6);
        other.confirm(&overwritten(800, 0, 48, 3e6).candidates(16, 64), 800, 16);
        assert!(other.seen.is_none());
    }

    #[test]
    fn a_late_cycle_needs_no_prediction_and_even_ios_have_none() {
        let mut late = overwritten(800, 600, 48, 3e6);
        late.look_for_late(16, 64, false);
        assert_eq!(late.seen.and_then(|seen| seen.onset), Some(600));
        let mut even = overwritten(800, 800, 48, 3e6);
        even.look_for_late(16, 64, true);
        assert!(even.seen.is_none() && even.more_stalls().is_none());
    }
}
