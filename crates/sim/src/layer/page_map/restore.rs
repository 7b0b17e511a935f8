//! Checks of a page map that was read from outside bytes, as a saved state.

use super::options::{PageMapLayout, PageMapOptions};
use super::{FrontierIndex, PageMap};
use crate::flash::{Die, EraseBlock, Flash, FlashGeometry, LogicalPage, PageAddress, PhysicalPage, Timing};
use crate::layer::bits::for_each_set;
use crate::layer::options::ensure;

impl PageMap {
    /// Checks this map, which was read from outside bytes, against its options and `flash`, and restores what a saved
    /// state does not have. Logical pages from `map_from` on hold a map, if it is given.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub(crate) fn complete<T: Timing>(
        &mut self,
        options: &PageMapOptions,
        map_from: Option<LogicalPage>,
        flash: &Flash<T>,
    ) -> Result<(), String> {
        let geometry = flash.geometry();
        let layout = options.layout(geometry).map_err(|error| error.to_string())?;
        ensure(
            self.has_sizes_of(options, &layout, geometry) && self.has_options_of(options, &layout, map_from),
            || "the page map is that of another device".to_owned(),
        )?;
        self.moving.reserve(self.pages_per_block as usize);
        self.victims.check(options.policy, geometry, layout.quotas.len())?;
        self.check_pages(flash)?;
        self.check_blocks(flash)
    }

    fn has_sizes_of(
        &self,
        options: &PageMapOptions,
        layout: &PageMapLayout,
        geometry: &FlashGeometry,
    ) -> bool {
        let (dies, physical) = (geometry.dies() as usize, geometry.pages() as usize);
        self.map.len() == options.logical_pages as usize
            && self.back.len() == physical
            && self.valid.len() == physical.div_ceil(64)
            && self.pages_per_block == geometry.pages_per_block()
            && self.frontiers.len() == dies * layout.open as usize
            && self.free.len() == dies
            && self.spare.len() == dies
            && self.quotas.iter().map(|quota| quota.0).eq(layout.quotas.iter().map(|quota| quota.0))
            && self.upkeep_fits(options, geometry.blocks())
            && self.next_die.index() < dies
            && self.worn_out.is_none_or(|die| die.index() < dies)
    }

    fn has_options_of(
        &self,
        options: &PageMapOptions,
        layout: &PageMapLayout,
        map_from: Option<LogicalPage>,
    ) -> bool {
        let host_streams = layout.streams - u32::from(map_from.is_some());
        (self.striping, self.collect_apart, self.apart)
            == (options.striping, options.collect_apart, options.shares.is_some())
            && (self.streams, self.host_streams) == (layout.streams, host_streams)
            && self.map_from == map_from.unwrap_or(LogicalPage(options.logical_pages))
            && self.report_moves == map_from.is_some()
            && (self.low_watermark, self.high_watermark) == (layout.reserve, options.high_watermark)
            && (self.level_free_blocks, self.wear_spread) == (options.level_free_blocks, options.wear_spread)
    }

    /// Every mapped page is valid and programmed, and `back` of its place is the page. No other page is valid.
    fn check_pages<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let geometry = flash.geometry();
        let is_mapped = |&(_, &physical): &(LogicalPage, &PhysicalPage)| physical != PhysicalPage::NONE;
        for (page, &physical) in (0..).map(LogicalPage).zip(&self.map).filter(is_mapped) {
            let known = self.back.get(physical.index()) == Some(&page) && {
                let PageAddress { block, page } = geometry.place(physical);
                let valid = self.valid[physical.index() / 64] >> (physical.0 % 64) & 1 == 1;
                valid && block.0 >= geometry.slc_blocks() && page < flash.block(block).written
            };
            ensure(known, || {
                format!("the map has the logical page {page} at {physical}, which does not hold it")
            })?;
        }
        let mapped = self.map.iter().filter(|&&physical| physical != PhysicalPage::NONE).count();
        let valid: usize = self.valid.iter().map(|word| word.count_ones() as usize).sum();
        ensure(valid == mapped, || format!("{valid} pages are valid and {mapped} are mapped"))
    }

    /// Every block is exactly one of free, open, closed and failed, and its numbers are right.
    fn check_blocks<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let (geometry, pages) = (flash.geometry(), self.pages_per_block);
        let written = |block: EraseBlock| flash.blocks().get(block.index()).map(|block| block.written);
        let mut seen = vec![false; geometry.blocks() as usize];
        // Whether a block is seen for the first time.
        let mut once = |block: EraseBlock| !std::mem::replace(&mut seen[block.index()], true);
        let mut used = vec![0; self.quotas.len()];
        for (die, free) in (0..).map(Die).zip(&self.free) {
            for (block, _) in free.iter() {
                let is_free = written(block) == Some(0) && geometry.die(block) == die && !flash.failed(block);
                ensure(is_free && once(block), || format!("block {block} is not free on die {die}"))?;
            }
        }
        for (index, &PageAddress { block, page }) in (0..).map(FrontierIndex).zip(&self.frontiers) {
            let (die, stream) = self.die_and_stream(index);
            if block == EraseBlock::NONE {
                ensure(page == pages, || "no block is open, but one has free pages".to_owned())?;
                continue;
            }
            // In a worn out map open blocks count as full, so that nothing is written.
            let right = written(block).is_some_and(|written| written == page || self.worn_out.is_some())
                && geometry.die(block) == die
                && (self.worn_out.is_none() || page == pages)
                && !self.victims.is_closed(block)
                && once(block);
            ensure(right, || format!("block {block} is not open at page {page}"))?;
            used[self.pool(die, stream).index()] += 1;
        }
        for block in geometry.main_blocks() {
            let closed = self.victims.is_closed(block);
            let mut valid = 0;
            for_each_set(&self.valid, geometry.first_page(block).0, pages, |_| valid += 1);
            let right = self.victims.valid(block) == valid && (!closed || self.is_closed_right(flash, block));
            ensure(right, || format!("block {block} does not hold {valid} valid pages"))?;
            if closed {
                used[self.victims.pool(block).index()] += 1;
            }
            // Free and open blocks were seen above. A failed block was not.
            let known = once(block) == (closed || flash.failed(block));
            ensure(known, || format!("block {block} is neither free nor open nor closed"))?;
        }
        let counted = self.quotas.iter().map(|quota| quota.1).eq(used.iter().copied());
        ensure(counted, || format!("{used:?} blocks are used, of {:?}", self.quotas))
    }

    /// Whether a closed block is full, is in a pool of its die, and holds pages of the host only or of the map only.
    fn is_closed_right<T: Timing>(&self, flash: &Flash<T>, block: EraseBlock) -> bool {
        let first = flash.geometry().first_page(block).index();
        let back = &self.back[first..first + self.pages_per_block as usize];
        let of_map = back[0] >= self.map_from;
        flash.block(block).written == self.pages_per_block
            && self.die_of(self.victims.pool(block)) == flash.geometry().die(block)
            && back.iter().all(|&page| page.index() < self.map.len() && (page >= self.map_from) == of_map)
    }
}
