//! The family of the translation layer: which writes it likes.
//!
//! # Model
//! Writes of one page, in five patterns. With `1` for what they cost in sequence and `M` for a merge, which copies a
//! block and costs tens to hundreds of times as much as a page:
//!
//! | family | anywhere, usual | anywhere, mean | within a few pages |
//! | --- | --- | --- | --- |
//! | block (writes that continue a block only) | M | M | M |
//! | log-block (logs of one block each) | M | M | 1 |
//! | shared log-block | 1 | M: a log that makes room merges a block for each of its pages | 1 |
//! | page | 1 | up to about 10: what collecting costs (write amplification) | 1 |
//!
//! Shared logs are expensive only when they are full, which takes as much as they hold: more than can be written to find
//! out. But a write to the beginning of a block goes to a log block of its own, in the hope that the block's other
//! pages follow (FAST, Lee et al., ACM TECS 6(3), 2007, section 4), and what was there is merged with the rest of its
//! block. So the device's first page, which begins a block for sure, costs a merge each time it is written again.
//!
//! Writes in sequence are taken after those anywhere, in the same state, so that a page map collects for both.
//! A page map that is kept on the flash (DFTL, Gupta et al., ASPLOS 2009) has to look up addresses that were not
//! used lately: reads and writes of the same few addresses are cheaper than of fresh ones, wherever these are. Buffers
//! do that as well, but one kind of IO each.
//!
//! # Invariants
//! - nothing is concluded from costs between the two levels, however sure the difference is;
//! - what is compared alternates.

use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::{Location, Pattern};

use super::patterns::ios;
use super::writes::{apart, mean, median, place, quantile, times, unit, writes};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "translation",
    about: "single pages in sequence, anywhere, within a few pages and at a few places: which of them cost a merge",
    parameters: &[Parameter::TranslationFamily],
    write_share: 0.05,
    probe,
};

/// Writes of a turn, and the most writes anywhere.
const TURN: u64 = 64;
const ANYWHERE_MOST: u64 = 1 << 14;
/// Pages that a log block holds for sure.
const FEW_PAGES: u64 = 12;
/// Addresses that any map in memory holds.
const HOT: u64 = 32;
/// Up to so many times the cost in sequence a write is as cheap, and from so many times on it costs a merge: a block
/// has 16 pages at least, each of which is read and written.
const CHEAP: f64 = 4.0;
const MERGE: f64 = 8.0;
/// Means: up to here it is collecting pages, from here on merging blocks for each page.
const COLLECTING: f64 = 16.0;
const MERGING: f64 = 24.0;
/// From so many times the usual cost on a write stalled: outliers are below.
const STALL: f64 = 20.0;
/// A block at a time is collected: among stalls the long ones are up to so many times the usual ones. A log that makes
/// room merges one block or hundreds.
const ALIKE: f64 = 8.0;
/// So many stalls, or so many writes, tell that there is no other kind of stall.
const STALLS_MIN: usize = 12;
const WRITES_MIN: usize = 8192;
/// Turns after each other without writes in sequence.
const SPARSE: u64 = 4;
/// The longest that all of them may take: writes that merge hundreds of blocks each need not be many.
const LONGEST: Nanos = Nanos::from_secs(120);
/// How long the device rests before it is seen whether a buffer takes what is written near.
const REST: Nanos = Nanos::from_secs(2);
/// p of a difference between hot and cold, and its least size.
const P: f64 = 1e-6;
/// What looking for that difference writes, in pages.
const LOOK_UP_WRITES: u64 = WRITE_TURNS * 6 * HOT + TURN;
const READ_TURNS: u64 = 8;
const WRITE_TURNS: u64 = 2;
const LOOK_UP: f64 = 1.04;

/// Response times in nanoseconds by pattern.
struct Seen {
    size: Bytes,
    sequence: Vec<f64>,
    anywhere: Vec<f64>,
    near: Vec<f64>,
    /// The mean cost of each run in sequence.
    runs: Vec<f64>,
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let seen = measure(session)?;
    let (usual, near) = (median(&seen.anywhere) / seen.base(), median(&seen.near) / seen.base());
    let evidence = format!(
        "writes of {} take {} in sequence, {:.1} times that anywhere (on average {:.1} times the average), \
         and {:.1} times within a few pages",
        seen.size,
        Nanos(seen.base() as u64),
        usual,
        seen.mean_ratio(),
        near
    );
    let picture = seen.picture();
    // Runs that are not far longer than a write buffer show the buffer.
    let buffer = session.known().bytes(Parameter::WriteBufferSize);
    let unbuffered = buffer.is_some_and(|buffer| buffer * 4 <= seen.size * TURN);
    let finding = match seen.word() {
        Some(("log-block", _)) if is_buffered(session, &seen)? => {
            let evidence = format!(
                "{evidence}; but as many anywhere are as cheap after a rest: it may be a write buffer"
            );
            Finding::found(Parameter::TranslationFamily, "log-block", 0.6, evidence)
        }
        Some((word @ ("block" | "log-block" | "shared log-block"), _)) if !unbuffered => {
            let evidence = format!("{evidence}; a write buffer may hide which writes pay");
            Finding::found(Parameter::TranslationFamily, word, 0.8, evidence)
        }
        Some((word @ ("block" | "log-block" | "shared log-block"), confidence)) => {
            Finding::found(Parameter::TranslationFamily, word, confidence, evidence)
        }
        Some((_, confidence)) => {
            let at_start = start_cost(session, seen.size)? / seen.base();
            let evidence =
                format!("{evidence}; the device's first page costs {at_start:.1} times that again and again");
            if at_start >= MERGE {
                let confidence = if unbuffered { 0.96 } else { 0.8 };
                Finding::found(Parameter::TranslationFamily, "shared log-block", confidence, evidence)
            } else if at_start > CHEAP {
                Finding::undetermined(Parameter::TranslationFamily, evidence)
            } else {
                let most = if unbuffered { 0.97 } else { 0.85 };
                demand_cached(session, seen.size, confidence.min(most), &evidence)?
            }
        }
        None => Finding::undetermined(Parameter::TranslationFamily, evidence),
    };
    session.conclude(finding.with(picture));
    Ok(())
}

/// The patterns in turns.
fn measure(session: &mut Session<'_, '_>) -> Result<Seen, Halt> {
    let size = unit(session);
    let capacity = session.capacity().round_down(size);
    let pages = Bytes(FEW_PAGES * size.0);
    let mut seen =
        Seen { size, sequence: Vec::new(), anywhere: Vec::new(), near: Vec::new(), runs: Vec::new() };
    let begin = session.time_left();
    for turn in 0.. {
        let target = size * TURN;
        let origin = place(session, 0.31, Bytes::mib(1)) + target * (seen.runs.len() as u64 % 64);
        let anywhere = writes(Location::Random, size, TURN, Bytes::ZERO, capacity);
        seen.anywhere.extend(late(&times(session, "anywhere", &anywhere)?));
        if turn < 3 || turn % SPARSE == 0 {
            let sequence = writes(Location::Sequential, size, TURN, origin, target);
            let costs = times(session, "in-sequence", &sequence)?;
            seen.runs.push(mean(late(&costs)));
            seen.sequence.extend(late(&costs));
        }
        if turn < 3 {
            let spot = place(session, 0.53 + 0.1 * turn as f64, Bytes::mib(1)) + size * 2;
            let near = writes(Location::Random, size, TURN, spot, pages);
            seen.near.extend(late(&times(session, "near", &near)?));
        }
        let used = begin.since(session.time_left());
        let spent = used > Nanos(begin.0 / 3).min(LONGEST)
            || session.writes_left() < size * (3 * TURN + LOOK_UP_WRITES);
        let is_clear = seen.word().is_some_and(|(_, confidence)| confidence >= 0.95);
        if turn >= 2 && (is_clear || spent || turn * TURN > ANYWHERE_MOST) {
            return Ok(seen);
        }
    }
    Ok(seen)
}

/// Whether as many writes as lie near each other are cheap anywhere as well when the device has rested.
fn is_buffered(session: &mut Session<'_, '_>, seen: &Seen) -> Result<bool, Halt> {
    let capacity = session.capacity().round_down(seen.size);
    let burst = writes(Location::Random, seen.size, FEW_PAGES, Bytes::ZERO, capacity);
    let mut costs = Vec::new();
    for _ in 0..2 {
        session.rest(REST)?;
        costs.extend(times(session, "burst-after-rest", &burst)?);
    }
    Ok(median(&costs) < MERGE * seen.base())
}

/// What writing the device's first page again and again costs.
fn start_cost(session: &mut Session<'_, '_>, size: Bytes) -> Result<f64, Halt> {
    let pattern = writes(Location::Sequential, size, TURN, Bytes::ZERO, size);
    Ok(median(late(&times(session, "first-page", &pattern)?)))
}

/// A run without its beginning, where buffers hide what it costs and the last pattern is cleared away.
fn late(times: &[f64]) -> &[f64] {
    &times[times.len() / 4..]
}

impl Seen {
    /// The usual cost in sequence.
    fn base(&self) -> f64 {
        median(&self.sequence).max(1.0)
    }

    /// What writes anywhere cost on average, relative to those runs in sequence in which the device had not much else to do.
    fn mean_ratio(&self) -> f64 {
        mean(&self.anywhere) / quantile(&self.runs, 0.25).max(self.base())
    }

    /// The family, a page map kept on the flash counting as a page map, and how sure it is.
    fn word(&self) -> Option<(&'static str, f64)> {
        let (usual, near) = (median(&self.anywhere) / self.base(), median(&self.near) / self.base());
        let stalls: Vec<f64> =
            self.anywhere.iter().copied().filter(|&time| time > STALL * self.base()).collect();
        let alike = quantile(&stalls, 0.9) <= ALIKE * median(&stalls);
        let enough = stalls.len() >= STALLS_MIN;
        let mean_ratio = self.mean_ratio();
        if mean_ratio > COLLECTING && mean_ratio < MERGING {
            None
        } else if mean_ratio <= COLLECTING {
            let sure =
                alike && usual <= CHEAP && near <= CHEAP && (enough || self.anywhere.len() >= WRITES_MIN);
            (usual <= MERGE && near <= MERGE).then_some(("page", if sure { 0.97 } else { 0.8 }))
        } else if usual >= MERGE && near >= MERGE {
            Some(("block", 0.97))
        } else if usual >= MERGE && near <= CHEAP {
            Some(("log-block", 0.97))
        } else if usual > CHEAP || near > CHEAP {
            None
        } else {
            Some(("shared log-block", if enough { 0.97 } else { 0.8 }))
        }
    }

    fn picture(&self) -> Picture {
        let by_rank = |times: &[f64]| {
            let mut sorted = times.to_vec();
            sorted.sort_by(f64::total_cmp);
            let stride = sorted.len().div_ceil(1024).max(1);
            let all = sorted.len() as f64;
            let point = |(i, &time): (usize, &f64)| ((i as f64 + 0.5) / all, time);
            sorted.iter().enumerate().rev().step_by(stride).map(point).collect::<Vec<_>>()
        };
        Picture::new(
            format!(
                "Writes of {} in three patterns, ascending: those that cost a merge stand out.",
                self.size
            ),
            Axis::linear("share of the writes", "ratio"),
            Axis::logarithmic("response time", "ns"),
        )
        .draw("in sequence", Style::Line, by_rank(&self.sequence))
        .draw("anywhere", Style::Line, by_rank(&self.anywhere))
        .draw("within a few pages", Style::Line, by_rank(&self.near))
    }
}

/// Which of the page maps: reads and writes of a few places, and of fresh ones.
fn demand_cached(
    session: &mut Session<'_, '_>,
    size: Bytes,
    confidence: f64,
    evidence: &str,
) -> Result<Finding, Halt> {
    let capacity = session.capacity().round_down(size);
    let slot = Bytes(capacity.0 / HOT).round_down(size);
    let hot = |mode| few_places(mode, size, slot, capacity);
    let cold = |mode| ios(mode, Location::Random, size, 3 * HOT).on_target(Bytes::ZERO, capacity);
    let mut more = Vec::new();
    let mut compared = Vec::new();
    for (name, mode, turns) in [("read", Mode::Read, READ_TURNS), ("write", Mode::Write, WRITE_TURNS)] {
        let (mut of_hot, mut of_cold) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            // The first pass brings the places to mind.
            let seen = times(session, &format!("{name}-few-places"), &hot(mode))?;
            of_hot.extend_from_slice(&seen[HOT as usize..]);
            of_cold.extend(times(session, &format!("{name}-anywhere"), &cold(mode))?);
        }
        let ranks = mann_whitney(&of_cold, &of_hot);
        let ratio = median(&of_cold) / median(&of_hot).max(1.0);
        more.push(ranks.p_above <= P && ratio >= LOOK_UP);
        compared.push(format!("{name} {ratio:.2}"));
    }
    let evidence = format!(
        "{evidence}; fresh addresses cost more than {HOT} that were used just before: {} times",
        compared.join(", ")
    );
    let parameter = Parameter::TranslationFamily;
    Ok(match more[..] {
        [true, true] => Finding::found(parameter, "demand-cached page", confidence, evidence),
        [false, false] => Finding::found(parameter, "page", confidence, evidence),
        _ => Finding::undetermined(parameter, format!("{evidence}; one of them may be a buffer")),
    })
}

/// A few places all over the device, three times each.
fn few_places(mode: Mode, size: Bytes, slot: Bytes, capacity: Bytes) -> Pattern {
    apart(ios(mode, Location::Permutation, size, 3 * HOT).on_target(Bytes::ZERO, capacity), slot)
}
