//! Measures what single pages cost in the patterns that distinguish families of translation layers
//! ([`crate::probes::translation`]).
//!
//! # Model
//! Without a write buffer, the median is the cost of the usual write. Behind a write buffer, only the pace shows the
//! cost, once the buffer is full. Sequential writes keep all dies busy: behind a write buffer, patterns on one die
//! are compared with them times the dies.
//!
//! # Method
//! 1. Random writes with many in flight, and then sequential ones in the same state, so that a page map collects
//!    garbage for both.
//! 2. Sequential writes, one page repeatedly, the device's first page repeatedly, and different regions of one die,
//!    one write at a time.
//! 3. If a write buffer may keep one page: more pages in one region than it holds, repeatedly. The first rounds
//!    allocate log blocks and do not count.
//!
//! # Invariants
//! - Between two patterns the device is idle, so that none pays for what another one deferred.

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
use crate::thresholds;

/// The share of the device that the patterns may write. Unit: share. Source: choice. Too high: later probes
/// cannot write; too low: log blocks are not full.
const WRITE_SHARE: f64 = 0.12;
/// The writes of each pattern that count. Unit: writes. Source: choice. Too many: the budget is used up; too
/// few: outliers decide.
const WRITES: u64 = 64;
/// The random writes before those that count: more than a device has log blocks. Unit: writes. Source: tuned.
/// Too many: the budget is used up; too few: log blocks hide the merges.
const LOGS_FULL: u64 = 1024;
/// The random writes that count. Unit: writes. Source: choice. Too many: the budget is used up; too few: one
/// collection decides.
const RANDOM_WRITES: u64 = 256;
/// The IOs in flight that keep all dies busy. Unit: IOs in flight. Source: choice: twice
/// [`priors::DIES_USUAL`]. Too high: writes wait in the host; too low: dies are idle.
const DEPTH: u32 = 32;
/// The distances between the offsets of one die, the first that gives enough of them: whole numbers of usual
/// stripes. Source: derivation: 24 MiB is 3 x 2^23, a multiple of stripes up to 16 dies but for 5, 7 and the
/// like. Too large: few offsets fit; too small: offsets lie on different dies.
const REGION_DISTANCES: [Bytes; 5] =
    [Bytes::mib(24), Bytes::mib(12), Bytes::mib(6), Bytes::mib(3), Bytes::kib(1536)];
/// The fewest offsets at that distance: more than a die has log blocks. Unit: offsets. Source: tuned. Too
/// many: the distance is small; too few: log blocks hold all of them.
const REGIONS: u64 = 32;
/// A page may be kept in a buffer if rewriting it takes at most this many times what it takes in sequence.
/// Unit: ratio. Source: tuned. Too high: usual pages count as kept; too low: kept pages count as fast ones.
const KEPT_RATIO: f64 = 1.5;
/// A buffer of unknown size holds at most this many times what it takes before a write waits. Unit: ratio.
/// Source: tuned. Too high: more pages are written than necessary; too low: the buffer hides the cost.
const BUFFER_MULTIPLE: u64 = 3;
/// A page on one die takes at least this share of the dies times what it takes in sequence. Unit: share.
/// Source: tuned. Too high: pages that pass the buffer count as kept; too low: kept pages count as passing.
const ONE_DIE_SHARE: f64 = 0.7;
/// A page that takes less than this share of what filling the device took is in a buffer or an SLC cache.
/// Unit: share. Source: tuned. Too high: fast devices count as buffered; too low: a buffer hides the cost.
const HIDDEN_SHARE: f64 = 0.5;
/// The fewest pages that are rewritten in one region and that no buffer keeps. Unit: pages. Source: tuned.
/// Too many: the budget is used up; too few: a small buffer keeps them.
const REWRITES_LEAST: u64 = 12;
/// How often the first page and another one are evicted from the buffer. Unit: times. Source: choice. Too
/// many: the budget is used up; too few: rank tests show nothing.
const EVICTIONS: u64 = 10;
/// The longest that random writes take before their cost is computed. Source: choice. Too long: slow devices
/// take hours; too short: log blocks hide the merges.
const RANDOM_TIME_MOST: Nanos = Nanos::from_secs(300);
/// The same as a part of the probe's time. Unit: part. Source: choice. Too small: other patterns have no
/// time; too large: log blocks hide the merges.
const RANDOM_TIME_PART: u64 = 8;

/// What was measured, relative to writes in sequence.
pub(super) struct FamilyCosts {
    pub size: Bytes,
    pub base: f64,
    /// One page repeatedly; the faster of two.
    pub in_place: f64,
    /// The device's first page repeatedly.
    pub first: f64,
    /// Random writes with many in flight, relative to sequential ones with as many.
    pub random: f64,
    /// Different regions of one die.
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
    /// The cost of writes one after the other, after idle time and as many writes as the buffer holds.
    /// Without a buffer it is the median, behind one the pace. `pattern` gives the writes from the
    /// `begin`-th on. Also returns the samples of the first run.
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

    /// Writes in different regions of one die, each page once. Also how many of the first ones waited for nothing.
    fn far_apart(&mut self) -> Result<(f64, u64), Halt> {
        let (size, count, capacity) = (self.size, self.count, self.session.capacity());
        let last = REGION_DISTANCES[REGION_DISTANCES.len() - 1];
        let distance = REGION_DISTANCES.into_iter().find(|far| capacity.0 / far.0 >= REGIONS).unwrap_or(last);
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
        let is_slow = |pair: &[f64]| pair.iter().all(|&time| time > cost / 2.0);
        let free = times.windows(2).position(is_slow).unwrap_or(times.len()) as u64;
        Ok((cost, free))
    }

    /// Random writes with many in flight, relative to sequential ones.
    fn random(&mut self) -> Result<f64, Halt> {
        let (size, depth) = (self.size, self.session.depth().min(DEPTH));
        let capacity = self.session.capacity().round_down(size);
        let most = affordable(self.session).0 / size.0 / 6;
        let late = RANDOM_WRITES.min(most / 2);
        let most = self.full.max(LOGS_FULL).min(most - late) + late;
        let run = |session: &mut Session<'_, '_>, name, pattern: &dyn Fn(u64) -> Pattern| {
            let begin = session.time_left();
            let longest = Nanos(begin.0 / RANDOM_TIME_PART).min(RANDOM_TIME_MOST);
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
        let random = |_| writes(Location::Random, size, late, Bytes::ZERO, capacity);
        let random = run(self.session, "anywhere-busy", &random)?;
        // Right after it, so that a page map collects for both.
        let origin = place(self.session, 0.12, Bytes::mib(1));
        let sequence = |begin| writes(Location::Sequential, size, late, origin + size * begin, size * late);
        Ok(random / run(self.session, "in-sequence-busy", &sequence)?)
    }

    /// Behind a buffer that may keep one page: the cost of writes in one region that it cannot keep. Also
    /// the cost of the first page when it is evicted, relative to another page (1 if the budget is too
    /// small). None without a budget for either. The buffer holds at most `buffered_bytes`.
    fn pushed_out(&mut self, buffered_bytes: Bytes) -> Result<Option<(f64, f64)>, Halt> {
        let (size, buffered_bytes) = (self.size, buffered_bytes.round_up(self.size));
        // Every other page of the beginning of the device, where a block begins, as few as the buffer cannot keep.
        let pages = (buffered_bytes.0 / size.0 * 3 / 2).max(REWRITES_LEAST);
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
        if buffered_bytes * (2 * EVICTIONS + 2) > Bytes(self.session.writes_left().0 / 3) {
            return Ok(Some((near, 1.0)));
        }
        let spots = [Bytes::ZERO, place(self.session, 0.53, Bytes::mib(1)) + size * 3];
        let push =
            writes(Location::Sequential, size, buffered_bytes.0 / size.0 + 1, origin, buffered_bytes * 2);
        let mut took = [Vec::new(), Vec::new()];
        for _ in 0..EVICTIONS {
            for (spot, took) in spots.into_iter().zip(&mut took) {
                self.session.run("page", &writes(Location::Sequential, size, 1, spot, size))?;
                let samples = self.session.run("push-out", &push)?;
                took.push(responses(&samples).iter().sum());
            }
        }
        let more = mann_whitney(&took[0], &took[1]).p_above <= thresholds::FALSE_ALARM_WITH_EFFECT;
        let [first, other] = took.map(|took| upper_median(&took));
        // What the page itself costs more, in writes near each other.
        Ok(Some((near, if more { 1.0 + (first - other).max(0.0) / near } else { 1.0 })))
    }
}

/// Whether a page takes less in sequence than large requests did at the end of the fill. No write does so for
/// long: an unseen buffer takes it, or an SLC cache.
fn undercuts(session: &Session<'_, '_>, size: Bytes, base: f64) -> bool {
    base < HIDDEN_SHARE * session.fill_nanos_per_byte() * size.0 as f64
}

/// What may be written: at most the probe's own share, even if earlier probes left more.
fn affordable(session: &Session<'_, '_>) -> Bytes {
    Bytes((session.capacity().0 as f64 * WRITE_SHARE) as u64).min(session.writes_left())
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
        let random = probing.random()?;
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
            && in_place >= ONE_DIE_SHARE * dies * base;
        let kept = buffer != Buffer::None && !passes && in_place <= KEPT_RATIO * dies * base;
        let unknown = |buffered_bytes: Bytes| {
            if buffer == Buffer::Unknown {
                buffered_bytes.min(size * (BUFFER_MULTIPLE * (free + 4)))
            } else {
                buffered_bytes
            }
        };
        let buffered_bytes = unknown(buffer.most(probing.session));
        if kept && let Some((near, pushed)) = probing.pushed_out(buffered_bytes)? {
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
            random,
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
