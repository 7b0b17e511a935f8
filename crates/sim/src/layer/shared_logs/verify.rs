//! Checks of the invariants of a layer with shared logs.

use super::{BlockPage, SharedLogs, SharedLogsOptions};
use crate::flash::{Die, EraseBlock, Flash, FlashGeometry, PageAddress, PhysicalPage, Timing};
use crate::layer::data_blocks::{LogIndex, LogicalBlock};
use crate::layer::options::ensure;

impl SharedLogs {
    /// Checks this layer, which was read from outside bytes, against its options and `flash`.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check<T: Timing>(&self, options: &SharedLogsOptions, flash: &Flash<T>) -> Result<(), String> {
        let geometry = flash.geometry();
        let (dies, pages) = (geometry.dies() as usize, geometry.pages_per_block() as usize);
        let logs = options.logs as usize;
        let alike = self.blocks.fits(geometry, options.space())
            && self.newest.len() == self.blocks.len() as usize * pages
            && (self.sequential.len(), self.rings.len()) == (dies, dies)
            && self.reclaim_batch == options.reclaim_batch
            && self.rings.iter().all(|ring| (ring.blocks.len(), ring.owners.len()) == (logs, logs * pages));
        ensure(alike, || "the log blocks are those of another device".to_owned())?;
        self.verify(flash)
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn verify<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let (geometry, all) = (flash.geometry(), self.blocks.pages_per_block());
        let written = |block: EraseBlock| flash.blocks().get(block.index()).map(|block| block.written);
        for (die, log) in
            (0..).map(Die).zip(&self.sequential).filter(|(_, log)| log.owner != LogicalBlock::NONE)
        {
            let known = log.owner.0 < self.blocks.len() && self.blocks.die(log.owner) == die;
            let here = known && written(log.block) == Some(log.written) && geometry.die(log.block) == die;
            ensure(here, || format!("the pages of {log:?}"))?;
            for page in (0..log.written).filter(|&page| !log.stale && self.blocks.holds(log.owner, page)) {
                let newest = self.place(geometry, log.owner, page) == PageAddress { block: log.block, page };
                ensure(newest, || format!("page {page} of {log:?}"))?;
            }
        }
        let lost = (0..).map(BlockPage).zip(&self.newest).find(|&(index, &newest)| {
            newest != PhysicalPage::NONE && !self.is_in_a_log(geometry, index, newest)
        });
        ensure(lost.is_none(), || format!("the newest copy of a page, which is {lost:?}"))?;
        for (die, ring) in (0..).map(Die).zip(&self.rings) {
            let own = |&block: &EraseBlock| block == EraseBlock::NONE || geometry.die(block) == die;
            ensure(ring.blocks.iter().all(own), || format!("a random log of die {die} is elsewhere"))?;
            let current = ring.blocks.get(ring.current.index());
            let pages =
                current.and_then(|&block| if block == EraseBlock::NONE { Some(all) } else { written(block) });
            ensure(pages == Some(ring.written), || format!("{} pages of a random log", ring.written))?;
            let used = |&(_, &block): &(LogIndex, &EraseBlock)| block != EraseBlock::NONE;
            for (log, &block) in (0..).map(LogIndex).zip(&ring.blocks).filter(used) {
                let full = log == ring.current || written(block) == Some(all);
                let first = (log.0 * all) as usize;
                let owners = &ring.owners[first..first + written(block).unwrap_or(0) as usize];
                let known = owners.iter().all(|&owner| owner.index() < self.newest.len());
                ensure(full && known, || format!("the random log {block}"))?;
            }
        }
        let sequential = self.sequential.iter().map(|log| log.block);
        let random = self.rings.iter().flat_map(|ring| ring.blocks.iter().copied());
        let logs = sequential.chain(random).filter(|&block| block != EraseBlock::NONE);
        self.blocks.verify(flash, logs, |block, offset| self.place(geometry, block, offset))
    }

    /// Whether the page `newest` of a log is recorded as a copy of the held page `index`.
    fn is_in_a_log(&self, geometry: &FlashGeometry, index: BlockPage, newest: PhysicalPage) -> bool {
        let all = self.blocks.pages_per_block();
        let (owner, offset) = (LogicalBlock(index.0 / all), index.0 % all);
        if newest.0 >= geometry.pages() || !self.blocks.holds(owner, offset) {
            return false;
        }
        let (place, die) = (geometry.place(newest), self.blocks.die(owner).index());
        let (sequential, ring) = (&self.sequential[die], &self.rings[die]);
        match ring.blocks.iter().position(|&block| block == place.block) {
            Some(log) => ring.owners[log * all as usize + place.page as usize] == index,
            None => (sequential.owner, sequential.block, offset) == (owner, place.block, place.page),
        }
    }
}
