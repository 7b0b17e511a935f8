//! Refresh: data that was read too often, or is too old, is written again.
//!
//! # Model
//! Reading a block disturbs its other pages, so a block is refreshed when enough of its pages were read since its erase.
//! Cells lose their charge, so a block is refreshed when it was begun long ago. Open blocks wait until they are full.
//! Pages that are read to be moved do not count: their block is erased at once.

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

    /// Pages of a block were read; refreshes it if they were too many, not before `at`.
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

    /// Refreshes the blocks that are too old, from `from` until the time is over.
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
