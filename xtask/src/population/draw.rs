//! Draws random values.

use flashlab_base::{Nanos, Prng, Seed};
use flashlab_sim::profile::Bandwidth;

/// A source of random choices.
pub struct Draw(Prng);

impl Draw {
    pub fn new(seed: Seed) -> Draw {
        Draw(Prng::new(seed))
    }

    /// Yes with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }

    /// One of these values, each with its weight.
    pub fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> T {
        let mut left = self.0.below(choices.iter().map(|&(weight, _)| weight).sum());
        for &(weight, choice) in choices {
            match left.checked_sub(weight) {
                None => return choice,
                Some(rest) => left = rest,
            }
        }
        unreachable!("what is left is below the sum of the weights")
    }

    /// A whole number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    /// A number of this range.
    pub fn uniform(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.0.unit()
    }

    /// A number in this range, uniform on a logarithmic scale.
    pub fn logarithmic(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.0.unit())
    }

    /// A time with this number of microseconds.
    pub fn micros(&mut self, least: f64, most: f64) -> Nanos {
        Nanos(self.logarithmic(least * 1e3, most * 1e3) as u64)
    }

    /// So many megabytes a second.
    pub fn bandwidth(&mut self, least: f64, most: f64) -> Bandwidth {
        Bandwidth(flashlab_base::Bytes(self.logarithmic(least * 1e6, most * 1e6) as u64))
    }

    /// A share in hundredths.
    pub fn share(&mut self, least: f64, most: f64) -> f64 {
        (self.uniform(least, most) * 100.0).round() / 100.0
    }
}
