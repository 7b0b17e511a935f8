//! Update intervals of pages, remembered for each segment instead of each page.
//!
//! # Model
//! An interval is the number of host page writes between two writes of the same page. A policy that separates pages by
//! interval puts similar pages into one segment, so the mean over the segment stands for each of its pages. This costs 12
//! bytes for each segment and nothing for each page (Lomet and Luo, "Efficiently Reclaiming Space in a Log Structured
//! Store", ICDE 2021, section 5, remember the penultimate update of a segment's pages the same way).
//!
//! Logs divide intervals by octaves. The interval of the average page is the number of live pages.

use crate::segment_table::{LogId, SegmentId, SegmentTable, Slot};

/// Logs colder than the one of the average page.
const COLDER_LOGS: u8 = 1;
/// Octaves of intervals from the hottest log to that of the average page. Beyond 2^6 times hotter than average even the
/// pages of a Zipf distribution with exponent 0.99 take less than 1 % of the volume.
const HOTTER_OCTAVES: f64 = 6.0;
/// A policy with a log for each octave.
const MOST_LOGS: u8 = 8;
/// Segments for each log: its open segment and its reserve take 2/128 of the volume at most.
const SEGMENTS_PER_LOG: u32 = 128;

/// The mean binary logarithm of the intervals of each segment's pages.
#[derive(Clone, Debug)]
pub(crate) struct SegmentIntervals {
    sums: Vec<(f64, u32)>,
}

impl SegmentIntervals {
    pub(crate) fn new(segment_count: u32) -> SegmentIntervals {
        SegmentIntervals { sums: vec![(0.0, 0); segment_count as usize] }
    }

    /// The mean over the segment of this slot, or `default` if nothing is known of it.
    pub(crate) fn mean(&self, slot: Slot, default: f64) -> f64 {
        match self.sums[slot.segment.0 as usize] {
            (_, 0) => default,
            (sum, count) => sum / f64::from(count),
        }
    }

    /// The segment is new: nothing is known of it.
    pub(crate) fn clear(&mut self, segment: SegmentId) {
        self.sums[segment.0 as usize] = (0.0, 0);
    }

    /// A page with this interval was placed.
    pub(crate) fn add(&mut self, slot: Slot, log2_interval: f64) {
        let (sum, count) = &mut self.sums[slot.segment.0 as usize];
        *sum += log2_interval;
        *count += 1;
    }

    /// After recovery each segment has the interval of the middle of its log.
    pub(crate) fn recovered(&mut self, octaves: &Octaves, table: &SegmentTable) {
        for ((_, segment), sum) in table.segments().zip(&mut self.sums) {
            *sum = (octaves.middle(segment.log, table), 1);
        }
    }
}

/// The division of intervals into logs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Octaves {
    log_count: u8,
    octaves_per_log: f64,
}

impl Octaves {
    /// As many logs as a volume of this size can give an open segment and a reserve.
    pub(crate) fn new(segment_count: u32) -> Octaves {
        let log_count = (segment_count / SEGMENTS_PER_LOG).clamp(3, u32::from(MOST_LOGS)) as u8;
        let hotter = log_count - 1 - COLDER_LOGS;
        Octaves { log_count, octaves_per_log: (HOTTER_OCTAVES / f64::from(hotter)).min(3.0) }
    }

    pub(crate) fn log_count(&self) -> u8 {
        self.log_count
    }

    /// The log of pages with this interval.
    pub(crate) fn log(&self, log2_interval: f64, table: &SegmentTable) -> LogId {
        let colder = (log2_interval - average(table)) / self.octaves_per_log;
        let coldest = f64::from(self.log_count - 1);
        LogId((coldest - f64::from(COLDER_LOGS) + colder.round()).clamp(0.0, coldest) as u8)
    }

    fn middle(&self, log: LogId, table: &SegmentTable) -> f64 {
        let colder = f64::from(log.0) + f64::from(COLDER_LOGS) - f64::from(self.log_count - 1);
        average(table) + colder * self.octaves_per_log
    }
}

/// The binary logarithm of the average page's interval.
pub(crate) fn average(table: &SegmentTable) -> f64 {
    (table.live_pages().max(1) as f64).log2()
}
