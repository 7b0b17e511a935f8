//! The graphs that are searched, and how the result of a search is verified.

use flashlab_base::Seed;

use crate::bfs::{Search, verify_level_tree, verify_levels};
use crate::error::EmError;
use crate::graph::{AdjacencyArrays, GraphSource, LevelTree, random_graph};
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
        /// Whether it was drawn at random, so that a smaller one of its kind can be.
        is_random: bool,
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
    pub(super) fn source(&self) -> u32 {
        match self {
            SearchGraph::LevelTree(tree) => tree.root(),
            SearchGraph::Arrays { source, .. } => *source,
        }
    }

    /// The level of each node by the textbook's search.
    pub(super) fn levels(&self) -> Vec<Option<u32>> {
        match self {
            SearchGraph::LevelTree(tree) => (0..tree.nodes()).map(|node| Some(tree.level(node))).collect(),
            SearchGraph::Arrays { graph, source, .. } => graph.levels(*source),
        }
    }

    /// One of its kind with fewer nodes and arcs.
    pub(super) fn smaller(&self, nodes: u64, times: u64, seed: Seed) -> Option<SearchGraph> {
        match self {
            // The levels of a tree follow from its nodes.
            SearchGraph::LevelTree(_) => LevelTree::suited(nodes, seed).map(SearchGraph::LevelTree),
            SearchGraph::Arrays { graph, is_random: true, .. } => {
                let edges = graph.arcs() / 2 / times;
                Some(SearchGraph::random(random_graph(nodes as u32, edges, seed)))
            }
            SearchGraph::Arrays { is_random: false, .. } => None,
        }
    }

    /// A graph drawn at random, searched from the first node with a neighbour.
    pub fn random(graph: AdjacencyArrays) -> SearchGraph {
        let source = graph.first_with_neighbours();
        SearchGraph::Arrays { graph, source, is_random: true }
    }

    pub(super) fn verify(&self, workspace: &mut Workspace<'_, '_>, found: &Search) -> Result<(), EmError> {
        match self {
            SearchGraph::LevelTree(tree) => verify_level_tree(workspace, found, tree),
            SearchGraph::Arrays { graph, source, .. } => verify_levels(workspace, found, graph, *source),
        }
    }
}
