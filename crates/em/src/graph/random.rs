//! Random graphs: edges between nodes that are drawn uniformly.

use flashlab_base::{Prng, Seed};

use super::arrays::AdjacencyArrays;

/// A graph of `nodes` nodes and at most `edges` edges whose ends are uniformly random; loops and repetitions are left
/// out. (Erdos and Renyi's G(n, m), but for those.)
pub fn random_graph(nodes: u32, edges: u64, seed: Seed) -> AdjacencyArrays {
    let mut prng = Prng::new(seed.derive("random-graph", 0));
    let mut end = move || prng.below(u64::from(nodes.max(1))) as u32;
    let edges: Vec<(u32, u32)> = (0..edges).map(|_| (end(), end())).collect();
    AdjacencyArrays::from_edges(nodes, if nodes == 0 { Vec::new() } else { edges })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphSource;

    #[test]
    fn the_same_seed_gives_the_same_graph() {
        let graph = random_graph(100, 300, Seed(9));
        assert_eq!(graph, random_graph(100, 300, Seed(9)));
        assert_ne!(graph, random_graph(100, 300, Seed(10)));
        assert!(graph.arcs() > 500 && graph.arcs() <= 600, "{}", graph.arcs());
        assert_eq!(random_graph(0, 5, Seed(1)).nodes(), 0);
    }
}
