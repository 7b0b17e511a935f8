//! Thins out response times for a plot (uFLIP Figures 3 to 5).
//!
//! A plot is about a thousand pixels wide, and a run may have millions of IOs. So each column of the plot keeps only
//! its slowest and its fastest IO, at their positions. The running averages are computed from all IOs, before any are
//! left out.
//!
//! Invariant: positions are strictly ascending, and there are at most `max_points` of them, or two if
//! `max_points` is smaller.

use crate::findings::{Phases, ResponseTrace};

/// Thins `response_ns`, in the order of the IOs, to at most `max_points` points. A `max_points` below 2 counts as 2. With
/// `phases`, the trace marks where each phase begins, and `running_mean_without_startup_ns` leaves the start-up phase out.
pub fn trace(name: &str, response_ns: &[u64], phases: Option<&Phases>, max_points: usize) -> ResponseTrace {
    let startup = phases.map_or(0, |phases| phases.startup_ios as usize).min(response_ns.len());
    let kept = kept_positions(response_ns, max_points.max(2));
    let mut trace = ResponseTrace { name: name.to_owned(), marks: marks(phases), ..ResponseTrace::default() };
    let (mut sum, mut sum_running, mut next) = (0u128, 0u128, 0);
    for (position, &response) in response_ns.iter().enumerate() {
        sum += u128::from(response);
        if position >= startup {
            sum_running += u128::from(response);
        }
        if kept.get(next) != Some(&position) {
            continue;
        }
        next += 1;
        trace.position.push(position as u64);
        trace.response_ns.push(response);
        trace.running_mean_ns.push(sum as f64 / (position + 1) as f64);
        trace
            .running_mean_without_startup_ns
            .push((position >= startup).then(|| sum_running as f64 / (position + 1 - startup) as f64));
    }
    trace
}

/// Where each phase begins.
fn marks(phases: Option<&Phases>) -> Vec<(u64, String)> {
    match phases {
        None => Vec::new(),
        Some(phases) if phases.startup_ios == 0 => vec![(0, "running phase".to_owned())],
        Some(phases) => {
            vec![(0, "start-up phase".to_owned()), (phases.startup_ios, "running phase".to_owned())]
        }
    }
}

/// The positions of each column's smallest and largest response time, ascending.
fn kept_positions(response_ns: &[u64], max_points: usize) -> Vec<usize> {
    if response_ns.len() <= max_points {
        return (0..response_ns.len()).collect();
    }
    let buckets = max_points / 2;
    let mut kept = Vec::with_capacity(max_points);
    for bucket in 0..buckets {
        let begin = bucket * response_ns.len() / buckets;
        let end = (bucket + 1) * response_ns.len() / buckets;
        let smallest = (begin..end).min_by_key(|&i| response_ns[i]).expect("a bucket holds at least one IO");
        let largest = (begin..end).max_by_key(|&i| response_ns[i]).expect("a bucket holds at least one IO");
        kept.push(smallest.min(largest));
        if smallest != largest {
            kept.push(smallest.max(largest));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn two_phases(startup_ios: u64) -> Phases {
        Phases {
            startup_ios,
            startup_ns_mean: None,
            running_ns_mean: 0.0,
            period_ios: None,
            startup_confidence: 1.0,
            period_confidence: 1.0,
            evidence: String::new(),
        }
    }

    #[test]
    fn a_short_run_is_kept_whole_with_both_averages() {
        let got = trace("RW", &[10, 20, 60, 40], Some(&two_phases(2)), 100);
        assert_eq!(got.position, [0, 1, 2, 3]);
        assert_eq!(got.response_ns, [10, 20, 60, 40]);
        assert_eq!(got.running_mean_ns, [10.0, 15.0, 30.0, 32.5]);
        assert_eq!(got.running_mean_without_startup_ns, [None, None, Some(60.0), Some(50.0)]);
        assert_eq!(got.marks, [(0, "start-up phase".to_owned()), (2, "running phase".to_owned())]);
    }

    #[test]
    fn nothing_gives_an_empty_trace() {
        let got = trace("SR", &[], None, 0);
        assert_eq!(got, ResponseTrace { name: "SR".to_owned(), ..ResponseTrace::default() });
    }

    proptest! {
        #[test]
        fn thinning_keeps_the_extremes_and_the_averages(
            values in prop::collection::vec(1u64..1_000_000, 1..3000),
            max_points in 0usize..300,
            startup in 0u64..4000,
        ) {
            let got = trace("RR", &values, Some(&two_phases(startup)), max_points);
            prop_assert!(got.position.len() <= max_points.max(2));
            prop_assert!(got.position.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(got.response_ns.iter().max(), values.iter().max());
            prop_assert_eq!(got.response_ns.iter().min(), values.iter().min());
            for (i, &position) in got.position.iter().enumerate() {
                let upto = &values[..=position as usize];
                let mean = upto.iter().sum::<u64>() as f64 / upto.len() as f64;
                prop_assert_eq!(got.response_ns[i], values[position as usize]);
                prop_assert!((got.running_mean_ns[i] - mean).abs() < 1e-6 * mean);
                prop_assert_eq!(
                    got.running_mean_without_startup_ns[i].is_some(),
                    position >= startup.min(values.len() as u64)
                );
            }
        }
    }
}
