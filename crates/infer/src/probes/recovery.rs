//! Whether random writes slow down sequential ones after them, for how long, and what cures it.
//!
//! # Model
//! Ajwani et al., section 3.3.3 and appendices A and C: after a burst of random writes a device is busy with what they put
//! off, or has lost the order of its blocks, and sequential writes cost more for a time: seconds, or until what lost its order is
//! rewritten. Two regions side by side in the second half of the device are written again and again, each time sequentially: once so
//! that they are in order, as is what bursts write randomly if the budget is enough for that, and some times for the level. After a burst of random writes in the first eighth only the first region is
//! written, several times; what that costs more than for the level tells how long it is slowed down (`level.rs`).
//!
//! When it costs what it did, either the device has recovered, or the region is in order again because it was rewritten. The
//! other region, which was not written since, tells: if it is slowed down as well, nothing recovers by itself, and
//! rewriting cures. If the first region is slowed down after all that the budget allows, what was written randomly is rewritten in
//! order, too, and then the first region once more.
//!
//! The paper's bursts take 5, 30 and 60 s, and its sequential writes are followed for two minutes. The time is that after 5 s;
//! the longer bursts are done where the budget is enough for them, and ask whether it ends.
//!
//! Merges can be put off only as far as there are log blocks, so that a device which merges recovers at last, seen or not.
//!
//! # Invariants
//! - the random writes go to other addresses than the sequential ones, so that these do not rewrite what was written randomly;
//! - what is cheaper at last than before the burst was not steady when it came: after a longer rest it is done again;
//! - a time is told only of a burst that was as long as it should be; that there is none, only where the costs after it are those
//!   before for sure.

mod level;

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;
use flashlab_samples::Sample;

use super::figures::{mean, windows};
use super::patterns::{ios, responses};
use crate::halt::{Halt, if_affordable};
use crate::priors;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::{duration, times};
use level::{Level, SLOWED, STRETCHES};

pub(crate) const PROBE: Probe = Probe {
    name: "recovery",
    about: "sequential writes before and after bursts of random writes: how long are they slower, and does rewriting help?",
    parameters: &[Parameter::RecoveryTime, Parameter::RecoveryEnds, Parameter::RewriteCures],
    supposes: &[],
    write_share: 0.02,
};

/// The size of the random writes: the small ones of the paper, of which some devices suffer that bear larger ones.
const RANDOM_SIZE: Bytes = Bytes::kib(2);
/// The size of the sequential writes.
const IO_SIZE: Bytes = Bytes::kib(32);
/// How long the bursts take.
const BURST: Nanos = Nanos::from_secs(5);
const LONG_BURSTS: [Nanos; 2] = [Nanos::from_secs(30), Nanos::from_secs(60)];
/// The random writes go to this part of the device.
const RANDOM_PART: u64 = 8;
/// The writes of a burst's first piece.
const FIRST_PIECE: u64 = 1;
/// A burst is as long as it should be if it is this part of it.
const LONG_ENOUGH: f64 = 0.9;
/// How sure it is what a shorter one shows.
const SHORT_BURST: Rule = Rule::weak("short burst");
/// Passes for the level, and after a long rest.
const PASSES_BEFORE: usize = 3;
const PASSES_AGAIN: usize = 2;
/// The fewest passes after a burst, and the most.
const PASSES: usize = 3;
const PASSES_MOST: usize = 16;
/// The fewest writes of a pass.
const PASS_LEAST: u64 = 4;
/// Parts of the budget: passes of both regions, of the first one after the burst, of the other one, two after rewriting; and the burst.
const PARTS: u64 = 2 * (1 + PASSES_BEFORE as u64) + PASSES as u64 + 1 + 2 + BURST_PARTS;
const BURST_PARTS: u64 = 2;

/// What is written, and where.
#[derive(Clone, Copy)]
struct Sizes {
    /// Writes of a pass of one region.
    pass: u64,
    /// The most random writes of the burst.
    burst: u64,
    random: Bytes,
    sequential: Bytes,
    /// Random writes go below this.
    span: Bytes,
    /// Whether it is written in order before the burst.
    in_order: bool,
    /// What is kept for rewriting all that was written randomly, where that is affordable.
    rewriting: Bytes,
}

/// What the regions cost before a burst.
struct Before {
    first: Level,
    other: Level,
}

/// A burst, and the sequential writes after it.
struct After {
    /// How long the burst took.
    burst: Nanos,
    writes: u64,
    /// What the writes cost, pass by pass.
    costs: Vec<f64>,
    /// When each of them was done, since the end of the burst.
    done: Vec<f64>,
    /// How many of the first ones are slowed down.
    slowed: usize,
    /// What the region cost that was not written since the burst, if it was asked.
    other: Option<Vec<f64>>,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// Writes are not slowed down any more, wherever they go.
    ByItself,
    /// They are, but for those that rewrite what was rewritten since.
    WhereRewritten,
    /// They become cheaper, but were not followed until the end.
    OnItsWay,
    /// They go on being slowed down, each pass for sure.
    NotSeen,
    /// They seem to go on being slowed down.
    Doubtful,
}

impl After {
    fn end(&self, before: &Before) -> End {
        let writes = before.first.writes();
        let times = |pass: &[f64]| before.first.times(pass);
        if !before.first.is_slowed_to_the_end(self.slowed, self.costs.len()) {
            match &self.other {
                Some(costs) if before.other.slowed(costs) > costs.len() / 2 => End::WhereRewritten,
                // It may be quick because it was rewritten.
                None if self.slowed > 0 => End::Doubtful,
                _ => End::ByItself,
            }
        } else if times(self.last(writes)).high <= times(&self.costs[..writes]).low {
            End::OnItsWay
        } else if self.costs.chunks_exact(writes).all(|pass| times(pass).low > SLOWED) {
            End::NotSeen
        } else {
            End::Doubtful
        }
    }

    /// Whether it shows that they cost what they did, once they are not slowed down any more, wherever they go. That
    /// no difference shows is not enough where there never was one: merges and outliers may hide it.
    fn is_as_before(&self, before: &Before) -> bool {
        match (self.slowed, &self.other) {
            (0, _) => {
                let mut passes = self.costs.chunks_exact(before.first.writes());
                passes.all(|pass| before.first.times(pass).high < SLOWED)
            }
            (_, Some(other)) => before.other.times(other).estimate < SLOWED,
            (_, None) => false,
        }
    }

    /// How long writes are slowed down.
    fn time(&self) -> Nanos {
        Nanos(self.slowed.checked_sub(1).map_or(0.0, |last| self.done[last]) as u64)
    }

    /// Whether the burst was as long as it should be.
    fn is_long_enough(&self, length: Nanos) -> bool {
        self.burst.0 as f64 >= LONG_ENOUGH * length.0 as f64
    }

    /// What the last pass cost.
    fn last(&self, writes: usize) -> &[f64] {
        &self.costs[self.costs.len() - writes..]
    }

    /// Whether the last pass is cheaper than before the burst.
    fn is_cheaper(&self, before: &Before) -> bool {
        before.first.is_cheaper(self.last(before.first.writes()))
    }
}

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let sizes = sizes(session)?;
    if sizes.in_order {
        order(session, "in-order", &sizes)?;
    }
    both(session, "in-order", &sizes)?;
    // What random writes of groups before left merges to do may take minutes.
    let rest = if merges(session) && session.time_left() >= priors::MERGES_DONE * 2 {
        priors::MERGES_DONE
    } else {
        priors::BACKLOG_DONE
    };
    let mut before = before(session, &sizes, rest, PASSES_BEFORE)?;
    let mut first = after(session, &sizes, &before, BURST, PASSES)?;
    let mut steady = !first.is_cheaper(&before);
    // What is known by then is told before it is said why the group could not go on.
    let mut halted = Ok(());
    if !steady {
        match if_affordable(once_more(session, &sizes)) {
            Ok(Some((again, found))) => {
                steady = !found.is_cheaper(&again);
                (before, first) = (again, found);
            }
            other => halted = other.map(drop),
        }
    }
    let mut all = vec![first];
    let mut left_out = None;
    if steady {
        for length in LONG_BURSTS {
            if all.last().is_some_and(|last| last.end(&before) != End::ByItself) {
                break;
            }
            match long_burst(session, &sizes, &before, &all[0], length) {
                Ok(Ok(found)) => all.push(found),
                Ok(Err(needed)) => {
                    left_out = Some((length, needed));
                    break;
                }
                Err(halt) => {
                    halted = Err(halt);
                    break;
                }
            }
        }
    }
    let rewritten = match all[all.len() - 1].end(&before) {
        End::NotSeen if halted.is_ok() && !merges(session) => if_affordable(rewrite(session, &sizes))
            .unwrap_or_else(|halt| {
                halted = Err(halt);
                None
            }),
        _ => None,
    };
    conclude(session, &sizes, &before, &all, steady, left_out, rewritten);
    halted
}

/// The experiment again after a longer rest.
fn once_more(session: &mut Session<'_, '_>, sizes: &Sizes) -> Result<(Before, After), Halt> {
    let before = before(session, sizes, priors::MERGES_DONE, PASSES_AGAIN)?;
    let after = after(session, sizes, &before, BURST, PASSES)?;
    Ok((before, after))
}

/// A longer burst and what follows it, if it is affordable, or what it would write. What is left has to be enough for one that is as
/// dense as the short one, and for a pass of each region.
fn long_burst(
    session: &mut Session<'_, '_>,
    sizes: &Sizes,
    before: &Before,
    short: &After,
    length: Nanos,
) -> Result<Result<After, Bytes>, Halt> {
    let writes = short.writes as f64 * length.0 as f64 / short.burst.0.max(1) as f64;
    let needed = sizes.random * writes as u64 + sizes.sequential * (2 * sizes.pass);
    if !short.is_long_enough(BURST) || needed > session.writes_left() {
        return Ok(Err(needed));
    }
    let sizes = Sizes {
        burst: (session.writes_left() - sizes.sequential * (2 * sizes.pass)).0 / sizes.random.0,
        ..*sizes
    };
    Ok(if_affordable(after(session, &sizes, before, length, 1))?.ok_or(needed))
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

/// What the regions cost after a rest: so many passes, and more until the last ones are alike, as far as the budget
/// goes without what follows.
fn before(session: &mut Session<'_, '_>, sizes: &Sizes, rest: Nanos, passes: usize) -> Result<Before, Halt> {
    session.rest(rest)?;
    let pass = sizes.sequential * sizes.pass;
    // The other region, and rewriting.
    let what_follows = sizes.random * sizes.burst + pass * (PASSES as u64 + 3) + sizes.rewriting;
    let (mut first, mut other) = (Vec::new(), Vec::new());
    for _ in 0..PASSES_MOST {
        let mut costs = responses(&both(session, "before-the-burst", sizes)?);
        other.push(costs.split_off(sizes.pass as usize));
        first.push(costs);
        let steady = first.len() < PASSES_BEFORE || are_alike(&first[first.len() - PASSES_BEFORE..]);
        if first.len() >= passes && (steady || session.writes_left() < what_follows + pass * 2) {
            break;
        }
    }
    let last = first.len() - passes;
    Ok(Before { first: Level::new(&first[last..]), other: Level::new(&other[last..]) })
}

/// Whether the first of some passes is not dearer than the others, nor the last one cheaper.
fn are_alike(passes: &[Vec<f64>]) -> bool {
    let last = passes.len() - 1;
    Level::new(&passes[1..]).slowed(&passes[0]) == 0 && !Level::new(&passes[..last]).is_cheaper(&passes[last])
}

/// A burst and what follows it: so many passes at least, more while they are slowed down and what rewriting takes is left.
fn after(
    session: &mut Session<'_, '_>,
    sizes: &Sizes,
    before: &Before,
    length: Nanos,
    least: usize,
) -> Result<After, Halt> {
    let (burst, writes) = burst(session, sizes, length)?;
    let pass = sizes.sequential * sizes.pass;
    let rewriting = sizes.span + pass * 3;
    let reserve = if session.writes_left() >= rewriting + pass * least as u64 { rewriting } else { pass };
    let mut found = After { burst, writes, costs: Vec::new(), done: Vec::new(), slowed: 0, other: None };
    for done in 0..PASSES_MOST {
        let goes_on = before.first.is_slowed_to_the_end(found.slowed, found.costs.len());
        if done >= least && !(goes_on && session.writes_left() >= reserve + pass) {
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
    Ok(found)
}

/// Writes randomly for as long as a burst takes, in pieces that grow: the first writes after a rest may be cheap. How long it took,
/// and how many it were.
fn burst(session: &mut Session<'_, '_>, sizes: &Sizes, length: Nanos) -> Result<(Nanos, u64), Halt> {
    let (mut left, mut time, mut piece) = (sizes.burst, length.0 as f64, FIRST_PIECE);
    while left > 0 && time > 0.0 {
        piece = piece.min(left);
        let pattern =
            ios(Mode::Write, Location::Random, sizes.random, piece).on_target(Bytes::ZERO, sizes.span);
        let costs = responses(&session.run("burst", &pattern)?);
        left -= piece;
        time -= costs.iter().sum::<f64>();
        piece = ((time / mean(&costs).max(1.0)) as u64).clamp(1, 2 * piece);
    }
    Ok((Nanos((length.0 as f64 - time) as u64), sizes.burst - left))
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

/// Writes so many regions from one on.
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

/// Whether the translation layer merges blocks, so that what it can put off is bounded.
fn merges(session: &Session<'_, '_>) -> bool {
    session.known().family().is_some_and(|family| !family.maps_pages())
}

/// `rewritten`: what the first region cost where everything was rewritten.
fn conclude(
    session: &mut Session<'_, '_>,
    sizes: &Sizes,
    before: &Before,
    all: &[After],
    steady: bool,
    left_out: Option<(Nanos, Bytes)>,
    rewritten: Option<Vec<f64>>,
) {
    let mut figures = figures(sizes, before, all, left_out);
    let (mut picture, first) = (picture(before, all), &all[0]);
    let last = &all[all.len() - 1];
    // What a shorter burst does not do a longer one may.
    let is_short = !first.is_long_enough(BURST);
    if is_short {
        figures += " The write budget does not allow a longer burst.";
    }
    if !steady {
        figures += " The level was not steady before the burst, after the writes that came earlier.";
    }
    let time = match first.end(before) {
        End::ByItself if steady && !is_short && first.is_as_before(before) => {
            picture = picture.mark(first.time().0 as f64, "recovered");
            Rule::found(
                Parameter::RecoveryTime,
                first.time(),
                Rule::likely("ended by itself"),
                figures.clone(),
            )
        }
        End::WhereRewritten => Rule::not_identifiable(
            Parameter::RecoveryTime,
            Rule::likely("ends where rewritten"),
            figures.clone(),
        ),
        _ => Finding::undetermined(Parameter::RecoveryTime, figures.clone()),
    };
    session.conclude(time.with(picture.clone()));
    let (ends, sure, cures) = match last.end(before) {
        End::ByItself if steady => {
            let times = before.first.times(last.last(before.first.writes()));
            let sure = if times.high < SLOWED {
                Rule::strong("as before")
            } else {
                Rule::likely("nearly as before")
            };
            (true, if is_short { SHORT_BURST } else { sure }, None)
        }
        End::ByItself | End::OnItsWay => (true, Rule::likely("on its way"), None),
        End::WhereRewritten => (false, Rule::likely("ends where rewritten"), Some(true)),
        End::Doubtful => (true, Rule::weak("doubtful end"), None),
        End::NotSeen if merges(session) => {
            figures += " But the log blocks limit how many merges the device can defer, so that the slowdown should end.";
            (true, Rule::weak("merges are limited"), None)
        }
        End::NotSeen => {
            let needed = sizes.span + sizes.sequential * (2 * sizes.pass);
            let left = session.writes_left();
            let cured = rewritten.as_ref().map(|costs| before.first.slowed(costs) == 0);
            let was_steady = rewritten.as_ref().is_none_or(|costs| !before.first.is_cheaper(costs));
            figures += &match &rewritten {
                Some(costs) => format!(
                    " After the randomly written region was rewritten as well, they take {} the time before.",
                    times(before.first.times(costs).estimate)
                ),
                None => format!(
                    " Rewriting the randomly written region needs {needed}, and {left} of the write budget is left."
                ),
            };
            let ends = if was_steady {
                Rule::found(Parameter::RecoveryEnds, false, Rule::weak("no end seen"), figures.clone())
            } else {
                Finding::undetermined(Parameter::RecoveryEnds, figures.clone())
            };
            session.conclude(ends.with(picture));
            session.conclude(match cured.filter(|_| was_steady) {
                Some(cured) => {
                    Rule::found(Parameter::RewriteCures, cured, Rule::likely("rewritten region"), figures)
                }
                None => Finding::undetermined(Parameter::RewriteCures, figures),
            });
            return;
        }
    };
    session.conclude(Rule::found(Parameter::RecoveryEnds, ends, sure, figures.clone()).with(picture));
    session.conclude(match cures {
        Some(cures) => Rule::found(Parameter::RewriteCures, cures, sure, figures),
        None => Rule::not_identifiable(Parameter::RewriteCures, sure, figures),
    });
}

fn figures(sizes: &Sizes, before: &Before, all: &[After], left_out: Option<(Nanos, Bytes)>) -> String {
    let writes = before.first.writes();
    let mut figures = format!(
        "Before the random writes, sequential writes of {} take {}.",
        sizes.sequential,
        duration(before.first.mean())
    );
    for found in all {
        let ratios: Vec<_> = found.costs.chunks_exact(writes).map(|pass| before.first.times(pass)).collect();
        let listed: Vec<String> = ratios.iter().map(|ratio| times(ratio.estimate)).collect();
        let last = ratios[ratios.len() - 1];
        figures += &format!(
            " After {} of random writes of {} they take, pass by pass, {} that time; the last ratio is between {} and {}.",
            found.burst,
            sizes.random,
            listed.join(", "),
            times(last.low),
            times(last.high)
        );
        if found.slowed > 0 {
            figures += &format!(" They are slower for {}.", duration(found.time().0 as f64));
        }
        if let Some(other) = &found.other {
            let ratio = before.other.times(other).estimate;
            figures += &format!(
                " In a region that was not written to since, they take {} the time before.",
                times(ratio)
            );
        }
    }
    if let Some((length, needed)) = left_out {
        figures += &format!(
            " Random writes for {length} and a pass after them need {needed} more, which the write budget does not allow."
        );
    }
    figures
}

fn picture(before: &Before, all: &[After]) -> Picture {
    let width = before.first.width();
    let level = before.first.mean();
    let end = all.iter().filter_map(|found| found.done.last()).copied().fold(0.0, f64::max);
    let empty = Picture::new(
        "Sequential writes after bursts of random writes, as means of stretches, and their level before the bursts.",
        Axis::linear("time since the burst", "ns"),
        Axis::linear("response time", "ns"),
    );
    let draw = |picture: Picture, found: &After| {
        let done = found.done.chunks_exact(width).map(|part| part[width - 1]);
        let points = done.zip(windows(&found.costs, width)).collect();
        picture.draw(&format!("after {} of random writes", found.burst), Style::Line, points)
    };
    all.iter()
        .fold(empty, draw)
        .draw("mean before the bursts", Style::Fitted, vec![(0.0, level), (end, level)])
        .draw("limit: slower by a tenth", Style::Fitted, vec![(0.0, SLOWED * level), (end, SLOWED * level)])
}
