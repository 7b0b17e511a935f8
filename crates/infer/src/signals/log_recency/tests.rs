use flashlab_base::{Prng, Seed};

use super::*;

/// How often blocks are written to alternating.
const ROUNDS: u64 = 4;
/// The log-likelihood ratio from which on a number is likely.
const LIKELY: f64 = 5.0;

/// A pass over 24 places, with a look at `candidate` logs, behind a buffer of this many pages.
fn trace(seed: u64, logs: usize, candidate: u64, held: usize, evicted: Evicted) -> RecencyTrace {
    let mut blocks = vec![None; 2 * held];
    blocks.extend((0..24).chain([23; ROUNDS as usize]).chain(0..24).map(Some));
    blocks.extend([0].into_iter().chain((1..24).rev()).map(Some));
    for count in [candidate, candidate + 1] {
        for _ in 0..ROUNDS {
            blocks.extend([1].into_iter().chain((2..=count).rev()).map(Some));
        }
    }
    blocks.extend(vec![None; 2 * held]);
    let mut trace = RecencyTrace { begin: 2 * held + 24, latest: 2 * held, blocks, costs: Vec::new() };
    let merges = trace.merges(logs, evicted);
    let mut random = Prng::new(Seed(seed));
    let mut cost = |at: usize| {
        let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
        let merge = at >= held && merges[at - held];
        (1.0 + 0.1 * random.unit()) * 1e6 * f64::max(outlier, if merge { 20.0 } else { 1.0 })
    };
    trace.costs = (0..trace.blocks.len()).map(&mut cost).collect();
    trace
}

#[test]
fn the_logs_are_counted_whichever_is_evicted_and_behind_a_buffer() {
    for (seed, logs) in [1, 2, 5, 7, 11].into_iter().enumerate() {
        for evicted in [Evicted::OpenedFirst, Evicted::UsedFirst] {
            for (candidate, held) in [(logs, 0), (1, 0), (logs, 37)] {
                let trace = trace(seed as u64, logs, candidate as u64, held, evicted);
                let (told, margin) = likeliest_logs(&trace.log_likelihoods(24).unwrap()).unwrap();
                // Another number was looked at: one outlier at the edge may count for a log.
                assert!(
                    told.abs_diff(logs) <= usize::from(candidate != logs),
                    "{logs} {candidate} {held}: {told}"
                );
                assert!(candidate != logs || margin >= LIKELY, "{logs} {held}: {margin}");
            }
        }
    }
}

#[test]
fn how_much_later_a_write_waits_is_seen_without_knowing_the_logs() {
    // One log is looked at, so that the writes alternating are fast with two: as if all came earlier with one.
    for (seed, evicted) in [Evicted::OpenedFirst, Evicted::UsedFirst].into_iter().enumerate() {
        let gains = trace(seed as u64, 2, 1, 33, evicted).log_likelihoods(24).unwrap();
        assert!(gains[2] >= gains[0].max(gains[1]) + LIKELY, "{gains:?}");
    }
}

#[test]
fn what_was_deferred_is_done_while_a_write_takes_long() {
    let mut trace = trace(3, 5, 5, 0, Evicted::UsedFirst);
    // Twice a merge takes ten times as long, and the next ones are deferred.
    let merges: Vec<usize> = (trace.begin..trace.blocks.len()).filter(|&at| trace.costs[at] > 15e6).collect();
    for long in [3, 25] {
        trace.costs[merges[long]] *= 10.0;
        merges[long + 1..long + 8].iter().for_each(|&at| trace.costs[at] /= 20.0);
    }
    let (told, margin) = likeliest_logs(&trace.log_likelihoods(24).unwrap()).unwrap();
    assert!(told == 5 && margin >= LIKELY, "{told} {margin}");
    // But what is fast without that says that a log was there.
    let wrong = -trace.log_likelihoods(24).unwrap()[5] / EXPECTED_LOG_ODDS;
    trace.costs[merges[40]] /= 20.0;
    assert!(-trace.log_likelihoods(24).unwrap()[5] / EXPECTED_LOG_ODDS > wrong);
}

#[test]
fn writes_that_are_all_alike_tell_no_number() {
    for (seed, logs) in [(0, 24), (1, 30)] {
        let trace = trace(seed, logs, 3, 0, Evicted::OpenedFirst);
        assert!(trace.log_likelihoods(24).is_none_or(|log_likelihoods| {
            likeliest_logs(&log_likelihoods).is_none_or(|(logs, _)| logs == 0)
        }));
    }
}
