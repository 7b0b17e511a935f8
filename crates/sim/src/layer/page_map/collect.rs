//! Garbage collection: opens blocks, moves the valid pages of victims, and erases the victims.

use flashlab_base::Nanos;

use super::victims::VictimPolicy;
use super::{FrontierIndex, PageMap, PoolIndex, Stream};
use crate::flash::{Cause, Die, EraseBlock, Flash, PageAddress, PhysicalPage, Timing};
use crate::layer::bits::{clear_bits, for_each_set, set_bits};
use crate::layer::contract::Exhausted;

impl PageMap {
    /// Opens another block if the open block at `index` is full. If the die has too few free blocks, collects first.
    #[cold]
    pub(super) fn ensure_free_page<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        index: FrontierIndex,
        at: Nanos,
    ) -> Result<(), Exhausted> {
        let (die, stream) = self.die_and_stream(index);
        let pool = self.pool(die, stream);
        let mut collections = 0;
        while self.frontiers[index.index()].page == self.pages_per_block {
            if self.worn_out.is_some() {
                return Err(self.only_read());
            }
            let (quota, used) = self.quotas[pool.index()];
            if self.free[die.index()].len() > self.low_watermark as usize && used < quota {
                self.open_block(flash, index, at);
                return Ok(());
            }
            flash.defer_if_allowed(die, |flash| self.collect(flash, pool, at))?;
            collections += 1;
            if collections > 2 * flash.geometry().blocks() {
                let reason = format!(
                    "die {die} gains no free block by collecting: it has too little over-provisioning"
                );
                return Err(Exhausted { reason });
            }
        }
        Ok(())
    }

    /// Closes the full block at `index` and opens a free one, of which the die has one.
    fn open_block<T: Timing>(&mut self, flash: &Flash<T>, index: FrontierIndex, at: Nanos) {
        let (die, stream) = self.die_and_stream(index);
        let pool = self.pool(die, stream);
        let full = self.frontiers[index.index()].block;
        if full != EraseBlock::NONE {
            self.victims.close(full, pool);
        }
        let block = self.free[die.index()].take().expect("the die has a free block");
        debug_assert_eq!(flash.block(block).written, 0);
        self.quotas[pool.index()].1 += 1;
        self.frontiers[index.index()] = PageAddress { block, page: 0 };
        if let Some(ages) = &mut self.ages {
            ages.begin(block, at);
        }
    }

    /// Collects the pool's next victim.
    pub(super) fn collect<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pool: PoolIndex,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let die = self.die_of(pool);
        let exhausted = |what: &str| {
            let reason =
                format!("die {die} has no free block and {what}: it has too little over-provisioning");
            Err(Exhausted { reason })
        };
        let Some(victim) = self.victims.take(pool) else {
            return exhausted("none that could be collected");
        };
        if self.victims.valid(victim) == self.pages_per_block && !self.frees_by_order() {
            self.victims.close(victim, pool);
            return exhausted("every closed block holds nothing but valid pages");
        }
        if !self.has_pages_for(victim, pool) {
            self.victims.close(victim, pool);
            self.wear_out(die);
            return Err(self.only_read());
        }
        let end = self.evacuate(flash, victim, pool, Cause::Reclaim, at);
        Ok(self.level_wear(flash, victim, end))
    }

    /// Whether a victim without invalid pages may be followed by a better one: with first in, first out and random choices.
    fn frees_by_order(&self) -> bool {
        matches!(self.victims.policy(), VictimPolicy::Fifo | VictimPolicy::Choices(_))
    }

    /// Whether the pages of a block can be moved now: it is closed, and the collector has pages for them.
    pub(super) fn can_reclaim(&self, block: EraseBlock) -> bool {
        self.worn_out.is_none()
            && self.victims.is_closed(block)
            && self.has_pages_for(block, self.victims.pool(block))
    }

    /// Moves the pages of a closed block and erases it, although it is not the next victim.
    pub(super) fn reclaim<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        block: EraseBlock,
        cause: Cause,
        at: Nanos,
    ) -> Nanos {
        let pool = self.victims.pool(block);
        self.victims.open(block);
        self.evacuate(flash, block, pool, cause, at)
    }

    /// The stream whose blocks take the pages of a full block.
    fn stream_of(&self, block: EraseBlock, pool: PoolIndex) -> Stream {
        if self.apart {
            Stream(pool.0 % self.streams)
        } else if self.holds_map(block) {
            Stream(self.streams - 1)
        } else {
            Stream(0)
        }
    }

    /// Whether a full block holds pages of the map, not of the host.
    fn holds_map(&self, block: EraseBlock) -> bool {
        self.back[(block.0 * self.pages_per_block) as usize] >= self.map_from
    }

    /// Whether the collector has free pages for the valid pages of a block.
    fn has_pages_for(&self, block: EraseBlock, pool: PoolIndex) -> bool {
        let die = self.die_of(pool);
        let index = self.frontier_index(die, self.stream_of(block, pool), true);
        !self.free[die.index()].is_empty()
            || self.victims.valid(block) <= self.pages_per_block - self.frontiers[index.index()].page
    }

    /// Moves the valid pages of a block, which was taken from `pool`, to the collector's open block, and erases the block.
    fn evacuate<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        victim: EraseBlock,
        pool: PoolIndex,
        cause: Cause,
        at: Nanos,
    ) -> Nanos {
        let die = self.die_of(pool);
        let first = flash.geometry().first_page(victim);
        let mut moving = std::mem::take(&mut self.moving);
        moving.clear();
        for_each_set(&self.valid, first.0, self.pages_per_block, |page| moving.push(PhysicalPage(page)));
        let mut logical = std::mem::take(&mut self.moving_logical);
        logical.clear();
        logical.extend(moving.iter().map(|&page| self.back[page.index()]));
        // The entries of the map are spread over memory. Loading all of them first lets the cache misses overlap.
        std::hint::black_box(logical.iter().fold(0, |sum, &page| sum ^ self.map[page.index()].0));

        let stream = self.stream_of(victim, pool);
        let of_map = self.holds_map(victim);
        let cause = if of_map && cause == Cause::Reclaim { Cause::Map } else { cause };
        if self.report_moves && !of_map {
            self.moved.extend_from_slice(&logical);
        }
        let index = self.frontier_index(die, stream, true);
        let (mut end, mut done) = (at, 0);
        while done < moving.len() {
            if self.frontiers[index.index()].page == self.pages_per_block {
                self.open_block(flash, index, at);
            }
            let place = self.frontiers[index.index()];
            let free = (self.pages_per_block - place.page) as usize;
            let part = done..(done + free).min(moving.len());
            let target = flash.geometry().physical(place);
            for (to, &page) in (target.0..).map(PhysicalPage).zip(&logical[part.clone()]) {
                self.map[page.index()] = to;
            }
            self.back[target.index()..][..part.len()].copy_from_slice(&logical[part.clone()]);
            if flash.follows_pages() {
                for (page, &from) in (place.page..).zip(&moving[part.clone()]) {
                    let source = PageAddress { block: victim, page: from.0 - first.0 };
                    flash.relocate(source, PageAddress { page, ..place });
                }
            }
            let count = part.len() as u32;
            set_bits(&mut self.valid, target.0, count);
            self.victims.add(place.block, count);
            end = flash.copy_pages(victim, place, count, cause, end);
            self.frontiers[index.index()].page += count;
            done += part.len();
        }
        moving.clear();
        logical.clear();
        (self.moving, self.moving_logical) = (moving, logical);
        self.quotas[pool.index()].1 -= 1;
        self.free_block(flash, victim, cause, end)
    }

    /// Erases a block without valid pages that is in no pool.
    fn free_block<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        block: EraseBlock,
        cause: Cause,
        at: Nanos,
    ) -> Nanos {
        let die = flash.geometry().die(block);
        clear_bits(&mut self.valid, flash.geometry().first_page(block).0, self.pages_per_block);
        self.victims.empty(block);
        let end = flash.erase(block, cause, at);
        if let Some(disturbance) = &mut self.disturbance {
            disturbance.reads[block.index()] = 0;
        }
        if let Some(ages) = &mut self.ages {
            ages.end(block);
        }
        if flash.failed(block) {
            self.retire(die);
            return end;
        }
        let erases = flash.block(block).erases;
        self.most_erased = self.most_erased.max(erases);
        let order = if self.level_free_blocks { erases } else { 0 };
        self.free[die.index()].insert(block, order);
        end
    }

    /// Notes that a block of a die failed. If the die had no spare block, nothing is written any more.
    fn retire(&mut self, die: Die) {
        let spare = &mut self.spare[die.index()];
        if *spare > 0 {
            *spare -= 1;
        } else {
            self.wear_out(die);
        }
    }

    /// From now on nothing is written, because of `die`.
    fn wear_out(&mut self, die: Die) {
        self.worn_out.get_or_insert(die);
        // Open blocks count as full. So each write needs another block, and fails.
        self.frontiers.iter_mut().for_each(|frontier| frontier.page = self.pages_per_block);
    }

    fn only_read(&self) -> Exhausted {
        let die = self.worn_out.unwrap_or(Die(0));
        let reason = format!("so many blocks of die {die} have failed that the device can only be read");
        Exhausted { reason }
    }

    /// Moves the data of the closed block with the fewest erases on the die of `erased`, if it lags too far behind.
    fn level_wear<T: Timing>(&mut self, flash: &mut Flash<T>, erased: EraseBlock, at: Nanos) -> Nanos {
        let Some(spread) = self.wear_spread else { return at };
        // A look at all blocks after each erase would take more CPU time than the erase itself.
        if !flash.block(erased).erases.is_multiple_of(spread.max(2) / 2) {
            return at;
        }
        let (die, dies) = (flash.geometry().die(erased), flash.geometry().dies());
        let candidates = (die.0..flash.geometry().blocks()).step_by(dies as usize).map(EraseBlock);
        let coldest = candidates
            .filter(|&block| self.victims.is_closed(block))
            .min_by_key(|&block| (flash.block(block).erases, block));
        match coldest {
            Some(block)
                if flash.block(block).erases + spread < self.most_erased && self.can_reclaim(block) =>
            {
                self.reclaim(flash, block, Cause::WearLevelling, at)
            }
            _ => at,
        }
    }
}
