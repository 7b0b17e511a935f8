//! MDC: minimum declining cost with penultimate updates (Lomet and Luo, "Efficiently Reclaiming Space in a Log Structured
//! Store", ICDE 2021).
//!
//! # Model
//! A page's update frequency is `2 / (now - up2)` with `up2` the time of the update before its last one. Only the mean over a
//! segment is kept. An overwritten page's `up2` moves half of the way from its segment's `up2` to now; a copied page keeps
//! it. The victim has the smallest `live / dead^2 / (now - up2)`.
//!
//! The paper sorts a buffer of pages by `up2` before it writes segments. Here a log for each octave of `now - up2` does the
//! same without holding writes back.
//!
//! # Memory
//! 12 bytes for each segment, nothing for each page.

use crate::policy::{PageCopy, PageWrite, Policy};
use crate::segment_table::{LogId, SegmentId, SegmentTable, Slot};
use crate::update_interval::{Octaves, average};
use crate::victims::VictimQueue;

/// Minimum declining cost.
#[derive(Clone, Debug)]
pub struct Mdc {
    octaves: Octaves,
    /// The sum of `up2` over the pages placed in each segment, and their number.
    up2: Vec<(f64, u32)>,
    /// `up2` of the page that is being placed.
    placing: f64,
    victims: VictimQueue,
}

impl Mdc {
    /// The policy of a volume with this number of segments.
    pub fn new(segment_count: u32) -> Mdc {
        Mdc {
            octaves: Octaves::new(segment_count),
            up2: vec![(0.0, 0); segment_count as usize],
            placing: 0.0,
            victims: VictimQueue::default(),
        }
    }

    fn log(&self, now: u64, table: &SegmentTable) -> LogId {
        // Two updates lie between `up2` and now.
        let interval = 0.5 * (now as f64 - self.placing).max(1.0);
        self.octaves.log(interval.log2(), table)
    }
}

fn mean((sum, count): (f64, u32)) -> f64 {
    sum / f64::from(count.max(1))
}

impl Policy for Mdc {
    fn name(&self) -> &'static str {
        "mdc"
    }

    fn log_count(&self) -> u8 {
        self.octaves.log_count()
    }

    fn place_write(&mut self, write: &PageWrite, table: &SegmentTable) -> LogId {
        let now = write.now as f64;
        self.placing = match write.previous {
            None => now - 2.0 * average(table).exp2(),
            Some(slot) => {
                let up2 = mean(self.up2[slot.segment.0 as usize]);
                up2 + 0.5 * (now - up2)
            }
        };
        self.log(write.now, table)
    }

    fn place_copy(&mut self, copy: &PageCopy, table: &SegmentTable) -> LogId {
        self.placing = mean(self.up2[copy.from.segment.0 as usize]);
        self.log(copy.now, table)
    }

    fn opened(&mut self, segment: SegmentId, _: &SegmentTable) {
        self.up2[segment.0 as usize] = (0.0, 0);
    }

    fn placed(&mut self, slot: Slot) {
        let (sum, count) = &mut self.up2[slot.segment.0 as usize];
        *sum += self.placing;
        *count += 1;
    }

    fn victim(&mut self, table: &SegmentTable, now: u64) -> Option<SegmentId> {
        let Mdc { victims, up2, .. } = self;
        victims.next(table, |id, segment| {
            let dead = f64::from(table.pages_per_segment() - segment.live_pages);
            if dead == 0.0 {
                return f64::INFINITY;
            }
            let age = (now as f64 - mean(up2[id.0 as usize])).max(1.0);
            f64::from(segment.live_pages) / (dead * dead) / age
        })
    }

    fn recovered(&mut self, table: &SegmentTable, _now: u64) {
        // What was last appended to a segment is the best guess of its pages' updates.
        for ((_, segment), up2) in table.segments().zip(&mut self.up2) {
            *up2 = (segment.opened as f64, 1);
        }
    }
}
