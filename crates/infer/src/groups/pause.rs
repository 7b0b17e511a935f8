//! What pauses between random writes buy.
//!
//! # Model
//! A device may do put-off work while the host rests. With pauses as long as the writes themselves take it has half
//! of the time for it; what a write costs then, relative to without pauses, is what they buy: 1 where it rests, too.
//! Runs with and without pauses take turns. The beginning of each does not count: it is under the influence of what was
//! before, a rest or the other kind of run.
//!
//! What is rare and dear makes the means uncertain: how much, batches of writes show. Where nothing is put off pauses buy
//! nothing at all, so 1 is more likely than any other figure near it; how much more depends on whether there is memory for
//! writes. The two hypotheses are weighed by Bayes' rule.
//!
//! # Invariants
//! - the mean counts, as lumps of work are what it is about;
//! - the confidence is the chance that the value is as near as [`NEAR`].

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Nanos;
use flashlab_plan::Time;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

use super::figures::{mean, windows};
use super::patterns::responses;
use super::startup::random_writes;
use super::steps::lump;
use super::writes::{Buffer, buffer};
use crate::halt::Halt;
use crate::session::Session;

/// The part of a run that is under the influence of what was before.
const SETTLING: f64 = 0.3;
/// Batches of a run.
const BATCHES: usize = 4;
/// Outliers are ten times and more as much as a lump; several lumps at once are not.
const LUMPS_MOST: f64 = 4.0;
/// A device whose answers jitter is still busy when it answers early: writes without pauses wait for that, by the part of
/// their jitter that is on the early side. So much of the ratio is not the device's doing.
const JITTER: f64 = 0.01;
/// Costs that rise by more than this from the first half of the runs to the second one are not steady yet.
const RISE_MOST: f64 = 1.5;
/// What is near enough to be right.
const NEAR: f64 = 0.03;
/// How likely it is that pauses buy nothing: without memory for writes, where that is not known, and with it.
const NOTHING: [f64; 3] = [0.75, 0.4, 0.1];
/// The width of what else is likely.
const ELSE: f64 = 1.2;
/// What is less likely right than this is not said, and nothing is surer than that.
const SAID: f64 = 0.45;
const SUREST: f64 = 0.8;

/// Random writes with pauses as long as those of a run without take, once that is settled.
pub(super) fn run(session: &mut Session<'_, '_>, without: &[f64]) -> Result<Vec<f64>, Halt> {
    let pause = mean(settled(without));
    let mut paused = random_writes(session, without.len() as u64);
    paused.first.time = Time::Pause { pause: Nanos(pause as u64) };
    Ok(responses(&session.run("with-pauses", &paused)?))
}

/// What of a run is not under the influence of what was before it.
fn settled(run: &[f64]) -> &[f64] {
    &run[(run.len() as f64 * SETTLING) as usize..]
}

/// The costs, none of them higher than `most`.
fn cut(costs: &[f64], most: f64) -> Vec<f64> {
    costs.iter().map(|cost| cost.min(most)).collect()
}

/// The ratio of two means, and its standard error from that of batches.
fn ratio(with: &[f64], without: &[f64]) -> (f64, f64) {
    let relative = |batches: &[f64]| {
        let (n, level) = (batches.len() as f64, mean(batches));
        let squares: f64 = batches.iter().map(|batch| (batch - level).powi(2)).sum();
        squares / (n * (n - 1.0)).max(1.0)
    };
    let (above, below) = (mean(with), mean(without).max(1.0));
    let ratio = above / below;
    let error = (relative(with) + ratio * ratio * relative(without)).sqrt() / below;
    (ratio, error.max(1e-3))
}

/// The value to say and the chance that it is right, for a ratio with a standard error, where nothing being bought has the
/// chance `nothing` beforehand.
fn weigh(ratio: f64, error: f64, nothing: f64) -> (f64, f64) {
    let Ok(normal) = Normal::new(0.0, error.max(1e-6)) else { return (ratio, 0.0) };
    let (one, other) = (nothing * normal.pdf(ratio - 1.0), (1.0 - nothing) / ELSE);
    let one = one / (one + other);
    let within = |value: f64| normal.cdf(value + NEAR - ratio) - normal.cdf(value - NEAR - ratio);
    let right = |value: f64| {
        let is_one = if (value - 1.0).abs() <= NEAR { one } else { 0.0 };
        is_one + (1.0 - one) * within(value)
    };
    let value = if one >= 0.5 { 1.0 } else { ratio };
    (value, right(value))
}

/// From which pair of runs on costs are steady: the first, or the middle one where collecting begins in the first half.
fn steady_from(without: &[Vec<f64>], with: &[Vec<f64>]) -> usize {
    let middle = without.len().min(with.len()) / 2;
    let level =
        |runs: &[Vec<f64>]| runs.iter().map(|run| mean(settled(run))).sum::<f64>() / runs.len().max(1) as f64;
    let both = |from: usize, to: usize| level(&without[from..to]) + level(&with[from..to]);
    let rises = middle > 0 && both(middle, 2 * middle) > RISE_MOST * both(0, middle);
    if rises { middle } else { 0 }
}

/// Concludes from runs of both kinds.
pub(super) fn conclude(session: &mut Session<'_, '_>, without: &[Vec<f64>], with: &[Vec<f64>]) {
    let steady = steady_from(without, with);
    let kinds = [with, without].map(|runs| runs[steady..].iter().map(|run| settled(run)).collect::<Vec<_>>());
    let lump = lump(&kinds.concat().concat());
    let most = LUMPS_MOST * (lump.usual + lump.excess);
    let [with, without] = kinds.map(|runs| -> Vec<f64> {
        let batches = |run: &[f64]| windows(&cut(run, most), run.len() / BATCHES);
        runs.into_iter().flat_map(|run| batches(run).into_iter().take(BATCHES)).collect()
    });
    let (ratio, error) = ratio(&with, &without);
    let nothing = match buffer(session) {
        Buffer::None => NOTHING[0],
        Buffer::Unknown => NOTHING[1],
        Buffer::Holds(_) => NOTHING[2],
    };
    let (value, right) = weigh(ratio, error.hypot(JITTER * ratio), nothing);
    let points =
        |batches: &[f64]| batches.iter().enumerate().map(|(index, &cost)| (index as f64, cost)).collect();
    let picture = Picture::new(
        "Mean response times of batches of random writes, with and without pauses in turns.",
        Axis::linear("batch of writes", ""),
        Axis::linear("response time", "ns"),
    )
    .draw("with pauses", Style::Dots, points(&with))
    .draw("without", Style::Dots, points(&without));
    let evidence = format!(
        "random writes take {} with pauses of their own length and {} without: means of {} batches each; the ratio is \
         {ratio:.3} with a standard error of {error:.3}",
        Nanos(mean(&with) as u64),
        Nanos(mean(&without) as u64),
        with.len(),
    );
    let finding = if right >= SAID {
        Finding::found(Parameter::PauseBenefit, value, right.min(SUREST), evidence)
    } else {
        Finding::undetermined(Parameter::PauseBenefit, evidence)
    };
    session.conclude(finding.with(picture));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_near_one_is_one_unless_it_is_known_to_be_another() {
        assert_eq!(weigh(0.9, 0.06, NOTHING[0]).0, 1.0);
        assert_eq!(weigh(0.9, 0.01, NOTHING[0]).0, 0.9);
        let (value, right) = weigh(0.5, 0.01, NOTHING[1]);
        assert!(value == 0.5 && right > 0.95, "{value} {right}");
        // Nothing is known of it.
        assert!(weigh(0.8, 0.2, NOTHING[2]).1 < SAID);
    }

    #[test]
    fn runs_before_collecting_begins_do_not_count() {
        let runs = |levels: [f64; 4]| levels.map(|level| vec![level; 10]).to_vec();
        assert_eq!(steady_from(&runs([1.0, 1.0, 4.0, 4.0]), &runs([1.0, 3.0, 4.0, 4.0])), 2);
        assert_eq!(steady_from(&runs([4.0; 4]), &runs([1.0; 4])), 0);
        assert_eq!(steady_from(&[], &[]), 0);
    }

    #[test]
    fn the_error_of_a_ratio_comes_from_batches() {
        let (value, error) = ratio(&[1.0, 1.2, 0.8, 1.0], &[2.0, 2.0, 2.0, 2.0]);
        assert!((value - 0.5).abs() < 1e-9);
        // The batches scatter by 0.163, their mean by half of that.
        assert!((error - 0.0816 / 2.0).abs() < 1e-3, "{error}");
        assert_eq!(ratio(&[], &[]).0, 0.0);
    }
}
