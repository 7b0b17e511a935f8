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
//! for each erase block by its definition. So that this is a whole number of writes, a write is a row of pages of every die, as
//! far as these are known, or a part of it by a power of two. The smaller it is, the more of them meet a die that erases.
//!
//! Behind a buffer nobody waits for an erase; but who reads does, if he reads from that die. So each write is followed by a
//! read anywhere. What both take is looked at, and what the writes take.
//!
//! Fast and slow rows, and buffers that are emptied in pieces make cycles as well, from the beginning on. They are shorter
//! than a block of sixteen rows on each die, as far as rows and dies are known. So nothing shorter is an erase block.
//!
//! Where single pages far apart cost a merge each, no space is used up however much is overwritten: no more of it is, and what
//! may be written is left for the groups that look at merges.
//!
//! # Invariants
//! - a cycle counts only if it foretells the stalls of writes that were done after it was found.

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style, UnitSeen};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::{Location, Mix, Pattern};

use super::cycles::{Cycle, cycles, is_by_the_clock, level};
use super::figures::{mean, median};
use super::late_cycles::late_cycle;
use super::onset::{Onset, onset};
use super::patterns::ios;
use super::writes::{apart, buffer, pace, shifted};
use crate::halt::Halt;
use crate::session::Session;

/// The smallest writes, which are whole pages nearly always, and the most of them on the whole device.
const IO_SIZE: Bytes = Bytes::kib(16);
const IOS_MOST: u64 = 1 << 16;
/// The reads between them.
const READ_SIZE: Bytes = Bytes::kib(4);
/// Writes that are looked at first, as a share of the device and at the most, and how many more there are each time.
const FIRST: f64 = 0.016;
const FIRST_MOST: usize = 1024;
const GROWTH: f64 = 0.2;
/// The share of the device from which on a cycle that begins is no cycle from the beginning on.
const LATER: f64 = 0.03;
/// How likely it is at least, as a part of the likeliest one's gain.
const LATER_GAIN: f64 = 0.05;
/// Different periods that are tried on fresh writes.
const TRIED: usize = 8;
/// In this share of the windows it has to be right, and so much likelier than by chance, in nats.
const FORETOLD: f64 = 0.7;
const FORETOLD_GAIN: f64 = 7.0;
/// Copying blocks as large as those that are written makes writes at least so many times as expensive, on average. No write
/// counts for more than so many usual ones.
const COPIES: f64 = 1.5;
/// No erase takes less, as far as a read or a write waits for it; and none takes so long.
const ERASE_LEAST: f64 = 0.9e6;
const ERASE_MOST: f64 = 15e6;
const CUT: f64 = 500.0;
/// So many blocks at most may be open, each of which is copied when another one is opened.
const OPEN_MOST: usize = 20;
/// A part of a period is taken for the period if its gain is at least such a part.
const PART_GAIN: f64 = 0.55;
/// Cycles that are taken away.
const ROWS_MOST: usize = 2;
/// How sure a unit is that shows from the beginning on, from later on, and from later on without being foretold.
const SURE: f64 = 0.7;
const LATER_SURE: f64 = 0.9;
const LATE_SURE: f64 = 0.78;
/// That of so many units none was foretold, though there was time, speaks against it.
const LATE_MOST: u32 = 16;
const NOT_FORETOLD_SURE: f64 = 0.55;
/// Rows of pages that a block has at least.
const ROWS_LEAST: u64 = 16;
/// Places far apart, more than a die has logs; and writes to them, of which the last ones count, beyond all logs and merges
/// that are put off.
const PLACES: u64 = 32;
const FAR_WRITES: u64 = 80;
const FAR_LATE: u64 = 32;
/// A merge takes at least so many times what a write takes in sequence on one die; and the dies that are assumed where they
/// are not known.
const MERGED: f64 = 6.0;
const DIES: f64 = 16.0;
/// The most of the device that writes far apart may take.
const FAR_PART: f64 = 0.05;

/// What overwriting the device showed.
pub(super) struct Overwriting {
    /// What is written each time.
    pub size: Bytes,
    /// What each write and the read behind it took.
    both: Vec<f64>,
    /// What each write took.
    writes: Vec<f64>,
    pub seen: Option<Seen>,
    /// Whether writes far apart cost a merge each, if that was looked at.
    merges: Option<bool>,
    /// Writes far apart, by what they hold. They take of the space as well, and stand among the others as usual ones.
    elsewhere: usize,
}

/// A cycle that foretold itself.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    cycle: Cycle,
    /// What is too short for an erase block, and was taken away before.
    rows: [Option<Rows>; ROWS_MOST],
    /// Whether the writes alone show it.
    of_writes: bool,
    /// The first write of its first window, if it is not from the beginning on.
    onset: Option<usize>,
    /// Fresh windows, and how many of them had stalls.
    windows: usize,
    stalled: usize,
}

impl Seen {
    /// Whether it is to be believed rather than one that was found earlier, among fewer writes.
    fn is_likelier(&self, earlier: Option<Seen>) -> bool {
        let for_each = |seen: &Seen| seen.cycle.gain / seen.cycle.length as f64;
        earlier.is_none_or(|earlier| self.onset.is_some() || for_each(self) >= for_each(&earlier))
    }
}

/// A cycle that is too short for an erase block, and what its stalls and other writes take.
#[derive(Clone, Copy)]
struct Rows {
    cycle: Cycle,
    level: f64,
    usual: f64,
}

/// Costs without these cycles.
fn without(rows: &[Option<Rows>], costs: &[f64], begin: usize) -> Vec<f64> {
    rows.iter()
        .flatten()
        .fold(costs.to_vec(), |costs, rows| rows.cycle.without(&costs, begin, rows.usual, rows.level))
}

/// The cycles of costs that are long enough, the likeliest first; with those that are not, as long as they are likelier.
fn cycles_of_blocks(costs: &[f64], shortest: usize) -> (Vec<Cycle>, [Option<Rows>; ROWS_MOST]) {
    let (mut rows, usual) = ([None; ROWS_MOST], median(costs));
    let mut left = costs.to_vec();
    for at in 0..=ROWS_MOST {
        let mut found = cycles(&left);
        let shorter = found.first().copied().filter(|cycle| cycle.period < shortest);
        match (shorter, rows.get_mut(at)) {
            (Some(cycle), Some(row)) => {
                *row = Some(Rows { cycle, level: level(&cycle, &left), usual });
                left = without(&rows[at..=at], &left, 0);
            }
            _ => {
                found.retain(|cycle| cycle.period >= shortest);
                return (found, rows);
            }
        }
    }
    (Vec::new(), rows)
}

impl Overwriting {
    /// From when on there are more stalls: of writes, of the reads behind them, or of both together, whichever is likeliest.
    pub(super) fn more_stalls(&self) -> Option<Onset> {
        let reads: Vec<f64> = self.both.iter().zip(&self.writes).map(|(both, write)| both - write).collect();
        let found = [&self.both, &self.writes, &reads].into_iter().filter_map(|costs| onset(costs));
        found.max_by(|a, b| a.gain.total_cmp(&b.gain))
    }

    /// How much was written.
    pub(super) fn written(&self) -> Bytes {
        self.size * self.both.len() as u64
    }

    /// The unit that comes back.
    pub(super) fn unit(&self) -> Option<UnitSeen> {
        let bytes = |writes: usize| self.size * writes as u64;
        self.seen.map(|seen| UnitSeen {
            size: bytes(seen.cycle.period),
            onset: seen.onset.map(bytes),
            foretold: seen.windows as u32,
            rightly: seen.stalled as u32,
            logs: None,
        })
    }

    /// What that says of the erase block.
    fn finding(&self) -> Option<Finding> {
        let UnitSeen { size, onset, foretold, rightly, .. } = self.unit()?;
        let (from, sure) = match onset {
            Some(onset) if rightly == 0 && foretold > LATE_MOST => {
                (format!("from {onset} on"), NOT_FORETOLD_SURE)
            }
            Some(onset) if rightly == 0 => (format!("from {onset} on"), LATE_SURE),
            Some(onset) => (format!("from {onset} on"), LATER_SURE),
            None => ("from the beginning on".to_owned(), SURE),
        };
        let told = match rightly {
            0 => format!("{foretold} times until there was no more to be written"),
            _ => format!("that foretold {rightly} of {foretold} times that it did"),
        };
        let evidence =
            format!("the filled device overwritten in order makes room once in each {size}, {from}; {told}");
        Some(Finding::found(Parameter::EraseBlockSize, size, sure, evidence).with(self.picture()))
    }

    /// Leaves what was seen to the groups behind.
    pub(super) fn tell(&self, session: &mut Session<'_, '_>) {
        session.saw_unit(self.unit());
        // What a fast region moves shows its blocks more clearly.
        let is_behind = session.known().number(Parameter::FastRegionSize).is_some_and(|size| size > 0.0);
        if let Some(finding) = self.finding().filter(|_| !is_behind) {
            session.suppose(finding);
        }
    }

    /// Whether so much is done from the first stall of a cycle on that blocks as large as those that are written are copied,
    /// and not only erased: that may be logs that are full for the first time, of which there are not many.
    pub(super) fn copies(&self) -> bool {
        let Some(Seen { cycle, of_writes, onset: Some(onset), .. }) = self.seen else { return false };
        onset <= OPEN_MOST * cycle.period && copies(&cycle, self.costs(of_writes), onset)
    }

    fn costs(&self, of_writes: bool) -> &[f64] {
        if of_writes { &self.writes } else { &self.both }
    }

    pub(super) fn picture(&self) -> Picture {
        let stride = self.both.len().div_ceil(4096).max(1);
        let slowest = |(i, part): (usize, &[f64])| {
            ((i * stride) as f64 * self.size.0 as f64, part.iter().copied().fold(1.0, f64::max))
        };
        let points = self.both.chunks(stride).enumerate().map(slowest).collect();
        Picture::new(
            "The filled device overwritten in order, each write followed by a read anywhere. Of neighbours the slowest is \
             shown.",
            Axis::linear("overwritten", "bytes"),
            Axis::logarithmic("write and read", "ns"),
        )
        .draw("writes and reads", Style::Dots, points)
    }

    /// A cycle that begins later, of which too few units were seen for it to be foretold: that has stalls in few writes of a
    /// unit, or in a part of it.
    fn look_for_late(&mut self, shortest: usize, later: usize) {
        let of = |of_writes| {
            let costs = self.costs(of_writes);
            let cycle = late_cycle(costs, shortest)?;
            let onset = cycle.onset(costs).filter(|&onset| onset > later)?;
            let erases = level(&cycle, costs) - median(costs) >= ERASE_LEAST;
            let seen = Seen {
                cycle,
                rows: [None; ROWS_MOST],
                of_writes,
                onset: Some(onset),
                windows: 0,
                stalled: 0,
            };
            erases.then_some(seen)
        };
        let narrow = self.candidates(shortest, later).into_iter().filter(|seen| seen.onset.is_some());
        let found: Vec<Seen> = narrow.chain(of(false)).chain(of(true)).collect();
        let windows = |seen: &Seen| (self.both.len() - seen.onset.unwrap_or(0)) / seen.cycle.period.max(1);
        let best = likeliest(&found).map(|seen| self.with_likeliest_part(seen, shortest));
        let best = best.map(|seen| Seen { windows: windows(&seen), ..seen });
        self.seen = best.or(self.seen);
    }

    /// What begins later, with the part of its period that explains the stalls since then best.
    fn with_likeliest_part(&self, seen: Seen, shortest: usize) -> Seen {
        let Some(onset) = seen.onset else { return seen };
        let costs = without(&seen.rows, self.costs(seen.of_writes), 0);
        let cycle = seen.cycle.likeliest_part(&costs, onset, shortest);
        let parts = (seen.cycle.period + cycle.period / 2) / cycle.period.max(1);
        let onset = if parts > 1 { cycle.onset(&costs).unwrap_or(onset).min(onset) } else { onset };
        Seen {
            cycle,
            onset: Some(onset),
            windows: seen.windows * parts,
            stalled: seen.stalled * parts,
            ..seen
        }
    }

    /// Cycles of different periods, the likeliest first, and from when on they are.
    fn candidates(&self, shortest: usize, later: usize) -> Vec<Seen> {
        let of = |of_writes| {
            let (cycles, rows) = cycles_of_blocks(self.costs(of_writes), shortest);
            cycles.into_iter().map(move |cycle| (cycle, of_writes, rows))
        };
        let mut all: Vec<_> = of(false).chain(of(true)).collect();
        all.sort_by(|a, b| b.0.gain.total_cmp(&a.0.gain));
        let mut chosen: Vec<Seen> = Vec::new();
        for (cycle, of_writes, rows) in all {
            if chosen.len() < TRIED && chosen.iter().all(|seen| seen.cycle.period != cycle.period) {
                let costs = &without(&rows, self.costs(of_writes), 0);
                // Writing back a map takes less than an erase.
                let erases = level(&cycle, costs) - median(costs) >= ERASE_LEAST;
                let onset = cycle.onset(costs).filter(|&onset| erases && onset > later);
                chosen.push(Seen { cycle, rows, of_writes, onset, windows: 0, stalled: 0 });
            }
        }
        chosen
    }
}

/// Nothing is overwritten yet.
pub(super) fn begin(session: &Session<'_, '_>) -> Overwriting {
    let (capacity, block) = (session.capacity(), session.block());
    let row = row_of_all_dies(session).unwrap_or(IO_SIZE).round_up(block);
    let least = Bytes(capacity.0 / IOS_MOST).max(IO_SIZE).max(block);
    let mut size = row * (capacity.0 / IOS_MOST).div_ceil(row.0).next_power_of_two();
    while size >= least * 2 && size.0.is_multiple_of(2 * block.0) {
        size = Bytes(size.0 / 2);
    }
    Overwriting { size, both: Vec::new(), writes: Vec::new(), seen: None, merges: None, elsewhere: 0 }
}

/// Overwrites the device from where it was on until a cycle that begins later foretells itself, or `until`; more than
/// that, and up to `most`, if there may be such a cycle soon.
pub(super) fn overwrite(
    session: &mut Session<'_, '_>,
    found: &mut Overwriting,
    until: Bytes,
    most: Bytes,
) -> Result<(), Halt> {
    let (capacity, size) = (session.capacity(), found.size);
    let writes = |bytes: Bytes| (bytes.min(capacity).0 / size.0) as usize;
    let of_device = |share: f64| writes(Bytes((capacity.0 as f64 * share) as u64));
    let (until, most) = (writes(until), writes(most));
    if !found.both.is_empty() && found.merges.is_none() && !maps_pages(session) {
        found.merges = Some(merges_far_apart(session, found)?);
    }
    if found.merges == Some(true) {
        return Ok(());
    }
    let shortest = row_of_all_dies(session).map_or(0, |row| (row * ROWS_LEAST).0 / size.0) as usize;
    let mut candidates: Vec<Seen> = Vec::new();
    loop {
        let known = found.both.len();
        let soon = candidates.iter().any(|seen| seen.onset.is_some());
        let most = if soon { most } else { until };
        if known >= most {
            found.look_for_late(shortest, of_device(LATER));
            return Ok(());
        }
        let longest = candidates.iter().map(|seen| seen.cycle.period + seen.cycle.width).max().unwrap_or(0);
        let first = of_device(FIRST).clamp(64, FIRST_MOST);
        let count = first.max((known as f64 * GROWTH) as usize).max(longest).min(most - known);
        match write_on(session, found, count) {
            Err(Halt::Time | Halt::Budget { .. }) if known > 0 => {
                found.look_for_late(shortest, of_device(LATER));
                return Ok(());
            }
            other => other?,
        }
        let foretold = |seen: &Seen| {
            let costs = without(&seen.rows, &found.costs(seen.of_writes)[known..], known);
            let (windows, stalled, gain) = seen.cycle.foretells(&costs, known);
            let right = windows >= 1 && stalled as f64 >= FORETOLD * windows as f64 && gain >= FORETOLD_GAIN;
            right.then_some(Seen { windows, stalled, ..*seen })
        };
        let mut confirmed: Vec<Seen> = candidates.iter().filter_map(foretold).collect();
        confirmed.retain(|seen| {
            let costs = without(&seen.rows, found.costs(seen.of_writes), 0);
            !is_by_the_clock(&seen.cycle, &costs, &found.both)
        });
        found.seen = likeliest(&confirmed).filter(|seen| seen.is_likelier(found.seen)).or(found.seen);
        found.seen = found.seen.map(|seen| found.with_likeliest_part(seen, shortest));
        if found.seen.is_some_and(|seen| seen.onset.is_some()) {
            return Ok(());
        }
        candidates = found.candidates(shortest, of_device(LATER));
    }
}

/// Whether pages are likely to lie anywhere: there is a fast region, or dies take single rows in turns. Then writes far apart
/// would use up one die's space before that of the others.
fn maps_pages(session: &Session<'_, '_>) -> bool {
    let known = session.known();
    let fast = known.bytes(Parameter::FastRegionSize).is_some_and(|size| size > Bytes::ZERO);
    let row = known.bytes(Parameter::ReadPageSize).zip(known.count(Parameter::PlanesReadAtOnce));
    fast || row.is_some_and(|(page, planes)| known.bytes(Parameter::ChunkSize) == Some(page * planes))
}

/// Whether single writes far apart, down the addresses, cost a merge each. Distances of three times a power of two are on the same die for
/// most numbers of dies.
fn merges_far_apart(session: &mut Session<'_, '_>, found: &mut Overwriting) -> Result<bool, Halt> {
    let size = IO_SIZE.max(session.block());
    let full = buffer(session).most(session).0 / size.0;
    let count = FAR_WRITES + full;
    let affordable = Bytes((session.capacity().0 as f64 * FAR_PART) as u64).min(session.writes_left());
    let part = session.capacity().0 / PLACES / size.0 / 3;
    if part == 0 || size * count > affordable {
        return Ok(false);
    }
    let distance = size * 3 * (1 << part.ilog2());
    let writes = ios(Mode::Write, Location::Ordered { incr: -1 }, size, PLACES)
        .on_target(Bytes::ZERO, distance * PLACES);
    let mut samples = Vec::new();
    for round in 0..count.div_ceil(PLACES) {
        // None is at the beginning of a block.
        let mut writes = shifted(apart(writes.clone(), distance), size * 3);
        writes.io_count = Some(PLACES.min(count - round * PLACES));
        samples.extend(session.run("far-apart", &writes)?);
    }
    let as_many = (size.0 * samples.len() as u64).div_ceil(found.size.0) as usize;
    found.elsewhere += as_many;
    for costs in [&mut found.both, &mut found.writes] {
        costs.resize(costs.len() + as_many, median(costs));
    }
    let known = session.known().number(Parameter::ParallelUnits);
    let one = session.fill_cost() * size.0 as f64 * known.unwrap_or(DIES).max(1.0);
    Ok(pace(&samples, FAR_LATE) > MERGED * one)
}

/// A row of pages of every die, if the pages and the dies are known.
fn row_of_all_dies(session: &Session<'_, '_>) -> Option<Bytes> {
    let known = session.known();
    let page = known.bytes(Parameter::ReadPageSize)?;
    let planes = known.count(Parameter::PlanesReadAtOnce).unwrap_or(1);
    Some(page * (planes * known.count(Parameter::ParallelUnits)?))
}

/// Writes `count` more, and reads anywhere between them.
fn write_on(session: &mut Session<'_, '_>, found: &mut Overwriting, count: usize) -> Result<(), Halt> {
    let (capacity, count) = (session.capacity(), count as u64);
    let reads = ios(Mode::Read, Location::Random, READ_SIZE.max(session.block()), count);
    let writes = ios(Mode::Write, Location::Sequential, found.size, 2 * count)
        .on_target(found.size * (found.both.len() - found.elsewhere) as u64, found.size * count);
    let mut second = reads.first;
    second.target_size = Some(capacity);
    let pattern = Pattern { mix: Some(Mix { second, ratio: 1 }), ..writes };
    for sample in session.run("overwriting", &pattern)? {
        let took = sample.response().0 as f64;
        if sample.mode.is_write() {
            found.writes.push(took);
            found.both.push(took);
        } else if let Some(last) = found.both.last_mut() {
            *last += took;
        }
    }
    Ok(())
}

/// Whether from a write on so much more is done that blocks are copied, and not only erased.
fn copies(cycle: &Cycle, costs: &[f64], onset: usize) -> bool {
    let (before, after) = costs.split_at(onset.min(costs.len()));
    let cut = CUT * median(costs);
    let usual = |costs: &[f64]| mean(&costs.iter().map(|cost| cost.min(cut)).collect::<Vec<_>>());
    level(cycle, costs) > ERASE_MOST || usual(after) > COPIES * usual(before)
}

/// What begins later is no buffer's, if it is not much less likely; else the likeliest is taken, or a part of it that is
/// hardly less likely.
fn likeliest(seen: &[Seen]) -> Option<Seen> {
    let most =
        |seen: &mut dyn Iterator<Item = Seen>| seen.max_by(|a, b| a.cycle.gain.total_cmp(&b.cycle.gain));
    let best = most(&mut seen.iter().copied())?;
    let later = |seen: &Seen| seen.onset.is_some() && seen.cycle.gain >= LATER_GAIN * best.cycle.gain;
    let best = most(&mut seen.iter().copied().filter(later)).unwrap_or(best);
    let is_part = |seen: &&Seen| {
        let (part, whole) = (seen.cycle.period, best.cycle.period);
        let parts = (whole as f64 / part as f64).round();
        part < whole
            && seen.onset.is_some() == best.onset.is_some()
            && seen.cycle.gain >= PART_GAIN * best.cycle.gain
            && (part as f64 * parts - whole as f64).abs() <= best.cycle.width as f64
    };
    seen.iter().filter(is_part).min_by_key(|seen| seen.cycle.period).copied().or(Some(best))
}
