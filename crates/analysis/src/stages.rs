//! Finds the stages of long writes after an idle time: write buffer, SLC cache, and what lasts.
//!
//! # Model
//! After an idle time a device buffers some bytes faster than it can sustain. Each buffer is a stage with its own mean
//! response time. The last stage is sustained: its response times may alternate by design (garbage collection in batches,
//! folding), and are the same over windows that are long enough.
//!
//! uFLIP's start-up phase ([`phases`](fn@crate::phases)) compares logarithms of response times. A device behind a write buffer answers
//! most writes at the speed of its link for ever, and a few take a thousand times as long. So here the mean counts.
//!
//! # Method
//! 1. For each length k on a grid, the mean of the first k IOs is compared with the means of later stretches of k IOs.
//! 2. The first k IOs are a stage if their mean is faster than that of each later stretch, clearly
//!    ([`STAGE_FACTOR`]), and Student's t between them is unlikely by chance, corrected for all lengths.
//! 3. Of such lengths, the most likely one counts: the time saved against what follows, squared, divided by the length (the gain of
//!    least squares). The stage ends at the IO at which this gain is largest.
//! 4. The stage, and what follows it, are divided in the same way, because an SLC cache lies behind a write buffer.
//! 5. The period of what follows ([`period`]), over the means of short stretches, is the cycle. A window has whole ones also where
//!    shorter stretches scatter little: the lead-in then brings back the random state that the run before changed.
//! 6. The window is the shortest stretch of whole cycles whose means scatter little ([`WINDOW_SCATTER`]). A window shows the
//!    regime of a run.
//! 7. What follows is settled if the means of whole windows say so ([`SETTLED_WITHIN`]). Otherwise it has no mean.
//!
//! # Invariants
//! - The stages are in their order, and their bytes add up to `volatile_bytes`.
//! - If there are too few IOs to decide, there is no stage, and `is_settled` is false.

use std::ops::Range;

use crate::findings::{PatternStages, WriteStage};
use crate::period;
use crate::student::{SIGNIFICANT_P, quantile_95, two_sided_p};

/// A stage has a mean response time of at most this part of what follows. uFLIP calls differences of up to 5 % usual (section
/// 5.1); with a factor near 1, slow drifts would become stages.
const STAGE_FACTOR: f64 = 0.8;
/// Fewer IOs than these are no stage, as for the start-up phase.
const STAGE_IOS_MIN: usize = crate::STARTUP_IOS_MIN;
/// What follows a stage has at least this number of stretches of the stage's length: fewer do not show how stretches scatter.
const STRETCHES_MIN: usize = 4;
/// Lengths on the grid per factor of two.
const LENGTHS_PER_OCTAVE: i32 = 4;
/// The means of windows scatter by at most this part of their mean (standard deviation), so that a window differs from a stage
/// ([`STAGE_FACTOR`] and less) by more than its scatter.
const WINDOW_SCATTER: f64 = 0.35;
/// The sustained stage has at least this number of windows.
const WINDOWS_MIN: usize = 8;
/// The sustained stage is settled if the 95 % interval of its mean, and the difference of its halves, are within this part of
/// the mean: SNIA's limit for the excursion of a steady state.
const SETTLED_WITHIN: f64 = 0.20;
/// Two levels differ by chance with at most this probability: a single stall in one of four stretches is no level.
const LEVELS_P: f64 = 0.05;
/// A burst uses at most this part of what came back.
const BURST_PART: f64 = 0.9;
/// Of fewer IOs than these, no rate can be said to change: eight windows with eight times the least IOs of a stage.
const ERRATIC_IOS_MIN: usize = 512;
/// A cycle is looked for in the means of this number of stretches: 8 cycles of 128 stretches each.
const CYCLE_STRETCHES: usize = 1024;
/// The least scatter of logarithms that is believed: a response time of a millisecond is known to a nanosecond.
const ROUNDING: f64 = 1e-6;
/// The most points of the curve that is kept for a picture.
const CURVE_POINTS: usize = 512;

/// Running sums of response times: `sums[k]` is what the first k IOs took.
struct Sums(Vec<f64>);

impl Sums {
    fn of(responses: &[u64]) -> Sums {
        let mut sums = Vec::with_capacity(responses.len() + 1);
        sums.push(0.0);
        let mut sum = 0.0;
        sums.extend(responses.iter().map(|&ns| {
            sum += ns as f64;
            sum
        }));
        Sums(sums)
    }

    fn len(&self) -> usize {
        self.0.len() - 1
    }

    fn mean(&self, from: usize, to: usize) -> f64 {
        (self.0[to] - self.0[from]) / (to - from).max(1) as f64
    }

    /// The means of whole stretches of `length` IOs between two positions.
    fn stretches(&self, from: usize, to: usize, length: usize) -> Vec<f64> {
        let count = (to - from) / length.max(1);
        (0..count).map(|i| self.mean(from + i * length, from + (i + 1) * length)).collect()
    }
}

/// A prefix that is a stage.
struct Prefix {
    end: usize,
    p: f64,
}

/// The stages of a baseline pattern of writes, from its response times in the order of the IOs, each of `io_bytes`, from the
/// first one after an idle time.
pub fn pattern_stages(pattern: &str, responses: &[u64], io_bytes: u64) -> PatternStages {
    pattern_stages_behind(pattern, responses, io_bytes, 0)
}

/// As [`pattern_stages`], of a pattern that may not write long enough to show its stages by itself: another pattern found `known_bytes` buffered.
pub fn pattern_stages_behind(
    pattern: &str,
    responses: &[u64],
    io_bytes: u64,
    known_bytes: u64,
) -> PatternStages {
    let sums = Sums::of(responses);
    let ios = sums.len();
    let (mut ends, mut p) = (Vec::new(), 0.0);
    divide(&sums, 0..ios, &mut ends, &mut p);
    if ends.is_empty() {
        ends.extend(known_stage(&sums, (known_bytes / io_bytes.max(1)) as usize));
    }
    let volatile = ends.last().copied().unwrap_or(0);
    let cycle = cycle(&sums, volatile);
    let (window, scatter) = window(&sums, volatile, cycle);
    let mut from = 0;
    let mut stages: Vec<WriteStage> = Vec::new();
    for &to in &ends {
        stages.push(stage(&sums, from, to, io_bytes));
        from = to;
    }
    let Settled { is_settled, is_drifting, why } = settled(&sums, volatile, cycle, scatter.is_some());
    let mean = sums.mean(volatile, ios);
    // Without a stage, a run that is too short to be settled may still be of one regime. With a rate that changes, it is not.
    let changes = !stages.is_empty() || is_drifting || (scatter.is_none() && ios >= ERRATIC_IOS_MIN);
    let sustained_ns_mean = (is_settled || !changes).then_some(mean);
    let confidence = if ends.is_empty() { smallest_p(&sums) } else { 1.0 - p };
    PatternStages {
        pattern: pattern.to_owned(),
        evidence: evidence(&stages, mean, cycle.map(|ios| ios as u64 * io_bytes), &why),
        volatile_bytes: volatile as u64 * io_bytes,
        stages,
        sustained_ns_mean,
        sustained_bytes_per_s: sustained_ns_mean.map(|ns| rate(io_bytes, ns)),
        cycle_bytes: cycle.map(|ios| ios as u64 * io_bytes),
        window_bytes: window as u64 * io_bytes,
        window_scatter: scatter,
        is_settled,
        confidence,
        curve: curve(&sums, 4 * volatile + 16 * window, io_bytes),
    }
}

/// What an idle time brought back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Returned {
    /// The bytes that were faster than what lasts.
    pub bytes: u64,
    /// Their mean response time.
    pub mean_ns: f64,
    /// The bytes at the begin that have one rate.
    pub burst_bytes: u64,
    /// The mean response time of the part of them that a burst uses.
    pub burst_ns: f64,
}

/// What came back after an idle time: writes faster than `sustained_ns`; `None` if there were none. The stage ends where the time saved is largest.
pub fn returned(responses: &[u64], io_bytes: u64, sustained_ns: f64) -> Option<Returned> {
    let sums = Sums::of(responses);
    let ios = most_likely_end(&sums, 0, sums.len(), sustained_ns);
    let mean = sums.mean(0, ios);
    if ios < STAGE_IOS_MIN || mean > STAGE_FACTOR * sustained_ns {
        return None;
    }
    let mut first = ios;
    while let Some(end) = first_level(&sums, first) {
        first = end;
    }
    let used = (first as f64 * BURST_PART) as usize;
    Some(Returned {
        bytes: ios as u64 * io_bytes,
        mean_ns: mean,
        burst_bytes: first as u64 * io_bytes,
        burst_ns: sums.mean(0, used.max(1)),
    })
}

/// The end of a faster level at the begin of the first `ios`, if they have two levels: where two means leave the smallest squares, and stretches on
/// both sides differ by more than chance.
fn first_level(sums: &Sums, ios: usize) -> Option<usize> {
    let squares = |end: usize| {
        let apart = sums.mean(end, ios) - sums.mean(0, end);
        apart.max(0.0).powi(2) * end as f64 * (ios - end) as f64
    };
    let ends = STAGE_IOS_MIN..ios.saturating_sub(STAGE_IOS_MIN);
    let end = ends.max_by(|&a, &b| squares(a).total_cmp(&squares(b)))?;
    if sums.mean(0, end) > STAGE_FACTOR * sums.mean(end, ios) {
        return None;
    }
    let length = end.min(ios - end) / STRETCHES_MIN;
    let (before, after) = (sums.stretches(0, end, length.max(1)), sums.stretches(end, ios, length.max(1)));
    let ((a, scatter_a), (b, scatter_b)) = (mean_and_deviation(&before), mean_and_deviation(&after));
    let part = |scatter: f64, count: usize| scatter.max(ROUNDING * a).powi(2) / count as f64;
    let error = (part(scatter_a, before.len()) + part(scatter_b, after.len())).sqrt();
    let degrees = before.len().min(after.len()) as f64 - 1.0;
    (two_sided_p((b - a) / error, degrees) < LEVELS_P).then_some(end)
}

fn rate(io_bytes: u64, response_ns: f64) -> f64 {
    if response_ns > 0.0 { io_bytes as f64 * 1e9 / response_ns } else { 0.0 }
}

fn stage(sums: &Sums, from: usize, to: usize, io_bytes: u64) -> WriteStage {
    let response_ns_mean = sums.mean(from, to);
    WriteStage {
        bytes: (to - from) as u64 * io_bytes,
        bytes_per_s: rate(io_bytes, response_ns_mean),
        response_ns_mean,
    }
}

/// The lengths that may be a stage at the begin of `ios` IOs.
fn lengths(ios: usize) -> impl Iterator<Item = usize> {
    let most = ios / (STRETCHES_MIN + 1);
    let length =
        |i: i32| (STAGE_IOS_MIN as f64 * 2f64.powf(f64::from(i) / f64::from(LENGTHS_PER_OCTAVE))) as usize;
    (0..).map(length).take_while(move |&length| length <= most)
}

/// The ends of all stages within these IOs, in order, and the largest p of them.
fn divide(sums: &Sums, ios: Range<usize>, ends: &mut Vec<usize>, p: &mut f64) {
    let Some(found) = prefix(sums, ios.clone()) else { return };
    *p = p.max(found.p);
    divide(sums, ios.start..found.end, ends, p);
    ends.push(found.end);
    divide(sums, found.end..ios.end, ends, p);
}

/// The stage at the begin of these IOs, if there is one.
fn prefix(sums: &Sums, ios: Range<usize>) -> Option<Prefix> {
    let (from, to) = (ios.start, ios.end);
    let tests = lengths(ios.len()).count().max(1) as f64;
    let mut best: Option<(f64, usize, f64)> = None;
    for length in lengths(ios.len()) {
        let p = compared(sums, ios.clone(), length) * tests;
        let gain = gain(sums, from, from + length, sums.mean(from + length, to));
        if p < SIGNIFICANT_P && best.is_none_or(|(most, ..)| gain > most) {
            best = Some((gain, length, p));
        }
    }
    let (_, length, p) = best?;
    let end = most_likely_end(sums, from, (from + 2 * length).min(to), sums.mean(from + length, to));
    let is_stage = end - from >= STAGE_IOS_MIN && sums.mean(from, end) <= STAGE_FACTOR * sums.mean(end, to);
    is_stage.then_some(Prefix { end, p })
}

/// The end of the stage at the begin whose length is about this, if what follows is as long and slower.
fn known_stage(sums: &Sums, length: usize) -> Option<usize> {
    if length < STAGE_IOS_MIN || 2 * length > sums.len() {
        return None;
    }
    let end = most_likely_end(sums, 0, 2 * length, sums.mean(length, sums.len()));
    let is_stage = end >= STAGE_IOS_MIN && sums.mean(0, end) <= STAGE_FACTOR * sums.mean(end, sums.len());
    is_stage.then_some(end)
}

/// The probability that a stretch of `length` IOs is as fast as the first of these IOs.
fn compared(sums: &Sums, ios: Range<usize>, length: usize) -> f64 {
    let first = sums.mean(ios.start, ios.start + length);
    let later = sums.stretches(ios.start + length, ios.end, length);
    let (mean, _) = mean_and_deviation(&later);
    let is_faster_than_all = later.iter().all(|&other| first < other) && first <= STAGE_FACTOR * mean;
    if later.len() < STRETCHES_MIN || !is_faster_than_all {
        return 1.0;
    }
    // Means of stretches with long stalls scatter in proportion to themselves.
    let logs: Vec<f64> = later.iter().map(|mean| mean.max(1.0).ln()).collect();
    let (level, deviation) = mean_and_deviation(&logs);
    let count = later.len() as f64;
    let error = deviation.max(ROUNDING) * (1.0 + 1.0 / count).sqrt();
    two_sided_p((level - first.max(1.0).ln()) / error, count - 1.0)
}

/// The gain of least squares if the IOs up to `to` have a faster level of their own than `level_ns`; 0 if they are slower.
fn gain(sums: &Sums, from: usize, to: usize, level_ns: f64) -> f64 {
    let saved = (to - from) as f64 * level_ns - (sums.0[to] - sums.0[from]);
    saved.max(0.0).powi(2) / (to - from).max(1) as f64
}

/// The most likely end of a stage that begins at `from` and is faster than `level_ns`.
fn most_likely_end(sums: &Sums, from: usize, most: usize, level_ns: f64) -> usize {
    let gain = |to: &usize| gain(sums, from, *to, level_ns);
    (from..=most).max_by(|a, b| gain(a).total_cmp(&gain(b))).unwrap_or(from)
}

/// The smallest p of all lengths: the probability of no stage.
fn smallest_p(sums: &Sums) -> f64 {
    let tests = lengths(sums.len()).count().max(1) as f64;
    lengths(sums.len())
        .map(|length| (compared(sums, 0..sums.len(), length) * tests).min(1.0))
        .fold(1.0, f64::min)
}

/// The cycle of what follows the stages, in IOs.
fn cycle(sums: &Sums, from: usize) -> Option<usize> {
    let length = ((sums.len() - from) / CYCLE_STRETCHES).max(1);
    let logs: Vec<f64> =
        sums.stretches(from, sums.len(), length).iter().map(|mean| mean.max(1.0).ln()).collect();
    Some(period::find(&logs).ios? * length)
}

/// The shortest window whose means scatter little, in IOs, and their scatter; without such a window the longest, and `None`.
fn window(sums: &Sums, from: usize, cycle: Option<usize>) -> (usize, Option<f64>) {
    let ios = sums.len() - from;
    let shortest = cycle.map_or(STAGE_IOS_MIN, |cycle| STAGE_IOS_MIN.next_multiple_of(cycle));
    let mut longest = shortest;
    let mut length = shortest;
    while length * WINDOWS_MIN <= ios {
        let (mean, deviation) = mean_and_deviation(&sums.stretches(from, sums.len(), length));
        if mean > 0.0 && deviation <= WINDOW_SCATTER * mean {
            return (length, Some(deviation / mean));
        }
        longest = length;
        length *= 2;
    }
    (longest, None)
}

/// Whether what follows the stages lasts.
struct Settled {
    is_settled: bool,
    /// Whether its second half is clearly slower or faster than its first.
    is_drifting: bool,
    /// The figures that decided.
    why: String,
}

/// Whether what follows the stages lasts, over whole cycles.
fn settled(sums: &Sums, from: usize, cycle: Option<usize>, has_window: bool) -> Settled {
    let ios = sums.len() - from;
    if ios < STAGE_IOS_MIN * WINDOWS_MIN || ios < from {
        let why = "too few writes followed to know what lasts".to_owned();
        return Settled { is_settled: false, is_drifting: false, why };
    }
    let batch = ios / (2 * WINDOWS_MIN);
    let whole = cycle.filter(|&cycle| cycle * WINDOWS_MIN <= ios);
    let batch = whole.map_or(batch, |cycle| (batch / cycle).max(1) * cycle);
    let batches = sums.stretches(from, sums.len(), batch);
    let (mean, deviation) = mean_and_deviation(&batches);
    let count = batches.len() as f64;
    let half_width = quantile_95(count - 1.0) * deviation / count.sqrt() / mean.max(f64::MIN_POSITIVE);
    let half = batches.len() / 2 * batch;
    let (middle, end) = (from + half, from + 2 * half);
    let apart = sums.mean(middle, end) / sums.mean(from, middle).max(f64::MIN_POSITIVE) - 1.0;
    let why = format!(
        "what follows is known to {:.0} %, and its second half takes {:.0} % {} than its first (at most {:.0} %)",
        100.0 * half_width,
        100.0 * apart.abs(),
        if apart < 0.0 { "less" } else { "longer" },
        100.0 * SETTLED_WITHIN
    );
    let is_apart = apart.abs() > SETTLED_WITHIN;
    Settled {
        is_settled: has_window && half_width <= SETTLED_WITHIN && !is_apart,
        is_drifting: is_apart && halves_differ_p(&batches) < SIGNIFICANT_P,
        why,
    }
}

/// The probability that both halves of these means have the same level (Student's t).
fn halves_differ_p(means: &[f64]) -> f64 {
    let (first, second) = means.split_at(means.len() / 2);
    let ((a, scatter_a), (b, scatter_b)) = (mean_and_deviation(first), mean_and_deviation(second));
    let squares = |deviation: f64, count: usize| deviation * deviation / count.max(1) as f64;
    let error = (squares(scatter_a, first.len()) + squares(scatter_b, second.len())).sqrt();
    if error > 0.0 { two_sided_p((a - b) / error, means.len() as f64 - 2.0) } else { 1.0 }
}

fn evidence(stages: &[WriteStage], sustained_ns: f64, cycle: Option<u64>, why: &str) -> String {
    let cycle = cycle.map(|bytes| format!("the rate alternates every {}; ", flashlab_base::Bytes(bytes)));
    let why = format!("{}{why}", cycle.unwrap_or_default());
    let Some(last) = stages.last() else { return format!("no stage before what lasts; {why}") };
    let bytes: u64 = stages.iter().map(|stage| stage.bytes).sum();
    format!(
        "the first {} are faster than each later stretch of their length, by a factor of {:.1} at their end; {why}",
        flashlab_base::Bytes(bytes),
        sustained_ns / last.response_ns_mean.max(f64::MIN_POSITIVE)
    )
}

/// The response times over the bytes written, thinned out: `(bytes at the end, mean response time)` of equal stretches of the first
/// `most` IOs. That is several times the stages, and several cycles of what lasts.
fn curve(sums: &Sums, most: usize, io_bytes: u64) -> Vec<(u64, f64)> {
    let ios = sums.len().min(most);
    let length = ios.div_ceil(CURVE_POINTS).max(1);
    let ends = (1..=ios / length).map(|i| i * length);
    ends.map(|end| (end as u64 * io_bytes, sums.mean(end - length, end))).collect()
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    if values.len() < 2 {
        return (values.first().copied().unwrap_or(0.0), 0.0);
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Source, responses};

    const IO: u64 = 32 << 10;

    /// A buffer of `buffer` IOs at 10 us; then cycles of 1800 IOs, of which 200 take 230 us each.
    fn buffered(buffer: usize, n: usize) -> Vec<u64> {
        let mut source = Source::new(1);
        responses(n, |i| {
            let jitter = source.log_normal(0.05);
            let is_stalled = i >= buffer && (i - buffer) % 1800 < 200;
            jitter * if is_stalled { 230.0 } else { 10.0 }
        })
    }

    #[test]
    fn a_write_buffer_is_found_behind_which_most_writes_stay_fast() {
        let found = pattern_stages("RW", &buffered(2048, 60_000), IO);
        let stage = found.stages.first().unwrap_or_else(|| panic!("{found:?}"));
        assert_eq!(found.stages.len(), 1, "{}", found.evidence);
        assert!(stage.bytes.abs_diff(2048 * IO) <= 8 * IO, "{} IOs", stage.bytes / IO);
        assert!((stage.response_ns_mean / 10_000.0 - 1.0).abs() < 0.02);
        let truth = 1000.0 * (200.0 * 230.0 + 1600.0 * 10.0) / 1800.0;
        let sustained = found.sustained_ns_mean.unwrap();
        assert!((sustained / truth - 1.0).abs() < 0.03, "{sustained} {truth}");
        assert!(found.is_settled && found.confidence > 0.999, "{found:?}");
        let cycle = found.cycle_bytes.unwrap_or_else(|| panic!("{}", found.evidence)) / IO;
        assert!(cycle.abs_diff(1800) <= 60, "a cycle of {cycle} IOs");
        assert_eq!(found.window_bytes / IO % cycle, 0, "a window has whole cycles");
    }

    #[test]
    fn a_buffer_before_a_cache_is_two_stages() {
        let mut source = Source::new(2);
        let all = responses(40_000, |i| {
            let level = if i < 500 {
                10.0
            } else if i < 5000 {
                30.0
            } else {
                200.0
            };
            level * source.log_normal(0.2)
        });
        let found = pattern_stages("SW", &all, IO);
        let ios: Vec<u64> = found.stages.iter().map(|stage| stage.bytes / IO).collect();
        assert_eq!(ios.len(), 2, "{ios:?}, {}", found.evidence);
        assert!(ios[0].abs_diff(500) <= 10 && (ios[0] + ios[1]).abs_diff(5000) <= 10, "{ios:?}");
    }

    #[test]
    fn without_a_buffer_there_is_no_stage() {
        for seed in 0..40 {
            let mut source = Source::new(seed);
            let noisy = responses(8000, |_| 100.0 * source.log_normal(0.3));
            let periodic = responses(8000, |i| if i % 128 == 100 { 9000.0 } else { 300.0 });
            let rare = responses(8000, |_| if source.unit() < 0.002 { 30_000.0 } else { 100.0 });
            for all in [noisy, periodic, rare] {
                let found = pattern_stages("RW", &all, IO);
                assert_eq!(found.stages, [], "seed {seed}: {}", found.evidence);
            }
        }
    }

    #[test]
    fn a_cache_that_the_run_does_not_fill_is_not_settled() {
        let mut source = Source::new(3);
        let all = responses(10_000, |i| if i < 9000 { 20.0 } else { 400.0 } * source.log_normal(0.1));
        let found = pattern_stages("RW", &all, IO);
        assert!(!found.is_settled);
        assert!(found.stages.is_empty() || found.sustained_ns_mean.is_none(), "{found:?}");
        assert!(!pattern_stages("RW", &[], IO).is_settled);
    }

    #[test]
    fn a_rate_that_alternates_by_design_is_settled_over_whole_cycles() {
        // A cache of 3000 IOs; then 4096 IOs folded at 1 ms, and 4096 into the space that this made.
        let mut source = Source::new(4);
        let level = |i: usize| match i {
            ..3000 => 20.0,
            _ if (i - 3000) % 8192 < 4096 => 1000.0,
            _ => 30.0,
        };
        let all = responses(120_000, |i| level(i) * source.log_normal(0.2));
        let found = pattern_stages("RW", &all, IO);
        let cycle = found.cycle_bytes.unwrap_or_else(|| panic!("{}", found.evidence)) / IO;
        assert!(cycle.abs_diff(8192) <= 120, "a cycle of {cycle} IOs");
        assert!(found.is_settled, "{}", found.evidence);
        assert!((found.sustained_ns_mean.unwrap() / 515_000.0 / 1.02 - 1.0).abs() < 0.03, "{found:?}");
        // Of three cycles nobody knows whether they go on.
        let few = pattern_stages("RW", &all[..20_000], IO);
        assert!(!few.is_settled && few.sustained_ns_mean.is_none(), "{}", few.evidence);
    }

    #[test]
    fn what_comes_back_is_counted_up_to_the_first_slow_writes() {
        let truth = |bytes: u64| {
            returned(&buffered((bytes / IO) as usize, 6000), IO, 34_400.0).map(|found| found.bytes)
        };
        assert!(truth(1024 * IO).unwrap().abs_diff(1024 * IO) <= 8 * IO);
        let slow = responses(4000, |i| if i % 1800 < 200 { 230.0 } else { 10.0 });
        assert_eq!(returned(&slow[..200], IO, 34_400.0), None);
    }

    #[test]
    fn a_run_too_short_to_show_its_buffer_shows_the_one_that_another_pattern_found() {
        let all = buffered(9000, 40_000);
        assert!(pattern_stages("SW", &all, IO).stages.is_empty(), "a stage of more than a fifth of the run");
        let found = pattern_stages_behind("SW", &all, IO, 8500 * IO);
        assert!((found.volatile_bytes / IO).abs_diff(9000) <= 8, "{}", found.evidence);
        assert!(found.is_settled, "{}", found.evidence);
        let level = buffered(0, 40_000);
        assert!(
            pattern_stages_behind("SW", &level, IO, 8500 * IO).stages.is_empty(),
            "what is not faster is no stage"
        );
    }

    #[test]
    fn a_burst_ends_where_the_first_of_two_rates_does() {
        // A buffer of 700 IOs, and a cache behind it.
        let two = |stall: Option<usize>| {
            let mut source = Source::new(5);
            responses(4000, |i| {
                let level = if i < 700 {
                    10.0
                } else if i < 2000 {
                    60.0
                } else {
                    900.0
                };
                level * source.log_normal(0.1) + if Some(i) == stall { 5000.0 } else { 0.0 }
            })
        };
        for stall in [None, Some(500)] {
            let found = returned(&two(stall), IO, 900_000.0).unwrap();
            assert!((found.bytes / IO).abs_diff(2000) <= 8, "{found:?}");
            assert!((found.burst_bytes / IO).abs_diff(700) <= 8, "{found:?}");
        }
        let clean = returned(&two(None), IO, 900_000.0).unwrap();
        assert!((clean.burst_ns / 10_000.0 - 1.0).abs() < 0.05, "{clean:?}");
        // One rate has no end before its own.
        let one = returned(&buffered(1024, 6000), IO, 34_400.0).unwrap();
        assert_eq!(one.burst_bytes, one.bytes);
    }
}
