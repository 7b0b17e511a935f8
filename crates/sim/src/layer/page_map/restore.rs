//! A page map that comes from outside bytes.

use super::{Frontier, NO_BLOCK, PageMap, UNMAPPED};
use crate::flash::{Flash, Place, Timing};
use crate::layer::data_blocks::ensure;
use crate::layer::page_map::bits::for_each_set;

impl PageMap {
    /// Makes again what a saved map does not hold, after a look whether this map, read from outside bytes, can be used
    /// in place of `fresh` over `flash`.
    ///
    /// # Errors
    /// Which invariant does not hold.
    pub(crate) fn complete<T: Timing>(&mut self, fresh: &PageMap, flash: &Flash<T>) -> Result<(), String> {
        self.moving.reserve(self.pages_per_block.min(fresh.pages_per_block) as usize);
        ensure(self.is_like(fresh), || "the page map is that of another device".to_owned())?;
        self.victims.check(&fresh.victims)?;
        self.check_pages(flash)?;
        self.check_blocks(flash)
    }

    fn is_like(&self, fresh: &PageMap) -> bool {
        let sizes = |map: &PageMap| {
            let by_page = (map.map.len(), map.back.len(), map.valid.len(), map.pages_per_block);
            (by_page, map.frontiers.len(), map.free.len(), map.quotas.len(), map.spare.len())
        };
        let streams = |map: &PageMap| {
            let places = (map.striping, map.collect_apart, map.apart);
            (places, map.streams, map.host_streams, map.host_pages, map.report_moves)
        };
        let upkeep =
            |map: &PageMap| (map.low_watermark, map.high_watermark, map.level_free_blocks, map.wear_spread);
        sizes(self) == sizes(fresh)
            && streams(self) == streams(fresh)
            && upkeep(self) == upkeep(fresh)
            && self.upkeep_fits(fresh)
            && self.quotas.iter().zip(&fresh.quotas).all(|(quota, fresh)| quota.0 == fresh.0)
            && (self.next_die as usize) < self.free.len()
            && self.worn_out.is_none_or(|die| (die as usize) < self.free.len())
    }

    /// Every mapped page is valid, programmed, and known by its place; nothing else is valid.
    fn check_pages<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let geometry = flash.geometry();
        for (page, &physical) in (0..).zip(&self.map).filter(|&(_, &physical)| physical != UNMAPPED) {
            let known = self.back.get(physical as usize) == Some(&page) && {
                let Place { block, page } = geometry.place(physical);
                let valid = self.valid[physical as usize / 64] >> (physical % 64) & 1 == 1;
                valid && block >= geometry.fast_blocks() && page < flash.blocks()[block as usize].written
            };
            ensure(known, || format!("the logical page {page} is said to lie at {physical}"))?;
        }
        let mapped = self.map.iter().filter(|&&physical| physical != UNMAPPED).count();
        let valid: usize = self.valid.iter().map(|word| word.count_ones() as usize).sum();
        ensure(valid == mapped, || format!("{valid} pages are valid and {mapped} are mapped"))
    }

    /// Every block is free, open, closed or failed, and what is said of it is so.
    fn check_blocks<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let (geometry, pages) = (flash.geometry(), self.pages_per_block);
        let written = |block: u32| flash.blocks().get(block as usize).map(|block| block.written);
        let mut seen = vec![false; geometry.blocks() as usize];
        let mut once = |block: u32| !std::mem::replace(&mut seen[block as usize], true);
        let mut used = vec![0; self.quotas.len()];
        for (die, free) in (0..).zip(&self.free) {
            for &(_, block) in free {
                let is_free = written(block) == Some(0) && geometry.die(block) == die && !flash.failed(block);
                ensure(is_free && once(block), || format!("block {block} is not free on die {die}"))?;
            }
        }
        let per_die = self.frontiers.len() / self.free.len();
        for (index, &Frontier { block, page }) in self.frontiers.iter().enumerate() {
            let (die, stream) = ((index / per_die) as u32, (index % per_die) as u32 % self.streams);
            if block == NO_BLOCK {
                ensure(page == pages, || "no block is open, but has room".to_owned())?;
                continue;
            }
            // A worn out map calls its open blocks full, so that nothing more is written.
            let right = written(block).is_some_and(|written| written == page || self.worn_out.is_some())
                && geometry.die(block) == die
                && (self.worn_out.is_none() || page == pages)
                && !self.victims.is_closed(block)
                && once(block);
            ensure(right, || format!("block {block} is not open at page {page}"))?;
            used[self.pool(die, stream) as usize] += 1;
        }
        for block in geometry.fast_blocks()..geometry.blocks() {
            let closed = self.victims.is_closed(block);
            let mut valid = 0;
            for_each_set(&self.valid, block * pages, pages, |_| valid += 1);
            let right = self.victims.valid(block) == valid && (!closed || self.is_closed_right(flash, block));
            ensure(right, || format!("block {block} does not hold {valid} valid pages"))?;
            if closed {
                used[self.victims.pool(block) as usize] += 1;
            }
            // What is free or open was seen, and nothing else.
            let known = once(block) == (closed || flash.failed(block));
            ensure(known, || format!("block {block} is neither free nor open nor closed"))?;
        }
        let counted = self.quotas.iter().map(|quota| quota.1).eq(used.iter().copied());
        ensure(counted, || format!("{used:?} blocks are used, of {:?}", self.quotas))
    }

    /// Whether a closed block is full, in the pool of its die, and holds either pages of the host or of the map.
    fn is_closed_right<T: Timing>(&self, flash: &Flash<T>, block: u32) -> bool {
        let pool_die = self.victims.pool(block) / if self.apart { self.streams } else { 1 };
        let first = (block * self.pages_per_block) as usize;
        let back = &self.back[first..first + self.pages_per_block as usize];
        let of_map = back[0] >= self.host_pages;
        flash.blocks()[block as usize].written == self.pages_per_block
            && pool_die == flash.geometry().die(block)
            && back
                .iter()
                .all(|&page| (page as usize) < self.map.len() && (page >= self.host_pages) == of_map)
    }
}
