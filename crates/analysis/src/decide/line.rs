//! Lines: what an IO costs at all and what each unit of it costs; and where a line bends.
//!
//! Model of the line: y = a + b x and a noise with any distribution. Its slope is the median of
//! the slopes of all pairs (Theil and Sen), its interval from the distribution of Kendall's tau
//! (Sen, JASA 63(324), 1968; ties corrected). The intercept is the median of y - b x; its interval
//! is that of the median at both ends of the slope's, each with half of the error. A fifth of
//! outliers moves neither far.
//!
//! Model of the bend (saturation): a continuous line with another slope from some x on, and a noise
//! in proportion to y. Figures far from the median of their neighbours are left out as outliers, the
//! others fitted by least squares for each place of the bend, first weighted by 1 / y squared, then
//! by what the first fit has for y (figures' own weights would favour the low ones). Its p is
//! that of the F-test against one line, corrected for the places; its interval are the places
//! at which the fit is less likely by a factor of twenty at most.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use super::level::level;
use super::ranks::Interval;
use super::{logarithms, median_of_sorted, normal_quantile, sorted};

/// Of more figures than this, medians of neighbours are taken.
const POINTS_MAX: usize = 400;
/// Fewer points than this do not show a bend: it takes four figures to describe.
const BEND_POINTS_MIN: usize = 8;
/// So many neighbours tell what a figure should be.
const NEIGHBOURS: usize = 5;
/// Figures this many times the typical distance from their neighbours' median are outliers.
const OUTLYING: f64 = 14.0;
/// The least distance (as a logarithm) that makes an outlier.
const OUTLYING_MIN: f64 = 0.1;
/// The drop of log likelihood that bounds the interval of the bend: 2 would be 95 % if the noise
/// were normal and its outliers known.
const LIKELIHOOD_DROP: f64 = 3.0;

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

/// Where a line bends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bend {
    /// The x at which the slope changes, with its 95 % interval.
    pub place: Interval,
    /// The slope below it.
    pub slope_before: f64,
    /// The slope above it.
    pub slope_after: f64,
    /// y at the bend.
    pub y: f64,
    /// p that the line is straight.
    pub p: f64,
}

/// The most likely bend of the line through points (x, y) with positive y. None with fewer than 8
/// points that are no outliers, or fewer than 5 different x.
pub fn bend(points: &[(f64, f64)]) -> Option<Bend> {
    let points = without_outliers(&thinned(points));
    let (first, last) = (points.first()?.0, points.last()?.0);
    let (origin, width, height) = (first, last - first, points.iter().map(|p| p.1).fold(0.0, f64::max));
    if points.len() < BEND_POINTS_MIN || !width.is_finite() || width <= 0.0 || height <= 0.0 {
        return None;
    }
    // In units of the whole range, in which least squares lose no precision.
    let scaled: Vec<(f64, f64)> = points.iter().map(|(x, y)| ((x - origin) / width, y / height)).collect();
    let mut places: Vec<f64> = scaled.iter().map(|p| p.0).collect();
    places.dedup();
    let inner = places.get(1..places.len() - 1).filter(|inner| inner.len() >= 3)?;
    let fits = |sizes: &[f64]| {
        inner.iter().filter_map(|&place| fit(&scaled, sizes, Some(place))).collect::<Vec<Fit>>()
    };
    let closest = |fits: &[Fit]| fits.iter().copied().min_by(|a, b| a.squares.total_cmp(&b.squares));
    let first = closest(&fits(&scaled.iter().map(|p| p.1).collect::<Vec<_>>()))?;
    let sizes: Vec<f64> = scaled.iter().map(|&(x, y)| first.at(x).max(y / 2.0)).collect();
    let fits = fits(&sizes);
    let best = closest(&fits)?;
    let degrees = scaled.len() as f64 - 4.0;
    let straight = fit(&scaled, &sizes, None)?.squares;
    // A fit without any error has one of rounding.
    let rounding = scaled.len() as f64 * 1e-24;
    let gain = (straight - best.squares).max(0.0) / (best.squares / degrees).max(rounding);
    let p = FisherSnedecor::new(1.0, degrees).map_or(1.0, |f| if gain > 0.0 { f.sf(gain) } else { 1.0 });
    let likely = best.squares.max(rounding) * (2.0 * LIKELIHOOD_DROP / scaled.len() as f64).exp();
    let mut possible = fits.iter().filter(|fit| fit.squares <= likely).map(|fit| fit.place);
    // The point's own x, which scaling back would miss by a rounding.
    let x = |place: f64| points[scaled.partition_point(|p| p.0 < place)].0;
    let low = possible.next().unwrap_or(best.place);
    let place = Interval {
        estimate: x(best.place),
        low: x(low),
        high: x(possible.next_back().unwrap_or(low).max(best.place)),
    };
    let [a, b, c] = best.coefficients;
    let slope = height / width;
    Some(Bend {
        place,
        slope_before: b * slope,
        slope_after: (b + c) * slope,
        y: (a + b * best.place) * height,
        p: (p * fits.len() as f64).min(1.0),
    })
}

/// The points that lie near the median of their neighbours, by logarithms, or on the line through
/// the two nearest, as the first and the last of a steep line do.
fn without_outliers(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() < NEIGHBOURS {
        return points.to_vec();
    }
    let logs = logarithms(&points.iter().map(|p| p.1).collect::<Vec<_>>());
    let last = points.len() - 1;
    let distance = |i: usize| {
        let begin = i.saturating_sub(NEIGHBOURS / 2).min(points.len() - NEIGHBOURS);
        let median = median_of_sorted(&sorted(&logs[begin..begin + NEIGHBOURS])).unwrap_or(0.0);
        let (left, right) = match i {
            0 => (points[1], points[2]),
            _ if i == last => (points[i - 2], points[i - 1]),
            _ => (points[i - 1], points[i + 1]),
        };
        let slope = if right.0 > left.0 { (right.1 - left.1) / (right.0 - left.0) } else { 0.0 };
        let on_line = (left.1 + slope * (points[i].0 - left.0)).max(f64::MIN_POSITIVE).ln();
        (logs[i] - median).abs().min((logs[i] - on_line).abs())
    };
    let distances: Vec<f64> = (0..points.len()).map(distance).collect();
    let typical = median_of_sorted(&sorted(&distances)).unwrap_or(0.0);
    let most = (OUTLYING * typical).max(OUTLYING_MIN);
    points.iter().zip(&distances).filter(|(_, distance)| **distance <= most).map(|(&p, _)| p).collect()
}

/// y = c0 + c1 x + c2 max(0, x - place); a place of infinity is none.
#[derive(Clone, Copy)]
struct Fit {
    place: f64,
    coefficients: [f64; 3],
    squares: f64,
}

impl Fit {
    fn at(&self, x: f64) -> f64 {
        terms(x, self.place).iter().zip(self.coefficients).map(|(term, c)| term * c).sum()
    }
}

fn terms(x: f64, place: f64) -> [f64; 3] {
    [1.0, x, (x - place).max(0.0)]
}

/// Least squares, relative to `sizes`, with a bend at `place` or none; none where they have no one
/// solution.
fn fit(points: &[(f64, f64)], sizes: &[f64], place: Option<f64>) -> Option<Fit> {
    let place = place.unwrap_or(f64::INFINITY);
    let weighted = || points.iter().zip(sizes).map(|(point, size)| (point, 1.0 / size.max(1e-9).powi(2)));
    // Rows of the normal equations, the right side last.
    let mut rows = [[0.0; 4]; 3];
    for (&(x, y), weight) in weighted() {
        let terms = terms(x, place);
        for (row, term) in rows.iter_mut().zip(terms) {
            row.iter_mut().zip(terms.into_iter().chain([y])).for_each(|(sum, t)| *sum += weight * term * t);
        }
    }
    if place.is_infinite() {
        rows[2] = [0.0, 0.0, 1.0, 0.0];
    }
    let fit = Fit { place, coefficients: solved(rows)?, squares: 0.0 };
    let squares = weighted().map(|(&(x, y), weight)| weight * (y - fit.at(x)).powi(2)).sum::<f64>();
    squares.is_finite().then_some(Fit { squares, ..fit })
}

/// Gauss and Jordan with the largest pivots.
fn solved(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()))?;
        rows.swap(column, pivot);
        let lead = rows[column];
        if lead[column].abs() < 1e-12 {
            return None;
        }
        for (i, row) in rows.iter_mut().enumerate() {
            let factor = if i == column { 1.0 - 1.0 / lead[column] } else { row[column] / lead[column] };
            row.iter_mut().zip(lead).for_each(|(r, l)| *r -= factor * l);
        }
    }
    Some(rows.map(|row| row[3]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::noise::{assert_honest, jitter, odd_samples};
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
    fn a_straight_line_hardly_ever_bends() {
        let mut source = Source::new(18);
        for n in [10, 40, 200] {
            let ps: Vec<f64> = (0..200)
                .map(|_| bend(&measured(&mut source, n, |x| 50.0 + 3.0 * x)).map_or(1.0, |found| found.p))
                .collect();
            assert_honest(&ps, "bend");
        }
    }

    #[test]
    fn saturation_is_found_where_it_is() {
        let mut source = Source::new(19);
        let (mut found, mut held) = (0, 0);
        for _ in 0..100 {
            let bent = bend(&measured(&mut source, 64, |x| 50.0 + 10.0 * x.min(24.0))).unwrap();
            found += usize::from(bent.p < 1e-3 && (bent.place.estimate - 24.0).abs() <= 3.0);
            held += usize::from(bent.place.holds(24.0));
            assert!(bent.slope_before > 8.0 && bent.slope_after.abs() < 1.5, "{bent:?}");
        }
        assert!(found >= 95 && held >= 90, "{found} and {held} of 100");
        let exact: Vec<(f64, f64)> =
            (0..20).map(|i| (f64::from(i), 5.0 + f64::from(i.min(9)) * 2.0)).collect();
        let bent = bend(&exact).unwrap();
        assert!(bent.place.estimate == 9.0 && bent.p < 1e-9, "{bent:?}");
        assert!((bent.slope_before - 2.0).abs() < 1e-6 && bent.slope_after.abs() < 1e-6, "{bent:?}");
    }

    #[test]
    fn odd_figures_do_no_harm() {
        for a in odd_samples() {
            for b in odd_samples() {
                let points: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
                if let Some(found) = line(&points, 0.95) {
                    assert!(found.slope.low <= found.slope.high, "{found:?}");
                }
                if let Some(found) = bend(&points) {
                    assert!((0.0..=1.0).contains(&found.p), "{found:?}");
                }
            }
        }
    }
}
