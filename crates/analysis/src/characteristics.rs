//! Computes the device's row of uFLIP's Table 3, by the definitions of section 5.2.
//!
//! Ratios are as measured. The paper prints "=" for a ratio that rounds to 1. A figure is null if its
//! micro-benchmark or its baseline is missing.

use flashlab_base::{Identity, median};

use crate::curve::{DEGRADATION, baseline_ns, curve, io_size, largest, plateau};
use crate::findings::{Baseline, Characteristics, MicroBenchmark, Point};
use crate::point::mean;

/// Random writes behave like sequential writes when they cost at most this many times as much.
const LIKE_SEQUENTIAL: f64 = 1.5;
/// The MB of uFLIP's tables, whose areas are powers of two.
const MB: f64 = (1u64 << 20) as f64;
/// The gaps, in MB, of "large increments" (uFLIP section 5.2).
const LARGE_GAP_MB: std::ops::RangeInclusive<f64> = 1.0..=8.0;

/// The row of Table 3 that the baselines and micro-benchmarks give. Sizes in `locality_mb` are in
/// units of 2^20 bytes, as the paper's powers of two; `capacity_gb` is in units of 10^9.
pub fn characteristics(
    identity: &Identity,
    baselines: &[Baseline],
    micro_benchmarks: &[MicroBenchmark],
) -> Characteristics {
    let locality = locality(baselines, micro_benchmarks);
    let partitioning = partitioning(micro_benchmarks);
    let ms = |pattern: &str| baseline_ns(baselines, pattern).map(|ns| ns / 1e6);
    Characteristics {
        device: identity.model.clone().unwrap_or_else(|| identity.target.clone()),
        kind: (!identity.kind.is_empty()).then(|| identity.kind.clone()),
        capacity_gb: (identity.capacity.get() > 0).then(|| identity.capacity.get() as f64 / 1e9),
        sr_ms: ms("SR"),
        rr_ms: ms("RR"),
        sw_ms: ms("SW"),
        rw_ms: ms("RW"),
        pause_rw_ms: pause_ns(baselines, micro_benchmarks).map(|ns| ns / 1e6),
        locality_mb: locality.map(|locality| locality.area_bytes / MB),
        locality_ratio: locality.filter(|locality| locality.area_bytes > 0.0).map(|locality| locality.ratio),
        partitions: partitioning.map(|partitioning| partitioning.partitions),
        partition_ratio: partitioning.map(|partitioning| partitioning.ratio),
        reverse_ratio: incr_ratio(baselines, micro_benchmarks, -1.0),
        in_place_ratio: incr_ratio(baselines, micro_benchmarks, 0.0),
        large_incr_vs_rw: large_incr(baselines, micro_benchmarks),
    }
}

/// The smallest pause from which on random writes behave like sequential writes. `None` if they do so without
/// a pause, or if no measured pause is long enough.
fn pause_ns(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Option<f64> {
    let limit = LIKE_SEQUENTIAL * baseline_ns(baselines, "SW")?;
    if baseline_ns(baselines, "RW")? <= limit {
        return None;
    }
    let points = curve(micro_benchmarks, "Pause", "RW");
    let behaving = points.iter().rev().take_while(|point| point.response_ns_mean <= limit);
    behaving.last().map(|point| point.value).filter(|&pause| pause > 0.0)
}

/// The area in which random writes stay fast (uFLIP section 5.2, Figure 8).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Locality {
    /// The largest measured area before random writes slow down; 0 if a smaller area does not help.
    pub area_bytes: f64,
    /// Their longest response time within it, relative to sequential writes.
    pub ratio: f64,
    /// Whether a measured larger area is slower.
    pub degrades: bool,
}

/// The locality area: up to the knee of the response time of random writes over TargetSize. A TargetSize of
/// one IO is left out, because that is writing in place. Without a knee, the area is everything that was
/// measured if random writes are fast there, and nothing ("No") otherwise.
pub(crate) fn locality(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Option<Locality> {
    let sequential = baseline_ns(baselines, "SW")?;
    let points: Vec<&Point> = curve(micro_benchmarks, "TargetSize", "RW")
        .into_iter()
        .filter(|point| io_size(point).is_none_or(|size| point.value > size))
        .collect();
    let costs: Vec<f64> = points.iter().map(|point| point.response_ns_mean / sequential).collect();
    let within = plateau(&costs);
    let degrades = within < costs.len();
    let last = points.get(within.checked_sub(1)?)?;
    if !degrades && median(&costs).unwrap_or_default() > DEGRADATION {
        let random = baseline_ns(baselines, "RW").map_or(0.0, |random| random / sequential);
        // If all points are fast, the limit of the device is larger than what was measured.
        if random <= DEGRADATION * median(&costs).unwrap_or_default() {
            return Some(Locality { area_bytes: 0.0, ratio: largest(&costs), degrades });
        }
    }
    Some(Locality { area_bytes: last.value, ratio: largest(&costs[..within]), degrades })
}

/// How many partitions can be written concurrently (uFLIP section 5.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Partitioning {
    /// The largest number before sequential writes slow down.
    pub partitions: u32,
    /// Their longest response time up to that number, relative to one partition.
    pub ratio: f64,
    /// Whether a measured larger number is slower.
    pub degrades: bool,
}

/// The knee of the response time of sequential writes over Partitions. It is relative to the plateau from two
/// partitions on, and not to one partition: uFLIP's Kingston DT hyper X has a plateau at 20 times the time of
/// one partition and slows down only beyond 8. The plateau ends at once, and the answer is one, in two cases:
/// two partitions take over twice as long as one and no second point is on their level, or every point is.
pub(crate) fn partitioning(micro_benchmarks: &[MicroBenchmark]) -> Option<Partitioning> {
    let points = curve(micro_benchmarks, "Partitions", "SW");
    let single = points.first().filter(|point| point.value == 1.0)?.response_ns_mean;
    let costs: Vec<f64> = points[1..].iter().map(|point| point.response_ns_mean / single).collect();
    let within = plateau(&costs);
    let degrades = within < costs.len();
    let at_once = costs.first().is_some_and(|&two| two > DEGRADATION) && (within < 2 || !degrades);
    if at_once || within == 0 {
        return Some(Partitioning { partitions: 1, ratio: 1.0, degrades: at_once });
    }
    Some(Partitioning { partitions: points[within].value as u32, ratio: largest(&costs[..within]), degrades })
}

/// The response time of writes with this Incr, relative to the baseline.
fn incr_ratio(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark], incr: f64) -> Option<f64> {
    let points = curve(micro_benchmarks, "Incr", "SW");
    let point = points.iter().find(|point| point.value == incr)?;
    Some(point.response_ns_mean / baseline_ns(baselines, "SW")?)
}

/// The mean response time of writes with gaps of 1 to 8 MB, relative to random writes.
fn large_incr(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Option<f64> {
    let has_large_gap =
        |point: &&Point| io_size(point).is_some_and(|size| LARGE_GAP_MB.contains(&(point.value * size / MB)));
    let points = curve(micro_benchmarks, "Incr", "SW").into_iter().filter(has_large_gap);
    let costs: Vec<f64> = points.map(|point| point.response_ns_mean).collect();
    Some(mean(&costs)? / baseline_ns(baselines, "RW")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Source, baseline, measure, micro, table3};
    use flashlab_base::Bytes;

    fn near(got: Option<f64>, expected: Option<f64>) -> bool {
        match (got, expected) {
            (Some(got), Some(expected)) => (got / expected).ln().abs() < 0.15,
            (got, expected) => got.is_none() && expected.is_none(),
        }
    }

    #[test]
    fn the_rows_of_table_3_are_read_back_from_the_curves_that_they_describe() {
        for row in table3() {
            for seed in 0..200 {
                let (baselines, micros) = measure(&row, &mut Source::new(seed), 0.03);
                let got = characteristics(&Identity::default(), &baselines, &micros);
                let context = format!("{}, seed {seed}: {got:?}", row.device);
                assert_eq!(got.locality_mb, Some(row.locality.0), "{context}");
                assert!(near(got.locality_ratio, row.locality.1), "{context}");
                assert_eq!(got.partitions, Some(row.partitions.0), "{context}");
                assert!(near(got.partition_ratio, Some(row.partitions.1)), "{context}");
                assert!(near(got.reverse_ratio, Some(row.reverse)), "{context}");
                assert!(near(got.in_place_ratio, Some(row.in_place)), "{context}");
                assert!(near(got.large_incr_vs_rw, Some(row.large_incr)), "{context}");
                assert!(near(got.pause_rw_ms, row.pause_ms), "{context}");
                assert_eq!([got.sr_ms, got.rr_ms, got.sw_ms, got.rw_ms], row.ms.map(Some), "{context}");
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_null() {
        let identity = Identity {
            target: "/dev/x".into(),
            kind: "block device".into(),
            capacity: Bytes(16_000_000_000),
            ..Identity::default()
        };
        let expected = Characteristics {
            device: "/dev/x".into(),
            kind: Some("block device".into()),
            capacity_gb: Some(16.0),
            ..Characteristics::default()
        };
        assert_eq!(characteristics(&identity, &[], &[]), expected);
        let named = Identity { model: Some("Disk".into()), ..identity };
        let got = characteristics(&named, &[baseline("SR", 2e6)], &[micro("Incr", "SW", &[(-1.0, 1e6)])]);
        assert_eq!(got, Characteristics { device: "Disk".into(), sr_ms: Some(2.0), ..expected });
    }

    /// (TargetSize in IOs, cost in milliseconds) with SW = 1 ms and RW as given.
    fn locality_of(rw_ms: f64, costs: &[(f64, f64)]) -> Option<(f64, bool)> {
        let points: Vec<_> = costs.iter().map(|&(ios, ms)| (ios * 32768.0, ms * 1e6)).collect();
        let baselines = [baseline("SW", 1e6), baseline("RW", rw_ms * 1e6)];
        let found = locality(&baselines, &[micro("TargetSize", "RW", &points)])?;
        Some((found.area_bytes / 32768.0, found.degrades))
    }

    #[test]
    fn without_a_knee_the_area_is_everything_measured_or_nothing() {
        let flat = |ms: f64| [(1.0, 1.0), (2.0, ms), (4.0, ms), (8.0, ms)];
        assert_eq!(locality_of(1.1, &flat(1.1)), Some((8.0, false)));
        assert_eq!(locality_of(88.0, &flat(88.0)), Some((0.0, false)));
        // Fast up to 8 IOs, and the knee is beyond what was measured.
        assert_eq!(locality_of(88.0, &flat(5.0)), Some((8.0, false)));
        assert_eq!(locality_of(88.0, &[]), None);
    }

    #[test]
    fn partitions_that_degrade_at_once_leave_one() {
        let of = |costs: &[f64]| {
            let points: Vec<_> = (0..).map(|i| f64::from(1 << i)).zip(costs.iter().copied()).collect();
            let found = partitioning(&[micro("Partitions", "SW", &points)]).unwrap();
            (found.partitions, found.ratio, found.degrades)
        };
        assert_eq!(of(&[1.0, 88.0, 88.0, 88.0]), (1, 1.0, true));
        assert_eq!(of(&[1.0, 3.0, 30.0, 88.0]), (1, 1.0, true));
        assert_eq!(of(&[1.0, 1.0, 1.1, 1.0]), (8, 1.1, false));
        assert_eq!(of(&[1.0, 1.5, 30.0, 88.0]), (2, 1.5, true));
        assert_eq!(of(&[1.0]), (1, 1.0, false));
    }
}
