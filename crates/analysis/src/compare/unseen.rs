//! How much longer a mean may be than its sample shows, because rare slow IOs were not seen yet.
//!
//! # Model
//! A sample bounds its quantiles, but never its mean: an event that is rarer than the sample is long can have any cost, and no
//! statistic of the sample shows it (Bahadur and Savage 1956). So the bound has to assume what the slowest IO costs.
//!
//! # Method
//! 1. An event with a probability above `ln(1 / alpha) / n` is missed by n IOs with a probability below alpha. For
//!    alpha = 5 % that is the rule of three, 3 / n (Hanley and Lippman-Hand 1983).
//! 2. Such an event costs at most the slowest IO that is known: of these IOs, of the same experiment in the run they
//!    are compared with, and [`MERGE`].
//! 3. The product is added to the upper end of the mean's interval. The lower end stays: an event that was not seen makes no mean
//!    smaller.
//!
//! # Invariants
//! - A larger confidence and a smaller sample never give a smaller bound.

/// 20 ms, the cost of a random write that merges blocks: 5 to 18 ms on the SSDs of uFLIP (Table 3), rounded up. Devices whose
/// merges are slower (its USB drives: 270 ms) make each random write wait for one, and so their samples show it. With a smaller
/// bound, a device whose rare merges were not seen meets expectations that it breaks. With a larger one, means of fast devices need more IOs.
const MERGE: f64 = 20e6;

/// By how much the mean of `count` IOs may be longer than its sample shows, in nanoseconds; wrong with the probability `alpha`.
/// `slowest_ns` is the longest known response time.
pub(super) fn unseen_ns(count: f64, slowest_ns: f64, alpha: f64) -> f64 {
    -alpha.ln() / count * slowest_ns.max(MERGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_rule_of_three() {
        // 3 of 300 IOs may be merges of 20 ms each: 200 us an IO.
        assert_eq!((unseen_ns(300.0, 0.0, 0.05) / 1e3).round(), 200.0);
        // A slower IO that was seen counts instead.
        assert_eq!((unseen_ns(300.0, 60e6, 0.05) / 1e3).round(), 599.0);
        assert!(unseen_ns(300.0, 0.0, 0.01) > unseen_ns(300.0, 0.0, 0.05));
    }
}
