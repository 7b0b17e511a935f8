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
//! one die: addresses 24 MiB or a good part of it apart are on the same die, whatever the stripe (up to 16 dies, but for 5,
//! 7 and the like). What is owed by one pattern is not the next one's: between them the device rests.
//!
//! A write buffer answers before it is known what a write costs, and gives its time to a later one: behind one only the
//! mean counts, after as many writes as it holds. Only what is on one die is compared then: writes in sequence have all.
//!
//! A buffer that keeps what it holds takes one page again and again without any flash. Then more pages than it holds are
//! written instead, near each other, and the first page in turns with as much as pushes it out.
//!
//! Where anything costs so much that it may be a merge, the openings of logs are looked for ([`super::openings`]). They show that
//! blocks are merged; and whether all writes copy, as pages have to be in order, or those only that open a log.
//!
//! # Invariants
//! - nothing is sure from costs between the two levels, however sure the difference is;
//! - writes in sequence are taken after those anywhere, in the same state, so that a page map collects for both.

use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Location, Pattern};
use flashlab_samples::Sample;

use super::figures::{by_rank, median};
use super::map_cache::{MapCache, look_for_map_cache};
use super::openings::openings;
use super::patterns::responses;
use super::writes::{Buffer, apart, buffer, pace, place, unit, writes};
use crate::group::Group;
use crate::halt::Halt;
use crate::session::Session;

pub(crate) const GROUP: Group = Group {
    name: "translation",
    about: "single pages in sequence, again and again, and anywhere: which of them cost a merge",
    parameters: &[Parameter::TranslationFamily],
    supposes: &[],
    write_share: 0.06,
    probe,
};

/// Of the device this share may be written.
const SHARE: f64 = 0.12;
/// Writes that are looked at.
const WRITES: u64 = 64;
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
/// The dies that are assumed where they are not known.
const DIES: f64 = 4.0;
/// A page again and again that takes no more than so many times what it takes in sequence may be kept in a buffer, which
/// holds up to so many times as much as it takes at first without anybody's waiting: a part is for what is on its way.
const KEPT: f64 = 1.5;
const KEEPS: u64 = 3;
const DIES_MOST: f64 = 16.0;
/// No flash takes so long to write a page: slow cells take a few milliseconds, and links that are slow as many.
const NO_PAGE: f64 = 15e6;
/// How sure a page map is where it is not known from writes that what was written were whole pages: each may be a merge
/// of a small unit.
const UNKNOWN_PAGE: f64 = 0.9;
/// The family of which single pages of many blocks fill the logs.
const SHARED: &str = "shared log-block";
/// How sure shared logs are that were seen to be full.
const LOGS_SEEN: f64 = 0.93;
/// How sure the family is if openings of logs tell it, and the costs as well.
const TOLD: f64 = 0.85;
const TOLD_TWICE: f64 = 0.94;
const CLEAR: f64 = 0.9;
/// How often the first page and another one are pushed out of a buffer.
const PUSHES: u64 = 10;
/// p of a difference between them.
const PUSHED: f64 = 1e-3;
/// The longest that writes anywhere go on before they are looked at.
const LONGEST: Nanos = Nanos::from_secs(300);
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
    /// A buffer may have kept the one page.
    kept: bool,
    /// Dies that may make the difference between one place and all of them.
    dies: f64,
    runs: Vec<(&'static str, Vec<f64>)>,
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let parameter = Parameter::TranslationFamily;
    if let Some(logs) = session.supposed(Parameter::OpenBlocks) {
        // Pages of many blocks were merged before one write, again and again: no other family does so.
        let evidence = format!("{}, which all blocks share", logs.evidence);
        session.conclude(Finding::found(parameter, SHARED, LOGS_SEEN.min(logs.confidence + 0.03), evidence));
        return Ok(());
    }
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
    let (mut word, mut sure) = seen.word();
    if seen.may_merge()
        && word != SHARED
        && let Some(told) = openings(session)?
    {
        // Where pages have to be in order, all writes copy; else those only that open a log.
        let told_word = if told.contrast < MERGE { "block" } else { "log-block" };
        let clear = seen.unbuffered && sure >= CLEAR;
        (word, sure) = match word {
            "block" | "log-block" if clear || word == told_word => (word, sure.max(TOLD_TWICE)),
            // What collecting costs anywhere is no more than this, and not dear at one place nor at places far apart.
            "page" if seen.merges_somewhere() || seen.anywhere >= 2.0 * MERGING => (told_word, TOLD),
            _ => (word, sure),
        };
        // A page map opens no logs.
        if word != "page" {
            let finding = told.finding(session);
            session.suppose(finding);
        }
    }
    // What a buffer hides was not seen.
    let sure = sure.min(match (seen.unbuffered, seen.kept) {
        (true, _) => 1.0,
        (false, false) => 0.9,
        (false, true) => 0.7,
    });
    let page = session.inference().get(Parameter::WritePageSize);
    let whole = page.is_some_and(|page| page.number().is_some() && page.confidence >= 0.95);
    let finding = if word == "page" && seen.base >= NO_PAGE {
        let evidence = format!("{evidence}; but no page takes so long to write: each write may be a merge");
        Finding::undetermined(parameter, evidence)
    } else if word == "page" {
        let sure = if whole { sure } else { sure.min(UNKNOWN_PAGE) };
        let (cached, figures) = look_for_map_cache(session, seen.size)?;
        let evidence = format!("{evidence}; {figures}");
        match cached {
            MapCache::Found => Finding::found(parameter, "demand-cached page", sure, evidence),
            MapCache::None => Finding::found(parameter, "page", sure, evidence),
            MapCache::Unclear(word) => Finding::found(parameter, word, sure.min(0.6), evidence),
        }
    } else {
        Finding::found(parameter, word, sure, evidence)
    };
    session.conclude(finding.with(seen.picture()));
    Ok(())
}

/// The writes, and what they need.
struct Probing<'a, 'd, 's> {
    session: &'a mut Session<'d, 's>,
    size: Bytes,
    buffer: Buffer,
    /// Writes in a run.
    count: u64,
    /// Writes that fill a buffer, as far as is known.
    full: u64,
    /// What is so expensive costs a merge, whoever waits for it.
    merge: f64,
    runs: Vec<(&'static str, Vec<f64>)>,
}

impl Probing<'_, '_, '_> {
    /// What writes cost, one after the other, when the device has rested and then written as much as its buffer holds: the
    /// usual one without a buffer, and on average behind one. The pattern is of the writes from the `begin`-th on.
    /// Also the samples of the first run.
    fn cost(
        &mut self,
        name: &'static str,
        most: u64,
        pattern: impl Fn(u64) -> Pattern,
    ) -> Result<(f64, Vec<Sample>), Halt> {
        self.session.rest(REST)?;
        let (mut done, mut first, mut last) = (0, Vec::new(), f64::INFINITY);
        loop {
            let samples = self.session.run(name, &pattern(done))?;
            done += self.count;
            let times = responses(&samples);
            let cost = match self.buffer {
                Buffer::None => median(&times[times.len() / 4..]),
                _ => pace(&samples, self.count),
            };
            if first.is_empty() {
                first = samples;
            }
            // Two whole runs of merges are not waiting for a buffer to be full, and collecting does not last.
            let cost_of_both = cost.min(last);
            if done >= most || (cost_of_both >= self.merge && last.is_finite()) {
                self.runs.push((name, times));
                return Ok((cost_of_both, first));
            }
            last = cost;
        }
    }

    /// Writes one after the other at the one place.
    fn again(&mut self, name: &'static str, at: Bytes) -> Result<f64, Halt> {
        let (size, count) = (self.size, self.count);
        let pattern = move |_| writes(Location::Sequential, size, count, at, size);
        Ok(self.cost(name, self.full + count, pattern)?.0)
    }

    /// Writes in sequence from the share `part` of the device on.
    fn sequence(&mut self, part: f64) -> Result<f64, Halt> {
        let (size, count) = (self.size, self.count);
        let origin = place(self.session, part, Bytes::mib(1));
        let pattern =
            move |begin| writes(Location::Sequential, size, count, origin + size * begin, size * count);
        Ok(self.cost("in-sequence", self.full + count, pattern)?.0)
    }

    /// Places far apart, each page but once; and how many of the first ones nobody waited for.
    fn far_apart(&mut self) -> Result<(f64, u64), Halt> {
        let (size, count, capacity) = (self.size, self.count, self.session.capacity());
        let last = FAR[FAR.len() - 1];
        let distance = FAR.into_iter().find(|far| capacity.0 / far.0 >= PLACES).unwrap_or(last);
        let places = (capacity.0 / distance.0).saturating_sub(1).max(1);
        let incr = Location::Ordered { incr: (distance.0 / size.0).max(1) as i64 };
        // Each run goes round once or several times, from a page further on.
        let rounds = count.div_ceil(places);
        let pattern = move |begin: u64| {
            let offset = size * (3 + begin / count * rounds);
            writes(incr, size, count, offset, distance * places)
        };
        let (cost, first) = self.cost("far-apart", self.full + PUT_OFF + count, pattern)?;
        let times = responses(&first);
        let dear = |pair: &[f64]| pair.iter().all(|&time| time > cost / 2.0);
        let free = times.windows(2).position(dear).unwrap_or(times.len()) as u64;
        Ok((cost, free))
    }

    /// Writes anywhere with many in flight, relative to those in sequence.
    fn anywhere(&mut self) -> Result<f64, Halt> {
        let (size, depth) = (self.size, self.session.depth().min(DEPTH));
        let capacity = self.session.capacity().round_down(size);
        let most = affordable(self.session).0 / size.0 / 6;
        let late = LATE.min(most / 2);
        let most = self.full.max(OPENED).min(most - late) + late;
        let run = |session: &mut Session<'_, '_>, name, pattern: &dyn Fn(u64) -> Pattern| {
            let begin = session.time_left();
            let mut done = 0;
            loop {
                let samples = session.run(name, &Pattern { queue_depth: depth, ..pattern(done) })?;
                done += late;
                // Merges of seconds each need not be so many.
                if done >= most || begin.since(session.time_left()) > LONGEST {
                    return Ok::<_, Halt>(pace(&samples, late));
                }
            }
        };
        let anywhere = |_| writes(Location::Random, size, late, Bytes::ZERO, capacity);
        let anywhere = run(self.session, "anywhere-busy", &anywhere)?;
        // Right after it, so that a page map collects for both.
        let origin = place(self.session, 0.12, Bytes::mib(1));
        let sequence = |begin| writes(Location::Sequential, size, late, origin + size * begin, size * late);
        Ok(anywhere / run(self.session, "in-sequence-busy", &sequence)?)
    }

    /// Behind a buffer that may keep what it holds: what writes near each other cost that it cannot hold, and how many
    /// times what another page costs the first one does when it is pushed out (1 where the budget is short). None where
    /// there is no budget for either. `held` is the most that the buffer may hold.
    fn pushed_out(&mut self, held: Bytes) -> Result<Option<(f64, f64)>, Halt> {
        let size = self.size;
        let held = held.round_up(size).max(size * 16);
        let count = (2 * held.0 / size.0).max(WRITES);
        if size * (2 * count) > self.session.writes_left() {
            return Ok(None);
        }
        let origin = place(self.session, 0.63, Bytes::mib(1));
        let near = apart(writes(Location::Permutation, size, count, origin, size * (2 * count)), size * 2);
        let near = pace(&self.session.run("near", &near)?, count / 2);
        if held * (2 * PUSHES + 2) > Bytes(self.session.writes_left().0 / 3) {
            return Ok(Some((near, 1.0)));
        }
        let spots = [Bytes::ZERO, place(self.session, 0.53, Bytes::mib(1)) + size * 3];
        let push = writes(Location::Sequential, size, held.0 / size.0 + 1, origin, held * 2);
        let mut took = [Vec::new(), Vec::new()];
        for _ in 0..PUSHES {
            for (spot, took) in spots.into_iter().zip(&mut took) {
                self.session.run("page", &writes(Location::Sequential, size, 1, spot, size))?;
                let samples = self.session.run("push-out", &push)?;
                took.push(samples.iter().map(|sample| sample.response().0 as f64).sum());
            }
        }
        let more = mann_whitney(&took[0], &took[1]).p_above <= PUSHED;
        let [first, other] = took.map(|took| median(&took));
        // What the page itself costs more, in writes near each other.
        Ok(Some((near, if more { 1.0 + (first - other).max(0.0) / near } else { 1.0 })))
    }
}

/// What may be written: no more than the group's own share, which others left or not.
fn affordable(session: &Session<'_, '_>) -> Bytes {
    Bytes((session.capacity().0 as f64 * SHARE) as u64).min(session.writes_left())
}

impl Seen {
    /// Whether anything costs so much that it may be merges.
    fn may_merge(&self) -> bool {
        self.merges_somewhere() || self.first >= MERGE * self.dies || self.anywhere >= COLLECTING
    }

    /// Whether writes at one place, or at places far apart, cost as much as merges.
    fn merges_somewhere(&self) -> bool {
        self.in_place.max(self.apart) >= MERGE * self.dies
    }

    fn measure(session: &mut Session<'_, '_>) -> Result<Seen, Halt> {
        let (size, buffer) = (unit(session), buffer(session));
        let known_dies = session.known().number(Parameter::ParallelUnits);
        let dies = if buffer == Buffer::None { 1.0 } else { known_dies.unwrap_or(DIES).max(1.0) };
        let full = buffer.most(session).0 * 9 / 8 / size.0;
        let affordable = affordable(session).0 / size.0 / 24;
        let count = affordable.clamp(WRITES / 4, WRITES);
        let full = full.min(affordable.saturating_sub(count));
        let mut probing =
            Probing { session, size, buffer, count, full, merge: f64::INFINITY, runs: Vec::new() };
        let anywhere = probing.anywhere()?;
        let mut base = probing.sequence(0.31)?;
        if buffer != Buffer::None {
            // What large requests took in the end cannot be undercut for long.
            base = base.max(probing.session.fill_cost() * size.0 as f64);
        }
        probing.merge = 2.0 * MERGE * dies * base;
        let mut in_place = f64::INFINITY;
        for part in [0.53, 0.73] {
            let at = place(probing.session, part, Bytes::mib(1)) + size * 3;
            in_place = in_place.min(probing.again("one-page", at)?);
        }
        let mut first = probing.again("first-page", Bytes::ZERO)?;
        first = first.min(probing.again("first-page", Bytes::ZERO)?);
        let (mut apart, free) = probing.far_apart()?;
        // A buffer may keep the one page, which is then as cheap as can be.
        let kept = buffer != Buffer::None && in_place <= KEPT * dies * base;
        let held = buffer.most(probing.session).min(size * (KEEPS * (free + 4)));
        if kept && let Some((near, pushed)) = probing.pushed_out(held)? {
            (in_place, first) = (near, near * pushed.max(first / in_place));
            // Those near each other are on all dies.
            apart /= dies;
        }
        let runs = probing.runs;
        let (in_place, first, apart) = (in_place / base, first / base, apart / base);
        let unbuffered = buffer == Buffer::None;
        Ok(Seen { size, base, in_place, first, apart, anywhere, dies, unbuffered, kept, runs })
    }

    /// The family, a page map kept on the flash counting as a page map, and how sure it is.
    fn word(&self) -> (&'static str, f64) {
        let at_first = level(self.first / self.in_place.max(1e-9), CHEAP, MERGE);
        let apart = level(self.apart / self.in_place.max(1e-9), CHEAP, MERGE);
        let again = level(self.in_place, CHEAP * self.dies, MERGE * self.dies);
        let busy = level(self.anywhere, COLLECTING, MERGING);
        // What costs a merge at one place costs no less far apart, if no buffer hides it.
        let far = !level(self.in_place / self.apart.max(1e-9), CHEAP, MERGE).merges;
        let beyond_dies = self.unbuffered || self.in_place >= MERGE * DIES_MOST;
        let block = again.merges && far && (self.anywhere > MERGE || beyond_dies);
        // A buffer, or a device that gives a page that is written again a new block, makes one place cheap. Shared logs make
        // places far apart cheap as well.
        let block_but_again = at_first.merges && apart.merges && busy.merges;
        // Collecting on one die alone is dear as well, but not if it costs next to nothing on all of them.
        // Merges that are put off are done while other dies work, so that anywhere they may cost little.
        let log = apart.merges && (busy.merges || self.unbuffered && self.anywhere > CHEAP / 1.2);
        let everywhere = self.in_place >= 2.0 * MERGE && self.apart >= MERGE && busy.merges;
        let sure = |levels: &[Level]| if levels.iter().all(|level| level.clear) { 0.96 } else { 0.6 };
        match () {
            () if block_but_again && !block => ("block", 0.6),
            () if at_first.merges && !block => (SHARED, sure(&[again, at_first])),
            () if log => ("log-block", sure(&[again, at_first, apart, busy])),
            () if block && !busy.merges => ("block", 0.6),
            // Merges that are put off make places far apart cheaper than one place, but not cheap.
            () if everywhere => ("block", 0.6),
            () if block => ("block", sure(&[again, apart, busy])),
            () if busy.merges && self.anywhere >= 2.0 * MERGING && self.apart >= 2.0 * self.in_place => {
                ("log-block", 0.5)
            }
            () if busy.merges && again.merges => ("block", 0.5),
            () if busy.merges => ("page", 0.5),
            () => ("page", sure(&[again, at_first, apart, busy])),
        }
    }

    fn picture(&self) -> Picture {
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
