//! What single pages cost that are written far apart on one die of the filled device: whether each of them costs a merge, and
//! how many logs all blocks share.
//!
//! # Model
//! At first pages go to a few places in turns, more of them than a die has logs of one block each. A layer with such
//! logs, or with none, merges a block for each of these writes. Then they go over the whole device in sweeps.
//!
//! A log-structured page map and shared logs take them wherever they write (FAST, Lee et al., ACM TECS 6(3), 2007). All lie
//! on one die, so that its logs fill one after the other, and when the last one is full the first one makes room: all
//! blocks that have pages in it are merged before one write. Then it is so at each log that is opened, which is as many
//! pages later as a log takes, to the page. In a sweep each log takes pages of blocks of its own, so that all of these stalls are long.
//!
//! Behind a write buffer the host waits for each stall as many pages later as the buffer holds. A device may put merges
//! off until it has spare blocks for no more: then the first stall comes some logs later. That shows in two ways. From when on
//! something is owed, each write does a part of it first and takes a little longer: where a whole number of logs before the
//! first stall the usual cost rises, the logs were full. And after a rest nothing is owed, so that as many logs are opened
//! before the next stall.
//!
//! # Invariants
//! - no page begins a block, as what begins one goes to a log of its own: its number on its die is odd;
//! - before these pages no log was written to, but for a few pages: what was written since the device was filled was in order;
//! - what is told was seen three times, as many pages apart.

use flashlab_analysis::inference::{Axis, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use super::figures::{mean, median, over_bytes, quantile};
use super::patterns::{ios, responses};
use super::writes::{Buffer, apart, buffer, shifted, unit, writes};
use crate::halt::Halt;
use crate::session::Session;

/// Places in turns, more than a die has logs; writes to them beyond what a buffer holds, more than logs and merges that are put
/// off; and of these the last ones count.
const PLACES: u64 = 24;
const IN_TURNS: u64 = 3 * PLACES;
const LATE: usize = 32;
/// A merge takes so many times what a page takes on its die.
const MERGED: f64 = 6.0;
/// Of one die's pages a sweep writes one in so many: blocks that are merged for each log. So many that a sweep fills some of the
/// largest logs.
const ONE_IN: [u64; 2] = [8, 32];
const LOGS_OF_SWEEP: u64 = 3;
const ROWS_MOST: u64 = 512;
const BLOCKS_LEAST: u64 = 24;
/// How many more are written each time: so many at least, or this share.
const STEP: u64 = 128;
const GROWTH: f64 = 0.2;
/// The most writes.
const MOST: u64 = 1 << 15;
/// Emptying a log takes so many times what a write takes; no outlier is so far away.
const EMPTIED: f64 = 18.0;
/// Others may be as long as the shortest of these stalls, but not as long as longer ones.
const LEVELS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];
/// This share of the writes is usual.
const USUAL: f64 = 0.9;
/// Pages that a log takes at least.
const LOG_LEAST: usize = 14;
/// Stalls that have to be so many pages apart, and the share of all that may be elsewhere.
const SEEN: usize = 3;
const ELSEWHERE: f64 = 0.34;
/// Stalls that are tried as the first one, and those behind it as the second one.
const TRIED: usize = 8;
/// The most merges that a die puts off, and how long it rests at least so that none are left.
const PIECES: usize = 24;
const REST: Nanos = Nanos::from_secs(1);
/// So many writes that take longer than the first ones have to wait.
const WAITING: usize = 16;
/// By so many pages a stall may be early or late.
const SLACK: usize = 1;
/// What lies before the first stall is a whole number of logs up to this share of one.
const WHOLE: f64 = 0.06;

/// A rise of the usual cost is one if it is so much likelier than none, in nats.
const RISE_GAIN: f64 = 6.0;
/// Costs that are more than so many times the usual one, or a smaller part of it, count as that.
const OUTLIER: f64 = 4.0;

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

/// Logs that all blocks share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shared {
    /// How many a die has.
    pub logs: u32,
    /// The page that waits for the first one to be emptied, and how many pages a log takes.
    pub first: usize,
    pub period: usize,
    /// Whether the logs hold exactly what was written before the first one was emptied.
    pub whole: bool,
}

/// Single pages far apart on one die.
pub(super) struct SinglePages {
    pub size: Bytes,
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
        let (known, size) = (session.known(), unit(session));
        let dies = known.count(Parameter::ParallelUnits)?.max(1);
        let stripe = if dies == 1 { size } else { known.bytes(Parameter::StripeSize)? };
        let chunk = Bytes(stripe.0 / dies);
        let (grain, first) = match (dies, chunk > size) {
            (1, _) => (size * 2, size),
            (_, true) => (stripe, size),
            (_, false) => (stripe * 2, stripe),
        };
        let fits = stripe.0.is_multiple_of(size.0) && chunk >= size;
        let enough = session.capacity().0 / (PLACES + 1) >= grain.0 * 2;
        (fits && enough).then_some(SinglePages {
            size,
            dies,
            chunk,
            grain,
            first,
            buffer: buffer(session),
            costs: Vec::new(),
            swept: 0,
            in_turns: 0,
        })
    }

    /// How much was written.
    pub(super) fn written(&self) -> Bytes {
        self.size * self.costs.len() as u64
    }

    /// The blocks of all dies that are filled together, if a log takes so many pages.
    pub(super) fn unit(&self, shared: &Shared) -> Bytes {
        self.size * (self.dies * shared.period as u64)
    }

    /// Goes on until what is told by these pages is clear, or `most` is written; more, and up to `more`, where some of them were
    /// stalls.
    pub(super) fn look(
        &mut self,
        session: &mut Session<'_, '_>,
        most: Bytes,
        more: Bytes,
    ) -> Result<Logs, Halt> {
        let writes = |bytes: Bytes| (bytes.0 / self.size.0).min(MOST);
        let (most, more) = (writes(most), writes(more));
        let in_turns = IN_TURNS + self.buffer.most(session).0 / self.size.0;
        if in_turns > more {
            return Ok(Logs::Unclear);
        }
        while self.in_turns < in_turns {
            self.round(session)?;
        }
        if median(&self.costs[..in_turns as usize][in_turns as usize - LATE..]) > MERGED * self.usual(session)
        {
            return Ok(Logs::Merged);
        }
        loop {
            if let Some(regular) = LEVELS.iter().find_map(|level| regular(&self.stalls(*level), *level)) {
                return self.count(session, regular);
            }
            let known = self.costs.len() as u64;
            let until = if self.stalls(LEVELS[1]).is_empty() { most } else { more };
            let count = STEP.max((known as f64 * GROWTH) as u64).min(until.saturating_sub(known));
            if count == 0 {
                return Ok(Logs::Unclear);
            }
            match self.sweep(session, count) {
                Err(Halt::Time | Halt::Budget { .. }) => return Ok(Logs::Unclear),
                other => other?,
            }
        }
    }

    /// What a page takes on one die, as far as filling the device told.
    fn usual(&self, session: &Session<'_, '_>) -> f64 {
        let planes = session.known().count(Parameter::PlanesReadAtOnce).unwrap_or(1);
        session.fill_cost() * self.size.0 as f64 * (self.dies * planes) as f64
    }

    /// One page at each of the places.
    fn round(&mut self, session: &mut Session<'_, '_>) -> Result<(), Halt> {
        let distance = Bytes(session.capacity().0 / (PLACES + 1)).round_down(self.grain);
        let round = self.in_turns / PLACES;
        let down = writes(Location::Ordered { incr: -1 }, self.size, PLACES, Bytes::ZERO, distance * PLACES);
        let shift = self.place(distance, round);
        let samples = session.run("in-turns", &shifted(apart(down, distance), shift))?;
        self.costs.extend(responses(&samples));
        self.in_turns += PLACES;
        Ok(())
    }

    /// Single pages from where the last sweep was, from the beginning again where it comes to the end. The first one begins
    /// behind what is written over in order.
    fn sweep(&mut self, session: &mut Session<'_, '_>, count: u64) -> Result<(), Halt> {
        let capacity = session.capacity().0;
        let pages = capacity / self.size.0 / self.dies;
        let planes = session.known().count(Parameter::PlanesReadAtOnce).unwrap_or(1);
        let largest = (ROWS_MOST * planes).min(pages / BLOCKS_LEAST).max(1);
        let one_in = (pages / (LOGS_OF_SWEEP * largest)).clamp(ONE_IN[0], ONE_IN[1]);
        let slot = Bytes(capacity / (pages / one_in).max(PLACES)).round_down(self.grain).max(self.grain);
        let slots = (capacity / slot.0).saturating_sub(1).max(1);
        let mut left = count;
        while left > 0 {
            let place = self.swept + slots / 4;
            let (round, begin) = (place / slots, place % slots);
            let now = left.min(slots - begin);
            let shift = self.place(slot, round + 1);
            let ios = ios(Mode::Write, Location::Sequential, self.size, now);
            let up = apart(ios.on_target(slot * begin, slot * now), slot);
            self.costs.extend(responses(&session.run("sweep", &shifted(up, shift))?));
            self.swept += now;
            left -= now;
        }
        Ok(())
    }

    /// Where in each slot a round writes: no page twice, as long as there are others.
    fn place(&self, slot: Bytes, round: u64) -> Bytes {
        let (grains, pages) = ((slot.0 / self.grain.0).max(1), (self.chunk.0 / self.size.0 / 2).max(1));
        self.first + self.grain * (round % grains) + self.size * (2 * (round / grains % pages))
    }

    /// What each write took, in stretches.
    pub(super) fn picture(&self) -> Picture {
        Picture::new(
            "Single pages far apart on one die after the device was filled, means of stretches: the cost rises where logs are full.",
            Axis::linear("written", "bytes"),
            Axis::linear("response time", "ns"),
        )
        .draw("single pages", Style::Line, over_bytes(self.size, &self.costs))
    }

    /// The writes that took so many times what emptying a log takes at least.
    fn stalls(&self, level: f64) -> Vec<usize> {
        // Of a row that takes several pages the last one may wait for all.
        let usual = &self.costs[self.costs.len() / 2..];
        let most = quantile(usual, USUAL);
        let usual: Vec<f64> = usual.iter().copied().filter(|&cost| cost <= most).collect();
        let least = level * EMPTIED * median(&self.costs).max(mean(&usual));
        (0..self.costs.len()).filter(|&index| self.costs[index] > least).collect()
    }

    /// The logs that were full before the first of regular stalls, without those whose merges were put off.
    fn count(&mut self, session: &mut Session<'_, '_>, regular: Regular) -> Result<Logs, Halt> {
        let buffered = self.may_be_buffered(session, &regular);
        let most = buffered.iter().copied().max().unwrap_or(0);
        // Writes in turns may cost more than sweeps, or less.
        let in_turns = Some(self.in_turns as usize).filter(|&turns| turns + regular.period < regular.first);
        let begin = waited_from(&self.costs[..regular.first], most).max(in_turns.unwrap_or(0));
        let put_off = match rise_before(&self.costs[begin..regular.first], regular.period) {
            Some(writes) => Some(writes / regular.period),
            None => self.put_off(session, &regular, most)?,
        };
        let shared = logs_of(&regular, put_off.unwrap_or(0), &buffered);
        Ok(shared.map_or(Logs::Unclear, |shared| {
            Logs::Shared(Shared { whole: shared.whole && put_off.is_some(), ..shared })
        }))
    }

    /// How many pages a buffer may hold: one that is emptied when it is full may show only the half of it, and one of which
    /// nothing is known less than a log.
    fn may_be_buffered(&self, session: &Session<'_, '_>, regular: &Regular) -> Vec<usize> {
        let pages = |size: Bytes| (size.0 / self.size.0) as usize;
        match (self.buffer, session.known().word(Parameter::WriteBufferFlush)) {
            (Buffer::None, _) => vec![0],
            (Buffer::Unknown, _) => vec![regular.first % regular.period],
            (Buffer::Holds(size), Some("when-full")) => vec![pages(size), 2 * pages(size)],
            (Buffer::Holds(size), _) => vec![pages(size)],
        }
    }

    /// How many logs are opened after a rest, in which all that is owed is done, before one is waited for.
    fn put_off(
        &mut self,
        session: &mut Session<'_, '_>,
        regular: &Regular,
        buffered: usize,
    ) -> Result<Option<usize>, Halt> {
        let Regular { first, period, level } = *regular;
        let longest = self.costs.iter().copied().fold(0.0, f64::max);
        let rest = Nanos((longest * (PIECES + 2) as f64) as u64) + REST;
        let rested = self.costs.len();
        match session.rest(rest) {
            Err(Halt::Rest { .. }) => return Ok(None),
            other => other?,
        }
        let opened = first + (rested + buffered).saturating_sub(first).div_ceil(period) * period;
        for _ in 0..=PIECES + buffered / period {
            match self.sweep(session, period as u64) {
                Err(Halt::Time | Halt::Budget { .. }) => return Ok(None),
                other => other?,
            }
            let is_next = |stall: &usize| *stall + SLACK >= opened && is_on_grid(*stall, first, period);
            if let Some(stall) = self.stalls(level).into_iter().find(is_next) {
                return Ok(Some((stall + SLACK - opened) / period));
            }
        }
        Ok(None)
    }
}

/// Stalls that are equally far apart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Regular {
    first: usize,
    period: usize,
    /// Their level.
    level: f64,
}

/// The write from which on the host waits for those before it, behind a buffer of so many pages.
fn waited_from(costs: &[f64], buffered: usize) -> usize {
    let begin = (buffered * 9 / 8).min(costs.len());
    let at_first = median(&costs[..begin / 2]);
    let waits =
        |from: &usize| median(&costs[*from..(*from + WAITING).min(costs.len())]) > OUTLIER.sqrt() * at_first;
    match buffered {
        0 => 0,
        _ => (begin..costs.len()).find(waits).map_or(begin, |from| (from + WAITING).min(costs.len())),
    }
}

/// Whether a stall is a whole number of periods from the first one.
fn is_on_grid(stall: usize, first: usize, period: usize) -> bool {
    let apart = stall.abs_diff(first) % period;
    apart.min(period - apart) <= SLACK
}

/// The logs that were full before the first stall, if so many are put off and a buffer holds one of these numbers of pages.
fn logs_of(regular: &Regular, put_off: usize, buffered: &[usize]) -> Option<Shared> {
    let Regular { first, period, .. } = *regular;
    let slack = f64::max(WHOLE, 2.0 / period as f64);
    let of = |buffered: &usize| {
        let logs = (first as f64 - *buffered as f64) / period as f64 - put_off as f64;
        let count = logs.round();
        (count >= 1.0).then_some((count - logs, count))
    };
    let (missing, count) = buffered.iter().filter_map(of).min_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
    Some(Shared { logs: count as u32, first, period, whole: missing.abs() <= slack })
}

/// The stalls that are equally far apart; some others may be among them.
fn regular(stalls: &[usize], level: f64) -> Option<Regular> {
    let mut best: Option<(usize, Regular)> = None;
    for (index, &first) in stalls.iter().enumerate().take(TRIED) {
        for &second in stalls[index + 1..].iter().take(TRIED) {
            let period = second - first;
            let is_one = |place: usize| stalls.iter().any(|&stall| stall.abs_diff(place) <= SLACK);
            let in_a_row = (2..).take_while(|&times| is_one(first + times * period)).take(SEEN).count() + 2;
            let hits: Vec<usize> =
                stalls.iter().copied().filter(|&stall| is_on_grid(stall, first, period)).collect();
            let others = (stalls.len() - hits.len()) as f64;
            let is_better = best.is_none_or(|(most, _)| hits.len() > most);
            if period >= LOG_LEAST && in_a_row >= SEEN && others <= ELSEWHERE * hits.len() as f64 && is_better
            {
                // Some may have been made needless by what was written in order.
                best = Some((hits.len(), Regular { first: hits[0], period, level }));
            }
        }
    }
    best.map(|(_, regular)| regular)
}

/// How many writes before the end others began to cost more, which is a whole number of periods.
fn rise_before(costs: &[f64], period: usize) -> Option<usize> {
    let usual = median(costs).max(1.0);
    let of = |costs: &[f64]| {
        let times: Vec<f64> =
            costs.iter().map(|cost| cost.clamp(usual / OUTLIER, usual * OUTLIER).ln()).collect();
        let middle = mean(&times);
        (times.len() as f64, middle, times.iter().map(|time| (time - middle).powi(2)).sum::<f64>())
    };
    let (count, _, without) = of(costs);
    let gain = |at: usize| {
        let ((first, low, before), (second, high, behind)) = (of(&costs[..at]), of(&costs[at..]));
        let rises = high > low && first >= 2.0 && second >= 2.0 && before + behind > 0.0;
        if rises { count / 2.0 * (without / (before + behind)).ln() } else { 0.0 }
    };
    let places = (1..).map_while(|periods| costs.len().checked_sub(periods * period)).filter(|&at| at > 0);
    let best = places.map(|at| (at, gain(at))).max_by(|a, b| a.1.total_cmp(&b.1));
    best.filter(|&(_, gain)| gain >= RISE_GAIN).map(|(at, _)| costs.len() - at)
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    #[test]
    fn what_is_put_off_makes_writes_a_little_dearer() {
        for seed in 0..20 {
            let mut random = Prng::new(Seed(seed));
            let mut write = |share: f64| {
                let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
                1e6 * share * (0.95 + 0.1 * random.unit()) * outlier
            };
            let owed: Vec<f64> = (0..500).map(|at| write(if at < 52 { 1.0 } else { 1.1 })).collect();
            assert_eq!(rise_before(&owed, 32), Some(448));
            let even: Vec<f64> = (0..500).map(|_| write(1.0)).collect();
            assert_eq!(rise_before(&even, 32), None);
        }
    }

    #[test]
    fn logs_are_counted_from_the_first_one_that_is_emptied() {
        for (seed, (logs, period, buffered)) in
            [(1, 16, 0), (4, 64, 0), (11, 96, 352), (16, 128, 9)].into_iter().enumerate()
        {
            let mut random = Prng::new(Seed(seed as u64));
            let mut write = |index: usize| {
                let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
                let empties = index >= logs * period + buffered && (index - buffered).is_multiple_of(period);
                1e6 * (0.95 + 0.1 * random.unit()) * outlier * if empties { 60.0 } else { 1.0 }
            };
            let costs: Vec<f64> = (0..(logs + 3) * period + buffered).map(&mut write).collect();
            let stalls: Vec<usize> = (0..costs.len()).filter(|&index| costs[index] > EMPTIED * 1e6).collect();
            let found =
                regular(&stalls, 1.0).and_then(|regular| logs_of(&regular, 0, &[buffered / 2, buffered]));
            assert_eq!(
                found.map(|found| (found.logs as usize, found.period, found.whole)),
                Some((logs, period, true))
            );
            assert_eq!(regular(&stalls[..2], 1.0), None);
        }
    }
}
