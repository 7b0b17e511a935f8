//! Grids: a node has up to four neighbours, and a search from a corner has as many levels as the grid is wide and high.

use super::arrays::AdjacencyArrays;

/// A grid of `width` times `height` nodes, numbered row by row. `None` when that is more nodes than a graph may have.
pub fn grid_graph(width: u32, height: u32) -> Option<AdjacencyArrays> {
    let nodes = width.checked_mul(height)?;
    let right = (0..nodes).filter(move |node| (node + 1) % width != 0).map(|node| (node, node + 1));
    let below = (0..nodes.saturating_sub(width)).map(move |node| (node, node + width));
    Some(AdjacencyArrays::from_edges(nodes, right.chain(below)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphSource;

    #[test]
    fn a_grid_has_rows_and_columns() {
        let grid = grid_graph(4, 3).unwrap();
        // 3 rows of 3 edges, and 2 steps of 4 edges.
        assert_eq!((grid.nodes(), grid.arcs()), (12, 2 * (3 * 3 + 2 * 4)));
        assert_eq!(grid.of(5), [1, 4, 6, 9]);
        assert_eq!(grid.levels(0)[11], Some(3 + 2));
        assert!(grid_graph(1 << 16, 1 << 16).is_none());
        assert_eq!(grid_graph(1, 1).unwrap().arcs(), 0);
    }
}
