//! Channels, and dies where one read at a time is taken, from the times of reads over several chunks.
//!
//! # Model
//! As in `flash_times`: reads that begin at the last page of a chunk and end at the first one of a later chunk ask for
//! little, and need a page of every chunk between. Where a channel carries several of them, or a die is read again, they take
//! longer. With many reads in flight at every k-th chunk, few dies and channels are used, and set the pace.
//!
//! The layouts that are tried are those with the chunk that is known. What fits no better than another is left
//! undetermined.

use std::ops::Range;

use flashlab_analysis::decide::level::level;
use flashlab_base::Bytes;

use super::figures::median;
use super::flash_times::{Fits, Layout, Observation, Seen, fit};
use super::ground::Ground;
use super::reads::{Walk, compare, compare_each, in_order};
use crate::session::{Halt, Session};

/// No channel is faster, in bytes a nanosecond (ONFI 5.0: 2400 MT/s).
const CHANNEL_FASTEST: f64 = 2.4;
/// The most pages of a read.
const PAGES_MAX: u64 = 72;
/// The fewest places for reads of one length.
const PLACES_MIN: u64 = 8;
/// The most lengths of reads.
const LENGTHS_MAX: usize = 36;
/// The largest read.
const SIZE_MAX: Bytes = Bytes::kib(512);
/// The share of the time for reading that reads one at a time may take.
const TIME_SHARE: f64 = 0.3;
/// Reads of one length take so long together, in nanoseconds, or are so few.
const LENGTH_TIME: f64 = 0.3e9;
const ROUNDS: Range<usize> = 2..8;
/// No figure is as certain as this, relative to itself: reads have costs that the model has not.
const ERROR_MIN: f64 = 0.004;
/// The same for the pace of many reads.
const PACE_ERROR: f64 = 0.02;
/// The reads of a run.
const PACE_READS: Range<u64> = 128..640;
/// The reads in flight.
const DEPTH: u32 = 64;
/// The most that deviations may be, on average, in units of their errors, squared.
const MISFIT_MAX: f64 = 9.0;
/// The same for an answer that is sure.
const MISFIT_SURE: f64 = 3.0;
const MARGIN_SURE: f64 = 60.0;
/// By how much the next best layout must fit worse, for each unit of the misfit.
const MARGIN_MIN: f64 = 12.0;

/// What reads over chunks are made of.
#[derive(Clone, Copy)]
pub(crate) struct Chunks {
    pub(crate) page: Bytes,
    /// Reads begin at the last page of so many bytes, which are a chunk, or some of them.
    pub(crate) chunk: Bytes,
    pub(crate) ground: Ground,
}

/// What was decided.
pub(crate) struct Told {
    fits: Option<Fits>,
    pub(crate) evidence: String,
    /// Pages and response times of the reads.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Told {
    /// Whether a layout of which this is true fits about as well as any.
    pub(crate) fn allows(&self, what: impl Fn(&Layout) -> bool) -> bool {
        let Some(fits) = self.fits.as_ref().filter(|fits| fits.misfit < MISFIT_MAX) else { return false };
        what(&fits.best) || fits.margin(what) < MARGIN_MIN
    }

    /// The same with so many dies.
    pub(crate) fn with_dies(&self, dies: u64) -> Told {
        let fits = self.fits.as_ref().and_then(|fits| fits.of(|layout| layout.dies == dies));
        Told { fits, evidence: self.evidence.clone(), points: self.points.clone() }
    }

    /// What the layout says that fits best, if it fits and all that say something else fit worse, with how much
    /// confidence.
    pub(crate) fn says<T: PartialEq>(&self, what: impl Fn(&Layout) -> T) -> Option<(T, f64)> {
        let fits = self.fits.as_ref().filter(|fits| fits.misfit < MISFIT_MAX)?;
        let margin = fits.margin(&what);
        let sure = fits.misfit < MISFIT_SURE && margin > MARGIN_SURE;
        (margin > MARGIN_MIN).then(|| (what(&fits.best), if sure { 0.95 } else { 0.85 }))
    }
}

/// The layouts with chunks of so many pages on so many dies.
pub(crate) fn layouts(chunk: u64, planes: u64, dies: u64) -> Vec<Layout> {
    let legal = (1..=dies).filter(|&channels| dies.is_multiple_of(channels));
    legal.map(|channels| Layout { chunk, planes, dies, channels }).collect()
}

/// Which of the layouts the device has. With so many dies, or a multiple, many reads in flight tell, too.
pub(crate) fn layout(
    session: &mut Session<'_, '_>,
    chunks: Chunks,
    layouts: &[Layout],
    dies: Option<u64>,
) -> Result<Told, Halt> {
    let pages = lengths(layouts, chunks);
    let mut seen = one_at_a_time(session, chunks, &pages)?;
    let points: Vec<(f64, f64)> = seen.iter().filter_map(point).collect();
    if let Some(dies) = dies {
        seen.extend(many_at_a_time(session, chunks, dies)?);
    }
    let words: Vec<String> = seen.iter().map(in_words).collect();
    let figures =
        format!("reads of n pages, from the last one of a chunk on, take so many us: {}", words.join(", "));
    let transfer = chunks.page.0 as f64 / CHANNEL_FASTEST;
    let fits = fit(&seen, layouts, transfer);
    let evidence = match &fits {
        Some(fits) => {
            let Layout { chunk, dies, channels, .. } = fits.best;
            format!(
                "{figures}; {dies} dies on {channels} channels with chunks of {chunk} pages fit best, with a mean squared \
                 deviation of {:.1} errors; others worse by {:.0} at least",
                fits.misfit,
                fits.margin(|layout| *layout)
            )
        }
        None => figures,
    };
    Ok(Told { fits, evidence, points })
}

/// Lengths of reads, in pages, at which layouts differ.
fn lengths(layouts: &[Layout], chunks: Chunks) -> Vec<u64> {
    let mut all = vec![1, 2];
    for layout in layouts {
        let ends = (0..=2 * layout.dies).flat_map(|k| [2 + k * layout.chunk, 1 + (k + 1) * layout.chunk]);
        all.extend(ends.filter(|&pages| pages <= PAGES_MAX && chunks.page * pages <= SIZE_MAX));
    }
    all.sort_unstable();
    all.dedup();
    all.truncate(LENGTHS_MAX);
    all
}

fn in_words(seen: &Observation) -> String {
    let micros = seen.nanos / 1000.0;
    match seen.seen {
        Seen::Read { pages, .. } => format!("{pages}: {micros:.1}"),
        Seen::Pace { step, pages } => {
            format!("many of {pages} at every chunk number {step}: {micros:.1} each")
        }
    }
}

fn point(seen: &Observation) -> Option<(f64, f64)> {
    match seen.seen {
        Seen::Read { pages, .. } => Some((pages as f64, seen.nanos)),
        Seen::Pace { .. } => None,
    }
}

/// Reads of so many pages, from the last page of a chunk on.
fn one_at_a_time(
    session: &mut Session<'_, '_>,
    chunks: Chunks,
    all: &[u64],
) -> Result<Vec<Observation>, Halt> {
    let Chunks { page, chunk, ground } = chunks;
    let block = session.block();
    let in_chunk = chunk.0 / page.0;
    let begin = session.time_left();
    let mut observations = Vec::new();
    // A whole page, and then from the last block of the first page to the first block of the last one.
    let whole = (chunk - page, page, 1);
    let parts = all.iter().map(|&pages| match pages {
        1 => (chunk - block, block, 1),
        _ => (chunk - block, page * (pages - 2) + block * 2, pages),
    });
    for (offset, size, pages) in [whole].into_iter().chain(parts) {
        let slot = chunk * (offset + size + page).0.div_ceil(chunk.0);
        let walk = Walk { offset, slot, size };
        if ground.slots(session, slot, slot) < PLACES_MIN {
            break;
        }
        let pattern = ground.random(session, walk, 24, 1);
        ground.warm(session, std::slice::from_ref(&pattern))?;
        let once = median(&in_order(&session.run("chunks", &pattern)?, 0)) * 24.0;
        let rounds = ((LENGTH_TIME / once) as usize).clamp(ROUNDS.start, ROUNDS.end);
        let times = compare_each(session, "chunks", &[pattern], rounds)?;
        let Some(level) = level(&times[0], 0.95) else { continue };
        let error = ((level.high - level.low) / 4.0 / level.estimate).hypot(ERROR_MIN);
        let asked = size.0 as f64 / page.0 as f64;
        let seen = Seen::Read { first: in_chunk - 1, pages, asked };
        observations.push(Observation { seen, nanos: level.estimate, error });
        if begin.since(session.time_left()).0 as f64 > TIME_SHARE * begin.0 as f64 {
            break;
        }
    }
    Ok(observations)
}

/// The pace of reads at every k-th chunk, when more are in flight than there are dies.
fn many_at_a_time(
    session: &mut Session<'_, '_>,
    chunks: Chunks,
    dies: u64,
) -> Result<Vec<Observation>, Halt> {
    let Chunks { page, chunk, ground } = chunks;
    let depth = session.depth().min(DEPTH);
    let mut observations = Vec::new();
    for step in 1..=dies {
        let used = dies / gcd(step, dies);
        if u64::from(depth) < 2 * used {
            continue;
        }
        for pages in 1..=(chunk.0 / page.0).min(2) {
            let slot = chunk * step;
            let slots = ground.slots(session, slot, slot);
            let offset = if pages == 1 { Bytes::ZERO } else { page - session.block() };
            let walk = Walk { offset: ground.begin(slot) + offset, slot, size: session.block() * pages };
            let whole = slots / used * used;
            if whole < 16 {
                continue;
            }
            // More than a buffer holds of what the last run read.
            let count = whole.clamp(PACE_READS.start, PACE_READS.end) + u64::from(depth);
            let pattern = walk.pattern(slot * whole, count, depth);
            ground.warm(session, std::slice::from_ref(&pattern))?;
            let figures = compare(session, "every-chunk", &[pattern], 5)?;
            let nanos = median(&figures[0]) / f64::from(depth);
            observations.push(Observation { seen: Seen::Pace { step, pages }, nanos, error: PACE_ERROR });
        }
    }
    Ok(observations)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
