//! A log for each octave of update intervals, and the segment is packed that gains least by waiting: the default.
//!
//! # Model
//! - Separation by update frequency (Stoica and Ailamaki, "Improving Flash Write Performance by Using Update Frequency",
//!   PVLDB 6(9), 2013): pages of one log have nearly the same frequency, so each log behaves as under uniform writes.
//! - The victim has the minimum declining cost (Lomet and Luo, ICDE 2021): packing a segment with `a` dead pages costs
//!   `1 / a` for each freed page, which declines by `rate * live / a^2` as further pages die. Where the decline is slowest,
//!   waiting gains least. In equilibrium this gives each log its best share of the over-provisioning.
//!
//! # Method
//! 1. A page's interval is remembered by its segment ([`SegmentIntervals`]).
//! 2. When the host overwrites a page, its interval becomes the geometric mean of the old interval, with weight
//!    `1 - WEIGHT`, and of the time that the page lay in its segment. The mean of the logarithm of an exponential time lies
//!    0.577 (Euler's constant) below the logarithm of its mean; the estimate is corrected by that.
//! 3. When packing copies a page, its interval becomes at least the time that it lay in its segment.
//! 4. A segment's rate is the posterior mean of its death rate: a gamma prior worth [`PRIOR_DEATHS`] deaths at the
//!    remembered interval, and the deaths seen since it was opened.
//!
//! # Memory
//! 12 bytes for each segment, nothing for each page.

use crate::policy::{PageCopy, PageWrite, Policy};
use crate::segment_table::{LogId, Segment, SegmentId, SegmentTable, Slot};
use crate::update_interval::{Octaves, SegmentIntervals, average};
use crate::victims::VictimQueue;

/// The share of an overwritten page's newest lifetime in its interval. Larger values separate worse, because one lifetime
/// says little; smaller ones follow a moving hot set more slowly.
const WEIGHT: f64 = 0.35;
/// Euler's constant in octaves.
const EULER_OCTAVES: f64 = 0.5772 * std::f64::consts::LOG2_E;
/// Deaths that the remembered interval is worth. Fewer let the first deaths of a segment decide.
const PRIOR_DEATHS: f64 = 16.0;

/// Logs by update frequency, packed by minimum declining cost.
#[derive(Clone, Debug)]
pub struct MultiLog {
    octaves: Octaves,
    intervals: SegmentIntervals,
    /// The interval of the page that is being placed.
    placing: f64,
    victims: VictimQueue,
}

impl MultiLog {
    /// The policy of a volume with this number of segments.
    pub fn new(segment_count: u32) -> MultiLog {
        MultiLog {
            octaves: Octaves::new(segment_count),
            intervals: SegmentIntervals::new(segment_count),
            placing: 0.0,
            victims: VictimQueue::default(),
        }
    }

    fn lain(slot: Slot, table: &SegmentTable, now: u64) -> f64 {
        ((now - table.segment(slot.segment).opened).max(1) as f64).log2()
    }
}

impl Policy for MultiLog {
    fn name(&self) -> &'static str {
        "multi-log"
    }

    fn log_count(&self) -> u8 {
        self.octaves.log_count()
    }

    fn place_write(&mut self, write: &PageWrite, table: &SegmentTable) -> LogId {
        self.placing = match write.previous {
            None => average(table),
            Some(slot) => {
                let lived = MultiLog::lain(slot, table, write.now) + EULER_OCTAVES;
                let remembered = self.intervals.mean(slot, lived);
                (1.0 - WEIGHT) * remembered + WEIGHT * lived
            }
        };
        self.octaves.log(self.placing, table)
    }

    fn place_copy(&mut self, copy: &PageCopy, table: &SegmentTable) -> LogId {
        let lain = MultiLog::lain(copy.from, table, copy.now);
        self.placing = self.intervals.mean(copy.from, lain).max(lain);
        self.octaves.log(self.placing, table)
    }

    fn opened(&mut self, segment: SegmentId, _: &SegmentTable) {
        self.intervals.clear(segment);
    }

    fn placed(&mut self, slot: Slot) {
        self.intervals.add(slot, self.placing);
    }

    fn victim(&mut self, table: &SegmentTable, now: u64) -> Option<SegmentId> {
        let MultiLog { victims, intervals, .. } = self;
        victims.next(table, |id, segment| {
            let interval = intervals.mean(Slot { segment: id, page: 0 }, average(table)).exp2();
            declining_cost(segment, table.pages_per_segment(), interval, now)
        })
    }

    fn recovered(&mut self, table: &SegmentTable, _now: u64) {
        self.intervals.recovered(&self.octaves, table);
    }
}

/// By how much the cost of each freed page declines with each host write.
fn declining_cost(segment: &Segment, pages: u32, interval: f64, now: u64) -> f64 {
    let dead = f64::from(pages - segment.live_pages);
    if dead == 0.0 {
        return f64::INFINITY;
    }
    let live = f64::from(segment.live_pages);
    // Pages died evenly: each dead one was exposed for half of the time.
    let exposure = (now - segment.opened) as f64 * (live + 0.5 * dead);
    let rate = (PRIOR_DEATHS + dead) / (PRIOR_DEATHS * interval + exposure);
    rate * live / (dead * dead)
}
