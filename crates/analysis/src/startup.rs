//! Finds the end of the start-up phase (uFLIP section 4.2) by change-point analysis.
//!
//! # Model
//! The logarithm of the response time has one level in the start-up phase and another in the running phase.
//! There it oscillates and scatters around its level, with any autocorrelation.
//!
//! # Method
//! 1. The boundary is the least-squares change point.
//! 2. To decide whether it is real, the start-up phase is compared with stretches of the running phase of the
//!    same length. If an oscillation makes the beginning look special, it makes such stretches look special,
//!    too.

use crate::point::mean;
use crate::student::two_sided_p;

/// A start-up phase shorter than this cannot be distinguished from chance.
pub const STARTUP_IOS_MIN: usize = 8;
/// Fewer IOs than this are not analysed.
const IOS_MIN: usize = 64;
/// The running phase is divided into at least this many stretches.
const STRETCHES_MIN: usize = 8;
/// Two levels whose logarithms differ by less than this count as equal, even if the difference is
/// significant.
const LEVEL_DIFFERENCE_MIN: f64 = 0.02;
/// An IO is of a new kind if it is this far (as a logarithm: a factor of two) above all others.
const NEW_KIND: f64 = std::f64::consts::LN_2;

/// The result of the search for a start-up phase.
pub(crate) struct Startup {
    /// Its length; `None` if there is none.
    pub ios: Option<usize>,
    /// The probability that a device without one looks like this.
    pub p: f64,
    /// The figures that decided.
    pub evidence: String,
}

/// Finds the start-up phase in logarithms of response times.
pub(crate) fn find(log: &[f64]) -> Startup {
    if log.len() < IOS_MIN {
        let evidence = format!("{} IOs are too few to find a start-up phase", log.len());
        return Startup { ios: None, p: 1.0, evidence };
    }
    let candidate = first_of_its_kind(log, change_point(log));
    let (before, after) = log.split_at(candidate);
    let factor = (average(after) - average(before)).exp();
    let (surprise, p) = surprise(before, after);
    let found = p < crate::student::SIGNIFICANT_P && factor.ln().abs() >= LEVEL_DIFFERENCE_MIN;
    let evidence = if found {
        format!(
            "start-up phase of {candidate} IOs: the typical response time changes by a factor of {factor:.2} \
             there, {surprise:.1} times the scatter between stretches of the running phase (p = {p:.1e})"
        )
    } else {
        format!(
            "no start-up phase: the most different beginning, {candidate} IOs, differs by a factor of \
             {factor:.2}, {surprise:.1} times the scatter between other stretches (p = {p:.2})"
        )
    };
    Startup { ios: found.then_some(candidate), p, evidence }
}

/// No start-up phase: the first `ios` IOs differ from the others only as the oscillation does.
pub(crate) fn oscillation(ios: usize) -> Startup {
    let evidence =
        format!("no start-up phase: the first {ios} IOs differ from the others only as the oscillation does");
    Startup { ios: None, p: 1.0, evidence }
}

fn average(values: &[f64]) -> f64 {
    mean(values).unwrap_or(0.0)
}

/// The cut with the smallest sum of squared deviations from the means of its two parts, at most three
/// quarters into the run.
fn change_point(log: &[f64]) -> usize {
    let n = log.len() as f64;
    let level = average(log);
    let (mut sum, mut best, mut best_gain) = (0.0, STARTUP_IOS_MIN, f64::NEG_INFINITY);
    for (i, value) in log[..log.len() * 3 / 4].iter().enumerate() {
        sum += value - level;
        let k = (i + 1) as f64;
        let gain = sum * sum * n / (k * (n - k));
        if i + 1 >= STARTUP_IOS_MIN && gain > best_gain {
            (best, best_gain) = (i + 1, gain);
        }
    }
    best
}

/// Moves the cut to the begin of IOs that occur only in the running phase, if there are such IOs, clearly
/// separate from the others. The levels show that IOs of 27 ms among 400 us belong to the running phase, but
/// not exactly where they begin. The new cut is the most likely one, with such IOs rare in the start-up phase
/// and with their normal share in the running phase.
fn first_of_its_kind(log: &[f64], cut: usize) -> usize {
    let (before, after) = log.split_at(cut);
    let direction = (average(after) - average(before)).signum();
    let extreme = before[..cut / 2].iter().map(|v| v * direction).fold(f64::NEG_INFINITY, f64::max);
    let share_beyond = |margin: f64| {
        after.iter().filter(|&v| v * direction > extreme + margin).count() as f64 / after.len() as f64
    };
    let share = share_beyond(NEW_KIND);
    let set_apart = share_beyond(NEW_KIND / 2.0) <= 1.25 * share;
    let share_before = 1.0 / cut as f64;
    if share <= 2.0 * share_before || !set_apart {
        return cut;
    }
    let is_new = |value: &f64| value * direction > extreme + NEW_KIND;
    // The change of the log-likelihood when the cut moves past an IO.
    let (new, old) =
        ((share_before / share).ln(), ((1.0 - share_before) / (1.0 - share).max(share_before)).ln());
    let (mut likelihood, mut best, mut best_likelihood) = (0.0, cut / 2, f64::NEG_INFINITY);
    for (i, value) in log.iter().enumerate().take((2 * cut).min(log.len() * 3 / 4)).skip(cut / 2) {
        if is_new(value) && likelihood > best_likelihood {
            (best, best_likelihood) = (i, likelihood);
        }
        likelihood += if is_new(value) { new } else { old };
    }
    if best_likelihood.is_finite() { best.max(STARTUP_IOS_MIN) } else { cut }
}

/// The distance between the levels before and after in standard errors, and its probability without a
/// start-up phase.
fn surprise(before: &[f64], after: &[f64]) -> (f64, f64) {
    let running_level = average(after);
    let before = &without_extremes(before, running_level);
    let stretch = before.len().min(after.len() / STRETCHES_MIN).max(1);
    let early: Vec<f64> = before.chunks_exact(stretch).map(average).collect();
    let late: Vec<f64> = after.chunks_exact(stretch).map(average).collect();
    let (early_level, late_level) = (average(&early), average(&late));
    let gap = (early_level - late_level).abs();
    let (early_error, late_error) = (squared_error(&early), squared_error(&late));
    // The start-up phase may scatter more than the running phase, but less is not believed: it is short, and
    // a single stretch shows no scatter.
    let squared = early_error.max(late_error * late.len() as f64 / early.len() as f64) + late_error;
    if gap == 0.0 {
        return (0.0, 1.0);
    }
    let rounding = f64::EPSILON * late_level.abs();
    let surprise = gap / squared.sqrt().max(rounding).max(f64::MIN_POSITIVE);
    // The cut is the best of all cuts. Cuts that are a factor of two apart are nearly independent, and those
    // between are not. Four tests for each factor of two are more than enough.
    let looks = 4.0 * ((before.len() + after.len()) as f64).log2();
    let degrees = (late.len() - 1) as f64;
    let p = (two_sided_p(surprise, degrees) * looks).min(1.0);
    // There are few stretches, perhaps far from normal. So none of them may be as extreme as the beginning.
    let outside = late.iter().all(|&l| (l > early_level) == (late_level > early_level));
    (surprise, if outside { p } else { 1.0 })
}

/// `before` without its extremes: the IOs farthest from the level of the running phase, one in twenty and at
/// least two, are set to that level. A phase is more than a few outliers.
fn without_extremes(before: &[f64], running_level: f64) -> Vec<f64> {
    let direction = (average(before) - running_level).signum();
    let mut order: Vec<usize> = (0..before.len()).collect();
    order.sort_by(|&a, &b| (before[b] * direction).total_cmp(&(before[a] * direction)));
    let mut kept = before.to_vec();
    for &i in order.iter().take((before.len() / 20).max(2)) {
        kept[i] = running_level;
    }
    kept
}

/// The squared standard error of the mean of neighbouring stretches. Their correlation is treated as that of
/// a first-order autoregression, so that a trend is not taken for a change.
fn squared_error(stretches: &[f64]) -> f64 {
    let n = stretches.len() as f64;
    let level = average(stretches);
    let squares = stretches.iter().map(|s| (s - level).powi(2)).sum::<f64>();
    if n < 2.0 || squares == 0.0 {
        return 0.0;
    }
    let lagged = stretches.windows(2).map(|pair| (pair[0] - level) * (pair[1] - level)).sum::<f64>();
    let correlation = (lagged / squares + 1.0 / n).clamp(0.0, 0.9);
    squares / (n - 1.0) / n * (1.0 + correlation) / (1.0 - correlation)
}
