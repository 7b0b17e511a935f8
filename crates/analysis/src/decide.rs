//! The statistical tests and estimators of inference: pure functions of figures, mostly response times in
//! nanoseconds in the order of measurement.
//!
//! | question | module |
//! | --- | --- |
//! | do two or more samples differ, and by how much | [`ranks`] |
//! | how large is it, and with which interval | [`level`] |
//! | from which IO on is it another level | [`change`] |
//! | the line through a few figures whose errors are known, and whether it is one | [`mod@weighted_line`] |
//! | pages, planes and blocks from reads across boundaries | [`boundaries`] |
//!
//! Model: a response time is a cost multiplied by jitter. The jitter is about log-normal with a few per cent,
//! and one in a hundred is an outlier of about ten times. So all estimators use ranks and medians, or
//! logarithms with a share of outliers.
//!
//! The meaning of p everywhere: an upper bound of the probability that figures without the effect show at
//! least this much of it, corrected for all positions that were tested. Figures are assumed to be
//! independent. If neighbours are not, the caller must thin or average them first.
//!
//! Invariants:
//! - No figures cause a panic.
//! - Figures that are not finite, or not above 0 before a logarithm, are replaced by the nearest that are.
//!   The caller leaves out NaN.
//! - If there are too few figures, the answer is `None` or p = 1.
//! - The same figures give the same answer.

use statrs::distribution::{ContinuousCDF, Normal};

pub mod boundaries;
pub mod change;
pub mod level;
pub mod ranks;
pub mod weighted_line;

/// The probability that a standard normal value is above `z`.
fn normal_upper_p(z: f64) -> f64 {
    if z.is_nan() { 1.0 } else { Normal::standard().sf(z) }
}

/// The distance from 0 within which a standard normal value lies with probability `confidence`. The
/// confidence is limited to values that differ from 0 and 1.
fn normal_quantile(confidence: f64) -> f64 {
    Normal::standard().inverse_cdf(0.5 + confidence.clamp(1e-9, 1.0 - 1e-9) / 2.0)
}

/// The logarithms. A figure that is not positive and finite is replaced by the nearest that is.
fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().map(|v| v.clamp(f64::MIN_POSITIVE, f64::MAX).ln()).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median of ascending figures; `None` for none.
fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    // Halved before they are added, because the sum of two huge figures is not finite.
    Some(if sorted.len() % 2 == 1 { upper } else { sorted[sorted.len() / 2 - 1] / 2.0 + upper / 2.0 })
}

#[cfg(test)]
pub(crate) mod noise {
    use crate::synthetic::Source;

    /// 1 with 5 % log-normal jitter, and one in a hundred ten times as much.
    pub(crate) fn jitter(source: &mut Source) -> f64 {
        let outlier = if source.unit() < 0.01 { 10.0 } else { 1.0 };
        outlier * source.log_normal(0.05)
    }

    pub(crate) fn sample(source: &mut Source, n: usize, level: f64) -> Vec<f64> {
        (0..n).map(|_| level * jitter(source)).collect()
    }

    /// Asserts that the `ps`, computed without an effect, are not too small: the share below each alpha is at
    /// most alpha plus three standard errors.
    pub(crate) fn assert_honest(ps: &[f64], what: &str) {
        for alpha in [0.2, 0.05, 0.01] {
            let share = ps.iter().filter(|&&p| p <= alpha).count() as f64 / ps.len() as f64;
            let allowed = alpha + 3.0 * (alpha * (1.0 - alpha) / ps.len() as f64).sqrt();
            assert!(share <= allowed, "{what}: {share} of {} below {alpha}", ps.len());
        }
    }

    /// Unusual figures that every estimator must accept.
    pub(crate) fn odd_samples() -> Vec<Vec<f64>> {
        let mut samples = vec![vec![], vec![0.0], vec![f64::MAX; 40], vec![1.0; 3], vec![7.0; 500]];
        samples.push((0..64).map(|i| if i % 2 == 0 { f64::MAX } else { f64::MIN_POSITIVE }).collect());
        samples.push((0..300).map(|i| if i == 17 { 1e300 } else { 1.0 }).collect());
        samples.push((0..100).map(|i| -f64::from(i) * 1e307).collect());
        samples.push(vec![f64::INFINITY, f64::NEG_INFINITY, 1.0, f64::INFINITY, 0.0, -0.0, 5e-324, 2.0]);
        samples
    }
}
