//! A large recording summed up, so that a picture of all of it needs no look at each IO.
//!
//! # Model
//! Two tables of counted cells, sparse in time:
//! - **Leaves**: narrow columns over time, each with its IOs by kind and response bin, and with its sums ([`ColumnSums`]).
//! - **Blocks**: wider columns, each with its IOs by offset, response bin and kind.
//!
//! A view without a window of offsets is added up from the leaves, and its panels over offsets from the blocks. A view with one is added
//! up from the blocks.
//!
//! # Invariants
//! - Columns are powers of two wide and begin at multiples of their width, as those of [`ColumnGrid`]: a cell lies in one column of a panel.
//! - Counts are exact. What is coarse is where a window begins and ends, and `could_be_finer` says it.
//! - Columns are as narrow as fits into 5 % of the samples' bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::grid::ColumnGrid;
use crate::ios::IoKind;
use crate::panels::{ColumnSums, Counted, OFFSET_COLUMNS_MOST, PanelLayout, Tally};
use crate::response_bins::ResponseBins;
use crate::view::View;
use crate::windows::Windows;

/// Counted cells of columns over time, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseTable {
    /// The binary logarithm of a column's width, nanoseconds.
    pub shift: u32,
    /// The columns that have cells.
    pub columns: Vec<u32>,
    /// Where the cells of each column begin, and the end of the last.
    pub starts: Vec<u32>,
    /// What the cells are.
    pub keys: Vec<u32>,
    /// The IOs of each.
    pub counts: Vec<u32>,
}

impl SparseTable {
    /// The same with columns of twice the width.
    pub(crate) fn coarser(&self) -> SparseTable {
        let mut coarser = SparseTable { shift: self.shift + 1, ..SparseTable::default() };
        let mut at = 0;
        while at < self.columns.len() {
            let column = self.columns[at] >> 1;
            let end = at + self.columns[at..].partition_point(|&other| other >> 1 <= column);
            let cells = self.starts[at] as usize..self.starts[end] as usize;
            let mut joined: Vec<(u32, u32)> =
                self.keys[cells.clone()].iter().copied().zip(self.counts[cells].iter().copied()).collect();
            // Two ascending halves, which this sort merges.
            joined.sort_by_key(|(key, _)| *key);
            joined.dedup_by(|next, own| {
                let is_same = next.0 == own.0;
                own.1 += if is_same { next.1 } else { 0 };
                is_same
            });
            coarser.columns.push(column);
            coarser.starts.push(coarser.keys.len() as u32);
            coarser.keys.extend(joined.iter().map(|(key, _)| key));
            coarser.counts.extend(joined.iter().map(|(_, count)| count));
            at = end;
        }
        coarser.starts.push(coarser.keys.len() as u32);
        coarser
    }

    /// Passes each column that begins within `grid` to `see`, with its cells.
    fn each_column(&self, grid: &ColumnGrid, mut see: impl FnMut(usize, &[u32], &[u32])) {
        let first = self.columns.partition_point(|&column| u64::from(column) << self.shift < grid.start());
        for at in first..self.columns.len() {
            let Some(column) = grid.column(u64::from(self.columns[at]) << self.shift) else { break };
            let cells = self.starts[at] as usize..self.starts[at + 1] as usize;
            see(column, &self.keys[cells.clone()], &self.counts[cells]);
        }
    }
}

/// A leaf's cell.
pub(crate) fn leaf_key(kind: IoKind, bin: u16) -> u32 {
    u32::from(kind.0) << 10 | u32::from(bin)
}

/// A block's cell. The offset's bin has 14 bits.
pub(crate) fn block_key(offset_bin: u32, bin: u16, kind: IoKind) -> u32 {
    offset_bin << 18 | u32::from(bin) << 8 | u32::from(kind.0)
}

/// The most bins of offsets in a block.
pub(crate) const OFFSET_BINS_MOST: u32 = 1 << 14;

/// A recording summed up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pyramid {
    pub(crate) leaves: SparseTable,
    pub(crate) blocks: SparseTable,
    /// The binary logarithm of the width of a block's bin of offsets, bytes.
    pub(crate) offset_shift: u32,
    /// Leaves in which IOs began or completed.
    pub(crate) sum_columns: Vec<u32>,
    /// Their sums.
    pub(crate) sums: Vec<ColumnSums>,
}

impl Pyramid {
    /// Counts a view in panels of `width` columns, in whole cells.
    /// The recording ends at `time_end_ns`.
    pub fn count(&self, view: &View, windows: &Windows, width: usize, time_end_ns: u64) -> Counted {
        let (time, offset) = (&windows.time_ns, &windows.offset_bytes);
        let is_offset_free = view.offset_bytes.is_none();
        let least = if is_offset_free { self.leaves.shift } else { self.blocks.shift };
        let layout = PanelLayout {
            time: ColumnGrid::covering(time.start, time.end, width, least),
            offset_time: PanelLayout::offset_time(windows, width, self.blocks.shift),
            offset: ColumnGrid::covering(offset.start, offset.end, OFFSET_COLUMNS_MOST, self.offset_shift),
            bins: windows.bins(&ResponseBins::default()),
        };
        let finest = PanelLayout::finest(windows, width);
        let could_be_finer = layout.time.shift > finest.time.shift
            || layout.offset_time.shift > finest.offset_time.shift
            || layout.offset.shift > finest.offset.shift;
        let mut tally = Tally::new(layout);
        if is_offset_free {
            self.add_leaves(view, &mut tally);
        }
        self.add_blocks(view, &mut tally, !is_offset_free);
        let has_column_sums = is_offset_free && view.response_ns.is_none() && view.has_all_kinds();
        if has_column_sums {
            self.add_sums(&mut tally);
        }
        let layout = &tally.layout;
        let bins = ResponseBins::default();
        let widened = Windows {
            // Behind its end it has no IO: rates of the last column would be too low.
            time_ns: layout.time.start()..layout.time.end().min(time_end_ns.max(layout.time.start() + 1)),
            offset_bytes: layout.offset.start()..layout.offset.end(),
            response_ns: bins.lower_edge(layout.bins.start)..bins.lower_edge(layout.bins.end),
        };
        let is_exact = is_offset_free && view.time_ns.is_none() && view.response_ns.is_none();
        Counted { is_exact, could_be_finer, has_column_sums, points: None, windows: widened, tally }
    }

    /// The same with leaves of twice the width.
    pub(crate) fn with_coarser_leaves(&self) -> Pyramid {
        let mut sums: BTreeMap<u32, ColumnSums> = BTreeMap::new();
        for (&column, own) in self.sum_columns.iter().zip(&self.sums) {
            // The first of a pair ends where the second begins.
            let to_end_ns = if column % 2 == 0 { 1 << self.leaves.shift } else { 0 };
            sums.entry(column >> 1).or_default().add(own, to_end_ns);
        }
        let (sum_columns, sums) = sums.into_iter().unzip();
        Pyramid { leaves: self.leaves.coarser(), sum_columns, sums, ..self.clone() }
    }

    fn add_leaves(&self, view: &View, tally: &mut Tally) {
        let (kinds, bins) = (view.kinds(), tally.layout.bins.clone());
        let grid = tally.layout.time;
        self.leaves.each_column(&grid, |column, keys, counts| {
            for (key, &count) in keys.iter().zip(counts) {
                let (kind, bin) = (IoKind((key >> 10) as u8), (key & 0x3ff) as u16);
                if kinds[usize::from(kind.0)] && bins.contains(&bin) {
                    tally.add_time_response(column, bin, kind, count);
                }
            }
        });
    }

    fn add_blocks(&self, view: &View, tally: &mut Tally, has_offsets_alone: bool) {
        let (kinds, bins) = (view.kinds(), tally.layout.bins.clone());
        let (time, offsets, offset_time) = (tally.layout.time, tally.layout.offset, tally.layout.offset_time);
        self.blocks.each_column(&offset_time, |offset_column, keys, counts| {
            let column = time.column(offset_time.start() + ((offset_column as u64) << offset_time.shift));
            for (key, &count) in keys.iter().zip(counts) {
                let (kind, bin) = (IoKind(*key as u8), (key >> 8 & 0x3ff) as u16);
                let row = offsets.column(u64::from(key >> 18) << self.offset_shift);
                let Some(row) = row.filter(|_| kinds[usize::from(kind.0)] && bins.contains(&bin)) else {
                    continue;
                };
                tally.add_offset(offset_column, row, bin, kind, count);
                if let Some(column) = column.filter(|_| has_offsets_alone) {
                    tally.add_time_response(column, bin, kind, count);
                }
            }
        });
    }

    fn add_sums(&self, tally: &mut Tally) {
        let grid = tally.layout.time;
        for (&leaf, sums) in self.sum_columns.iter().zip(&self.sums) {
            let start = u64::from(leaf) << self.leaves.shift;
            match grid.column(start) {
                Some(column) => {
                    let end = start + (1 << self.leaves.shift);
                    let column_end = grid.start() + ((column as u64 + 1) << grid.shift);
                    tally.columns[column].add(sums, column_end - end);
                }
                None if start < grid.start() => {
                    tally.in_flight_before += sums.flight.begun as i64 - sums.flight.completed as i64;
                }
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn table(cells: &BTreeMap<(u32, u32), u32>) -> SparseTable {
        let mut table = SparseTable { shift: 10, ..SparseTable::default() };
        for (&(column, key), &count) in cells {
            if table.columns.last() != Some(&column) {
                table.columns.push(column);
                table.starts.push(table.keys.len() as u32);
            }
            table.keys.push(key);
            table.counts.push(count);
        }
        table.starts.push(table.keys.len() as u32);
        table
    }

    proptest! {
        #[test]
        fn a_coarser_table_has_the_counts_of_pairs_of_columns(
            cells in prop::collection::btree_map((0..40_u32, 0..20_u32), 1..1000_u32, 0..200)
        ) {
            let mut joined = BTreeMap::new();
            for (&(column, key), count) in &cells {
                *joined.entry((column / 2, key)).or_default() += count;
            }
            prop_assert_eq!(table(&cells).coarser(), SparseTable { shift: 11, ..table(&joined) });
        }
    }
}
