//! Statistics of many response times that outliers do not move: quantiles, medians, median deviations; means of
//! windows.

/// A value is slow above this many times the quantile of four fifths of the values. Unit: ratio. Source:
/// tuned. Too high: short stalls are not seen; too low: slow pages are stalls.
const SLOW_RATIO: f64 = 1.3;
/// The standard deviation of normal values whose median deviation is 1. Unit: ratio. Source: derivation: 1 /
/// 0.6745, the third quartile of the normal distribution. Too high: scatter is too large, and effects are
/// missed; too low: noise is an effect.
const DEVIATIONS_OF_MEDIAN: f64 = 1.4826;

/// The mean; 0 of nothing.
pub fn mean(figures: &[f64]) -> f64 {
    if figures.is_empty() { 0.0 } else { figures.iter().sum::<f64>() / figures.len() as f64 }
}

/// The figure below which `share` of the figures lie; 0 of nothing.
pub fn quantile(figures: &[f64], share: f64) -> f64 {
    let mut figures = figures.to_vec();
    let place = ((figures.len() as f64 - 1.0).max(0.0) * share).round() as usize;
    if figures.is_empty() {
        return 0.0;
    }
    *figures.select_nth_unstable_by(place, f64::total_cmp).1
}

/// The median, of two in the middle the larger one, so that it is a time that was measured; 0 of nothing.
pub fn upper_median(figures: &[f64]) -> f64 {
    quantile(figures, 0.5)
}

/// The median over the runs, place by place, as far as all of them go.
pub fn medians(runs: &[Vec<f64>]) -> Vec<f64> {
    let shortest = runs.iter().map(Vec::len).min().unwrap_or(0);
    (0..shortest).map(|place| upper_median(&runs.iter().map(|run| run[place]).collect::<Vec<_>>())).collect()
}

/// The standard deviation from `middle` of normal figures that have this median deviation from it.
pub fn deviation(figures: &[f64], middle: f64) -> f64 {
    DEVIATIONS_OF_MEDIAN
        * upper_median(&figures.iter().map(|figure| (figure - middle).abs()).collect::<Vec<_>>())
}

/// Which figures are expensive: above what they are, and they themselves.
pub fn slow(figures: &[f64]) -> (f64, Vec<f64>) {
    let least = SLOW_RATIO * quantile(figures, 0.8);
    (least, figures.iter().copied().filter(|&figure| figure > least).collect())
}

/// The means of windows of `width` figures; what is left over at the end is left out.
pub fn windows(figures: &[f64], width: usize) -> Vec<f64> {
    figures.chunks_exact(width.max(1)).map(mean).collect()
}
