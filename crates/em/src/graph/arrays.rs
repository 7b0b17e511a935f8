//! A graph in memory, and the textbook's breadth-first search on it.

use std::collections::VecDeque;

use super::{GraphSource, MAX_NODES};

/// Compressed adjacency arrays in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdjacencyArrays {
    offsets: Vec<u64>,
    targets: Vec<u32>,
}

/// Why arrays are not a graph.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OffsetsError {
    /// The offset of this node is out of order or beyond the arcs.
    Offset { node: u64, found: u64 },
    /// A neighbour, by its place among all, is no node, the node itself, or out of order.
    Neighbour { node: u64, arc: u64, found: u32 },
    /// An arc has no arc back.
    Directed { from: u32, to: u32 },
}

impl AdjacencyArrays {
    /// The graph of `nodes` nodes with these edges, in any order. Loops and repeated edges are left out.
    ///
    /// # Panics
    /// When an edge leads to a node beyond `nodes`: the caller's mistake.
    pub fn from_edges(nodes: u32, edges: impl IntoIterator<Item = (u32, u32)>) -> AdjacencyArrays {
        let mut arcs: Vec<(u32, u32)> = edges
            .into_iter()
            .filter(|(a, b)| a != b)
            .inspect(|&(a, b)| assert!(a < nodes && b < nodes, "an edge {a} to {b} of {nodes} nodes"))
            .flat_map(|(a, b)| [(a, b), (b, a)])
            .collect();
        arcs.sort_unstable();
        arcs.dedup();
        let mut offsets = vec![0; nodes as usize + 1];
        for &(source, _) in &arcs {
            offsets[source as usize + 1] += 1;
        }
        for node in 0..nodes as usize {
            offsets[node + 1] += offsets[node];
        }
        AdjacencyArrays { offsets, targets: arcs.into_iter().map(|(_, target)| target).collect() }
    }

    /// The first node with a neighbour, or 0.
    pub fn first_with_neighbours(&self) -> u32 {
        (0..self.nodes()).find(|&node| !self.of(node).is_empty()).unwrap_or(0)
    }

    /// The graph of these arrays, which come from outside, when they are one.
    pub(super) fn checked(offsets: Vec<u64>, targets: Vec<u32>) -> Result<AdjacencyArrays, OffsetsError> {
        let arcs = targets.len() as u64;
        let mut before = 0;
        for (node, &found) in offsets.iter().enumerate() {
            let node = node as u64;
            let last = node + 1 == offsets.len() as u64;
            if found < before || found > arcs || (node == 0 && found != 0) || (last && found != arcs) {
                return Err(OffsetsError::Offset { node, found });
            }
            before = found;
        }
        let graph = AdjacencyArrays { offsets, targets };
        for node in 0..graph.nodes() {
            let mut above = None;
            for (index, &found) in graph.of(node).iter().enumerate() {
                if found >= graph.nodes() || found == node || above.is_some_and(|above| found <= above) {
                    let arc = graph.offsets[node as usize] + index as u64;
                    return Err(OffsetsError::Neighbour { node: node.into(), arc, found });
                }
                above = Some(found);
            }
        }
        let one_way = |from: &u32, to: &u32| graph.of(*to).binary_search(from).is_err();
        for from in 0..graph.nodes() {
            if let Some(&to) = graph.of(from).iter().find(|to| one_way(&from, to)) {
                return Err(OffsetsError::Directed { from, to });
            }
        }
        Ok(graph)
    }

    /// A copy of a graph.
    pub fn collect(graph: &impl GraphSource) -> AdjacencyArrays {
        let mut arrays = AdjacencyArrays { offsets: vec![0], targets: Vec::new() };
        for node in 0..graph.nodes() {
            graph.neighbours(node, &mut arrays.targets);
            arrays.offsets.push(arrays.targets.len() as u64);
        }
        arrays
    }

    /// Where the neighbours of each node begin, and where the last ones end.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The neighbours of all nodes, node after node.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// The neighbours of a node.
    pub fn of(&self, node: u32) -> &[u32] {
        &self.targets[self.offsets[node as usize] as usize..self.offsets[node as usize + 1] as usize]
    }

    /// The distance of each node from `source`, `None` where there is no path: the search with a queue of every textbook,
    /// against which the external ones are verified.
    pub fn levels(&self, source: u32) -> Vec<Option<u32>> {
        let mut levels = vec![None; self.nodes() as usize];
        let mut queue = VecDeque::from([source]);
        levels[source as usize] = Some(0);
        while let Some(node) = queue.pop_front() {
            let next = levels[node as usize].map(|level| level + 1);
            for &neighbour in self.of(node) {
                if levels[neighbour as usize].is_none() {
                    levels[neighbour as usize] = next;
                    queue.push_back(neighbour);
                }
            }
        }
        levels
    }
}

impl GraphSource for AdjacencyArrays {
    fn nodes(&self) -> u32 {
        let nodes = self.offsets.len() as u64 - 1;
        assert!(nodes <= MAX_NODES, "{nodes} nodes");
        nodes as u32
    }

    fn arcs(&self) -> u64 {
        self.targets.len() as u64
    }

    fn neighbours(&self, node: u32, into: &mut Vec<u32>) {
        into.extend_from_slice(self.of(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_become_ascending_lists_without_loops_and_repetitions() {
        let graph = AdjacencyArrays::from_edges(5, [(3, 1), (1, 3), (0, 3), (2, 2), (3, 1)]);
        assert_eq!(graph.offsets(), [0, 1, 2, 2, 4, 4]);
        assert_eq!(graph.targets(), [3, 3, 0, 1]);
        assert_eq!(graph.levels(0), [Some(0), Some(2), None, Some(1), None]);
        assert_eq!(AdjacencyArrays::collect(&graph), graph);
    }
}
