//! Response times of which the truth is known, for the tests of the estimators.

use flashlab_base::{Prng, Seed};

use crate::findings::{Distribution, RunEnd, RunSummary};

/// A generator of response times.
pub(crate) struct Source {
    prng: Prng,
    state: f64,
}

impl Source {
    pub(crate) fn new(seed: u64) -> Source {
        Source { prng: Prng::new(Seed(seed)), state: f64::NAN }
    }

    pub(crate) fn unit(&mut self) -> f64 {
        self.prng.unit()
    }

    /// Standard normal (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        (2.0 * self.prng.exponential()).sqrt() * (std::f64::consts::TAU * self.prng.unit()).cos()
    }

    /// Log-normal with median 1.
    pub(crate) fn log_normal(&mut self, sigma: f64) -> f64 {
        (sigma * self.normal()).exp()
    }

    /// Pareto with least value 1.
    pub(crate) fn pareto(&mut self, alpha: f64) -> f64 {
        (self.prng.exponential() / alpha).exp()
    }

    /// The next of a stationary AR(1) process with mean 0, deviation 1 and correlation `rho`.
    pub(crate) fn autoregressive(&mut self, rho: f64) -> f64 {
        let innovation = self.normal();
        self.state = if self.state.is_nan() {
            innovation
        } else {
            rho * self.state + (1.0 - rho * rho).sqrt() * innovation
        };
        self.state
    }
}

/// `n` response times in nanoseconds from `response_us(position)`.
pub(crate) fn responses(n: usize, mut response_us: impl FnMut(usize) -> f64) -> Vec<u64> {
    (0..n).map(|i| (response_us(i) * 1000.0).round().max(0.0) as u64).collect()
}

/// A precise run with this mean response time.
pub(crate) fn run(mean_ns: f64) -> RunSummary {
    RunSummary {
        run: 1,
        repetition: 1,
        io_ignore: 0,
        response: Distribution { count: 1000, mean_ns, ..Distribution::default() },
        throughput_bytes_per_s: 32768.0 * 1e9 / mean_ns,
        ios_per_s: 1e9 / mean_ns,
        failed_ios: 0,
        precision: Some(0.001),
        ended: RunEnd::PrecisionReached,
    }
}
