//! The state that recovery builds up.

use crate::error::RepairError;
use crate::format::checkpoint::{Change, Checkpoint};
use crate::format::superblock::Superblock;
use crate::map::PageMap;
use crate::ring::Ring;
use crate::seeded_bug::SeededBug;
use crate::segment_table::{Segment, SegmentId};

/// The state of a volume as the device has it.
pub(crate) struct Recovered {
    pub superblock: Superblock,
    pub map: PageMap,
    pub segments: Vec<Segment>,
    pub ring: Ring,
    /// The last checkpoint.
    pub checkpoint: Checkpoint,
    /// Changes since the last checkpoint.
    pub changes: Vec<Change>,
    /// Segments with records since the last checkpoint.
    pub touched: Vec<SegmentId>,
    /// The last record that was applied.
    pub sequence: u64,
    /// The write clock.
    pub now: u64,
    /// Segments opened so far.
    pub opened_count: u64,
    /// Records that roll-forward applied.
    pub replayed: u64,
    pub(super) bug: Option<SeededBug>,
}

impl Recovered {
    /// Whether the volume was closed in order with the last checkpoint: nothing was written behind it.
    pub fn is_closed(&self) -> bool {
        self.superblock.is_clean && self.checkpoint.epoch == self.superblock.epoch
    }
}

/// Applies a change to the map. False: the volume has no such page. Whether a place exists is checked when all are counted.
pub(super) fn apply(recovered: &mut Recovered, change: Change) -> bool {
    let map = &mut recovered.map;
    match change {
        Change::Put { page, location } => {
            let fits = page < map.pages();
            if fits {
                map.replay(page, Some(location));
            }
            fits
        }
        Change::Drop { page, count } => {
            let end = page.saturating_add(count.into());
            let fits = end <= map.pages();
            (page..end.min(map.pages())).for_each(|page| map.replay(page, None));
            fits
        }
    }
}

pub(super) fn damaged(what: &'static str, offset: u64, why: String) -> RepairError {
    RepairError::Damaged { what, offset, why }
}
