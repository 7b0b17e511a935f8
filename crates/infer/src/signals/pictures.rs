//! The pictures that probes draw of response times.

use flashlab_analysis::inference::{Axis, Picture, Style};
use flashlab_base::Bytes;

use super::statistics::windows;

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

/// A picture of the positions in an erase block. They are shown twice, so that what is periodic is seen to be.
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
