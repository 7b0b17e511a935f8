//! Which size is written next, so that the times of all sizes become exact together.

use crate::signals::sizes::{IoKind, LineFit, fit};

/// The fewest writes of each size before the line is computed. Unit: writes. Source: derivation: a median has
/// its 95 % interval from six values on. Too high: writes are spent on sizes that show little; too low: the
/// median has no error.
const LOOK_WRITES: usize = 6;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::sizes::SizeCurve;

    /// Writes of 64 to 512 KiB that take 100 us and 1 us a KiB, this number of each.
    fn kind(counts: [usize; 4], budget: [f64; 4]) -> IoKind {
        let curve = |(power, count): (u32, usize)| {
            let size = flashlab_base::Bytes::kib(64 << power);
            SizeCurve { size, times: vec![(100.0 + size.0 as f64 / 1024.0) * 1e3; count] }
        };
        let curves = (0..).zip(counts).map(curve).collect();
        IoKind { pause: 0.2, budget: budget.to_vec(), curves, smaller: true }
    }

    #[test]
    fn all_sizes_are_written_some_times_and_then_those_that_are_worth_more() {
        let few = kind([40, 3, 5, 40], [1.0; 4]);
        assert_eq!((few.fewest(), few.fit(1.0).is_none()), (2, true));
        let enough = kind([40, 30, 20, 40], [4.0, 1.0, 1.0, 1.0]);
        assert_eq!((enough.fewest(), enough.poorest(&[0.25; 4])), (2, 1));
        assert_eq!(enough.poorest(&[0.9, 0.05, 0.04, 0.01]), 0);
    }
}
