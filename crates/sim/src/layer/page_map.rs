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

pub(super) mod bits;
mod collect;
mod options;
mod restore;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use super::victims::Victims;
use super::{Exhausted, Layer, Pages};
use crate::flash::{Cause, Flash, Geometry, LogicalPage, Place, Timing};
use bits::set_bits;

pub use options::{PageMapOptions, Striping};

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
        options.check(geometry)?;
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
    fn touch(&self, page: LogicalPage) -> u32 {
        let old = self.map[page.0 as usize];
        if old == UNMAPPED { 0 } else { self.valid[old as usize / 64] as u32 }
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
