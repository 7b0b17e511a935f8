//! What a device charges, from a fitted model or a recorded run instead of measuring it.
//!
//! # Model
//! A line of [`DeviceCosts`] goes through the model's times for the small and the large IO of the algorithm, one in flight; the
//! parallelism is the ratio of the rates with several in flight and with one. No class of IOs alternates between two
//! sequences: the mean of reading and writing in order stands for that, which leaves seeks out. It does not know either which dies a binary search reads, nor what reads and writes at the
//! same time cost each other.

use flashlab_base::{Bytes, Nanos};
use flashlab_em::bfs::{SearchIos, SearchTask};
use flashlab_em::cost::{CostSizes, DeviceCosts, LinearCost, Mixing, Parallelism};
use flashlab_em::experiment::{CostSource, SearchGraph, SequencePlacement};
use flashlab_em::{
    BandwidthCurve, DEPTH_MAX, EmError, ReplayedTimes, SEQUENTIAL_IO, SortPlan, SortRates, SortTask, Spread,
    Tuning, saturating_rate,
};
use flashlab_model::{DeviceModel, WorkloadRequest};
use flashlab_sim::profile::ThroughputClass;

/// Sizes of whole pages are known of every device.
const PAGE: Bytes = Bytes::kib(4);

/// A model of one device.
pub struct ModelCosts {
    pub model: DeviceModel,
    pub memory: Bytes,
    pub host_cost: Nanos,
}

impl ModelCosts {
    /// IOs a second.
    fn rate(&self, class: ThroughputClass, size: Bytes, depth: u32) -> Result<f64, EmError> {
        let predicted = self.model.predict(WorkloadRequest::of_class(class, size, depth));
        predicted.map(|prediction| prediction.ios_per_s.estimate.max(1e-3)).map_err(|error| {
            EmError::Parameter(format!("the model does not know {} of {size}: {error}", class.short_name()))
        })
    }

    /// The line through the times of both sizes. Beyond the largest size that was measured, bytes cost what they cost up to there.
    fn line(&self, class: ThroughputClass, sizes: CostSizes) -> Result<LinearCost, EmError> {
        let time = |size| Ok::<_, EmError>((size, 1e9 / self.rate(class, size, 1)?));
        let known = |most: Bytes| {
            let halves = std::iter::successors(Some(most), |size| Some(Bytes(size.0 / 2).round_down(PAGE)));
            halves.take_while(|size| *size >= PAGE).find_map(|size| time(size).ok())
        };
        let Some(large) = known(sizes.large) else { return time(sizes.large).map(|_| LinearCost::FREE) };
        let small = match sizes.small < large.0 {
            true => time(sizes.small)?,
            false => known(Bytes(large.0.0 / 2).round_down(PAGE)).unwrap_or((Bytes::ZERO, 0.0)),
        };
        Ok(LinearCost::through(small, large))
    }

    /// How many times the rate of one in flight, at the nearest size and depth that were measured with a queue; 1 where the model has
    /// no depths.
    fn parallelism(&self, class: ThroughputClass, size: Bytes, depth: u32) -> Result<f64, EmError> {
        let Some((size, depth)) = self.model.nearest_with_queue(class, size, depth) else { return Ok(1.0) };
        Ok((self.rate(class, size, depth)? / self.rate(class, size, 1)?).max(1.0))
    }

    /// The smallest depth that reaches the rate of the deepest queue that the model knows.
    fn saturating_depth(&self, class: ThroughputClass, size: Bytes) -> Result<u32, EmError> {
        self.rate(class, size, 1)?;
        let Some((size, deepest)) = self.model.nearest_with_queue(class, size, DEPTH_MAX) else {
            return Ok(1);
        };
        let depths = std::iter::successors(Some(1u32), |depth| Some(depth * 2));
        let rates = depths
            .take_while(|&depth| depth <= deepest)
            .map(|depth| Ok((depth, self.rate(class, size, depth)?)))
            .collect::<Result<Vec<_>, EmError>>()?;
        Ok(saturating_rate(&rates).map_or(1, |rate| rate.0))
    }
}

impl CostSource for ModelCosts {
    fn device_count(&self) -> usize {
        1
    }

    fn memory(&self) -> Bytes {
        self.memory
    }

    fn unit(&self) -> Bytes {
        Bytes(512)
    }

    fn host_cost(&self) -> Nanos {
        self.host_cost
    }

    fn costs(&mut self, _device: usize, sizes: CostSizes) -> Result<DeviceCosts, EmError> {
        use ThroughputClass::{RandomRead, RandomWrite, SequentialRead, SequentialWrite};
        let (read, write) = (self.line(SequentialRead, sizes)?, self.line(SequentialWrite, sizes)?);
        let (small, depths) = (sizes.small, sizes.in_flight);
        Ok(DeviceCosts {
            sequential_read: read,
            sequential_write: write,
            random_read: self.line(RandomRead, sizes)?,
            random_write: self.line(RandomWrite, sizes)?,
            ascending_read: self.line(RandomRead, sizes)?,
            alternating: LinearCost {
                setup_ns: (read.setup_ns + write.setup_ns) / 2.0,
                byte_ns: (read.byte_ns + write.byte_ns) / 2.0,
            },
            parallelism: Parallelism {
                sequential_read: self.parallelism(SequentialRead, small, depths.sequential_reads)?,
                sequential_write: self.parallelism(SequentialWrite, small, depths.sequential_writes)?,
                random_read: self.parallelism(RandomRead, small, depths.random_reads)?,
                ascending_read: self.parallelism(RandomRead, small, depths.random_reads)?,
                halving_read: self.parallelism(RandomRead, small, depths.halving_reads.max(1))?,
            },
            mixing: Mixing::SERIAL,
            submission: LinearCost::FREE,
        })
    }

    fn tuning(&mut self) -> Result<Tuning, EmError> {
        let window =
            |class| Ok::<_, EmError>(SEQUENTIAL_IO * u64::from(self.saturating_depth(class, SEQUENTIAL_IO)?));
        Ok(Tuning {
            read_window: window(ThroughputClass::SequentialRead)?,
            write_window: window(ThroughputClass::SequentialWrite)?,
            is_noisy: false,
        })
    }

    fn saturation(&mut self, block: Bytes) -> Result<u32, EmError> {
        self.saturating_depth(ThroughputClass::RandomRead, block)
    }

    fn list_read(&mut self, _list: (u64, Spread), _block: Bytes) -> Result<Option<f64>, EmError> {
        Ok(None)
    }

    fn read_curve(&mut self) -> Result<BandwidthCurve, EmError> {
        use ThroughputClass::RandomRead;
        let sizes = (2..=8).map(|power| Bytes(1024 << power));
        let point = |size: Bytes| {
            let depth = self.saturating_depth(RandomRead, size)?;
            let times = self.parallelism(RandomRead, size, depth)?;
            Ok((size, self.rate(RandomRead, size, 1)? * times * size.0 as f64))
        };
        Ok(BandwidthCurve::through(sizes.map(point).collect::<Result<Vec<_>, EmError>>()?))
    }

    fn levels(
        &mut self,
        _search: (&SearchGraph, &SearchTask),
        _ios: &SearchIos,
        _costs: &mut [DeviceCosts],
    ) -> Result<(), EmError> {
        Ok(())
    }

    fn rates(&mut self) -> Result<Option<SortRates>, EmError> {
        Ok(None)
    }

    fn space_for_runs(&self, _length: Bytes, _placement: SequencePlacement) -> Result<Bytes, EmError> {
        Ok(Bytes(u64::MAX))
    }

    fn replay(&mut self, _sort: (&SortTask, &SortPlan)) -> Result<Option<ReplayedTimes>, EmError> {
        Ok(None)
    }
}
