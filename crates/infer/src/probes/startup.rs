//! How many random writes a rested device takes for less than those after them, the period of the others, and what pauses
//! between them buy.
//!
//! # Model
//! uFLIP section 4.2: work is deferred as long as there is memory or there are spare blocks for it. So the first random
//! writes after idle time are fast, and the number of them is the same after each idle time that is long enough. Then
//! costs oscillate with a period, or at random.
//!
//! # Method
//! 1. Several runs of random writes, each after idle time and at offsets of its own. About as many writes with pauses between them
//!    follow each run: the two kinds of runs alternate, so that drift does not decide what pauses buy.
//! 2. `phases` finds the start-up phase and the period of each run, and what most runs show decides. If only a part of
//!    the writes is slow, all runs together show from which write on (`fast_beginning`).
//!
//! # Invariants
//! - What no second run shows is not found.

mod answers;
mod pause;

use crate::priors;
use crate::signals::statistics::mean;
use flashlab_analysis::inference::{Family, Parameter};
use flashlab_base::Nanos;

use crate::halt::Halt;
use crate::patterns::random_writes::{IO_SIZE, random_writes};
use crate::patterns::responses;
use crate::patterns::writes::buffer;
use crate::probe::Probe;
use crate::session::Session;
use answers::{RUNS, RandomWrites};

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

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let runs = 2 * RUNS as u64;
    // A quarter of a run is for finding out how long they take.
    let most = (session.writes_left().0 / size.0).saturating_sub(WRITES.0) * 4 / (4 * runs + 1);
    if most < WRITES.0 {
        return Err(Halt::Budget { needed: size * (WRITES.0 * (runs + 2)), left: session.writes_left() });
    }
    let cost = how_long(session, most / 4)?;
    let count = most.min((RUN_MOST.0 as f64 / cost) as u64).clamp(WRITES.0, WRITES.1);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for sixteenths in PAUSED_WRITES {
        without.push(after_rest(session, count)?);
        with.push(pause::run(session, &without, count * sixteenths / 16)?);
    }
    let is_page_map = session.known().family().is_some_and(Family::maps_pages);
    let benefit = pause::benefit([&with, &without], buffer(session), is_page_map);
    let writes = RandomWrites { without, with, is_page_map };
    for finding in [writes.startup(), writes.period(), benefit] {
        session.conclude(finding);
    }
    Ok(())
}

/// What a write takes: the mean of the slowest of more and more writes, `most` of them at most, as a buffer hides what the
/// first ones cost.
fn how_long(session: &mut Session<'_, '_>, most: u64) -> Result<f64, Halt> {
    let cost = |session: &mut Session<'_, '_>, count| {
        let pattern = random_writes(session, count);
        Ok::<_, Halt>(mean(&responses(&session.run("how-long", &pattern)?)).max(1.0))
    };
    session.idle(priors::BACKLOG_DONE)?;
    let mut highest = cost(session, WRITES.0)?;
    let (mut count, mut left) = (2 * WRITES.0, most);
    while count <= left && count as f64 * highest < RUN_MOST.0 as f64 / 4.0 {
        left -= count;
        highest = highest.max(cost(session, count)?);
        count *= 2;
    }
    Ok(highest)
}

fn after_rest(session: &mut Session<'_, '_>, count: u64) -> Result<Vec<f64>, Halt> {
    session.idle(priors::BACKLOG_DONE)?;
    let pattern = random_writes(session, count);
    Ok(responses(&session.run("after-a-rest", &pattern)?))
}
