//! A page map: every logical page may lie on any physical page.
//!
//! # Model
//! 1. The map appends pages to open blocks, one for each die and stream. The old copy of a page becomes invalid.
//! 2. When a die has too few free blocks, garbage collection takes a victim. It appends the victim's valid pages to an open
//!    block on the same die (its own, or the stream's), and erases the victim.
//! 3. The free block with the fewest erases is used next (dynamic wear levelling). When a block lags too far behind, its
//!    cold data moves (static wear levelling).
//! 4. A block that fails at its erase is not used any more. When a die has lost too many blocks, the device can only be read.
//! 5. Data that was read too often, or is too old, is rewritten (refresh).
//!
//! # Invariants
//! - `map[l] = p` if and only if `p` is valid and `back[p] = l`;
//! - the valid pages of all blocks are the mapped logical pages;
//! - a die keeps one block free for garbage collection, so that each collection can end;
//! - a victim without an invalid page frees nothing: the write fails with [`Exhausted`], and no other victim is tried.

mod ages;
mod collect;
mod heat;
mod options;
mod restore;
mod section;
mod upkeep;
mod victims;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::vec_in_huge_pages;
use serde::{Deserialize, Serialize};

use crate::flash::{
    Cause, Die, EraseBlock, Flash, FlashGeometry, LogicalPage, PageAddress, PhysicalPage, Timing, numbers,
};
use crate::layer::bits::set_bits;
use crate::layer::contract::{Exhausted, Layer, Pages};
use crate::layer::free_blocks::FreeBlocks;
use crate::layer::options::OptionsError;
use ages::{Ages, Disturbance};
use heat::Heat;
use victims::{PoolIndex, Victims};

use options::PageMapLayout;

pub use options::{PageMapOptions, Striping};
pub use victims::VictimPolicy;

/// The number of pages that are prefetched together. Conditioning looks at up to 127 pages ahead.
const PREFETCHED: usize = 128;

numbers! {
    /// An open block, by its place in the list of all.
    FrontierIndex,
}

/// A stream, by its number: its pages are written to the same open blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream(u32);

/// A page map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageMap {
    map: Vec<PhysicalPage>,
    back: Vec<LogicalPage>,
    valid: Vec<u64>,
    victims: Victims,
    /// The open blocks and their next pages, by die and stream; behind the host's streams those of the collector.
    frontiers: Vec<PageAddress>,
    /// By die.
    free: Vec<FreeBlocks>,
    /// By pool: how many blocks it may use, and uses.
    quotas: Vec<(u32, u32)>,
    striping: Striping,
    next_die: Die,
    streams: u32,
    /// The number of streams for the host.
    host_streams: u32,
    collect_apart: bool,
    apart: bool,
    low_watermark: u32,
    high_watermark: u32,
    level_free_blocks: bool,
    wear_spread: Option<u32>,
    most_erased: u32,
    /// By die: the number of blocks that may still fail.
    spare: Vec<u32>,
    /// The die that has no spare block left: nothing is written any more.
    worn_out: Option<Die>,
    disturbance: Option<Disturbance>,
    ages: Option<Ages>,
    heat: Option<Heat>,
    pages_per_block: u32,
    /// The logical pages from this one on hold a map, and never share a block with the host's.
    map_from: LogicalPage,
    /// Whether garbage collection lists the logical pages that it moved in `moved`.
    report_moves: bool,
    #[serde(skip)]
    moved: Vec<LogicalPage>,
    #[serde(skip)]
    moving: Vec<PhysicalPage>,
    /// The logical pages of `moving`.
    #[serde(skip)]
    moving_logical: Vec<LogicalPage>,
}

impl PageMap {
    /// An empty map over erased flash.
    ///
    /// # Errors
    /// As [`PageMapOptions::check`].
    pub fn new(geometry: &FlashGeometry, options: &PageMapOptions) -> Result<PageMap, OptionsError> {
        let PageMapLayout { streams, open, reserve, spare, quotas } = options.layout(geometry)?;
        let (blocks, pages) = (geometry.blocks(), geometry.pages_per_block());
        let physical = geometry.pages() as usize;
        Ok(PageMap {
            map: vec_in_huge_pages(PhysicalPage::NONE, options.logical_pages as usize),
            back: vec_in_huge_pages(LogicalPage::NONE, physical),
            valid: vec_in_huge_pages(0, physical.div_ceil(64)),
            victims: Victims::new(options.policy, blocks, pages, quotas.len() as u32, options.seed),
            frontiers: vec![
                PageAddress { block: EraseBlock::NONE, page: pages };
                (geometry.dies() * open) as usize
            ],
            free: FreeBlocks::by_die(geometry, options.reliability),
            quotas,
            striping: options.striping,
            next_die: Die(0),
            streams,
            host_streams: streams,
            collect_apart: options.collect_apart,
            apart: options.shares.is_some(),
            low_watermark: reserve,
            high_watermark: options.high_watermark,
            level_free_blocks: options.level_free_blocks,
            wear_spread: options.wear_spread,
            most_erased: 0,
            spare,
            worn_out: None,
            disturbance: options
                .refresh_reads
                .map(|limit| Disturbance { limit, reads: vec![0; blocks as usize] }),
            ages: options.retention.map(|limit| Ages::new(limit, blocks)),
            heat: options.hot_within.map(|within| Heat::new(within, options.logical_pages)),
            pages_per_block: pages,
            map_from: LogicalPage(options.logical_pages),
            report_moves: false,
            moved: Vec::new(),
            moving: Vec::with_capacity(pages as usize),
            moving_logical: Vec::with_capacity(pages as usize),
        })
    }

    /// A page map with `map_pages` more pages behind the host's, which hold a map. They are written to the last stream, in
    /// blocks of their own. Garbage collection lists the host's pages that it moves.
    pub(super) fn with_map_pages(
        geometry: &FlashGeometry,
        options: &PageMapOptions,
        map_pages: u32,
    ) -> Result<PageMap, OptionsError> {
        let map = PageMap::new(geometry, &options.with_map_pages(map_pages))?;
        let (map_from, host_streams) = (LogicalPage(options.logical_pages), map.streams - 1);
        Ok(PageMap { map_from, host_streams, report_moves: true, ..map })
    }

    /// Writes pages of the map.
    pub(super) fn append_map<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        self.append(flash, pages, Stream(self.streams - 1), Cause::Map, at)
    }

    /// Takes the list of the host's pages that garbage collection moved since the last call.
    pub(super) fn take_moved(&mut self) -> Vec<LogicalPage> {
        std::mem::take(&mut self.moved)
    }

    /// Gives back the memory of [`PageMap::take_moved`].
    pub(super) fn give_back_moved(&mut self, moved: Vec<LogicalPage>) {
        debug_assert!(moved.is_empty() && self.moved.is_empty());
        self.moved = moved;
    }

    /// Where a page lies.
    #[cfg(test)]
    pub(super) fn place(&self, page: LogicalPage) -> Option<PhysicalPage> {
        Some(self.map[page.index()]).filter(|&physical| physical != PhysicalPage::NONE)
    }

    /// The memory that the map takes.
    pub fn memory(&self) -> Bytes {
        let words = self.map.capacity() + self.back.capacity() + 2 * self.valid.capacity();
        let free: usize = self.free.iter().map(FreeBlocks::bytes).sum();
        let heat = self.heat.as_ref().map_or(0, Heat::bytes);
        let upkeep = self.disturbance.as_ref().map_or(0, |disturbance| disturbance.reads.capacity() * 4)
            + self.ages.as_ref().map_or(0, Ages::bytes);
        Bytes((words * size_of::<u32>() + self.victims.bytes() + free + heat + upkeep) as u64)
    }

    /// The number of free blocks of a die.
    pub fn free_blocks(&self, die: Die) -> usize {
        self.free[die.index()].len()
    }

    fn frontiers_per_die(&self) -> u32 {
        if self.collect_apart { 2 * self.streams } else { self.streams }
    }

    #[inline]
    fn frontier_index(&self, die: Die, stream: Stream, collector: bool) -> FrontierIndex {
        let offset = if collector && self.collect_apart { self.streams } else { 0 };
        FrontierIndex(die.0 * self.frontiers_per_die() + offset + stream.0)
    }

    /// The die and the stream of an open block.
    fn die_and_stream(&self, index: FrontierIndex) -> (Die, Stream) {
        let per_die = self.frontiers_per_die();
        (Die(index.0 / per_die), Stream(index.0 % per_die % self.streams))
    }

    fn pools_per_die(&self) -> u32 {
        if self.apart { self.streams } else { 1 }
    }

    fn pool(&self, die: Die, stream: Stream) -> PoolIndex {
        PoolIndex(if self.apart { die.0 * self.streams + stream.0 } else { die.0 })
    }

    /// The die of a pool.
    fn die_of(&self, pool: PoolIndex) -> Die {
        Die(pool.0 / self.pools_per_die())
    }

    /// Writes pages to stream 1 if they are hot, and to stream 0 if not.
    #[inline(never)]
    fn write_by_heat<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let (mut rest, mut end) = (pages, at);
        while rest.count > 0 {
            let Some(heat) = &mut self.heat else { break };
            let (count, hot) = heat.note(rest.first, rest.count);
            let run = rest.take(count);
            end = end.max(self.append(flash, run, Stream(hot.into()), Cause::Host, at)?);
        }
        Ok(end)
    }

    #[inline]
    fn invalidate<T: Timing>(&mut self, flash: &Flash<T>, physical: PhysicalPage) {
        self.valid[physical.index() / 64] &= !(1 << (physical.0 % 64));
        self.victims.remove(flash.geometry().place(physical).block);
    }

    /// The die that takes the next pages of a run, and the number of pages that it takes.
    #[inline]
    fn choose_die(
        &mut self,
        geometry: &FlashGeometry,
        page: LogicalPage,
        count: u32,
        stream: Stream,
    ) -> (Die, u32) {
        let (dies, planes) = (geometry.dies(), geometry.planes());
        if dies == 1 {
            return (Die(0), count);
        }
        match self.striping {
            Striping::Static => {
                let (stripe, within) = geometry.multi_plane_page(page.0);
                (geometry.striped_die(stripe), count.min(planes - within))
            }
            Striping::WriteOrder => {
                let die = self.next_die;
                let index = self.frontier_index(die, stream, false);
                // When the block is full, the next one is empty: both begin a multi-plane page, since none crosses blocks.
                let left = if planes == 1 {
                    1
                } else {
                    planes - geometry.multi_plane_page(self.frontiers[index.index()].page).1
                };
                if count >= left {
                    self.next_die = Die(if die.0 + 1 == dies { 0 } else { die.0 + 1 });
                }
                (die, count.min(left))
            }
        }
    }

    /// Writes pages to the open blocks of a stream.
    #[inline]
    pub(super) fn append<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        stream: Stream,
        cause: Cause,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let (mut page, mut left, mut end) = (pages.first, pages.count, at);
        let mut full_dies = 0;
        while left > 0 {
            let (die, wanted) = self.choose_die(flash.geometry(), page, left, stream);
            let index = self.frontier_index(die, stream, false);
            if self.frontiers[index.index()].page == self.pages_per_block
                && let Err(exhausted) = self.ensure_free_page(flash, index, at)
            {
                // In write order a die may get more than its share of the pages. Then another die has a free page.
                full_dies += 1;
                if self.striping == Striping::Static || full_dies == flash.geometry().dies() {
                    return Err(exhausted);
                }
                self.next_die = Die((die.0 + 1) % flash.geometry().dies());
                continue;
            }
            full_dies = 0;
            let place = self.frontiers[index.index()];
            let count = wanted.min(self.pages_per_block - place.page);
            let first = flash.geometry().physical(place);
            for i in 0..count {
                let old = std::mem::replace(&mut self.map[(page + i).index()], first + i);
                if old != PhysicalPage::NONE {
                    self.invalidate(flash, old);
                }
                self.back[(first + i).index()] = page + i;
            }
            set_bits(&mut self.valid, first.0, count);
            self.victims.add(place.block, count);
            self.frontiers[index.index()].page += count;
            end = end.max(flash.program(place, page, count, cause, at));
            page = page + count;
            left -= count;
        }
        Ok(end)
    }

    /// Reads the pages that are held.
    #[inline]
    pub(super) fn fetch<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        cause: Cause,
        at: Nanos,
    ) -> Nanos {
        let (mut page, mut left, mut end) = (pages.first, pages.count, at);
        while left > 0 {
            let physical = self.map[page.index()];
            if physical == PhysicalPage::NONE {
                (page, left) = (page + 1, left - 1);
                continue;
            }
            let place = flash.geometry().place(physical);
            let in_block = self.pages_per_block - place.page;
            let run = (1..left.min(in_block))
                .take_while(|&i| self.map[(page + i).index()] == physical + i)
                .count() as u32
                + 1;
            let read = flash.read(place, page, run, cause, at);
            if self.disturbance.is_some() {
                self.disturb(flash, place.block, run, read);
            }
            end = end.max(read);
            (page, left) = (page + run, left - run);
        }
        end
    }
}

impl Layer for PageMap {
    fn pages(&self) -> u32 {
        self.map.len() as u32
    }

    #[inline]
    fn holds(&self, page: LogicalPage) -> bool {
        self.map[page.index()] != PhysicalPage::NONE
    }

    fn prefetch(&self, geometry: &FlashGeometry, pages: &[LogicalPage]) -> u32 {
        let mut sum = 0;
        for pages in pages.chunks(PREFETCHED) {
            // A load that needs another load's result waits for it. Each step loads for all pages, so the cache misses
            // of a step overlap.
            let mut found = [PhysicalPage::NONE; PREFETCHED];
            for (found, page) in found.iter_mut().zip(pages) {
                *found = self.map[page.index()];
            }
            let mut blocks = [EraseBlock::NONE; PREFETCHED];
            for (block, found) in blocks.iter_mut().zip(found) {
                if found != PhysicalPage::NONE {
                    sum ^= self.valid[found.index() / 64] as u32;
                    *block = geometry.place(found).block;
                    sum ^= self.victims.valid(*block);
                }
            }
            for block in blocks.into_iter().filter(|&block| block != EraseBlock::NONE) {
                sum ^= self.victims.prefetch_neighbours(block);
            }
        }
        sum
    }

    #[inline]
    fn write<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        if self.heat.is_some() {
            return self.write_by_heat(flash, pages, at);
        }
        let stream = Stream(u32::from(stream).min(self.host_streams - 1));
        self.append(flash, pages, stream, Cause::Host, at)
    }

    #[inline]
    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
        self.fetch(flash, pages, Cause::Host, at)
    }

    fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        for page in pages.each() {
            let old = std::mem::replace(&mut self.map[page.index()], PhysicalPage::NONE);
            if old != PhysicalPage::NONE {
                self.invalidate(flash, old);
            }
        }
    }

    fn idle<T: Timing>(&mut self, flash: &mut Flash<T>, from: Nanos, until: Nanos) {
        self.refresh_old(flash, from, until);
        for pool in (0..self.quotas.len() as u32).map(PoolIndex) {
            let die = self.die_of(pool);
            let mut now = from;
            while now < until
                && self.free[die.index()].len() < self.high_watermark as usize
                && self.worn_out.is_none()
            {
                let Ok(end) = self.collect(flash, pool, now) else { break };
                if end <= now {
                    break;
                }
                now = end;
            }
        }
    }
}
