//! What single pages cost that are written far apart on one die of the filled device: whether each of them costs a merge, and
//! how many logs all blocks share.
//!
//! # Model
//! At first pages go to a few places alternating, more of them than a die has logs of one block each. A layer with such
//! logs, or with none, merges a block for each of these writes. Then they go over the whole device in sweeps.
//!
//! A log-structured page map and shared logs take them wherever they write (FAST, Lee et al., ACM TECS 6(3), 2007). All lie
//! on one die, so that its logs fill one after the other, and when the last one is full the first one reclaims blocks: all
//! blocks that have pages in it are merged before one write. Then it is so at each log that is opened, which is as many
//! pages later as a log takes, to the page. In a sweep each log takes pages of blocks of its own, so that all of these stalls are long.
//!
//! Behind a write buffer that cannot be flushed page by page the host waits for each stall as many pages later as the buffer holds. A device may put merges
//! off until it has spare blocks for no more: then the first stall comes some logs later. That shows in two ways. From when on
//! something is deferred, each write does a part of it first and takes a little longer: where a whole number of logs before the
//! first stall the usual cost rises, the logs were full. And after idle time nothing is deferred, so that as many logs are opened
//! before the next stall.
//!
//! # Invariants
//! - no page begins a block, as what begins one goes to a log of its own: its number on its die is odd;
//! - before these pages no log was written to, but for a few pages: what was written since the device was filled was in order.

use crate::priors;
use crate::signals::full_logs::{Regular, SLACK, Shared, is_on_grid, logs_of, rise, waited_from, waits_at};
use crate::signals::page_stalls::{LEVELS, PageStalls};
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

/// Places alternating, more than a die has logs; writes to them beyond what a buffer holds, more than logs and deferred merges;
/// and of these the last ones count.
const PLACES: u64 = 24;
const IN_TURNS: u64 = 3 * PLACES;
const LATE: usize = 32;
/// [`priors::MERGES_DEFERRED`], as a number of logs.
const MERGES_DEFERRED: usize = priors::MERGES_DEFERRED as usize;
/// A merge takes this many times what a page takes on its die.
const MERGED: f64 = 6.0;
/// Of one die's pages a sweep writes one in this number: blocks that are merged for each log. It is so large that a sweep fills some of the
/// largest logs.
const ONE_IN: [u64; 2] = [8, 32];
const LOGS_OF_SWEEP: u64 = 3;
const ROWS_MOST: u64 = 512;
const BLOCKS_LEAST: u64 = 24;
/// How many more are written each time: this number at least, or this share.
const STEP: u64 = 128;
const GROWTH: f64 = 0.2;
/// The most writes.
const MOST: u64 = 1 << 15;

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

/// Single pages far apart on one die.
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
        let enough = |times: &u64| session.capacity().0 / (PLACES + 1) >= grain(*times).0.0 * 2;
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
    pub(super) fn rests(&self) -> Bytes {
        (self.size - self.io) * self.costs.len() as u64
    }

    /// The blocks of all dies that are filled together, if a log takes `shared.period` pages.
    pub(super) fn unit(&self, shared: &Shared) -> Bytes {
        self.size * (self.dies * shared.period as u64)
    }

    /// Goes on until what shows in these pages is clear, or `most` of the flash is taken; more, and until `more` is written, where
    /// some of them were stalls.
    pub(super) fn look(
        &mut self,
        session: &mut Session<'_, '_>,
        most: Bytes,
        more: Bytes,
    ) -> Result<Logs, Halt> {
        let writes = |bytes: Bytes, size: Bytes| (bytes.0 / size.0).min(MOST);
        let more = writes(more, self.io);
        let most = writes(most, self.size).min(more);
        let in_turns = IN_TURNS + self.buffer.most(session).0 / self.size.0;
        if in_turns > more {
            return Ok(Logs::Unclear);
        }
        while self.in_turns < in_turns {
            self.round(session)?;
        }
        if upper_median(&self.costs[..in_turns as usize][in_turns as usize - LATE..])
            > MERGED * page_on_die(session, self.size)
        {
            return Ok(Logs::Merged);
        }
        loop {
            if let Some(regular) = self.stalls(session).regular(|found| self.may_be_buffered(session, found))
            {
                return self.count(session, regular);
            }
            let known = self.costs.len() as u64;
            let until = if self.stalls(session).stalls(LEVELS[1]).is_empty() { most } else { more };
            let count = STEP.max((known as f64 * GROWTH) as u64).min(until.saturating_sub(known));
            if count == 0 {
                return Ok(Logs::Unclear);
            }
            if if_affordable(self.sweep(session, count))?.is_none() {
                return Ok(Logs::Unclear);
            }
        }
    }

    /// One page at each of the places.
    fn round(&mut self, session: &mut Session<'_, '_>) -> Result<(), Halt> {
        let distance = Bytes(session.capacity().0 / (PLACES + 1)).round_down(self.grain);
        let round = self.in_turns / PLACES;
        let down = writes(Location::Ordered { incr: -1 }, self.io, PLACES, Bytes::ZERO, distance * PLACES);
        let shift = self.place(distance, round);
        let samples = session.run("in-turns", &shifted(apart(down, distance), shift))?;
        self.costs.extend(responses(&samples));
        self.in_turns += PLACES;
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
        let largest = (ROWS_MOST * planes(session)).min(pages / BLOCKS_LEAST).max(1);
        let one_in = (pages / (LOGS_OF_SWEEP * largest)).clamp(ONE_IN[0], ONE_IN[1]);
        let slot = Bytes(capacity / (pages / one_in).max(PLACES)).round_down(self.grain).max(self.grain);
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

    /// How many pages a buffer may hold that wait for their rest: one that is reclaimed when it is full keeps the half of it for
    /// those on their way, and may show only the half; one of which nothing is known holds what was written before one had to
    /// wait, or less than a log where that is not seen.
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
            Err(Halt::Rest { .. }) => return Ok(None),
            other => other?,
        }
        // Whole pages leave a buffer meanwhile, so that one waits again when as many have come; parts of pages stay.
        let held = if self.io < self.size { 0 } else { buffered };
        let opened = first + (rested + held).saturating_sub(first).div_ceil(period) * period;
        for _ in 0..=MERGES_DEFERRED + buffered / period {
            if if_affordable(self.sweep(session, period as u64))?.is_none() {
                return Ok(None);
            }
            let is_next = |stall: &usize| *stall + SLACK >= opened && is_on_grid(*stall, first, period);
            if let Some(stall) = self.stalls(session).stalls(level).into_iter().find(is_next) {
                return Ok(Some((stall + SLACK - opened) / period));
            }
        }
        Ok(None)
    }
}
