//! The experiment `search`.

use flashlab_base::{Bytes, Mode, Nanos, Prng, Seed};

use super::algorithm::{Algorithm, ELEMENTS, Smaller, space_of_copies};
use super::placement::{
    DataLayout, SequencePlacement, SequenceTimes, costs_of_all, mean_costs, on_each, reads_of_each, tuning_of,
};
use super::prediction::{AlgorithmPrediction, CostSource, costs};
use super::ranking::random_reads;
use super::{ExperimentOutcome, generate};
use crate::cost::{AccessPattern, AlgorithmIos, InFlight, IoClass};
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Spread};
use crate::machine::Machine;
use crate::record_format::RecordFormat;
use crate::search::{BinarySearch, SearchStructure, SortedSequence, StaticTree, plan_search, search};
use crate::stopwatch::Stopwatch;
use crate::tuning::{BandwidthCurve, ProbeOrder, Saturation};

/// A structure to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchKind {
    /// Binary search.
    Binary,
    /// Binary search with the top levels cached.
    Cached,
    /// The static B-tree, with the top levels cached.
    Tree,
}

/// What is searched, and how.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// How many records.
    pub elements: u64,
    /// The size of a record; its key is the first eight bytes.
    pub record: Bytes,
    /// The structure.
    pub kind: SearchKind,
    /// How many queries.
    pub queries: u64,
    /// How many queries are in flight; what saturates the device, if `None`.
    pub in_flight: Option<u32>,
    /// The size of the blocks; what suits the device, if `None`.
    pub block: Option<Bytes>,
    /// On which devices the records lie, and the levels of a tree above them.
    pub placement: SequencePlacement,
    /// The seed of queries and probes.
    pub seed: Seed,
}

impl SearchOptions {
    /// How many reads are in flight, and the pattern of all reads. A binary search reads ever smaller halves: those of its first levels are
    /// in the same few blocks for all searches, and those of its last levels close to each other.
    pub(super) fn reads(&self, in_flight: u32, cache: Bytes) -> (InFlight, AccessPattern) {
        let (halving_reads, pattern) = match self.kind {
            SearchKind::Tree => (0, AccessPattern::Random),
            _ => (in_flight, AccessPattern::Halving),
        };
        let cached_levels = self.cached_levels(cache);
        let depths = InFlight { random_reads: in_flight, halving_reads, cached_levels, ..InFlight::ONE };
        (depths, pattern)
    }

    /// How many levels of a binary search this cache has.
    pub(super) fn cached_levels(&self, cache: Bytes) -> u32 {
        match self.kind {
            SearchKind::Cached => (cache.0 / 8).max(1).ilog2().min(CACHED_LEVELS_MAX),
            SearchKind::Binary | SearchKind::Tree => 0,
        }
    }
}

impl Algorithm for SearchOptions {
    fn name(&self) -> &'static str {
        "search"
    }

    fn space(&self, _memory: Bytes) -> Result<Bytes, EmError> {
        space_of_copies(self.elements, self.record)
    }

    fn data(&self) -> (Bytes, Spread) {
        (Bytes(self.elements.saturating_mul(self.record.0)), self.placement.data)
    }

    fn place(&mut self, machine: &Machine<'_>, layout: DataLayout) {
        self.placement = SequencePlacement::on(machine, layout, self.record);
    }

    fn run(&self, machine: &mut Machine<'_>) -> Result<ExperimentOutcome, EmError> {
        run(machine, self)
    }

    fn predict(&self, source: &mut dyn CostSource) -> Result<AlgorithmPrediction, EmError> {
        predict(source, self)
    }

    /// With all of its memory, which its queries in flight and its cache need, and with what was chosen for the device.
    fn smaller(&self, memory: Bytes, (ios, block): (&AlgorithmIos, Bytes)) -> Option<Smaller> {
        /// The queries of a smaller search.
        const QUERIES: u64 = 1 << 16;
        let smaller = SearchOptions {
            elements: self.elements / (self.elements / ELEMENTS).max(1),
            queries: self.queries.min(QUERIES),
            in_flight: ios.ios().map(|class| class.in_flight).max(),
            block: Some(block),
            ..self.clone()
        };
        let work = self.queries as f64 / smaller.queries as f64;
        Some(Smaller { algorithm: Box::new(smaller), memory, work })
    }
}

/// Generates sorted records, searches for random keys, and checks every rank.
fn run(machine: &mut Machine<'_>, options: &SearchOptions) -> Result<ExperimentOutcome, EmError> {
    let format = RecordFormat::new(options.record, 0..8)?;
    let length = options.data().0;
    let mut free = ExtentAllocator::new(machine);
    let region = free.allocate(length.round_up(Bytes::kib(128)), options.placement.data)?;
    // The keys are 2 i + 1: a key q has the rank ceil(q / 2).
    generate(machine, &format, &region, options.elements, |index, record| {
        let (key, others) = record.split_at_mut(8);
        key.copy_from_slice(&(2 * index + 1).to_be_bytes());
        others.fill(index as u8);
    })?;
    machine.begin_phase("tune");
    let order = ProbeOrder::Random(options.seed);
    let (unit, memory) = (machine.unit(), machine.budget().left());
    let block = search_block(options, (unit, memory), || {
        BandwidthCurve::measure(machine, &region, Mode::Read, order)
    })?;
    if let Some(stripe) = options.placement.stripe().filter(|stripe| !stripe.is_multiple_of(block)) {
        return Err(EmError::Parameter(format!(
            "blocks of {block} do not divide the stripe unit of {stripe}: take another block"
        )));
    }
    let saturation = Saturation::measure(machine, &region, Mode::Read, order, block)?;
    let in_flight = options
        .in_flight
        .unwrap_or_else(|| queries_in_flight(saturation.depth, block, machine.budget().left()));
    let cache = Bytes(machine.budget().left().0 / 2);
    let (depths, pattern) = options.reads(in_flight, cache);
    let on = (options.placement, length);
    // What is measured writes, too, and on a simulated device it might move the records out of an SLC cache before they are searched.
    let before = if machine.is_virtual() {
        None
    } else {
        Some(costs_of_all(machine, &mut free, on, (block, depths), options.seed)?)
    };
    let tuning = tuning_of(machine, &mut free, options.placement, (&region, None))?;
    let times = SequenceTimes::measure(machine, &mut free, &tuning, (&region, None))?;
    let sequence = SortedSequence::new(format, region, options.elements, block)?;
    let job = SearchJob { options, block, in_flight, pattern, saturation, times };
    let mut outcome = match options.kind {
        SearchKind::Binary => {
            let structure = BinarySearch::new(machine, sequence, 0)?;
            job.run(machine, &structure, "binary search".to_owned())
        }
        SearchKind::Cached => {
            let structure = BinarySearch::new(machine, sequence, options.cached_levels(cache))?;
            job.run(machine, &structure, "binary search with its top levels cached".to_owned())
        }
        SearchKind::Tree => {
            let spread = options.placement.temporary;
            let ahead = tuning.ahead(block).min((cache.0 / 4 / block.0.max(1)) as usize).max(1);
            let structure = StaticTree::build(machine, &mut free, spread, sequence, ahead, cache)?;
            let (height, read) = (structure.height(), structure.levels_read());
            let name = format!("static B-tree of {height} levels, {read} of them read by a query");
            job.run(machine, &structure, name)
        }
    }?;
    let after = costs_of_all(machine, &mut free, on, (block, depths), options.seed)?;
    outcome.costs = before.map_or(after.clone(), |before| mean_costs(&before, &after));
    Ok(outcome)
}

/// The block of a search: whole records in whole pages. A tree has the node that suits the device's curve of random reads.
pub(super) fn search_block(
    options: &SearchOptions,
    (unit, memory): (Bytes, Bytes),
    curve: impl FnOnce() -> Result<BandwidthCurve, EmError>,
) -> Result<Bytes, EmError> {
    let least = StaticTree::least_node(unit, options.record);
    match (options.block, options.kind) {
        (Some(block), _) => Ok(block),
        (None, SearchKind::Tree) => {
            let mut node = StaticTree::node_size(&curve()?, least);
            let most = options.placement.stripe().unwrap_or(node).0.min(memory.0 / 16);
            while node.0 > most && node > least {
                node = Bytes(node.0 / 2);
            }
            Ok(node)
        }
        (None, _) => Ok(least),
    }
}

/// How many queries are in flight: what saturates the device, with blocks in at most a quarter of the memory. Half of it is for
/// what is cached.
pub(super) fn queries_in_flight(saturating: u32, block: Bytes, memory: Bytes) -> u32 {
    u64::from(saturating).min(memory.0 / 4 / block.0.max(1)).max(1) as u32
}

/// The most levels of a binary search that are cached: each key of the cache costs a read once.
const CACHED_LEVELS_MAX: u32 = 12;

/// What the search of any structure needs.
struct SearchJob<'o> {
    options: &'o SearchOptions,
    block: Bytes,
    in_flight: u32,
    pattern: AccessPattern,
    saturation: Saturation,
    times: SequenceTimes,
}

impl SearchJob<'_> {
    fn run<S: SearchStructure>(
        self,
        machine: &mut Machine<'_>,
        structure: &S,
        name: String,
    ) -> Result<ExperimentOutcome, EmError> {
        let SearchOptions { elements, queries, seed, .. } = *self.options;
        let key = |query: u64| Prng::new(seed.derive("queries", query)).below(2 * elements + 1);
        let rank = |key: u64| key.div_ceil(2).min(elements);
        let (mut answered, mut wrong) = (0, None);
        let watch = Stopwatch::start(machine);
        search(machine, structure, (0..queries).map(key), self.in_flight as usize, |query, found| {
            answered += 1;
            if found != rank(key(query)) {
                wrong = Some((query, found));
            }
        })?;
        let run = watch.stop(machine);
        if let Some((query, found)) = wrong {
            return Err(EmError::Wrong(format!("query {query} found the rank {found}")));
        }
        if answered != queries {
            return Err(EmError::Wrong(format!("{answered} of {queries} queries were answered")));
        }
        let planned = plan_search(machine, structure, (0..queries).map(|query| rank(key(query))));
        let rate = run.issued.total() as f64 / run.time.as_secs_f64().max(1e-9);
        let class = IoClass {
            device: 0,
            mode: Mode::Read,
            pattern: self.pattern,
            count: run.issued.total() as f64,
            bytes: run.issued.bytes().0 as f64,
            in_flight: self.in_flight,
        };
        Ok(ExperimentOutcome {
            algorithm: "search",
            elements,
            planned,
            bounds: vec![self.times.bound(&run.issued_on)],
            issued: run.issued,
            time: run.time,
            host: vec![run.host],
            ios: AlgorithmIos::overlapped(
                vec![reads_of_each(&run.issued_on, class)],
                vec![machine.declared_cost() * queries],
            ),
            block: self.block,
            costs: Vec::new(),
            choices: vec![
                ("structure", name),
                ("block", self.block.to_string()),
                ("queries", queries.to_string()),
                ("queries in flight", self.in_flight.to_string()),
                ("time of a query", Nanos(run.time.0 / queries.max(1)).to_string()),
                (
                    "share of the device's random-read IOPS",
                    format!("{:.3}", rate / self.saturation.ios_per_s),
                ),
            ],
        })
    }
}

fn predict(source: &mut dyn CostSource, options: &SearchOptions) -> Result<AlgorithmPrediction, EmError> {
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
