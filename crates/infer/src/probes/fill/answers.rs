//! The answers of the fill: whether there is an SLC cache, how much it holds, and how much idle time frees.

use crate::priors;
use crate::signals::pictures::{over_bytes, slowest};
use crate::signals::statistics::{mean, windows};
use crate::signals::steps::CostRise;
use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};

use super::fold_rate::WRITES_OF_A_WINDOW;
use super::refill::{DISTANCES_LEAST, Full, Refill, first_spike};
use crate::answers::slc_cache::{REGION, no_region};
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;

/// A smaller rise is no end of a SLC cache, and no faster beginning.
pub(super) const RISE_LEAST: f64 = 1.1;
/// What is made free, if it is more than this part, is all: the block that is open stays, and a cache of fifteen blocks or more counts as
/// reclaimed wholly. Higher: smaller caches only; lower: one of which a block in ten stays seems to be reclaimed wholly.
const WHOLE: f64 = 0.93;
/// Windows in which a faster beginning would be seen: fewer writes do not show that there is no region. And the p from which there may be one.
const EVEN_WINDOWS: usize = 128;
/// The rule that what a region moves at a time are the blocks of all dies.
const MOVED: Rule = Rule::likely("SLC relocation");
/// The rules of a region, and of a rise that does not come down.
const FOUND: Rule = Rule::likely("rise and idle time");
/// What limits the rule of a cache that folds at the host's pace.
const FALLS: Rule = Rule::weak("fold rate");
const EVEN_P: f64 = 0.01;
/// The size of a write buffer by the rise of the cost of filling the device.
const OF_RISE: Rule = Rule::likely("rise of the fill");
/// The rule that there is no region where no beginning is faster, and where one may be, but no blocks are moved.
const EVEN: Rule = Rule::strong("even fill");
const UNEVEN: Rule = Rule::likely("uneven fill");
const NO_CACHE: Rule = Rule::likely("rise without refill");

/// The writes that filled the device.
#[derive(Clone, Copy)]
pub(super) struct Filled<'a> {
    /// Where they begin.
    pub(super) begin: Bytes,
    /// The size of each.
    pub(super) size: Bytes,
    /// Their response times in nanoseconds.
    pub(super) costs: &'a [f64],
}

/// Concludes that what is full is a write buffer, which a flush behind half of it took so long to write.
pub(super) fn conclude_buffer(
    session: &mut Session<'_, '_>,
    filled: &Filled<'_>,
    step: &CostRise,
    place: usize,
    took: Nanos,
) {
    let evidence = format!(
        "{} But it is a write buffer, not an SLC cache: flushing half of what idle time frees takes {}, as long as writing it to the \
         flash.",
        first_words(filled, step, place),
        duration(took.0 as f64)
    );
    let picture = picture_of_rise(filled, place);
    if session.known().bytes(Parameter::WriteBufferSize) == Some(Bytes::ZERO) {
        // It held all that was written and read back before.
        for parameter in [Parameter::WriteBufferSize, Parameter::WriteBufferFlush] {
            session.hand_in(Finding::undetermined(parameter, evidence.clone()).with(picture.clone()));
        }
    }
    no_region(session, NO_CACHE, evidence, Some(picture));
}

/// Hands in the write buffer that is full where the cost rises, if flushes show one and its size is not known. The device rested
/// before it was filled.
pub(super) fn hand_in_buffer(session: &mut Session<'_, '_>, filled: &Filled<'_>, step: &CostRise) {
    let parameter = Parameter::WriteBufferSize;
    let is_open = session.known().number(parameter).is_none() && session.flushed_nanos().is_some();
    if !is_open || step.before <= 0.0 {
        return;
    }
    let place = step.place.estimate;
    // Medians hide how jitter is skewed.
    let (before, after) = filled.costs.split_at((place as usize).min(filled.costs.len()));
    let size = Bytes((filled.size.0 as f64 * place * (1.0 - mean(before) / mean(after))) as u64);
    let evidence = format!(
        "{} The flash programs at the later rate from the first write on. The difference, {size}, is in the write buffer when it is full.",
        first_words(filled, step, place as usize)
    );
    let found = Rule::found(parameter, size, OF_RISE, evidence);
    session.hand_in(found.with(picture_of_rise(filled, place as usize)));
}

fn picture_of_rise(filled: &Filled<'_>, place: usize) -> Picture {
    picture(filled).mark((filled.begin + filled.size * place as u64).0 as f64, "full")
}

fn picture(filled: &Filled<'_>) -> Picture {
    let Filled { begin, size, costs } = *filled;
    let moved = |(written, cost)| (begin.0 as f64 + written, cost);
    Picture::new(
        "Sequential writes, as means of stretches: the cost rises where an SLC cache is full.",
        Axis::linear("address", "bytes"),
        Axis::linear("response time", "ns"),
    )
    .draw("filling the device", Style::Line, over_bytes(size, costs).into_iter().map(moved).collect())
}

/// Whether no beginning is faster than the rest: where latency spikes are too rare to show a rise, windows show that there may be
/// one.
fn even(costs: &[f64]) -> bool {
    let windows = windows(costs, costs.len().div_ceil(EVEN_WINDOWS));
    let beginnings = (1..=5).map(|halvings| windows.len() >> halvings).filter(|&length| length >= 2);
    let cheaper = |length: usize| {
        let (first, others) = windows.split_at(length);
        mean(others) > RISE_LEAST * mean(first) && mann_whitney(first, others).p_below < EVEN_P
    };
    !beginnings.into_iter().any(cheaper)
}

/// Nothing rises. Where some beginning is faster, or latency spikes may be blocks that are moved, that is in doubt.
pub(super) fn conclude_none(session: &mut Session<'_, '_>, filled: &Filled<'_>, full: &Full) {
    let Filled { size, costs, .. } = *filled;
    let (first, last) = costs.split_at(costs.len() / 2);
    let evidence = format!(
        "In a sequential fill of {} by writes of {size} the cost never rises: {} per write in the first half, and {} in the second.",
        size * costs.len() as u64,
        duration(mean(first)),
        duration(mean(last)),
    );
    let (even, picture) = (even(costs), picture(filled));
    // Of few great stalls nobody sees where they begin.
    let may_hide_a_region = full.moves_blocks() && !(even && full.has_spikes());
    if costs.len() < EVEN_WINDOWS * WRITES_OF_A_WINDOW || may_hide_a_region {
        let refill = "It is unknown whether there is an SLC cache.";
        session.hand_in(Finding::undetermined(Parameter::SlcCacheSize, evidence).with(picture));
        session.hand_in(Finding::undetermined(Parameter::SlcCacheRefill, refill));
        return;
    }
    let basis = if even { EVEN } else { UNEVEN };
    no_region(session, basis, evidence, Some(picture));
}

/// Concludes the size of a region, and what idle times make free of it.
fn conclude_region(
    session: &mut Session<'_, '_>,
    filled: &Filled<'_>,
    evidence: &str,
    rise: Rise,
    full: &Full,
    again: &Refill,
    picture: Picture,
) {
    let Filled { begin, size, .. } = *filled;
    let Rise { place, at_pace, .. } = rise;
    // What the write buffer takes at first is not in the region yet; between two latency spikes it makes no difference.
    let buffer = session.known().number(Parameter::WriteBufferSize).unwrap_or(0.0);
    let bytes = |ios: usize| ios as f64 * size.0 as f64;
    let before = bytes(place) - buffer;
    let (region, refill, held) = held_by_region(full, again, (begin.0 as f64, before), bytes);
    let all = bytes(again.wait);
    let shown = if at_pace {
        format!("After idle time {} are fast again (p = {:.1e}).", Bytes(all as u64), again.p)
    } else {
        let apart = Bytes(all as u64);
        format!("With idle time in between, the slow writes are {apart} apart (p = {:.1e}).", again.p)
    };
    let evidence = format!("{evidence} {shown} {held}");
    let basis = if at_pace { FOUND.min(FALLS) } else { FOUND };
    for (parameter, value) in REGION.into_iter().zip([region, refill]) {
        let found = Rule::found(parameter, Bytes(value.max(0.0) as u64), basis, evidence.clone());
        session.hand_in(found.with(picture.clone()));
    }
    if at_pace {
        return;
    }
    let unit = Bytes(bytes(full.distance) as u64);
    let evidence = format!(
        "When the SLC cache is full, sequential writes wait once per {unit}: the device relocates a block of all dies."
    );
    let moving = moving(filled, place, full);
    let relocated = Rule::found(Parameter::EraseBlockSize, unit, MOVED, evidence).with(moving);
    session.hand_in(relocated);
}

/// How much a region holds, what idle times make free of it, and why; the fill wrote `before` until it was full, and `begin` earlier.
fn held_by_region(
    full: &Full,
    again: &Refill,
    (begin, before): (f64, f64),
    bytes: impl Fn(usize) -> f64,
) -> (f64, f64, String) {
    let all = bytes(again.wait);
    // If all is refilled, no more was in it than that. Else what was written before the fill is still in it.
    if all > WHOLE * before {
        let held = format!("Idle time freed the whole SLC cache, which holds {}.", Bytes(all as u64));
        return (all, all, held);
    }
    let first = before + begin;
    let held =
        format!("Idle time freed a part of the SLC cache, which holds {} in all.", Bytes(first as u64));
    (first, bytes(again.until_any) - bytes(full.distance), held)
}

/// Single writes of some blocks that are moved, from one that begins to be on.
fn moving(filled: &Filled<'_>, place: usize, full: &Full) -> Picture {
    let Filled { size, costs, .. } = *filled;
    let begin = first_spike(costs, place).min(costs.len());
    let end = (begin + DISTANCES_LEAST * full.distance).min(costs.len());
    let unit = (size * full.distance as u64).0 as f64;
    let picture = Picture::new(
        "Sequential writes when the SLC cache is full: at a regular distance one write waits until a block is relocated.",
        Axis::linear("written since the first slow one", "bytes"),
        Axis::logarithmic("response time", "ns"),
    )
    .draw("writes", Style::Dots, slowest(size, &costs[begin..end]));
    picture.mark(unit, Bytes(unit as u64).to_string())
}

/// Where the cost rises.
fn first_words(filled: &Filled<'_>, step: &CostRise, place: usize) -> String {
    let Filled { begin, size, .. } = *filled;
    let behind =
        if begin > Bytes::ZERO { format!(" The first {begin} were written earlier.") } else { String::new() };
    format!(
        "Sequential writes of {size} take {} until {} are written (between {} and {}), and {} afterwards.{behind}",
        duration(step.before),
        size * place as u64,
        size * step.place.low as u64,
        size * step.place.high as u64,
        duration(step.after),
    )
}

/// A rise that is no write buffer's.
#[derive(Clone, Copy)]
pub(super) struct Rise {
    pub(super) step: CostRise,
    /// The first slow write.
    pub(super) place: usize,
    /// It may be one of memory.
    pub(super) is_early: bool,
    /// No write waits for a whole block.
    pub(super) at_pace: bool,
}

/// Concludes what a rise means.
pub(super) fn conclude(
    session: &mut Session<'_, '_>,
    filled: &Filled<'_>,
    full: &Full,
    rise: Rise,
    again: Option<&Refill>,
) {
    let Rise { step, place, is_early, at_pace } = rise;
    let picture = picture_of_rise(filled, place);
    let first = first_words(filled, &step, place);
    match again {
        Some(again) if again.is_clear() => {
            conclude_region(session, filled, &first, rise, full, again, picture);
        }
        Some(_) => {
            let evidence = format!(
                "{first} Idle time of {} does not bring the low cost back: it is no cache.",
                priors::BACKLOG_DONE
            );
            no_region(session, NO_CACHE, evidence, Some(picture));
        }
        None if is_early => conclude_none(session, filled, full),
        None if !at_pace && !full.moves_blocks() => {
            let evidence = format!(
                "{first} That is less than folding costs, and no later write takes as long as relocating a block: it is no cache."
            );
            no_region(session, NO_CACHE, evidence, Some(picture));
        }
        None => {
            for parameter in REGION {
                let evidence = format!(
                    "{first} After idle time of {} the cost does not rise again.",
                    priors::BACKLOG_DONE
                );
                session.hand_in(Finding::undetermined(parameter, evidence).with(picture.clone()));
            }
        }
    }
}
