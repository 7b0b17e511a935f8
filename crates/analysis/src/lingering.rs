//! How long random writes linger in the reads after them (uFLIP section 4.3, Figure 5).
//!
//! Model: before the writes, a read is slow (over a threshold) with some probability. After them
//! it is so with a greater one, until the effect ends, and then as before. The end is the most
//! likely one (Bernoulli likelihood). Three thresholds are tried, the median, 90th and 99th
//! percentile of the reads before, so that many reads that are a little slower are seen as well as
//! few that are much slower, and outliers before hide nothing. Thresholds lie at least a tenth over
//! the median: less is not worth a pause.

use flashlab_base::Nanos;

use crate::findings::Lingering;
use crate::point::mean;

/// The pause where nothing lingers (uFLIP section 5.1: "1 s, to be conservative").
const PAUSE_MIN: Nanos = Nanos::from_secs(1);
/// The logarithm of how many times more likely the reads must be with an effect than without;
/// generous because reads that follow each other are not independent.
const LOG_LIKELIHOOD_MIN: f64 = 12.0;
/// A read counts as slow only if it takes this many times the median of those before.
const SLOWDOWN_MIN: f64 = 1.1;

/// Compares the response times `after` the writes, each with its start, with those `before`;
/// `writes_end` is on the clock of the starts. The affected reads are those up to the last one of
/// the affected stretch; the pause over-estimates the time that they took twofold, as the paper
/// used 5 s for 2.5 s, and fourfold where the effect outlasted the experiment. A caller in a hurry
/// may cap it.
pub fn lingering(before: &[u64], writes_end: Nanos, after: &[(Nanos, u64)]) -> Lingering {
    let mut sorted = before.to_vec();
    sorted.sort_unstable();
    let stretch = if sorted.is_empty() { None } else { longest_likely(&sorted, after) };
    let affected_reads = stretch.as_ref().map_or(0, |stretch| stretch.reads);
    let slow: Vec<f64> = after[..affected_reads].iter().map(|&(_, ns)| ns as f64).collect();
    let affected = affected_reads.checked_sub(1).map_or(Nanos::ZERO, |last| {
        let (start, response_ns) = after[last];
        start.saturating_add(Nanos(response_ns)).since(writes_end)
    });
    let still_affected_at_end = affected_reads > 0 && after.len() - affected_reads <= after.len() / 50;
    Lingering {
        affected_reads: affected_reads as u64,
        affected,
        before_ns_mean: mean(&before.iter().map(|&ns| ns as f64).collect::<Vec<_>>()).unwrap_or(0.0),
        affected_ns_mean: mean(&slow),
        still_affected_at_end,
        pause: pause(affected, still_affected_at_end),
        evidence: evidence(before.len(), after.len(), stretch.as_ref(), affected, still_affected_at_end),
    }
}

/// Twice the affected time (four times where its end was not seen), up to the next half second.
fn pause(affected: Nanos, still_affected_at_end: bool) -> Nanos {
    const HALF_SECOND: u64 = 500_000_000;
    let factor = if still_affected_at_end { 4 } else { 2 };
    let generous = affected.get().saturating_mul(factor);
    Nanos(generous.checked_next_multiple_of(HALF_SECOND).unwrap_or(generous)).max(PAUSE_MIN)
}

/// A stretch of reads after the writes that are slow more often than before.
struct Stretch {
    reads: usize,
    slow: usize,
    threshold: u64,
    /// The share of slow reads before.
    share_before: f64,
    log_likelihood: f64,
}

/// The most likely affected stretch over all thresholds, if it is likely enough.
fn longest_likely(sorted_before: &[u64], after: &[(Nanos, u64)]) -> Option<Stretch> {
    let quantile = |q: f64| sorted_before[((sorted_before.len() - 1) as f64 * q) as usize];
    let least = (quantile(0.5) as f64 * SLOWDOWN_MIN) as u64;
    [0.5, 0.9, 0.99]
        .into_iter()
        .map(|q| quantile(q).max(least))
        .filter_map(|threshold| affected_stretch(sorted_before, after, threshold))
        .filter(|stretch| stretch.log_likelihood >= LOG_LIKELIHOOD_MIN)
        .max_by(|a, b| a.log_likelihood.total_cmp(&b.log_likelihood))
}

/// The most likely end of the effect, by the reads over `threshold`.
fn affected_stretch(sorted_before: &[u64], after: &[(Nanos, u64)], threshold: u64) -> Option<Stretch> {
    let slow_before = sorted_before.len() - sorted_before.partition_point(|&ns| ns <= threshold);
    // Laplace's rule: what never happened before is rare, not impossible.
    let share_before = (slow_before + 1) as f64 / (sorted_before.len() + 2) as f64;
    let (mut slow, mut best): (usize, Option<Stretch>) = (0, None);
    for (i, &(_, response_ns)) in after.iter().enumerate() {
        if response_ns <= threshold {
            continue;
        }
        slow += 1;
        let log_likelihood = log_likelihood_ratio(slow, i + 1, share_before);
        if best.as_ref().is_none_or(|best| log_likelihood > best.log_likelihood) {
            best = Some(Stretch { reads: i + 1, slow, threshold, share_before, log_likelihood });
        }
    }
    best
}

/// How much likelier `slow` of `reads` are at their own share than at the share before.
fn log_likelihood_ratio(slow: usize, reads: usize, share_before: f64) -> f64 {
    let share = slow as f64 / reads as f64;
    if share <= share_before {
        return 0.0;
    }
    let fast = (reads - slow) as f64;
    let fast_term = if fast > 0.0 { fast * ((1.0 - share) / (1.0 - share_before)).ln() } else { 0.0 };
    slow as f64 * (share / share_before).ln() + fast_term
}

fn evidence(
    before: usize,
    after: usize,
    stretch: Option<&Stretch>,
    affected: Nanos,
    still_affected_at_end: bool,
) -> String {
    match stretch {
        _ if before == 0 || after == 0 => {
            format!("{before} reads before and {after} after the writes are too few to compare")
        }
        None => format!(
            "none of {after} reads after the writes is in a slow stretch, compared with {before} before"
        ),
        Some(stretch) => format!(
            "{:.0} % of the first {} reads after the writes took over {}, of the {before} before {:.1} %; that \
             lasted {affected}{}",
            stretch.slow as f64 / stretch.reads as f64 * 100.0,
            stretch.reads,
            Nanos(stretch.threshold),
            stretch.share_before * 100.0,
            if still_affected_at_end { " and had not ended when the experiment did" } else { "" },
        ),
    }
}
