//! The queue of victims of policies that weigh all sealed segments.
//!
//! # Method
//! A scan gives every sealed segment its priority and keeps the best 1/128 of them. They are packed before the next scan, so
//! that a victim costs the evaluation of 128 priorities, however large the volume is. A segment's priority changes little
//! meanwhile: the host has written less than 1/128 of the volume.

use std::collections::VecDeque;

use crate::segment_table::{Segment, SegmentId, SegmentState, SegmentTable};

/// Sealed segments for each one that a scan keeps.
const SEGMENTS_PER_VICTIM: usize = 128;

/// The victims that the last scan chose.
#[derive(Clone, Debug, Default)]
pub(crate) struct VictimQueue {
    /// Each with its sequence: the segment may have been packed and opened since.
    chosen: VecDeque<(SegmentId, u64)>,
    scanned: Vec<(f64, u64, SegmentId)>,
}

impl VictimQueue {
    /// The sealed segment with the lowest priority at the last scan; of equals the oldest.
    pub(crate) fn next(
        &mut self,
        table: &SegmentTable,
        priority: impl Fn(SegmentId, &Segment) -> f64,
    ) -> Option<SegmentId> {
        while let Some((id, sequence)) = self.chosen.pop_front() {
            let segment = table.segment(id);
            if segment.state == SegmentState::Sealed && segment.sequence == sequence {
                return Some(id);
            }
        }
        self.scan(table, priority);
        self.chosen.pop_front().map(|(id, _)| id)
    }

    fn scan(&mut self, table: &SegmentTable, priority: impl Fn(SegmentId, &Segment) -> f64) {
        self.scanned.clear();
        let sealed = table.segments().filter(|(_, segment)| segment.state == SegmentState::Sealed);
        self.scanned.extend(sealed.map(|(id, segment)| (priority(id, segment), segment.sequence, id)));
        let kept = self.scanned.len().div_ceil(SEGMENTS_PER_VICTIM);
        if kept == 0 {
            return;
        }
        let order =
            |a: &(f64, u64, SegmentId), b: &(f64, u64, SegmentId)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        self.scanned.select_nth_unstable_by(kept - 1, order);
        self.scanned[..kept].sort_unstable_by(order);
        self.chosen.extend(self.scanned[..kept].iter().map(|&(_, sequence, id)| (id, sequence)));
    }
}
