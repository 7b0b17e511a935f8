//! How many IOs have to be in flight, measured on the device.
//!
//! # Model
//! A device reaches its bandwidth when the bytes in flight are at least its bandwidth times its response time (Little's
//! law). Beyond that, more IOs in flight only take memory.
//!
//! # Method
//! 1. IOs of one size are issued with 1, 2, 4, ... in flight, up to the device's depth or until more gain nothing. That is not believed
//!    with fewer bytes in flight than saturated the device with IOs of another size.
//! 2. On a real device, which others use, too, the depths that may be chosen are measured [`ROUNDS`] times. Sizes and depths take turns,
//!    so that a disturbance meets all of them.
//! 3. [`choose_depth`] takes the smallest depth that is not slower: [`Saturation`].
//! 4. A sequence with another block has the same bytes in flight: [`Tuning`].

mod choice;

use flashlab_base::{Bytes, Mode, Nanos, Prng, Seed};

pub(crate) use choice::non_decreasing;
pub use choice::{DepthChoice, DepthRates, choose_depth};

use crate::error::EmError;
use crate::extent::Region;
use crate::machine::Machine;

/// IOs for each depth: at least this many, and at least [`QUEUES`] full queues, so that the ends of the probe weigh little.
const IOS: u64 = 48;
const QUEUES: u64 = 6;
/// How often a depth is measured on a real device: with five a median is right while two of them are disturbed.
const ROUNDS: usize = 5;
/// Depths that reached less than this share of the best rate in the first round are not measured again: probes are off by 20 % on a busy
/// virtual machine, seldom by 40 %.
const MAY_BE_CHOSEN: f64 = 0.6;
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
        Ok(Saturation::measure_all(machine, region, (mode, order), &[size], ROUNDS)?.remove(0))
    }

    /// The same with IOs of several sizes.
    fn measure_all(
        machine: &mut Machine<'_>,
        region: &Region,
        (mode, order): (Mode, ProbeOrder),
        sizes: &[Bytes],
        rounds: usize,
    ) -> Result<Vec<Saturation>, EmError> {
        let probe = |size| Probe { region, mode, order, size, position: 0, issued: 0 };
        let mut ladders: Vec<Ladder<'_>> = Vec::with_capacity(sizes.len());
        let mut in_flight = Bytes::ZERO;
        // Probes of a simulated device have no noise. The largest size comes last there, so that the device is left as large writes leave it.
        let is_noisy = !machine.is_virtual();
        let mut order = sizes.to_vec();
        if is_noisy {
            // The largest size first: fewer of its IOs saturate the device.
            order.reverse();
        }
        for size in order {
            let ladder = Ladder::climb(machine, probe(size), in_flight)?;
            if is_noisy {
                in_flight = in_flight.max(size * u64::from(ladder.choice().depth));
            }
            ladders.push(ladder);
        }
        for _ in 1..if is_noisy { rounds } else { 1 } {
            for ladder in &mut ladders {
                ladder.repeat(machine)?;
            }
        }
        ladders.sort_by_key(|ladder| ladder.probe.size);
        Ok(ladders.iter().map(Ladder::saturation).collect())
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

/// Of rates by depth that have no noise, ascending, the first that reaches 98 % of the best, with its depth; `None` without any.
pub fn saturating_rate(rates: &[(u32, f64)]) -> Option<(u32, f64)> {
    let depths: Vec<DepthRates> =
        rates.iter().map(|&(depth, rate)| DepthRates { depth, rates: vec![rate] }).collect();
    choose_depth(&depths).map(|chosen| (chosen.depth, chosen.ios_per_s))
}

/// Probes of one size at rising depths.
struct Ladder<'r> {
    probe: Probe<'r>,
    depths: Vec<DepthRates>,
}

impl<'r> Ladder<'r> {
    /// Measures each depth once. It does not stop with fewer than `least` bytes in flight.
    fn climb(machine: &mut Machine<'_>, mut probe: Probe<'r>, least: Bytes) -> Result<Ladder<'r>, EmError> {
        let (parts, size) = (probe.region.parts(), probe.size);
        let devices = parts.iter().map(|part| machine.geometry(part.device).depth).sum::<u32>();
        let memory = machine.budget().left().0 / crate::MemoryBudget::buffer_size(size).0;
        let depth_max = DEPTH_MAX.min(devices).min(memory.min(u64::from(u32::MAX)) as u32).max(1);
        // With fewer IOs in flight, sequences on several devices keep only some of them busy.
        let all_busy = match probe.order {
            ProbeOrder::Sequential if parts.len() > 1 => {
                parts.len() as u64 * probe.region.stripe().0 / size.0.max(1)
            }
            _ => 1,
        };
        let needed = all_busy.max(least.0.div_ceil(size.0.max(1)));
        let mut depths: Vec<DepthRates> = Vec::new();
        for depth in std::iter::successors(Some(1u32), |depth| depth.checked_mul(2)) {
            let depth = depth.min(depth_max);
            depths.push(DepthRates { depth, rates: vec![probe.rate(machine, depth)?] });
            let is_flat = |before: &DepthRates, last: &[DepthRates]| {
                u64::from(before.depth) >= needed
                    && last.iter().all(|one| one.rates[0] < before.rates[0] * 1.01)
            };
            let before = depths.len().checked_sub(4);
            if depth == depth_max
                || before.is_some_and(|before| is_flat(&depths[before], &depths[before + 1..]))
            {
                break;
            }
        }
        Ok(Ladder { probe, depths })
    }

    /// Measures the depths that may be chosen once more, and forgets the others.
    fn repeat(&mut self, machine: &mut Machine<'_>) -> Result<(), EmError> {
        let best = self.depths.iter().map(|depth| depth.rates[0]).fold(0.0, f64::max);
        self.depths.retain(|depth| depth.rates[0] >= best * MAY_BE_CHOSEN);
        for at in 0..self.depths.len() {
            let rate = self.probe.rate(machine, self.depths[at].depth)?;
            self.depths[at].rates.push(rate);
        }
        Ok(())
    }

    fn choice(&self) -> DepthChoice {
        choose_depth(&self.depths).expect("a depth was measured")
    }

    fn saturation(&self) -> Saturation {
        let DepthChoice { depth, ios_per_s } = self.choice();
        Saturation { size: self.probe.size, depth, ios_per_s }
    }
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
        let count = IOS.max(u64::from(depth) * QUEUES);
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
    /// Whether others used the device meanwhile, so that the next measurement may be off by a factor.
    pub is_noisy: bool,
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
        Tuning::measure_in(machine, read, write, ROUNDS)
    }

    /// The same with one round of probes, for work that is over in a second: five rounds move some gigabytes.
    ///
    /// # Errors
    /// As [`Saturation::measure`].
    pub fn measure_once(
        machine: &mut Machine<'_>,
        read: &Region,
        write: Option<&Region>,
    ) -> Result<Tuning, EmError> {
        Tuning::measure_in(machine, read, write, 1)
    }

    fn measure_in(
        machine: &mut Machine<'_>,
        read: &Region,
        write: Option<&Region>,
        rounds: usize,
    ) -> Result<Tuning, EmError> {
        let mut window = |region: &Region, mode| {
            // A queue of a few IOs has to fit into a quarter of the memory.
            let largest =
                Bytes(machine.budget().left().0 / 16).round_down(machine.unit()).max(machine.unit());
            let size = SEQUENTIAL_IO.round_up(machine.unit()).min(region.stripe()).min(largest);
            let probes = (mode, ProbeOrder::Sequential);
            let saturations = Saturation::measure_all(machine, region, probes, &[size], rounds)?;
            Ok::<Bytes, EmError>(saturations[0].window())
        };
        let read_window = window(read, Mode::Read)?;
        let write_window = write.map_or(Ok(read_window), |region| window(region, Mode::Write))?;
        Ok(Tuning { read_window, write_window, is_noisy: !machine.is_virtual() })
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

/// The bytes a second that IOs of each size reach with a full queue. They do not fall with the size: a larger IO could be made of smaller
/// ones.
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
        let sizes: Vec<Bytes> =
            CURVE.into_iter().filter(|size| *size <= largest && size.is_multiple_of(unit)).collect();
        let saturations = Saturation::measure_all(machine, region, (mode, order), &sizes, ROUNDS)?;
        Ok(BandwidthCurve::through(saturations.iter().map(|one| (one.size, one.bytes_per_s()))))
    }

    /// The curve through measured bytes a second at rising sizes.
    pub fn through(points: impl IntoIterator<Item = (Bytes, f64)>) -> BandwidthCurve {
        let (sizes, rates): (Vec<Bytes>, Vec<f64>) = points.into_iter().unzip();
        BandwidthCurve { points: sizes.into_iter().zip(non_decreasing(&rates)).collect() }
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
