//! The estimators that the inference of a black box decides with: pure functions over figures,
//! mostly response times in nanoseconds, in the order they were measured in.
//!
//! | question | module |
//! | --- | --- |
//! | do two or more samples differ, and by how much | [`ranks`] |
//! | how large is it, and with which interval | [`level`] |
//! | from which IO on is it another level | [`change`] |
//! | the line through a few figures whose errors are known, and whether it is one | [`mod@weighted_line`] |
//! | pages, planes and blocks from reads across boundaries | [`boundaries`] |
//!
//! Model: a response time is a cost times a jitter, which is about log-normal with a few per cent,
//! and one in a hundred is an outlier of about ten times. So everything goes by ranks and medians,
//! or by logarithms with a share of outliers allowed for.
//!
//! What a p means, throughout: the probability, at most, that figures without the effect show this
//! much of it, corrected for all the places that were looked at. Figures are taken to be
//! independent of each other: where neighbours are not, they must be thinned or averaged before.
//!
//! Invariants: nothing panics, whatever the figures; figures that are not finite, or not above 0
//! where logarithms are taken, count as the nearest that are (a figure that is none is left out
//! by the caller); too little to tell is `None` or p = 1; the same figures give the same answer.

use statrs::distribution::{ContinuousCDF, Normal};

pub mod boundaries;
pub mod change;
pub mod level;
pub mod ranks;
pub mod weighted_line;

/// The probability that a standard normal figure is above `z`.
fn normal_upper_p(z: f64) -> f64 {
    if z.is_nan() { 1.0 } else { Normal::standard().sf(z) }
}

/// What a standard normal figure lies within, either side of 0, with probability `confidence`,
/// which is limited to what can be told from 0 and 1.
fn normal_quantile(confidence: f64) -> f64 {
    Normal::standard().inverse_cdf(0.5 + confidence.clamp(1e-9, 1.0 - 1e-9) / 2.0)
}

/// The logarithms, of the nearest positive finite figure where there is none.
fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().map(|v| v.clamp(f64::MIN_POSITIVE, f64::MAX).ln()).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median of ascending figures; none of nothing.
fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    // Halved before they are added: two huge figures have a sum that is not finite.
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

    /// Asserts that of the `ps`, computed without an effect, no larger share lies below an alpha
    /// than alpha and three standard errors.
    pub(crate) fn assert_honest(ps: &[f64], what: &str) {
        for alpha in [0.2, 0.05, 0.01] {
            let share = ps.iter().filter(|&&p| p <= alpha).count() as f64 / ps.len() as f64;
            let allowed = alpha + 3.0 * (alpha * (1.0 - alpha) / ps.len() as f64).sqrt();
            assert!(share <= allowed, "{what}: {share} of {} below {alpha}", ps.len());
        }
    }

    /// Figures that are odd in every way the estimators must live with.
    pub(crate) fn odd_samples() -> Vec<Vec<f64>> {
        let mut samples = vec![vec![], vec![0.0], vec![f64::MAX; 40], vec![1.0; 3], vec![7.0; 500]];
        samples.push((0..64).map(|i| if i % 2 == 0 { f64::MAX } else { f64::MIN_POSITIVE }).collect());
        samples.push((0..300).map(|i| if i == 17 { 1e300 } else { 1.0 }).collect());
        samples.push((0..100).map(|i| -f64::from(i) * 1e307).collect());
        samples.push(vec![f64::INFINITY, f64::NEG_INFINITY, 1.0, f64::INFINITY, 0.0, -0.0, 5e-324, 2.0]);
        samples
    }
}
