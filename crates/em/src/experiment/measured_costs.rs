//! What devices charge, measured on a part of them.

use flashlab_base::{Bytes, Mode, Nanos, Seed};

use super::prediction::CostSource;
use super::{MEASURED_MAX, SearchGraph, SequencePlacement, generate, ranking, sorting};
use crate::bfs::{SearchIos, SearchTask, measure_levels};
use crate::cost::{CostSizes, DeviceCosts};
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Region, Spread};
use crate::machine::Machine;
use crate::record_format::{RecordFormat, RecordGenerator};
use crate::sort::{COPIES_MAX, ReplayedTimes, SortPlan, SortRates, SortTask};
use crate::tuning::{BandwidthCurve, ProbeOrder, Saturation, Tuning};

/// What devices charge, measured on a part of them: at most 256 MiB of each kind.
pub struct MeasuredCosts<'m, 'a> {
    machine: &'m mut Machine<'a>,
    written: Region,
    scratch: Region,
    /// What is free beside them.
    free: ExtentAllocator,
    /// Whether the algorithm would run on these devices, and not on larger ones of their kind.
    is_final: bool,
    seed: Seed,
}

impl<'m, 'a> MeasuredCosts<'m, 'a> {
    /// Writes data to measure on, as much as an input of `length` has, where the algorithm's data lies.
    ///
    /// # Errors
    /// Those of the IOs, and [`EmError::Space`].
    pub fn new(
        machine: &'m mut Machine<'a>,
        length: Bytes,
        data: Spread,
        seed: Seed,
    ) -> Result<MeasuredCosts<'m, 'a>, EmError> {
        let mut free = ExtentAllocator::new(machine);
        let size = length.clamp(Bytes::mib(1), MEASURED_MAX);
        let (written, scratch) = (free.allocate(size, data)?, free.allocate(size, data)?);
        let mut generator = RecordGenerator::new(seed.derive("records", 0));
        let format = RecordFormat::new(Bytes(16), 0..8)?;
        generate(machine, &format, &written, size.0 / 16, |_, record| generator.fill(record))?;
        Ok(MeasuredCosts { machine, written, scratch, free, is_final: false, seed })
    }

    /// The algorithm would run on these devices: what they have no space for is refused.
    #[must_use]
    pub fn on_these(mut self) -> MeasuredCosts<'m, 'a> {
        self.is_final = true;
        self
    }
}

impl CostSource for MeasuredCosts<'_, '_> {
    fn device_count(&self) -> usize {
        self.machine.device_count()
    }

    fn memory(&self) -> Bytes {
        self.machine.budget().limit()
    }

    fn unit(&self) -> Bytes {
        self.machine.unit()
    }

    fn host_cost(&self) -> Nanos {
        self.machine.declared_cost()
    }

    fn costs(&mut self, device: usize, sizes: CostSizes) -> Result<DeviceCosts, EmError> {
        let mut free = ExtentAllocator::new(self.machine);
        let extent = (device, self.written.size());
        super::costs_of(self.machine, &mut free, extent, sizes.small, sizes.in_flight, self.seed)
    }

    fn tuning(&mut self) -> Result<Tuning, EmError> {
        Tuning::measure(self.machine, &self.written, Some(&self.scratch))
    }

    fn saturation(&mut self, block: Bytes) -> Result<u32, EmError> {
        let order = ProbeOrder::Random(self.seed);
        Ok(Saturation::measure(self.machine, &self.written, Mode::Read, order, block)?.depth)
    }

    fn list_read(&mut self, list: (u64, Spread), block: Bytes) -> Result<Option<f64>, EmError> {
        ranking::list_read_time(self.machine, list, block, self.seed).map(Some)
    }

    fn read_curve(&mut self) -> Result<BandwidthCurve, EmError> {
        let order = ProbeOrder::Random(self.seed);
        BandwidthCurve::measure(self.machine, &self.written, Mode::Read, order)
    }

    fn levels(
        &mut self,
        (graph, task): (&SearchGraph, &SearchTask),
        ios: &SearchIos,
        costs: &mut [DeviceCosts],
    ) -> Result<(), EmError> {
        measure_levels(self.machine, graph, task, ios, costs)
    }

    fn rates(&mut self) -> Result<Option<SortRates>, EmError> {
        SortRates::measure(self.machine, &self.written, &self.scratch, self.seed).map(Some)
    }

    fn space_for_runs(&self, length: Bytes, placement: SequencePlacement) -> Result<Bytes, EmError> {
        if !self.is_final {
            return Ok(Bytes(u64::MAX));
        }
        let mut free = ExtentAllocator::new(self.machine);
        free.allocate(length, placement.data)?;
        free.allocate(length, placement.data)?;
        Ok(free.largest(placement.temporary, u64::from(COPIES_MAX)))
    }

    fn replay(&mut self, sort: (&SortTask, &SortPlan)) -> Result<Option<ReplayedTimes>, EmError> {
        let regions = (&self.written, &self.scratch);
        sorting::replayed(self.machine, &mut self.free, sort, regions, self.seed)
    }
}
