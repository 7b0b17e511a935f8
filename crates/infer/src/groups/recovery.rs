//! Whether random writes slow down sequential ones after them, for how long, and what cures it.
//!
//! # Model
//! Ajwani et al., section 3.3.3 and appendix C: after a burst of random writes a device is busy with what they put
//! off, or has lost the order of its blocks, and sequential writes cost more for a time: seconds, or until what was
//! written randomly is rewritten. A region in the second half of the device is written again and again, each time
//! sequentially: once so that it is in order, some times for the level, and after a burst of random writes in the first half
//! several times more. As each pass writes the same addresses, what one write costs more than in the passes for the
//! level is the burst's doing, or chance; of a pass the mean of that is compared with its scatter between stretches. While
//! they are slowed down more passes follow, as far as the budget goes.
//!
//! Merges can be put off only as far as there are log blocks, so that a device which merges recovers at last, seen or not.
//!
//! # Invariants
//! - the random writes go to one half of the device and the sequential ones to the other, so that these do not
//!   rewrite what was written randomly;
//! - a device recovers when a pass costs no more than a tenth above the level.

use flashlab_analysis::decide::level::trimmed_mean;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;
use flashlab_samples::Sample;

use super::figures::{mean, windows};
use super::patterns::{ios, responses};
use super::startup::IO_SIZE as RANDOM_SIZE;
use super::steps::lump;
use crate::group::Group;
use crate::halt::Halt;
use crate::session::Session;

pub(crate) const GROUP: Group = Group {
    name: "recovery",
    about: "sequential writes before and after a burst of random ones, and after rewriting",
    parameters: &[Parameter::RecoveryTime, Parameter::RecoveryEnds, Parameter::RewriteCures],
    supposes: &[],
    write_share: 0.02,
    probe,
};

/// The size of the sequential writes.
const IO_SIZE: Bytes = Bytes::kib(32);
/// How long the burst takes.
const BURST: Nanos = Nanos::from_secs(5);
/// The writes of its first piece.
const FIRST_PIECE: u64 = 16;
/// How long the device rests before.
const REST: Nanos = Nanos::from_secs(60);
/// Stretches of a pass.
const STRETCHES: usize = 8;
/// Passes for the level, and the fewest and the most after the burst.
const PASSES_BEFORE: usize = 3;
const PASSES: usize = 3;
const PASSES_MOST: usize = 16;
/// Sequential writes are slowed down if they cost so many times as much as before.
const SLOWED: f64 = 1.1;
const MUCH_SLOWED: f64 = 3.0;
/// Parts of the budget: the passes, and the burst.
const PARTS: u64 = 1 + PASSES_BEFORE as u64 + PASSES as u64 + BURST_PARTS;
const BURST_PARTS: u64 = 2;

/// What is written, and where.
struct Sizes {
    /// Writes of a pass.
    pass: u64,
    /// The most random writes of a burst.
    burst: u64,
    random: Bytes,
    sequential: Bytes,
}

/// Sequential writes of the same addresses before and after a burst.
struct Experiment {
    /// Means of stretches.
    before: Vec<f64>,
    /// Means of stretches, one pass after the other.
    after: Vec<f64>,
    /// When each stretch after the burst was done, since its end.
    done: Vec<f64>,
}

impl Experiment {
    /// The passes after the burst.
    fn passes(&self) -> usize {
        self.after.len() / STRETCHES
    }

    /// How many times as much as before the writes of a pass cost, with 95 %.
    fn slowdown(&self, pass: usize) -> Interval {
        let level = mean(&self.before);
        let stretches = &self.after[pass * STRETCHES..][..STRETCHES];
        let more: Vec<f64> = stretches
            .iter()
            .zip(&self.before)
            .map(|(after, before)| 1.0 + (after - before) / level)
            .collect();
        let unknown = Interval { estimate: mean(&more), low: f64::NEG_INFINITY, high: f64::INFINITY };
        trimmed_mean(&more, 0.0, 0.95).map_or(unknown, |found| Interval { estimate: mean(&more), ..found })
    }

    /// Whether a pass is slowed down for sure, or so much that it is not how its stretches scatter: one that recovers in
    /// the middle of a pass makes them differ.
    fn slowed(&self, pass: usize) -> bool {
        let slowdown = self.slowdown(pass);
        slowdown.low >= SLOWED || slowdown.estimate >= MUCH_SLOWED
    }

    /// When the last stretch was over that was slowed down, beside one at the same addresses.
    fn recovered(&self) -> f64 {
        let level = mean(&self.before);
        let slow = |index: usize| {
            let around =
                |of: &[f64], index: usize| mean(&of[index.saturating_sub(1)..(index + 2).min(of.len())]);
            around(&self.after, index) - around(&self.before, index % STRETCHES) > (SLOWED - 1.0) * level
        };
        let first_quick = (0..self.passes()).find(|&pass| !self.slowed(pass)).unwrap_or(self.passes());
        (0..first_quick * STRETCHES).rev().find(|&index| slow(index)).map_or(0.0, |index| self.done[index])
    }
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let sizes = sizes(session)?;
    let found = experiment(session, &sizes)?;
    let (figures, picture) = (figures(&found), picture(&found));
    let last = found.slowdown(found.passes() - 1);
    if last.low > SLOWED && last.high > found.slowdown(0).low {
        // It does not come back in the passes that there are.
        conclude_time(session, &figures, None, &picture);
        let ends = merges(session);
        let (figures, cures) = if ends {
            let figures = format!("{figures}; but merges can be put off only as far as there are log blocks");
            (figures.clone(), Finding::not_identifiable(Parameter::RewriteCures, 0.6, figures))
        } else {
            (figures.clone(), Finding::undetermined(Parameter::RewriteCures, figures))
        };
        session.conclude(Finding::found(Parameter::RecoveryEnds, ends, 0.6, figures).with(picture));
        session.conclude(cures);
        return Ok(());
    }
    // What is on its way back comes back.
    let sure = if last.high < SLOWED { 0.9 } else { 0.7 };
    let time = (last.low <= SLOWED).then(|| found.recovered());
    conclude_time(session, &figures, time, &picture);
    session.conclude(Finding::found(Parameter::RecoveryEnds, true, sure, figures.clone()).with(picture));
    session.conclude(Finding::not_identifiable(Parameter::RewriteCures, sure, figures));
    Ok(())
}

/// Whether the translation layer merges blocks, so that what it can put off is bounded.
fn merges(session: &Session<'_, '_>) -> bool {
    session.known().family().is_some_and(|family| !family.maps_pages())
}

fn sizes(session: &Session<'_, '_>) -> Result<Sizes, Halt> {
    let (random, sequential) = (RANDOM_SIZE.max(session.block()), IO_SIZE.max(session.block()));
    let part = session.writes_left().0 / PARTS;
    let pass = part / sequential.0 / STRETCHES as u64 * STRETCHES as u64;
    if pass == 0 {
        let needed = sequential * (PARTS * STRETCHES as u64);
        return Err(Halt::Budget { needed, left: session.writes_left() });
    }
    Ok(Sizes { pass, burst: (BURST_PARTS * part / random.0).max(1), random, sequential })
}

fn experiment(session: &mut Session<'_, '_>, sizes: &Sizes) -> Result<Experiment, Halt> {
    pass(session, "in-order", sizes)?;
    session.rest(REST)?;
    let mut before = Vec::new();
    for _ in 0..PASSES_BEFORE {
        before.extend(responses(&pass(session, "before-the-burst", sizes)?));
    }
    let half = Bytes(session.capacity().0 / 2).round_down(sizes.sequential);
    burst(session, sizes, half)?;
    let width = sizes.pass as usize / STRETCHES;
    // A lump that is an outlier, too, counts as a lump.
    let most = {
        let lump = lump(&before);
        lump.usual + 2.0 * lump.excess
    };
    let means = |costs: &[f64]| windows(&costs.iter().map(|cost| cost.min(most)).collect::<Vec<_>>(), width);
    let before: Vec<Vec<f64>> = before.chunks_exact(sizes.pass as usize).map(means).collect();
    let level = |index: usize| before.iter().map(|pass| pass[index]).sum::<f64>() / before.len() as f64;
    let before = (0..STRETCHES).map(level).collect();
    let mut found = Experiment { before, after: Vec::new(), done: Vec::new() };
    let again = |session: &Session<'_, '_>, found: &Experiment| match found.passes() {
        done @ PASSES..PASSES_MOST => {
            found.slowed(done - 1) && session.writes_left() >= sizes.sequential * sizes.pass
        }
        done => done < PASSES,
    };
    while again(session, &found) {
        let samples = pass(session, "after-the-burst", sizes)?;
        let begin = samples.iter().map(|sample| sample.submitted).min().unwrap_or_default();
        let until = found.done.last().copied().unwrap_or(0.0);
        let end = |part: &[Sample]| until + part[width - 1].completed.since(begin).0 as f64;
        found.done.extend(samples.chunks_exact(width).map(end));
        found.after.extend(means(&responses(&samples)));
    }
    Ok(found)
}

/// Writes randomly below `half` for as long as a burst takes, in pieces that grow: the first writes after a rest may be cheap.
fn burst(session: &mut Session<'_, '_>, sizes: &Sizes, half: Bytes) -> Result<(), Halt> {
    let (mut left, mut time, mut piece) = (sizes.burst, BURST.0 as f64, FIRST_PIECE);
    while left > 0 && time > 0.0 {
        piece = piece.min(left);
        let pattern = ios(Mode::Write, Location::Random, sizes.random, piece).on_target(Bytes::ZERO, half);
        let costs = responses(&session.run("burst", &pattern)?);
        left -= piece;
        time -= costs.iter().sum::<f64>();
        piece = ((time / mean(&costs).max(1.0)) as u64).clamp(1, 2 * piece);
    }
    Ok(())
}

/// Writes the region once.
fn pass(session: &mut Session<'_, '_>, name: &str, sizes: &Sizes) -> Result<Vec<Sample>, Halt> {
    let half = Bytes(session.capacity().0 / 2).round_up(sizes.sequential);
    let pattern = ios(Mode::Write, Location::Sequential, sizes.sequential, sizes.pass);
    session.run(name, &pattern.on_target(half, sizes.sequential * sizes.pass))
}

fn figures(found: &Experiment) -> String {
    let passes: Vec<String> =
        (0..found.passes()).map(|pass| format!("{:.2}", found.slowdown(pass).estimate)).collect();
    let last = found.slowdown(found.passes() - 1);
    format!(
        "sequential writes of {IO_SIZE} take {} before a burst of random writes, and {} times that in each pass after it (the last {:.2} to {:.2})",
        Nanos(mean(&found.before) as u64),
        passes.join(", "),
        last.low,
        last.high,
    )
}

fn picture(found: &Experiment) -> Picture {
    let points = found.done.iter().copied().zip(found.after.iter().copied()).collect();
    let level = mean(&found.before);
    let end = found.done.last().copied().unwrap_or(0.0);
    Picture::new(
        "Sequential writes after a burst of random ones, means of stretches, and their level before.",
        Axis::linear("time since the burst", "ns"),
        Axis::linear("response time", "ns"),
    )
    .draw("after the burst", Style::Line, points)
    .draw("before it, on average", Style::Fitted, vec![(0.0, level), (end, level)])
    .draw("slowed down from here on", Style::Fitted, vec![(0.0, SLOWED * level), (end, SLOWED * level)])
}

fn conclude_time(session: &mut Session<'_, '_>, figures: &str, time: Option<f64>, picture: &Picture) {
    let (finding, picture) = match time {
        Some(time) => {
            let found = Finding::found(Parameter::RecoveryTime, Nanos(time as u64), 0.7, figures);
            (found, picture.clone().mark(time, "recovered"))
        }
        None => (Finding::undetermined(Parameter::RecoveryTime, figures), picture.clone()),
    };
    session.conclude(finding.with(picture));
}
