//! The search for costs: Levenberg and Marquardt's method on simulated response times.
//!
//! # Model
//! Response times are nearly linear in the costs of a profile, because the structure alone decides what is read, programmed
//! and erased. So the derivatives are taken by simulating one changed cost after the other, and a few steps suffice.
//! (Marquardt, "An Algorithm for Least-Squares Estimation of Nonlinear Parameters", 1963; deviations are reweighted so that
//! the sum of absolute values becomes small.)

use flashlab_sim::Profile;

use super::cost::Cost;
use super::objective::{score, weight};

/// A profile and how far it is from the device.
#[derive(Clone, Debug)]
pub(super) struct Scored {
    pub profile: Profile,
    pub residuals: Vec<f64>,
    pub score: f64,
}

impl Scored {
    /// The profile with these residuals.
    pub fn new(profile: Profile, residuals: Vec<f64>) -> Scored {
        let score = score(&residuals);
        Scored { profile, residuals, score }
    }
}

/// An improvement by less than this share is the end of a search.
const WORTH: f64 = 0.01;

/// Changes the costs so that the score becomes smaller. `evaluate` simulates a profile; `scale_ns` is a typical response
/// time, of which a cost that is zero is changed by a small part.
pub(super) fn improve(
    mut best: Scored,
    costs: &[Cost],
    scale_ns: f64,
    steps: usize,
    evaluate: &mut impl FnMut(&Profile) -> Option<Vec<f64>>,
) -> Scored {
    let mut damping = 1e-2;
    for _ in 0..steps {
        let columns: Vec<Option<(f64, Vec<f64>)>> =
            costs.iter().map(|&cost| derivative(&best, cost, scale_ns, evaluate)).collect();
        let mut improved = false;
        for _ in 0..4 {
            let Some(changes) = solved(&best.residuals, &columns, damping) else { break };
            let mut profile = best.profile.clone();
            for ((&cost, column), change) in costs.iter().zip(&columns).zip(changes) {
                if let Some((unit, _)) = column {
                    let before = cost.get(&profile);
                    // A step changes no cost by more than a factor of three.
                    let after = (before + change * unit).clamp(before / 3.0, before * 3.0 + 20.0 * unit);
                    cost.set(&mut profile, after);
                }
            }
            let candidate = evaluate(&profile).map(|residuals| Scored::new(profile, residuals));
            match candidate.filter(|candidate| candidate.score < best.score) {
                Some(candidate) => {
                    improved = best.score - candidate.score > WORTH * best.score;
                    best = candidate;
                    damping = (damping / 5.0).max(1e-6);
                    break;
                }
                None => damping *= 8.0,
            }
        }
        if !improved {
            break;
        }
    }
    best
}

/// How the residuals change with a cost, and the change of the cost that this is for.
fn derivative(
    at: &Scored,
    cost: Cost,
    scale_ns: f64,
    evaluate: &mut impl FnMut(&Profile) -> Option<Vec<f64>>,
) -> Option<(f64, Vec<f64>)> {
    let value = cost.get(&at.profile);
    let unit = (value * 0.05).max(scale_ns * 0.005).max(1.0);
    let mut profile = at.profile.clone();
    cost.set(&mut profile, value + unit);
    let changed = evaluate(&profile)?;
    let difference: Vec<f64> =
        changed.iter().zip(&at.residuals).map(|(after, before)| after - before).collect();
    difference.iter().any(|change| change.abs() > 1e-9).then_some((unit, difference))
}

/// The changes, in units of each cost, that make the weighted squares smallest.
fn solved(residuals: &[f64], columns: &[Option<(f64, Vec<f64>)>], damping: f64) -> Option<Vec<f64>> {
    let n = columns.len();
    let mut matrix = vec![vec![0.0; n + 1]; n];
    for (i, first) in columns.iter().enumerate() {
        let Some((_, first)) = first else {
            matrix[i][i] = 1.0;
            continue;
        };
        for (j, second) in columns.iter().enumerate() {
            if let Some((_, second)) = second {
                let products = first.iter().zip(second).zip(residuals);
                matrix[i][j] = products.map(|((a, b), &residual)| a * b * weight(residual)).sum();
            }
        }
        matrix[i][n] =
            -first.iter().zip(residuals).map(|(a, &residual)| a * residual * weight(residual)).sum::<f64>();
    }
    for (i, row) in matrix.iter_mut().enumerate() {
        row[i] = row[i] * (1.0 + damping) + 1e-12;
    }
    eliminated(matrix)
}

/// Gauss and Jordan's elimination; the last column is the right side.
fn eliminated(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = matrix.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&a, &b| matrix[a][k].abs().total_cmp(&matrix[b][k].abs()))?;
        matrix.swap(k, pivot);
        let divisor = matrix[k][k];
        if divisor.abs() < 1e-300 {
            return None;
        }
        matrix[k].iter_mut().for_each(|entry| *entry /= divisor);
        let row = matrix[k].clone();
        for (other, line) in matrix.iter_mut().enumerate() {
            if other != k {
                let factor = line[k];
                line.iter_mut().zip(&row).for_each(|(entry, above)| *entry -= factor * above);
            }
        }
    }
    let solution: Vec<f64> = matrix.iter().map(|row| row[n]).collect();
    solution.iter().all(|change| change.is_finite()).then_some(solution)
}
