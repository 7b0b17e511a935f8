//! Finds the period of the running phase (uFLIP section 4.2): the number of IOs in one oscillation.
//!
//! # Method
//! 1. Subtract the trend. The peaks of the autocorrelation are candidates.
//! 2. Verify each candidate by folding: cut the running phase into sections of whole candidate periods, and
//!    average each section to the shape of one oscillation. The shape of each section must be similar to that
//!    of the next one.
//! 3. Of the candidates that explain nearly as much as the best one, the shortest is the period. The others
//!    are its multiples.
//!
//! Noise gives neighbouring sections unrelated shapes, even with a heavy tail or a long memory. One outlier
//! affects the shape of only one section.

use realfft::RealFftPlanner;

use crate::point::mean;
use crate::student::upper_p;

/// A period must occur this often.
const PERIODS_MIN: usize = 8;
/// At most this many sections are compared.
const SECTIONS_MAX: usize = 32;
/// At most this many candidates are verified.
const CANDIDATES_MAX: usize = 16;
/// The shortest period that explains at least this share of what the best one explains is the period.
const AS_GOOD_AS_THE_BEST: f64 = 0.9;
/// An oscillation that explains a smaller share of the variance is not worth planning for.
const SHARE_MIN: f64 = 0.02;
/// A candidate is refined by at most this many IOs in both directions.
const REFINEMENT_MAX: usize = 32;
/// A refinement must be better by this factor.
const CLEARER: f64 = 1.01;

/// What was found of a period.
pub(crate) struct Period {
    /// Its length; `None` if there is none.
    pub ios: Option<usize>,
    /// The probability that a device without one looks like this.
    pub p: f64,
    /// The figures that decided.
    pub evidence: String,
}

/// A candidate, and the result of its verification.
#[derive(Clone, Copy)]
struct Verified {
    lag: usize,
    /// The share of the variance that the oscillation explains.
    share: f64,
    p: f64,
}

/// Finds the period in logarithms of response times of the running phase.
pub(crate) fn find(log: &[f64]) -> Period {
    let longest = log.len() / PERIODS_MIN;
    if longest < 2 {
        let evidence = format!("{} IOs of running phase are too few to find a period", log.len());
        return Period { ios: None, p: 1.0, evidence };
    }
    let level = without_trend(log, longest * 2);
    let candidates = peaks(&autocorrelation(&level, longest + 1));
    let verified: Vec<Verified> = candidates.iter().map(|&lag| verify(log, lag, longest)).collect();
    let surest = verified.iter().map(|v| v.p).fold(1.0, f64::min);
    let significant = |v: &&Verified| v.p < crate::student::SIGNIFICANT_P && v.share >= SHARE_MIN;
    let best = verified.iter().filter(significant).map(|v| v.share).fold(0.0, f64::max);
    let chosen = verified
        .iter()
        .filter(significant)
        .filter(|v| v.share >= AS_GOOD_AS_THE_BEST * best)
        .min_by_key(|v| v.lag)
        .map(|&v| refine(log, v, longest));
    match chosen {
        Some(Verified { lag, share, p }) => Period {
            ios: Some(lag),
            p,
            evidence: format!(
                "period of {lag} IOs, which explains {:.0} % of the running phase's variation (p = {p:.1e})",
                share * 100.0
            ),
        },
        None => Period {
            ios: None,
            p: surest,
            evidence: format!(
                "no period: of {} candidates up to {longest} IOs none repeats (smallest p = {surest:.2})",
                candidates.len()
            ),
        },
    }
}

/// `values` minus their moving average over `window` of them, shortened at both ends.
fn without_trend(values: &[f64], window: usize) -> Vec<f64> {
    let mut sums = Vec::with_capacity(values.len() + 1);
    sums.push(0.0);
    for value in values {
        sums.push(sums[sums.len() - 1] + value);
    }
    let average = |i: usize| {
        let begin = i.saturating_sub(window / 2);
        let end = (begin + window).min(values.len());
        let begin = end.saturating_sub(window);
        (sums[end] - sums[begin]) / (end - begin) as f64
    };
    values.iter().enumerate().map(|(i, value)| value - average(i)).collect()
}

/// The autocorrelation at the lags `0..=lags`, computed from the power spectrum.
fn autocorrelation(values: &[f64], lags: usize) -> Vec<f64> {
    let length = (values.len() + lags + 1).next_power_of_two();
    let mut planner = RealFftPlanner::<f64>::new();
    let (forward, inverse) = (planner.plan_fft_forward(length), planner.plan_fft_inverse(length));
    let mut signal = forward.make_input_vec();
    signal[..values.len()].copy_from_slice(values);
    let mut spectrum = forward.make_output_vec();
    forward.process(&mut signal, &mut spectrum).expect("the buffers were made for this length");
    for bin in &mut spectrum {
        *bin = (*bin * bin.conj()).re.into();
    }
    inverse.process(&mut spectrum, &mut signal).expect("a power spectrum is real at both its ends");
    // Each lag has fewer pairs than the one before.
    let pairs = |lag: usize| values.len() as f64 / (values.len() - lag) as f64;
    let variance = signal[0];
    (0..=lags).map(|lag| if variance > 0.0 { signal[lag] / variance * pairs(lag) } else { 0.0 }).collect()
}

/// The best lags from 2 on: local maxima close to the highest, the shortest first, and the highest ones
/// themselves.
fn peaks(correlation: &[f64]) -> Vec<usize> {
    let is_peak = |&lag: &usize| {
        let c = correlation[lag];
        c > 0.0 && c > correlation[lag - 1] && c >= correlation[lag + 1]
    };
    let mut peaks: Vec<usize> = (2..correlation.len() - 1).filter(is_peak).collect();
    let highest = peaks.iter().map(|&lag| correlation[lag]).fold(0.0, f64::max);
    let near: Vec<usize> = peaks.iter().copied().filter(|&lag| correlation[lag] >= 0.75 * highest).collect();
    peaks.sort_by(|&a, &b| correlation[b].total_cmp(&correlation[a]));
    peaks.truncate(CANDIDATES_MAX / 2);
    peaks.extend(near.into_iter().take(CANDIDATES_MAX / 2));
    peaks.sort_unstable();
    peaks.dedup();
    peaks
}

/// Folds at `lag`, one of `looks` possible candidates.
fn verify(log: &[f64], lag: usize, looks: usize) -> Verified {
    let level = without_trend(log, lag);
    let variance = level.iter().map(|l| l * l).sum::<f64>() / level.len() as f64;
    let periods = level.len() / lag;
    let sections = periods.min(SECTIONS_MAX);
    let shapes: Vec<Vec<f64>> = (0..sections)
        .map(|s| shape(&level[s * periods / sections * lag..(s + 1) * periods / sections * lag], lag))
        .collect();
    let likeness: Vec<f64> = shapes
        .windows(2)
        .map(|pair| pair[0].iter().zip(&pair[1]).map(|(a, b)| a * b).sum::<f64>() / lag as f64)
        .collect();
    let average = mean(&likeness).unwrap_or(0.0);
    if variance <= 0.0 || average <= 0.0 {
        return Verified { lag, share: 0.0, p: 1.0 };
    }
    let degrees = (likeness.len() - 1) as f64;
    let scatter = likeness.iter().map(|l| (l - average).powi(2)).sum::<f64>() / degrees;
    let t = average / (scatter / likeness.len() as f64).sqrt();
    Verified { lag, share: average / variance, p: (upper_p(t, degrees) * looks as f64).min(1.0) }
}

/// The average of the periods in a section, as deviations from its mean.
pub(crate) fn shape(section: &[f64], lag: usize) -> Vec<f64> {
    let mut shape = vec![0.0; lag];
    for period in section.chunks_exact(lag) {
        shape.iter_mut().zip(period).for_each(|(sum, value)| *sum += value);
    }
    let periods = (section.len() / lag) as f64;
    let level = shape.iter().sum::<f64>() / (periods * lag as f64);
    shape.iter().map(|sum| sum / periods - level).collect()
}

/// The neighbouring lag at which the whole folded running phase has the clearest shape. Noise moves the
/// autocorrelation peak of a smooth oscillation more than it moves the fold.
fn refine(log: &[f64], found: Verified, longest: usize) -> Verified {
    let reach = (found.lag / 16).min(REFINEMENT_MAX);
    let level = without_trend(log, found.lag);
    let clearness = |lag: usize| shape(&level, lag).iter().map(|s| s * s).sum::<f64>() / lag as f64;
    let least = clearness(found.lag) * CLEARER;
    let clearest = (found.lag - reach..=(found.lag + reach).min(longest))
        .map(|lag| (lag, clearness(lag)))
        .filter(|&(_, clearness)| clearness > least)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    Verified { lag: clearest.map_or(found.lag, |(lag, _)| lag), ..found }
}
