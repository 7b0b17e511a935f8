//! Predictions of the models of one mechanism, from a fitted [`DeviceModel`]: Append and Pack, external-memory algorithms, and garbage
//! collection. Each has an interval.
//!
//! # Method
//! The costs that an equation needs are predicted by the device's model, each with its interval. Every equation here grows or
//! falls with each of its costs, so that the ends of its interval are at ends of theirs. The interval is cautious: costs are seldom off in
//! the worst direction all at once.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;
use flashlab_sim::profile::ThroughputClass;

use crate::ModelError;
use crate::append_and_pack::AppendAndPack;
use crate::device_model::DeviceModel;
use crate::garbage_collection::GarbageCollection;
use crate::performance_model::{Measured, PerformanceModel};

impl DeviceModel {
    /// The mean time of a request of this class and size alone, in nanoseconds.
    fn mean_ns(&self, class: ThroughputClass, size: Bytes) -> Result<Interval, ModelError> {
        let mean = self.class_of_size(class, size)?.means.predict(size);
        if mean.low > 0.0 {
            return Ok(mean);
        }
        let class = class.words();
        Err(ModelError::Input(format!(
            "the time of a {class} of {size} is not known well enough: its interval reaches down to 0"
        )))
    }

    /// The speed-up of a workload through Append and Pack, with pages of this size, `reads` as the share of random reads and alpha as the
    /// physical capacity over the logical one; and T'_RW in nanoseconds.
    ///
    /// # Errors
    /// Where one of the three costs has no model.
    pub fn append_and_pack(&self, page: Bytes, reads: f64, alpha: f64) -> Result<[Interval; 2], ModelError> {
        let costs = [
            self.mean_ns(ThroughputClass::RandomRead, page)?,
            self.mean_ns(ThroughputClass::SequentialWrite, page)?,
            self.mean_ns(ThroughputClass::RandomWrite, page)?,
        ];
        let of = |value: fn(&AppendAndPack, f64, f64) -> f64| {
            let at = |[random_read, sequential_write, random_write]: [f64; 3]| {
                value(&AppendAndPack { random_read, sequential_write, random_write }, reads, alpha)
            };
            let corners = (0..8).map(|corner| {
                let end = |which: usize| match corner >> which & 1 {
                    0 => costs[which].low,
                    _ => costs[which].high,
                };
                at([end(0), end(1), end(2)])
            });
            let (low, high) = corners
                .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
            Interval { estimate: at(costs.map(|cost| cost.estimate)), low, high }
        };
        Ok([of(AppendAndPack::speed_up), of(|model, _, alpha| model.repaired_write(alpha))])
    }

    /// x + c_W y: the seconds of an algorithm that reads and writes these bytes randomly, in blocks of B_R and B_W; and c_W, what
    /// a write of B_W costs in reads of B_R.
    ///
    /// # Errors
    /// Where reads or writes have no model.
    pub fn external_memory(
        &self,
        [read, written]: [Bytes; 2],
        [read_block, write_block]: [Bytes; 2],
    ) -> Result<[Interval; 2], ModelError> {
        let reads = self.mean_ns(ThroughputClass::RandomRead, read_block)?;
        let writes = self.mean_ns(ThroughputClass::RandomWrite, write_block)?;
        let [x, y] = [(read, read_block), (written, write_block)]
            .map(|(bytes, block)| bytes.0.div_ceil(block.0.max(1)) as f64);
        let seconds = |read_ns: f64, write_ns: f64| (x * read_ns + y * write_ns) / 1e9;
        let write_cost = Interval {
            estimate: writes.estimate / reads.estimate,
            low: writes.low / reads.high,
            high: writes.high / reads.low,
        };
        let time = Interval {
            estimate: seconds(reads.estimate, writes.estimate),
            low: seconds(reads.low, writes.low),
            high: seconds(reads.high, writes.high),
        };
        Ok([time, write_cost])
    }

    /// The mean time of a random write of this size at a write amplification, in nanoseconds: T0 (1 + c (WA - 1)), fitted to the
    /// runs of that size, each with its own write amplification.
    ///
    /// # Errors
    /// Where fewer than three runs have different write amplifications, or the device does not count what it programs.
    pub fn collection(&self, size: Bytes, write_amplification: f64) -> Result<Interval, ModelError> {
        // Where fills were measured they alone count: other runs differ in where they write, too.
        let all = &self.fitted_to.points;
        let has_fills =
            all.iter().any(|point| point.workload.filled.is_some() && point.workload.size == size);
        let points = all.iter().filter(|point| {
            let workload = &point.workload;
            workload.filled.is_some() == has_fills
                && workload.distance.is_none()
                && workload.class == ThroughputClass::RandomWrite
                && workload.size == size
                && workload.depth == 1
                && workload.write_share == 1.0
        });
        let measured: Vec<Measured<f64>> = points
            .filter_map(|point| Some(Measured { input: point.write_amplification?, figure: point.mean_ns }))
            .collect();
        Ok(GarbageCollection::fit(&measured)?.predict(write_amplification))
    }
}
