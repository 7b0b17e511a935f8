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
//! 3. If that is more than half of the run, it was still changing: it has not settled. Unless the halves of the whole run agree to [`EQUAL_WITHIN`]:
//!    among few means the last ones have the smallest scatter by chance, and nothing has to be left out.
//! 4. What is left is shortened to whole windows. If its halves differ by more than [`HALVES_WITHIN`], and by more than windows scatter by chance, the
//!    run is still changing as well: it has not settled.
//!
//! # Invariant
//! What is left has at least two windows, or the run has not settled.

/// Means that begin in each window: with fewer, the end of the transient would be rounded to whole cycles.
const MEANS_PER_WINDOW: usize = 4;
/// The scatter of means (relative) below which they are equal: a response time of a millisecond is known to a nanosecond.
const ROUNDING: f64 = 1e-6;
/// A settled run has at least this number of windows after its transient.
const WINDOWS_MIN: usize = 2;

/// The halves of a settled run differ by at most this part: half of the interval within which a point has to be known.
const HALVES_WITHIN: f64 = 0.10;
/// ... or by at most this number of standard errors.
const ERRORS_WITHIN: f64 = 2.0;
/// Halves that agree to this part are of one level: what MSER would leave out changes the mean by half of it at most (half of the precision goal).
const EQUAL_WITHIN: f64 = 0.05;

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
        let rest = responses.len() % window;
        let whole: Vec<f64> = responses[rest..].chunks_exact(window).map(mean).collect();
        let is_level = Halves::of(&whole).is_some_and(|halves| halves.apart() <= EQUAL_WITHIN);
        return Transient { ios: if is_level { rest } else { ios }, is_settled: is_level };
    }
    let ios = responses.len() - windows * window;
    let settled: Vec<f64> = responses[ios..].chunks_exact(window).map(mean).collect();
    let is_changing = Halves::of(&settled).is_some_and(|halves| halves.differ());
    Transient { ios, is_settled: !is_changing }
}

/// The halves of some windows: their means, and the standard error of the difference.
struct Halves {
    first: f64,
    second: f64,
    error: f64,
}

impl Halves {
    /// Of fewer than four windows nobody knows their scatter.
    fn of(windows: &[f64]) -> Option<Halves> {
        let half = windows.len() / 2;
        if half < 2 {
            return None;
        }
        let level = |part: &[f64]| {
            let mean = part.iter().sum::<f64>() / half as f64;
            let squares: f64 = part.iter().map(|value| (value - mean).powi(2)).sum();
            (mean, squares / (half * (half - 1)) as f64)
        };
        let ((first, a), (second, b)) = (level(&windows[..half]), level(&windows[windows.len() - half..]));
        Some(Halves { first, second, error: (a + b).sqrt() })
    }

    /// By which part of the first they differ.
    fn apart(&self) -> f64 {
        (self.second - self.first).abs() / self.first.max(f64::MIN_POSITIVE)
    }

    fn differ(&self) -> bool {
        self.apart() > HALVES_WITHIN && (self.second - self.first).abs() > ERRORS_WITHIN * self.error
    }
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
    fn a_level_run_whose_last_windows_agree_by_chance_has_settled() {
        // Windows of 100 IOs between 221 and 255 us; the last two are equal.
        let levels = [222.0, 252.0, 223.0, 225.0, 251.0, 222.0, 254.0, 223.0, 221.0, 252.0, 223.0, 223.0];
        let all = responses(1200, |i| levels[i / 100]);
        let found = transient(&all, 100);
        assert_eq!(found, Transient { ios: 0, is_settled: true });
        let sinking = responses(1200, |i| levels[i / 100] - 8.0 * (i / 100) as f64);
        assert!(!transient(&sinking, 100).is_settled);
    }

    #[test]
    fn halves_that_differ_show_a_run_that_still_becomes_faster() {
        // Each window is faster than the one before; MSER leaves out none of the last half.
        let all = responses(6000, |i| 1000.0 * 0.97f64.powi((i / 200) as i32));
        assert!(!transient(&all, 200).is_settled);
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
