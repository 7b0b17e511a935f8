//! A policy that is hard on recovery: the host's pages alternate between two logs, copies go to a third.

use crate::policy::{PageCopy, PageWrite, Policy};
use crate::segment_table::{LogId, SegmentId, SegmentState, SegmentTable};

/// Two logs for the host and one for copies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scatter {
    writes: u64,
}

impl Policy for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn log_count(&self) -> u8 {
        3
    }

    fn place_write(&mut self, write: &PageWrite, _: &SegmentTable) -> LogId {
        self.writes += 1;
        LogId(u8::from((write.page + self.writes / 3) % 2 == 1))
    }

    fn place_copy(&mut self, _: &PageCopy, _: &SegmentTable) -> LogId {
        LogId(2)
    }

    fn victim(&mut self, table: &SegmentTable, _now: u64) -> Option<SegmentId> {
        let sealed = table.segments().filter(|(_, segment)| segment.state == SegmentState::Sealed);
        sealed.min_by_key(|(_, segment)| (segment.live_pages, segment.sequence)).map(|(id, _)| id)
    }
}
