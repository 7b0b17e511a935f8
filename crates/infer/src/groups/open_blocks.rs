//! How many blocks can be written to in turns: the log list (Sun and Zhang, section 4.3).
//!
//! # Model
//! Where logs belong to one block each, it is how many blocks that were written to last still have one (`recency`):
//! any other one costs a merge, as in Table 2 of the paper.
//!
//! Logs that all blocks share (FAST) take pages of any blocks, and have another limit: how long a page may lie in
//! them. One page is written, and then its neighbour again and again, which fills one log block after the other. When
//! the ring comes round to the page's log block, the page's block is merged; before, only logs without anything
//! valid were erased. What was written meanwhile, in blocks, is the number of logs. A merge that is put off is seen as well: it is
//! done in parts before the writes that follow, all of which are slower than behind an erase.
//!
//! # Invariants
//! - a number is found only if it was seen again.

mod recency;

use flashlab_analysis::inference::{Axis, Family, Finding, Parameter, Picture, ReclaimUnit, Style};
use flashlab_base::Bytes;
use flashlab_plan::Location;

use super::figures::{median, quantile};
use super::stalls::{Stalls, stalls};
use super::writes::{Buffer, buffer, costs_of, dies_in_doubt, page_to_write, place, writes};
use crate::halt::Halt;
use crate::priors;
use crate::probe::Probe;
use crate::rule::{LIKELY_LEAST, Rule};
use crate::session::Session;
use crate::words::{duration, times};
use recency::recency;

pub(crate) const PROBE: Probe = Probe {
    name: "open-blocks",
    about: "single pages in many blocks of one die: in how many blocks can the device write without a merge?",
    parameters: &[Parameter::OpenBlocks],
    supposes: &[],
    write_share: 0.04,
};

/// How sure a number of logs is that was confirmed; where it is close to the number of places; and that was not.
const CONFIRMED: Rule = Rule::strong("recency confirmed");
const CLOSE: Rule = Rule::likely("recency confirmed, few blocks");
const LIKELY: Rule = Rule::weak("recency");
/// A merge reads and writes a block and erases two: it takes several times what one erase takes.
const MERGE_OF_ERASE: f64 = 3.0;
/// Openings of logs that have to be seen in one place, and of so many all but one have to cost an erase.
const OPENINGS_LEAST: usize = 20;
const ALL_BUT_ONE_OF: usize = 20;
/// In so many logs at most is done what a merge puts off.
const PUT_OFF_MOST: usize = 20;
/// What takes so many times what nine tenths of the writes take at most is an outlier.
const LONGER: f64 = 1.5;
/// How often the shared logs are gone round, at the most where rounds do not agree, and how many have to.
const ROUNDS: usize = 4;
const ROUNDS_MOST: usize = 7;
const AGREE: usize = 2;
/// What single pages took is a whole number of units up to this share of one, and how sure that is.
const WHOLE: f64 = 0.06;
const FILLED: Rule = Rule::strong("single pages fill");

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    session.look_through();
    let known = session.known();
    let family = known.family();
    let family_rule = known.premise(Parameter::TranslationFamily);
    let is_shared = family == Some(Family::SharedLogBlock);
    // Single pages may have told them when the space beyond the capacity was looked for.
    let supposed = session.supposed(Parameter::OpenBlocks).filter(|_| is_shared);
    let is_clear = supposed.as_ref().is_some_and(|seen| seen.confidence >= LIKELY_LEAST);
    let seen = supposed.map(|seen| family_rule.limits(seen));
    if is_shared && let Some(told) = seen.clone().filter(|_| is_clear).or_else(|| full(session)) {
        session.conclude(told);
        return Ok(());
    }
    let maps_pages = family.is_some_and(Family::maps_pages);
    let is_sure = family_rule.is_strong() || seen.is_some();
    let counted = if (maps_pages || is_shared) && is_sure { None } else { count(session)? };
    if is_shared && counted.is_none() {
        let counted = ring(session)?;
        session.conclude(seen.filter(|_| counted.value.is_none()).unwrap_or(counted));
        return Ok(());
    }
    // Where going to another segment group costs, only the place that was written to last is cheap, whatever the layer.
    let groups = session.known().count(Parameter::SegmentGroups).is_some_and(|groups| groups > 1);
    let of_groups = |counted: &Finding| groups && counted.number() == Some(1.0);
    session.conclude(match counted {
        // A page map of which nothing is sure has to be refuted.
        Some(counted) if !maps_pages || !LIKELY.decided(&counted) && !of_groups(&counted) => counted,
        _ if maps_pages => {
            let reason =
                "The device can put every page anywhere, so that no write depends on which blocks are open.";
            Rule::not_identifiable(Parameter::OpenBlocks, Rule::strong("page map").min(family_rule), reason)
        }
        _ => {
            let reason = "The cost of a write does not depend on how long ago its block was written to.";
            Finding::undetermined(Parameter::OpenBlocks, reason)
        }
    });
    Ok(())
}

/// Logs of one block each, by how long ago blocks were written to.
fn count(session: &mut Session<'_, '_>) -> Result<Option<Finding>, Halt> {
    let Some(told) = recency(session)? else { return Ok(None) };
    let evidence = format!(
        "Single-page writes that alternate between {} blocks of one die are fast in the {} most recent blocks, and take {} the time \
         in the others. The log-likelihood ratio to any other number of open blocks is {:.0} or more.{}",
        told.places,
        told.logs,
        times(told.contrast),
        told.margin,
        if told.confirmed {
            " Writes that alternate between this number of blocks stay fast, and with one block more they are slow."
        } else {
            ""
        },
    );
    let sure = match told.confirmed {
        true if 2 * told.logs <= told.places => CONFIRMED,
        true => CLOSE,
        false => LIKELY,
    };
    // Where what merges is unclear, as where merges are put off, what is cheap may be so for another reason.
    let sure = sure.min(session.known().premise(Parameter::TranslationFamily));
    Ok(Some(Rule::found(Parameter::OpenBlocks, told.logs, sure, evidence).with(told.picture)))
}

/// Shared logs that single pages had filled when more of them began to wait: as many as there are whole units.
fn full(session: &Session<'_, '_>) -> Option<Finding> {
    let (known, block) = (session.known(), Parameter::EraseBlockSize);
    let (taken, unit) = (session.fill().full_after?, known.bytes(block)?);
    let logs = taken.0 as f64 / unit.0 as f64;
    let count = logs.round();
    let sure = FILLED.min(known.premise(block)).min(known.premise(Parameter::TranslationFamily));
    let evidence = format!(
        "Single pages in different blocks of one die begin to wait after {taken} of all dies, which is {logs:.2} log blocks of {unit}."
    );
    let is_whole = taken <= session.capacity()
        && (1.0..=priors::LOGS_MOST).contains(&count)
        && (logs - count).abs() <= WHOLE;
    let seen = known.supposed(Parameter::PhysicalCapacity).and_then(|finding| finding.picture.clone());
    is_whole.then(|| Rule::found(Parameter::OpenBlocks, count as u64, sure, evidence).seen_in(seen))
}

/// Goes round shared logs: a page, then its neighbour until the page's block is merged.
fn ring(session: &mut Session<'_, '_>) -> Result<Finding, Halt> {
    let parameter = Parameter::OpenBlocks;
    let size = page_to_write(session);
    let spot = place(session, 0.57, Bytes::mib(1)) + size;
    // A part of a page takes a whole one of a log; a buffer waits for the rest of it.
    let io = if buffer(session) == Buffer::None { session.block().min(size) } else { size };
    // Old logs make room until only those of the spot are left; then there are erases only.
    let mut settled: Vec<f64> = Vec::new();
    let mut quiet = None;
    while settled.len() < 1 << 16 && quiet.is_none() {
        let count = (settled.len() as u64 / 2).max(512);
        settled.extend(costs_of(session, "settle", &writes(Location::Sequential, io, count, spot, io))?);
        quiet = Quiet::of(&settled[settled.len() / 2..]);
    }
    let Some(quiet) = quiet else {
        let evidence =
            format!("In {} writes to one offset no erase comes back at a regular distance.", settled.len());
        return Ok(Finding::undetermined(parameter, evidence));
    };
    let erases = quiet.erases;
    // Writes since the phase was counted from: a log is opened whenever they are the phase and whole periods.
    let mut written = settled.len() - settled.len() / 2;
    let (mut counts, mut drawn) = (Vec::new(), Vec::new());
    while counts.len() < ROUNDS || agreed(&counts).is_none() && counts.len() < ROUNDS_MOST {
        match around(session, [spot, neighbour(session, spot), io], &quiet, &mut written, &mut drawn) {
            Ok(Some(count)) => counts.push(count),
            Ok(None) => break,
            // What was seen until here counts.
            Err(Halt::Budget { .. }) if !counts.is_empty() => break,
            Err(halt) => return Err(halt),
        }
    }
    let picture = Picture::new(
        "One page is written once, then its neighbour repeatedly: each full log block costs an erase, and the log block of the page a merge.",
        Axis::linear("log blocks allocated since the page", ""),
        Axis::logarithmic("response time", "ns"),
    )
    .draw("writes", Style::Dots, drawn);
    let agreed = agreed(&counts);
    let picture = match agreed {
        Some(count) => picture.mark(count as f64, format!("log {count}")),
        None => picture,
    };
    let family = session.known().premise(Parameter::TranslationFamily);
    // Of several logs that are emptied at once the first page that is merged tells the number only roughly.
    let logs = session.fill().unit.filter(|unit| unit.logs.is_some()).map(|unit| unit.size);
    let taken = size * (erases.period as u64 * session.known().count(Parameter::ParallelUnits).unwrap_or(1));
    let together = logs.is_some_and(|log| taken >= log * 2);
    let agreed = agreed.filter(|_| !together);
    let evidence = format!(
        "After a page was written, writes of {io} to its neighbour fill one log block after the other. The page is merged when log \
         block {} is allocated. A log block takes {} writes, and an erase {}.",
        counts.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        erases.period,
        duration(erases.level)
    );
    let finding = match agreed {
        Some(count) => {
            let is_one = counts.len() >= ROUNDS && counts.iter().all(|&other| other == count);
            // If several logs are emptied at once they may have looked like one.
            Rule::found(
                parameter,
                count,
                if is_one {
                    Rule::likely("round the logs")
                } else {
                    Rule::likely("round the logs, not always")
                }
                .min(family),
                evidence,
            )
        }
        None => Finding::undetermined(parameter, evidence),
    };
    if let Some(dies) = session.known().count(Parameter::ParallelUnits)
        && let Some(logs) = finding.number()
    {
        // Each of these writes took a page of one die.
        let unit = size * (dies.max(1) * erases.period as u64);
        session.fill_mut().unit = Some(ReclaimUnit::of_logs(unit, logs as u32));
    }
    Ok(finding.with(picture))
}

/// The count that several rounds agree on, and nearly all that are not smaller: outliers look like merges that come too early, each
/// elsewhere.
fn agreed(counts: &[u64]) -> Option<u64> {
    let votes = |count: u64| counts.iter().filter(|&&other| other == count).count();
    let most = counts.iter().copied().filter(|&count| votes(count) >= AGREE).max()?;
    let larger = counts.iter().filter(|&&other| other > most).count();
    (votes(most) > 2 * larger).then_some(most)
}

/// Another page of the same block: the next one, or the one a stripe farther where a chunk has few.
fn neighbour(session: &Session<'_, '_>, spot: Bytes) -> Bytes {
    let (known, size) = (session.known(), page_to_write(session));
    match (known.bytes(Parameter::ChunkSize), known.bytes(Parameter::StripeSize)) {
        (Some(chunk), Some(stripe)) if chunk <= size * 2 => {
            spot + stripe * dies_in_doubt(session).into_iter().max().unwrap_or(1)
        }
        _ => spot + size,
    }
}

/// Writes a page, and then its neighbour until the page is merged: with the opening of which log.
fn around(
    session: &mut Session<'_, '_>,
    [spot, other, io]: [Bytes; 3],
    quiet: &Quiet,
    written: &mut usize,
    drawn: &mut Vec<(f64, f64)>,
) -> Result<Option<u64>, Halt> {
    let period = quiet.erases.period;
    // What a buffer holds is between a page and the opening that the host waits for.
    let held = match buffer(session) {
        Buffer::Holds(held) => (held.0 / page_to_write(session).0) as i64,
        Buffer::None | Buffer::Unknown => 0,
    };
    let again = writes(Location::Sequential, io, period as u64, spot, io);
    costs_of(session, "one-page", &writes(Location::Sequential, io, 1, other, io))?;
    *written += 1;
    let first = quiet.next_opening(*written);
    let mut costs: Vec<f64> = Vec::new();
    let opened = loop {
        costs.extend(costs_of(session, "its-neighbour", &again)?);
        if let Some(at) = quiet.merge(&costs[first.min(costs.len())..]) {
            let opened = at as i64 + 1 + (first as i64 - held).div_euclid(period as i64);
            break u64::try_from(opened).ok().filter(|&opened| opened > 0);
        }
        if costs.len() > period * priors::LOGS_MOST as usize {
            break None;
        }
    };
    // What is put off of it is not the next one's.
    for _ in 0..PUT_OFF_MOST {
        if !quiet.is_slow(&costs[costs.len() - period..]) {
            break;
        }
        costs.extend(costs_of(session, "its-neighbour", &again)?);
    }
    *written += costs.len();
    let before = 1 + (first as i64 - held).div_euclid(period as i64);
    let logs = |at: usize| (at as f64 - first as f64) / period as f64 + before as f64;
    drawn.extend(costs.iter().enumerate().map(|(at, &cost)| (logs(at), cost)));
    Ok(opened)
}

/// Writes in one place, when each log that is opened costs an erase only.
#[derive(Clone, Debug)]
struct Quiet {
    erases: Stalls,
    /// What is longer counts as long as this: outliers.
    longest: f64,
    /// What all writes of a log take at most.
    slowest: f64,
}

impl Quiet {
    /// None where logs that are opened may still hold pages of others.
    fn of(costs: &[f64]) -> Option<Quiet> {
        let is_quiet = |erases: &&Stalls| {
            erases.hits * ALL_BUT_ONE_OF >= erases.periods * (ALL_BUT_ONE_OF - 1)
                && erases.periods >= OPENINGS_LEAST
        };
        let erases = *stalls(costs).first().filter(is_quiet)?;
        let mut quiet = Quiet { erases, longest: LONGER * quantile(costs, 0.9), slowest: 0.0 };
        let logs = costs[erases.phase..].chunks_exact(erases.period);
        let taken: Vec<f64> = logs.map(|log| quiet.taken(log)).collect();
        let most = taken.iter().copied().fold(0.0, f64::max);
        quiet.slowest = most + (most - median(&taken));
        Some(quiet)
    }

    /// How many writes there are before the next opening, after so many since the phase was counted from.
    fn next_opening(&self, written: usize) -> usize {
        let Stalls { phase, period, .. } = self.erases;
        (phase + period - written % period) % period
    }

    fn taken(&self, costs: &[f64]) -> f64 {
        costs.iter().map(|cost| cost.min(self.longest)).sum()
    }

    /// Whether writes of a log are slower than when logs are only erased: a merge that is put off is done in parts before each.
    fn is_slow(&self, costs: &[f64]) -> bool {
        costs.len() >= self.erases.period && self.taken(&costs[..self.erases.period]) > self.slowest
    }

    /// The opening at which a block is merged, of writes that begin with one.
    fn merge(&self, costs: &[f64]) -> Option<usize> {
        let merge = self.erases.level * MERGE_OF_ERASE;
        let is_merge = |opened: &[f64]| opened[0] > merge || self.is_slow(opened);
        costs.chunks(self.erases.period).position(is_merge)
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Writes in logs of so many pages; erases, and one merge at the opening of a log, which are done at once or in parts.
    fn costs(seed: u64, period: usize, merged: usize, slice: Option<f64>) -> Vec<f64> {
        let mut random = Prng::new(Seed(seed));
        let mut owed: f64 = 0.0;
        let mut write = |at: usize| {
            let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
            let work = match at % period {
                0 if at == merged * period => 60e6,
                0 => 2e6,
                _ => 0.0,
            };
            owed += work;
            let done = owed.min(slice.unwrap_or(owed));
            owed -= done;
            (1e6 * (0.95 + 0.1 * random.unit()) + done) * outlier
        };
        (0..(merged + 4) * period).map(&mut write).collect()
    }

    #[test]
    fn a_merge_is_seen_at_its_opening_also_if_it_is_put_off() {
        for (seed, slice) in [None, Some(0.5e6), Some(1.5e6)].into_iter().enumerate() {
            for period in [32, 96] {
                let all = costs(seed as u64, period, 70, slice);
                let quiet = Quiet::of(&all[..60 * period]).unwrap();
                assert_eq!(quiet.erases.period, period);
                let begin = 66 * period + quiet.next_opening(66 * period);
                let merged = quiet.merge(&all[begin..]);
                assert_eq!(merged, Some(70 - begin / period), "{slice:?} {period}");
            }
        }
    }

    #[test]
    fn old_logs_are_not_quiet() {
        let few = costs(1, 32, 70, None);
        assert!(Quiet::of(&few[..10 * 32]).is_none());
    }
}
