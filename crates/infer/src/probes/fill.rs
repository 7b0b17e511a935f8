//! The device is written once, one address after the other, but for a rest that the next group writes: the state from which
//! other groups start. On the way it shows a region of fast cells (an SLC cache).
//!
//! # Model
//! Writes go to the fast region while there is room, and cost what fast cells cost. Then room has to be made for
//! each write, and it costs more: the mean cost rises once, after as much as the region holds. When the host rests
//! the device makes room again, all of it or a part. So after a rest the costs begin as low as in the beginning, and
//! rise to the same level as before; what was written till then is the refill.
//!
//! A write buffer does the same on a small scale. But what it takes does not wait for any flash, and costs less than a
//! read; a rise from such costs is not told from one at the end of a fast region behind a buffer. A flush tells them: of what is in a
//! buffer the flash has everything to do yet.
//!
//! A rise alone is no proof: a device with little erased space left has one, too. It does not come down by resting
//! ([`refill`]), and a region that is too small for its rise to be seen is found by that, too.
//!
//! What a region moves at a time are blocks of all dies. A map that is written back comes back as regularly, but sooner than a few
//! pages of each die are written. The dies are known only when the filled device was read: so a region is supposed here, and
//! concluded by the next group that writes.
//!
//! Where there may be a write buffer, a few writes first ask whether a flush waits for what it holds.
//!
//! # Invariants
//! - what the write buffer's bursts have written from the beginning on is not written again: nothing is overwritten;
//! - requests are small, as large ones may go past a fast region;
//! - the device rests before it is filled, and not meanwhile.

mod refill;

use std::mem;

use flashlab_analysis::decide::level::level;
use flashlab_analysis::decide::ranks::{Interval, mann_whitney};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use super::figures::{mean, over_bytes, slowest, windows};
use super::filling::{IOS_OF_A_RUN, fill_up, io_size, reserved, sequential_writes};
use super::flushes;
use super::patterns::{ios, responses};
use super::slc_region::{REGION, no_region};
use super::steps::{Step, rise};
use crate::halt::{Halt, if_affordable};
use crate::priors;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;
use refill::{Full, Refill, affordable, first_lump, refilled};

pub(crate) const PROBE: Probe = Probe {
    name: "fill",
    about: "the whole device is filled sequentially: the state that later probes need; does an SLC cache fill up meanwhile?",
    parameters: &[],
    supposes: &REGION,
    write_share: 0.4625,
};

/// A smaller rise is no end of a fast region.
const RISE_LEAST: f64 = 1.1;
/// What a write buffer may take of the fill's beginning, at least, in writes.
const EVEN_LEAST: usize = 64;
/// So many times as much as it holds may come before a write buffer is full: some of it goes to the flash meanwhile.
const BUFFERS: f64 = 2.0;
/// Reads for a comparison.
const READS: u64 = 64;
/// No device has memory for a larger part of its capacity.
const MEMORY_MOST: f64 = 0.02;
/// How sure it is that there is no region where no beginning is cheaper, and where one may be, but no blocks are moved.
const EVEN: Rule = Rule::strong("even fill");
const UNEVEN: Rule = Rule::likely("uneven fill");
/// How sure it is that what a region moves at a time are the blocks of all dies.
const MOVED: Rule = Rule::likely("SLC relocation");
/// How sure a region is, and that something that rises and does not come down is none.
const FOUND: Rule = Rule::likely("rise and idle time");
const NO_CACHE: Rule = Rule::likely("rise without refill");
/// What is made free, if it is more than this part, is all.
const WHOLE: f64 = 0.93;
/// What takes less than so many reads waits for no flash.
const NO_FLASH: f64 = 1.1;
/// How many writes are flushed at the most to tell a region from a write buffer, from what rise on, and what part of what the flash
/// takes for them it is at least where they are in a buffer.
const FLUSHED_MOST: usize = 512;
const FLUSHED_CONTRAST: f64 = 3.0;
const FLUSHED_PART: f64 = 0.5;
/// So many blocks that are moved are shown.
const MOVED_SHOWN: usize = 8;
/// Fewer writes do not show that there is no region.
const WRITES_LEAST: usize = 512;
/// Windows in which a cheaper beginning would be seen, and the p from which there may be one.
const EVEN_WINDOWS: usize = 128;
const EVEN_P: f64 = 0.01;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let capacity = session.capacity();
    // The rest shows what large writes cost.
    let end = capacity - reserved(session);
    let length = end - session.fill().until.min(end);
    if session.writes_left() < length {
        return Err(Halt::Budget { needed: length, left: session.writes_left() });
    }
    let size = io_size(capacity, session.block());
    let asked = flushes::written(session).round_up(size);
    let may_be_buffered = session.known().bytes(Parameter::WriteBufferSize) != Some(Bytes::ZERO);
    if !session.fill().was_begun && may_be_buffered && length >= asked {
        session.fill_mut().flushed_nanos = flushes::flushed_nanos(session)?;
        fill_up(session, size)?;
    }
    let begin = session.fill().until;
    session.rest(priors::BACKLOG_DONE)?;
    let was_begun = mem::replace(&mut session.fill_mut().was_begun, true);
    let mut costs = Vec::with_capacity((length.0 / size.0) as usize);
    // What was interrupted goes on where it was.
    while session.fill().until < end.round_down(session.block()) {
        let part = (size * IOS_OF_A_RUN).min(end - session.fill().until);
        costs.extend(sequential_writes(session, "fill", size, session.fill().until, part)?);
        session.filled(part);
    }
    if !costs.is_empty() {
        session.fill_mut().nanos_per_byte = mean(&costs[costs.len() / 2..]) / size.0 as f64;
    }
    if was_begun {
        return Err(Halt::Lacks(
            "the fill was interrupted, so that a rise of its cost cannot be seen".to_owned(),
        ));
    }
    let reads = ios(Mode::Read, Location::Random, size, READS);
    let read = level(&responses(&session.run("reads", &reads)?), 0.95).map_or(f64::INFINITY, |read| read.low);
    let buffered = session.known().number(Parameter::WriteBufferSize).unwrap_or(0.0) / size.0 as f64;
    let (memory, step) = end_of_region(&costs, read, BUFFERS * buffered);
    let Some(step) = step else {
        let mut full = Full::after(&costs, 0, 0);
        full.most = costs.len() / 4;
        let again = if full.has_lumps() { refilled(session, size, &full)? } else { None };
        let is_memory = |wait: usize| (wait as f64) < MEMORY_MOST * costs.len() as f64;
        match again.filter(|again| again.is_clear(&full) && !is_memory(again.wait)) {
            Some(again) => conclude_lumps(session, size, &costs, &full, begin, again),
            None => conclude_none(session, size, &costs[memory..], &full, begin + size * memory as u64),
        }
        return Ok(());
    };
    let place = first_lump(&costs, step.place.estimate as usize);
    let full = Full::after(&costs, place, (begin.0 / size.0) as usize);
    let again = if full.moves_blocks() { refilled(session, size, &full)? } else { None };
    let may_be_buffer = again.as_ref().filter(|again| again.is_clear(&full) && needs_no_flash(&step, read));
    let of_buffer = may_be_buffer.map_or(Ok(None), |again| flush_of_buffer(session, size, &step, again));
    if let Ok(Some(took)) = of_buffer {
        let evidence = format!(
            "{} But it is a write buffer, not an SLC cache: flushing half of what idle time frees takes {}, as long as writing it to \
             the flash.",
            first_words(size, &step, (begin, place)),
            duration(took.0 as f64)
        );
        let picture = picture(begin, size, &costs).mark((begin + size * place as u64).0 as f64, "full");
        if session.known().bytes(Parameter::WriteBufferSize) == Some(Bytes::ZERO) {
            // It held all that was written and read back before.
            for parameter in [Parameter::WriteBufferSize, Parameter::WriteBufferFlush] {
                session.suppose(Finding::undetermined(parameter, evidence.clone()).with(picture.clone()));
            }
        }
        no_region(session, NO_CACHE, evidence, Some(picture));
        return Ok(());
    }
    conclude(session, size, &costs, &full, step, (begin, place), again);
    // What is known is known before it is said that the device failed.
    if_affordable(of_buffer).map(drop)
}

/// How long a flush takes behind half of what rests make cheap again, if that is as long as the flash takes for it beyond what the
/// writes took: then it was in a write buffer. In a fast region all is on the flash.
fn flush_of_buffer(
    session: &mut Session<'_, '_>,
    size: Bytes,
    step: &Step,
    again: &Refill,
) -> Result<Option<Nanos>, Halt> {
    let count = (again.wait / 2).min(FLUSHED_MOST) as u64;
    let length = size * count;
    if step.ratio() < FLUSHED_CONTRAST || length > affordable(session) || session.flush()?.is_none() {
        return Ok(None);
    }
    session.rest(priors::BACKLOG_DONE)?;
    // Nothing of the region is overwritten.
    let place = Bytes(session.fill().until.0 / 2).round_down(size);
    sequential_writes(session, "before-a-flush", size, place, length)?;
    let took = session.flush()?;
    let of_flash = count as f64 * (step.after - step.before);
    Ok(took.filter(|took| took.0 as f64 >= FLUSHED_PART * of_flash))
}

/// Where the costs rise for good, and so many writes before it are not looked at: what rises early and from less than a
/// read takes, or among the first writes, those that a known buffer takes, is a write buffer that is full.
fn end_of_region(costs: &[f64], read: f64, buffered: f64) -> (usize, Option<Step>) {
    let mut from = 0;
    loop {
        let step = rise(&costs[from..]).filter(|step| step.ratio() > RISE_LEAST);
        let moved = |place: f64| place + from as f64;
        let step = step.map(|step| {
            let Interval { estimate, low, high } = step.place;
            Step { place: Interval { estimate: moved(estimate), low: moved(low), high: moved(high) }, ..step }
        });
        let early = |step: &Step| {
            let soon = step.place.estimate < MEMORY_MOST * costs.len() as f64;
            soon && (needs_no_flash(step, read) || step.place.low <= buffered)
        };
        match step.filter(early) {
            Some(step) => from = (2 * step.place.estimate as usize).max(EVEN_LEAST),
            None => return (from, step),
        }
    }
}

/// Whether writes before a rise take no longer than a read, which is less than programming takes: they wait for no flash.
fn needs_no_flash(step: &Step, read: f64) -> bool {
    step.before < NO_FLASH * read
}

fn picture(begin: Bytes, size: Bytes, costs: &[f64]) -> Picture {
    let moved = |(written, cost)| (begin.0 as f64 + written, cost);
    Picture::new(
        "Sequential writes, as means of stretches: the cost rises where an SLC cache is full.",
        Axis::linear("address", "bytes"),
        Axis::linear("response time", "ns"),
    )
    .draw("filling the device", Style::Line, over_bytes(size, costs).into_iter().map(moved).collect())
}

/// Whether no beginning is cheaper than the rest: where lumps are too rare to show a rise, windows show that there may be
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

/// Nothing rises. Where some beginning is cheaper, or lumps may be blocks that are moved, that is not sure.
fn conclude_none(session: &mut Session<'_, '_>, size: Bytes, costs: &[f64], full: &Full, begin: Bytes) {
    let (first, last) = costs.split_at(costs.len() / 2);
    let evidence = format!(
        "In a sequential fill of {} by writes of {size} the cost never rises: {} per write in the first half, and {} in the second.",
        size * costs.len() as u64,
        duration(mean(first)),
        duration(mean(last)),
    );
    let (even, picture) = (even(costs), picture(begin, size, costs));
    // Of few great stalls nobody sees where they begin.
    let may_hide_a_region = full.moves_blocks() && !(even && full.has_lumps());
    if costs.len() < WRITES_LEAST || may_hide_a_region {
        let refill = "It is unknown whether there is an SLC cache.";
        session.suppose(Finding::undetermined(Parameter::SlcCacheSize, evidence).with(picture));
        session.suppose(Finding::undetermined(Parameter::SlcCacheRefill, refill));
        return;
    }
    let sure = if even { EVEN } else { UNEVEN };
    no_region(session, sure, evidence, Some(picture));
}

/// A region that is too small for a rise of the mean cost: rests put lumps off.
fn conclude_lumps(
    session: &mut Session<'_, '_>,
    size: Bytes,
    costs: &[f64],
    full: &Full,
    begin: Bytes,
    again: Refill,
) {
    let first = costs.iter().position(|&cost| full.lump.is(cost)).unwrap_or(0);
    let evidence = format!(
        "One sequential write of {size} in {} takes {}; the first of them comes after {}.",
        full.distance,
        duration(full.lump.usual + full.lump.excess),
        begin + size * first as u64
    );
    let pictures = [picture(begin, size, costs), moving(size, costs, first, full)];
    conclude_region(session, size, &evidence, (begin, first), full, again, pictures);
}

/// Concludes the size of a region, and what rests make free of it.
fn conclude_region(
    session: &mut Session<'_, '_>,
    size: Bytes,
    evidence: &str,
    (begin, place): (Bytes, usize),
    full: &Full,
    again: Refill,
    [picture, moving]: [Picture; 2],
) {
    // What the write buffer takes at first is not in the region yet; between two lumps it makes no difference.
    let buffer = session.known().number(Parameter::WriteBufferSize).unwrap_or(0.0);
    let bytes = |ios: usize| ios as f64 * size.0 as f64;
    let (all, before) = (bytes(again.wait), bytes(place) - buffer);
    let part = bytes(again.until_any) - bytes(full.distance);
    // What is refilled wholly is free but for the blocks that were begun. Else what was written before the fill is still
    // in it, or what was written before the rest. It holds no more than was written until it was full for the first time, and
    // is not refilled by a part where that is as much as all of this.
    let first = before + begin.0 as f64;
    let whole =
        again.whole.filter(|&whole| all <= WHOLE * first && bytes(whole) <= first + bytes(full.distance));
    let (region, refill, held) = match whole {
        Some(whole) => {
            let whole = bytes(whole);
            let held = format!(
                "Some of the most recent writes are read faster, because they are still in the SLC cache: with them it holds {}.",
                Bytes(whole as u64)
            );
            (whole, part, held)
        }
        None if all > WHOLE * before => {
            let held = format!(
                "None of the most recent writes are read faster: idle time freed the whole SLC cache, which holds {}.",
                Bytes(all as u64)
            );
            (all, all, held)
        }
        None => {
            let buffered = if buffer > 0.0 { ", minus the write buffer" } else { "" };
            let held = format!(
                "None of the most recent writes are read faster: the SLC cache holds all that was written until it was full, {} from \
                 the beginning{buffered}.",
                Bytes(first as u64)
            );
            (first, part, held)
        }
    };
    let evidence = format!(
        "{evidence} With idle time in between, the slow writes are {} apart (p = {:.1e}). {held}",
        Bytes(all as u64),
        again.p
    );
    for (parameter, value) in REGION.into_iter().zip([region, refill]) {
        let found = Rule::found(parameter, Bytes(value.max(0.0) as u64), FOUND, evidence.clone());
        session.suppose(found.with(picture.clone()));
    }
    let unit = Bytes(bytes(full.distance) as u64);
    session.fill_mut().moving_logs = Some(full.logs_of_a_lump);
    let evidence = format!(
        "When the SLC cache is full, sequential writes wait once per {unit}: the device relocates a block of all dies."
    );
    session.suppose(Rule::found(Parameter::EraseBlockSize, unit, MOVED, evidence).with(moving));
}

/// Single writes of some blocks that are moved, from one that begins to be on.
fn moving(size: Bytes, costs: &[f64], place: usize, full: &Full) -> Picture {
    let begin = first_lump(costs, place).min(costs.len());
    let end = (begin + MOVED_SHOWN * full.distance).min(costs.len());
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
fn first_words(size: Bytes, step: &Step, (begin, place): (Bytes, usize)) -> String {
    let behind =
        if begin > Bytes::ZERO { format!(" The fill began after {begin} of bursts.") } else { String::new() };
    format!(
        "Sequential writes of {size} take {} until {} are written (between {} and {}), and {} afterwards.{behind}",
        duration(step.before),
        size * place as u64,
        size * step.place.low as u64,
        size * step.place.high as u64,
        duration(step.after),
    )
}

fn conclude(
    session: &mut Session<'_, '_>,
    size: Bytes,
    costs: &[f64],
    full: &Full,
    step: Step,
    (begin, place): (Bytes, usize),
    again: Option<Refill>,
) {
    let picture = picture(begin, size, costs).mark((begin + size * place as u64).0 as f64, "full");
    let first = first_words(size, &step, (begin, place));
    match again {
        Some(again) if again.is_clear(full) => {
            let pictures = [picture, moving(size, costs, place, full)];
            conclude_region(session, size, &first, (begin, place), full, again, pictures);
        }
        Some(_) => {
            let evidence = format!(
                "{first} Idle time of {} does not bring the low cost back: it is no cache.",
                priors::BACKLOG_DONE
            );
            no_region(session, NO_CACHE, evidence, Some(picture));
        }
        None if step.place.estimate < MEMORY_MOST * costs.len() as f64 => {
            conclude_none(session, size, costs, full, begin)
        }
        None if !full.moves_blocks() => {
            let evidence =
                format!("{first} No later write takes as long as relocating a block: it is no cache.");
            no_region(session, NO_CACHE, evidence, Some(picture));
        }
        None => {
            for parameter in REGION {
                let evidence = format!(
                    "{first} After idle time of {} the cost does not rise again.",
                    priors::BACKLOG_DONE
                );
                session.suppose(Finding::undetermined(parameter, evidence).with(picture.clone()));
            }
        }
    }
}
