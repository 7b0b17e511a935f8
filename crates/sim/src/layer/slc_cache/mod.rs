//! An SLC cache in front of another layer.
//!
//! # Model
//! The array's first blocks, [`FlashGeometry::slc_blocks`], are the cache: a log of blocks on each of their dies.
//! 1. A write of the host goes to the cache, round-robin over the dies, a multi-plane page to each. A long sequential
//!    write may bypass the cache.
//! 2. When a die's log is full, the cache folds its oldest block ([`Cause::Fold`]): it reads the valid pages, writes them to
//!    the layer behind, and erases the block. Overwritten pages are invalid and not copied.
//! 3. With a page it folds the pages after it that are in the cache too, so that the layer behind is written in long runs.
//! 4. While the host sends nothing, the cache folds ahead.
//!
//! # Invariants
//! - a page is valid in the cache, or held by the layer behind, or neither;
//! - `place[l] = p` if and only if `p` is valid, and then `back[p] = l`;
//! - a fold that the layer behind refuses loses nothing.

use std::collections::VecDeque;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::flash::{Cause, Flash, FlashGeometry, LogicalPage, PageAddress, Reliability, Timing};
use crate::layer::contract::{Exhausted, Layer, Pages};
use crate::layer::options::OptionsError;
use crate::layer::options::ensure;

/// The options of an SLC cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlcCacheOptions {
    /// Sequential writes bypass the cache from this number of pages on. Default: never.
    pub bypass_from: Option<u32>,
    /// How many free blocks the cache makes while the host is idle. Default: as many as it can.
    pub idle_reclaim_blocks: u32,
    /// How the flash ages, as the flash was told. Default: it does not.
    #[serde(skip)]
    pub reliability: Option<Reliability>,
}

impl Default for SlcCacheOptions {
    fn default() -> SlcCacheOptions {
        SlcCacheOptions { bypass_from: None, idle_reclaim_blocks: u32::MAX, reliability: None }
    }
}

const NONE: u32 = u32::MAX;

/// The region's blocks on one die.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Log {
    /// The block that is written to, and its next page.
    open: Option<(u32, u32)>,
    /// The oldest one first.
    full: VecDeque<u32>,
    free: VecDeque<u32>,
}

/// An SLC cache in front of a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlcCache<L> {
    behind: L,
    /// By logical page: where it lies in the cache.
    place: Vec<u32>,
    /// By page of the cache: the logical page that was written to it.
    back: Vec<u32>,
    /// By block of the cache: how many pages are valid.
    valid: Vec<u32>,
    logs: Vec<Log>,
    next_log: u32,
    pages_per_block: u32,
    bypass_from: Option<u32>,
    idle_reclaim_blocks: usize,
    /// Where the most recent write ended, and how many pages the sequential run has by then.
    sequence: (u32, u32),
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
        for block in (0..geometry.slc_blocks()).filter(|&block| !bad(block)) {
            logs[geometry.die(block).index()].free.push_back(block);
        }
        logs.retain(|log| !log.free.is_empty());
        if logs.is_empty() {
            let legal = "at least 1 that is not bad from the factory, for an SLC cache".to_owned();
            return Err(OptionsError { key: "slc_blocks", value: geometry.slc_blocks().into(), legal });
        }
        let slc_pages = geometry.slc_blocks() * pages_per_block;
        Ok(SlcCache {
            place: vec![NONE; behind.pages() as usize],
            behind,
            back: vec![NONE; slc_pages as usize],
            valid: vec![0; geometry.slc_blocks() as usize],
            logs,
            next_log: 0,
            pages_per_block,
            bypass_from: options.bypass_from,
            idle_reclaim_blocks: options.idle_reclaim_blocks as usize,
            sequence: (0, 0),
        })
    }

    /// The layer behind.
    pub fn behind(&self) -> &L {
        &self.behind
    }

    /// How many blocks of the cache are free.
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

    /// Every page is known by its place, and the layer behind has none of them.
    fn check_pages<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let mut valid = vec![0; self.valid.len()];
        for (page, &place) in (0..).zip(&self.place).filter(|&(_, &place)| place != NONE) {
            let known = self.back.get(place as usize) == Some(&page) && {
                let PageAddress { block, page } = flash.geometry().place(place);
                valid[block as usize] += 1;
                page < flash.blocks()[block as usize].written
            };
            let twice = self.behind.holds(LogicalPage(page));
            ensure(known && !twice, || {
                format!("the page {page} is said to lie at {place} of the SLC cache")
            })?;
        }
        let logical = |&page: &u32| page == NONE || (page as usize) < self.place.len();
        ensure(valid == self.valid && self.back.iter().all(logical), || {
            "the SLC cache has another number of valid pages".to_owned()
        })
    }

    /// Every block is free, open, full or failed, and those of a log lie on one die.
    fn check_blocks<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let pages = self.pages_per_block;
        let mut blocks: Vec<u32> = Vec::new();
        for log in &self.logs {
            let open = log.open.iter().copied();
            let full = log.full.iter().map(|&block| (block, pages));
            let free = log.free.iter().map(|&block| (block, 0));
            let first = blocks.len();
            for (block, written) in open.chain(full).chain(free) {
                let state = flash.blocks().get(block as usize).filter(|state| state.written == written);
                ensure(state.is_some(), || format!("{written} pages of the SLC block {block} are written"))?;
                blocks.push(block);
            }
            let mut dies = blocks[first..].iter().map(|&block| flash.geometry().die(block));
            let die = dies.next();
            ensure(dies.all(|other| Some(other) == die), || "an SLC log lies on several dies".to_owned())?;
        }
        blocks.sort_unstable();
        let usable = (0..flash.geometry().slc_blocks()).filter(|&block| !flash.failed(block));
        ensure(usable.eq(blocks.iter().copied()), || {
            format!("a block of the SLC cache is not one of free, open and full: {blocks:?}")
        })
    }

    /// Whether a write is part of a sequential run that is long enough to bypass the cache.
    fn bypasses(&mut self, pages: Pages) -> bool {
        let (next, length) = self.sequence;
        let before = if pages.first.0 == next { length } else { 0 };
        let length = before.saturating_add(pages.count);
        self.sequence = (pages.first.0 + pages.count, length);
        self.bypass_from.is_some_and(|from| length >= from)
    }

    /// Invalidates what the cache has of these pages.
    fn forget(&mut self, pages: Pages) {
        for LogicalPage(page) in pages.each() {
            let place = std::mem::replace(&mut self.place[page as usize], NONE);
            if place != NONE {
                self.valid[(place / self.pages_per_block) as usize] -= 1;
            }
        }
    }

    /// Writes pages to the cache; returns how many did not find a place, because all its blocks have failed.
    fn write_here<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        at: Nanos,
    ) -> Result<(Nanos, u32), Exhausted> {
        let (mut page, mut left, mut end) = (pages.first.0, pages.count, at);
        let planes = flash.geometry().planes();
        while left > 0 {
            let Some((block, first)) = self.open_page(flash, at)? else { return Ok((end, left)) };
            let to_fill = planes - first % planes;
            let count = left.min(to_fill);
            let part = Pages { first: LogicalPage(page), count };
            self.forget(part);
            if part.each().any(|page| self.behind.holds(page)) {
                self.behind.trim(flash, part);
            }
            let place = PageAddress { block, page: first };
            let physical = flash.geometry().physical(place);
            for i in 0..count {
                self.place[(page + i) as usize] = physical + i;
                self.back[(physical + i) as usize] = page + i;
            }
            self.valid[block as usize] += count;
            end = end.max(flash.program(place, part.first, count, Cause::Host, at));
            let log = &mut self.logs[self.next_log as usize];
            log.open = Some((block, first + count));
            if count == to_fill {
                self.next_log = (self.next_log + 1) % self.logs.len() as u32;
            }
            page += count;
            left -= count;
        }
        Ok((end, 0))
    }

    /// The block that the next page goes to, and its number in it. Folds if none is free; `None` when the cache
    /// has no blocks any more.
    fn open_page<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        at: Nanos,
    ) -> Result<Option<(u32, u32)>, Exhausted> {
        loop {
            if self.logs.is_empty() {
                return Ok(None);
            }
            let index = self.next_log as usize;
            let log = &mut self.logs[index];
            match log.open {
                Some(open) if open.1 < self.pages_per_block => return Ok(Some(open)),
                Some((block, _)) => log.full.push_back(block),
                None => {}
            }
            log.open = log.free.pop_front().map(|block| (block, 0));
            if log.open.is_some() {
                continue;
            }
            if log.full.is_empty() {
                self.logs.remove(index);
                self.next_log = 0;
                continue;
            }
            self.fold_block(flash, index, at)?;
        }
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
    fn oldest(&self, index: usize) -> Option<u32> {
        let &block = self.logs[index].full.front()?;
        if self.valid[block as usize] == 0 {
            return None;
        }
        let mut physical = block * self.pages_per_block..(block + 1) * self.pages_per_block;
        physical.find(|&physical| self.holds_valid(physical)).map(|physical| self.back[physical as usize])
    }

    fn holds_valid(&self, physical: u32) -> bool {
        let logical = self.back[physical as usize];
        logical != NONE && self.place[logical as usize] == physical
    }

    /// Writes a page, and those after it that are in the cache too, to the layer behind. A run ends where a
    /// multiple of the pages of a block of each die does: a layer behind that maps blocks gets whole ones, and one that
    /// maps pages gets sequential data in its order. (With shorter runs, pages of several logs would alternate.)
    fn fold_run<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        first: u32,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let unit = self.pages_per_block * flash.geometry().dies();
        let most = unit - first % unit;
        let run = &self.place[first as usize..self.place.len().min((first + most) as usize)];
        let count = run.iter().take_while(|&&place| place != NONE).count() as u32;
        let (mut page, mut read) = (first, at);
        while page < first + count {
            let run = self.run(page, first + count);
            let place = flash.geometry().place(self.place[page as usize]);
            read = read.max(flash.begin_fold(place, LogicalPage(page), run, at));
            page += run;
        }
        let pages = Pages { first: LogicalPage(first), count };
        let written = self.behind.write(flash, pages, 0, read);
        flash.end_fold();
        let end = written?;
        self.forget(pages);
        Ok(end)
    }

    /// How many pages from `page` on, which is in the cache, lie behind one another in one block of it.
    fn run(&self, page: u32, last: u32) -> u32 {
        let place = self.place[page as usize];
        let in_block = self.pages_per_block - place % self.pages_per_block;
        let next = |&i: &u32| self.place[(page + i) as usize] == place + i;
        1 + (1..(last - page).min(in_block)).take_while(next).count() as u32
    }

    /// Erases the oldest block of a log, which has no valid page any more.
    fn erase_oldest<T: Timing>(&mut self, flash: &mut Flash<T>, index: usize, at: Nanos) -> Nanos {
        let Some(block) = self.logs[index].full.pop_front() else { return at };
        debug_assert_eq!(self.valid[block as usize], 0);
        let end = flash.erase(block, Cause::Fold, at);
        if !flash.failed(block) {
            self.logs[index].free.push_back(block);
        }
        end
    }

    /// Folds a run of each log at the same time, repeatedly. Returns when it stopped.
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
        self.place[page.0 as usize] != NONE || self.behind.holds(page)
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
        let bypassing = Pages { first: LogicalPage(pages.first.0 + pages.count - left), count: left };
        let written = self.behind.write(flash, bypassing, stream, at)?;
        self.forget(bypassing);
        Ok(end.max(written))
    }

    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
        let (mut page, last, mut end) = (pages.first.0, pages.first.0 + pages.count, at);
        while page < last {
            let first = LogicalPage(page);
            let count = if self.place[page as usize] == NONE {
                let outside =
                    self.place[page as usize..last as usize].iter().take_while(|&&place| place == NONE);
                let count = outside.count() as u32;
                end = end.max(self.behind.read(flash, Pages { first, count }, at));
                count
            } else {
                let count = self.run(page, last);
                let place = flash.geometry().place(self.place[page as usize]);
                end = end.max(flash.read(place, first, count, Cause::Host, at));
                count
            };
            page += count;
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
