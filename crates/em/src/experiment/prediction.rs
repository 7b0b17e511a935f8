//! What an algorithm would do and take, without running it.
//!
//! # Method
//! 1. A [`CostSource`] says what the devices charge: it measures a part of a device ([`MeasuredCosts`]), or knows it from a
//!    recorded run.
//! 2. The algorithm is planned as its experiment plans it, and its IOs follow from their formula.
//!
//! # Invariants
//! - No algorithm runs and no input is generated, but for what a source measures on.

use flashlab_base::{Bytes, Mode, Nanos, Seed};

use super::graph_search::predicted_search;
use super::placement::{SequencePlacement, on_each};
use super::ranking::{self, hopping_ios, random_reads, sequence_ios};
use super::searching::{SearchKind, SearchOptions, queries_in_flight, scan_ahead, scan_block, search_block};
use super::sorting::{self, SortOptions};
use super::{MEASURED_MAX, RankMethod, RankOptions, SearchGraph, generate, large_block_in};
use crate::bfs::{SearchIos, SearchTask, closed_form, measure_levels, search_cost_sizes, sequence_block};
use crate::cost::{AccessPattern, AlgorithmIos, CostSizes, DeviceCosts, InFlight, IoClass};
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Region, Spread};
use crate::machine::Machine;
use crate::rank::{ListOrder, contraction_ios, hopping_reads};
use crate::record_format::{RecordFormat, RecordGenerator};
use crate::sort::SortRates;
use crate::tuning::{BandwidthCurve, ProbeOrder, Saturation, Tuning};

/// What is known of the devices that an algorithm would run on.
pub trait CostSource {
    /// How many devices there are.
    fn device_count(&self) -> usize;

    /// The memory of the algorithm.
    fn memory(&self) -> Bytes;

    /// The unit of IOs.
    fn unit(&self) -> Bytes;

    /// What computation on an element costs by declaration; zero on a real device.
    fn host_cost(&self) -> Nanos;

    /// What a device charges, by its index.
    ///
    /// # Errors
    /// Those of measuring it; [`EmError::Parameter`] where it is not known.
    fn costs(&mut self, device: usize, sizes: CostSizes) -> Result<DeviceCosts, EmError>;

    /// How much has to be in flight for sequences.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn tuning(&mut self) -> Result<Tuning, EmError>;

    /// How many random reads of this size saturate the device.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn saturation(&mut self, block: Bytes) -> Result<u32, EmError>;

    /// Measures the levels of a search where that is possible, and puts their costs in place of those of other IOs.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn levels(
        &mut self,
        search: (&SearchGraph, &SearchTask),
        ios: &SearchIos,
        costs: &mut [DeviceCosts],
    ) -> Result<(), EmError>;

    /// What a random read of a list takes, in nanoseconds, where that can be measured; `list` has the number of its elements. The costs
    /// are those of other data, which was overwritten meanwhile.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn list_read(&mut self, list: (u64, Spread), block: Bytes) -> Result<Option<f64>, EmError>;

    /// The bandwidths of random reads by size.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn read_curve(&mut self) -> Result<BandwidthCurve, EmError>;

    /// The bandwidths that sorts are planned by, where they are known.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn rates(&mut self) -> Result<Option<SortRates>, EmError>;
}

/// An algorithm and its input.
#[derive(Clone, Debug)]
pub enum PredictedAlgorithm<'o> {
    /// A scan of so many records.
    Scan {
        /// How many.
        elements: u64,
        /// The records.
        format: RecordFormat,
        /// On which devices they lie.
        data: Spread,
    },
    /// A sort.
    Sort(&'o SortOptions),
    /// A search.
    Search(&'o SearchOptions),
    /// List ranking.
    Rank(&'o RankOptions),
    /// Breadth-first search.
    Bfs(&'o SearchGraph, &'o SearchTask),
}

/// What an algorithm would do on devices.
#[derive(Clone, Debug)]
pub struct AlgorithmPrediction {
    /// Its IOs.
    pub ios: AlgorithmIos,
    /// The block of the models.
    pub block: Bytes,
    /// What each device charges, by its index.
    pub costs: Vec<DeviceCosts>,
    /// What was chosen: names and values, for people.
    pub choices: Vec<(&'static str, String)>,
}

/// What an algorithm would do, and what the devices charge for it.
///
/// # Errors
/// Those of the source and of planning; [`EmError::Parameter`] where no formula knows the IOs in advance.
pub fn predict(
    source: &mut dyn CostSource,
    algorithm: &PredictedAlgorithm<'_>,
) -> Result<AlgorithmPrediction, EmError> {
    match algorithm {
        PredictedAlgorithm::Scan { elements, format, data } => scan(source, *elements, format, *data),
        PredictedAlgorithm::Sort(options) => sort(source, options),
        PredictedAlgorithm::Search(options) => search(source, options),
        PredictedAlgorithm::Rank(options) => rank(source, options),
        PredictedAlgorithm::Bfs(graph, task) => bfs(source, graph, task),
    }
}

fn alone(in_flight: u32) -> InFlight {
    InFlight {
        random_reads: in_flight,
        sequential_reads: 1,
        sequential_writes: 1,
        halving_reads: 0,
        cached_levels: 0,
    }
}

fn sizes(small: Bytes, in_flight: InFlight) -> CostSizes {
    CostSizes { small, large: small * 4, in_flight }
}

/// What each device of a placement charges.
fn costs(
    source: &mut dyn CostSource,
    placement: SequencePlacement,
    (small, in_flight): (Bytes, InFlight),
) -> Result<Vec<DeviceCosts>, EmError> {
    let devices = source.device_count();
    let in_flight = in_flight.shared(placement.data.devices(devices).len());
    (0..devices).map(|device| source.costs(device, sizes(small, in_flight))).collect()
}

fn scan(
    source: &mut dyn CostSource,
    elements: u64,
    format: &RecordFormat,
    data: Spread,
) -> Result<AlgorithmPrediction, EmError> {
    let placement = SequencePlacement { data, temporary: data };
    let large = || large_block_in(source.memory(), source.unit(), format.size());
    let length = Bytes(elements * format.size() as u64);
    let block = scan_block(placement.stripe().unwrap_or_else(large), length, source.unit());
    let in_flight = scan_ahead(&source.tuning()?, block, source.memory()) as u32 + 1;
    let costs = costs(source, placement, (block, InFlight { sequential_reads: in_flight, ..alone(1) }))?;
    let class = IoClass {
        device: 0,
        mode: Mode::Read,
        pattern: AccessPattern::Sequential,
        count: length.0.div_ceil(block.0) as f64,
        bytes: length.round_up(source.unit()).0 as f64,
        in_flight,
    };
    let choices = vec![("block", block.to_string()), ("blocks in flight", in_flight.to_string())];
    Ok(AlgorithmPrediction {
        ios: AlgorithmIos::overlapped(
            vec![on_each(data, source.device_count(), class)],
            vec![source.host_cost() * elements],
        ),
        block,
        costs,
        choices,
    })
}

fn sort(source: &mut dyn CostSource, options: &SortOptions) -> Result<AlgorithmPrediction, EmError> {
    let tuning = source.tuning()?;
    let (unit, memory) = (source.unit(), source.memory());
    let task = options.task(unit, memory, tuning)?;
    let mut plan = task.plan(None)?;
    if !sorting::is_plain(&plan) {
        let rates = source.rates()?;
        plan = task.plan(rates.as_ref())?;
    }
    let costs = costs(source, options.placement, (plan.block, sorting::in_flight(&task, &plan)))?;
    let ios = sorting::ios((&task, &plan), options.placement, source.device_count(), source.host_cost());
    Ok(AlgorithmPrediction { ios, block: plan.block, costs, choices: sorting::choices(&task, &plan) })
}

fn search(source: &mut dyn CostSource, options: &SearchOptions) -> Result<AlgorithmPrediction, EmError> {
    let sizes = (source.unit(), source.memory());
    let block = search_block(options, sizes, || source.read_curve())?;
    let placement = options.placement;
    let in_flight = match options.in_flight {
        Some(in_flight) => in_flight,
        None => queries_in_flight(source.saturation(block)?, block, source.memory()),
    };
    let cache = Bytes(source.memory().0 / 2);
    let reads_of_a_query = reads_of_a_query(options, block, cache);
    let reads = options.queries as f64 * reads_of_a_query;
    let (depths, pattern) = options.reads(in_flight, cache);
    let costs = costs(source, placement, (block, depths))?;
    let class = IoClass { pattern, ..random_reads(reads, block, in_flight) };
    let choices = vec![
        ("block", block.to_string()),
        ("queries in flight", in_flight.to_string()),
        ("reads of a query", format!("{reads_of_a_query:.1}")),
    ];
    Ok(AlgorithmPrediction {
        ios: AlgorithmIos::overlapped(
            vec![on_each(placement.data, source.device_count(), class)],
            vec![source.host_cost() * options.queries],
        ),
        block,
        costs,
        choices,
    })
}

/// How many blocks a query reads on average.
fn reads_of_a_query(options: &SearchOptions, block: Bytes, cache: Bytes) -> f64 {
    let blocks = (options.elements * options.record.0).div_ceil(block.0).max(1);
    let levels = f64::from(blocks.next_power_of_two().ilog2());
    match options.kind {
        SearchKind::Binary => levels.max(1.0),
        SearchKind::Cached => {
            let read = (levels - f64::from(options.cached_levels(cache))).max(0.0);
            // The answer's block is one more read where no level below the cache went to its right half.
            read + 0.5f64.powf(read)
        }
        SearchKind::Tree => {
            let mut above = Vec::new();
            let mut keys = blocks;
            while keys > 1 {
                above.push(keys * 8);
                keys = (keys * 8).div_ceil(block.0);
            }
            let mut left = cache.0;
            let is_cached = |size: &&u64| {
                let fits = **size <= left;
                left -= if fits { **size } else { 0 };
                fits
            };
            1.0 + (above.len() - above.iter().rev().take_while(is_cached).count()) as f64
        }
    }
}

fn rank(source: &mut dyn CostSource, options: &RankOptions) -> Result<AlgorithmPrediction, EmError> {
    let RankOptions { elements, method, block, host_cost, placement, seed } = *options;
    let devices = source.device_count();
    let order = ListOrder::new(elements, seed)?;
    let sequence = sequence_block(source.memory(), block);
    let small = options.small_io(sequence);
    let mut costs = costs(source, placement, (small, ranking::IN_FLIGHT))?;
    let ios = match method {
        RankMethod::Hopping => {
            if let Some(time) = source.list_read((elements, placement.data), block)? {
                costs.iter_mut().for_each(|one| one.random_read = one.random_read.moved_to(block, time));
            }
            let class = random_reads(hopping_reads(&order, block) as f64, block, 1);
            hopping_ios(class, (placement, devices), Nanos(host_cost.0.saturating_mul(elements)))
        }
        RankMethod::Contraction => {
            let ios = contraction_ios(elements, source.memory(), sequence);
            sequence_ios(&ios, elements, (placement, devices), host_cost)
        }
    };
    let choices = vec![("block", small.to_string())];
    Ok(AlgorithmPrediction { ios, block: small, costs, choices })
}

fn bfs(
    source: &mut dyn CostSource,
    graph: &SearchGraph,
    task: &SearchTask,
) -> Result<AlgorithmPrediction, EmError> {
    let devices = source.device_count();
    let costs = (0..devices).map(|device| source.costs(device, search_cost_sizes(task)));
    let mut costs = costs.collect::<Result<Vec<_>, _>>()?;
    let nodes = closed_form(&costs, graph, task).nodes;
    let cluster = task.cluster.unwrap_or(nodes.round() as u64).max(1);
    let ios = predicted_search(graph, task, cluster, source.memory())?;
    source.levels((graph, task), &ios, &mut costs)?;
    let host = Nanos((ios.elements * task.host_cost.0 as f64) as u64);
    let choices = vec![
        ("block of random reads", task.block.to_string()),
        ("block of sequences", task.sequence_block.to_string()),
        ("nodes of a cluster, closed form", format!("{nodes:.1}")),
    ];
    Ok(AlgorithmPrediction { ios: ios.on(task.placement, devices, host), block: task.block, costs, choices })
}

/// What devices charge, measured on a part of them: at most 256 MiB of each kind.
pub struct MeasuredCosts<'m, 'a> {
    machine: &'m mut Machine<'a>,
    written: Region,
    scratch: Region,
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
        let size = length.round_up(Bytes::kib(128)).clamp(Bytes::mib(1), MEASURED_MAX);
        let (written, scratch) = (free.allocate(size, data)?, free.allocate(size, data)?);
        let mut generator = RecordGenerator::new(seed.derive("records", 0));
        let format = RecordFormat::new(Bytes(16), 0..8)?;
        generate(machine, &format, &written, size.0 / 16, |_, record| generator.fill(record))?;
        Ok(MeasuredCosts { machine, written, scratch, seed })
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
}
