//! The six models, and the time that each predicts.

use std::fmt;

use flashlab_base::{Bytes, Mode, Nanos};

use super::algorithm_ios::{AccessPattern, AlgorithmIos, IoClass};
use super::costs::DeviceCosts;

/// A model of what IOs cost. `cost` has the table of what each one sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostModel {
    /// Every access costs the same as an operation of the CPU: the device is free.
    Ram,
    /// Each transfer of a block of this size costs a random read of it.
    Io(Bytes),
    /// A block read costs 1 and a block write c_W, in random reads of a block of this size.
    Asymmetric(Bytes),
    /// Reads come in blocks of `read`, writes in blocks of `write`; each direction has its own cost.
    TwoBlocks {
        /// B_R.
        read: Bytes,
        /// B_W.
        write: Bytes,
    },
    /// Each IO costs the set-up and the bytes of its direction and pattern.
    Affine,
    /// Each step transfers P blocks of this size, or P larger IOs; P and the time of a step follow from direction and pattern.
    Pdam(Bytes),
}

impl CostModel {
    /// The six models for an algorithm with this block on this device. B_R and B_W are the sizes at which random reads
    /// and writes reach half of their bandwidth.
    pub fn all(block: Bytes, costs: &DeviceCosts) -> [CostModel; 6] {
        let read = costs.random_read.half_bandwidth();
        let write = costs.random_write.half_bandwidth().max(read);
        [
            CostModel::Ram,
            CostModel::Io(block),
            CostModel::Asymmetric(block),
            CostModel::TwoBlocks { read, write },
            CostModel::Affine,
            CostModel::Pdam(block),
        ]
    }

    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            CostModel::Ram => "ram",
            CostModel::Io(_) => "io",
            CostModel::Asymmetric(_) => "asymmetric",
            CostModel::TwoBlocks { .. } => "two-blocks",
            CostModel::Affine => "affine",
            CostModel::Pdam(_) => "pdam",
        }
    }

    /// How long an algorithm takes on these devices. In a phase the devices work at the same time, so the slowest decides.
    /// Where the host computes while IOs are in flight, it submits them meanwhile, too, and the slower of devices and host decides in
    /// each phase.
    /// Of the faster one only what nothing overlaps is added: one IO's share of it, for the first IO and the computation on the last.
    /// Otherwise the time of an IO has its submission, and the computation is added.
    ///
    /// # Panics
    /// When an IO names a device beyond `devices`: the caller's mistake.
    pub fn predict(self, ios: &AlgorithmIos, devices: &[DeviceCosts]) -> Nanos {
        let computed = || ios.host.iter().map(|host| host.0 as f64);
        let ns = match (self, ios.is_overlapped) {
            (CostModel::Ram, _) => computed().sum(),
            (_, true) => {
                let phases = ios.phases.iter().zip(computed());
                phases.map(|(phase, computed)| self.overlapped(phase, computed, devices)).sum::<f64>()
            }
            (_, false) => {
                ios.phases.iter().map(|phase| self.phase(phase, devices)).sum::<f64>()
                    + computed().sum::<f64>()
            }
        };
        Nanos(ns.round() as u64)
    }

    /// The time of a phase during which the host computes, in nanoseconds.
    fn overlapped(self, phase: &[IoClass], computed: f64, devices: &[DeviceCosts]) -> f64 {
        let submitted = |class: &IoClass| {
            let line = devices[class.device].submission;
            class.count * line.setup_ns + class.bytes * line.byte_ns
        };
        let device = self.phase(phase, devices);
        let host = computed + phase.iter().map(submitted).sum::<f64>();
        let ends = phase.iter().map(|class| class.count).sum::<f64>().max(1.0).recip();
        device.max(host) + ends * device.min(computed)
    }

    fn phase(self, phase: &[IoClass], devices: &[DeviceCosts]) -> f64 {
        let busy = devices.iter().enumerate().map(|(device, costs)| {
            let on = || phase.iter().filter(move |class| class.device == device);
            let (reads, writes) = self.directions(on(), costs);
            reads.max(writes) + self.mixing(on(), costs) * reads.min(writes)
        });
        busy.fold(0.0, f64::max)
    }

    /// The times of the reads and of the writes, each alone, in nanoseconds.
    fn directions<'c>(
        self,
        ios: impl Iterator<Item = &'c IoClass> + Clone,
        costs: &DeviceCosts,
    ) -> (f64, f64) {
        let time = |mode| {
            let alike = ios.clone().filter(|class| class.mode == mode);
            alike.map(|class| self.class(class, costs)).sum::<f64>()
        };
        (time(Mode::Read), time(Mode::Write))
    }

    /// What reads and writes of a phase on one device cost each other if the phase takes this long, in nanoseconds; none where it has one
    /// direction.
    pub(crate) fn mixing_of(self, phase: &[IoClass], costs: &DeviceCosts, time: f64) -> Option<f64> {
        let (reads, writes) = self.directions(phase.iter(), costs);
        let shorter = reads.min(writes);
        (shorter > 0.0).then(|| (time - reads.max(writes)) / shorter)
    }

    /// The share of the shorter direction's time that counts. Only the PDAM sees IOs at the same time; alternating IOs were
    /// measured in both directions.
    fn mixing<'c>(self, ios: impl Iterator<Item = &'c IoClass>, costs: &DeviceCosts) -> f64 {
        let CostModel::Pdam(_) = self else { return 1.0 };
        ios.filter(|class| class.mode == Mode::Read)
            .map(|class| match class.pattern {
                AccessPattern::Sequential => costs.mixing.sequential_reads,
                AccessPattern::Random | AccessPattern::Halving | AccessPattern::Ascending => {
                    costs.mixing.random_reads
                }
                AccessPattern::Alternating => 1.0,
            })
            .fold(None, |all: Option<f64>, one| Some(all.map_or(one, |all| all.max(one))))
            .unwrap_or(1.0)
    }

    /// The time of IOs of one kind, in nanoseconds.
    fn class(self, class: &IoClass, costs: &DeviceCosts) -> f64 {
        let blocks = |block: Bytes| {
            let each = (class.size().0 as f64 / block.0.max(1) as f64).max(1.0);
            match class.pattern {
                AccessPattern::Random | AccessPattern::Halving | AccessPattern::Ascending => {
                    class.count * each.ceil()
                }
                _ => class.bytes / block.0.max(1) as f64,
            }
        };
        let random = |block: Bytes| costs.line(class.mode, AccessPattern::Random).of(block);
        match self {
            CostModel::Ram => 0.0,
            CostModel::Io(block) => blocks(block) * costs.random_read.of(block),
            CostModel::Asymmetric(block) => blocks(block) * random(block),
            CostModel::TwoBlocks { read, write } => {
                let block = if class.mode == Mode::Read { read } else { write };
                blocks(block) * random(block)
            }
            CostModel::Affine => {
                let line = costs.line(class.mode, class.pattern);
                class.count * line.setup_ns + class.bytes * line.byte_ns
            }
            CostModel::Pdam(block) => {
                let parallelism = costs.parallelism.of(class.mode, class.pattern);
                // Reads of halves are close to each other, so that even one in flight is faster than a random read.
                let at_once = match class.pattern {
                    AccessPattern::Halving => parallelism,
                    _ => parallelism.min(f64::from(class.in_flight.max(1))),
                };
                // An IO of a sequence that is larger than B moves its blocks together, with one set-up.
                let together = class.size().max(block);
                blocks(together) / at_once * costs.line(class.mode, class.pattern).of(together)
            }
        }
    }
}

impl fmt::Display for CostModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostModel::Ram => f.write_str("RAM"),
            CostModel::Io(block) => write!(f, "I/O, B {block}"),
            CostModel::Asymmetric(block) => write!(f, "x + c_W y, B {block}"),
            CostModel::TwoBlocks { read, write } => write!(f, "B_R {read}, B_W {write}"),
            CostModel::Affine => f.write_str("affine"),
            CostModel::Pdam(block) => write!(f, "PDAM, B {block}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::costs::{LinearCost, Mixing, Parallelism};
    use super::*;

    /// Random reads 100 us and 10 ns a byte; writes five times that; sequential IOs pay their bytes alone.
    fn costs() -> DeviceCosts {
        let line = |setup_ns, byte_ns| LinearCost { setup_ns, byte_ns };
        DeviceCosts {
            sequential_read: line(0.0, 10.0),
            sequential_write: line(0.0, 50.0),
            random_read: line(100_000.0, 10.0),
            random_write: line(500_000.0, 50.0),
            ascending_read: line(50_000.0, 10.0),
            alternating: line(0.0, 30.0),
            parallelism: Parallelism {
                sequential_read: 2.0,
                sequential_write: 1.0,
                random_read: 4.0,
                halving_read: 1.6,
                ascending_read: 2.0,
            },
            mixing: Mixing { sequential_reads: 0.0, random_reads: 0.5 },
            submission: line(1_000.0, 1.0),
        }
    }

    fn ios(mode: Mode, pattern: AccessPattern, count: f64, size: u64) -> IoClass {
        IoClass { device: 0, mode, pattern, count, bytes: count * size as f64, in_flight: 8 }
    }

    fn predicted(model: CostModel, ios: &AlgorithmIos) -> u64 {
        model.predict(ios, &[costs()]).0
    }

    #[test]
    fn each_model_predicts_what_is_computed_by_hand() {
        let block = Bytes(10_000);
        // A random read of a block takes 200 us, a random write 1 ms.
        let phase = vec![
            ios(Mode::Read, AccessPattern::Random, 40.0, 10_000),
            ios(Mode::Write, AccessPattern::Sequential, 2.0, 100_000),
        ];
        let ios = AlgorithmIos::alternating(vec![phase], Nanos(7));
        assert_eq!(predicted(CostModel::Ram, &ios), 7);
        assert_eq!(predicted(CostModel::Io(block), &ios), (40 + 20) * 200_000 + 7);
        assert_eq!(predicted(CostModel::Asymmetric(block), &ios), 40 * 200_000 + 20 * 1_000_000 + 7);
        let two = CostModel::TwoBlocks { read: Bytes(10_000), write: Bytes(100_000) };
        assert_eq!(predicted(two, &ios), 40 * 200_000 + 2 * 5_500_000 + 7);
        assert_eq!(predicted(CostModel::Affine, &ios), 40 * 200_000 + 2 * 5_000_000 + 7);
        // A sequential write of 100,000 bytes takes 5 ms; half of the reads' time is hidden behind the writes.
        assert_eq!(predicted(CostModel::Pdam(block), &ios), 40 / 4 * 200_000 / 2 + 2 * 5_000_000 + 7);
        assert!((costs().write_penalty(block) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn devices_of_a_phase_work_at_the_same_time_and_phases_one_after_the_other() {
        let on = |device| IoClass { device, ..ios(Mode::Read, AccessPattern::Random, 10.0, 10_000) };
        let together = AlgorithmIos::overlapped(vec![vec![on(0), on(1)]], vec![Nanos::ZERO]);
        let phases = AlgorithmIos::overlapped(vec![vec![on(0)], vec![on(1)]], vec![Nanos::ZERO; 2]);
        let devices = [costs(), costs()];
        assert_eq!(CostModel::Affine.predict(&together, &devices), Nanos(2_000_000));
        assert_eq!(CostModel::Affine.predict(&phases, &devices), Nanos(4_000_000));
    }

    #[test]
    fn a_host_that_computes_meanwhile_counts_where_it_takes_longer_than_the_devices() {
        let reads = vec![vec![ios(Mode::Read, AccessPattern::Random, 10.0, 10_000)]];
        let with = |host| AlgorithmIos::overlapped(reads.clone(), vec![host]);
        // Ten random reads take 2 ms, and their submission 0.11 ms. A tenth of the shorter time has nothing to overlap with.
        assert_eq!(predicted(CostModel::Affine, &with(Nanos(1_000_000))), 2_000_000 + 100_000);
        assert_eq!(predicted(CostModel::Affine, &with(Nanos(3_000_000))), 3_110_000 + 200_000);
        assert_eq!(predicted(CostModel::Ram, &with(Nanos(3_000_000))), 3_000_000);
        let waited_for = AlgorithmIos::alternating(reads.clone(), Nanos(3_000_000));
        assert_eq!(predicted(CostModel::Affine, &waited_for), 5_000_000);
    }

    #[test]
    fn the_six_models_have_names_of_their_own() {
        let all = CostModel::all(Bytes::kib(64), &costs());
        let names: std::collections::BTreeSet<&str> = all.iter().map(|model| model.name()).collect();
        assert_eq!(names.len(), 6);
        let CostModel::TwoBlocks { read, write } = all[3] else { panic!("{all:?}") };
        assert!(read <= write);
        assert_eq!(all[5].to_string(), "PDAM, B 64 KiB");
    }
}
