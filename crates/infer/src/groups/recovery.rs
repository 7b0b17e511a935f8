//! Whether random writes slow down sequential ones after them, for how long, and what cures it.
//!
//! # Model
//! Ajwani et al., section 3.3.3 and appendix C: after a burst of random writes a device is busy with what they put
//! off, or has lost the order of its blocks, and sequential writes cost more for a time: seconds, or until what was
//! written randomly is rewritten. Sequential writes before the burst give the level; those after it, elsewhere on the
//! device, are compared in stretches. The recovery ends where they come down to a tenth above the level before.
//!
//! # Invariants
//! - the random writes go to one part of the device and the sequential ones to another, so that these do not
//!   rewrite what was written randomly;
//! - a second burst has to show the same time.

use flashlab_analysis::decide::change::{Direction, change};
use flashlab_analysis::decide::ranks::{mann_whitney, ratio};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;
use flashlab_samples::Sample;

use super::patterns::{ios, responses};
use super::startup::IO_SIZE as RANDOM_SIZE;
use super::steps::{mean, windows};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "recovery",
    about: "sequential writes before and after a burst of random ones, and after rewriting",
    parameters: &[Parameter::RecoveryTime, Parameter::RecoveryEnds, Parameter::RewriteCures],
    write_share: 0.02,
    probe,
};

/// The size of the sequential writes.
const IO_SIZE: Bytes = Bytes::kib(32);
/// How long the burst takes.
const BURST: Nanos = Nanos::from_secs(5);
/// How long the device rests before.
const REST: Nanos = Nanos::from_secs(60);
/// Stretches of the writes before a burst; after it there are three times as many.
const STRETCHES: usize = 16;
/// Sequential writes are slowed down if they cost so many times as much as before.
const SLOWED: f64 = 1.1;

/// What is written, and where.
struct Sizes {
    /// Sequential writes before a burst.
    before: u64,
    /// The part that is written randomly.
    area: Bytes,
    /// The most random writes of a burst.
    burst: u64,
    random: Bytes,
    sequential: Bytes,
}

/// Sequential writes before and after one burst.
struct Experiment {
    before: Vec<f64>,
    after: Vec<f64>,
    /// When each stretch after the burst was done, since its end.
    done: Vec<f64>,
}

impl Experiment {
    /// Whether the first writes after the burst cost more than those before.
    fn slowed(&self) -> bool {
        let first = &self.after[..STRETCHES / 2];
        mann_whitney(first, &self.before).p_above < 1e-3
            && ratio(first, &self.before, 0.99).is_some_and(|ratio| ratio.low > SLOWED)
    }

    /// Whether they cost no more, as far as the figures tell.
    fn unharmed(&self) -> bool {
        let first = &self.after[..STRETCHES / 2];
        let closer = SLOWED.sqrt() * mean(&self.before);
        ratio(first, &self.before, 0.95).is_some_and(|ratio| ratio.high < SLOWED)
            && mean(first) < closer
            && mean(&self.after) < closer
    }

    /// When the costs came down to those before, since the end of the burst.
    fn recovered(&self) -> Option<f64> {
        let down = change(&self.after, Direction::Down).filter(|down| down.p < 1e-3)?;
        let level = ratio(&self.after[down.index..], &self.before, 0.95)?;
        (level.low < SLOWED).then(|| self.done[down.index - 1])
    }
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let sizes = sizes(session)?;
    let first = experiment(session, &sizes)?;
    if !first.slowed() {
        conclude_unslowed(session, &first);
        return Ok(());
    }
    let second = experiment(session, &sizes)?;
    conclude_time(session, &first, &second);
    if first.recovered().is_some() && second.recovered().is_some() {
        let by_itself = "sequential writes come back to their speed by themselves";
        session.conclude(Finding::found(Parameter::RecoveryEnds, true, 0.9, by_itself));
        session.conclude(Finding::not_identifiable(Parameter::RewriteCures, 0.9, by_itself));
        return Ok(());
    }
    rewrite(session, &sizes, &first, &second)
}

fn sizes(session: &Session<'_, '_>) -> Result<Sizes, Halt> {
    let (random, sequential) = (RANDOM_SIZE.max(session.block()), IO_SIZE.max(session.block()));
    let left = session.writes_left();
    // Two experiments of four parts each, a rewriting, and a last look.
    let before = left.0 / 12 / sequential.0;
    let area = Bytes(left.0 / 12).round_down(sequential);
    if before < STRETCHES as u64 {
        return Err(Halt::Budget { needed: sequential * (12 * STRETCHES as u64), left });
    }
    Ok(Sizes { before: before.min(4096), area, burst: (left.0 / 24 / random.0).max(1), random, sequential })
}

fn experiment(session: &mut Session<'_, '_>, sizes: &Sizes) -> Result<Experiment, Halt> {
    session.rest(REST)?;
    let before = sequential(session, "before-the-burst", sizes, sizes.before)?;
    let random = |count: u64| {
        ios(Mode::Write, Location::Random, sizes.random, count).on_target(Bytes::ZERO, sizes.area)
    };
    let few = responses(&session.run("burst", &random(16.min(sizes.burst)))?);
    let count = (BURST.0 as f64 / mean(&few).max(1.0)) as u64;
    session.run("burst", &random(count.clamp(1, sizes.burst)))?;
    let after = sequential(session, "after-the-burst", sizes, 3 * sizes.before)?;
    let width = sizes.before as usize / STRETCHES;
    let begin = after.iter().map(|sample| sample.submitted).min().unwrap_or_default();
    let done =
        after.chunks_exact(width).map(|part| part[width - 1].completed.since(begin).0 as f64).collect();
    Ok(Experiment {
        before: windows(&responses(&before), width),
        after: windows(&responses(&after), width),
        done,
    })
}

fn sequential(
    session: &mut Session<'_, '_>,
    name: &str,
    sizes: &Sizes,
    count: u64,
) -> Result<Vec<Sample>, Halt> {
    let half = Bytes(session.capacity().0 / 2).round_down(sizes.sequential);
    let pattern = ios(Mode::Write, Location::Sequential, sizes.sequential, count);
    session.run(name, &pattern.on_target(half, half))
}

fn figures(experiment: &Experiment) -> String {
    format!(
        "sequential writes of {IO_SIZE} take {} before a burst of random writes and {} right after it",
        Nanos(mean(&experiment.before) as u64),
        Nanos(mean(&experiment.after[..STRETCHES / 2]) as u64),
    )
}

fn picture(experiment: &Experiment) -> Picture {
    let points = experiment.done.iter().copied().zip(experiment.after.iter().copied()).collect();
    let level = mean(&experiment.before);
    let end = experiment.done.last().copied().unwrap_or(0.0);
    Picture::new(
        "Sequential writes after a burst of random ones, means of stretches, and their level before.",
        Axis::linear("time since the burst", "ns"),
        Axis::linear("response time", "ns"),
    )
    .draw("after the burst", Style::Line, points)
    .draw("before it", Style::Line, vec![(0.0, level), (end, level)])
}

fn conclude_unslowed(session: &mut Session<'_, '_>, experiment: &Experiment) {
    let evidence = figures(experiment);
    let picture = picture(experiment);
    if !experiment.unharmed() {
        for &parameter in GROUP.parameters {
            let scattered = format!("{evidence}, which scatters too much to decide");
            session.conclude(Finding::undetermined(parameter, scattered).with(picture.clone()));
        }
        return;
    }
    let time = Finding::found(Parameter::RecoveryTime, Nanos::ZERO, 0.9, evidence.clone());
    session.conclude(time.with(picture));
    session.conclude(Finding::found(Parameter::RecoveryEnds, true, 0.9, evidence.clone()));
    session.conclude(Finding::not_identifiable(Parameter::RewriteCures, 0.9, evidence));
}

fn conclude_time(session: &mut Session<'_, '_>, first: &Experiment, second: &Experiment) {
    let finding = match (first.recovered(), second.recovered()) {
        (Some(one), Some(other)) => {
            let evidence = format!(
                "{}; they come back after {}, and after {} the second time",
                figures(first),
                Nanos(one as u64),
                Nanos(other as u64)
            );
            let mean = (one + other) / 2.0;
            if (one - other).abs() <= 0.06 * mean {
                Finding::found(Parameter::RecoveryTime, Nanos(mean as u64), 0.8, evidence)
            } else {
                Finding::undetermined(Parameter::RecoveryTime, evidence)
            }
        }
        _ => {
            let end = first.done.last().copied().unwrap_or(0.0);
            let evidence = format!("{}, and do not come back in {}", figures(first), Nanos(end as u64));
            Finding::undetermined(Parameter::RecoveryTime, evidence)
        }
    };
    session.conclude(finding.with(picture(first)));
}

/// Writes sequentially what was written randomly, and looks again.
fn rewrite(
    session: &mut Session<'_, '_>,
    sizes: &Sizes,
    first: &Experiment,
    second: &Experiment,
) -> Result<(), Halt> {
    let count = sizes.area.0 / sizes.sequential.0;
    let pattern = ios(Mode::Write, Location::Sequential, sizes.sequential, count);
    session.run("rewriting", &pattern.on_target(Bytes::ZERO, sizes.area))?;
    session.rest(REST)?;
    let again = responses(&sequential(session, "after-rewriting", sizes, sizes.before)?);
    let again = windows(&again, sizes.before as usize / STRETCHES);
    let evidence = format!(
        "{}; after what was written randomly was written sequentially, {}",
        figures(first),
        Nanos(mean(&again) as u64)
    );
    let never = first.recovered().is_none() && second.recovered().is_none();
    let level = ratio(&again, &first.before, 0.95);
    let slow = ratio(&second.after[second.after.len() - STRETCHES..], &first.before, 0.95);
    let still_slow = slow.is_some_and(|slow| slow.low > SLOWED);
    let (ends, cures) = match level {
        Some(level) if never && still_slow && level.high < SLOWED => (
            Finding::found(Parameter::RecoveryEnds, false, 0.8, evidence.clone()),
            Finding::found(Parameter::RewriteCures, true, 0.8, evidence),
        ),
        Some(level) if never && still_slow && level.low > SLOWED => (
            Finding::found(Parameter::RecoveryEnds, false, 0.7, evidence.clone()),
            Finding::found(Parameter::RewriteCures, false, 0.7, evidence),
        ),
        _ => (
            Finding::undetermined(Parameter::RecoveryEnds, evidence.clone()),
            Finding::undetermined(Parameter::RewriteCures, evidence),
        ),
    };
    session.conclude(ends);
    session.conclude(cures);
    Ok(())
}
