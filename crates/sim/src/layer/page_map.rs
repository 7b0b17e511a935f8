//! A page map: every logical page may lie anywhere.
//!
//! # Model
//! Pages are appended to open blocks, one for each die and stream. A page's old place becomes invalid. When a die
//! has too few free blocks, a victim's valid pages are appended to the open block of the collector (or of the
//! stream itself) on the same die and the victim is erased. Free blocks are taken with the fewest erases first
//! (dynamic wear levelling); when a block lags too far behind, its cold data moves (static wear levelling).
//!
//! # Invariants
//! - `map[l] = p` if and only if `p` is valid and `back[p] = l`;
//! - the valid pages of all blocks are the mapped logical pages;
//! - a die keeps one block free for its collector, so a collection that has begun ends;
//! - a victim without an invalid page would bring nothing: that is [`Exhausted`], not another turn.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flashlab_base::{Nanos, Seed};
use serde::{Deserialize, Serialize};

use super::victims::Victims;
use super::{Exhausted, Layer, Pages, Policy};
use crate::flash::{Cause, Flash, Geometry, LogicalPage, Place, Timing};

/// Where the next page is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Striping {
    /// On the die after that of the last write, row by row.
    #[default]
    WriteOrder,
    /// On the die that the logical page's number gives, so that pages that are written together elsewhere are not
    /// read at once.
    Static,
}

/// What a page map can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct PageMapOptions {
    /// How many logical pages there are.
    pub logical_pages: u32,
    /// Who is collected.
    pub policy: Policy,
    /// Where pages go.
    pub striping: Striping,
    /// How many streams the host may tell apart.
    pub streams: u16,
    /// The share of the blocks that each stream may use, if they are collected apart. Their sum is at most 1.
    pub shares: Option<Vec<f64>>,
    /// Whether the pages of victims go to open blocks of their own.
    pub collect_apart: bool,
    /// At how many free blocks a die collects before it opens another block.
    pub low_watermark: u32,
    /// How many free blocks a die makes while the host rests.
    pub high_watermark: u32,
    /// How many erases a block may lag behind the most worn one before its data moves; `None`: never.
    pub wear_spread: Option<u32>,
    /// For [`Policy::Choices`].
    pub seed: Seed,
}

const UNMAPPED: u32 = u32::MAX;
const NO_BLOCK: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Frontier {
    block: u32,
    page: u32,
}

/// The free blocks of a die, those with the fewest erases first.
type FreeBlocks = BinaryHeap<Reverse<(u32, u32)>>;

/// A page map.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageMap {
    map: Vec<u32>,
    back: Vec<u32>,
    valid: Vec<u64>,
    victims: Victims,
    /// By die and stream; behind the host's streams those of the collector.
    frontiers: Vec<Frontier>,
    free: Vec<FreeBlocks>,
    /// By pool: how many blocks it may use, and uses.
    quotas: Vec<(u32, u32)>,
    striping: Striping,
    next_die: u32,
    streams: u32,
    collect_apart: bool,
    apart: bool,
    low_watermark: u32,
    high_watermark: u32,
    wear_spread: Option<u32>,
    most_erased: u32,
    pages_per_block: u32,
    #[serde(skip)]
    moving: Vec<u32>,
}

impl PageMap {
    /// An empty map over erased flash.
    ///
    /// # Errors
    /// When the flash has too few blocks for the logical pages, the open blocks and the reserve.
    pub fn new(geometry: &Geometry, options: &PageMapOptions) -> Result<PageMap, Exhausted> {
        let (dies, blocks, pages) = (geometry.dies(), geometry.blocks(), geometry.pages_per_block());
        let streams = u32::from(options.streams.max(1));
        let usable = blocks - geometry.fast_blocks();
        let open = streams * if options.collect_apart { 2 } else { 1 };
        let needed = options.logical_pages.div_ceil(pages) + dies * (open + options.low_watermark.max(1));
        if usable < needed {
            let reason = format!(
                "{usable} blocks of {pages} pages do not hold {} logical pages, {open} open blocks for each of {dies} dies and \
                 {} in reserve for each: at least {needed} are needed",
                options.logical_pages,
                options.low_watermark.max(1),
            );
            return Err(Exhausted { reason });
        }
        let apart = options.shares.is_some();
        let pools = if apart { dies * streams } else { dies };
        let mut free = vec![FreeBlocks::new(); dies as usize];
        for block in geometry.fast_blocks()..blocks {
            free[geometry.die(block) as usize].push(Reverse((0, block)));
        }
        let per_die = f64::from(usable / dies - options.low_watermark.max(1));
        let quotas = (0..pools)
            .map(|pool| match &options.shares {
                Some(shares) => ((shares[(pool % streams) as usize] * per_die).round() as u32, 0),
                None => (u32::MAX, 0),
            })
            .collect();
        let physical = geometry.pages() as usize;
        Ok(PageMap {
            map: vec![UNMAPPED; options.logical_pages as usize],
            back: vec![UNMAPPED; physical],
            valid: vec![0; physical.div_ceil(64)],
            victims: Victims::new(options.policy, blocks, pages, pools, options.seed),
            frontiers: vec![Frontier { block: NO_BLOCK, page: pages }; (dies * open) as usize],
            free,
            quotas,
            striping: options.striping,
            next_die: 0,
            streams,
            collect_apart: options.collect_apart,
            apart,
            low_watermark: options.low_watermark.max(1),
            high_watermark: options.high_watermark,
            wear_spread: options.wear_spread,
            most_erased: 0,
            pages_per_block: pages,
            moving: Vec::with_capacity(pages as usize),
        })
    }

    /// Loads what a write of `page` will need into the processor's cache. Changes nothing; the returned number
    /// is to be used, or the compiler removes the load.
    #[inline]
    pub fn touch(&self, page: LogicalPage) -> u32 {
        let old = self.map[page.0 as usize];
        if old == UNMAPPED { 0 } else { old ^ self.valid[old as usize / 64] as u32 }
    }

    /// How many blocks of a die are free.
    pub fn free_blocks(&self, die: u32) -> usize {
        self.free[die as usize].len()
    }

    fn frontier_index(&self, die: u32, stream: u32, collector: bool) -> usize {
        let per_die = if self.collect_apart { 2 * self.streams } else { self.streams };
        let offset = if collector && self.collect_apart { self.streams } else { 0 };
        (die * per_die + offset + stream) as usize
    }

    fn pool(&self, die: u32, stream: u32) -> u32 {
        if self.apart { die * self.streams + stream } else { die }
    }

    /// Makes sure that the open block at `index` has a page left, collecting if the die has too few free blocks.
    #[cold]
    fn make_room<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        die: u32,
        stream: u32,
        index: usize,
        at: Nanos,
    ) -> Result<(), Exhausted> {
        let pool = self.pool(die, stream) as usize;
        let mut turns = 0;
        while self.frontiers[index].page == self.pages_per_block {
            let (quota, used) = self.quotas[pool];
            if self.free[die as usize].len() > self.low_watermark as usize && used < quota {
                self.open_block(flash, die, stream, index);
                return Ok(());
            }
            self.collect(flash, die, pool as u32, at)?;
            turns += 1;
            if turns > 2 * flash.geometry().blocks() {
                let reason = format!("die {die} gains no free block by collecting: it has no space to spare");
                return Err(Exhausted { reason });
            }
        }
        Ok(())
    }

    /// Closes the full block at `index` and opens a free one. The die has one.
    fn open_block<T: Timing>(&mut self, flash: &mut Flash<T>, die: u32, stream: u32, index: usize) {
        let pool = self.pool(die, stream);
        let full = self.frontiers[index].block;
        if full != NO_BLOCK {
            self.victims.close(full, pool);
        }
        let Reverse((_, block)) = self.free[die as usize].pop().expect("the die has a free block");
        debug_assert_eq!(flash.blocks()[block as usize].written, 0);
        self.quotas[pool as usize].1 += 1;
        self.frontiers[index] = Frontier { block, page: 0 };
    }

    /// Collects the pool's next victim.
    fn collect<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        die: u32,
        pool: u32,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let exhausted = |what: &str| {
            let reason = format!("die {die} has no free block and {what}: it has no space to spare");
            Err(Exhausted { reason })
        };
        let Some(victim) = self.victims.take(pool) else {
            return exhausted("none that could be collected");
        };
        if self.victims.valid(victim) == self.pages_per_block && !self.frees_by_order() {
            self.victims.close(victim, pool);
            return exhausted("every closed block holds nothing but valid pages");
        }
        let stream = if self.apart { pool % self.streams } else { 0 };
        let end = self.evacuate(flash, victim, die, stream, Cause::Reclaim, at);
        Ok(self.level_wear(flash, victim, die, end))
    }

    /// First in, first out and random choices may take a full block and gain from the next one.
    fn frees_by_order(&self) -> bool {
        matches!(self.victims.policy(), Policy::Fifo | Policy::Choices(_))
    }

    /// Moves the valid pages of a block that is in no pool to the collector's open block, and erases it.
    fn evacuate<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        victim: u32,
        die: u32,
        stream: u32,
        cause: Cause,
        at: Nanos,
    ) -> Nanos {
        let first = victim * self.pages_per_block;
        let mut moving = std::mem::take(&mut self.moving);
        moving.clear();
        for_each_set(&self.valid, first, self.pages_per_block, |page| moving.push(page));
        // The map's entries lie far apart: loading them all first lets the processor overlap the misses.
        let touched = moving.iter().fold(0, |sum, &page| sum ^ self.map[self.back[page as usize] as usize]);
        std::hint::black_box(touched);

        let index = self.frontier_index(die, stream, true);
        let (mut end, mut done) = (at, 0);
        while done < moving.len() {
            if self.frontiers[index].page == self.pages_per_block {
                self.open_block(flash, die, stream, index);
            }
            let frontier = self.frontiers[index];
            let room = (self.pages_per_block - frontier.page) as usize;
            let part = &moving[done..(done + room).min(moving.len())];
            let target = frontier.block * self.pages_per_block + frontier.page;
            for (i, &from) in part.iter().enumerate() {
                let to = target + i as u32;
                let logical = self.back[from as usize];
                self.map[logical as usize] = to;
                self.back[to as usize] = logical;
                let source = Place { block: victim, page: from - first };
                flash.relocate(source, Place { block: frontier.block, page: frontier.page + i as u32 });
            }
            let count = part.len() as u32;
            set_bits(&mut self.valid, target, count);
            self.victims.add(frontier.block, count);
            let place = Place { block: frontier.block, page: frontier.page };
            end = flash.moved(victim, place, count, cause, end);
            self.frontiers[index].page += count;
            done += part.len();
        }
        self.moving = moving;
        self.free_block(flash, victim, die, stream, cause, end)
    }

    /// Erases a block without valid pages that is in no pool.
    fn free_block<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        block: u32,
        die: u32,
        stream: u32,
        cause: Cause,
        at: Nanos,
    ) -> Nanos {
        clear_bits(&mut self.valid, block * self.pages_per_block, self.pages_per_block);
        self.victims.empty(block);
        let end = flash.erase(block, cause, at);
        let erases = flash.blocks()[block as usize].erases;
        self.most_erased = self.most_erased.max(erases);
        self.free[die as usize].push(Reverse((erases, block)));
        let pool = self.pool(die, stream) as usize;
        self.quotas[pool].1 -= 1;
        end
    }

    /// Moves the data of the closed block of the die with the fewest erases, if it lags too far behind.
    fn level_wear<T: Timing>(&mut self, flash: &mut Flash<T>, erased: u32, die: u32, at: Nanos) -> Nanos {
        let Some(spread) = self.wear_spread else { return at };
        // Looking at every block after every erase would cost more than the erase.
        if !flash.blocks()[erased as usize].erases.is_multiple_of(spread.max(2) / 2) {
            return at;
        }
        let dies = flash.geometry().dies();
        let candidates = (die..flash.geometry().blocks()).step_by(dies as usize);
        let coldest = candidates
            .filter(|&block| self.victims.is_closed(block))
            .min_by_key(|&block| (flash.blocks()[block as usize].erases, block));
        match coldest {
            Some(block) if flash.blocks()[block as usize].erases + spread < self.most_erased => {
                let pool = self.victims.pool(block);
                self.victims.open(block);
                let stream = if self.apart { pool % self.streams } else { 0 };
                self.evacuate(flash, block, die, stream, Cause::WearLevelling, at)
            }
            _ => at,
        }
    }

    #[inline]
    fn invalidate<T: Timing>(&mut self, flash: &Flash<T>, physical: u32) {
        self.valid[physical as usize / 64] &= !(1 << (physical % 64));
        self.victims.remove(flash.geometry().place(physical).block);
    }

    /// The die that takes the next pages of a run, and how many of them.
    #[inline]
    fn choose_die(&mut self, geometry: &Geometry, page: LogicalPage, count: u32, stream: u32) -> (u32, u32) {
        let (dies, row) = (geometry.dies(), geometry.planes());
        if dies == 1 {
            return (0, count);
        }
        match self.striping {
            Striping::Static => {
                let (stripe, within) = geometry.row(page.0);
                (geometry.die(stripe), count.min(row - within))
            }
            Striping::WriteOrder => {
                let die = self.next_die;
                let index = self.frontier_index(die, stream, false);
                let page = self.frontiers[index].page % self.pages_per_block;
                let left = if row == 1 { 1 } else { row - page % row };
                if count >= left {
                    self.next_die = if die + 1 == dies { 0 } else { die + 1 };
                }
                (die, count.min(left))
            }
        }
    }
}

impl Layer for PageMap {
    fn pages(&self) -> u32 {
        self.map.len() as u32
    }

    #[inline]
    fn holds(&self, page: LogicalPage) -> bool {
        self.map[page.0 as usize] != UNMAPPED
    }

    #[inline]
    fn write<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let stream = u32::from(stream).min(self.streams - 1);
        let (mut page, mut left, mut end) = (pages.first.0, pages.count, at);
        while left > 0 {
            let (die, wanted) = self.choose_die(flash.geometry(), LogicalPage(page), left, stream);
            let index = self.frontier_index(die, stream, false);
            if self.frontiers[index].page == self.pages_per_block {
                self.make_room(flash, die, stream, index, at)?;
            }
            let Frontier { block, page: place } = self.frontiers[index];
            let count = wanted.min(self.pages_per_block - place);
            let first = block * self.pages_per_block + place;
            for i in 0..count {
                let old = std::mem::replace(&mut self.map[(page + i) as usize], first + i);
                if old != UNMAPPED {
                    self.invalidate(flash, old);
                }
                self.back[(first + i) as usize] = page + i;
            }
            set_bits(&mut self.valid, first, count);
            self.victims.add(block, count);
            self.frontiers[index].page += count;
            let place = Place { block, page: place };
            end = end.max(flash.program(place, LogicalPage(page), count, Cause::Host, at));
            page += count;
            left -= count;
        }
        Ok(end)
    }

    #[inline]
    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
        let (mut page, last) = (pages.first.0, pages.first.0 + pages.count);
        let mut end = at;
        while page < last {
            let physical = self.map[page as usize];
            if physical == UNMAPPED {
                page += 1;
                continue;
            }
            let place = flash.geometry().place(physical);
            let in_block = self.pages_per_block - place.page;
            let run = (1..(last - page).min(in_block))
                .take_while(|&i| self.map[(page + i) as usize] == physical + i)
                .count() as u32
                + 1;
            end = end.max(flash.read(place, LogicalPage(page), run, Cause::Host, at));
            page += run;
        }
        end
    }

    fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        for page in pages.each() {
            let old = std::mem::replace(&mut self.map[page.0 as usize], UNMAPPED);
            if old != UNMAPPED {
                self.invalidate(flash, old);
            }
        }
    }

    fn rest<T: Timing>(&mut self, flash: &mut Flash<T>, from: Nanos, until: Nanos) {
        for die in 0..flash.geometry().dies() {
            let mut now = from;
            while now < until && self.free[die as usize].len() < self.high_watermark as usize {
                let pool = self.pool(die, 0);
                let Ok(end) = self.collect(flash, die, pool, now) else { break };
                if end <= now {
                    break;
                }
                now = end;
            }
        }
    }
}

/// Calls `each` with the number of every set bit among `count` bits from `first` on.
#[inline]
fn for_each_set(bits: &[u64], first: u32, count: u32, mut each: impl FnMut(u32)) {
    let (mut at, end) = (first, first + count);
    while at < end {
        let (word, bit) = (at / 64, at % 64);
        let here = (64 - bit).min(end - at);
        let mut set = (bits[word as usize] >> bit) & mask(here);
        while set != 0 {
            each(at + set.trailing_zeros());
            set &= set - 1;
        }
        at += here;
    }
}

#[inline]
fn set_bits(bits: &mut [u64], first: u32, count: u32) {
    change_bits(first, count, |word, mask| bits[word] |= mask);
}

#[inline]
fn clear_bits(bits: &mut [u64], first: u32, count: u32) {
    change_bits(first, count, |word, mask| bits[word] &= !mask);
}

#[inline]
fn change_bits(first: u32, count: u32, mut change: impl FnMut(usize, u64)) {
    let (mut at, end) = (first, first + count);
    while at < end {
        let bit = at % 64;
        let here = (64 - bit).min(end - at);
        change(at as usize / 64, mask(here) << bit);
        at += here;
    }
}

#[inline]
fn mask(bits: u32) -> u64 {
    if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
}
