//! The operations on the flash, counted by their cause.

use serde::{Deserialize, Serialize};

use super::BlockState;

/// Why an operation on the flash was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The host asked for it.
    Host,
    /// A write of a part of a page reads the other sectors of the page.
    PartialPage,
    /// Garbage collection, or a merge of log blocks.
    Reclaim,
    /// The map is kept on the flash (demand map).
    Map,
    /// Static wear levelling: cold data moves, so that its block takes erases too.
    WearLevelling,
    /// Data is rewritten because it was read too often or is too old.
    Refresh,
    /// Data moves from the SLC cache to the other blocks.
    Fold,
}

/// All causes, in their order.
pub const CAUSES: [Cause; 7] = [
    Cause::Host,
    Cause::PartialPage,
    Cause::Reclaim,
    Cause::Map,
    Cause::WearLevelling,
    Cause::Refresh,
    Cause::Fold,
];

/// How often each operation was done for each cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    reads: [u64; CAUSES.len()],
    programs: [u64; CAUSES.len()],
    erases: [u64; CAUSES.len()],
    /// Retries of reads. They are not counted as reads.
    pub read_retries: u64,
    /// Switch merges: the log block became the data block, without a copy.
    pub switch_merges: u64,
    /// Partial merges: the log block was written in order, and the other pages of the block were copied behind it.
    pub partial_merges: u64,
    /// Full merges: all pages of a block were copied.
    pub full_merges: u64,
}

impl Counts {
    /// Counts `pages` pages read.
    #[inline]
    pub fn read(&mut self, cause: Cause, pages: u32) {
        self.reads[cause as usize] += u64::from(pages);
    }

    /// Counts `pages` pages programmed.
    #[inline]
    pub fn program(&mut self, cause: Cause, pages: u32) {
        self.programs[cause as usize] += u64::from(pages);
    }

    /// Counts a block erased.
    #[inline]
    pub fn erase(&mut self, cause: Cause) {
        self.erases[cause as usize] += 1;
    }

    /// Counts `pages` pages that were read for the cause `from` for `to` instead.
    pub fn charge_reads(&mut self, from: Cause, to: Cause, pages: u32) {
        self.reads[from as usize] -= u64::from(pages);
        self.reads[to as usize] += u64::from(pages);
    }

    /// Pages read for a cause.
    pub fn pages_read(&self, cause: Cause) -> u64 {
        self.reads[cause as usize]
    }

    /// Pages programmed for a cause.
    pub fn pages_programmed(&self, cause: Cause) -> u64 {
        self.programs[cause as usize]
    }

    /// Blocks erased for a cause.
    pub fn blocks_erased(&self, cause: Cause) -> u64 {
        self.erases[cause as usize]
    }

    /// Pages read in all.
    pub fn reads(&self) -> u64 {
        self.reads.iter().sum()
    }

    /// Pages programmed in all.
    pub fn programs(&self) -> u64 {
        self.programs.iter().sum()
    }

    /// Blocks erased in all.
    pub fn erases(&self) -> u64 {
        self.erases.iter().sum()
    }

    /// Whether these counts, read from outside bytes, can be those of `blocks`: the number of erases is the same, and no
    /// count exceeds what a device does in its life.
    pub(super) fn erases_of(&self, blocks: &[BlockState]) -> bool {
        let merges = [self.read_retries, self.switch_merges, self.partial_merges, self.full_merges];
        let mut all = [self.reads, self.programs, self.erases].concat().into_iter().chain(merges);
        all.all(|count| count < 1 << 56)
            && self.erases() == blocks.iter().map(|block| u64::from(block.erases)).sum::<u64>()
    }

    /// Pages programmed for each page that the host wrote; `None` when it wrote none.
    pub fn write_amplification(&self) -> Option<f64> {
        let host = self.pages_programmed(Cause::Host);
        (host > 0).then(|| self.programs() as f64 / host as f64)
    }

    /// What was done since `earlier`.
    pub fn since(&self, earlier: &Counts) -> Counts {
        let less =
            |now: &[u64; CAUSES.len()], then: &[u64; CAUSES.len()]| std::array::from_fn(|i| now[i] - then[i]);
        Counts {
            reads: less(&self.reads, &earlier.reads),
            programs: less(&self.programs, &earlier.programs),
            erases: less(&self.erases, &earlier.erases),
            read_retries: self.read_retries - earlier.read_retries,
            switch_merges: self.switch_merges - earlier.switch_merges,
            partial_merges: self.partial_merges - earlier.partial_merges,
            full_merges: self.full_merges - earlier.full_merges,
        }
    }
}
