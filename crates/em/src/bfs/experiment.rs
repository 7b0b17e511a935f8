//! A whole search as an experiment: costs, graph, clusters, levels, and what was predicted.
//!
//! # Method
//! 1. Costs of the devices are measured on space as large as the structure, and the cluster size follows from them in closed
//!    form, unless it is given.
//! 2. The graph is written, clustered where the algorithm needs that, and searched; each is a phase of the ledger.

use flashlab_base::{Bytes, Mode, Nanos, Seed};

use super::{
    Clustering, Search, SearchIos, SearchPlacement, SearchSizes, StoredGraph, cluster, mehlhorn_meyer,
    munagala_ranade, search_ios, semi_external,
};
use crate::cost::{
    AccessPattern, AlgorithmIos, ClusterCosts, ClusterSize, CostSizes, DeviceCosts, InFlight, IoClass,
    best_cluster, measure,
};
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Spread};
use crate::graph::GraphSource;
use crate::ledger::IoCounts;
use crate::machine::Machine;
use crate::records::Workspace;
use crate::stopwatch::{AlgorithmRun, Stopwatch};

/// How a search fetches the neighbours of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchMethod {
    /// [`munagala_ranade`].
    MunagalaRanade,
    /// [`mehlhorn_meyer()`].
    MehlhornMeyer,
    /// [`semi_external`].
    SemiExternal,
}

/// A search to run.
#[derive(Clone, Copy, Debug)]
pub struct SearchTask {
    /// How.
    pub method: SearchMethod,
    /// Where.
    pub placement: SearchPlacement,
    /// B: the size of a random read.
    pub block: Bytes,
    /// S: the size of an IO of a sequence.
    pub sequence_block: Bytes,
    /// The nodes of a cluster on average; by the closed form if it is not given.
    pub cluster: Option<u64>,
    /// What a record costs the host, for the closed form.
    pub host_cost: Nanos,
    /// The seed of what is drawn: masters, and the offsets of measured IOs.
    pub seed: Seed,
}

impl SearchTask {
    /// With blocks that suit the unit of a device's IOs and this memory.
    pub(crate) fn fitted(&self, unit: Bytes, memory: Bytes) -> SearchTask {
        let block = self.block.max(unit);
        SearchTask { block, sequence_block: sequence_block(memory, block), ..*self }
    }
}

/// What a search came to.
pub struct SearchRun {
    /// What each device charges.
    pub costs: Vec<DeviceCosts>,
    /// The cluster size that the closed form gives.
    pub closed_form: ClusterSize,
    /// The clusters, where the method has some.
    pub clustering: Option<Clustering>,
    /// What the search found.
    pub search: Search,
    /// How long the search took, without what came before it.
    pub time: Nanos,
    /// How long the host computed meanwhile.
    pub host: Nanos,
    /// The IOs of the search.
    pub issued: IoCounts,
    /// Those of each device.
    pub issued_on: Vec<IoCounts>,
}

/// The size of sequence IOs for a memory: so that all readers and writers take a quarter of it, at most 1 MiB, a power of two
/// and a multiple of the random read.
pub fn sequence_block(memory: Bytes, block: Bytes) -> Bytes {
    let most = (memory.0 / 32).clamp(block.0, 1 << 20);
    let times = (most / block.0.max(1)).max(1);
    Bytes(block.0 << times.ilog2())
}

/// The sizes and depths that a search's costs are measured with.
pub fn search_cost_sizes(task: &SearchTask) -> CostSizes {
    CostSizes {
        small: task.block,
        large: task.sequence_block.max(task.block * 2),
        // What the searches have: up to 8 lists or clusters, and a block ahead of each sequence.
        in_flight: InFlight { random_reads: 8, sequential_reads: 2, sequential_writes: 2, ..InFlight::ONE },
    }
}

/// What each device charges for the IOs of a search on a graph.
///
/// # Errors
/// As [`measure`].
pub fn search_costs(
    machine: &mut Machine<'_>,
    graph: &impl GraphSource,
    task: &SearchTask,
) -> Result<Vec<DeviceCosts>, EmError> {
    machine.begin_phase("measure costs");
    let sizes = search_cost_sizes(task);
    let mut costs = Vec::new();
    for device in 0..machine.device_count() {
        let mut space = ExtentAllocator::new(machine);
        let most = space.free_on(device).round_down(sizes.large);
        let length = Bytes(16 * graph.arcs()).max(sizes.large * 8).round_up(sizes.large).min(most);
        let region = space.allocate(length, Spread::On(device))?;
        costs.push(measure(machine, &region, sizes, task.seed)?);
    }
    Ok(costs)
}

/// The closed form's cluster size for a search.
pub fn closed_form(costs: &[DeviceCosts], graph: &impl GraphSource, task: &SearchTask) -> ClusterSize {
    let devices = |spread| match spread {
        Spread::On(device) => vec![costs[device]],
        Spread::Striped(_) => costs.to_vec(),
    };
    let SearchPlacement { structure, pool } = task.placement;
    let arcs = graph.arcs() as f64 / f64::from(graph.nodes().max(1));
    let mut cluster =
        ClusterCosts::of(&devices(structure), &devices(pool), task.block, task.sequence_block, 16.0 * arcs);
    cluster.pool_host_ns = 2.0 * arcs * task.host_cost.0 as f64;
    best_cluster(&cluster)
}

/// Writes a graph, clusters it where the method needs it, and searches it from `source`.
///
/// # Errors
/// Those of the IOs, [`EmError::Memory`], [`EmError::Space`] and [`EmError::Parameter`].
pub fn run_search<R>(
    machine: &mut Machine<'_>,
    graph: &impl GraphSource,
    source: u32,
    task: &SearchTask,
    verify: impl FnOnce(&mut Workspace<'_, '_>, &Search) -> Result<R, EmError>,
) -> Result<(SearchRun, R), EmError> {
    let costs = search_costs(machine, graph, task)?;
    let closed_form = closed_form(&costs, graph, task);
    let space = ExtentAllocator::new(machine);
    let mut workspace = Workspace { machine, space, block: task.sequence_block, ahead: 1 };
    workspace.machine.begin_phase("write graph");
    let stored = StoredGraph::write(&mut workspace, graph, task.placement.structure)?;
    let clustering = if task.method == SearchMethod::MehlhornMeyer {
        workspace.machine.begin_phase("cluster");
        let size = task.cluster.unwrap_or(closed_form.nodes.round() as u64).max(1);
        Some(cluster(&mut workspace, &stored, source, size, task.placement, task.seed)?)
    } else {
        None
    };
    let watch = Stopwatch::start(workspace.machine);
    workspace.machine.begin_phase("search");
    let (placement, block) = (task.placement, task.block);
    let search = match (task.method, &clustering) {
        (SearchMethod::SemiExternal, _) => semi_external(&mut workspace, &stored, source, placement, block)?,
        (_, Some(clustering)) => mehlhorn_meyer(&mut workspace, clustering, placement, block)?,
        (_, None) => munagala_ranade(&mut workspace, &stored, source, placement, block)?,
    };
    let AlgorithmRun { time, host, issued, issued_on, .. } = watch.stop(workspace.machine);
    workspace.machine.begin_phase("verify");
    let verified = verify(&mut workspace, &search)?;
    Ok((SearchRun { costs, closed_form, clustering, search, time, host, issued, issued_on }, verified))
}

impl SearchRun {
    /// The IOs of the search by the formula, from what its levels moved.
    pub fn ios(&self, memory: Bytes, task: &SearchTask) -> SearchIos {
        let sizes = SearchSizes { block: task.block, sequence_block: task.sequence_block, memory };
        search_ios(&self.search.shape, self.search.levels.count() as f64, sizes)
    }
}

impl SearchIos {
    /// These IOs on the devices of a placement, for cost models. Reads of neighbours and scans of the pool do not overlap, because
    /// a level's clusters are known when its scan is done. A scan alternates between reading and writing.
    pub fn on(&self, placement: SearchPlacement, devices: usize, host: Nanos) -> AlgorithmIos {
        // What a level reads can be in flight together.
        let in_flight = self.groups.first().map_or(1.0, |most| most.mean.cluster_blocks.max(1.0)) as u32;
        let classes = |spread: Spread, pattern, mode, count: f64, bytes: f64| -> Vec<IoClass> {
            let on = spread.devices(devices);
            let share = on.len() as f64;
            on.map(|device| IoClass {
                device,
                mode,
                pattern,
                count: count / share,
                bytes: bytes / share,
                in_flight,
            })
            .collect()
        };
        let (ascending, alternating) = (AccessPattern::Ascending, AccessPattern::Alternating);
        let clusters =
            classes(placement.structure, ascending, Mode::Read, self.cluster_reads, self.cluster_bytes);
        let mut pool =
            classes(placement.pool, alternating, Mode::Read, self.pool_reads, self.pool_read_bytes);
        pool.extend(classes(
            placement.pool,
            alternating,
            Mode::Write,
            self.pool_writes,
            self.pool_write_bytes,
        ));
        AlgorithmIos::alternating(vec![clusters, pool], host)
    }
}
