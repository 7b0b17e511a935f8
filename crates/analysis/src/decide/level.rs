//! Estimates the level of a sample, with a confidence interval.
//!
//! # Model
//! Independent figures from one distribution of any shape.
//! - The median's interval comes from order statistics (Hollander, Wolfe and Chicken, "Nonparametric
//!   Statistical Methods"): the number of figures below the true median is binomial with one half, whatever
//!   the distribution. Outliers move it only by their share.
//! - Where costs add up, a mean is needed. The trimmed mean leaves out the extremes at both ends. Its error
//!   comes from the winsorised variance (Tukey and McLaughlin, Sankhya A 25(3), 1963). For a skewed
//!   distribution it is not the mean.

use statrs::distribution::{Binomial, DiscreteCDF};

use super::ranks::Interval;
use super::{logarithms, median_of_sorted, sorted};
use crate::student::quantile;

/// The median, with an interval that contains the true median with at least the probability `confidence`.
/// `None` if there are too few figures: 6 give 95 %, 8 give 99 %.
pub fn level(values: &[f64], confidence: f64) -> Option<Interval> {
    let sorted = sorted(values);
    let outside = (1.0 - confidence.clamp(0.0, 1.0)) / 2.0;
    let binomial = Binomial::new(0.5, sorted.len() as u64).ok()?;
    // The most figures that may lie beyond the ends, by bisection.
    let (mut few, mut many) = (0, sorted.len().div_ceil(2));
    while few < many {
        let middle = (few + many) / 2;
        if binomial.cdf(middle as u64) <= outside { few = middle + 1 } else { many = middle }
    }
    let place = few.checked_sub(1)?;
    let estimate = median_of_sorted(&sorted)?;
    Some(Interval { estimate, low: sorted[place], high: sorted[sorted.len() - 1 - place] })
}

/// The trimmed mean: `share` of the figures, rounded up, are left out at both ends. Its interval contains the
/// estimated value with probability `confidence` (Tukey and McLaughlin). `None` if fewer than three figures
/// are left, or if they are too large to be added.
pub fn trimmed_mean(values: &[f64], share: f64, confidence: f64) -> Option<Interval> {
    let mut values = sorted(values);
    let cut = (share.clamp(0.0, 0.5) * values.len() as f64).ceil() as usize;
    let left = values.len().checked_sub(2 * cut).filter(|&left| left >= 3)?;
    let (n, left) = (values.len() as f64, left as f64);
    let (low, high) = (values[cut], values[values.len() - 1 - cut]);
    let estimate = values[cut..values.len() - cut].iter().map(|v| v / left).sum::<f64>();
    values.iter_mut().for_each(|v| *v = v.clamp(low, high));
    let mean = values.iter().map(|v| v / n).sum::<f64>();
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let error = (variance / n).sqrt() * n / left;
    let half = quantile(confidence, left - 1.0) * error;
    half.is_finite().then_some(Interval { estimate, low: estimate - half, high: estimate + half })
}

/// The median as in [`level`]. If the trimmed mean of the logarithms agrees with it, that is used instead:
/// for noise that is symmetric on a scale of ratios both are the same, and its interval is a fifth narrower.
pub fn centre(values: &[f64], confidence: f64) -> Option<Interval> {
    let level = level(values, confidence)?;
    let mean = trimmed_mean(&logarithms(values), 0.1, confidence).map(|mean| mean.map(f64::exp));
    Some(mean.filter(|mean| level.holds(mean.estimate)).unwrap_or(level))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::noise::{odd_samples, sample};
    use crate::synthetic::Source;

    #[test]
    fn agrees_with_the_printed_table() {
        // 95 %: figures 1 and 6 of 6, 2 and 9 of 10, 10 and 21 of 30, 40 and 61 of 100.
        for (n, low, high) in [(6, 1, 6), (10, 2, 9), (30, 10, 21), (100, 40, 61)] {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            let found = level(&values, 0.95).unwrap();
            assert_eq!((found.low, found.high), (f64::from(low), f64::from(high)));
            assert_eq!(found.estimate, f64::from(n + 1) / 2.0);
        }
        assert_eq!(level(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95), None);
        assert_eq!(level(&[1.0; 7], 0.99), None);
        assert_eq!(level(&[5.0; 8], 0.99).map(|level| level.relative_half_width()), Some(0.0));
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut source = Source::new(5);
        // The true median of jitter and outliers: one per cent of high outliers moves it by a hundredth of
        // sigma.
        let truth = 0.05_f64 * 0.01266;
        for n in [6, 17, 100, 1000] {
            let held =
                |interval: Option<Interval>| interval.is_some_and(|interval| interval.holds(truth.exp()));
            let medians = (0..400).filter(|_| held(level(&sample(&mut source, n, 1.0), 0.95))).count();
            assert!(medians >= 367, "{medians} of 400 with {n}");
            let mean = |source: &mut Source| trimmed_mean(&sample(source, n, 1.0), 0.1, 0.95);
            let means = (0..400).filter(|_| held(mean(&mut source))).count();
            assert!(means >= 360, "{means} of 400 with {n}");
            let centres = (0..400).filter(|_| held(centre(&sample(&mut source, n, 1.0), 0.95))).count();
            assert!(centres >= 350, "{centres} of 400 with {n}");
        }
        let thousand = level(&sample(&mut source, 1000, 80e3), 0.95).unwrap();
        assert!(thousand.relative_half_width() < 0.007, "{thousand:?}");
    }

    #[test]
    fn odd_figures_do_no_harm() {
        for values in odd_samples() {
            for confidence in [0.0, 0.95, 1.0, 7.0] {
                let found = level(&values, confidence);
                assert!(found.is_none_or(|l| l.low <= l.estimate && l.estimate <= l.high), "{values:?}");
                let found = trimmed_mean(&values, confidence / 10.0, confidence);
                assert!(found.is_none_or(|l| l.estimate.is_finite()), "{values:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_trimmed_mean_lies_among_the_figures(values in prop::collection::vec(1.0..1e9f64, 5..60)) {
            let mean = trimmed_mean(&values, 0.1, 0.95).unwrap();
            let (low, high) = values.iter().fold((f64::MAX, 0.0_f64), |(l, h), &v| (l.min(v), h.max(v)));
            prop_assert!(low * 0.999_999 <= mean.estimate && mean.estimate <= high * 1.000_001);
        }
    }
}
