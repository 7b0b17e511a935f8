//! The level tree: a root and legs, the graph that is hardest for Mehlhorn and Meyer's search.
//!
//! # Model
//! Ajwani et al., Figure 4.1: level 0 holds the root, which has an edge to each node of level 1; each level below has as
//! many nodes, and the i-th node of a level has an edge to the i-th node of the next. So the graph is legs of equal
//! length that meet in the root. With sqrt(B) levels below the root the clusters of all legs enter the pool at once and
//! leave it slowly.
//!
//! # Invariant
//! - The numbers of the nodes are a random permutation, so that neighbours do not lie next to each other.

use flashlab_base::Seed;

use super::permutation::Permutation;
use super::{GraphSource, MAX_NODES};

/// A root with legs of equal length.
#[derive(Clone, Debug)]
pub struct LevelTree {
    legs: u32,
    depth: u32,
    numbers: Permutation,
}

impl LevelTree {
    /// A tree of at most `nodes` nodes whose legs have `depth` nodes each.
    ///
    /// Returns `None` when not even one leg fits, when there are no levels, or when there are more than [`MAX_NODES`] nodes.
    pub fn new(nodes: u64, depth: u32, seed: Seed) -> Option<LevelTree> {
        if depth == 0 || nodes <= u64::from(depth) || nodes > MAX_NODES {
            return None;
        }
        let legs = u32::try_from((nodes - 1) / u64::from(depth)).ok()?;
        let numbers = Permutation::new(1 + u64::from(legs) * u64::from(depth), seed.derive("level-tree", 0));
        Some(LevelTree { legs, depth, numbers })
    }

    /// A tree of at most `nodes` nodes with the levels that suit their number: as many as legs, and at most those of the paper.
    pub fn suited(nodes: u64, seed: Seed) -> Option<LevelTree> {
        /// The level tree of the paper has the root of B levels, and its B is 2^18 elements.
        const LEVELS_MAX: u64 = 512;
        LevelTree::new(nodes, nodes.isqrt().clamp(1, LEVELS_MAX) as u32, seed)
    }

    /// The legs.
    pub fn legs(&self) -> u32 {
        self.legs
    }

    /// The nodes of a leg, which is the number of levels below the root.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The root.
    pub fn root(&self) -> u32 {
        self.number(0)
    }

    /// The level of a node: the result of a breadth-first search from the root.
    pub fn level(&self, node: u32) -> u32 {
        match self.numbers.inverse(u64::from(node)) {
            0 => 0,
            place => ((place - 1) / u64::from(self.legs)) as u32 + 1,
        }
    }

    /// The number of the node at a place: the root is at 0, then come the levels.
    fn number(&self, place: u64) -> u32 {
        u32::try_from(self.numbers.image(place)).expect("a tree has at most MAX_NODES nodes")
    }
}

impl GraphSource for LevelTree {
    fn nodes(&self) -> u32 {
        1 + self.legs * self.depth
    }

    fn arcs(&self) -> u64 {
        2 * (u64::from(self.nodes()) - 1)
    }

    fn neighbours(&self, node: u32, into: &mut Vec<u32>) {
        let (begin, legs) = (into.len(), u64::from(self.legs));
        match self.numbers.inverse(u64::from(node)) {
            0 => into.extend((1..=legs).map(|place| self.number(place))),
            place => {
                into.push(self.number(place.saturating_sub(legs)));
                if place + legs < u64::from(self.nodes()) {
                    into.push(self.number(place + legs));
                }
            }
        }
        into[begin..].sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::AdjacencyArrays;

    #[test]
    fn a_search_finds_the_levels_of_the_tree() {
        let tree = LevelTree::new(1000, 9, Seed(5)).unwrap();
        assert_eq!((tree.legs(), tree.depth(), tree.nodes(), tree.arcs()), (111, 9, 1000, 1998));
        let arrays = AdjacencyArrays::collect(&tree);
        let levels = arrays.levels(tree.root());
        assert!((0..tree.nodes()).all(|node| levels[node as usize] == Some(tree.level(node))));
        assert_eq!(levels.iter().filter(|&&level| level == Some(9)).count(), 111);
    }

    #[test]
    fn a_tree_without_a_leg_is_none() {
        assert!(LevelTree::new(9, 9, Seed(1)).is_none());
        assert!(LevelTree::new(9, 0, Seed(1)).is_none());
        assert!(LevelTree::new(MAX_NODES + 1, 5, Seed(1)).is_none());
        assert_eq!(LevelTree::new(10, 9, Seed(1)).unwrap().legs(), 1);
    }
}
