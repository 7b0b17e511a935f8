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
//! may be deferred up to a limit, and nobody knows which logs were open.
//!
//! Behind a buffer a write waits for one that came as many writes earlier as the buffer holds: how many is one more unknown.
//! Before and after, enough pages are written elsewhere that it is full; and between the two times up the last block is
//! written to again, which is fast however many logs there are: so it is seen how much later a write waits. After a write that
//! takes much longer than any merge, a device that rested has done what it deferred, and writes say nothing until one is slow again.
//!
//! # Invariants
//! - the size of a unit is not needed, only that blocks are smaller than the distance of the places, and that they lie on one die;
//! - each write is the next page of its block, so that logs that take pages in order only take it;
//! - a number is found only if a pass that was made for it, and could have refuted it, agrees.

use crate::signals::log_recency::{RecencyTrace, likeliest_logs};
use flashlab_analysis::inference::{Parameter, Picture};
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
/// With this number of logs less than places there are too few merges.
const TOO_MANY: u64 = 3;
/// Where the size of a unit is not known: no device has fewer units by much.
const FEW: u64 = 21;
/// How often blocks are written to alternating, and the last one again between the two times up.
const ROUNDS: u64 = 4;
/// Passes.
const PASSES: usize = 6;
/// The log-likelihood ratio to any other number from which on a number is clear, and from which on it is likely.
const CLEAR_RULE: f64 = 12.0;
const LIKELY: f64 = 5.0;
/// In a pass that shows a number so large a share of the writes may cost what they should not.
const WRONG: f64 = 0.12;
/// A buffer may hold this many times what is known of it: parts of pages wait, and those on their way to the flash.
const HELD: f64 = 2.3;
const FULL_MOST: u64 = 6000;

/// What is known of the number of logs.
pub(super) struct LogCount {
    pub logs: u64,
    /// This much likelier than any other number, as a log-likelihood ratio.
    pub margin: f64,
    /// Whether a pass that was made for it agrees.
    pub confirmed: bool,
    /// How many times as long as the others merges take.
    pub contrast: f64,
    pub places: u64,
    pub picture: Picture,
}

/// Writes to places in order.
struct Run {
    from: u64,
    count: u64,
    up: bool,
    rounds: u64,
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

/// The number of logs; `None` where nothing shows it.
pub(super) fn recency(session: &mut Session<'_, '_>) -> Result<Option<LogCount>, Halt> {
    // Where the unit is not known, places are as far apart as the largest ones.
    let unit = session.known().bytes(Parameter::EraseBlockSize);
    let mut most = if unit.is_some() { PLACES } else { FEW };
    loop {
        let Some(places) = Places::new(session, most, unit) else { return Ok(None) };
        let found = places.count_logs(session)?;
        let more = found.as_ref().is_some_and(|found| 2 * found.logs > places.count);
        if !more || places.count < most || 2 * most > PLACES_MOST {
            return Ok(found);
        }
        most *= 2;
    }
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

    fn count_logs(&self, session: &mut Session<'_, '_>) -> Result<Option<LogCount>, Halt> {
        let mut log_likelihoods = vec![0.0; self.count as usize];
        let mut found = None;
        for pass in 0..PASSES {
            let candidate = likeliest_logs(&log_likelihoods)
                .map_or(1, |(logs, _)| (logs as u64).clamp(1, self.count - 2));
            let trace = self.pass(session, pass as u64, candidate)?;
            let Some(of_pass) = trace.log_likelihoods(self.count) else { return Ok(found) };
            log_likelihoods.iter_mut().zip(&of_pass).for_each(|(sum, of_pass)| *sum += of_pass);
            let (logs, margin) = likeliest_logs(&log_likelihoods).unwrap_or((0, 0.0));
            if logs == 0 {
                // What was deferred, or the device did meanwhile, may hide it once.
                if pass > 0 {
                    return Ok(None);
                }
                continue;
            }
            // Few of the places are not distinguished from none.
            if logs as u64 + TOO_MANY > self.count {
                return Ok(found);
            }
            let wrong = trace.wrong_share(&of_pass, logs);
            let confirmed = pass > 0 && logs as u64 == candidate && margin >= CLEAR_RULE && wrong <= WRONG;
            if margin >= LIKELY && wrong <= WRONG {
                let (contrast, picture) = (trace.contrast(), trace.picture(logs));
                let logs = logs as u64;
                found = Some(LogCount { logs, margin, confirmed, contrast, places: self.count, picture });
            }
            if confirmed {
                break;
            }
        }
        Ok(found)
    }

    /// Up, the last block again, up again, down, and then blocks alternating: as many as the number that is looked at, and one more.
    fn pass(&self, session: &mut Session<'_, '_>, pass: u64, candidate: u64) -> Result<RecencyTrace, Halt> {
        let all = |up| Run { from: 0, count: self.count, up, rounds: 1 };
        let in_turns = |count: u64| Run { from: 1, count, up: false, rounds: ROUNDS };
        let last = (candidate + 1).min(self.count - 1);
        let again = Run { from: self.count - 1, count: 1, up: true, rounds: ROUNDS };
        let turns = [candidate.min(last), last].map(in_turns);
        let runs = [all(true), again, all(true), all(false)].into_iter().chain(turns);
        let origin = self.origin(pass);
        let mut trace = RecencyTrace { latest: self.full as usize, ..RecencyTrace::default() };
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
        trace: &mut RecencyTrace,
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
