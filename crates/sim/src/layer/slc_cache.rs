//! An SLC cache in front of another layer.
//!
//! # Model
//! The array's first blocks, [`FlashGeometry::slc_blocks`], are the cache: a log of blocks on each of their dies.
//! 1. A write of the host goes to the cache, round-robin over the dies, a multi-plane page to each. A long sequential
//!    write may bypass the cache.
//! 2. When a die's log is full, the cache folds its oldest block ([`Cause::Fold`]): it reads the valid pages, writes them to
//!    the layer behind, and erases the block. Overwritten pages are invalid and not copied.
//! 3. From then on it folds at the host's pace: with each page that goes to the log, the same share of the oldest block's pages, so that
//!    the oldest block is free when the open one is full. The logs of all dies fill at the same time; whole blocks of all of them
//!    folded at once would stop the device for seconds.
//! 4. With a page it folds the pages after it that are in the cache too, so that the layer behind is written in long runs.
//! 5. While the host sends nothing, the cache folds ahead. Then the logs have free blocks, and fill again before they fold.
//!
//! # Invariants
//! - a page is valid in the cache, or held by the layer behind, or neither;
//! - `place[l] = p` if and only if `p` is valid, and then `back[p] = l`;
//! - a fold that the layer behind refuses loses nothing.

use std::collections::VecDeque;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::flash::{
    Cause, EraseBlock, Flash, FlashGeometry, LogicalPage, PageAddress, PhysicalPage, Reliability, Timing,
};
use crate::layer::contract::{Exhausted, Layer, Pages};
use crate::layer::options::OptionsError;
use crate::layer::options::ensure;

/// The options of an SLC cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlcCacheOptions {
    /// Sequential writes bypass the cache from this number of pages on. Default: never.
    pub bypass_from: Option<u32>,
    /// The number of free blocks up to which the cache folds while the host is idle. Default: until all are free.
    pub idle_reclaim_blocks: u32,
    /// How the flash ages, from `[flash.reliability]`. Default: it does not.
    #[serde(skip)]
    pub reliability: Option<Reliability>,
}

impl Default for SlcCacheOptions {
    fn default() -> SlcCacheOptions {
        SlcCacheOptions { bypass_from: None, idle_reclaim_blocks: u32::MAX, reliability: None }
    }
}

/// The blocks of the cache on one die.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Log {
    /// The next page of the block that is written to.
    open: Option<PageAddress>,
    /// The oldest one first.
    full: VecDeque<EraseBlock>,
    free: VecDeque<EraseBlock>,
    /// Whether it was full since it last had a free block in store: it folds at the host's pace.
    folds_at_pace: bool,
}

/// An SLC cache in front of a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlcCache<L> {
    behind: L,
    /// By logical page: its page of the cache.
    place: Vec<PhysicalPage>,
    /// By page of the cache: the logical page that was written to it.
    back: Vec<LogicalPage>,
    /// By block of the cache: the number of valid pages.
    valid: Vec<u32>,
    logs: Vec<Log>,
    next_log: u32,
    pages_per_block: u32,
    bypass_from: Option<u32>,
    idle_reclaim_blocks: usize,
    /// The end of the most recent write, and the number of pages of the sequential run that ends there.
    sequence: (LogicalPage, u32),
}

impl<L: Layer> SlcCache<L> {
    /// An empty cache over erased flash, in front of `behind`.
    ///
    /// # Errors
    /// When the array has no SLC blocks that can be used.
    pub fn new(
        geometry: &FlashGeometry,
        behind: L,
        options: &SlcCacheOptions,
    ) -> Result<SlcCache<L>, OptionsError> {
        let pages_per_block = geometry.pages_per_block();
        let mut logs = vec![Log::default(); geometry.dies().min(geometry.slc_blocks()) as usize];
        let bad = |block| options.reliability.is_some_and(|reliability| reliability.factory_bad(block));
        for block in geometry.slc_cache_blocks().filter(|&block| !bad(block)) {
            logs[geometry.die(block).index()].free.push_back(block);
        }
        logs.retain(|log| !log.free.is_empty());
        if logs.is_empty() {
            let legal = "at least 1 that is not bad from the factory, for an SLC cache".to_owned();
            return Err(OptionsError { key: "slc_blocks", value: geometry.slc_blocks().into(), legal });
        }
        let slc_pages = geometry.slc_blocks() * pages_per_block;
        Ok(SlcCache {
            place: vec![PhysicalPage::NONE; behind.pages() as usize],
            behind,
            back: vec![LogicalPage::NONE; slc_pages as usize],
            valid: vec![0; geometry.slc_blocks() as usize],
            logs,
            next_log: 0,
            pages_per_block,
            bypass_from: options.bypass_from,
            idle_reclaim_blocks: options.idle_reclaim_blocks as usize,
            sequence: (LogicalPage(0), 0),
        })
    }

    /// The layer behind.
    pub fn behind(&self) -> &L {
        &self.behind
    }

    /// The number of free blocks of the cache.
    pub fn free_blocks(&self) -> usize {
        self.logs.iter().map(|log| log.free.len()).sum()
    }

    /// Checks this cache, which was read from outside bytes, against its options and `flash`; `behind` does the same for
    /// the layer behind.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn complete<T: Timing>(
        &mut self,
        options: &SlcCacheOptions,
        flash: &Flash<T>,
        behind: impl FnOnce(&mut L) -> Result<(), String>,
    ) -> Result<(), String> {
        behind(&mut self.behind)?;
        let geometry = flash.geometry();
        let (pages, blocks) = (geometry.pages_per_block(), geometry.slc_blocks());
        let logs = self.logs.len();
        let alike = (self.bypass_from, self.idle_reclaim_blocks)
            == (options.bypass_from, options.idle_reclaim_blocks as usize)
            && self.pages_per_block == pages
            && self.place.len() == self.behind.pages() as usize
            && (self.back.len(), self.valid.len()) == ((blocks * pages) as usize, blocks as usize)
            && logs <= geometry.dies().min(blocks) as usize
            && ((self.next_log as usize) < logs || (logs, self.next_log) == (0, 0));
        ensure(alike, || "the SLC cache is that of another device".to_owned())?;
        self.check_pages(flash)?;
        self.check_blocks(flash)
    }

    /// `back` of every page's place is the page, and the layer behind does not hold it.
    fn check_pages<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let mut valid = vec![0; self.valid.len()];
        let is_cached = |&(_, &place): &(LogicalPage, &PhysicalPage)| place != PhysicalPage::NONE;
        for (page, &place) in (0..).map(LogicalPage).zip(&self.place).filter(is_cached) {
            let known = self.back.get(place.index()) == Some(&page) && {
                let PageAddress { block, page } = flash.geometry().place(place);
                valid[block.index()] += 1;
                page < flash.block(block).written
            };
            let twice = self.behind.holds(page);
            ensure(known && !twice, || {
                format!("the SLC cache has the page {page} at {place}, which does not hold it")
            })?;
        }
        let logical = |&page: &LogicalPage| page == LogicalPage::NONE || page.index() < self.place.len();
        ensure(valid == self.valid && self.back.iter().all(logical), || {
            "the SLC cache has another number of valid pages".to_owned()
        })
    }

    /// Every block is free, open, full or failed, and those of a log lie on one die.
    fn check_blocks<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let pages = self.pages_per_block;
        let mut blocks: Vec<EraseBlock> = Vec::new();
        for log in &self.logs {
            let open = log.open.iter().map(|open| (open.block, open.page));
            let full = log.full.iter().map(|&block| (block, pages));
            let free = log.free.iter().map(|&block| (block, 0));
            let first = blocks.len();
            for (block, written) in open.chain(full).chain(free) {
                let state = flash.blocks().get(block.index()).filter(|state| state.written == written);
                ensure(state.is_some(), || format!("{written} pages of the SLC block {block} are written"))?;
                blocks.push(block);
            }
            let mut dies = blocks[first..].iter().map(|&block| flash.geometry().die(block));
            let die = dies.next();
            ensure(dies.all(|other| Some(other) == die), || "an SLC log lies on several dies".to_owned())?;
        }
        blocks.sort_unstable();
        let usable = flash.geometry().slc_cache_blocks().filter(|&block| !flash.failed(block));
        ensure(usable.eq(blocks.iter().copied()), || {
            format!("a block of the SLC cache is not one of free, open and full: {blocks:?}")
        })
    }

    /// Whether a write is part of a sequential run that is long enough to bypass the cache.
    fn bypasses(&mut self, pages: Pages) -> bool {
        let (next, length) = self.sequence;
        let before = if pages.first == next { length } else { 0 };
        let length = before.saturating_add(pages.count);
        self.sequence = (pages.end(), length);
        self.bypass_from.is_some_and(|from| length >= from)
    }

    /// Invalidates these pages in the cache.
    fn forget(&mut self, pages: Pages) {
        for page in pages.each() {
            let place = std::mem::replace(&mut self.place[page.index()], PhysicalPage::NONE);
            if place != PhysicalPage::NONE {
                self.valid[(place.0 / self.pages_per_block) as usize] -= 1;
            }
        }
    }

    /// Writes pages to the cache. Returns the number of pages that were not written, because all its blocks have failed.
    fn write_here<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        at: Nanos,
    ) -> Result<(Nanos, u32), Exhausted> {
        let (mut rest, mut end) = (pages, at);
        let planes = flash.geometry().planes();
        while rest.count > 0 {
            let Some(place) = self.open_page(flash, at)? else { return Ok((end, rest.count)) };
            let to_fill = planes - place.page % planes;
            let part = rest.take(rest.count.min(to_fill));
            self.fold_at_pace(flash, self.pages_per_block - place.page, part.count, at)?;
            self.forget(part);
            if part.each().any(|page| self.behind.holds(page)) {
                self.behind.supersede(flash, part);
            }
            let physical = flash.geometry().physical(place);
            for i in 0..part.count {
                self.place[(part.first + i).index()] = physical + i;
                self.back[(physical + i).index()] = part.first + i;
            }
            self.valid[place.block.index()] += part.count;
            end = end.max(flash.program(place, part.first, part.count, Cause::Host, at));
            let log = &mut self.logs[self.next_log as usize];
            log.open = Some(PageAddress { page: place.page + part.count, ..place });
            if part.count == to_fill {
                self.next_log = (self.next_log + 1) % self.logs.len() as u32;
            }
        }
        Ok((end, 0))
    }

    /// Where the next page goes. Folds if no block is free; `None` if all blocks of the cache have failed.
    fn open_page<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        at: Nanos,
    ) -> Result<Option<PageAddress>, Exhausted> {
        loop {
            if self.logs.is_empty() {
                return Ok(None);
            }
            let index = self.next_log as usize;
            let log = &mut self.logs[index];
            match log.open {
                Some(open) if open.page < self.pages_per_block => return Ok(Some(open)),
                Some(open) => log.full.push_back(open.block),
                None => {}
            }
            log.open = log.free.pop_front().map(|block| PageAddress { block, page: 0 });
            if log.open.is_some() {
                continue;
            }
            if log.full.is_empty() {
                self.logs.remove(index);
                self.next_log = 0;
                continue;
            }
            self.fold_block(flash, index, at)?;
            self.logs[index].folds_at_pace = true;
        }
    }

    /// Folds the oldest block of the log that is written to as far as `count` of the `left` free pages of its open block are used.
    fn fold_at_pace<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        left: u32,
        count: u32,
        at: Nanos,
    ) -> Result<(), Exhausted> {
        let index = self.next_log as usize;
        let log = &mut self.logs[index];
        // Idle time freed blocks, or the open block was not the last one.
        log.folds_at_pace &= log.free.is_empty();
        let Some(&oldest) = log.full.front().filter(|_| log.folds_at_pace) else { return Ok(()) };
        let valid = self.valid[oldest.index()];
        let keep = (u64::from(valid) * u64::from(left - count) / u64::from(left)) as u32;
        while self.valid[oldest.index()] > keep
            && let Some(page) = self.oldest(index)
        {
            self.fold_run(flash, page, at)?;
        }
        Ok(())
    }

    /// Folds the oldest block of a log, and erases it.
    fn fold_block<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        index: usize,
        at: Nanos,
    ) -> Result<(), Exhausted> {
        let mut end = at;
        while let Some(page) = self.oldest(index) {
            end = end.max(self.fold_run(flash, page, at)?);
        }
        self.erase_oldest(flash, index, end);
        Ok(())
    }

    /// The first page that is still valid in the oldest full block of a log.
    fn oldest(&self, index: usize) -> Option<LogicalPage> {
        let &block = self.logs[index].full.front()?;
        if self.valid[block.index()] == 0 {
            return None;
        }
        let mut pages = block.0 * self.pages_per_block..(block.0 + 1) * self.pages_per_block;
        pages.find(|&page| self.holds_valid(PhysicalPage(page))).map(|page| self.back[page as usize])
    }

    fn holds_valid(&self, physical: PhysicalPage) -> bool {
        let logical = self.back[physical.index()];
        logical != LogicalPage::NONE && self.place[logical.index()] == physical
    }

    /// Writes a page, and the pages after it that are in the cache too, to the layer behind. A run ends at a superblock (a
    /// block of each die). So a layer behind that maps blocks gets whole blocks. One that maps pages gets sequential data
    /// in its order; with shorter runs it would get pages of several logs alternately.
    fn fold_run<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        first: LogicalPage,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let superblock = self.pages_per_block * flash.geometry().dies();
        let most = superblock - first.0 % superblock;
        let run = &self.place[first.index()..self.place.len().min((first + most).index())];
        let count = run.iter().take_while(|&&place| place != PhysicalPage::NONE).count() as u32;
        let pages = Pages { first, count };
        let (mut rest, mut read) = (pages, at);
        while rest.count > 0 {
            let place = flash.geometry().place(self.place[rest.first.index()]);
            let part = rest.take(self.run(rest));
            read = read.max(flash.begin_fold(place, part.first, part.count, at));
        }
        let written = self.behind.write(flash, pages, 0, read);
        flash.end_fold();
        if written.is_ok() {
            self.forget(pages);
            return written;
        }
        // The layer behind failed in the middle of the run, and holds the pages before that.
        for page in pages.each() {
            if self.behind.holds(page) {
                self.forget(Pages { first: page, count: 1 });
            }
        }
        written
    }

    /// How many of these pages, of which the first is in the cache, lie one behind the other in one of its blocks.
    fn run(&self, pages: Pages) -> u32 {
        let place = self.place[pages.first.index()];
        let in_block = self.pages_per_block - place.0 % self.pages_per_block;
        let next = |&i: &u32| self.place[(pages.first + i).index()] == place + i;
        1 + (1..pages.count.min(in_block)).take_while(next).count() as u32
    }

    /// Erases the oldest block of a log, which has no valid page any more.
    fn erase_oldest<T: Timing>(&mut self, flash: &mut Flash<T>, index: usize, at: Nanos) -> Nanos {
        let Some(block) = self.logs[index].full.pop_front() else { return at };
        debug_assert_eq!(self.valid[block.index()], 0);
        let end = flash.erase(block, Cause::Fold, at);
        if !flash.failed(block) {
            self.logs[index].free.push_back(block);
        }
        end
    }

    /// Folds a run of each log at the same time, and repeats that until enough blocks are free or the time is `until`.
    /// Returns when it stopped.
    fn fold_ahead<T: Timing>(&mut self, flash: &mut Flash<T>, from: Nanos, until: Nanos) -> Nanos {
        let mut now = from;
        while now < until && self.free_blocks() < self.idle_reclaim_blocks {
            let mut end = now;
            for index in 0..self.logs.len() {
                if let Some(page) = self.oldest(index) {
                    match self.fold_run(flash, page, now) {
                        Ok(folded) => end = end.max(folded),
                        // The next write reports the error.
                        Err(_) => return now,
                    }
                } else if !self.logs[index].full.is_empty() {
                    end = end.max(self.erase_oldest(flash, index, now));
                }
            }
            if end == now && self.logs.iter().all(|log| log.full.is_empty()) {
                break;
            }
            now = end;
        }
        now
    }
}

impl<L: Layer> Layer for SlcCache<L> {
    fn pages(&self) -> u32 {
        self.behind.pages()
    }

    fn holds(&self, page: LogicalPage) -> bool {
        self.place[page.index()] != PhysicalPage::NONE || self.behind.holds(page)
    }

    fn write<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let (end, left) =
            if self.bypasses(pages) { (at, pages.count) } else { self.write_here(flash, pages, at)? };
        if left == 0 {
            return Ok(end);
        }
        let bypassing = Pages { first: pages.first + (pages.count - left), count: left };
        let written = self.behind.write(flash, bypassing, stream, at)?;
        self.forget(bypassing);
        Ok(end.max(written))
    }

    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
        let (mut rest, mut end) = (pages, at);
        while rest.count > 0 {
            let place = self.place[rest.first.index()];
            if place == PhysicalPage::NONE {
                let places = &self.place[rest.first.index()..rest.end().index()];
                let outside = places.iter().take_while(|&&place| place == PhysicalPage::NONE).count();
                let part = rest.take(outside as u32);
                end = end.max(self.behind.read(flash, part, at));
            } else {
                let part = rest.take(self.run(rest));
                let place = flash.geometry().place(place);
                end = end.max(flash.read(place, part.first, part.count, Cause::Host, at));
            }
        }
        end
    }

    fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        self.forget(pages);
        self.behind.trim(flash, pages);
    }

    fn idle<T: Timing>(&mut self, flash: &mut Flash<T>, from: Nanos, until: Nanos) {
        let now = self.fold_ahead(flash, from, until);
        if now < until {
            self.behind.idle(flash, now, until);
        }
    }

    fn power_cut(&mut self) {
        self.behind.power_cut();
    }
}
