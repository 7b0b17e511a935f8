//! Append and Pack (Stoica et al., "Evaluating and Repairing Write Performance on Flash Devices", DaMoN 2009, section 3).
//!
//! # Model
//! The host appends to a hot log. The least recently updated pages, at the head of the hot log, are packed to the cold log.
//! The head of the cold log is packed to its end. A page of the cold log that the host updates is promoted to the hot log.
//! One write of the host costs `1 + p_h / (1 - p_c)` (section 3.3): with probability `p_h` the page is still live at the head
//! of the hot log, and in the cold log a copy is copied again with probability `p_c`.
//!
//! # The size of the hot log
//! The paper fixes `alpha`, the physical pages for each logical page of a log, with `p_h = e^-alpha`. With a fixed size the cost
//! depends on how well the size was guessed. Here it is adapted while the volume runs:
//! 1. The lifetimes of overwritten pages give the distribution of update rates ([`UpdateClass`]).
//! 2. For each size the model ([`append_and_pack`]) gives `p_h = e^-alpha`, summed over the classes, `p_c` and the cost.
//! 3. The size moves towards that with the smallest cost, by at most 1/64 of the volume at each adaptation.
//! 4. Sizes that would leave the cold log less than 1/16 of the slack are not considered: the cold log could not be packed.
//! 5. On a small volume headers can take that slack. If the whole cold log was packed and the host still has no space, the hot
//!    log is packed, whatever its size.
//!
//! # Memory
//! Nothing for each page. After recovery the size starts over.

use crate::model::{PredictedCost, append_and_pack};
use crate::policy::{PageCopy, PageWrite, Policy};
use crate::segment_table::{LogId, SegmentId, SegmentTable};
use crate::update_classes::{Lifetimes, UpdateClass};

const HOT: LogId = LogId(0);
const COLD: LogId = LogId(1);

/// Adaptations while as many segments are packed as the volume has, and the inverse of the largest step.
const STEPS: u32 = 64;
/// The part of the slack that the cold log keeps.
const COLD_SLACK: f64 = 1.0 / 16.0;

/// The paper's policy with a hot log whose size adapts.
#[derive(Clone, Debug)]
pub struct AppendAndPackPolicy {
    /// Segments that the hot log may have.
    hot_target: u32,
    is_fixed: bool,
    packed_since: u32,
    /// Victims since the host last wrote, and the write clock then.
    victims_without_writes: u32,
    last_write: u64,
    lifetimes: Lifetimes,
}

impl AppendAndPackPolicy {
    /// The policy of a volume with this number of segments. The hot log starts with 1/16 of them.
    pub fn new(segment_count: u32) -> AppendAndPackPolicy {
        AppendAndPackPolicy {
            is_fixed: false,
            ..AppendAndPackPolicy::with_hot_segments((segment_count / 16).max(1))
        }
    }

    /// The policy with a hot log of a fixed size, in segments.
    pub fn with_hot_segments(hot_segments: u32) -> AppendAndPackPolicy {
        AppendAndPackPolicy {
            hot_target: hot_segments,
            is_fixed: true,
            packed_since: 0,
            victims_without_writes: 0,
            last_write: 0,
            lifetimes: Lifetimes::new(),
        }
    }

    /// Segments that the hot log may have at present.
    pub fn hot_segments(&self) -> u32 {
        self.hot_target
    }

    fn adapt(&mut self, table: &SegmentTable) {
        self.lifetimes.fade(table.live_pages());
        let Some(best) = best_size(&self.lifetimes.classes(), table) else { return };
        let step = (table.segment_count() / STEPS).max(1);
        self.hot_target = best.clamp(self.hot_target.saturating_sub(step).max(1), self.hot_target + step);
    }
}

/// The model's cost with a hot log of this size, in segments.
fn cost(classes: &[UpdateClass], hot: u32, table: &SegmentTable) -> Option<PredictedCost> {
    let pages = f64::from(table.pages_per_segment());
    let in_use = f64::from(table.segment_count() - table.free_count()) * pages;
    let hot = f64::from(hot) * pages;
    let live = table.live_pages() as f64;
    append_and_pack(classes, live, hot, in_use - hot, COLD_SLACK * (in_use - live))
}

/// The size of the hot log, in segments, with the smallest predicted cost.
fn best_size(classes: &[UpdateClass], table: &SegmentTable) -> Option<u32> {
    let step = (table.segment_count() / (2 * STEPS)).max(1);
    let sizes = (1..table.segment_count()).step_by(step as usize);
    let costs = sizes.filter_map(|size| Some((cost(classes, size, table)?.write_amplification, size)));
    costs.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, size)| size)
}

impl Policy for AppendAndPackPolicy {
    fn name(&self) -> &'static str {
        "append-and-pack"
    }

    fn log_count(&self) -> u8 {
        2
    }

    fn place_write(&mut self, write: &PageWrite, table: &SegmentTable) -> LogId {
        if let Some(slot) = write.previous {
            self.lifetimes.add(write.now - table.written_at(slot));
        }
        HOT
    }

    fn place_copy(&mut self, _: &PageCopy, _: &SegmentTable) -> LogId {
        COLD
    }

    fn victim(&mut self, table: &SegmentTable, now: u64) -> Option<SegmentId> {
        self.packed_since += 1;
        if !self.is_fixed && self.packed_since >= table.segment_count() / STEPS {
            self.packed_since = 0;
            self.adapt(table);
        }
        if self.last_write != now {
            (self.last_write, self.victims_without_writes) = (now, 0);
        }
        self.victims_without_writes += 1;
        let is_cold_useless = self.victims_without_writes > table.log(COLD).segments;
        let is_hot_full = table.log(HOT).segments > self.hot_target || is_cold_useless;
        let (first, second) = if is_hot_full { (HOT, COLD) } else { (COLD, HOT) };
        table.oldest(first).or_else(|| table.oldest(second))
    }

    fn predicted(&self, table: &SegmentTable) -> Option<PredictedCost> {
        cost(&self.lifetimes.classes(), table.log(HOT).segments, table)
    }
}
