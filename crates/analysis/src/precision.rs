//! How precisely the mean response time is known, while the run goes on (what uFLIP section 6
//! leaves as future work).
//!
//! Model: response times are a stationary sequence with any autocorrelation, and skewed. They are
//! gathered into batches, which double in size when there are too many, so that memory and the
//! work per IO stay constant. The batches' means scatter around the true mean; what correlation is
//! left between neighbouring batches is taken for that of a first-order autoregression and what
//! skewness is left widens the interval (both as in Tafazzoli and Wilson's Skart, IIE Transactions
//! 43(2), 2011).
//!
//! Looking again and again until the interval happens to be narrow would make it a lie. Therefore
//! it is computed only at counts that grow by a quarter, and it is not given before
//! [`IOS_MIN`] IOs.
//!
//! Invariants: memory is constant; `add` is a few nanoseconds but at the few counts where the
//! interval is computed; the answer depends on the response times only.

use crate::point::mean;
use crate::student::quantile_95;

/// Fewer IOs than this tell no precision.
const IOS_MIN: u64 = 64;
/// Batches are joined in pairs when there are this many.
const BATCHES_MAX: usize = 512;
/// The interval is computed from this many batches, after joining further.
const BATCHES_JOINED: usize = 32;

/// Watches the precision of the mean of a run's response times.
#[derive(Clone, Debug)]
pub struct Precision {
    count: u64,
    batches: Vec<f64>,
    batch_ios: u64,
    filling_ios: u64,
    filling_ns: u64,
    next_look: u64,
    relative_half_width: Option<f64>,
}

impl Default for Precision {
    fn default() -> Precision {
        Precision::new()
    }
}

impl Precision {
    /// Nothing seen yet.
    pub fn new() -> Precision {
        Precision::with_period(1)
    }

    /// Nothing seen yet of a pattern that oscillates with this period (uFLIP section 4.2), in IOs:
    /// batches are whole periods.
    pub fn with_period(period_ios: u64) -> Precision {
        Precision {
            count: 0,
            batches: Vec::with_capacity(BATCHES_MAX),
            batch_ios: period_ios.max(1),
            filling_ios: 0,
            filling_ns: 0,
            next_look: IOS_MIN,
            relative_half_width: None,
        }
    }

    /// Takes one response time in nanoseconds.
    #[inline]
    pub fn add(&mut self, response_ns: u64) {
        self.count += 1;
        self.filling_ns = self.filling_ns.saturating_add(response_ns);
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

    /// Half the width of the mean's 95 % confidence interval, relative to the mean, as of the last
    /// count at which it was computed; none where there are too few IOs to tell.
    pub fn relative_half_width(&self) -> Option<f64> {
        self.relative_half_width
    }

    fn close_batch(&mut self) {
        self.batches.push(self.filling_ns as f64 / self.batch_ios as f64);
        (self.filling_ns, self.filling_ios) = (0, 0);
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

/// The means of groups of `group` neighbouring batches; what does not fill a group is left out.
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
    if variance == 0.0 {
        return Some(0.0);
    }
    let lagged = batches.windows(2).map(|pair| (pair[0] - level) * (pair[1] - level)).sum::<f64>() / k;
    let correlation = (lagged / variance + 1.0 / k).clamp(0.0, 0.9);
    let correction = (1.0 + correlation) / (1.0 - correlation);
    let standard_error = (variance / (k - 1.0) * correction).sqrt();
    let skewness = third / variance.powf(1.5);
    Some(quantile(k - 1.0, skewness / k.sqrt()) * standard_error / level)
}

/// Student's quantile, widened for the skewness of the mean as by Willink's cubic inverse of
/// Johnson's modified t; the wider of the two sides.
fn quantile(degrees: f64, skewness: f64) -> f64 {
    let t = quantile_95(degrees);
    let a = skewness.abs() / 6.0;
    if a < 1e-3 {
        return t;
    }
    let invert = |r: f64| ((1.0 + 6.0 * a * (r - a)).cbrt() - 1.0) / (2.0 * a);
    invert(t).abs().max(invert(-t).abs()).max(t)
}
