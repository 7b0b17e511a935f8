//! The graph, the devices and the search of `em run bfs`, and the ranking of `em run rank`.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use flashlab_base::{Bytes, Seed, Target};
use flashlab_em::Spread;
use flashlab_em::bfs::{SearchMethod, SearchPlacement, SearchTask, sequence_block};
use flashlab_em::experiment::{RankMethod, RankOptions, SearchGraph, SequencePlacement};
use flashlab_em::graph::{
    AdjacencyArrays, GraphFile, GraphFileError, GraphSource, LevelTree, MAX_NODES, random_graph,
};
use flashlab_input::{FileContent, InputKind};

use super::machine::{MachineOptions, check_memory};
use crate::exit::Usage;
use crate::files;

/// The graph if none is named.
const LEVEL_TREE: &str = "level-tree";

/// A graph and how it is searched; how a list is ranked.
#[derive(Args, Clone)]
pub struct GraphOptions {
    /// bfs, rank: how [default: mm for bfs, contraction for rank]
    #[arg(long = "algorithm", value_enum)]
    method: Option<Method>,
    /// bfs: level-tree, random, or a graph file [default: level-tree]
    #[arg(long, value_name = "GRAPH")]
    graph: Option<String>,
    /// bfs: the levels below the root of a level tree [default: the root of the number of nodes, at most 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    levels: Option<u32>,
    /// bfs: the edges of a random graph [default: twice the number of nodes]
    #[arg(long, value_name = "N")]
    edges: Option<u64>,
    /// bfs: the node that a random graph or a graph file is searched from [default: the first one with a neighbour]
    #[arg(long, value_name = "NODE")]
    source: Option<u32>,
    /// bfs with mm: the nodes of a cluster on average; what the closed form gives, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cluster: Option<u64>,
    /// bfs: the device of the pool and the levels; --structure TARGET names the device of the graph and its clusters
    #[arg(long, value_name = "TARGET")]
    pub pool: Option<Target>,
    /// Consent to destroying all data on this block device, which must be the one of --pool
    #[arg(long, value_name = "PATH", requires = "pool")]
    pub destroy_pool_data_on: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Munagala and Ranade's search: reads each list at random
    Mr,
    /// Mehlhorn and Meyer's search: reads clusters at random, and a pool in order
    Mm,
    /// A search with a bit for each node in memory
    SemiExternal,
    /// Follows the list: a random read for each element
    Hopping,
    /// Ranks by sorting: removes independent sets
    Contraction,
}

impl GraphOptions {
    /// The options of bfs alone, and whether they are given.
    pub fn given(&self) -> [(&'static str, bool); 5] {
        [
            ("--graph", self.graph.is_some()),
            ("--levels", self.levels.is_some()),
            ("--edges", self.edges.is_some()),
            ("--source", self.source.is_some()),
            ("--cluster", self.cluster.is_some()),
        ]
    }

    /// Refuses options of other algorithms.
    pub fn check_unneeded(&self, algorithm: &str) -> Result<()> {
        if self.method.is_some() || self.pool.is_some() {
            bail!(Usage(format!(
                "{algorithm} has no --algorithm and no --pool: they are options of bfs and rank"
            )));
        }
        Ok(())
    }

    /// What is searched.
    fn name(&self) -> &str {
        self.graph.as_deref().unwrap_or(LEVEL_TREE)
    }

    /// The graph that is searched. `nodes`, if the user named them.
    pub fn graph(&self, nodes: Option<u64>, seed: Seed) -> Result<SearchGraph> {
        let needed = || {
            checked_nodes(nodes.ok_or_else(|| {
                Usage(format!("--graph {} needs --nodes N: how many nodes are generated", self.name()))
            })?)
        };
        match self.name() {
            LEVEL_TREE => Ok(SearchGraph::LevelTree(level_tree(needed()?, self.levels, seed)?)),
            "random" => self.arrays(random(needed()?, self.edges, seed)?, true),
            file => {
                if nodes.is_some() {
                    bail!(Usage(format!("the graph file {file} has its nodes: leave --nodes out")));
                }
                self.arrays(read_graph(Path::new(file))?, false)
            }
        }
    }

    fn arrays(&self, graph: AdjacencyArrays, is_random: bool) -> Result<SearchGraph> {
        let source = match self.source {
            Some(source) if source < graph.nodes() => source,
            Some(source) => {
                bail!(Usage(format!(
                    "--source {source}: the graph has the nodes 0 to {}",
                    i64::from(graph.nodes()) - 1
                )))
            }
            None => graph.first_with_neighbours(),
        };
        Ok(SearchGraph::Arrays { graph, source, is_random })
    }

    /// How the graph is searched, with all on one device.
    pub fn search_task(&self, block: Bytes, machine: &MachineOptions) -> Result<SearchTask> {
        let method = match self.method {
            None | Some(Method::Mm) => SearchMethod::MehlhornMeyer,
            Some(Method::Mr) => SearchMethod::MunagalaRanade,
            Some(Method::SemiExternal) => SearchMethod::SemiExternal,
            Some(Method::Hopping | Method::Contraction) => {
                bail!(Usage("bfs has the --algorithm mr, mm or semi-external".to_owned()))
            }
        };
        Ok(SearchTask {
            method,
            placement: SearchPlacement { structure: Spread::On(0), pool: Spread::On(0) },
            block,
            sequence_block: sequence_block(machine.memory, block),
            cluster: self.cluster,
            host_cost: machine.declared_cost(),
            seed: machine.seed,
        })
    }

    /// How a list is ranked.
    pub fn rank_options(&self, elements: u64, block: Bytes, machine: &MachineOptions) -> Result<RankOptions> {
        let method = match self.method {
            None | Some(Method::Contraction) => RankMethod::Contraction,
            Some(Method::Hopping) => RankMethod::Hopping,
            Some(_) => bail!(Usage("rank has the --algorithm hopping or contraction".to_owned())),
        };
        Ok(RankOptions {
            elements,
            method,
            block,
            host_cost: machine.declared_cost(),
            placement: SequencePlacement::ONE,
            seed: machine.seed,
        })
    }
}

/// The number of nodes, if a graph may have so many.
pub fn checked_nodes(nodes: u64) -> Result<u64> {
    match nodes <= MAX_NODES {
        true => Ok(nodes),
        false => bail!(Usage(format!("--nodes {nodes}: a graph has at most {MAX_NODES}"))),
    }
}

/// A random graph, with these edges or twice as many as nodes.
pub fn random(nodes: u64, edges: Option<u64>, seed: Seed) -> Result<AdjacencyArrays> {
    let edges = edges.unwrap_or(2 * nodes);
    // An edge is drawn as two numbers, and sorted as two arcs.
    check_memory(Bytes(edges.saturating_mul(24)), "--nodes or --edges")?;
    Ok(random_graph(nodes as u32, edges, seed))
}

/// A level tree of so many nodes, with these levels below its root or a number that suits it.
pub fn level_tree(nodes: u64, levels: Option<u32>, seed: Seed) -> Result<LevelTree> {
    let tree = match levels {
        Some(levels) => LevelTree::new(nodes, levels, seed),
        None => LevelTree::suited(nodes, seed),
    };
    let too_few = || {
        let levels = levels.unwrap_or(1);
        Usage(format!(
            "a level tree of {nodes} nodes with {levels} levels below its root: give at least {} --nodes, or fewer \
             --levels",
            u64::from(levels) + 1
        ))
    };
    tree.ok_or_else(|| too_few().into())
}

fn read_graph(path: &Path) -> Result<AdjacencyArrays> {
    let shown = path.display();
    let unreadable = |error| {
        Usage(format!("cannot read the graph {shown}: {error}; give level-tree, random or a graph file"))
    };
    let unusable =
        |error| Usage(format!("the graph {shown} cannot be used: {error}; docs/em-graphs.md has the format"));
    let mut head = Vec::new();
    let file = flashlab_input::open(path).map_err(unreadable)?;
    let length = Bytes(file.metadata().map_err(unreadable)?.len());
    file.take(flashlab_input::HEAD as u64).read_to_end(&mut head).map_err(unreadable)?;
    let content = FileContent::of(&head);
    if content.is_foreign() && content != FileContent::Graph {
        bail!(files::holds_other(&shown.to_string(), content, "graph file"));
    }
    // What is no graph is not read in full.
    match GraphFile::parse(&head) {
        Ok(_) | Err(GraphFileError::Truncated { .. }) => {}
        Err(error) => bail!(unusable(error)),
    }
    check_memory(Bytes(length.0.saturating_mul(2)), "a smaller graph file")?;
    let kind = InputKind { name: "graph that fits into memory", largest: length };
    let bytes = flashlab_input::read(path, kind).map_err(unreadable)?;
    match GraphFile::parse(&bytes) {
        Ok(file) => Ok(file.graph),
        Err(error) => bail!(unusable(error)),
    }
}
