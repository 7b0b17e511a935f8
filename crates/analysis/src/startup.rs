//! Where the start-up phase ends (uFLIP section 4.2): change-point analysis.
//!
//! Model: the level of the log response time is one in the start-up phase and another in the
//! running phase, around which it oscillates and scatters with any autocorrelation. The boundary
//! is the least-squares change point. Whether it is one is decided by comparing the start-up phase
//! with stretches of the running phase that are as long: an oscillation that makes the beginning
//! look special makes such stretches look special too.

use crate::point::mean;
use crate::student::two_sided_p;

/// A start-up phase shorter than this cannot be distinguished from chance.
pub const STARTUP_IOS_MIN: usize = 8;
/// Fewer IOs than this are not analysed.
const IOS_MIN: usize = 64;
/// The running phase is cut into at least this many stretches.
const STRETCHES_MIN: usize = 8;
/// Two levels whose logarithms differ by less than this count as one level, even where the difference is significant.
const LEVEL_DIFFERENCE_MIN: f64 = 0.02;
/// An IO is of a new kind if it lies this far (as a logarithm: a factor of two) beyond all others.
const NEW_KIND: f64 = std::f64::consts::LN_2;

/// What was found of a start-up phase.
pub(crate) struct Startup {
    /// Its length; none where there is none.
    pub ios: Option<usize>,
    /// The probability that a device without one looks like this.
    pub p: f64,
    /// The figures that decided.
    pub evidence: String,
}

/// Finds the start-up phase in logarithms of response times.
pub(crate) fn find(log: &[f64]) -> Startup {
    if log.len() < IOS_MIN {
        let evidence = format!("{} IOs are too few to tell a start-up phase", log.len());
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
             {factor:.2}, {surprise:.1} times the scatter between stretches of the rest (p = {p:.2})"
        )
    };
    Startup { ios: found.then_some(candidate), p, evidence }
}

/// No start-up phase: the first `ios` IOs are apart from the others only as the oscillation is.
pub(crate) fn oscillation(ios: usize) -> Startup {
    let evidence =
        format!("no start-up phase: the first {ios} IOs differ from the others only as the oscillation does");
    Startup { ios: None, p: 1.0, evidence }
}

fn average(values: &[f64]) -> f64 {
    mean(values).unwrap_or(0.0)
}

/// The cut that leaves the least squared deviation from the means of the two parts, at most three
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

/// Moves the cut to where IOs begin that the start-up phase has none of, if the running phase has
/// such, set apart from the others: the level tells that 27 ms among 400 us belong to it, but not
/// exactly from which one on. The cut is the most likely one between a start-up phase in which such IOs are rare and a running
/// phase in which they have their share.
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
    // What moving the cut past an IO changes in the log likelihood.
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

/// How many standard errors the level before lies from the level after, and the probability of
/// that without a start-up phase.
fn surprise(before: &[f64], after: &[f64]) -> (f64, f64) {
    let running_level = average(after);
    let before = &without_extremes(before, running_level);
    let stretch = before.len().min(after.len() / STRETCHES_MIN).max(1);
    let early: Vec<f64> = before.chunks_exact(stretch).map(average).collect();
    let late: Vec<f64> = after.chunks_exact(stretch).map(average).collect();
    let (early_level, late_level) = (average(&early), average(&late));
    let gap = (early_level - late_level).abs();
    let (early_error, late_error) = (squared_error(&early), squared_error(&late));
    // The start-up phase may scatter more than the running phase but is not believed to scatter
    // less: it is short, and a single stretch of it shows no scatter at all.
    let squared = early_error.max(late_error * late.len() as f64 / early.len() as f64) + late_error;
    if gap == 0.0 {
        return (0.0, 1.0);
    }
    let rounding = f64::EPSILON * late_level.abs();
    let surprise = gap / squared.sqrt().max(rounding).max(f64::MIN_POSITIVE);
    // The cut was chosen out of all of them. Cuts a factor of two apart are nearly independent,
    // those between are not; four for each factor of two is generous.
    let looks = 4.0 * ((before.len() + after.len()) as f64).log2();
    let degrees = (late.len() - 1) as f64;
    let p = (two_sided_p(surprise, degrees) * looks).min(1.0);
    // With so few and perhaps far from normal stretches, none may lie as far out as the beginning.
    let outside = late.iter().all(|&l| (l > early_level) == (late_level > early_level));
    (surprise, if outside { p } else { 1.0 })
}

/// `before` with those IOs that lie furthest from the running phase's level set to that level: one
/// in twenty, two at least. A phase is more than a few outliers.
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

/// The squared standard error of the mean of neighbouring stretches; what correlation they have is
/// taken for that of a first-order autoregression, so that a trend is not a change.
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
