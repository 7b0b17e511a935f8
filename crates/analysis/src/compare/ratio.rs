//! The ratio of one figure of two devices, with its confidence interval, p-value and verdict.
//!
//! # Model
//! The two figures are independent, each with its confidence interval ([`level`](super::level)).
//!
//! # Method
//! 1. The interval of the difference of the logarithms follows from the two intervals by MOVER (Zou and
//!    Donner 2008). Each side combines the distances to the two ends that matter for it, so that skewed
//!    intervals stay skewed.
//! 2. The p-value is the confidence at which the interval just reaches a ratio of 1.
//! 3. All p-values of a comparison are corrected together by Holm's method (1979), which bounds the
//!    probability of any false difference, whatever the dependence between the tests.
//!
//! # Invariants
//! - Swapping the devices inverts ratio and interval, and keeps the p-value.
//! - A difference is reported only if the corrected p-value is below [`FALSE_DIFFERENCE_P`].

use serde::{Deserialize, Serialize};

use super::level::{Level, LogInterval, RepetitionVariance};

/// The probability of any false difference in a comparison.
pub const FALSE_DIFFERENCE_P: f64 = 0.05;
/// The confidence of the intervals that are shown.
pub(super) const CONFIDENCE: f64 = 0.95;
/// Ratios within 10 % of 1 count as equal when somebody chooses a device. That is half of the repeatability
/// that SNIA's steady state allows (20 %).
const EQUAL_WITHIN: f64 = 1.1;
/// The p-value is searched between these two; a smaller one is reported as the smaller of them.
const P_MIN: f64 = 1e-9;
/// The factor of IOs up to which it is searched how many would decide. With 10,000 times the IOs, a minute takes a week.
const GROWTH_MOST: f64 = 1e4;
/// Bisections of that factor's logarithm, to 4 %: the number is shown with two digits.
const GROWTH_BISECTIONS: usize = 8;
/// Bisections of the p-value's logarithm: nine decades to better than 0.1 %.
const BISECTIONS: usize = 14;

/// One figure of another device relative to the first one's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The first device's figure.
    pub first_ns: f64,
    /// The other device's figure.
    pub other_ns: f64,
    /// The other over the first.
    pub ratio: f64,
    /// The lower end of the 95 % confidence interval of the ratio.
    pub low: f64,
    /// The upper end; null if too few IOs lie beyond the quantile.
    pub high: Option<f64>,
    /// The probability of a ratio as far from 1 between equal devices, corrected for all tests of the
    /// comparison.
    pub p: f64,
    /// What follows.
    pub verdict: RatioVerdict,
    /// The number of IOs per device from which a ratio of 1.1 would show. Only given with "cannot be told"; null if no
    /// number of IOs that can be measured would show it.
    pub ios_needed: Option<u64>,
    /// The same as a number of repetitions like those that were measured.
    pub repetitions_needed: Option<u64>,
    /// The first device's figure in each repetition; null unless the repetitions differ more than their IOs explain.
    pub first_repetitions_ns: Option<Vec<f64>>,
    /// The other device's figure in each repetition; null unless they differ more than their IOs explain.
    pub other_repetitions_ns: Option<Vec<f64>>,
}

/// What a ratio shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RatioVerdict {
    /// The other device's figure is smaller.
    Faster,
    /// The other device's figure is larger.
    Slower,
    /// The whole interval lies within 10 % of 1.
    Equal,
    /// Too few IOs for either.
    CannotBeTold,
}

/// Two figures to compare, each with the variance of repetitions' levels in its run.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub first: (Level<'a>, RepetitionVariance),
    pub other: (Level<'a>, RepetitionVariance),
}

impl<'a> Pair<'a> {
    pub fn new(first: (Level<'a>, RepetitionVariance), other: (Level<'a>, RepetitionVariance)) -> Pair<'a> {
        let (of_first, of_other) = first.0.with_common_range(other.0);
        Pair { first: (of_first, first.1), other: (of_other, other.1) }
    }

    /// The interval of the ratio's logarithm.
    fn interval(&self, confidence: f64) -> LogInterval {
        let ((first, first_variance), (other, other_variance)) = (self.first, self.other);
        let (a, b) = (first.log(), other.log());
        let of_first = first.interval(confidence, first_variance);
        let of_other = other.interval(confidence, other_variance);
        LogInterval {
            low: b - a - (b - of_other.low).hypot(of_first.high - a),
            high: b - a + (of_other.high - b).hypot(a - of_first.low),
        }
    }

    fn excludes_one(&self, p: f64) -> bool {
        let interval = self.interval(1.0 - p);
        interval.low > 0.0 || interval.high < 0.0
    }

    /// The two-sided p-value of a ratio of 1, not corrected.
    pub fn p(&self) -> f64 {
        if self.excludes_one(P_MIN) {
            return P_MIN;
        }
        let (mut excluding, mut including) = (0.0, P_MIN.ln());
        for _ in 0..BISECTIONS {
            let middle = 0.5 * (excluding + including);
            let half = if self.excludes_one(f64::exp(middle)) { &mut excluding } else { &mut including };
            *half = middle;
        }
        f64::exp(excluding)
    }

    /// The ratio with its verdict. `p` is the corrected p-value, `tests` the number of p-values that were
    /// corrected together.
    pub fn ratio(&self, p: f64, tests: usize) -> Ratio {
        let interval = self.interval(CONFIDENCE);
        let log = self.other.0.log() - self.first.0.log();
        let equal = EQUAL_WITHIN.ln();
        let verdict = if p < FALSE_DIFFERENCE_P {
            if log > 0.0 { RatioVerdict::Slower } else { RatioVerdict::Faster }
        } else if interval.low > -equal && interval.high < equal {
            RatioVerdict::Equal
        } else {
            RatioVerdict::CannotBeTold
        };
        let ios_needed = match verdict {
            RatioVerdict::CannotBeTold => self.ios_needed(tests),
            _ => None,
        };
        let repetitions = |(level, pooled): &(Level<'a>, RepetitionVariance)| {
            level.odd_repetitions(*pooled).map(<[f64]>::to_vec)
        };
        Ratio {
            first_ns: self.first.0.value_ns,
            other_ns: self.other.0.value_ns,
            ratio: log.exp(),
            low: interval.low.exp(),
            high: interval.high.is_finite().then(|| interval.high.exp()),
            p,
            verdict,
            ios_needed,
            repetitions_needed: ios_needed.map(|ios| self.repetitions_of(ios)),
            first_repetitions_ns: repetitions(&self.first),
            other_repetitions_ns: repetitions(&self.other),
        }
    }

    /// The number of repetitions that have this number of IOs on both devices.
    fn repetitions_of(&self, ios: u64) -> u64 {
        let of = |level: &Level<'a>| ios as f64 / level.ios_per_repetition();
        of(&self.first.0).max(of(&self.other.0)).ceil() as u64
    }

    /// The number of IOs per device that would show a ratio of [`EQUAL_WITHIN`], if there were more repetitions like those that
    /// were measured. Tail quantiles and means need more IOs than a median, because they depend on rarer ones.
    fn ios_needed(&self, tests: usize) -> Option<u64> {
        let confidence = 1.0 - FALSE_DIFFERENCE_P / tests.max(1) as f64;
        let count = self.first.0.count().min(self.other.0.count()) as f64;
        let would_show = |ios: f64| {
            let grown = |(level, variance): (Level<'a>, RepetitionVariance)| {
                (level.grown((ios / level.count() as f64).max(1.0)), variance)
            };
            let pair = Pair { first: grown(self.first), other: grown(self.other) };
            let interval = pair.interval(confidence);
            0.5 * (interval.high - interval.low) <= EQUAL_WITHIN.ln()
        };
        if !would_show(count * GROWTH_MOST) {
            return None;
        }
        let (mut few, mut enough) = (0.0, GROWTH_MOST.ln());
        for _ in 0..GROWTH_BISECTIONS {
            let middle = 0.5 * (few + enough);
            let half = if would_show(count * f64::exp(middle)) { &mut enough } else { &mut few };
            *half = middle;
        }
        Some((count * f64::exp(enough)).ceil() as u64)
    }
}

/// Holm's correction, in the order of the values given.
pub(super) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let (mut corrected, mut largest) = (vec![1.0; p.len()], 0.0_f64);
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max(p[index] * (p.len() - rank) as f64).min(1.0);
        corrected[index] = largest;
    }
    corrected
}
