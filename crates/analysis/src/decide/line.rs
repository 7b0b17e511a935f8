//! Lines: what an IO costs at all and what each unit of it costs.
//!
//! Model of the line: y = a + b x and a noise with any distribution. Its slope is the median of
//! the slopes of all pairs (Theil and Sen), its interval from the distribution of Kendall's tau
//! (Sen, JASA 63(324), 1968; ties corrected). The intercept is the median of y - b x; its interval
//! is that of the median at both ends of the slope's, each with half of the error. A fifth of
//! outliers moves neither far.

use super::level::level;
use super::ranks::Interval;
use super::{median_of_sorted, normal_quantile, sorted};

/// Of more figures than this, medians of neighbours are taken.
const POINTS_MAX: usize = 400;

/// y = intercept + slope x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// y at x = 0, in units of y.
    pub intercept: Interval,
    /// Units of y for each of x.
    pub slope: Interval,
}

/// The line through points (x, y), with intervals that hold the true figures with probability
/// `confidence` each. None where there are too few points for it (6 different x give 95 %) or where
/// figures are too large to be computed with.
pub fn line(points: &[(f64, f64)], confidence: f64) -> Option<Line> {
    let points = thinned(points);
    let n = points.len() as f64;
    let mut slopes = Vec::new();
    for (i, first) in points.iter().enumerate() {
        let further = points[i + 1..].iter().filter(|second| second.0 > first.0);
        slopes.extend(further.map(|second| (second.1 - first.1) / (second.0 - first.0)));
    }
    slopes.sort_by(f64::total_cmp);
    let tied: f64 = points.chunk_by(|a, b| a.0 == b.0).map(|equal| spread(equal.len() as f64)).sum();
    let half = normal_quantile(confidence) * (spread(n) - tied).max(0.0).sqrt();
    let outside = ((slopes.len() as f64 - half) / 2.0).floor();
    if outside < 1.0 {
        return None;
    }
    let place = outside as usize - 1;
    let slope = Interval {
        estimate: median_of_sorted(&slopes)?,
        low: slopes[place],
        high: slopes[slopes.len() - 1 - place],
    };
    let at = |slope: f64, confidence: f64| {
        level(&points.iter().map(|(x, y)| y - slope * x).collect::<Vec<_>>(), confidence)
    };
    let surer = (1.0 + confidence) / 2.0;
    let (middle, ends) = (at(slope.estimate, surer)?, [at(slope.low, surer)?, at(slope.high, surer)?]);
    let intercept = Interval {
        estimate: middle.estimate,
        low: ends[0].low.min(ends[1].low).min(middle.low),
        high: ends[0].high.max(ends[1].high).max(middle.high),
    };
    let figures = [intercept.low, intercept.high, slope.low, slope.high];
    figures.iter().all(|figure| figure.is_finite()).then_some(Line { intercept, slope })
}

/// The variance of Kendall's statistic of `n` points.
fn spread(n: f64) -> f64 {
    n * (n - 1.0) * (2.0 * n + 5.0) / 18.0
}

/// The points by x, finite ones only; of many, the medians of neighbours.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> =
        points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    if points.len() <= POINTS_MAX {
        return points;
    }
    let median = |part: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        median_of_sorted(&sorted(&part.iter().map(of).collect::<Vec<_>>())).unwrap_or(0.0)
    };
    let neighbours = points.len().div_ceil(POINTS_MAX);
    points.chunks(neighbours).map(|part| (median(part, |p| p.0), median(part, |p| p.1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::noise::{jitter, odd_samples};
    use crate::synthetic::Source;

    fn measured(source: &mut Source, n: usize, y: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (1..=n).map(|i| (i as f64, y(i as f64) * jitter(source))).collect()
    }

    #[test]
    fn intervals_hold_the_line_as_often_as_they_say() {
        let mut source = Source::new(17);
        for n in [8, 32, 120, 900] {
            let (mut slopes, mut intercepts) = (0, 0);
            for _ in 0..100 {
                // In the median jitter is a little over 1.
                let points = measured(&mut source, n, |x| (200e3 + 1e3 * x) / 1.0006);
                let found = line(&points, 0.95).unwrap();
                slopes += usize::from(found.slope.holds(1e3));
                intercepts += usize::from(found.intercept.holds(200e3));
            }
            assert!(slopes >= 88 && intercepts >= 90, "{slopes} and {intercepts} of 100 with {n}");
        }
        let exact: Vec<(f64, f64)> = (0..10).map(|i| (f64::from(i), 5.0 + 3.0 * f64::from(i))).collect();
        let found = line(&exact, 0.95).unwrap();
        assert_eq!((found.slope.estimate, found.slope.low, found.slope.high), (3.0, 3.0, 3.0));
        assert_eq!(found.intercept.estimate, 5.0);
        assert_eq!(line(&exact[..3], 0.95), None);
    }

    #[test]
    fn odd_figures_do_no_harm() {
        for a in odd_samples() {
            for b in odd_samples() {
                let points: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
                if let Some(found) = line(&points, 0.95) {
                    assert!(found.slope.low <= found.slope.high, "{found:?}");
                }
            }
        }
    }
}
