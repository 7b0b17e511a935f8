//! How many log blocks a die has, from how long ago a block was written to.
//!
//! # Model
//! A layer with logs of one block each is a cache of blocks: writing to a block that has a log is fast, any other one
//! opens a log, and has the oldest one merged. So single pages go over many blocks of one die, up and up again, and down: of the
//! last ones coming down, those that were written to last still have their logs, and their number is that of the logs
//! (Mattson et al., IBM Systems Journal 9(2), 1970, section 4: distances on a stack). Then `n` blocks are written to alternating,
//! and `n + 1`: with `n` logs the first are all fast and the others all merges, whichever log reclaims blocks, the one that was
//! opened or that was used the longest ago.
//!
//! Each number of logs and either order says of each write whether it is a merge. Costs are slow or fast, and one in 25 is the
//! other one for reasons of its own: that gives each number its likelihood. The first time up is not looked at: merges
//! may be deferred until so many are deferred, and nobody knows which logs were open.
//!
//! Behind a buffer a write waits for one that came as many writes earlier as the buffer holds: how many is one more unknown.
//! Before and after, so many pages are written elsewhere that it is full; and between the two times up the last block is
//! written to again, which is fast however many logs there are: so it is seen how much later a write waits. After a write that
//! takes much longer than any merge, a device that rested has done what it deferred, and writes say nothing until one is slow again.
//!
//! # Invariants
//! - the size of a unit is not needed, only that blocks are smaller than the distance of the places, and that they lie on one die;
//! - each write is the next page of its block, so that logs that take pages in order only take it;
//! - a number is found only if a pass that was made for it, and could have refuted it, agrees.

mod picture;

use flashlab_analysis::inference::{Parameter, Picture};
use flashlab_analysis::signals::figures::median;
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::responses;
use crate::patterns::writes::{Buffer, apart, buffer, dies_in_doubt, page_to_write, writes};
use crate::session::Session;

/// Places of a pass; twice as many as a die has logs are enough, and more where they were too few.
const PLACES: u64 = 40;
const PLACES_MOST: u64 = 160;
const PLACES_LEAST: u64 = 6;
/// With so many logs less than places there are too few merges.
const TOO_MANY: u64 = 3;
/// Where the size of a unit is not known: no device has fewer units by much.
const FEW: u64 = 21;
/// How often blocks are written to alternating, and the last one again between the two times up.
const ROUNDS: u64 = 4;
/// Passes.
const PASSES: usize = 6;
/// Dear writes take this part of what merges take at least.
const DEAR: f64 = 1.0 / 3.0;
/// Merges take so many times what other writes take at least.
const CONTRAST: f64 = 4.0;
/// The shortest idle time, as a multiple of a merge.
const IDLE_OF_MERGE: f64 = 4.0;
/// ln of the odds that a write costs what it should.
const RIGHT: f64 = 3.2;
/// The log-likelihood ratio to any other number from which on a number is clear, and from which on it is likely.
const CLEAR_RULE: f64 = 12.0;
const LIKELY: f64 = 5.0;
/// In a pass that tells a number so large a share of the writes may cost what they should not.
const WRONG: f64 = 0.12;
/// So many of the writes that fill a buffer behind them are looked at, which are fast.
const BEHIND: usize = 12;
/// A buffer may hold so many times what is known of it: parts of pages wait, and those on their way to the flash.
const HELD: f64 = 2.3;
const FULL_MOST: u64 = 6000;

/// What is told of the number of logs.
pub(super) struct Told {
    pub logs: u64,
    /// So much likelier than any other number, as a log-likelihood ratio.
    pub margin: f64,
    /// Whether a pass that was made for it agrees.
    pub confirmed: bool,
    /// How many times as long as the others merges take.
    pub contrast: f64,
    pub places: u64,
    pub picture: Picture,
}

/// Which log reclaims blocks.
#[derive(Clone, Copy)]
enum Room {
    OpenedFirst,
    UsedFirst,
}

/// Writes to places in order.
struct Run {
    from: u64,
    count: u64,
    up: bool,
    rounds: u64,
}

/// What writes cost, one after the other.
#[derive(Default)]
struct Trace {
    /// The place of each; `None`: elsewhere, to fill a buffer.
    places: Vec<Option<u64>>,
    costs: Vec<f64>,
    /// The first one that is looked at.
    begin: usize,
    /// How many may lie between a write and the one that waits for it.
    latest: usize,
}

/// Places on one die.
struct Places {
    io: Bytes,
    page: Bytes,
    dies: u64,
    chunk: Bytes,
    stripe: Bytes,
    /// What places may be moved by, and the distance between them.
    grain: Bytes,
    distance: Bytes,
    count: u64,
    /// Writes that fill a buffer.
    full: u64,
}

/// The number of logs; `None` where nothing tells it.
pub(super) fn recency(session: &mut Session<'_, '_>) -> Result<Option<Told>, Halt> {
    let mut most = PLACES;
    let mut told = None;
    if let Some(unit) = session.known().bytes(Parameter::EraseBlockSize) {
        while let Some(places) = Places::new(session, most, Some(unit)) {
            told = places.tell(session)?;
            let more = told.as_ref().is_some_and(|told| 2 * told.logs > places.count);
            if !more || places.count < most || 2 * most > PLACES_MOST {
                break;
            }
            most *= 2;
        }
    }
    if told.as_ref().is_some_and(|told| told.confirmed) {
        return Ok(told);
    }
    // The unit may be another one: places are as far apart as the largest ones.
    let Some(places) = Places::new(session, FEW, None) else { return Ok(told) };
    let again = places.tell(session)?;
    Ok(again.or(told))
}

impl Places {
    /// `None` where it is not known which pages lie on one die, or the device is too small.
    fn new(session: &Session<'_, '_>, most: u64, unit_size: Option<Bytes>) -> Option<Places> {
        let (known, page, capacity) = (session.known(), page_to_write(session), session.capacity());
        let dies = known.count(Parameter::ParallelUnits)?.max(1);
        let stripe = known.whole_stripe(page)?;
        let chunk = Bytes(stripe.0 / dies);
        if !chunk.0.is_multiple_of(page.0) || chunk.0 == 0 || !stripe.0.is_multiple_of(dies) {
            return None;
        }
        // Where the dies are in doubt, they may be several times as many.
        let grain = unit_size.unwrap_or_else(|| {
            let of = |times: &u64| capacity.0 / (stripe.0 * times).max(1) >= most + 2;
            stripe * dies_in_doubt(session).into_iter().find(of).unwrap_or(1)
        });
        if grain.0 == 0 || !grain.0.is_multiple_of(stripe.0) {
            return None;
        }
        // Behind the last one there is room for what fills a buffer.
        let count = most.min((capacity.0 / grain.0).saturating_sub(2));
        let full = match buffer(session) {
            Buffer::None => 0,
            buffer => ((buffer.most(session).0 as f64 * HELD) as u64 / page.0 + 16).min(FULL_MOST),
        };
        (count >= PLACES_LEAST).then(|| Places {
            io: session.block().min(page),
            page,
            dies,
            chunk,
            stripe,
            grain,
            distance: Bytes(capacity.0 / (count + 2)).round_down(grain),
            count,
            full,
        })
    }

    fn tell(&self, session: &mut Session<'_, '_>) -> Result<Option<Told>, Halt> {
        let mut log_likelihoods = vec![0.0; self.count as usize];
        let mut told = None;
        for pass in 0..PASSES {
            let candidate =
                likeliest(&log_likelihoods).map_or(1, |(logs, _)| (logs as u64).clamp(1, self.count - 2));
            let trace = self.pass(session, pass as u64, candidate)?;
            let Some(of_pass) = trace.log_likelihoods(self.count) else { return Ok(told) };
            log_likelihoods.iter_mut().zip(&of_pass).for_each(|(sum, of_pass)| *sum += of_pass);
            let (logs, margin) = likeliest(&log_likelihoods).unwrap_or((0, 0.0));
            if logs == 0 {
                // What was deferred, or the device did meanwhile, may hide it once.
                if pass > 0 {
                    return Ok(None);
                }
                continue;
            }
            // Few of the places are not told from none.
            if logs as u64 + TOO_MANY > self.count {
                return Ok(told);
            }
            let wrong = -of_pass[logs] / RIGHT / (trace.looked_at() as f64).max(1.0);
            let confirmed = pass > 0 && logs as u64 == candidate && margin >= CLEAR_RULE && wrong <= WRONG;
            if margin >= LIKELY && wrong <= WRONG {
                let (contrast, picture) = (trace.contrast(), trace.picture(logs));
                let logs = logs as u64;
                told = Some(Told { logs, margin, confirmed, contrast, places: self.count, picture });
            }
            if confirmed {
                break;
            }
        }
        Ok(told)
    }

    /// Up, the last block again, up again, down, and then blocks alternating: as many as the number that is looked at, and one more.
    fn pass(&self, session: &mut Session<'_, '_>, pass: u64, candidate: u64) -> Result<Trace, Halt> {
        let all = |up| Run { from: 0, count: self.count, up, rounds: 1 };
        let in_turns = |count: u64| Run { from: 1, count, up: false, rounds: ROUNDS };
        let last = (candidate + 1).min(self.count - 1);
        let again = Run { from: self.count - 1, count: 1, up: true, rounds: ROUNDS };
        let turns = [candidate.min(last), last].map(in_turns);
        let runs = [all(true), again, all(true), all(false)].into_iter().chain(turns);
        let origin = self.origin(pass);
        let mut trace = Trace { latest: self.full as usize, ..Trace::default() };
        self.fill_buffer(session, origin, &mut trace)?;
        trace.begin = trace.costs.len() + self.count as usize;
        let mut page = 1;
        for run in runs {
            for _ in 0..run.rounds {
                let place = origin + self.distance * run.from + self.on_die(page);
                let incr = if run.up { 1 } else { -1 };
                let ios =
                    writes(Location::Ordered { incr }, self.io, run.count, place, self.distance * run.count);
                let samples = session.run("recency", &apart(ios, self.distance))?;
                let at =
                    |offset: Bytes| Some(run.from + (offset.0.saturating_sub(place.0)) / self.distance.0);
                trace.places.extend(samples.iter().map(|sample| at(sample.offset)));
                trace.costs.extend(responses(&samples));
                page += 1;
            }
        }
        self.fill_buffer(session, origin, &mut trace)?;
        Ok(trace)
    }

    /// Where a pass begins: on another die, or in other blocks, if there are any between the places.
    fn origin(&self, pass: u64) -> Bytes {
        let moved = match self.distance.0 / self.grain.0 {
            1 => Bytes::ZERO,
            grains => self.grain * (pass * (grains / PASSES as u64).max(1) % grains),
        };
        moved + self.chunk * (pass % self.dies)
    }

    /// Where the so-many-th page of a die is, from its first one on.
    fn on_die(&self, page: u64) -> Bytes {
        let of_chunk = self.chunk.0 / self.page.0;
        self.stripe * (page / of_chunk) + self.page * (page % of_chunk)
    }

    /// Pages one after the other behind the last place.
    fn fill_buffer(
        &self,
        session: &mut Session<'_, '_>,
        origin: Bytes,
        trace: &mut Trace,
    ) -> Result<(), Halt> {
        let place = (origin + self.distance * self.count).round_down(self.page);
        let room = (session.capacity().0.saturating_sub(place.0)) / self.page.0;
        let mut left = self.full;
        while left > 0 && room > 0 {
            let count = left.min(room);
            let ios = writes(Location::Sequential, self.io, count, place, self.page * count);
            let samples = session.run("fill-buffer", &apart(ios, self.page))?;
            trace.places.extend(samples.iter().map(|_| None));
            trace.costs.extend(responses(&samples));
            left -= count;
        }
        Ok(())
    }
}

/// The likeliest number of logs, and by how many log-likelihood ratios; 0 logs: all writes are alike.
fn likeliest(log_likelihoods: &[f64]) -> Option<(usize, f64)> {
    let best =
        (0..log_likelihoods.len()).max_by(|&a, &b| log_likelihoods[a].total_cmp(&log_likelihoods[b]))?;
    let second = (0..log_likelihoods.len())
        .filter(|&logs| logs != best)
        .map(|logs| log_likelihoods[logs])
        .fold(f64::MIN, f64::max);
    (log_likelihoods[best] - second > 0.0).then_some((best, log_likelihoods[best] - second))
}

impl Trace {
    /// The writes that are looked at: not those that fill a buffer.
    fn looked_at(&self) -> usize {
        self.places[self.begin.min(self.places.len())..].iter().flatten().count()
    }

    /// What is slow: merges are by far the longest, and more of them are seen than places.
    fn dear(&self) -> f64 {
        let late = &self.costs[self.begin.min(self.costs.len())..];
        let mut costs = late.to_vec();
        costs.sort_by(|a, b| b.total_cmp(a));
        costs.truncate((self.looked_at() / 2).max(1));
        median(&costs) * DEAR
    }

    /// How many times as long as the others slow writes take.
    fn contrast(&self) -> f64 {
        let dear = self.dear();
        let late = self.costs[self.begin.min(self.costs.len())..].iter().copied();
        let (long, short): (Vec<f64>, Vec<f64>) = late.partition(|&cost| cost >= dear);
        median(&long) / median(&short).max(1.0)
    }

    /// The writes behind one that took much longer than a merge, until one is slow again: what was deferred, or was in a buffer, was done
    /// meanwhile.
    fn silent(&self, dear: &[bool]) -> Vec<bool> {
        let long: Vec<f64> =
            self.costs.iter().zip(dear).filter(|&(_, &dear)| dear).map(|(&cost, _)| cost).collect();
        let (rest, mut rested) = (median(&long) * IDLE_OF_MERGE, false);
        let write = |(&cost, &dear): (&f64, &bool)| {
            let silent = rested && !dear;
            rested = cost > rest || silent;
            silent
        };
        self.costs.iter().zip(dear).map(write).collect()
    }

    /// By the number of logs: the logarithm of its likelihood, but for a constant. The first one is that of writes that are all
    /// alike. `None` if no writes are slow.
    fn log_likelihoods(&self, most: u64) -> Option<Vec<f64>> {
        let dear: Vec<bool> = {
            let least = self.dear();
            self.costs.iter().map(|&cost| cost >= least).collect()
        };
        let silent = self.silent(&dear);
        let (seen, all) = (self.looked_at(), self.places.len());
        if seen == 0 || self.contrast() < CONTRAST {
            return None;
        }
        let wrong = |merges: &[bool]| {
            let is_of_place = |at: &usize| self.places[*at].is_some();
            let last = (self.begin..all).rfind(is_of_place).map_or(all, |last| last + 1);
            let at: Vec<usize> =
                (self.begin..last).filter(is_of_place).chain(last..all.min(last + BEHIND)).collect();
            let of_shift = |shift: usize| {
                let differs = |&&at: &&usize| match dear.get(at + shift) {
                    Some(&dear) => dear != merges[at] && !silent[at + shift],
                    None => true,
                };
                at.iter().filter(differs).count()
            };
            (0..=self.latest).map(of_shift).min().unwrap_or(seen)
        };
        // With fewer logs than places more writes are slow than places.
        let none = vec![false; all];
        let of_places: Vec<bool> = self.places.iter().map(Option::is_some).collect();
        let dears = dear[self.begin.min(all)..].iter().filter(|dear| **dear).count() as u64;
        let alike = wrong(if dears < most { &none } else { &of_places });
        let of_logs = |logs: u64| {
            let of_room = |room| wrong(&self.merges(logs as usize, room));
            of_room(Room::OpenedFirst).min(of_room(Room::UsedFirst))
        };
        let wrong = std::iter::once(alike).chain((1..most).map(of_logs));
        Some(wrong.map(|wrong| -(wrong as f64) * RIGHT).collect())
    }

    /// Which writes open a log, if there are so many.
    fn merges(&self, logs: usize, room: Room) -> Vec<bool> {
        let mut open: Vec<Option<u64>> = Vec::new();
        let mut opens = |place: &Option<u64>| {
            let has_log = open.iter().position(|other| other == place);
            match (has_log, room) {
                (Some(index), Room::UsedFirst) => open[index..].rotate_left(1),
                (Some(_), Room::OpenedFirst) => {}
                (None, _) => {
                    if open.len() == logs {
                        open.remove(0);
                    }
                    open.push(*place);
                }
            }
            has_log.is_none() && place.is_some()
        };
        self.places.iter().map(&mut opens).collect()
    }
}

#[cfg(test)]
mod tests;
