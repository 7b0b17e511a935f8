//! Student's t-distribution: the probability of a standardised difference.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The significance level: an answer with a smaller p is accepted. That allows one false alarm in a thousand;
/// the corrections for many tests make it even safer.
pub(crate) const SIGNIFICANT_P: f64 = 1e-3;

/// The distribution with `degrees` of freedom. Less than a half, or NaN, counts as a half, which is wider
/// than any use here.
fn student(degrees: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, degrees.max(0.5)).expect("location 0, scale 1 and positive degrees are valid")
}

/// The probability of a value at least as far from 0 as `t`, in either direction.
pub fn two_sided_p(t: f64, degrees: f64) -> f64 {
    if t.is_nan() { 1.0 } else { 2.0 * student(degrees).sf(t.abs()) }
}

/// The probability of a value of at least `t`.
pub fn upper_p(t: f64, degrees: f64) -> f64 {
    if t.is_nan() { 1.0 } else { student(degrees).sf(t) }
}

/// The value that is exceeded in either direction once in twenty times: half the width of a 95 % confidence
/// interval in standard errors.
pub(crate) fn quantile_95(degrees: f64) -> f64 {
    quantile(0.95, degrees)
}

/// As above for another confidence, limited to values that differ from 0 and 1.
pub fn quantile(confidence: f64, degrees: f64) -> f64 {
    student(degrees).inverse_cdf(0.5 + confidence.clamp(1e-9, 1.0 - 1e-9) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_printed_tables() {
        for (degrees, quantile) in [(1.0, 12.706), (4.0, 2.776), (10.0, 2.228), (30.0, 2.042)] {
            assert!((quantile_95(degrees) - quantile).abs() < 6e-4, "{degrees}");
            assert!((two_sided_p(quantile, degrees) - 0.05).abs() < 1e-4, "{degrees}");
            assert!((upper_p(-quantile, degrees) - 0.975).abs() < 1e-4, "{degrees}");
        }
        assert_eq!(two_sided_p(f64::INFINITY, 3.0), 0.0);
    }
}
