//! Breadth-first search in external memory: the distance of each node of an undirected graph from a source.
//!
//! # Model
//! Level t + 1 is what the neighbours of level t are, without level t and level t - 1: no other node can be among them, since
//! the graph is undirected (Munagala and Ranade, SODA 1999). Three algorithms fetch the neighbours differently:
//!
//! | algorithm | how it fetches the neighbours of a level | IOs |
//! | --- | --- | --- |
//! | [`munagala_ranade`] | each list by random reads | n + sort(arcs) |
//! | [`mehlhorn_meyer()`] | clusters of lists by random reads; unused lists wait in a pool that each level scans | sqrt(n scan(arcs)) + sort(arcs) |
//! | [`semi_external`] | as the first, but a bit a node in memory says what was visited | n + scan(arcs) |
//!
//! Mehlhorn and Meyer, ESA 2002, is the second; Ajwani et al., chapter 4, put its clusters on flash and its pool on a hard
//! disk: [`SearchPlacement`].
//!
//! # Invariants
//! - Each reached node is written once, with its level, in the order of the levels.
//! - The memory budget bounds all that grows with the graph.

mod cluster;
mod direct;
mod direct_formula;
mod experiment;
mod formula;
mod frontier;
mod level_costs;
mod mehlhorn_meyer;
mod stored_graph;

pub use cluster::{Arc, Clustering, cluster};
pub use direct::{munagala_ranade, semi_external};
pub use direct_formula::direct_shape;
pub use experiment::{
    SearchMethod, SearchRun, SearchTask, closed_form, run_search, search_cost_sizes, search_costs,
    sequence_block,
};
pub use formula::{LevelGroup, SearchIos, SearchSizes, level_tree_shape, search_ios};
pub use frontier::{LevelShape, Search, verify_level_tree, verify_levels};
pub use level_costs::measure_levels;
pub use mehlhorn_meyer::mehlhorn_meyer;
pub use stored_graph::StoredGraph;

use flashlab_base::Bytes;

use crate::extent::Spread;

/// On which devices the parts of a search lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchPlacement {
    /// The graph and its clusters: written once, read at random.
    pub structure: Spread,
    /// The pool, the levels and what sorting spills: read and written sequentially.
    pub pool: Spread,
}

/// The shares of the memory: all that lives at the same time is less than the whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// Of what is sorted.
    pub sort: Bytes,
    /// Of a level.
    pub level: Bytes,
}

impl Shares {
    pub fn of(memory: Bytes) -> Shares {
        Shares { sort: Bytes(memory.0 / 8), level: Bytes(memory.0 / 16) }
    }
}
