//! Measures whether random writes slow down later sequential writes, for how long, and whether rewriting helps.
//!
//! # Model
//! Ajwani et al., section 3.3.3 and appendices A and C. After a burst of random writes a device is busy with its
//! backlog, or its blocks are out of order. Sequential writes then cost more for seconds, or until the affected
//! region is rewritten. The paper's bursts take 5, 30 and 60 s, and its sequential writes are followed for two
//! minutes. The burst here takes 5 s.
//!
//! # Method
//! 1. Two regions in the second half of the device are written sequentially and repeatedly: first to bring them into
//!    order, then for the level. If the budget is enough, so is the region of the bursts.
//! 2. Random writes go to the first eighth of the device.
//! 3. The first region is written sequentially several times. What this costs above the level shows how long it is
//!    slowed down ([`pass_level`](crate::signals::pass_level)).
//! 4. Once the first region is as fast as before, the other one is written. If it is slow, nothing recovers by
//!    itself, and rewriting cures.
//! 5. If the first region stays slow, the region of the burst is rewritten sequentially, and then the first region
//!    once more.
//!
//! # Invariants
//! - Random and sequential writes go to different addresses, so that these do not rewrite what those wrote.
//! - If the writes end faster than before the burst, the level was not steady, and no time is concluded.
//! - A time is concluded only after a burst of full length; no time, only if the cost afterwards equals the cost
//!   before without doubt.
//! - Deferred merges are limited by the log blocks, so a device that merges recovers at last.

mod answers;

use std::ops::RangeInclusive;

use crate::priors;
use crate::signals::pass_level::{PassLevel, STRETCHES};
use crate::signals::recovery::{After, Before, End};
use crate::signals::statistics::mean;
use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Mode, Nanos, Sample};
use flashlab_plan::Location;

use crate::halt::{Halt, if_affordable};
use crate::patterns::filling;
use crate::patterns::{ios, responses};
use crate::probe::Probe;
use crate::session::Session;
use answers::{BURST_TIME, Experiment, Sizes, answers};

pub(crate) const PROBE: Probe = Probe {
    name: "recovery",
    about: "sequential writes before and after bursts of random writes: how long are they slower, and does rewriting help?",
    parameters: &[Parameter::RecoveryTime, Parameter::RecoveryEnds, Parameter::RewriteCures],
    hands_in: &[],
    write_share: 0.02,
};

/// The random writes: the small ones of Ajwani et al., section 3.3.3. Source: that paper: some devices suffer
/// from these that bear larger ones. Too large: such devices show no effect; too small: no device takes them.
const RANDOM_SIZE: Bytes = Bytes::kib(2);
/// The random writes go to this part of the device. Unit: part. Source: choice. Too small: their region
/// overlaps the sequential writes; too large: few blocks lose their order.
const RANDOM_PART: u64 = 8;
/// The writes of the first request of a burst; the others grow. Unit: writes. Source: derivation: nothing is
/// known of their time. Too high: a burst is too long; too low: nothing, as this is the least.
const FIRST_WRITES: u64 = 1;
/// The passes before the burst that show the level. Unit: passes. Source: choice. Too many: the budget is
/// used up; too few: the usual scatter is not known.
const PASSES_BEFORE: usize = 3;
/// The passes after a burst: the fewest, and as many as the slowdown and the budget last. Unit: passes.
/// Source: choice. Too many: the budget is used up; too few: the end of the slowdown is not seen.
const PASSES: RangeInclusive<usize> = 3..=16;
/// The fewest writes of a pass. Unit: writes. Source: choice. Too many: small budgets show nothing; too few:
/// single writes decide.
const PASS_LEAST: u64 = 4;
/// The parts of the budget. They are the passes of both regions, those after the burst, the other region, two
/// passes after rewriting, and the burst. Unit: parts. Source: derivation: their sum. Too many: passes are
/// short; too few: the budget ends before the experiment does.
const BUDGET_PARTS: u64 = 2 * (1 + PASSES_BEFORE as u64) + *PASSES.start() as u64 + 1 + 2 + BURST_PARTS;
/// The parts of the budget for the burst. Unit: parts. Source: choice. Too many: passes are short; too few:
/// the burst is short.
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
    let (random, sequential) = (RANDOM_SIZE.max(session.block()), filling::IO_SIZE.max(session.block()));
    let (left, span) =
        (session.writes_left(), Bytes(session.capacity().0 / RANDOM_PART).round_down(sequential));
    // Writing in order what is written randomly, before or after the burst, is worth a quarter of it each time, or half of it once.
    let (in_order, rewriting) = (left >= span * 4, left >= span * 2);
    let part = (left - span * (u64::from(in_order) + u64::from(rewriting))).0 / BUDGET_PARTS;
    // Both regions lie in the second half.
    let most = session.capacity().0 / 4 / sequential.0;
    let pass = (part / sequential.0).min(most);
    // As long as whole stretches, if there are several writes to each.
    let pass = if pass < STRETCHES as u64 { pass } else { pass / STRETCHES as u64 * STRETCHES as u64 };
    if pass < PASS_LEAST {
        let needed = sequential * (BUDGET_PARTS * PASS_LEAST);
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
    let what_follows = sizes.random * sizes.burst + pass * (*PASSES.start() as u64 + 3) + sizes.rewriting;
    let (mut first, mut other) = (Vec::new(), Vec::new());
    for _ in 0..*PASSES.end() {
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

/// How long the burst took, and what follows it: the least of [`PASSES`], more while they are slowed down and what rewriting takes is left.
fn after(session: &mut Session<'_, '_>, sizes: &Sizes, before: &Before) -> Result<(Nanos, After), Halt> {
    let burst = burst(session, sizes)?;
    let pass = sizes.sequential * sizes.pass;
    let rewriting = sizes.span + pass * 3;
    let reserve =
        if session.writes_left() >= rewriting + pass * *PASSES.start() as u64 { rewriting } else { pass };
    let mut found = After { costs: Vec::new(), done: Vec::new(), slowed: 0, other: None };
    for done in 0..*PASSES.end() {
        let goes_on = before.first.is_slowed_to_the_end(found.slowed, found.costs.len());
        if done >= *PASSES.start() && !(goes_on && session.writes_left() >= reserve + pass) {
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
    let (mut left, mut time, mut piece) = (sizes.burst, BURST_TIME.0 as f64, FIRST_WRITES);
    while left > 0 && time > 0.0 {
        piece = piece.min(left);
        let pattern =
            ios(Mode::Write, Location::Random, sizes.random, piece).on_target(Bytes::ZERO, sizes.span);
        let costs = responses(&session.run("burst", &pattern)?);
        left -= piece;
        time -= costs.iter().sum::<f64>();
        piece = ((time / mean(&costs).max(1.0)) as u64).clamp(1, 2 * piece);
    }
    Ok(Nanos((BURST_TIME.0 as f64 - time) as u64))
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
