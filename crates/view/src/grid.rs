//! Columns of equal width over time or offsets, whose width is a power of two.
//!
//! # Invariants
//! - Columns begin at multiples of their width. So a picture that is moved keeps its bins, and the bins of the pyramid fit into them.

/// Columns `first` to `first + count`; column `n` covers `[n << shift, (n + 1) << shift)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnGrid {
    /// The number of the first column.
    pub first: u64,
    /// The binary logarithm of a column's width.
    pub shift: u32,
    /// How many columns there are.
    pub count: usize,
}

impl ColumnGrid {
    /// The finest grid over `[start, end)` that has at most `most` columns and none narrower than `2^shift_least`. There is at least one
    /// column.
    pub fn covering(start: u64, end: u64, most: usize, shift_least: u32) -> ColumnGrid {
        let last = end.max(start.saturating_add(1)) - 1;
        let mut shift = shift_least;
        while (last >> shift) - (start >> shift) >= most.max(1) as u64 {
            shift += 1;
        }
        let first = start >> shift;
        ColumnGrid { first, shift, count: ((last >> shift) - first + 1) as usize }
    }

    /// The column of a position; `None` outside of the grid.
    #[inline]
    pub fn column(&self, position: u64) -> Option<usize> {
        let column = (position >> self.shift).wrapping_sub(self.first);
        (column < self.count as u64).then_some(column as usize)
    }

    /// Where the grid begins.
    pub fn start(&self) -> u64 {
        self.first << self.shift
    }

    /// Where the grid ends.
    pub fn end(&self) -> u64 {
        self.start().saturating_add((self.count as u64) << self.shift)
    }

    /// From a position to the end of its column.
    pub fn to_end(&self, position: u64) -> u64 {
        self.step() - (position & (self.step() - 1))
    }

    /// The width of a column.
    pub fn step(&self) -> u64 {
        1 << self.shift
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_grid_covers_its_window_with_few_columns(start in 0..1_u64 << 62, length in 0..1_u64 << 61, most in 1..3000_usize, least in 0..40_u32) {
            let end = start + length;
            let grid = ColumnGrid::covering(start, end, most, least);
            prop_assert!(grid.count >= 1 && grid.count <= most);
            prop_assert!(grid.shift >= least);
            prop_assert_eq!(grid.column(start), Some(0));
            if length > 0 {
                prop_assert_eq!(grid.column(end - 1), Some(grid.count - 1));
            }
            prop_assert_eq!(grid.column(grid.end()), None);
            // The finest that fits: half the width would need too many columns.
            if grid.shift > least && length > 0 {
                let half = grid.shift - 1;
                prop_assert!(((end - 1) >> half) - (start >> half) >= most as u64);
            }
        }
    }
}
