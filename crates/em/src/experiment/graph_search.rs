//! The experiment `bfs`: a search on one device, or with structure and pool on two.

use flashlab_base::{Bytes, Mode, Nanos};

use super::ExperimentOutcome;
use super::algorithm::{Algorithm, NODES, Shrunk, Smaller};
use super::placement::{DataLayout, SequenceTimes};
use super::prediction::{AlgorithmPrediction, CostSource};
use super::search_graph::SearchGraph;
use crate::bfs::{
    LevelShape, Search, SearchIos, SearchMethod, SearchPlacement, SearchRun, SearchSizes, SearchTask,
    closed_form, direct_shape, level_tree_shape, measure_levels, run_search, search_cost_sizes, search_ios,
};
use crate::cost::AlgorithmIos;
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Spread};
use crate::graph::GraphSource;
use crate::ledger::IoCounts;
use crate::machine::Machine;
use crate::records::Workspace;

/// What is searched, and how.
#[derive(Clone, Debug)]
pub struct BfsOptions {
    /// The graph.
    pub graph: SearchGraph,
    /// The search. Its `host_cost` is what the predictions take a record to cost the host.
    pub task: SearchTask,
}

impl Algorithm for BfsOptions {
    fn name(&self) -> &'static str {
        "bfs"
    }

    /// The graph, the clusters, and what sorting them and the pool spill.
    fn space(&self, _memory: Bytes) -> Result<Bytes, EmError> {
        Ok(Bytes(64 * u64::from(self.graph.nodes()) + 100 * self.graph.arcs()) + Bytes::mib(64))
    }

    fn data(&self) -> (Bytes, Spread) {
        (Bytes(16 * self.graph.arcs()), self.task.placement.structure)
    }

    fn place(&mut self, machine: &Machine<'_>, layout: DataLayout) {
        self.task = self.task.fitted(machine.unit(), machine.budget().limit());
        let (structure, pool) = match layout {
            DataLayout::ByRole => (Spread::On(0), Spread::On(machine.device_count() - 1)),
            DataLayout::Striped => {
                (Spread::Striped(self.task.sequence_block), Spread::Striped(self.task.sequence_block))
            }
        };
        self.task.placement = SearchPlacement { structure, pool };
    }

    fn run(&self, machine: &mut Machine<'_>) -> Result<ExperimentOutcome, EmError> {
        run(machine, &self.graph, &self.task)
    }

    fn predict(&self, source: &mut dyn CostSource) -> Result<AlgorithmPrediction, EmError> {
        let task = match self.task.block < source.unit() {
            true => self.task.fitted(source.unit(), source.memory()),
            false => self.task,
        };
        predict(source, &self.graph, &task)
    }

    fn smaller(&self, memory: Bytes, _chosen: (&AlgorithmIos, Bytes)) -> Option<Smaller> {
        let Shrunk { times, elements, memory, work } =
            Shrunk::new(u64::from(self.graph.nodes()), NODES, memory);
        let graph = self.graph.smaller(elements, times, self.task.seed)?;
        let task = self.task.fitted(self.task.block, memory);
        Some(Smaller { algorithm: Box::new(BfsOptions { graph, task }), memory, work })
    }
}

/// Writes a graph, searches it, and compares the levels with the textbook's.
fn run(
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

fn predict(
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
