//! The cached entries of the map, in the order of their most recent use.

use serde::{Deserialize, Serialize};

use crate::flash::LogicalPage;
use crate::layer::bits::{clear_bits, set_bits};

const NONE: u32 = u32::MAX;

/// A cached entry: that of one logical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    page: LogicalPage,
    newer: u32,
    older: u32,
}

/// A limited number of entries, each clean or dirty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cache {
    limit: u32,
    slots: Vec<Slot>,
    newest: u32,
    oldest: u32,
    /// By logical page: its slot.
    slot_of: Vec<u32>,
    /// A bit for each logical page: its entry is newer here than on the flash.
    dirty: Vec<u64>,
}

impl Cache {
    /// An empty cache for up to `limit` entries of `pages` logical pages.
    pub(super) fn new(limit: u32, pages: u32) -> Cache {
        Cache {
            limit,
            slots: Vec::new(),
            newest: NONE,
            oldest: NONE,
            slot_of: vec![NONE; pages as usize],
            dirty: vec![0; (pages as usize).div_ceil(64)],
        }
    }

    /// The most entries.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether an entry is cached.
    pub(super) fn contains(&self, page: LogicalPage) -> bool {
        self.slot_of[page.index()] != NONE
    }

    /// Makes a cached entry the most recently used one. Returns `false` if it is not cached.
    pub(super) fn use_entry(&mut self, page: LogicalPage) -> bool {
        let slot = self.slot_of[page.index()];
        if slot == NONE {
            return false;
        }
        if slot != self.newest {
            self.unlink(slot);
            self.link(slot);
        }
        true
    }

    /// The entry that the next insertion evicts: the least recently used one, if the cache is full.
    pub(super) fn next_evicted(&self) -> Option<LogicalPage> {
        (self.slots.len() == self.limit as usize).then(|| self.slots[self.oldest as usize].page)
    }

    /// Puts an entry into the cache, clean, and evicts [`Cache::next_evicted`].
    pub(super) fn insert(&mut self, page: LogicalPage) {
        let entry = Slot { page, newer: NONE, older: NONE };
        let slot = if self.slots.len() == self.limit as usize {
            let slot = self.oldest;
            let old = self.slots[slot as usize].page;
            debug_assert!(!self.is_dirty(old));
            self.unlink(slot);
            self.slot_of[old.index()] = NONE;
            self.slots[slot as usize] = entry;
            slot
        } else {
            self.slots.push(entry);
            self.slots.len() as u32 - 1
        };
        self.slot_of[page.index()] = slot;
        self.link(slot);
    }

    /// Whether a cached entry is newer than on the flash.
    pub(super) fn is_dirty(&self, page: LogicalPage) -> bool {
        self.dirty[page.index() / 64] & (1 << (page.0 % 64)) != 0
    }

    /// Notes that a cached entry changed.
    pub(super) fn mark_dirty(&mut self, page: LogicalPage) {
        debug_assert!(self.contains(page));
        set_bits(&mut self.dirty, page.0, 1);
    }

    /// Notes that the entries of `count` pages from `first` on were written to the flash.
    pub(super) fn mark_clean(&mut self, first: LogicalPage, count: u32) {
        clear_bits(&mut self.dirty, first.0, count);
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        *self = Cache::new(self.limit, self.slot_of.len() as u32);
    }

    /// Whether this, read from outside bytes, is a cache for up to `limit` entries of `pages` logical pages: all entries
    /// are in one list, each once, and only cached ones are dirty.
    pub(super) fn fits(&self, limit: u32, pages: u32) -> bool {
        if self.limit != limit
            || self.slots.len() > limit as usize
            || self.slot_of.len() != pages as usize
            || self.dirty.len() != (pages as usize).div_ceil(64)
        {
            return false;
        }
        let (mut newer, mut at, mut seen) = (NONE, self.newest, 0);
        while let Some(slot) = self.slots.get(at as usize) {
            let known = self.slot_of.get(slot.page.index()) == Some(&at);
            if !known || slot.newer != newer || seen == self.slots.len() {
                return false;
            }
            (newer, at, seen) = (at, slot.older, seen + 1);
        }
        let dirty = (0..64 * self.dirty.len() as u32).map(LogicalPage).filter(|&page| self.is_dirty(page));
        at == NONE
            && newer == self.oldest
            && seen == self.slots.len()
            && self.slot_of.iter().filter(|&&slot| slot != NONE).count() == seen
            && dirty.into_iter().all(|page| self.slot_of.get(page.index()).is_some_and(|&slot| slot != NONE))
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            _ => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.slots[older as usize].newer = newer,
        }
    }

    fn link(&mut self, slot: u32) {
        let newest = std::mem::replace(&mut self.newest, slot);
        let entry = &mut self.slots[slot as usize];
        (entry.newer, entry.older) = (NONE, newest);
        match newest {
            NONE => self.oldest = slot,
            _ => self.slots[newest as usize].newer = slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use flashlab_base::{Prng, Seed};

    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted_next() {
        let (mut cache, mut model) = (Cache::new(5, 20), VecDeque::new());
        let mut random = Prng::new(Seed(1));
        for _ in 0..10_000 {
            let page = LogicalPage(random.below(20) as u32);
            let expected = (model.len() == 5).then(|| model[0]);
            assert_eq!(cache.next_evicted(), expected);
            assert_eq!(cache.contains(page), model.contains(&page));
            if !cache.use_entry(page) {
                if let Some(page) = cache.next_evicted() {
                    cache.mark_clean(page, 1);
                }
                cache.insert(page);
                if expected.is_some() {
                    model.pop_front();
                }
            }
            if page.0.is_multiple_of(3) {
                cache.mark_dirty(page);
            }
            assert!(cache.fits(5, 20));
            let mut other = cache.clone();
            let slot = random.below(cache.slots.len() as u64) as usize;
            other.slots[slot].page = LogicalPage(random.below(30) as u32);
            assert!(!other.fits(5, 20) || other == cache, "an entry that was changed");
            let mut other = cache.clone();
            other.slots[slot].older = random.below(7) as u32;
            assert!(!other.fits(5, 20) || other == cache, "a link that was changed");
            let mut other = cache.clone();
            other.dirty[0] |= 1 << random.below(64);
            let uncached = (0..64)
                .map(LogicalPage)
                .any(|page| other.is_dirty(page) && (page.0 >= 20 || !cache.contains(page)));
            assert_eq!(other.fits(5, 20), !uncached);
            model.retain(|&other| other != page);
            model.push_back(page);
        }
        cache.clear();
        assert!((0..20).all(|page| !cache.contains(LogicalPage(page))));
    }
}
