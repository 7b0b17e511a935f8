//! The device's row of uFLIP's Table 3, by the definitions of section 5.2.
//!
//! Ratios are as measured: the paper's "=" is a 1 that was rounded, which is left to the reader.
//! A figure of which the micro-benchmark or the baseline is missing is null.

use flashlab_base::Identity;

use crate::curve::{DEGRADATION, baseline_ns, curve, io_size, largest, median, plateau};
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

/// The smallest pause from which on random writes behave like sequential writes; none where they
/// do without a pause or with none that was measured.
fn pause_ns(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Option<f64> {
    let limit = LIKE_SEQUENTIAL * baseline_ns(baselines, "SW")?;
    if baseline_ns(baselines, "RW")? <= limit {
        return None;
    }
    let points = curve(micro_benchmarks, "Pause", "RW");
    let behaving = points.iter().rev().take_while(|point| point.response_ns_mean <= limit);
    behaving.last().map(|point| point.value).filter(|&pause| pause > 0.0)
}

/// Where random writes stay cheap (uFLIP section 5.2, Figure 8).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Locality {
    /// The largest area measured before random writes degrade; 0 where a focus does not help.
    pub area_bytes: f64,
    /// Their largest cost within it, relative to sequential writes.
    pub ratio: f64,
    /// Whether they were seen to degrade beyond it.
    pub degrades: bool,
}

/// The locality area: up to the knee of the cost of random writes over TargetSize. A TargetSize of
/// one IO is left out, since that is writing in place. Without a knee the area is everything that
/// was measured if random writes are cheap there, and nothing ("No") if they are not.
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
    if !degrades && median(&costs) > DEGRADATION {
        let random = baseline_ns(baselines, "RW").map_or(0.0, |random| random / sequential);
        // Everything measured may lie within the area of a device whose limit is further out.
        if random <= DEGRADATION * median(&costs) {
            return Some(Locality { area_bytes: 0.0, ratio: largest(&costs), degrades });
        }
    }
    Some(Locality { area_bytes: last.value, ratio: largest(&costs[..within]), degrades })
}

/// How many partitions can be written concurrently (uFLIP section 5.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Partitioning {
    /// The largest number before sequential writes degrade.
    pub partitions: u32,
    /// Their largest cost up to there, relative to one partition.
    pub ratio: f64,
    /// Whether they were seen to degrade beyond it.
    pub degrades: bool,
}

/// The knee of the cost of sequential writes over Partitions, relative to the plateau from two
/// partitions on and not to a single one: uFLIP's Kingston DT hyper X has a plateau at 20 times the
/// cost of one partition and degrades only beyond 8. Where two partitions cost over twice as much
/// as one and no second point shares their level, or every point does, there is no plateau short
/// of the degradation and the answer is one.
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

/// The cost of sequential writes in steps of `incr` IOs, relative to the baseline.
fn incr_ratio(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark], incr: f64) -> Option<f64> {
    let points = curve(micro_benchmarks, "Incr", "SW");
    let point = points.iter().find(|point| point.value == incr)?;
    Some(point.response_ns_mean / baseline_ns(baselines, "SW")?)
}

/// The mean cost of writes with gaps of 1 to 8 MB, relative to random writes.
fn large_incr(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Option<f64> {
    let has_large_gap =
        |point: &&Point| io_size(point).is_some_and(|size| LARGE_GAP_MB.contains(&(point.value * size / MB)));
    let points = curve(micro_benchmarks, "Incr", "SW").into_iter().filter(has_large_gap);
    let costs: Vec<f64> = points.map(|point| point.response_ns_mean).collect();
    Some(mean(&costs)? / baseline_ns(baselines, "RW")?)
}
