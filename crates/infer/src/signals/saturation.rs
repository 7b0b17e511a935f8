//! Finds the size from which larger IOs do not help, from the median response times of doubling sizes.
//!
//! # Model
//! The response times are pieces of lines T = A + nB over the size n: larger IOs begin to use more dies, and each way
//! of using them has its own line. Doubling the size multiplies the throughput by 2 T(n) / T(2n). The result is the
//! first size whose doubling brings less than the limit, if no larger size brings more by a later doubling:
//! throughput may rise in stairs.
//!
//! # Method
//! 1. The number of pieces follows from the deviations: another piece has to explain more than chance does.
//! 2. Each growth has a standard error from those of the points. So each size is the result with some probability.
//! 3. Beyond the largest IO the last line is continued, if its growth is already small.
//!
//! A device in one state takes no less for an IO than for its half, and seldom longer than for both halves. If sizes
//! contradict that, some were written before a buffer was full and others behind it: then throughput is no curve
//! ([`falls`], [`is_faster_than_a_half`]).
//!
//! # Invariants
//! - The confidence is the probability of the size, and less if no IO was as large.

use statrs::distribution::{ContinuousCDF, Normal};

use flashlab_analysis::DOUBLING_GAIN;
use flashlab_analysis::decide::weighted_line::{WeightedPoint, weights};

/// What a parameter of a line has to reduce the sum of squares by. Unit: squared standard errors. Source:
/// derivation: three standard errors. Too high: bends are not seen; too low: noise bends the line.
const PARAMETER_COST: f64 = 9.0;
/// The floor of the standard error of a growth. Unit: share of the throughput. Source: tuned. Too high: clear
/// sizes stay undetermined; too low: a systematic error of the host decides with full confidence.
const GROWTH_ERROR_LEAST: f64 = 0.002;
/// The greatest growth at the end of a line that is followed to larger sizes. With more, larger requests may
/// use more dies. Unit: ratio. Source: tuned. Too high: the line is followed where the device changes; too
/// low: saturation beyond the largest request is not seen.
const LINE_GROWTH_MOST: f64 = 1.2;
/// The standard errors from which on a growth that no device has is no chance. Unit: standard errors. Source:
/// derivation: one doubling in 700. Too high: a run in two states is reported as one curve; too low: noise
/// makes a curve impossible.
const IMPOSSIBLE_ERRORS: f64 = 3.0;
/// The doublings beyond the largest request to which a line is followed. Unit: doublings. Source: choice. Too
/// many: a line is trusted far beyond its points; too few: saturation just beyond the largest request is not
/// seen.
const DOUBLINGS_BEYOND: usize = 4;

/// A response time as a sum of what was measured, each with a weight.
#[derive(Clone, Debug)]
struct Time {
    size: f64,
    weights: Vec<f64>,
}

impl Time {
    fn value(&self, points: &[WeightedPoint]) -> f64 {
        self.weights.iter().zip(points).map(|(weight, point)| weight * point.y).sum()
    }
}

/// What doubling a size brings.
#[derive(Clone, Copy, Debug)]
pub struct Doubling {
    /// The size that is doubled, in bytes.
    pub size: f64,
    /// The throughput of twice the size, relative to that of the size.
    pub growth: f64,
    /// Its standard error.
    error: f64,
    /// Whether both sizes were measured.
    pub is_seen: bool,
}

impl Doubling {
    /// The chance that it brings enough.
    fn pays(&self) -> f64 {
        let errors = (self.growth - DOUBLING_GAIN) / self.error.max(GROWTH_ERROR_LEAST);
        Normal::standard().cdf(errors)
    }

    /// Whether an IO takes longer than both halves of it, or less than one of them, by more than counts as growth and no chance.
    fn is_no_curve(&self) -> [bool; 2] {
        let slack = IMPOSSIBLE_ERRORS * self.error.max(GROWTH_ERROR_LEAST);
        [self.growth + slack < 1.0 / DOUBLING_GAIN, self.growth - slack > 2.0 * DOUBLING_GAIN]
            .map(|is| is && self.is_seen)
    }
}

/// Whether some IO that was seen takes longer than both halves of it.
pub fn falls(doublings: &[Doubling]) -> bool {
    doublings.iter().any(|doubling| doubling.is_no_curve()[0])
}

/// Whether some IO that was seen takes less than one half of it.
pub fn is_faster_than_a_half(doublings: &[Doubling]) -> bool {
    doublings.iter().any(|doubling| doubling.is_no_curve()[1])
}

/// Where it saturates.
#[derive(Clone, Copy, Debug)]
pub struct Saturated {
    /// The size from which doubling brings too little, as an index of the doublings.
    pub index: usize,
    /// The chance that it is this one.
    pub chance: f64,
}

/// What doublings of ascending sizes, each twice the one before, bring; and of some larger ones, if they are on the last line.
pub fn doublings(points: &[WeightedPoint]) -> Vec<Doubling> {
    let mut times = smooth(points);
    let seen = times.len();
    let doubling = |pair: &[Time], is_seen: bool| {
        let [one, other] = [&pair[0], &pair[1]].map(|time| time.value(points));
        let growth = 2.0 * one / other;
        let part = |index: usize| pair[0].weights[index] / one - pair[1].weights[index] / other;
        let squares = points.iter().enumerate().map(|(index, point)| (part(index) * point.error).powi(2));
        Doubling { size: pair[0].size, growth, error: growth * squares.sum::<f64>().sqrt(), is_seen }
    };
    let ends = pieces(points);
    if let Some(&(begin, end)) = ends.last()
        && end - begin >= 2
        && doubling(&times[seen - 2..], true).growth < LINE_GROWTH_MOST
    {
        let last = times[seen - 1].size;
        let larger = (1..=DOUBLINGS_BEYOND).map(|doublings| last * f64::from(1 << doublings));
        times.extend(larger.filter_map(|size| on_line(points, (begin, end), size)));
    }
    let all = times.windows(2).enumerate().map(|(index, pair)| doubling(pair, index + 1 < seen));
    all.take_while(|doubling| doubling.growth.is_finite() && doubling.growth > 0.0).collect()
}

/// The size that is most probably the first whose doubling brings too little, with no larger one that brings
/// more. `None` if none of them is probable.
pub fn saturated(doublings: &[Doubling]) -> Option<Saturated> {
    let mut until = 1.0;
    let mut best = Saturated { index: 0, chance: 0.0 };
    for (index, doubling) in doublings.iter().enumerate() {
        let chance = until * (1.0 - doubling.pays()) * (1.0 - rises_later(doublings, index));
        if chance > best.chance {
            best = Saturated { index, chance };
        }
        until -= chance;
    }
    (best.chance > until).then_some(best)
}

/// The chance that some doubling behind this size pays, and leads above its throughput.
fn rises_later(doublings: &[Doubling], index: usize) -> f64 {
    let mut throughput = doublings[index].growth;
    let later = doublings[index + 1..].iter().filter(|doubling| {
        throughput *= doubling.growth;
        throughput >= DOUBLING_GAIN
    });
    later.map(Doubling::pays).fold(0.0, f64::max)
}

/// How much each of this many sizes has to be known better: those of the doublings that may be the one. They add up to the chance
/// that it is another one than it seems, doubled, or to 1.
pub fn open(doublings: &[Doubling], sizes: usize) -> Vec<f64> {
    let (mut shares, mut until) = (vec![0.0; sizes], 1.0);
    for (index, doubling) in doublings.iter().enumerate().filter(|(_, doubling)| doubling.is_seen) {
        let pays = doubling.pays();
        for share in shares.iter_mut().skip(index).take(2) {
            *share += until * pays.min(1.0 - pays);
        }
        until *= 1.0 - (1.0 - pays) * (1.0 - rises_later(doublings, index));
    }
    let all = shares.iter().sum::<f64>().max(1.0);
    shares.iter_mut().for_each(|share| *share /= all);
    shares
}

/// The response times on the lines.
fn smooth(points: &[WeightedPoint]) -> Vec<Time> {
    let alone = |index: usize| {
        let weights = (0..points.len()).map(|other| f64::from(other == index)).collect();
        Time { size: points[index].x, weights }
    };
    let of_piece = |(begin, end): (usize, usize)| {
        (begin..end).map(move |index| {
            let line = if end - begin > 2 { on_line(points, (begin, end), points[index].x) } else { None };
            line.unwrap_or_else(|| alone(index))
        })
    };
    pieces(points).into_iter().flat_map(of_piece).collect()
}

/// The pieces of lines that explain the points best, each as its first point and the one behind its last.
fn pieces(points: &[WeightedPoint]) -> Vec<(usize, usize)> {
    // The best pieces of the first points, for each number of them: what they cost, and where the last one begins.
    let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
    for end in 1..=points.len() {
        let cost = |begin: usize| best[begin].0 + deviations(points, (begin, end));
        let least = (0..end).map(|begin| (cost(begin), begin)).min_by(|a, b| a.0.total_cmp(&b.0));
        best.push(least.unwrap_or((f64::INFINITY, end - 1)));
    }
    let (mut pieces, mut end) = (Vec::new(), points.len());
    while end > 0 {
        let begin = best[end].1;
        pieces.push((begin, end));
        end = begin;
    }
    pieces.reverse();
    pieces
}

/// The squared deviations of points from their line, in standard errors, and what the numbers that describe it have to take.
fn deviations(points: &[WeightedPoint], (begin, end): (usize, usize)) -> f64 {
    let numbers = PARAMETER_COST * (end - begin).min(2) as f64;
    if end - begin <= 2 {
        return numbers;
    }
    let deviation = |point: &WeightedPoint| {
        let time = on_line(points, (begin, end), point.x)?.value(points);
        Some(((point.y - time) / point.error).powi(2))
    };
    numbers + points[begin..end].iter().map(|point| deviation(point).unwrap_or(f64::INFINITY)).sum::<f64>()
}

/// What an IO of this size takes on the line of some points, by least squares of their errors.
fn on_line(points: &[WeightedPoint], (begin, end): (usize, usize), size: f64) -> Option<Time> {
    let of_piece = weights(&points[begin..end], |point| point.error, size)?;
    let mut weights = vec![0.0; points.len()];
    weights[begin..end].copy_from_slice(&of_piece);
    Some(Time { size, weights })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::sizes::tests::points_of;

    /// Sizes to 1 MiB.
    fn points(time: impl Fn(f64) -> f64) -> Vec<WeightedPoint> {
        points_of(8, time)
    }

    fn size(points: &[WeightedPoint]) -> (f64, bool) {
        let doublings = doublings(points);
        let Saturated { index, chance } = saturated(&doublings).unwrap();
        assert!((0.0..=1.0).contains(&chance));
        (doublings[index].size / 1024.0, doublings[index].is_seen)
    }

    #[test]
    fn a_line_saturates_where_doubling_brings_too_little() {
        // 2 (100 + n) / (100 + 2n) - 1 is 0.032 for 1536, 0.024 for 2048, 0.047 for 1024.
        assert_eq!(size(&points(|kib| 100.0 + kib)), (2048.0, false));
        assert_eq!(size(&points(|kib| 10.0 + kib)), (256.0, true));
        assert_eq!(size(&points(|kib| kib)), (4.0, true));
    }

    #[test]
    fn where_more_dies_are_used_a_new_line_begins() {
        // Flat from 32 KiB on, and then it grows again: larger ones bring more until 512 KiB.
        let steps = points(|kib| if kib <= 64.0 { kib + 1.0 } else { 10.0 + kib / 2.0 });
        assert_eq!(pieces(&steps).len(), 2);
        assert_eq!(size(&steps), (512.0, true));
        // What only makes good for a size that brings less brings nothing.
        let dip = points(|kib| if kib == 128.0 { 130.0 } else { kib + 0.1 });
        assert_eq!(size(&dip), (4.0, true));
        let dies = points(|kib| kib.max(128.0) + 0.5);
        assert_eq!(size(&dies), (128.0, true));
    }

    #[test]
    fn sizes_before_a_buffer_is_full_and_after_are_no_curve() {
        let seen = |time: &dyn Fn(f64) -> f64| {
            let doublings = doublings(&points(time));
            [falls(&doublings), is_faster_than_a_half(&doublings)]
        };
        for line in [100.0, 1.0, 0.0] {
            assert_eq!(seen(&|kib| line + kib), [false; 2]);
        }
        assert_eq!(seen(&|_| 100.0), [false; 2]);
        assert_eq!(seen(&|kib| if kib <= 64.0 { kib + 1.0 } else { 20.0 + kib / 2.0 }), [false; 2]);
        // Large ones wait for the flash; or small ones do, that were written last.
        assert_eq!(seen(&|kib| (10.0 + kib) * if kib > 100.0 { 7.0 } else { 1.0 }), [true, false]);
        assert_eq!(seen(&|kib| (10.0 + kib) * if kib < 100.0 { 7.0 } else { 1.0 }), [false, true]);
    }

    #[test]
    fn where_doubling_brings_much_to_the_end_nothing_is_said() {
        assert!(saturated(&doublings(&points(|_| 100.0))).is_none());
        assert!(saturated(&doublings(&[])).is_none());
    }
}
