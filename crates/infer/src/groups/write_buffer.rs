//! The memory that takes writes before they are on the flash, and when it is emptied.
//!
//! # Model
//! After a rest a buffer is empty: writes cost what the command and the link take, until it is full; from then on each
//! write waits until earlier ones are on the flash. Sequential writes of whole pages show it best, as no translation
//! layer has much to do for them. Of bursts that are all alike the medians, write by write, have next to no noise.
//!
//! A buffer that is emptied at once is a queue in front of some dies: a page leaves it when it is programmed, and a page
//! comes in when there is room. When the `n`-th write is done follows from the buffer, the pages that a die
//! programs at once, and the number of dies, as what they do together is the sustained rate. Of all that are
//! possible the queue is taken whose writes are done when those of the burst are ([`super::queue`]). If none fits, the buffer
//! is the *lead*: by how many writes the burst is ahead of one at the sustained rate from its beginning on.
//!
//! A buffer that is emptied when it is full still holds what was written last ([`super::held`]).
//!
//! A device without a buffer has writes that take longer than reads, as programming does. Where the
//! flash is faster than the link a buffer never fills, and nothing can be seen of it.
//!
//! What is read back after a rest tells when the buffer is emptied: pages that are still in it come faster than others.
//!
//! # Invariants
//! - bursts go one behind the other from the device's beginning on, as a part of filling it: nothing is overwritten,
//!   neither in the buffer nor on the flash;
//! - before each burst the device rests longer than it would take to write all of the last one.

use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use super::figures::{mean, median, quantile};
use super::held::held;
use super::patterns::{ios, responses};
use super::queue::queue;
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "write-buffer",
    about: "bursts of sequential writes after rests, and what is read back after them: the write buffer",
    parameters: &[Parameter::WriteBufferSize, Parameter::WriteBufferFlush],
    write_share: 0.1,
    probe,
};

/// The size of the writes.
const IO_SIZE: Bytes = Bytes::kib(16);
/// Writes of the shortest burst, and of the longest.
const BURST_LEAST: u64 = 32;
const BURST_MOST: u64 = 8192;
/// Bursts of each length.
const REPETITIONS: u64 = 5;
/// A rest is so many times as long as the burst before it,
const REST_FACTOR: u64 = 3;
/// and at least this long.
const REST_LEAST: Nanos = Nanos::from_millis(200);
/// A burst is long enough if it is so many times as long as what passes before the first wait.
const SUSTAINED: usize = 4;
/// A write that takes so many times as long as the first ones waits.
const WAITS: f64 = 1.25;
/// Reads for a comparison.
const READS: usize = 48;
/// Bursts of more writes are not done with small ones, too.
const SMALL_FOR: usize = 512;
/// The size of small reads and writes.
pub(super) const SMALL: Bytes = Bytes::kib(4);
/// A queue fits if its writes are done at the same time as the burst's, but for this part of [`IO_SIZE`] on average.
const FITS: f64 = 0.25;
/// Small writes are taken if they take so many times as long in the sustained part.
const CONTRAST: f64 = 1.5;
/// Random writes at once, and each after a rest of so long.
const RANDOM: u64 = 32;
const RESTED: u64 = 12;
const REST_RANDOM: Nanos = Nanos::from_secs(2);
/// A random write that takes so many times as long as another is merged.
const MERGED: f64 = 3.0;
/// p that reads or writes take as long as others.
const P: f64 = 1e-3;

/// What bursts of one length showed.
pub(super) struct Bursts {
    /// The size of the writes.
    pub(super) size: Bytes,
    /// The medians of the response times, write by write.
    pub(super) costs: Vec<f64>,
    /// The same, added up.
    pub(super) done: Vec<f64>,
    /// What a write takes in the sustained part.
    pub(super) sustained: f64,
    /// What a write takes to come in.
    pub(super) come_in: f64,
}

impl Bursts {
    pub(super) fn of(size: Bytes, runs: &[Vec<f64>]) -> Bursts {
        let length = runs.iter().map(Vec::len).min().unwrap_or(0);
        let costs: Vec<f64> =
            (0..length).map(|index| median(&runs.iter().map(|run| run[index]).collect::<Vec<_>>())).collect();
        let done: Vec<f64> = costs
            .iter()
            .scan(0.0, |sum, cost| {
                *sum += cost;
                Some(*sum)
            })
            .collect();
        // The first may wait already, in a small buffer.
        let come_in = quantile(&costs[..4], 0.25);
        let mut bursts = Bursts { size, sustained: mean(&costs[length / 2..]), costs, done, come_in };
        // From a wait to a wait, where there are several.
        if let Some((first, last, _)) = bursts.late_waits() {
            bursts.sustained = (bursts.done[last] - bursts.done[first]) / (last - first) as f64;
        }
        bursts
    }

    /// Whether a write waits.
    fn waits(&self, index: usize) -> bool {
        self.costs[index] > WAITS * self.come_in
    }

    /// How many writes pass before the first wait; none waits: `None`.
    fn before_waiting(&self) -> Option<usize> {
        (0..self.costs.len()).find(|&index| self.waits(index))
    }

    /// Whether most of the burst came after the first wait.
    fn is_sustained(&self) -> bool {
        self.before_waiting().is_some_and(|before| SUSTAINED * (before + 1) <= self.costs.len())
    }

    /// By how many writes the sustained part is ahead of one without a buffer.
    fn lead(&self) -> f64 {
        let ahead = |index: usize| (index + 1) as f64 - self.done[index] / self.sustained;
        median(&(self.costs.len() / 2..self.costs.len()).map(ahead).collect::<Vec<_>>())
    }

    /// The first and the last wait in the second half, and how many there are, if there are several.
    fn late_waits(&self) -> Option<(usize, usize, usize)> {
        let waits: Vec<usize> =
            (self.costs.len() / 2..self.costs.len()).filter(|&index| self.waits(index)).collect();
        (waits.len() >= 3).then(|| (waits[0], waits[waits.len() - 1], waits.len()))
    }
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let mut bursts = run_bursts(session, size, BURST_LEAST)?;
    let reads = compare_reads(session, size)?;
    let in_memory = faster(&reads.first_writes, &reads.of_writes_size);
    if in_memory {
        bursts = until_sustained(session, bursts)?;
    }
    // Small writes show a small buffer more exactly, if it fills at all with them.
    let small = SMALL.max(session.block());
    if in_memory && bursts.is_sustained() && bursts.costs.len() <= SMALL_FOR {
        let length = bursts.costs.len() as u64 * (size.0 / small.0);
        if session.writes_left() >= small * (length * REPETITIONS) {
            let finer = run_bursts(session, small, length)?;
            let finer = until_sustained(session, finer)?;
            if finer.is_sustained() && finer.sustained > CONTRAST * finer.come_in {
                bursts = finer;
            }
        }
    }
    let flush = flush(&reads);
    let held = if in_memory && flush.value == Some("when-full".into()) {
        let fast = quantile(&reads.recent, 0.25);
        let guess = bursts.size * bursts.before_waiting().unwrap_or(8) as u64;
        held(session, (fast * median(&reads.older)).sqrt(), guess)?
    } else {
        None
    };
    let random = if in_memory { None } else { random_writes(session)? };
    decide(session, &bursts, &reads, in_memory, random, flush, held);
    Ok(())
}

/// What random writes of [`SMALL`] to what was written cost, one after the other and each after a rest.
struct RandomWrites {
    at_once: f64,
    rested: f64,
}

fn random_writes(session: &mut Session<'_, '_>) -> Result<Option<RandomWrites>, Halt> {
    let (size, span) = (SMALL.max(session.block()), session.filled_until());
    let random = |count: u64| ios(Mode::Write, Location::Random, size, count).on_target(Bytes::ZERO, span);
    if span < size * RANDOM || session.writes_left() < size * (RANDOM + RESTED) {
        return Ok(None);
    }
    session.rest(REST_RANDOM)?;
    let at_once = responses(&session.run("random-writes", &random(RANDOM))?);
    let mut rested = Vec::new();
    for _ in 0..RESTED {
        session.rest(REST_RANDOM)?;
        rested.extend(responses(&session.run("random-writes-rested", &random(1))?));
    }
    Ok(Some(RandomWrites { at_once: mean(&at_once[at_once.len() / 2..]), rested: median(&rested) }))
}

/// Longer bursts, until most of one comes after the first wait.
fn until_sustained(session: &mut Session<'_, '_>, mut bursts: Bursts) -> Result<Bursts, Halt> {
    while !bursts.is_sustained() {
        let length = match bursts.before_waiting() {
            Some(before) => SUSTAINED * (before + 2),
            None => 4 * bursts.costs.len(),
        } as u64;
        if length > BURST_MOST || session.writes_left() < bursts.size * (length * REPETITIONS) {
            break;
        }
        bursts = run_bursts(session, bursts.size, length)?;
    }
    Ok(bursts)
}

/// Whether these take less than those.
fn faster(these: &[f64], those: &[f64]) -> bool {
    mann_whitney(these, those).p_below < P && median(these) < 0.95 * median(those)
}

/// Where the next burst goes: behind what was written, as a part of filling the device.
pub(super) fn next_place(session: &mut Session<'_, '_>, length: Bytes) -> Result<Bytes, Halt> {
    let place = session.filled_until();
    if place + length > session.capacity() {
        return Err(Halt::Misfit(format!("bursts of {length} have no place")));
    }
    Ok(place)
}

fn run_bursts(session: &mut Session<'_, '_>, size: Bytes, length: u64) -> Result<Bursts, Halt> {
    let mut rest = REST_LEAST;
    let mut runs: Vec<Vec<f64>> = Vec::new();
    for _ in 0..REPETITIONS {
        let place = next_place(session, size * length)?;
        session.rest(rest)?;
        let pattern = ios(Mode::Write, Location::Sequential, size, length).on_target(place, size * length);
        let samples = session.run("burst", &pattern)?;
        session.filled(size * length);
        let costs = responses(&samples);
        rest = REST_LEAST.max(Nanos(costs.iter().sum::<f64>() as u64) * REST_FACTOR);
        runs.push(costs);
    }
    Ok(Bursts::of(size, &runs))
}

/// Reads of what was just written and rested, and of what was written long before.
struct Reads {
    recent: Vec<f64>,
    older: Vec<f64>,
    /// Reads of older data that are as large as the writes of the bursts.
    of_writes_size: Vec<f64>,
    /// Writes after a rest.
    first_writes: Vec<f64>,
}

fn compare_reads(session: &mut Session<'_, '_>, size: Bytes) -> Result<Reads, Halt> {
    let mut reads =
        Reads { recent: Vec::new(), older: Vec::new(), of_writes_size: Vec::new(), first_writes: Vec::new() };
    // One short piece each time: it has to fit into the buffer.
    let (piece, small) = (size * 2, SMALL.max(session.block()));
    let write = |place: Bytes, size: Bytes, count: u64| {
        ios(Mode::Write, Location::Sequential, size, count).on_target(place, size * count)
    };
    let read =
        |place: Bytes, size: Bytes| ios(Mode::Read, Location::Sequential, size, 1).on_target(place, size);
    while reads.recent.len() < READS && session.writes_left() >= piece {
        let recent = next_place(session, piece)?;
        let written = responses(&session.run("piece", &write(recent, size, 2))?);
        session.filled(piece);
        reads.first_writes.extend(written.first());
        session.rest(REST_LEAST)?;
        // The last page of it is the last to leave.
        let last = recent + piece - small;
        // Each place once: what was read may be in a buffer, too.
        let older = |part: u64, size: Bytes| read(Bytes(recent.0 / part).round_down(size), size);
        reads.of_writes_size.extend(responses(&session.run("read-what-is-older", &older(2, size))?));
        reads.older.extend(responses(&session.run("read-what-is-older", &older(4, small))?));
        reads.recent.extend(responses(&session.run("read-what-is-recent", &read(last, small))?));
    }
    Ok(reads)
}

fn decide(
    session: &mut Session<'_, '_>,
    bursts: &Bursts,
    reads: &Reads,
    in_memory: bool,
    random: Option<RandomWrites>,
    flush: Finding,
    held: Option<Bytes>,
) {
    let size = bursts.size;
    let line = |(index, &done): (usize, &f64)| ((index + 1) as f64 * size.0 as f64, done);
    let picture = Picture::new(
        "A burst after a rest: where the line bends, writes begin to wait for the flash.",
        Axis::linear("written", "bytes"),
        Axis::linear("time since the burst began", "ns"),
    )
    .draw("writes done", Style::Line, bursts.done.iter().enumerate().map(line).collect());
    let waits = match bursts.before_waiting() {
        Some(before) => format!("{before} writes pass before the first waits"),
        None => "none waits".to_owned(),
    };
    let figures = format!(
        "after a rest a write of {IO_SIZE} takes {}, one of {size} {}, in the sustained part of {} writes {}; {waits}; a read of {IO_SIZE} \
         takes {}",
        Nanos(median(&reads.first_writes) as u64),
        Nanos(bursts.come_in as u64),
        bursts.costs.len(),
        Nanos(bursts.sustained as u64),
        Nanos(median(&reads.of_writes_size) as u64),
    );
    if !in_memory {
        // They may wait for the flash, or for a slow link.
        let (writes, others) = (&reads.first_writes, &reads.of_writes_size);
        let significant = mann_whitney(writes, others).p_above < P;
        let longer = |times: f64| significant && median(writes) > times * median(others);
        let writes = bursts.come_in;
        let (sure, why) = match random {
            // A merge is waited for, whatever the rest before it.
            Some(random) if random.rested > MERGED * writes => {
                (Some(0.9), format!("rested random writes of {SMALL} take {}", Nanos(random.rested as u64)))
            }
            Some(random) if random.at_once > MERGED * random.rested => (
                None,
                format!(
                    "random writes of {SMALL} take {} at once, and rested ones {}, as if memory took them",
                    Nanos(random.at_once as u64),
                    Nanos(random.rested as u64)
                ),
            ),
            _ if longer(1.1) => (Some(0.7), "they take longer than reads".to_owned()),
            _ => (None, "they do not take longer than reads".to_owned()),
        };
        let figures = format!("{figures}; {why}");
        conclude_none(session, figures, picture, sure);
        return;
    }
    let when_full = flush.value == Some("when-full".into());
    let held = match held {
        Some(held) => Ok((
            held.0 as f64 / size.0 as f64,
            format!("{held} at the most come faster when they are read back"),
        )),
        None if when_full => {
            Err("what comes faster when it is read back says nothing of what it holds".to_owned())
        }
        None if bursts.is_sustained() => held_as_a_queue(bursts),
        None => Err("the burst is not long enough to see more of it".to_owned()),
    };
    let finding = match held {
        Ok((writes, why)) => {
            let bytes = Bytes((writes * size.0 as f64).round() as u64);
            Finding::found(Parameter::WriteBufferSize, bytes, 0.7, format!("{figures}; {why}"))
                .with(picture.mark(bytes.0 as f64, "what the buffer holds"))
        }
        Err(why) => {
            Finding::undetermined(Parameter::WriteBufferSize, format!("{figures}; {why}")).with(picture)
        }
    };
    session.conclude(finding);
    session.conclude(flush);
}

/// The buffer of the queue that fits, in writes.
fn held_as_a_queue(bursts: &Bursts) -> Result<(f64, String), String> {
    if bursts.sustained < WAITS * bursts.come_in {
        return Err("it hardly fills".to_owned());
    }
    let before = bursts.before_waiting().unwrap_or(0);
    let queue = queue(bursts, bursts.lead(), before).ok_or("no queue fits")?;
    let why = format!(
        "a queue of {:.2} writes in front of {} dies fits but for {:.2} of a write",
        queue.buffer, queue.dies, queue.off
    );
    let off = queue.off * bursts.size.0 as f64 / IO_SIZE.0 as f64;
    if off <= FITS { Ok((queue.buffer, why)) } else { Err(why) }
}

/// There is no buffer, with this confidence; or it cannot be seen.
fn conclude_none(session: &mut Session<'_, '_>, figures: String, picture: Picture, sure: Option<f64>) {
    let (size, flush) = if let Some(sure) = sure {
        let evidence = format!("{figures}: no write is seen to be answered before it is on the flash");
        (
            Finding::found(Parameter::WriteBufferSize, Bytes::ZERO, sure, evidence),
            Finding::not_identifiable(Parameter::WriteBufferFlush, sure, "there is no write buffer"),
        )
    } else {
        let evidence = format!("{figures}: there may be a buffer that never fills");
        (
            Finding::undetermined(Parameter::WriteBufferSize, evidence.clone()),
            Finding::undetermined(Parameter::WriteBufferFlush, evidence),
        )
    };
    session.conclude(size.with(picture));
    session.conclude(flush);
}

/// When the buffer is emptied.
fn flush(reads: &Reads) -> Finding {
    let evidence = format!(
        "{} after a rest, reads of what was written last take {}, and of what was written before {}",
        REST_LEAST,
        Nanos(median(&reads.recent) as u64),
        Nanos(median(&reads.older) as u64),
    );
    let (recent, older) = (median(&reads.recent), median(&reads.older));
    let compared = mann_whitney(&reads.recent, &reads.older);
    match () {
        () if recent < 0.92 * older && compared.p_below < 1e-4 => {
            Finding::found(Parameter::WriteBufferFlush, "when-full", 0.9, evidence)
        }
        () if recent > 0.95 * older && compared.p_below > 1e-3 => {
            Finding::found(Parameter::WriteBufferFlush, "immediately", 0.7, evidence)
        }
        () => Finding::undetermined(Parameter::WriteBufferFlush, evidence),
    }
}
