//! Some combinations of a grid that is too large for all.

use std::collections::HashSet;
use std::str::FromStr;

use flashlab_base::{Prng, Seed};
use serde::{Deserialize, Serialize};

use crate::SweepError;

/// How combinations are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sampling {
    /// A scrambled Sobol sequence: any part of the grid has about its share of the points, in each key and each pair of keys (Sobol 1967;
    /// the scrambling is Owen's, as computed by Burley 2020).
    Sobol,
    /// Each combination is as likely as another.
    Random,
}

/// A sequence has this many points at most; more come from one with another seed.
const SEQUENCE: u64 = 1 << 16;

impl Sampling {
    /// `number` different combinations of a grid with these counts of values, in the order drawn, and all of them if there are no more.
    /// A combination is numbered as in [`crate::Grid`]. More from the same seed begin with the same ones.
    ///
    /// # Errors
    /// When there are more keys than the sequence has dimensions, or the combinations cannot be counted.
    pub fn combinations(self, counts: &[u64], number: u64, seed: Seed) -> Result<Vec<u64>, SweepError> {
        let all = count_of(counts)?;
        let dimensions = u64::from(sobol_burley::NUM_DIMENSIONS);
        if self == Sampling::Sobol && counts.len() as u64 > dimensions {
            return Err(SweepError::Input(format!(
                "{} keys are more than the {dimensions} of a Sobol sequence: sample at random",
                counts.len()
            )));
        }
        if number >= all {
            return Ok((0..all).collect());
        }
        let mut prng = Prng::new(seed);
        let mut share = |point: u64, key: usize| match self {
            Sampling::Random => prng.unit(),
            Sampling::Sobol => {
                let scramble = (seed.0 ^ (seed.0 >> 32)).wrapping_add(point / SEQUENCE) as u32;
                f64::from(sobol_burley::sample((point % SEQUENCE) as u32, key as u32, scramble))
            }
        };
        let (mut chosen, mut seen) = (Vec::new(), HashSet::new());
        let mut points = 0u64..;
        while (chosen.len() as u64) < number {
            let point = points.next().expect("they do not end");
            let combination = counts.iter().enumerate().fold(0, |combination, (key, &count)| {
                let value = (share(point, key) * count as f64) as u64;
                combination * count + value.min(count - 1)
            });
            if seen.insert(combination) {
                chosen.push(combination);
            }
        }
        Ok(chosen)
    }
}

/// How many combinations a grid has with these counts of values.
///
/// # Errors
/// When they cannot be counted.
pub(crate) fn count_of(counts: &[u64]) -> Result<u64, SweepError> {
    let count = counts.iter().try_fold(1u64, |all, count| all.checked_mul(*count));
    count.ok_or_else(|| SweepError::Input("the combinations cannot be counted: give fewer values".to_owned()))
}

impl FromStr for Sampling {
    type Err = SweepError;

    fn from_str(text: &str) -> Result<Sampling, SweepError> {
        match text {
            "sobol" => Ok(Sampling::Sobol),
            "random" => Ok(Sampling::Random),
            _ => Err(SweepError::Input(format!("a sample is `sobol` or `random`, not `{text}`"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_different_combinations_and_the_same_ones_each_time() {
        for method in [Sampling::Sobol, Sampling::Random] {
            let sample = |number, seed| method.combinations(&[7, 11, 13], number, Seed(seed)).unwrap();
            let hundred = sample(100, 5);
            assert_eq!(hundred.iter().collect::<HashSet<_>>().len(), 100, "{method:?}");
            assert!(hundred.iter().all(|combination| *combination < 7 * 11 * 13));
            assert_eq!(sample(50, 5), hundred[..50], "more begin with the same ones");
            assert_ne!(sample(100, 6), hundred);
            assert_eq!(sample(1000, 5).len(), 1000);
            assert!(sample(0, 5).is_empty());
            assert_eq!(sample(1001, 5), (0..1001).collect::<Vec<_>>(), "there are no more");
        }
        assert!(Sampling::Random.combinations(&[u64::MAX, 2], 10, Seed(1)).is_err());
        assert!(Sampling::Sobol.combinations(&[2; 300], 10, Seed(1)).is_err());
    }

    /// Of 64 points, each of 16 x 4 parts of two keys has nearly one in a Sobol sequence; of random ones, a third has none (1/e).
    #[test]
    fn a_sobol_sequence_covers_pairs_of_keys() {
        let empty = |method: Sampling| {
            let sample = method.combinations(&[1024, 1024, 1024], 64, Seed(3)).unwrap();
            let parts: HashSet<_> =
                sample.iter().map(|index| ((index >> 10) & 1023) / 64 * 4 + (index & 1023) / 256).collect();
            64 - parts.len()
        };
        assert!(empty(Sampling::Sobol) <= 16, "{}", empty(Sampling::Sobol));
        assert!(empty(Sampling::Random) >= 17, "{}", empty(Sampling::Random));
    }
}
