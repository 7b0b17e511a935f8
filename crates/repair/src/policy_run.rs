//! One policy on one workload, in virtual time: what it costs in the steady state and after the hot set moved.
//!
//! # Method
//! 1. The volume is filled once, in order.
//! 2. So many volumes are written to settle, and then so many to measure. A volume is the number of logical pages.
//! 3. If asked for, the hot set moves. The write amplification of each half volume follows, for four volumes.

use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_base::Seed;

use crate::error::RepairError;
use crate::layout::VolumeLayout;
use crate::policy::Policy;
use crate::simulated_records::HostLoad;
use crate::simulation::SimulatedVolume;
use crate::status::PlacementStatus;
use crate::write_workload::{WorkloadKind, WriteWorkload};

/// Half volumes that are looked at after the hot set moved.
const WINDOWS: usize = 8;
/// More pages than this do not fit in the map of a simulated volume.
const MOST_PAGES: u64 = 1 << 31;
/// A policy has followed when its cost is within this share of what it was.
const FOLLOWED: f64 = 0.1;

/// The volume that is simulated.
#[derive(Clone, Debug)]
pub enum SimulatedGeometry {
    /// Segments of pages, of which packing keeps as few free as it can: what the policy costs by itself.
    Plain {
        /// Segments of the volume.
        segments: u32,
        /// Pages of a segment.
        pages_per_segment: u32,
        /// Logical pages for each physical page.
        fill: f64,
    },
    /// A volume as it is on a device.
    Volume {
        /// Where everything lies.
        layout: VolumeLayout,
        /// How the host writes.
        load: HostLoad,
    },
}

impl SimulatedGeometry {
    /// Segments of the volume.
    pub fn segments(&self) -> u32 {
        match self {
            SimulatedGeometry::Plain { segments, .. } => *segments,
            SimulatedGeometry::Volume { layout, .. } => layout.segment_count,
        }
    }

    /// Positions of a segment.
    pub fn pages_per_segment(&self) -> u32 {
        match self {
            SimulatedGeometry::Plain { pages_per_segment, .. } => *pages_per_segment,
            SimulatedGeometry::Volume { layout, .. } => layout.pages_per_segment(),
        }
    }

    /// Logical pages of the volume.
    pub fn logical_pages(&self) -> u64 {
        match self {
            SimulatedGeometry::Plain { segments, pages_per_segment, fill } => {
                (fill * f64::from(*segments) * f64::from(*pages_per_segment)) as u64
            }
            SimulatedGeometry::Volume { layout, .. } => layout.options.logical_pages,
        }
    }

    /// Logical pages for each page that the segments can hold.
    pub fn fill(&self) -> f64 {
        match self {
            SimulatedGeometry::Plain { fill, .. } => *fill,
            SimulatedGeometry::Volume { layout, .. } => {
                let pages = u64::from(layout.segment_count) * u64::from(layout.data_pages_per_segment());
                layout.options.logical_pages as f64 / pages as f64
            }
        }
    }

    /// Whether a volume can have this geometry.
    ///
    /// # Errors
    /// [`RepairError::Options`] when it cannot.
    fn check(&self) -> Result<(), RepairError> {
        let (segments, pages_per_segment) = (self.segments(), self.pages_per_segment());
        if let SimulatedGeometry::Plain { fill, .. } = self
            && !(*fill > 0.0 && *fill < 1.0)
        {
            return Err(RepairError::Options(format!("a fill of {fill} is not between 0 and 1")));
        }
        if u64::from(segments) * u64::from(pages_per_segment) > MOST_PAGES {
            let text = format!("{segments} segments of {pages_per_segment} pages are more than 2^31 pages");
            return Err(RepairError::Options(text));
        }
        if self.logical_pages() == 0 {
            return Err(RepairError::Options(format!("a fill of {} leaves no logical page", self.fill())));
        }
        Ok(())
    }

    /// The volume under a policy, its logical pages written once.
    fn filled(&self, policy: Box<dyn Policy>) -> Result<SimulatedVolume, RepairError> {
        match self {
            SimulatedGeometry::Plain { segments, pages_per_segment, fill } => {
                let (logs, logical) = (policy.log_count(), self.logical_pages() as u32);
                if SimulatedVolume::segments_needed(logical, *pages_per_segment, logs) > *segments {
                    return Err(RepairError::Options(format!(
                        "{} has {logs} logs, whose open segments do not fit in a volume of {segments} segments at fill {fill}: \
                         give more segments or a lower fill",
                        policy.name()
                    )));
                }
                Ok(SimulatedVolume::filled(*segments, *pages_per_segment, logical, policy))
            }
            SimulatedGeometry::Volume { layout, load } => SimulatedVolume::of_layout(layout, *load, policy),
        }
    }
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct PolicyRunSetup {
    /// The workload.
    pub workload: WorkloadKind,
    /// The volume.
    pub geometry: SimulatedGeometry,
    /// Volumes written before the measurement.
    pub settle_volumes: u32,
    /// Volumes written while it lasts.
    pub measured_volumes: u32,
    /// Whether the hot set moves afterwards.
    pub moves: bool,
    /// The seed of the workload.
    pub seed: Seed,
}

/// What a policy costs.
#[derive(Clone, Debug)]
pub struct PolicyRun {
    /// Write amplification and the logs in the measured span.
    pub status: PlacementStatus,
    /// What happened after the hot set moved.
    pub after_move: Option<AfterMove>,
}

/// What a policy costs after the hot set moved.
#[derive(Clone, Debug)]
pub struct AfterMove {
    /// The write amplification of each half volume.
    pub half_volumes: Vec<f64>,
    /// Volumes written until the write amplification was, and stayed, within 10 % of what it was before. `None`: it was not.
    pub followed_after_volumes: Option<f64>,
}

impl PolicyRunSetup {
    /// Simulates a policy. It ends early when `interrupt` becomes true.
    ///
    /// # Errors
    /// [`RepairError::Options`] when no volume has this geometry, or it has too few segments for the policy's logs, and
    /// [`RepairError::Interrupted`].
    pub fn run(&self, policy: Box<dyn Policy>, interrupt: &AtomicBool) -> Result<PolicyRun, RepairError> {
        self.geometry.check()?;
        let logical = self.geometry.logical_pages() as u32;
        let mut volume = self.geometry.filled(policy)?;
        let mut workload = WriteWorkload::new(self.workload, logical, self.seed);
        let mut batch = Vec::with_capacity(SimulatedVolume::BATCH as usize);
        let mut write = |volume: &mut SimulatedVolume, workload: &mut WriteWorkload, mut count: u64| {
            while count > 0 {
                if interrupt.load(Ordering::Relaxed) {
                    return Err(RepairError::Interrupted);
                }
                batch.clear();
                batch.extend((0..count.min(SimulatedVolume::BATCH.into())).map(|_| workload.next_page()));
                volume.write_batch(&batch);
                count -= batch.len() as u64;
            }
            Ok(())
        };
        let volumes = |count: u32| u64::from(count) * u64::from(logical);
        write(&mut volume, &mut workload, volumes(self.settle_volumes))?;
        let mark = volume.placer().mark();
        write(&mut volume, &mut workload, volumes(self.measured_volumes))?;
        let status = volume.placer().status_since(&mark);
        let after_move = if self.moves {
            workload.move_hot_set();
            let mut half_volumes = Vec::with_capacity(WINDOWS);
            for _ in 0..WINDOWS {
                let before = volume.placed();
                write(&mut volume, &mut workload, u64::from(logical / 2))?;
                half_volumes.push(volume.placed().since(&before).write_amplification());
            }
            let usual = status.write_amplification.unwrap_or(f64::NAN);
            let is_usual = |amplification: &f64| *amplification <= (1.0 + FOLLOWED) * usual;
            let unusual = half_volumes.iter().rposition(|amplification| !is_usual(amplification));
            let usual_from = unusual.map_or(0, |last| last + 1);
            let followed_after_volumes = (usual_from < WINDOWS).then_some(usual_from as f64 / 2.0);
            Some(AfterMove { half_volumes, followed_after_volumes })
        } else {
            None
        };
        Ok(PolicyRun { status, after_move })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::append_and_pack::AppendAndPackPolicy;
    use crate::policies::policy_named;

    const SEGMENTS: u32 = 2048;

    /// A small volume: what open segments and the reserve take of its slack is visible, so bounds are wide.
    fn setup(workload: &str, fill: f64) -> PolicyRunSetup {
        PolicyRunSetup {
            workload: workload.parse().unwrap(),
            geometry: SimulatedGeometry::Plain { segments: SEGMENTS, pages_per_segment: 32, fill },
            settle_volumes: 5,
            measured_volumes: 2,
            moves: false,
            seed: Seed(1),
        }
    }

    fn run(setup: PolicyRunSetup, policy: &str) -> (f64, f64) {
        let PlacementStatus { write_amplification, write_amplification_predicted, .. } =
            setup.run(policy_named(policy).unwrap()(SEGMENTS), &AtomicBool::new(false)).unwrap().status;
        (write_amplification.unwrap(), write_amplification_predicted.unwrap())
    }

    #[test]
    fn the_default_policy_costs_less_than_the_goals() {
        for (workload, fill, most) in
            [("zipf:0.99", 0.8, 1.95), ("hot-cold:80/20", 0.8, 2.3), ("hot-cold:90/10", 0.9, 2.8)]
        {
            let (measured, _) = run(setup(workload, fill), "multi-log");
            assert!(measured <= most, "{workload} at fill {fill}: {measured}, at most {most}");
        }
    }

    #[test]
    fn separation_pays_and_the_adapted_hot_log_beats_a_single_one() {
        let (greedy, _) = run(setup("hot-cold:90/10", 0.8), "greedy");
        for policy in ["multi-log", "append-and-pack", "mdc", "sepbit", "cost-benefit"] {
            let (measured, _) = run(setup("hot-cold:90/10", 0.8), policy);
            assert!(measured < 0.85 * greedy, "{policy}: {measured}, greedy {greedy}");
        }
    }

    #[test]
    fn a_hot_log_that_adapts_costs_about_what_the_best_fixed_one_does() {
        let setup = setup("zipf:0.99", 0.8);
        let fixed = [0.02, 0.05, 0.1, 0.15].map(|share| {
            let policy = AppendAndPackPolicy::with_hot_segments((share * f64::from(SEGMENTS)) as u32);
            setup.run(Box::new(policy), &AtomicBool::new(false)).unwrap().status.write_amplification.unwrap()
        });
        let best = fixed.into_iter().fold(f64::INFINITY, f64::min);
        let (adapted, predicted) = run(setup, "append-and-pack");
        assert!(adapted < 1.05 * best, "{adapted}, best of {fixed:?}");
        assert!((predicted / adapted - 1.0).abs() < 0.1, "{predicted}, {adapted}");
    }

    #[test]
    fn the_default_policy_follows_a_hot_set_that_moves() {
        let setup = PolicyRunSetup { moves: true, ..setup("hot-cold:90/10", 0.8) };
        let run = setup.run(policy_named("multi-log").unwrap()(SEGMENTS), &AtomicBool::new(false)).unwrap();
        let after = run.after_move.unwrap();
        assert!(
            after.followed_after_volumes.is_some_and(|volumes| volumes <= 2.0),
            "{:?} {after:?}",
            run.status
        );
    }
}
