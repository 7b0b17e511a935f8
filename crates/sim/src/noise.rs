//! Random variation of response times.

use flashlab_base::{Nanos, Prng, Seed};
use serde::{Deserialize, Serialize};

use crate::illegal::{Illegal, check_duration};

/// A response time is multiplied by a log-normal variable of mean 1, and now and then it is an outlier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// The share of IOs that are outliers.
    pub outlier_share: f64,
    /// The factor by which an outlier is multiplied in addition.
    pub outlier_factor: f64,
    /// The time that an outlier takes in addition.
    pub outlier: Nanos,
    /// The seed of the variation.
    pub seed: Seed,
}

impl Default for Noise {
    /// None.
    fn default() -> Noise {
        Noise { sigma: 0.0, outlier_share: 0.0, outlier_factor: 1.0, outlier: Nanos::ZERO, seed: Seed(0) }
    }
}

impl Noise {
    pub(crate) fn check(&self) -> Result<(), Illegal> {
        if !(0.0..=3.0).contains(&self.sigma) {
            return Err(Illegal::number("noise.sigma", self.sigma, "0 to 3"));
        }
        if !(0.0..=1.0).contains(&self.outlier_share) {
            return Err(Illegal::number("noise.outlier_share", self.outlier_share, "0 to 1"));
        }
        if !(1.0..=1000.0).contains(&self.outlier_factor) {
            return Err(Illegal::number("noise.outlier_factor", self.outlier_factor, "1 to 1000"));
        }
        check_duration("noise.outlier", self.outlier)
    }
}

/// The noise of one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NoiseSource {
    noise: Noise,
    random: Prng,
}

impl NoiseSource {
    pub(crate) fn new(noise: Noise) -> NoiseSource {
        NoiseSource { noise, random: Prng::new(noise.seed) }
    }

    /// Whether this is a state of the noise that `fresh` is.
    pub(crate) fn is_like(&self, fresh: &NoiseSource) -> bool {
        self.noise == fresh.noise
    }

    /// The time of the next response, which takes `ns` nanoseconds without noise.
    pub(crate) fn disturbed(&mut self, ns: f64) -> Nanos {
        let varied = ns * self.factor();
        let Noise { outlier_share, outlier_factor, outlier, .. } = self.noise;
        if outlier_share > 0.0 && self.random.unit() < outlier_share {
            Nanos((varied * outlier_factor).round() as u64) + outlier
        } else {
            Nanos(varied.round() as u64)
        }
    }

    /// The factor of the next response time; its mean is 1.
    fn factor(&mut self) -> f64 {
        let sigma = self.noise.sigma;
        if sigma == 0.0 {
            return 1.0;
        }
        // Box and Muller's normal variable; the logarithm's mean makes the mean 1.
        let radius = (2.0 * self.random.exponential()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.random.unit()).cos();
        (sigma * normal - sigma * sigma / 2.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_takes_its_factor_and_then_its_time() {
        let noise =
            Noise { outlier_share: 0.01, outlier_factor: 10.0, outlier: Nanos(7), ..Noise::default() };
        let mut source = NoiseSource::new(noise);
        let times: Vec<u64> = (0..100_000).map(|_| source.disturbed(100.0).0).collect();
        let outliers = times.iter().filter(|&&time| time == 1007).count();
        assert_eq!(times.iter().filter(|&&time| time == 100).count() + outliers, times.len());
        // A hundredth of them: the standard deviation is 31.
        assert!((850..1150).contains(&outliers), "{outliers}");
    }
}
