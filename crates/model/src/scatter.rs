//! How far measurements lie from a model, relative to it.
//!
//! Model: the logarithm of measured / predicted is normal; its deviation comes from the residuals of the fit, with a degree of
//! freedom less for each parameter.
//!
//! What was left out of a fit is not normal: a size fits the pages of a device, or does not. Of n + 1 inputs each is as likely as the
//! others to be the one that is missed by most. So another input is missed by more than the worst of n with a probability of 1 / (n + 1)
//! (Barber et al., Predictive inference with the jackknife+, Annals of Statistics 49(1), 2021), and the interval is at least as wide as that.

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
    /// The largest absolute logarithm of what was left out; 0 of residuals.
    largest: f64,
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
        deviation.is_finite().then_some(Scatter { deviation, degrees, widening, largest: 0.0 })
    }

    /// The scatter of measurements around models of the others: what an equation misses between the inputs that it was fitted to shows here
    /// alone.
    pub(crate) fn of_left_out<I>(left_out: &[LeftOut<I>]) -> Option<Scatter> {
        let scatter = Scatter::of(left_out.iter().map(|point| (point.measured, point.predicted)), 0)?;
        let errors = left_out.iter().map(|point| (point.measured / point.predicted).ln().abs());
        Some(Scatter { largest: errors.fold(0.0, f64::max), ..scatter })
    }

    /// An interval, widened where measurements that were left out lie further off.
    pub(crate) fn widen(&self, interval: Interval) -> Interval {
        let around = self.around(interval.estimate);
        Interval { low: interval.low.min(around.low), high: interval.high.max(around.high), ..interval }
    }

    /// The interval in which a measurement lies that the model predicts to be `estimate`.
    pub(crate) fn around(&self, estimate: f64) -> Interval {
        let normal = quantile(CONFIDENCE, self.degrees) * self.deviation * self.widening;
        let factor = normal.max(self.largest).exp();
        Interval { estimate, low: estimate / factor, high: estimate * factor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_worst_of_what_was_left_out() {
        let point = |input, predicted| LeftOut { input, measured: 100.0, predicted };
        let mut left_out: Vec<LeftOut<u32>> = (0..20).map(|input| point(input, 100.0)).collect();
        left_out[3].predicted = 50.0;
        let around = Scatter::of_left_out(&left_out).unwrap().around(100.0);
        assert!((around.high - 200.0).abs() < 1e-9 && (around.low - 50.0).abs() < 1e-9, "{around:?}");
        // With few of them the worst is not yet the widest.
        let around = Scatter::of_left_out(&left_out[2..4]).unwrap().around(100.0);
        assert!(around.high > 400.0, "{around:?}");
    }
}
