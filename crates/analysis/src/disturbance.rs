//! Decides how far a measurement was disturbed, and whether its figures still support a verdict.
//!
//! A run is disturbed if it has a flag that other programs or the machine caused. Other flags come from the
//! device or the plan. Repetitions that differ very much also show a disturbance, even if no counter shows
//! it.

use flashlab_base::{Bytes, Nanos, median};

use crate::findings::{Baseline, Disturbance, MicroBenchmark, RunSummary};

/// The flags that neither the device nor the plan causes.
const DISTURBING: [&str; 4] = ["interference", "processor_starved", "thermal", "recording_stalled"];
/// If more than this share of the runs is disturbed, there is no verdict.
const DISTURBED_MOST: f64 = 0.5;
/// Nor if the repetitions of the median point differ by more than this, relative to their mean. Chance could
/// then explain a factor of two.
const SPREAD_MOST: f64 = 0.5;
/// Traffic of others counts from this share of the run's own traffic on ...
const TRAFFIC_SHARE: f64 = 0.05;
/// ... and from this number of bytes on: every machine sometimes writes a log line.
const TRAFFIC_LEAST: Bytes = Bytes::mib(1);
/// Waiting for a CPU counts from this share of the time on.
const WAIT_SHARE: f64 = 0.02;

/// The traffic of other programs on the device during a run, as a share of the run's own; `None` if it is too
/// small to matter.
pub fn interference(others: Bytes, own: Bytes) -> Option<f64> {
    let share = others.0 as f64 / own.0.max(1) as f64;
    (others >= TRAFFIC_LEAST && share >= TRAFFIC_SHARE).then_some(share)
}

/// The share of its time that a run waited for a CPU; `None` if it is too small to matter.
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
            spread_median: median(&spreads),
        }
    }

    /// Why these runs support no verdict, for example `Too disturbed for a verdict: ...`; `None` if they do.
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
        // Effects of the device and the plan are no disturbance.
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
