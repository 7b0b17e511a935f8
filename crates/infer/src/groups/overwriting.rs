//! The filled device written once more from its beginning on: how often it has to make room, and from when on.
//!
//! # Model
//! What was written in order becomes invalid in order: block by block, wholly. So nothing has to be moved, and what is left
//! of making room is the erase, or the merge that replaces a whole block:
//! - where every page may lie anywhere, the first erase comes when the space beyond the capacity is used up, to the block;
//!   from then on there is one for each block of each die;
//! - where blocks are replaced, it comes at the end of each from the beginning on.
//!
//! Dies that fill their blocks together erase them together, so that these stalls come in groups ([`super::cycles`]), once
//! for each erase block by its definition.
//!
//! Behind a buffer nobody waits for an erase; but who reads does, if he reads from that die. So each write is followed by a
//! read anywhere, and what both take counts.
//!
//! A buffer that is emptied when it is full does so in pieces that make a cycle of their own, from the beginning on, and
//! shorter than an erase block. So what is found from the beginning on is looked through for a longer one: in the writes
//! that are left, and in those that are even more expensive.
//!
//! # Invariants
//! - a cycle counts only if it foretells the stalls of writes that were done after it was found.

use flashlab_analysis::inference::{Axis, Picture, Style};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::{Location, Mix, Pattern};

use super::cycles::{Cycle, cycles, level};
use super::patterns::ios;
use crate::session::{Halt, Session};

/// The smallest writes, which are whole pages nearly always, and the most of them on the whole device.
const IO_SIZE: Bytes = Bytes::kib(16);
const IOS_MOST: u64 = 1 << 16;
/// The reads between them.
const READ_SIZE: Bytes = Bytes::kib(4);
/// Writes that are looked at first, and how many more there are each time.
const FIRST: u64 = 1024;
const GROWTH: f64 = 0.25;
/// What is written before a cycle from the beginning on is believed, as a share of the device: four of the largest blocks.
const ENOUGH: f64 = 0.17;
/// The share of the device from which on a cycle that begins is no cycle from the beginning on.
const LATER: f64 = 0.03;
/// Different periods that are tried on fresh writes.
const TRIED: usize = 8;
/// In this share of the windows it has to be right, and so much likelier than by chance, in nats.
const FORETOLD: f64 = 0.7;
const FORETOLD_GAIN: f64 = 7.0;
/// Fresh windows at the least.
const WINDOWS: usize = 2;
/// A longer cycle's stalls take at least so many times what a shorter one's take, if they are at the same place.
const LONGER: f64 = 1.4;

/// What overwriting the device showed.
pub(super) struct Overwriting {
    /// What is written each time.
    pub size: Bytes,
    /// What each write and the read behind it took.
    pub costs: Vec<f64>,
    pub seen: Option<Seen>,
}

/// A cycle that foretold itself.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub cycle: Cycle,
    /// The first write of its first window, if it is not from the beginning on.
    pub onset: Option<usize>,
    /// Fresh windows, and how many of them had stalls.
    pub windows: usize,
    pub stalled: usize,
}

impl Overwriting {
    /// The unit that comes back.
    pub(super) fn unit(&self) -> Option<Bytes> {
        self.seen.map(|seen| self.size * seen.cycle.period as u64)
    }

    pub(super) fn picture(&self) -> Picture {
        let stride = self.costs.len().div_ceil(4096).max(1);
        let slowest = |(i, part): (usize, &[f64])| {
            ((i * stride) as f64 * self.size.0 as f64, part.iter().copied().fold(1.0, f64::max))
        };
        let points = self.costs.chunks(stride).enumerate().map(slowest).collect();
        Picture::new(
            "The filled device overwritten in order, each write followed by a read anywhere. Of neighbours the slowest is \
             shown.",
            Axis::linear("overwritten", "bytes"),
            Axis::logarithmic("write and read", "ns"),
        )
        .draw("writes and reads", Style::Dots, points)
    }
}

/// Overwrites the device from its beginning on, `most` at the most, until there is a cycle that foretells itself.
/// `in_lumps` is whether a buffer may have a cycle of its own.
pub(super) fn overwrite(
    session: &mut Session<'_, '_>,
    most: Bytes,
    in_lumps: bool,
) -> Result<Overwriting, Halt> {
    let capacity = session.capacity();
    let least = Bytes((capacity.0 / IOS_MOST).next_power_of_two());
    let size = IO_SIZE.max(least).max(session.block());
    let most = most.min(session.writes_left()).min(capacity).0 / size.0;
    let of_device = |share: f64| (capacity.0 as f64 * share) as usize / size.0 as usize;
    let mut found = Overwriting { size, costs: Vec::new(), seen: None };
    let mut candidates: Vec<Seen> = Vec::new();
    while (found.costs.len() as u64) < most {
        let known = found.costs.len();
        let longest = candidates.iter().map(|seen| seen.cycle.period + seen.cycle.width).max().unwrap_or(0);
        let wanted = FIRST.max((known as f64 * GROWTH) as u64).max((longest * WINDOWS) as u64);
        let count = wanted.min(most - known as u64);
        let costs = match write_on(session, size, known as u64, count) {
            Err(Halt::Time | Halt::Budget { .. }) if known > 0 => break,
            other => other?,
        };
        let foretold = |seen: &Seen| {
            let (windows, stalled, gain) = seen.cycle.foretells(&costs, known);
            let right = windows >= WINDOWS && stalled as f64 >= FORETOLD * windows as f64 && gain >= FORETOLD_GAIN;
            right.then_some(Seen { windows, stalled, ..*seen })
        };
        let confirmed: Vec<Seen> = candidates.iter().filter_map(foretold).collect();
        found.costs.extend(&costs);
        found.seen = likeliest(confirmed).or(found.seen);
        let enough = !in_lumps && found.costs.len() >= of_device(ENOUGH);
        if found.seen.is_some_and(|seen| seen.onset.is_some() || enough) {
            break;
        }
        candidates = different(cycles(&found.costs), &found.costs, of_device(LATER));
    }
    if let Some(seen) = &mut found.seen
        && seen.onset.is_none()
        && let Some(longer) = longer(&seen.cycle, &found.costs)
    {
        seen.cycle = longer;
    }
    Ok(found)
}

/// Writes `count` more, and reads anywhere between them.
fn write_on(session: &mut Session<'_, '_>, size: Bytes, done: u64, count: u64) -> Result<Vec<f64>, Halt> {
    let capacity = session.capacity();
    let reads = ios(Mode::Read, Location::Random, READ_SIZE.max(session.block()), count);
    let writes = ios(Mode::Write, Location::Sequential, size, 2 * count).on_target(size * done, size * count);
    let mut second = reads.first;
    second.target_size = Some(capacity);
    let pattern = Pattern { mix: Some(Mix { second, ratio: 1 }), ..writes };
    let mut costs: Vec<f64> = Vec::with_capacity(count as usize);
    for sample in session.run("overwriting", &pattern)? {
        let took = sample.response().0 as f64;
        match costs.last_mut() {
            Some(last) if !sample.mode.is_write() => *last += took,
            _ => costs.push(took),
        }
    }
    Ok(costs)
}

/// Those with different periods, the likeliest first, and from when on they are.
fn different(cycles: Vec<Cycle>, costs: &[f64], later: usize) -> Vec<Seen> {
    let mut chosen: Vec<Seen> = Vec::new();
    for cycle in cycles {
        if chosen.len() < TRIED && chosen.iter().all(|seen| seen.cycle.period != cycle.period) {
            let onset = cycle.onset(costs).filter(|&onset| onset > later);
            chosen.push(Seen { cycle, onset, windows: 0, stalled: 0 });
        }
    }
    chosen
}

/// What begins later is no buffer's; else the likeliest is taken.
fn likeliest(seen: Vec<Seen>) -> Option<Seen> {
    seen.into_iter().max_by(|a, b| {
        let rank = |seen: &Seen| (seen.onset.is_some(), seen.cycle.gain);
        rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1))
    })
}

/// A cycle of whole multiples of another one, in what is left without it.
fn longer(cycle: &Cycle, costs: &[f64]) -> Option<Cycle> {
    let (usual, most) = (super::figures::median(costs), LONGER * level(cycle, costs));
    let left = |(index, &cost): (usize, &f64)| if cycle.covers(index) && cost <= most { usual } else { cost };
    let left: Vec<f64> = costs.iter().enumerate().map(left).collect();
    cycles(&left).into_iter().find(|longer| {
        let ratio = longer.period as f64 / cycle.period as f64;
        ratio >= 1.5 && (ratio - ratio.round()).abs() * cycle.period as f64 <= longer.width.max(1) as f64
    })
}
