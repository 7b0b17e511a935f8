//! The family of the translation layer: which writes it likes.
//!
//! # Model
//! Writes of one page, with `1` for what they cost in sequence and `M` for a merge, which copies a block and costs tens to
//! hundreds of times as much as a page:
//!
//! | family | one page again and again | the device's first page again and again | far apart on one die | anywhere |
//! | --- | --- | --- | --- | --- |
//! | block (writes that continue a block only) | M | M | M | M |
//! | log-block (logs of one block each) | 1 | 1 | M | M |
//! | shared log-block | 1 | M | 1 | 1, and more than M when the logs are full |
//! | page | 1 | 1 | 1 | up to about 10: what collecting costs (write amplification) |
//!
//! Shared logs are expensive only when they are full, which takes as much as they hold: more than can be written to find
//! out. But a write to the beginning of a block goes to a log block of its own, in the hope that the block's other
//! pages follow (FAST, Lee et al., ACM TECS 6(3), 2007, section 4), and what was there is merged with the rest of its
//! block. The device's first page begins a block for sure.
//!
//! Log blocks of one block each are cheap anywhere until each of them has its block: what is written anywhere is looked at
//! only after more writes than a device has logs.
//!
//! A device may put merges off until a die rests, which a die does while others work. So places are looked at that lie on
//! one die: addresses that are a multiple of 24 MiB or a good part of it apart are on the same die, however many there are
//! (up to 16, but for 5, 7 and the like) and whatever the stripe. What is owed by one pattern is not the next one's: between
//! them the device rests.
//!
//! A write buffer answers before it is known what a write costs, and gives its time to a later one: behind one only the
//! mean counts, after as many writes as it holds. What is on one die is compared with what is on one die: behind a buffer
//! writes in sequence have all of them at the same time.
//!
//! A buffer that keeps what it holds takes one page again and again without any flash. Then pages near each other, more than
//! it holds and not next to each other, are written instead, and the first page in turns with as much as pushes it out.
//!
//! # Invariants
//! - nothing is sure from costs between the two levels, however sure the difference is;
//! - writes in sequence are taken after those anywhere, in the same state, so that a page map collects for both.

use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Location, Pattern};
use flashlab_samples::Sample;

use super::map_cache::{MapCache, look_for_map_cache};
use super::patterns::responses;
use super::writes::{Buffer, apart, buffer, median, place, unit, writes};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "translation",
    about: "single pages in sequence, again and again, and anywhere: which of them cost a merge",
    parameters: &[Parameter::TranslationFamily],
    write_share: 0.05,
    probe,
};

/// Writes that are looked at.
const WRITES: u64 = 96;
/// More than a device has log blocks, and so many of the writes after them are looked at.
const OPENED: u64 = 1024;
const LATE: u64 = 256;
/// IOs in flight that keep all dies busy.
const DEPTH: u32 = 32;
/// Up to so many times the cost in sequence a write is as cheap, and from so many times on it costs a merge: a block
/// has 16 pages at least, each of which is read and written. Between the two nothing is sure.
const CHEAP: f64 = 3.0;
const MERGE: f64 = 5.0;
/// Means anywhere: up to here it is collecting pages, from here on merging a block for each page.
const COLLECTING: f64 = 9.0;
const MERGING: f64 = 16.0;
/// How far apart places are, where there are so many of them: more than a die has log blocks.
const FAR: [Bytes; 5] = [Bytes::mib(24), Bytes::mib(12), Bytes::mib(6), Bytes::mib(3), Bytes::kib(1536)];
const PLACES: u64 = 32;
/// More writes than the merges that are put off.
const PUT_OFF: u64 = 48;
/// So many writes one after the other are taken together.
const STRETCH: usize = 32;
/// The dies that are assumed where they are not known.
const DIES: f64 = 4.0;
/// A page again and again that takes less than this share of what it takes in sequence stays in a buffer.
const ABSORBED: f64 = 0.5;
/// How often the first page and another one are pushed out of a buffer.
const PUSHES: u64 = 10;
/// p of a difference between them.
const PUSHED: f64 = 1e-3;
/// What was put off is done meanwhile.
const REST: Nanos = Nanos::from_secs(5);

/// A level: as cheap as in sequence, or a merge, and whether that is sure.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    merges: bool,
    clear: bool,
}

/// Where a ratio lies that is at most `cheap`, or at least `merge`.
fn level(ratio: f64, cheap: f64, merge: f64) -> Level {
    Level { merges: ratio > (cheap * merge).sqrt(), clear: ratio <= cheap || ratio >= merge }
}

/// What was measured, relative to writes in sequence.
struct Seen {
    size: Bytes,
    base: f64,
    /// One page again and again; the cheaper of two.
    in_place: f64,
    /// The device's first page again and again.
    first: f64,
    /// Anywhere with many in flight, relative to those in sequence in the same way.
    anywhere: f64,
    /// Far apart on one die.
    apart: f64,
    /// Nothing of it is behind a write buffer.
    unbuffered: bool,
    /// Dies that may make the difference between one place and all of them.
    dies: f64,
    runs: Vec<(&'static str, Vec<f64>)>,
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let parameter = Parameter::TranslationFamily;
    let seen = Seen::measure(session)?;
    let evidence = format!(
        "writes of {} take {} in sequence, {:.1} times that at one place again and again, {:.1} times at the device's first \
         page, {:.1} times far apart on one die, and anywhere, many in flight, {:.1} times as long as in sequence",
        seen.size,
        Nanos(seen.base as u64),
        seen.in_place,
        seen.first,
        seen.apart,
        seen.anywhere,
    );
    let (word, mut sure) = seen.word();
    let finding = if word == "page" {
        let (cached, figures) = look_for_map_cache(session, seen.size)?;
        let evidence = format!("{evidence}; {figures}");
        match cached {
            MapCache::Found => Finding::found(parameter, "demand-cached page", sure, evidence),
            MapCache::None => Finding::found(parameter, "page", sure, evidence),
            MapCache::Unclear(word) => Finding::found(parameter, word, sure.min(0.6), evidence),
        }
    } else {
        if !seen.unbuffered {
            sure = f64::min(sure, 0.9);
        }
        Finding::found(parameter, word, sure, evidence)
    };
    session.conclude(finding.with(seen.picture()));
    Ok(())
}

/// The time from one completion to the next among the last `count` IOs: the median of what it is in stretches, as now
/// and then one write pays for collecting a block.
fn pace(samples: &[Sample], count: u64) -> f64 {
    let late = &samples[samples.len().saturating_sub(count as usize + 1)..];
    let stretches = late.windows(STRETCH + 1).step_by(STRETCH);
    let took = |stretch: &[Sample]| stretch[STRETCH].completed.since(stretch[0].completed).0 as f64;
    median(&stretches.map(|stretch| took(stretch) / STRETCH as f64).collect::<Vec<_>>())
}

/// What the last `count` writes of a run cost: the usual one without a buffer, and on average behind one.
fn cost(buffer: Buffer, samples: &[Sample], count: u64) -> f64 {
    let times = responses(samples);
    let late = &times[times.len().saturating_sub(count as usize)..];
    if buffer == Buffer::None { median(late) } else { pace(samples, count) }.max(1.0)
}

impl Seen {
    fn measure(session: &mut Session<'_, '_>) -> Result<Seen, Halt> {
        let (size, buffer) = (unit(session), buffer(session));
        // The patterns below, and what looking for a map's cache needs.
        let most = session.writes_left().0 / size.0 / 9;
        let full = (buffer.most(session).0 / size.0 * 9 / 8).min(most.saturating_sub(WRITES));
        let mut runs = Vec::new();
        let mut run = |session: &mut Session<'_, '_>, name, pattern: Pattern| -> Result<Vec<Sample>, Halt> {
            let samples = session.run(name, &pattern)?;
            let times = responses(&samples);
            runs.push((name, times[times.len().saturating_sub(WRITES as usize)..].to_vec()));
            Ok(samples)
        };
        let dies = match buffer {
            Buffer::None => 1.0,
            _ => session.known().number(Parameter::ParallelUnits).unwrap_or(DIES).max(1.0),
        };
        let depth = session.depth().min(DEPTH);
        let capacity = session.capacity().round_down(size);
        let deep = |pattern| Pattern { queue_depth: depth, ..pattern };
        let count = full.max(OPENED.min(most)) + LATE;
        let anywhere = deep(writes(Location::Random, size, count, Bytes::ZERO, capacity));
        let anywhere = pace(&session.run("anywhere-busy", &anywhere)?, LATE);
        // Right after it, so that a page map collects for both.
        let origin = place(session, 0.12, Bytes::mib(1));
        let sequence = deep(writes(Location::Sequential, size, count, origin, size * count));
        let anywhere = anywhere / pace(&session.run("in-sequence-busy", &sequence)?, LATE).max(1.0);
        let count = full + WRITES + WRITES / 4;
        session.rest(REST)?;
        let origin = place(session, 0.31, Bytes::mib(1));
        let sequence = writes(Location::Sequential, size, count, origin, size * count);
        let base = cost(buffer, &run(session, "in-sequence", sequence)?, WRITES);
        session.rest(REST)?;
        let distance = FAR.into_iter().find(|far| capacity.0 / far.0 >= PLACES).unwrap_or(FAR[FAR.len() - 1]);
        let places = (capacity.0 / distance.0).saturating_sub(1).max(1);
        let incr = Location::Ordered { incr: (distance.0 / size.0).max(1) as i64 };
        let far = writes(incr, size, count + PUT_OFF, size * 3, distance * places);
        let mut apart = cost(buffer, &run(session, "far-apart", far)?, WRITES);
        let again = |at| writes(Location::Sequential, size, count, at, size);
        let mut in_place = f64::INFINITY;
        for part in [0.53, 0.73] {
            session.rest(REST)?;
            let at = place(session, part, Bytes::mib(1)) + size * 3;
            in_place = in_place.min(cost(buffer, &run(session, "one-page", again(at))?, WRITES));
        }
        session.rest(REST)?;
        let mut first = cost(buffer, &run(session, "first-page", again(Bytes::ZERO))?, WRITES);
        let absorbed = buffer != Buffer::None && in_place < ABSORBED * base;
        if absorbed && let Some((near, pushed)) = pushed_out(session, size, buffer)? {
            (in_place, first) = (near, near * pushed);
            // Those near each other are on all dies.
            apart /= dies;
        }
        let unbuffered = buffer == Buffer::None;
        let (in_place, first, apart) = (in_place / base, first / base, apart / base);
        Ok(Seen { size, base, in_place, first, apart, anywhere, dies, unbuffered, runs })
    }

    /// The family, a page map kept on the flash counting as a page map, and how sure it is.
    fn word(&self) -> (&'static str, f64) {
        let at_first = level(self.first / self.in_place.max(1e-9), CHEAP, MERGE);
        let apart = level(self.apart / self.in_place.max(1e-9), CHEAP, MERGE);
        let again = level(self.in_place, CHEAP * self.dies, MERGE * self.dies);
        let busy = level(self.anywhere, COLLECTING, MERGING);
        // What costs a merge at one place does so anywhere, and on one die no less than on all of them.
        let block = busy.merges && again.merges;
        // Collecting on one die alone is dear as well, but not if it costs next to nothing on all of them.
        let log = apart.merges && self.anywhere > CHEAP / 1.2;
        let sure = |levels: &[Level]| if levels.iter().all(|level| level.clear) { 0.96 } else { 0.6 };
        match () {
            () if at_first.merges => ("shared log-block", sure(&[again, at_first])),
            () if log => ("log-block", sure(&[again, at_first, apart, busy])),
            () if block => ("block", sure(&[again, apart, busy])),
            () if busy.merges => (if busy.clear { "log-block" } else { "page" }, 0.5),
            () => ("page", sure(&[again, at_first, apart, busy])),
        }
    }

    fn picture(&self) -> Picture {
        let by_rank = |times: &[f64]| {
            let mut sorted = times.to_vec();
            sorted.sort_by(f64::total_cmp);
            let all = sorted.len() as f64;
            sorted.iter().enumerate().map(|(i, &time)| ((i as f64 + 0.5) / all, time)).collect::<Vec<_>>()
        };
        let empty = Picture::new(
            format!(
                "Writes of {} in several patterns, ascending: those that cost a merge stand out.",
                self.size
            ),
            Axis::linear("share of the writes", "ratio"),
            Axis::logarithmic("response time", "ns"),
        );
        self.runs.iter().fold(empty, |picture, (name, times)| picture.draw(name, Style::Line, by_rank(times)))
    }
}

/// Behind a buffer that keeps what it holds: what writes near each other cost that it cannot hold, and how many times
/// what another page costs the first one does when it is pushed out (1 where the budget is short). None where there is no budget for either.
fn pushed_out(
    session: &mut Session<'_, '_>,
    size: Bytes,
    buffer: Buffer,
) -> Result<Option<(f64, f64)>, Halt> {
    let held = buffer.most(session).round_up(size).max(size * 8);
    let count = (3 * held.0 / size.0).max(2 * WRITES);
    if size * count > session.writes_left() {
        return Ok(None);
    }
    let origin = place(session, 0.63, Bytes::mib(1));
    let near = apart(writes(Location::Permutation, size, count, origin, size * (2 * count)), size * 2);
    let near = pace(&session.run("near", &near)?, count / 2).max(1.0);
    if held * (2 * PUSHES + 2) > Bytes(session.writes_left().0 / 2) {
        return Ok(Some((near, 1.0)));
    }
    let spots = [Bytes::ZERO, place(session, 0.53, Bytes::mib(1)) + size * 3];
    let push = writes(Location::Sequential, size, held.0 / size.0 + 1, origin, held * 2);
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..PUSHES {
        for (spot, took) in spots.into_iter().zip(&mut took) {
            session.run("page", &writes(Location::Sequential, size, 1, spot, size))?;
            let samples = session.run("push-out", &push)?;
            took.push(samples.iter().map(|sample| sample.response().0 as f64).sum());
        }
    }
    let more = mann_whitney(&took[0], &took[1]).p_above <= PUSHED;
    let [first, other] = took.map(|took| median(&took));
    // What the page itself costs more, in writes near each other.
    Ok(Some((near, if more { 1.0 + (first - other).max(0.0) / near } else { 1.0 })))
}
