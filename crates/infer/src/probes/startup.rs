//! How many random writes a rested device takes for less than those after them, the period of the others, and what pauses
//! between them buy.
//!
//! # Model
//! uFLIP section 4.2: work is deferred as long as there is memory or there are spare blocks for it. So the first random
//! writes after idle time are fast, and the number of them is the same after each rest that is long enough. Then
//! costs oscillate with a period, or at random. Each of several runs is looked at by `phases`; the median over the
//! runs, write by write, shows a change of level that is smaller than what a single run scatters by; and where only a part of
//! the writes is slow, all runs together show from which one on (`cheap_beginning`).
//!
//! Behind each run about as many writes follow with pauses between them: the two kinds of runs take turns, so that drift does
//! not decide what pauses buy, and all runs without pauses serve twice.
//!
//! A SLC cache that is full moves a block at a time. That is one oscillation, which lasts as many writes as the block has
//! pages; and a region that was reclaimed meanwhile is full only after as many as it has. So the first run is longer than the
//! others where the budget allows for one that fills the region.
//!
//! An oscillation of a few writes (fast and slow pages, rows of planes, dies in turn) is no regular one if it loses its step
//! whenever blocks are collected. All runs count: between two of them so many writes are done that where the oscillation has to be is
//! known. One of a block of all dies is that of garbage collection.
//!
//! # Invariants
//! - each run begins after idle time, and at places of its own;
//! - what most runs say decides; what none repeats is not said.

mod answers;
mod full_region;
mod pause;

use flashlab_analysis::inference::Parameter;
use flashlab_analysis::priors;
use flashlab_analysis::signals::figures::mean;
use flashlab_base::Nanos;

use crate::halt::Halt;
use crate::patterns::random_writes::{IO_SIZE, is_page_map, random_writes};
use crate::patterns::responses;
use crate::probe::Probe;
use crate::session::Session;
use answers::{RUNS, RandomWrites};
use full_region::{fast_pages, of_blocks};

pub(crate) const PROBE: Probe = Probe {
    name: "random-writes",
    about: "random writes after idle time, then with pauses: how long is the start-up phase, do costs oscillate, do pauses help?",
    parameters: &[Parameter::StartupIos, Parameter::PeriodIos, Parameter::PauseBenefit],
    hands_in: &[],
    write_share: 0.045,
};

/// The writes of the runs with pauses, in sixteenths of those without: each run begins another number of writes after the one
/// before, so that what comes back after some writes, rest or none, begins elsewhere in each.
const PAUSED_WRITES: [u64; RUNS] = [19, 14, 17, 14];
/// The fewest writes of a run, and the most.
const WRITES: (u64, u64) = (64, 16_384);
/// About how long a run without pauses takes at the most.
const RUN_MOST: Nanos = Nanos::from_secs(900);
/// How much longer than what fills the SLC cache a run has to be, and which part of all writes it may take.
const BEYOND_REGION: f64 = 1.5;
const LONG_RUN: f64 = 0.6;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let runs = 2 * RUNS as u64;
    // A quarter of a run is for finding out how long they take.
    let most = (session.writes_left().0 / size.0).saturating_sub(WRITES.0) * 4 / (4 * runs + 1);
    if most < WRITES.0 {
        return Err(Halt::Budget { needed: size * (WRITES.0 * (runs + 2)), left: session.writes_left() });
    }
    let cost = how_long(session, most / 4)?;
    let in_time = (RUN_MOST.0 as f64 / cost) as u64;
    let fast_pages = fast_pages(session);
    let (first, count) = counts(most, in_time, fast_pages);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for (index, sixteenths) in PAUSED_WRITES.into_iter().enumerate() {
        without.push(after_rest(session, if index == 0 { first } else { count })?);
        with.push(pause::run(session, &without, count * sixteenths / 16)?);
    }
    let writes = RandomWrites {
        without,
        with,
        fast_pages,
        of_blocks: of_blocks(session),
        has_slc_cache: session.known().has_slc_cache(),
        is_page_map: is_page_map(session),
    };
    let startup = writes.startup();
    let period = writes.period(startup.number().unwrap_or(0.0) as usize);
    session.conclude(startup);
    session.conclude(period);
    pause::conclude(session, &writes.without, &writes.with);
    Ok(())
}

/// The writes of the first run and of each of the others, of which `most` are affordable and `in_time` last long enough: the
/// first one fills an SLC cache of `fast_pages` pages if that leaves enough for the others.
fn counts(most: u64, in_time: u64, fast_pages: f64) -> (u64, u64) {
    let usual = most.min(in_time).clamp(WRITES.0, WRITES.1);
    let (all, long) = (2 * RUNS as u64 * most, (BEYOND_REGION * fast_pages) as u64);
    let affordable = long as f64 <= LONG_RUN * all as f64 && long <= in_time.saturating_mul(RUNS as u64);
    if long <= usual || !affordable {
        return (usual, usual);
    }
    (long, usual.min((all - long) / (2 * RUNS as u64 - 1)).max(WRITES.0))
}

/// What a write takes: the mean of the slowest of more and more writes, `most` of them at most, as a buffer hides what the
/// first ones cost.
fn how_long(session: &mut Session<'_, '_>, most: u64) -> Result<f64, Halt> {
    let cost = |session: &mut Session<'_, '_>, count| {
        let pattern = random_writes(session, count);
        Ok::<_, Halt>(mean(&responses(&session.run("how-long", &pattern)?)).max(1.0))
    };
    session.idle(priors::BACKLOG_DONE)?;
    let mut dearest = cost(session, WRITES.0)?;
    let (mut count, mut left) = (2 * WRITES.0, most);
    while count <= left && count as f64 * dearest < RUN_MOST.0 as f64 / 4.0 {
        left -= count;
        dearest = dearest.max(cost(session, count)?);
        count *= 2;
    }
    Ok(dearest)
}

fn after_rest(session: &mut Session<'_, '_>, count: u64) -> Result<Vec<f64>, Halt> {
    session.idle(priors::BACKLOG_DONE)?;
    let pattern = random_writes(session, count);
    Ok(responses(&session.run("after-a-rest", &pattern)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_run_fills_the_slc_cache_where_that_is_affordable() {
        assert_eq!(counts(1000, u64::MAX, 0.0), (1000, 1000));
        assert_eq!(counts(1000, u64::MAX, 2000.0), (3000, 714));
        assert_eq!(counts(1000, u64::MAX, 4000.0), (1000, 1000));
        assert_eq!(counts(1000, 100, 2000.0), (100, 100));
        assert_eq!(counts(1 << 20, u64::MAX, 20_000.0), (30_000, 16_384));
    }
}
