//! What the probes make of many response times.

use flashlab_base::Bytes;

use crate::inference::{Axis, Picture, Style};

/// Figures that are above this many times what four fifths of them are at most are expensive.
const EXPENSIVE: f64 = 1.3;
/// Standard deviations in the median deviation of normal figures.
const NORMAL: f64 = 1.4826;

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

/// The log likelihood of `count` hits, each as likely as `count` of this many are: one term of a multinomial likelihood.
pub fn log_likelihood(count: f64, of: f64) -> f64 {
    if count > 0.0 { count * (count / of).ln() } else { 0.0 }
}

/// How many of the first ones are of each kind, for each number of them.
pub fn running<const KINDS: usize>(kinds: impl IntoIterator<Item = usize>) -> Vec<[f64; KINDS]> {
    let mut counts = [0.0; KINDS];
    let mut all = vec![counts];
    for kind in kinds {
        counts[kind] += 1.0;
        all.push(counts);
    }
    all
}

/// How much likelier two sets of probabilities of kinds are than one, as a log-likelihood ratio: one of the first `at`, which are this many of each,
/// and one of the rest of `all`.
pub fn gain_of_two(before: &[f64], whole: &[f64], at: usize, all: usize) -> f64 {
    let (first, second) = (at as f64, (all - at) as f64);
    let gain = |(&one, &both): (&f64, &f64)| {
        log_likelihood(one, first) + log_likelihood(both - one, second) - log_likelihood(both, all as f64)
    };
    before.iter().zip(whole).map(gain).sum()
}

/// The median, of two in the middle the larger one; 0 of nothing.
pub fn median(figures: &[f64]) -> f64 {
    quantile(figures, 0.5)
}

/// The median over the runs, place by place, as far as all of them go.
pub fn medians(runs: &[Vec<f64>]) -> Vec<f64> {
    let shortest = runs.iter().map(Vec::len).min().unwrap_or(0);
    (0..shortest).map(|place| median(&runs.iter().map(|run| run[place]).collect::<Vec<_>>())).collect()
}

/// The standard deviation from `middle` of normal figures that have this median deviation from it.
pub fn deviation(figures: &[f64], middle: f64) -> f64 {
    NORMAL * median(&figures.iter().map(|figure| (figure - middle).abs()).collect::<Vec<_>>())
}

/// Which figures are expensive: above what they are, and they themselves.
pub fn expensive(figures: &[f64]) -> (f64, Vec<f64>) {
    let least = EXPENSIVE * quantile(figures, 0.8);
    (least, figures.iter().copied().filter(|&figure| figure > least).collect())
}

/// The roundest of the figures near this one that are as good: the multiple of the largest power of two.
pub fn roundest(figure: f64, is_as_good: impl Fn(f64) -> bool) -> f64 {
    let round = |zeros: i32| {
        let grain = 2f64.powi(zeros);
        Some((figure / grain).round() * grain).filter(|&round| round > 0.0 && is_as_good(round))
    };
    (9..40).rev().find_map(round).unwrap_or(figure)
}

/// How far two places are from being whole periods apart.
pub fn off_grid(one: usize, other: usize, period: usize) -> usize {
    let apart = one.abs_diff(other) % period;
    apart.min(period - apart)
}

/// Kullback and Leibler's divergence of two coins, as a log-likelihood ratio.
pub fn divergence(a: f64, b: f64) -> f64 {
    let part = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a * (a / b).ln() };
    part(a, b) + part(1.0 - a, 1.0 - b)
}

/// The means of windows of `width` figures; what is left over at the end is left out.
pub fn windows(figures: &[f64], width: usize) -> Vec<f64> {
    figures.chunks_exact(width.max(1)).map(mean).collect()
}

/// The figures in ascending order, over the share of them that is smaller.
fn by_rank(figures: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let all = sorted.len() as f64;
    sorted.iter().enumerate().map(|(rank, &figure)| ((rank as f64 + 0.5) / all, figure)).collect()
}

/// A picture of IOs of some kinds, each kind in ascending order; `what` they all are, as "reads".
pub fn ranked<'a>(
    caption: impl Into<String>,
    what: &str,
    kinds: impl IntoIterator<Item = (&'a str, &'a [f64])>,
) -> Picture {
    let empty = Picture::new(
        caption,
        Axis::linear(&format!("share of the {what}, the fastest first"), "share"),
        Axis::logarithmic("response time", "ns"),
    );
    kinds.into_iter().fold(empty, |picture, (name, costs)| picture.draw(name, Style::Line, by_rank(costs)))
}

/// For a picture: means of stretches of IOs of `size`, over the bytes that were done till the middle of each.
pub fn over_bytes(size: Bytes, costs: &[f64]) -> Vec<(f64, f64)> {
    let width = costs.len().div_ceil(256).max(1);
    let place = |index: usize| ((index * width) as f64 + width as f64 / 2.0) * size.0 as f64;
    windows(costs, width).into_iter().enumerate().map(|(index, cost)| (place(index), cost)).collect()
}

/// For a picture: of neighbouring IOs of `size` the slowest, over the bytes that were done before it.
pub fn slowest(size: Bytes, costs: &[f64]) -> Vec<(f64, f64)> {
    let stride = costs.len().div_ceil(4096).max(1);
    let all: Vec<(f64, f64)> =
        costs.iter().zip(0u64..).map(|(&cost, index)| ((size * index).0 as f64, cost.max(1.0))).collect();
    all.chunks(stride).filter_map(|part| part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))).collect()
}

/// A picture of what a unit is seen by: points over their places in it, which are shown twice, so that what comes round is seen to.
pub fn folded(caption: &str, y: &str, unit: Bytes, kinds: &[(&str, Vec<(f64, f64)>)]) -> Picture {
    let picture = Picture::new(
        format!("{caption} The horizontal axis is the position in the erase block; two blocks are shown."),
        Axis::linear("position in the erase block", "bytes"),
        Axis::logarithmic(y, "ns"),
    );
    let size = (unit.0 as f64).max(1.0);
    let twice = |&(x, cost): &(f64, f64)| [(x % size, cost), (x % size + size, cost)];
    let draw = |picture: Picture, (name, points): &(&str, Vec<(f64, f64)>)| {
        picture.draw(name, Style::Dots, points.iter().flat_map(twice).collect())
    };
    kinds.iter().fold(picture, draw).mark(size, format!("{unit}"))
}
