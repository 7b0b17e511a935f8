//! Weighted least squares with two or three regressors, and what the fit knows of its own error.
//!
//! Model: y = sum of c_k x_k + e, e normal with a variance of s^2 / weight (Draper and Smith, "Applied Regression Analysis",
//! chapters 2 and 9). Method: the normal equations, with each regressor scaled to a length of 1, by Gauss-Jordan
//! elimination; s^2 from the residuals; intervals from Student's t.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::student::{quantile, two_sided_p};

use crate::performance_model::CONFIDENCE;

/// One equation of the system: what was varied, what was measured, and how much it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<const K: usize> {
    pub regressors: [f64; K],
    pub figure: f64,
    /// The inverse of the figure's variance, in any unit.
    pub weight: f64,
}

/// A fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LeastSquares<const K: usize> {
    pub coefficients: [f64; K],
    /// The inverse of the normal equations.
    inverse: [[f64; K]; K],
    /// Of a figure with a weight of 1.
    pub variance: f64,
    pub degrees: f64,
}

impl<const K: usize> LeastSquares<K> {
    /// The fit; none of fewer rows than coefficients and one more, or of regressors that depend on each other.
    pub fn fit(rows: &[Row<K>]) -> Option<LeastSquares<K>> {
        if rows.len() <= K {
            return None;
        }
        let mut scale = [0.0; K];
        for (k, scale) in scale.iter_mut().enumerate() {
            *scale = rows.iter().map(|row| row.weight * row.regressors[k].powi(2)).sum::<f64>().sqrt();
        }
        let mut normal = [[0.0; K]; K];
        let mut right = [0.0; K];
        for row in rows {
            for k in 0..K {
                let scaled = row.regressors[k] / scale[k];
                right[k] += row.weight * scaled * row.figure;
                for l in 0..K {
                    normal[k][l] += row.weight * scaled * row.regressors[l] / scale[l];
                }
            }
        }
        let mut inverse = inverted(normal)?;
        let mut coefficients = [0.0; K];
        for k in 0..K {
            coefficients[k] = (0..K).map(|l| inverse[k][l] * right[l]).sum::<f64>() / scale[k];
        }
        for (k, line) in inverse.iter_mut().enumerate() {
            line.iter_mut().zip(scale).for_each(|(entry, other)| *entry /= scale[k] * other);
        }
        let degrees = (rows.len() - K) as f64;
        let squares =
            rows.iter().map(|row| row.weight * (row.figure - dot(&coefficients, &row.regressors)).powi(2));
        let variance = squares.sum::<f64>() / degrees;
        let fit = LeastSquares { coefficients, inverse, variance, degrees };
        (variance.is_finite() && coefficients.iter().all(|c| c.is_finite())).then_some(fit)
    }

    /// Coefficient `k` with its interval.
    pub fn coefficient(&self, k: usize) -> Interval {
        self.around(self.coefficients[k], (self.variance * self.inverse[k][k].max(0.0)).sqrt())
    }

    /// The probability that coefficient `k` is this far from 0, or further, where it is 0.
    pub fn p_value(&self, k: usize) -> f64 {
        let error = (self.variance * self.inverse[k][k].max(0.0)).sqrt();
        two_sided_p(self.coefficients[k] / error, self.degrees)
    }

    /// What another measurement with these regressors will show, if it has this weight.
    pub fn predict(&self, regressors: &[f64; K], weight: f64) -> Interval {
        let of_line: f64 = (0..K).map(|k| regressors[k] * dot(&self.inverse[k], regressors)).sum();
        let error = (self.variance * (of_line.max(0.0) + 1.0 / weight)).sqrt();
        self.around(dot(&self.coefficients, regressors), error)
    }

    /// 1 less the residuals' share of the variance of the figures, without their weights.
    pub fn r2(&self, rows: &[Row<K>]) -> f64 {
        let mean = rows.iter().map(|row| row.figure).sum::<f64>() / rows.len() as f64;
        let all: f64 = rows.iter().map(|row| (row.figure - mean).powi(2)).sum();
        let residual = |row: &Row<K>| (row.figure - dot(&self.coefficients, &row.regressors)).powi(2);
        1.0 - rows.iter().map(residual).sum::<f64>() / all
    }

    fn around(&self, estimate: f64, error: f64) -> Interval {
        let half = quantile(CONFIDENCE, self.degrees) * error;
        Interval { estimate, low: estimate - half, high: estimate + half }
    }
}

fn dot<const K: usize>(a: &[f64; K], b: &[f64; K]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The inverse of a symmetric matrix; none where it has none that could be trusted.
fn inverted<const K: usize>(mut matrix: [[f64; K]; K]) -> Option<[[f64; K]; K]> {
    /// Regressors whose scaled equations leave less than this to a pivot depend on each other.
    const PIVOT_LEAST: f64 = 1e-12;
    let mut inverse = [[0.0; K]; K];
    for (k, line) in inverse.iter_mut().enumerate() {
        line[k] = 1.0;
    }
    for k in 0..K {
        let pivot = (k..K).max_by(|&a, &b| matrix[a][k].abs().total_cmp(&matrix[b][k].abs()))?;
        if matrix[pivot][k].is_nan() || matrix[pivot][k].abs() < PIVOT_LEAST {
            return None;
        }
        matrix.swap(k, pivot);
        inverse.swap(k, pivot);
        let divisor = matrix[k][k];
        matrix[k].iter_mut().chain(&mut inverse[k]).for_each(|entry| *entry /= divisor);
        for other in (0..K).filter(|&other| other != k) {
            let factor = matrix[other][k];
            for column in 0..K {
                matrix[other][column] -= factor * matrix[k][column];
                inverse[other][column] -= factor * inverse[k][column];
            }
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(x: f64, figure: f64) -> Row<2> {
        Row { regressors: [1.0, x], figure, weight: 1.0 }
    }

    #[test]
    fn agrees_with_a_fit_by_hand() {
        // Through (1, 1), (2, 2), (3, 2), (4, 3): y = 0.5 + 0.6 x, residuals -0.1, 0.3, -0.3, 0.1.
        let rows = [row(1.0, 1.0), row(2.0, 2.0), row(3.0, 2.0), row(4.0, 3.0)];
        let fit = LeastSquares::fit(&rows).unwrap();
        assert!((fit.coefficients[0] - 0.5).abs() < 1e-12 && (fit.coefficients[1] - 0.6).abs() < 1e-12);
        assert!((fit.variance - 0.1).abs() < 1e-12);
        // The slope's standard error is sqrt(0.1 / 5), t of 2 degrees at 95 % is 4.302653.
        let slope = fit.coefficient(1);
        assert!((slope.high - slope.estimate - 4.302653 * 0.02_f64.sqrt()).abs() < 1e-5, "{slope:?}");
        assert!((fit.p_value(1) - 0.0513).abs() < 1e-4, "{}", fit.p_value(1));
        // At the mean of x, another figure has a variance of s^2 (1 + 1 / n).
        let next = fit.predict(&[1.0, 2.5], 1.0);
        assert!((next.high - next.estimate - 4.302653 * 0.125_f64.sqrt()).abs() < 1e-5, "{next:?}");
    }

    #[test]
    fn what_has_no_line_gives_none() {
        assert_eq!(LeastSquares::fit(&[row(1.0, 1.0), row(2.0, 2.0)]), None);
        assert_eq!(LeastSquares::fit(&[row(1.0, 1.0), row(1.0, 2.0), row(1.0, 3.0)]), None);
        assert_eq!(LeastSquares::fit(&[row(1.0, f64::NAN), row(2.0, 2.0), row(3.0, 3.0)]), None);
        assert_eq!(LeastSquares::fit(&[row(0.0, 0.0), row(f64::INFINITY, 2.0), row(3.0, 3.0)]), None);
    }
}
