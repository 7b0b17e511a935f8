//! The IOs of an algorithm by phase, direction and size: those that its formula plans, and those that it issued.

use std::collections::BTreeMap;

use flashlab_base::{Bytes, Mode, Nanos};

/// Counts of IOs by direction and size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoCounts(BTreeMap<(bool, u64), u64>);

impl IoCounts {
    /// Adds `count` IOs of `size`.
    pub fn add(&mut self, mode: Mode, size: Bytes, count: u64) {
        if count > 0 {
            *self.0.entry((mode.is_write(), size.0)).or_default() += count;
        }
    }

    /// Adds the IOs that move `total` bytes in blocks of `block`; the last one is as short as `unit` allows.
    pub fn add_blocks(&mut self, mode: Mode, total: Bytes, block: Bytes, unit: Bytes) {
        self.add(mode, block, total.0 / block.0);
        let last = Bytes(total.0 % block.0).round_up(unit);
        self.add(mode, last, u64::from(last > Bytes::ZERO));
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &IoCounts) {
        for (mode, size, count) in other.iter() {
            self.add(mode, size, count);
        }
    }

    /// Each direction and size with its count, reads first.
    pub fn iter(&self) -> impl Iterator<Item = (Mode, Bytes, u64)> + '_ {
        self.0.iter().map(|(&(is_write, size), &count)| {
            (if is_write { Mode::Write } else { Mode::Read }, Bytes(size), count)
        })
    }

    /// The number of IOs.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The number of IOs of one direction.
    pub fn of(&self, mode: Mode) -> u64 {
        self.iter().filter(|io| io.0 == mode).map(|io| io.2).sum()
    }

    /// The bytes of all IOs.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.iter().map(|(_, size, count)| size.0 * count).sum())
    }

    /// The bytes of one direction.
    pub fn bytes_of(&self, mode: Mode) -> Bytes {
        Bytes(self.iter().filter(|io| io.0 == mode).map(|(_, size, count)| size.0 * count).sum())
    }
}

/// The IOs of one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseIos {
    /// The phase's name.
    pub name: String,
    /// How long the host had computed when it began.
    pub host_before: Nanos,
    /// What the formula plans.
    pub planned: IoCounts,
    /// What was issued.
    pub issued: IoCounts,
    /// What was issued to each device, by its index; devices beyond the last one got nothing.
    pub issued_on: Vec<IoCounts>,
}

impl PhaseIos {
    /// Counts an IO that was issued to a device.
    pub(crate) fn issue(&mut self, device: usize, mode: Mode, size: Bytes) {
        self.issued.add(mode, size, 1);
        if self.issued_on.len() <= device {
            self.issued_on.resize(device + 1, IoCounts::default());
        }
        self.issued_on[device].add(mode, size, 1);
    }
}

/// The IOs of all phases, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoLedger {
    phases: Vec<PhaseIos>,
}

impl IoLedger {
    /// Begins a phase: IOs belong to it from now on. Before it, the host computed this long.
    pub fn begin(&mut self, name: &str, host_before: Nanos) {
        self.phases.push(PhaseIos { name: name.to_owned(), host_before, ..PhaseIos::default() });
    }

    /// The phase that goes on; one without a name if none was begun.
    pub fn current(&mut self) -> &mut PhaseIos {
        if self.phases.is_empty() {
            self.begin("", Nanos::ZERO);
        }
        self.phases.last_mut().expect("a phase was begun")
    }

    /// The phases so far.
    pub fn phases(&self) -> &[PhaseIos] {
        &self.phases
    }

    /// What was planned and issued in all phases.
    pub fn total(&self) -> PhaseIos {
        let mut total = PhaseIos::default();
        for phase in &self.phases {
            total.planned.merge(&phase.planned);
            total.issued.merge(&phase.issued);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ios_are_counted_by_phase_direction_and_size() {
        let mut ledger = IoLedger::default();
        ledger.begin("form runs", Nanos::ZERO);
        ledger.current().planned.add_blocks(Mode::Read, Bytes(10_000), Bytes(4096), Bytes(512));
        ledger.current().issued.add(Mode::Read, Bytes(4096), 2);
        ledger.begin("merge", Nanos::ZERO);
        ledger.current().issued.add(Mode::Write, Bytes(512), 1);
        let planned: Vec<_> = ledger.phases()[0].planned.iter().collect();
        assert_eq!(planned, [(Mode::Read, Bytes(2048), 1), (Mode::Read, Bytes(4096), 2)]);
        let total = ledger.total();
        assert_eq!((total.planned.bytes(), total.planned.total()), (Bytes(10_240), 3));
        assert_eq!((total.issued.of(Mode::Read), total.issued.bytes_of(Mode::Write)), (2, Bytes(512)));
    }
}
