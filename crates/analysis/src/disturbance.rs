//! How far a measurement was disturbed, and whether it still carries a verdict.
//!
//! A run is disturbed where it was flagged for what something else did: the other kinds of flags tell of
//! the device or of the plan. Repetitions that lie wide apart tell of a disturbance that nobody saw.

use flashlab_base::{Bytes, Nanos};

use crate::curve::median;
use crate::findings::{Baseline, Disturbance, MicroBenchmark, RunSummary};

/// The flags of runs that something else than the device and the plan had a part in.
const DISTURBING: [&str; 4] = ["interference", "processor_starved", "thermal", "recording_stalled"];
/// With more disturbed runs than this share, there is no verdict.
const DISTURBED_MOST: f64 = 0.5;
/// Nor where the repetitions of the median point lie further apart than this, relative to their mean: so
/// far that a cost twice as high may be chance.
const SPREAD_MOST: f64 = 0.5;
/// What others moved counts from this part of what a run moved itself ...
const TRAFFIC_SHARE: f64 = 0.05;
/// ... and this many bytes: every machine writes a log line now and then.
const TRAFFIC_LEAST: Bytes = Bytes::mib(1);
/// Waiting for a processor counts from this part of the time.
const WAIT_SHARE: f64 = 0.02;

/// Which part of its own traffic others moved on the device beside a run, if that is enough to matter.
pub fn interference(others: Bytes, own: Bytes) -> Option<f64> {
    let share = others.0 as f64 / own.0.max(1) as f64;
    (others >= TRAFFIC_LEAST && share >= TRAFFIC_SHARE).then_some(share)
}

/// Which part of its time a run waited for a processor, if that is enough to matter.
pub fn starvation(wait: Nanos, time: Nanos) -> Option<f64> {
    let share = wait.0 as f64 / time.0.max(1) as f64;
    (share >= WAIT_SHARE).then_some(share)
}

impl Disturbance {
    /// How far these runs were disturbed.
    pub fn of<'a>(
        baselines: &[Baseline],
        micro_benchmarks: impl IntoIterator<Item = &'a MicroBenchmark> + Clone,
    ) -> Disturbance {
        let experiments = || micro_benchmarks.clone().into_iter().flat_map(|micro| &micro.experiments);
        let points = || experiments().flat_map(|experiment| &experiment.points);
        let runs = || baselines.iter().map(|b| &b.run).chain(points().flat_map(|point| &point.runs));
        let spreads: Vec<f64> = points().filter_map(|point| point.spread).collect();
        Disturbance {
            runs: runs().count() as u64,
            disturbed_runs: runs().filter(|run| is_disturbed(run)).count() as u64,
            spread_median: (!spreads.is_empty()).then(|| median(&spreads)),
        }
    }

    /// Why these runs carry no verdict, as `Too disturbed for a verdict: ...`; `None` where they do.
    pub fn forbids(&self) -> Option<String> {
        let Disturbance { runs, disturbed_runs, spread_median } = *self;
        let share = disturbed_runs as f64 / runs.max(1) as f64;
        let spread = spread_median.filter(|&spread| spread > SPREAD_MOST);
        if share <= DISTURBED_MOST && spread.is_none() {
            return None;
        }
        let flagged = format!("{:.0} % of {runs} runs were flagged as disturbed", share * 100.0);
        let apart = spread.map(|spread| {
            format!(
                ", and the repetitions of the median point lie {:.0} % of their mean apart",
                spread * 100.0
            )
        });
        Some(format!("Too disturbed for a verdict: {flagged}{}", apart.unwrap_or_default()))
    }
}

fn is_disturbed(run: &RunSummary) -> bool {
    run.flags.iter().any(|flag| DISTURBING.contains(&flag.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::point;
    use crate::synthetic::{baseline, micro, run};

    /// A point of three repetitions, of which the first `disturbed` have this flag.
    fn flagged(disturbed: usize, flag: &str) -> MicroBenchmark {
        let runs = (0..3).map(|index| RunSummary {
            flags: if index < disturbed { vec![flag.to_owned()] } else { Vec::new() },
            ..run(100.0)
        });
        let mut micro = micro("Incr", "SW", &[]);
        micro.experiments[0].points = vec![point(1.0, "1", runs.collect())];
        micro
    }

    fn forbids(micros: &[MicroBenchmark]) -> Option<String> {
        Disturbance::of(&[], micros).forbids()
    }

    #[test]
    fn most_runs_must_be_undisturbed() {
        assert_eq!(forbids(&[]), None);
        assert_eq!(forbids(&[flagged(1, "interference")]), None);
        assert_eq!(
            forbids(&[flagged(2, "processor_starved")]).as_deref(),
            Some("Too disturbed for a verdict: 67 % of 3 runs were flagged as disturbed")
        );
        // Baselines count as well: two of four runs are not most of them.
        let found = Disturbance::of(&[baseline("SR", 1.0)], &[flagged(2, "thermal")]);
        assert_eq!((found.runs, found.disturbed_runs, found.forbids()), (4, 2, None));
        // What the device and the plan do is no disturbance.
        assert_eq!(forbids(&[flagged(3, "startup_shortened")]), None);
    }

    #[test]
    fn repetitions_must_not_lie_wide_apart() {
        let apart = |means: [f64; 3]| {
            let mut micro = micro("Incr", "SW", &[]);
            micro.experiments[0].points = vec![point(1.0, "1", means.map(run).to_vec())];
            micro
        };
        assert_eq!(forbids(&[apart([100.0, 120.0, 140.0])]), None);
        assert_eq!(
            forbids(&[apart([100.0, 100.0, 200.0])]).as_deref(),
            Some(
                "Too disturbed for a verdict: 0 % of 3 runs were flagged as disturbed, and the repetitions of the median point lie 75 % of their mean apart"
            )
        );
    }
}
