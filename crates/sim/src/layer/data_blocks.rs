//! What the block-mapped layers share: logical blocks, where their data lies, and which blocks are free.
//!
//! # Model
//! The logical pages go to the dies round-robin, `stripe_pages` pages at a time. The pages of a die, in their order, are
//! divided into logical blocks of the size of an erase block. A logical block has at most one data block. The data block
//! lies on the same die, and its page `i` holds the logical page at offset `i`, or nothing. A page is *held* if it was
//! written and not trimmed since. The layer that uses this module keeps newer copies of pages in its logs.
//!
//! # Invariants
//! - a logical block has a data block while any of its pages is held;
//! - a block is erased when it becomes free, and the free block with the fewest erases is taken first;
//! - a block that failed is not used any more.

mod space;

use std::ops::Range;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use super::contract::{Exhausted, Pages};
use super::options::ensure;
use crate::flash::{Cause, Die, EraseBlock, Flash, FlashGeometry, LogicalPage, PageAddress, Timing, numbers};
use crate::layer::bits::{clear_bits, set_bits};
use crate::layer::free_blocks::FreeBlocks;

pub(super) use space::Space;

numbers! {
    /// A block's worth of the host's pages, by its number.
    pub(super) LogicalBlock,
    /// A log block, by its place in its layer's list of logs.
    pub(super) LogIndex,
}

impl LogicalBlock {
    /// No block, in tables where an `Option` would take twice the memory.
    pub(super) const NONE: LogicalBlock = LogicalBlock(u32::MAX);
}

impl LogIndex {
    /// No log, as [`LogicalBlock::NONE`].
    pub(super) const NONE: LogIndex = LogIndex(u32::MAX);
}

/// A run of logical pages within one logical block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The first page.
    pub logical: LogicalPage,
    /// The logical block that it lies in.
    pub block: LogicalBlock,
    /// The first page's offset in the logical block.
    pub offset: u32,
    /// The number of pages.
    pub pages: u32,
}

impl Part {
    /// The part without its first `pages` pages.
    pub(super) fn after(self, pages: u32) -> Part {
        let logical = self.logical + pages;
        Part { logical, offset: self.offset + pages, pages: self.pages - pages, ..self }
    }
}

/// Logical blocks and free blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DataBlocks {
    logical_pages: u32,
    stripe_pages: u32,
    dies: u32,
    pages_per_block: u32,
    /// By logical block.
    data: Vec<EraseBlock>,
    /// By logical block and offset, a bit each.
    held: Vec<u64>,
    /// By die.
    free: Vec<FreeBlocks>,
}

impl DataBlocks {
    /// Over erased flash, which passed [`Space::check`].
    pub(super) fn new(geometry: &FlashGeometry, space: Space) -> DataBlocks {
        let (dies, pages_per_block) = (geometry.dies(), geometry.pages_per_block());
        let Space { logical_pages, stripe_pages, .. } = space;
        let blocks = space.logical_blocks(geometry);
        let held = (blocks * pages_per_block).div_ceil(64);
        DataBlocks {
            logical_pages,
            stripe_pages,
            dies,
            pages_per_block,
            data: vec![EraseBlock::NONE; blocks as usize],
            held: vec![0; held as usize],
            free: space.free_blocks(geometry),
        }
    }

    pub(super) fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    #[inline]
    pub(super) fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// The number of logical blocks.
    pub(super) fn len(&self) -> u32 {
        self.data.len() as u32
    }

    /// The logical blocks.
    fn all(&self) -> impl Iterator<Item = LogicalBlock> + use<> {
        (0..self.len()).map(LogicalBlock)
    }

    /// The die that a logical block lies on.
    #[inline]
    pub(super) fn die(&self, block: LogicalBlock) -> Die {
        Die(block.0 % self.dies)
    }

    /// The longest part that begins with a page.
    #[inline]
    pub(super) fn locate(&self, page: LogicalPage) -> Part {
        let LogicalPage(page) = page;
        let (stripe, within) = (page / self.stripe_pages, page % self.stripe_pages);
        let on_die = stripe / self.dies * self.stripe_pages + within;
        let offset = on_die % self.pages_per_block;
        let block = LogicalBlock(on_die / self.pages_per_block * self.dies + stripe % self.dies);
        let pages = (self.stripe_pages - within).min(self.pages_per_block - offset);
        Part { logical: LogicalPage(page), block, offset, pages }
    }

    /// Takes the longest part off the beginning of `rest`; `None` if `rest` is empty.
    #[inline]
    pub(super) fn next_part(&self, rest: &mut Pages) -> Option<Part> {
        if rest.count == 0 {
            return None;
        }
        let part = self.locate(rest.first);
        let part = Part { pages: part.pages.min(rest.count), ..part };
        *rest = Pages { first: rest.first + part.pages, count: rest.count - part.pages };
        Some(part)
    }

    #[inline]
    fn bit(&self, block: LogicalBlock, offset: u32) -> (usize, u32) {
        let index = block.index() * self.pages_per_block as usize + offset as usize;
        (index / 64, (index % 64) as u32)
    }

    #[inline]
    pub(super) fn holds(&self, block: LogicalBlock, offset: u32) -> bool {
        let (word, bit) = self.bit(block, offset);
        self.held[word] >> bit & 1 == 1
    }

    /// The first of these offsets that is held (or, with `held` false, that is not), or their end.
    #[inline]
    fn find(&self, block: LogicalBlock, offsets: Range<u32>, held: bool) -> u32 {
        let mut offset = offsets.start;
        while offset < offsets.end {
            let (word, bit) = self.bit(block, offset);
            let bits = if held { self.held[word] } else { !self.held[word] } >> bit;
            if bits != 0 {
                return (offset + bits.trailing_zeros()).min(offsets.end);
            }
            offset += 64 - bit;
        }
        offsets.end
    }

    /// Whether any page of a logical block is held.
    pub(super) fn holds_any(&self, block: LogicalBlock) -> bool {
        self.find(block, 0..self.pages_per_block, true) < self.pages_per_block
    }

    #[inline]
    pub(super) fn set_held(&mut self, part: Part, held: bool) {
        let change = if held { set_bits } else { clear_bits };
        change(&mut self.held, part.block.0 * self.pages_per_block + part.offset, part.pages);
    }

    /// The data block of a logical block, or [`EraseBlock::NONE`].
    #[inline]
    pub(super) fn data(&self, block: LogicalBlock) -> EraseBlock {
        self.data[block.index()]
    }

    /// Takes a free block of a die.
    pub(super) fn take(&mut self, die: Die) -> Result<EraseBlock, Exhausted> {
        match self.free[die.index()].take() {
            Some(block) => Ok(block),
            None => {
                let reason = format!("die {die} has no spare block left, so what needs one can only be read");
                Err(Exhausted { reason })
            }
        }
    }

    /// Erases a block and makes it free, unless it fails. With [`EraseBlock::NONE`] there is nothing to do.
    pub(super) fn release<T: Timing>(&mut self, flash: &mut Flash<T>, block: EraseBlock, at: Nanos) -> Nanos {
        if block == EraseBlock::NONE {
            return at;
        }
        let end = flash.erase(block, Cause::Reclaim, at);
        if !flash.failed(block) {
            self.free[flash.geometry().die(block).index()].insert(block, flash.block(block).erases);
        }
        end
    }

    /// Makes `data` the data block of a logical block, and frees the old one. With [`EraseBlock::NONE`] the logical block
    /// has no data block any more.
    pub(super) fn replace<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        block: LogicalBlock,
        data: EraseBlock,
        at: Nanos,
    ) -> Nanos {
        let old = std::mem::replace(&mut self.data[block.index()], data);
        self.release(flash, old, at)
    }

    /// Whether the page at `offset` can be written to the data block, because no page from there on is programmed.
    #[inline]
    pub(super) fn has_room<T: Timing>(&self, flash: &Flash<T>, block: LogicalBlock, offset: u32) -> bool {
        let data = self.data(block);
        data == EraseBlock::NONE || offset >= flash.block(data).written
    }

    /// Writes a part to the data block, for which [`DataBlocks::has_room`].
    pub(super) fn write<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        part: Part,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        if self.data(part.block) == EraseBlock::NONE {
            self.data[part.block.index()] = self.take(self.die(part.block))?;
        }
        let data = self.data(part.block);
        skip_to(flash, data, part.offset);
        self.set_held(part, true);
        let place = PageAddress { block: data, page: part.offset };
        Ok(flash.program(place, part.logical, part.pages, Cause::Host, at))
    }

    /// Copies the held pages at these offsets of a logical block to the same offsets of `target`, of which no page from
    /// the first offset on is programmed. `place` is where the newest copy of a held page lies. Returns the number of copied
    /// pages, and when the copy is complete.
    #[inline]
    pub(super) fn copy<T: Timing>(
        &self,
        flash: &mut Flash<T>,
        block: LogicalBlock,
        target: EraseBlock,
        offsets: Range<u32>,
        place: impl Fn(u32) -> PageAddress,
        at: Nanos,
    ) -> (u32, Nanos) {
        let (mut end, mut copied) = (at, 0);
        let mut offset = self.find(block, offsets.clone(), true);
        while offset < offsets.end {
            skip_to(flash, target, offset);
            let stop = self.find(block, offset..offsets.end, false);
            let (first, source) = (offset, place(offset).block);
            while offset < stop {
                let from = place(offset);
                if from.block != source {
                    break;
                }
                flash.relocate(from, PageAddress { block: target, page: offset });
                offset += 1;
            }
            let pages = offset - first;
            end = flash.copy_pages(
                source,
                PageAddress { block: target, page: first },
                pages,
                Cause::Reclaim,
                end,
            );
            copied += pages;
            offset = self.find(block, offset..offsets.end, true);
        }
        (copied, end)
    }

    /// Reads the held ones of these pages, not before `at`, in runs. `place` is where the newest copy of a page lies.
    #[inline]
    pub(super) fn read<T: Timing>(
        &self,
        flash: &mut Flash<T>,
        pages: Pages,
        place: impl Fn(LogicalBlock, u32) -> PageAddress,
        at: Nanos,
    ) -> Nanos {
        let (mut rest, mut end) = (pages, at);
        while let Some(part) = self.next_part(&mut rest) {
            let last = part.offset + part.pages;
            let mut offset = self.find(part.block, part.offset..last, true);
            while offset < last {
                let stop = self.find(part.block, offset..last, false);
                let first = place(part.block, offset);
                let run = (1..stop - offset)
                    .find(|&i| place(part.block, offset + i) != PageAddress { page: first.page + i, ..first })
                    .unwrap_or(stop - offset);
                let logical = part.logical + (offset - part.offset);
                end = end.max(flash.read(first, logical, run, Cause::Host, at));
                offset = self.find(part.block, offset + run..last, true);
            }
        }
        end
    }

    /// Whether this, read from outside bytes, has the sizes that `space` gives over an array.
    pub(super) fn fits(&self, geometry: &FlashGeometry, space: Space) -> bool {
        let blocks = space.logical_blocks(geometry);
        let numbers = (self.logical_pages, self.stripe_pages, self.dies, self.pages_per_block);
        numbers == (space.logical_pages, space.stripe_pages, geometry.dies(), geometry.pages_per_block())
            && self.data.len() == blocks as usize
            && self.held.len() == (blocks * geometry.pages_per_block()).div_ceil(64) as usize
            && self.free.len() == geometry.dies() as usize
    }

    /// Checks the invariants. `logs` are the blocks that the layer uses as logs, and `place` is where the newest copy of a
    /// held page lies.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub(super) fn verify<T: Timing>(
        &self,
        flash: &Flash<T>,
        logs: impl Iterator<Item = EraseBlock>,
        place: impl Fn(LogicalBlock, u32) -> PageAddress,
    ) -> Result<(), String> {
        let written = |block: EraseBlock| flash.blocks().get(block.index()).map(|block| block.written);
        let geometry = flash.geometry();
        for (die, free) in (0..).map(Die).zip(&self.free) {
            for (block, erases) in free.iter() {
                let state = flash.blocks().get(block.index());
                let right = state.is_some_and(|state| (state.written, state.erases) == (0, erases));
                ensure(right && geometry.die(block) == die, || {
                    format!("the free block {block} of die {die} is {state:?}")
                })?;
            }
        }
        for (block, &data) in self.all().zip(&self.data).filter(|&(_, &data)| data != EraseBlock::NONE) {
            let right = geometry.die(data) == self.die(block);
            ensure(right, || format!("the data of logical block {block} lie in {data}, on another die"))?;
        }
        let free = self.free.iter().flat_map(FreeBlocks::iter).map(|(block, _)| block);
        let data = self.data.iter().copied().filter(|&block| block != EraseBlock::NONE);
        let mut all: Vec<EraseBlock> = free.chain(data).chain(logs).collect();
        all.sort_unstable();
        let usable = flash.geometry().main_blocks();
        ensure(usable.filter(|&block| !flash.failed(block)).eq(all.iter().copied()), || {
            format!("a block is not one of free, data and log block: {all:?}")
        })?;
        let mut places = Vec::new();
        for block in self.all() {
            let held = (0..self.pages_per_block).filter(|&offset| self.holds(block, offset));
            places.clear();
            places.extend(held.map(|offset| place(block, offset)));
            ensure((self.data(block) == EraseBlock::NONE) == places.is_empty(), || {
                format!("{} pages are held of logical block {block} in {}", places.len(), self.data(block))
            })?;
            for place in &places {
                let there = written(place.block).is_some_and(|written| place.page < written);
                ensure(there && flash.geometry().die(place.block) == self.die(block), || {
                    format!("a page of the logical block {block} lies in {place:?}")
                })?;
            }
            let held = places.len();
            places.sort_unstable_by_key(|place| (place.block, place.page));
            places.dedup();
            ensure(places.len() == held, || format!("pages of logical block {block} lie in one place"))?;
        }
        Ok(())
    }
}

/// Skips the pages of a block before `page`, so that `page` can be programmed next.
#[inline]
pub(super) fn skip_to<T: Timing>(flash: &mut Flash<T>, block: EraseBlock, page: u32) {
    let written = flash.block(block).written;
    if written < page {
        flash.skip(PageAddress { block, page: written }, page - written);
    }
}
