//! Pages that were written and are not yet on the flash.
//!
//! # Model
//! A page in the buffer is either held, so that later writes to it cost nothing, or on its way to the flash, where
//! it keeps a slot until it is programmed. Pages that are whole leave at once or when the buffer is full, by
//! the policy; the oldest goes first and takes along its held neighbours of the same block. Pages
//! written in part wait for their rest as long as there is room.
//!
//! # Invariants
//! - which pages are held depends on the writes only, never on time;
//! - a write is accepted when the oldest slots it needs are free.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::flash::LogicalPage;
use crate::layer::Pages;
use crate::profile::FlushPolicy;

/// The sectors of a page that are in the buffer, one bit each.
pub(super) type Sectors = u64;

/// A page to be written to the flash, and whether the rest of it has to be read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) pages: Pages,
    pub(super) partial: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WriteBuffer {
    policy: FlushPolicy,
    /// How many pages may be held.
    room: usize,
    /// All sectors of a page.
    whole: Sectors,
    /// Pages that leave together lie in the same group of this many pages.
    flush_group: u32,
    held: BTreeMap<u32, Sectors>,
    /// Pages in the order in which they came; some have left since.
    order: VecDeque<u32>,
    /// Until when each slot is taken, as a ring.
    slots: Vec<Nanos>,
    next_slot: usize,
}

impl WriteBuffer {
    /// An empty buffer of `capacity` pages, of which `slots` may be on their way.
    pub(super) fn new(
        policy: FlushPolicy,
        capacity: u32,
        slots: Option<u32>,
        whole: Sectors,
        flush_group: u32,
    ) -> WriteBuffer {
        let capacity = capacity.max(1) as usize;
        let slots = slots.map(|slots| slots as usize);
        // Held pages and pages on their way share the memory.
        let (room, slots) = match policy {
            FlushPolicy::Immediately => (capacity, slots.unwrap_or(capacity)),
            FlushPolicy::WhenFull => {
                let slots = slots.unwrap_or(capacity.div_ceil(2));
                (capacity.saturating_sub(slots).max(1), slots)
            }
        };
        WriteBuffer {
            policy,
            room,
            whole,
            flush_group,
            held: BTreeMap::new(),
            order: VecDeque::new(),
            slots: vec![Nanos::ZERO; slots],
            next_slot: 0,
        }
    }

    /// The most pages that are written to the flash in one go.
    pub(super) fn most(&self) -> u32 {
        if self.waits() { u32::MAX } else { self.slots.len() as u32 }
    }

    /// Whether the host waits until what leaves is on the flash.
    pub(super) fn waits(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a page is held, and which of its sectors.
    pub(super) fn held(&self, page: LogicalPage) -> Option<Sectors> {
        if self.held.is_empty() { None } else { self.held.get(&page.0).copied() }
    }

    /// Whether whole pages leave at once. What is held of them is overwritten then.
    pub(super) fn passes(&mut self, pages: Pages) -> bool {
        if self.policy != FlushPolicy::Immediately {
            return false;
        }
        while let Some((&page, _)) = self.held.range(pages.first.0..pages.first.0 + pages.count).next() {
            self.held.remove(&page);
        }
        true
    }

    /// Puts sectors of a page into the buffer.
    pub(super) fn put(&mut self, page: LogicalPage, sectors: Sectors) {
        while self.order.front().is_some_and(|oldest| !self.held.contains_key(oldest)) {
            self.order.pop_front();
        }
        let held = self.held.entry(page.0).or_insert(0);
        if *held == 0 {
            self.order.push_back(page.0);
        }
        *held |= sectors;
    }

    /// Takes out what has to leave now, one run after the other.
    pub(super) fn take_due(&mut self, page: LogicalPage) -> Option<Leaving> {
        let whole = self.held.get(&page.0) == Some(&self.whole);
        if self.policy == FlushPolicy::Immediately && whole {
            self.held.remove(&page.0);
            return Some(Leaving { pages: Pages { first: page, count: 1 }, partial: false });
        }
        if self.held.len() > self.room { self.take_oldest() } else { None }
    }

    /// Takes out the oldest page with its neighbours.
    pub(super) fn take_oldest(&mut self) -> Option<Leaving> {
        let oldest = loop {
            let page = self.order.pop_front()?;
            if self.held.contains_key(&page) {
                break page;
            }
        };
        if self.held[&oldest] != self.whole {
            self.held.remove(&oldest);
            return Some(Leaving { pages: Pages { first: LogicalPage(oldest), count: 1 }, partial: true });
        }
        let group = oldest - oldest % self.flush_group;
        let is_whole = |page: &u32| self.held.get(page) == Some(&self.whole);
        let first = (group..oldest).rev().take_while(is_whole).last().unwrap_or(oldest);
        let last = (oldest + 1..group.saturating_add(self.flush_group))
            .take_while(is_whole)
            .last()
            .unwrap_or(oldest);
        let count = (last - first + 1).min(self.most());
        for page in first..first + count {
            self.held.remove(&page);
        }
        // The oldest may lie behind what fits: it is then the next to go.
        if self.held.contains_key(&oldest) {
            self.order.push_front(oldest);
        }
        Some(Leaving { pages: Pages { first: LogicalPage(first), count }, partial: false })
    }

    /// Whether this, read from outside bytes, is a state of `fresh` for a layer of so many pages.
    pub(super) fn is_like(&self, fresh: &WriteBuffer, pages: u32) -> bool {
        let options = |buffer: &WriteBuffer| {
            (buffer.policy, buffer.room, buffer.whole, buffer.flush_group, buffer.slots.len())
        };
        let ordered: BTreeSet<u32> = self.order.iter().copied().collect();
        options(self) == options(fresh)
            && self.held.iter().all(|(page, &sectors)| {
                *page < pages && sectors != 0 && sectors & !self.whole == 0 && ordered.contains(page)
            })
            && (self.next_slot < self.slots.len() || self.next_slot == 0)
    }

    /// Forgets pages: they were trimmed.
    pub(super) fn forget(&mut self, pages: Pages) {
        for page in pages.each() {
            self.held.remove(&page.0);
        }
    }

    /// Forgets everything, as when the power fails.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.order.clear();
        self.restart();
    }

    /// It is time zero again and no slot is taken.
    pub(super) fn restart(&mut self) {
        self.slots.fill(Nanos::ZERO);
    }

    /// When `pages` slots are free for pages that come at `at`.
    pub(super) fn slots_free(&self, pages: u32, at: Nanos) -> Nanos {
        if self.waits() {
            return at;
        }
        (0..pages as usize).map(|i| self.slots[(self.next_slot + i) % self.slots.len()]).fold(at, Nanos::max)
    }

    /// Takes `pages` slots until `until`.
    pub(super) fn take_slots(&mut self, pages: u32, until: Nanos) {
        if self.waits() {
            return;
        }
        for _ in 0..pages {
            self.slots[self.next_slot] = until;
            self.next_slot = (self.next_slot + 1) % self.slots.len();
        }
    }

    /// When everything on its way is on the flash.
    pub(super) fn all_free(&self) -> Nanos {
        self.slots.iter().copied().max().unwrap_or_default()
    }
}
