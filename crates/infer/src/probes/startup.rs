//! Measures the start-up phase of random writes, their period, and the benefit of pauses.
//!
//! # Model
//! uFLIP section 4.2: a device defers work while it has free memory or blocks. So the first random writes after idle
//! time are fast, and their number is the same after each idle time that is long enough. Afterwards the cost
//! oscillates with a period, or at random.
//!
//! # Method
//! 1. Several runs of random writes follow, each after idle time. After each one comes a run with pauses: both kinds
//!    alternate, so that drift does not decide the benefit.
//! 2. `phases` finds the start-up phase and the period of each run, and most runs decide. If only some writes are
//!    slow, all runs together show the first slow one (`fast_beginning`).
//!
//! # Invariants
//! - What only one run shows is not found.

mod answers;
mod pause;

use crate::priors;
use crate::signals::statistics::mean;
use flashlab_analysis::inference::{Family, Parameter};
use flashlab_base::Nanos;

use crate::halt::Halt;
use crate::patterns::random_writes::random_writes;
use crate::patterns::responses;
use crate::patterns::writes::buffer;
use crate::priors::SMALL_IO;
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

/// The writes of the runs with pauses, in sixteenths of those without. Each run then begins after another
/// number of writes, so that periodic stalls lie elsewhere in each. Unit: sixteenths. Source: choice: sums
/// without a common divisor. Too high: the budget is used up; too low: pauses have no effect.
const PAUSED_WRITES: [u64; RUNS] = [19, 14, 17, 14];
/// The fewest and the most writes of a run. Unit: writes. Source: choice. Too many: the budget is used up;
/// too few: the start-up phase does not end.
const WRITES: (u64, u64) = (64, 16_384);
/// About how long a run without pauses takes at most. Source: choice. Too long: slow devices take hours; too
/// short: the start-up phase does not end.
const RUN_MOST: Nanos = Nanos::from_secs(900);

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = SMALL_IO.max(session.block());
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

/// The time of a write: the mean of the slowest of longer and longer runs, `most` writes in all. A write buffer
/// hides the cost of the first ones.
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
