//! Finds how long random writes slow down the reads after them (uFLIP section 4.3, Figure 5).
//!
//! # Model
//! A read is slow if it is over a threshold. Before the writes, a read is slow with some probability. After
//! them the probability is higher until the effect ends, and then the same as before. The end is the most
//! likely one (Bernoulli likelihood).
//!
//! # Method
//! 1. Three thresholds are tried: the median, 90th and 99th percentile of the reads before. So the method
//!    detects many reads that are a little slower as well as few that are much slower, and outliers before
//!    the writes hide nothing.
//! 2. A threshold is at least 10 % over the median, because a smaller slowdown is not worth a pause.

use flashlab_base::Nanos;

use crate::findings::Lingering;
use crate::point::mean;

/// The pause without a lingering effect (uFLIP section 5.1: "1 s, to be conservative").
const PAUSE_MIN: Nanos = Nanos::from_secs(1);
/// The natural logarithm of the likelihood ratio from which on an effect is reported. It is large because
/// neighbouring reads are not independent.
const LOG_LIKELIHOOD_MIN: f64 = 12.0;
/// A read counts as slow only if it takes this many times the median of the reads before.
const SLOWDOWN_MIN: f64 = 1.1;

/// Compares the response times `after` the writes, each with its start, with those `before`; `writes_end` is
/// on the clock of the starts. The affected reads are those up to the last one of the affected stretch. The
/// pause is twice their time, as the paper took 5 s for 2.5 s, and four times if the effect outlasted the
/// experiment. A caller with little time may limit it.
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

/// Twice the affected time (four times if its end was not seen), rounded up to half a second.
fn pause(affected: Nanos, still_affected_at_end: bool) -> Nanos {
    const HALF_SECOND: u64 = 500_000_000;
    let factor = if still_affected_at_end { 4 } else { 2 };
    let generous = affected.get().saturating_mul(factor);
    Nanos(generous.checked_next_multiple_of(HALF_SECOND).unwrap_or(generous)).max(PAUSE_MIN)
}

/// A stretch of reads after the writes in which slow reads are more frequent than before.
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

/// The most likely end of the effect, from the reads over `threshold`.
fn affected_stretch(sorted_before: &[u64], after: &[(Nanos, u64)], threshold: u64) -> Option<Stretch> {
    let before = sorted_before.len();
    let slow_before = before - sorted_before.partition_point(|&ns| ns <= threshold);
    let slow_after = after.iter().filter(|&&(_, ns)| ns > threshold).count();
    let share_before = slow_before as f64 / before as f64;
    let (mut slow, mut best): (usize, Option<Stretch>) = (0, None);
    for (i, &(_, response_ns)) in after.iter().enumerate() {
        if response_ns <= threshold {
            continue;
        }
        slow += 1;
        let reads = i + 1;
        // The reads after the stretch are like those before the writes. They also show rare slow reads that
        // the few reads before did not contain.
        let (rest, slow_rest) = (before + after.len() - reads, slow_before + slow_after - slow);
        let apart = log_likelihood(slow, reads) + log_likelihood(slow_rest, rest);
        let log_likelihood = apart - log_likelihood(slow + slow_rest, reads + rest);
        let slower = slow as f64 / reads as f64 > share_before.max(slow_rest as f64 / rest as f64);
        if slower && best.as_ref().is_none_or(|best| log_likelihood > best.log_likelihood) {
            best = Some(Stretch { reads, slow, threshold, share_before, log_likelihood });
        }
    }
    best
}

/// The log-likelihood of `slow` of `reads` with the share that they have.
fn log_likelihood(slow: usize, reads: usize) -> f64 {
    let term = |n: usize| if n == 0 { 0.0 } else { n as f64 * (n as f64 / reads as f64).ln() };
    term(slow) + term(reads - slow)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Source, responses};
    use proptest::prelude::*;

    const WRITES_END: Nanos = Nanos::from_secs(100);

    /// Consecutive reads, starting at the end of the writes.
    fn consecutive(response_ns: Vec<u64>) -> Vec<(Nanos, u64)> {
        let mut now = WRITES_END;
        response_ns
            .into_iter()
            .map(|response_ns| {
                let start = now;
                now = now.saturating_add(Nanos(response_ns));
                (start, response_ns)
            })
            .collect()
    }

    /// A read of 0.4 ms, one in a hundred of which takes 5 ms.
    fn normal_read(source: &mut Source) -> f64 {
        if source.unit() < 0.01 { 5000.0 } else { 400.0 * source.log_normal(0.05) }
    }

    #[test]
    fn the_mtron_of_figure_5_lingers_for_3000_reads_and_two_and_a_half_seconds() {
        for seed in 0..50 {
            let mut s = Source::new(seed);
            let before = responses(1000, |_| normal_read(&mut s));
            // Half of the affected reads wait for garbage collection: 0.83 ms on average.
            let after = responses(8000, |i| match i < 3000 && (i == 2999 || s.unit() < 0.5) {
                true => 1260.0 * s.log_normal(0.2),
                false => normal_read(&mut s),
            });
            let got = lingering(&before, WRITES_END, &consecutive(after));
            assert!((2985..=3015).contains(&got.affected_reads), "seed {seed}: {}", got.evidence);
            assert!((2.2..2.9).contains(&got.affected.as_secs_f64()), "seed {seed}: {}", got.evidence);
            assert!((4.5..=6.0).contains(&got.pause.as_secs_f64()), "seed {seed}: {}", got.pause);
            assert!(!got.still_affected_at_end);
            assert!(got.affected_ns_mean.unwrap() > 1.5 * got.before_ns_mean);
        }
    }

    #[test]
    fn nothing_lingers_where_the_reads_are_as_before() {
        let mut false_alarms = 0;
        for seed in 0..1000 {
            let mut s = Source::new(seed);
            let before = responses(500, |_| normal_read(&mut s));
            let mut after = responses(2000, |_| normal_read(&mut s));
            // Two isolated slow reads far later.
            (after[1500], after[1700]) = (30_000_000, 30_000_000);
            let got = lingering(&before, WRITES_END, &consecutive(after));
            if got.affected_reads == 0 {
                assert_eq!(
                    (got.pause, got.affected, got.affected_ns_mean),
                    (Nanos::from_secs(1), Nanos::ZERO, None)
                );
            } else {
                false_alarms += 1;
            }
        }
        assert!(false_alarms <= 3, "{false_alarms} of the seeds 0..1000");
    }

    #[test]
    fn a_slow_down_of_all_reads_is_seen_though_few_are_slower_than_the_slowest_before() {
        for seed in 0..50 {
            let mut s = Source::new(seed);
            let before = responses(500, |_| if s.unit() < 0.05 { 9000.0 } else { 100.0 * s.log_normal(0.2) });
            let after = responses(2000, |i| if i < 200 { 150.0 } else { 100.0 } * s.log_normal(0.2));
            let got = lingering(&before, WRITES_END, &consecutive(after));
            assert!((180..=220).contains(&got.affected_reads), "seed {seed}: {}", got.evidence);
        }
    }

    #[test]
    fn an_effect_that_outlasts_the_experiment_is_said_to() {
        let got = lingering(&[100_000; 100], WRITES_END, &consecutive(vec![1_000_000; 500]));
        assert_eq!((got.affected_reads, got.still_affected_at_end), (500, true));
        assert_eq!((got.affected, got.pause), (Nanos::from_millis(500), Nanos::from_secs(2)));
        assert!(got.evidence.contains("had not ended"), "{}", got.evidence);
    }

    #[test]
    fn nothing_to_compare_is_said_to_be_too_few() {
        for (before, after) in [(vec![], vec![(WRITES_END, 5)]), (vec![5], vec![]), (vec![], vec![])] {
            let got = lingering(&before, WRITES_END, &after);
            assert_eq!((got.affected_reads, got.pause), (0, Nanos::from_secs(1)));
            assert!(got.evidence.contains("too few"));
        }
    }

    proptest! {
        #[test]
        fn nothing_panics_and_the_pause_covers_the_effect(
            before in prop::collection::vec(any::<u64>(), 0..50),
            after in prop::collection::vec((any::<u64>(), any::<u64>()), 0..200),
        ) {
            let after: Vec<_> = after.into_iter().map(|(start, ns)| (Nanos(start), ns)).collect();
            let got = lingering(&before, WRITES_END, &after);
            prop_assert!(got.pause >= got.affected && got.affected_reads <= after.len() as u64);
            prop_assert!(got.before_ns_mean.is_finite());
        }
    }
}
