//! SepBIT: pages are separated by the time at which they will probably be invalidated (Wang et al., "Separating Data via
//! Block Invalidation Time Inference for Write Amplification Reduction in Log-Structured Storage", FAST 2022).
//!
//! # Model
//! Six classes, each with a log. `l` is the mean lifetime of the last 16 packed segments of class 1.
//! 1. Host writes that replace a version younger than `l`: they will not live long either.
//! 2. Other host writes.
//! 3. Copies out of class 1.
//! 4. to 6. Other copies, by the time since the host wrote them: below `4 l`, below `16 l`, and older.
//!
//! The victim is chosen by cost-benefit, as in the paper. The paper keeps the lifetime of host writes in a queue of recent
//! writes and the time of each page's write on disk. Here both come from the [`SegmentTable`]: the host wrote a page between the
//! first and the last page of its segment, in the order of their positions.
//!
//! # Memory
//! Nothing for each page.

use std::collections::VecDeque;

use crate::cost_benefit::cost_benefit;
use crate::policy::{PageCopy, PageWrite, Policy};
use crate::segment_table::{LogId, SegmentId, SegmentTable};
use crate::victims::VictimQueue;

/// Packed segments of class 1 over which lifetimes are averaged (section 3.3 of the paper).
const LIFETIMES: usize = 16;

/// Separation by inferred invalidation time.
#[derive(Clone, Debug, Default)]
pub struct SepBit {
    lifetimes: VecDeque<u64>,
    victims: VictimQueue,
}

impl SepBit {
    /// The mean lifetime of segments of class 1; without end until some were packed.
    fn mean_lifetime(&self) -> u64 {
        match self.lifetimes.len() {
            LIFETIMES => self.lifetimes.iter().sum::<u64>() / LIFETIMES as u64,
            _ => u64::MAX,
        }
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
        LogId(u8::from(lived.is_none_or(|lived| lived >= self.mean_lifetime())))
    }

    fn place_copy(&mut self, copy: &PageCopy, table: &SegmentTable) -> LogId {
        if table.segment(copy.from.segment).log == LogId(0) {
            return LogId(2);
        }
        let (age, mean) = (copy.now - copy.written, self.mean_lifetime());
        if age < mean.saturating_mul(4) {
            LogId(3)
        } else if age < mean.saturating_mul(16) {
            LogId(4)
        } else {
            LogId(5)
        }
    }

    fn victim(&mut self, table: &SegmentTable, now: u64) -> Option<SegmentId> {
        self.victims.next(table, |_, segment| -cost_benefit(segment, table.pages_per_segment(), now))
    }

    fn packed(&mut self, id: SegmentId, table: &SegmentTable, now: u64) {
        let segment = table.segment(id);
        if segment.log == LogId(0) {
            self.lifetimes.push_back(now - segment.opened);
            if self.lifetimes.len() > LIFETIMES {
                self.lifetimes.pop_front();
            }
        }
    }
}
