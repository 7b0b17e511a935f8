//! The write buffer: pages that the host has written and the flash does not have yet.
//!
//! # Model
//! A page in the buffer is in one of two states. It is buffered: later writes to it change only the buffer. Or it is in
//! flight to the flash: it keeps a slot until it is programmed.
//! 1. A whole page leaves at once, or when the buffer is full: the policy decides.
//! 2. When the buffer is full, the oldest page leaves first, together with the buffered pages next to it in its flush group.
//! 3. A page of which only some sectors were written stays, until the other sectors come or the buffer is full.
//!
//! # Invariants
//! - the writes alone decide which pages are buffered, and times do not;
//! - the buffer accepts a write when the oldest slots that it needs are free.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::flash::LogicalPage;
use crate::layer::Pages;
use crate::profile::FlushPolicy;

/// The sectors of a page that are in the buffer, one bit each.
pub(super) type Sectors = u64;

/// Pages that leave the buffer for the flash, and whether their other sectors have to be read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) pages: Pages,
    pub(super) partial: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WriteBuffer {
    policy: FlushPolicy,
    /// How many pages may be buffered.
    most_buffered: usize,
    /// All sectors of a page.
    whole: Sectors,
    /// Pages that leave together lie in the same group of this many pages.
    flush_group: u32,
    /// By page: the sectors that were written.
    buffered: BTreeMap<u32, Sectors>,
    /// Pages in the order of their first write. Some of them have left the buffer.
    order: VecDeque<u32>,
    /// When each slot becomes free, as a ring.
    slots: Vec<Nanos>,
    next_slot: usize,
}

impl WriteBuffer {
    /// An empty buffer of `capacity` pages, of which at most `slots` are in flight.
    pub(super) fn new(
        policy: FlushPolicy,
        capacity: u32,
        slots: Option<u32>,
        whole: Sectors,
        flush_group: u32,
    ) -> WriteBuffer {
        let capacity = capacity.max(1) as usize;
        let slots = slots.map(|slots| slots as usize);
        // Buffered pages and pages in flight share the memory.
        let (most_buffered, slots) = match policy {
            FlushPolicy::Immediately => (capacity, slots.unwrap_or(capacity)),
            FlushPolicy::WhenFull => {
                let slots = slots.unwrap_or(capacity.div_ceil(2));
                (capacity.saturating_sub(slots).max(1), slots)
            }
        };
        WriteBuffer {
            policy,
            most_buffered,
            whole,
            flush_group,
            buffered: BTreeMap::new(),
            order: VecDeque::new(),
            slots: vec![Nanos::ZERO; slots],
            next_slot: 0,
        }
    }

    /// The most pages that leave at once: the number of slots.
    pub(super) fn largest_group(&self) -> u32 {
        if self.waits_for_flash() { u32::MAX } else { self.slots.len() as u32 }
    }

    /// Whether the host waits until what leaves is on the flash.
    pub(super) fn waits_for_flash(&self) -> bool {
        self.slots.is_empty()
    }

    /// The sectors of a page that are buffered; `None` when the page is not.
    pub(super) fn sectors(&self, page: LogicalPage) -> Option<Sectors> {
        if self.buffered.is_empty() { None } else { self.buffered.get(&page.0).copied() }
    }

    /// Whether whole pages bypass the buffer. The buffer then drops its older sectors of them.
    pub(super) fn lets_through(&mut self, pages: Pages) -> bool {
        if self.policy != FlushPolicy::Immediately {
            return false;
        }
        while let Some((&page, _)) = self.buffered.range(pages.first.0..pages.first.0 + pages.count).next() {
            self.buffered.remove(&page);
        }
        true
    }

    /// Puts sectors of a page into the buffer.
    pub(super) fn put(&mut self, page: LogicalPage, sectors: Sectors) {
        while self.order.front().is_some_and(|oldest| !self.buffered.contains_key(oldest)) {
            self.order.pop_front();
        }
        let buffered = self.buffered.entry(page.0).or_insert(0);
        if *buffered == 0 {
            self.order.push_back(page.0);
        }
        *buffered |= sectors;
    }

    /// Takes out the next run of pages that has to leave now, after a write to `page`.
    pub(super) fn take_due(&mut self, page: LogicalPage) -> Option<Leaving> {
        let whole = self.buffered.get(&page.0) == Some(&self.whole);
        if self.policy == FlushPolicy::Immediately && whole {
            self.buffered.remove(&page.0);
            return Some(Leaving { pages: Pages { first: page, count: 1 }, partial: false });
        }
        if self.buffered.len() > self.most_buffered { self.take_oldest() } else { None }
    }

    /// Takes out the oldest page with its neighbours.
    pub(super) fn take_oldest(&mut self) -> Option<Leaving> {
        let oldest = loop {
            let page = self.order.pop_front()?;
            if self.buffered.contains_key(&page) {
                break page;
            }
        };
        if self.buffered[&oldest] != self.whole {
            self.buffered.remove(&oldest);
            return Some(Leaving { pages: Pages { first: LogicalPage(oldest), count: 1 }, partial: true });
        }
        let group = oldest - oldest % self.flush_group;
        let is_whole = |page: &u32| self.buffered.get(page) == Some(&self.whole);
        let first = (group..oldest).rev().take_while(is_whole).last().unwrap_or(oldest);
        let last = (oldest + 1..group.saturating_add(self.flush_group))
            .take_while(is_whole)
            .last()
            .unwrap_or(oldest);
        let count = (last - first + 1).min(self.largest_group());
        for page in first..first + count {
            self.buffered.remove(&page);
        }
        // The oldest page may lie behind the largest group: then it leaves next.
        if self.buffered.contains_key(&oldest) {
            self.order.push_front(oldest);
        }
        Some(Leaving { pages: Pages { first: LogicalPage(first), count }, partial: false })
    }

    /// Whether this, read from outside bytes, is a state of `fresh` over a layer with `pages` pages.
    pub(super) fn is_like(&self, fresh: &WriteBuffer, pages: u32) -> bool {
        let options = |buffer: &WriteBuffer| {
            (buffer.policy, buffer.most_buffered, buffer.whole, buffer.flush_group, buffer.slots.len())
        };
        let ordered: BTreeSet<u32> = self.order.iter().copied().collect();
        options(self) == options(fresh)
            && self.buffered.iter().all(|(page, &sectors)| {
                *page < pages && sectors != 0 && sectors & !self.whole == 0 && ordered.contains(page)
            })
            && (self.next_slot < self.slots.len() || self.next_slot == 0)
    }

    /// Drops pages that were trimmed.
    pub(super) fn forget(&mut self, pages: Pages) {
        for page in pages.each() {
            self.buffered.remove(&page.0);
        }
    }

    /// Drops all pages, as when the power fails.
    pub(super) fn clear(&mut self) {
        self.buffered.clear();
        self.order.clear();
        self.restart();
    }

    /// Sets the time to zero, with all slots free.
    pub(super) fn restart(&mut self) {
        self.slots.fill(Nanos::ZERO);
    }

    /// When `pages` slots are free, not before `at`.
    pub(super) fn slots_free(&self, pages: u32, at: Nanos) -> Nanos {
        if self.waits_for_flash() {
            return at;
        }
        (0..pages as usize).map(|i| self.slots[(self.next_slot + i) % self.slots.len()]).fold(at, Nanos::max)
    }

    /// Takes `pages` slots until `until`.
    pub(super) fn take_slots(&mut self, pages: u32, until: Nanos) {
        if self.waits_for_flash() {
            return;
        }
        for _ in 0..pages {
            self.slots[self.next_slot] = until;
            self.next_slot = (self.next_slot + 1) % self.slots.len();
        }
    }

    /// When all pages in flight are on the flash.
    pub(super) fn all_free(&self) -> Nanos {
        self.slots.iter().copied().max().unwrap_or_default()
    }
}
