//! Log blocks, each for one data block: BAST, the block map with replacement blocks, and the chunk map.
//!
//! # Model
//! A page that can no longer be written to its data block goes to the log block of its logical block. A die has a few log
//! blocks. If a logical block needs one and all are in use, the log of another logical block is merged with its data block:
//! - switch merge: the log holds the whole block in order and becomes the data block;
//! - partial merge: the log holds the first pages of the block in order, and the other pages are copied behind them;
//! - full merge: all pages are copied to a free block.
//!
//! [`LogOrder`] and the number of logs select one of four layers:
//! - BAST (Kim et al. 2002; Sun and Zhang, section 2): a few logs that take pages in any order;
//! - block map: logs that take pages in order only, which are replacement blocks. Any write that is not the next page
//!   costs the copy of a block. With no logs, each request costs it;
//! - extents: for each log the controller keeps the first and the last page. A log takes the page before the first
//!   and the page after the last one. So only ascending and descending writes need no merge. A write that covers all
//!   pages of a log makes them invalid, and costs one erase;
//! - chunk map (Ajwani et al., section 3.3: "every chunk is mapped once, except for the active chunk, which is mapped
//!   twice"): one log in order, and blocks of the size of a chunk, 512 KiB for instance. A chunk over several dies is a
//!   block on each of them, with small stripes.
//!
//! Random writes need few merges while they stay within dies x logs x block size (uFLIP's locality area), and sequential
//! writes while the number of partitions is at most the number of logs. The dies merge at the same time. Writes whose
//! offsets all lie on one die do not gain from that (uFLIP's large increments).
//!
//! # Invariants
//! - a logical block with a log has a data block, and nothing is written to the data block before the merge;
//! - page `i` of a log that is `in_order` holds the logical page at offset `i`, or nothing if that is not held.

mod disorder;
mod options;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::flash::{Cause, Die, EraseBlock, Flash, FlashGeometry, LogicalPage, PageAddress, Timing};
use crate::layer::contract::{Exhausted, Layer, Pages};
use crate::layer::data_blocks::{DataBlocks, LogIndex, LogicalBlock, Part, skip_to};
use crate::layer::options::OptionsError;
use crate::layer::options::ensure;

use disorder::Disorder;
pub use options::{LogBlocksOptions, LogOrder, Replacement};

/// In the map of a log: it does not hold the offset.
const NOT_HELD: u32 = u32::MAX;

/// A log block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Log {
    /// The logical block that it belongs to, or none.
    owner: LogicalBlock,
    /// Its erase block.
    block: EraseBlock,
    /// The lowest offset that it holds.
    from: u32,
    written: u32,
    in_order: bool,
    /// Whether pages were copied into it before the host's.
    filled: bool,
    /// When it was allocated or used last, in uses; 0 if it is not in use.
    stamp: u64,
}

const UNUSED: Log = Log {
    owner: LogicalBlock::NONE,
    block: EraseBlock::NONE,
    from: 0,
    written: 0,
    in_order: true,
    filled: false,
    stamp: 0,
};

impl Log {
    fn is_used(&self) -> bool {
        self.owner != LogicalBlock::NONE
    }
}

/// A layer with log blocks that belong to one data block each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogBlocks {
    blocks: DataBlocks,
    order: LogOrder,
    replacement: Replacement,
    switch_merges: bool,
    /// Whether a log stays after the request.
    keeps_logs: bool,
    logs_per_die: u32,
    /// By die, `logs_per_die` each.
    logs: Vec<Log>,
    /// By logical block: its log in `logs`, or none.
    log_of: Vec<LogIndex>,
    /// By log and offset: the page of the log, or `NOT_HELD`. Empty when logs are in order.
    pages: Vec<u32>,
    uses: u64,
    disorder: Disorder,
}

impl LogBlocks {
    /// Erased flash.
    ///
    /// # Errors
    /// Names an option that leaves too few blocks for logs and merges.
    pub fn new(geometry: &FlashGeometry, options: &LogBlocksOptions) -> Result<LogBlocks, OptionsError> {
        options.check(geometry)?;
        let blocks = DataBlocks::new(geometry, options.space());
        let logs_per_die = options.logs.max(1);
        let logs = (geometry.dies() * logs_per_die) as usize;
        let mapped = if options.order.is_mapped() { logs } else { 0 };
        Ok(LogBlocks {
            order: options.order,
            replacement: options.replacement,
            switch_merges: options.switch_merges,
            keeps_logs: options.logs > 0,
            logs_per_die,
            logs: vec![UNUSED; logs],
            log_of: vec![LogIndex::NONE; blocks.len() as usize],
            pages: vec![NOT_HELD; mapped * geometry.pages_per_block() as usize],
            uses: 0,
            disorder: Disorder::new(options.disordered_after, blocks.len()),
            blocks,
        })
    }

    /// Where the newest copy of a held page lies.
    #[inline]
    fn place(&self, block: LogicalBlock, offset: u32) -> PageAddress {
        let index = self.log_of[block.index()];
        if index != LogIndex::NONE {
            let log = &self.logs[index.index()];
            let page = match self.order {
                LogOrder::Any | LogOrder::Adjoining => self.pages[self.page_index(index) + offset as usize],
                LogOrder::Forward | LogOrder::Next if offset < log.written => offset,
                LogOrder::Forward | LogOrder::Next => NOT_HELD,
            };
            if page != NOT_HELD {
                return PageAddress { block: log.block, page };
            }
        }
        PageAddress { block: self.blocks.data(block), page: offset }
    }

    #[inline]
    fn page_index(&self, log: LogIndex) -> usize {
        log.index() * self.blocks.pages_per_block() as usize
    }

    fn write_part<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        part: Part,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let (mut part, mut end) = (part, at);
        while part.pages > 0 {
            let mut log = self.log_of[part.block.index()];
            if log != LogIndex::NONE && !self.takes(log, part) {
                if self.is_replaced_by(log, part) {
                    self.renew(flash, log, at)?;
                } else {
                    self.merge(flash, log, at)?;
                    log = LogIndex::NONE;
                }
            }
            if log == LogIndex::NONE {
                if self.blocks.has_room(flash, part.block, part.offset) {
                    return Ok(end.max(self.blocks.write(flash, part, at)?));
                }
                log = self.allocate(flash, part.block, at)?;
            }
            let (pages, done) = self.append(flash, log, part, at);
            end = end.max(done);
            part = part.after(pages);
            let Log { written, in_order, .. } = self.logs[log.index()];
            if self.switch_merges && in_order && written == self.blocks.pages_per_block() {
                self.merge(flash, log, at)?;
            }
        }
        Ok(end)
    }

    /// Whether a log can take the first page of a part. With [`LogOrder::Adjoining`]: the whole part.
    fn takes(&self, log: LogIndex, part: Part) -> bool {
        let Log { from, written, .. } = self.logs[log.index()];
        match self.order {
            LogOrder::Any => written < self.blocks.pages_per_block(),
            LogOrder::Adjoining => {
                written == 0 || part.offset == from + written || part.offset + part.pages == from
            }
            LogOrder::Forward => part.offset >= written,
            LogOrder::Next => part.offset == written,
        }
    }

    /// Whether a part, which the log does not take, overwrites all pages of the log.
    fn is_replaced_by(&self, log: LogIndex, part: Part) -> bool {
        let Log { from, written, .. } = self.logs[log.index()];
        let covers = part.offset <= from && from + written <= part.offset + part.pages;
        self.order == LogOrder::Adjoining && covers
    }

    /// Replaces the block of a log, all of whose pages are overwritten, by a free block.
    fn renew<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        index: LogIndex,
        at: Nanos,
    ) -> Result<(), Exhausted> {
        let Log { owner, block: old, .. } = self.logs[index.index()];
        let die = self.blocks.die(owner);
        let block = self.blocks.take(die)?;
        flash.defer(die, |flash| self.blocks.release(flash, old, at));
        self.begin(index, owner, block);
        Ok(())
    }

    /// Allocates a log for a logical block. If all are in use, merges another one.
    fn allocate<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        owner: LogicalBlock,
        at: Nanos,
    ) -> Result<LogIndex, Exhausted> {
        let die = self.blocks.die(owner);
        let list = die.0 * self.logs_per_die..(die.0 + 1) * self.logs_per_die;
        let log =
            list.map(LogIndex).min_by_key(|&log| self.logs[log.index()].stamp).expect("a die has a log");
        if self.logs[log.index()].is_used() {
            self.merge(flash, log, at)?;
        }
        let block = self.blocks.take(die)?;
        self.begin(log, owner, block);
        Ok(log)
    }

    /// Starts a log in an erased block.
    fn begin(&mut self, log: LogIndex, owner: LogicalBlock, block: EraseBlock) {
        self.uses += 1;
        self.logs[log.index()] = Log { owner, block, stamp: self.uses, ..UNUSED };
        self.log_of[owner.index()] = log;
        if self.order.is_mapped() {
            let first = self.page_index(log);
            self.pages[first..first + self.blocks.pages_per_block() as usize].fill(NOT_HELD);
        }
    }

    /// Writes the first pages of a part to a log, up to the end of the log. Returns their number, and when they are written.
    fn append<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        index: LogIndex,
        part: Part,
        at: Nanos,
    ) -> (u32, Nanos) {
        let mut at = at;
        let first = self.page_index(index);
        let log = &mut self.logs[index.index()];
        if self.replacement == Replacement::LeastRecentlyUsed {
            self.uses += 1;
            log.stamp = self.uses;
        }
        if !self.order.is_mapped() && log.written < part.offset {
            let data = self.blocks.data(part.block);
            let missing = log.written..part.offset;
            let place = |page| PageAddress { block: data, page };
            let (copied, end) = self.blocks.copy(flash, part.block, log.block, missing, place, at);
            skip_to(flash, log.block, part.offset);
            log.written = part.offset;
            log.filled |= copied > 0;
            at = end;
        }
        let pages = part.pages.min(self.blocks.pages_per_block() - log.written);
        if self.order.is_mapped() {
            log.from = if log.written == 0 { part.offset } else { log.from.min(part.offset) };
            log.in_order &= log.written == part.offset;
            let offsets = first + part.offset as usize..first + (part.offset + pages) as usize;
            for (page, entry) in (log.written..).zip(&mut self.pages[offsets]) {
                *entry = page;
            }
        }
        let place = PageAddress { block: log.block, page: log.written };
        log.written += pages;
        self.blocks.set_held(Part { pages, ..part }, true);
        (pages, flash.program(place, part.logical, pages, Cause::Host, at))
    }

    /// Merges a log with its data block, as deferred work.
    #[inline(never)]
    fn merge<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        index: LogIndex,
        at: Nanos,
    ) -> Result<(), Exhausted> {
        let log = self.logs[index.index()];
        let (block, all) = (log.owner, self.blocks.pages_per_block());
        let switch = log.in_order && self.switch_merges;
        let target = if switch { log.block } else { self.blocks.take(self.blocks.die(block))? };
        let from = if switch { log.written } else { 0 };

        let copied = flash.defer(self.blocks.die(block), |flash| {
            let place = |offset| self.place(block, offset);
            let (copied, mut end) = self.blocks.copy(flash, block, target, from..all, place, at);
            if !switch {
                end = self.blocks.release(flash, log.block, end);
            }
            self.blocks.replace(flash, block, target, end);
            copied
        });

        let counts = flash.counts_mut();
        match (switch && !log.filled, copied) {
            (true, 0) => counts.switch_merges += 1,
            (true, _) => counts.partial_merges += 1,
            (false, _) => counts.full_merges += 1,
        }
        self.close(index);
        Ok(())
    }

    /// Ends the use of a log.
    fn close(&mut self, index: LogIndex) {
        let log = std::mem::replace(&mut self.logs[index.index()], UNUSED);
        self.log_of[log.owner.index()] = LogIndex::NONE;
    }

    /// Checks this layer, which was read from outside bytes, against its options and `flash`.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check<T: Timing>(&self, options: &LogBlocksOptions, flash: &Flash<T>) -> Result<(), String> {
        let geometry = flash.geometry();
        let logs = (geometry.dies() * options.logs.max(1)) as usize;
        let mapped = if options.order.is_mapped() { logs } else { 0 };
        let alike = self.blocks.fits(geometry, options.space())
            && self.disorder.fits(options.disordered_after, self.blocks.len())
            && (self.order, self.replacement) == (options.order, options.replacement)
            && (self.switch_merges, self.keeps_logs) == (options.switch_merges, options.logs > 0)
            && (self.logs_per_die, self.logs.len()) == (options.logs.max(1), logs)
            && self.log_of.len() == self.blocks.len() as usize
            && self.pages.len() == mapped * geometry.pages_per_block() as usize;
        ensure(alike, || "the log blocks are those of another device".to_owned())?;
        self.verify(flash)
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn verify<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let open = || (0..).map(LogIndex).zip(&self.logs).filter(|(_, log)| log.is_used());
        for (index, log) in open() {
            let state = flash.blocks().get(log.block.index());
            let right = state.is_some_and(|block| block.written == log.written)
                && self.log_of.get(log.owner.index()) == Some(&index)
                && self.blocks.die(log.owner) == Die(index.0 / self.logs_per_die)
                && log.stamp <= self.uses
                && self.is_consistent(index);
            ensure(right, || format!("log {index} is {log:?}, its block {state:?}"))?;
        }
        // Half of the clock's range is more than any device lives.
        ensure(self.uses < u64::MAX / 2, || format!("logs were used {} times", self.uses))?;
        let used = self.log_of.iter().filter(|&&log| log != LogIndex::NONE).count();
        ensure(used == open().count(), || format!("{used} logical blocks have a log"))?;
        self.blocks.verify(flash, open().map(|(_, log)| log.block), |block, offset| self.place(block, offset))
    }
}

impl LogBlocks {
    /// Whether the fields of a log are right for its pages, of those that are still held.
    fn is_consistent(&self, index: LogIndex) -> bool {
        let Log { owner, from, written, in_order, .. } = self.logs[index.index()];
        if !self.order.is_mapped() {
            return from == 0 && in_order;
        }
        let first = self.page_index(index);
        let pages = &self.pages[first..first + self.blocks.pages_per_block() as usize];
        (0..).zip(pages).filter(|&(offset, &page)| page != NOT_HELD && self.blocks.holds(owner, offset)).all(
            |(offset, &page)| {
                offset >= from
                    && page < written
                    && (!in_order || offset == page)
                    && (self.order == LogOrder::Any || offset - from < written)
            },
        )
    }
}

impl Layer for LogBlocks {
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
            if self.disorder.written(part, self.blocks.pages_per_block()) {
                let log = self.log_of[part.block.index()];
                if log != LogIndex::NONE {
                    self.merge(flash, log, at)?;
                }
            }
        }
        if !self.keeps_logs {
            for log in (0..self.logs.len() as u32).map(LogIndex) {
                if self.logs[log.index()].is_used() {
                    self.merge(flash, log, at)?;
                }
            }
        }
        Ok(end)
    }

    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
        self.blocks.read(flash, pages, |block, offset| self.place(block, offset), at)
    }

    /// Erases the data block and the log of a logical block that has no held page left.
    fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        let mut rest = pages;
        while let Some(part) = self.blocks.next_part(&mut rest) {
            self.blocks.set_held(part, false);
            if self.blocks.data(part.block) == EraseBlock::NONE || self.blocks.holds_any(part.block) {
                continue;
            }
            flash.defer(self.blocks.die(part.block), |flash| {
                let log = self.log_of[part.block.index()];
                if log != LogIndex::NONE {
                    self.blocks.release(flash, self.logs[log.index()].block, Nanos::ZERO);
                    self.close(log);
                }
                self.blocks.replace(flash, part.block, EraseBlock::NONE, Nanos::ZERO);
            });
        }
    }
}
