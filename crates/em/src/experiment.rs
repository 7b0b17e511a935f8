//! Experiments: an algorithm on generated input, its result verified, its IOs and time beside what cost models predict.
//!
//! # Method
//! 1. The input is generated and written in order.
//! 2. The device is measured: how much has to be in flight ([`Tuning`]) and what it charges ([`DeviceCosts`]).
//! 3. The time of reading and writing in order is measured: the bandwidth bound. On a real device, before the algorithm, after it, and
//!    between the passes of a sort, because others use the device, too. Their median counts, and their range is printed.
//! 4. The algorithm runs, and its result is verified.
//!
//! # Invariants
//! - An experiment that returns was verified; a wrong result is an error.
//! - Times and IOs are the algorithm's alone: generating, measuring, building an index and verifying are other phases.

mod algorithm;
mod graph_search;
mod measured_costs;
mod placement;
mod prediction;
mod ranking;
mod scanning;
mod search_graph;
mod searching;
mod sorting;

use flashlab_base::{Bytes, Mode, Nanos, Seed, median};

pub use algorithm::{Algorithm, Smaller};
pub use graph_search::BfsOptions;
pub use measured_costs::MeasuredCosts;
pub use placement::{DataLayout, SequencePlacement};
pub use prediction::{AlgorithmPrediction, CostSource};
pub use ranking::{RankMethod, RankOptions};
pub use scanning::ScanOptions;
pub use search_graph::SearchGraph;
pub use searching::{SearchKind, SearchOptions};
pub use sorting::SortOptions;

use crate::budget::MemoryBudget;
use crate::cost::{AlgorithmIos, CostModel, CostSizes, DeviceCosts, InFlight, measure};
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Region, Spread};
use crate::ledger::IoCounts;
use crate::machine::Machine;
use crate::record_format::{RecordChecksum, RecordFormat};
use crate::sequence::{SequenceReader, SequenceWriter};
use crate::tuning::Tuning;

/// What an experiment found.
#[derive(Clone, Debug)]
pub struct ExperimentOutcome {
    /// The algorithm: `scan`, `sort`, `search`, `rank` or `bfs`.
    pub algorithm: &'static str,
    /// How many elements.
    pub elements: u64,
    /// The IOs that the formula plans. Where it gives no sizes, each counts as a whole block.
    pub planned: IoCounts,
    /// The IOs that were issued.
    pub issued: IoCounts,
    /// How long it took.
    pub time: Nanos,
    /// How long the host computed meanwhile, in each phase of `ios`.
    pub host: Vec<Nanos>,
    /// How long reading and writing the same bytes in order takes, by each measurement of the same run.
    pub bounds: Vec<Nanos>,
    /// What the cost models see of the algorithm.
    pub ios: AlgorithmIos,
    /// The block of the models.
    pub block: Bytes,
    /// What each device charges, by its index.
    pub costs: Vec<DeviceCosts>,
    /// What was chosen: names and values, for people.
    pub choices: Vec<(&'static str, String)>,
}

/// What a model predicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostPrediction {
    /// The model.
    pub model: CostModel,
    /// The time.
    pub time: Nanos,
}

impl CostPrediction {
    /// What each model predicts for the IOs of an algorithm. The first device has the blocks B_R and B_W.
    ///
    /// # Panics
    /// Without a device: the caller's mistake.
    pub fn all(ios: &AlgorithmIos, block: Bytes, costs: &[DeviceCosts]) -> Vec<CostPrediction> {
        let predict = |model: CostModel| CostPrediction { model, time: model.predict(ios, costs) };
        CostModel::all(block, &costs[0]).into_iter().map(predict).collect()
    }

    /// How far the prediction is from a measured time, as a share of that: -0.1 is 10 % too low.
    pub fn error(&self, measured: Nanos) -> f64 {
        self.time.0 as f64 / measured.0.max(1) as f64 - 1.0
    }
}

impl ExperimentOutcome {
    /// The predictions of all models.
    pub fn predictions(&self) -> Vec<CostPrediction> {
        CostPrediction::all(&self.ios, self.block, &self.costs)
    }

    /// How long reading and writing the same bytes in order takes: the median of what was measured.
    pub fn bound(&self) -> Nanos {
        Nanos(median(self.bounds.iter().map(|bound| bound.0 as f64)).unwrap_or_default() as u64)
    }

    /// The time of reading and writing the same bytes in order over the time taken.
    pub fn bandwidth_bound_ratio(&self) -> f64 {
        self.bound().0 as f64 / self.time.0.max(1) as f64
    }
}

/// The largest region that costs and bandwidths are measured on.
const MEASURED_MAX: Bytes = Bytes::mib(256);
/// The largest IO of these measurements.
const LARGE_IO: Bytes = Bytes::mib(1);

/// A block for reading and writing in order: large, and at most a part of the memory.
fn large_block(machine: &Machine<'_>, record: usize) -> Bytes {
    large_block_in(machine.budget().left(), machine.unit(), record)
}

/// The block for reading and writing a region in order: it lies on one device.
fn sequence_block_of(machine: &Machine<'_>, region: &Region, record: usize) -> Bytes {
    if region.parts().len() > 1 { region.stripe() } else { large_block(machine, record) }
}

fn large_block_in(memory: Bytes, unit: Bytes, record: usize) -> Bytes {
    let most = Bytes(memory.0 / 16).min(LARGE_IO);
    let step = Bytes(4096u64.max(unit.0));
    let whole = |block: &Bytes| block.0.is_multiple_of(record as u64);
    let sizes = std::iter::successors(Some(most.round_down(step).max(step)), |size| {
        (*size > step).then(|| Bytes(size.0 - step.0))
    });
    sizes.take(256).find(whole).unwrap_or(step)
}

/// Writes `count` records in order, each made by `make`, and returns their checksum.
fn generate(
    machine: &mut Machine<'_>,
    format: &RecordFormat,
    region: &Region,
    count: u64,
    mut make: impl FnMut(u64, &mut [u8]),
) -> Result<RecordChecksum, EmError> {
    machine.begin_phase("generate");
    let block = sequence_block_of(machine, region, format.size());
    let mut writer = SequenceWriter::new(machine, region.clone(), Bytes(0), block, 7)?;
    let (mut checksum, mut index) = (RecordChecksum::default(), 0);
    if !block.0.is_multiple_of(format.size() as u64) {
        // No block of whole records fits into the memory: records cross blocks.
        let batch = (block.0 as usize / format.size()).max(1);
        let _lease = machine.budget().lease(Bytes((batch * format.size()) as u64), "records to write")?;
        let mut records = vec![0; batch * format.size()];
        while index < count {
            records.truncate((count - index).min(batch as u64) as usize * format.size());
            for record in records.chunks_exact_mut(format.size()) {
                make(index, record);
                index += 1;
            }
            let made = RecordChecksum::of(format, &records);
            checksum = checksum.merge(made);
            machine.compute(made.count);
            writer.write(machine, &records)?;
        }
    }
    while index < count {
        let space = writer.space(machine)?;
        let length = (space.len() as u64).min((count - index) * format.size() as u64) as usize;
        let records = &mut space[..length];
        for record in records.chunks_exact_mut(format.size()) {
            make(index, record);
            index += 1;
        }
        let made = RecordChecksum::of(format, records);
        checksum = checksum.merge(made);
        machine.compute(made.count);
        writer.advance(machine, length);
    }
    writer.finish(machine)?;
    Ok(checksum)
}

/// The time of a byte, read and written in order, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct ByteTimes {
    read: f64,
    write: f64,
}

impl ByteTimes {
    /// Measures on what `read` holds and, destroying its content, on `write`.
    fn measure(
        machine: &mut Machine<'_>,
        tuning: &Tuning,
        read: &Region,
        write: Option<&Region>,
    ) -> Result<ByteTimes, EmError> {
        machine.begin_phase("bandwidth bound");
        let block = large_block(machine, 1);
        // A real device may want more in flight than a small memory holds.
        let buffers = machine.budget().left().0 / MemoryBudget::buffer_size(block).0;
        let most = buffers.saturating_sub(1).max(1) as usize;
        let length = read.size().min(MEASURED_MAX);
        let begin = machine.now();
        let range = (Bytes(0), length);
        let mut reader =
            SequenceReader::new(machine, read.clone(), range, block, (tuning.ahead(block) + 1).min(most))?;
        while reader.next_block(machine)?.is_some() {}
        drop(reader);
        let read = machine.now().since(begin).0 as f64 / length.0 as f64;
        let Some(write) = write else { return Ok(ByteTimes { read, write: 0.0 }) };
        let length = write.size().min(MEASURED_MAX);
        let begin = machine.now();
        let mut writer = SequenceWriter::new(
            machine,
            write.clone(),
            Bytes(0),
            block,
            (tuning.behind(block) + 1).min(most),
        )?;
        writer.write_anything(machine, length)?;
        writer.finish(machine)?;
        Ok(ByteTimes { read, write: machine.now().since(begin).0 as f64 / length.0 as f64 })
    }

    /// The time of the same bytes in order.
    fn bound(&self, ios: &IoCounts) -> Nanos {
        let time =
            self.read * ios.bytes_of(Mode::Read).0 as f64 + self.write * ios.bytes_of(Mode::Write).0 as f64;
        Nanos(time as u64)
    }
}

/// The large IO with which costs are measured beside small ones, and the extent that it takes: the line needs two sizes that are apart.
fn costs_extent((memory, unit): (Bytes, Bytes), length: Bytes, small: Bytes) -> (Bytes, Bytes) {
    let fitting = Bytes(memory.0 / 2).round_down(small);
    let large = large_block_in(memory, unit, 1).round_up(small).max(small * 4).min(fitting).max(small * 2);
    (large, length.min(MEASURED_MAX).max(large * 4))
}

/// What a device charges for such IOs to an extent of about this length.
fn costs_of(
    machine: &mut Machine<'_>,
    free: &mut ExtentAllocator,
    (device, length): (usize, Bytes),
    small: Bytes,
    in_flight: InFlight,
    seed: Seed,
) -> Result<DeviceCosts, EmError> {
    machine.begin_phase("measure costs");
    let (large, size) = costs_extent((machine.budget().left(), machine.unit()), length, small);
    let region = free.allocate(size, Spread::On(device))?;
    let buffer = MemoryBudget::buffer_size(small).0;
    let most = (machine.budget().left().0 / buffer).min(4096) as u32;
    let fitting = |count: u32| count.min(most).max(1);
    let in_flight = InFlight {
        random_reads: fitting(in_flight.random_reads),
        sequential_reads: fitting(in_flight.sequential_reads),
        sequential_writes: fitting(in_flight.sequential_writes),
        halving_reads: in_flight.halving_reads.min(most),
        cached_levels: in_flight.cached_levels,
    };
    let costs = measure(machine, &region, CostSizes { small, large, in_flight }, seed)?;
    free.release(&region);
    Ok(costs)
}

/// The times of sequences on a device, measured on two regions of about `length` of the space that is free. Their content is destroyed.
fn sequence_times_in(
    machine: &mut Machine<'_>,
    free: &mut ExtentAllocator,
    device: usize,
    length: Bytes,
) -> Result<ByteTimes, EmError> {
    let unit = large_block(machine, 8);
    let most = Bytes(free.free_on(device).0 / 2).round_down(unit).min(MEASURED_MAX);
    let size = length.round_up(unit).max(unit * 8).min(most).max(unit);
    let (read, write) = (free.allocate(size, Spread::On(device))?, free.allocate(size, Spread::On(device))?);
    fill(machine, &read)?;
    machine.begin_phase("tune");
    let tuning = Tuning::measure(machine, &read, Some(&write))?;
    let times = ByteTimes::measure(machine, &tuning, &read, Some(&write))?;
    free.release(&read);
    free.release(&write);
    Ok(times)
}

/// Writes a region from its beginning to its end.
fn fill(machine: &mut Machine<'_>, region: &Region) -> Result<(), EmError> {
    let format = RecordFormat::new(Bytes(8), 0..8)?;
    generate(machine, &format, region, region.size().0 / 8, |index, record| {
        record.copy_from_slice(&index.to_be_bytes());
    })
    .map(drop)
}
