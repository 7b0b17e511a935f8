//! A random permutation of `0..n` that needs no memory: each image is computed.
//!
//! # Model
//! Four rounds of a Feistel network on the smallest even number of bits that holds `n - 1` (Luby and Rackoff 1988: four
//! rounds with random round functions). An image beyond `n` is permuted once more until it is below `n` (cycle walking),
//! which takes less than four attempts on average.
//!
//! # Invariant
//! - `inverse(image(x)) == x` for every `x < n`.

use flashlab_base::Seed;

const ROUNDS: usize = 4;

/// A permutation of `0..n`.
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..count` that follows from this seed.
    pub fn new(count: u64, seed: Seed) -> Permutation {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let keys = std::array::from_fn(|round| seed.derive("permutation", round as u64).0);
        Permutation { count, half_bits: bits.div_ceil(2).clamp(1, 32), keys }
    }

    /// The image of `x`.
    ///
    /// # Panics
    /// When `x` is not below the count: the caller's mistake.
    #[inline]
    pub fn image(&self, x: u64) -> u64 {
        self.walk(x, |halves| {
            for key in &self.keys {
                *halves = (halves.1, halves.0 ^ self.round(halves.1, *key));
            }
        })
    }

    /// The number whose image is `y`.
    ///
    /// # Panics
    /// When `y` is not below the count: the caller's mistake.
    #[inline]
    pub fn inverse(&self, y: u64) -> u64 {
        self.walk(y, |halves| {
            for key in self.keys.iter().rev() {
                *halves = (halves.1 ^ self.round(halves.0, *key), halves.0);
            }
        })
    }

    fn walk(&self, from: u64, rounds: impl Fn(&mut (u64, u64))) -> u64 {
        assert!(from < self.count, "{from} is not below {}", self.count);
        let mask = (1 << self.half_bits) - 1;
        let mut at = from;
        loop {
            let mut halves = (at >> self.half_bits, at & mask);
            rounds(&mut halves);
            at = halves.0 << self.half_bits | halves.1;
            if at < self.count {
                return at;
            }
        }
    }

    #[inline]
    fn round(&self, half: u64, key: u64) -> u64 {
        let mixed = (half ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed >> 32) & ((1 << self.half_bits) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_image_and_comes_back() {
        for count in [1, 2, 3, 5, 64, 1000, 4097] {
            let permutation = Permutation::new(count, Seed(count));
            let mut seen = vec![false; count as usize];
            for x in 0..count {
                let y = permutation.image(x);
                assert!(!std::mem::replace(&mut seen[y as usize], true), "{y} twice of {count}");
                assert_eq!(permutation.inverse(y), x);
            }
        }
    }

    #[test]
    fn neighbours_have_images_at_random_distances() {
        let count = 1u64 << 20;
        let permutation = Permutation::new(count, Seed(3));
        let near =
            (1..10_000).filter(|&x| permutation.image(x).abs_diff(permutation.image(x - 1)) < count / 100);
        // Two random numbers are nearer than a hundredth of the range with probability 0.02: 200 of 10,000, deviation 14.
        let near = near.count();
        assert!((130..270).contains(&near), "{near}");
    }
}
