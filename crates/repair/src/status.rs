//! What the logs do at present: their size, `p_h` and write amplification, measured and predicted.
//!
//! # Model
//! (Stoica et al. 2009, section 3.3.) A log with `alpha` physical pages for each live one finds the share
//! `p = e^(-alpha (1 - p))` of its pages live when it packs them ([`surviving_share`]). In the steady state a log frees the pages
//! that die in it. So a log in which the host overwrites `d` pages for each host write copies `d p / (1 - p)` pages for
//! each host write, and the predicted write amplification is `1 + sum of d p / (1 - p)` over the logs. The prediction uses
//! sizes and overwrites; it does not use what was copied, which is what is measured.
//!
//! A policy that knows more of its workload predicts by itself ([`Policy::predicted`](crate::Policy::predicted)).

use crate::model::{PredictedCost, surviving_share};
use crate::segment_table::LogId;

/// What happened in one log; sums since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFlow {
    /// Pages that the host wrote to it.
    pub host: u64,
    /// Pages of it that the host overwrote or discarded.
    pub overwritten: u64,
    /// Positions of its segments that were packed.
    pub packed: u64,
    /// Live pages that were copied out of these segments.
    pub copied_out: u64,
    /// Its physical pages, summed over the times at which a segment was packed.
    pub physical_samples: u64,
    /// Its live pages, summed over the same times.
    pub live_samples: u64,
}

impl LogFlow {
    pub(crate) fn since(&self, earlier: &LogFlow) -> LogFlow {
        LogFlow {
            host: self.host - earlier.host,
            overwritten: self.overwritten - earlier.overwritten,
            packed: self.packed - earlier.packed,
            copied_out: self.copied_out - earlier.copied_out,
            physical_samples: self.physical_samples - earlier.physical_samples,
            live_samples: self.live_samples - earlier.live_samples,
        }
    }
}

/// One log over a span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogStatus {
    /// The log.
    pub log: LogId,
    /// The mean number of its physical pages.
    pub physical_pages: f64,
    /// The mean number of its live pages.
    pub live_pages: f64,
    /// Physical pages for each live one. `None`: it has no live page.
    pub alpha: Option<f64>,
    /// The share of pages that were live when they were packed. `None`: nothing was packed.
    pub survival: Option<f64>,
    /// The share that the model predicts from `alpha`.
    pub survival_predicted: Option<f64>,
}

/// All logs over a span of time.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementStatus {
    /// Host writes in the span.
    pub host_writes: u64,
    /// Each log that had pages, the hottest first.
    pub logs: Vec<LogStatus>,
    /// Pages written for each page of the host, padding included. `None`: the host wrote nothing.
    pub write_amplification: Option<f64>,
    /// What the model predicts for it, padding excluded.
    pub write_amplification_predicted: Option<f64>,
}

impl PlacementStatus {
    /// The status of logs with these flows, in a span with so many samples of their sizes.
    pub(crate) fn new(
        flows: &[LogFlow],
        samples: u64,
        write_amplification: f64,
        own: Option<PredictedCost>,
    ) -> PlacementStatus {
        let host_writes: u64 = flows.iter().map(|flow| flow.host).sum();
        let status = |(log, flow): (u8, &LogFlow)| {
            let mean = |sum: u64| sum as f64 / samples.max(1) as f64;
            let alpha =
                (flow.live_samples > 0).then(|| flow.physical_samples as f64 / flow.live_samples as f64);
            LogStatus {
                log: LogId(log),
                physical_pages: mean(flow.physical_samples),
                live_pages: mean(flow.live_samples),
                alpha,
                survival: (flow.packed > 0).then(|| flow.copied_out as f64 / flow.packed as f64),
                survival_predicted: alpha.map(surviving_share),
            }
        };
        let mut logs: Vec<LogStatus> = (0..).zip(flows).map(status).collect();
        let predicted = match own {
            Some(cost) => {
                for (log, survival) in logs.iter_mut().zip([cost.hot_survival, cost.cold_survival]) {
                    log.survival_predicted = Some(survival);
                }
                Some(cost.write_amplification)
            }
            None => (host_writes > 0).then(|| predicted(flows, &logs, host_writes)),
        };
        logs.retain(|log| log.physical_pages > 0.0);
        PlacementStatus {
            host_writes,
            logs,
            write_amplification: (host_writes > 0).then_some(write_amplification),
            write_amplification_predicted: predicted,
        }
    }
}

fn predicted(flows: &[LogFlow], logs: &[LogStatus], host_writes: u64) -> f64 {
    let copies = flows.iter().zip(logs).map(|(flow, log)| {
        let survival = log.survival_predicted.unwrap_or(0.0).min(0.999);
        flow.overwritten as f64 / host_writes as f64 * survival / (1.0 - survival)
    });
    1.0 + copies.sum::<f64>()
}
