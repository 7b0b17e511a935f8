//! Which of several hypotheses explains the figures, and how sure that is.
//!
//! Two models. [`by_likelihood`]: each hypothesis has a log likelihood, all are as probable
//! before, one of them is true; then Bayes' theorem gives what each is after. The more there are,
//! the more has to speak for one. It is as honest as the likelihoods: figures that depend on
//! each other count too much. [`by_residuals`] takes no distribution for granted: a hypothesis is
//! as good as its prediction of each figure is near, and the best is better than another if its
//! errors are the smaller ones in pairs (Wilcoxon's signed ranks), corrected for the others. A
//! hypothesis with free parameters predicts figures it was fitted to too well: fit it to others.
//!
//! When the two best are close there is no decision.

use super::ranks::signed_ranks;

/// The best hypothesis, and whether it may be called the right one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The index of the best hypothesis.
    pub best: usize,
    /// The index of the second.
    pub second: Option<usize>,
    /// The probability, at least, that the best is the right one, if one of them is.
    pub confidence: f64,
}

impl Choice {
    /// The best hypothesis, if it is the right one with at least this confidence.
    pub fn decided(&self, confidence: f64) -> Option<usize> {
        (self.confidence >= confidence).then_some(self.best)
    }
}

/// Chooses by log likelihoods (natural logarithms), one for each hypothesis. None without any, or
/// where none is above minus infinity.
pub fn by_likelihood(log_likelihoods: &[f64]) -> Option<Choice> {
    let likelihood = |i: usize| {
        let figure = log_likelihoods[i];
        if figure.is_nan() { f64::NEG_INFINITY } else { figure.min(f64::MAX) }
    };
    let order = ranked(log_likelihoods.len(), |i| -likelihood(i));
    let &best = order.first().filter(|&&best| likelihood(best) > f64::NEG_INFINITY)?;
    let all: f64 = order.iter().map(|&i| (likelihood(i) - likelihood(best)).exp()).sum();
    Some(Choice { best, second: order.get(1).copied(), confidence: 1.0 / all })
}

/// The log likelihood of figures that a hypothesis with so many free `parameters` misses by
/// `residuals` (best as logarithms of ratios), with Laplace's distribution of which the scale is fitted,
/// less half a logarithm of their number for each parameter (Schwarz's criterion, Annals of
/// Statistics 6(2), 1978). `resolution` is the least error that matters, in the residuals' unit.
pub fn log_likelihood(residuals: &[f64], parameters: usize, resolution: f64) -> f64 {
    let n = residuals.len() as f64;
    if n == 0.0 {
        return 0.0;
    }
    let scale = residuals.iter().map(|r| r.abs() / n).sum::<f64>().max(resolution).max(f64::MIN_POSITIVE);
    -n * (2.0 * scale.min(f64::MAX / 2.0)).ln() - n - (parameters as f64 + 1.0) / 2.0 * n.ln()
}

/// Chooses by each hypothesis' errors for the same figures in the same order (best as logarithms
/// of ratios); what is beyond the shortest is not looked at. None without hypotheses or figures.
pub fn by_residuals(residuals: &[&[f64]]) -> Option<Choice> {
    let figures = residuals.iter().map(|r| r.len()).min().filter(|&figures| figures > 0)?;
    let wins = |a: usize, b: usize| {
        let differences: Vec<f64> =
            (0..figures).map(|i| residuals[b][i].abs() - residuals[a][i].abs()).collect();
        signed_ranks(&differences)
    };
    // Against each other by pairs: a sum of errors would be that of the outliers.
    let worst = |a: usize| {
        let others = (0..residuals.len()).filter(|&b| b != a);
        others.map(|b| wins(a, b)).fold(0.0, f64::max)
    };
    let p: Vec<f64> = (0..residuals.len()).map(worst).collect();
    let order = ranked(residuals.len(), |i| p[i]);
    let &best = order.first()?;
    let others = residuals.len() as f64 - 1.0;
    // The best was chosen among all: two equal ones differ either way.
    let confidence = (1.0 - p[best] * others.max(1.0) * 2.0).max(0.0);
    Some(Choice { best, second: order.get(1).copied(), confidence })
}

/// The indexes up to `count` by ascending `badness`, the earlier first where it is equal.
fn ranked(count: usize, badness: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| badness(a).total_cmp(&badness(b)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::noise::{jitter, odd_samples};
    use crate::synthetic::Source;

    #[test]
    fn likelihoods_are_weighed_by_bayes() {
        let choice = by_likelihood(&[0.0, 3.0_f64.ln(), 0.0]).unwrap();
        assert_eq!((choice.best, choice.second), (1, Some(0)));
        assert!((choice.confidence - 0.6).abs() < 1e-12);
        assert_eq!(choice.decided(0.7), None);
        assert_eq!(by_likelihood(&[-5.0]).unwrap().decided(0.99), Some(0));
        assert_eq!(by_likelihood(&[f64::NEG_INFINITY, f64::NAN]), None);
    }

    #[test]
    fn the_confidence_is_how_often_the_best_is_right() {
        // The step of a staircase has one of ten widths; a hypothesis is where the steps are.
        let mut source = Source::new(20);
        let (mut wrong, mut expected) = (0, 0.0);
        for _ in 0..1000 {
            let truth = source.place(10) as usize;
            let likelihood = |width: usize, y: f64, i: usize| {
                let mean = (i / (4 + width)) as f64;
                -(y - mean).powi(2) / 2.0
            };
            let y: Vec<f64> = (0..12).map(|i| (i / (4 + truth)) as f64 + source.normal()).collect();
            let sums: Vec<f64> = (0..10)
                .map(|width| y.iter().enumerate().map(|(i, &y)| likelihood(width, y, i)).sum())
                .collect();
            let choice = by_likelihood(&sums).unwrap();
            wrong += usize::from(choice.best != truth);
            expected += 1.0 - choice.confidence;
        }
        let deviation = (wrong as f64 - expected).abs();
        assert!(deviation <= 3.0 * f64::sqrt(250.0), "{wrong} of 1000 wrong, {expected} expected");
    }

    /// Errors, as logarithms, of predictions that are this many times the truth.
    fn errors(figures: &[f64], factor: f64) -> Vec<f64> {
        figures.iter().map(|figure| (figure / factor).ln()).collect()
    }

    #[test]
    fn residuals_decide_between_different_but_not_between_equal_hypotheses() {
        let mut source = Source::new(21);
        let (mut right, mut confident) = (0, 0);
        for _ in 0..200 {
            let figures: Vec<f64> = (0..60).map(|_| jitter(&mut source)).collect();
            let [a, b, c] = [1.08, 1.0, 0.9].map(|factor| errors(&figures, factor));
            right += usize::from(by_residuals(&[&a, &b, &c]).unwrap().decided(0.95) == Some(1));
            // Two that are as far off to either side.
            let [a, b] = [1.05, 1.0 / 1.05].map(|factor| errors(&figures, factor));
            confident += usize::from(by_residuals(&[&a, &b]).unwrap().decided(0.95).is_some());
        }
        assert!(right >= 195, "{right} of 200");
        assert!(confident <= 10 + 9, "{confident} of 200");
    }

    #[test]
    fn parameters_must_pay() {
        let residuals = [0.1, -0.2, 0.1, 0.05, -0.1, 0.1];
        let simple = log_likelihood(&residuals, 0, 0.01);
        assert!(log_likelihood(&residuals, 2, 0.01) < simple);
        assert!(log_likelihood(&residuals.map(|r| r / 4.0), 2, 0.01) > simple);
        assert_eq!(log_likelihood(&[0.0; 9], 1, 0.01), log_likelihood(&[0.001; 9], 1, 0.01));
    }

    #[test]
    fn odd_figures_do_no_harm() {
        for a in odd_samples() {
            assert!(by_likelihood(&a).is_none_or(|choice| (0.0..=1.0).contains(&choice.confidence)), "{a:?}");
            assert!(log_likelihood(&a, 3, 0.0).is_finite(), "{a:?}");
            for b in odd_samples() {
                let choice = by_residuals(&[&a, &b]);
                assert!(choice.is_none_or(|choice| (0.0..=1.0).contains(&choice.confidence)), "{a:?} {b:?}");
            }
        }
    }
}
