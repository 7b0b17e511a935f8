//! Computes how precisely the mean response time is known, during the run (future work in uFLIP section 6).
//!
//! # Model
//! Response times are a stationary sequence with any autocorrelation, and skewed.
//!
//! # Method
//! 1. Response times are collected into batches. When there are too many batches, neighbours are joined. So
//!    memory and the work per IO are constant.
//! 2. The interval comes from the scatter of the batches' means. The remaining correlation between
//!    neighbouring batches is treated as that of a first-order autoregression, and the remaining skewness
//!    widens the interval (Tafazzoli and Wilson's Skart, IIE Transactions 43(2), 2011).
//!
//! A run that checks after every IO would stop when the interval happens to be narrow, and the interval would
//! then be wrong too often. So it is computed only at counts that grow by a quarter. It needs 1024 IOs, or,
//! if the period is known, 256 IOs and 8 periods. No interval contains what was never measured: one IO in ten
//! thousand that takes a thousand times as long doubles the mean, and a run of a thousand IOs most likely
//! does not contain it.
//!
//! Invariants: memory is constant. `add` takes a few nanoseconds, except at the few counts at which the
//! interval is computed. The result depends only on the response times.

use crate::point::mean;
use crate::student::quantile_95;

/// The least IOs if nothing is known about the pattern: a slow IO in every 128 (uFLIP Figure 4) must have
/// occurred several times.
const IOS_MIN_UNKNOWN: u64 = 1024;
/// The least IOs if the period of the pattern is known.
const IOS_MIN_KNOWN: u64 = 256;
/// A known period must have occurred this often.
const PERIODS_MIN: u64 = 8;
/// Batches are joined in pairs when there are this many.
const BATCHES_MAX: usize = 512;
/// The interval is computed from this many batches, after further joining.
const BATCHES_JOINED: usize = 32;

/// Tracks the precision of the mean of a run's response times.
#[derive(Clone, Debug)]
pub struct Precision {
    count: u64,
    batches: Vec<f64>,
    batch_ios: u64,
    filling_ios: u64,
    filling_ns: f64,
    next_look: u64,
    relative_half_width: Option<f64>,
}

impl Default for Precision {
    fn default() -> Precision {
        Precision::new()
    }
}

impl Precision {
    /// For a pattern of which nothing is known. It has a precision from 1024 IOs on.
    pub fn new() -> Precision {
        Precision::starting(1, IOS_MIN_UNKNOWN)
    }

    /// For a pattern with this period in IOs (uFLIP section 4.2); 1 if it is known to have none. It has a
    /// precision from 256 IOs and 8 periods on.
    pub fn with_period(period_ios: u64) -> Precision {
        let period_ios = period_ios.max(1);
        // After 8 periods there are just enough batches to compute an interval.
        let batch_ios = period_ios.div_ceil((BATCHES_JOINED as u64 / PERIODS_MIN).min(period_ios));
        Precision::starting(batch_ios, IOS_MIN_KNOWN.max(period_ios.saturating_mul(PERIODS_MIN)))
    }

    fn starting(batch_ios: u64, next_look: u64) -> Precision {
        Precision {
            count: 0,
            batches: Vec::with_capacity(BATCHES_MAX),
            batch_ios,
            filling_ios: 0,
            filling_ns: 0.0,
            next_look,
            relative_half_width: None,
        }
    }

    /// Takes one response time in nanoseconds.
    #[inline]
    pub fn add(&mut self, response_ns: u64) {
        self.count += 1;
        self.filling_ns += response_ns as f64;
        self.filling_ios += 1;
        if self.filling_ios == self.batch_ios {
            self.close_batch();
        }
        if self.count >= self.next_look {
            self.look();
        }
    }

    /// How many response times were taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Half the width of the mean's 95 % confidence interval, relative to the mean, at the last count at
    /// which it was computed. `None` if there are too few IOs.
    pub fn relative_half_width(&self) -> Option<f64> {
        self.relative_half_width
    }

    fn close_batch(&mut self) {
        self.batches.push(self.filling_ns / self.batch_ios as f64);
        (self.filling_ns, self.filling_ios) = (0.0, 0);
        if self.batches.len() == BATCHES_MAX {
            self.batches = joined(&self.batches, 2);
            self.batches.reserve_exact(BATCHES_MAX - self.batches.len());
            self.batch_ios *= 2;
        }
    }

    fn look(&mut self) {
        self.next_look = self.count + self.count / 4;
        self.relative_half_width = relative_half_width(&self.batches);
    }
}

/// The means of groups of `group` neighbouring batches; an incomplete group is left out.
fn joined(batches: &[f64], group: usize) -> Vec<f64> {
    batches.chunks_exact(group).map(|group| group.iter().sum::<f64>() / group.len() as f64).collect()
}

/// The interval from equally long batches.
fn relative_half_width(batches: &[f64]) -> Option<f64> {
    if batches.len() < BATCHES_JOINED {
        return None;
    }
    let batches = joined(batches, batches.len() / BATCHES_JOINED);
    let level = mean(&batches).filter(|&level| level > 0.0)?;
    let k = batches.len() as f64;
    let moment = |power: i32| batches.iter().map(|b| (b - level).powi(power)).sum::<f64>() / k;
    let (variance, third) = (moment(2), moment(3));
    // Equal batches differ by rounding.
    if variance <= (1e-12 * level).powi(2) {
        return Some(0.0);
    }
    let lagged = batches.windows(2).map(|pair| (pair[0] - level) * (pair[1] - level)).sum::<f64>() / k;
    let correlation = (lagged / variance + 1.0 / k).clamp(0.0, 0.9);
    let correction = (1.0 + correlation) / (1.0 - correlation);
    let standard_error = (variance / (k - 1.0) * correction).sqrt();
    let skewness = third / variance.powf(1.5);
    Some(quantile(k - 1.0, skewness / k.sqrt()) * standard_error / level)
}

/// Student's quantile, widened for the skewness of the mean by Willink's cubic inverse of Johnson's modified
/// t; the wider of the two sides.
fn quantile(degrees: f64, skewness: f64) -> f64 {
    let t = quantile_95(degrees);
    let a = skewness.abs() / 6.0;
    if a < 1e-3 {
        return t;
    }
    let invert = |r: f64| ((1.0 + 6.0 * a * (r - a)).cbrt() - 1.0) / (2.0 * a);
    invert(t).abs().max(invert(-t).abs()).max(t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Source;

    /// A stationary sequence of response times with its true mean, in any unit.
    struct Truth {
        name: &'static str,
        mean: f64,
        next: fn(&mut Source, usize) -> f64,
        /// Deterministic oscillations start at a random position of their period.
        period: usize,
    }

    /// `mean 1, deviation 0.3`.
    fn correlated(source: &mut Source, rho: f64) -> f64 {
        1.0 + 0.3 * source.autoregressive(rho)
    }

    fn spike(source: &mut Source, i: usize, period: usize, height: f64, sigma: f64) -> f64 {
        (if i.is_multiple_of(period) { height } else { 1.0 }) * source.log_normal(sigma)
    }

    fn truths() -> Vec<Truth> {
        let truth = |name, mean, period, next| Truth { name, mean, period, next };
        let lift = |sigma: f64| (sigma * sigma / 2.0).exp();
        vec![
            truth("AR(1) rho 0", 1.0, 1, |s, _| correlated(s, 0.0)),
            truth("AR(1) rho 0.5", 1.0, 1, |s, _| correlated(s, 0.5)),
            truth("AR(1) rho 0.8", 1.0, 1, |s, _| correlated(s, 0.8)),
            truth("AR(1) rho 0.95", 1.0, 1, |s, _| correlated(s, 0.95)),
            truth("every 128th 50x", 177.0 / 128.0 * lift(0.1), 128, |s, i| spike(s, i, 128, 50.0, 0.1)),
            truth("every 128th 50x, noisy", 177.0 / 128.0 * lift(0.5), 128, |s, i| {
                spike(s, i, 128, 50.0, 0.5)
            }),
            truth("every 100th 50x, noisy", 1.49 * lift(0.5), 100, |s, i| spike(s, i, 100, 50.0, 0.5)),
            truth("1 of 16 at random 67x", 1.0 + 66.0 / 16.0, 1, |s, _| {
                if s.unit() < 1.0 / 16.0 { 67.0 } else { 1.0 }
            }),
            truth("log-normal sigma 1", lift(1.0), 1, |s, _| s.log_normal(1.0)),
            truth("log-normal sigma 1.5", lift(1.5), 1, |s, _| s.log_normal(1.5)),
            truth("Pareto alpha 2.5", 2.5 / 1.5, 1, |s, _| s.pareto(2.5)),
            truth("0.1 % outliers 100x", 1.099, 1, |s, _| if s.unit() < 1e-3 { 100.0 } else { 1.0 }),
        ]
    }

    /// Runs `trials` runs of `truth`, each of which stops when `goal` is reached, or at `ios_max`. Returns
    /// the share of intervals that contain the true mean, the mean count, and the share that reached the
    /// goal.
    fn coverage(truth: &Truth, goal: f64, ios_max: u64, trials: u64, period: Option<u64>) -> (f64, f64, f64) {
        let (mut covered, mut total, mut reached) = (0u64, 0u64, 0u64);
        for seed in 0..trials {
            let mut source = Source::new(seed);
            let mut i = (source.unit() * truth.period as f64) as usize;
            let mut precision = period.map_or_else(Precision::new, Precision::with_period);
            let mut sum = 0u64;
            let narrow = |precision: &Precision| precision.relative_half_width().is_some_and(|w| w < goal);
            while precision.count() < ios_max && !narrow(&precision) {
                let response_ns = ((truth.next)(&mut source, i) * 1e5).max(0.0) as u64;
                precision.add(response_ns);
                sum += response_ns;
                i += 1;
            }
            let mean = sum as f64 / precision.count() as f64;
            let half_width = precision.relative_half_width().unwrap() * mean;
            covered += u64::from((mean - truth.mean * 1e5).abs() <= half_width);
            reached += u64::from(narrow(&precision));
            total += precision.count();
        }
        let share = |n: u64| n as f64 / trials as f64;
        (share(covered), share(total), share(reached))
    }

    #[test]
    fn stopping_when_narrow_keeps_the_promise() {
        // No interval contains outliers that were never measured, so the last truth is only for the table.
        for truth in truths().iter().filter(|truth| !truth.name.starts_with("0.1 %")) {
            let (covered, ios, reached) = coverage(truth, 0.05, 400_000, 300, Some(truth.period as u64));
            assert!((0.9..=0.995).contains(&covered), "{}: {covered} after {ios}, seeds 0..300", truth.name);
            assert_eq!(reached, 1.0, "{}", truth.name);
        }
    }

    #[test]
    fn stopping_is_honest_though_the_period_is_not_known() {
        for truth in truths().iter().filter(|truth| truth.period > 1) {
            let (covered, ios, _) = coverage(truth, 0.05, 400_000, 300, None);
            assert!(covered >= 0.9, "{}: {covered} after {ios}, seeds 0..300", truth.name);
        }
    }

    #[test]
    fn too_few_ios_tell_nothing() {
        let mut precision = Precision::new();
        (0..1023).for_each(|i| precision.add(1000 + i % 7));
        assert_eq!(precision.relative_half_width(), None);
        precision.add(1000);
        assert!(precision.relative_half_width().is_some_and(|width| width < 0.001));
        let mut periodic = Precision::with_period(300);
        (0..2399).for_each(|_| periodic.add(5));
        assert_eq!(periodic.relative_half_width(), None);
        periodic.add(5);
        assert_eq!(periodic.relative_half_width(), Some(0.0));
    }

    #[test]
    fn outlandish_response_times_do_no_harm() {
        for value in [0, u64::MAX] {
            let mut precision = Precision::new();
            (0..5000).for_each(|_| precision.add(value));
            assert!(precision.relative_half_width().is_none_or(|width| width == 0.0), "{value}");
        }
    }

    #[test]
    fn memory_does_not_grow() {
        let (mut precision, mut source) = (Precision::new(), Source::new(1));
        let capacity = precision.batches.capacity();
        (0..300_000).for_each(|_| precision.add((source.log_normal(1.0) * 1e5) as u64));
        assert_eq!(precision.batches.capacity(), capacity);
        let whole = precision.batches.len() as u64 * precision.batch_ios + precision.filling_ios;
        assert_eq!(whole, precision.count());
    }

    #[test]
    #[ignore = "a table for people: cargo test -p flashlab-analysis coverage_table -- --ignored --nocapture"]
    fn coverage_table() {
        println!(
            "{:<26} {:>14} {:>14} {:>28} {:>28}",
            "", "2000 IOs", "20000 IOs", "stopped at 5 %", "the same, period known"
        );
        for truth in truths() {
            let fixed = coverage(&truth, 0.0, 2_000, 2000, None);
            let long = coverage(&truth, 0.0, 20_000, 1000, None);
            let stopped = coverage(&truth, 0.05, 400_000, 2000, None);
            let known = coverage(&truth, 0.05, 400_000, 2000, Some(truth.period as u64));
            println!(
                "{:<26} {:>12.1} % {:>12.1} % {:>8.1} % after {:>7.0} IOs {:>8.1} % after {:>7.0} IOs",
                truth.name,
                fixed.0 * 100.0,
                long.0 * 100.0,
                stopped.0 * 100.0,
                stopped.1,
                known.0 * 100.0,
                known.1
            );
        }
    }
}
