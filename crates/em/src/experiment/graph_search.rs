//! The experiment `bfs`: a search on one device, or with structure and pool on two.

use flashlab_base::{Bytes, Mode, Nanos};

use super::ExperimentOutcome;
use super::placement::SequenceTimes;
use crate::bfs::{
    LevelShape, Search, SearchIos, SearchMethod, SearchRun, SearchSizes, SearchTask, direct_shape,
    level_tree_shape, measure_levels, run_search, search_ios, verify_level_tree, verify_levels,
};
use crate::error::EmError;
use crate::extent::ExtentAllocator;
use crate::graph::{AdjacencyArrays, GraphSource, LevelTree};
use crate::ledger::IoCounts;
use crate::machine::Machine;
use crate::records::Workspace;

/// A graph to search.
#[derive(Clone, Debug)]
pub enum SearchGraph {
    /// A level tree, which is searched from its root.
    LevelTree(LevelTree),
    /// A graph in memory, and the node that it is searched from.
    Arrays {
        /// The graph.
        graph: AdjacencyArrays,
        /// The source.
        source: u32,
    },
}

impl GraphSource for SearchGraph {
    fn nodes(&self) -> u32 {
        match self {
            SearchGraph::LevelTree(tree) => tree.nodes(),
            SearchGraph::Arrays { graph, .. } => graph.nodes(),
        }
    }

    fn arcs(&self) -> u64 {
        match self {
            SearchGraph::LevelTree(tree) => tree.arcs(),
            SearchGraph::Arrays { graph, .. } => graph.arcs(),
        }
    }

    fn neighbours(&self, node: u32, into: &mut Vec<u32>) {
        match self {
            SearchGraph::LevelTree(tree) => tree.neighbours(node, into),
            SearchGraph::Arrays { graph, .. } => graph.neighbours(node, into),
        }
    }
}

impl SearchGraph {
    fn source(&self) -> u32 {
        match self {
            SearchGraph::LevelTree(tree) => tree.root(),
            SearchGraph::Arrays { source, .. } => *source,
        }
    }

    /// The level of each node by the textbook's search.
    fn levels(&self) -> Vec<Option<u32>> {
        match self {
            SearchGraph::LevelTree(tree) => (0..tree.nodes()).map(|node| Some(tree.level(node))).collect(),
            SearchGraph::Arrays { graph, source } => graph.levels(*source),
        }
    }

    fn verify(&self, workspace: &mut Workspace<'_, '_>, found: &Search) -> Result<(), EmError> {
        match self {
            SearchGraph::LevelTree(tree) => verify_level_tree(workspace, found, tree),
            SearchGraph::Arrays { graph, source } => verify_levels(workspace, found, graph, *source),
        }
    }
}

/// Writes a graph, searches it, and compares the levels with the textbook's. `task.host_cost` is what the predictions take
/// a record to cost the host.
///
/// # Errors
/// Those of the IOs, [`EmError::Memory`], [`EmError::Space`], [`EmError::Parameter`] and [`EmError::Wrong`].
pub fn run_bfs(
    machine: &mut Machine<'_>,
    graph: &SearchGraph,
    task: &SearchTask,
) -> Result<ExperimentOutcome, EmError> {
    let source = graph.source();
    if source >= graph.nodes() {
        return Err(EmError::Parameter(format!("the source {source} is not below {} nodes", graph.nodes())));
    }
    let length = Bytes(16 * graph.arcs());
    let on_free_space = |machine: &mut Machine<'_>| {
        let mut free = ExtentAllocator::new(machine);
        SequenceTimes::on_free_space(machine, &mut free, length)
    };
    let mut times = vec![on_free_space(machine)?];
    let verify = |workspace: &mut Workspace<'_, '_>, found: &Search| graph.verify(workspace, found);
    let (run, ()) = run_search(machine, graph, source, task, verify)?;
    if !machine.is_virtual() {
        times.push(on_free_space(machine)?);
    }
    let predicted = planned_search(graph, task, &run, machine.budget().limit());
    let mut costs = run.costs.clone();
    measure_levels(machine, graph, task, &predicted, &mut costs)?;
    let mut planned = IoCounts::default();
    planned.add(Mode::Read, task.block, predicted.cluster_reads.round() as u64);
    planned.add(Mode::Read, task.sequence_block, predicted.pool_reads.round() as u64);
    planned.add(Mode::Write, task.sequence_block, predicted.pool_writes.round() as u64);
    let host = Nanos((predicted.elements * task.host_cost.0 as f64) as u64);
    let ios = predicted.on(task.placement, machine.device_count(), host);
    let choices = choices(graph, task, &run);
    Ok(ExperimentOutcome {
        algorithm: "bfs",
        elements: graph.nodes().into(),
        planned,
        issued: run.issued,
        time: run.time,
        host: vec![run.host],
        bounds: times.iter().map(|times| times.bound(&run.issued_on)).collect(),
        ios,
        block: task.block,
        choices,
        costs,
    })
}

/// The average size of a cluster that was asked for.
fn cluster_size(task: &SearchTask, run: &SearchRun) -> u64 {
    task.cluster.unwrap_or(run.closed_form.nodes.round() as u64).max(1)
}

/// The IOs by the formula. It knows in advance what the levels move, but not for clusters of a graph without known structure:
/// there it takes what they moved.
fn planned_search(graph: &SearchGraph, task: &SearchTask, run: &SearchRun, memory: Bytes) -> SearchIos {
    predicted_search(graph, task, cluster_size(task, run), memory).unwrap_or_else(|_| {
        ios_of_shape(graph, task, &run.search.shape, run.search.levels.count() as f64, memory)
    })
}

/// The IOs that a search will need, with clusters of this many nodes.
///
/// # Errors
/// [`EmError::Parameter`] where no formula knows them in advance: the clusters of a graph without known structure.
pub(super) fn predicted_search(
    graph: &SearchGraph,
    task: &SearchTask,
    cluster: u64,
    memory: Bytes,
) -> Result<SearchIos, EmError> {
    let (shape, reached): (Vec<LevelShape>, f64) = match (task.method, graph) {
        (SearchMethod::MehlhornMeyer, SearchGraph::LevelTree(tree)) => {
            (level_tree_shape(tree, cluster, task.block), f64::from(tree.nodes()))
        }
        (SearchMethod::MehlhornMeyer, _) => {
            return Err(EmError::Parameter(
                "no formula knows the clusters of this graph before they are made: take a level tree, or the search mr or \
                 semi-external"
                    .to_owned(),
            ));
        }
        (method, _) => {
            let levels = graph.levels();
            let reached = levels.iter().flatten().count() as f64;
            (direct_shape(graph, &levels, task.block, method == SearchMethod::SemiExternal), reached)
        }
    };
    Ok(ios_of_shape(graph, task, &shape, reached, memory))
}

fn ios_of_shape(
    graph: &SearchGraph,
    task: &SearchTask,
    shape: &[LevelShape],
    reached: f64,
    memory: Bytes,
) -> SearchIos {
    let sizes = SearchSizes { block: task.block, sequence_block: task.sequence_block, memory };
    let mut ios = search_ios(shape, reached, sizes);
    if task.method != SearchMethod::MehlhornMeyer {
        // Each arc of a list is looked at.
        ios.elements += graph.arcs() as f64;
    }
    ios
}

fn choices(graph: &SearchGraph, task: &SearchTask, run: &SearchRun) -> Vec<(&'static str, String)> {
    let method = match task.method {
        SearchMethod::MunagalaRanade => "Munagala and Ranade",
        SearchMethod::MehlhornMeyer => "Mehlhorn and Meyer",
        SearchMethod::SemiExternal => "semi-external, a bit a node",
    };
    let mut choices = vec![
        ("search", method.to_owned()),
        ("arcs", graph.arcs().to_string()),
        ("levels", run.search.depth.to_string()),
        ("nodes reached", run.search.levels.count().to_string()),
        ("block of random reads", task.block.to_string()),
        ("block of sequences", task.sequence_block.to_string()),
    ];
    if let Some(clustering) = &run.clustering {
        choices.push(("clusters", clustering.clusters.to_string()));
        choices.push(("nodes of a cluster, asked for", cluster_size(task, run).to_string()));
        choices.push(("nodes of a cluster, closed form", format!("{:.1}", run.closed_form.nodes)));
    }
    choices
}
