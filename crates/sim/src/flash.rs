//! An array of flash: what its blocks hold and how long its operations take.
//!
//! # Model
//! Flash is read and programmed by the page and erased by the block. A die does one operation at a time, and a channel
//! carries one transfer at a time. Block `b` lies on die `b mod dies`, and die `d` on channel `d mod channels`.
//!
//! An erase block here is what a translation layer erases at once. On dies with several planes it is one block of each
//! plane. Consecutive pages of it lie in consecutive planes, so that a die reads and programs them at once.
//!
//! [`Flash`] keeps the state of each block, checks each operation against it, and counts the operations ([`Counts`]). A
//! [`Timing`] says how long they take: [`Resources`] computes times, and with [`Untimed`] nothing takes time. A translation
//! layer is written for any `Timing`, so conditioning without times runs the code that serves IOs.
//!
//! # Invariants
//! - the pages of a block are programmed in order, each once between two erases. A translation layer that breaks this is
//!   wrong, and the operation panics;
//! - no decision of a translation layer depends on the timing: both timings leave the same blocks and counts;
//! - with a [`Ledger`], every read is checked to return the most recent write of its page.

mod collection_pauses;
mod content;
mod counts;
mod geometry;
mod ledger;
mod numbers;
mod reliability;
mod timing;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

pub use content::{PageContent, PageContents};
pub use counts::{CAUSES, Cause, Counts};
pub use geometry::{Divider, FlashGeometry, FlashGeometryError};
pub use ledger::Ledger;
pub(crate) use numbers::numbers;
pub use numbers::{Die, EraseBlock, LogicalPage, PhysicalPage};
pub use reliability::Reliability;
pub use timing::{Background, CellTimes, Deferral, PageRun, PageTimes, Resources, Times, Timing, Untimed};

/// A place on the flash: a page of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PageAddress {
    /// The block.
    pub block: EraseBlock,
    /// The page's number in the block.
    pub page: u32,
}

/// The state of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockState {
    /// The number of its pages that are programmed.
    pub written: u32,
    /// The number of its erases.
    pub erases: u32,
}

/// An array of flash with the timing `T`.
#[derive(Clone, Debug)]
pub struct Flash<T> {
    geometry: FlashGeometry,
    blocks: Vec<BlockState>,
    counts: Counts,
    contents: Option<Box<PageContents>>,
    ledger: Option<Box<Ledger>>,
    reliability: Option<Box<Reliability>>,
    /// The cause that programs for the host are counted for: the host, or a fold.
    host_cause: Cause,
    timing: T,
}

/// The blocks and counts of an array, without its times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlashState {
    blocks: Vec<BlockState>,
    counts: Counts,
    contents: Option<Box<PageContents>>,
}

impl<T: Timing> Flash<T> {
    /// Erased flash.
    pub fn new(geometry: FlashGeometry, timing: T) -> Flash<T> {
        let blocks = vec![BlockState::default(); geometry.blocks() as usize];
        Flash {
            geometry,
            blocks,
            counts: Counts::default(),
            contents: None,
            ledger: None,
            reliability: None,
            host_cause: Cause::Host,
            timing,
        }
    }

    /// Keeps a ledger from now on: records what every page holds, and checks every read against it. For tests, because
    /// it takes time and memory.
    pub fn with_ledger(mut self, logical_pages: u32) -> Flash<T> {
        self.ledger = Some(Box::new(Ledger::new(&self.geometry, logical_pages)));
        self
    }

    /// Keeps the kind of content of each page from now on, because the program time depends on it.
    pub fn with_contents(mut self, contents: PageContents) -> Flash<T> {
        self.contents = Some(Box::new(contents));
        self
    }

    /// Blocks age from now on.
    pub fn with_reliability(mut self, reliability: Reliability) -> Flash<T> {
        self.reliability = Some(Box::new(reliability));
        self
    }

    /// Whether a block can hold no data: it is bad from the factory, or failed at its last erase.
    #[inline]
    pub fn failed(&self, block: EraseBlock) -> bool {
        match &self.reliability {
            Some(reliability) => {
                reliability.failed(block, self.is_slc(block), self.blocks[block.index()].erases)
            }
            None => false,
        }
    }

    /// Sets the kind of content that the host writes from now on to the pages from `first` on. All other pages are mixed.
    pub fn set_host_contents(&mut self, first: LogicalPage, kinds: impl Iterator<Item = PageContent>) {
        if let Some(contents) = &mut self.contents {
            contents.set_host(first, kinds);
        }
    }

    /// Does `work` on this flash as if nothing took time.
    pub fn without_times<R>(&mut self, work: impl FnOnce(&mut Flash<Untimed>) -> R) -> R {
        let mut untimed = Flash {
            geometry: self.geometry,
            blocks: std::mem::take(&mut self.blocks),
            counts: std::mem::take(&mut self.counts),
            contents: self.contents.take(),
            ledger: self.ledger.take(),
            reliability: self.reliability.take(),
            host_cause: self.host_cause,
            timing: Untimed,
        };
        let result = work(&mut untimed);
        Flash {
            blocks: self.blocks,
            counts: self.counts,
            contents: self.contents,
            ledger: self.ledger,
            reliability: self.reliability,
            ..
        } = untimed;
        result
    }

    /// The blocks and counts, to be saved.
    pub fn state(&self) -> FlashState {
        let Flash { blocks, counts, contents, .. } = self;
        FlashState { blocks: blocks.clone(), counts: counts.clone(), contents: contents.clone() }
    }

    /// Puts the array into a saved state. Returns `false` and changes nothing if the state is that of another array.
    pub fn set_state(&mut self, state: FlashState) -> bool {
        let pages = self.geometry.pages_per_block();
        let fits = state.blocks.len() == self.blocks.len()
            && state.blocks.iter().all(|block| block.written <= pages)
            && state.counts.erases_of(&state.blocks)
            && match (&state.contents, &self.contents) {
                (Some(contents), Some(own)) => contents.is_like(own),
                (contents, own) => contents.is_some() == own.is_some(),
            };
        if fits {
            FlashState { blocks: self.blocks, counts: self.counts, contents: self.contents } = state;
        }
        fits
    }

    /// How the array is laid out.
    pub fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    /// The state of each block.
    pub fn blocks(&self) -> &[BlockState] {
        &self.blocks
    }

    /// The state of a block.
    #[inline]
    pub fn block(&self, block: EraseBlock) -> BlockState {
        self.blocks[block.index()]
    }

    /// The operations so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The counts, for what a translation layer does outside the array, as merges.
    pub fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// The timing.
    pub fn timing(&self) -> &T {
        &self.timing
    }

    /// Does `work` on `die` as deferred work: what the flash holds changes at once, and the time goes to the die's
    /// backlog, which the die works off while it is idle and before later operations. `work` uses no other die.
    #[inline]
    pub fn defer<R>(&mut self, die: Die, work: impl FnOnce(&mut Flash<T>) -> R) -> R {
        let deferral = self.timing.begin_deferral(die);
        let result = work(self);
        self.timing.end_deferral(die, deferral);
        result
    }

    /// As [`Flash::defer`], if the profile allows a backlog; otherwise `work` is done in the foreground. For garbage collection: a device
    /// with free blocks in reserve writes to one of them, and collects in slices between the host's operations.
    pub(crate) fn defer_if_allowed<R>(&mut self, die: Die, work: impl FnOnce(&mut Flash<T>) -> R) -> R {
        if self.timing.allows_backlog() { self.defer(die, work) } else { work(self) }
    }

    /// Does `work` before the backlogs of its dies: its operations take no slices of them.
    pub(crate) fn urgently<R>(&mut self, work: impl FnOnce(&mut Flash<T>) -> R) -> R {
        self.timing.set_urgent(true);
        let result = work(self);
        self.timing.set_urgent(false);
        result
    }

    /// No die works on its backlog from `from` to `until`.
    pub fn sleep(&mut self, from: Nanos, until: Nanos) {
        self.timing.sleep(from, until);
    }

    /// The ledger, if one is kept.
    pub fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        self.ledger.as_deref_mut()
    }

    /// Reads `pages` pages from `place` on, of which the first holds the logical page `logical` and the others
    /// the ones after it, not before `at`. Returns when the data has left the channel.
    ///
    /// # Panics
    /// When a page was not programmed since its block was erased.
    #[inline]
    pub fn read(
        &mut self,
        place: PageAddress,
        logical: LogicalPage,
        pages: u32,
        cause: Cause,
        at: Nanos,
    ) -> Nanos {
        let written = self.blocks[place.block.index()].written;
        assert!(
            place.page + pages <= written,
            "{pages} pages were read at {place:?}, of {written} programmed"
        );
        if let Some(ledger) = &mut self.ledger {
            ledger.read(&self.geometry, place, logical, pages);
        }
        self.counts.read(cause, pages);
        let end = self.timing.read(self.run(place, pages), at);
        if self.reliability.is_some() { self.retry(place, pages, end) } else { end }
    }

    /// Retries the reads of pages whose content could not be corrected. Each retry takes the time of a read of its page.
    #[inline(never)]
    fn retry(&mut self, place: PageAddress, pages: u32, at: Nanos) -> Nanos {
        let Some(reliability) = &self.reliability else { return at };
        let (slc, erases) = (self.is_slc(place.block), self.blocks[place.block.index()].erases);
        let mut end = at;
        for page in place.page..place.page + pages {
            let place = PageAddress { page, ..place };
            for _ in 0..reliability.retries(self.geometry.physical(place), slc, erases) {
                self.counts.read_retries += 1;
                end = self.timing.read(self.run(place, 1), end);
            }
        }
        end
    }

    /// Reads pages of the SLC cache to write them to the layer behind it. Until [`Flash::end_fold`], programs for the host
    /// are folds, and have the kind of content of the last page read so.
    ///
    /// # Panics
    /// As [`Flash::read`].
    pub(crate) fn begin_fold(
        &mut self,
        place: PageAddress,
        logical: LogicalPage,
        pages: u32,
        at: Nanos,
    ) -> Nanos {
        let end = self.read(place, logical, pages, Cause::Fold, at);
        self.host_cause = Cause::Fold;
        if let Some(contents) = &mut self.contents {
            contents.begin_copy(self.geometry.physical(place));
        }
        end
    }

    /// Ends a fold: programs for the host come from the host.
    pub(crate) fn end_fold(&mut self) {
        self.host_cause = Cause::Host;
        if let Some(contents) = &mut self.contents {
            contents.end_copy();
        }
    }

    /// Programs the next `pages` pages of a block with the logical pages from `logical` on, as new data of the
    /// host, not before `at`. Returns when they are programmed.
    ///
    /// # Panics
    /// When `place` is not the block's next page, or the block has too few pages left.
    #[inline]
    pub fn program(
        &mut self,
        place: PageAddress,
        logical: LogicalPage,
        pages: u32,
        cause: Cause,
        at: Nanos,
    ) -> Nanos {
        self.advance(place, pages);
        let cause = if cause == Cause::Host { self.host_cause } else { cause };
        if let Some(ledger) = &mut self.ledger {
            match cause {
                Cause::Fold => ledger.copy(&self.geometry, place, logical, pages),
                _ => ledger.program(&self.geometry, place, logical, pages),
            }
        }
        self.counts.program(cause, pages);
        let scale = match &mut self.contents {
            Some(contents) => contents.program(self.geometry.physical(place), logical, pages),
            None => 1.0,
        };
        self.timing.program(self.run(place, pages), scale, at)
    }

    /// Whether a ledger or the kinds of content are kept, so that [`Flash::relocate`] has to be called.
    #[inline]
    pub fn follows_pages(&self) -> bool {
        self.ledger.is_some() || self.contents.is_some()
    }

    /// Records that the content of `from` goes to `to`. [`Flash::copy_pages`] then does the copy itself, for many pages at
    /// once.
    #[inline]
    pub fn relocate(&mut self, from: PageAddress, to: PageAddress) {
        debug_assert!(from.page < self.blocks[from.block.index()].written, "{from:?} is not programmed");
        if let Some(ledger) = &mut self.ledger {
            ledger.relocate(&self.geometry, from, to);
        }
        if let Some(contents) = &mut self.contents {
            contents.relocate(self.geometry.physical(from), self.geometry.physical(to));
        }
    }

    /// Copies the last `pages` pages that were relocated, from the block `from` to `to` and the pages behind it, not before
    /// `at`. Returns when they are programmed.
    ///
    /// # Panics
    /// As [`Flash::program`].
    #[inline]
    pub fn copy_pages(
        &mut self,
        from: EraseBlock,
        to: PageAddress,
        pages: u32,
        cause: Cause,
        at: Nanos,
    ) -> Nanos {
        self.advance(to, pages);
        self.counts.read(cause, pages);
        self.counts.program(cause, pages);
        let scale = match &mut self.contents {
            Some(contents) => contents.take_program_share(),
            None => 1.0,
        };
        let source = self.run(PageAddress { block: from, page: 0 }, pages);
        self.timing.relocate(source, self.run(to, pages), scale, at)
    }

    /// Leaves `pages` pages of a block unwritten, as a block-mapped layer does before an offset that was never
    /// written. Takes no time.
    ///
    /// # Panics
    /// As [`Flash::program`].
    pub fn skip(&mut self, place: PageAddress, pages: u32) {
        self.advance(place, pages);
        if let Some(ledger) = &mut self.ledger {
            ledger.skip(&self.geometry, place, pages);
        }
    }

    /// Erases a block, not before `at`. Returns when it is erased.
    #[inline]
    pub fn erase(&mut self, block: EraseBlock, cause: Cause, at: Nanos) -> Nanos {
        let state = &mut self.blocks[block.index()];
        state.written = 0;
        state.erases += 1;
        if let Some(ledger) = &mut self.ledger {
            ledger.erase(&self.geometry, block);
        }
        self.counts.erase(cause);
        self.timing.erase(self.geometry.die(block), self.is_slc(block), at)
    }

    #[inline]
    fn is_slc(&self, block: EraseBlock) -> bool {
        block.0 < self.geometry.slc_blocks()
    }

    #[inline]
    fn run(&self, place: PageAddress, pages: u32) -> PageRun {
        let die = self.geometry.die(place.block);
        PageRun { die, block: place.block, first: place.page, pages, slc: self.is_slc(place.block) }
    }

    #[inline]
    fn advance(&mut self, place: PageAddress, pages: u32) {
        let block = &mut self.blocks[place.block.index()];
        assert!(
            block.written == place.page && place.page + pages <= self.geometry.pages_per_block(),
            "{pages} pages were programmed at {place:?}, where {} are programmed",
            block.written
        );
        block.written += pages;
    }
}
