//! One log for all pages: the policies that separate nothing. They are what the others are compared with.
//!
//! # Model
//! FIFO reclaims the segment that was opened first; under uniform writes its write amplification is
//! `x / (x + W0(-x e^-x))` with `x` the physical pages for each logical page (Desnoyers, "Analytic modeling of SSD write
//! performance", SYSTOR 2012). Greedy reclaims the segment with the fewest live pages.

use crate::policy::{PageCopy, PageWrite, Policy};
use crate::segment_table::{LogId, SegmentId, SegmentState, SegmentTable};

const LOG: LogId = LogId(0);

/// A single log, and the order in which its segments are reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleLog {
    /// In the order in which they were written.
    Fifo,
    /// That with the fewest live pages first.
    Greedy,
}

impl Policy for SingleLog {
    fn name(&self) -> &'static str {
        match self {
            SingleLog::Fifo => "fifo",
            SingleLog::Greedy => "greedy",
        }
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
        match self {
            SingleLog::Fifo => table.oldest(LOG),
            SingleLog::Greedy => {
                let sealed = table.segments().filter(|(_, segment)| segment.state == SegmentState::Sealed);
                // Of equals the oldest: the order does not depend on where segments lie.
                sealed.min_by_key(|(_, segment)| (segment.live_pages, segment.sequence)).map(|(id, _)| id)
            }
        }
    }
}
