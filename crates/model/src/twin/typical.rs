//! Typical figures of a run, from which a fit begins.

use flashlab_analysis::findings::Regime;
use flashlab_bench::Purpose;

use super::measured::MeasuredRuns;

/// Typical times of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Typical {
    /// The smallest random reads' median, in nanoseconds.
    pub read_ns: f64,
    /// The smallest sequential writes' median.
    pub write_ns: f64,
    /// What each byte of a large read adds.
    pub read_ns_per_byte: f64,
}

impl Typical {
    /// Those of a run; `None` where it has no granularity micro-benchmark.
    pub fn of(measured: &MeasuredRuns) -> Option<Typical> {
        let reads = medians(measured, "RR");
        let writes = medians(measured, "SW");
        let (smallest, largest) = (reads.first()?, reads.last()?);
        let bytes = (largest.0 - smallest.0).max(1.0);
        Some(Typical {
            read_ns: smallest.1,
            write_ns: writes.first().map_or(smallest.1 * 2.0, |write| write.1),
            read_ns_per_byte: ((largest.1 - smallest.1) / bytes).max(1e-3),
        })
    }
}

/// The medians of the granularity micro-benchmark, by size.
fn medians(measured: &MeasuredRuns, pattern: &str) -> Vec<(f64, f64)> {
    let mut medians: Vec<(f64, f64)> = Vec::new();
    for run in &measured.runs {
        let Purpose::Point { plan, experiment, regime, value, repetition: 1, .. } = &run.purpose else {
            continue;
        };
        if plan == "granularity"
            && experiment == pattern
            && *regime != Some(Regime::Burst)
            && run.responses.iter().any(|responses| !responses.is_empty())
        {
            let mut sorted = run.all_responses();
            sorted.sort_unstable();
            medians.push((*value, sorted[sorted.len() / 2] as f64));
        }
    }
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    medians
}
