//! Whether random writes slow down sequential ones after them, for how long, and what cures it.
//!
//! # Model
//! Ajwani et al., section 3.3.3 and appendices A and C: after a burst of random writes a device is busy with what they
//! deferred, or has lost the order of its blocks, and sequential writes cost more for a time: seconds, or until what lost its order is
//! rewritten. Two regions side by side in the second half of the device are written repeatedly, each time sequentially: once so
//! that they are in order, as is what bursts write randomly if the budget is enough for that, and some times for the level. After a burst of random writes in the first eighth only the first region is
//! written, several times; what that costs more than for the level shows how long it is slowed down (`level.rs`).
//!
//! When it costs what it did, either the device has recovered, or the region is in order again because it was rewritten. The
//! other region, which was not written since, shows: if it is slowed down as well, nothing recovers by itself, and
//! rewriting cures. If the first region is slowed down after all that the budget allows, what was written randomly is rewritten in
//! order, too, and then the first region once more.
//!
//! The paper's bursts take 5, 30 and 60 s, and its sequential writes are followed for two minutes. The burst here takes 5 s.
//!
//! Merges can be deferred only as far as there are log blocks, so that a device which merges recovers at last, seen or not.
//!
//! # Invariants
//! - the random writes go to other addresses than the sequential ones, so that these do not rewrite what was written randomly;
//! - what is faster at last than before the burst was not steady when it came: then no time is concluded;
//! - a time is concluded only of a burst that was as long as it should be; that there is none, only where the costs after it are those
//!   before without doubt.

mod answers;

use crate::priors;
use crate::signals::pass_level::{PassLevel, STRETCHES};
use crate::signals::recovery::{After, Before, End};
use crate::signals::statistics::mean;
use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Mode, Nanos, Sample};
use flashlab_plan::Location;

use crate::halt::{Halt, if_affordable};
use crate::patterns::{ios, responses};
use crate::probe::Probe;
use crate::session::Session;
use answers::{BURST, Experiment, Sizes, answers};

pub(crate) const PROBE: Probe = Probe {
    name: "recovery",
    about: "sequential writes before and after bursts of random writes: how long are they slower, and does rewriting help?",
    parameters: &[Parameter::RecoveryTime, Parameter::RecoveryEnds, Parameter::RewriteCures],
    hands_in: &[],
    write_share: 0.02,
};

/// The size of the random writes: the small ones of the paper, of which some devices suffer that bear larger ones.
const RANDOM_SIZE: Bytes = Bytes::kib(2);
/// The size of the sequential writes.
const IO_SIZE: Bytes = Bytes::kib(32);
/// The random writes go to this part of the device.
const RANDOM_PART: u64 = 8;
/// The writes of a burst's first piece.
const FIRST_PIECE: u64 = 1;
/// Passes for the level.
const PASSES_BEFORE: usize = 3;
/// The fewest passes after a burst, and the most.
const PASSES: usize = 3;
const PASSES_MOST: usize = 16;
/// The fewest writes of a pass.
const PASS_LEAST: u64 = 4;
/// Parts of the budget: passes of both regions, of the first one after the burst, of the other one, two after rewriting; and the burst.
const PARTS: u64 = 2 * (1 + PASSES_BEFORE as u64) + PASSES as u64 + 1 + 2 + BURST_PARTS;
const BURST_PARTS: u64 = 2;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let (seen, halted) = experiment(session)?;
    for finding in answers(&seen) {
        session.conclude(finding);
    }
    // What is known by then is concluded before it is said why the probe could not go on.
    halted
}

/// All patterns; and why not all of them could be run, if so.
fn experiment(session: &mut Session<'_, '_>) -> Result<(Experiment, Result<(), Halt>), Halt> {
    let sizes = sizes(session)?;
    if sizes.in_order {
        order(session, "in-order", &sizes)?;
    }
    both(session, "in-order", &sizes)?;
    let merges = session.known().family().is_some_and(|family| !family.maps_pages());
    // The merges that earlier random writes deferred may take minutes.
    let is_long = merges && session.time_left() >= priors::MERGES_DONE * 2;
    let rest = if is_long { priors::MERGES_DONE } else { priors::BACKLOG_DONE };
    let before = before(session, &sizes, rest)?;
    let (burst, after) = after(session, &sizes, &before)?;
    let is_steady = !after.is_cheaper(&before);
    let rewritten = if after.end(&before) == End::NotSeen && !merges {
        if_affordable(rewrite(session, &sizes))
    } else {
        Ok(None)
    };
    let (rewritten, halted) = match rewritten {
        Ok(rewritten) => (rewritten, Ok(())),
        Err(halt) => (None, Err(halt)),
    };
    let left = session.writes_left();
    let known = session.known();
    let logs = known.count(Parameter::OpenBlocks).zip(known.bytes(Parameter::EraseBlockSize));
    let log_bytes = logs.map(|(logs, unit)| unit * logs);
    Ok((Experiment { sizes, before, burst, after, is_steady, rewritten, left, merges, log_bytes }, halted))
}

fn sizes(session: &Session<'_, '_>) -> Result<Sizes, Halt> {
    let (random, sequential) = (RANDOM_SIZE.max(session.block()), IO_SIZE.max(session.block()));
    let (left, span) =
        (session.writes_left(), Bytes(session.capacity().0 / RANDOM_PART).round_down(sequential));
    // Writing in order what is written randomly, before or after the burst, is worth a quarter of it each time, or half of it once.
    let (in_order, rewriting) = (left >= span * 4, left >= span * 2);
    let part = (left - span * (u64::from(in_order) + u64::from(rewriting))).0 / PARTS;
    // Both regions lie in the second half.
    let most = session.capacity().0 / 4 / sequential.0;
    let pass = (part / sequential.0).min(most);
    // As long as whole stretches, if there are several writes to each.
    let pass = if pass < STRETCHES as u64 { pass } else { pass / STRETCHES as u64 * STRETCHES as u64 };
    if pass < PASS_LEAST {
        let needed = sequential * (PARTS * PASS_LEAST);
        return Err(Halt::Budget { needed, left });
    }
    Ok(Sizes {
        pass,
        burst: (BURST_PARTS * part / random.0).max(1),
        random,
        sequential,
        span,
        in_order,
        rewriting: if rewriting { span } else { Bytes::ZERO },
    })
}

/// What the regions cost after idle time: [`PASSES_BEFORE`] passes, and more until the last ones are alike, as far as the budget
/// goes without what follows.
fn before(session: &mut Session<'_, '_>, sizes: &Sizes, rest: Nanos) -> Result<Before, Halt> {
    session.idle(rest)?;
    let pass = sizes.sequential * sizes.pass;
    // The other region, and rewriting.
    let what_follows = sizes.random * sizes.burst + pass * (PASSES as u64 + 3) + sizes.rewriting;
    let (mut first, mut other) = (Vec::new(), Vec::new());
    for _ in 0..PASSES_MOST {
        let mut costs = responses(&both(session, "before-the-burst", sizes)?);
        other.push(costs.split_off(sizes.pass as usize));
        first.push(costs);
        let steady = first.len() < PASSES_BEFORE || are_alike(&first[first.len() - PASSES_BEFORE..]);
        if first.len() >= PASSES_BEFORE && (steady || session.writes_left() < what_follows + pass * 2) {
            break;
        }
    }
    let last = first.len() - PASSES_BEFORE;
    Ok(Before { first: PassLevel::new(&first[last..]), other: PassLevel::new(&other[last..]) })
}

/// Whether the first of some passes is not slower than the others, nor the last one faster.
fn are_alike(passes: &[Vec<f64>]) -> bool {
    let last = passes.len() - 1;
    PassLevel::new(&passes[1..]).slowed(&passes[0]) == 0
        && !PassLevel::new(&passes[..last]).is_cheaper(&passes[last])
}

/// How long the burst took, and what follows it: [`PASSES`] passes at least, more while they are slowed down and what rewriting takes is left.
fn after(session: &mut Session<'_, '_>, sizes: &Sizes, before: &Before) -> Result<(Nanos, After), Halt> {
    let burst = burst(session, sizes)?;
    let pass = sizes.sequential * sizes.pass;
    let rewriting = sizes.span + pass * 3;
    let reserve = if session.writes_left() >= rewriting + pass * PASSES as u64 { rewriting } else { pass };
    let mut found = After { costs: Vec::new(), done: Vec::new(), slowed: 0, other: None };
    for done in 0..PASSES_MOST {
        let goes_on = before.first.is_slowed_to_the_end(found.slowed, found.costs.len());
        if done >= PASSES && !(goes_on && session.writes_left() >= reserve + pass) {
            break;
        }
        let samples = first(session, "after-the-burst", sizes)?;
        let begin = samples.iter().map(|sample| sample.submitted).min().unwrap_or_default();
        let until = found.done.last().copied().unwrap_or(0.0);
        found.done.extend(samples.iter().map(|sample| until + sample.completed.since(begin).0 as f64));
        found.costs.extend(responses(&samples));
        found.slowed = before.first.slowed(&found.costs);
    }
    if found.slowed > 0 && !before.first.is_slowed_to_the_end(found.slowed, found.costs.len()) {
        found.other = if_affordable(other(session, sizes))?.map(|samples| responses(&samples));
    }
    Ok((burst, found))
}

/// Writes randomly for as long as a burst takes, in pieces that grow: the first writes after idle time may be fast. How long it took.
fn burst(session: &mut Session<'_, '_>, sizes: &Sizes) -> Result<Nanos, Halt> {
    let (mut left, mut time, mut piece) = (sizes.burst, BURST.0 as f64, FIRST_PIECE);
    while left > 0 && time > 0.0 {
        piece = piece.min(left);
        let pattern =
            ios(Mode::Write, Location::Random, sizes.random, piece).on_target(Bytes::ZERO, sizes.span);
        let costs = responses(&session.run("burst", &pattern)?);
        left -= piece;
        time -= costs.iter().sum::<f64>();
        piece = ((time / mean(&costs).max(1.0)) as u64).clamp(1, 2 * piece);
    }
    Ok(Nanos((BURST.0 as f64 - time) as u64))
}

/// Writes both regions once.
fn both(session: &mut Session<'_, '_>, name: &str, sizes: &Sizes) -> Result<Vec<Sample>, Halt> {
    sequential(session, name, sizes, (0, 2))
}

/// Writes the first region once.
fn first(session: &mut Session<'_, '_>, name: &str, sizes: &Sizes) -> Result<Vec<Sample>, Halt> {
    sequential(session, name, sizes, (0, 1))
}

/// Writes the other region once.
fn other(session: &mut Session<'_, '_>, sizes: &Sizes) -> Result<Vec<Sample>, Halt> {
    sequential(session, "not-written-since", sizes, (1, 1))
}

/// Writes `regions` regions from `region` on.
fn sequential(
    session: &mut Session<'_, '_>,
    name: &str,
    sizes: &Sizes,
    (region, regions): (u64, u64),
) -> Result<Vec<Sample>, Halt> {
    let half = Bytes(session.capacity().0 / 2).round_down(sizes.sequential);
    let pass = sizes.sequential * sizes.pass;
    let pattern = ios(Mode::Write, Location::Sequential, sizes.sequential, regions * sizes.pass);
    session.run(name, &pattern.on_target(half + pass * region, pass * regions))
}

/// Writes in order what bursts write randomly.
fn order(session: &mut Session<'_, '_>, name: &str, sizes: &Sizes) -> Result<(), Halt> {
    let writes = sizes.span.0 / sizes.sequential.0;
    let pattern = ios(Mode::Write, Location::Sequential, sizes.sequential, writes);
    session.run(name, &pattern.on_target(Bytes::ZERO, sizes.span)).map(drop)
}

/// Rewrites what was written randomly, and the first region, and gives what that costs then.
fn rewrite(session: &mut Session<'_, '_>, sizes: &Sizes) -> Result<Vec<f64>, Halt> {
    order(session, "rewriting", sizes)?;
    first(session, "rewriting-the-region", sizes)?;
    Ok(responses(&first(session, "after-rewriting", sizes)?))
}
