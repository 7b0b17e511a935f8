//! The device is written once, one address after the other, but for idle time that the next group writes: the state from which
//! other groups start. Meanwhile it shows an SLC cache, if there is one.
//!
//! # Model
//! Writes go to the SLC cache while there is room, and cost what SLC cells cost. Then room has to be made for
//! each write, and it costs more: the mean cost rises once, after as much as the region holds. When the host is idle
//! the device reclaims blocks again, all of it or a part. So after idle time the costs begin as low as in the beginning, and
//! rise to the same level as before; what was written till then is the refill.
//!
//! A write buffer does the same on a small scale. But what it takes does not wait for any flash, and costs less than a
//! read; a rise from such costs is not distinguished from one at the end of a SLC cache behind a buffer. A flush distinguishes them: of what is in a
//! buffer the flash has everything to do yet.
//!
//! A rise alone is no proof: a device with little erased space left has one, too. It does not come down by resting
//! ([`refill`]).
//!
//! What a region moves at a time are blocks of all dies. A map that is written back comes back as regularly, but sooner than a few
//! pages of each die are written. The dies are known only when the filled device was read: so a region is handed in here, and
//! concluded by the next group that writes.
//!
//! A buffer that only flushes show is full where the cost rises: what was written until then less what was programmed meanwhile, at
//! the rate of the end.
//!
//! Where there may be a write buffer, a few writes first ask whether a flush waits for what it holds.
//!
//! # Invariants
//! - what the write buffer's probe has written from the beginning on is not written again: nothing is overwritten;
//! - requests are small, as large ones may go past a SLC cache;
//! - the device is idle before it is filled, and not meanwhile.

mod answers;
mod fold_rate;
mod refill;

use std::mem;

use crate::priors;
use crate::signals::statistics::mean;
use crate::signals::steps::{CostRise, rise};
use flashlab_analysis::decide::level::level;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use crate::answers::slc_cache::REGION;
use crate::halt::{Halt, if_affordable};
use crate::patterns::filling::{IOS_OF_A_RUN, fill_up, io_size, reserved, sequential_writes};
use crate::patterns::flushes;
use crate::patterns::{ios, responses};
use crate::probe::Probe;
use crate::session::Session;
use answers::{Filled, RISE_LEAST, Rise, conclude, conclude_buffer, conclude_none, hand_in_buffer};
use fold_rate::{may_fold_at_pace, refilled_at_pace};
use refill::{Full, Refill, affordable, first_spike, refilled};

pub(crate) const PROBE: Probe = Probe {
    name: "fill",
    about: "the whole device is filled sequentially: the state that later probes need; does an SLC cache fill up meanwhile?",
    parameters: &[],
    hands_in: &REGION,
    write_share: 0.4625,
};

/// What a write buffer may take of the fill's beginning, at least, in writes.
const EVEN_LEAST: usize = 64;
/// This many times as much as it holds may come before a write buffer is full: some of it goes to the flash meanwhile.
const BUFFERS: f64 = 2.0;
/// Reads for a comparison.
const READS: u64 = 64;
/// What takes less than this number of reads waits for no flash.
const NO_FLASH: f64 = 1.1;
/// How many writes are flushed at the most to distinguish a region from a write buffer, and from what rise on. Where the rise is threefold,
/// the flash programs a third of what is written while it comes in; a flush takes the other two thirds, so that half is the least that
/// a buffer shows. Higher: a buffer is taken for an SLC cache; lower: the few programs behind an SLC cache are taken for a buffer.
const FLUSHED_MOST: usize = 512;
const FLUSHED_CONTRAST: f64 = 3.0;
const FLUSHED_PART: f64 = 0.5;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let capacity = session.capacity();
    // The rest shows what large writes cost.
    let end = capacity - reserved(session);
    let length = end - session.filled_until().min(end);
    if session.writes_left() < length {
        return Err(Halt::Budget { needed: length, left: session.writes_left() });
    }
    let size = io_size(capacity, session.block());
    let asked = flushes::written(session).round_up(size);
    let may_be_buffered = session.known().bytes(Parameter::WriteBufferSize) != Some(Bytes::ZERO);
    if !session.fill_mut().was_begun && may_be_buffered && length >= asked {
        session.fill_mut().flushed_nanos = flushes::flushed_nanos(session)?;
        fill_up(session, size)?;
    }
    let begin = session.filled_until();
    session.idle(priors::BACKLOG_DONE)?;
    let was_begun = mem::replace(&mut session.fill_mut().was_begun, true);
    let mut costs = Vec::with_capacity((length.0 / size.0) as usize);
    // What was interrupted goes on where it was.
    while session.filled_until() < end.round_down(session.block()) {
        let part = (size * IOS_OF_A_RUN).min(end - session.filled_until());
        costs.extend(sequential_writes(session, "fill", size, session.filled_until(), part)?);
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
    let Rises { memory, of_memory, step } = rises(&costs, read, BUFFERS * buffered);
    let filled = Filled { begin, size, costs: &costs };
    let looked = match step {
        Some(step) => look_at_rise(session, &filled, step, read),
        None => {
            let later = Filled { begin: begin + size * memory as u64, size, costs: &costs[memory..] };
            conclude_none(session, &later, &Full::after(&costs, 0, 0));
            Ok(false)
        }
    };
    let of_buffer = step.filter(|_| matches!(looked, Ok(true)));
    if let Some(step) = of_memory.or(of_buffer).filter(|_| !session.known().has_slc_cache()) {
        hand_in_buffer(session, &filled, &step);
    }
    looked.map(drop)
}

/// The cost rises once: at the end of an SLC cache or of a write buffer, or for another reason. Whether a write buffer may be full there.
fn look_at_rise(
    session: &mut Session<'_, '_>,
    filled: &Filled<'_>,
    step: CostRise,
    read: f64,
) -> Result<bool, Halt> {
    let Filled { begin, size, costs } = *filled;
    let place = first_spike(costs, step.place.estimate as usize);
    let full = Full::after(costs, place, (begin.0 / size.0) as usize);
    let is_early = step.place.estimate < priors::MEMORY_SHARE_MOST * costs.len() as f64;
    let at_pace = may_fold_at_pace(&step, &full, place);
    let again = if at_pace {
        refilled_at_pace(session, size, &full, &step, (costs, place))?
    } else if full.moves_blocks() {
        refilled(session, size, &full)?
    } else {
        None
    };
    let may_be_buffer = again.as_ref().filter(|again| again.is_clear() && needs_no_flash(&step, read));
    let of_buffer = may_be_buffer.map_or(Ok(None), |again| flush_of_buffer(session, size, &step, again));
    if let Ok(Some(took)) = of_buffer {
        conclude_buffer(session, filled, &step, place, took);
        return Ok(true);
    }
    conclude(session, filled, &full, Rise { step, place, is_early, at_pace }, again.as_ref());
    // What is known is known before it is said that the device failed.
    if_affordable(of_buffer).map(|_| is_early)
}

/// How long a flush takes behind half of what idle times make fast again, if that is as long as the flash takes for it beyond what the
/// writes took: then it was in a write buffer. In a SLC cache all is on the flash.
fn flush_of_buffer(
    session: &mut Session<'_, '_>,
    size: Bytes,
    step: &CostRise,
    again: &Refill,
) -> Result<Option<Nanos>, Halt> {
    let count = (again.wait / 2).min(FLUSHED_MOST) as u64;
    let length = size * count;
    if step.ratio() < FLUSHED_CONTRAST || length > affordable(session) || session.flush()?.is_none() {
        return Ok(None);
    }
    session.idle(priors::BACKLOG_DONE)?;
    // Nothing of the region is overwritten.
    let place = Bytes(session.filled_until().0 / 2).round_down(size);
    sequential_writes(session, "before-a-flush", size, place, length)?;
    let took = session.flush()?;
    let of_flash = count as f64 * (step.after - step.before);
    Ok(took.filter(|took| took.0 as f64 >= FLUSHED_PART * of_flash))
}

/// Where the cost of filling the device rises.
struct Rises {
    /// The first writes, which memory may have taken.
    memory: usize,
    /// Where a write buffer is full.
    of_memory: Option<CostRise>,
    /// Where the cost rises for good.
    step: Option<CostRise>,
}

/// Where the costs rise. A rise is that of a full write buffer if it is early and begins below the cost of a read, or lies within what a
/// known buffer takes.
fn rises(costs: &[f64], read: f64, buffered: f64) -> Rises {
    let (mut memory, mut of_memory) = (0, None);
    loop {
        let from = memory;
        let step = rise(&costs[from..]).filter(|step| step.ratio() > RISE_LEAST);
        let moved = |place: f64| place + from as f64;
        let step = step.map(|step| {
            let Interval { estimate, low, high } = step.place;
            CostRise {
                place: Interval { estimate: moved(estimate), low: moved(low), high: moved(high) },
                ..step
            }
        });
        let early = |step: &CostRise| {
            let soon = step.place.estimate < priors::MEMORY_SHARE_MOST * costs.len() as f64;
            soon && (needs_no_flash(step, read) || step.place.low <= buffered)
        };
        let Some(early) = step.filter(early) else { return Rises { memory, of_memory, step } };
        memory = (2 * early.place.estimate as usize).max(EVEN_LEAST);
        of_memory = of_memory.or(Some(early));
    }
}

/// Whether writes before a rise take no longer than a read, which is less than programming takes: they wait for no flash.
fn needs_no_flash(step: &CostRise, read: f64) -> bool {
    step.before < NO_FLASH * read
}
