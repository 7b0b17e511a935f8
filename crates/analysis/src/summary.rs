//! Statistics of response times as they arrive, in bounded memory (uFLIP section 3.2: min, max, mean and
//! standard deviation of a run; also quantiles).
//!
//! Invariants:
//! - Count, min and max are exact. Mean and standard deviation use Welford's method, which is precise for
//!   large sums. Quantiles are within 0.1 % of an exact order statistic.
//! - Memory depends on the largest response time (at most half a MiB), never on their number.
//! - Merging the summaries of two halves gives the summary of the whole, up to rounding.

use hdrhistogram::Histogram;

use crate::findings::Distribution;

/// The histogram counts all response times above this (146 years) as equal; min, max and mean do not.
const HISTOGRAM_NS_MAX: u64 = 1 << 62;

/// Accumulates response times into a [`Distribution`].
#[derive(Clone, Debug)]
pub struct Summary {
    histogram: Histogram<u64>,
    count: u64,
    min_ns: u64,
    max_ns: u64,
    mean_ns: f64,
    /// Sum of squared deviations from the mean.
    deviations_ns2: f64,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary::new()
    }
}

impl Summary {
    /// A summary of nothing.
    pub fn new() -> Summary {
        let mut histogram = Histogram::new(3).expect("three significant digits are within 0..=5");
        histogram.auto(true);
        Summary { histogram, count: 0, min_ns: u64::MAX, max_ns: 0, mean_ns: 0.0, deviations_ns2: 0.0 }
    }

    /// Takes one response time in nanoseconds.
    #[inline]
    pub fn add(&mut self, response_ns: u64) {
        self.histogram
            .record(response_ns.min(HISTOGRAM_NS_MAX))
            .expect("an auto-resizing histogram takes every value up to 2^62");
        self.count += 1;
        self.min_ns = self.min_ns.min(response_ns);
        self.max_ns = self.max_ns.max(response_ns);
        let deviation = response_ns as f64 - self.mean_ns;
        self.mean_ns += deviation / self.count as f64;
        self.deviations_ns2 += deviation * (response_ns as f64 - self.mean_ns);
    }

    /// Adds all values of `other` (Chan, Golub and LeVeque's pairwise update).
    pub fn merge(&mut self, other: &Summary) {
        if other.count == 0 {
            return;
        }
        self.histogram.add(&other.histogram).expect("an auto-resizing histogram takes another's values");
        let (n, m) = (self.count as f64, other.count as f64);
        let gap = other.mean_ns - self.mean_ns;
        self.count += other.count;
        self.mean_ns += gap * m / (n + m);
        self.deviations_ns2 += other.deviations_ns2 + gap * gap * n * m / (n + m);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many response times were taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean in nanoseconds; 0 for none.
    pub fn mean_ns(&self) -> f64 {
        self.mean_ns
    }

    /// The distribution so far; all zero if there are no values.
    pub fn distribution(&self) -> Distribution {
        if self.count == 0 {
            return Distribution::default();
        }
        let degrees = (self.count - 1).max(1) as f64;
        Distribution {
            count: self.count,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            mean_ns: self.mean_ns,
            standard_deviation_ns: (self.deviations_ns2 / degrees).sqrt(),
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            p999_ns: self.quantile(0.999),
        }
    }

    /// The middle of the histogram's bucket with the quantile, so that the error is at most half a bucket's
    /// width; 0 if there are no values.
    pub fn quantile(&self, quantile: f64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let bucket = self.histogram.value_at_quantile(quantile);
        self.histogram.median_equivalent(bucket).clamp(self.min_ns, self.max_ns)
    }
}

impl Extend<u64> for Summary {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, responses_ns: I) {
        responses_ns.into_iter().for_each(|response_ns| self.add(response_ns));
    }
}

impl FromIterator<u64> for Summary {
    fn from_iter<I: IntoIterator<Item = u64>>(responses_ns: I) -> Summary {
        let mut summary = Summary::new();
        summary.extend(responses_ns);
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The order statistic that covers `quantile` of the values.
    fn exact_quantile(sorted: &[u64], quantile: f64) -> u64 {
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1]
    }

    fn relative_error(got: f64, truth: f64) -> f64 {
        if got == truth { 0.0 } else { (got - truth).abs() / truth.abs() }
    }

    #[test]
    fn nothing_is_all_zero() {
        assert_eq!(Summary::new().distribution(), Distribution::default());
    }

    #[test]
    fn extreme_response_times_are_kept_exactly() {
        let summary: Summary = [0, u64::MAX].into_iter().collect();
        let distribution = summary.distribution();
        assert_eq!((distribution.min_ns, distribution.max_ns, distribution.count), (0, u64::MAX, 2));
        assert_eq!(distribution.mean_ns, u64::MAX as f64 / 2.0);
    }

    #[test]
    fn a_small_spread_on_a_large_level_is_not_lost() {
        // Summing squares fails here: 1e15 + {0, 1, 2} has a deviation of 1.
        let summary: Summary = (0..3).map(|i| 1_000_000_000_000_000 + i).collect();
        assert_eq!(summary.distribution().standard_deviation_ns, 1.0);
    }

    proptest! {
        #[test]
        fn agrees_with_sorting_everything(values in prop::collection::vec(0u64..1 << 50, 1..400)) {
            let got = values.iter().copied().collect::<Summary>().distribution();
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let n = values.len() as f64;
            let mean = values.iter().map(|&v| v as f64).sum::<f64>() / n;
            let squares = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>();
            prop_assert_eq!(got.count, values.len() as u64);
            prop_assert_eq!((got.min_ns, got.max_ns), (sorted[0], sorted[sorted.len() - 1]));
            prop_assert!(relative_error(got.mean_ns, mean) < 1e-12);
            prop_assert!((got.standard_deviation_ns - (squares / (n - 1.0).max(1.0)).sqrt()).abs() <= 1e-9 * mean);
            for (value, quantile) in
                [(got.p50_ns, 0.5), (got.p90_ns, 0.9), (got.p99_ns, 0.99), (got.p999_ns, 0.999)]
            {
                let truth = exact_quantile(&sorted, quantile);
                prop_assert!(relative_error(value as f64, truth as f64) < 1e-3, "{quantile}: {value} for {truth}");
            }
        }

        #[test]
        fn merging_parts_gives_the_whole(
            values in prop::collection::vec(0u64..1 << 40, 0..300), split in 0usize..300,
        ) {
            let split = split.min(values.len());
            let mut merged: Summary = values[..split].iter().copied().collect();
            merged.merge(&values[split..].iter().copied().collect());
            let (got, whole) = (merged.distribution(), values.iter().copied().collect::<Summary>().distribution());
            prop_assert!(relative_error(got.mean_ns, whole.mean_ns) < 1e-12);
            prop_assert!((got.standard_deviation_ns - whole.standard_deviation_ns).abs() <= 1e-6 * whole.mean_ns);
            let exact = Distribution {
                mean_ns: whole.mean_ns, standard_deviation_ns: whole.standard_deviation_ns, ..got
            };
            prop_assert_eq!(exact, whole);
        }
    }
}
