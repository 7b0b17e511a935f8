//! What the panels show of a view, counted.
//!
//! # Model
//! A [`PanelLayout`] has the columns and rows of the panels. A [`Tally`] counts IOs in them, one by one or whole cells of the pyramid. Tallies
//! of parts of the IOs are added. [`Tally::in_flight`] follows from the IOs that began and completed in each column, and from the time
//! between them and the column's end: no IO is followed through the columns that it spans.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::grid::ColumnGrid;
use crate::ios::{IoColumns, IoKind};
use crate::response_bins::{ResponseBin, ResponseBins};
use crate::windows::Windows;

/// The most columns and rows over offsets.
pub const OFFSET_COLUMNS_MOST: usize = 256;

/// The columns and rows of the panels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanelLayout {
    /// Columns over time, in nanoseconds.
    pub time: ColumnGrid,
    /// The same for the panel of offsets over time.
    pub offset_time: ColumnGrid,
    /// Columns and rows over offsets, in bytes.
    pub offset: ColumnGrid,
    /// Response bins.
    pub bins: Range<ResponseBin>,
}

impl PanelLayout {
    /// The columns and rows for panels of `width` columns if each IO is looked at.
    pub fn finest(windows: &Windows, width: usize) -> PanelLayout {
        let (time, offset) = (&windows.time_ns, &windows.offset_bytes);
        PanelLayout {
            time: ColumnGrid::covering(time.start, time.end, width, 0),
            offset_time: PanelLayout::offset_time(windows, width, 0),
            // A sector is the least that has an offset of its own.
            offset: ColumnGrid::covering(offset.start, offset.end, OFFSET_COLUMNS_MOST, 9),
            bins: windows.bins(&ResponseBins::default()),
        }
    }

    /// The columns of the panel of offsets over time, none narrower than `2^shift_least`. It has half as many: with a row for each offset
    /// they would be most of an answer's bytes.
    pub fn offset_time(windows: &Windows, width: usize, shift_least: u32) -> ColumnGrid {
        ColumnGrid::covering(windows.time_ns.start, windows.time_ns.end, width.div_ceil(2), shift_least)
    }

    fn bin_count(&self) -> usize {
        usize::from(self.bins.end - self.bins.start)
    }
}

/// Two numbers, of reads and of writes.
pub type ByMode<T> = [T; 2];

/// What is summed in a column over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnSums {
    /// IOs that began in it.
    pub ios: ByMode<u64>,
    /// Their bytes.
    pub bytes: ByMode<u64>,
    /// Their shortest response time, nanoseconds; the largest number without IOs.
    pub response_ns_min: ByMode<u64>,
    /// Their longest response time, nanoseconds.
    pub response_ns_max: ByMode<u64>,
    /// All their response times added, nanoseconds.
    pub response_ns_sum: ByMode<u64>,
    /// Those that failed.
    pub failed: u64,
    /// Begins and completions of IOs, of whatever mode and within the view's filters.
    pub flight: Flight,
}

/// Begins and completions in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flight {
    /// IOs that began.
    pub begun: u64,
    /// IOs that completed.
    pub completed: u64,
    /// From each begin to the column's end, added, in nanoseconds.
    #[serde(with = "whole_number")]
    pub begun_to_end_ns: f64,
    /// From each completion to the column's end, added, in nanoseconds.
    #[serde(with = "whole_number")]
    pub completed_to_end_ns: f64,
}

/// Sums of nanoseconds in a leaf are whole numbers, which take a third of a float's bytes in a file.
mod whole_number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(sum: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        (*sum as u64).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(|sum| sum as f64)
    }
}

impl Flight {
    /// Counts an IO that began `to_end_ns` before the column's end.
    pub fn begin(&mut self, to_end_ns: u64) {
        self.begun += 1;
        self.begun_to_end_ns += to_end_ns as f64;
    }

    /// Counts an IO that completed `to_end_ns` before the column's end.
    pub fn complete(&mut self, to_end_ns: u64) {
        self.completed += 1;
        self.completed_to_end_ns += to_end_ns as f64;
    }

    /// Adds those of a part of the column that ends `to_end_ns` before the column does.
    pub fn add(&mut self, part: &Flight, to_end_ns: u64) {
        self.begun += part.begun;
        self.completed += part.completed;
        self.begun_to_end_ns += part.begun_to_end_ns + part.begun as f64 * to_end_ns as f64;
        self.completed_to_end_ns += part.completed_to_end_ns + part.completed as f64 * to_end_ns as f64;
    }
}

impl Default for ColumnSums {
    fn default() -> ColumnSums {
        ColumnSums {
            ios: [0; 2],
            bytes: [0; 2],
            response_ns_min: [u64::MAX; 2],
            response_ns_max: [0; 2],
            response_ns_sum: [0; 2],
            failed: 0,
            flight: Flight::default(),
        }
    }
}

impl ColumnSums {
    /// All of them in the order of `SUMS` in `assets/tally.js`. Without IOs the shortest response time is 0.
    pub fn numbers(&self) -> [u64; 15] {
        let shortest = [0, 1].map(|mode| if self.ios[mode] == 0 { 0 } else { self.response_ns_min[mode] });
        let Flight { begun, completed, begun_to_end_ns, completed_to_end_ns } = self.flight;
        let [reads, writes] = self.ios;
        let [read_bytes, written_bytes] = self.bytes;
        let [read_max, write_max] = self.response_ns_max;
        let [read_sum, write_sum] = self.response_ns_sum;
        [
            reads,
            writes,
            read_bytes,
            written_bytes,
            shortest[0],
            shortest[1],
            read_max,
            write_max,
            read_sum,
            write_sum,
            self.failed,
            begun,
            completed,
            begun_to_end_ns as u64,
            completed_to_end_ns as u64,
        ]
    }

    /// Adds those of a part of the column that ends `to_end_ns` before the column does.
    pub fn add(&mut self, other: &ColumnSums, to_end_ns: u64) {
        for mode in 0..2 {
            self.ios[mode] += other.ios[mode];
            self.bytes[mode] = self.bytes[mode].saturating_add(other.bytes[mode]);
            self.response_ns_min[mode] = self.response_ns_min[mode].min(other.response_ns_min[mode]);
            self.response_ns_max[mode] = self.response_ns_max[mode].max(other.response_ns_max[mode]);
            self.response_ns_sum[mode] =
                self.response_ns_sum[mode].saturating_add(other.response_ns_sum[mode]);
        }
        self.failed += other.failed;
        self.flight.add(&other.flight, to_end_ns);
    }
}

/// IOs counted in the panels of a view.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The panels.
    pub layout: PanelLayout,
    /// By column over time and response bin.
    pub time_response: Vec<ByMode<u32>>,
    /// By column over offsets and response bin.
    pub offset_response: Vec<ByMode<u32>>,
    /// By column of [`PanelLayout::offset_time`] and row over offsets.
    pub time_offset: Vec<ByMode<u32>>,
    /// By response bin.
    pub histogram: Vec<ByMode<u64>>,
    /// By column over time.
    pub columns: Vec<ColumnSums>,
    /// IOs that were in flight when the first column begins.
    pub in_flight_before: i64,
}

impl Tally {
    /// Counts of nothing.
    pub fn new(layout: PanelLayout) -> Tally {
        let (time, offset, bins) = (layout.time.count, layout.offset.count, layout.bin_count());
        let offset_time = layout.offset_time.count;
        Tally {
            time_response: vec![[0; 2]; time * bins],
            offset_response: vec![[0; 2]; offset * bins],
            time_offset: vec![[0; 2]; offset_time * offset],
            histogram: vec![[0; 2]; bins],
            columns: vec![ColumnSums::default(); time],
            in_flight_before: 0,
            layout,
        }
    }

    /// Counts the IO `index`, which the view shows.
    pub fn add_io(&mut self, ios: &IoColumns, index: usize, bins: &ResponseBins) {
        let (time, response, kind) = (ios.time_ns[index], ios.response_ns[index], ios.kind[index]);
        let (column, row) =
            (self.layout.time.column(time), self.layout.offset.column(ios.offset_bytes[index]));
        let (Some(column), Some(row)) = (column, row) else { return };
        let bin = bins.bin(response);
        self.add_time_response(column, bin, kind, 1);
        if let Some(column) = self.layout.offset_time.column(time) {
            self.add_offset(column, row, bin, kind, 1);
        }
        let mode = usize::from(kind.is_write());
        let sums = &mut self.columns[column];
        sums.ios[mode] += 1;
        sums.bytes[mode] = sums.bytes[mode].saturating_add(ios.size_bytes[index]);
        sums.response_ns_sum[mode] = sums.response_ns_sum[mode].saturating_add(response);
        sums.failed += u64::from(kind.is_failed());
        sums.response_ns_min[mode] = sums.response_ns_min[mode].min(response);
        sums.response_ns_max[mode] = sums.response_ns_max[mode].max(response);
    }

    /// Counts IOs of a column over time and a response bin, without their offsets.
    #[inline]
    pub fn add_time_response(&mut self, column: usize, bin: ResponseBin, kind: IoKind, count: u32) {
        let (bin, mode) = (usize::from(bin - self.layout.bins.start), usize::from(kind.is_write()));
        self.time_response[column * self.layout.bin_count() + bin][mode] += count;
        self.histogram[bin][mode] += u64::from(count);
    }

    /// Counts IOs in the two panels over offsets; the column is one of [`PanelLayout::offset_time`].
    #[inline]
    pub fn add_offset(&mut self, column: usize, row: usize, bin: ResponseBin, kind: IoKind, count: u32) {
        let (bin, mode) = (usize::from(bin - self.layout.bins.start), usize::from(kind.is_write()));
        self.offset_response[row * self.layout.bin_count() + bin][mode] += count;
        self.time_offset[column * self.layout.offset.count + row][mode] += count;
    }

    /// Notes when an IO began and completed, for the number in flight. Times outside of the columns are allowed.
    pub fn add_flight(&mut self, begin_ns: u64, completion_ns: u64) {
        let grid = self.layout.time;
        let (start, end) = (grid.start(), grid.end());
        if completion_ns < start || begin_ns >= end {
            return;
        }
        match grid.column(begin_ns) {
            Some(column) => {
                self.columns[column].flight.begin(grid.to_end(begin_ns));
            }
            None => self.in_flight_before += 1,
        }
        if let Some(column) = grid.column(completion_ns) {
            self.columns[column].flight.complete(grid.to_end(completion_ns));
        }
    }

    /// Adds the counts of other IOs in the same panels.
    pub fn add(&mut self, other: &Tally) {
        assert_eq!(self.layout, other.layout, "tallies of the same panels are added");
        add_counts(&mut self.time_response, &other.time_response);
        add_counts(&mut self.offset_response, &other.offset_response);
        add_counts(&mut self.time_offset, &other.time_offset);
        for (own, more) in self.histogram.iter_mut().zip(&other.histogram) {
            own[0] += more[0];
            own[1] += more[1];
        }
        for (own, more) in self.columns.iter_mut().zip(&other.columns) {
            own.add(more, 0);
        }
        self.in_flight_before += other.in_flight_before;
    }

    /// IOs of reads and of writes.
    pub fn ios(&self) -> ByMode<u64> {
        [0, 1].map(|mode| self.histogram.iter().map(|bin| bin[mode]).sum())
    }

    /// The mean number of IOs in flight in each column over time.
    pub fn in_flight(&self) -> Vec<f64> {
        let width = self.layout.time.step() as f64;
        let mut at_begin = self.in_flight_before;
        self.columns
            .iter()
            .map(|ColumnSums { flight, .. }| {
                let mean = at_begin as f64 + (flight.begun_to_end_ns - flight.completed_to_end_ns) / width;
                at_begin += flight.begun as i64 - flight.completed as i64;
                mean.max(0.0)
            })
            .collect()
    }
}

/// What is in view.
pub struct Counted {
    /// The counts.
    pub tally: Tally,
    /// Whether they are those of exactly the windows that were asked for.
    pub is_exact: bool,
    /// Whether looking at each IO would give finer columns, or exactly these windows.
    pub could_be_finer: bool,
    /// Whether minima, maxima and the IOs in flight are known: cells of offsets have none.
    pub has_column_sums: bool,
    /// The IOs, if they are few.
    pub points: Option<IoColumns>,
    /// What was counted.
    pub windows: Windows,
}

fn add_counts(own: &mut [ByMode<u32>], more: &[ByMode<u32>]) {
    for (own, more) in own.iter_mut().zip(more) {
        own[0] += more[0];
        own[1] += more[1];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout(time: ColumnGrid) -> PanelLayout {
        PanelLayout {
            time,
            offset_time: time,
            offset: ColumnGrid::covering(0, 1 << 20, 16, 0),
            bins: 0..1024,
        }
    }

    proptest! {
        /// Against the definition: the time that IOs spend in a column, by its width.
        #[test]
        fn in_flight_is_the_time_in_a_column_by_its_width(ios in prop::collection::vec((0..4000_u64, 0..3000_u64), 0..40)) {
            let grid = ColumnGrid::covering(1000, 3000, 16, 0);
            let mut tally = Tally::new(layout(grid));
            for &(begin, response) in &ios {
                tally.add_flight(begin, begin + response);
            }
            for (column, mean) in tally.in_flight().into_iter().enumerate() {
                let start = grid.start() + column as u64 * grid.step();
                let end = start + grid.step();
                let spent: u64 = ios.iter().map(|&(begin, response)| (begin + response).min(end).saturating_sub(begin.max(start))).sum();
                prop_assert!((mean - spent as f64 / grid.step() as f64).abs() < 1e-9, "column {}: {} for {}", column, mean, spent);
            }
        }
    }
}
