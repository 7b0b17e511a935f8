//! The error of a model on what it was not fitted to, by which models are selected.
//!
//! Method: all measurements of one input, such as one request size, are left out, the model is fitted to the others, and
//! predicts them; so with each input (cross-validation: Stone, Journal of the Royal Statistical Society B 36(2), 1974).
//! The error is the mean of |predicted / measured - 1|. A model with more parameters fits better what it was fitted to, and
//! predicts worse what it was not where they describe noise.

use flashlab_analysis::decide::ranks::Interval;

use crate::ModelError;
use crate::performance_model::{Measured, PerformanceModel};

/// The more complex of two models has to lower the hold-out error by this share of it ...
const GAIN_SHARE: f64 = 0.1;
/// ... and by this much: what lies below repeats on no device.
const GAIN_LEAST: f64 = 0.002;

/// The mean relative error of predictions of what was left out; none where no model could be fitted without any of them.
pub fn hold_out_error<M: PerformanceModel>(measured: &[Measured<M::Input>]) -> Option<f64> {
    hold_out(measured, |others| M::fit(others), |model, input| model.predict(input))
}

/// As [`hold_out_error`], of any way of fitting.
pub(crate) fn hold_out<I: Copy + PartialEq, M>(
    measured: &[Measured<I>],
    fit: impl Fn(&[Measured<I>]) -> Result<M, ModelError>,
    predict: impl Fn(&M, I) -> Interval,
) -> Option<f64> {
    error_of(&left_out(measured, fit, predict))
}

/// The mean relative error of what was left out.
pub(crate) fn error_of<I>(left_out: &[LeftOut<I>]) -> Option<f64> {
    let errors = left_out.iter().map(|point| (point.predicted / point.measured - 1.0).abs());
    let error = errors.sum::<f64>() / left_out.len() as f64;
    error.is_finite().then_some(error)
}

/// A measurement, and what a model predicted that was fitted to all other inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LeftOut<I> {
    pub input: I,
    pub measured: f64,
    pub predicted: f64,
}

/// Each measurement, predicted by a model of those of all other inputs; none of inputs without which no model could be fitted.
pub(crate) fn left_out<I: Copy + PartialEq, M>(
    measured: &[Measured<I>],
    fit: impl Fn(&[Measured<I>]) -> Result<M, ModelError>,
    predict: impl Fn(&M, I) -> Interval,
) -> Vec<LeftOut<I>> {
    let mut inputs: Vec<I> = Vec::new();
    for point in measured {
        if !inputs.contains(&point.input) {
            inputs.push(point.input);
        }
    }
    let mut all = Vec::new();
    for input in inputs {
        let (left_out, others): (Vec<_>, Vec<_>) = measured.iter().partition(|point| point.input == input);
        let Ok(model) = fit(&others) else { continue };
        let predicted = predict(&model, input).estimate;
        all.extend(left_out.iter().map(|point| LeftOut { input, measured: point.figure, predicted }));
    }
    all
}

/// Whether the more complex model is worth its parameters, by the hold-out errors of both.
pub(crate) fn is_worth_it(simple: Option<f64>, complex: Option<f64>) -> bool {
    match (simple, complex) {
        (Some(simple), Some(complex)) => simple - complex > GAIN_LEAST.max(simple * GAIN_SHARE),
        (None, Some(_)) => true,
        (_, None) => false,
    }
}
