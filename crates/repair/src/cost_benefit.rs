//! Cost-benefit with separated packing (Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File
//! System", TOCS 10(1), 1992, section 3.6).
//!
//! # Model
//! The victim has the largest `(1 - u) * age / (1 + u)`, with `u` its share of live pages and `age` the time since it was
//! sealed. Copies have a log of their own, so that pages that live long are not mixed with new ones.

use crate::policy::{PageCopy, PageWrite, Policy};
use crate::segment_table::{LogId, Segment, SegmentId, SegmentTable};
use crate::victims::VictimQueue;

/// Cost-benefit cleaning with a log for the host and one for copies.
#[derive(Clone, Debug, Default)]
pub struct CostBenefit {
    victims: VictimQueue,
}

impl Policy for CostBenefit {
    fn name(&self) -> &'static str {
        "cost-benefit"
    }

    fn log_count(&self) -> u8 {
        2
    }

    fn place_write(&mut self, _: &PageWrite, _: &SegmentTable) -> LogId {
        LogId(0)
    }

    fn place_copy(&mut self, _: &PageCopy, _: &SegmentTable) -> LogId {
        LogId(1)
    }

    fn victim(&mut self, table: &SegmentTable, now: u64) -> Option<SegmentId> {
        self.victims.next(table, |_, segment| -cost_benefit(segment, table.pages_per_segment(), now))
    }
}

/// What packing a segment frees, weighted by its age, for each page that is read and written.
fn cost_benefit(segment: &Segment, pages: u32, now: u64) -> f64 {
    let live = f64::from(segment.live_pages) / f64::from(pages);
    (1.0 - live) * ((now - segment.sealed) as f64 + 1.0) / (1.0 + live)
}
