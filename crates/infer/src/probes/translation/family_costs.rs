//! What single pages cost in the patterns by which the families of translation layers differ ([`crate::probes::translation`]).
//!
//! # Model
//! Without a write buffer the median shows what the usual write costs. Behind one only the pace does, after as many writes as it
//! holds; what is then compared with writes in sequence, which keep all dies busy, is on one die. A buffer that
//! keeps what it holds is shown more pages near each other than it can keep, repeatedly: at first logs are opened for them.
//!
//! # Invariants
//! - what is deferred by one pattern is not the next one's: between them the device is idle;
//! - writes in sequence are taken after those anywhere, in the same state, so that a page map collects for both.

use crate::priors;
use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos, Sample};
use flashlab_plan::{Location, Pattern};

use crate::halt::Halt;
use crate::patterns::responses;
use crate::patterns::writes::{Buffer, apart, buffer, pace, pace_of_groups, page_to_write, place, writes};
use crate::session::Session;

/// Of the device this share may be written.
const SHARE: f64 = 0.12;
/// Writes that are looked at.
const WRITES: u64 = 64;
/// More than a device has log blocks, and this number of the writes after them is looked at.
const OPENED: u64 = 1024;
const LATE: u64 = 256;
/// IOs in flight that keep all dies busy.
const DEPTH: u32 = 32;
/// How far apart places are, where there are enough of them: more than a die has log blocks.
const FAR: [Bytes; 5] = [Bytes::mib(24), Bytes::mib(12), Bytes::mib(6), Bytes::mib(3), Bytes::kib(1536)];
const PLACES: u64 = 32;
/// A page repeatedly that takes no more than this many times what it takes in sequence may be kept in a buffer, which
/// holds up to this many times as much as it takes at first without anybody's waiting: a part is for what is on its way.
const KEPT: f64 = 1.5;
const KEEPS: u64 = 3;
/// A page on one die takes so large a part at least of what it takes in sequence by as many dies.
const ON_ONE_DIE: f64 = 0.7;
/// A page that takes less than so large a part of what large requests took for as much is in a buffer, or in SLC cells.
const HIDDEN: f64 = 0.5;
/// The fewest pages near each other that no buffer keeps.
const NEAR_LEAST: u64 = 12;
/// How often the first page and another one are pushed out of a buffer.
const PUSHES: u64 = 10;
/// p of a difference between them.
const PUSHED: f64 = 1e-3;
/// The longest that writes anywhere go on before they are looked at.
const LONGEST: Nanos = Nanos::from_secs(300);
/// And the part of the probe's time.
const PART_OF_TIME: u64 = 8;

/// What was measured, relative to writes in sequence.
pub(super) struct FamilyCosts {
    pub size: Bytes,
    pub base: f64,
    /// One page repeatedly; the faster of two.
    pub in_place: f64,
    /// The device's first page repeatedly.
    pub first: f64,
    /// Anywhere with many in flight, relative to those in sequence in the same way.
    pub anywhere: f64,
    /// Far apart on one die.
    pub apart: f64,
    /// Nothing of it is behind a write buffer.
    pub unbuffered: bool,
    /// SLC cells took them.
    pub fast: bool,
    /// A buffer may have kept the one page.
    pub kept: bool,
    /// There was no budget for as many writes as are usual.
    pub few: bool,
    /// Dies that may make the difference between one place and all of them.
    pub dies: f64,
    runs: Vec<(&'static str, Vec<f64>)>,
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
        self.session.idle(priors::WRITES_DONE)?;
        let (mut done, mut first, mut last) = (0, Vec::new(), f64::INFINITY);
        loop {
            let samples = self.session.run(name, &pattern(done))?;
            done += self.count;
            let times = responses(&samples);
            let cost = match self.buffer {
                Buffer::None => upper_median(&times[times.len() / 4..]),
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

    /// The same at these shares of the device, the cheaper one, and at no page that begins a block.
    fn again_at(&mut self, parts: [f64; 2]) -> Result<f64, Halt> {
        let mut least = f64::INFINITY;
        for part in parts {
            let at = place(self.session, part, Bytes::mib(1)) + self.size * 3;
            least = least.min(self.again("one-page", at)?);
        }
        Ok(least)
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
        let (cost, first) =
            self.cost("far-apart", self.full + 2 * priors::MERGES_DEFERRED + count, pattern)?;
        let times = responses(&first);
        let expensive = |pair: &[f64]| pair.iter().all(|&time| time > cost / 2.0);
        let free = times.windows(2).position(expensive).unwrap_or(times.len()) as u64;
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
            let longest = Nanos(begin.0 / PART_OF_TIME).min(LONGEST);
            let mut done = 0;
            loop {
                let samples = session.run(name, &Pattern { queue_depth: depth, ..pattern(done) })?;
                done += late;
                // Of merges of seconds each fewer are enough.
                if done >= most || begin.since(session.time_left()) > longest {
                    let together = if session.looks_through() { depth } else { 1 };
                    return Ok::<_, Halt>(pace_of_groups(&samples, late, together));
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
        let (size, held) = (self.size, held.round_up(self.size));
        // Every other page of the beginning of the device, where a block begins, as few as the buffer cannot keep.
        let pages = (held.0 / size.0 * 3 / 2).max(NEAR_LEAST);
        // At first logs are opened, which the host waits for as many writes later as the buffer holds.
        let rounds = 3 + WRITES.div_ceil(pages);
        if size * (pages * rounds) > self.session.writes_left()
            || size * (4 * pages) > self.session.capacity()
        {
            return Ok(None);
        }
        // No page that begins a block of its die.
        let begin = self.session.known().bytes(Parameter::StripeSize).unwrap_or(size).round_up(size);
        let near = writes(Location::Permutation, size, pages * rounds, begin, size * (2 * pages));
        let near = pace(&self.session.run("near", &apart(near, size * 2))?, WRITES);
        let origin = place(self.session, 0.63, Bytes::mib(1));
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
                took.push(responses(&samples).iter().sum());
            }
        }
        let more = mann_whitney(&took[0], &took[1]).p_above <= PUSHED;
        let [first, other] = took.map(|took| upper_median(&took));
        // What the page itself costs more, in writes near each other.
        Ok(Some((near, if more { 1.0 + (first - other).max(0.0) / near } else { 1.0 })))
    }
}

/// Whether a page takes less in sequence than large requests in the end, which nothing undercuts for long: then a buffer takes it, though none
/// was found, or SLC cells.
fn undercuts(session: &Session<'_, '_>, size: Bytes, base: f64) -> bool {
    base < HIDDEN * session.fill_nanos_per_byte() * size.0 as f64
}

/// What may be written: no more than the group's own share, which others left or not.
fn affordable(session: &Session<'_, '_>) -> Bytes {
    Bytes((session.capacity().0 as f64 * SHARE) as u64).min(session.writes_left())
}

impl FamilyCosts {
    /// Measures all of it.
    pub(super) fn measure(session: &mut Session<'_, '_>) -> Result<FamilyCosts, Halt> {
        let (size, buffer) = (page_to_write(session), buffer(session));
        let known_dies = session.known().number(Parameter::ParallelUnits);
        let dies =
            if buffer == Buffer::None { 1.0 } else { known_dies.unwrap_or(priors::DIES_UNKNOWN).max(1.0) };
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
            base = base.max(probing.session.fill_nanos_per_byte() * size.0 as f64);
        }
        probing.merge = 2.0 * priors::MERGE_RATIO * dies * base;
        let mut in_place = probing.again_at([0.53, 0.73])?;
        let mut first = probing.again("first-page", Bytes::ZERO)?;
        first = first.min(probing.again("first-page", Bytes::ZERO)?);
        let (mut apart, free) = probing.far_apart()?;
        // A buffer may keep the one page, which is then as fast as can be.
        // One that lets whole pages pass shows what they take on one die; what is less was kept.
        let passes = probing.session.known().word(Parameter::WriteBufferFlush) == Some("immediately")
            && in_place >= ON_ONE_DIE * dies * base;
        let kept = buffer != Buffer::None && !passes && in_place <= KEPT * dies * base;
        let unknown = |held: Bytes| {
            if buffer == Buffer::Unknown { held.min(size * (KEEPS * (free + 4))) } else { held }
        };
        let held = unknown(buffer.most(probing.session));
        if kept && let Some((near, pushed)) = probing.pushed_out(held)? {
            (in_place, first) = (near, near * pushed.max(first / in_place));
            // Those near each other are on all dies.
            apart /= dies;
        }
        let runs = probing.runs;
        let (in_place, first, apart) = (in_place / base, first / base, apart / base);
        let undercut = undercuts(probing.session, size, base);
        let fast = undercut && probing.session.known().has_slc_cache();
        let hidden = undercut && !fast;
        let (unbuffered, few) = (buffer == Buffer::None && !hidden, count < WRITES);
        let kept = kept || hidden;
        Ok(FamilyCosts {
            size,
            base,
            in_place,
            first,
            apart,
            anywhere,
            dies,
            unbuffered,
            fast,
            kept,
            few,
            runs,
        })
    }

    pub(super) fn picture(&self) -> Picture {
        let picture = Picture::new(
            format!(
                "Writes of {} in several patterns, one after the other: writes that cost a merge take far longer than sequential \
                 ones.",
                self.size
            ),
            Axis::linear("write", ""),
            Axis::logarithmic("response time", "ns"),
        );
        // A pattern that was run twice is one.
        let mut patterns: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
        let mut at = 0.0;
        for (name, times) in &self.runs {
            let points = times.iter().zip(0..).map(|(&time, index)| (at + f64::from(index), time));
            match patterns.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => known.extend(points),
                None => patterns.push((name, points.collect())),
            }
            at += times.len() as f64;
        }
        let patterns = patterns.into_iter().map(|(name, points)| (in_words(name), points));
        patterns.fold(picture, |picture, (name, points)| picture.draw(name, Style::Dots, points))
    }
}

/// A pattern's name in legends.
fn in_words(pattern: &str) -> &str {
    match pattern {
        "in-sequence" => "in sequence",
        "one-page" => "one page repeatedly",
        "first-page" => "the device's first page repeatedly",
        "far-apart" => "different blocks of one die",
        other => other,
    }
}
