//! Random variation of response times.

use flashlab_base::{Nanos, Prng, Seed};
use serde::{Deserialize, Serialize};

use crate::profile::{Illegal, time};

/// A response time is multiplied by a log-normal variable of mean 1, and now and then it is an outlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// The share of IOs that are outliers.
    pub outlier_share: f64,
    /// What an outlier takes in addition.
    pub outlier: Nanos,
    /// Where the variation starts from.
    pub seed: Seed,
}

impl Noise {
    pub(crate) fn check(&self) -> Result<(), Illegal> {
        if !(0.0..=3.0).contains(&self.sigma) {
            return Err(Illegal::number("noise.sigma", self.sigma, "0 to 3"));
        }
        if !(0.0..=1.0).contains(&self.outlier_share) {
            return Err(Illegal::number("noise.outlier_share", self.outlier_share, "0 to 1"));
        }
        time("noise.outlier", self.outlier)
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

    /// The factor of the next response time; its mean is 1.
    pub(crate) fn factor(&mut self) -> f64 {
        let sigma = self.noise.sigma;
        if sigma == 0.0 {
            return 1.0;
        }
        // Box and Muller's normal variable; the logarithm's mean makes the mean 1.
        let radius = (2.0 * self.random.exponential()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.random.unit()).cos();
        (sigma * normal - sigma * sigma / 2.0).exp()
    }

    /// What the next response takes in addition.
    pub(crate) fn outlier(&mut self) -> Nanos {
        if self.noise.outlier_share > 0.0 && self.random.unit() < self.noise.outlier_share {
            self.noise.outlier
        } else {
            Nanos::ZERO
        }
    }
}
