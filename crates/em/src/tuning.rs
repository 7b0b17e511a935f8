//! How many IOs have to be in flight, measured on the device.
//!
//! # Model
//! A device reaches its bandwidth when the bytes in flight are at least its bandwidth times its response time (Little's
//! law). Beyond that, more IOs in flight only take memory.
//!
//! # Method
//! 1. IOs of one size are issued with 1, 2, 4, ... in flight, up to the device's depth.
//! 2. The smallest depth that reaches [`ENOUGH`] of the best rate is chosen: [`Saturation`].
//! 3. A sequence with another block takes as many blocks as are in flight then: [`Tuning`].

use flashlab_base::{Bytes, Mode, Nanos, Prng, Seed};

use crate::error::EmError;
use crate::extent::Region;
use crate::machine::Machine;

/// The share of the best rate that is enough. Above it the rates differ by the ends of the probe, where the queue is not
/// full, rather than by the depth.
const ENOUGH: f64 = 0.98;
/// IOs for each depth: at least this many, and at least [`ROUNDS`] full queues, so that the ends of the probe weigh little.
const IOS: u64 = 48;
const ROUNDS: u64 = 6;
/// The deepest queue that is tried. 512 reads of 4 KiB saturate every profile of the zoo; more would only lengthen the
/// probe.
pub const DEPTH_MAX: u32 = 512;
/// The size of the IOs that measure a sequence.
pub const SEQUENTIAL_IO: Bytes = Bytes::kib(128);

/// The order of a probe's IOs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOrder {
    /// Each IO continues the one before it.
    Sequential,
    /// Uniformly random offsets, multiples of the size.
    Random(Seed),
}

/// The smallest queue depth at which a device reaches its rate for IOs of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// The size of the IOs.
    pub size: Bytes,
    /// The depth.
    pub depth: u32,
    /// IOs a second at that depth.
    pub ios_per_s: f64,
    /// IOs a second with one IO in flight.
    pub ios_per_s_alone: f64,
}

impl Saturation {
    /// Measures with IOs to a region. Writes destroy its content. The region's devices are used as the region lies on them.
    ///
    /// # Errors
    /// Those of the IOs, and [`EmError::Memory`] when the budget lacks two IOs.
    pub fn measure(
        machine: &mut Machine<'_>,
        region: &Region,
        mode: Mode,
        order: ProbeOrder,
        size: Bytes,
    ) -> Result<Saturation, EmError> {
        let devices = region.parts().iter().map(|part| machine.geometry(part.device).depth).sum::<u32>();
        let memory = machine.budget().left().0 / crate::MemoryBudget::buffer_size(size).0;
        let depth_max = DEPTH_MAX.min(devices).min(memory.min(u64::from(u32::MAX)) as u32).max(1);
        // With fewer IOs in flight, sequences on several devices keep only some of them busy.
        let parts = region.parts().len() as u64;
        let all_busy = match order {
            ProbeOrder::Sequential if parts > 1 => (parts * region.stripe().0 / size.0.max(1)) as u32,
            _ => 1,
        };
        let mut probe = Probe { region, mode, order, size, position: 0, issued: 0 };
        let mut rates: Vec<(u32, f64)> = Vec::new();
        for depth in std::iter::successors(Some(1u32), |depth| depth.checked_mul(2)) {
            let depth = depth.min(depth_max);
            rates.push((depth, probe.rate(machine, depth)?));
            let flat = rates.len() > 3
                && rates[rates.len() - 4].0 >= all_busy
                && rates[rates.len() - 3..].iter().all(|rate| rate.1 < rates[rates.len() - 4].1 * 1.01);
            if depth == depth_max || flat {
                break;
            }
        }
        let (depth, ios_per_s) = saturating_rate(&rates).expect("one of the rates is the best");
        Ok(Saturation { size, depth, ios_per_s, ios_per_s_alone: rates[0].1 })
    }

    /// The bytes in flight.
    pub fn window(&self) -> Bytes {
        Bytes(self.size.0 * u64::from(self.depth))
    }

    /// Bytes a second at that depth.
    pub fn bytes_per_s(&self) -> f64 {
        self.ios_per_s * self.size.0 as f64
    }
}

/// Of rates by depth, ascending, the first that reaches 98 % of the best, with its depth; `None` without any.
pub fn saturating_rate(rates: &[(u32, f64)]) -> Option<(u32, f64)> {
    let best = rates.iter().map(|rate| rate.1).fold(0.0, f64::max);
    rates.iter().copied().find(|rate| rate.1 >= best * ENOUGH)
}

struct Probe<'r> {
    region: &'r Region,
    mode: Mode,
    order: ProbeOrder,
    size: Bytes,
    position: u64,
    issued: u64,
}

impl Probe<'_> {
    /// IOs a second with `depth` of them in flight.
    fn rate(&mut self, machine: &mut Machine<'_>, depth: u32) -> Result<f64, EmError> {
        let (mut free, _lease) = machine.budget().buffers(depth as usize, self.size, "a probe")?;
        let count = IOS.max(u64::from(depth) * ROUNDS);
        let begin = machine.now();
        for _ in 0..count {
            let buffer = match free.pop() {
                Some(buffer) => buffer,
                None => machine.wait_any()?.expect("the queue is full").1,
            };
            let (device, offset) = self.region.locate(self.next());
            machine.submit(device, self.mode.into(), offset, self.size, buffer);
        }
        while machine.wait_any()?.is_some() {}
        let time = machine.now().since(begin).max(Nanos(1));
        Ok(count as f64 / time.as_secs_f64())
    }

    fn next(&mut self) -> Bytes {
        let slots = (self.region.size().0 / self.size.0).max(1);
        let slot = match self.order {
            ProbeOrder::Sequential => self.position % slots,
            ProbeOrder::Random(seed) => Prng::new(seed.derive("probe", self.issued)).below(slots),
        };
        self.position += 1;
        self.issued += 1;
        Bytes(slot * self.size.0)
    }
}

/// How many bytes have to be in flight for sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// For reading.
    pub read_window: Bytes,
    /// For writing.
    pub write_window: Bytes,
}

impl Tuning {
    /// Measures sequential reads of `read`, which has data, and sequential writes to `write`, whose content is destroyed.
    /// Without a region to write to, writes get the window of reads.
    ///
    /// # Errors
    /// As [`Saturation::measure`].
    pub fn measure(
        machine: &mut Machine<'_>,
        read: &Region,
        write: Option<&Region>,
    ) -> Result<Tuning, EmError> {
        let mut window = |region: &Region, mode| {
            // A queue of a few IOs has to fit into a quarter of the memory.
            let largest =
                Bytes(machine.budget().left().0 / 16).round_down(machine.unit()).max(machine.unit());
            let size = SEQUENTIAL_IO.round_up(machine.unit()).min(region.stripe()).min(largest);
            let saturation = Saturation::measure(machine, region, mode, ProbeOrder::Sequential, size)?;
            Ok::<Bytes, EmError>(saturation.window())
        };
        let read_window = window(read, Mode::Read)?;
        let write_window = write.map_or(Ok(read_window), |region| window(region, Mode::Write))?;
        Ok(Tuning { read_window, write_window })
    }

    /// How many blocks a reader requests in advance.
    pub fn ahead(&self, block: Bytes) -> usize {
        self.read_window.0.div_ceil(block.0).max(1) as usize
    }

    /// How many blocks a writer has in flight.
    pub fn behind(&self, block: Bytes) -> usize {
        self.write_window.0.div_ceil(block.0).max(1) as usize
    }
}

/// The sizes at which a [`BandwidthCurve`] is measured.
const CURVE: [Bytes; 5] = [Bytes::kib(4), Bytes::kib(16), Bytes::kib(64), Bytes::kib(256), Bytes::mib(1)];

/// The bytes a second that IOs of each size reach with a full queue.
#[derive(Clone, Debug, PartialEq)]
pub struct BandwidthCurve {
    points: Vec<(Bytes, f64)>,
}

impl BandwidthCurve {
    /// Measures as [`Saturation::measure`] does, with IOs of 4 KiB to 1 MiB as far as they fit into the region and the
    /// memory.
    ///
    /// # Errors
    /// As [`Saturation::measure`].
    pub fn measure(
        machine: &mut Machine<'_>,
        region: &Region,
        mode: Mode,
        order: ProbeOrder,
    ) -> Result<BandwidthCurve, EmError> {
        let (largest, unit) = (region.stripe().min(machine.budget().left()), machine.unit());
        let mut points = Vec::new();
        for size in CURVE.into_iter().filter(|size| *size <= largest && size.is_multiple_of(unit)) {
            let saturation = Saturation::measure(machine, region, mode, order, size)?;
            points.push((size, saturation.bytes_per_s()));
        }
        Ok(BandwidthCurve { points })
    }

    /// The bytes a second at a size, between two measured ones by their logarithms.
    pub fn at(&self, size: Bytes) -> f64 {
        let after = self.points.partition_point(|point| point.0 < size);
        match (self.points.get(after.wrapping_sub(1)), self.points.get(after)) {
            (Some(low), Some(high)) => {
                let share = (size.0 as f64 / low.0.0 as f64).ln() / (high.0.0 as f64 / low.0.0 as f64).ln();
                low.1 * (high.1 / low.1).powf(share)
            }
            (Some(only), None) | (None, Some(only)) => only.1,
            (None, None) => 1.0,
        }
    }

    /// The best of all sizes.
    pub fn best(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(1.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use flashlab_device::MemoryDevice;

    use super::*;
    use crate::extent::{ExtentAllocator, Spread};
    use crate::machine::HostTime;

    #[test]
    fn a_device_that_serves_one_io_at_a_time_needs_one_in_flight() {
        let device = MemoryDevice::new(Bytes::mib(8), Nanos(1000));
        let mut machine =
            Machine::new(vec![Box::new(device)], Bytes::mib(4), HostTime::Declared(Nanos(1))).unwrap();
        let region = ExtentAllocator::new(&machine).allocate(Bytes::mib(4), Spread::On(0)).unwrap();
        let order = ProbeOrder::Random(Seed(1));
        let found = Saturation::measure(&mut machine, &region, Mode::Read, order, Bytes::kib(4)).unwrap();
        assert_eq!((found.depth, found.ios_per_s.round()), (1, 1e6));
        let tuning = Tuning::measure(&mut machine, &region, Some(&region)).unwrap();
        assert_eq!((tuning.ahead(Bytes::kib(64)), tuning.behind(Bytes::mib(1))), (2, 1));
        assert_eq!(machine.budget().left(), Bytes::mib(4));
    }
}
