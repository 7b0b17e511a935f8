//! Sequential writes with pauses, and without: what each kind tells, and both together.
//!
//! # Model
//! As in `sizes`. After a pause the device has ended all that belongs to the write before. Without one a late host finds a part of it
//! done, whatever the size: so writes without pauses take less by the same at all sizes.

use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::decide::weighted_line::WeightedPoint;
use crate::signals::sizes::{IoKind, LineFit, fit};

/// Writes of a size before it is looked at.
pub const LOOK_WRITES: usize = 6;
/// Kinds that agree on what pauses add at all sizes do so with this chance.
const DISAGREE: f64 = 0.03;

impl IoKind {
    /// The line, once all sizes were written some times, when `times` as many writes can be done.
    pub fn fit(&self, times: f64) -> Option<LineFit> {
        let is_seen = self.curves.iter().all(|curve| curve.times.len() >= LOOK_WRITES);
        is_seen.then(|| fit(&self.points(), self.smaller, times)).flatten()
    }

    /// The largest of the sizes that were written too few times, or else the one with the fewest.
    pub fn fewest(&self) -> usize {
        let few = self.curves.iter().rposition(|curve| curve.times.len() < LOOK_WRITES);
        let fewest = (0..self.curves.len()).min_by_key(|&index| self.curves[index].times.len());
        few.or(fewest).unwrap_or_default()
    }

    /// The size that has had the smallest part of the time that it is worth.
    pub fn poorest(&self, shares: &[f64]) -> usize {
        let parts = shares.iter().zip(&self.budget).map(|(share, spent)| spent / share.max(1e-9));
        parts.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(index, _)| index)
    }
}

/// The medians of the first kind, with what the second one tells of them: it takes less by the same at all sizes, if they agree on
/// that.
pub fn together(kinds: &[IoKind]) -> Vec<WeightedPoint> {
    let mut points = kinds[0].points();
    let others = kinds.get(1).map(IoKind::points).unwrap_or_default();
    let other_of = |point: &WeightedPoint| others.iter().find(|other| other.x == point.x).copied();
    let apart = |point: &WeightedPoint| {
        other_of(point).map(|other| (point.y - other.y, (point.error.powi(2) + other.error.powi(2)).recip()))
    };
    let all: Vec<(f64, f64)> = points.iter().filter_map(apart).collect();
    let less = all.iter().map(|(apart, weight)| apart * weight).sum::<f64>()
        / all.iter().map(|(_, weight)| weight).sum::<f64>();
    let deviations: f64 = all.iter().map(|(apart, weight)| (apart - less).powi(2) * weight).sum();
    let agree = ChiSquared::new(all.len() as f64 - 1.0).is_ok_and(|chance| chance.sf(deviations) > DISAGREE);
    for point in points.iter_mut().filter(|_| agree) {
        if let Some(other) = other_of(point) {
            let (one, two) = (point.error.powi(-2), other.error.powi(-2));
            point.y = (one * point.y + two * (other.y + less)) / (one + two);
            point.error = (one + two).sqrt().recip();
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::sizes::SizeCurve;

    /// Writes of 64 to 512 KiB that take 100 us and 1 us a KiB, so much more, each median known so well.
    fn kind(more: f64, scatter: f64) -> IoKind {
        let curve = |power: u32| {
            let size = flashlab_base::Bytes::kib(64 << power);
            let time = (100.0 + more + size.0 as f64 / 1024.0) * 1e3;
            let at = |place: i32| time * (1.0 + scatter * f64::from(place - 20) / 20.0);
            SizeCurve { size, times: (0..=40).map(at).collect() }
        };
        let curves: Vec<SizeCurve> = (0..4).map(curve).collect();
        IoKind { pause: 0.2, budget: vec![1.0; curves.len()], curves, smaller: true }
    }

    #[test]
    fn what_pauses_add_at_all_sizes_is_taken_off() {
        let alone = kind(50.0, 0.1).points();
        let both = together(&[kind(50.0, 0.1), kind(0.0, 0.1)]);
        for (one, other) in alone.iter().zip(&both) {
            assert!((one.y / other.y - 1.0).abs() < 1e-3 && other.error < 0.8 * one.error);
        }
    }

    #[test]
    fn kinds_that_do_not_agree_are_not_put_together() {
        let mut other = kind(0.0, 0.01);
        other.curves[1].times.iter_mut().for_each(|time| *time *= 1.5);
        let both = together(&[kind(50.0, 0.01), other]);
        assert_eq!(both, kind(50.0, 0.01).points());
    }
}
