//! Builds a pyramid.
//!
//! # Method
//! 1. The times of all IOs give the origin and the order of the row groups.
//! 2. Some row groups are counted with columns of several widths, to choose the widths.
//! 3. Row groups are counted in the order of time, several at once. Columns that no later row group can begin in are closed.

use std::collections::BTreeMap;

use flashlab_samples::Columns;
use rayon::prelude::*;

use crate::error::ViewError;
use crate::grid::ColumnGrid;
use crate::ios::IoColumns;
use crate::overview::{Overview, RunLabel};
use crate::panels::{ColumnSums, OFFSET_COLUMNS_MOST};
use crate::pyramid::{OFFSET_BINS_MOST, Pyramid, SparseTable, block_key, leaf_key};
use crate::recording::{ReadProgress, ViewedRecording, last_completion};
use crate::response_bins::ResponseBins;

/// Row groups that the widths are chosen from.
const LOOKED_AT: usize = 16;
/// Row groups that are counted before columns are closed.
const AT_ONCE: usize = 16;

/// The share of the samples' bytes that a table may take: both together, with what else the file has, stay under 5 %.
const TABLE_SHARE: f64 = 0.021;
/// Bytes of a cell in the file, an upper estimate: with it the file of 10^8 IOs of `examples/make_recording.rs` is 2.3 % of the samples. With
/// too few the file may be larger than 5 %, with too many columns are wider than need be.
const CELL_BYTES: f64 = 1.8;
/// Bytes of a leaf's sums in the file, estimated likewise.
const SUMS_BYTES: f64 = 20.0;
/// The most that a pyramid to which row groups were added may have of the samples' bytes: twice what a new one has. Then it is built anew, with
/// wider columns; with a smaller share that would happen often while a recording grows.
const GROWN_SHARE: f64 = 0.1;
/// The widest columns that are tried, as a binary logarithm: 18 minutes. Wider ones hold a run in a few columns.
const WIDEST: u32 = 40;

/// The widths of a pyramid's columns, as binary logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Widths {
    leaf: u32,
    block: u32,
    offset: u32,
}

/// A row group, counted.
struct CountedGroup {
    overview: Overview,
    completed_ns: u64,
    leaves: Vec<(u64, u32)>,
    blocks: Vec<(u64, u32)>,
    sums: BTreeMap<u32, ColumnSums>,
}

/// The bytes that each table of a kept pyramid may take.
pub fn table_bytes(recording: &ViewedRecording) -> f64 {
    TABLE_SHARE * recording.samples_bytes() as f64
}

/// Builds the pyramid of a recording whose row groups may not be known yet, and notes what its IOs have in common. Its columns are as narrow
/// as fits into `table_bytes` for each of its two tables.
///
/// # Errors
/// If a segment is damaged or cannot be read.
pub fn build(
    recording: &mut ViewedRecording,
    table_bytes: f64,
    progress: ReadProgress,
) -> Result<Pyramid, ViewError> {
    recording.find_row_groups(progress)?;
    let mut widths = choose_widths(recording, table_bytes)?;
    loop {
        match build_with(recording, widths, progress)? {
            Some(pyramid) => return Ok(pyramid),
            // The row groups that were looked at did not have the largest offset.
            None => widths.offset += 4,
        }
    }
}

/// `None` if an offset is beyond the bins.
fn build_with(
    recording: &mut ViewedRecording,
    widths: Widths,
    progress: ReadProgress,
) -> Result<Option<Pyramid>, ViewError> {
    let groups: Vec<usize> = (0..recording.row_groups.len()).collect();
    let summing = Summing {
        widths,
        leaves: TableBuilder::new(widths.leaf),
        blocks: TableBuilder::new(widths.block),
        sums: BTreeMap::new(),
    };
    summing.add(recording, &groups, progress)
}

/// Adds row groups, in the order of time, to a pyramid of all others. `None` if it must be built anew, because its columns or bins have no
/// room for them, or are too narrow for the bytes that it may have.
///
/// # Errors
/// If a segment is damaged or cannot be read.
pub fn append(
    recording: &mut ViewedRecording,
    pyramid: &Pyramid,
    groups: &[usize],
    progress: ReadProgress,
) -> Result<Option<Pyramid>, ViewError> {
    let Some(&first) = groups.first() else { return Ok(Some(pyramid.clone())) };
    let Pyramid { leaves, blocks, offset_shift, sum_columns, sums } = pyramid.clone();
    let widths = Widths { leaf: leaves.shift, block: blocks.shift, offset: offset_shift };
    let last = groups.iter().map(|&group| recording.row_groups[group].time_ns.1).max().unwrap_or(0);
    // Completions may lie behind the last begin.
    if last >> widths.leaf >= 1 << 31 {
        return Ok(None);
    }
    let begin = recording.row_groups[first].time_ns.0;
    let summing = Summing {
        widths,
        leaves: TableBuilder::reopened(leaves, begin),
        blocks: TableBuilder::reopened(blocks, begin),
        sums: sum_columns.into_iter().zip(sums).collect(),
    };
    let grown = summing.add(recording, groups, progress)?;
    Ok(grown.filter(|grown| grown.bytes() <= GROWN_SHARE * recording.samples_bytes() as f64))
}

impl Pyramid {
    /// Its bytes in a file, about.
    fn bytes(&self) -> f64 {
        let cells = self.leaves.keys.len() + self.blocks.keys.len();
        cells as f64 * CELL_BYTES + self.sums.len() as f64 * SUMS_BYTES
    }
}

/// A pyramid that row groups are added to.
struct Summing {
    widths: Widths,
    leaves: TableBuilder,
    blocks: TableBuilder,
    sums: BTreeMap<u32, ColumnSums>,
}

impl Summing {
    /// Adds row groups in the order of time. `None` if an offset is beyond the bins.
    fn add(
        mut self,
        recording: &mut ViewedRecording,
        groups: &[usize],
        progress: ReadProgress,
    ) -> Result<Option<Pyramid>, ViewError> {
        let all: u64 = groups.iter().map(|&group| recording.row_groups[group].ios).sum();
        let mut extents = Vec::new();
        let mut done = 0;
        for some in groups.chunks(AT_ONCE) {
            // No later row group begins before this one.
            let begin = recording.row_groups[some[0]].time_ns.0;
            self.leaves.close_below(begin);
            self.blocks.close_below(begin);
            let counted: Vec<Option<CountedGroup>> = some
                .par_iter()
                .map_init(Columns::default, |columns, &group| {
                    Ok(count_group(&recording.read(group, columns)?, self.widths, &recording.source.runs))
                })
                .collect::<Result<_, ViewError>>()?;
            for group in counted {
                let Some(group) = group else { return Ok(None) };
                done += group.overview.ios();
                extents.push((group.completed_ns, group.overview));
                self.leaves.pending.extend(group.leaves);
                self.blocks.pending.extend(group.blocks);
                for (column, more) in group.sums {
                    self.sums.entry(column).or_default().add(&more, 0);
                }
            }
            progress("summing up IOs", done, all);
        }
        recording.take_extents(groups, extents);
        let (sum_columns, sums) = self.sums.into_iter().unzip();
        Ok(Some(Pyramid {
            leaves: self.leaves.finish(),
            blocks: self.blocks.finish(),
            offset_shift: self.widths.offset,
            sum_columns,
            sums,
        }))
    }
}

fn count_group(ios: &IoColumns, widths: Widths, runs: &[RunLabel]) -> Option<CountedGroup> {
    let bins = ResponseBins::default();
    let mut sums: BTreeMap<u32, ColumnSums> = BTreeMap::new();
    let mut leaves = Vec::with_capacity(ios.len());
    let mut blocks = Vec::with_capacity(ios.len());
    for index in 0..ios.len() {
        let (time, response) = (ios.time_ns[index], ios.response_ns[index]);
        let (kind, bin) = (ios.kind[index], bins.bin(response));
        leaves.push((time >> widths.leaf) << 32 | u64::from(leaf_key(kind, bin)));
        let offset_bin = ios.offset_bytes[index] >> widths.offset;
        if offset_bin >= u64::from(OFFSET_BINS_MOST) {
            return None;
        }
        blocks.push((time >> widths.block) << 32 | u64::from(block_key(offset_bin as u32, bin, kind)));
    }
    add_sums(ios, widths.leaf, &mut sums);
    Some(CountedGroup {
        overview: Overview::of(ios, runs),
        completed_ns: last_completion(ios),
        leaves: counted(leaves),
        blocks: counted(blocks),
        sums,
    })
}

/// Adds begins and completions to their leaves. IOs that follow one another are mostly in the same leaf, which is looked up once.
fn add_sums(ios: &IoColumns, shift: u32, sums: &mut BTreeMap<u32, ColumnSums>) {
    let leaves = ColumnGrid { first: 0, shift, count: 0 };
    let mut begun = Leaf::default();
    let mut completed = Leaf::default();
    for index in 0..ios.len() {
        let (time, response) = (ios.time_ns[index], ios.response_ns[index]);
        let own = begun.at((time >> shift) as u32, sums);
        let mode = usize::from(ios.kind[index].is_write());
        own.ios[mode] += 1;
        own.bytes[mode] = own.bytes[mode].saturating_add(ios.size_bytes[index]);
        own.response_ns_sum[mode] = own.response_ns_sum[mode].saturating_add(response);
        own.failed += u64::from(ios.kind[index].is_failed());
        own.response_ns_min[mode] = own.response_ns_min[mode].min(response);
        own.response_ns_max[mode] = own.response_ns_max[mode].max(response);
        own.flight.begin(leaves.to_end(time));
        let completion = time.saturating_add(response);
        // Behind the last column it is in none that is looked at.
        let column = (completion >> shift).min(u64::from(u32::MAX)) as u32;
        completed.at(column, sums).flight.complete(leaves.to_end(completion));
    }
    begun.close(sums);
    completed.close(sums);
}

/// The sums of the leaf that was looked up most recently.
#[derive(Default)]
struct Leaf {
    column: u32,
    sums: ColumnSums,
}

impl Leaf {
    fn at(&mut self, column: u32, sums: &mut BTreeMap<u32, ColumnSums>) -> &mut ColumnSums {
        if self.column != column {
            self.close(sums);
            self.column = column;
        }
        &mut self.sums
    }

    fn close(&mut self, sums: &mut BTreeMap<u32, ColumnSums>) {
        let own = std::mem::take(&mut self.sums);
        if own != ColumnSums::default() {
            sums.entry(self.column).or_default().add(&own, 0);
        }
    }
}

/// Cells in ascending order with their counts.
fn counted(mut cells: Vec<u64>) -> Vec<(u64, u32)> {
    cells.sort_unstable();
    cells.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect()
}

/// Makes a table of cells that come nearly in the order of time.
struct TableBuilder {
    table: SparseTable,
    /// Cells of columns that are not closed: column in the upper 32 bits, key in the lower.
    pending: Vec<(u64, u32)>,
}

impl TableBuilder {
    fn new(shift: u32) -> TableBuilder {
        TableBuilder { table: SparseTable { shift, ..SparseTable::default() }, pending: Vec::new() }
    }

    /// A table to which cells from `begin_ns` on are added.
    fn reopened(mut table: SparseTable, begin_ns: u64) -> TableBuilder {
        let begin = begin_ns >> table.shift;
        let kept = table.columns.partition_point(|&column| u64::from(column) < begin);
        let first = table.starts[kept] as usize;
        let mut pending = Vec::new();
        for at in kept..table.columns.len() {
            let cells = table.starts[at] as usize..table.starts[at + 1] as usize;
            let column = u64::from(table.columns[at]) << 32;
            pending.extend(cells.map(|cell| (column | u64::from(table.keys[cell]), table.counts[cell])));
        }
        table.columns.truncate(kept);
        table.starts.truncate(kept);
        table.keys.truncate(first);
        table.counts.truncate(first);
        TableBuilder { table, pending }
    }

    /// Closes the columns that end before `time_ns`, or at it.
    fn close_below(&mut self, time_ns: u64) {
        self.close(time_ns >> self.table.shift);
    }

    fn close(&mut self, end: u64) {
        // Runs of ascending cells, which this sort merges.
        self.pending.sort_by_key(|(cell, _)| *cell);
        let closed = self.pending.partition_point(|(cell, _)| cell >> 32 < end);
        let table = &mut self.table;
        let mut last = None;
        for (cell, count) in self.pending.drain(..closed) {
            if last == Some(cell) {
                *table.counts.last_mut().expect("it has the cell before") += count;
                continue;
            }
            let column = (cell >> 32) as u32;
            if table.columns.last() != Some(&column) {
                assert!(
                    table.columns.last().is_none_or(|&last| last < column),
                    "columns are closed in order"
                );
                table.columns.push(column);
                table.starts.push(table.keys.len() as u32);
            }
            table.keys.push(cell as u32);
            table.counts.push(count);
            last = Some(cell);
        }
    }

    fn finish(mut self) -> SparseTable {
        self.close(u64::MAX);
        self.table.starts.push(self.table.keys.len() as u32);
        self.table
    }
}

/// The narrowest widths with which each table fits into `table_bytes`.
fn choose_widths(recording: &ViewedRecording, table_bytes: f64) -> Result<Widths, ViewError> {
    let count = recording.row_groups.len();
    let step = count.div_ceil(LOOKED_AT).max(1);
    let mut columns = Columns::default();
    let looked_at: Vec<IoColumns> = (0..count)
        .step_by(step)
        .map(|group| recording.read(group, &mut columns))
        .collect::<Result<_, _>>()?;
    let looked_at_ios: usize = looked_at.iter().map(IoColumns::len).sum();
    let all_ios: u64 = recording.row_groups.iter().map(|group| group.ios).sum();
    let looked_at_bytes = table_bytes * looked_at_ios as f64 / all_ios.max(1) as f64;

    let span = recording.row_groups.iter().map(|group| group.time_ns.1).max().unwrap_or(0);
    // The number of a column has 32 bits; completions may lie behind the last begin.
    let least = (64 - span.leading_zeros()).saturating_sub(31);
    let widest = WIDEST.max(least);
    let bins = ResponseBins::default();
    // Whether columns of this width, with a cell for each key, take at most so many bytes.
    let fits = |shift: u32, column_bytes: f64, key: &dyn Fn(&IoColumns, usize) -> u32| {
        let (mut cells, mut columns) = (0, 0);
        for some in &looked_at {
            let all = (0..some.len())
                .map(|index| (some.time_ns[index] >> shift) << 32 | u64::from(key(some, index)));
            let counted = counted(all.collect());
            cells += counted.len();
            columns += counted.chunk_by(|(a, _), (b, _)| a >> 32 == b >> 32).count();
        }
        cells as f64 * CELL_BYTES + columns as f64 * column_bytes <= looked_at_bytes
    };
    let leaf_cell =
        |ios: &IoColumns, index: usize| leaf_key(ios.kind[index], bins.bin(ios.response_ns[index]));
    let leaf = (least..widest).find(|&shift| fits(shift, SUMS_BYTES, &leaf_cell)).unwrap_or(widest);
    let largest = looked_at.iter().flat_map(|ios| ios.offset_bytes.iter().copied()).max().unwrap_or(0);
    let offset = (64 - (largest / OFFSET_COLUMNS_MOST as u64).leading_zeros()).max(9);
    let block_cell = |ios: &IoColumns, index: usize| {
        let bin = bins.bin(ios.response_ns[index]);
        block_key((ios.offset_bytes[index] >> offset) as u32, bin, ios.kind[index])
    };
    let block = (leaf..widest).find(|&shift| fits(shift, 0.0, &block_cell)).unwrap_or(widest);
    Ok(Widths { leaf, block: block.max(leaf), offset })
}
