//! How many blocks can be written to in turns: the log list (Sun and Zhang, section 4.3).
//!
//! # Model
//! Rounds of `m` writes, each one unit further than the one before; the next round begins one page further (Ordered
//! with Incr of one unit on a target of `m` units). As long as `m` blocks can be open, every unit keeps its log block and
//! writes are cheap from the second round on. With one more each write finds that its log block was given away
//! a round before, and costs a merge: Table 2 of the paper. So `m` is doubled until writes cost a merge and then
//! bisected; the last cheap and the first expensive `m` are tried again at another place.
//!
//! Logs that all blocks share (FAST) take pages of any blocks, and have another limit: how long a page may lie in
//! them. One page is written, and then its neighbour again and again, which fills one log block after the other. When
//! the ring comes round to the page's log block, the page's block is merged; before, only logs without anything
//! valid were erased. What was written meanwhile, in blocks, is the number of logs.
//!
//! # Invariants
//! - a round begins with the second: the first one opens the logs;
//! - the number is found only if the cliff is where it was at another place.

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::Location;

use super::figures::median;
use super::patterns::responses;
use super::stalls::{Stalls, stalls};
use super::writes::{Buffer, buffer, pace, place, times, unit, writes};
use crate::group::Group;
use crate::halt::Halt;
use crate::session::Session;

pub(crate) const GROUP: Group = Group {
    name: "open-blocks",
    about: "rounds of writes one unit apart, over more and more units, until each costs a merge",
    parameters: &[Parameter::OpenBlocks],
    supposes: &[],
    write_share: 0.04,
    probe,
};

/// Writes in the rounds of each `m`, at least.
const WRITES: u64 = 160;
/// What was put off is done meanwhile.
const REST: Nanos = Nanos::from_secs(5);
/// More open blocks are not looked for.
const MOST: u64 = 256;
/// As in the family's probe: a merge costs many times what a page costs.
const CHEAP: f64 = 4.0;
const MERGE: f64 = 8.0;
/// The dies that are assumed where they are not known.
const DIES: f64 = 4.0;
/// A merge reads and writes a block and erases two: it takes several times what one erase takes.
const MERGE_OF_ERASE: f64 = 3.0;
/// How often the shared logs are gone round.
const ROUNDS: usize = 4;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let known = session.known();
    let family = known.word(Parameter::TranslationFamily).map(str::to_owned);
    match (family.as_deref(), known.bytes(Parameter::EraseBlockSize)) {
        (Some("page" | "demand-cached page"), _) => {
            let reason = "every page may lie anywhere: no writes depend on which blocks are open";
            let confidence = session.known().confidence(Parameter::TranslationFamily);
            session.conclude(Finding::not_identifiable(Parameter::OpenBlocks, confidence, reason));
            Ok(())
        }
        (Some("block" | "log-block"), Some(block)) => rounds(session, block),
        (Some("shared log-block"), _) => match session.supposed(Parameter::OpenBlocks) {
            // Single pages told them when the space beyond the capacity was looked for.
            Some(seen) => {
                let family = session.known().confidence(Parameter::TranslationFamily);
                session.conclude(Finding { confidence: seen.confidence.min(family), ..seen });
                Ok(())
            }
            None => ring(session),
        },
        (_, _) => {
            let reason = "the translation layer or its erase block is not known";
            session.conclude(Finding::undetermined(Parameter::OpenBlocks, reason));
            Ok(())
        }
    }
}

/// What writes in rounds over units cost.
struct Rounds {
    size: Bytes,
    buffer: Buffer,
    block: Bytes,
    base: f64,
    /// By the number of units: the median cost.
    costs: Vec<(u64, f64)>,
}

impl Rounds {
    fn run(&mut self, session: &mut Session<'_, '_>, units: u64, part: f64) -> Result<f64, Halt> {
        let length = self.block * units;
        let slots = self.block.0 / self.size.0;
        let full = self.buffer.most(session).0 * 9 / 8 / self.size.0;
        let count = ((full + WRITES).div_ceil(units).max(4) * units).min(units * slots);
        let origin = place(session, part, self.block);
        let room = Bytes(session.capacity().0.saturating_sub(length.0)).round_down(self.block);
        let incr = if units == 1 { 1 } else { slots as i64 };
        let pattern = writes(Location::Ordered { incr }, self.size, count, origin.min(room), length);
        session.rest(REST)?;
        let samples = session.run("rounds", &pattern)?;
        let cost = match self.buffer {
            Buffer::None => median(&responses(&samples)[units as usize..]),
            _ => pace(&samples, WRITES * 3 / 4),
        };
        let cost = cost / self.base;
        self.costs.push((units, cost));
        Ok(cost)
    }

    fn picture(&self) -> Picture {
        Picture::new(
            "Median cost of writes in rounds over units, relative to one unit: with too many each costs a merge.",
            Axis::logarithmic("units in turn", ""),
            Axis::logarithmic("cost", "ratio"),
        )
        .draw("rounds", Style::Dots, self.costs.iter().map(|&(m, cost)| (m as f64, cost.max(1e-3))).collect())
    }
}

fn rounds(session: &mut Session<'_, '_>, block: Bytes) -> Result<(), Halt> {
    let parameter = Parameter::OpenBlocks;
    let size = unit(session);
    if !block.0.is_multiple_of(size.0) || block.0 / size.0 < 8 {
        session.conclude(Finding::undetermined(parameter, format!("{block} are too few writes of {size}")));
        return Ok(());
    }
    let buffer = buffer(session);
    let mut rounds = Rounds { size, buffer, block, base: 1.0, costs: Vec::new() };
    // Behind a buffer one unit is written by all dies at the same time, and a round goes to one of them.
    let dies = match buffer {
        Buffer::None => 1.0,
        _ => session.known().number(Parameter::ParallelUnits).unwrap_or(DIES).max(1.0),
    };
    rounds.base = (rounds.run(session, 1, 0.61)? * dies).max(1.0);
    rounds.costs = vec![(1, 1.0)];
    let most = (session.capacity().0 / block.0 / 2).min(MOST);
    let (mut open, mut many) = (1, 2);
    loop {
        if many > most {
            let evidence = format!("writing to {open} units in turns is still as cheap as to one");
            session.conclude(Finding::undetermined(parameter, evidence).with(rounds.picture()));
            return Ok(());
        }
        if rounds.run(session, many, 0.21)? >= CHEAP {
            break;
        }
        (open, many) = (many, many * 2);
    }
    while many - open > 1 {
        let middle = open.midpoint(many);
        let is_cheap = rounds.run(session, middle, 0.21)? < CHEAP;
        *(if is_cheap { &mut open } else { &mut many }) = middle;
    }
    let cheap = rounds.run(session, open, 0.41)?;
    let merging = rounds.run(session, many, 0.41)?;
    let evidence = format!(
        "from the second round on, writes to {open} units in turns cost {cheap:.1} times what those to one cost, \
         and to {many} units {merging:.1} times"
    );
    let [block, family] =
        [Parameter::EraseBlockSize, Parameter::TranslationFamily].map(|of| session.known().confidence(of));
    let sure = block.min(family).min(0.97);
    let picture = rounds.picture().mark(open as f64 + 0.5, "open blocks");
    let finding = if cheap <= CHEAP && merging >= CHEAP && merging >= MERGE / CHEAP * cheap {
        Finding::found(parameter, open, sure, evidence)
    } else {
        Finding::undetermined(parameter, evidence)
    };
    session.conclude(finding.with(picture));
    Ok(())
}

/// Goes round shared logs: a page, then its neighbour until the page's block is merged.
fn ring(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let parameter = Parameter::OpenBlocks;
    let size = unit(session);
    let spot = place(session, 0.57, Bytes::mib(1)) + size;
    let one = |offset: Bytes, count| writes(Location::Sequential, size, count, offset, size);
    // Old logs make room until only those of the spot are left; then there are erases only.
    let mut settled: Vec<f64> = Vec::new();
    let mut quiet = None;
    while settled.len() < 1 << 16 && quiet.is_none() {
        let count = (settled.len() as u64 / 2).max(512);
        settled.extend(times(session, "settle", &one(spot, count))?);
        let found = stalls(&settled[settled.len() / 2..]);
        quiet = found.first().filter(|erases| erases.hits * 20 >= erases.periods * 19).copied();
    }
    let Some(erases) = quiet else {
        let evidence = format!("{} writes in one place show no period of erases", settled.len());
        session.conclude(Finding::undetermined(parameter, evidence));
        return Ok(());
    };
    // Writes since the phase was counted from: a log is opened whenever they are the phase and whole periods.
    let mut written = settled.len() - settled.len() / 2;
    let (mut counts, mut drawn) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        match around(session, spot, size, &erases, &mut written, &mut drawn) {
            Ok(count) => counts.extend(count),
            // What was seen until here counts.
            Err(Halt::Budget { .. }) if !counts.is_empty() => break,
            Err(halt) => return Err(halt),
        }
    }
    let picture = Picture::new(
        "One page, then its neighbour again and again: each filled log costs an erase, and the page's own a merge.",
        Axis::linear("written", "bytes"),
        Axis::logarithmic("response time", "ns"),
    )
    .draw("writes", Style::Dots, drawn);
    let family = session.known().confidence(Parameter::TranslationFamily);
    let votes = |count: u64| counts.iter().filter(|&&other| other == count).count();
    let most = counts.iter().copied().max_by_key(|&count| votes(count));
    let evidence = format!(
        "a log takes {} writes of {size}; the page beside them is merged with the opening of log {counts:?} after it \
         (erases take {})",
        erases.period,
        Nanos(erases.level as u64)
    );
    let finding = match most.map(|count| (count, votes(count))) {
        Some((count, ROUNDS)) => Finding::found(parameter, count, family.min(0.94), evidence),
        Some((count, votes)) if 3 * votes > 2 * counts.len() => {
            Finding::found(parameter, count, family.min(if votes > 1 { 0.85 } else { 0.6 }), evidence)
        }
        _ => Finding::undetermined(parameter, evidence),
    };
    session.conclude(finding.with(picture));
    Ok(())
}

/// Writes a page, and then its neighbour until the page is merged: with the opening of which log.
fn around(
    session: &mut Session<'_, '_>,
    spot: Bytes,
    size: Bytes,
    erases: &Stalls,
    written: &mut usize,
    drawn: &mut Vec<(f64, f64)>,
) -> Result<Option<u64>, Halt> {
    let one = |offset: Bytes, count| writes(Location::Sequential, size, count, offset, size);
    let merge = erases.level * MERGE_OF_ERASE;
    times(session, "one-page", &one(spot + size, 1))?;
    *written += 1;
    let mut costs: Vec<f64> = Vec::new();
    let opened = loop {
        let first = (erases.phase + erases.period - *written % erases.period) % erases.period;
        costs.extend(times(session, "its-neighbour", &one(spot, erases.period as u64))?);
        let openings = || costs.iter().skip(first).step_by(erases.period);
        if let Some(at) = openings().position(|&cost| cost > merge) {
            break Some(at as u64 + 1);
        }
        if costs.len() > erases.period * MOST as usize {
            break None;
        }
    };
    *written += costs.len();
    drawn.extend(costs.iter().enumerate().map(|(i, &cost)| (i as f64 * size.0 as f64, cost)));
    Ok(opened)
}
