//! On which devices an experiment's sequences lie: one device, all of them striped, or one for each role.
//!
//! # Model
//! An algorithm has data, which it is given and returns, and what it makes in between. Striped, both lie on all devices in
//! units of one size, and blocks divide that unit. By role, data lies on the first device and the rest on the last.
//!
//! # Invariants
//! - A stripe unit has whole records and whole pages of 4 KiB, and is a power of two times the smallest such size.

use flashlab_base::{Bytes, Mode};

use super::{ByteTimes, InFlight, costs_of, sequence_times_in};
use crate::cost::{DeviceCosts, IoClass};
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Region, Spread};
use crate::ledger::IoCounts;
use crate::machine::Machine;
use crate::tuning::Tuning;

/// What lies on which of an algorithm's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataLayout {
    /// Everything on one device; or, on the second of two, what is made in between.
    ByRole,
    /// Everything on all devices.
    Striped,
}

/// On which devices the sequences of an algorithm lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencePlacement {
    /// What an algorithm is given and what it returns.
    pub data: Spread,
    /// What it makes in between: the runs of a sort, the upper levels of a search tree, the sets of a contraction.
    pub temporary: Spread,
}

impl SequencePlacement {
    /// Everything on the first device.
    pub const ONE: SequencePlacement = SequencePlacement { data: Spread::On(0), temporary: Spread::On(0) };
    /// Data on the first device, and what is made in between on the second.
    pub const BY_ROLE: SequencePlacement =
        SequencePlacement { data: Spread::On(0), temporary: Spread::On(1) };

    /// Everything on all devices of a machine, in stripe units for records of `record` bytes: at most the 32nd part of the
    /// memory, so that buffers of all devices fit, and 1 MiB, where a hard disk reaches most of its bandwidth.
    pub fn striped(machine: &Machine<'_>, record: Bytes) -> SequencePlacement {
        let least = record.max(Bytes(1)).least_common_multiple(machine.unit().max(Bytes::kib(4))).0;
        let most = (machine.budget().limit().0 / 32).min(1 << 20);
        let striped = Spread::Striped(Bytes(least << (most / least).max(1).ilog2()));
        SequencePlacement { data: striped, temporary: striped }
    }

    /// Where sequences of such records lie on the devices of a machine.
    pub(super) fn on(machine: &Machine<'_>, layout: DataLayout, record: Bytes) -> SequencePlacement {
        match (layout, machine.device_count()) {
            (DataLayout::Striped, _) => SequencePlacement::striped(machine, record),
            (DataLayout::ByRole, 1) => SequencePlacement::ONE,
            (DataLayout::ByRole, _) => SequencePlacement::BY_ROLE,
        }
    }

    /// The stripe unit.
    pub(super) fn stripe(self) -> Option<Bytes> {
        match self.data {
            Spread::Striped(stripe) => Some(stripe),
            Spread::On(_) => None,
        }
    }
}

/// IOs to a sequence as IOs to each of its devices: a striped sequence has the same share on each.
pub(super) fn on_each(spread: Spread, devices: usize, class: IoClass) -> Vec<IoClass> {
    let on = spread.devices(devices);
    let share = on.len() as f64;
    let one = |device| IoClass {
        device,
        count: class.count / share,
        bytes: class.bytes / share,
        in_flight: class.in_flight.div_ceil(on.len() as u32),
        ..class
    };
    on.clone().map(one).collect()
}

/// What each device charges for such IOs; those of several devices are shared among them.
pub(super) fn costs_of_all(
    machine: &mut Machine<'_>,
    free: &mut ExtentAllocator,
    (placement, length): (SequencePlacement, Bytes),
    sizes: (Bytes, InFlight),
    seed: flashlab_base::Seed,
) -> Result<Vec<DeviceCosts>, EmError> {
    let devices = machine.device_count();
    let (small, in_flight) = sizes;
    let in_flight = in_flight.shared(placement.data.devices(devices).len());
    (0..devices).map(|device| costs_of(machine, free, (device, length), small, in_flight, seed)).collect()
}

/// The means of what was measured before an algorithm ran and after it: others use a real device, too.
pub(super) fn mean_costs(before: &[DeviceCosts], after: &[DeviceCosts]) -> Vec<DeviceCosts> {
    before.iter().zip(after).map(|(before, after)| before.mean(after)).collect()
}

/// How much has to be in flight for data, and for what is made in between.
pub(super) fn tuning_of(
    machine: &mut Machine<'_>,
    free: &mut ExtentAllocator,
    placement: SequencePlacement,
    (written, scratch): (&Region, Option<&Region>),
) -> Result<Tuning, EmError> {
    machine.begin_phase("tune");
    let data = Tuning::measure(machine, written, scratch)?;
    if placement.temporary == placement.data {
        return Ok(data);
    }
    let region = free.allocate(written.size().min(super::MEASURED_MAX), placement.temporary)?;
    super::fill(machine, &region)?;
    let temporary = Tuning::measure(machine, &region, Some(&region))?;
    free.release(&region);
    Ok(Tuning {
        read_window: data.read_window.max(temporary.read_window),
        write_window: data.write_window.max(temporary.write_window),
        is_noisy: data.is_noisy,
    })
}

/// The times of sequences on each device of a machine.
#[derive(Clone, Debug)]
pub(super) struct SequenceTimes(Vec<ByteTimes>);

impl SequenceTimes {
    /// Measures on these regions if there is one device, and on space of its own on each of several.
    pub fn measure(
        machine: &mut Machine<'_>,
        free: &mut ExtentAllocator,
        tuning: &Tuning,
        (read, write): (&Region, Option<&Region>),
    ) -> Result<SequenceTimes, EmError> {
        if machine.device_count() == 1 {
            return SequenceTimes::on_regions(machine, tuning, (read, write));
        }
        SequenceTimes::on_free_space(machine, free, read.size())
    }

    /// Measures on these regions of one device.
    pub fn on_regions(
        machine: &mut Machine<'_>,
        tuning: &Tuning,
        (read, write): (&Region, Option<&Region>),
    ) -> Result<SequenceTimes, EmError> {
        Ok(SequenceTimes(vec![ByteTimes::measure(machine, tuning, read, write)?]))
    }

    /// Measures on free space of each device.
    pub fn on_free_space(
        machine: &mut Machine<'_>,
        free: &mut ExtentAllocator,
        length: Bytes,
    ) -> Result<SequenceTimes, EmError> {
        let devices = 0..machine.device_count();
        let times = devices.map(|device| sequence_times_in(machine, free, device, length));
        Ok(SequenceTimes(times.collect::<Result<_, _>>()?))
    }

    /// How long the slowest device needs for its part of the bytes, in order: all of them can work at the same time.
    pub fn bound(&self, issued_on: &[IoCounts]) -> flashlab_base::Nanos {
        let bounds = self.0.iter().zip(issued_on).map(|(times, ios)| times.bound(ios));
        bounds.max().unwrap_or_default()
    }
}

/// Reads as they were issued to each device.
pub(super) fn reads_of_each(issued_on: &[IoCounts], class: IoClass) -> Vec<IoClass> {
    let working = issued_on.iter().filter(|ios| ios.total() > 0).count().max(1) as u32;
    let one = |(device, ios): (usize, &IoCounts)| IoClass {
        device,
        count: ios.of(Mode::Read) as f64,
        bytes: ios.bytes_of(Mode::Read).0 as f64,
        in_flight: class.in_flight.div_ceil(working),
        ..class
    };
    issued_on.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::AccessPattern;

    #[test]
    fn striped_ios_are_shared_and_placed_ones_are_not() {
        let class = IoClass {
            device: 0,
            mode: Mode::Read,
            pattern: AccessPattern::Random,
            count: 9.0,
            bytes: 900.0,
            in_flight: 8,
        };
        let striped = on_each(Spread::Striped(Bytes::kib(64)), 3, class);
        let shares: Vec<_> =
            striped.iter().map(|one| (one.device, one.count, one.bytes, one.in_flight)).collect();
        assert_eq!(shares, [(0, 3.0, 300.0, 3), (1, 3.0, 300.0, 3), (2, 3.0, 300.0, 3)]);
        assert_eq!(on_each(Spread::On(1), 3, class), [IoClass { device: 1, ..class }]);
    }
}
