//! Writes single pages to different blocks of one die: does each cost a merge, and how many log blocks do all blocks
//! share?
//!
//! # Model
//! - Log blocks that belong to one data block, and a block map: the writes alternate between more blocks than a die
//!   has log blocks, so that each one merges.
//! - A page map and shared log blocks take such pages wherever they write (FAST, Lee et al., ACM TECS 6(3), 2007).
//!   The log blocks of the die fill one after the other. When the last one is full, one write waits until the first
//!   one is reclaimed: all data blocks with pages in it are merged. The same happens again each time that a log block
//!   is full.
//!
//! # Method
//! 1. Writes alternate between a few offsets. If the last ones cost a merge each, so does every page.
//! 2. Sweeps over the whole device write one page in each slot, so that each log block holds pages of other data
//!    blocks.
//! 3. The first of the regular stalls gives the number of full log blocks, and their distance the pages of one.
//! 4. Behind a write buffer, a stall comes as many pages later as the buffer holds.
//! 5. A device may defer merges, so that the first stall comes some log blocks later. Then the usual cost rises when
//!    the backlog begins, a whole number of log blocks before. And after idle time the backlog is empty: as many log
//!    blocks are allocated before the next stall.
//!
//! # Invariants
//! - No page begins a block, as that would go to a log block of its own: its number on its die is odd.
//! - Before these pages, nearly no log block was written to: everything since the fill was sequential.

use crate::priors;
use crate::signals::full_logs::{
    Regular, STALL_SLACK, Shared, is_on_grid, logs_of, rise, waited_from, waits_at,
};
use crate::signals::page_stalls::{PageStalls, RECLAIM_LEVELS};
use crate::signals::pictures::over_bytes;
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::{Axis, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use crate::halt::{Halt, if_affordable};
use crate::patterns::writes::{
    Buffer, apart, buffer, dies_in_doubt, page_on_die, page_to_write, planes, shifted, writes,
};
use crate::patterns::{ios, responses};
use crate::session::Session;

/// The offsets between which writes alternate: more than a die has log blocks of one block each. Unit:
/// offsets. Source: tuned. Too many: small devices have no such offsets; too few: log blocks hold all of
/// them.
const OFFSETS: u64 = 24;
/// The writes to them beyond what a buffer holds: more than the log blocks and the deferred merges. Unit:
/// writes. Source: derivation: three times the offsets. Too many: the over-provisioning is used up; too few:
/// deferred merges hide the cost.
const ALTERNATING_WRITES: u64 = 3 * OFFSETS;
/// The last of these writes count. Unit: writes. Source: choice. Too many: writes before the log blocks were
/// full count; too few: outliers decide.
const LATE_WRITES: usize = 32;
/// [`priors::MERGES_DEFERRED`], as a number of logs.
const MERGES_DEFERRED: usize = priors::MERGES_DEFERRED as usize;
/// A merge takes this many times a page on its die. Unit: ratio. Source: tuned. Too high: short merges are
/// not seen; too low: slow pages count as merges.
const MERGE_RATIO: f64 = 6.0;
/// A sweep writes one in this number of a die's pages: the blocks that are merged for each log block. The
/// larger it is, the more log blocks a sweep fills. Unit: pages. Source: choice. Too large: a log block has
/// few data blocks, and its stall is short; too small: a sweep fills no large log block.
const ONE_IN: [u64; 2] = [8, 32];
/// The fewest log blocks that a sweep fills. Unit: log blocks. Source: derivation: three are at equal
/// distances. Too many: stalls are short; too few: the distance is not confirmed.
const LOGS_OF_SWEEP: u64 = 3;
/// The multi-plane pages of the largest log block that a sweep fills that often. Unit: multi-plane pages.
/// Source: tuned. Too many: stalls are short; too few: large log blocks are not found.
const LOG_ROWS_MOST: u64 = 512;
/// The fewest data blocks of the device for that log block. Unit: blocks. Source: tuned. Too many: large log
/// blocks are not found on small devices; too few: a sweep writes each block twice.
const BLOCKS_LEAST: u64 = 24;
/// The fewest writes between two searches. Unit: writes. Source: choice. Too many: the over-provisioning is
/// used up; too few: the search takes longer.
const STEP_WRITES: u64 = 128;
/// The writes between two searches, as a share of those before. Unit: share. Source: choice. Too high: the
/// over-provisioning is used up; too low: the search takes longer.
const STEP_GROWTH: f64 = 0.2;
/// The most single pages. Unit: writes. Source: choice. Too many: recordings are large; too few: large log
/// blocks are not filled.
const WRITES_MOST: u64 = 1 << 15;

/// What single pages show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Logs {
    /// Each costs a merge.
    Merged,
    /// Logs are shared.
    Shared(Shared),
    /// Neither.
    Unclear,
}

/// Single pages in different blocks of one die.
pub(super) struct SinglePages {
    pub size: Bytes,
    /// What is written of each: a part of a page takes a whole one of a log.
    pub io: Bytes,
    /// The dies that share a unit.
    dies: u64,
    /// Consecutive bytes on one die, or one page where there is but one die.
    chunk: Bytes,
    /// From a chunk of the die to the next one of which a page may be taken.
    grain: Bytes,
    /// The first one.
    first: Bytes,
    buffer: Buffer,
    /// What each write took.
    pub costs: Vec<f64>,
    /// Slots of sweeps that were written to.
    swept: u64,
    in_turns: u64,
}

impl SinglePages {
    /// None where it is not known which pages lie on one die, or the device is too small.
    pub(super) fn new(session: &Session<'_, '_>) -> Option<SinglePages> {
        let (known, size) = (session.known(), page_to_write(session));
        let dies = known.count(Parameter::ParallelUnits)?.max(1);
        let stripe = known.whole_stripe(size)?;
        let chunk = Bytes(stripe.0 / dies);
        // With chunks of one page the next page of a die is a stripe farther. If there are `times` as many dies, it is odd as
        // well, and on one die, whatever the chunk.
        let grain = |times: u64| match (dies, chunk > size) {
            (1, _) => (size * (2 * times * times), size * (2 * times - 1)),
            (_, true) => (stripe * times, size),
            (_, false) => (stripe * (2 * times), stripe * (2 * times - 1)),
        };
        let fits = chunk >= size;
        let enough = |times: &u64| session.capacity().0 / (OFFSETS + 1) >= grain(*times).0.0 * 2;
        let times = dies_in_doubt(session).into_iter().find(enough);
        times.filter(|_| fits).map(|times| SinglePages {
            size,
            io: session.block().min(size),
            dies,
            chunk,
            grain: grain(times).0,
            first: grain(times).1,
            buffer: buffer(session),
            costs: Vec::new(),
            swept: 0,
            in_turns: 0,
        })
    }

    /// How much was written.
    pub(super) fn written(&self) -> Bytes {
        self.io * self.costs.len() as u64
    }

    /// What the parts of pages took of the flash beyond what was written.
    pub(super) fn unwritten_parts(&self) -> Bytes {
        (self.size - self.io) * self.costs.len() as u64
    }

    /// The blocks of all dies that are filled together, if a log takes `shared.period` pages.
    pub(super) fn unit(&self, shared: &Shared) -> Bytes {
        self.size * (self.dies * shared.period as u64)
    }

    /// Continues until the answer is clear, or `most` of the flash is used. If some pages were stalls, it
    /// continues until `more` is written.
    pub(super) fn look(
        &mut self,
        session: &mut Session<'_, '_>,
        most: Bytes,
        more: Bytes,
    ) -> Result<Logs, Halt> {
        let writes = |bytes: Bytes, size: Bytes| (bytes.0 / size.0).min(WRITES_MOST);
        let more = writes(more, self.io);
        let most = writes(most, self.size).min(more);
        let in_turns = ALTERNATING_WRITES + self.buffer.most(session).0 / self.size.0;
        if in_turns > more {
            return Ok(Logs::Unclear);
        }
        while self.in_turns < in_turns {
            self.round(session)?;
        }
        if upper_median(&self.costs[..in_turns as usize][in_turns as usize - LATE_WRITES..])
            > MERGE_RATIO * page_on_die(session, self.size)
        {
            return Ok(Logs::Merged);
        }
        loop {
            if let Some(regular) = self.stalls(session).regular(|found| self.may_be_buffered(session, found))
            {
                return self.count(session, regular);
            }
            let known = self.costs.len() as u64;
            let until = if self.stalls(session).stalls(RECLAIM_LEVELS[1]).is_empty() { most } else { more };
            let count = STEP_WRITES.max((known as f64 * STEP_GROWTH) as u64).min(until.saturating_sub(known));
            if count == 0 {
                return Ok(Logs::Unclear);
            }
            if if_affordable(self.sweep(session, count))?.is_none() {
                return Ok(Logs::Unclear);
            }
        }
    }

    /// One page at each of the offsets.
    fn round(&mut self, session: &mut Session<'_, '_>) -> Result<(), Halt> {
        let distance = Bytes(session.capacity().0 / (OFFSETS + 1)).round_down(self.grain);
        let round = self.in_turns / OFFSETS;
        let down = writes(Location::Ordered { incr: -1 }, self.io, OFFSETS, Bytes::ZERO, distance * OFFSETS);
        let shift = self.place(distance, round);
        let samples = session.run("in-turns", &shifted(apart(down, distance), shift))?;
        self.costs.extend(responses(&samples));
        self.in_turns += OFFSETS;
        Ok(())
    }

    /// Single pages from where the last sweep was, from the beginning again where it comes to the end. The first one begins
    /// behind what is written over in order.
    fn sweep(&mut self, session: &mut Session<'_, '_>, count: u64) -> Result<(), Halt> {
        let (slot, slots) = self.slots(session);
        let mut left = count;
        while left > 0 {
            let place = self.swept + slots / 4;
            let (round, begin) = (place / slots, place % slots);
            let now = left.min(slots - begin);
            let shift = self.place(slot, round + 1);
            let ios = ios(Mode::Write, Location::Sequential, self.io, now);
            let up = apart(ios.on_target(slot * begin, slot * now), slot);
            self.costs.extend(responses(&session.run("sweep", &shifted(up, shift))?));
            self.swept += now;
            left -= now;
        }
        Ok(())
    }

    /// How large the slots of a sweep are, and how many.
    fn slots(&self, session: &Session<'_, '_>) -> (Bytes, u64) {
        let capacity = session.capacity().0;
        let pages = capacity / self.size.0 / self.dies;
        let largest = (LOG_ROWS_MOST * planes(session)).min(pages / BLOCKS_LEAST).max(1);
        let one_in = (pages / (LOGS_OF_SWEEP * largest)).clamp(ONE_IN[0], ONE_IN[1]);
        let slot = Bytes(capacity / (pages / one_in).max(OFFSETS)).round_down(self.grain).max(self.grain);
        (slot, (capacity / slot.0).saturating_sub(1).max(1))
    }

    /// Where in each slot a round writes: no page twice, as long as there are others.
    fn place(&self, slot: Bytes, round: u64) -> Bytes {
        let (grains, pages) = ((slot.0 / self.grain.0).max(1), (self.chunk.0 / self.size.0 / 2).max(1));
        self.first + self.grain * (round % grains) + self.size * (2 * (round / grains % pages))
    }

    /// What each write took, in stretches.
    pub(super) fn picture(&self) -> Picture {
        Picture::new(
            "Single pages in different blocks of one die of the filled device, as means of stretches: the cost rises where the log blocks are full.",
            Axis::linear("written", "bytes"),
            Axis::linear("response time", "ns"),
        )
        .draw("single pages", Style::Line, over_bytes(self.size, &self.costs))
    }

    fn stalls(&self, session: &Session<'_, '_>) -> PageStalls<'_> {
        let buffered = (self.buffer != Buffer::None).then(|| page_on_die(session, self.size));
        PageStalls { costs: &self.costs, buffered, planes: planes(session) as usize }
    }

    /// The logs that were full before the first of regular stalls, without those whose merges were deferred.
    fn count(&mut self, session: &mut Session<'_, '_>, regular: Regular) -> Result<Logs, Halt> {
        let buffered = self.may_be_buffered(session, &regular);
        let most = buffered.iter().copied().max().unwrap_or(0);
        let Regular { first, period, .. } = regular;
        let begin = waited_from(&self.costs[..first], most).min(first);
        // Writes alternating may cost more than sweeps, or less: in each of them alone it is seen when they cost more.
        let sweeps = (self.in_turns as usize).clamp(begin, first);
        let of_parts = [(begin, sweeps), (sweeps, first)].into_iter();
        let full =
            of_parts.filter_map(|(from, to)| Some(from + rise(&self.costs[from..to], first - from, period)?));
        let deferred = match full.min() {
            Some(full) => Some((first - full) / period),
            // Where sweeps came round, or turns went to few blocks, those that were merged for one log leave others with nothing to merge.
            None if self.swept == 0 || (self.slots(session).1 as usize) < self.costs.len() => None,
            None => self.deferred(session, &regular, most)?,
        };
        let shared = logs_of(&regular, deferred.unwrap_or(0), &buffered);
        // Where a log has pages of all blocks, merging them empties all logs: then the period may be that of all.
        let of_some = self.slots(session).1 as usize > regular.period;
        Ok(shared.map_or(Logs::Unclear, |shared| {
            Logs::Shared(Shared { whole: shared.whole && deferred.is_some() && of_some, deferred, ..shared })
        }))
    }

    /// The numbers of pages that a write buffer may hold. One that flushes when it is full uses half of
    /// itself for pages on their path, and may show only that half. One of unknown size holds what was
    /// written before a page waited, or less than a log block.
    fn may_be_buffered(&self, session: &Session<'_, '_>, regular: &Regular) -> Vec<usize> {
        let pages = |size: Bytes| (size.0 / self.size.0) as usize;
        match (self.buffer, session.known().word(Parameter::WriteBufferFlush)) {
            (Buffer::None, _) => vec![0],
            (Buffer::Unknown, _) => {
                let most = pages(self.buffer.most(session)).min(regular.first);
                vec![waits_at(&self.costs[..most]).unwrap_or(regular.first % regular.period)]
            }
            (Buffer::Holds(size), Some("when-full")) => vec![pages(size) / 2, pages(size)],
            (Buffer::Holds(size), _) => vec![pages(size)],
        }
    }

    /// How many logs are opened after idle time, in which all that is deferred is done, before one is waited for.
    fn deferred(
        &mut self,
        session: &mut Session<'_, '_>,
        regular: &Regular,
        buffered: usize,
    ) -> Result<Option<usize>, Halt> {
        let Regular { first, period, level, .. } = *regular;
        let longest = self.costs.iter().copied().fold(0.0, f64::max);
        let rest = Nanos((longest * (MERGES_DEFERRED + 2) as f64) as u64) + priors::DIES_IDLE;
        let rested = self.costs.len();
        match session.idle(rest) {
            Err(Halt::IdleTime { .. }) => return Ok(None),
            other => other?,
        }
        // Whole pages leave a buffer meanwhile, so that one waits again when as many have come; parts of pages stay.
        let still_buffered = if self.io < self.size { 0 } else { buffered };
        let opened = first + (rested + still_buffered).saturating_sub(first).div_ceil(period) * period;
        for _ in 0..=MERGES_DEFERRED + buffered / period {
            if if_affordable(self.sweep(session, period as u64))?.is_none() {
                return Ok(None);
            }
            let is_next = |stall: &usize| *stall + STALL_SLACK >= opened && is_on_grid(*stall, first, period);
            if let Some(stall) = self.stalls(session).stalls(level).into_iter().find(is_next) {
                return Ok(Some((stall + STALL_SLACK - opened) / period));
            }
        }
        Ok(None)
    }
}
