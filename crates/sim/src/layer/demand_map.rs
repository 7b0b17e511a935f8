//! A page map that is kept on the flash, of which only some entries are in memory (DFTL; Gupta, Kim and Urgaonkar,
//! ASPLOS 2009).
//!
//! # Model
//! The entries of the map lie on map pages, in blocks of their own. Where the map pages lie is in memory (the global
//! translation directory).
//! 1. A request needs the entries of its pages. Entries that are not cached are read; a request reads each map page once.
//! 2. A new entry evicts the least recently used one. If that one is dirty, its map page is read, and rewritten with
//!    all dirty entries of the page (batch update). Those stay in the cache as clean entries.
//! 3. Garbage collection moves data. Cached entries of moved pages become dirty (lazy copying). For the others the map
//!    pages are rewritten, each once for all moves of a request.
//! 4. Map pages are collected like data pages, for [`Cause::Map`].
//! 5. Of a page whose newer version lies in an SLC cache, the entry need not say that the older one is gone: the cache is asked first.
//!    Its map page would be rewritten twice otherwise, for the write of the host and for the fold.
//!
//! # Invariants
//! - an entry that is newer than its map page is dirty in the cache, or its map page is stale and queued, or it is superseded;
//! - nothing is queued when a write returns.
//!
//! The simulator has the whole map in memory. That stands for the content of the map pages.

mod cache;
mod options;
#[cfg(test)]
mod tests;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use crate::flash::PhysicalPage;
use crate::flash::{Cause, Flash, FlashGeometry, LogicalPage, Timing, numbers};
use crate::layer::bits::{clear_bits, set_bits};
use crate::layer::contract::{Exhausted, Layer, Pages};
use crate::layer::options::OptionsError;
use crate::layer::options::ensure;
use crate::layer::page_map::PageMap;
use cache::Cache;
pub use options::DemandMapOptions;

numbers! {
    /// A page of the map, by its number.
    MapPage,
}

/// A demand-cached page map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemandMap {
    pages: PageMap,
    cache: Cache,
    host_pages: u32,
    entries_per_page: u32,
    /// The stale map pages, to be rewritten; some may be stale no more.
    queue: Vec<MapPage>,
    /// By map page: whether an entry that is not cached is newer than on the flash.
    stale: Vec<bool>,
    /// By logical page, a bit each: whether it was superseded since its map page was written.
    superseded: Vec<u64>,
    /// By logical page: its entry in the most recent write of its map page.
    #[cfg(test)]
    on_flash: Vec<Option<PhysicalPage>>,
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
            superseded: vec![0; host_pages.div_ceil(64) as usize],
            #[cfg(test)]
            on_flash: vec![None; host_pages as usize],
        })
    }

    /// The page map whose entries are cached.
    pub fn page_map(&self) -> &PageMap {
        &self.pages
    }

    /// The map page with the entry of a page.
    fn map_page(&self, page: LogicalPage) -> MapPage {
        MapPage(page.0 / self.entries_per_page)
    }

    /// The logical page that a map page has, behind the host's.
    fn of_map(&self, map_page: MapPage) -> Pages {
        Pages { first: LogicalPage(self.host_pages + map_page.0), count: 1 }
    }

    /// Brings the entries of pages into the cache.
    fn load_entries<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let (mut end, mut loaded) = (at, None);
        for page in pages.each() {
            if !self.cache.use_entry(page) {
                if let Some(oldest) = self.cache.next_evicted().filter(|&page| self.cache.is_dirty(page)) {
                    end = self.write_map_page(flash, self.map_page(oldest), end)?;
                }
                let map_page = self.map_page(page);
                if loaded != Some(map_page) {
                    // A map page that was never written is not read: it has no entries.
                    end = self.pages.fetch(flash, self.of_map(map_page), Cause::Map, end);
                    loaded = Some(map_page);
                }
                self.cache.insert(page);
            }
        }
        Ok(end)
    }

    /// Rewrites a map page, with all its changed entries.
    fn write_map_page<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        map_page: MapPage,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let page = self.of_map(map_page);
        let read = self.pages.fetch(flash, page, Cause::Map, at);
        let end = self.pages.append_map(flash, page, read)?;
        let first = LogicalPage(map_page.0 * self.entries_per_page);
        let entries = self.entries_per_page.min(self.host_pages - first.0);
        self.cache.mark_clean(first, entries);
        #[cfg(test)]
        self.note_on_flash(Pages { first, count: entries });
        clear_bits(&mut self.superseded, first.0, entries);
        self.stale[map_page.index()] = false;
        Ok(end)
    }

    fn is_superseded(&self, page: LogicalPage) -> bool {
        self.superseded[page.index() / 64] >> (page.0 % 64) & 1 == 1
    }

    /// Notes that garbage collection or a trim changed the entry of a page. If it is cached, it becomes dirty; otherwise
    /// its map page becomes stale.
    fn note_change(&mut self, page: LogicalPage) {
        if self.cache.contains(page) {
            self.cache.mark_dirty(page);
            return;
        }
        let map_page = self.map_page(page);
        if !std::mem::replace(&mut self.stale[map_page.index()], true) {
            self.queue.push(map_page);
        }
    }

    /// Rewrites the stale map pages. This may trigger garbage collection, which makes other map pages stale. Map pages are independent of
    /// each other, so that all begin at `at` and wait only for their dies. One after the other, they would reserve each die until
    /// the end of the whole chain, and a wave of collections would stop the device for seconds.
    fn write_stale_map_pages<T: Timing>(&mut self, flash: &mut Flash<T>, at: Nanos) -> Result<(), Exhausted> {
        let mut written = 0;
        loop {
            let mut moved = self.pages.take_moved();
            moved.drain(..).for_each(|page| self.note_change(page));
            self.pages.give_back_moved(moved);
            let Some(map_page) = self.queue.pop() else { return Ok(()) };
            if !self.stale[map_page.index()] {
                continue;
            }
            if written > flash.geometry().pages() {
                self.queue.push(map_page);
                let reason =
                    "writing the map moves data without end: it has too little over-provisioning".to_owned();
                return Err(Exhausted { reason });
            }
            if let Err(error) = flash.urgently(|flash| self.write_map_page(flash, map_page, at)) {
                self.queue.push(map_page);
                return Err(error);
            }
            written += 1;
        }
    }

    /// Checks this map, which was read from outside bytes, against its options and `flash`, and restores what a saved
    /// state does not have.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub(super) fn complete<T: Timing>(
        &mut self,
        options: &DemandMapOptions,
        flash: &Flash<T>,
    ) -> Result<(), String> {
        let wrong = |error: OptionsError| error.to_string();
        let host_pages = options.page_map.logical_pages;
        let map_pages = options.map_pages(flash.geometry()).map_err(wrong)?;
        let entries = options.entries_per_page(flash.geometry()).map_err(wrong)?;
        let right = (self.host_pages, self.entries_per_page) == (host_pages, entries)
            && self.stale.len() == map_pages as usize
            && self.superseded.len() == host_pages.div_ceil(64) as usize;
        ensure(right, || "the map is that of another device".to_owned())?;
        self.pages.complete(
            &options.page_map.with_map_pages(map_pages),
            Some(LogicalPage(host_pages)),
            flash,
        )?;
        let limit = options.cached_entries.min(host_pages);
        ensure(self.cache.fits(limit, host_pages), || "the cached entries are in disorder".to_owned())?;
        let mut queued = vec![false; self.stale.len()];
        for &page in &self.queue {
            let Some(queued) = queued.get_mut(page.index()) else {
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
        let (mut end, mut rest) = (at, pages);
        while rest.count > 0 {
            // A part has at most as many pages as the cache has entries, so that none is evicted before its page is written.
            let part = rest.take(rest.count.min(self.cache.limit()));
            let known = self.load_entries(flash, part, at)?;
            end = end.max(self.pages.write(flash, part, stream, known)?);
            part.each().for_each(|page| self.cache.mark_dirty(page));
            clear_bits(&mut self.superseded, part.first.0, part.count);
        }
        self.write_stale_map_pages(flash, end)?;
        Ok(end)
    }

    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
        // A read never fails for lack of free blocks: a dirty entry that cannot be written stays, and the next write fails.
        let known = self.load_entries(flash, pages, at).unwrap_or(at);
        let end = self.pages.fetch(flash, pages, Cause::Host, known);
        let _ = self.write_stale_map_pages(flash, end);
        end
    }

    fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        for page in pages.each() {
            if self.pages.holds(page) || self.is_superseded(page) {
                self.note_change(page);
            }
        }
        clear_bits(&mut self.superseded, pages.first.0, pages.count);
        self.pages.trim(flash, pages);
    }

    fn supersede<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        for page in pages.each() {
            if self.pages.holds(page) {
                set_bits(&mut self.superseded, page.0, 1);
            }
        }
        self.pages.trim(flash, pages);
    }

    fn idle<T: Timing>(&mut self, flash: &mut Flash<T>, from: Nanos, until: Nanos) {
        self.pages.idle(flash, from, until);
        // A map page for which no block is free stays queued, and the next write fails.
        let _ = self.write_stale_map_pages(flash, from);
    }

    /// The cache is lost. The device rebuilds the dirty entries from the data pages, whose spare areas hold their logical
    /// numbers. The time and the map writes of that are not counted.
    fn power_cut(&mut self) {
        self.cache.clear();
        self.queue.clear();
        self.stale.fill(false);
        self.superseded.fill(0);
        #[cfg(test)]
        self.note_on_flash(Pages { first: LogicalPage(0), count: self.host_pages });
    }
}
