//! From which number of IOs in flight on the throughput hardly grows.
//!
//! # Model
//! The throughput at a depth is that of the time in which the queue was full: until the last IO is submitted, and
//! without the beginning, in which IOs that were submitted together still lie evenly over the dies. A run is divided
//! into parts, each of which gives a time for each IO. A doubling of the depth is of no use if the throughput grows
//! by less than [`DOUBLING_GAIN`].
//!
//! # Invariants
//! - Depths double from one to the next.

use flashlab_base::Nanos;

use flashlab_analysis::DOUBLING_GAIN;
use flashlab_analysis::decide::level::trimmed_mean;
use flashlab_analysis::decide::ranks::Interval;

/// A growth this close to [`DOUBLING_GAIN`] may lie on either side: it differs by as much from run to run.
/// Unit: share of the throughput. Source: tuned. Too small: depths are run repeatedly that no number of runs
/// decides; too large: a depth is reported although more runs would show the other one.
const NEAR_LIMIT: f64 = 0.003;
/// The parts of a run, each of which gives a time for each IO. Unit: parts. Source: derivation: a trimmed
/// mean has an interval from three on; two are to spare. Too many: each part has too few IOs; too few: the
/// mean has no interval.
const PARTS_OF_RUN: usize = 5;
/// The probability that a level lies in its interval. Unit: probability. Source: choice. Too high: depths are
/// run repeatedly; too low: a wrong depth is reported.
const INTERVAL_CONFIDENCE: f64 = 0.99;

/// The time for each IO, over the depth.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthCurve {
    /// The depths, each twice the one before.
    pub depths: Vec<u32>,
    /// By depth: the time for each IO in nanoseconds, of each part of each run.
    pub times: Vec<Vec<f64>>,
}

impl DepthCurve {
    /// A curve of depths that were not run yet.
    pub fn new(depths: Vec<u32>) -> DepthCurve {
        DepthCurve { times: vec![Vec::new(); depths.len()], depths }
    }

    /// By how much the throughput grows from one depth to its double, with the interval that contains it with 99 %.
    fn growth(&self, index: usize) -> Interval {
        let level = |times: &[f64]| trimmed_mean(times, 0.0, INTERVAL_CONFIDENCE);
        match (level(&self.times[index]), level(&self.times[index + 1])) {
            (Some(single), Some(double)) => {
                let estimate = single.estimate / double.estimate.max(1.0);
                let errors = single.relative_half_width().hypot(double.relative_half_width());
                Interval { estimate, low: estimate * (1.0 - errors), high: estimate * (1.0 + errors) }
            }
            _ => Interval { estimate: f64::NAN, low: 0.0, high: f64::INFINITY },
        }
    }

    /// The growth of each doubling.
    pub fn growths(&self) -> Vec<Interval> {
        (1..self.depths.len()).map(|index| self.growth(index - 1)).collect()
    }

    /// The indices of the depths to run again. Their doublings may lie on either side of the limit, up to
    /// the first one that certainly brings less.
    pub fn undecided(&self) -> Vec<usize> {
        let growths = self.growths();
        let until = growths.iter().position(|growth| growth.high < DOUBLING_GAIN).unwrap_or(growths.len());
        let open = (0..until).filter(|&index| is_undecided(growths[index]));
        open.flat_map(|index| [index, index + 1]).collect()
    }

    /// The index of the first depth whose doubling brings less, or of the last one.
    pub fn useful(&self) -> usize {
        let growths = self.growths();
        growths.iter().position(|growth| growth.estimate < DOUBLING_GAIN).unwrap_or(growths.len())
    }

    /// Whether the useful depth may be another one, because a doubling up to it may lie on either side.
    pub fn is_near_the_limit(&self) -> bool {
        self.growths().iter().take(self.useful() + 1).any(|&growth| is_undecided(growth))
    }

    /// IOs a second, by depth.
    pub fn rates(&self) -> Vec<(f64, f64)> {
        let rate = |times: &[f64]| {
            1e9 / trimmed_mean(times, 0.0, INTERVAL_CONFIDENCE).map_or(f64::NAN, |time| time.estimate)
        };
        self.depths.iter().zip(&self.times).map(|(&depth, times)| (f64::from(depth), rate(times))).collect()
    }
}

/// Whether a growth may lie on either side of the limit.
fn is_undecided(growth: Interval) -> bool {
    growth.low < DOUBLING_GAIN + NEAR_LIMIT && growth.high > DOUBLING_GAIN - NEAR_LIMIT
}

/// The time for each IO while the queue was full, of each part of a run, without the first `beginning` IOs. Each IO has the times
/// of its submission and its completion; they are in the order of completion.
pub fn time_of_each(ios: impl Iterator<Item = (Nanos, Nanos)> + Clone, beginning: usize) -> Vec<f64> {
    let end = ios.clone().map(|(submitted, _)| submitted).max().unwrap_or_default();
    let done: Vec<Nanos> = ios.map(|(_, completed)| completed).filter(|&done| done <= end).collect();
    let counted = done.get(beginning..).unwrap_or_default();
    let part = counted.len() / PARTS_OF_RUN;
    let parts = (0..PARTS_OF_RUN).filter_map(|index| counted.get(index * part..(index + 1) * part));
    let parts = parts.filter(|part| part.len() > 1);
    parts.map(|part| part[part.len() - 1].since(part[0]).0 as f64 / (part.len() - 1) as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Depths from 1 on, with the time for each IO in nanoseconds and its relative scatter.
    fn curve(times: &[f64], scatter: f64) -> DepthCurve {
        let mut curve = DepthCurve::new((0..times.len()).map(|power| 1 << power).collect());
        for (index, &time) in times.iter().enumerate() {
            curve.times[index] = [-1.0, -0.5, 0.0, 0.5, 1.0].map(|off| time * (1.0 + scatter * off)).to_vec();
        }
        curve
    }

    #[test]
    fn the_useful_depth_is_the_first_whose_doubling_brings_little() {
        // Four dies: the fourth in flight still helps, the eighth does not.
        let four_dies = curve(&[100e3, 50e3, 25e3, 24.8e3, 24.8e3], 1e-4);
        assert_eq!((four_dies.useful(), four_dies.is_near_the_limit()), (2, false));
        assert!(four_dies.undecided().is_empty());
        assert_eq!(four_dies.rates()[2].0, 4.0);
        assert!((four_dies.rates()[2].1 - 40e3).abs() < 1.0);
        // It still grows at the largest depth.
        assert_eq!(curve(&[100e3, 50e3, 25e3], 1e-4).useful(), 2);
        assert_eq!(curve(&[100e3], 1e-4).useful(), 0);
    }

    #[test]
    fn a_doubling_near_the_limit_is_run_again() {
        let near = curve(&[100e3, 50e3, 50e3 / DOUBLING_GAIN, 48.7e3], 1e-4);
        assert!(near.is_near_the_limit());
        assert_eq!(near.undecided(), [1, 2]);
        let noisy = curve(&[100e3, 99e3, 98e3], 0.1);
        assert_eq!(noisy.undecided(), [0, 1, 1, 2]);
        // Nothing was run yet.
        assert_eq!(DepthCurve::new(vec![1, 2]).undecided(), [0, 1]);
    }

    #[test]
    fn only_the_time_with_a_full_queue_counts() {
        // Two in flight, one done each 10 ns; the first two are done together, and the last two while nothing follows.
        let done = (0..22u64).map(|index| 100 + 10 * index.max(1));
        let ios: Vec<(Nanos, Nanos)> = done.map(|done| (Nanos(done - 20), Nanos(done))).collect();
        let times = time_of_each(ios.iter().copied(), 2);
        assert_eq!(times, [10.0; PARTS_OF_RUN]);
        assert!(time_of_each(ios.iter().copied(), 20).is_empty());
        assert!(time_of_each(std::iter::empty(), 0).is_empty());
    }
}
