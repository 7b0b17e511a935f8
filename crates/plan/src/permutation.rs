//! A random permutation of `0..length` that needs no memory.
//!
//! # Model
//! On words of `bits` bits, these operations are bijections: to add a constant, to multiply by an odd
//! constant, and to xor a word with its own right shift. So is any sequence of them. A few rounds with random
//! constants scatter the words of the smallest power of two that contains `length`. If an image is outside
//! `0..length`, it is mapped again until it is inside (cycle walking). That is still a bijection, and takes
//! less than two rounds on average.
//!
//! # Invariants
//! - [`Permutation::at`] is a bijection of `0..length`.
//! - The same seed gives the same permutation, because recorded runs are replayed from the seed.

use flashlab_base::{Prng, Seed};

const ROUNDS: usize = 3;

/// A random permutation of `0..length`.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    length: u64,
    mask: u64,
    shift: u32,
    rounds: [Round; ROUNDS],
}

#[derive(Clone, Copy, Debug)]
struct Round {
    summand: u64,
    factor: u64,
}

impl Permutation {
    /// The permutation of `0..length` for this seed. `length` is at least 1.
    pub(crate) fn new(length: u64, seed: Seed) -> Permutation {
        assert!(length > 0, "a permutation of nothing was asked for");
        let bits = u64::BITS - (length - 1).leading_zeros();
        let mask = if bits == u64::BITS { u64::MAX } else { (1 << bits) - 1 };
        let mut prng = Prng::new(seed);
        let rounds = std::array::from_fn(|_| Round { summand: prng.next_u64(), factor: prng.next_u64() | 1 });
        // Half the word, so that the upper bits, which are mixed well, reach the lower bits, which are not.
        Permutation { length, mask, shift: (bits / 2).max(1), rounds }
    }

    /// The image of `index`, which is below the length.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.length);
        let mut word = index;
        loop {
            for Round { summand, factor } in self.rounds {
                word = word.wrapping_add(summand).wrapping_mul(factor) & self.mask;
                word ^= word >> self.shift;
            }
            if word < self.length {
                return word;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_image_occurs_once(length in 1u64..3000, seed: u64) {
            let permutation = Permutation::new(length, Seed(seed));
            let mut hit = vec![false; length as usize];
            for index in 0..length {
                let image = permutation.at(index) as usize;
                prop_assert!(!hit[image], "{image} twice, seed {seed}");
                hit[image] = true;
            }
        }

        #[test]
        fn images_of_huge_lengths_lie_inside(length in 1u64.., index: u64, seed: u64) {
            let image = Permutation::new(length, Seed(seed)).at(index % length);
            prop_assert!(image < length);
        }
    }

    #[test]
    fn the_order_looks_random() {
        // In a random order, the steps from one image to the next are spread evenly (modulo the length):
        // chi-squared with 63 degrees of freedom is above 103 once in a thousand seeds.
        let length = 100_003;
        for seed in 0..5 {
            let permutation = Permutation::new(length, Seed(seed));
            let mut counts = [0f64; 64];
            for index in 1..length {
                let step = (permutation.at(index) + length - permutation.at(index - 1)) % length;
                counts[(step * 64 / length) as usize] += 1.0;
            }
            let expected = (length - 1) as f64 / 64.0;
            let chi2: f64 = counts.iter().map(|n| (n - expected).powi(2) / expected).sum();
            assert!(chi2 < 103.0, "seed {seed}: {chi2}");
        }
    }
}
