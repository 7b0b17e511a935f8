//! Finds where a run has settled: the IOs at its begin that still show what the device did before.
//!
//! # Model
//! A pattern changes the device's state: writes in place make garbage collection cheaper, a cache fills with blocks of the new pattern. So the
//! first IOs of a run belong to the pattern before it, whether they are faster or slower than what follows.
//!
//! # Method
//! The rule MSER of simulation studies (White: *An effective truncation heuristic for bias reduction in simulation output*, Simulation 69(6),
//! 1997), over means of windows that begin a quarter of a window apart. A
//! window has whole cycles, so that a rate that alternates has equal means.
//! 1. Each number d of means that may be left out is tried, up to three quarters of the run.
//! 2. The d counts at which the mean of what is left has the smallest standard error: leaving out more loses data, and less keeps the
//!    transient.
//! 3. If that is more than half of the run, it was still changing: it has not settled.
//! 4. What is left is shortened to whole windows.
//!
//! # Invariant
//! What is left has at least two windows, or the run has not settled.

/// Means that begin in each window: with fewer, the end of the transient would be rounded to whole cycles.
const MEANS_PER_WINDOW: usize = 4;
/// The scatter of means (relative) below which they are equal: a response time of a millisecond is known to a nanosecond.
const ROUNDING: f64 = 1e-6;
/// A settled run has at least this number of windows after its transient.
const WINDOWS_MIN: usize = 2;

/// What was found of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transient {
    /// The IOs at its begin that belong to the transient.
    pub ios: usize,
    /// Whether it ended before the middle of the run, with enough windows after it.
    pub is_settled: bool,
}

/// The transient of a run, from its response times in the order of the IOs. `window` is the number of IOs of whole cycles.
pub fn transient(responses: &[u64], window: usize) -> Transient {
    let window = window.max(1);
    let step = window.div_ceil(MEANS_PER_WINDOW);
    let mean = |window: &[u64]| window.iter().map(|&ns| ns as f64).sum::<f64>() / window.len() as f64;
    let means: Vec<f64> = responses.windows(window).step_by(step).map(mean).collect();
    let left_out = smallest_error(&means, means.len() * 3 / 4);
    let ios = (left_out * step).min(responses.len());
    let windows = (responses.len() - ios) / window;
    if left_out > means.len() / 2 || windows < WINDOWS_MIN {
        return Transient { ios, is_settled: false };
    }
    Transient { ios: responses.len() - windows * window, is_settled: true }
}

/// The number of means at the begin, up to `most`, without which the standard error of the mean is smallest.
fn smallest_error(means: &[f64], most: usize) -> usize {
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (0, f64::INFINITY);
    // From the end, so that sums grow by one mean each. The mean of all is subtracted, because squares of equal values cancel.
    let level = means.iter().sum::<f64>() / means.len().max(1) as f64;
    for (left_out, value) in means.iter().enumerate().rev() {
        sum += value - level;
        squares += (value - level).powi(2);
        let count = (means.len() - left_out) as f64;
        // Equal means differ by rounding.
        let error = (squares - sum * sum / count).max(count * (ROUNDING * level).powi(2)) / (count * count);
        if left_out <= most && error <= best.1 {
            best = (left_out, error);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Source, responses};

    #[test]
    fn a_run_of_one_level_has_no_transient() {
        let (mut long, mut unsettled) = (0, 0);
        for seed in 0..100 {
            let mut source = Source::new(seed);
            let all = responses(4000, |_| 100.0 * source.log_normal(0.3));
            let found = transient(&all, 100);
            long += usize::from(found.ios > 1000);
            unsettled += usize::from(!found.is_settled);
        }
        assert!(long <= 10 && unsettled <= 3, "{long} of 100 lose a quarter, {unsettled} are unsettled");
        assert_eq!(transient(&[7; 4000], 100), Transient { ios: 0, is_settled: true });
    }

    #[test]
    fn a_transient_is_left_out_whether_it_is_faster_or_slower() {
        for level in [20.0, 500.0] {
            let mut source = Source::new(5);
            let all = responses(6000, |i| if i < 1300 { level } else { 100.0 } * source.log_normal(0.2));
            let found = transient(&all, 200);
            assert!(found.is_settled && (1300..=1900).contains(&found.ios), "{level}: {found:?}");
        }
    }

    #[test]
    fn a_run_that_still_changes_has_not_settled() {
        let mut source = Source::new(6);
        let drifting = responses(6000, |i| (100.0 + i as f64 / 60.0) * source.log_normal(0.1));
        assert!(!transient(&drifting, 200).is_settled);
        let late = responses(6000, |i| if i < 4000 { 20.0 } else { 100.0 });
        assert!(!transient(&late, 200).is_settled);
        assert!(!transient(&[], 200).is_settled);
        assert!(!transient(&[100; 399], 200).is_settled, "less than two windows");
    }

    #[test]
    fn what_is_left_of_an_alternating_rate_has_whole_cycles() {
        let mut source = Source::new(7);
        let all = responses(7300, |i| {
            let level = match i {
                ..900 => 10.0,
                _ if i % 800 < 100 => 800.0,
                _ => 20.0,
            };
            level * source.log_normal(0.1)
        });
        let found = transient(&all, 800);
        assert!(found.is_settled && found.ios >= 800, "{found:?}");
        assert_eq!((all.len() - found.ios) % 800, 0);
    }
}
