//! The median, the tail quantiles and the mean of one experiment on one device, each with a confidence
//! interval that holds although the response times of neighbouring IOs are correlated.
//!
//! # Model
//! The response times of a repetition are a stationary sequence with short memory, perhaps with a slow drift.
//! Repetitions may have different levels (averages). The p-quantile of n correlated values
//! has the same variance as the p-quantile of `n_eff = n p (1 - p) / S` independent values. S is the long-run variance of the indicator
//! "this response time is not above the quantile" (Sen 1972; Chen and Kelton 2006 for simulation output).
//!
//! # Method
//! 1. Take the quantile of all repetitions together.
//! 2. Cut each repetition into batches of about the square root of its length, and compute S from the
//!    differences of neighbouring batches. Differences cancel a slow drift, which would otherwise count as
//!    scatter.
//! 3. Compute the variance between repetitions that S does not explain. One experiment has too few repetitions, usually
//!    three, for a good estimate. So the median over all experiments of the run ([`repetition_variance`]) widens every
//!    interval. An experiment whose repetitions vary significantly more uses its own variance: one odd repetition of three
//!    then leaves a wide interval, because three repetitions do not show how often such a one comes.
//! 4. The ends of the interval are two order statistics. Their ranks are the lower and the upper quantile of a Beta
//!    distribution with `n_eff` in place of n (Jeffreys). S is only an estimate, so Student's t with its degrees of freedom
//!    widens the interval. If too few values lie beyond the quantile, the interval has no upper end. The variance between
//!    repetitions has an interval of its own, with its degrees of freedom; the two add up in quadrature (MOVER, as in
//!    [`ratio`](super::ratio)).
//! 5. The mean is treated in the same way, with the response times instead of the indicator. Rare slow IOs that the sample
//!    cannot have seen raise its upper end ([`unseen`](super::unseen)).
//!
//! A block bootstrap resamples the same batches. It cannot go beyond the largest value seen, and needs
//! thousands of resamples for the small p-values of a comparison that is corrected for many tests. This interval
//! is computed without resampling, so it is deterministic. For independent values it is Jeffreys' interval.
//!
//! # Invariants
//! - The interval contains the value.
//! - A larger confidence never gives a narrower interval.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ChiSquared, ContinuousCDF, Normal};

use super::unseen::unseen_ns;
use crate::student;

/// An experiment uses its own variance if chance alone keeps it below the observed value with this probability. With a lower
/// probability, experiments that scatter much only by chance get wider intervals and lose power. With a higher one, a device
/// that stays in one of two modes for a whole repetition seems to differ from itself.
const EXCESS_PROBABILITY: f64 = 0.999;

/// Figures of repetitions that differ by less than this are equal: response times are whole nanoseconds.
const RESOLUTION_NS: f64 = 1.0;

/// How many degrees of freedom are added to those of an experiment's own repetitions, for what is known before: the variance is the
/// larger of its own and the run's, and was chosen because it is large. With 0, three repetitions of which one takes twice as long
/// would leave a difference of 30 times undecided. With more, intervals after an odd repetition miss the truth more often (docs/compare.md).
const PRIOR_DEGREES: f64 = 2.0;

/// A median of many values is as precise as a mean of 64 % of them (2 / pi, for normal values).
const MEDIAN_EFFICIENCY: f64 = std::f64::consts::FRAC_2_PI;

/// Bisections of the interval from 0 to 1, until it is shorter than 1e-7.
const BETA_BISECTIONS: usize = 24;

/// A statistic of the response times: a quantile or the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The 50th percentile.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    #[serde(rename = "p99.9")]
    P999,
    /// The arithmetic mean.
    Mean,
}

impl Statistic {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Statistic; 5] =
        [Statistic::P50, Statistic::P90, Statistic::P99, Statistic::P999, Statistic::Mean];

    /// `p50`, `p90`, `p99`, `p99.9` or `mean`.
    pub fn name(self) -> &'static str {
        match self {
            Statistic::P50 => "p50",
            Statistic::P90 => "p90",
            Statistic::P99 => "p99",
            Statistic::P999 => "p99.9",
            Statistic::Mean => "mean",
        }
    }

    /// The share of values that do not exceed this statistic; `None` for the mean.
    pub fn probability(self) -> Option<f64> {
        match self {
            Statistic::P50 => Some(0.5),
            Statistic::P90 => Some(0.9),
            Statistic::P99 => Some(0.99),
            Statistic::P999 => Some(0.999),
            Statistic::Mean => None,
        }
    }
}

/// The transfers of an experiment, all repetitions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferTotals {
    /// The number of IOs.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the start of the first IO to the end of the last one, summed over the repetitions.
    pub duration_ns: u64,
}

/// The response times of one experiment on one device: all its repetitions, with the start-up phase
/// left out.
#[derive(Clone, Debug)]
pub struct Responses {
    /// In nanoseconds, ascending.
    sorted: Vec<u64>,
    /// For each statistic, in the order of [`Statistic::ALL`].
    figures: Vec<Figure>,
    throughput: Option<TransferTotals>,
}

/// A statistic of all repetitions.
#[derive(Clone, Debug)]
struct Figure {
    /// The statistic of all IOs together.
    value_ns: f64,
    /// The statistic of each repetition.
    repetitions_ns: Vec<f64>,
    scatter: Scatter,
}

impl Responses {
    /// Takes the repetitions, each in the order of its IOs. Empty ones are dropped. `None` if nothing is
    /// left.
    pub fn new(repetitions: &[Vec<u64>]) -> Option<Responses> {
        let repetitions: Vec<&[u64]> =
            repetitions.iter().map(Vec::as_slice).filter(|repetition| !repetition.is_empty()).collect();
        let mut sorted: Vec<u64> = repetitions.concat();
        sorted.sort_unstable();
        if sorted.is_empty() {
            return None;
        }
        let of_each: Vec<Vec<u64>> = repetitions
            .iter()
            .map(|repetition| {
                let mut sorted = repetition.to_vec();
                sorted.sort_unstable();
                sorted
            })
            .collect();
        let figure = |statistic: &Statistic| match statistic.probability() {
            Some(probability) => {
                let value_ns = quantile_of(&sorted, probability);
                let repetitions_ns: Vec<f64> =
                    of_each.iter().map(|sorted| quantile_of(sorted, probability)).collect();
                let scatter = quantile_scatter(&repetitions, value_ns, log_variance(&repetitions_ns));
                Figure { value_ns, repetitions_ns, scatter }
            }
            None => {
                let mean = |repetition: &&[u64]| {
                    repetition.iter().map(|&ns| ns as f64).sum::<f64>() / repetition.len() as f64
                };
                let repetitions_ns: Vec<f64> = repetitions.iter().map(mean).collect();
                let (value_ns, scatter) = mean_level(&repetitions, log_variance(&repetitions_ns));
                Figure { value_ns, repetitions_ns, scatter }
            }
        };
        let figures = Statistic::ALL.iter().map(figure).collect();
        Some(Responses { sorted, figures, throughput: None })
    }

    /// How many IOs there are in all repetitions.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// These response times, with the totals of the transfers.
    pub fn with_throughput(self, throughput: TransferTotals) -> Responses {
        Responses { throughput: Some(throughput), ..self }
    }

    /// The transfers, if they are known.
    pub fn throughput(&self) -> Option<TransferTotals> {
        self.throughput
    }

    /// The response time, in nanoseconds, that this share of the IOs does not exceed.
    pub fn quantile_ns(&self, probability: f64) -> f64 {
        quantile_of(&self.sorted, probability)
    }

    /// One statistic, with the values from which its interval is computed.
    pub(super) fn level(&self, statistic: Statistic) -> Level<'_> {
        let figure = &self.figures[statistic as usize];
        let slowest_ns = self.sorted.last().map_or(0.0, |&ns| ns as f64);
        let level = Level {
            value_ns: figure.value_ns,
            repetitions_ns: &figure.repetitions_ns,
            scatter: figure.scatter,
            variance_by_ios: 0.0,
            probability: statistic.probability(),
            sorted: &self.sorted,
            slowest_ns,
            growth: 1.0,
        };
        let by_ios = level.interval_by_ios(1.0);
        Level { variance_by_ios: (0.5 * (by_ios.high - by_ios.low)).powi(2), ..level }
    }
}

/// The scatter of a quantile, from the indicator "this response time is not above the quantile".
fn quantile_scatter(repetitions: &[&[u64]], value_ns: f64, between: Option<f64>) -> Scatter {
    let (share, within, degrees) = long_run(repetitions, |ns| f64::from(u8::from(ns as f64 <= value_ns)));
    let variance = share * (1.0 - share);
    // If no value lies above it, dependence cannot be estimated: the values count as independent.
    let within = if variance > 0.0 { within / variance } else { 1.0 };
    Scatter { within, degrees, between, repetitions: repetitions.len() }
}

fn mean_level(repetitions: &[&[u64]], between: Option<f64>) -> (f64, Scatter) {
    let (mean, within, degrees) = long_run(repetitions, |ns| ns as f64);
    let within = if mean > 0.0 { within / (mean * mean) } else { 0.0 };
    (mean, Scatter { within, degrees, between, repetitions: repetitions.len() })
}

/// How a figure scatters.
#[derive(Clone, Copy, Debug)]
struct Scatter {
    /// The long-run variance per IO. It is divided by p (1 - p) if the statistic is a quantile, and by the mean's square if it is
    /// the mean.
    within: f64,
    /// The degrees of freedom of `within`.
    degrees: f64,
    /// The variance of the logarithms of the repetitions' figures; `None` for one repetition.
    between: Option<f64>,
    repetitions: usize,
}

/// Three values for a function of the response times: its mean, its long-run variance S, and the degrees of freedom of S.
fn long_run(repetitions: &[&[u64]], function: impl Fn(u64) -> f64) -> (f64, f64, f64) {
    let sum = |values: &[u64]| values.iter().map(|&value| function(value)).sum::<f64>();
    let (mut squares, mut differences) = (0.0, 0usize);
    for repetition in repetitions {
        let size = (repetition.len() as f64).sqrt().round().max(1.0) as usize;
        let batches: Vec<f64> = repetition.chunks_exact(size).map(|batch| sum(batch) / size as f64).collect();
        squares += size as f64 * batches.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum::<f64>();
        differences += batches.len() - 1;
    }
    let total: usize = repetitions.iter().map(|repetition| repetition.len()).sum();
    let mean = repetitions.iter().map(|repetition| sum(repetition)).sum::<f64>() / total as f64;
    let within = if differences > 0 { squares / (2 * differences) as f64 } else { 0.0 };
    // Neighbouring differences share a batch, so n squared differences have only 2 n / 3 degrees of freedom (von Neumann
    // et al. 1941).
    (mean, within, differences as f64 * 2.0 / 3.0)
}

/// The sample variance of the logarithms; `None` for fewer than two values.
fn log_variance(values_ns: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values_ns.iter().map(|ns| ns.max(1.0).ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    (logs.len() > 1).then(|| squares / (logs.len() - 1) as f64)
}

/// One figure of one experiment on one device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level<'a> {
    /// The figure.
    pub value_ns: f64,
    /// The figure of each repetition.
    repetitions_ns: &'a [f64],
    scatter: Scatter,
    /// The variance of the figure's logarithm from the scatter of its IOs, as measured.
    variance_by_ios: f64,
    /// The share of values that do not exceed this statistic; `None` for the mean.
    probability: Option<f64>,
    sorted: &'a [u64],
    /// The longest known response time of the experiment, here or on the device that it is compared with.
    slowest_ns: f64,
    /// 1, or the factor by which there are more repetitions than were measured.
    growth: f64,
}

/// How much the figures of repetitions vary beyond what their IOs explain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RepetitionVariance {
    /// The variance of their logarithms.
    pub variance: f64,
    /// The degrees of freedom of this estimate.
    pub degrees: f64,
    /// The number of experiments from which it is known.
    pub experiments: usize,
}

/// With fewer experiments, one of them with an odd repetition would decide the intervals of all. A median of four bears one.
const EXPERIMENTS_LEAST: usize = 4;

impl RepetitionVariance {
    /// This estimate, or that of a less extreme quantile if too few experiments have enough IOs for this one: a repetition at
    /// another level moves all quantiles.
    pub fn or_of_less_extreme(self, less_extreme: RepetitionVariance) -> RepetitionVariance {
        let is_known = self.experiments >= EXPERIMENTS_LEAST || self.experiments >= less_extreme.experiments;
        if is_known { self } else { less_extreme }
    }
}

/// The two ends of a confidence interval, as natural logarithms of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LogInterval {
    pub low: f64,
    pub high: f64,
}

impl Level<'_> {
    /// The figure's logarithm. A response time of 0 ns counts as 1 ns.
    pub fn log(&self) -> f64 {
        self.value_ns.max(1.0).ln()
    }

    /// The number of IOs from which it is known.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The two levels, each with the longest response time of both: what one device does, the other may do as well.
    pub fn with_common_range(self, other: Self) -> (Self, Self) {
        let slowest_ns = self.slowest_ns.max(other.slowest_ns);
        (Level { slowest_ns, ..self }, Level { slowest_ns, ..other })
    }

    /// This level as `factor` times the repetitions would show it, if they were like those that were measured.
    pub fn grown(self, factor: f64) -> Self {
        Level { growth: self.growth * factor, ..self }
    }

    /// The number of IOs, or of those that [`Level::grown`] assumes.
    fn ios(&self) -> f64 {
        self.sorted.len() as f64 * self.growth
    }

    /// The mean number of IOs of a repetition.
    pub fn ios_per_repetition(&self) -> f64 {
        self.sorted.len() as f64 / self.scatter.repetitions as f64
    }

    /// The number of repetitions, or of those that [`Level::grown`] assumes.
    fn repetitions(&self) -> f64 {
        self.scatter.repetitions as f64 * self.growth
    }

    /// The figure of each repetition, if they vary significantly more than their IOs and the run's other experiments explain.
    pub fn odd_repetitions(&self, pooled: RepetitionVariance) -> Option<&[f64]> {
        self.own_repetition_variance(pooled).map(|_| self.repetitions_ns)
    }

    /// The interval at `confidence`. `pooled` is the variance between repetitions in the whole run. The upper end is infinite
    /// if too few IOs lie beyond the quantile.
    pub fn interval(&self, confidence: f64, pooled: RepetitionVariance) -> LogInterval {
        let of_repetitions = self.own_repetition_variance(pooled).unwrap_or(pooled);
        let by_ios = self.interval_by_ios(student::quantile(confidence, self.scatter.degrees));
        let by_repetitions = match of_repetitions.variance {
            0.0 => 0.0,
            variance => {
                student::quantile(confidence, of_repetitions.degrees) * (variance / self.repetitions()).sqrt()
            }
        };
        let high = self.log() + (by_ios.high - self.log()).hypot(by_repetitions);
        let unseen_ns = match self.probability {
            Some(_) => 0.0,
            None => unseen_ns(self.ios(), self.slowest_ns, 0.5 * (1.0 - confidence)),
        };
        LogInterval {
            low: self.log() - (self.log() - by_ios.low).hypot(by_repetitions),
            high: (high.exp() + unseen_ns).ln().max(high),
        }
    }

    /// The variance of the logarithms of its repetitions' figures, with its degrees of freedom; `None` for
    /// one repetition.
    fn between_repetitions(&self) -> Option<(f64, f64)> {
        Some((self.scatter.between?, self.scatter.repetitions as f64 - 1.0))
    }

    /// How much of the variance of one repetition's statistic, as a logarithm, comes from the scatter of its IOs.
    fn one_repetition_by_ios(&self) -> f64 {
        self.variance_by_ios * self.scatter.repetitions as f64
    }

    /// The experiment's own variance between repetitions, if it is larger than chance would give in 999 of 1,000 cases. Otherwise
    /// `None`: that of the whole run is better known.
    fn own_repetition_variance(&self, pooled: RepetitionVariance) -> Option<RepetitionVariance> {
        let (between, degrees) = self.between_repetitions()?;
        let expected = pooled.variance + self.one_repetition_by_ios();
        let resolution = (RESOLUTION_NS / self.value_ns.max(1.0)).powi(2);
        let exceeds = between > resolution.max(expected * chi_squared(EXCESS_PROBABILITY, degrees) / degrees);
        exceeds.then(|| RepetitionVariance {
            variance: between.max(pooled.variance),
            degrees: self.repetitions() - 1.0 + PRIOR_DEGREES,
            experiments: 1,
        })
    }

    /// The interval from the scatter of IOs, `z` standard errors to both sides.
    fn interval_by_ios(&self, z: f64) -> LogInterval {
        let count = self.ios();
        let Some(probability) = self.probability else {
            let error = (self.scatter.within / count).sqrt();
            return LogInterval { low: self.log() - z * error, high: self.log() + z * error };
        };
        let effective = count / self.scatter.within.max(1.0);
        let beta = Beta::new(probability * effective + 0.5, (1.0 - probability) * effective + 0.5)
            .expect("both shapes are positive");
        let tail = Normal::standard().sf(z);
        let end =
            |probability: f64| quantile_of(self.sorted, probability).max(1.0).ln() + self.beyond(probability);
        let (low, high) = (beta_quantile(&beta, tail), beta_quantile(&beta, 1.0 - tail));
        let distance = |probability: f64, from: f64| end(probability) - end(from);
        LogInterval {
            low: self.log() - distance(probability, low).max(0.0),
            high: match high < 1.0 - 0.5 / count {
                true => self.log() + distance(high, probability).max(0.0),
                false => f64::INFINITY,
            },
        }
    }

    /// How far a quantile is beyond the longest response time that was measured, as a logarithm, if there were more IOs: the tail
    /// is continued as a Pareto distribution whose index comes from the slowest tenth (Hill 1975).
    fn beyond(&self, probability: f64) -> f64 {
        let longest = 0.5 / self.sorted.len() as f64;
        let exceeding = 1.0 - probability;
        if self.growth == 1.0 || exceeding >= longest {
            return 0.0;
        }
        let tail = &self.sorted[self.sorted.len() * 9 / 10..];
        let log = |ns: u64| (ns.max(1) as f64).ln();
        let index = tail.iter().map(|&ns| log(ns) - log(tail[0])).sum::<f64>() / tail.len() as f64;
        index * (longest / exceeding.max(f64::MIN_POSITIVE)).ln()
    }
}

/// The variance of the logarithms of repetitions' levels beyond what their IOs explain, pooled over the
/// experiments of a run. It is 0 if the IOs explain all of it.
///
/// It is the median over the experiments. So a few experiments that jump between two modes do not widen the
/// intervals of all others.
pub(super) fn repetition_variance<'a>(levels: impl Iterator<Item = Level<'a>>) -> RepetitionVariance {
    let mut degrees_of_all = 0.0;
    let mut found: Vec<f64> = levels
        .filter_map(|level| {
            let (between, degrees) = level.between_repetitions()?;
            let one_repetition = level.one_repetition_by_ios();
            // The variance of few values is more often below its expectation than above it.
            let median_of_variance = chi_squared(0.5, degrees) / degrees;
            one_repetition.is_finite().then(|| {
                degrees_of_all += degrees;
                between / median_of_variance - one_repetition
            })
        })
        .collect();
    found.sort_by(f64::total_cmp);
    let middle = found.len() / 2;
    let variance = match found.len() {
        0 => 0.0,
        count if count % 2 == 1 => found[middle].max(0.0),
        _ => (0.5 * (found[middle - 1] + found[middle])).max(0.0),
    };
    let efficiency = if found.len() > 1 { MEDIAN_EFFICIENCY } else { 1.0 };
    RepetitionVariance { variance, degrees: efficiency * degrees_of_all, experiments: found.len() }
}

fn chi_squared(probability: f64, degrees: f64) -> f64 {
    ChiSquared::new(degrees).expect("degrees of freedom are positive").inverse_cdf(probability)
}

/// The quantile of a Beta distribution, accurate to 1e-7. It is found by bisection, because the inverse of statrs panics
/// when one shape parameter is much larger than the other.
fn beta_quantile(beta: &Beta, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..BETA_BISECTIONS {
        let middle = 0.5 * (low + high);
        let half = if beta.cdf(middle) < probability { &mut low } else { &mut high };
        *half = middle;
    }
    0.5 * (low + high)
}

/// The quantile by linear interpolation between order statistics at (i + 0.5) / n. Outside their range
/// it is the smallest or the largest value.
fn quantile_of(sorted: &[u64], probability: f64) -> f64 {
    let position = (probability * sorted.len() as f64 - 0.5).clamp(0.0, (sorted.len() - 1) as f64);
    let (below, share) = (position.floor() as usize, position.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] as f64 * (1.0 - share) + sorted[above] as f64 * share
}
