//! Finds change points: the positions from which on the level of the figures is another one.
//!
//! # Model
//! Stretches of independent figures, each from one distribution. Everything uses the ranks of the figures, so
//! that an outlier counts no more than any other figure.
//!
//! # Method
//! 1. The change is where the ranks before and after differ most in standard errors: the largest of all
//!    Mann-Whitney statistics, which is the least-squares change of the ranks.
//! 2. Its p is corrected for all positions by Miller and Siegmund's tail of the largest standardised
//!    difference (Biometrics 38, 1982). Ranks have lighter tails than the normal figures of that paper, so
//!    the correction is also safe at both ends.
//! 3. The position is then the most likely one between the two levels, with Laplace's distribution of the
//!    logarithms around the medians. No figure counts more than an outlier would.
//! 4. Several changes are found by dividing again (binary segmentation; Vostrikova 1981). Each test has the
//!    requested error rate, so K true changes come with at most (K + 1) times as many false ones.
//!
//! If neighbours depend on each other, they cause false changes: thin them first.

use super::{logarithms, median_of_sorted, sorted};

/// The share of figures that may be outliers.
const OUTLIER_SHARE: f64 = 0.01;

/// A stretch needs at least this number of figures to be a level.
const STRETCH_MIN: usize = 2;
/// The interval excludes positions whose log-likelihood is lower than that of the best by this difference:
/// exp(3) is twenty.
const LIKELIHOOD_DROP: f64 = 3.0;

/// Which changes are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Up or down.
    Either,
    /// To larger figures.
    Up,
    /// To smaller figures.
    Down,
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The index of the first figure of the new level.
    pub index: usize,
    /// The first position in the 95 % interval of the change.
    pub index_low: usize,
    /// The last of them.
    pub index_high: usize,
    /// The median of the stretch before.
    pub before: f64,
    /// The median of the stretch after.
    pub after: f64,
    /// p that there is no change.
    pub p: f64,
}

impl Change {
    /// The level after the change divided by the level before it.
    pub fn ratio(&self) -> f64 {
        self.after / self.before
    }
}

/// The most likely change of level. `None` with fewer than 5 figures, or if no position shows a change in
/// that direction.
pub fn change(values: &[f64], direction: Direction) -> Option<Change> {
    find(values, 0..values.len(), direction)
}

/// The most likely change within a stretch of `values`.
fn find(values: &[f64], stretch: std::ops::Range<usize>, direction: Direction) -> Option<Change> {
    let start = stretch.start;
    let part = &values[stretch];
    let scores = scores(part);
    let wanted = |score: f64| match direction {
        Direction::Either => score.abs(),
        Direction::Up => score,
        Direction::Down => -score,
    };
    let last = part.len().checked_sub(STRETCH_MIN)?;
    let best = (STRETCH_MIN..=last).max_by(|&a, &b| wanted(scores[a]).total_cmp(&wanted(scores[b])))?;
    let z = wanted(scores[best]);
    if part.len() <= 2 * STRETCH_MIN || z <= 0.0 {
        return None;
    }
    let sides = if direction == Direction::Either { 1.0 } else { 0.5 };
    let likelihood = likelihoods(part, best);
    let places = STRETCH_MIN..=last;
    let likeliest = places.clone().max_by(|&a, &b| likelihood[a].total_cmp(&likelihood[b])).unwrap_or(best);
    let possible = |place: &usize| likelihood[*place] >= likelihood[likeliest] - LIKELIHOOD_DROP;
    let level = |part: &[f64]| median_of_sorted(&sorted(part)).unwrap_or(0.0);
    Some(Change {
        index: start + likeliest,
        index_low: start + places.clone().find(possible).unwrap_or(likeliest),
        index_high: start + places.rev().find(possible).unwrap_or(likeliest),
        before: level(&part[..likeliest]),
        after: level(&part[likeliest..]),
        p: (sides * largest_p(z, part.len())).min(1.0),
    })
}

/// For each position, the log-likelihood of a change there, up to a constant, with the levels and the scatter
/// of the change at `place`. If the levels are equal, all are equal.
fn likelihoods(part: &[f64], place: usize) -> Vec<f64> {
    let logs = logarithms(part);
    let median = |values: &[f64]| median_of_sorted(&sorted(values)).unwrap_or(0.0);
    let (before, after) = (median(&logs[..place]), median(&logs[place..]));
    let residual = |(i, log): (usize, &f64)| (log - if i < place { before } else { after }).abs();
    let residuals: Vec<f64> = logs.iter().enumerate().map(residual).collect();
    // Half of Laplace's distribution lies within ln 2 times its scale.
    let scale = (median(&residuals) / std::f64::consts::LN_2).max(f64::MIN_POSITIVE);
    let most = -OUTLIER_SHARE.ln();
    let mut sum = 0.0;
    let next = |log: &f64| {
        let likelihood = sum;
        sum += (((log - after).abs() - (log - before).abs()) / scale).clamp(-most, most);
        likelihood
    };
    logs.iter().map(next).collect()
}

/// For each position, the standardised difference between the ranks after and before it; above 0 if the
/// figures after it are larger. It is 0 at both ends, and if all figures are equal.
fn scores(values: &[f64]) -> Vec<f64> {
    let n = values.len() as f64;
    let ranks = ranks(values);
    let middle = (n + 1.0) / 2.0;
    let variance = ranks.iter().map(|r| (r - middle).powi(2)).sum::<f64>() / (n - 1.0);
    let mut before = 0.0;
    let score = |(place, rank): (usize, &f64)| {
        let k = place as f64;
        let score = -before / (variance * k * (n - k) / n).sqrt();
        before += rank - middle;
        if score.is_finite() { score } else { 0.0 }
    };
    ranks.iter().enumerate().map(score).collect()
}

/// The ranks from 1 on; ties have their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    super::ranks::doubled_ranks(values).iter().map(|&doubled| doubled as f64 / 2.0).collect()
}

/// The probability that the largest standardised difference over all positions of `n` figures is at least
/// `z`, in either direction (Miller and Siegmund 1982).
fn largest_p(z: f64, n: usize) -> f64 {
    if z <= 1.0 {
        return 1.0;
    }
    let end = STRETCH_MIN as f64 / n as f64;
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let places = 2.0 * ((1.0 - end) / end).ln();
    (density * (4.0 / z + (z - 1.0 / z) * places)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::noise::{assert_honest, jitter, odd_samples, sample};
    use crate::synthetic::Source;

    /// Figures with the given level at each position.
    fn stairs(source: &mut Source, steps: &[(usize, f64)]) -> Vec<f64> {
        steps.iter().flat_map(|&(n, level)| sample(source, n, level)).collect()
    }

    #[test]
    fn false_alarms_are_no_more_than_p_says() {
        let mut source = Source::new(10);
        for direction in [Direction::Either, Direction::Up, Direction::Down] {
            for n in [6, 30, 300] {
                let p = |values: &[f64]| change(values, direction).map_or(1.0, |change| change.p);
                let ps: Vec<f64> = (0..400).map(|_| p(&sample(&mut source, n, 1.0))).collect();
                assert_honest(&ps, "change");
            }
        }
        // With only few different figures, and with one true change.
        let few: Vec<f64> = (0..400)
            .map(|_| {
                change(&(0..60).map(|_| (source.unit() * 3.0).floor()).collect::<Vec<_>>(), Direction::Either)
            })
            .map(|change| change.map_or(1.0, |change| change.p))
            .collect();
        assert_honest(&few, "change of ties");
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        let mut source = Source::new(11);
        for (before, after, ratio) in [(50, 50, 1.1), (8, 200, 2.0), (300, 12, 0.5), (100, 100, 30.0)] {
            let (mut found, mut held, mut exact) = (0, 0, 0);
            for _ in 0..100 {
                let values = stairs(&mut source, &[(before, 1.0), (after, ratio)]);
                let change = change(&values, Direction::Either).unwrap();
                found += usize::from(change.p < 1e-3);
                held += usize::from((change.index_low..=change.index_high).contains(&before));
                exact += usize::from(change.index == before);
                assert!((change.ratio() / ratio - 1.0).abs() < 0.1, "{change:?}");
            }
            assert!(found >= 95 && held >= 93, "{found}, {held} of 100 with {before}, {after}, {ratio}");
            assert!(exact >= if ratio == 1.1 { 40 } else { 85 }, "{exact} of 100 with {before}, {ratio}");
        }
    }

    #[test]
    fn the_size_of_outliers_makes_no_difference() {
        let mut source = Source::new(13);
        let mut values: Vec<f64> = (0..100).map(|_| jitter(&mut source)).collect();
        values[20] = 1e3;
        let one = change(&values, Direction::Either).unwrap();
        values[20] = 1e12;
        assert_eq!(change(&values, Direction::Either), Some(one));
    }

    #[test]
    fn odd_figures_do_no_harm() {
        for values in odd_samples() {
            for direction in [Direction::Either, Direction::Up, Direction::Down] {
                if let Some(found) = change(&values, direction) {
                    assert!((0.0..=1.0).contains(&found.p), "{found:?}");
                    assert!(found.index_low <= found.index && found.index <= found.index_high);
                }
            }
        }
    }
}
