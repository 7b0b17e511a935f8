//! A page map that is kept on the flash, of which only some entries are in memory (DFTL; Gupta, Kim and Urgaonkar,
//! ASPLOS 2009).
//!
//! # Model
//! The map's entries stand on map pages, which lie in blocks of their own; where those are is in memory (the global
//! translation directory). A request needs the entries of its pages: those that are not cached are read, once for each
//! map page and request. The entry that was used least recently makes room. If it is dirty, its map page is read and
//! written again, with all dirty entries of that page (batch update), which stay, clean. Collecting moves data: entries that are cached
//! become dirty (lazy copying), of the others the map pages are written again, each once for all that a request moved.
//! Map pages are collected like data pages, for [`Cause::Map`].
//!
//! # Invariants
//! - an entry that is newer than its map page is dirty in the cache, or its map page is stale and queued;
//! - nothing is queued when a write returns.
//!
//! What is in memory here of the whole map stands for the content of the map pages.

mod cache;
#[cfg(test)]
mod tests;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use super::data_blocks::ensure;
use super::page_map::{PageMap, PageMapOptions};
use super::{Exhausted, Layer, OptionsError, Pages, Policy};
use crate::flash::{Cause, Flash, FlashGeometry, LogicalPage, Timing};
use cache::Cache;

/// What a demand-cached page map can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DemandMapOptions {
    /// The page map whose entries are cached. With `shares`, the last share is the map's.
    pub page_map: PageMapOptions,
    /// How many entries are in memory; default 8192.
    pub cached_entries: u32,
    /// The size of an entry in bytes; default 4.
    pub entry_bytes: u32,
}

impl Default for DemandMapOptions {
    fn default() -> DemandMapOptions {
        DemandMapOptions { page_map: PageMapOptions::default(), cached_entries: 8192, entry_bytes: 4 }
    }
}

/// A demand-cached page map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemandMap {
    pages: PageMap,
    cache: Cache,
    host_pages: u32,
    entries_per_page: u32,
    /// The map pages that lack an entry which is not cached.
    queue: Vec<u32>,
    stale: Vec<bool>,
    /// By logical page: what its map page said when it was last written.
    #[cfg(test)]
    on_flash: Vec<Option<u32>>,
}

impl DemandMapOptions {
    /// How many pages the map takes.
    ///
    /// # Errors
    /// When an option is not possible.
    pub fn map_pages(&self, geometry: &FlashGeometry) -> Result<u32, OptionsError> {
        Ok(self.page_map.logical_pages.div_ceil(self.entries_per_page(geometry)?))
    }

    fn entries_per_page(&self, geometry: &FlashGeometry) -> Result<u32, OptionsError> {
        let page = geometry.page().0 as u32;
        let wrong = |key, value: u32, legal| Err(OptionsError { key, value: value.into(), legal });
        if self.cached_entries == 0 {
            return wrong("cached_entries", 0, "at least 1".to_owned());
        }
        if !(1..=page).contains(&self.entry_bytes) {
            return wrong("entry_bytes", self.entry_bytes, format!("1 to a page, {page}"));
        }
        Ok(page / self.entry_bytes)
    }

    /// Whether a demand-cached page map can be built over the array.
    ///
    /// # Errors
    /// As [`PageMapOptions::check`], and when an option is not possible.
    pub fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        let whole = self.page_map.with_map_pages(self.map_pages(geometry)?);
        let (spare, blocks) = whole.blocks_to_spare(geometry)?;
        self.check_gain(geometry, f64::from(spare) / f64::from(blocks))
    }

    /// Blocks of the map hold nothing valid soon. A random choice that misses them, or one by age, moves data, whose entries
    /// make map pages stale: if it misses so often that more pages are written for the map than are gained, that goes on for ever.
    /// The chance is taken in the worst state, in which all space to spare, this share of a die's blocks, is in blocks of
    /// the map.
    fn check_gain(&self, geometry: &FlashGeometry, spare: f64) -> Result<(), OptionsError> {
        let (choices, policy) = match self.page_map.policy {
            Policy::Choices(choices) => (choices, "random choices"),
            // Whatever is the oldest is as good as one random choice.
            Policy::Fifo => (1, "first in, first out"),
            Policy::Greedy | Policy::CostBenefit => return Ok(()),
        };
        let map_pages = f64::from(self.map_pages(geometry)?);
        let host_pages = f64::from(self.page_map.logical_pages);
        let block = f64::from(geometry.pages_per_block());
        let found = 1.0 - (1.0 - spare).powf(f64::from(choices));
        let moved = (1.0 - found) * block * (1.0 - f64::from(self.cached_entries) / host_pages).max(0.0);
        // So many different ones, if each page that is moved is of any map page.
        let stale = map_pages * (1.0 - (-moved / map_pages).exp());
        if found * block < stale {
            let legal = format!(
                "more: with {:.1} % of the blocks to spare, {policy} finds too few blocks of the map, and moves data for ever",
                spare * 100.0
            );
            return Err(OptionsError { key: "cached_entries", value: self.cached_entries.into(), legal });
        }
        Ok(())
    }
}

impl DemandMap {
    /// An empty map over erased flash.
    ///
    /// # Errors
    /// As [`DemandMapOptions::check`].
    pub fn new(geometry: &FlashGeometry, options: &DemandMapOptions) -> Result<DemandMap, OptionsError> {
        let map_pages = options.map_pages(geometry)?;
        let host_pages = options.page_map.logical_pages;
        Ok(DemandMap {
            pages: PageMap::with_map_pages(geometry, &options.page_map, map_pages)?,
            cache: Cache::new(options.cached_entries.min(host_pages), host_pages),
            host_pages,
            entries_per_page: options.entries_per_page(geometry)?,
            queue: Vec::new(),
            stale: vec![false; map_pages as usize],
            #[cfg(test)]
            on_flash: vec![None; host_pages as usize],
        })
    }

    /// The page map whose entries are cached.
    pub fn page_map(&self) -> &PageMap {
        &self.pages
    }

    /// Where a map page stands among the logical pages.
    fn of_map(&self, map_page: u32) -> Pages {
        Pages { first: LogicalPage(self.host_pages + map_page), count: 1 }
    }

    /// Brings the entries of pages into the cache.
    fn look_up<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let (mut end, mut loaded) = (at, None);
        for LogicalPage(page) in pages.each() {
            if !self.cache.touch(page) {
                if let Some(oldest) = self.cache.in_the_way().filter(|&page| self.cache.is_dirty(page)) {
                    end = self.write_map_page(flash, oldest / self.entries_per_page, end)?;
                }
                let map_page = page / self.entries_per_page;
                if loaded != Some(map_page) {
                    // A map page that was never written is known to be empty.
                    end = self.pages.fetch(flash, self.of_map(map_page), Cause::Map, end);
                    loaded = Some(map_page);
                }
                self.cache.insert(page);
            }
        }
        Ok(end)
    }

    /// Writes a map page again, with all that changed of it.
    fn write_map_page<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        map_page: u32,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let page = self.of_map(map_page);
        let read = self.pages.fetch(flash, page, Cause::Map, at);
        let end = self.pages.append_map(flash, page, read)?;
        let first = map_page * self.entries_per_page;
        let entries = self.entries_per_page.min(self.host_pages - first);
        self.cache.clean(first, entries);
        #[cfg(test)]
        self.note_on_flash(first..first + entries);
        self.stale[map_page as usize] = false;
        Ok(end)
    }

    /// The entry of a page changed without the host's needing it.
    fn change(&mut self, page: u32) {
        if self.cache.contains(page) {
            self.cache.soil(page);
            return;
        }
        let map_page = page / self.entries_per_page;
        if !std::mem::replace(&mut self.stale[map_page as usize], true) {
            self.queue.push(map_page);
        }
    }

    /// Writes the map pages of what was moved. That may move more.
    fn settle<T: Timing>(&mut self, flash: &mut Flash<T>, at: Nanos) -> Result<(), Exhausted> {
        let (mut end, mut written) = (at, 0);
        loop {
            let mut moved = self.pages.take_moved();
            moved.drain(..).for_each(|page| self.change(page));
            self.pages.give_back_moved(moved);
            let Some(map_page) = self.queue.pop() else { return Ok(()) };
            if !self.stale[map_page as usize] {
                continue;
            }
            if written > flash.geometry().pages() {
                self.queue.push(map_page);
                let reason = "writing the map moves data for ever: it has no space to spare".to_owned();
                return Err(Exhausted { reason });
            }
            match self.write_map_page(flash, map_page, end) {
                Ok(time) => end = time,
                Err(error) => {
                    self.queue.push(map_page);
                    return Err(error);
                }
            }
            written += 1;
        }
    }

    /// Makes again what a saved map does not hold, after a look whether this map, read from outside bytes, can be used
    /// in place of `fresh` over `flash`.
    ///
    /// # Errors
    /// Which invariant does not hold.
    pub(crate) fn complete<T: Timing>(&mut self, fresh: &DemandMap, flash: &Flash<T>) -> Result<(), String> {
        let sizes = |map: &DemandMap| (map.host_pages, map.entries_per_page, map.stale.len());
        ensure(sizes(self) == sizes(fresh), || "the map is that of another device".to_owned())?;
        self.pages.complete(&fresh.pages, flash)?;
        ensure(self.cache.fits(&fresh.cache), || "the cached entries are in disorder".to_owned())?;
        let mut queued = vec![false; self.stale.len()];
        for &page in &self.queue {
            let Some(queued) = queued.get_mut(page as usize) else {
                return Err(format!("the map page {page} is queued and does not exist"));
            };
            *queued = true;
        }
        let forgotten = self.stale.iter().zip(&queued).position(|(&stale, &queued)| stale && !queued);
        ensure(forgotten.is_none(), || format!("the map page {forgotten:?} is stale and not queued"))
    }
}

impl Layer for DemandMap {
    fn pages(&self) -> u32 {
        self.host_pages
    }

    fn holds(&self, page: LogicalPage) -> bool {
        self.pages.holds(page)
    }

    fn write<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let (mut end, mut part) = (at, pages);
        while part.first.0 < pages.first.0 + pages.count {
            // The entries of a part stay in the cache until its pages have their places.
            part.count = (pages.first.0 + pages.count - part.first.0).min(self.cache.limit());
            let known = self.look_up(flash, part, at)?;
            end = end.max(self.pages.write(flash, part, stream, known)?);
            part.each().for_each(|page| self.cache.soil(page.0));
            part.first.0 += part.count;
        }
        self.settle(flash, end)?;
        Ok(end)
    }

    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
        // A read does not fail for want of space: a dirty entry that finds none stays, and the next write fails.
        let known = self.look_up(flash, pages, at).unwrap_or(at);
        let end = self.pages.fetch(flash, pages, Cause::Host, known);
        let _ = self.settle(flash, end);
        end
    }

    fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        for page in pages.each() {
            if self.pages.holds(page) {
                self.change(page.0);
            }
        }
        self.pages.trim(flash, pages);
    }

    fn rest<T: Timing>(&mut self, flash: &mut Flash<T>, from: Nanos, until: Nanos) {
        self.pages.rest(flash, from, until);
        // What finds no space stays queued, and the next write fails.
        let _ = self.settle(flash, from);
    }

    /// The cache is lost. What was dirty is found again beside the data, where each page says which it is; the
    /// time and the map pages that this takes are not counted.
    fn power_cut(&mut self) {
        self.cache.clear();
        self.queue.clear();
        self.stale.fill(false);
        #[cfg(test)]
        self.note_on_flash(0..self.host_pages);
    }
}
