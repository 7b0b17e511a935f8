//! Undirected graphs: in memory, generated, and as a file.
//!
//! # Model
//! A graph with `n` nodes is stored as compressed adjacency arrays: `n + 1` offsets, and the neighbours of node 0, then
//! those of node 1, and so on, each list in ascending order. An edge is two arcs, one in each direction.
//!
//! # Invariants
//! - A node is a `u32` below `n`; a graph has at most [`MAX_NODES`] nodes.
//! - [`GraphSource::neighbours`] returns each neighbour once, in ascending order, and never the node itself.

mod arrays;
mod edge_list;
mod edge_list_error;
mod file;
mod grid;
mod interchange;
mod level_tree;
mod permutation;
mod random;

pub use arrays::AdjacencyArrays;
pub use edge_list::parse_edge_list;
pub use edge_list_error::EdgeListError;
pub use file::{GRAPH_FILE_VERSION, GraphFile, GraphFileError, graph_file_size, write_graph};
pub use grid::grid_graph;
pub use level_tree::LevelTree;
pub use permutation::Permutation;
pub use random::random_graph;

/// The most nodes of a graph: the number [`NO_NODE`] is none.
pub const MAX_NODES: u64 = u32::MAX as u64;

/// A number that no node has.
pub const NO_NODE: u32 = u32::MAX;

/// A graph whose nodes are visited in order: what is stored, or generated without memory.
pub trait GraphSource {
    /// The number of nodes.
    fn nodes(&self) -> u32;

    /// The number of arcs: twice the number of edges.
    fn arcs(&self) -> u64;

    /// The neighbours of a node, ascending, appended to `into`.
    fn neighbours(&self, node: u32, into: &mut Vec<u32>);
}

impl<G: GraphSource + ?Sized> GraphSource for &G {
    fn nodes(&self) -> u32 {
        (**self).nodes()
    }

    fn arcs(&self) -> u64 {
        (**self).arcs()
    }

    fn neighbours(&self, node: u32, into: &mut Vec<u32>) {
        (**self).neighbours(node, into);
    }
}
