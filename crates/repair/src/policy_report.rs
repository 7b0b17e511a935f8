//! What a policy costs, as `flashlab repair simulate --json` and the package for Python return it.

use std::sync::atomic::AtomicBool;

use flashlab_base::Seed;
use serde::{Deserialize, Serialize};

use crate::error::RepairError;
use crate::model::surviving_share;
use crate::policy::Policy;
use crate::policy_run::{PolicyRun, PolicyRunSetup};
use crate::status::LogStatus;
use crate::write_workload::WorkloadKind;

/// What one policy costs.
#[derive(Debug, Serialize)]
pub struct PolicyReport {
    /// The policy's name.
    pub policy: String,
    /// The workload, as it is written on the command line.
    pub workload: String,
    /// Logical pages for each physical page.
    pub fill: f64,
    /// Segments of the volume.
    pub segments: u32,
    /// Positions of a segment.
    pub pages_per_segment: u32,
    /// The volume whose geometry it is.
    pub volume: Option<String>,
    /// The seed of the workload.
    pub seed: Seed,
    /// Pages written for each page of the host, in the measured span.
    pub write_amplification: f64,
    /// By the model of [`PlacementStatus`](crate::PlacementStatus).
    pub predicted: f64,
    /// Of a single log under uniform writes, packed in order.
    pub theory: Option<f64>,
    /// Memory of the policy for each logical page, in bytes.
    pub memory_per_page_bytes: f64,
    /// Its logs.
    pub logs: Vec<LogReport>,
    /// After the hot set moved.
    pub after_move: Option<MoveReport>,
}

/// How fast a policy follows a hot set that moved.
#[derive(Debug, Serialize)]
pub struct MoveReport {
    /// The write amplification of each half volume.
    pub half_volumes: Vec<f64>,
    /// Volumes written until the write amplification was, and stayed, as before. `None`: it was not.
    pub followed_after_volumes: Option<f64>,
}

/// One log over a span of time.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LogReport {
    /// Its number.
    pub log: u8,
    /// The mean number of its physical pages.
    pub physical_pages: f64,
    /// The mean number of its live pages.
    pub live_pages: f64,
    /// Physical pages for each live page.
    pub alpha: Option<f64>,
    /// The share of pages that were live when they were packed.
    pub p: Option<f64>,
    /// The share that the model predicts.
    pub p_predicted: Option<f64>,
}

impl LogReport {
    /// Of a placer's log.
    pub fn of(log: &LogStatus) -> LogReport {
        LogReport {
            log: log.log.0,
            physical_pages: log.physical_pages,
            live_pages: log.live_pages,
            alpha: log.alpha,
            p: log.survival,
            p_predicted: log.survival_predicted,
        }
    }
}

impl PolicyReport {
    /// Simulates a policy; `volume` is that whose geometry the setup has.
    ///
    /// # Errors
    /// Those of [`PolicyRunSetup::run`].
    pub fn of(
        setup: &PolicyRunSetup,
        policy: Box<dyn Policy>,
        volume: Option<String>,
        interrupt: &AtomicBool,
    ) -> Result<PolicyReport, RepairError> {
        let (name, memory_per_page_bytes) = (policy.name().to_owned(), policy.bytes_per_page());
        let PolicyRun { status, after_move } = setup.run(policy, interrupt)?;
        let fill = setup.geometry.fill();
        Ok(PolicyReport {
            policy: name,
            workload: setup.workload.to_string(),
            fill,
            segments: setup.geometry.segments(),
            pages_per_segment: setup.geometry.pages_per_segment(),
            volume,
            seed: setup.seed,
            write_amplification: status.write_amplification.unwrap_or(f64::NAN),
            predicted: status.write_amplification_predicted.unwrap_or(f64::NAN),
            theory: (setup.workload == WorkloadKind::Uniform)
                .then(|| 1.0 / (1.0 - surviving_share(1.0 / fill))),
            memory_per_page_bytes,
            logs: status.logs.iter().map(LogReport::of).collect(),
            after_move: after_move.map(|after| MoveReport {
                half_volumes: after.half_volumes,
                followed_after_volumes: after.followed_after_volumes,
            }),
        })
    }
}
