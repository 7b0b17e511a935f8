//! Computes the benefit of pauses between writes: the ratio of two means, and the probability that it is right.
//!
//! # Model
//! Rare slow writes make the means uncertain; the means of batches show by how much. Outliers of the host are rare
//! and slow as well: a write that takes several latency spikes does not count. If the device defers nothing, pauses
//! have no benefit at all. So 1 is more likely than any other ratio near it.
//!
//! # Method
//! 1. The beginning of each run, which the idle time before it influences, does not count.
//! 2. The ratio of the means of the batches has an error by Student's t.
//! 3. Bayes' rule weighs two hypotheses: no benefit, or any ratio up to a limit. If neither explains the ratio, the
//!    prior decides.
//!
//! # Invariants
//! - The mean counts, and not the median: latency spikes of deferred work are what the benefit is about.

use statrs::distribution::{Continuous, ContinuousCDF, StudentsT};

use super::statistics::{mean, medians, windows};
use super::steps::{Spike, spike};
use crate::thresholds;
use flashlab_analysis::decide::change::{Direction, change};

/// The least and the greatest share of a run that the idle time before it influences. This part does not
/// count. Unit: share. Source: tuned. Too high: few writes are left to count; too low: the fast writes after
/// idle time count as the steady state.
const SETTLING_SHARES: (f64, f64) = (0.1, 0.75);
/// The batches of a run, whose means show how exact the mean of the run is. Unit: batches. Source: choice.
/// Too many: the means of neighbouring batches depend on each other; too few: the standard error is not
/// known.
const BATCHES_OF_RUN: usize = 4;
/// A write that takes more than this many latency spikes is an outlier of the host. Unit: ratio. Source:
/// tuned: outliers of the host take ten times as long, and several spikes at once do not. Too high: outliers
/// of the host move the mean; too low: deferred work does not count.
const SPIKES_MOST: f64 = 4.0;
/// The part of the ratio that the jitter of the answers causes: a write without a pause waits when the device
/// answers the last one early. Unit: share. Source: tuned, on devices with 5 % of jitter. Too high: small
/// benefits are not reported; too low: jitter is reported as a benefit.
const JITTER: f64 = 0.01;
/// Batches for each degree of freedom of the errors. Batches of one run depend on each other. Unit: batches.
/// Source: tuned. Too high: the confidence is too low; too low: it is too high.
const BATCHES_PER_DEGREE: f64 = 2.0;

/// What pauses buy.
pub struct PauseBenefit {
    /// The ratio to say: 1 if that is more likely than the one that was measured.
    pub value: f64,
    /// The chance that it is right.
    pub right: f64,
    /// The ratio of the means, and its standard error.
    pub ratio: (f64, f64),
    /// The means of the batches with pauses, and of those without.
    pub batches: [Vec<f64>; 2],
}

/// What pauses buy, from runs with and without them. That they buy nothing has the chance `nothing` beforehand, and else the ratio is no
/// more than `most`.
pub fn pause_benefit(runs: [&[Vec<f64>]; 2], nothing: f64, most: f64) -> PauseBenefit {
    let kinds = runs.map(settled);
    let longest = longest(spike(&kinds.concat().concat()));
    let batches = kinds.map(|runs| batches(&runs, longest));
    let [with, without] = &batches;
    let (ratio, error) = ratio(with, without);
    let degrees = with.len().min(without.len()) as f64 / BATCHES_PER_DEGREE - 1.0;
    let (value, right) = weigh((ratio, error.hypot(JITTER * ratio)), degrees, nothing, most);
    PauseBenefit { value, right, ratio: (ratio, error), batches }
}

/// The part of each run that is not under the influence of the idle time before it, after which writes become slower. The median over the
/// runs shows from which write on.
pub fn settled(runs: &[Vec<f64>]) -> Vec<&[f64]> {
    let changes = change(&medians(runs), Direction::Up)
        .filter(|step| step.p < thresholds::FALSE_ALARM)
        .map_or(0, |step| step.index_high + 1);
    let from = |run: &[f64]| {
        let [least, most] =
            [SETTLING_SHARES.0, SETTLING_SHARES.1].map(|share| (run.len() as f64 * share) as usize);
        changes.clamp(least, most.max(least))
    };
    runs.iter().map(|run| &run[from(run)..]).collect()
}

/// The means of batches of the costs that are no higher than `most`, this many of each run.
fn batches(runs: &[&[f64]], most: f64) -> Vec<f64> {
    let of_run = |run: &&[f64]| {
        let costs: Vec<f64> = run.iter().copied().filter(|&cost| cost <= most).collect();
        windows(&costs, costs.len() / BATCHES_OF_RUN).into_iter().take(BATCHES_OF_RUN).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}

/// What no write costs that is not an outlier.
fn longest(spike: Spike) -> f64 {
    SPIKES_MOST * (spike.usual + spike.excess)
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

/// The value to report and the probability that it is right, for a ratio with a standard error of this many
/// degrees of freedom. No benefit has the prior probability `nothing`, and any other ratio is at most `most`.
fn weigh((ratio, error): (f64, f64), degrees: f64, nothing: f64, most: f64) -> (f64, f64) {
    let Ok(scatter) = StudentsT::new(0.0, error.max(1e-6), degrees.max(1.0)) else { return (ratio, 0.0) };
    let between = |low: f64, high: f64| scatter.cdf(high - ratio) - scatter.cdf(low - ratio);
    let anything = between(0.0, most).max(f64::MIN_POSITIVE);
    let (one, other) = (nothing * scatter.pdf(ratio - 1.0), (1.0 - nothing) / most * anything);
    let one = one / (one + other);
    let right = |value: f64| {
        let is_one = if (value - 1.0).abs() <= thresholds::RIGHT { one } else { 0.0 };
        is_one
            + (1.0 - one)
                * between((value - thresholds::RIGHT).max(0.0), (value + thresholds::RIGHT).min(most))
                / anything
    };
    let value = if one >= 0.5 { 1.0 } else { ratio.min(most) };
    (value, right(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_near_one_is_one_unless_it_is_known_to_be_another() {
        assert_eq!(weigh((0.9, 0.06), 7.0, 0.75, 1.0).0, 1.0);
        assert_eq!(weigh((0.9, 0.01), 7.0, 0.75, 1.0).0, 0.9);
        let (value, right) = weigh((0.5, 0.01), 7.0, 0.4, 1.5);
        assert!(value == 0.5 && right > 0.95, "{value} {right}");
        // Nothing is known of it.
        assert!(weigh((0.8, 0.2), 7.0, 0.1, 1.5).1 < 0.45);
        // It says nothing, and no figure beyond what is likely is one.
        let (value, right) = weigh((4.5, 2.3), 7.0, 0.75, 1.5);
        assert!(value == 1.0 && right < 0.9, "{value} {right}");
        assert_eq!(weigh((2.0, 0.15), 7.0, 0.75, 1.0).0, 1.0);
        assert!(weigh((f64::INFINITY, 0.0), 0.0, 0.75, 1.0).1 <= 1.0);
    }

    #[test]
    fn a_beginning_that_is_longer_than_usual_does_not_count() {
        let run = [vec![1.0; 60], vec![9.0; 40]].concat();
        let late = settled(std::slice::from_ref(&run));
        assert!((39..=41).contains(&late[0].len()), "{}", late[0].len());
        let down = [vec![9.0; 60], vec![1.0; 40]].concat();
        assert_eq!(settled(std::slice::from_ref(&down))[0].len(), 90);
        assert!(settled(&[vec![]])[0].is_empty());
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
