//! Runs of timed IOs: which of them were alone, how much they scatter, and how several runs become one.
//!
//! # Invariants
//! - Runs of reads one at a time come first, in the order of their sizes.

pub(crate) use flashlab_analysis::inference::TimedIo as Io;

use super::fitting::SCATTER_LEAST;
use crate::signals::statistics::{deviation, upper_median};

/// Several dies complete at least this many times the reads a second that one read at a time does. The host
/// may add up to this much, as it takes a result while the device serves the next read. Unit: ratio. Source:
/// tuned. Too high: devices with few dies count as serial; too low: serial devices count as parallel.
const RATE_OF_SEVERAL: f64 = 1.5;

/// The share of reads of one kind that are off by a factor, from which on not all are answered in the same
/// way. Unit: share. Source: tuned. Too high: reads from a cache are mixed with reads from flash; too low:
/// outliers exclude a region.
const MIXED_SHARE: f64 = 0.15;

/// Sizes whose reads scatter equally differ by less than this factor, even of 24 reads. Unit: ratio. Source:
/// tuned. Too high: exact large reads count no more than others; too low: chance decides which sizes count
/// more.
const WEIGHT_LEAST: f64 = 2.0;

/// IOs in the order in which they were submitted to a device that rested.
pub type TimedRun = Vec<Io>;

/// What the IOs of a run took.
pub fn nanos(run: &TimedRun) -> Vec<f64> {
    run.iter().map(|read| read.nanos).collect()
}

/// The runs of reads one at a time, which come first, by size.
pub fn alone(runs: &[TimedRun]) -> &[TimedRun] {
    let size = |run: &TimedRun| run.first().map_or(0, |read| read.size);
    let more = runs.windows(2).take_while(|two| size(&two[1]) > size(&two[0])).count();
    &runs[..runs.len().min(more + 1)]
}

/// Whether the smallest reads are served one after the other: with several in flight hardly more of them are completed a second.
pub fn are_served_in_turn(runs: &[TimedRun]) -> bool {
    let alone = alone(runs);
    let Some(first) = alone.first().and_then(|run| run.first()) else { return false };
    let rate = |run: &TimedRun| {
        let begin = run.iter().map(|read| read.at).fold(f64::INFINITY, f64::min);
        let end = run.iter().map(|read| read.at + read.nanos).fold(0.0, f64::max);
        run.len() as f64 / (end - begin).max(1.0)
    };
    let several = runs[alone.len()..].iter().filter(|run| run.iter().all(|read| read.size == first.size));
    let most = several.map(rate).fold(0.0, f64::max);
    most > 0.0 && most * upper_median(&nanos(&alone[0])) < RATE_OF_SEVERAL
}

/// By how much the logarithms of what the reads of a run took scatter.
pub(crate) fn scatter(run: &TimedRun) -> f64 {
    let logs: Vec<f64> = run.iter().map(|read| read.nanos.max(1.0).ln()).collect();
    deviation(&logs, upper_median(&logs)).max(SCATTER_LEAST)
}

/// The runs, with more weight for sizes that scatter less than the smallest one. The jitter of a transport is a
/// smaller part of what a large read takes. If boundaries show the page, layouts are clear without these
/// weights.
pub fn weighted(mut runs: Vec<TimedRun>) -> Vec<TimedRun> {
    let first = scatter(&runs[0]);
    for index in 1..alone(&runs).len() {
        let weight = first / scatter(&runs[index]);
        if weight >= WEIGHT_LEAST {
            runs[index].iter_mut().for_each(|read| read.weight = weight);
        }
    }
    runs
}

/// Whether reads of one kind are not all answered in the same way.
pub fn is_mixed(run: &TimedRun, factor: f64) -> bool {
    let times = nanos(run);
    let middle = upper_median(&times);
    let off = times.iter().filter(|&&time| !(middle / factor..middle * factor).contains(&time)).count();
    off as f64 > MIXED_SHARE * times.len() as f64
}

/// Runs one behind the other.
pub fn in_a_row(runs: Vec<TimedRun>) -> TimedRun {
    let mut all = TimedRun::new();
    for run in runs {
        let begin = all.last().map_or(0.0, |read| read.at + read.nanos);
        all.extend(run.into_iter().map(|read| Io { at: read.at + begin, ..read }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of a size, `gap` ns apart, that take these times.
    fn run(size: u64, gap: f64, times: &[f64]) -> TimedRun {
        times.iter().enumerate().map(|(index, &nanos)| Io::new(index as f64 * gap, nanos, 0, size)).collect()
    }

    #[test]
    fn those_one_at_a_time_come_first_and_grow() {
        let runs = [512, 4096, 8192, 512, 4096].map(|size| run(size, 100.0, &[100.0, 100.0]));
        assert_eq!(alone(&runs).len(), 3);
        assert_eq!(alone(&runs[..2]).len(), 2);
    }

    #[test]
    fn served_in_turn_is_what_completes_no_more_with_several_in_flight() {
        let alone = run(512, 100.0, &[100.0; 40]);
        // Four in flight: each is submitted as another one is done.
        let several = |gap: f64| run(512, gap, &[4.0 * gap; 40]);
        assert!(are_served_in_turn(&[alone.clone(), several(100.0)]));
        assert!(are_served_in_turn(&[alone.clone(), several(75.0)]), "the host takes results meanwhile");
        assert!(!are_served_in_turn(&[alone.clone(), several(50.0)]));
        assert!(!are_served_in_turn(&[alone]), "nothing in flight together");
    }

    #[test]
    fn reads_of_two_kinds_are_mixed_and_outliers_are_not() {
        let of = |many: usize| run(512, 1e3, &[vec![100.0; 100 - many], vec![300.0; many]].concat());
        assert!(is_mixed(&of(20), 1.3) && !is_mixed(&of(10), 1.3) && !is_mixed(&of(20), 4.0));
    }

    #[test]
    fn runs_in_a_row_begin_as_the_one_before_ends() {
        let all = in_a_row(vec![run(512, 100.0, &[50.0, 60.0]), run(512, 100.0, &[70.0])]);
        assert_eq!(all.iter().map(|read| read.at).collect::<Vec<_>>(), [0.0, 100.0, 160.0]);
    }

    #[test]
    fn sizes_that_scatter_half_as_much_have_more_weight() {
        let small: Vec<f64> = (0..40).map(|index| 100.0 + 20.0 * f64::from(index % 3)).collect();
        let large: Vec<f64> = small.iter().map(|nanos| nanos + 900.0).collect();
        let runs = weighted(vec![run(512, 1e3, &small), run(8192, 1e4, &large)]);
        assert!(
            runs[0].iter().all(|read| read.weight == 1.0) && runs[1].iter().all(|read| read.weight > 4.0)
        );
    }
}
