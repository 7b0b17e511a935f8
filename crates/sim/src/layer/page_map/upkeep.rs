//! Refresh: rewrites data that was read too often, or is too old.
//!
//! # Model
//! - Read disturb: a read disturbs the other pages of its block. So a block is refreshed when enough of its pages were read
//!   since its erase. Reads by garbage collection do not count, because the block is erased at once.
//! - Retention: cells lose their charge. So a block is refreshed when it was opened too long ago. An open block is
//!   refreshed only once it is full.

use flashlab_base::Nanos;

use super::PageMap;
use super::options::PageMapOptions;
use crate::flash::{Cause, EraseBlock, Flash, Timing};

impl PageMap {
    /// Whether the counts of reads, ages and heat, read from outside bytes, have the sizes that the options ask for.
    pub(super) fn upkeep_fits(&self, options: &PageMapOptions, blocks: u32) -> bool {
        let disturbance = match &self.disturbance {
            Some(disturbance) => {
                options.refresh_reads.is_some() && disturbance.reads.len() == blocks as usize
            }
            None => options.refresh_reads.is_none(),
        };
        let ages = match &self.ages {
            Some(ages) => options.retention.is_some() && ages.fits(blocks),
            None => options.retention.is_none(),
        };
        let heat = match &self.heat {
            Some(heat) => options.hot_within.is_some() && heat.fits(options.logical_pages),
            None => options.hot_within.is_none(),
        };
        disturbance && ages && heat
    }

    /// Counts the read of pages of a block. If it was read too often, refreshes it, not before `at`.
    #[inline(never)]
    pub(super) fn disturb<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        block: EraseBlock,
        pages: u32,
        at: Nanos,
    ) {
        let Some(disturbance) = &mut self.disturbance else { return };
        let reads = &mut disturbance.reads[block.index()];
        *reads = reads.saturating_add(pages);
        if *reads >= disturbance.limit && self.can_reclaim(block) {
            self.reclaim(flash, block, Cause::Refresh, at);
        }
    }

    /// Refreshes the blocks that are too old, one after the other from `from` on, until the time is `until`.
    pub(super) fn refresh_old<T: Timing>(&mut self, flash: &mut Flash<T>, from: Nanos, until: Nanos) {
        let mut now = from;
        let mut open = Vec::new();
        while now < until {
            let Some(ages) = &mut self.ages else { return };
            let Some(&(begun, block)) = ages.order.front() else { break };
            let current = ages.begun[block.index()] == begun;
            if current && now.since(begun) < ages.limit {
                break;
            }
            ages.order.pop_front();
            if current && self.can_reclaim(block) {
                now = self.reclaim(flash, block, Cause::Refresh, now);
            } else if current {
                open.push((begun, block));
            }
        }
        if let Some(ages) = &mut self.ages {
            open.into_iter().rev().for_each(|entry| ages.order.push_front(entry));
        }
    }
}
