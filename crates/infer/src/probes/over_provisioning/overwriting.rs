//! The filled device written once more from its beginning on: how often it has to reclaim blocks, and from when on.
//!
//! # Model
//! What was written in order becomes invalid in order: block by block, wholly. So nothing has to be moved, and what is left
//! of garbage collection is the erase, or the merge that replaces a whole block:
//! - where every page may lie anywhere, the first erase comes when the over-provisioned space is used up, to the block;
//!   from then on there is one for each block of each die;
//! - where blocks are replaced, it comes at the end of each from the beginning on.
//!
//! Dies that fill their blocks together erase them together, so that these stalls come in groups ([`flashlab_analysis::signals::cycles`]), once
//! for each erase block by its definition. So that this is a whole number of writes, a write is a row of pages of every die, as
//! far as these are known, or a part of it by a power of two, in whole pages. The smaller it is, the more of them meet a die that
//! erases. Where the row is known, the number of rows is told by all stalls from where blocks are collected on (`unit_rows`),
//! and goes before a cycle that is much less likely.
//!
//! Behind a buffer nobody waits for an erase; but a flush does. So where one shows what a buffer holds each write is a row and is flushed,
//! and what both take is looked at. Elsewhere, who reads waits as well, if he reads from that die: each write is followed by
//! a read of a row anywhere, and what both take is looked at, and what the writes take.
//!
//! Fast and slow rows, and buffers that are reclaimed in pieces make cycles as well, from the beginning on. They are shorter
//! than a block of sixteen rows on each die, as far as rows and dies are known. So nothing shorter is an erase block.
//!
//! # Invariants
//! - a cycle counts only if it predicts the stalls of writes that were done after it was found.

use flashlab_analysis::inference::{Axis, Picture, Style};
use flashlab_analysis::priors;
use flashlab_analysis::signals::cycles::{Cycle, is_by_the_clock, level};
use flashlab_analysis::signals::figures::{mean, median, slowest};
use flashlab_analysis::signals::late_cycles::late_cycle;
use flashlab_analysis::signals::onset::{Onset, onset};
use flashlab_analysis::signals::row_cycles::{CYCLES_MOST, Rows, cycles_of_blocks, without};
use flashlab_analysis::signals::unit_rows::UnitOfRows;
use flashlab_base::{Bytes, Mode};
use flashlab_plan::{Location, Pattern};

use crate::halt::Halt;
use crate::patterns::writes::{apart, page_to_write};
use crate::patterns::{in_turn, ios, responses, with_reads};
use crate::session::Session;

/// The smallest writes, which are whole pages nearly always, and the most of them on the whole device.
const IO_SIZE: Bytes = Bytes::kib(16);
const IOS_MOST: u64 = 1 << 16;
/// The reads between them, where no row of pages of all dies is known.
const READ_SIZE: Bytes = Bytes::kib(4);
/// The share of the device that is left to the groups behind, where overwriting shows nothing.
const LEFT: f64 = 0.06;
/// Writes that are looked at first, as a share of the device and at the most, and how many more there are each time.
const FIRST: f64 = 0.016;
const FIRST_MOST: usize = 1024;
const GROWTH: f64 = 0.2;
/// The share of the device from which on a cycle that begins is no cycle from the beginning on.
const LATER: f64 = 0.03;
/// How likely it is at least, as a part of the likeliest one's gain.
const LATER_GAIN: f64 = 0.05;
/// Different periods that are tried on fresh writes.
const TRIED: usize = 8;
/// In this share of the windows it has to be right: a period that is half of the true one is right in every second window, and other work
/// hides some stalls of the true one. And so much likelier than by chance, as a log-likelihood ratio: a thousand times.
const PREDICTED: f64 = 0.7;
const PREDICTED_GAIN: f64 = 7.0;
/// Copying blocks as large as those that are written makes writes at least so many times as expensive, on average. No write
/// counts for more than so many usual ones.
const COPIES: f64 = 1.5;
/// No erase takes less, as far as a read or a write waits for it; and none takes so long.
const ERASE_MOST: f64 = 15e6;
const CUT: f64 = 500.0;
/// So many blocks at most may be open, each of which is copied when another one is opened.
const OPEN_MOST: usize = 20;
/// A part of a period is taken for the period if its gain is at least such a part.
const PART_GAIN: f64 = 0.55;
/// What overwriting the device showed.
pub(super) struct Overwriting {
    /// What is written each time.
    pub size: Bytes,
    /// Of so many pieces of this size one is overwritten: each, or each second one.
    pub one_in: u64,
    /// Whether each write is flushed, so that it takes what a buffer hides.
    pub through: bool,
    /// What each write and the flush or the read behind it took.
    pub both: Vec<f64>,
    /// What each write took.
    pub writes: Vec<f64>,
    pub seen: Option<PredictedCycle>,
    /// A row of pages of all dies, if it is known.
    pub row: Option<Bytes>,
    pub of_rows: Option<UnitOfRows>,
    /// The write from which on more of them stall, if pages are likely to lie anywhere.
    pub room_from: Option<usize>,
}

/// A cycle that predicted itself.
#[derive(Clone, Copy)]
pub(super) struct PredictedCycle {
    pub cycle: Cycle,
    /// What is too short for an erase block, and was taken away before.
    pub rows: [Option<Rows>; CYCLES_MOST],
    /// Whether the writes alone show it.
    pub of_writes: bool,
    /// The first write of its first window, if it is not from the beginning on.
    pub onset: Option<usize>,
    /// Fresh windows, and how many of them had stalls.
    pub windows: usize,
    pub stalled: usize,
}

impl PredictedCycle {
    /// A cycle that has not predicted itself.
    pub(super) fn unconfirmed(
        cycle: Cycle,
        rows: [Option<Rows>; CYCLES_MOST],
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

impl Overwriting {
    /// From when on there are more stalls: of writes, of the reads behind them, or of both together, whichever is likeliest.
    pub(super) fn more_stalls(&self) -> Option<Onset> {
        let reads = self.reads();
        let found = [&self.both, &self.writes, &reads].into_iter().filter_map(|costs| onset(costs));
        found.max_by(|a, b| a.gain.total_cmp(&b.gain))
    }

    /// What the read behind each write took.
    pub(super) fn reads(&self) -> Vec<f64> {
        self.both.iter().zip(&self.writes).map(|(both, write)| both - write).collect()
    }

    /// How much was written.
    pub(super) fn written(&self) -> Bytes {
        self.size * self.both.len() as u64
    }

    /// Whether so much is done from the first stall of a cycle on that blocks as large as those that are written are copied,
    /// and not only erased: that may be logs that are full for the first time, of which there are not many.
    pub(super) fn copies(&self) -> bool {
        let Some(PredictedCycle { cycle, of_writes, onset: Some(onset), .. }) = self.seen else {
            return false;
        };
        onset <= OPEN_MOST * cycle.period && copies(&cycle, self.costs(of_writes), onset)
    }

    fn costs(&self, of_writes: bool) -> &[f64] {
        if of_writes { &self.writes } else { &self.both }
    }

    pub(super) fn picture(&self) -> Picture {
        let what = match self.one_in {
            1 => "The filled device, overwritten sequentially",
            _ => "Every second multi-plane page of the filled device, overwritten",
        };
        Picture::new(
            format!("{what}, {}. Of neighbouring IOs the slowest is shown.", self.behind()),
            Axis::linear("overwritten", "bytes"),
            Axis::logarithmic(self.both_named(), "ns"),
        )
        .draw(self.both_named(), Style::Dots, slowest(self.size, &self.both))
    }

    /// What is done behind each write.
    pub(super) fn behind(&self) -> &'static str {
        if self.through { "each write followed by a flush" } else { "each write followed by a random read" }
    }

    /// What is looked at.
    pub(super) fn both_named(&self) -> &'static str {
        if self.through { "write and flush" } else { "write and read" }
    }

    /// A cycle that begins later, of which too few units were seen for it to be predicted: that has stalls in few writes of a
    /// unit, or in a part of it. Where each write is a row, whole blocks of few rows are told by few stalls, if there will be no more.
    fn look_for_late(&mut self, shortest: usize, later: usize, is_last: bool) {
        let of = |of_writes| {
            let costs = self.costs(of_writes);
            let cycle = late_cycle(costs, shortest)?;
            let onset = self.onset_of(&cycle, costs).filter(|&onset| onset > later)?;
            let erases = level(&cycle, costs) - median(costs) >= priors::ERASE_LEAST;
            erases.then(|| PredictedCycle::unconfirmed(cycle, [None; CYCLES_MOST], of_writes, Some(onset)))
        };
        let narrow = self.candidates(shortest, later).into_iter().filter(|seen| seen.onset.is_some());
        let found: Vec<PredictedCycle> = narrow.chain(of(false)).chain(of(true)).collect();
        let windows =
            |seen: &PredictedCycle| (self.both.len() - seen.onset.unwrap_or(0)) / seen.cycle.period.max(1);
        let best = likeliest(&found).map(|seen| self.with_likeliest_period(seen, shortest));
        let best = best.map(|seen| PredictedCycle { windows: windows(&seen), ..seen });
        self.seen = best.or(self.seen);
        let few = self.one_in > 1 || is_last && self.row == Some(self.size);
        if few && self.seen.is_none_or(|seen| seen.onset.is_none()) {
            self.look_for_few(shortest, later);
        }
    }

    /// From when on a cycle has stalls: where blocks are copied each window has.
    fn onset_of(&self, cycle: &Cycle, costs: &[f64]) -> Option<usize> {
        if self.one_in > 1 { cycle.onset_by_any(costs) } else { cycle.onset(costs) }
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
            onset: Some(self.onset_of(&cycle, &costs).unwrap_or(onset)),
            windows: of_all(seen.windows),
            stalled: of_all(seen.stalled),
            ..seen
        }
    }

    /// Cycles of different periods, the likeliest first, and from when on they are.
    fn candidates(&self, shortest: usize, later: usize) -> Vec<PredictedCycle> {
        let of = |of_writes| {
            let (cycles, rows) = cycles_of_blocks(self.costs(of_writes), shortest);
            cycles.into_iter().map(move |cycle| (cycle, of_writes, rows))
        };
        let mut all: Vec<_> = of(false).chain(of(true)).collect();
        all.sort_by(|a, b| b.0.gain.total_cmp(&a.0.gain));
        let mut chosen: Vec<PredictedCycle> = Vec::new();
        for (cycle, of_writes, rows) in all {
            if chosen.len() < TRIED && chosen.iter().all(|seen| seen.cycle.period != cycle.period) {
                let costs = &without(&rows, self.costs(of_writes), 0);
                // Writing back a map takes less than an erase.
                let erases = level(&cycle, costs) - median(costs) >= priors::ERASE_LEAST;
                let onset = self.onset_of(&cycle, costs).filter(|&onset| erases && onset > later);
                chosen.push(PredictedCycle::unconfirmed(cycle, rows, of_writes, onset));
            }
        }
        chosen
    }
}

/// Nothing is overwritten yet.
pub(super) fn begin(session: &Session<'_, '_>) -> Overwriting {
    let through = session.looks_through();
    let (capacity, block) = (session.capacity(), session.block());
    let row = session.known().row_of_all_dies();
    let of_rows = row.unwrap_or(IO_SIZE).round_up(block);
    let least = Bytes(capacity.0 / IOS_MOST).max(IO_SIZE).max(block);
    let mut size = of_rows * (capacity.0 / IOS_MOST).div_ceil(of_rows.0).next_power_of_two();
    while !through && size >= least * 2 && size.0.is_multiple_of(2 * page_to_write(session).0) {
        size = Bytes(size.0 / 2);
    }
    Overwriting {
        size,
        one_in: 1,
        through,
        both: Vec::new(),
        writes: Vec::new(),
        seen: None,
        row,
        of_rows: None,
        room_from: None,
    }
}

/// Overwrites the device from where it was on until a cycle that begins later predicts itself, or until `enough` is overwritten and
/// something is left to others; more than that if there may be such a cycle soon. In order only at the last, when no more will
/// follow (`enough` is none), few stalls may tell one.
pub(super) fn overwrite(
    session: &mut Session<'_, '_>,
    found: &mut Overwriting,
    enough: Option<Bytes>,
) -> Result<(), Halt> {
    look_for_cycle(session, found, enough)?;
    // Rows that are left out are copied when it is their turn: only whole units are erased at the same rows.
    if found.one_in == 1 {
        found.look_at_rows(session.known().is_likely_to_map_pages());
    }
    Ok(())
}

fn look_for_cycle(
    session: &mut Session<'_, '_>,
    found: &mut Overwriting,
    enough: Option<Bytes>,
) -> Result<(), Halt> {
    let (size, one_in) = (found.size, found.one_in);
    let capacity = session.capacity();
    let left = session.writes_left();
    let kept = Bytes((capacity.0 as f64 * LEFT) as u64);
    let usual = found.written() + Bytes(left.0.saturating_sub(kept.0));
    let (until, most) = (enough.map_or(usual, |enough| enough.min(usual)), found.written() + left);
    let writes = |bytes: Bytes| (bytes.0.min(capacity.0 / one_in) / size.0) as usize;
    let of_device = |share: f64| writes(Bytes((capacity.0 as f64 * share) as u64));
    let (until, most) = (writes(until), writes(most));
    let shortest = session
        .known()
        .row_of_all_dies()
        .map_or(0, |row| (row * priors::ROWS_LEAST).0 / size.0 / found.one_in) as usize;
    let mut candidates: Vec<PredictedCycle> = Vec::new();
    loop {
        let known = found.both.len();
        let soon = candidates.iter().any(|seen| seen.onset.is_some());
        let most = if soon { most } else { until };
        if known >= most {
            found.look_for_late(shortest, of_device(LATER), enough.is_none());
            return Ok(());
        }
        let longest = candidates.iter().map(|seen| seen.cycle.period + seen.cycle.width).max().unwrap_or(0);
        let first = of_device(FIRST).clamp(64, FIRST_MOST);
        let count = first.max((known as f64 * GROWTH) as usize).max(longest).min(most - known);
        match write_on(session, found, count) {
            Err(Halt::Time | Halt::Budget { .. }) if known > 0 => {
                found.look_for_late(shortest, of_device(LATER), enough.is_none());
                return Ok(());
            }
            other => other?,
        }
        let predicted = |seen: &PredictedCycle| {
            let costs = without(&seen.rows, &found.costs(seen.of_writes)[known..], known);
            let (windows, stalled, gain) = seen.cycle.predicts(&costs, known);
            let right =
                windows >= 1 && stalled as f64 >= PREDICTED * windows as f64 && gain >= PREDICTED_GAIN;
            right.then_some(PredictedCycle { windows, stalled, ..*seen })
        };
        let mut confirmed: Vec<PredictedCycle> = candidates.iter().filter_map(predicted).collect();
        confirmed.retain(|seen| {
            let costs = without(&seen.rows, found.costs(seen.of_writes), 0);
            !is_by_the_clock(&seen.cycle, &costs, &found.both)
        });
        found.seen = likeliest(&confirmed).filter(|seen| seen.is_likelier(found.seen)).or(found.seen);
        found.seen = found.seen.map(|seen| found.with_likeliest_period(seen, shortest));
        if found.seen.is_some_and(|seen| seen.onset.is_some()) {
            return Ok(());
        }
        candidates = found.candidates(shortest, of_device(LATER));
    }
}

/// Writes `count` more, each with a flush or a read anywhere behind it.
fn write_on(session: &mut Session<'_, '_>, found: &mut Overwriting, count: usize) -> Result<(), Halt> {
    let (capacity, count) = (session.capacity(), count as u64);
    let slot = found.size * found.one_in;
    let writes = apart(ios(Mode::Write, Location::Sequential, found.size, count), slot)
        .on_target(slot * found.both.len() as u64, slot * count);
    if found.through {
        let samples = session.run("overwriting", &writes)?;
        let took = responses(&samples);
        found.writes.extend(&took);
        found.both.extend(took);
        return Ok(());
    }
    let read = found.row.unwrap_or(READ_SIZE).round_up(session.block());
    let mut reads = ios(Mode::Read, Location::Random, read, count);
    reads.first.target_size = Some(capacity.round_down(read));
    let writes = Pattern { io_count: Some(2 * count), ..writes };
    for (write, both) in with_reads(&session.run_as_it_is("overwriting", &in_turn(writes, reads))?) {
        found.writes.push(write.response().0 as f64);
        found.both.push(both);
    }
    Ok(())
}

/// Whether from a write on so much more is done that blocks are copied, and not only erased.
fn copies(cycle: &Cycle, costs: &[f64], onset: usize) -> bool {
    let (before, after) = costs.split_at(onset.min(costs.len()));
    let cut = CUT * median(costs);
    let usual = |costs: &[f64]| mean(&costs.iter().map(|cost| cost.min(cut)).collect::<Vec<_>>());
    level(cycle, costs) > ERASE_MOST || usual(after) > COPIES * usual(before)
}

/// What begins later is no buffer's, if it is not much less likely; else the likeliest is taken, or a part of it that is
/// hardly less likely.
fn likeliest(seen: &[PredictedCycle]) -> Option<PredictedCycle> {
    let most = |seen: &mut dyn Iterator<Item = PredictedCycle>| {
        seen.max_by(|a, b| a.cycle.gain.total_cmp(&b.cycle.gain))
    };
    let best = most(&mut seen.iter().copied())?;
    let later =
        |seen: &PredictedCycle| seen.onset.is_some() && seen.cycle.gain >= LATER_GAIN * best.cycle.gain;
    let best = most(&mut seen.iter().copied().filter(later)).unwrap_or(best);
    let is_part = |seen: &&PredictedCycle| {
        let (part, whole) = (seen.cycle.period, best.cycle.period);
        let parts = (whole as f64 / part as f64).round();
        part < whole
            && seen.onset.is_some() == best.onset.is_some()
            && seen.cycle.gain >= PART_GAIN * best.cycle.gain
            && (part as f64 * parts - whole as f64).abs() <= best.cycle.width as f64
    };
    seen.iter().filter(is_part).min_by_key(|seen| seen.cycle.period).copied().or(Some(best))
}
