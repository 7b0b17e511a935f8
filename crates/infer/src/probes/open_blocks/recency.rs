//! Counts the log blocks of a die, from how recently a block was written to.
//!
//! # Model
//! A layer with log blocks of one data block each is a cache of blocks: a write to a block with a log block is fast,
//! and any other write allocates one, and has another one merged. So the number of most recently written blocks that
//! are fast is the number of log blocks (Mattson et al., IBM Systems Journal 9(2), 1970, section 4: stack distances).
//! The likelihood of each number is in [`log_recency`](crate::signals::log_recency).
//!
//! # Method
//! 1. Single pages go over many blocks of one die: twice in ascending order, then in descending order. The first
//!    ascending run does not count, because deferred merges and earlier log blocks are unknown.
//! 2. Writes alternate between `n` blocks, the likeliest number so far, and then between `n + 1`. With `n` log
//!    blocks, the first are all fast and the others all merge, whichever log block is evicted.
//! 3. Behind a write buffer, a write waits for one that came as many writes earlier as the buffer holds. Pages
//!    elsewhere fill the buffer before and after. Between the ascending runs the last block is rewritten, which is
//!    fast: that shows the delay.
//!
//! # Invariants
//! - The offsets lie on one die, and further apart than a block. The size of a block is not necessary.
//! - Each write is the next page of its block, so that log blocks which only take pages in order take it.
//! - A number counts as confirmed only if a pass that could have refuted it agrees.

use crate::signals::log_recency::{RecencyTrace, likeliest_logs};
use flashlab_analysis::inference::{Parameter, Picture};
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::responses;
use crate::patterns::writes::{Buffer, apart, buffer, dies_in_doubt, page_to_write, writes};
use crate::session::Session;
use crate::thresholds;

/// The offsets of a pass. Twice the log blocks of a die are enough; the number doubles while it is too small.
/// Unit: offsets. Source: choice. Too many: the budget is used up; too few: more passes are necessary.
const OFFSETS: u64 = 40;
/// The most offsets of a pass. Unit: offsets. Source: choice. Too many: the budget is used up; too few: dies
/// with many log blocks stay undetermined.
const OFFSETS_MOST: u64 = 160;
/// The fewest offsets of a pass. Unit: offsets. Source: choice. Too many: small devices stay undetermined;
/// too few: chance is a number of log blocks.
const OFFSETS_LEAST: u64 = 6;
/// The fewest offsets whose writes merge. Unit: offsets. Source: tuned. Too many: dies with many log blocks
/// stay undetermined; too few: outliers are merges.
const MERGING_LEAST: u64 = 3;
/// The offsets where the size of a block is not known: hardly a device has fewer blocks. Unit: offsets.
/// Source: tuned. Too many: two offsets lie in one block; too few: more passes are necessary.
const OFFSETS_UNKNOWN: u64 = 21;
/// The rounds over blocks to which writes alternate, and the rewrites of the last block between the two
/// ascending runs. Unit: rounds. Source: choice. Too many: the budget is used up; too few: one outlier
/// refutes the right number.
const ROUNDS: u64 = 4;
/// The most passes. Unit: passes. Source: choice. Too many: the budget is used up; too few: noise leaves the
/// number undetermined.
const PASSES_MOST: usize = 6;
/// The log-likelihood ratio to any other number from which on a number is likely. Unit: natural logarithm, so
/// 150 to 1. Source: tuned. Too high: likely numbers stay undetermined; too low: chance is a number.
const LIKELY_GAIN: f64 = 5.0;
/// The greatest share of the writes that do not cost what the number predicts. Unit: share. Source: tuned.
/// Too high: a wrong number is reported; too low: outliers leave the right one undetermined.
const OUTLIERS_MOST: f64 = 0.12;
/// A write buffer may hold this many times its known size: parts of pages, and pages on their path to the
/// flash. Unit: ratio. Source: tuned. Too high: the budget is used up; too low: the first writes wait for
/// nothing.
const BUFFER_MULTIPLE: f64 = 2.3;
/// The most writes that fill the buffer. Unit: writes. Source: choice. Too many: the budget is used up; too
/// few: large buffers hide the merges.
const BUFFERED_MOST: u64 = 6000;

/// What is known of the number of logs.
pub(super) struct LogCount {
    pub logs: u64,
    /// This much likelier than any other number, as a log-likelihood ratio.
    pub margin: f64,
    /// Whether a pass that was made for it agrees.
    pub confirmed: bool,
    /// How many times as long as the others merges take.
    pub contrast: f64,
    pub blocks: u64,
    pub picture: Picture,
}

/// Writes to blocks in order.
struct Run {
    from: u64,
    count: u64,
    up: bool,
    rounds: u64,
}

/// Places on one die.
struct Blocks {
    io: Bytes,
    page: Bytes,
    dies: u64,
    chunk: Bytes,
    stripe: Bytes,
    /// The step by which offsets may be moved, and the distance between them.
    grain: Bytes,
    distance: Bytes,
    count: u64,
    /// Writes that fill a buffer.
    full: u64,
}

/// The number of logs; `None` where nothing shows it.
pub(super) fn recency(session: &mut Session<'_, '_>) -> Result<Option<LogCount>, Halt> {
    // If the block size is not known, the distance is that of the largest ones.
    let unit = session.known().bytes(Parameter::EraseBlockSize);
    let mut most = if unit.is_some() { OFFSETS } else { OFFSETS_UNKNOWN };
    loop {
        let Some(blocks) = Blocks::new(session, most, unit) else { return Ok(None) };
        let found = blocks.count_logs(session)?;
        let more = found.as_ref().is_some_and(|found| 2 * found.logs > blocks.count);
        if !more || blocks.count < most || 2 * most > OFFSETS_MOST {
            return Ok(found);
        }
        most *= 2;
    }
}

impl Blocks {
    /// `None` where it is not known which pages lie on one die, or the device is too small.
    fn new(session: &Session<'_, '_>, most: u64, unit_size: Option<Bytes>) -> Option<Blocks> {
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
            buffer => {
                ((buffer.most(session).0 as f64 * BUFFER_MULTIPLE) as u64 / page.0 + 16).min(BUFFERED_MOST)
            }
        };
        (count >= OFFSETS_LEAST).then(|| Blocks {
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
        for pass in 0..PASSES_MOST {
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
            // A few merging offsets are not distinguished from none.
            if logs as u64 + MERGING_LEAST > self.count {
                return Ok(found);
            }
            let wrong = trace.wrong_share(&of_pass, logs);
            let confirmed = pass > 0
                && logs as u64 == candidate
                && margin >= thresholds::CLEAR_GAIN
                && wrong <= OUTLIERS_MOST;
            if margin >= LIKELY_GAIN && wrong <= OUTLIERS_MOST {
                let (contrast, picture) = (trace.contrast(), trace.picture(logs));
                let logs = logs as u64;
                found = Some(LogCount { logs, margin, confirmed, contrast, blocks: self.count, picture });
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
                trace.blocks.extend(samples.iter().map(|sample| at(sample.offset)));
                trace.costs.extend(responses(&samples));
                page += 1;
            }
        }
        self.fill_buffer(session, origin, &mut trace)?;
        Ok(trace)
    }

    /// Where a pass begins: on another die, or in other blocks, if there are any between the offsets.
    fn origin(&self, pass: u64) -> Bytes {
        let moved = match self.distance.0 / self.grain.0 {
            1 => Bytes::ZERO,
            grains => self.grain * (pass * (grains / PASSES_MOST as u64).max(1) % grains),
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
            trace.blocks.extend(samples.iter().map(|_| None));
            trace.costs.extend(responses(&samples));
            left -= count;
        }
        Ok(())
    }
}
