//! One log for all pages: the policies that separate nothing. They are what the others are compared with.
//!
//! # Model
//! FIFO reclaims the segment that was opened first; under uniform writes its write amplification is
//! `x / (x + W0(-x e^-x))` with `x` the physical pages for each logical page (Desnoyers, "Analytic modeling of SSD write
//! performance", SYSTOR 2012). Greedy reclaims the segment with the fewest live pages.

use crate::policy::{PageCopy, PageWrite, Policy};
use crate::segment_table::{LogId, SegmentId, SegmentState, SegmentTable};

const LOG: LogId = LogId(0);

/// A single log, reclaimed in the order in which it was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn log_count(&self) -> u8 {
        1
    }

    fn place_write(&mut self, _: &PageWrite, _: &SegmentTable) -> LogId {
        LOG
    }

    fn place_copy(&mut self, _: &PageCopy, _: &SegmentTable) -> LogId {
        LOG
    }

    fn victim(&mut self, table: &SegmentTable, _now: u64) -> Option<SegmentId> {
        table.oldest(LOG)
    }
}

/// A single log of which the segment with the fewest live pages is reclaimed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Policy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn log_count(&self) -> u8 {
        1
    }

    fn place_write(&mut self, _: &PageWrite, _: &SegmentTable) -> LogId {
        LOG
    }

    fn place_copy(&mut self, _: &PageCopy, _: &SegmentTable) -> LogId {
        LOG
    }

    fn victim(&mut self, table: &SegmentTable, _now: u64) -> Option<SegmentId> {
        let sealed = table.segments().filter(|(_, segment)| segment.state == SegmentState::Sealed);
        // Of equals the oldest: the order does not depend on where segments lie.
        sealed.min_by_key(|(_, segment)| (segment.live_pages, segment.sequence)).map(|(id, _)| id)
    }
}
