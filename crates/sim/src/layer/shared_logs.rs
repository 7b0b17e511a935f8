//! Log blocks shared by all data blocks: FAST (Lee et al., "A log buffer-based flash translation layer using fully
//! associative sector translation", ACM TECS 6(3), 2007).
//!
//! # Model
//! A die has one sequential log block and a ring of random log blocks.
//! 1. A write to the first page of a logical block allocates the sequential log, and writes that continue it go there.
//! 2. When another logical block needs the sequential log, it becomes the data block (switch merge). If pages are
//!    missing, they are copied to it first (partial merge).
//! 3. Any other page that can no longer be written to its data block is appended to the newest random log, whatever its
//!    logical block is.
//! 4. When the ring is full, the oldest random log is reclaimed, or a batch of them. Each logical block with newest pages
//!    in it is merged as a whole (full merge). So one write may cost a merge for each page of a log.
//!
//! # Invariants
//! - `newest` of a held page is its place in a log, or [`PhysicalPage::NONE`] if it lies in the data block;
//! - a sequential log holds the pages of its logical block from the first on, and all are the newest unless it is `stale`.

mod options;
mod verify;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::flash::{
    Cause, Die, EraseBlock, Flash, FlashGeometry, LogicalPage, PageAddress, PhysicalPage, Timing, numbers,
};
use crate::layer::contract::{Exhausted, Layer, Pages};
use crate::layer::data_blocks::{DataBlocks, LogIndex, LogicalBlock, Part};
use crate::layer::options::OptionsError;

pub use options::SharedLogsOptions;

numbers! {
    /// A page of a logical block, counted over all logical blocks.
    BlockPage,
}

/// The sequential log of a die.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Sequential {
    /// The logical block that it belongs to, or none.
    owner: LogicalBlock,
    block: EraseBlock,
    written: u32,
    /// Whether a newer copy of one of its pages lies outside it.
    stale: bool,
}

const UNUSED: Sequential =
    Sequential { owner: LogicalBlock::NONE, block: EraseBlock::NONE, written: 0, stale: false };

/// In the list of a random log: nothing was written to the page.
const NO_OWNER: BlockPage = BlockPage(u32::MAX);

/// The random logs of a die, as a ring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ring {
    /// Their blocks, or none.
    blocks: Vec<EraseBlock>,
    /// By log and page: which page was written there.
    owners: Vec<BlockPage>,
    /// The one that is written to.
    current: LogIndex,
    /// How many pages of it are written.
    written: u32,
}

/// A layer whose log blocks are shared by all data blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedLogs {
    blocks: DataBlocks,
    /// By [`BlockPage`]: the page of the array that holds the newest copy in a log.
    newest: Vec<PhysicalPage>,
    /// By die.
    sequential: Vec<Sequential>,
    /// By die.
    rings: Vec<Ring>,
    reclaim_batch: u32,
}

impl SharedLogs {
    /// Erased flash.
    ///
    /// # Errors
    /// Names an option that leaves too few blocks for logs and merges.
    pub fn new(geometry: &FlashGeometry, options: &SharedLogsOptions) -> Result<SharedLogs, OptionsError> {
        options.check(geometry)?;
        let blocks = DataBlocks::new(geometry, options.space());
        let logs = options.logs;
        let pages = geometry.pages_per_block();
        let ring = Ring {
            blocks: vec![EraseBlock::NONE; logs as usize],
            owners: vec![NO_OWNER; logs as usize * pages as usize],
            current: LogIndex(0),
            written: pages,
        };
        Ok(SharedLogs {
            newest: vec![PhysicalPage::NONE; blocks.len() as usize * pages as usize],
            sequential: vec![UNUSED; geometry.dies() as usize],
            rings: vec![ring; geometry.dies() as usize],
            reclaim_batch: options.reclaim_batch,
            blocks,
        })
    }

    #[inline]
    fn block_page(&self, block: LogicalBlock, offset: u32) -> BlockPage {
        BlockPage(block.0 * self.blocks.pages_per_block() + offset)
    }

    /// Where the newest copy of a held page lies.
    #[inline]
    fn place(&self, geometry: &FlashGeometry, block: LogicalBlock, offset: u32) -> PageAddress {
        match self.newest[self.block_page(block, offset).index()] {
            PhysicalPage::NONE => PageAddress { block: self.blocks.data(block), page: offset },
            page => geometry.place(page),
        }
    }

    /// The newest copies of a part lie from `first` on, or in the data block if that is no page.
    fn set_newest(&mut self, part: Part, first: PhysicalPage) {
        let index = self.block_page(part.block, part.offset).index();
        for (i, entry) in (0..).zip(&mut self.newest[index..index + part.pages as usize]) {
            *entry = if first == PhysicalPage::NONE { first } else { first + i };
        }
    }

    fn write_part<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        part: Part,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let die = self.blocks.die(part.block);
        let Sequential { owner, written, .. } = self.sequential[die.index()];
        if owner == part.block && written == part.offset {
            return self.append_sequential(flash, part, at);
        }
        if self.blocks.has_room(flash, part.block, part.offset) {
            let end = self.blocks.write(flash, part, at)?;
            self.outdate_sequential(part);
            self.set_newest(part, PhysicalPage::NONE);
            return Ok(end);
        }
        if part.offset == 0 {
            if owner != LogicalBlock::NONE {
                self.merge_sequential(flash, die, at)?;
            }
            let block = self.blocks.take(die)?;
            self.sequential[die.index()] = Sequential { owner: part.block, block, ..UNUSED };
            return self.append_sequential(flash, part, at);
        }
        self.append_random(flash, part, at)
    }

    /// A part is written, but not to the sequential log, which becomes stale if it has pages of the part.
    fn outdate_sequential(&mut self, part: Part) {
        let log = &mut self.sequential[self.blocks.die(part.block).index()];
        log.stale |= log.owner == part.block && part.offset < log.written;
    }

    /// Writes a part to the sequential log that it continues.
    fn append_sequential<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        part: Part,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let die = self.blocks.die(part.block);
        let place = PageAddress { block: self.sequential[die.index()].block, page: part.offset };
        self.sequential[die.index()].written += part.pages;
        self.set_newest(part, flash.geometry().physical(place));
        self.blocks.set_held(part, true);
        let end = flash.program(place, part.logical, part.pages, Cause::Host, at);
        if self.sequential[die.index()].written == self.blocks.pages_per_block() {
            self.merge_sequential(flash, die, at)?;
        }
        Ok(end)
    }

    /// Appends a part to the newest random logs.
    fn append_random<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        part: Part,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let (mut part, mut end) = (part, at);
        let die = self.blocks.die(part.block);
        let all = self.blocks.pages_per_block();
        while part.pages > 0 {
            if self.rings[die.index()].written == all {
                self.allocate_random(flash, die, at)?;
                if self.blocks.has_room(flash, part.block, part.offset) {
                    return Ok(end.max(self.write_part(flash, part, at)?));
                }
            }
            let index = self.block_page(part.block, part.offset);
            let ring = &mut self.rings[die.index()];
            let pages = part.pages.min(all - ring.written);
            let place = PageAddress { block: ring.blocks[ring.current.index()], page: ring.written };
            let first = (ring.current.0 * all + ring.written) as usize;
            for (owner, entry) in
                (index.0..).map(BlockPage).zip(&mut ring.owners[first..first + pages as usize])
            {
                *entry = owner;
            }
            ring.written += pages;
            let now = Part { pages, ..part };
            self.outdate_sequential(now);
            self.set_newest(now, flash.geometry().physical(place));
            self.blocks.set_held(now, true);
            end = end.max(flash.program(place, part.logical, pages, Cause::Host, at));
            part = part.after(pages);
        }
        Ok(end)
    }

    /// Allocates the next random log of a die. If all are in use, reclaims a batch of the oldest, as deferred work.
    fn allocate_random<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        die: Die,
        at: Nanos,
    ) -> Result<(), Exhausted> {
        let ring = &self.rings[die.index()];
        let logs = ring.blocks.len() as u32;
        let next = LogIndex((ring.current.0 + 1) % logs);
        if ring.blocks[next.index()] != EraseBlock::NONE {
            for log in (next.0..next.0 + self.reclaim_batch).map(|log| LogIndex(log % logs)) {
                flash.defer(die, |flash| self.reclaim(flash, die, log, at))?;
            }
        }
        let block = self.blocks.take(die)?;
        let ring = &mut self.rings[die.index()];
        ring.blocks[next.index()] = block;
        (ring.current, ring.written) = (next, 0);
        Ok(())
    }

    /// Merges every logical block that has its newest pages in a random log, and erases the log.
    #[inline(never)]
    fn reclaim<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        die: Die,
        log: LogIndex,
        at: Nanos,
    ) -> Result<(), Exhausted> {
        let all = self.blocks.pages_per_block();
        let block = self.rings[die.index()].blocks[log.index()];
        let first = flash.geometry().first_page(block);
        let mut end = at;
        for page in 0..all {
            let owner = self.rings[die.index()].owners[(log.0 * all + page) as usize];
            if self.newest[owner.index()] == first + page {
                end = self.merge_full(flash, LogicalBlock(owner.0 / all), end)?;
            }
        }
        self.rings[die.index()].blocks[log.index()] = EraseBlock::NONE;
        self.blocks.release(flash, block, end);
        Ok(())
    }

    /// Copies the newest pages of a logical block to a free block.
    fn merge_full<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        block: LogicalBlock,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let die = self.blocks.die(block);
        let target = self.blocks.take(die)?;
        let (geometry, all) = (*flash.geometry(), self.blocks.pages_per_block());
        let place = |offset| self.place(&geometry, block, offset);
        let (_, end) = self.blocks.copy(flash, block, target, 0..all, place, at);
        let mut end = self.blocks.replace(flash, block, target, end);
        let log = self.sequential[die.index()];
        if log.owner == block {
            end = self.blocks.release(flash, log.block, end);
            self.sequential[die.index()] = UNUSED;
        }
        self.forget_logged(block);
        flash.counts_mut().full_merges += 1;
        Ok(end)
    }

    /// Merges the sequential log of a die with its data block, as deferred work.
    #[inline(never)]
    fn merge_sequential<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        die: Die,
        at: Nanos,
    ) -> Result<(), Exhausted> {
        let log = self.sequential[die.index()];
        if log.stale {
            return flash.defer(die, |flash| self.merge_full(flash, log.owner, at)).map(drop);
        }
        let copied = flash.defer(die, |flash| {
            let (geometry, missing) = (*flash.geometry(), log.written..self.blocks.pages_per_block());
            let place = |offset| self.place(&geometry, log.owner, offset);
            let (copied, end) = self.blocks.copy(flash, log.owner, log.block, missing, place, at);
            self.blocks.replace(flash, log.owner, log.block, end);
            copied
        });
        self.sequential[die.index()] = UNUSED;
        self.forget_logged(log.owner);
        match copied {
            0 => flash.counts_mut().switch_merges += 1,
            _ => flash.counts_mut().partial_merges += 1,
        }
        Ok(())
    }

    /// Notes that all pages of a logical block lie in its data block.
    fn forget_logged(&mut self, block: LogicalBlock) {
        let first = self.block_page(block, 0).index();
        self.newest[first..first + self.blocks.pages_per_block() as usize].fill(PhysicalPage::NONE);
    }
}

impl Layer for SharedLogs {
    fn pages(&self) -> u32 {
        self.blocks.logical_pages()
    }

    fn holds(&self, page: LogicalPage) -> bool {
        let part = self.blocks.locate(page);
        self.blocks.holds(part.block, part.offset)
    }

    fn write<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        _stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let (mut rest, mut end) = (pages, at);
        while let Some(part) = self.blocks.next_part(&mut rest) {
            end = end.max(self.write_part(flash, part, at)?);
        }
        Ok(end)
    }

    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
        let geometry = *flash.geometry();
        self.blocks.read(flash, pages, |block, offset| self.place(&geometry, block, offset), at)
    }

    /// Erases the data block and the sequential log of a logical block that has no held page left. Its pages in random logs
    /// are dropped when those are reclaimed.
    fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        let mut rest = pages;
        while let Some(part) = self.blocks.next_part(&mut rest) {
            self.blocks.set_held(part, false);
            self.set_newest(part, PhysicalPage::NONE);
            if self.blocks.data(part.block) == EraseBlock::NONE || self.blocks.holds_any(part.block) {
                continue;
            }
            let die = self.blocks.die(part.block);
            flash.defer(die, |flash| {
                let log = self.sequential[die.index()];
                if log.owner == part.block {
                    self.blocks.release(flash, log.block, Nanos::ZERO);
                    self.sequential[die.index()] = UNUSED;
                }
                self.blocks.replace(flash, part.block, EraseBlock::NONE, Nanos::ZERO);
            });
        }
    }
}
