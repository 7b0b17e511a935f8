//! The trait [`Policy`]: where a page goes, which segment is reclaimed next, and what is learned from an overwrite.
//!
//! # Model
//! A policy sees page numbers, places and the write clock; no data, no device and no real time. The same policy
//! therefore drives a simulation in memory and a volume. [`Placer`](crate::Placer) calls it.
//!
//! # Recovery
//! What a policy needs of a segment is in the [`SegmentTable`], which a volume rebuilds from its records. Other state may
//! start over: [`Policy::recovered`] is called once, and estimates converge again.

use crate::model::PredictedCost;
use crate::segment_table::{LogId, SegmentId, SegmentTable, Slot};

/// A page that the host writes.
#[derive(Clone, Copy, Debug)]
pub struct PageWrite {
    /// The logical page.
    pub page: u64,
    /// Where its version before this one lies; it is live until this call returns. `None`: there is none.
    pub previous: Option<Slot>,
    /// The write clock: host page writes before this one.
    pub now: u64,
}

/// A live page that packing copies out of a segment.
#[derive(Clone, Copy, Debug)]
pub struct PageCopy {
    /// The logical page.
    pub page: u64,
    /// Where it lies.
    pub from: Slot,
    /// About when the host wrote it, on the write clock.
    pub written: u64,
    /// The write clock.
    pub now: u64,
}

/// Where pages go and which segments are reclaimed.
pub trait Policy: Send {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// The number of logs that pages are placed in. Each has at most one open segment.
    fn log_count(&self) -> u8;

    /// The log for a page that the host writes. If the write replaces a version, its place shows how long that lived:
    /// this is where a policy learns.
    fn place_write(&mut self, write: &PageWrite, table: &SegmentTable) -> LogId;

    /// The log for a page that packing copies.
    fn place_copy(&mut self, copy: &PageCopy, table: &SegmentTable) -> LogId;

    /// Pages that the host is about to write, in their order, from this time on. A simulation knows them in advance, so that a policy
    /// may decide for all of them at once; [`Policy::place_write`] is called for each of them as usual.
    fn announce_writes(&mut self, _pages: &[u32], _now: u64) {}

    /// Live pages that packing is about to copy, in their order, in a simulation. [`Policy::place_copy`] follows for each of them.
    fn announce_copies(&mut self, _pages: &[u32], _now: u64) {}

    /// Whether the policy uses what is announced.
    fn decides_in_batches(&self) -> bool {
        false
    }

    /// The sealed segment that is packed next. `None`: no segment is sealed.
    fn victim(&mut self, table: &SegmentTable, now: u64) -> Option<SegmentId>;

    /// A page was placed where the last answer said.
    fn placed(&mut self, _slot: Slot) {}

    /// A segment was opened; its number may have been another log's before.
    fn opened(&mut self, _segment: SegmentId, _table: &SegmentTable) {}

    /// A segment was sealed.
    fn sealed(&mut self, _segment: SegmentId, _table: &SegmentTable) {}

    /// No live page is left in a segment, which is about to be free.
    fn packed(&mut self, _segment: SegmentId, _table: &SegmentTable, _now: u64) {}

    /// The table was rebuilt from disk: state that is kept for each segment has to be rebuilt or to start over.
    fn recovered(&mut self, _table: &SegmentTable, _now: u64) {}

    /// The cost that the policy predicts from what it learned, if it has a better model than
    /// [`PlacementStatus`](crate::PlacementStatus). Not from what was copied.
    fn predicted(&self, _table: &SegmentTable) -> Option<PredictedCost> {
        None
    }

    /// Memory for each logical page, in addition to the map, in bytes. The state of segments and of the whole volume does
    /// not count.
    fn bytes_per_page(&self) -> f64 {
        0.0
    }
}
