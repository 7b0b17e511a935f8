//! A line through a few points with known errors, and a test whether they lie on a line.
//!
//! Model: y = intercept + slope x, where each y has an independent normal error of known size. Least squares
//! with any weights are unbiased. Weights of 1 / error^2 are the most precise. With them, the sum of squared
//! deviations in units of the errors is chi-squared, with two degrees of freedom less than points (Press et
//! al., "Numerical Recipes", section 15.2).

use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::ranks::Interval;

/// A point whose y has a known error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightedPoint {
    /// Where.
    pub x: f64,
    /// The figure there.
    pub y: f64,
    /// Its standard error, above 0.
    pub error: f64,
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightedLine {
    /// y at x = 0, with two standard errors on either side.
    pub intercept: Interval,
    /// y per x.
    pub slope: f64,
    /// The sum of the squared deviations from the line, each in units of its error.
    pub deviations: f64,
    /// The probability that points on a line deviate at least this much from it, if they were weighted by
    /// their errors.
    pub chance: f64,
}

/// The least-squares line, with each deviation relative to the point's `unit`. `None` for fewer than three
/// points, or for points without a line.
pub fn weighted_line(points: &[WeightedPoint], unit: impl Fn(&WeightedPoint) -> f64) -> Option<WeightedLine> {
    let shares = weights(points, &unit, 0.0)?;
    let all = || shares.iter().zip(points);
    let estimate = all().map(|(share, point)| share * point.y).sum::<f64>();
    let error = all().map(|(share, point)| (share * point.error).powi(2)).sum::<f64>().sqrt();
    let by_x = |of: &dyn Fn(&WeightedPoint) -> f64| -> f64 {
        points.iter().map(|point| point.x * of(point) * unit(point).powi(-2)).sum()
    };
    let slope = by_x(&|point| point.y - estimate) / by_x(&|point| point.x);
    let deviation = |point: &WeightedPoint| ((point.y - estimate - slope * point.x) / point.error).powi(2);
    let deviations: f64 = points.iter().map(deviation).sum();
    if points.len() < 3 || !(error.is_finite() && slope.is_finite() && deviations.is_finite()) {
        return None;
    }
    let chance = ChiSquared::new(points.len() as f64 - 2.0).map_or(0.0, |all| all.sf(deviations));
    let intercept = Interval { estimate, low: estimate - 2.0 * error, high: estimate + 2.0 * error };
    Some(WeightedLine { intercept, slope, deviations, chance })
}

/// The weight of each point's y in the value of the least-squares line at `at`, with each deviation relative
/// to the point's `unit`. The value is a weighted sum of the figures, and so is its error. `None` for points
/// without a line.
pub fn weights(points: &[WeightedPoint], unit: impl Fn(&WeightedPoint) -> f64, at: f64) -> Option<Vec<f64>> {
    let weight = |point: &WeightedPoint| unit(point).powi(-2);
    let sum = |of: &dyn Fn(&WeightedPoint) -> f64| {
        points.iter().map(|point| of(point) * weight(point)).sum::<f64>()
    };
    let (s, sx, sxx) = (sum(&|_| 1.0), sum(&|point| point.x), sum(&|point| point.x.powi(2)));
    let determinant = s * sxx - sx * sx;
    let of =
        |point: &WeightedPoint| (sxx - sx * point.x + (s * point.x - sx) * at) * weight(point) / determinant;
    let weights: Vec<f64> = points.iter().map(of).collect();
    weights.iter().all(|weight| weight.is_finite()).then_some(weights)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Source;

    fn points(source: &mut Source, bend: f64) -> Vec<WeightedPoint> {
        let at = |power: i32| {
            let x = 2.0_f64.powi(power);
            let error = 0.01 * (100.0 + 3.0 * x);
            WeightedPoint { x, y: 100.0 + 3.0 * x + bend * x * x + error * source.normal(), error }
        };
        (2..9).map(at).collect()
    }

    #[test]
    fn a_line_is_found_as_often_and_as_exactly_as_said_and_a_curve_is_none() {
        let mut source = Source::new(1);
        let lines: Vec<WeightedLine> = (0..400)
            .map(|_| weighted_line(&points(&mut source, 0.0), |point| point.error).unwrap())
            .collect();
        let held = lines.iter().filter(|line| line.intercept.holds(100.0)).count();
        let fits = lines.iter().filter(|line| line.chance > 0.1).count();
        assert!((365..=396).contains(&held) && (335..=380).contains(&fits), "{held} {fits}");
        let curves = (0..100).filter(|_| {
            let points = points(&mut source, 0.002);
            weighted_line(&points, |point| point.error).unwrap().chance > 0.1
        });
        assert_eq!(curves.count(), 0);
    }

    #[test]
    fn what_is_no_line_gives_none() {
        let point = |x, y| WeightedPoint { x, y, error: 1.0 };
        let unit = |point: &WeightedPoint| point.error;
        assert_eq!(weighted_line(&[point(1.0, 1.0), point(2.0, 2.0)], unit), None);
        assert_eq!(weighted_line(&[point(1.0, 1.0), point(1.0, 2.0), point(1.0, 3.0)], unit), None);
        assert_eq!(weighted_line(&[point(1.0, 1.0), point(2.0, f64::NAN), point(3.0, 3.0)], unit), None);
        let exact = weighted_line(&[point(1.0, 5.0), point(2.0, 7.0), point(3.0, 9.0)], unit).unwrap();
        assert!((exact.intercept.estimate - 3.0).abs() < 1e-9 && (exact.slope - 2.0).abs() < 1e-9);
    }
}
