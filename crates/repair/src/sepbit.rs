//! SepBIT: pages are separated by the time at which they will probably be invalidated (Wang et al., "Separating Data via
//! Block Invalidation Time Inference for Write Amplification Reduction in Log-Structured Storage", FAST 2022).
//!
//! # Model
//! Six classes, each with a log. `l` is the mean lifetime of 16 packed segments of class 1, from opening to packing; the next 16
//! replace it (the paper's algorithm 1). It is infinite before.
//! 1. Host writes that replace a version younger than `l`: they will not live long either.
//! 2. Other host writes.
//! 3. Copies out of class 1.
//! 4. to 6. Other copies, by the time since the host wrote them: below `4 l`, below `16 l`, and older.
//!
//! The victim has the largest `g * age / (1 - g)`, with `g` its share of pages that are not live and `age` the time since it was
//! sealed: the paper's cost-benefit. The authors' prototype and simulator (github.com/fallfish/sepbit) take the square root of the
//! age. That costs 7 to 11 % more under Zipf writes with exponent 0.99 (docs/repair-policies.md), so the paper is followed.
//!
//! The paper keeps the lifetime of host writes in a queue of recent writes and the time of each page's write on disk. Here both come
//! from the [`SegmentTable`]: the host wrote a page between the first and the last page of its segment, in the order of their
//! positions. The paper packs when 15 % of all pages are garbage; a volume has a fixed size and packs when few segments are free.
//!
//! # Memory
//! Nothing for each page.

use crate::policy::{PageCopy, PageWrite, Policy};
use crate::segment_table::{LogId, Segment, SegmentId, SegmentTable};
use crate::victims::VictimQueue;

/// Packed segments of class 1 over which lifetimes are averaged (algorithm 1 of the paper).
const LIFETIMES: u64 = 16;

/// Separation by inferred invalidation time.
#[derive(Clone, Debug)]
pub struct SepBit {
    /// The mean lifetime of segments of class 1; without end until some were packed.
    mean_lifetime: u64,
    /// Lifetimes since it was computed: their number and sum.
    lifetimes: (u64, u64),
    victims: VictimQueue,
}

impl Default for SepBit {
    fn default() -> SepBit {
        SepBit { mean_lifetime: u64::MAX, lifetimes: (0, 0), victims: VictimQueue::default() }
    }
}

impl Policy for SepBit {
    fn name(&self) -> &'static str {
        "sepbit"
    }

    fn log_count(&self) -> u8 {
        6
    }

    fn place_write(&mut self, write: &PageWrite, table: &SegmentTable) -> LogId {
        let lived = write.previous.map(|slot| write.now - table.written_at(slot));
        LogId(u8::from(lived.is_none_or(|lived| lived >= self.mean_lifetime)))
    }

    fn place_copy(&mut self, copy: &PageCopy, table: &SegmentTable) -> LogId {
        if table.segment(copy.from.segment).log == LogId(0) {
            return LogId(2);
        }
        let (age, mean) = (copy.now - copy.written, self.mean_lifetime);
        if age < mean.saturating_mul(4) {
            LogId(3)
        } else if age < mean.saturating_mul(16) {
            LogId(4)
        } else {
            LogId(5)
        }
    }

    fn victim(&mut self, table: &SegmentTable, now: u64) -> Option<SegmentId> {
        self.victims.next(table, |_, segment| -benefit(segment, table.pages_per_segment(), now))
    }

    fn packed(&mut self, id: SegmentId, table: &SegmentTable, now: u64) {
        let segment = table.segment(id);
        if segment.log != LogId(0) {
            return;
        }
        let (count, sum) = (self.lifetimes.0 + 1, self.lifetimes.1 + (now - segment.opened));
        self.lifetimes = (count, sum);
        if count == LIFETIMES {
            self.mean_lifetime = sum / count;
            self.lifetimes = (0, 0);
        }
    }
}

/// What packing a segment frees for each page that it copies, weighted by its age. A segment without live pages is first.
fn benefit(segment: &Segment, pages: u32, now: u64) -> f64 {
    let (live, garbage) = (f64::from(segment.live_pages), f64::from(pages - segment.live_pages));
    garbage * ((now - segment.sealed) as f64 + 1.0) / live
}
