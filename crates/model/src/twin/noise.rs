//! The random variation of response times, from the runs that vary least.
//!
//! Most of what varies on a device has its reasons: pages of two kinds, merges, collection. What remains in the steadiest runs
//! is noise. Its sigma is that of the runs' lower half of quantiles, which outliers do not reach.

use flashlab_base::{Nanos, Seed};
use flashlab_sim::profile::Noise;

use super::measured::MeasuredRuns;

/// A run needs so many IOs to show outliers of one in a thousand, in several runs together.
const IOS_LEAST: usize = 100;
/// How many of the steadiest runs are looked at.
const RUNS: usize = 24;
/// A response time of this number of medians is an outlier in a steady run.
const OUTLIER: f64 = 1.8;

/// What the steadiest reads vary by.
pub(super) fn noise_of(measured: &MeasuredRuns) -> Option<Noise> {
    let mut spreads: Vec<(f64, f64, Vec<u64>)> = Vec::new();
    for run in &measured.runs {
        let mut sorted = run.all_responses();
        if run.purpose.is_state() || run.pattern.writes() || sorted.len() < IOS_LEAST {
            continue;
        }
        sorted.sort_unstable();
        let quantile = |q: f64| sorted[(q * (sorted.len() - 1) as f64) as usize].max(1) as f64;
        let sigma = (quantile(0.8) / quantile(0.2)).ln() / (2.0 * 0.8416);
        spreads.push((sigma, quantile(0.5), sorted));
    }
    spreads.sort_by(|a, b| a.0.total_cmp(&b.0));
    spreads.truncate(RUNS.min(spreads.len().div_ceil(3)));
    let sigma = spreads.get(spreads.len() / 2)?.0;
    let (mut ios, mut outliers) = (0, Vec::new());
    for (_, median, responses) in &spreads {
        ios += responses.len();
        let ratios = responses.iter().map(|&ns| ns as f64 / median);
        outliers.extend(ratios.filter(|&ratio| ratio > OUTLIER.max(1.0 + 6.0 * sigma)));
    }
    outliers.sort_by(f64::total_cmp);
    let share = outliers.len() as f64 / ios.max(1) as f64;
    let factor = outliers.get(outliers.len() / 2).copied().unwrap_or(1.0);
    Some(Noise {
        sigma: sigma.clamp(0.0, 3.0),
        outlier_share: share,
        outlier_factor: factor.clamp(1.0, 1000.0),
        outlier: Nanos::ZERO,
        seed: Seed(1),
    })
}
