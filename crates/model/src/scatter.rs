//! How far measurements lie from a model, relative to it.
//!
//! Model: the logarithm of measured / predicted is normal; its deviation comes from the residuals of the fit, with a degree of
//! freedom less for each parameter.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::student::quantile;

use crate::hold_out::LeftOut;
use crate::performance_model::CONFIDENCE;

/// The scatter of measurements around a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    /// The standard deviation of the logarithm.
    deviation: f64,
    degrees: f64,
    /// How much wider a prediction is than a residual, for the error of the parameters.
    widening: f64,
}

impl Scatter {
    /// The scatter of pairs of a measured and a predicted figure around a model with this number of parameters; none of
    /// fewer pairs than parameters and one more.
    pub(crate) fn of(pairs: impl Iterator<Item = (f64, f64)>, parameters: usize) -> Option<Scatter> {
        let squares: Vec<f64> =
            pairs.map(|(measured, predicted)| (measured / predicted).ln().powi(2)).collect();
        let degrees = squares.len().checked_sub(parameters).filter(|&degrees| degrees > 0)? as f64;
        let deviation = (squares.iter().sum::<f64>() / degrees).sqrt();
        let widening = (1.0 + parameters as f64 / squares.len() as f64).sqrt();
        deviation.is_finite().then_some(Scatter { deviation, degrees, widening })
    }

    /// The scatter of measurements around models of the others: what an equation misses between the inputs that it was fitted to shows here
    /// alone.
    pub(crate) fn of_left_out<I>(left_out: &[LeftOut<I>]) -> Option<Scatter> {
        Scatter::of(left_out.iter().map(|point| (point.measured, point.predicted)), 0)
    }

    /// An interval, widened where measurements that were left out lie further off.
    pub(crate) fn widen(&self, interval: Interval) -> Interval {
        let around = self.around(interval.estimate);
        Interval { low: interval.low.min(around.low), high: interval.high.max(around.high), ..interval }
    }

    /// The interval in which a measurement lies that the model predicts to be `estimate`.
    pub(crate) fn around(&self, estimate: f64) -> Interval {
        let factor = (quantile(CONFIDENCE, self.degrees) * self.deviation * self.widening).exp();
        Interval { estimate, low: estimate / factor, high: estimate * factor }
    }
}
