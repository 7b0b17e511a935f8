//! Compares samples by ranks: do they differ, and by how much?
//!
//! Model: the figures of a sample are independent and come from one distribution of any shape. Ranks do not
//! depend on how extreme an outlier is. Without an effect all samples come from the same distribution, so
//! every order of the figures is equally likely, ties included.
//!
//! Sources: Mann and Whitney 1947, Hodges and Lehmann 1963, both as in Hollander, Wolfe and Chicken, "Nonparametric
//! Statistical Methods", 3rd edition.

use statrs::function::factorial::ln_factorial;

use super::{logarithms, median_of_sorted, normal_quantile, normal_upper_p, sorted};

/// The exact distribution is computed if it needs at most this number of additions.
const EXACT_ADDITIONS_MAX: usize = 4_000_000;
/// In longer samples, this number of quantiles represents all figures when pairs are formed.
const PAIRED_MAX: usize = 512;

/// How two samples compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankSum {
    /// p of the hypothesis that the first is not above the second.
    pub p_above: f64,
    /// p of the hypothesis that the first is not below the second.
    pub p_below: f64,
}

/// Whether the figures of two samples differ in level (Mann and Whitney's U). It is exact for small samples,
/// ties included. Otherwise it uses the normal approximation with corrections for ties and continuity, and
/// never goes below the probability of one order of the figures. p = 1 if one is empty.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> RankSum {
    if first.is_empty() || second.is_empty() {
        return RankSum { p_above: 1.0, p_below: 1.0 };
    }
    let ranks = doubled_ranks(&[first, second].concat());
    let smaller = first.len().min(second.len());
    let additions = 2 * ranks.len().saturating_mul(ranks.len()).saturating_mul(smaller * smaller);
    let (p_above, p_below) = if smaller <= 2000 && additions <= EXACT_ADDITIONS_MAX {
        exact_tails(&ranks, first.len())
    } else {
        let (m, n) = (first.len() as f64, second.len() as f64);
        // U is the number of pairs in which the first is above, with ties counted half. Here it is relative
        // to half of all pairs.
        let sum = ranks[..first.len()].iter().sum::<u64>() as f64 / 2.0;
        let above = sum - m * (m + 1.0) / 2.0 - m * n / 2.0;
        let deviation = (m * n / 12.0 * spread_of_ranks(&ranks)).sqrt();
        let one_order = (ln_factorial(first.len() as u64) + ln_factorial(second.len() as u64)
            - ln_factorial(ranks.len() as u64))
        .exp();
        // The continuity correction: half a step towards the middle.
        let tail = |distance: f64| normal_upper_p((distance - 0.5) / deviation).max(one_order);
        (tail(above), tail(-above))
    };
    RankSum { p_above, p_below }
}

/// Twice the ranks from 1 on, so that the mean ranks of ties are whole numbers.
pub(super) fn doubled_ranks(values: &[f64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; values.len()];
    let mut begin = 0;
    for ties in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let end = begin + ties.len();
        ties.iter().for_each(|&i| ranks[i] = (begin + 1 + end) as u64);
        begin = end;
    }
    ranks
}

/// (N + 1) minus the correction for ties: 12 / N times the variance of the ranks (divided by N - 1).
fn spread_of_ranks(doubled_ranks: &[u64]) -> f64 {
    let n = doubled_ranks.len() as f64;
    let squares: f64 = doubled_ranks.iter().map(|&r| (r as f64 / 2.0 - (n + 1.0) / 2.0).powi(2)).sum();
    12.0 * squares / (n * (n - 1.0))
}

/// Among all choices of `chosen` ranks, the shares whose sum is at least, and at most, that of the first
/// `chosen`.
fn exact_tails(doubled_ranks: &[u64], chosen: usize) -> (f64, f64) {
    // The sum of the other ranks decides as well, so the shorter part is counted.
    if chosen > doubled_ranks.len() - chosen {
        let mut others = doubled_ranks[chosen..].to_vec();
        others.extend(&doubled_ranks[..chosen]);
        let (above, below) = exact_tails(&others, doubled_ranks.len() - chosen);
        return (below, above);
    }
    let observed = doubled_ranks[..chosen].iter().sum::<u64>() as usize;
    let width = 2 * doubled_ranks.len() * chosen + 1;
    // choices[k * width + s]: the number of ways in which k of the ranks so far have the sum s.
    let mut choices = vec![0.0; (chosen + 1) * width];
    choices[0] = 1.0;
    for &rank in doubled_ranks {
        let rank = rank as usize;
        for k in (1..=chosen).rev() {
            let (fewer, these) = choices.split_at_mut(k * width);
            let fewer = &fewer[(k - 1) * width..width * k - rank];
            these[rank..width].iter_mut().zip(fewer).for_each(|(sum, ways)| *sum += ways);
        }
    }
    let ways = &choices[chosen * width..];
    let all: f64 = ways.iter().sum();
    (ways[observed..].iter().sum::<f64>() / all, ways[..=observed].iter().sum::<f64>() / all)
}

/// An estimate, and the interval that contains the true value with the requested confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The most likely figure.
    pub estimate: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of a function that grows with the value.
    pub fn map(self, grows: impl Fn(f64) -> f64) -> Interval {
        Interval { estimate: grows(self.estimate), low: grows(self.low), high: grows(self.high) }
    }

    /// Whether the interval contains `value`, ends included.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The larger distance of the two ends from the estimate, relative to the estimate. Infinite for an
    /// estimate of 0 in a wider interval.
    pub fn relative_half_width(&self) -> f64 {
        let wide = (self.high - self.estimate).max(self.estimate - self.low);
        if wide == 0.0 { 0.0 } else { wide / self.estimate.abs() }
    }
}

/// How far the figures of `first` are above those of `second`: the median of all differences between the two
/// (Hodges and Lehmann), in their unit. Its interval contains the true shift with probability `confidence`
/// (Moses). `None` if there are too few figures: 4 in each sample give 95 %.
pub fn shift(first: &[f64], second: &[f64], confidence: f64) -> Option<Interval> {
    let (m, n) = (first.len() as f64, second.len() as f64);
    let pairs = m * n;
    let deviation = (pairs * (m + n + 1.0) / 12.0).sqrt();
    let outside = (pairs / 2.0 - normal_quantile(confidence) * deviation).floor();
    if outside < 1.0 {
        return None;
    }
    let (first, second) = (thinned(&sorted(first)), thinned(&sorted(second)));
    let differences =
        sorted(&first.iter().flat_map(|f| second.iter().map(move |s| f - s)).collect::<Vec<_>>());
    // If quantiles represent the figures, the same share of the pairs lies outside.
    let place = ((outside / pairs * differences.len() as f64) as usize).max(1) - 1;
    let estimate = median_of_sorted(&differences)?;
    Some(Interval { estimate, low: differences[place], high: differences[differences.len() - 1 - place] })
}

/// The ratio of the figures of `first` to those of `second`: [`shift`] of their logarithms.
pub fn ratio(first: &[f64], second: &[f64], confidence: f64) -> Option<Interval> {
    Some(shift(&logarithms(first), &logarithms(second), confidence)?.map(f64::exp))
}

fn thinned(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= PAIRED_MAX {
        return sorted.to_vec();
    }
    (0..PAIRED_MAX).map(|i| sorted[(2 * i + 1) * sorted.len() / (2 * PAIRED_MAX)]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::noise::{assert_honest, odd_samples, sample};
    use crate::synthetic::Source;

    #[test]
    fn agrees_with_examples_worked_by_hand() {
        // All of 3 below all of 4: one of 35 choices.
        let apart = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0, 7.0]);
        assert!((apart.p_below - 1.0 / 35.0).abs() < 1e-12);
        assert_eq!(apart.p_above, 1.0);
        // Ties: of the 6 choices of 2 out of {1, 2, 2, 3} two have a sum of ranks of 6.5 or more.
        let tied = mann_whitney(&[2.0, 3.0], &[1.0, 2.0]);
        assert!((tied.p_above - 2.0 / 6.0).abs() < 1e-12, "{tied:?}");
    }

    #[test]
    fn exact_and_approximate_p_agree() {
        let mut source = Source::new(1);
        for shift in [1.0, 1.01, 1.03] {
            let (a, b) = (sample(&mut source, 31, shift), sample(&mut source, 31, 1.0));
            let exact = mann_whitney(&a, &b);
            let above = a.iter().flat_map(|a| b.iter().filter(move |b| a > *b)).count() as f64;
            let approximate = normal_upper_p((above - 961.0 / 2.0) / (961.0_f64 * 63.0 / 12.0).sqrt());
            assert!((exact.p_above - approximate).abs() < 0.01, "{exact:?} {approximate}");
        }
    }

    #[test]
    fn false_alarms_are_no_more_than_p_says() {
        let mut source = Source::new(2);
        for (m, n) in [(3, 5), (8, 8), (1, 200), (60, 200)] {
            let trials: Vec<RankSum> = (0..400)
                .map(|_| mann_whitney(&sample(&mut source, m, 1.0), &sample(&mut source, n, 1.0)))
                .collect();
            let either = |t: &RankSum| (2.0 * t.p_above.min(t.p_below)).min(1.0);
            for p in [either, |t: &RankSum| t.p_above, |t: &RankSum| t.p_below] {
                assert_honest(&trials.iter().map(p).collect::<Vec<_>>(), "Mann-Whitney");
            }
        }
    }

    #[test]
    fn a_difference_of_three_percent_is_seen_through_jitter_and_outliers() {
        let mut source = Source::new(3);
        let seen = (0..200)
            .filter(|_| {
                mann_whitney(&sample(&mut source, 100, 1.03), &sample(&mut source, 100, 1.0)).p_above < 0.005
            })
            .count();
        assert!(seen >= 180, "{seen} of 200");
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut source = Source::new(4);
        for (m, n) in [(4, 4), (10, 30), (50, 50), (20, 600)] {
            let held = (0..150)
                .filter(|_| {
                    let (a, b) = (sample(&mut source, m, 3e6), sample(&mut source, n, 2e6));
                    ratio(&a, &b, 0.95).is_some_and(|ratio| ratio.holds(1.5))
                })
                .count();
            assert!(held >= 134, "{held} of 150 with {m} and {n}");
        }
        let (a, b) = (sample(&mut source, 600, 3e6), sample(&mut source, 700, 2e6));
        assert!(ratio(&a, &b, 0.95).is_some_and(|ratio| ratio.relative_half_width() < 0.008));
        assert_eq!(shift(&a[..3], &b[..3], 0.95), None);
    }

    #[test]
    fn odd_figures_do_no_harm() {
        for a in odd_samples() {
            for b in odd_samples() {
                let RankSum { p_above, p_below } = mann_whitney(&a, &b);
                for p in [p_above, p_below] {
                    assert!((0.0..=1.0).contains(&p), "{p} for {a:?} and {b:?}");
                }
                let _ = (shift(&a, &b, 0.95), ratio(&a, &b, 2.0), ratio(&a, &b, 0.0));
            }
        }
    }

    proptest! {
        #[test]
        fn only_the_order_counts(a in prop::collection::vec(1u32..50, 1..12), b in prop::collection::vec(1u32..50, 1..12)) {
            let plain = |v: &[u32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
            let (a, b) = (plain(&a), plain(&b));
            let cubed = |v: &[f64]| v.iter().map(|v| v.powi(3)).collect::<Vec<_>>();
            let (one, other) = (mann_whitney(&a, &b), mann_whitney(&b, &a));
            prop_assert_eq!(mann_whitney(&cubed(&a), &cubed(&b)), one);
            prop_assert!((one.p_above - other.p_below).abs() < 1e-12 && (one.p_below - other.p_above).abs() < 1e-12);
            prop_assert!(one.p_above + one.p_below >= 1.0 - 1e-12);
        }
    }
}
